"""Where the packages' files lie; everything else about the project stands in pyproject.toml.

Compiled kernels are built where there is a compiler, and left out where there is none, or where
FEDSUB_KERNELS=off asks for a wheel for any machine. They are a module beside the packages
(``fedsub_core/kernels/library.py`` says why).

The data sets' cards are package data: in a wheel they are ``fedsub_data/cards/``, in a checkout the
folder ``datasets/``. That one must not be a package itself: it would shadow Hugging Face's.
"""

import os
import sysconfig
from hashlib import blake2b
from pathlib import Path

from setuptools import Extension, find_packages, setup

PACKAGES = ["fedsub", "fedsub_data", "fedsub_server", "strategies", "fedsub_client", "fedsub_core"]
# What they do not know: they are whole where its folder is not.
WINGS = [wing for wing in ["fedsub_papers"] if Path(wing).exists()]
PACKAGES += WINGS
CARDS = "fedsub_data.cards"
# Found by a name of its own (``fedsub_core/data/watch.py`` says why).
WATCH = "fedsub_watch"
TEMPLATE = "fedsub.new_method"
LAYOUTS = "fedsub_data.importing"
KERNELS = Path("fedsub_core/kernels")
SOURCES, HEADERS = (sorted(map(str, KERNELS.glob(f"*.{kind}"))) for kind in "ch")
# Sums keep their order; products are fused with them where the processor can.
FLAGS = ["-O3", "-std=gnu11", "-ffp-contract=fast"]
FLAGS += ["-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"]
DIGEST = blake2b(b"".join(Path(f).read_bytes() for f in SOURCES + HEADERS), digest_size=5)
# One module for all versions of Python but those without the lock.
LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")
# Left out where it cannot be compiled.
COMPILED = Extension(
    "fedsub_kernels",
    SOURCES,
    depends=HEADERS,
    define_macros=[("FEDSUB_SOURCE", f'"{DIGEST.hexdigest()}"')],
    extra_compile_args=FLAGS,
    py_limited_api=LIMITED,
    optional=True,
)

LISTED = [] if os.environ.get("FEDSUB_KERNELS") == "off" else [COMPILED]

setup(
    packages=[*find_packages(include=[f"{p}*" for p in PACKAGES]), CARDS, WATCH],
    ext_modules=LISTED,
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LISTED and LIMITED else {},
    package_dir={CARDS: "datasets", WATCH: "datasets/watch"},
    package_data={
        CARDS: ["*/*.toml", "*/*.md"],
        WATCH: ["recordings.npz", "LICENSE"],
        TEMPLATE: ["template/**/*.template"],
        LAYOUTS: ["layouts/*.toml"],
        **{package: ["py.typed"] for package in PACKAGES},
        **{wing: ["py.typed", "datasets/*/*"] for wing in WINGS},
    },
    # Of its folder, these are among the cards.
    exclude_package_data={WATCH: ["*.toml", "*.md"]},
)
