"""Compiled relevance equals eager relevance, and its absence is said once."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from fedsub_client.learners.fedsub import compiled as compiled_module
from fedsub_client.learners.fedsub.relevance import unit_relevance
from fedsub_core.data.stacks import Stack, stack
from fedsub_core.models.chain import build_model

ROOT = Path(__file__).parents[4]
CLASSES = 4


def random_stack(shape: tuple[int, ...], counts: tuple[int, ...]) -> Stack:
    rng = np.random.default_rng(1)
    xs = [rng.normal(size=(n, *shape)).astype(np.float32) for n in counts]
    ys = [rng.integers(0, CLASSES, n) for n in counts]
    return stack([f"c{i}" for i in range(len(counts))], xs, ys)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(5,), (3, 40)])
def test_compiled_equals_eager_from_two_threads(shape: tuple[int, ...]) -> None:
    model, data = build_model("auto", shape, CLASSES), random_stack(shape, (700, 40))
    params = model.init(2, 0)
    eager, logits = unit_relevance(model, params, data, "lrp-a2b1", "logits")
    with ThreadPoolExecutor(2) as pool:
        runs = list(
            pool.map(
                lambda _: unit_relevance(model, params, data, "lrp-a2b1", "logits", True), range(4)
            )
        )
    assert all(compiled_module._FUNCTIONS.values()), "this machine compiles nothing"
    with torch._dynamo.config.patch(error_on_recompile=True):  # one compilation serves any stack
        other = random_stack(shape, (1, 300, 5))
        runs += [unit_relevance(model, params, data, "lrp-a2b1", "logits", True)]
        unit_relevance(model, model.init(3, 0), other, "lrp-a2b1", "logits", True)
    for fast, fast_logits in runs:
        torch.testing.assert_close(fast_logits, logits, rtol=1e-6, atol=1e-6)
        for name, relevance in eager.items():
            assert (fast[name] - relevance).abs().max() <= 1e-6 * relevance.abs().max()


def test_without_a_compiler_it_stays_eager_and_says_so_once(tmp_path: Path) -> None:
    script = """
        import logging, torch
        logging.basicConfig(level=logging.WARNING, format="LOG %(name)s %(message)s")
        from fedsub_client.learners.fedsub.relevance import unit_relevance
        from fedsub_core.models.chain import mlp
        from fedsub_core.data.stacks import stack
        import numpy as np
        torch.set_num_threads(1)
        x = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
        data, model = stack(["a"], [x], [np.arange(30) % 3]), mlp(5, 3, (16,))
        params = model.init(1, 0)
        for rule in ("lrp-a2b1", "lrp-a1b0", "lrp-a2b1"):
            slow, _ = unit_relevance(model, params, data, rule, "logits")
            fast, _ = unit_relevance(model, params, data, rule, "logits", compile=True)
            assert all(torch.equal(slow[k], fast[k]) for k in slow)
        print("DONE")
    """
    hidden = {
        **os.environ,
        "CXX": str(tmp_path / "no-such-compiler"),
        "PATH": str(tmp_path),
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env=hidden, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "DONE" in done.stdout
    lines = [line for line in done.stderr.splitlines() if line.startswith("LOG fedsub ")]
    assert len(lines) == 1, done.stderr
    assert "uncompiled" in lines[0]


def test_a_compiler_that_fails_is_reported_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled_module, "_FUNCTIONS", {})

    def broken() -> None:
        raise RuntimeError("no")

    with caplog.at_level(logging.WARNING, "fedsub"):
        assert compiled_module.compiled("test-broken", broken, ()) is None
        assert compiled_module.compiled("test-broken", broken, ()) is None
        assert compiled_module.compiled("another", broken, ()) is None
    assert len([r for r in caplog.records if r.name == "fedsub"]) == 1
