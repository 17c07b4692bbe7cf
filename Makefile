# make demo: see it work.  make test: everything, on a fresh Debian as root.  make lint: format, lint, types.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: demo test examples lint format docs bench soak audit clean

demo: $(VENV)/installed
	$(BIN)/watchdogd demo

test: $(VENV)/developing
	scripts/packages
	$(MAKE) --no-print-directory lint
	$(BIN)/python -m pytest --numprocesses 3 --dist loadgroup $(PYTEST)

# The examples with PyTorch, Hugging Face's Trainer and Lightning: 1.2 GB and three minutes the first time.
# TORCH says which build, such as a wheel without CUDA; the plain one of some indexes brings CUDA, several GB more.
TORCH ?= torch
examples: $(VENV)/developing
	$(BIN)/python -m pip install --quiet '$(TORCH)'
	$(BIN)/python -m pip install --quiet --editable '.[examples]'
	$(BIN)/python -m pytest tests/test_examples.py

lint: $(VENV)/developing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(VENV)/developing
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/developing
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

bench: $(VENV)/developing
	scripts/packages bench
	$(BIN)/python -m benchmarks

# Ninety days of rounds by a clock of their own: takes hours, SOAK="--minutes 60" ends it earlier.
soak: $(VENV)/developing
	$(BIN)/python scripts/soak.py $(SOAK)

audit: $(VENV)/developing
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/pip-audit --skip-editable

$(VENV)/pip:
	$(PYTHON) -c 'import ensurepip' 2>/dev/null || { apt-get update -q && apt-get install -yq --no-install-recommends python3-venv; }
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/installed: $(VENV)/pip pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/developing: $(VENV)/pip pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@ $(VENV)/installed

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
