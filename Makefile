# The short names; each is one command that also works by itself.
PRESET ?= release

.PHONY: help deps build wheel run test bench format lint clean

help:
	@echo "make build   build (PRESET=release|debug|asan|tsan|fuzz)"
	@echo "make wheel   the Python package in dist/, and build/client-venv to try it in"
	@echo "make run     start gateway and worker with a sample database"
	@echo "make test    build and run every suite"
	@echo "make bench   measure against plain DuckDB and rivals"
	@echo "make format  rewrite the sources in house style; make lint  check them"
	@echo "make deps    install what is missing; make clean  remove build/"

deps:
	@scripts/deps.sh

build: deps
	@cmake --preset $(PRESET) --log-level=WARNING
	@cmake --build --preset $(PRESET)

wheel: build
	@PRESET=$(PRESET) scripts/wheel.sh --venv build/client-venv

run: build
	@scripts/run.sh

test:
	@scripts/test.sh

bench: build
	@scripts/deps.sh bench
	@.deps/venv/bin/python bench/scorecard.py

format: deps
	@scripts/format.sh

lint: deps
	@scripts/lint.sh

clean:
	rm -rf build
