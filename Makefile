# The two commands a newcomer needs are `make demo` and `make test`; each sets up .venv by itself.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready

.PHONY: help venv java demo test test-jit test-nojit test-numpy lint types layers bench fuzz simulate clean

help:
	@echo "make demo   the whole story          make test   run the whole suite"
	@echo "make venv   set up only             make lint   linters, types, layers"
	@echo "make bench  ARGS='decode --quick'   make fuzz   1,000,000 hostile inputs"
	@echo "make simulate  ARGS='--seeds 20000'   classic groups under faults, replayable"

venv: $(READY)

$(READY): pyproject.toml constraints.txt tools/venv.sh
	@sh tools/venv.sh "$(PYTHON)" "$(VENV)"
	@touch $(READY)

java:
	@sh tools/java.sh

demo: venv java
	@$(RUN) -m examples.demo

# Three runs: compiled kernels (everything), the same kernels as plain Python, and the NumPy path.
test: venv java test-jit test-nojit test-numpy

test-jit: venv
	$(RUN) -X dev -m pytest

test-nojit: venv
	NUMBA_DISABLE_JIT=1 $(RUN) -m pytest -q tests/kernels tests/records

test-numpy: venv
	OTTLA_KERNELS=numpy $(RUN) -m pytest -q tests/kernels tests/records

lint: venv
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	@$(MAKE) --no-print-directory types layers

types: venv
	$(VENV)/bin/mypy

layers: venv
	$(VENV)/bin/lint-imports --no-cache

bench: venv
	$(RUN) -m benchmarks $(ARGS)

simulate: venv
	$(RUN) -m tests.classic.simulation $(ARGS)

fuzz: venv
	$(RUN) -m tests.fuzz $(ARGS)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
