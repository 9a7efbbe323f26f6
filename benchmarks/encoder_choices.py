"""Which features in front of heads in closed form: chosen on training data alone.

Federations are named with the share of the labels that is kept. Each one's training part is divided
once more, as a study divides it to choose values; nobody's test part is looked at. `fedsub-ridge`
solves heads on every encoder's features of one part; the table says how they do on the other. A
body is an MLP that all train by FedAvg for `--rounds` rounds; its last hidden layer then stands
beside the inputs.
"""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from encoder_draws import Encode, Kernels, Units, clipped
from numpy.typing import NDArray
from script import REAL, put_rows, read_arguments
from trained import first_people, metrics_of

from fedsub.engines.simulation import build_grid, build_strategy, split_clients
from fedsub.studies.tuning import tuning_run
from fedsub_client.parts.embeddings import embeddings
from fedsub_core.config.run_config import RunConfig, read_config
from fedsub_core.data.federation import Federation
from fedsub_core.data.standardise import Scaling, apply, median_pool, moments, scaling
from fedsub_core.data.windows import window_seconds
from fedsub_core.encoders.build import build_encoder
from fedsub_core.encoders.encoder import FULL, UNIT, quantised
from fedsub_core.encoders.names import GROUPS, WHOLE_GROUPS
from fedsub_core.encoders.relu_encoder import OF_INPUT, OF_UNIT
from fedsub_core.models.kinds import build_model
from fedsub_core.options import Value

ALL = ["uci-har:0.05", "wisdm-windows:0.2", "wesad:1", "wisdm-stats:0.2", "uci-har-stats:0.05"]
BODY = "inputs and a body trained together"
TINY = ["--data", "wisdm-windows:0.2", "wesad:1", "--clients", "2", "--rounds", "1", "--tiny-size"]
LINES = ("wisdm-windows kernels:2 ", "wesad relu:0 ", f"wesad {BODY} ")

#: Close to as many features as those that are used, 500 and 450.
WINDOWS: dict[str, str | Encode] = {
    **{f"kernels:{n}": f"kernels:{n}" for n in (25, 50, 100, 200)},
    **{text: text for text in (f"kernels:100+{name}" for name in (*GROUPS, WHOLE_GROUPS))},
    "thresholds within 0.25": Kernels(100, within=0.25),
    "thresholds within 0.5": Kernels(100, within=0.5),
    "thresholds within 2": Kernels(100, within=2.0),
    "1 threshold, maximum": Kernels(250, thresholds=1),
    "9 thresholds, maximum": Kernels(50, thresholds=9),
    "4 thresholds, no maximum": Kernels(125, maximum=False),
    "maximum alone": Kernels(500, thresholds=0),
    "7 weights": Kernels(100, length=7),
    "13 weights": Kernels(100, length=13),
    "normal weights": Kernels(100, normal=True),
}
VECTORS: dict[str, str | Encode] = {
    **{f"relu:{n}": f"relu:{n}" for n in (0, 100, 450, 1000)},
    **{f"ranks:{n}": f"ranks:{n}" for n in (225, 450, 900)},
    "relu of 1 input": Units(450, 1),
    "relu of 1 or 2": Units(450, 2),
    "relu of 1 to 8": Units(450, 8),
    "relu of all": Units(450, 0),
    "products of two": Units(450, kind="product"),
    "cosines of 1 to 3": Units(450, kind="cosine"),
    "cosines of all": Units(450, 0, "cosine"),
}
FEW: dict[int, dict[str, str | Encode]] = {
    2: {"kernels:2": "kernels:2", "normal weights": Kernels(2, normal=True)},
    1: {"relu:0": "relu:0", "cosines of all": Units(3, 0, "cosine")},
}


def scored(on: Federation, run: RunConfig) -> tuple[float, float]:
    """Return everybody's mean macro F1 and loss after the last round, %, nats."""
    rows = [row for row in metrics_of(run, on) if row.label is None]
    f1, loss = (
        float(np.mean([row.value for row in rows if row.metric == name]))
        for name in ("macro_f1", "loss")
    )
    return 100 * f1, loss


def shared_scaling(on: Federation, run: RunConfig) -> Scaling:
    """Return the federation's standardisation, from what people train on."""
    people = split_clients(run.split_settings, on)
    return scaling(median_pool([moments(one.train_x) for one in people]))


def encoded(on: Federation, scale: Scaling, encode: Encode) -> Federation:
    """Return a federation of features, whose levels ``relu:0`` gives back as they are."""
    clients = {}
    for name, data in on.clients.items():
        levels = encode(quantised(apply(scale, data.x)))
        clients[name] = replace(data, x=levels.astype(np.float32) * np.float32(OF_INPUT / FULL))
    window_s = window_seconds(next(iter(on.clients.values())), on.card)
    features = tuple(f"feature {i}" for i in range(levels.shape[1]))
    card = replace(on.card, features=features, sampling_rate_hz=None, window_s=window_s)
    return Federation(card, clients)


def body(on: Federation, run: RunConfig, rounds: int) -> Encode:
    """Return inputs beside the last hidden layer of an MLP that people train together."""
    config = replace(run, method="fedavg", encoder="none", lr=0.05)
    config = replace(config, rounds=rounds, evaluate_every=rounds)
    grid, strategy = build_grid(config, "fedavg", on), build_strategy(config, "fedavg")
    strategy.start(grid)
    grid.close()
    shape = next(iter(on.clients.values())).x.shape[1:]
    model = build_model("mlp", shape, len(on.card.classes))
    assert strategy.state is not None
    params = {name: strategy.state[name][None] for name in model.parameter_shapes}

    def embedded(steps: NDArray[np.int16]) -> NDArray[np.float64]:
        x = torch.from_numpy(steps.astype(np.float32) / UNIT)[None]
        found: NDArray[np.float64] = embeddings(model, params, x)[0].numpy().astype(np.float64)
        return found

    scale, inputs = shared_scaling(on, run), Units(0)
    people = split_clients(run.split_settings, on)
    trained = [embedded(quantised(apply(scale, one.train_x))) for one in people]
    spread = np.concatenate(trained).std(0) + 1e-6
    return lambda steps: np.hstack(
        [inputs(steps), clipped(FULL / OF_UNIT * embedded(steps) / spread)]
    )


def table(name: str, share: float, args: Namespace) -> None:
    """Print, and write, how encoders do on one federation's validation parts."""
    keys: dict[str, Value] = {
        "method": "fedsub-ridge", "beside": "", "data": name, "train-share": share,
        "split": "blocked", "rounds": 3, "evaluate-every": 3, "threads": 1,
    }  # fmt: skip
    on, run = tuning_run(first_people(f"{REAL}/{name}", args.clients), read_config(None, keys))
    shape = next(iter(on.clients.values())).x.shape[1:]
    scale = shared_scaling(on, run)
    ways = FEW[len(shape)] if args.tiny_size else WINDOWS if len(shape) == 2 else VECTORS
    if len(shape) == 1:
        ways = {**ways, BODY: body(on, run, args.rounds)}
    if args.only:
        ways = {label: way for label, way in ways.items() if label in args.only}
    as_they_are = replace(run, encoder="relu:0", standardise="none")
    for label, way in ways.items():
        if isinstance(way, str):
            encoder = build_encoder(way, run.seed, shape)
            assert encoder is not None
            f1, loss = scored(on, replace(run, encoder=way))
            count = encoder.features
        else:
            features = encoded(on, scale, way)
            f1, loss = scored(features, as_they_are)
            count = len(features.card.features)
        print(f"{name} {label:36} {count:5} {f1:6.1f} {loss:6.3f}", flush=True)
        line = {"data": f"{name}:{share:g}", "encoder": label, "features": count}
        line |= {"macro F1, %": f"{f1:.1f}", "loss": f"{loss:.3f}"}
        put_rows(args.csv, [line], ["data", "encoder"])


def main() -> None:
    arguments = read_arguments(
        TINY,
        data=ALL,
        rounds=(60, "of FedAvg for the body"),
        clients=(0, "the first ones alone; 0 = all"),
        only=([str], "encoders by their names in the table"),
        csv=Path,
        tiny_size=(False, "few features"),
    )
    torch.set_num_threads(1)
    print("data, features: how many, macro F1 (%), loss on the validation part")
    for text in arguments.data:
        name, _, share = text.partition(":")
        table(name, float(share or 1), arguments)


if __name__ == "__main__":
    main()
