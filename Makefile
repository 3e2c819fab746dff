# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PEERS  := .venv-bench
PRESS  := .venv-docs
STAMP  := $(VENV)/.installed
BROWSER := tests/browser
# tests that share a browser run in one process
TOGETHER := --numprocesses auto --dist loadgroup

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-deploy test-tracking test-wheel check docs wheel nightly fuzz bench clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: $(STAMP) ## create .venv with the pinned versions (nothing to do when up to date)

$(STAMP): pyproject.toml constraints.txt requirements-dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[plots,tables,secure]"
	@touch $(STAMP)

demo: setup ## compare seven methods, one of each family but bounds, on real digits and write the report
	$(BIN)/fedcord compare fedavg scaffold fedper fedproto+ flare afl accord --dataset digits --partition dirichlet:0.1 \
	  --clients 10 --rounds 15 --seeds 5 --out runs/demo --resume
	@echo
	@echo "Go on with 'fedcord' after 'source $(BIN)/activate', or call it as $(BIN)/fedcord:"
	@echo "  $(BIN)/fedcord list"

test: setup $(BROWSER)/node_modules/.installed ## run every test
	$(BIN)/python -m pytest $(TOGETHER)

test-deploy: $(VENV)/.installed-deploy ## run the tests of real Flower processes (half an hour or more)
	$(BIN)/python -m pytest --numprocesses 0 --override-ini addopts="--strict-markers --strict-config -q" tests/deploy

$(VENV)/.installed-deploy: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt "flwr[simulation]"
	@touch $@

test-tracking: $(VENV)/.installed-tracking ## run the tests of --track with MLflow and Weights & Biases
	$(BIN)/python -m pytest --numprocesses 0 tests/experiment/test_tracking.py

$(VENV)/.installed-tracking: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt mlflow-skinny sqlalchemy alembic wandb
	@touch $@

# axe-core, which judges the report page; where there is no npm that one test says so and is skipped
$(BROWSER)/node_modules/.installed: $(BROWSER)/package-lock.json
	@if command -v npm >/dev/null; then \
	  npm ci --prefix $(BROWSER) --ignore-scripts --no-audit --no-fund --silent && touch $@ \
	    || echo "npm could not fetch axe-core: the accessibility tests will be skipped"; \
	else echo "npm is not installed: the accessibility tests will be skipped"; fi

check: setup $(BROWSER)/node_modules/.installed ## what a change must pass: format, lint, types, layers, tests (docs examples included)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest $(TOGETHER)

docs: $(PRESS)/.installed ## build the documentation into site/, and check its links
	NO_MKDOCS_2_WARNING=1 $(PRESS)/bin/mkdocs build --strict
	$(PRESS)/bin/python docs/check_site.py site
	@echo "The documentation is in site/index.html; with search: $(PYTHON) -m http.server --bind 127.0.0.1 --directory site"

$(PRESS)/.installed: requirements-docs.txt constraints.txt
	test -x $(PRESS)/bin/python || $(PYTHON) -m venv $(PRESS)
	@echo '*' > $(PRESS)/.gitignore
	$(PRESS)/bin/python -m pip install --quiet --constraint constraints.txt -r requirements-docs.txt
	@touch $@

wheel: setup ## build the package into dist/
	rm -rf build dist
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	@ls dist

test-wheel: wheel ## install the package into an empty environment and use it there (minutes)
	FEDCORD_INSTALL=1 $(BIN)/python -m pytest --numprocesses 0 tests/test_wheel.py

nightly: setup ## try every named study out at the smoke scale (minutes each; needs no data)
	for name in $$($(BIN)/fedcord list studies --json | $(BIN)/python -c "import json, sys; print(*(row['name'] for row in json.load(sys.stdin)))"); do \
	  $(BIN)/fedcord reproduce $$name --scale smoke --out runs/smoke/$$name --resume --quiet || exit 1; \
	done

fuzz: setup ## try thousands of damaged files, odd flags and broken messages (an hour or more)
	FEDCORD_FUZZ=500 $(BIN)/python -m pytest --numprocesses auto tests/faults

bench: setup $(PEERS)/.installed ## measure speed and memory against peers (half an hour; see benchmarks/README.md)
	$(BIN)/python benchmarks/fedavg_round.py
	$(BIN)/python benchmarks/many_clients.py

$(PEERS)/.installed: benchmarks/requirements.txt benchmarks/constraints.txt
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	@echo '*' > $(PEERS)/.gitignore
	$(PEERS)/bin/python -m pip install --quiet --constraint benchmarks/constraints.txt -r benchmarks/requirements.txt
	@touch $@

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) $(PRESS) site dist build .pytest_cache .mypy_cache .ruff_cache
