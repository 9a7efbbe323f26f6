"""The data sets of pictures, texts and graphs: where each one's card, preparer and options are."""

from pathlib import Path
from typing import Any

from fedsub_data.catalogue.installed import DataSet
from fedsub_data.preparing.options import NothingToChoose
from fedsub_papers.preparing.options import (
    AGNewsOptions,
    CIFAR100Options,
    DigitsOptions,
    GraphOptions,
    PACSOptions,
    TinyImageNetOptions,
)


def _of(name: str, module: str, options: type[Any] = NothingToChoose) -> DataSet:
    card = Path(__file__).parent / "datasets" / name
    return DataSet(card, f"fedsub_papers.preparing.{module}", options)


AG_NEWS = _of("ag-news", "texts.ag_news", AGNewsOptions)
CIFAR10 = _of("cifar10", "pictures.cifar10")
CIFAR100 = _of("cifar100", "pictures.cifar100", CIFAR100Options)
CITESEER = _of("citeseer", "graphs.citeseer", GraphOptions)
CORA = _of("cora", "graphs.cora", GraphOptions)
DIGITS = _of("digits", "pictures.digits", DigitsOptions)
MNIST = _of("mnist", "pictures.mnist")
OGBN_ARXIV = _of("ogbn-arxiv", "graphs.ogbn_arxiv")
PACS = _of("pacs", "pictures.pacs", PACSOptions)
SVHN = _of("svhn", "pictures.svhn")
TINY_IMAGENET = _of("tiny-imagenet", "pictures.tiny_imagenet", TinyImageNetOptions)
USPS = _of("usps", "pictures.usps")
