"""Sentences on how a run was done, for a paper's methods section.

The page and ``summary.json`` have them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from fedsub_core.data.fingerprint import fingerprint_key
from fedsub_core.methods.card import nothing
from fedsub_server.data_notes import DataNotes
from fedsub_server.method_runs import MethodRun, alike

_SPLITS = {
    "auto": "by whole recordings, days or sessions where files number them; else blocked in time "
    "where windows overlap, may overlap or stand in order of time, else at random in each class",
    "stratified": "at random in each class of each person",
    "blocked": "the last in time of each class of each person",
    "grouped": "by whole recordings, days or sessions",
    "given": "as people's files say",
    "unseen": "some people are held out, and join in the last rounds",
}
_HELD_OUT = {
    "people": "a share of all",
    "capacity": "a share of the people of each capacity",
    "smallest": "all of the smallest capacity",
}
_STANDARDISED = {
    "federation-median": "medians over people of the means and deviations of their training parts",
    "federation": "the mean and deviation of everybody's training parts together",
    "client": "the mean and deviation of each person's own training part",
}


def methods_paragraph(runs: Sequence[MethodRun], notes: DataNotes) -> list[str]:
    """Return sentences on data and split, models, what was computed how, rounds, seed, versions.

    There is one run at least; data, split and rounds are said of the first.
    """
    flat = runs[0].config
    sentences = [*_data(runs, notes), f"Split: {split_in_words(flat)}.", *_parts(notes)]
    for model, names in alike(runs, lambda run: run.model_words).items():
        solves = all(run.solves for run in runs if run.name in names)
        sentences.append(
            f"Model {'solved for' if solves else 'trained'} by {_and(names)}: {model}."
        )
    sentences += _standardised(runs)
    for rule, names in alike(runs, lambda run: run.rule).items():
        sentences.append(f"On a device {_and(names)} compute{'s' * (len(names) == 1)}: {rule}.")
    sentences += {run.name: _method(run) for run in runs}.values()
    sentences += filter(None, [notes.chosen])
    return [*sentences, *_rounds(runs), f"Versions: fedsub {', '.join(versions(runs))}."]


def split_in_words(flat: Mapping[str, Any]) -> str:
    """Return a clause on how test samples are chosen, by the configuration."""
    kind = str(flat.get("split", "unknown"))
    share, kept = flat.get("test-share"), flat.get("train-share", 1.0)
    rest = "" if kept == 1.0 else f"; {kept} of the training samples kept"
    if lacking := flat.get("unlabelled", 0.0):
        rest += f"; {lacking} of the people have no labels of some classes, which are tested, too"
    if kind == "unseen":
        rest += (
            f"; held out: {flat.get('unseen-people') or _HELD_OUT[flat.get('unseen-by', 'people')]}"
        )
        labels = flat.get("unseen-labels", 0)
        rest += f", with {labels} training samples of each class" if labels else ""
    fold = flat.get("fold", "")
    tested = f"fold {fold}" if fold else f"{share} of each class"
    tested = "" if kind == "given" else f"; {tested} is tested"
    return f"{kind}: {_SPLITS.get(kind, kind)}{tested}{rest}"


def split_people(notes: DataNotes) -> str:
    """Return a clause with the count of people by split; "" where the run does not say."""
    # Classes that a part lacks, which follow, are each person's own.
    kinds = Counter(note.split.partition(";")[0] for note in notes.splits.values())
    counted = ", ".join(f"{n} {how}" for how, n in kinds.items())
    return f"Of {kinds.total()} people: {counted}" if counted else ""


def versions(runs: Sequence[MethodRun]) -> list[str]:
    """Return the versions that ran methods, each once."""
    return list(dict.fromkeys(run.version for run in runs))


def _data(runs: Sequence[MethodRun], notes: DataNotes) -> Iterator[str]:
    flat, prefix = runs[0].config, fingerprint_key("")
    people = sum(key.startswith(prefix) for key in flat) or len(notes.splits)
    facts = [f"{people} people"] if people else []
    if known := next((run.model for run in runs if run.model is not None), None):
        shape, ids = " x ".join(map(str, known.sample)), f" token ids below {known.vocabulary:,}"
        facts.append(f"samples of {shape}{ids if known.vocabulary else ' numbers'}")
        facts.append(f"{known.classes} classes")
    if facts:
        yield f"Data: {PurePath(str(flat.get('data', 'unknown'))).name}, {', '.join(facts)}."


def _parts(notes: DataNotes) -> Iterator[str]:
    splits = list(notes.splits.values())
    if not splits:
        return
    parts = {
        "training": sum(note.training for note in splits),
        "validation": sum(note.validation for note in splits),
        "test": sum(note.testing for note in splits),
    }
    counted = ", ".join(f"{n:,} {part}" for part, n in parts.items() if n)
    neither = sum(note.neither for note in splits)
    left = f"; {neither:,} are in no part, such as those in gaps" if neither else ""
    yield f"{split_people(notes)}. Samples: {counted}{left}."


def _standardised(runs: Sequence[MethodRun]) -> Iterator[str]:
    how = _STANDARDISED.get(str(runs[0].config.get("standardise")))
    models = [(run, run.model) for run in runs if run.model is not None]
    if how is None or any(model.vocabulary for _, model in models):
        return
    again = [run.name for run, model in models if model.features and not run.solves]
    features = f", and so are the features that {_and(again)} are trained on" if again else ""
    yield f"Samples are standardised by {how}{features}."


def _method(run: MethodRun) -> str:
    if run.card is None:
        return f"{run.name}: a method whose package is not installed here."
    paper, hyper = run.card.paper.rstrip("."), run.hyper_words
    return f"{run.name}: {run.card.idea} ({paper}), with {hyper}."


def _rounds(runs: Sequence[MethodRun]) -> Iterator[str]:
    flat = runs[0].config
    each = {run.name: run.rounds for run in runs}
    rounds = str(runs[0].rounds)
    if len(set(each.values())) > 1:
        rounds = ", ".join(f"{name} {n}" for name, n in each.items())
    drawn, every = flat.get("clients-per-round"), flat.get("evaluate-every", 1)
    who = f"{drawn} people drawn for each" if drawn else "everybody in each"
    often = "after each" if every <= 1 else f"after every {every} and the last"
    yield f"Rounds: {rounds}, {who}; everybody is tested {often}."
    filtered = dict.fromkeys(
        run.name for run in runs if run.card and run.card.filtered and run.card.sends is not nothing
    )
    if filtered and (filters := flat.get("robust")):
        yield f"Filters on uploads of {_and(tuple(filtered))}: {filters}."
    seeds = sorted({seed for run in runs for seed in run.seeds})
    yield f"Seed of all that is drawn: {', '.join(map(str, seeds))}."


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
