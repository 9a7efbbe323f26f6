"""Bytes up and the F1 they cost, for every relevance rule and encoding, on real federations.

    python benchmarks/bytes.py [--data ../shared/data/wisdm ...] [--rounds 60] [--rules lrp-a2b1]

Bytes are per client and round, as multiples of the full model in float32. With `dbi` nearly every
cluster is one client and what is uploaded hardly matters; so clusters are `dbi-capped` and fused by
`overlapping-any`, which mixes people for real and shows what a lossy encoding costs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from fedsub.report.results import summarise_method
from fedsub_core.wire.memory import Memory
from fedsub_core.wire.rows import remember_rows

from fedsub.engines.simulation import build_grid, build_strategy, train_method
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation
from fedsub_core.data.sources import load_federation
from fedsub_core.methods.table import RELEVANCE_RULES
from fedsub_core.wire.codec import decode_upload, encode_upload
from fedsub_core.wire.encoding import parse_encoding
from fedsub_core.wire.envelope import Envelope
from fedsub_server.rundb import RunDatabase

ENCODINGS = (
    "float32",
    "float32,zstd",
    "delta,zstd",
    "bfloat16",
    "delta,bfloat16,zstd",
    "int8",
    "delta,int8,zstd",
    "delta,top-k:0.5,int8,zstd",
    "delta,top-k:0.25,int8,zstd",
)
FUSED = {"fedsub.k-selection": "dbi-capped", "fedsub.fusion": "overlapping-any"}


def results(data: str, rounds: int, rules: list[str]) -> None:
    """Print bytes and F1 of every rule and encoding on one federation."""
    people = load_federation(data)
    print(f"\n{data}: {len(people.clients)} clients, {rounds} rounds, split auto, seed 0")
    columns = ("papers", "union", "payload", "Flower", "macro F1", "loss")
    print(f"{'rule':9} {'upload-encoding':28}" + "".join(f"{c:>9}" for c in columns))
    for rule in rules:
        for encoding in ENCODINGS:
            keys = {"fedsub.relevance": rule, "upload-encoding": encoding, "rounds": rounds}
            config = read_config(None, {"data": data, "beside": "", **FUSED, **keys})
            with tempfile.TemporaryDirectory() as folder:
                train_method(config, "fedsub", people, Path(folder), lambda round: None)
                with RunDatabase(Path(folder) / "state.db") as database:
                    s = summarise_method(database, None)
                    full = mean(database, "bytes_full_model")
                    flower = mean(database, "bytes_up_flower") / full
            numbers = (s.full_models_up_papers, s.full_models_up_union, s.full_models_up_sent)
            cells = "".join(f"{n:9.3f}" for n in (*numbers, flower, s.macro_f1, s.loss))
            print(f"{rule:9} {encoding:28}{cells}", flush=True)


def mean(database: RunDatabase, metric: str) -> float:
    """Return the mean of a metric over clients and rounds."""
    return float(np.mean([row.value for row in database.metrics(metric)]))


def speed(people: Federation) -> None:
    """Print what encoding and decoding take, against a round and against ``np.save``."""
    config = read_config(None, {"beside": "", "device": "cpu", **FUSED})
    grid, strategy = build_grid(config, "fedsub", people), build_strategy(config, "fedsub")
    strategy.open(grid, 60)
    seconds = []
    for round in range(1, 6):
        start = time.perf_counter()
        strategy.play(grid, round, 60, evaluated=True)
        seconds.append(time.perf_counter() - start)
    a_round, model = float(np.median(seconds)), grid.cohorts[0].learner.model
    uploads = []
    for cohort in grid.cohorts:
        everyone = range(len(cohort.clients))
        opened = [
            strategy.downloads({**strategy.state}, [c.client], model)[0] for c in cohort.clients
        ]
        uploads += cohort.fit(6, strategy.federation.scaling, everyone, opened)
    rows = [layer.rows for upload in uploads for layer in upload.layers.values()]
    size = sum(array.nbytes for array in rows)
    start = time.perf_counter()
    with tempfile.TemporaryFile() as file:
        for array in rows:
            np.save(file, array)
        file.seek(0)
        for _ in rows:
            np.load(file)
    saved = time.perf_counter() - start
    print(f"\n{len(uploads)} uploads, {size / 1e6:.1f} MB of rows, one thread")
    print(f"a round of CohortGrid takes {a_round:.3f} s")
    print(f"{'upload-encoding':28} {'encode':>9} {'decode':>9} {'GB/s both':>9} {'of a round':>10}")
    print(f"{'np.save and np.load':28} {'':>9} {'':>9} {size / saved / 1e9:9.2f}")
    size_of_prototype = strategy.prototype_size(model)
    for text in ENCODINGS:
        encoding = parse_encoding(text)
        keeps = encoding.feeds_back
        ours = [Memory.empty(model) if keeps else None for _ in uploads]
        theirs = [Memory.empty(model) if encoding.delta else None for _ in uploads]
        encode = decode = 0.0
        for round in (1, 2):  # the second has a reference, and is what every later round costs
            start = time.perf_counter()
            sent = [
                encode_upload(u, "c", round, encoding, m)
                for u, m in zip(uploads, ours, strict=True)
            ]
            encode = time.perf_counter() - start
            start = time.perf_counter()
            for data, memory in zip(sent, theirs, strict=True):
                got = decode_upload(data, Envelope("c", round, model, size_of_prototype, memory))
                if memory is not None:
                    remember_rows(memory, got.layers, round)
            decode = time.perf_counter() - start
        both = encode + decode
        print(
            f"{text:28} {1e3 * encode:6.1f} ms {1e3 * decode:6.1f} ms {size / both / 1e9:9.2f} "
            f"{both / a_round:10.1%}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    both = ["../shared/data/wisdm", "../shared/data/wesad"]
    parser.add_argument("--data", nargs="*", default=both)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--rules", nargs="*", default=list(RELEVANCE_RULES))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    speed(load_federation(arguments.data[0]))
    for data in arguments.data:
        results(data, arguments.rounds, arguments.rules)


if __name__ == "__main__":
    main()
