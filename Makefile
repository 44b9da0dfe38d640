# tinyllm.h and tinygnn.h: `make help` lists the targets. Needs a C compiler and make; other tools are used if present.

ifeq ($(origin CC),default)
CC := $(shell command -v gcc || command -v clang || echo cc)
endif
ifeq ($(origin CXX),default)
CXX := $(shell command -v g++ || command -v clang++ || echo c++)
endif
WARNINGS = -Wall -Wextra -Wpedantic -Wconversion -Wshadow
CFLAGS ?= -O2 -std=c99 $(WARNINGS)
BUILD ?= build
# where tinyllm.h and tinygnn.h are taken from; make test INC=build/mine tests headers that
# `make stitch INC=build/mine` wrote
INC ?= .
# make test ONLY=math/norm runs the tests whose path contains that
ONLY ?=
# compilers, and then tests, at the same time: as many as there are processors, and GB of memory
JOBS ?= $(shell \
    n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1); gb=$$(awk '/^MemTotal/ { print int($$2 / 1e6) }' \
    /proc/meminfo 2>/dev/null); [ "$${gb:-$$n}" -ge $$n ] && echo $$n || echo $$((gb > 1 ? gb : 1)))

comma := ,
hash := \#
# $(call accepts,headers,call,flags): the flags, if a program with these headers and this call compiles and links. The
# output is a temporary file, since a compiler run by root may replace /dev/null with its program.
accepts = $(shell out=$$(mktemp) && { for h in $(1); do echo "$(hash)include <$$h>"; done; \
    echo 'int main(void) { $(2); return 0; }'; } | \
    $(CC) -x c - -o $$out $(3) >/dev/null 2>&1 && echo '$(3)'; rm -f $$out)
DL := $(call accepts,dlfcn.h,dlopen(0$(comma) 1),-ldl)
OPENMP := $(call accepts,omp.h,omp_get_max_threads(),-fopenmp)
# the first library that has a CBLAS; searched only when something is linked with it
CBLAS_CALL = cblas_sscal(1$(comma) 0$(comma) 0$(comma) 1)
BLAS = $(addprefix -DHAVE_BLAS ,$(firstword $(foreach l,-lopenblas -lblas -lcblas, \
    $(call accepts,cblas.h,$(CBLAS_CALL),$(l)))))
OPENCL = $(if $(call accepts,CL/cl.h,clFinish(0),-lOpenCL),-DHAVE_OPENCL -lOpenCL)
# shared libraries of the kind of Linux and BSD
HAVE_ELF = $(call accepts,stdio.h,,-shared -fPIC -Wl$(comma)-soname$(comma)libx.so.0)

# $(call lacks,avx512f,flags): the flags, on a processor that is known not to have it
# $(call has,avx2,flags): the flags, on one that is known to have it
lacks = $(shell test -r /proc/cpuinfo && ! grep -q '$(1)' /proc/cpuinfo && echo $(2))
has = $(shell test -r /proc/cpuinfo && grep -q '$(1)' /proc/cpuinfo && echo $(2))

SOURCES := $(sort $(shell find src -name '*.[ch]')) src/features.txt
HEADERS := $(INC)/tinyllm.h $(INC)/tinygnn.h
NOT_TESTS = tests/conformance.c tests/fuzz/% tests/mutants/% tests/ports/% tests/units/%
TESTS := $(filter-out $(NOT_TESTS),$(sort $(shell find tests -name '*.c')))
TESTS := $(foreach f,$(TESTS),$(if $(or $(if $(ONLY),,all),$(findstring $(ONLY),$(f))),$(f)))
PROGRAMS := $(TESTS:%.c=$(BUILD)/%)
# examples/x.c becomes build/x, examples/copy/x.c build/copy/x
SAMPLES := $(wildcard examples/*.c examples/copy/*.c)
GNN_SAMPLES := $(shell grep -l '"tinygnn.h"' $(SAMPLES))
TOOL_SAMPLES := $(shell grep -lE 'define TINY(LLM|GNN)_(TOOLS|LAB|ALL)' $(SAMPLES))
EXAMPLES := $(SAMPLES:examples/%.c=$(BUILD)/%)
RUN_EXAMPLES := $(patsubst examples/%.c,$(BUILD)/%,$(filter-out $(TOOL_SAMPLES),$(SAMPLES)))
COMPILE = $(CC) $(CFLAGS) $(OPENMP) -I$(INC) -I.
# what is no part of the library compiles in half the time
COMPILE_TEST = $(patsubst -O2,-O1,$(COMPILE))

.PHONY: help all picture pictures ways scale smaller try demo machine retrain retrain-check test test-clone sweep \
    run-tests programs bench bench-quick bench-compile bench-peers bench-targets bench-arm bench-mpi check-scripts \
    mutants conformance test-ports test-python fuzz soak asan tsan stitch stitch-check docs setup examples \
    examples-all examples-alone mpi test-mpi style-check page test-serve test-page clean install uninstall shared dist
.DELETE_ON_ERROR:
.SECONDARY:

help:            ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  \1@/p' Makefile | awk -F@ '{ printf "%-16s %s\n", $$1, $$2 }'

demo: $(BUILD)/story-demo       ## the model of this repository writes a story; checks each SIMD target of the program
	@$(BUILD)/story-demo examples/models/story-gla.gguf --machine

machine: $(BUILD)/demo $(BUILD)/conformance  ## this machine's targets, a few operations, and a short conformance run
	$(BUILD)/demo
	$(BUILD)/conformance --cases 12

retrain: $(BUILD)/train-story $(BUILD)/judge  ## (up to an hour) retrains the story model, judges it and the old one
	$(BUILD)/train-story --config examples/story-gla.cfg --seed 1 --out $(BUILD)/story-gla.gguf
	$(BUILD)/judge examples/models/story-gla.gguf
	$(BUILD)/judge $(BUILD)/story-gla.gguf
	@cmp examples/models/story-gla.gguf $(BUILD)/story-gla.gguf && echo "the same bytes" || \
	  echo "other bytes: another SIMD target adds in another order; compare the tables"

retrain-check: $(BUILD)/train-story  ## the first 30 steps: each loss must be within 0.01 bits of the recorded one
	$(BUILD)/train-story --config examples/story-gla.cfg --seed 1 --out $(BUILD)/story-check.gguf --stop 30 --quiet
	@awk '!/^#/ { d = $$2 - want[$$1]; if (FNR == NR) want[$$1] = $$2; \
	    else if ($$1 in want) { n++; if (d < 0) d = -d; if (d > worst) worst = d } } \
	  END { printf "%d steps compared, largest difference %.5f bits\n", n, worst; exit !(n == 30 && worst < 0.01) }' \
	  docs/dev/story-gla.tsv $(BUILD)/story-check.gguf.tsv

test: setup      ## runs every test on every SIMD target of this machine; the last line is: N passed, N failed
	@+sh tests/run.sh --build $(MAKE) --no-print-directory -k -j$(JOBS) programs || true
	@BUILD=$(BUILD) INC=$(INC) ONLY='$(ONLY)' CC='$(CC)' JOBS=$(JOBS) sh tests/run.sh \
	    units-compilers units-shapes units-nulls units-install units-docs stitch-check stitch checksums \
	    $(TESTS) $(wildcard examples/*.c)

# these tests read oracles and data that are too large for the repository (tests/place.h)
READERS = $(shell grep -lE 't_(shared|find|one_of|place)|apart[.]h|token/kit[.]h' $(TESTS))
test-clone:      ## after make test: again without the files that a clone lacks; fails if more than 15 are skipped
	@T_SHARED=none AGAIN=1 MOST_SKIPPED=15 BUILD=$(BUILD) INC=$(INC) ONLY='$(ONLY)' CC='$(CC)' JOBS=$(JOBS) \
	  sh tests/run.sh checksums $(READERS)

SWEEP ?= exp log tanh erf sigmoid sin cos rsqrt
PARTS ?= 64
sweep: $(BUILD)/tests/math/elem  ## (hours) functions of one argument over all 2^32 floats; SWEEP="exp" PARTS=64
	@for f in $(SWEEP); do i=0; while [ $$i -lt $(PARTS) ]; do i=$$((i + 1)); \
	  printf '%s/%s ' $$i $(PARTS); \
	  T_ONLY=test_sweep T_SWEEP=$$f T_EXHAUSTIVE=$$i/$(PARTS) nice $< | grep -v passed,.0.failed || true; done; done

run-tests:
	@$(MAKE) -s --no-print-directory -k -j$(JOBS) programs || true
	@BUILD=$(BUILD) INC=$(INC) ONLY='$(ONLY)' CC='$(CC)' JOBS=$(JOBS) sh tests/run.sh $(TESTS)

# each file of src by itself, so that a change compiles one file; a test of both kinds links with these
TRY = $(BUILD)/try
NOT_TRIED = src/stitch.c src/math/all.c src/llm/tinyllm.c src/gnn/tinygnn.c
TRY_OBJECTS := $(patsubst src/%.c,$(TRY)/%.o,$(filter-out $(NOT_TRIED),$(filter %.c,$(SOURCES))))
$(TRY)/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(OPENMP) -Isrc -MMD -c $< -o $@
-include $(TRY_OBJECTS:.o=.d)
$(TRY)/libtinyllm.a: $(filter-out $(TRY)/gnn/%,$(TRY_OBJECTS))
	@rm -f $@
	ar qcs $@ $^
$(TRY)/libtinygnn.a: $(filter-out $(TRY)/llm/%,$(TRY_OBJECTS))
	@rm -f $@
	ar qcs $@ $^
try:            ## the daily loop: runs the tests named by ONLY=llm/sample/grammar, compiles each file of src/ by itself
	@$(MAKE) -s --no-print-directory stitch INC=$(TRY)
	@$(MAKE) -s --no-print-directory -j$(shell getconf _NPROCESSORS_ONLN || echo 1) \
	  $(TRY)/libtinyllm.a $(TRY)/libtinygnn.a INC=$(TRY) ONLY=
	@for t in $(PROGRAMS:$(BUILD)/%=%); do \
	    mkdir -p $(TRY)/$$(dirname $$t); lib=tinyllm; case $$t in tests/gnn/*) lib=tinygnn ;; esac; \
	    $(CC) $(CFLAGS) $(OPENMP) -I$(TRY) -I. -Itests -Isrc -DTINYI_OPEN $$t.c -o $(TRY)/$$t \
	        $(TRY)/lib$$lib.a -pthread -lm && echo $$t && $(TRY)/$$t || exit 1; done

programs: $(PROGRAMS) $(EXAMPLES) $(BUILD)/checksums $(BUILD)/conformance

conformance: $(BUILD)/conformance  ## runs the conformance kit over all operations and targets; build/conformance --help
	$(BUILD)/conformance

bench: $(BUILD)/bench              ## measures every operation against this machine's limits, writes docs/dev/bench.*
	$(BUILD)/bench

bench-compile: $(BUILD)/stitch     ## (half an hour) compile time of tiers and features; BASE=FOLDER adds older headers
	BUILD=$(BUILD) INC=$(INC) CC='$(CC)' BASE='$(BASE)' sh bench/compile.sh

bench-quick: $(BUILD)/bench        ## a short make bench, in under a minute, printed only
	$(BUILD)/bench --quick

bench-targets: $(BUILD)/bench     ## (an hour) fails if the default target is 5 % slower than a narrower one in any row
	$(BUILD)/bench --targets

bench-peers:     ## compares with OpenBLAS, oneDNN, MKL, llama.cpp, PyG, DGL; DLLAMA=PROGRAM: with distributed-llama
	BUILD=$(BUILD) CC='$(CC)' DLLAMA='$(DLLAMA)' sh bench/peers/run.sh

bench-arm: $(HEADERS)  ## counts instructions, models cycles of block products on ARM: qemu-user, a cross gcc, llvm-mca
	CC='$(CC)' python3 bench/arm/run.py $(BUILD) $(INC)

SMALLER = quantize slice prune judge bench-model story-gen
smaller: $(SMALLER:%=$(BUILD)/%)  ## (10 minutes) every way to make a model smaller, for docs/guide/smaller-models.md
	python3 bench/smaller.py $(BUILD)

picture:         ## draws docs/img/speed.svg, the picture of README.md, from docs/dev/speed.tsv
	python3 docs/dev/speed-picture.py docs/dev/speed.tsv docs/img/speed.svg

ways: $(BUILD)/docs/dev/ways  ## draws docs/img/ways.svg, the picture of docs/guide/collectives.md
	$< > $(BUILD)/ways.svg
	mv $(BUILD)/ways.svg docs/img/ways.svg

scale: $(BUILD)/docs/dev/scale  ## prints the table of docs/dev/scale.md: 2 to 8 real ranks, 2 to 1024 simulated ones
	$<

PICTURES = tdn deeponet spiking_nerf operator wave compress_net robust_nets search_net meta_prune distserve pipeline \
    onebyte noloco moe_fold zero_topo energon

pictures: $(PICTURES:%=$(BUILD)/%)  ## (a minute) programs that draw, with small settings, into build/pictures; ONLY=tdn
	@BUILD=$(BUILD) ONLY='$(ONLY)' sh docs/dev/pictures.sh

check-scripts:   ## runs the scripts of bench/peers, bench/arm, tests/ports and tests/fuzz in their shortest form
	@BUILD=$(BUILD) CC='$(CC)' sh bench/peers/run.sh --check
	@CC='$(CC)' python3 bench/arm/run.py $(BUILD) $(INC) --check
	@$(MAKE) -s --no-print-directory $(BUILD)/bench
	@$(BUILD)/bench --targets --only door --check
	@$(MAKE) -s --no-print-directory $(SMALLER:%=$(BUILD)/%)
	@python3 bench/smaller.py $(BUILD) --check
	@BUILD=$(BUILD) INC=$(INC) sh tests/ports/run.sh --check
	@BUILD=$(BUILD) INC=$(INC) CC='$(CC)' sh tests/fuzz/run.sh --check

mutants:         ## (an hour) puts faults into src/, prints those that no test sees; SEED=1 N=100 ONLY=llm/model
	@BUILD=$(BUILD) CC='$(CC)' JOBS=$(if $(filter 1,$(JOBS)),2,$(JOBS)) SEED=$(or $(SEED),1) N=$(or $(N),100) \
	  ONLY='$(ONLY)' sh tests/mutants/run.sh

test-ports:      ## checks other processors and systems, emulated; prints a row for each, or "not run"
	@sh tests/setup.sh ports
	@BUILD=$(BUILD) INC=$(INC) sh tests/ports/run.sh

test-python:     ## builds the wheel of the Python package, installs it under build/, runs its tests
	@BUILD=$(BUILD) INC=$(INC) CC='$(CC)' sh ports/python/test.sh

MINUTES ?= 30
soak:            ## build/serve with the sanitizers under mixed load for MINUTES=30: answers, end, memory
	@$(MAKE) -s --no-print-directory BUILD=$(BUILD)/asan $(SANITIZED) \
	  -fsanitize=address,undefined -fno-sanitize-recover=undefined' $(BUILD)/asan/serve
	@python3 tests/serve/soak.py $(BUILD)/asan/serve $(MINUTES)

fuzz: $(HEADERS) ## runs each target of tests/fuzz on hostile input, a minute each
	@BUILD=$(BUILD) INC=$(INC) CC='$(CC)' sh tests/fuzz/run.sh

# AVX2 without AVX-VNNI, whose kernels are separate source; no code that this processor cannot run; and one build of
# tinygnn.h, with its internal functions exported, for both kinds of tests.
# LESS: further flags; -DTINY_NO_W128 saves a third of the time. In make test the inaccessible pages after arrays
# (tests/t.h) check those kernels.
LESS ?=
SANITIZED = ONE_FORM=1 CFLAGS='-O1 -g1 -std=c99 $(WARNINGS) -fno-omit-frame-pointer \
    $(call lacks,avx512f,-DTINY_NO_AVX512) -DTINY_NO_VNNI $(LESS)
asan:            ## runs the tests under the address and undefined behaviour sanitizers
	@$(MAKE) -s --no-print-directory run-tests BUILD=$(BUILD)/asan $(SANITIZED) \
	  -fsanitize=address,undefined -fno-sanitize-recover=undefined'

tsan:            ## runs the tests under the thread sanitizer, with POSIX threads instead of OpenMP
	@$(MAKE) -s --no-print-directory run-tests BUILD=$(BUILD)/tsan OPENMP= $(SANITIZED) \
	  -fsanitize=thread -DTINY_PTHREAD'

stitch: $(BUILD)/stitch  ## generates tinyllm.h and tinygnn.h from src/
	@mkdir -p $(INC)
	$(BUILD)/stitch src tinyllm $(INC)/tinyllm.h
	$(BUILD)/stitch src tinygnn $(INC)/tinygnn.h

stitch-check: $(BUILD)/stitch  ## fails if tinyllm.h or tinygnn.h differs from the stitched src/
	@mkdir -p $(BUILD)/check
	@for h in tinyllm tinygnn; do \
	  $(BUILD)/stitch src $$h $(BUILD)/check/$$h.h && cmp -s $(BUILD)/check/$$h.h $(INC)/$$h.h || \
	  { echo "$$h.h differs from src/: run make stitch"; exit 1; }; done
	@for f in $$(cd src && find . -name '*.c' ! -name stitch.c | cut -c3-); do \
	  grep -q " $$f\$$" $(INC)/tinyllm.h $(INC)/tinygnn.h || { echo "src/$$f is in no header"; exit 1; }; done
	@$(BUILD)/stitch src options $(BUILD)/check/options && \
	  sed -n '/^<!-- features -->/,/^<!-- end of features -->/p' docs/guide/options.md | sed '1d;$$d' | \
	  cmp -s - $(BUILD)/check/options || \
	  { echo "docs/guide/options.md differs from src/features.txt: run make docs"; exit 1; }

docs: $(BUILD)/docs/papers/catalogue $(BUILD)/stitch  ## generates the catalogue and the table of docs/guide/options.md
	$(BUILD)/stitch src options $(BUILD)/options.part
	awk -v part=$(BUILD)/options.part \
	  '/^<!-- features -->/ { print; while ((getline line < part) > 0) print line; skip = 1 } \
	  /^<!-- end of features -->/ { skip = 0 } \
	  !skip && !/^<!-- features -->/ { print }' docs/guide/options.md > $(BUILD)/options.page
	mv $(BUILD)/options.page docs/guide/options.md
	$(BUILD)/docs/papers/catalogue > $(BUILD)/catalogue.part
	mv $(BUILD)/catalogue.part docs/papers/catalogue.md

CODE = Makefile .ci src tests examples bench ports docs/papers/catalogue.c tinyllm.h tinygnn.h
style-check:     ## fails if a line of code is wider than 120 columns, except in tables under a "wide table" comment
	@{ git ls-files -- $(CODE) 2>/dev/null | grep . || find $(CODE) -type f; } | grep -v '/corpus/' | \
	  grep -E '(Makefile|run|[.](c|h|cpp|sh|py|js|html))$$' | xargs awk '\
	    FNR == 1 || /^$$/ { table = 0 } \
	    /wide table/ { table = 1 } \
	    length($$0) > 120 && !table { n++; print FILENAME ":" FNR ": " length($$0) " columns" } \
	    END { print n + 0 " wide lines"; exit n > 0 }'

setup:           ## as root on Debian or Ubuntu installs the packages of the tests; elsewhere prints the command
	@sh tests/setup.sh test

examples: $(RUN_EXAMPLES)  ## builds the programs of examples/ that run models and graphs, and those of examples/copy

examples-all: $(EXAMPLES)  ## builds every program of examples/

# cc -O2 ... examples/copy/x.c ... -o x of each head comment becomes $(CC) -O0 -DTINY_NO_SIMD ... -o build/alone/x
examples-alone: $(BUILD)/story-model.h $(HEADERS)  ## compiles each program of examples/copy alone, as its comment says
	@mkdir -p $(BUILD)/alone
	@for f in examples/copy/*.c; do \
	    line=$$(sed -n 's|^ \* *cc \(.*examples/copy/.* -o \)\([a-z_]*\).*|\1$(BUILD)/alone/\2|p' $$f); \
	    line=$$(echo "$$line" | sed 's|-O2|-O0 -DTINY_NO_SIMD|; s|-I\.|-I$(INC) -I$(BUILD)|'); \
	    echo "$(CC) $$line"; $(CC) $$line || exit 1; done

clean:           ## removes build/
	rm -rf $(BUILD)

$(BUILD)/stitch: src/stitch.c
	@mkdir -p $(@D)
	$(CC) -O1 -std=c99 $(WARNINGS) $< -o $@

# headers in another folder INC are made when src/ changes; those of the repository only by make stitch
ifneq ($(INC),.)
$(HEADERS): $(INC)/%.h: $(BUILD)/stitch $(SOURCES)
	@mkdir -p $(@D)
	$(BUILD)/stitch src $* $@
endif

# one copy of the implementation for every test that needs only the public functions, in parts that compile in parallel;
# an archive, so that a program with its own implementation links nothing from it. Under the sanitizers it has 60 MB, so
# there the archive is a text that names a shared library to the linker: a copy in each program took 18 GB.
PARTS = 1 2 3 4
SO_TEST := $(and $(ONE_FORM),$(HAVE_ELF))
PIC = $(if $(SO_TEST),-fPIC)
define ARCHIVE
	rm -f $@ $(@:.a=.so)
	$(if $(SO_TEST),$(COMPILE) -shared -Wl$(comma)-Bsymbolic $^ -o $(@:.a=.so) -pthread -lm,ar rcs $@ $^)
	$(if $(SO_TEST),echo 'INPUT(AS_NEEDED($(abspath $(@:.a=.so))))' >$@)
endef
define PART
$$(BUILD)/tinyllm-$(1).o $$(BUILD)/tinygnn-$(1).o: $$(BUILD)/%-$(1).o: $$(INC)/%.h
	@mkdir -p $$(@D)
	up=$$$$(echo $$* | tr a-z A-Z); \
	{ printf "#define $$$${up}_%s\n" ALL IMPLEMENTATION "PARTS $(lastword $(PARTS))" "PART $(1)"; \
	  echo "#include <$$*.h>"; } | $$(COMPILE) $$(PIC) -x c -c - -o $$@
endef
$(foreach k,$(PARTS),$(eval $(call PART,$(k))))
$(BUILD)/libtinyllm.a: $(PARTS:%=$(BUILD)/tinyllm-%.o)
	$(ARCHIVE)
ifdef ONE_FORM
$(BUILD)/libtinygnn.a: $(BUILD)/open/tinygnn.o
else
$(BUILD)/libtinygnn.a: $(PARTS:%=$(BUILD)/tinygnn-%.o)
endif
	$(ARCHIVE)

# tests of internal functions of core and math, which both headers contain: the shorter header is compiled with these
# functions exported, without code that this processor cannot run
INNER_CODE = $(call lacks,avx512f,-DTINY_NO_AVX512)
INNER := $(patsubst %.c,$(BUILD)/%,$(shell grep -l 'define T_INTERNALS' $(TESTS)))
$(BUILD)/open/tinygnn.o: $(INC)/tinygnn.h
	@mkdir -p $(@D)
	printf '#define TINYGNN_ALL\n#define TINYGNN_IMPLEMENTATION\n#include <tinygnn.h>\n' | \
	    $(COMPILE_TEST) $(INNER_CODE) $(PIC) -DTINYI_OPEN -x c -c - -o $@
OPEN = $(if $(ONE_FORM),$(BUILD)/libtinygnn.a,$(BUILD)/open/tinygnn.o)
$(INNER): $(BUILD)/tests/%: tests/%.c tests/t.h tests/place.h $(OPEN) $(SOURCES)
	@mkdir -p $(@D)
	$(COMPILE) $(INNER_CODE) -Isrc -Itests $< -o $@ $(OPEN) -pthread -lm

$(BUILD)/tests/gnn/%: tests/gnn/%.c tests/t.h tests/place.h $(BUILD)/libtinygnn.a
	@mkdir -p $(@D)
	$(COMPILE_TEST) $(if $(ONE_FORM),-DTINYI_OPEN) -Itests $< -o $@ $(BUILD)/libtinygnn.a -pthread -lm

$(BUILD)/tests/%: tests/%.c tests/t.h tests/place.h $(BUILD)/libtinyllm.a
	@mkdir -p $(@D)
	$(COMPILE_TEST) -Itests $< -o $@ $(BUILD)/libtinyllm.a -pthread -lm

# counts the executed basic blocks in its own implementation without vectors, if the compiler can call a counter; not
# needed under the sanitizers
STEPS = $(if $(ONE_FORM),,$(filter-out -c,$(call accepts,stdint.h,,-fsanitize-coverage=trace-pc -c)))
$(BUILD)/tests/llm/growth: tests/llm/growth.c tests/llm/file/kit.h tests/t.h tests/place.h $(BUILD)/libtinyllm.a
	@mkdir -p $(@D)
	printf '%s\n' 'void __sanitizer_cov_trace_pc(void);' 'volatile unsigned long long t_steps;' \
	    'void __sanitizer_cov_trace_pc(void) { t_steps++; }' | $(COMPILE) -x c -c - -o $@.o
	$(COMPILE) -O0 -Itests $(addprefix -DT_STEPS ,$(STEPS)) $< $@.o -o $@ $(BUILD)/libtinyllm.a -pthread -lm

$(BUILD)/tests/backends: tests/backends.c tests/t.h tests/place.h $(HEADERS) $(wildcard ports/*/*.[ch]) \
    $(BUILD)/libtinyllm.a
	@mkdir -p $(@D)
	$(COMPILE_TEST) -Itests $< -o $@ $(BUILD)/libtinyllm.a $(BLAS) $(OPENCL) -pthread -lm

$(BUILD)/conformance: tests/conformance.c $(HEADERS) $(wildcard ports/*/*.[ch]) $(BUILD)/libtinyllm.a
	@mkdir -p $(@D)
	$(COMPILE) $< -o $@ $(BUILD)/libtinyllm.a $(BLAS) $(OPENCL) -pthread -lm

$(BUILD)/checksums: $(wildcard tests/ports/*.[ch]) $(HEADERS) $(BUILD)/libtinyllm.a
	$(COMPILE) $(filter %.c,$^) -o $@ $(BUILD)/libtinyllm.a -pthread -lm

# Each example would compile alone too, but one copy of the bodies is enough here. `make examples`, or one of its
# programs by name, compiles what runs models and graphs, with the features that these examples name, for this
# processor. Everything else links the libraries of the tests. A program is linked again when the kind changes.
KIND := $(if $(filter examples $(RUN_EXAMPLES),$(MAKECMDGOALS)),run,all)
RUN_CODE = $(INNER_CODE) $(call lacks,avx_vnni,-DTINY_NO_VNNI) $(call has,avx2,-DTINY_NO_W128)
LIB_OF = $(if $(and $(filter run,$(KIND)),$(filter $(2),$(RUN_EXAMPLES))),$(BUILD)/run/$(1).o,$(BUILD)/lib$(1).a)
$(BUILD)/examples.run $(BUILD)/examples.all:
	@mkdir -p $(@D) && rm -f $(BUILD)/examples.* && touch $@
$(BUILD)/run/%.o: $(INC)/%.h
	@mkdir -p $(@D)
	{ sed -n '/^#define TINY[A-Z]*_WITH_/p' $(filter-out $(TOOL_SAMPLES),$(SAMPLES)) | sort -u; \
	    echo "#define $(shell echo $* | tr a-z A-Z)_IMPLEMENTATION"; echo "#include <$*.h>"; } | \
	    $(COMPILE) $(RUN_CODE) -x c -c - -o $@
$(BUILD)/bytes: examples/bytes.c $(HEADERS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $< -o $@
.SECONDEXPANSION:
$(filter-out $(BUILD)/bytes,$(EXAMPLES)): $(BUILD)/%: \
    examples/%.c examples/options.h examples/apart.h $(HEADERS) $(BUILD)/examples.$(KIND) \
    $$(call LIB_OF,$$(if $$(filter examples/$$*.c,$$(GNN_SAMPLES)),tinygnn,tinyllm),$$@)
	@mkdir -p $(@D)
	$(COMPILE) -I$(BUILD) $(if $(and $(ONE_FORM),$(filter $<,$(GNN_SAMPLES))),-DTINYI_OPEN) \
	    -DTINYLLM_LINKED -DTINYGNN_LINKED $< -o $@ $(filter %.a %.o,$^) -pthread -lm
$(BUILD)/copy/linked: $(BUILD)/story-model.h
$(BUILD)/operator: examples/solvers.h
$(BUILD)/deeponet: examples/solvers.h examples/picture.h
$(BUILD)/wave: examples/picture.h
$(BUILD)/sbp: examples/world.h
$(BUILD)/ranks: examples/world.h
$(BUILD)/onebyte $(BUILD)/noloco: examples/world.h examples/curve.h
$(BUILD)/pipeline $(BUILD)/energon: examples/world.h
$(BUILD)/pipeline $(BUILD)/docs/dev/scale: examples/nap.h
$(BUILD)/pipeline $(BUILD)/moe_fold $(BUILD)/zero_topo: examples/svg.h
$(BUILD)/moe_fold $(BUILD)/zero_topo: examples/world.h
$(BUILD)/prima: examples/world.h examples/devices.h examples/join.h
$(BUILD)/cluster: examples/devices.h examples/join.h
$(BUILD)/easyspec $(BUILD)/distserve: examples/world.h
$(BUILD)/serve: examples/serve-page.h
$(BUILD)/cluster: examples/cluster.h

# the page of build/serve as texts of C; committed, so that the program compiles without this rule
page:            ## makes examples/serve-page.h from examples/serve-page.html
	@{ echo "/* wide table: examples/serve-page.html line by line, made by make page */"; \
	  echo "static const char *const serve_page[] = {"; \
	  sed 's/\\/\\\\/g; s/"/\\"/g; s/^/    "/; s/$$/\\n",/' examples/serve-page.html; echo "};"; } > \
	  examples/serve-page.h

test-serve: $(BUILD)/serve       ## build/serve by two client libraries of PyPI; EMBED=FILE adds an embedding model
	@sh tests/setup.sh serve
	@BUILD=$(BUILD) sh tests/serve/run.sh clients $(EMBED)

# programs whose ranks are processes that mpirun starts; each takes --check, which compares with one rank
MPI_PROGRAMS = ranks prima onebyte noloco pipeline moe_fold zero_topo sbp easyspec energon distserve
MPICC ?= mpicc
MPI ?= $(BUILD)/mpi
MPI_COMPILE = $(MPICC) $(patsubst -O2,-O1,$(CFLAGS)) $(OPENMP) -I$(INC) -I. -Iports -DTINYLLM_LINKED
$(MPI)/net: ports/mpi/tests/net.c ports/mpi/tiny_mpi.h $(HEADERS) $(BUILD)/libtinyllm.a
	@mkdir -p $(@D)
	$(MPI_COMPILE) $< -o $@ $(BUILD)/libtinyllm.a -pthread -lm
$(MPI)/bench: ports/mpi/bench.c $(HEADERS) $(BUILD)/libtinyllm.a
	@mkdir -p $(@D)
	$(MPI_COMPILE) $< -o $@ $(BUILD)/libtinyllm.a -pthread -lm
$(MPI_PROGRAMS:%=$(MPI)/%): $(MPI)/%: examples/%.c examples/options.h examples/world.h ports/mpi/tiny_mpi.h $(HEADERS) \
    $(BUILD)/libtinyllm.a
	@mkdir -p $(@D)
	$(MPI_COMPILE) -DWORLD_MPI $< -o $@ $(BUILD)/libtinyllm.a -pthread -lm
$(MPI)/onebyte $(MPI)/noloco: examples/curve.h
mpi: $(MPI)/net $(MPI_PROGRAMS:%=$(MPI)/%)  ## programs with ranks for mpirun, in build/mpi; MPICC=mpicc.mpich

MPI_RANKS ?= 2 4 8
# for Open MPI: its transport over TCP, and waiting that leaves the processor to others
MPI_TCP = --mca pml ob1 --mca btl tcp,self --mca mpi_yield_when_idle 1 --oversubscribe
MPIRUN ?= mpirun
ROUNDS ?= 21
bench-mpi: $(MPI)/bench          ## (minutes) our sums over TCP loopback next to MPI_Allreduce over its TCP; Open MPI
	@for n in $(MPI_RANKS); do $(MPIRUN) $(MPI_TCP) -n $$n $< $(ROUNDS) || exit 1; done

MPI_KIND ?= openmpi mpich
test-mpi:        ## the transport over MPI and these programs, by Open MPI and MPICH where they are installed
	@BUILD=$(BUILD) INC=$(INC) MAKE='$(MAKE)' PROGRAMS='$(MPI_PROGRAMS)' RANKS='$(MPI_RANKS)' KINDS='$(MPI_KIND)' \
	  sh ports/mpi/test.sh

test-page: $(BUILD)/serve        ## the page of build/serve in headless Chromium; screenshots in build/serve-page
	@BUILD=$(BUILD) sh tests/serve/run.sh page

# compiled in a short time: the targets and formats of most machines and models, in two parts in parallel
DEMO = $(CC) -O1 -std=c99 $(WARNINGS) -DTINY_NO_W128 -DTINY_NO_AVX512 -DTINY_NO_AMX -DTINY_NO_VNNI \
    -DTINYLLM_FEW_FORMATS -DTINYLLM_WITH_JUDGE= -DTINY_WITH_CONFORM= $(OPENMP) -I$(INC)
$(BUILD)/demo-%.o: $(INC)/tinyllm.h
	@mkdir -p $(@D)
	printf '#define TINYLLM_IMPLEMENTATION\n#include <tinyllm.h>\n' | \
	    $(DEMO) -DTINYLLM_PARTS=2 -DTINYLLM_PART=$* -x c -c - -o $@
$(BUILD)/story-demo: examples/story.c examples/options.h $(HEADERS)
	@$(MAKE) -s --no-print-directory -j2 $(BUILD)/demo-1.o $(BUILD)/demo-2.o
	$(DEMO) -DTINYLLM_LINKED $< $(BUILD)/demo-1.o $(BUILD)/demo-2.o -o $@ -pthread -lm

# the small model as bytes, and a program that carries it
$(BUILD)/story-model.h: $(BUILD)/bytes examples/models/story-small.gguf
	$(BUILD)/bytes examples/models/story-small.gguf story_model > $@.part
	mv $@.part $@
$(BUILD)/story-linked: examples/story.c examples/options.h $(BUILD)/story-model.h $(HEADERS) $(BUILD)/libtinyllm.a
	$(COMPILE) -I$(BUILD) -DTINYLLM_LINKED -DSTORY_LINKED $< -o $@ $(BUILD)/libtinyllm.a -pthread -lm

BENCH := $(filter-out bench/arm/%,$(sort $(shell find bench -name '*.c')))
$(BUILD)/bench: $(BENCH) bench/bench.h bench/llm/grids.h bench/gnn/deepwalk.h bench/peers/peers.h $(HEADERS) \
    $(BUILD)/libtinyllm.a $(BUILD)/libtinygnn.a
	@mkdir -p $(@D)
	$(COMPILE) -Ibench $(BENCH) $(BUILD)/libtinyllm.a $(BUILD)/libtinygnn.a -o $@ -pthread -lm $(DL)

$(BUILD)/docs/%: docs/%.c $(HEADERS) $(BUILD)/libtinyllm.a $(BUILD)/libtinygnn.a
	@mkdir -p $(@D)
	$(COMPILE) $< -o $@ $(BUILD)/libtinyllm.a $(BUILD)/libtinygnn.a -pthread -lm

# ---- packages. PREFIX, INCLUDEDIR and LIBDIR are the places, DESTDIR a folder to put in front of them. SHARED=1 adds
# libtinyllm.so and libtinygnn.so, which the .pc files and the CMake targets then link; run ldconfig where it is needed.
VERSION := $(shell sed -n 's/^.define TINY_VERSION_[MP].* //p' src/core/config.h | paste -s -d . -)
SO_VERSION = 0
PREFIX ?= /usr/local
INCLUDEDIR ?= $(PREFIX)/include
LIBDIR ?= $(PREFIX)/lib
SHARED ?=
BOTH = tinyllm tinygnn
.PHONY: install uninstall shared dist

# $(call fill,template): with the values for the header $$n
below_prefix = $(patsubst $(PREFIX)/%,\$${prefix}/%,$(1))
fill = sed -e "s|@NAME@|$$n|g; s|@VERSION@|$(VERSION)|g; s|@PREFIX@|$(PREFIX)|g" \
    -e "s|@INCLUDEDIR@|$(call below_prefix,$(INCLUDEDIR))|g; s|@LIBDIR@|$(call below_prefix,$(LIBDIR))|g" \
    -e "s|@CFLAGS@|-DTINY_PTHREAD -pthread$(if $(SHARED), -D$${up}_LINKED)|g" \
    -e "s|@LIBS@|$(if $(SHARED),-L\$${libdir} -l$$n,-pthread -lm)|g" \
    -e "s|tinyllm_shared 0|tinyllm_shared $(if $(SHARED),1,0)|g" $(1)
install: $(HEADERS) $(if $(SHARED),shared)  ## headers, .pc files and CMake packages into PREFIX (and DESTDIR); SHARED=1
	@set -e; umask 022; include='$(DESTDIR)$(INCLUDEDIR)'; lib='$(DESTDIR)$(LIBDIR)'; \
	mkdir -p "$$include" "$$lib/pkgconfig"; \
	install -m 644 $(HEADERS) "$$include"; \
	for n in $(BOTH); do \
	    up=$$(echo $$n | tr a-z A-Z); \
	    mkdir -p "$$lib/cmake/$$n"; \
	    $(call fill,ports/cmake/package.pc.in) >"$$lib/pkgconfig/$$n.pc"; \
	    $(call fill,ports/cmake/version.cmake.in) >"$$lib/cmake/$$n/$$n-config-version.cmake"; \
	    $(call fill,ports/cmake/tinyllm-config.cmake) >"$$lib/cmake/$$n/$$n-config.cmake"; \
	    $(if $(SHARED),cp -RPf $(BUILD)/shared/lib$$n.so* "$$lib"; chmod 644 "$$lib/lib$$n.so.$(VERSION)";) \
	done
	@echo "installed $(VERSION) into $(DESTDIR)$(PREFIX)"

uninstall:       ## removes the files that make install put into PREFIX
	@include='$(DESTDIR)$(INCLUDEDIR)'; lib='$(DESTDIR)$(LIBDIR)'; \
	for n in $(BOTH); do \
	    rm -f "$$include/$$n.h" "$$lib/pkgconfig/$$n.pc" "$$lib/lib$$n.so" "$$lib/lib$$n.so.$(SO_VERSION)" \
	        "$$lib/lib$$n.so.$(VERSION)" "$$lib/cmake/$$n/$$n-config.cmake" "$$lib/cmake/$$n/$$n-config-version.cmake"; \
	    rmdir "$$lib/cmake/$$n" 2>/dev/null; \
	done; true

# Everything of each header, compiled in the parts of the tests' libraries. Only public functions are exported, each
# with the minor version: before 1.0 the next one may have changed them, and then a program is refused when it starts.
SO_FLAGS = $(CFLAGS) -fPIC -pthread -DTINY_PTHREAD
SO_OBJECTS = $(PARTS:%=$(BUILD)/shared/$*-%.o)
shared: $(BOTH:%=$(BUILD)/shared/lib%.so.$(VERSION))  ## builds libtinyllm.so and libtinygnn.so in build/shared
$(BUILD)/shared/lib%.so.$(VERSION): $(INC)/%.h src/core/config.h
	@[ -n '$(HAVE_ELF)' ] || { echo "shared libraries need a linker for ELF (Linux, BSD)"; exit 1; }
	@$(MAKE) -s --no-print-directory $(SO_OBJECTS) BUILD=$(BUILD)/shared CFLAGS='$(SO_FLAGS)' OPENMP=
	@{  echo "$$(echo $* | tr a-z A-Z)_$(basename $(VERSION)) {"; echo 'global:'; \
	    nm -g $(SO_OBJECTS) | awk '$$2 ~ /[TD]/ && $$3 ~ /^t(iny)?(llm|gnn)_/ { print "    " $$3 ";" }' | \
	        grep -v '_tinyi_\|_part_[0-9]'; \
	    echo 'local: *;'; echo '};'; } >$(@D)/$*.map
	$(CC) $(SO_FLAGS) -shared -Wl,-soname,lib$*.so.$(SO_VERSION) -Wl,--version-script=$(@D)/$*.map $(LDFLAGS) \
	    $(SO_OBJECTS) -o $@ -pthread -lm
	@ln -sf lib$*.so.$(VERSION) $(@D)/lib$*.so.$(SO_VERSION) && ln -sf lib$*.so.$(SO_VERSION) $(@D)/lib$*.so

DIST = tinyllm-$(VERSION)
TAR ?= tar
SHA256 = $(shell command -v sha256sum || echo shasum -a 256)
dist: stitch-check  ## makes build/dist/tinyllm-VERSION and its .tar.gz, the same bytes each time; needs GNU tar
	@rm -rf $(BUILD)/dist && mkdir -p $(BUILD)/dist/$(DIST)
	@cp $(HEADERS) LICENSE CHANGELOG.md $(BUILD)/dist/$(DIST)
	@cd $(BUILD)/dist/$(DIST) && $(SHA256) CHANGELOG.md LICENSE tinygnn.h tinyllm.h >SHA256SUMS
	@cd $(BUILD)/dist && LC_ALL=C $(TAR) --sort=name --mtime='1980-01-01 00:00:00Z' --owner=0 --group=0 --numeric-owner \
	    --mode=u=rwX,go=rX --format=ustar -cf $(DIST).tar $(DIST) && gzip -9nf $(DIST).tar
	@cd $(BUILD)/dist && $(SHA256) $(DIST).tar.gz
