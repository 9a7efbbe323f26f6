"""docs/wire-format.md says what the code does: the schema's tables, the codec's bytes."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsub_core.methods.table import method
from fedsub_core.models.kinds import mlp
from fedsub_core.wire.bundles import Bits, Bundle, Declaration, Floats, Part
from fedsub_core.wire.codec import (
    Address,
    decode_download,
    decode_upload,
    encode_download,
    encode_upload,
)
from fedsub_core.wire.encoding import Encoding
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.references import Reference
from fedsub_core.wire.v2 import exchange_pb2 as pb

from .wire_format_page import DOCUMENT

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = (ROOT / "proto" / "fedsub" / "v2" / "exchange.proto").read_text(encoding="utf-8")
MODEL, CARD = mlp(1, 2, hidden=(2,)), method("fedsub")
SENDS = CARD.sends(MODEL, CARD.hyperparameters())
RECEIVES = CARD.receives(MODEL, CARD.hyperparameters())
MESSAGES = re.findall(r"^message (\w+) \{\n(.*?)^\}", SCHEMA, re.M | re.S)
FORMATS = re.findall(r"^\| (\w+) \| (true|false) \| `([0-9a-f ]+)` \|(.*)\|$", DOCUMENT, re.M)


def block(kind: str) -> str:
    """Return the text of the fenced block that is labelled `kind`."""
    found = re.findall(rf"^```{kind}\n(.*?)^```", DOCUMENT, re.M | re.S)
    assert len(found) == 1
    return str(found[0])


def stated_bytes(direction: str) -> bytes:
    """Return the bytes left of the annotations."""
    return b"".join(
        bytes.fromhex(line.split("|")[0]) for line in block(f"hex {direction}").splitlines()
    )


def stated_part(values: dict[str, Any]) -> Part:
    if "bits" in values:
        return Bits(np.array(values["bits"], np.bool_))
    numbers = np.array(values["values"], np.float32)
    return (
        Floats.rows(np.array(values["units"], np.bool_), numbers)
        if "units" in values
        else Floats(numbers)
    )


def stated(direction: str) -> tuple[Bundle, Address]:
    """Return the bundle in words, and whom it is from or to."""
    values = json.loads(block(f"json {direction}"))
    tensors = {name: stated_part(part) for name, part in values["tensors"].items()}
    bundle = Bundle(values.get("examples", 0), values["version"], tensors)
    return bundle, Address(values["client"], values["round"])


def assert_as_stated(got: Bundle, direction: str) -> None:
    wanted, _ = stated(direction)
    assert (got.examples, got.version) == (wanted.examples, wanted.version)
    assert got.tensors.keys() == wanted.tensors.keys()
    for name, part in got.tensors.items():
        assert vars(part).keys() == vars(wanted.tensors[name]).keys()
        for attribute, array in vars(part).items():
            np.testing.assert_array_equal(array, vars(wanted.tensors[name])[attribute])


def envelope(direction: str, declared: Declaration, reference: Reference | None = None) -> Envelope:
    _, address = stated(direction)
    return Envelope(address.client, address.round, declared, reference)


@pytest.mark.parametrize(("message", "body"), MESSAGES, ids=[name for name, _ in MESSAGES])
def test_every_message_is_tabled_with_exactly_its_fields(message: str, body: str) -> None:
    fields = re.findall(r"^  ((?:repeated )?\w+) (\w+) = (\d+);", body, re.M)
    rows = re.findall(rf"^\| {message} \| (\d+) \| `(\w+)` \| ([\w ]+) \| \S", DOCUMENT, re.M)
    assert fields
    assert rows == [(number, name, kind) for kind, name, number in fields]
    # A field that the pattern above missed would go undocumented.
    assert len(fields) == len(pb.DESCRIPTOR.message_types_by_name[message].fields)


def test_every_message_and_number_format_is_described() -> None:
    assert {name for name, _ in MESSAGES} == set(pb.DESCRIPTOR.message_types_by_name)
    section = DOCUMENT.split("## Number formats\n")[1].split("\n#")[0]
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", section, re.M)
    assert [(name, int(number)) for number, name in rows] == pb.NumberFormat.items()


def test_the_stated_upload_has_the_stated_bytes_and_back() -> None:
    upload, address = stated("upload")
    data = encode_upload(upload, address, SENDS)
    assert data.hex(" ") == stated_bytes("upload").hex(" ")
    assert_as_stated(decode_upload(data, envelope("upload", SENDS)), "upload")


def test_the_stated_download_has_the_stated_bytes_and_back() -> None:
    download, address = stated("download")
    data = encode_download(download, address, RECEIVES)
    assert data.hex(" ") == stated_bytes("download").hex(" ")
    assert_as_stated(decode_download(data, envelope("download", RECEIVES)), "download")


@pytest.mark.parametrize("direction", ["upload", "download"])
def test_annotations_name_what_stands_in_the_bytes(direction: str) -> None:
    message = pb.Bundle.FromString(stated_bytes(direction))
    notes = block(f"hex {direction}")
    for tensor in message.tensors:
        assert f'tensors, {tensor.ByteSize()} bytes; name: "{tensor.name}"' in notes
    shapes = re.findall(r"shape: (\[[\d, ]+\])", notes)
    assert [json.loads(shape) for shape in shapes] == [list(t.shape) for t in message.tensors]
    lengths = [int(n) for n in re.findall(r"values, (\d+) bytes", notes)]
    floats = [t for t in message.tensors if t.name != "classes" and not t.name.endswith(".masks")]
    assert lengths == [len(t.values) for t in floats]


def test_all_formats_are_shown() -> None:
    shown = {(numbers, differences) for numbers, differences, _, _ in FORMATS}
    assert shown == {(n, d) for n, _ in pb.NumberFormat.items() for d in ("false", "true")}


@pytest.mark.parametrize(("numbers", "differences", "values", "scales"), FORMATS)
def test_the_row_has_the_stated_bytes_in_every_format(
    numbers: str, differences: str, values: str, scales: str
) -> None:
    reference = Reference.empty(SENDS)
    upload, sent = stated("upload")
    reference.remember(upload, sent.round)
    encoding = Encoding(numbers.lower(), delta=differences == "true")
    download, address = stated("download")
    data = encode_download(download, address, RECEIVES, encoding, reference)
    message = pb.Bundle.FromString(data)
    (tensor,) = message.tensors
    assert tensor.values.hex(" ") == values
    assert tensor.scales.hex(" ") == scales.strip(" `")
    assert (message.reference, message.differences) == (3, differences == "true")
    got = decode_download(data, envelope("download", RECEIVES, reference))
    np.testing.assert_allclose(got.floats("linear1"), [[2.5, 0.125]], rtol=1e-6)
