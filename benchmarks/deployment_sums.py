"""What secure sums cost over a real connection: seconds, CPU, memory and bytes, beside plain runs.

Two runs of `deployment_scale.py`'s deployment, one after the other: plain, and with
`secure-aggregation`. Devices are light: they have trained before. They do their part in the sums as
devices do, but no program is started for a message. Bytes are those of all calls that devices make,
looks for messages among them.
"""

import tempfile
from itertools import product
from statistics import median

from deployment_scale import Measured, arguments_of, configured, measured
from light_rehearsal import PARTS
from script import put_lines

from fedsub_core.options import Value

TINY = ["--devices", "3", "--rounds", "2", "--look", "0.5", "--minutes", "4"]
TINY += ["--methods", "fedavg"]
#: Two deployments come up, however tiny.
SLOW = True
LINES = ("fedavg, 3 people:", "fedavg with secure sums, 3 people:")
#: What is measured of a run, and how it is written.
COLUMNS = (
    ("a round, s", ".1f"), ("all rounds, s", ".0f"), ("CPU s a round: server", ".2f"),
    ("all devices", ".2f"), ("peak MiB: SuperLink", ".0f"), ("peak, ServerApp", ".0f"),
    ("kB up, a person and round", ".1f"), ("kB down", ".1f"),
)  # fmt: skip
HEAD = (
    "method", "people", *(name for name, _ in COLUMNS), "times plain: seconds a round",
    "server's CPU", "sums opened", "messages lost", "rounds",
)  # fmt: skip
#: What a method needs in runs of sums; plain runs have it, too.
OWN: dict[str, dict[str, Value]] = {
    "fedsub": {"fedsub.k-selection": "fixed:1", "fedsub.fusion": "avg"}
}
#: Of the columns, those that are compared with the plain run's.
SECONDS, SERVER = 0, 2


def numbers(found: Measured, devices: int) -> list[float]:
    """Return a run's numbers, in the order of `COLUMNS`."""
    course, processes = found.course, found.processes
    each = devices * len(course.ends) * 1e3
    return [
        median(course.seconds[1:]),
        course.taken,
        sum(course.cpu_a_round(part) for part in PARTS),
        course.cpu_a_round("devices"),
        *(processes.peak[part] for part in PARTS),
        processes.up / each,
        processes.down / each,
    ]


def line_of(name: str, devices: int, found: Measured, plain: Measured) -> list[str]:
    """Return a run's line of the table but for its date."""
    own, other = numbers(found, devices), numbers(plain, devices)
    failed = ("refused_replies", "missing_replies", "secure_lost")
    return [
        name,
        str(devices),
        *(f"{number:{form}}" for (_, form), number in zip(COLUMNS, own, strict=True)),
        *(f"{own[i] / other[i]:.1f}" for i in (SECONDS, SERVER)),
        f"{found.counted.get('secure_people', 0.0) / devices:g}",
        f"{sum(found.counted.get(metric, 0.0) for metric in failed):.0f}",
        str(len(found.course.ends)),
    ]


def main() -> None:
    arguments = arguments_of(TINY, [10, 30, 100], ["fedavg", "fedsub-ridge"])
    for method, devices in product(arguments.methods, arguments.devices):
        plain: Measured | None = None
        for sums in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                # A plain run, too, is as secure sums need it.
                keys: dict[str, Value] = {"robust": "none", "standardise": "client"}
                keys |= {"secure-aggregation": sums, **OWN.get(method, {})}
                config = configured(method, arguments, folder, **keys)
                found = measured(config, devices, arguments.look, 60 * arguments.minutes)
            name, plain = f"{method} with secure sums" if sums else method, plain or found
            line = line_of(name, devices, found, plain)
            said = "; ".join(f"{n} {text}" for n, text in zip(HEAD[2:], line[2:], strict=True))
            print(f"{name}, {devices} people: {said}", flush=True)
            put_lines(arguments.out, HEAD, [line], 2)


if __name__ == "__main__":
    main()
