# The whole interface to this clone; `make` lists the targets. Needs Python 3.11 or later and make, nothing else.

PYTHON ?= python3
VENV := $(CURDIR)/.venv
INSTALLED := $(VENV)/.installed
# A signal does not reach Python while MPI waits, so a timer thread ends the process; before that all ranks show their stacks.
UNDER_MPI := --with-mpi --timeout-method=thread -o faulthandler_timeout=150
SKIPPED := $(CURDIR)/build/skipped-tests.txt
export PATH := $(VENV)/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help install run test forget-skipped test-unit test-lan check docs fmt bench soak clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z%-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## make the environment .venv

$(INSTALLED): pyproject.toml
	@test -x $(VENV)/bin/python || { \
	  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python %d.%d found, 3.11 or later needed: make PYTHON=/path/to/python3.11" % sys.version_info[:2])' \
	  && $(PYTHON) -m venv $(VENV); }
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[mpi,dev]'
	@touch $@

run: $(INSTALLED) ## fetch the default model and let 4 ranks of this machine answer the built-in prompt
	python launch.py smollm2_135m --skip-run
	@echo "a demonstration: 4 ranks on this one machine, as if they were 4 machines; without -np 4 one rank has all cores"
	mpirun -np 4 python -m dllama_py

test: export DLLAMA_SKIPPED_TESTS = $(SKIPPED)
test: forget-skipped check test-unit test-mpi-1 test-mpi-2 test-mpi-4 test-mpi-5 test-mpi-8 test-lan ## everything: check, unit, mpi and network tests
	@cat $(SKIPPED) 2>/dev/null || echo "no test was skipped"

forget-skipped:
	@mkdir -p build && rm -f $(SKIPPED)

test-unit: $(INSTALLED) ## the tests that need one process only
	python -m pytest -q -n auto --maxprocesses 4 --dist worksteal --ignore=tests/mpi --ignore=tests/lan

test-mpi-%: $(INSTALLED) ## the mpi tests on so many ranks, such as make test-mpi-8
	mpirun -np $* python -m pytest -q $(UNDER_MPI) tests/mpi

test-lan: $(INSTALLED) ## the tests on hosts that are made of network namespaces; they need root and iproute2
	python -m pytest -q tests/lan

check: $(INSTALLED) ## format, lint, strict types, import direction, docs/cli.md
	ruff format --check .
	ruff check .
	mypy
	lint-imports
	python docs/write_cli.py --check

docs: $(INSTALLED) ## write docs/cli.md from the commands' options
	python docs/write_cli.py

fmt: $(INSTALLED) ## format the code and mend what the linter can
	ruff format .
	ruff check --fix .

bench: $(INSTALLED) ## speed on a model of random weights in the shape of Qwen3 0.6B
	python -m dllama_py bench --shape qwen3_0.6b --weights q40 --prompt-tokens 128 --steps 64

soak: $(INSTALLED) ## 100,000 exchanges, each reader of files against damage for a minute, tokens on a shaped link in time
	DLLAMA_SOAK_ROUNDS=100000 mpirun -np 4 python -m pytest -q $(UNDER_MPI) --timeout=1800 tests/mpi/test_transport.py
	DLLAMA_FUZZ_SECONDS=60 python -m pytest -q --timeout=1800 --ignore=tests/mpi -k fuzzing
	DLLAMA_EVERY_TYPE=1 python -m pytest -q --timeout=1800 $(addprefix tests/kernels/test_,cpus.py arm.py matmul.py pack.py)
	mkdir -p build && python -m dllama_py synth --shape qwen3_0.6b --weights q40 build/soak.m
	python -m tests.lan.measure build/soak.m --tries 3

clean: ## remove the environment and everything built; fetched models stay
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info
	find dllama_py converter tests -name __pycache__ -type d -prune -exec rm -rf {} +
