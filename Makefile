# `make run` and `make test` set everything up; they need Python 3.11+ and pip, nothing else.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# One thread per process and core: OpenMP teams fight over few cores.
export OMP_NUM_THREADS = 1
# Tests start hundreds of processes: each would compile our code anew where images forbid keeping it.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run flower test test-papers test-slow mutations cpu other-chips site wheels web lint clean

run: $(VENV)/run.installed
	$(BIN)/fedsub run datasets/watch/run.toml

# What `flwr run .` needs beside: Flower's simulation engine.
flower: $(VENV)/ray.installed

# Two workers: each takes whole files, for the fixtures that their tests share.
test: $(VENV)/dev.installed
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile --durations=15

# The papers' wing has a suite of its own.
test-papers: $(VENV)/dev.installed
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile --durations=15 fedsub_papers/tests

# CPU seconds of the fast tests, by file.
cpu: $(VENV)/dev.installed
	$(BIN)/python -m pytest -p tests.cpu_seconds --cpu-seconds benchmarks/results/tests.csv \
	    -m "not slow" -q -n 2 --dist loadfile

# Three workers: deployments wait more than they compute. CI leaves out the marker `release`, and what
# hypothesis tries many cases of.
SLOW = slow or hypothesis
test-slow: $(VENV)/dev.installed
	$(BIN)/python -m pytest -m "$(SLOW)" --hypothesis-profile=many -v -n 3 --dist loadfile \
	    --no-loadscope-reorder --durations=40 tests fedsub_papers/tests $(ARGS)

# Faults made on purpose, each of which must fail a test: what the tests protect. No part of CI.
mutations: $(VENV)/dev.installed
	$(BIN)/python -m tests.mutations --jobs 2 --out benchmarks/results/mutations.csv $(ARGS)

# libfedsub on other processors, by emulation, and in Node. Debian's package is unpacked, not installed.
other-chips: $(VENV)/dev.installed $(VENV)/wheels.installed $(VENV)/qemu/usr/bin
	$(BIN)/python benchmarks/other_chips.py --csv benchmarks/results/other-chips.csv

$(VENV)/qemu/usr/bin:
	mkdir -p $(VENV)/qemu
	cd $(VENV)/qemu && apt-get download -qq qemu-user-static && dpkg -x qemu-user-static_*.deb . && rm *.deb

# The documents as a site, in the folder site/.
site: $(VENV)/site.installed
	rm -rf site
	$(BIN)/python docs/site.py --out site

# A source archive and wheels, in the folder dist/: for any machine, and with kernels for Linux. And the
# kernels as a library for devices without Python: WebAssembly, and shared libraries for Linux.
wheels: $(VENV)/wheels.installed
	rm -rf dist
	$(BIN)/python .ci/wheels.py --out dist
	$(BIN)/python .ci/libfedsub.py --out dist/libfedsub

# The device in TypeScript, in the folder web/dist/: lint, types, tests, one file. With Node 20 or later.
web: $(VENV)/wheels.installed web/node_modules/.package-lock.json
	$(BIN)/python .ci/libfedsub.py --out web/kernels --names fedsub.wasm
	cd web && npm run --silent lint && npm test && npm run --silent build

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	cd web && npm ci --silent

lint: $(VENV)/dev.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The kernels are compiled anew when their sources change.
$(VENV)/%.installed: pyproject.toml constraints.txt requirements.txt setup.py $(wildcard fedsub_core/kernels/*.[ch])
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -c constraints.txt -e '.[$*]'
	touch $@

clean:
	rm -rf $(VENV)
