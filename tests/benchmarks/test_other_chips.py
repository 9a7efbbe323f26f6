"""libfedsub on processors that are emulated here has the bits that this machine has."""

import runpy
import shutil
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["aarch64", "riscv64"])
def test_an_emulated_processor_has_the_same_bits(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    script = runpy.run_path(str(FOLDER / "other_chips.py"))
    chip, qemu = script["CHIPS"][name], script["QEMU"]
    if chip.machine and not shutil.which(f"qemu-{chip.machine}-static", path=str(qemu)):
        pytest.skip("no QEMU here: `make other-chips` gets it")
    command = script["command_of"](chip, tmp_path, qemu)
    numbers, differ = script["apart"](command, chip.fused, epochs=1)
    levels, wrong = script["differing"](command, 9, script["SHAPES"][:3])
    assert numbers > 90_000 and levels > 10_000 and not differ and not wrong
