# Each target makes `.venv` from a bare python3 (3.11 or newer) and requirements.lock first,
# with uv where it is installed and pip where not. The lock is the whole closure, so nothing
# is resolved again on installing (--no-deps).
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help demo test check bench lock format

help:  ## What there is to make
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "%-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/ready  ## The bundled experiment: no key, no download, Docker where it runs
	$(BIN)/durabench demo

test: .venv/ready  ## Every test; those that need a Docker daemon are skipped without one
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder tests

check: .venv/ready  ## Formatter, linter, types and import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/ready  ## The measured claims, as ratios in one run; needs Docker
	$(BIN)/python -m tests.bench

format: .venv/ready  ## Write what `check` asks of the formatter
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: .venv/ready  ## Resolve requirements.lock again from pyproject.toml
	$(BIN)/uv pip compile --universal --generate-hashes --no-emit-index-url --no-header \
		--no-strip-extras --extra dev --quiet --output-file requirements.lock pyproject.toml

.venv/ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "durabench needs Python 3.11 or newer; try: make PYTHON=python3.12" >&2; exit 1; }
	@if command -v uv >/dev/null; then \
		uv venv --quiet --clear --python $(PYTHON) .venv && \
		uv pip install --quiet --python $(BIN)/python --compile-bytecode --no-deps -r requirements.lock && \
		uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .; \
	else \
		$(PYTHON) -m venv --clear .venv && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements.lock && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .; \
	fi
	@touch $@
