# The two commands a newcomer needs are `make demo` and `make test`; each sets up .venv by itself.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready

# Tests start hundreds of Python processes: without bytecode files each would compile ottla again.
unexport PYTHONDONTWRITEBYTECODE
# Development mode without its checks of memory that C writes: they took a third of the CPU time, and ottla has no C.
export PYTHONMALLOC := default

.PHONY: help venv java browser pictures demo test soak lint types layers bench fuzz fuzz-live simulate prove foreign docs reference clean

help:
	@echo "make demo   the whole story          make test   run the whole suite"
	@echo "make venv   set up only             make lint   linters, types, layers"
	@echo "make bench  ARGS='decode --quick'   make fuzz   1,000,000 hostile inputs"
	@echo "make simulate  ARGS='--seeds 20000'   classic groups under faults, replayable"
	@echo "make fuzz-live  1,000,000 hostile frames to a running broker"
	@echo "make soak   the suite, nightly sizes   make docs   the documentation as a site"
	@echo "make prove  HOURS=0.33   faults of every kind; writes docs/reliability.md"
	@echo "make foreign   librdkafka's, kgo's, sarama's and kafka-python's own tests; writes docs/foreign.md"

venv: $(READY)

$(READY): pyproject.toml constraints.txt tools/venv.sh
	@sh tools/venv.sh "$(PYTHON)" "$(VENV)"
	@touch $(READY)

browser:
	@sh tools/browser.sh

# Pictures of the console for the documentation, made by its tests.
pictures: venv browser
	OTTLA_PICTURES=docs/pictures $(RUN) -m pytest -q tests/console/test_browser.py

java:
	@sh tools/java.sh

demo: venv java browser
	@$(RUN) -m examples.demo

# Several processes, for much of the time is waiting. A part only: make test ARGS=tests/broker
WORKERS ?= 4
SPREAD = --dist loadscope --tx '$(WORKERS)*popen//python=$(RUN) $(MODE)'
# Nightly in development mode: its checks of event loops cost a tenth of the tests' CPU time.
soak: MODE := -X dev

test: venv java browser
	$(RUN) tools/run_suite.py $(SPREAD) $(ARGS)

# The same tests in nightly sizes: hours. Another seed each time; OTTLA_SEED=n repeats one.
soak: venv java
	OTTLA_SOAK=1 $(RUN) -m pytest $(SPREAD) --timeout=14400 $(ARGS)

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
	$(RUN) -m tests.consumer.classic.simulation $(ARGS)

fuzz: venv
	$(RUN) -m tests.fuzz $(ARGS)

# Over live connections to a broker, with an honest client beside them.
fuzz-live: venv
	$(RUN) -m tests.fuzz.live $(ARGS)

# Kills, power cuts, churn, hostile peers and planted bugs, in 20 minutes or HOURS; writes docs/reliability.md.
HOURS ?= 0.33
prove: venv java
	$(RUN) -m tests.proof --hours $(HOURS) $(ARGS)

# Suites of others against our broker; writes docs/foreign.md. Some: ARGS='kgo'; ARGS='kafkajs --checkout kafkajs=DIR'.
foreign: venv
	$(RUN) -m tests.foreign $(ARGS)

# The documentation as a static site in build/site; needs no network.
docs: venv
	@$(RUN) tools/site.py

# The pages that are generated from the code; tests compare them with it.
reference: venv
	$(RUN) tools/api_reference.py > docs/reference/api.md
	$(RUN) tools/settings_reference.py > docs/reference/settings.md
	$(RUN) tools/broker_settings.py > docs/broker-settings.md
	$(RUN) tools/protocol_support.py > docs/protocol-support.md
	$(RUN) tools/state_diagrams.py > docs/state-machines.md

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
