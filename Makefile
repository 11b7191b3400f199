# Needs python3, make and a package index; everything else is set up below .tools and .venv.
UV_VERSION := 0.13.8
PYTHON ?= python3
UV := .tools/uv/bin/uv
BIN := .venv/bin

.PHONY: setup demo test check bench clean

setup: .venv/.ready

$(UV):
	$(PYTHON) -m venv .tools/uv
	.tools/uv/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

.venv/.ready: pyproject.toml uv.lock | $(UV)
	$(UV) sync --quiet --frozen --extra local
	touch $@

demo: setup
	$(BIN)/gua demo

test: setup
	$(BIN)/pytest -m "not pipeline and not gpu"

clean:
	rm -rf .venv .tools dist build
