# `make demo` and `make test` do all set-up on a machine that has Python 3.11, pip and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check install -q -c constraints.txt

.PHONY: demo check test test-all bench docs format release audit clean

$(VENV)/base.stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	touch $@

$(VENV)/dev.stamp: $(VENV)/base.stamp
	$(PIP) -e '.[dev]'
	touch $@

demo: $(VENV)/base.stamp
	$(BIN)/python examples/shop.py

check: $(VENV)/dev.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Two processes with one thread each: small matrix products only lose time to more threads.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2

test: check
	$(PYTEST)

test-all: check
	$(PYTEST) -m ""

bench: $(VENV)/dev.stamp
	for script in benchmarks/*/[a-z]*.py; do case $$script in benchmarks/shared/*) continue;; esac; \
	  $(BIN)/python -m $$(echo $${script%.py} | tr / .) || exit 1; done

docs: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -q docs

format: $(VENV)/dev.stamp
	$(BIN)/ruff format . && $(BIN)/ruff check --fix .

# The same commit gives the same bytes: times inside the packages are the commit's.
release: $(VENV)/dev.stamp
	$(PIP) build hatchling
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m build -q --no-isolation --outdir dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python .ci/sbom.py dist/tellwhy-* > dist/sbom.json
	cd dist && sha256sum tellwhy-* sbom.json > SHA256SUMS
	cat dist/SHA256SUMS

# Known faults of the packages that are installed; it asks a public database, and says so where it cannot.
audit: $(VENV)/dev.stamp
	$(PIP) pip-audit
	$(BIN)/pip-audit --skip-editable --progress-spinner off

clean:
	rm -rf $(VENV) demo-run .mypy_cache .ruff_cache .pytest_cache
