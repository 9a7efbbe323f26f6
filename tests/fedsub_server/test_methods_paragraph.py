"""A methods section can be written from a run's paragraph, and it says nothing that is not so."""

from collections.abc import Sequence
from typing import Any

from fedsub_core.config.run_config import read_config, to_flat
from fedsub_core.data.findings import SplitNote
from fedsub_core.models.record import ModelRecord
from fedsub_server.data_notes import DataNotes
from fedsub_server.method_runs import MethodRun, method_run
from fedsub_server.methods_paragraph import methods_paragraph

NOTES = DataNotes({f"p{i}": SplitNote("in time by t, gap 2.56 s", 300, 120, 7, 0) for i in "12"})


def runs(method: str, beside: str = "", **keys: Any) -> Sequence[MethodRun]:
    """Return runs on windows of 9 x 128 of six classes, as their databases would have them."""
    config = read_config(None, {"method": method, "beside": beside, **keys})
    return [
        method_run(
            name,
            name,
            to_flat(config),
            config,
            ModelRecord.of(config.device_settings(name), 0, (9, 128), 6),
            "1.2 (code ab)",
        )
        for name in config.methods
    ]


def test_a_closed_form_is_no_sgd() -> None:
    text = " ".join(methods_paragraph(runs("fedsub-ridge", rounds=3), NOTES))
    assert "Model solved for by fedsub-ridge: linear, 4,140 numbers: Linear(" in text
    assert "on 689 features of the encoder kernels:100+statistics (statistics of each" in text
    assert "shape, autocorrelation, spectrum, correlations; 100 random kernels of 5 fe" in text
    assert "On a device fedsub-ridge computes: ridge regression in closed form" in text
    assert not any(word in text for word in ("sgd", "0.005", "auto,", "batches", "Filters"))


def test_what_trains_says_its_steps_and_its_resolved_model() -> None:
    text = " ".join(methods_paragraph(runs("ditto", "local,fedsgd", lr=0.01), NOTES))
    assert "Model trained by ditto, local and fedsgd: cnn1d, 46,022 numbers: Conv1d(9, 32" in text
    assert "On a device ditto and local compute: cross-entropy by sgd, rate 0.01, momentum" in text
    one = "one step of rate 0.01 on all of a person's training samples, without momentum"
    assert f"On a device fedsgd computes: {one}." in text
    assert (
        "Ditto: Fair and Robust Federated Learning Through Personalization, ICML 2021), with"
        in (text)
    )
    assert "lam = 1.0" in text and "Filters on uploads of ditto and fedsgd: clip." in text


def test_data_split_seed_and_versions() -> None:
    keys: dict[str, Any] = {"seed": 7, "split": "blocked", "test-share": 0.4}
    said = methods_paragraph(runs("fedavg", **keys), NOTES)
    assert said[0] == "Data: watch, 2 people, samples of 9 x 128 numbers, 6 classes."
    assert said[1].startswith("Split: blocked: the last in time") and "0.4 of each" in said[1]
    assert said[2] == (
        "Of 2 people: 2 in time by t, gap 2.56 s. Samples: 600 training, 240 test; 14 are in no "
        "part, such as those in gaps."
    )
    assert said[-2:] == ["Seed of all that is drawn: 7.", "Versions: fedsub 1.2 (code ab)."]


def test_adam_has_no_momentum_and_seldom_settings_are_said() -> None:
    keys: dict[str, Any] = {"optimiser": "adam", "weight-decay": 0.1, "steps": 5}
    text = " ".join(methods_paragraph(runs("fedavg", **keys), NOTES))
    assert "by adam, rate 0.005, batches of 32, steps in a round 5, L2 penalty 0.1." in text


def test_a_run_of_an_older_release_says_what_it_kept() -> None:
    flat = to_flat(read_config(None, {"method": "fedavg", "beside": ""}))
    old = method_run("fedavg", "fedavg", flat, None, None, "0.0.9 (code cd)")
    text = " ".join(methods_paragraph([old], DataNotes()))
    assert "auto as configured; its layers were not kept" in text
    gone = method_run("theirs", "theirs", flat, None, None, "0.0.9 (code cd)")
    assert "theirs: a method whose package is not installed here." in " ".join(
        methods_paragraph([gone], DataNotes())
    )
