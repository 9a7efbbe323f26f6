"""What excludes each other in a run's configuration, refused before anything is made."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from fedsub_core.addends import MEANS
from fedsub_core.config.capacities import read_capacities
from fedsub_core.config.going_on import check_going_on
from fedsub_core.config.own_training import CROSS_ENTROPY
from fedsub_core.config.participation import DRAWS
from fedsub_core.config.regression import check_regression
from fedsub_core.config.schedules import CONSTANT, rate_factor
from fedsub_core.config.settings import NoiseSettings, SecureSettings
from fedsub_core.errors import ConfigError
from fedsub_core.methods.table import METHODS

if TYPE_CHECKING:
    from fedsub_core.config.run_config import RunConfig

#: The fewest newest rounds that stay whole.
FEWEST_WHOLE = 64


def check_run(config: RunConfig, where: str) -> None:
    """Refuse values that are right each, and wrong together.

    Parameters
    ----------
    where : the file or the command line, which messages begin with.

    Raises ConfigError; it names the option, what it stands beside, and what was expected.
    """
    if config.split == "unseen" and config.unseen_rounds >= config.rounds:
        raise ConfigError(
            f"{where}: unseen-rounds: got {config.unseen_rounds} of {config.rounds} rounds, "
            "expected fewer: held-out people must not train from the first round on. Lower it, or "
            "raise rounds."
        )
    if 0 < config.whole_rounds < FEWEST_WHOLE:
        raise ConfigError(
            f"{where}: whole-rounds: got {config.whole_rounds}, expected 0 or at least "
            f"{FEWEST_WHOLE}: `fedsub status` looks back at the newest rounds"
        )
    if config.patience and config.best_by != "validation":
        raise ConfigError(
            f"{where}: patience: got {config.patience} with best-by = {config.best_by}, expected "
            "best-by = validation: rounds end by samples that are neither trained on nor tested"
        )
    _check_split(config, where)
    _check_schedule(config, where)
    if config.best_by == "validation":
        _check_best_by(config, where)
    if config.steps and config.epochs != 1:
        raise ConfigError(
            f"{where}: steps: got {config.steps} with epochs = {config.epochs}, expected one of "
            "them: local work is counted in steps or in epochs"
        )
    if config.dynamic and config.split == "unseen" and config.unseen_by != "people":
        raise ConfigError(
            f"{where}: unseen-by = {config.unseen_by}: got capacity-mode = dynamic, expected "
            "fixed: people are held out by what they hold in every round"
        )
    if config.dynamic and read_capacities(config.capacities)[1]:
        raise ConfigError(
            f"{where}: capacity-mode: got dynamic with capacities = {config.capacities!r}, "
            "expected shares to draw from, such as 1,1/2,1/4"
        )
    if config.secure_aggregation:
        _check_secure(config, where)
    else:
        beside, why = "secure-aggregation = true", "without secure aggregation"
        _check_nothing_alone(config, SecureSettings(), where, beside, why)
    if config.dp_noise:
        _check_noise(config, where)
    else:
        _check_nothing_alone(config, NoiseSettings(), where, "dp-noise", "without noise on means")
    _check_participation(config, where)
    check_regression(config, where)
    for name in config.methods:
        _check_method(config, name, where)


def _check_schedule(config: RunConfig, where: str) -> None:
    """Raise a ConfigError where the schedule has no rate in one of the rounds."""
    for round in range(1, config.rounds + 1) if config.schedule != CONSTANT else ():
        try:
            rate_factor(config.schedule, round)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error


def _check_split(config: RunConfig, where: str) -> None:
    """Refuse a fold that is none, or that what is tested does not go by."""
    got = ""
    if (fold := config.tested_fold) is not None:
        if fold[0] > fold[1] or fold[1] < 2:
            got, expected = config.fold, "one of two folds or more, from 1, such as 1/5"
        elif config.split in ("given", "unseen"):
            got = f"{config.fold} with split = {config.split}"
            expected = "auto, stratified, blocked or grouped"
            expected += "; for folds of people name unseen-people" * (config.split == "unseen")
    if got:
        raise ConfigError(f"{where}: fold: got {got}, expected {expected}")
    if config.unseen_labels and config.split == "unseen" and not config.unseen_people:
        raise ConfigError(
            f"{where}: unseen-labels: got {config.unseen_labels} without names, expected "
            "unseen-people beside it: a device has to know that it is one of them"
        )


def _check_best_by(config: RunConfig, where: str) -> None:
    """Refuse to choose among rounds where there is nothing to choose between."""
    got = ""
    if config.split == "unseen":
        got = "split = unseen, where people are tested that join in the last rounds"
    elif max(1, config.evaluate_every) >= config.rounds:
        got = f"{config.rounds} rounds with evaluate-every = {config.evaluate_every}"
    if got:
        raise ConfigError(
            f"{where}: best-by = validation: got {got}, expected two or more evaluated rounds, in "
            "all of which the same people are tested. Set best-by = last, or change the other"
        )


def _check_secure(config: RunConfig, where: str) -> None:
    """Refuse what needs single uploads, beside secure aggregation."""
    plain, few = "float32", config.clients_per_round
    sums = {name: METHODS[name].sums for name in config.methods}
    unfit = [one.refuses(config.hyper[name]) for name, one in sums.items() if one]
    got, expected = "", ""
    if alone := [name for name, one in sums.items() if one is None]:
        known = ", ".join(name for name, card in METHODS.items() if card.sums)
        got = f"{', '.join(alone)} among the methods, whose server looks at each person's upload"
        expected = f"only methods among {known}"
    elif config.robust_settings.filters:
        got = f"robust = {config.robust}, whose filters compare single uploads"
        expected = "robust = none"
    elif (config.upload_encoding, config.download_encoding) != (plain, plain):
        got = f"encodings {config.upload_encoding} up and {config.download_encoding} down"
        expected = f"{plain} both ways: a sum's numbers are whole ones of 32 bits"
    elif config.standardise == "federation-median":
        got = "standardise = federation-median, whose medians are of each person's own numbers"
        expected = "standardise = federation, whose sums are enough, or client or none"
    elif 0 < few < config.secure_least:
        got = f"clients-per-round = {few}"
        expected = f"secure-least = {config.secure_least} at least, or 0, which is all"
    why = f"{got}, expected {expected}" if got else next(filter(None, unfit), "")
    if why:
        raise ConfigError(f"{where}: secure-aggregation = true: got {why}")


def _check_noise(config: RunConfig, where: str) -> None:
    """Refuse what tells of single people beside means with noise, or has none of them."""
    got, expected = "", ""
    if others := [name for name in config.methods if METHODS[name].sums != MEANS]:
        known = ", ".join(name for name, card in METHODS.items() if card.sums == MEANS)
        got = f"{', '.join(others)} among the methods, whose devices are sent more than means"
        expected = f"only methods among {known}"
    elif config.robust_settings.filters:
        got = f"robust = {config.robust}, by which one person moves what others count for"
        expected = "robust = none: dp-clip bounds what each person adds"
    elif config.standardise not in ("client", "none"):
        got = f"standardise = {config.standardise}, which all devices learn without noise"
        expected = "standardise = client or none"
    if got:
        raise ConfigError(f"{where}: dp-noise: got {got}, expected {expected}")


def _check_participation(config: RunConfig, where: str) -> None:
    """Refuse ways of asking people that do nothing, or that a protection or encoding excludes."""
    check_going_on(config, where)
    given = {
        "asynchronous = true": config.asynchronous,
        f"late-hours = {config.late_hours:g}": config.late_hours > 0,
        f"ask = {config.ask:g}": config.ask > 1,
        f"draw = {config.draw}": config.draw != DRAWS[0],
    }
    chosen = [text for text, on in given.items() if on]
    late = config.asynchronous or config.late_hours > 0
    expected = ""
    if chosen and config.secure_aggregation:
        expected = "rounds that all who are asked take part in: no secure-aggregation beside it"
    elif late and config.dp_noise:
        expected = "rounds whose people are drawn: what late uploads spend of epsilon is not known"
    elif late and "delta" in config.upload_encoding:
        expected = "an upload-encoding without delta: what a late difference is from is forgotten"
    elif config.asynchronous and not config.late_hours:
        expected = "late-hours above 0: every upload may be late"
    elif chosen and chosen != [f"late-hours = {config.late_hours:g}"]:
        expected = "" if config.clients_per_round else "clients-per-round above 0"
    if expected:
        raise ConfigError(f"{where}: got {', '.join(chosen)}, expected {expected}")


def _check_nothing_alone(
    config: RunConfig, plain: SecureSettings | NoiseSettings, where: str, beside: str, why: str
) -> None:
    """Refuse options of a protection without it: people would think that it holds."""
    for each in fields(plain):
        if (got := getattr(config, each.name)) != getattr(plain, each.name):
            raise ConfigError(
                f"{where}: {each.name.replace('_', '-')}: got {got} {why}, where it does nothing; "
                f"expected {beside} beside it"
            )


def _check_method(config: RunConfig, name: str, where: str) -> None:
    """Refuse a method whose phases do not fit the run, or that shows what nobody agreed to show."""
    card, hyper = METHODS[name], config.hyper[name]
    if config.dynamic and card.weak.resizes and (got := _kept_in_one_size(config, name)):
        raise ConfigError(
            f"{where}: capacity-mode = dynamic: got {got}, expected nothing that a device of "
            f"{name!r} keeps over rounds: its model has another size in each"
        )
    if config.loss != CROSS_ENTROPY and card.trains and "loss" in card.training.ignores:
        raise ConfigError(
            f"{where}: loss: got {config.loss!r} with {name!r}, which has a loss of its own, "
            f"expected {CROSS_ENTROPY}. Leave it out, or take the method out"
        )
    for need in card.needs:
        if not getattr(hyper, need):
            raise ConfigError(
                f"{where}: method {name!r} needs people's consent: {card.privacy} Set "
                f"{name}.{need.replace('_', '-')} = true where they agreed"
            )
    try:
        card.check(hyper, config.rounds)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error


def _kept_in_one_size(config: RunConfig, name: str) -> str:
    """Return which option lets devices keep something of a model over rounds; "" if none."""
    if config.hyper[name].smooth:
        return f"{name}.smooth = {config.hyper[name].smooth}"
    if config.best_by == "validation":
        return "best-by = validation"
    return "norm = local" if config.norm == "local" else ""
