# Everything happens in .venv. A bare machine needs make and Python 3.11 or newer with venv and pip; the rest comes from PyPI.
#
#   make demo                               a real model on eight virtual GPUs: what breaks, where, why, and the repaired script
#   make test                               formatting, lint, types, tests
#   make demo PYTHON=/opt/python3.12/bin/python3
#   make demo TORCH_INDEX=https://download.pytorch.org/whl/cpu      the small CPU build of torch; PyPI's for Linux brings CUDA along

PYTHON ?= $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,$(if $(shell $(name) -c $(PYTHON_TEST) 2>/dev/null),$(name))))
PYTHON_TEST = 'import sys, venv, ensurepip; print("fit" if sys.version_info >= (3, 11) else "")'
TORCH_INDEX ?=
TORCH_ARCHIVE ?=
TORCH_CHECKOUT ?=
WORKERS ?= 2

VENV := .venv
RUN := $(VENV)/bin/python
INSTALL = $(RUN) -m pip install --quiet --disable-pip-version-check $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: site pictures repro help demo check test whole lint types tests format format-check zoo situations corpus causes heal docs peers mutations bench clean

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1 \2/p' $(firstword $(MAKEFILE_LIST)) | while read -r name text; do printf '  make %-13s %s\n' "$$name" "$$text"; done

demo: $(VENV)/.installed ## Run a real model's script on eight virtual GPUs
	@$(RUN) examples/demo.py

test: format-check lint ## Formatting, lint, types and tests
	@$(MAKE) --no-print-directory --jobs 2 types tests

check: test ## The same as `make test`

lint: $(VENV)/.installed-dev
	$(RUN) -m ruff check

types: $(VENV)/.installed-dev
	$(RUN) -m mypy

tests: $(VENV)/.installed-dev
	$(RUN) -m pytest -q -n $(WORKERS) --dist worksteal

whole: format-check lint types ## The same with the long tests, and with all cases of those of which a sample runs
	$(RUN) -m pytest -q -n $(WORKERS) --dist worksteal --whole

format: $(VENV)/.installed-dev ## Format the code
	$(RUN) -m ruff format

format-check: $(VENV)/.installed-dev
	$(RUN) -m ruff format --check

zoo: $(VENV)/.installed-dev ## Run every released bug both ways (about half an hour; downloads old releases once)
	$(RUN) -m evidence zoo

repro: $(VENV)/.installed ## Run the small programs that went wrong once
	$(RUN) -m evidence repro

situations: $(VENV)/.installed ## Run the examples of the five situations and compare with what is expected
	$(RUN) -m evidence situations

corpus: $(VENV)/.installed-dev ## Score the explanations on the labelled errors
	$(RUN) -m evidence corpus

causes: $(VENV)/.installed-dev ## Score causes and guilty operands on the zoo (about ten minutes)
	$(RUN) -m evidence causes

heal: $(VENV)/.installed-dev ## Heal every released bug and compare its numbers with a run on one device (about ten minutes)
	$(RUN) -m evidence heal-zoo

docs: $(VENV)/.installed-dev ## Write the pages that are made from the code
	$(RUN) -m tools.pages
	$(RUN) -m tools.patches_page
	$(RUN) -m tools.cli_page
	$(RUN) -m tools.doctor_page
	$(RUN) -m tools.known_bad
	$(RUN) -m tools.found_pages
	$(RUN) -m tools.readme

site: $(VENV)/.installed-docs ## Build the documentation as a site into build/site, and check it
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --quiet
	$(RUN) -m tools.site_check build/site

pictures: $(VENV)/.installed-dev ## Run the examples of the pictures and draw their terminals into docs/pictures
	$(RUN) -m tools.pictures

peers: $(VENV)/.installed-dev ## Run the tests of accelerate and peft on virtual GPUs (downloads them once), and PyTorch's own with TORCH_ARCHIVE=FILE or TORCH_CHECKOUT=FOLDER
	$(RUN) -m evidence peers accelerate peft
	$(if $(TORCH_ARCHIVE)$(TORCH_CHECKOUT),$(RUN) -m evidence peers torch $(if $(TORCH_ARCHIVE),--archive $(TORCH_ARCHIVE),--checkout $(TORCH_CHECKOUT)))

mutations: $(VENV)/.installed-dev ## Take repairs of released bugs back and see which test suites notice
	$(RUN) -m evidence mutations

bench: $(VENV)/.installed-dev ## Measure time and memory
	$(RUN) -m evidence benchmarks

clean: ## Remove the environment and the caches of the tools
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(RUN):
	@if [ -z "$(PYTHON)" ]; then \
		echo "samedevice needs Python 3.11 or newer with the modules venv and ensurepip, and found none."; \
		echo "On Debian and Ubuntu: apt-get install python3-venv. Elsewhere: make PYTHON=/path/to/python3 $(MAKECMDGOALS)"; \
		exit 1; \
	fi >&2
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"

# An environment is installed again when the lists change, and only then.
$(VENV)/.installed: pyproject.toml constraints.txt | $(RUN)
	@echo "Installing torch, transformers and samedevice into $(VENV); the first time this takes minutes."
	$(INSTALL) --editable . --group models
	@touch $@

$(VENV)/.installed-docs: pyproject.toml constraints.txt $(VENV)/.installed | $(RUN)
	$(INSTALL) --group docs
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt $(VENV)/.installed | $(RUN)
	$(INSTALL) --group dev
	@touch $@
