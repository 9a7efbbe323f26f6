"""Encodings are lists of filters, in any order."""

from __future__ import annotations

import pytest

from fedsub_core.errors import ConfigError
from fedsub_core.wire.encoding import Encoding, parse_encoding


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
