# Needs python3, make and a package index; everything else is set up below .tools and .venv.
UV_VERSION := 0.13.8
PYTHON ?= python3
UV := .tools/uv/bin/uv
BIN := .venv/bin
TESTS ?= not pipeline and not reliability and not gpu and not wide
# Tests also wait for agents, servers and clocks: on two cores four processes take 9:57, two 12:18.
JOBS ?= $(shell expr $$(nproc) + 2)
BENCH_DAYS ?= 2
BENCH_AGENT ?= --ticks 600 --cpu-ticks 60 --seconds 5 --times 3 --backlog 480
BENCH_EXPORTER ?= --seconds 5 --scrapes 200
BENCH_FLEET ?= --cards 16 --days 2 --sizes 8x30 --storage-days 1 --times 3 --no-older
BENCH_IMPORT ?= --days 3
BENCH_NOTICES ?= --notices 500
BENCH_RESERVATIONS ?= --times 200
BENCH_REPORT ?= --days 7 --times 3 --no-older
# Of this version beside itself: that its figures can be had.
BENCH_VERSIONS ?= --only tick landing --landing-ticks 120 --ticks 40 --times 1

PACKAGE ?=

.PHONY: setup demo test quick tools compiled check bench bench-agents bench-stores clean

setup: .venv/.ready

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "gua needs Python 3.11 or newer: make PYTHON=python3.12")'
	$(PYTHON) -m venv .tools/uv
	.tools/uv/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

.venv/.ready: pyproject.toml uv.lock | $(UV)
	$(UV) sync --quiet --frozen --compile-bytecode --extra instrument --extra local --extra notify --python $(PYTHON)
	$(BIN)/python -m compileall -q src
	@touch $@

demo: setup
	$(BIN)/gua demo

# The tests that need Go, npm, Java and Maven are left out, and said to be; .ci/run leaves out none.
test: setup
	$(BIN)/pytest -q -n $(JOBS) --dist loadgroup --no-loadscope-reorder -m "$(TESTS)"

# The unit tests without an engine: those of one package in some seconds, as in make quick PACKAGE=nvml, or all.
quick: setup
	@test -d tests/unit/$(PACKAGE) || { echo "no package $(PACKAGE), give one of:" $$(cd tests/unit && ls -d */ | tr -d /); exit 2; }
	$(BIN)/pytest -q -n $(JOBS) --dist worksteal -m "not engine and not pipeline and not gpu and not wide" tests/unit/$(PACKAGE)

# Has Python keep the tests compiled, where it may: otherwise each process of `make test` begins with that.
compiled: setup
	$(BIN)/pytest -q --collect-only >/dev/null

# What the tests of servers (also VictoriaMetrics), charts and manifests need, each made once below .tools (3 minutes on
# two cores).
tools: setup
	PYTHONPATH=tests $(BIN)/python -m servers.tools

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file bench/mypy.ini
	$(BIN)/lint-imports --no-logo
	$(BIN)/python docs/generate_metrics.py --check
	$(BIN)/python docs/generate_views.py --check
	$(BIN)/python docs/generate_superset.py --check
	$(BIN)/python docs/check_sql.py
	$(BIN)/python docs/check.py
	$(BIN)/python docs/check_words.py
	$(BIN)/python docs/check_budget.py

# What agents take, and what stores do: one after the other, or side by side with -j2 where the figures do not matter.
bench: bench-agents bench-stores

bench-agents: setup
	$(BIN)/python bench/bench_tick.py
	$(BIN)/python bench/bench_agent.py $(BENCH_AGENT)
	$(BIN)/python bench/bench_allocation.py
	$(BIN)/python bench/bench_exporter.py $(BENCH_EXPORTER)
	$(BIN)/python bench/bench_instrumentation.py
	$(BIN)/python bench/bench_notices.py $(BENCH_NOTICES)
	$(BIN)/python bench/bench_reservations.py $(BENCH_RESERVATIONS)

bench-stores: setup
	$(BIN)/python bench/bench_demo.py $(BENCH_DEMO)
	$(BIN)/python bench/bench_html.py
	$(BIN)/python bench/bench_import.py $(BENCH_IMPORT)
	$(BIN)/python bench/bench_store.py --days $(BENCH_DAYS)
	$(BIN)/python bench/bench_fleet.py $(BENCH_FLEET)
	$(BIN)/python bench/bench_report.py $(BENCH_REPORT)
	$(BIN)/python bench/bench_versions.py . $(BENCH_VERSIONS)

clean:
	rm -rf .venv .tools dist build
