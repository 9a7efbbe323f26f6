"""The compiled relevance pass equals the eager one, and its absence is said once."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from fedsub_client.learners.fedsub import compiled as compiled_module
from fedsub_client.learners.fedsub import relevance as relevance_module
from fedsub_client.learners.fedsub.compiled import compiled_pass
from fedsub_client.learners.fedsub.lrp import signed_parts
from fedsub_client.learners.fedsub.relevance import block_samples, unit_relevance
from fedsub_client.learners.fedsub.relevance_pass import class_sums
from fedsub_core.data.stacks import Stack, stack
from fedsub_core.models.kinds import build_model, mlp

ROOT = Path(__file__).parents[4]
CLASSES = 4


def random_stack(shape: tuple[int, ...], counts: tuple[int, ...]) -> Stack:
    rng = np.random.default_rng(1)
    xs = [rng.normal(size=(n, *shape)).astype(np.float32) for n in counts]
    ys = [rng.integers(0, CLASSES, n) for n in counts]
    return stack([f"c{i}" for i in range(len(counts))], xs, ys)


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let torch.compile trace and run what it traced: no machine code, so it takes no compiler."""
    monkeypatch.setattr(compiled_module, "_PASSES", {})
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    torch._dynamo.reset()


@pytest.mark.parametrize("start", ["logits", "target"])
@pytest.mark.parametrize("rule", ["naive", "lrp-a1b0", "lrp-a2b1"])
@torch.no_grad()
def test_a_compiled_pass_gives_the_eager_sums(tracer: None, rule: str, start: str) -> None:
    model, data = mlp(5, CLASSES, (16, 80)), random_stack((5,), (40,))
    parts = signed_parts(model.init(1, 0))
    fast = compiled_pass(model, parts, data.x, 30, rule, start)
    assert fast is not None
    assert compiled_pass(model, parts, data.x, 99, rule, start) is fast, "compiled once"
    of_class = F.one_hot(data.y, CLASSES).float()
    with torch._dynamo.config.patch(error_on_recompile=True):
        for samples in (2, 7, 40):
            x, one_hot = (one[0, :samples].unsqueeze(0) for one in (data.x, of_class))
            sums, logits = fast(parts, x, one_hot)
            expected, expected_logits = class_sums(model, parts, x, one_hot, rule, start)
            assert torch.equal(logits, expected_logits)
            assert len(sums) == 3 and all(map(torch.equal, sums, expected))


def test_relevance_takes_it_for_every_block_of_more_than_one_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = mlp(5, CLASSES, (16, 80))
    size = block_samples(model)
    blocks: list[int] = []

    def noted(model: Any, parts: Any, x: Any, samples: int, rule: str, start: str) -> Any:
        assert samples == size

        def run(parts: Any, x: torch.Tensor, of_class: torch.Tensor) -> Any:
            blocks.append(x.shape[1])
            return class_sums(model, parts, x, of_class, rule, start)

        return run

    monkeypatch.setattr(relevance_module, "compiled_pass", noted)
    data = random_stack((5,), (2 * size, 1, 30))
    params = model.init(3, 0)
    eager, _ = unit_relevance(model, params, data, "lrp-a2b1", "logits")
    assert not blocks
    same, _ = unit_relevance(model, params, data, "lrp-a2b1", "logits", compile=True)
    assert blocks == [size, size, 30]
    assert all(torch.equal(eager[name], same[name]) for name in eager)


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
    assert all(compiled_module._PASSES.values()), "this machine compiles nothing"
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
        from fedsub_core.models.kinds import mlp
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


def test_a_compiler_that_fails_is_tried_once_a_pass_and_reported_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[bool] = []

    def broken(function: Any, fullgraph: bool) -> Any:
        tried.append(fullgraph)
        raise RuntimeError("no\nmore lines")

    monkeypatch.setattr(compiled_module, "_PASSES", {})
    monkeypatch.setattr(torch, "compile", broken)
    model, data = mlp(5, CLASSES, (16,)), random_stack((5,), (9,))
    parts = signed_parts(model.init(1, 0))
    with caplog.at_level(logging.WARNING, "fedsub"):
        for rule in ("lrp-a2b1", "lrp-a2b1", "lrp-a1b0"):
            assert compiled_pass(model, parts, data.x, 9, rule, "logits") is None
    assert tried == [True, True]
    said = [r.getMessage() for r in caplog.records if r.name == "fedsub"]
    assert said == ["relevance runs uncompiled, with the same results: RuntimeError: no"]
