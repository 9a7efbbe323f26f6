"""Bytes up and the F1 they cost, for every relevance rule and encoding, on real federations.

Bytes are per client and round, as multiples of the full model in float32. With `dbi` nearly every
cluster is one client and what is uploaded hardly matters; so clusters are `dbi-capped` and fused by
`overlapping-any`, which mixes people for real and shows what a lossy encoding costs. FedAvg, which
sends whole models, goes through the same encodings.
"""

import tempfile
import time
from collections.abc import Sequence

import numpy as np
import torch
from script import REAL, read_arguments
from trained import first_people, summary_of

from fedsub.engines.simulation import build_grid, build_strategy
from fedsub_core.config.run_config import read_config
from fedsub_core.data.federation import Federation
from fedsub_core.methods.fedsub import RELEVANCE_RULES
from fedsub_core.options import Value
from fedsub_core.wire.bundles import Bundle, Declaration, FloatArray, Floats
from fedsub_core.wire.codec import Address, decode_upload, encode_upload
from fedsub_core.wire.encoding import parse_encoding
from fedsub_core.wire.envelope import Envelope
from fedsub_core.wire.references import Reference

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
FUSED: dict[str, Value] = {"fedsub.k-selection": "dbi-capped", "fedsub.fusion": "overlapping-any"}
TINY = ["--data", f"{REAL}/wisdm", "--clients", "3", "--rounds", "2", "--rules", "naive"]
LINES = (*(f"{row:9} {encoding} " for row in ("naive", "fedavg") for encoding in ENCODINGS),)


def results(data: str, people: Federation, rounds: int, rules: Sequence[str]) -> None:
    """Print bytes and F1 of every rule and encoding on one federation, and of FedAvg."""
    print(f"\n{data}: {len(people.clients)} clients, {rounds} rounds, split auto, seed 0")
    columns = ("papers", "union", "payload", "Flower", "macro F1", "loss")
    print(f"{'rule':9} {'upload-encoding':28}" + "".join(f"{c:>9}" for c in columns))
    contenders = [("fedsub", rule, {**FUSED, "fedsub.relevance": rule}) for rule in rules]
    for method, row, own in (*contenders, ("fedavg", "fedavg", {})):
        for encoding in ENCODINGS:
            keys: dict[str, Value] = {"upload-encoding": encoding, "rounds": rounds, "beside": ""}
            keys["standardise"] = "federation"  # as the printed tables were measured
            s = summary_of(read_config(None, {"method": method, **own, **keys}), people)
            sizes = (s.full_models_up_papers, s.full_models_up_union, s.full_models_up_sent)
            numbers = (*sizes, s.full_models_up_flower, s.macro_f1, s.loss)
            cells = "".join(f"{'-':>9}" if n is None else f"{n:9.3f}" for n in numbers)
            print(f"{row:9} {encoding:28}{cells}", flush=True)


def uploads_of(people: Federation, method: str) -> tuple[list[Bundle], Declaration, float]:
    """Return everybody's uploads of round 6, their declaration, and the seconds of a round."""
    config = read_config(None, {"method": method, "beside": "", "device": "cpu", **FUSED})
    grid, strategy = build_grid(config, method, people), build_strategy(config, method)
    strategy.connect(grid)
    seconds = []
    for round in range(1, 6):
        start = time.perf_counter()
        strategy.run_round(grid, round, 60, evaluated=True)
        seconds.append(time.perf_counter() - start)
    assert strategy.state is not None
    turn, scaling = strategy.turn(6), strategy.population.agreed.scaling
    uploads: list[Bundle] = []
    for cohort in grid.cohorts:
        clients = [client.client for client in cohort.clients]
        received = strategy.half.downloads(strategy.state, strategy.round(6), clients)
        uploads += cohort.fit(turn, scaling, range(len(clients)), received)[0]
    grid.close()
    return uploads, strategy.models.sends(strategy.model), float(np.median(seconds))


def speed(people: Federation, method: str) -> None:
    """Print what encoding and decoding take, against a round and against ``np.save``."""
    uploads, sends, a_round = uploads_of(people, method)
    tensors: list[FloatArray] = [
        part.values
        for upload in uploads
        for name, part in upload.tensors.items()
        if isinstance(part, Floats) and not sends[name].exact
    ]
    size = sum(array.nbytes for array in tensors)
    start = time.perf_counter()
    with tempfile.TemporaryFile() as file:
        for array in tensors:
            np.save(file, array)
        file.seek(0)
        for _ in tensors:
            np.load(file)
    saved = time.perf_counter() - start
    print(f"\n{method}: {len(uploads)} uploads, {size / 1e6:.1f} MB of numbers, one thread")
    print(f"a round of CohortGrid takes {a_round:.3f} s")
    print(f"{'upload-encoding':28} {'encode':>9} {'decode':>9} {'GB/s both':>9} {'of a round':>10}")
    print(f"{'np.save and np.load':28} {'':>9} {'':>9} {size / saved / 1e9:9.2f}")
    for text in ENCODINGS:
        encode, decode = coding_seconds(uploads, sends, text)
        both = encode + decode
        print(
            f"{text:28} {1e3 * encode:6.1f} ms {1e3 * decode:6.1f} ms {size / both / 1e9:9.2f} "
            f"{both / a_round:10.1%}"
        )


def coding_seconds(uploads: Sequence[Bundle], sends: Declaration, text: str) -> tuple[float, float]:
    """Return the seconds of encoding and decoding all uploads once both hold a reference."""
    encoding = parse_encoding(text)
    ours = [Reference.empty(sends) if encoding.feeds_back else None for _ in uploads]
    theirs = [Reference.empty(sends) if encoding.delta else None for _ in uploads]
    encode = decode = 0.0
    for round in (1, 2):  # the second has a reference, and is what every later round costs
        start = time.perf_counter()
        sent = [
            encode_upload(upload, Address("c", round), sends, encoding, reference)
            for upload, reference in zip(uploads, ours, strict=True)
        ]
        encode = time.perf_counter() - start
        start = time.perf_counter()
        for data, reference in zip(sent, theirs, strict=True):
            got = decode_upload(data, Envelope("c", round, sends, reference))
            if reference is not None:
                reference.remember(got, round)
        decode = time.perf_counter() - start
    return encode, decode


def main() -> None:
    arguments = read_arguments(
        TINY,
        data=[f"{REAL}/wisdm", f"{REAL}/wesad"],
        rounds=60,
        rules=list(RELEVANCE_RULES),
        clients=(0, "the first ones alone; 0 = all"),
    )
    torch.set_num_threads(1)
    for method in ("fedsub", "fedavg"):
        speed(first_people(arguments.data[0], arguments.clients), method)
    for data in arguments.data:
        results(data, first_people(data, arguments.clients), arguments.rounds, arguments.rules)


if __name__ == "__main__":
    main()
