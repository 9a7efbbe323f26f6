"""A model from Python as ``model=``: a kind's name, a builder, or a ``torch.nn.Module`` itself."""

import copy
import hashlib
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from torch import nn

from fedsub_core.config.named_code import ALL_CODE, AUGMENT, CODE, LOSS, ON_ROUND
from fedsub_core.errors import ConfigError

#: The module in which builders stand that no file holds; it is not there in another process.
GIVEN = "fedsub_given"
_SUCH = {"model": "cnn1d", "encoder": "kernels:100", LOSS: "focal", AUGMENT: "jitter",
         ON_ROUND: "my.py:function"}  # fmt: skip


def place_of(model: Any, option: str = "model") -> str:
    """Return the name by which a run's configuration knows a model, or an encoder.

    Parameters
    ----------
    model : a kind's name or a builder's place, text; a builder, a function or class of
        ``(input_shape, classes)``, or of ``(input_shape)`` for an encoder; or a
        ``torch.nn.Module``, from whose weights everybody starts; a loss or a change of samples is
        a function that is called as it is, and changes may be several.
    option : that it is given for.

    Raises
    ------
    ConfigError
        If it is none of these.
    """
    if isinstance(model, str):
        return model
    if isinstance(model, list | tuple) and option == AUGMENT:
        return ",".join(place_of(one, option) for one in model)
    if isinstance(model, nn.Module) and option in CODE:
        return given(model, f"{GIVEN}:module_{_digest(model)}")
    if callable(model):
        module, name = getattr(model, "__module__", ""), getattr(model, "__qualname__", "")
        if module not in ("", "__main__") and name.isidentifier():
            try:
                if getattr(import_module(module), name, None) is model:
                    return f"{module}:{name}"
            except ImportError:
                pass  # a notebook's, or a file's that is no module
        name = name.rpartition(".")[2]
        place = f"{GIVEN}:{_free(name, model)}"
        if option not in CODE:
            setattr(_module(), place.partition(":")[2], model)
            return place
        return given(model, place)
    raise ConfigError(
        f"{option}: got {type(model).__name__}, expected a name such as {_SUCH[option]!r}, a "
        "torch.nn.Module, or a function that returns one, as a builder in a file"
    )


def places_in(settings: dict[str, Any]) -> dict[str, str]:
    """Take what may be code out of a run's settings; return its names by option."""
    taken = {option: settings.pop(option.replace("-", "_"), None) for option in ALL_CODE}
    return {option: place_of(value, option) for option, value in taken.items() if value is not None}


def given(model: Any, place: str) -> str:
    """Let `place` mean a module or builder that lies in memory, in this process; return it."""
    builder = _copies(model) if isinstance(model, nn.Module) else model
    setattr(_module(), place.partition(":")[2], builder)
    return place


def _module() -> ModuleType:
    return sys.modules.setdefault(GIVEN, ModuleType(GIVEN))


def _free(name: str, builder: Any) -> str:
    """Return the name under which a builder stands, or one that is free: two lambdas differ."""
    stem = f"builder_{name}" if name.isidentifier() else "builder"
    number, free = 1, stem
    while getattr(_module(), free, builder) is not builder:
        number += 1
        free = f"{stem}_{number}"
    return free


def is_given(place: str) -> bool:
    """Return whether what a place means lay in a process's memory."""
    return f"{GIVEN}:" in place


def _copies(module: nn.Module) -> Any:
    """Return a builder of copies: what is trained is never the module that was given."""
    kept = copy.deepcopy(module)
    return lambda input_shape, classes=0: copy.deepcopy(kept)


def _digest(module: nn.Module) -> str:
    """Return a digest of a module's layers and weights."""
    digest = hashlib.blake2b(repr(module).encode(), digest_size=6)
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
