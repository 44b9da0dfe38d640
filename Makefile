# tinyllm.h and tinygnn.h: `make help` lists what can be made. Needs a C compiler and make, and uses what else is there.

ifeq ($(origin CC),default)
CC := $(shell command -v gcc || command -v clang || echo cc)
endif
ifeq ($(origin CXX),default)
CXX := $(shell command -v g++ || command -v clang++ || echo c++)
endif
WARNINGS = -Wall -Wextra -Wpedantic -Wconversion -Wshadow
CFLAGS ?= -O2 -std=c99 $(WARNINGS)
BUILD ?= build
# where tinyllm.h and tinygnn.h are taken from; make test INC=build/mine tests headers that `make stitch INC=build/mine` wrote
INC ?= .
# make test ONLY=math/norm runs the tests whose path contains that
ONLY ?=
# compilers, and then tests, at the same time: as many as there are processors, and GB of memory
JOBS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1); gb=$$(awk '/^MemTotal/ { print int($$2 / 1e6) }' \
    /proc/meminfo 2>/dev/null); [ "$${gb:-$$n}" -ge $$n ] && echo $$n || echo $$((gb > 1 ? gb : 1)))

comma := ,
hash := \#
# $(call accepts,headers,call,flags): the flags, when a program with these headers and this call compiles and links; into a file
# of its own, since a compiler run by root may put its program in the place of /dev/null
accepts = $(shell out=$$(mktemp) && { for h in $(1); do echo "$(hash)include <$$h>"; done; echo 'int main(void) { $(2); return 0; }'; } | \
    $(CC) -x c - -o $$out $(3) >/dev/null 2>&1 && echo '$(3)'; rm -f $$out)
DL := $(call accepts,dlfcn.h,dlopen(0$(comma) 1),-ldl)
OPENMP := $(call accepts,omp.h,omp_get_max_threads(),-fopenmp)
# the first library that has a CBLAS; asked for only when something is linked with it
BLAS = $(addprefix -DHAVE_BLAS ,$(firstword $(foreach l,-lopenblas -lblas -lcblas,$(call accepts,cblas.h,cblas_sscal(1$(comma) 0$(comma) 0$(comma) 1),$(l)))))
OPENCL = $(if $(call accepts,CL/cl.h,clFinish(0),-lOpenCL),-DHAVE_OPENCL -lOpenCL)

# $(call lacks,avx512f,flags): the flags, on a processor that is known not to have it
lacks = $(shell test -r /proc/cpuinfo && ! grep -q '$(1)' /proc/cpuinfo && echo $(2))

SOURCES := $(sort $(shell find src -name '*.[ch]')) src/features.txt
HEADERS := $(INC)/tinyllm.h $(INC)/tinygnn.h
TESTS := $(filter-out tests/conformance.c tests/fuzz/% tests/mutants/% tests/ports/% tests/units/%,$(sort $(shell find tests -name '*.c')))
TESTS := $(foreach f,$(TESTS),$(if $(or $(if $(ONLY),,all),$(findstring $(ONLY),$(f))),$(f)))
PROGRAMS := $(TESTS:%.c=$(BUILD)/%)
EXAMPLES := $(patsubst examples/%.c,$(BUILD)/%,$(wildcard examples/*.c))
GNN_EXAMPLES := $(patsubst examples/%.c,$(BUILD)/%,$(shell grep -l '"tinygnn.h"' examples/*.c))
COMPILE = $(CC) $(CFLAGS) $(OPENMP) -I$(INC) -I.
# what is no part of the library compiles in half the time
COMPILE_TEST = $(patsubst -O2,-O1,$(COMPILE))

.PHONY: help all try demo machine retrain retrain-check test test-clone sweep run-tests programs bench bench-quick bench-compile bench-peers check-scripts mutants conformance test-ports fuzz asan tsan stitch stitch-check docs setup examples style-check clean
.DELETE_ON_ERROR:
.SECONDARY:

help:            ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  \1@/p' Makefile | awk -F@ '{ printf "%-16s %s\n", $$1, $$2 }'

demo: $(BUILD)/story-demo       ## the model that comes with the library tells a story, at speed; this machine's targets, each checked
	@$(BUILD)/story-demo examples/models/story-gla.gguf --machine

machine: $(BUILD)/demo $(BUILD)/conformance  ## this machine's targets, a few operations, and the verdict of the conformance kit
	$(BUILD)/demo
	$(BUILD)/conformance --cases 12

retrain: $(BUILD)/train-story $(BUILD)/judge  ## trains the story model anew (minutes), and judges it beside the committed one
	$(BUILD)/train-story --config examples/story-gla.cfg --seed 1 --out $(BUILD)/story-gla.gguf
	$(BUILD)/judge examples/models/story-gla.gguf
	$(BUILD)/judge $(BUILD)/story-gla.gguf
	@cmp examples/models/story-gla.gguf $(BUILD)/story-gla.gguf && echo "the same bytes" || echo "other bytes: another SIMD target adds in another order; compare the tables"

retrain-check: $(BUILD)/train-story  ## the first 30 steps of that: each loss within 0.01 bits of the recorded course
	$(BUILD)/train-story --config examples/story-gla.cfg --seed 1 --out $(BUILD)/story-check.gguf --stop 30 --quiet
	@awk '!/^#/ { d = $$2 - want[$$1]; if (FNR == NR) want[$$1] = $$2; else if ($$1 in want) { n++; if (d < 0) d = -d; if (d > worst) worst = d } } \
	  END { printf "%d steps compared, largest difference %.5f bits\n", n, worst; exit !(n == 30 && worst < 0.01) }' docs/story-gla.tsv $(BUILD)/story-check.gguf.tsv

test: setup      ## every test on every SIMD target of this machine; the last line is: N passed, N failed
	@+sh tests/run.sh --build $(MAKE) --no-print-directory -k -j$(JOBS) programs || true
	@BUILD=$(BUILD) INC=$(INC) ONLY='$(ONLY)' CC='$(CC)' JOBS=$(JOBS) sh tests/run.sh units-compilers units-shapes units-nulls stitch-check stitch checksums $(TESTS) $(wildcard examples/*.c)

# these tests read oracles and data that are too large for the repository (tests/place.h)
READERS = $(shell grep -lE 't_(shared|find|one_of|place)|apart[.]h|token/kit[.]h' $(TESTS))
test-clone:      ## after make test: what it gives without the files that a clone lacks, and whether at most 15 tests are skipped
	@T_SHARED=none AGAIN=1 MOST_SKIPPED=15 BUILD=$(BUILD) INC=$(INC) ONLY='$(ONLY)' CC='$(CC)' JOBS=$(JOBS) sh tests/run.sh checksums $(READERS)

SWEEP ?= exp log tanh erf sigmoid sin cos rsqrt
PARTS ?= 64
sweep: $(BUILD)/tests/math/elem    ## the functions of one argument over all 2^32 floats, on every target; hours. SWEEP="exp" PARTS=64 choose
	@for f in $(SWEEP); do i=0; while [ $$i -lt $(PARTS) ]; do i=$$((i + 1)); \
	  printf '%s/%s ' $$i $(PARTS); T_ONLY=test_sweep T_SWEEP=$$f T_EXHAUSTIVE=$$i/$(PARTS) nice $< | grep -v passed,.0.failed || true; done; done

run-tests:
	@$(MAKE) -s --no-print-directory -k -j$(JOBS) programs || true
	@BUILD=$(BUILD) INC=$(INC) ONLY='$(ONLY)' CC='$(CC)' JOBS=$(JOBS) sh tests/run.sh $(TESTS)

# each file of src by itself, so that a change compiles one file; a test of both kinds links with these
TRY = $(BUILD)/try
TRY_OBJECTS := $(patsubst src/%.c,$(TRY)/%.o,$(filter-out src/stitch.c src/math/all.c src/llm/tinyllm.c src/gnn/tinygnn.c,$(filter %.c,$(SOURCES))))
$(TRY)/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(OPENMP) -Isrc -MMD -c $< -o $@
-include $(TRY_OBJECTS:.o=.d)
$(TRY)/libtinyllm.a: $(filter-out $(TRY)/gnn/%,$(TRY_OBJECTS))
	ar rcs $@ $?
$(TRY)/libtinygnn.a: $(filter-out $(TRY)/llm/%,$(TRY_OBJECTS))
	ar rcs $@ $?
try:             ## the developer's loop: the tests named by ONLY=llm/sample/grammar, over each file of src by itself
	@$(MAKE) -s --no-print-directory stitch INC=$(TRY)
	@$(MAKE) -s --no-print-directory -j$(shell getconf _NPROCESSORS_ONLN || echo 1) $(TRY)/libtinyllm.a $(TRY)/libtinygnn.a INC=$(TRY) ONLY=
	@for t in $(PROGRAMS:$(BUILD)/%=%); do \
	    mkdir -p $(TRY)/$$(dirname $$t); lib=tinyllm; case $$t in tests/gnn/*) lib=tinygnn ;; esac; \
	    $(CC) $(CFLAGS) $(OPENMP) -I$(TRY) -I. -Isrc -Itests -DTINYI_OPEN $$t.c -o $(TRY)/$$t $(TRY)/lib$$lib.a -pthread -lm && echo $$t && $(TRY)/$$t || exit 1; done

programs: $(PROGRAMS) $(EXAMPLES) $(BUILD)/checksums $(BUILD)/conformance

conformance: $(BUILD)/conformance  ## the conformance kit over all operations and targets; build/conformance --help
	$(BUILD)/conformance

bench: $(BUILD)/bench              ## measures every row against this machine's limits, writes docs/bench.md and .tsv
	$(BUILD)/bench

bench-compile: $(BUILD)/stitch     ## what each tier and feature costs to compile, into docs/options.tsv; BASE=FOLDER: older headers beside; half an hour
	BUILD=$(BUILD) INC=$(INC) CC='$(CC)' BASE='$(BASE)' sh bench/compile.sh

bench-quick: $(BUILD)/bench        ## the same in under a minute, printed only
	$(BUILD)/bench --quick

bench-peers:     ## products beside OpenBLAS, oneDNN and MKL, models beside llama.cpp, graphs beside PyG and DGL, installed under build/ or as packages
	BUILD=$(BUILD) CC='$(CC)' sh bench/peers/run.sh

check-scripts:   ## every script of bench/peers, tests/ports and tests/fuzz in its shortest form; what is not here is skipped
	@BUILD=$(BUILD) CC='$(CC)' sh bench/peers/run.sh --check
	@BUILD=$(BUILD) INC=$(INC) sh tests/ports/run.sh --check
	@BUILD=$(BUILD) INC=$(INC) CC='$(CC)' sh tests/fuzz/run.sh --check

mutants:         ## breaks src/ on purpose, one fault at a time, and prints which no test saw; SEED=1 N=100 ONLY=llm/model choose. An hour
	@BUILD=$(BUILD) CC='$(CC)' JOBS=$(if $(filter 1,$(JOBS)),2,$(JOBS)) SEED=$(or $(SEED),1) N=$(or $(N),100) ONLY='$(ONLY)' sh tests/mutants/run.sh

test-ports:      ## other processors and systems, emulated: a table with a row for each, never "passed" without a run
	@sh tests/setup.sh ports
	@BUILD=$(BUILD) INC=$(INC) sh tests/ports/run.sh

fuzz: $(HEADERS) ## hostile inputs for each target of tests/fuzz, a minute each
	@BUILD=$(BUILD) INC=$(INC) CC='$(CC)' sh tests/fuzz/run.sh

# AVX2 without AVX-VNNI, whose kernels have a text of their own; what this processor cannot run would only be compiled for the sanitizers; and one form of tinygnn.h, whose inner functions are in the open, does for both kinds of tests
# LESS: further flags; -DTINY_NO_W128 saves a third of the time, and the pages that no one may touch behind arrays (tests/t.h) watch those kernels in make test
LESS ?=
SANITIZED = ONE_FORM=1 CFLAGS='-O1 -g1 -std=c99 $(WARNINGS) -fno-omit-frame-pointer $(call lacks,avx512f,-DTINY_NO_AVX512) -DTINY_NO_VNNI $(LESS)
asan:            ## the tests under the address and undefined behaviour sanitizers
	@$(MAKE) -s --no-print-directory run-tests BUILD=$(BUILD)/asan $(SANITIZED) -fsanitize=address,undefined -fno-sanitize-recover=undefined'

tsan:            ## the tests under the thread sanitizer, with threads of our own instead of OpenMP
	@$(MAKE) -s --no-print-directory run-tests BUILD=$(BUILD)/tsan OPENMP= $(SANITIZED) -fsanitize=thread -DTINY_PTHREAD'

stitch: $(BUILD)/stitch  ## makes tinyllm.h and tinygnn.h from src/
	@mkdir -p $(INC)
	$(BUILD)/stitch src tinyllm $(INC)/tinyllm.h
	$(BUILD)/stitch src tinygnn $(INC)/tinygnn.h

stitch-check: $(BUILD)/stitch  ## fails when tinyllm.h or tinygnn.h is not what src/ gives
	@mkdir -p $(BUILD)/check
	@for h in tinyllm tinygnn; do \
	  $(BUILD)/stitch src $$h $(BUILD)/check/$$h.h && cmp -s $(BUILD)/check/$$h.h $(INC)/$$h.h || \
	  { echo "$$h.h is not what src/ gives: run make stitch"; exit 1; }; done
	@$(BUILD)/stitch src options $(BUILD)/check/options && sed -n '/^<!-- features -->/,/^<!-- end of features -->/p' docs/options.md | sed '1d;$$d' | cmp -s - $(BUILD)/check/options || \
	  { echo "docs/options.md is not what src/features.txt gives: run make docs"; exit 1; }

docs: $(BUILD)/docs/catalogue $(BUILD)/stitch  ## docs/catalogue.md from the head comments and the table of operations, the table of docs/options.md from src/features.txt
	$(BUILD)/stitch src options $(BUILD)/options.part
	awk -v part=$(BUILD)/options.part '/^<!-- features -->/ { print; while ((getline line < part) > 0) print line; skip = 1 } /^<!-- end of features -->/ { skip = 0 } !skip && !/^<!-- features -->/ { print }' docs/options.md > $(BUILD)/options.page
	mv $(BUILD)/options.page docs/options.md
	$(BUILD)/docs/catalogue > $(BUILD)/catalogue.part
	mv $(BUILD)/catalogue.part docs/catalogue.md

style-check:     ## no line of src, tests, examples, bench, ports wider than 120 columns, but tables marked "wide table" on the line before
	@git ls-files -- Makefile .ci src tests examples bench ports docs/catalogue.c tinyllm.h tinygnn.h | grep -E '(Makefile|run|[.](c|h|cpp|sh|py|js|html))$$' | grep -v '/corpus/' | \
	    xargs awk 'FNR == 1 { table = 0 } /wide table/ { table = 1 } /^$$/ { table = 0 } length($$0) > 120 && !table { n++; print FILENAME ":" FNR ": " length($$0) " columns" } \
	    END { print n + 0 " wide lines"; exit n > 0 }'

setup:           ## as root on Debian or Ubuntu installs what the tests want; elsewhere prints the one line that does
	@sh tests/setup.sh test

examples: $(EXAMPLES)    ## builds every program of examples/

clean:           ## removes build/
	rm -rf $(BUILD)

$(BUILD)/stitch: src/stitch.c
	@mkdir -p $(@D)
	$(CC) -O1 -std=c99 $(WARNINGS) $< -o $@

# where INC is a folder of its own, its headers are made when src/ changes; those of the repository only by make stitch
ifneq ($(INC),.)
$(HEADERS): $(INC)/%.h: $(BUILD)/stitch $(SOURCES)
	@mkdir -p $(@D)
	$(BUILD)/stitch src $* $@
endif

# one copy of the implementation for every test that needs only the public face, in parts that compile side by side; an archive: a
# program with an implementation of its own takes nothing from it
PARTS = 1 2 3 4
define PART
$$(BUILD)/tinyllm-$(1).o $$(BUILD)/tinygnn-$(1).o: $$(BUILD)/%-$(1).o: $$(INC)/%.h
	@mkdir -p $$(@D)
	up=$$$$(echo $$* | tr a-z A-Z); printf "#define $$$${up}_ALL\n#define $$$${up}_IMPLEMENTATION\n#define $$$${up}_PARTS $(lastword $(PARTS))\n#define $$$${up}_PART $(1)\n#include <$$*.h>\n" | \
	    $$(COMPILE) -x c -c - -o $$@
endef
$(foreach k,$(PARTS),$(eval $(call PART,$(k))))
$(BUILD)/libtinyllm.a: $(PARTS:%=$(BUILD)/tinyllm-%.o)
	rm -f $@
	ar rcs $@ $^
ifdef ONE_FORM
$(BUILD)/libtinygnn.a: $(BUILD)/open/tinygnn.o
else
$(BUILD)/libtinygnn.a: $(PARTS:%=$(BUILD)/tinygnn-%.o)
endif
	rm -f $@
	ar rcs $@ $^

# tests of internal functions: of core and math, which both headers hold; the shorter one is compiled with them in the open, without
# what this processor cannot run
INNER_CODE = $(call lacks,avx512f,-DTINY_NO_AVX512)
INNER := $(patsubst %.c,$(BUILD)/%,$(shell grep -l 'define T_INTERNALS' $(TESTS)))
$(BUILD)/open/tinygnn.o: $(INC)/tinygnn.h
	@mkdir -p $(@D)
	printf '#define TINYGNN_ALL\n#define TINYGNN_IMPLEMENTATION\n#include <tinygnn.h>\n' | $(COMPILE_TEST) $(INNER_CODE) -DTINYI_OPEN -x c -c - -o $@
$(INNER): $(BUILD)/tests/%: tests/%.c tests/t.h tests/place.h $(BUILD)/open/tinygnn.o $(SOURCES)
	@mkdir -p $(@D)
	$(COMPILE) $(INNER_CODE) -Isrc -Itests $< -o $@ $(BUILD)/open/tinygnn.o -pthread -lm

$(BUILD)/tests/gnn/%: tests/gnn/%.c tests/t.h tests/place.h $(BUILD)/libtinygnn.a
	@mkdir -p $(@D)
	$(COMPILE_TEST) $(if $(ONE_FORM),-DTINYI_OPEN) -Itests $< -o $@ $(BUILD)/libtinygnn.a -pthread -lm

$(BUILD)/tests/%: tests/%.c tests/t.h tests/place.h $(BUILD)/libtinyllm.a
	@mkdir -p $(@D)
	$(COMPILE_TEST) -Itests $< -o $@ $(BUILD)/libtinyllm.a -pthread -lm

# counts the basic blocks that run, in an implementation of its own without vectors, where the compiler can call a counter; the sanitizers have no use for a second implementation
STEPS = $(if $(ONE_FORM),,$(filter-out -c,$(call accepts,stdint.h,,-fsanitize-coverage=trace-pc -c)))
$(BUILD)/tests/llm/growth: tests/llm/growth.c tests/llm/file/kit.h tests/t.h tests/place.h $(BUILD)/libtinyllm.a
	@mkdir -p $(@D)
	printf 'void __sanitizer_cov_trace_pc(void);\nvolatile unsigned long long t_steps;\nvoid __sanitizer_cov_trace_pc(void) { t_steps++; }\n' | $(COMPILE) -x c -c - -o $@.o
	$(COMPILE) -O0 -Itests $(addprefix -DT_STEPS ,$(STEPS)) $< $@.o -o $@ $(BUILD)/libtinyllm.a -pthread -lm

$(BUILD)/tests/backends: tests/backends.c tests/t.h tests/place.h $(HEADERS) $(wildcard ports/*/*.[ch]) $(BUILD)/libtinyllm.a
	@mkdir -p $(@D)
	$(COMPILE_TEST) -Itests $< -o $@ $(BUILD)/libtinyllm.a $(BLAS) $(OPENCL) -pthread -lm

$(BUILD)/conformance: tests/conformance.c $(HEADERS) $(wildcard ports/*/*.[ch]) $(BUILD)/libtinyllm.a
	@mkdir -p $(@D)
	$(COMPILE) $< -o $@ $(BUILD)/libtinyllm.a $(BLAS) $(OPENCL) -pthread -lm

$(BUILD)/checksums: $(wildcard tests/ports/*.[ch]) $(HEADERS) $(BUILD)/libtinyllm.a
	$(COMPILE) $(filter %.c,$^) -o $@ $(BUILD)/libtinyllm.a -pthread -lm

# examples/x.c is build/x; each would compile alone too, but one copy of the bodies is enough here
$(filter-out $(GNN_EXAMPLES),$(EXAMPLES)): $(BUILD)/%: examples/%.c examples/options.h $(HEADERS) $(BUILD)/libtinyllm.a
	@mkdir -p $(@D)
	$(COMPILE) -DTINYLLM_LINKED $< -o $@ $(BUILD)/libtinyllm.a -pthread -lm

$(GNN_EXAMPLES): $(BUILD)/%: examples/%.c examples/options.h $(HEADERS) $(BUILD)/libtinygnn.a
	@mkdir -p $(@D)
	$(COMPILE) $(if $(ONE_FORM),-DTINYI_OPEN) -DTINYGNN_LINKED $< -o $@ $(BUILD)/libtinygnn.a -pthread -lm

# compiled for a short wait: the targets and formats that most machines and models have, in two parts side by side
DEMO = $(CC) -O1 -std=c99 $(WARNINGS) -DTINY_NO_W128 -DTINY_NO_AVX512 -DTINY_NO_AMX -DTINY_NO_VNNI -DTINYLLM_FEW_FORMATS -DTINYLLM_WITH_JUDGE= -DTINY_WITH_CONFORM= $(OPENMP) -I$(INC)
$(BUILD)/demo-%.o: $(INC)/tinyllm.h
	@mkdir -p $(@D)
	printf '#define TINYLLM_IMPLEMENTATION\n#include <tinyllm.h>\n' | $(DEMO) -DTINYLLM_PARTS=2 -DTINYLLM_PART=$* -x c -c - -o $@
$(BUILD)/story-demo: examples/story.c examples/options.h $(HEADERS)
	@$(MAKE) -s --no-print-directory -j2 $(BUILD)/demo-1.o $(BUILD)/demo-2.o
	$(DEMO) -DTINYLLM_LINKED $< $(BUILD)/demo-1.o $(BUILD)/demo-2.o -o $@ -pthread -lm

# the small model as bytes, and a program that carries it
$(BUILD)/story-model.h: $(BUILD)/bytes examples/models/story-small.gguf
	$(BUILD)/bytes examples/models/story-small.gguf story_model > $@.part
	mv $@.part $@
$(BUILD)/story-linked: examples/story.c examples/options.h $(BUILD)/story-model.h $(HEADERS) $(BUILD)/libtinyllm.a
	$(COMPILE) -I$(BUILD) -DTINYLLM_LINKED -DSTORY_LINKED $< -o $@ $(BUILD)/libtinyllm.a -pthread -lm

BENCH := $(sort $(shell find bench -name '*.c'))
$(BUILD)/bench: $(BENCH) bench/bench.h bench/llm/grids.h bench/gnn/deepwalk.h bench/peers/peers.h $(HEADERS) $(BUILD)/libtinyllm.a $(BUILD)/libtinygnn.a
	@mkdir -p $(@D)
	$(COMPILE) -Ibench $(BENCH) $(BUILD)/libtinyllm.a $(BUILD)/libtinygnn.a -o $@ -pthread -lm $(DL)

$(BUILD)/docs/%: docs/%.c $(HEADERS) $(BUILD)/libtinyllm.a $(BUILD)/libtinygnn.a
	@mkdir -p $(@D)
	$(COMPILE) $< -o $@ $(BUILD)/libtinyllm.a $(BUILD)/libtinygnn.a -pthread
