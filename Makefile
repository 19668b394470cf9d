# The one way to the tools. Each target makes .venv by itself when it has to; `make help` lists them.
# PYTHON=python3.12 chooses an interpreter; a sourced ROS 2 is used in place of the one from PyPI.

SHELL := /bin/bash
.SHELLFLAGS := -eo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:

PYTHON ?=
export PYTHON
# The interpreter that looks for one; it may itself be too old.
FIRST := $(firstword $(shell command -v python3 $(PYTHON)))
BOOTSTRAP := $(or $(FIRST),echo "error: no python3 found: install Python 3.10-3.13" >&2; exit 1;) .ci/bootstrap.py
ENV := . .ci/env.sh &&
ARGS ?=

# Plug-ins are named, not found: a sourced ROS 2 brings some that don't load in a newer pytest.
PYTEST := python -m pytest --disable-plugin-autoload -p pytest_timeout -p _hypothesis_pytestplugin \
	--timeout=300 --durations=10 -ra
# A domain of this run's own, on this machine alone: nothing else on the network is heard or disturbed.
ROS_ENV := ROS_DOMAIN_ID=$$((1 + $$$$ % 100)) ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST

.PHONY: help env tools ros-build demo test test-unit check bench clean

help: ## show this list
	@grep -hE '^[a-z%-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z%-]+):.*## */  make \1|/' | column -t -s '|'

env: ## make .venv with all tools, or bring it up to date
	@$(BOOTSTRAP)

tools:
	@$(BOOTSTRAP) --ros

ros-build: tools ## build the ROS 2 packages into build/ros/install
	@.ci/ros_build.sh

demo: ros-build ## train a reach policy, export it, run it over ROS 2, write build/demo/report.json
	@$(ENV) $(ROS_ENV) rlinf-train demo $(ARGS)

test: ros-build ## all tests
	@mkdir -p build
	@$(ENV) failed=0; \
	$(PYTEST) tests/unit --junitxml=build/junit-unit.xml $(ARGS) || failed=1; \
	$(ROS_ENV) $(PYTEST) tests/parity tests/training tests/ros --junitxml=build/junit.xml $(ARGS) || failed=1; \
	exit $$failed

test-unit: env ## tests without ROS, torch or simulator, under a minute
	@mkdir -p build
	@$(ENV) $(PYTEST) tests/unit --junitxml=build/junit-unit.xml $(ARGS)

check: env ## style and types
	@mkdir -p build/typing && ln -sfn ../../training build/typing/rlinf_ros_training
	@$(ENV) failed=0; \
	ruff check || failed=1; \
	ruff format --check || failed=1; \
	MYPYPATH=.:build/typing mypy || failed=1; \
	exit $$failed

bench: env ## every benchmark; `make bench-NAME` runs benchmarks/NAME.py
	@$(MAKE) --no-print-directory $(patsubst benchmarks/%.py,bench-%,$(wildcard benchmarks/[a-z]*.py))

bench-%: ros-build
	@$(ENV) $(ROS_ENV) python benchmarks/$*.py $(ARGS)

clean: ## remove build outputs and .venv, keep runs/
	@rm -rf build install log .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
