# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PEERS  := .venv-bench
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-deploy check nightly fuzz bench clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

setup: $(STAMP) ## create .venv with the pinned versions (nothing to do when up to date)

$(STAMP): pyproject.toml constraints.txt requirements-dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[plots,tables,secure]"
	@touch $(STAMP)

demo: setup ## compare four methods on real digits and write the report
	$(BIN)/fedcord compare fedavg fedprox flare afl --dataset digits --partition dirichlet:0.1 \
	  --clients 10 --rounds 15 --seeds 5 --out runs/demo --resume
	@echo
	@echo "Go on with 'fedcord' after 'source $(BIN)/activate', or call it as $(BIN)/fedcord:"
	@echo "  $(BIN)/fedcord list"

test: setup ## run every test
	$(BIN)/python -m pytest --numprocesses auto

test-deploy: $(VENV)/.installed-deploy ## run the tests of real Flower processes (half an hour or more)
	$(BIN)/python -m pytest --numprocesses 0 --override-ini addopts="--strict-markers --strict-config -q" tests/deploy

$(VENV)/.installed-deploy: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt "flwr[simulation]"
	@touch $@

check: setup ## what a change must pass: format, lint, types, layers, tests (docs examples included)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest --numprocesses auto

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
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
