"""A person's model out of a device's state: the very model that was evaluated, or a clear error."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from flwr.app import Context, RecordDict
from safetensors.torch import save
from torch import Tensor

from fedsub.testing.refusals import refused
from fedsub_client.device import Device
from fedsub_client.loaded_model import load_model
from fedsub_client.personal_model import BATCH
from fedsub_client.saved_state import Saved
from fedsub_client.split_client import SplitClient, split_client
from fedsub_client.state_files import kept_name
from fedsub_client.store import PREVIOUS_FILE, STATE_FILE
from fedsub_core.config.run_config import read_config, to_flat
from fedsub_core.data import standardise
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.errors import DataError, RunError
from fedsub_core.evaluation import Evaluation, evaluate
from fedsub_core.methods.table import METHODS
from fedsub_core.models.kinds import build_model
from fedsub_core.models.model import Model
from fedsub_core.turn import Turn
from fedsub_core.wire import exchange
from fedsub_core.wire.bundles import Bundle, Floats
from fedsub_core.wire.codec import Address, encode_download
from fedsub_core.wire.exchange import Instructions

CARD = Card("toy", "test", ("a", "b", "c"), ("u", "v"), "g")
SHAPES = {"mlp": (2,), "cnn1d": (2, 40), "mlp on windows": (2, 36)}


def person(shape: tuple[int, ...], n: int = 60) -> ClientData:
    """Features far from mean 0 and spread 1, so that a forgotten standardisation shows."""
    rng = np.random.default_rng(0)
    y = np.arange(n) % 3
    x = rng.normal(y.reshape(-1, *[1] * len(shape)), 0.5, (n, *shape)) * 30 + 200
    return ClientData("p", x.astype(np.float32), y)


def trained(
    folder: Path, kind: str = "mlp", scale: str = "federation", method: str = "fedsub"
) -> tuple[Path, SplitClient]:
    """Train a device for a round and evaluate it; return its folder and its parts."""
    shape = SHAPES[kind]
    write_federation(folder / "data", Federation(CARD, {"p": person(shape)}))
    model = kind.split()[0]
    config = read_config(
        None,
        {"data": "toy", "beside": "", "method": method, "model": model, "standardise": scale},
    )
    node = {"client-id": "p", "data": str(folder / "data"), "state-dir": str(folder / "state")}
    device = Device(Context(1, 1, node, RecordDict(), to_flat(config)))  # type: ignore[arg-type]
    parts = split_client(device.person.data, CARD, config.split_settings)
    shared = None
    if scale == "federation":
        shared = standardise.scaling(standardise.moments(parts.train_x))
    told = Instructions(Turn(1, 3, 0), method, shared).record()
    chain, of = build_model(model, shape, 3), METHODS[method]
    receives = of.receives(chain, config.hyper[method])
    # Before a test, the server sends again what the method wants tested.
    newest = whole_model(chain) if config.hyper[method].tested == "received" else Bundle()
    for work, download in ((device.train, Bundle()), (device.evaluate, newest)):
        payload = encode_download(download, Address("p", 1), receives)
        work(RecordDict({exchange.PAYLOAD: exchange.pack(payload), exchange.TURN: told}))
    return folder / "state" / "p", parts


def whole_model(chain: Model) -> Bundle:
    params = chain.init(1, seed=5)
    return Bundle(tensors={name: Floats(tensor[0].numpy()) for name, tensor in params.items()})


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return trained(tmp_path)[0]


@pytest.mark.parametrize(
    ("kind", "scale", "method"),
    [
        ("mlp", "federation", "fedsub"),
        ("mlp", "client", "local"),
        ("mlp", "none", "fedsub"),
        ("mlp", "federation", "fedavg"),
        ("cnn1d", "federation", "fedsub"),
        ("cnn1d", "none", "fedavg"),
        ("mlp on windows", "client", "fedsub"),
        ("mlp", "federation", "fedavg-finetune"),
        ("cnn1d", "client", "fedavg-finetune"),
        ("mlp", "federation", "ditto"),
        ("mlp", "client", "apfl"),
    ],
)
def test_it_is_the_model_that_was_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, scale: str, method: str
) -> None:
    seen: list[Tensor] = []

    def spy(logits: Tensor, y: Tensor, valid: Tensor) -> Evaluation:
        seen.append(logits[0][valid[0]].clone())
        return evaluate(logits, y, valid)

    monkeypatch.setattr("fedsub_client.evaluation.evaluate", spy)
    folder, parts = trained(tmp_path, kind, scale, method)
    found = load_model(folder).probabilities(parts.test_x)
    assert found.shape == (18, 3) and found.dtype == np.float32
    np.testing.assert_allclose(found, seen[-1].softmax(1).numpy(), atol=1e-6)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-6)
    assert (load_model(folder).scaling is None) == (scale == "none")


def test_where_a_model_comes_from(state: Path) -> None:
    for where in (state, state.parent, state / STATE_FILE, str(state)):
        loaded = load_model(where)
        assert (loaded.client, loaded.method, loaded.round) == ("p", "fedsub", 1)
        assert loaded.card == CARD


def test_any_number_type_and_any_number_of_samples(state: Path) -> None:
    loaded = load_model(state)
    x = np.random.default_rng(1).integers(150, 300, (2 * BATCH + 3, 2))
    found = loaded.probabilities(x)
    assert len(found) == len(x)
    for rows in (slice(0, 1), slice(BATCH - 1, BATCH + 2), slice(2 * BATCH, None)):
        alone = loaded.probabilities(x[rows].astype(np.float64))
        np.testing.assert_allclose(alone, found[rows], atol=1e-6)


def test_reading_leaves_the_state_as_it_is(state: Path) -> None:
    def look() -> dict[str, tuple[bytes, int]]:
        return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in state.iterdir()}

    before = look()
    load_model(state).probabilities(np.ones((4, 2)))
    assert look() == before
    (state / STATE_FILE).write_bytes(before[STATE_FILE][0][:-5])
    damaged = look()
    with pytest.raises(RunError):
        load_model(state)
    assert look() == damaged


def flipped(data: bytes) -> bytes:
    return data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda data: b"", "damaged"),
        (lambda data: data[: len(data) // 2], "damaged"),
        (flipped, "checksum is wrong"),
        (lambda data: save({"linear1.weight": torch.ones(2)}), "without a checksum"),
    ],
)
def test_a_damaged_state_is_refused(state: Path, spoil: Callable[[bytes], bytes], why: str) -> None:
    file = state / STATE_FILE
    file.write_bytes(spoil(file.read_bytes()))
    assert_refused(state, str(file), why, "expected a state", "train again")


def assert_refused(where: Path, *words: str) -> None:
    with pytest.raises(RunError) as caught:
        load_model(where)
    said = str(caught.value)
    assert "\n" not in said
    for word in words:
        assert word in said, said


def test_no_state_or_several_are_refused(state: Path, tmp_path: Path) -> None:
    assert_refused(tmp_path / "nowhere", "nowhere: no such folder", STATE_FILE)
    assert_refused(tmp_path / "data", "no state", "<state-dir>/<client-id>")
    other = state.with_name("q")
    other.mkdir()
    (other / STATE_FILE).write_bytes((state / STATE_FILE).read_bytes())
    assert_refused(state.parent, "2 clients (p, q)", f"such as {state}")
    kept = state / kept_name(Saved.of_bytes((state / STATE_FILE).read_bytes()))
    now = state / STATE_FILE
    for other in (state / PREVIOUS_FILE, kept):
        now = now.rename(other)
        assert_refused(state, "no state of this run yet", str(other))
        assert load_model(other).client == "p"


def test_a_state_without_a_usable_model_is_refused(state: Path) -> None:
    file = state / STATE_FILE
    saved = Saved.of_bytes(file.read_bytes())
    assert saved.model is not None
    file.write_bytes(replace(saved, model=None, round=0).to_bytes())
    assert_refused(state, str(file), "client 'p'", "without a model", "train again")

    params = dict(saved.model.params)
    bad = params | {"linear2.bias": params["linear2.bias"] * torch.nan}
    file.write_bytes(replace(saved, model=replace(saved.model, params=bad)).to_bytes())
    assert_refused(state, "linear2.bias", "not finite", "lower lr")

    bad = params | {"linear3.bias": torch.zeros(4)}
    file.write_bytes(replace(saved, model=replace(saved.model, params=bad)).to_bytes())
    assert_refused(state, "got parameters", "'linear3.bias': (4,)", "'linear3.bias': (3,)")


def spoilt(row: int, value: float) -> np.ndarray:
    x = np.ones((5, 2))
    x[row, 1] = value
    return x


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.ones((5, 3)), ["got shape (5, 3)", "expected [n, 2]", "u, v"]),
        (np.ones((5, 2, 40)), ["got shape (5, 2, 40)"]),
        (np.ones(2), ["got shape (2,)", "x[None]"]),
        (np.float32(1), ["got shape ()"]),
        (np.ones((0, 2)), ["got no sample"]),
        (np.full((5, 2), "1"), ["got <U1", "float32"]),
        (spoilt(3, np.nan), ["row 3, feature 1 ('v')", "got nan"]),
        (spoilt(2, 1e300), ["row 2, feature 1 ('v')", "got 1e+300"]),
    ],
)
def test_samples_that_do_not_fit_are_refused(state: Path, x: np.ndarray, words: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        load_model(state).probabilities(np.asarray(x), "new.npz")
    said = str(caught.value)
    assert said.startswith("new.npz: client 'p': x") and "\n" not in said
    for word in words:
        assert word in said, said


def test_samples_in_absurd_units_are_refused(tmp_path: Path) -> None:
    loaded = load_model(trained(tmp_path, scale="none")[0])
    with refused(DataError, "row 4", got="3e+38", expected="g"):
        loaded.probabilities(spoilt(4, 3e38))


def test_samples_far_from_the_training_data_are_said(
    state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What a model answers there means nothing, however sure it is."""
    model = load_model(state)
    assert model.scaling is not None
    mean, std = model.scaling.mean, model.scaling.std
    x = mean + std * np.array([[0, 1], [49, -49], [2, 0]])
    model.probabilities(x, "new.npz")
    assert caplog.text == ""
    x[2] += std * (0, 1e4)
    found = model.probabilities(x, "new.npz")
    assert found[2].max() > 0.999, "sure of what it has never seen"
    assert "new.npz: client 'p': x: 1 of 3 rows (the first is row 2) hold values" in caplog.text
    assert "feature 1 ('v') up to 10,000, in row 2. What is answered" in caplog.text
    assert "('u')" not in caplog.text and "expected g." in caplog.text
    with refused(DataError, "x", "2 of 2 rows", "10,000", "row 0"):
        model.probabilities(x[[2, 2]], "new.npz")


def test_far_windows_are_said_by_channel(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder, parts = trained(tmp_path, "cnn1d")
    x = parts.test_x.copy()
    load_model(folder).probabilities(x)
    assert caplog.text == ""
    x[5, 0, 17] = 1e6
    load_model(folder).probabilities(x)
    assert "1 of 18 rows (the first is row 5)" in caplog.text and "feature 0 ('u')" in caplog.text
