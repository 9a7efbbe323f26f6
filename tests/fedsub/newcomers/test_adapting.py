"""People who come after a run's last round: their models, to the bit, and what is refused."""

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedsub
from fedsub.api.adapting import Adaptation, adapt
from fedsub.engines.simulation import build_grid, build_strategy
from fedsub.newcomers.finished_run import FinishedRun
from fedsub.newcomers.newcomers_file import newcomers_bytes, read_newcomers, write_newcomers
from fedsub.testing.refusals import refused
from fedsub.testing.runs import people
from fedsub_client.model_file import model_bytes
from fedsub_client.personal_model import PersonalModel
from fedsub_core.closed_form.grids import WITH_OTHERS
from fedsub_core.closed_form.scale import Scale
from fedsub_core.closed_form.sending import Portable
from fedsub_core.data.card import Card
from fedsub_core.data.client_data import ClientData
from fedsub_core.data.federation import Federation, write_federation
from fedsub_core.encoders.ranks_encoder import RanksEncoder
from fedsub_core.errors import ConfigError, DataError, RunError
from fedsub_server.forgetting import forget
from fedsub_server.run_folder import DATABASE_FILE
from fedsub_server.rundb import RunDatabase

SETTINGS: dict[str, Any] = {"beside": "", "progress": False, "encoder": "relu:12", "rounds": 4}
Trained = Callable[..., fedsub.Run]


@pytest.fixture(scope="module")
def town() -> Federation:
    """Six people, of whom four train; p5 and p6 come later."""
    return people(((0, 1, 2),) * 3 + ((0, 1),) + ((0, 1, 2),) * 2)


def some(federation: Federation, *names: str) -> Federation:
    return replace(federation, clients={name: federation.clients[name] for name in names})


@pytest.fixture(scope="module")
def trained(town: Federation, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Run four people's rounds, once for the same settings."""
    kept: dict[str, fedsub.Run] = {}

    def run(**settings: Any) -> fedsub.Run:
        key = repr(sorted(settings.items()))
        if key not in kept:
            own: dict[str, Any] = {
                "method": "fedsub-ridge",
                "out": str(tmp_path_factory.mktemp("r")),
            }
            crowd = some(town, "p1", "p2", "p3", "p4")
            kept[key] = fedsub.run(crowd, **(SETTINGS | own | settings))
        return kept[key]

    return run


def model_of(found: Adaptation, person: str) -> PersonalModel:
    return found.model(person)._model


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@pytest.mark.parametrize("standardise", ["federation-median", "client", "none"])
@pytest.mark.parametrize("groups", ["none", "class"])
def test_it_is_the_bits_of_a_device_that_comes_late(
    trained: Trained, town: Federation, standardise: str, groups: str
) -> None:
    run = trained(standardise=standardise, **{"fedsub-ridge": {"groups": groups}})
    config, name = run.config, "fedsub-ridge"
    with RunDatabase(run.folder / name / DATABASE_FILE) as database:
        round, state = database.load()
    grid = build_grid(config, name, town)  # with p5 and p6
    strategy = build_strategy(config, name)
    strategy.resume(round, state["server"])
    strategy.connect(grid)
    strategy.run_round(grid, round + 1, 60.0, evaluated=True)
    scores = strategy.log.metrics.by_client
    theirs = grid.state()
    grid.close()
    found = run.adapt(some(town, "p5", "p6"))
    for person in ("p5", "p6"):
        for key, tensor in model_of(found, person).params.items():
            assert torch.equal(tensor, theirs[f"client/{person}"][f"model.{key}"])
        assert found.scores[person].numbers["macro_f1"] == scores[person].numbers["macro_f1"]
        assert found.scores[person].loss == pytest.approx(scores[person].loss, rel=1e-6)


def test_a_person_of_the_run_with_its_samples_has_its_model_once_more(
    trained: Trained, town: Federation
) -> None:
    run = trained()
    before = contents(run.folder)
    found = run.adapt(some(town, "p1", "p4"))
    assert list(found.table["known"]) == ["added", "added"]
    for person in ("p1", "p4"):
        kept = run.folder / "fedsub-ridge" / "models" / f"{person}.safetensors"
        assert model_bytes(model_of(found, person)) == kept.read_bytes()
    last = run.people.set_index("person")["macro_f1"]
    assert found.table["macro_f1"].to_dict() == last[["p1", "p4"]].to_dict()
    assert contents(run.folder) == before


def test_replaced_samples_are_those_of_whom_the_run_forgot(
    trained: Trained, town: Federation, tmp_path: Path
) -> None:
    run = trained()
    replaced = run.adapt(some(town, "p2"), samples_per_class=3, known="replace")
    added = run.adapt(some(town, "p2"), samples_per_class=3)
    shutil.copytree(run.folder, tmp_path / "run")
    forget(tmp_path / "run", "p2")
    left = fedsub.Run(tmp_path / "run").adapt(some(town, "p2"), samples_per_class=3)
    assert list(left.table["known"]) == [""] and list(replaced.table["known"]) == ["replaced"]
    ours, theirs = model_of(replaced, "p2").params, model_of(left, "p2").params
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
    assert any(not torch.equal(ours[k], t) for k, t in model_of(added, "p2").params.items())


def test_without_labels_it_is_everybodys_head(
    trained: Trained, town: Federation, tmp_path: Path
) -> None:
    run = trained()
    found = run.adapt(some(town, "p5", "p6"), samples_per_class=0)
    first, second = (model_of(found, person).params for person in ("p5", "p6"))
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert list(found.table["labelled"]) == [0, 0] and found.table["macro_f1"].min() > 0.5
    assert found.table["own_macro_f1"].isna().all()
    # It is a mean of ridge heads on everybody's sums, solved here plainly.
    sent = FinishedRun(run.folder).for_person().download
    gram, cross, exponent = (sent.floats(f"everybody.{n}") for n in ("gram", "cross", "exponent"))
    sums = Portable(gram, cross, int(exponent[0])).sums()
    scale = Scale.of(sums)
    a, b = scale.moments(sums)
    plain = [
        np.linalg.solve(a + penalty * np.eye(len(a)), b).astype(np.float64)
        for penalty in WITH_OTHERS
    ]
    heads = np.stack([np.column_stack(scale.unscaled(one)).ravel() for one in plain], 1)
    weight, bias = (first[key].numpy() for key in sorted(first, key=lambda k: -first[k].ndim))
    ours = np.column_stack([weight, bias]).ravel()
    mixed, *_ = np.linalg.lstsq(heads, ours, rcond=None)
    assert np.abs(heads @ mixed - ours).max() < 1e-4 * np.abs(ours).max()
    # Files need no labels at all, and then nothing is tested.
    write_federation(tmp_path / "new", some(town, "p5"))
    file = tmp_path / "new" / "clients" / "p5.npz"
    np.savez(file, x=np.load(file)["x"])
    bare = run.adapt(tmp_path / "new")
    assert list(bare.table["tested"]) == [0] and bare.table["macro_f1"].isna().all()
    assert all(torch.equal(model_of(bare, "p5").params[key], first[key]) for key in first)


def test_labels_are_drawn_of_each_class_and_more_hold_fewer(
    trained: Trained, town: Federation
) -> None:
    run = trained()
    counts = {k: run.adapt(some(town, "p5"), samples_per_class=k) for k in (1, 5, 1000)}
    rows = {k: found.table.loc["p5"] for k, found in counts.items()}
    assert [rows[k]["labelled"] for k in (1, 5)] == [3, 15]
    everything = run.adapt(some(town, "p5"))
    assert rows[1000]["labelled"] == everything.table.loc["p5", "labelled"]
    assert len({int(row["tested"]) for row in rows.values()}) == 1
    assert model_bytes(model_of(counts[1000], "p5")) == model_bytes(model_of(everything, "p5"))
    nothing = run.adapt(some(town, "p5"), test_share=0)
    assert nothing.table.loc["p5", "labelled"] == len(town.clients["p5"].y)


def test_an_own_standardisation_needs_no_label(
    trained: Trained, town: Federation, tmp_path: Path
) -> None:
    run = trained(standardise="client")
    write_federation(tmp_path / "new", some(town, "p5"))
    file, x = tmp_path / "new" / "clients" / "p5.npz", town.clients["p5"].x
    np.savez(file, x=x)
    own = model_of(run.adapt(tmp_path / "new"), "p5").scaling
    assert own is not None
    assert np.allclose(own.mean, x.mean(0), atol=1e-6) and np.allclose(own.std, x.std(0), atol=1e-6)
    # As many labels as there are: the samples that it is standardised by are the same.
    few, more = (run.adapt(some(town, "p5"), samples_per_class=k) for k in (0, 5))
    first, second = model_of(few, "p5").scaling, model_of(more, "p5").scaling
    assert first is not None and second is not None and first.bits == second.bits


@pytest.mark.parametrize("standardise", ["federation", "client"])
def test_the_file_says_what_the_folder_says(
    trained: Trained, town: Federation, standardise: str, tmp_path: Path
) -> None:
    run = trained(standardise=standardise)
    file = tmp_path / "newcomers.safetensors"
    given = write_newcomers(FinishedRun(run.folder), file)
    assert newcomers_bytes(given) == file.read_bytes() and given.people == 4
    assert not [name for name in ("p1", "p2", "p3", "p4") if name.encode() in file.read_bytes()]
    read = fedsub.load(file)
    assert not isinstance(read, fedsub.Run | fedsub.Comparison | fedsub.PersonModel)
    for labels in (0, 2):
        ours = read.adapt(some(town, "p5"), samples_per_class=labels)
        theirs = run.adapt(some(town, "p5"), samples_per_class=labels)
        assert model_bytes(model_of(ours, "p5")) == model_bytes(model_of(theirs, "p5"))
    # Here nobody is known: whoever took part is a newcomer.
    assert list(read.adapt(some(town, "p1")).table["known"]) == [""]
    with refused(ConfigError, "'p1'", expected="folder"):
        read.adapt(some(town, "p1"), known="replace")


def test_a_server_whose_devices_keep_their_models_serves_them_too(
    trained: Trained, town: Federation, tmp_path: Path
) -> None:
    run = trained()
    shutil.copytree(run.folder, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "fedsub-ridge" / "models")
    given = write_newcomers(FinishedRun(tmp_path / "run"), tmp_path / "new.st")
    assert given.card is None and given.classes == town.card.classes
    ours = adapt(read_newcomers(tmp_path / "new.st"), some(town, "p5"))
    theirs = run.adapt(some(town, "p5"))
    assert model_bytes(model_of(ours, "p5")) == model_bytes(model_of(theirs, "p5"))


def test_a_file_that_is_cut_or_changed_is_refused(trained: Trained, tmp_path: Path) -> None:
    file = tmp_path / "new.st"
    write_newcomers(FinishedRun(trained().folder), file)
    whole = file.read_bytes()
    for spoilt in (
        whole[: len(whole) // 2],
        whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:],
        whole.replace(b"everybody", b"everybodY", 1),
        whole.replace(b'people\\": 4', b'people\\": 5', 1),
    ):
        assert spoilt != whole
        file.write_bytes(spoilt)
        with refused(RunError, "new.st", got="damaged"):
            read_newcomers(file)
    file.write_bytes(b"something else")
    with refused(RunError, "new.st", expected="fedsub export --newcomers"):
        read_newcomers(file)


def test_sums_of_two_people_are_not_given_away(town: Federation, tmp_path: Path) -> None:
    two = fedsub.run(some(town, "p1", "p2"), "fedsub-ridge", out=str(tmp_path / "runs"), **SETTINGS)
    with refused(RunError, got="2 people", expected="3 at least"):
        write_newcomers(FinishedRun(two.folder), tmp_path / "new.st")
    assert not (tmp_path / "new.st").exists()
    assert two.adapt(some(town, "p5")).table.loc["p5", "macro_f1"] > 0.5  # at the run's owner's


def test_with_noise_the_release_alone_is_given(trained: Trained, town: Federation) -> None:
    plain = FinishedRun(trained().folder).for_person().download
    run = trained(**{"fedsub-ridge": {"noise": 2.0}})
    sent = FinishedRun(run.folder).for_person().download
    assert not np.array_equal(sent.floats("everybody.gram"), plain.floats("everybody.gram"))
    assert "pooled" in plain.tensors and "pooled" not in sent.tensors
    again = FinishedRun(run.folder).for_person().download
    assert np.array_equal(sent.floats("everybody.gram"), again.floats("everybody.gram"))
    assert list(run.adapt(some(town, "p1", "p5")).table["known"]) == ["added", ""]
    with refused(ConfigError, "'p1'", got="noise 2"):
        run.adapt(some(town, "p1"), known="replace")


def test_secure_sums_are_given_as_plain_ones_and_nobody_is_known(
    trained: Trained, town: Federation
) -> None:
    own = {"standardise": "federation", "robust": "none", "rounds": 5}
    run = trained(secure_aggregation=True, secure_least=3, **own)
    secure, plain = FinishedRun(run.folder), FinishedRun(trained(**own).folder)
    assert secure.summed.holders == (4, 4, 4)  # at most
    assert plain.summed.holders == (4, 4, 3)
    assert secure.summed.people == plain.summed.people == 4
    for name in ("everybody.gram", "everybody.cross", "everybody.exponent"):
        ours, theirs = (one.for_person().download.floats(name) for one in (secure, plain))
        assert np.array_equal(ours, theirs)
    found = run.adapt(some(town, "p1", "p5"), samples_per_class=2)
    assert list(found.table["known"]) == ["as new", ""] and found.table["macro_f1"].min() > 0.5
    with refused(RunError, "'p1'", "secure-aggregation"):
        run.adapt(some(town, "p1"), known="replace")


def renamed(town: Federation, **card: Any) -> Federation:
    return replace(some(town, "p5"), card=replace(town.card, **card))


def test_people_with_little_are_served(trained: Trained, town: Federation) -> None:
    run, data = trained(), town.clients["p5"]
    of_one = np.flatnonzero(data.y == 1)
    cases = {
        "window": ClientData("window", data.x[:1], data.y[:1]),
        "class": ClientData("class", data.x[of_one], data.y[of_one]),
    }
    found = run.adapt(Federation(town.card, cases))
    assert found.table.loc["window", "tested"] == 0 and found.table.loc["window", "labelled"] == 1
    assert found.table.loc["class", "tested"] > 0
    # Whoever does one class alone can still be seen to do another.
    said = found.model("class")(town.clients["p6"].x)
    assert np.isfinite(said).all() and len(set(said.argmax(1))) > 1
    # Classes in another order, and fewer: the same labels by name.
    turned = renamed(town, classes=("run", "walk", "sit"))
    swapped = replace(data, y=2 - data.y)
    ours = run.adapt(replace(turned, clients={"p5": swapped}))
    theirs = run.adapt(some(town, "p5"))
    first, second = (model_of(one, "p5").params for one in (ours, theirs))
    assert all(torch.equal(first[key], second[key]) for key in second)


def test_other_data_are_refused_by_name(trained: Trained, town: Federation) -> None:
    run, data = trained(), town.clients["p5"]
    with refused(DataError, "'p5'", "classes", got="'fly'", expected=["sit", "walk", "run"]):
        run.adapt(renamed(town, classes=("sit", "walk", "run", "fly")))
    with refused(DataError, "'p5'", "features", got="a, b, c, e", expected="a, b, c, d"):
        run.adapt(renamed(town, features=("a", "b", "c", "e")))
    card = Card("people", "a test", ("sit", "walk", "run"), ("a", "b", "c"))
    with refused(DataError, "'p5'", got="(3,)", expected="(4,)"):
        run.adapt(Federation(card, {"p5": replace(data, x=data.x[:, :3])}))
    windows = replace(data, x=np.repeat(data.x[:, :, None], 20, axis=2))
    with refused(DataError, "'p5'", got="(4, 20)", expected="(4,)"):
        run.adapt(Federation(town.card, {"p5": windows}))
    with refused(DataError, "'p5'", "units"):
        run.adapt(Federation(town.card, {"p5": replace(data, x=data.x * np.float32(1e6))}))
    with refused(ConfigError, got="'p7'", expected="p5"):
        run.adapt(some(town, "p5"), ["p7"])
    with refused(ConfigError, "samples_per_class", got=-1):
        run.adapt(some(town, "p5"), samples_per_class=-1)
    with refused(ConfigError, "known", got="'other'"):
        run.adapt(some(town, "p5"), known="other")


def test_other_runs_are_refused_by_name(trained: Trained, town: Federation, tmp_path: Path) -> None:
    run = trained()
    with refused(RunError, got="'fedavg'", expected="fedsub-ridge"):
        run.adapt(some(town, "p5"), method="fedavg")
    other = trained(method="fedavg", rounds=1, encoder="none", hidden="4")
    with refused(ConfigError, "'fedavg'", expected="fedsub-ridge"):
        other.adapt(some(town, "p5"))
    short = trained(rounds=1)
    with refused(RunError, got="equations", expected="three rounds"):
        short.adapt(some(town, "p5"))
    shutil.copytree(run.folder, tmp_path / "run")
    file = tmp_path / "run" / "run.toml"
    file.write_text(file.read_text().replace("rounds = 4", "rounds = 9"))
    with refused(RunError, got=4, expected=9):
        fedsub.Run(tmp_path / "run").adapt(some(town, "p5"))
    with refused(RunError, expected="folder"):
        FinishedRun(tmp_path)


def test_a_newcomer_is_ranked_among_all_that_it_brings(town: Federation, trained: Trained) -> None:
    """Labelled or not, but the tested ones: how many labels are used changes no feature."""
    run = trained(encoder="ranks:12")
    found = [
        model_of(run.adapt(some(town, "p5"), samples_per_class=n), "p5").encoder for n in (0, 1, 5)
    ]
    assert all(isinstance(encoder, RanksEncoder) for encoder in found)
    first, *others = (encoder.places for encoder in found)  # type: ignore[union-attr]
    everybodys = found[0].everybodys  # type: ignore[union-attr]
    assert first is not None and not np.array_equal(first, everybodys)
    assert all(np.array_equal(places, first) for places in others)
