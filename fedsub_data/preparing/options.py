"""What can be chosen of each data set's preparer.

The options stand apart from the preparers, which take NumPy, pandas and more: who asks what there
is to choose need not wait for those.
"""

from dataclasses import dataclass
from typing import Any

from fedsub_core.options import choice, option
from fedsub_data.catalogue.installed import installed_data_set


@dataclass(frozen=True)
class NothingToChoose:
    """Of sets that are prepared in one way."""


@dataclass(frozen=True)
class DREAMTOptions:
    """How DREAMT's nights become windows."""

    window_s: float = option(30.0, "length of a window, in seconds", minimum=1.0, maximum=3600.0)
    overlap: float = option(
        0.5, "share of a window that the next one repeats", minimum=0.0, maximum=0.99
    )
    labels: str = choice("sleep-wake", "stages", doc="classes: Sleep and Wake, or the five stages")


@dataclass(frozen=True)
class HHAROptions:
    """How HHAR's recordings become windows, and who is a client."""

    features: str = choice(
        "mean",
        "stats",
        "raw",
        doc="mean of each axis (mean); also std, min and max (stats); or signals at 50 Hz (raw)",
    )
    clients: str = choice("person", "device", doc="a client is a person, or a person's phone")
    window_s: float = option(1.0, "length of a window, in seconds", minimum=0.1, maximum=60.0)
    gap_s: float = option(
        0.5, "longest time without a row inside a window, in seconds", above=0.0, maximum=60.0
    )


@dataclass(frozen=True)
class PAMAP2Options:
    """How PAMAP2's recordings become windows."""

    features: str = choice("raw", "stats", doc="the signals, or mean, std, min and max of each")
    window_s: float = option(5.12, "length of a window, in seconds", minimum=0.1, maximum=600.0)
    overlap: float = option(
        0.5, "share of a window that the next one repeats", minimum=0.0, maximum=0.99
    )
    heart_rate: bool = option(False, "add the heart rate as a channel")
    repair_s: float = option(
        0.1, "longest gap of lost packets that is interpolated, in seconds", minimum=0.0
    )


@dataclass(frozen=True)
class UCIHAROptions:
    """How UCI-HAR becomes a federation."""

    features: str = choice(
        "signals",
        "561",
        doc="the 9 signals of each window, or the 561 official features, which were scaled to "
        "-1 .. 1 over all people together",
    )


@dataclass(frozen=True)
class WESADOptions:
    """Which of WESAD's devices, and how its recordings are cut into windows."""

    signals: str = choice("chest", "wrist", doc="the device whose signals are used")
    window_s: float = option(
        0.0,
        "seconds in a window; 0: 10,000 samples (14.29 s) on the chest, 60 s on the wrist",
        minimum=0,
        maximum=600,
    )
    overlap: float = option(
        0.5, "share of a window that the next one repeats", minimum=0, maximum=0.95
    )


@dataclass(frozen=True)
class WISDMOptions:
    """How WISDM becomes a federation."""

    features: str = choice(
        "mean",
        "stats",
        "raw",
        "transformed",
        doc="mean of each axis (the paper's), also std, min, max (stats), the windows' samples "
        "(raw), or the official file of features of 10 s (transformed)",
    )
    window_s: float = option(
        1.0, "length of a window in seconds; not for transformed", minimum=0.1, maximum=60
    )
    overlap: float = option(
        0.0,
        "share of a window that the next one repeats; not for transformed",
        minimum=0,
        maximum=0.95,
    )
    missing: str = choice(
        "columns", "rows", doc="what to drop from the transformed file if peaks are missing"
    )


#: A data set's name in the catalogue: its preparer's module, and the options of that.
PREPARERS: dict[str, tuple[str, type[Any]]] = {
    "dreamt": ("fedsub_data.preparing.dreamt", DREAMTOptions),
    "hhar": ("fedsub_data.preparing.hhar.preparer", HHAROptions),
    "pamap2": ("fedsub_data.preparing.pamap2", PAMAP2Options),
    "uci-har": ("fedsub_data.preparing.uci_har.preparer", UCIHAROptions),
    "watch": ("fedsub_data.preparing.watch", NothingToChoose),
    "wesad": ("fedsub_data.preparing.wesad.preparer", WESADOptions),
    "wisdm": ("fedsub_data.preparing.wisdm.preparer", WISDMOptions),
}


def options_of(name: str) -> type[Any]:
    """Return the options of the preparer of a data set of the catalogue."""
    return PREPARERS[name][1] if name in PREPARERS else installed_data_set(name).options
