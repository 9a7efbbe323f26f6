"""What methods reached and what they cost, as rows of text, a method each."""

from collections.abc import Sequence

from fedsub.report.frame import Frame
from fedsub.report.recovery import LATER, Recovery
from fedsub.report.rows import NONE, Rows, memory, milliseconds, number
from fedsub_server.run_folder import humanise_bytes
from fedsub_server.tables import with_own_heads


def reached(frame: Frame) -> Rows:
    """Return the scores of methods, over people in the last evaluated round."""
    if frame.score == "mae":
        return errors(frame)
    names = ("macro_f1_p10", "macro_f1_std", "macro_f1_min", "macro_f1_max", "weighted_f1")
    rows = []
    for one in with_own_heads([trace.summary for trace in frame.traces]):
        rows.append(
            (
                one.method,
                number(one.macro_f1)
                + ("" if one.macro_f1_ci95 is None else f" ± {one.macro_f1_ci95:.3f}"),
                *(number(getattr(one, name)) for name in (*names, "accuracy", "loss")),
                one.tested_words or NONE,
                NONE if one.evaluated_round is None else str(one.evaluated_round),
                str(one.clients) + (f" of {one.people}" if one.people > one.clients else ""),
            )
        )
    head = ("method", "macro F1 ± 95 %", "worst decile", "std", "min", "max", "weighted F1",
            "accuracy", "loss", "tested model", "round", "people")  # fmt: skip
    caption = (
        "Means over people who have test samples, everybody alike, in the last evaluated round; "
        "± is half the 95 % interval (Student t), the worst decile the 10th percentile"
    )
    return Rows(caption, head, rows, (9,))


def errors(frame: Frame) -> Rows:
    """Return the errors of methods at a target, over people in the last evaluated round."""
    rows = []
    for one in (trace.summary for trace in frame.traces):
        each = [getattr(one, name) for name in ("mae", "mae_std", "mae_min", "mae_max", "rmse")]
        r2 = number(one.r2) + (f" (of {one.r2_clients})" if one.r2_clients < one.clients else "")
        last = NONE if one.evaluated_round is None else str(one.evaluated_round)
        people = str(one.clients) + (f" of {one.people}" if one.people > one.clients else "")
        row = (*map(number, each), r2, number(one.loss), one.tested_words or NONE, last, people)
        rows.append((one.method, *row))
    head = ("method", "MAE", "std", "min", "max", "RMSE", "R2", "loss", "tested model", "round",
            "people")  # fmt: skip
    caption = (
        "Means over people who have test samples, everybody alike, in the last evaluated round; "
        "errors in the target's unit; R2 of people whose test samples differ in the target"
    )
    return Rows(caption, head, rows, (8,))


def by_capacity(frame: Frame) -> Rows | None:
    """Return the scores of people of each capacity; None where all hold everything."""
    rows = [
        (
            trace.method,
            share,
            f"{facts['people']:g}",
            *(number(facts.get(name)) for name in frame.scores),
        )
        for trace in frame.traces
        for share, facts in trace.summary.by_capacity.items()
    ]
    names = ("MAE", "R2") if frame.score == "mae" else ("macro F1", "accuracy")
    head = ("method", "capacity", "people", *names, "loss")
    caption = (
        "Means over the people whose devices hold as much of the model, in the last evaluated round"
    )
    return Rows(caption, head, rows) if rows else None


def costs(frame: Frame) -> Rows:
    """Return the costs of methods: bytes of a client in a round, time of all rounds."""
    rows = []
    for trace in frame.traces:
        ways = ("bytes_up_sent", "bytes_down_sent", "bytes_evaluation_sent")
        sent = (humanise_bytes(trace.bytes[w]) if w in trace.bytes else NONE for w in ways)
        models = (trace.summary.full_models_up_sent, trace.summary.full_models_down_sent)
        rows.append(
            (
                trace.method,
                *sent,
                *map(number, models),
                f"{trace.summary.seconds:,.1f}",
                milliseconds(trace.summary.server_milliseconds),
                memory(trace.summary.memory),
                f"{trace.rounds} of {trace.wanted}",
            )
        )
    head = ("method", "bytes up", "bytes down", "down to evaluate", "models up", "models down",
            "seconds", "server, ms", "memory", "rounds done")  # fmt: skip
    caption = (
        "Bytes of a client in a round, on average, and the same in full float32 models; seconds "
        "of all rounds together; milliseconds of a round that the method's own server half took; "
        "the most memory that the process held, data and libraries included"
    )
    return Rows(caption, head, rows)


def recovered(found: Sequence[Recovery], of: str) -> Rows:
    """Return the rounds that brought data, and what followed; `of` says in which seed."""
    rows = [
        (
            one.method,
            str(one.round),
            str(one.people),
            number(one.before),
            number(one.drop),
            "not before the next" if one.rounds is None else str(one.rounds),
            number(one.new),
            number(one.later),
        )
        for one in found
    ]
    head = ("method", "round", "people with more data", "macro F1 before", "drop",
            "rounds until it is back", "F1 of classes that came",
            f"{LATER} rounds later")  # fmt: skip
    title = "Rounds in which people were tested on more data than before"
    return Rows(title + of, head, rows)
