# Two commands are all a new machine needs: `make demo` and `make test`; each makes the environment it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# How many random histories `make faults` plays, with ten hostile requests for each, and the seed of the first one; a
# random one if it is empty.
HISTORIES ?= 2000
SEED ?=

.PHONY: demo test test-all faults lint bench docs lock dist release clean

# An install compiles the kernel in C where it can; where it cannot, the tests of it skip, and say so.
$(VENV)/base.stamp: pyproject.toml setup.py $(wildcard kernel/*)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

# An extra of the package: learn.stamp, server.stamp, dev.stamp, docs.stamp, dist.stamp.
$(VENV)/%.stamp: $(VENV)/base.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[$*]'
	touch $@

demo: $(VENV)/learn.stamp
	$(BIN)/sedml demo

# Hundreds of processes are started: with bytecode on disk they need not compile the package each.
test test-all: export PYTHONDONTWRITEBYTECODE =
# Three workers keep two cores busy, for one often waits for its servers; more threads of a library would be in the way.
test test-all: export OMP_NUM_THREADS = 1
test: $(VENV)/dev.stamp
	$(BIN)/pytest -n 3 -m "not thorough"

# The second tier after the first; no test is in both.
test-all: test
	$(BIN)/pytest -n 3 -m thorough

# Random histories of real servers and hostile requests, and unless it repeats some, a fault at every point of a job's life.
faults: $(VENV)/dev.stamp
	PYTHONPATH=tests $(BIN)/python -m histories --count $(HISTORIES) $(if $(SEED),--seed $(SEED))
	$(if $(SEED)$(SEDML_HISTORY_SEED),,SEDML_FAULT_POINTS=all SEDML_FAULT_RUNS=$(HISTORIES) $(BIN)/pytest -n 2 tests/faults/test_fault_sequences.py)

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/base.stamp
	$(BIN)/python benchmarks/figures.py

docs: $(VENV)/docs.stamp
	$(BIN)/python tools/build_site.py

# What a server installs, to the byte: the newest libraries that fit, for all systems and versions of Python.
lock: $(VENV)/dist.stamp
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
		--extra server --extra postgres --output-file deploy/requirements.lock pyproject.toml

dist: $(VENV)/dist.stamp
	$(BIN)/python tools/dist.py

# All that a release needs; it stops before the upload, and prints the commands for it.
release: $(VENV)/dist.stamp
	$(BIN)/python tools/publish.py
	$(MAKE) lint test-all docs dist
	$(BIN)/python tools/publish.py --built

clean:
	rm -rf $(VENV) .cache build dist src/*.egg-info src/sedml/mpc/*.so
