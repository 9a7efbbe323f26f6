"""A loss, an optimiser and a change of samples of one's own: a command, a file and Python agree."""

from pathlib import Path
from typing import Any

import pytest

from fedsub import load, run
from fedsub.testing.refusals import refused
from fedsub_client.device import Device
from fedsub_core.config.named_code import check_deployed
from fedsub_core.config.run_config import RunConfig, read_config, to_flat
from fedsub_core.errors import ConfigError, RunError
from fedsub_server.results import method_summaries

from .calls import Call, assert_refused

CODE = """
import torch
def smooth(logits, y, alpha=0.2):
    return torch.nn.functional.cross_entropy(logits, y, label_smoothing=alpha)
def shift(x, generator):
    return x + torch.rand(len(x), *[1] * (x.ndim - 1), generator=generator)
def stop(done):
    return done.round == 2
"""
LOSS, SHIFT, STOP = "mine.py:smooth(alpha=0.3)", "jitter(0.1),mine.py:shift", "mine.py:stop"
OWN: dict[str, Any] = {
    "loss": LOSS,
    "augment": SHIFT,
    "optimiser": "AdamW(eps=1e-6)",
    "schedule": "linear(9)",
}
WHERE = ("--data", "town", "--threads", 1, "--device", "cpu", "--out", "runs")
BASE: tuple[Any, ...] = ("run", *WHERE, "--method", "ditto", "--beside", "", "--rounds", 3)


@pytest.fixture(autouse=True)
def noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, town_folder: Path) -> None:
    """A user who named nothing yet, in a folder with a file of one's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "mine"))
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(CODE)


def reached(folder: Path) -> Any:
    return load(folder).table["loss"].tolist()  # type: ignore[union-attr]


def test_a_command_a_file_and_python_give_the_same_numbers(fedsub: Call) -> None:
    options = [text for key, value in OWN.items() for text in (f"--{key}", value)]
    for args in (options, [], ["--loss", LOSS, "--augment", SHIFT]):
        if args is not options:
            Path("run.toml").write_text("".join(f'{k} = "{v}"\n' for k, v in OWN.items()))
        more = [] if args is options else ["run.toml"]
        code, _, err = fedsub(BASE[0], *more, *BASE[1:], *args)
        assert (code, err) == (0, ""), "code that was named by the first is known"
    here = run("town", "ditto", 3, beside="", device="cpu", threads=1, progress=False, **OWN)
    folders = sorted(Path("runs").iterdir())
    numbers = [reached(folder) for folder in folders]
    assert len(numbers) == 4 and all(one == numbers[0] for one in numbers)
    plain = run("town", "ditto", 3, beside="", device="cpu", progress=False)
    assert plain.table["loss"].tolist() != numbers[0]
    rule = here.report.path.read_text("utf-8")
    assert f"{LOSS} by AdamW" in rule and "samples changed by jitter" in rule
    (summary,) = method_summaries(here.folder)
    assert summary.backend == f"pytorch (the kernels do not know the loss {LOSS})"


def test_files_do_not_run_what_their_reader_did_not_name(fedsub: Call) -> None:
    for key in ("loss", "augment", "on-round"):
        value = {"loss": LOSS, "augment": SHIFT, "on-round": STOP}[key]
        Path("run.toml").write_text(f'{key} = "{value}"\n')
        said = fedsub(BASE[0], "run.toml", *BASE[1:])
        assert_refused(said, f"run.toml: {key}", "code that you have not named", f"--{key} ")


def test_a_run_of_changed_code_is_not_resumed(fedsub: Call) -> None:
    assert fedsub(*BASE, "--loss", LOSS, "--on-round", STOP)[0] == 0
    (folder,) = Path("runs").iterdir()
    assert (folder / "ditto" / "ended.json").is_file()
    Path("mine.py").write_text(CODE.replace("0.2", "0.9"))
    assert_refused(fedsub("run", "--resume", folder), "loss", "changed since")


def test_set_names_the_methods_key_wherever_it_is_given(fedsub: Call) -> None:
    assert_refused(fedsub(*BASE, "--set", "lam=0.5"), "unknown key 'lam'", "'ditto.lam'")
    Path("run.toml").write_text("lam = 0.5\n")
    assert_refused(fedsub(BASE[0], "run.toml", *BASE[1:]), "unknown key 'lam'", "'ditto.lam'")
    with pytest.raises(ConfigError, match=r"unknown key 'lam'.*'ditto\.lam'"):
        run("town", "ditto", 3, lam=0.5)
    assert fedsub(*BASE, "--set", "ditto.lam=0.5")[0] == 0
    assert (
        run("town", "ditto", 1, ditto={"lam": 0.5}, progress=False).config.hyper["ditto"].lam == 0.5
    )


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"method": "fedsub-ridge", "loss": "focal"},
            ["fedsub-ridge", "nothing is trained"],
        ),
        (
            {"method": "pfedme", "optimiser": "AdamW"},
            ["pfedme", "a rule of their own"],
        ),
        ({"optimiser": "AdamW", "momentum": "0.5"}, ["momentum", "AdamW has moments of its own"]),
        ({"precision": "bfloat16"}, ["precision", "bfloat16 on cpu", "expected a GPU"]),
        ({"patience": "3"}, ["patience", "best-by = validation"]),
        ({"loss": "cross-entropy(weights=(1, 2))"}, ["weights", "got 2", "3 numbers above 0"]),
        ({"optimiser": "AdamV"}, ["optimiser", "Did you mean 'Adam"]),
        ({"schedule": "linear(rounds=3, least=-0.5)"}, ["schedule", "in round 3"]),
        ({"augment": "rotate"}, ["rotate", "expected windows"]),
    ],
)
def test_what_has_no_meaning_is_refused_before_the_first_round(
    fedsub: Call, keys: dict[str, str], words: list[str]
) -> None:
    options = [text for key, value in keys.items() for text in (f"--{key}", value)]
    assert_refused(fedsub(*BASE, *options), *words)
    assert not Path("runs").exists()


def test_devices_run_no_file_and_no_code_that_their_owner_did_not_name() -> None:
    from flwr.app import Context, RecordDict

    node = {"client-id": "p1", "data": str(Path("town").absolute()), "state-dir": "."}

    def device(config: RunConfig, **own: str) -> Device:
        flat = to_flat(config)
        return Device(Context(1, 1, node | own, RecordDict(), flat))  # type: ignore[arg-type]

    keys = {"method": "fedavg", "beside": "", "device": "cpu"}
    for option in ("loss", "augment"):
        of_file = read_config(None, keys | {option: "mine.py:shift"})
        for start in (lambda c=of_file: check_deployed(c), lambda c=of_file: device(c)):
            with refused(ConfigError, option, "mine.py:shift", "a file", "package.module:function"):
                start()
        package = read_config(None, keys | {option: "os.path:join"})
        for own in ({}, {option: "os:getcwd"}):
            with refused(RunError, "client 'p1'", option, "os.path:join", "node config"):
                device(package, **own)
        assert device(package, **{option: "os.path:join"})
    assert device(read_config(None, keys | {"loss": "focal", "augment": "jitter"}))
