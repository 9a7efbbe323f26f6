"""A PyTorch module as an ONNX file: written by PyTorch's own exporter, run by ONNX Runtime."""

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedsub_core.extras import require

INPUT, OUTPUT = "x", "probabilities"


def encode_onnx(module: nn.Module, x: Tensor, facts: Mapping[str, str]) -> bytes:
    """Return an ONNX model of `module`, in one piece, for any batch.

    Parameters
    ----------
    module : maps ``x [batch, *features]`` to ``probabilities [batch, classes]``.
    x : an example of two samples or more.
    facts : the model's metadata.

    Raises ConfigError where the packages it takes are not installed.
    """
    require("format onnx", "onnx", "onnxscript")
    import onnx

    with _quiet():
        program = torch.onnx.export(
            module,
            (x,),
            dynamo=True,
            input_names=[INPUT],
            output_names=[OUTPUT],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            external_data=False,
            verbose=False,
        )
    assert program is not None
    proto = program.model_proto
    onnx.helper.set_model_props(proto, dict(facts))
    onnx.checker.check_model(proto)
    return bytes(proto.SerializeToString())


def run_onnx(path: Path) -> Callable[[NDArray[Any]], NDArray[np.float32]] | None:
    """Return the model in `path` as a function; None where ONNX Runtime is not installed."""
    if find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(str(path), options, providers=providers)

    def run(x: NDArray[Any]) -> NDArray[np.float32]:
        probabilities: NDArray[np.float32] = session.run([OUTPUT], {INPUT: x})[0]
        return probabilities

    return run


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep back what the exporter says of packages that it can do without, and of PyTorch."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
