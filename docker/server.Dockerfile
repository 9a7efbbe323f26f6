# The server's image: SuperLink, the SuperExec that runs the ServerApp, and Flower's command line.
#
# For linux/amd64 and linux/arm64 alike: what decides is that the base image and every wheel with
# compiled code (torch, grpcio, numpy, scipy, cryptography, ...) are published for both. Only our
# own kernels are compiled. Both at once: docker buildx build --platform linux/amd64,linux/arm64 ...
#
# To pin the base to the byte: PYTHON_IMAGE=python:3.11.14-slim-bookworm@sha256:... (README.md)
ARG PYTHON_IMAGE=python:3.11.14-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
# The CPU build. PyPI's torch for amd64 brings gigabytes of CUDA. TORCH_SHA256: what the wheel must
# have; empty: whatever that index has.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG TORCH_SHA256=""
# Flower 1.39, whose SuperNodes speak gRPC; images-1.42.lock: 1.42, with HTTP.
ARG LOCK=images.lock
WORKDIR /src
# For the compiled kernels; it stays behind in this stage.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
RUN python -m venv --without-pip /opt/venv
# All that may be installed is fetched here, by its hashes. The steps below reach no index.
COPY constraints.txt docker/images*.lock ./
RUN pip download --no-cache-dir --no-deps --only-binary :all: --dest /wheels --require-hashes \
    --requirement "${LOCK}" \
    && pip download --no-cache-dir --no-deps --only-binary :all: --dest /wheels \
    --constraint constraints.txt --index-url "${TORCH_INDEX}" torch \
    && if [ -n "${TORCH_SHA256}" ]; then \
    echo "${TORCH_SHA256}  $(echo /wheels/torch-*.whl)" > torch.sha256 \
    && sha256sum --check torch.sha256; fi
COPY requirements.txt ./
RUN pip --python /opt/venv/bin/python install --no-cache-dir --no-index --find-links /wheels \
    --requirement requirements.txt
COPY . .
# Versions are those of the wheels that were fetched.
# hadolint ignore=DL3013
RUN pip --python /opt/venv/bin/python install --no-cache-dir --no-index --find-links /wheels \
    ".[run]"

FROM ${PYTHON_IMAGE}
# Any user may run this. No account goes with it, so HOME and USER, which libraries ask for, are
# stated.
ENV PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    USER=fedsub \
    FLWR_HOME=/tmp/flwr \
    FLWR_TELEMETRY_ENABLED=0 \
    FLWR_DISABLE_UPDATE_CHECK=1 \
    FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION=1 \
    OMP_NUM_THREADS=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
COPY --from=build /opt/venv /opt/venv
# New volumes take over owner and mode of the folders.
# /app/fedsub: the Flower app that `flwr run` sends; it only names the packages installed here.
RUN install -d -m 1777 /link /runs \
    && fedsub deploy app --out /app/fedsub --set out=/runs
WORKDIR /app
USER 10001:10001
# No HEALTHCHECK: one image has three roles, and only the SuperLink answers. compose.yml has it.
CMD ["fedsub-superlink", "--help"]
