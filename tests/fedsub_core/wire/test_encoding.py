"""Encodings are lists of filters, in any order."""

import pytest

from fedsub_core.errors import ConfigError
from fedsub_core.wire.encoding import Encoding, WireSettings, parse_encoding


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", Encoding()),
        ("float32", Encoding()),
        (" , ", Encoding()),
        ("bfloat16", Encoding("bfloat16")),
        ("zstd, int8 ,delta", Encoding("int8", delta=True, zstd=True)),
        ("int8,delta,zstd", Encoding("int8", delta=True, zstd=True)),
        ("top-k:0.25,delta", Encoding(delta=True, top_k=0.25)),
        ("delta,top-k:1,float32,zstd", Encoding(delta=True, zstd=True)),
        ("top-k:1", Encoding()),
    ],
)
def test_filters_come_in_any_order(text: str, wanted: Encoding) -> None:
    assert parse_encoding(text) == wanted


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("int4", "unknown 'int4'. Did you mean 'int8'"),
        ("delta,bfloat", "unknown 'bfloat'. Did you mean 'bfloat16'"),
        ("detla", "Did you mean 'delta'"),
        ("zst", "Did you mean 'zstd'"),
        ("top-k", "Did you mean 'top-k:SHARE'"),
        ("INT8", "unknown 'INT8'"),
        ("gzip", "Known: float32, bfloat16, int8, delta, top-k:SHARE, zstd"),
        ("int8,float32", "one number format at most"),
        ("int8,int8", "one number format at most"),
        ("top-k:0.5,zstd", "needs delta"),
        ("delta,top-k:0", r"share in \(0, 1\]"),
        ("delta,top-k:1.1", r"share in \(0, 1\]"),
        ("delta,top-k:-1", r"share in \(0, 1\]"),
        ("delta,top-k:nan", r"share in \(0, 1\]"),
        ("delta,top-k:", r"share in \(0, 1\]"),
        ("delta,top-k:a", r"share in \(0, 1\]"),
    ],
)
def test_a_bad_list_is_refused_with_a_hint(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse_encoding(text)


def test_both_directions_have_encodings_of_their_own() -> None:
    wire = WireSettings.parse("int8,delta,top-k:0.5", "delta,zstd", 1000, 5.0)
    assert wire.upload == Encoding("int8", delta=True, top_k=0.5)
    assert wire.download == Encoding(delta=True, zstd=True)
    assert (wire.limit, wire.largest) == (1000, 5.0)


@pytest.mark.parametrize(
    ("upload", "download", "complaint"),
    [
        ("delta", "delta,top-k:0.5", "download-encoding: top-k is for uploads"),
        ("int8", "delta", "download-encoding: delta needs delta in upload-encoding"),
        ("int9", "", "Did you mean 'int8'"),
    ],
)
def test_directions_that_do_not_fit_are_refused(upload: str, download: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        WireSettings.parse(upload, download, 0, 1.0)


@pytest.mark.parametrize(
    ("text", "feeds_back"), [("", False), ("zstd", False), ("delta", True), ("int8", True)]
)
def test_a_device_keeps_a_reference_only_where_it_needs_one(text: str, feeds_back: bool) -> None:
    assert parse_encoding(text).feeds_back == feeds_back
