#!/usr/bin/env bash
# Run the wheel for arm64 on another processor, by emulation: its kernels' tests, then a short run.
#
#     .ci/arm64.sh [FOLDER]        # minutes to a quarter of an hour; wants Debian 12 and qemu-user
#
# It fetches, into FOLDER alone (a temporary one by default): Debian's Python 3.11 for arm64 by apt
# (16 MB), and wheels for arm64 by pip (300 MB). Nothing of it is installed. No part of .ci/run.
set -euo pipefail
cd "$(dirname "$0")/.."

# 2.13's wheel for arm64 wants CUDA's libraries; this one computes without.
torch=torch==2.10.0
# What a run and these tests import.
packages="alembic annotated-doc annotated-types anyio attrs certifi cffi charset-normalizer click
    cloudpickle contourpy cryptography cycler fastapi filelock flwr fonttools fsspec greenlet grpcio
    grpcio-health-checking h11 httpcore httpx hypothesis idna iniconfig iterators jinja2 joblib
    kiwisolver mako markdown-it-py markupsafe matplotlib mdurl mpmath narwhals networkx numpy
    packaging pathspec pillow pluggy prompt-toolkit protobuf pycparser pycryptodome pydantic
    pydantic-core pygments pyparsing pytest python-dateutil pyyaml requests rich safetensors
    scikit-learn scipy shellingham sortedcontainers sqlalchemy starlette sympy threadpoolctl tomli
    tomli-w tqdm typer typing-extensions typing-inspection urllib3 uvicorn wcwidth zstandard"

command -v qemu-aarch64 >/dev/null || { echo "no qemu-aarch64: apt-get install qemu-user" >&2; exit 1; }
venv=${VENV:-.venv}
make -s "$venv/dev.installed" "$venv/wheels.installed"
if [ $# -gt 0 ]; then
    mkdir -p "$1"
    place=$(cd "$1" && pwd)
else
    place=$(mktemp -d)
    trap 'rm -rf "$place"' EXIT
fi

step() { printf '\n== %s\n' "$*"; }

step "Python for arm64"
mkdir -p "$place"/apt/state/lists/partial "$place"/apt/cache/archives/partial "$place"/root
touch "$place/apt/state/status"
# Lists, packages and what counts as installed are of this folder: the system's stay as they are.
cat > "$place/apt/apt.conf" <<CONF
Dir::State "$place/apt/state";
Dir::State::status "$place/apt/state/status";
Dir::Cache "$place/apt/cache";
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "root";
CONF
export APT_CONFIG="$place/apt/apt.conf"
apt-get update -qq
apt-get install -qq -y --download-only --no-install-recommends python3.11 libgomp1 libstdc++6 >/dev/null
unset APT_CONFIG
for deb in "$place"/apt/cache/archives/*.deb; do dpkg -x "$deb" "$place/root"; done

step "wheels for arm64"
# In the versions that are installed here, which fit together.
here=$("$venv/bin/pip" freeze)
chosen=()
for name in $packages; do
    chosen+=("$(grep -iE "^${name//-/[-_.]}==" <<<"$here")")
done
platforms=()
for glibc in 17 24 26 27 28; do platforms+=(--platform "manylinux_2_${glibc}_aarch64"); done
"$venv/bin/pip" download -q --no-deps --only-binary=:all: --python-version 3.11 \
    --implementation cp --abi cp311 --abi abi3 --abi none "${platforms[@]}" \
    --platform manylinux2014_aarch64 -d "$place/wheels" "${chosen[@]}" "$torch"
rm -rf "$place/dist" "$place/site"
"$venv/bin/python" .ci/wheels.py --out "$place/dist" --machines aarch64
for wheel in "$place"/wheels/*.whl "$place"/dist/*aarch64.whl; do
    "$venv/bin/python" -m zipfile -e "$wheel" "$place/site"
done

# The tests lie beside nothing of the checkout, so that they import the wheel.
mkdir -p "$place/tests"
cp -r tests pyproject.toml "$place/tests"
cd "$place/tests"
python() {
    qemu-aarch64 -L "$place/root" -E PYTHONPATH="$place/site" -E OMP_NUM_THREADS=1 \
        "$place/root/usr/bin/python3.11" "$@"
}

step "the kernels load, and their tests"
python -c "
from fedsub_core.kernels import library
found = library.kernels()
assert found and found.variant == 'portable', found
print('kernels', found.variant, found.source)"
python -m pytest -q -p no:cacheprovider tests/fedsub_core/kernels \
    tests/fedsub_core/encoders/test_statistics.py -k 'not sanitised and not building'

step "a run"
python -m fedsub run --data watch --method fedsub --beside local,fedsub-ridge --rounds 2 --no-report
