# `make demo` and `make test` do all set-up on a machine that has Python 3.11, pip and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip --disable-pip-version-check install -q -c constraints.txt

.PHONY: demo dev check test test-all test-fast coverage bench results docs site gallery written format release \
  packages audit clean

$(VENV)/base.stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) -e .
	touch $@

$(VENV)/dev.stamp: $(VENV)/base.stamp
	$(PIP) -e '.[dev]'
	touch $@

$(VENV)/docs.stamp: $(VENV)/dev.stamp
	$(PIP) -e '.[docs]'
	touch $@

dev: $(VENV)/dev.stamp

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

# Tests of what differs from the main branch, or of the folders named: make test-fast FOLDERS="checks views"
test-fast: $(VENV)/dev.stamp
	$(PYTEST) -x -p no:cacheprovider $$($(BIN)/python .ci/touched.py $(FOLDERS))

# Lines and branches that the default tests run.
coverage: $(VENV)/dev.stamp
	$(BIN)/python -m coverage erase
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m coverage run -m pytest -q -n 2 -p no:cacheprovider
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report --skip-covered --sort=cover

bench: $(VENV)/dev.stamp
	for script in benchmarks/*/[a-z]*.py; do case $$script in benchmarks/shared/*) continue;; esac; \
	  $(BIN)/python -m $$(echo $${script%.py} | tr / .) || exit 1; done

# Every page of results again, with this commit; what is done already is left out, so that it may be cut off.
results: $(VENV)/dev.stamp
	$(BIN)/python .ci/results.py

# The site, in build/site: it works offline, and a warning is an error.
site: $(VENV)/docs.stamp
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict -q
	@echo "build/site/index.html"

gallery: $(VENV)/dev.stamp
	$(BIN)/python docs/site/draw_gallery.py

# What is written from the code: the manual page, the list of public names, figures in prose.
written: $(VENV)/dev.stamp
	PYTHONPATH=docs/site $(BIN)/python docs/site/manual.py > docs/reference/tellwhy.1
	PYTHONPATH=tests $(BIN)/python -m pins_of_methods.pins --write-signatures
	$(BIN)/python tests/docs_figures.py

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

# The wheel in clean environments, bare and with each extra.
packages: release
	$(PIP) nox
	$(BIN)/nox -s packages-3.11

# Known faults of the packages that are installed; it asks a public database, and says so where it cannot.
audit: $(VENV)/dev.stamp
	$(PIP) pip-audit
	$(BIN)/pip-audit --skip-editable --progress-spinner off

clean:
	rm -rf $(VENV) build demo-run .mypy_cache .ruff_cache .pytest_cache
