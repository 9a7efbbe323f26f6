"""The command line of one person's model: ``fedsub predict``, ``fedsub export``."""

from pathlib import Path

import click

from fedsub.commands.as_json import AS_JSON, print_json
from fedsub.commands.declared import options_of
from fedsub.commands.predicted_samples import Answers, Classes, Values
from fedsub.commands.recordings import (
    AnswersAsked,
    answers_asked,
    is_recording,
    predict_recordings,
)
from fedsub.commands.whose_model import ModelAsked, run_of, whose_model
from fedsub.recordings.reading import READING
from fedsub_core.errors import ConfigError
from fedsub_data.importing.options import ImportOptions

_FORCE = click.option("--force", is_flag=True, help="replace an existing file")
_ENDINGS = (".csv", ".npz")


@click.command(short_help="Use a person's model on new samples.")
@whose_model
@click.option(
    "--input",
    "inputs",
    multiple=True,
    required=True,
    metavar="FILE",
    help="npz with x [n, *features], in the units of the training data and not standardised; "
    "images and token ids as in the training data. Or recordings, CSV, TSV or Parquet: files, "
    "folders, patterns, or - for CSV from standard input",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help=".csv, or .npz with probabilities, label and classes, or values of a target [default: "
    "CSV, printed]",
)
@AS_JSON
@_FORCE
@answers_asked
@options_of(ImportOptions, only=READING)
def predict(
    whose: ModelAsked,
    inputs: tuple[str, ...],
    output: Path | None,
    as_json: bool,
    force: bool,
    asked: AnswersAsked,
    **reading: str | None,
) -> None:
    """Predict the class of each sample, or of each window of recordings; or a target's values.

    Takes a person's model where a simulation left it, or a device's state: then it needs no server,
    and leaves the state as it is. Samples far from all that the model was trained on are said.

    A recording has a column for each of the model's channels. It is read as `fedsub data import`
    reads one, and cut as the training data were. Each window gets a row with its class, its
    probability, and its start and end in the recording's own time. A summary in minutes follows.
    """
    from fedsub_client.loaded_model import load_model
    from fedsub_client.new_samples import read_samples
    from fedsub_core.files import check_new, write_whole

    if output is not None:
        if as_json:
            raise ConfigError(
                "got --json and --output, expected only one: --json prints to standard output"
            )
        if output.suffix not in _ENDINGS:
            ending = repr(output.suffix) if output.suffix else "none"
            raise ConfigError(f"{output}: got ending {ending}, expected {' or '.join(_ENDINGS)}")
        check_new(output, force)
    options = {key.replace("_", "-"): value for key, value in reading.items() if value is not None}
    own = load_model(whose.place(), whose.model, whose.encoder)
    if is_recording(inputs):
        predict_recordings(own, inputs, asked, options, output, as_json, force)
        return
    if needless := [*asked.given, *(f"--{key}" for key in options)]:
        raise ConfigError(
            f"{inputs[0]}: got {', '.join(needless)} with an npz file of samples, expected it with "
            "recordings alone"
        )
    samples = Path(inputs[0])
    given = read_samples(samples)
    found = own.probabilities(given["x"], str(samples), given.get("edges"))
    whose_it_is = {"client": own.client, "method": own.method, "round": own.round}
    answers: Answers = Classes(found, own.card.classes)
    if own.card.target is not None:
        answers = Values(found[:, 0], own.card.target)
    if as_json:
        print_json({**whose_it_is, **answers.json()})
        return
    if output is None:
        click.echo(answers.csv(), nl=False)
        return
    write_whole(output, answers.npz() if output.suffix == ".npz" else answers.csv().encode())
    about = f"client {own.client}, {own.method}'s model of round {own.round}"
    click.echo(f"{about}: {len(found):,} predictions: {output}")


@click.command(short_help="Write a person's model for other programs.")
@whose_model
@click.option(
    "--format",
    type=click.Choice(("onnx", "torchscript", "safetensors")),
    help="of a person's model; onnx needs: pip install 'fedsub[export]'",
)
@click.option("--output", type=click.Path(path_type=Path), required=True, help="the file to write")
@click.option(
    "--bundle",
    is_flag=True,
    help="windows: write a new folder, or a .zip, with the model, card.json, and answer.py, which "
    "answers for a recording without FedSub",
)
@click.option(
    "--capacity",
    metavar="SHARE",
    help="the model that a device of this capacity, such as 1/4, would get from the run, by the "
    "method's own rule if it has one; else the first units of the person's model",
)
@click.option(
    "--newcomers",
    is_flag=True,
    help="instead of a person's model: what `fedsub adapt` needs of a finished run, sums over "
    "everybody and nothing of single people",
)
@_FORCE
def export(
    whose: ModelAsked,
    format: str | None,
    output: Path,
    bundle: bool,
    capacity: str | None,
    newcomers: bool,
    force: bool,
) -> None:
    """Write a person's model as one file that can be used without FedSub.

    ONNX and TorchScript files take x [batch, *features] in the units of the training data, and give
    probabilities [batch, classes]. x is float32; images of bytes are uint8, token ids int64. A
    safetensors file has the parameters, and the classes, features, standardisation and architecture
    as metadata.
    """
    if newcomers:
        _export_newcomers(whose, bool(format or capacity or bundle), output, force)
        return
    if format is None:
        raise click.UsageError("Missing option '--format'.")

    from fedsub.export.formats import export as write_model
    from fedsub_client.loaded_model import load_model
    from fedsub_core.config.capacities import EXPECTED
    from fedsub_core.data.samples import Pixels, Tokens
    from fedsub_core.options import read_share

    where, share = whose.place(), None
    if capacity is not None and (share := read_share(capacity)) is None:
        raise ConfigError(f"--capacity: got {capacity!r}, expected {EXPECTED}")
    own = load_model(where, whose.model, whose.encoder)
    if share is not None:
        from fedsub.export.weak import weak_model  # it builds what a server holds: other packages

        own = weak_model(own, share, None if whose.state else run_of(where), whose.named)
    if bundle:
        from fedsub.export.bundle import write_bundle as write_model  # a device lacks its packages
    difference = write_model(own, format, output, force)
    checked = (
        "not checked: onnxruntime is not installed"
        if difference is None
        else f"read back, probabilities differ by {difference:.1g} at most"
    )
    shape = ", ".join(map(str, own.shape))
    of = {Pixels: ", uint8", Tokens: ", int64"}.get(type(own.shape), "")
    about = f"client {own.client}, {own.method}'s model of round {own.round}"
    about += "" if share is None else f" for a device of capacity {share:g}"
    click.echo(f"{about}, x [batch, {shape}]{of}: {checked}: {output}")


def _export_newcomers(whose: ModelAsked, more: bool, output: Path, force: bool) -> None:
    """Write what newcomers need of a finished run."""
    from fedsub.newcomers.finished_run import FinishedRun
    from fedsub.newcomers.newcomers_file import FEWEST, write_newcomers
    from fedsub_server.run_folder import humanise_bytes

    if whose.run is None or more or whose.client or whose.state or whose.model:
        raise ConfigError(
            "--newcomers: got no --run, or --client, --state, --format, --capacity, --bundle or "
            "--model, expected --run FOLDER, and --method where the run's main one is another"
        )
    run = FinishedRun(whose.run, whose.method)
    given = write_newcomers(run, output, force)
    few = [
        repr(name)
        for name, people in zip(given.classes, run.summed.holders, strict=True)
        if 0 < people < FEWEST
    ]
    if few:
        click.echo(f"Of fewer than {FEWEST} people are the sums of {', '.join(few)}.", err=True)
    size = humanise_bytes(output.stat().st_size)
    click.echo(f"{given.settings.method}, sums over {given.people} people, {size}: {output}")
