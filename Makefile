# make demo: see it work.  make test: everything, on a fresh Debian as root.  make lint: format, lint, layers, types.
# make quick: lint, and all tests that need nothing but Python: a minute, as any user.
# make pythons: the same tests with the newer Pythons.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

# Where it is set, each of a test's many processes would compile all of the product anew.
unexport PYTHONDONTWRITEBYTECODE

WHEELHOUSE ?= build/wheelhouse
EXTRAS ?= [apprise,postgres,prometheus,stacks]
.PHONY: demo test suite compiled quick light-a-ou-z light-p-t pythons packages examples wheelhouse lint format docs \
	bench truth soak chaos fuzz attack audit clean

demo: $(VENV)/installed
	$(BIN)/watchdogd demo

# What the tests need comes side by side; the examples' and the oldest libraries while the tests run, which wait for
# them where they are used. Where PYTEST names files or folders, only what those need comes.
# Most tests wait most of the time, so there are more processes than processors.
NAMED := $(filter tests/%,$(PYTEST))
EXTRA := $(if $(NAMED),,torch lowest) $(if $(findstring tests/test_examples,$(NAMED)),torch) \
	$(if $(findstring tests/test_lowest,$(NAMED)),lowest)
ENVIRONMENTS := $(if $(filter torch,$(EXTRA)),$(VENV)/examples/ready) \
	$(if $(filter lowest,$(EXTRA)),$(VENV)/lowest/ready)
test: $(VENV)/pip
	$(MAKE) --no-print-directory --jobs 4 suite $(ENVIRONMENTS)

suite: packages lint compiled
	COMING='$(ENVIRONMENTS)' $(BIN)/python -m pytest --numprocesses 7 --dist loadgroup --max-worker-restart 0 $(PYTEST)

# Each of the processes would compile all tests anew; what cannot be collected they say themselves.
compiled: $(VENV)/developing
	@$(BIN)/python -m pytest --collect-only -qq $(PYTEST) >/dev/null 2>&1 || true

# tests/needs.py says what needs what.
quick: $(VENV)/developing
	$(MAKE) --no-print-directory --jobs 3 --output-sync $(LIGHT) lint

# One process for the tests from p to t, one for the rest: pytest-xdist's messages and its collecting all in each
# process would be a third of what tests of some milliseconds cost. A thread for each of them, which faulthandler's clock
# takes, would be another 3 %.
LIGHT := light-a-ou-z light-p-t
$(LIGHT): light-%: $(VENV)/developing
	HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -q -o faulthandler_timeout=0 --ignore-glob='tests/[!_$*]*' \
		-m 'not (slurm or root or server or debian or browser or site or torch or lowest or slow)'

# Each in an environment of its own, by an interpreter on the PATH or of pyenv's.
PYTHONS ?= 3.12 3.13
pythons: $(PYTHONS:%=$(VENV)/%/ready)
	set -e; for each in $(PYTHONS); do $(MAKE) --no-print-directory --jobs 2 --output-sync $(LIGHT) BIN=$(VENV)/$$each/bin; done

$(VENV)/3.%/ready: pyproject.toml
	for python in python3.$* ~/.pyenv/versions/3.$*.*/bin/python; do "$$python" -c '' 2>/dev/null && break; done && \
		"$$python" -m venv $(VENV)/3.$*
	$(VENV)/3.$*/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

packages:
	scripts/packages

examples: $(VENV)/developing $(VENV)/examples/ready
	$(BIN)/python -m pytest tests/test_examples.py

# All that a cluster without internet needs, for this machine's kind and Python: copy the folder there (docs/operations.md).
wheelhouse: $(VENV)/pip
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check -c deploy/constraints.txt -w $(WHEELHOUSE) \
		'.$(EXTRAS)'
	cp deploy/constraints.txt $(WHEELHOUSE)

lint: $(VENV)/developing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/python scripts/layers.py
	$(BIN)/mypy

format: $(VENV)/developing
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# It runs the demo, and records its terminal and its page (docs/demo/): that needs chromium, and unshare's namespaces.
docs: $(VENV)/developing
	$(BIN)/python scripts/recording.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

bench: $(VENV)/developing
	scripts/packages bench
	$(BIN)/python -m benchmarks

# How often the judgement of logs is right: false alarms, misses and delays. TRUTH="FORM ..." shows single forms.
truth: $(VENV)/developing
	$(BIN)/python -m benchmarks.truth $(TRUTH)

# Ninety days of rounds by a clock of their own: takes hours, SOAK="--minutes 60" ends it earlier.
soak: $(VENV)/developing
	$(BIN)/python scripts/soak.py $(SOAK)

# A campaign against watchdogd itself, as root: many faults at once (docs/reliability.md). CHAOS="--seed 7 --minutes 3"
chaos: $(VENV)/developing
	scripts/packages
	$(BIN)/python -m benchmarks.chaos $(CHAOS)

# All readers of foreign text under libFuzzer, five minutes. FUZZ="--minutes 60 --corpus FOLDER quota"
fuzz: $(VENV)/developing
	$(BIN)/python -m pip install --quiet atheris
	nice $(BIN)/python -m tests.parsers.fuzz $(FUZZ)

# What others may try (SECURITY.md), as root: by real accounts where it takes some.
attack: $(VENV)/developing
	$(BIN)/python -m pytest --numprocesses 4 --dist loadgroup -m attack tests

audit: $(VENV)/developing
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/python scripts/audit.py

$(VENV)/pip:
	$(PYTHON) -c 'import ensurepip' 2>/dev/null || { apt-get update -q && apt-get install -yq --no-install-recommends python3-venv; }
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/installed: $(VENV)/pip pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

# What mypy finds out about these libraries, almost half of its work, is kept with them.
TYPED := alembic.config, apprise, hypothesis.stateful, jinja2, mkdocs.plugins, playwright.sync_api, \
	prometheus_client.parser, psycopg, psutil, pydantic, pytest, requests, rich.progress, sqlalchemy.orm
$(VENV)/developing: $(VENV)/pip pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(BIN)/python -m compileall -q watchdogd plugins
	echo 'import $(TYPED)' >$(VENV)/typed.py
	$(BIN)/mypy $(VENV)/typed.py >/dev/null
	touch $@ $(VENV)/installed

# PyTorch, the frameworks and trackers that the examples and `annotate` need, apart from the rest: 1 GB, three
# minutes.
# A build for CPUs only, looked for on PyTorch's own index where yours has none, since PyPI's brings several GB of CUDA;
# TORCH=torch takes that all the same. What a network broke off is tried once more. Then all that the tests import is
# compiled, which on a busy machine takes longer than they wait for an answer.
TORCH ?= torch==2.13.0+cpu
PYTORCH := --extra-index-url https://download.pytorch.org/whl/cpu
# Composer asks for an older PyTorch than the others, and works with this one; torchvision is of one release with it,
# but built for GPUs: the other frameworks would import it, and fail, so these have a folder of their own.
COMPOSER := mosaicml==0.32.1 torchvision==0.28.0 torch-optimizer pytorch-ranger
# DeepSpeed compiles a part of itself where it is first used: two minutes of a processor, too long within a test.
COMPILED = from deepspeed.ops.op_builder.cpu.comm import ShareMemCommBuilder; ShareMemCommBuilder().load()
$(VENV)/examples/ready: pyproject.toml | $(VENV)/developing
	rm -f $@.failed
	$(PYTHON) -m venv $(VENV)/examples
	set -- $(VENV)/examples/bin/python -m pip install --quiet --no-compile --disable-pip-version-check && \
		{ "$$@" --no-deps '$(TORCH)' || "$$@" --no-deps $(PYTORCH) '$(TORCH)'; } && \
		{ "$$@" --editable '.[examples]' || "$$@" --editable '.[examples]'; } && \
		set -- "$$@" --no-deps --target $(VENV)/examples/composer $(COMPOSER) && { "$$@" || "$$@"; } && \
		$(VENV)/examples/bin/python -c 'import lightning, mlflow, transformers.trainer, wandb' && \
		rm -rf $(VENV)/examples/extensions && TORCH_EXTENSIONS_DIR=$(abspath $(VENV)/examples/extensions) \
		$(VENV)/examples/bin/python -c '$(COMPILED)' >/dev/null || { touch $@.failed; false; }
	touch $@

# The oldest versions of our libraries that pyproject.toml allows. Watchdogd itself is not built there but found by its
# path: two builds at once would write to the same files of this folder, and none waits for the other's network.
$(VENV)/lowest/ready: pyproject.toml scripts/lowest.py | $(VENV)/developing
	rm -f $@.failed
	$(PYTHON) -m venv $(VENV)/lowest
	$(PYTHON) scripts/lowest.py > $(VENV)/lowest/requirements
	set -- $(VENV)/lowest/bin/python -m pip install --quiet --no-compile --disable-pip-version-check \
		-r $(VENV)/lowest/requirements aiosmtpd hypothesis pytest pytest-randomly pytest-timeout && \
		{ "$$@" || "$$@"; } || { touch $@.failed; false; }
	echo '$(CURDIR)' > "$$(echo $(VENV)/lowest/lib/python3*/site-packages)/watchdogd.pth"
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
