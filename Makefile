# Each target makes `.venv` from a bare python3 (3.11 or newer) and requirements.lock first,
# with uv where it is installed and pip where not (`make UV=` asks for pip). The lock is the
# whole closure, so nothing is resolved again on installing (--no-deps). What they print is in
# the log, and its end on the screen when they fail.
PYTHON ?= python3
UV ?= $(shell command -v uv 2>/dev/null)
CHROMIUM ?= chromium
BIN := .venv/bin
LOG := .venv-install.log

# The tests start hundreds of Python programs. Each would compile our modules again.
export PYTHONDONTWRITEBYTECODE :=

# Each file runs in one process, because its tests share servers. ARGS is for more options of pytest.
PYTEST := $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder --durations=40

.DEFAULT_GOAL := help
.PHONY: help demo notebooks figures picture test test-unit coverage test-all fire check bench lock format

help:  ## What there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: .venv/ready  ## The bundled experiment: no key, no download, Docker where it runs
	$(BIN)/durabench demo

# Kernels run in the folder of their notebook, so a relative lake gets its whole path.
notebooks figures: export DURABENCH_LAKE := $(if $(filter /% ~% s3:%,$(DURABENCH_LAKE)),$(DURABENCH_LAKE),$(CURDIR)/$(or $(DURABENCH_LAKE),lake))

notebooks: .venv/ready  ## JupyterLab with the notebooks, on the lake of DURABENCH_LAKE or ./lake
	$(BIN)/jupyter-lab notebooks $(ARGS)

figures: .venv/ready  ## Run the notebooks on the demo's results, and store what they show
	DURABENCH_EXPERIMENT=bundled $(BIN)/jupyter-nbconvert --to notebook --execute --inplace \
		--ExecutePreprocessor.record_timing=False notebooks/*.ipynb

picture: .venv/ready  ## Take the picture of the published runs in the README; needs Chromium
	lake=$$(mktemp -d) && trap 'rm -r "$$lake"' EXIT && export DURABENCH_LAKE="$$lake" && \
	$(BIN)/durabench compare notebooks/published_runs.csv && \
	$(CHROMIUM) --headless --no-sandbox --user-data-dir="$$lake/profile" --hide-scrollbars \
		--force-device-scale-factor=1.25 --window-size=960,1165 \
		--screenshot=reports/real_runs.png "file://$$lake/reports/glm-4.6-vs-gpt-5-mini-vs-o4-mini/index.html"

test-unit: .venv/ready  ## Tests that start no server and no container
	$(PYTEST) -n 2 -m unit $(ARGS) tests

coverage: .venv/ready  ## Branch coverage of the unit tests, which must not fall
	$(PYTEST) -n 2 -m unit --cov --cov-report=term:skip-covered --cov-fail-under=70 $(ARGS) tests

test: .venv/ready  ## Unit tests and journeys; without Docker, its tests are skipped
	$(PYTEST) -n 3 -m "not full" $(ARGS) tests

test-all: .venv/ready  ## Every test: also servers and containers in depth, crash points, simulations
	$(PYTEST) -n 3 $(ARGS) tests

fire: .venv/ready  ## Random experiments under random faults, counted from outside; continues
	$(BIN)/python -m tests.fire $(ARGS)

check: .venv/ready  ## Formatter, linter, types and import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# In `make bench chat`, the words after `bench` are no targets but say what is measured.
ifeq ($(firstword $(MAKECMDGOALS)),bench)
MEASURED := $(wordlist 2,$(words $(MAKECMDGOALS)),$(MAKECMDGOALS))
.PHONY: $(MEASURED)
$(MEASURED): bench ; @:
endif

bench: .venv/ready  ## The measured claims, as ratios in one run; needs Docker
	$(BIN)/python -m tests.bench $(MEASURED) $(ARGS)

format: .venv/ready  ## Write what `check` asks of the formatter
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# JupyterLab works without rfc3987-syntax and its lark, which double the time to import Prefect.
lock: .venv/ready  ## Resolve requirements.lock again from pyproject.toml
	$(BIN)/uv pip compile --universal --generate-hashes --no-emit-index-url --no-header \
		--no-emit-package rfc3987-syntax --no-emit-package lark --no-strip-extras \
		--extra dev --quiet --output-file requirements.lock pyproject.toml

.venv/ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "durabench needs Python 3.11 or newer; try: make PYTHON=python3.12" >&2; exit 1; }
	@test ! -L .venv || { echo ".venv is a link, and where it leads is left as it is: remove it" >&2; exit 1; }
	@if test -n "$(UV)"; then \
		"$(UV)" venv --clear --python $(PYTHON) .venv && \
		"$(UV)" pip install --python $(BIN)/python --compile-bytecode --no-deps -r requirements.lock && \
		"$(UV)" pip install --python $(BIN)/python --no-deps --no-build-isolation -e .; \
	else \
		$(PYTHON) -m venv --clear .venv && \
		$(BIN)/python -m pip install --disable-pip-version-check --no-deps -r requirements.lock && \
		$(BIN)/python -m pip install --disable-pip-version-check --no-deps --no-build-isolation -e .; \
	fi >$(LOG) 2>&1 || { tail -n 20 $(LOG) >&2; echo "the whole log is in $(LOG)" >&2; exit 1; }
	@touch $@
