# `make help` tells what there is. Everything is installed into .venv and, for the tests, from Debian.

VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEBIAN := postgresql ipmitool openipmi qemu-system-x86 ipxe-qemu seabios tgt dnsmasq-base iproute2 lshw gdisk parted openssl \
	mmdebstrap zstd cpio qemu-utils ovmf mtools dosfstools genisoimage

.DEFAULT_GOAL := help
.PHONY: help run install check test bench docs debian clean

help:  ## show this help
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -e '.[dev]'
	touch $(STAMP)

install: $(STAMP)  ## set up the virtual environment

run: $(STAMP)  ## run the service on port 6385, its state in ./state
	$(BIN)/holdfast serve

debian:  ## install what the tests need from Debian (PostgreSQL, IPMI tools, machines); needs root
	@for p in $(DEBIAN); do dpkg -s $$p >/dev/null 2>&1 || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $$missing; fi

check: $(STAMP)  ## lint, types and the fast tests (under 3 minutes)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -q -m 'not real and not crash and not slow' -n 3

test: $(STAMP) debian  ## lint, types and every test, on SQLite and PostgreSQL, with real clients and emulators
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pytest -n 3 --dist loadgroup --durations=15

bench: $(STAMP)  ## measure beside a real Ironic (QUICK=1: five minutes)
	$(BIN)/python -m bench $(if $(QUICK),--quick)

docs: $(STAMP)  ## write the generated pages of docs/ anew
	$(BIN)/python docs/generate.py

clean:  ## remove what the targets above made
	rm -rf $(VENV) .venv-keystone .venv-neutron .venv-nova .venv-agent .agent-ramdisk .bench state .mypy_cache .ruff_cache .pytest_cache
