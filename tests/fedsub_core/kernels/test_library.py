"""Kernels are found, chosen by the processor or the user, and can be left out."""

import logging
from functools import cache
from pathlib import Path

import pytest

from fedsub.testing.refusals import refused
from fedsub_core.errors import ConfigError
from fedsub_core.kernels import library
from fedsub_core.kernels.library import Kernels, kernels_source, switched_off


def find_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget, for one test, what was found: other tests' kernels stay what they are."""
    monkeypatch.setattr(library, "_found", cache(library._found.__wrapped__))


def test_the_best_of_this_processor_are_taken(kernels: Kernels) -> None:
    assert kernels.variant in ("avx512", "avx2", "portable")
    assert len(kernels.source) == 10 and int(kernels.source, 16)
    assert library.kernels() is kernels


def test_a_user_chooses(kernels: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(library.VARIABLE, "portable")
    chosen = library.kernels()
    assert chosen and chosen.variant == "portable" and chosen.source == kernels.source
    monkeypatch.setenv(library.VARIABLE, "off")
    assert library.kernels() is None and kernels_source() == ""
    monkeypatch.setenv(library.VARIABLE, "avx51")
    with refused(ConfigError, "FEDSUB_KERNELS", got="'avx51'", expected="off"):
        library.kernels()


def test_they_are_switched_off_meanwhile(kernels: Kernels) -> None:
    with switched_off():
        assert library.kernels() is None
        with switched_off():
            pass
        assert library.kernels() is None
    assert library.kernels() is kernels


def test_those_without_fused_sums_are_other_code(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.VARIABLE, "portable")
    assert kernels_source() == f"{kernels.source}portable"


@pytest.mark.parametrize("what", ["layout", "source", "no library"])
def test_a_library_of_another_version_is_left(
    what: str,
    kernels: Kernels,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    if what == "layout":
        monkeypatch.setattr(library, "LAYOUT", library.LAYOUT + 1)
    if what == "source":
        monkeypatch.setattr(library, "_digest", lambda: "0123456789")
    if what == "no library":
        (tmp_path / "fedsub_none.abi3.so").write_text("nothing")
        monkeypatch.setattr(library, "MODULE", "fedsub_none")
        monkeypatch.syspath_prepend(tmp_path)
    find_anew(monkeypatch)
    assert library.kernels() is None
    assert "PyTorch computes everything" in caplog.records[0].message


def test_without_them_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(library, "MODULE", "none_such")
    find_anew(monkeypatch)
    with caplog.at_level(logging.INFO, "fedsub"):
        assert library.kernels() is None and library.kernels() is None
    assert [r.message for r in caplog.records] == [
        "no compiled kernels (none_such is not built): PyTorch computes everything"
    ]
