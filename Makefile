# Thin fronts of xtask, where the work is. `xtask/run --help` lists everything.

PREFIX ?= /usr/local

.PHONY: help build demo test bench lint setup install clean

help:
	@echo 'make build                  build target/ferroce (the command, the library, the keeper)'
	@echo 'make demo                   build, then run perftest over RoCEv2 on this machine'
	@echo 'make test                   format, lints, unit tests, application tests'
	@echo 'make bench                  measure against raw UDP on this machine'
	@echo 'make lint                   format and lints only'
	@echo 'make install PREFIX=DIR     copy target/ferroce to DIR (default $(PREFIX))'
	@echo 'make clean                  remove everything that was built'

build demo test bench lint setup:
	@xtask/run $@

install:
	@xtask/run install --prefix '$(PREFIX)'

clean:
	@cargo clean
