"""docs/wire-format.md says what the code does: the schema's tables, the codec's bytes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fedsub_core.wire.memory import Memory
from fedsub_core.wire.rows import remember_rows
from fedsub_core.wire.v1 import exchange_pb2 as pb

from fedsub_core.models.chain import mlp
from fedsub_core.wire.bundles import Download, UnitRows, Upload
from fedsub_core.wire.codec import decode_download, decode_upload, encode_download, encode_upload
from fedsub_core.wire.encoding import Encoding
from fedsub_core.wire.envelope import Envelope

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = (ROOT / "docs" / "wire-format.md").read_text(encoding="utf-8")
SCHEMA = (ROOT / "proto" / "fedsub" / "v1" / "exchange.proto").read_text(encoding="utf-8")
MODEL = mlp(1, 2, hidden=(2,))
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


def stated_layers(values: dict[str, Any]) -> dict[str, UnitRows]:
    return {
        name: UnitRows(np.array(x["units"], np.bool_), np.array(x["rows"], np.float32))
        for name, x in values["layers"].items()
    }


def stated_upload() -> tuple[Upload, dict[str, Any]]:
    values = json.loads(block("json upload"))
    classes = values["classes"]
    upload = Upload(
        examples=values["examples"],
        layers=stated_layers(values),
        masks={
            name: np.array([c["masks"][name] for c in classes], np.bool_)
            for name in values["layers"]
        },
        labels=np.array([c["label"] for c in classes], np.int64),
        scores=np.array([c["score"] for c in classes], np.float32),
        prototypes={c["label"]: np.array(c["prototype"], np.float32) for c in classes},
        prototype_version=values["prototype_version"],
    )
    return upload, values


def stated_download() -> tuple[Download, dict[str, Any]]:
    values = json.loads(block("json download"))
    return Download(stated_layers(values), {}, values["prototype_version"]), values


def layers_as_stated(layers: dict[str, UnitRows]) -> dict[str, Any]:
    return {n: {"units": x.units.tolist(), "rows": x.rows.tolist()} for n, x in layers.items()}


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


def test_the_stated_upload_has_the_stated_bytes() -> None:
    upload, values = stated_upload()
    assert encode_upload(upload, values["client"], values["round"]).hex(" ") == stated_bytes(
        "upload"
    ).hex(" ")


def test_the_stated_bytes_decode_to_the_stated_upload() -> None:
    _, values = stated_upload()
    envelope = Envelope(values["client"], values["round"], MODEL, prototype_size=1)
    got = decode_upload(stated_bytes("upload"), envelope)
    assert (got.examples, got.prototype_version) == (
        values["examples"],
        values["prototype_version"],
    )
    assert layers_as_stated(got.layers) == values["layers"]
    assert [
        {
            "label": label,
            "score": got.scores[i].item(),
            "prototype": got.prototypes[label].tolist(),
            "masks": {name: mask[i].tolist() for name, mask in got.masks.items()},
        }
        for i, label in enumerate(got.labels.tolist())
    ] == values["classes"]
    assert not got.dense


def test_the_stated_download_has_the_stated_bytes_and_back() -> None:
    download, values = stated_download()
    data = encode_download(download, values["client"], values["round"])
    assert data.hex(" ") == stated_bytes("download").hex(" ")
    got = decode_download(data, Envelope(values["client"], values["round"], MODEL))
    assert layers_as_stated(got.layers) == values["layers"]
    assert (got.prototype_version, got.reference) == (values["prototype_version"], 0)


def test_all_formats_are_shown() -> None:
    shown = {(numbers, differences) for numbers, differences, _, _ in FORMATS}
    assert shown == {(n, d) for n, _ in pb.NumberFormat.items() for d in ("false", "true")}


@pytest.mark.parametrize(("numbers", "differences", "rows", "scales"), FORMATS)
def test_the_row_has_the_stated_bytes_in_every_format(
    numbers: str, differences: str, rows: str, scales: str
) -> None:
    memory = Memory.empty(MODEL)
    upload, values = stated_upload()
    remember_rows(memory, upload.layers, values["round"])
    encoding = Encoding(numbers.lower(), delta=differences == "true")
    download, values = stated_download()
    data = encode_download(download, "ann", values["round"], encoding, memory)
    message = pb.Download()
    message.ParseFromString(data)
    (layer,) = message.layers
    assert layer.rows.hex(" ") == rows
    assert layer.scales.hex(" ") == scales.strip(" `")
    assert (message.reference, message.differences) == (3, differences == "true")
    envelope = Envelope("ann", values["round"], MODEL, memory=memory)
    got = decode_download(data, envelope).layers["linear1"].rows
    np.testing.assert_allclose(got, [[2.5, 0.125]], rtol=1e-6)
