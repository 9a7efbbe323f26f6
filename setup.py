"""Where the packages' files lie; everything else about the project stands in pyproject.toml.

The data sets' cards are package data: in a wheel they are ``fedsub_data/cards/``, in a checkout the
folder ``datasets/``. That one must not be a package itself: it would shadow Hugging Face's.
"""

from setuptools import find_packages, setup

PACKAGES = ["fedsub", "fedsub_data", "fedsub_server", "strategies", "fedsub_client", "fedsub_core"]
CARDS = "fedsub_data.cards"

setup(
    packages=[*find_packages(include=[f"{p}*" for p in PACKAGES]), CARDS],
    package_dir={CARDS: "datasets"},
    package_data={CARDS: ["*/*.toml", "*/*.md"], **{package: ["py.typed"] for package in PACKAGES}},
)
