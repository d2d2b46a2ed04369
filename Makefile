# kpack: one makefile, nothing recursive; everything it makes goes under out/.
#
#   make images   install what is missing, build the tool and the libraries, pack an image of each of targets/
#   make test     everything that needs no GPU
#   make          the tool and the libraries alone
#   make install  the same and the runtime's header into PREFIX (/usr/local), under DESTDIR if given
#   make clean    removes what was built; fetched wheels stay
#
#   make coverage  lines that the tests reach, held to a limit per folder: COVER='FOLDER:PERCENT ...'
#
# V=1 shows commands; SAN=1 builds with ASan + UBSan into out/san/, COV=1 for gcov into out/cov/, ARM=1 for
# aarch64, by Debian's cross compiler, into out/arm64/.

MAKEFLAGS += --no-builtin-rules
# All cores, unless -j says otherwise, here or to the make that started this one. MAKEFLAGS tells of it only
# from make 4.4 on, before that the environment and the command line do.
jobs := $(shell (printf '%s\n' $$MAKEFLAGS; tr '\0' '\n' < /proc/$$PPID/cmdline) 2>&- | \
    grep -Em1 '^(-[BbdeikLlnpqRrSstvw]*j|--jobs|--jobserver)')
ifeq ($(jobs)$(filter -j% --jobserver%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc)
endif
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-6s %s\n' '$1' '$2')
B := out$(if $(ARM),/arm64)$(if $(SAN),/san)$(if $(COV),/cov)

CC ?= gcc
ifeq ($(origin CC),default)
CC := gcc
endif
PKG_CONFIG ?= pkg-config
# With the libraries that .ci/setup unpacked.
ifdef ARM
sysroot := out/sysroot-arm64/usr
arm_libs := $(sysroot)/lib/aarch64-linux-gnu
CC := aarch64-linux-gnu-gcc -isystem $(sysroot)/include -isystem $(sysroot)/include/aarch64-linux-gnu -L$(arm_libs)
AR := aarch64-linux-gnu-ar
PKG_CONFIG := PKG_CONFIG_LIBDIR=$(arm_libs)/pkgconfig PKG_CONFIG_SYSROOT_DIR=out/sysroot-arm64 $(PKG_CONFIG)
endif
WARNINGS := -Wall -Wextra -Wshadow -Wconversion -Wmissing-prototypes -Wstrict-prototypes -Wvla -Werror
# What ends without exit(), as workers do, writes its counts before (tests/tools/cover.c).
COVER_FLAGS := --coverage -fprofile-update=atomic -Wl,--wrap=_exit -Wl,--wrap=wire_end
SANITIZE := $(if $(SAN),-fsanitize=address -fsanitize=undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)$(if $(COV),$(COVER_FLAGS))
OPTIMIZE := $(if $(SAN)$(COV),-O1 -g,-O2 -g)
# Dependencies are looked up when a recipe runs, so that set-up may install them first.
DEPS := lua5.4 libzstd jansson libb2
dep_cflags = $(shell $(PKG_CONFIG) --cflags $(DEPS))
# All but glibc static, so that one binary runs on other distributions.
dep_libs = -Wl,-Bstatic $(shell $(PKG_CONFIG) --libs --static $(DEPS) | sed 's/-l\(m\|dl\|pthread\)\b//g;s/-pthread//g') -Wl,-Bdynamic -lm -ldl -lpthread
CFLAGS ?=
ALL_CFLAGS = -std=c11 -D_GNU_SOURCE $(OPTIMIZE) $(WARNINGS) $(SANITIZE) -Isrc $(CFLAGS)

VERSION := 0.1.0

# ---- Sources ------------------------------------------------------------------------------------

tool_dirs := base target compile cache image cli
tool_src := $(foreach d,$(tool_dirs),$(wildcard src/$d/*.c))
runtime_src := $(wildcard src/runtime/*.c)
ops_src := $(wildcard src/ops/*.c)
lua_files := $(sort $(notdir $(wildcard lua/*.lua)))
header_files := $(sort $(notdir $(wildcard src/compile/headers/*)))
report_files := $(sort $(notdir $(wildcard src/cli/report/page.*)))

obj = $(patsubst %.c,$B/obj/%.o,$1)
pic = $(patsubst %.c,$B/pic/%.o,$1)
cover_obj := $(if $(COV),$B/obj/tests/tools/cover.o)
gen_obj := $(foreach t,lua headers report report_digests,$B/obj/gen/embed_$t.o)
# All of the tool but main(): what unit tests link.
core_obj := $(call obj,$(filter-out src/cli/main.c,$(tool_src)) $(runtime_src)) $(gen_obj) $(cover_obj)

.PHONY: all images test gpu-bundle clean setup
all: $B/bin/kpack libs
libs: $B/lib/libkpk.a $B/lib/libkpk.so $B/lib/libkpk_ops.so
.PHONY: libs

# ---- Compiling ----------------------------------------------------------------------------------

setup:
	$(Q).ci/setup $(if $(ARM),arm64,build)

# Rewritten when its text would change: what follows from the old text is then made again.
dry_run := $(findstring n,$(filter-out --%,$(firstword -$(MAKEFLAGS))))
remember = $(shell mkdir -p $B)$(if $(dry_run),,$(if $(call differs,$(file <$B/$1),$2),$(file >$B/$1,$2)))
differs = $(subst x$(strip $1),,x$(strip $2))$(subst x$(strip $2),,x$(strip $1))
$(call remember,flags,$(CC) $(ALL_CFLAGS))
# How this kpack compiles: what another one compiled is not taken for its own.
compile_id := $(shell cat src/compile/*.c src/compile/*.h | b2sum -l 128 | cut -c1-32)
$(call remember,compile-id,$(compile_id))
$(call remember,sources,$(tool_src) $(runtime_src) $(ops_src) $(lua_files) $(header_files) $(report_files))

$B/obj/%.o: %.c $B/flags Makefile | setup
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(dep_cflags) -DKPACK_VERSION='"$(VERSION)"' -DKPACK_COMPILE_ID='"$(compile_id)"' -MMD -MP -c -o $@ $<

$B/obj/src/compile/recall.o: $B/compile-id

$B/pic/%.o: %.c $B/flags Makefile | setup
	$(call say,CC,$< (pic))
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -fPIC -fvisibility=hidden -MMD -MP -c -o $@ $<

$B/gen/embed_lua.c: src/base/embed.sh $(addprefix lua/,$(lua_files)) $B/sources Makefile
	@mkdir -p $(@D)
	$(Q)src/base/embed.sh embed_lua lua $(lua_files) > $@

$B/gen/embed_headers.c: src/base/embed.sh $(addprefix src/compile/headers/,$(header_files)) $B/sources Makefile
	@mkdir -p $(@D)
	$(Q)src/base/embed.sh embed_headers src/compile/headers $(header_files) > $@

report_paths := $(addprefix src/cli/report/,$(report_files))
$B/gen/embed_report.c: src/base/embed.sh $(report_paths) $B/sources Makefile
	@mkdir -p $(@D)
	$(Q)src/base/embed.sh embed_report src/cli/report $(report_files) > $@

$B/gen/embed_report_digests.c: src/cli/report/digests.sh $(report_paths)
	@mkdir -p $(@D)
	$(Q)src/cli/report/digests.sh > $@

$B/obj/gen/%.o: $B/gen/%.c $B/flags | setup
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) -c -o $@ $<

# The worker child replaces fopen and its kin for NVRTC, so the executable exports its symbols.
$B/bin/kpack: $(core_obj) $B/obj/src/cli/main.o $B/sources
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(SANITIZE) -rdynamic -o $@ $(filter %.o,$^) $(dep_libs)

$B/lib/libkpk.a: $(call pic,$(runtime_src)) $B/sources
	$(call say,AR,$@)
	@mkdir -p $(@D)
	$(Q)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

$B/lib/libkpk.so: $(call pic,$(runtime_src)) $B/sources
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(SANITIZE) -shared -Wl,-soname,libkpk.so -Wl,--exclude-libs,ALL -o $@ $(filter %.o,$^) \
	    -Wl,-Bstatic -lzstd -Wl,-Bdynamic -ldl -lpthread

$B/lib/libkpk_ops.so: $(call pic,$(ops_src)) $B/sources | $B/lib/libkpk.so
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(SANITIZE) -shared -Wl,-soname,libkpk_ops.so '-Wl,-rpath,$$ORIGIN' -o $@ $(filter %.o,$^) -L$B/lib -lkpk

# ---- Images -------------------------------------------------------------------------------------

target_files := $(sort $(wildcard targets/*.lua))
image_files := $(target_files:targets/%.lua=out/%.kpk)
images: all cuda
	$(Q)out/bin/kpack $(target_files) --out out
	$(Q)for image in $(image_files); do out/bin/kpack list "$$image" || exit 1; done

cuda: $B/bin/kpack
	$(Q).ci/setup cuda
	@mkdir -p out/san && ln -sfn ../cuda out/san/cuda # which the sanitized tool finds beside itself
.PHONY: cuda

# ---- GPU bundle: what a machine with PyTorch and the CUDA driver needs to run tests/gpu/run -------

FATBINARY ?= $(firstword $(wildcard $(CUDA_HOME)/bin/fatbinary /usr/local/cuda/bin/fatbinary) fatbinary)

gpu-bundle: images out/obj/load out/obj/sanitize out/obj/gdn_sanitize
	@rm -rf out/gpu.tmp && mkdir -p out/gpu.tmp/lib out/gpu.tmp/tests
	$(Q)cp $(image_files) out/obj/load out/obj/sanitize out/obj/gdn_sanitize out/gpu.tmp
	$(Q)if out/bin/kpack doctor | grep -q '^nvJitLink  */'; then out/bin/kpack -q tests/gpu/split/split.lua -o out/gpu.tmp/split.kpk; fi
	$(Q)cp out/lib/libkpk.so out/lib/libkpk_ops.so out/gpu.tmp/lib
	$(Q)cp -R tests/gpu tests/bench out/gpu.tmp/tests
	@find out/gpu.tmp -name __pycache__ -prune -exec rm -rf {} +
	$(Q)out/bin/kpack bundle -o out/gpu.tmp/all.kpk $(image_files)
	$(Q)if command -v $(FATBINARY) >/dev/null; then tests/bench/peers.py out/hopper.kpk out/gpu.tmp/peers $(FATBINARY) && \
	    for target in '' $(target_files:targets/%.lua=%); do out/bin/kpack extract --fatbin $${target:+--target=$$target} \
	    -o out/gpu.tmp/w8a16_gemm_pipelined$${target:+.$$target}.fatbin out/gpu.tmp/all.kpk w8a16_gemm_pipelined || exit 1; done; \
	    else echo "no fatbinary here: the bundle has no fatbins to measure beside"; fi
	@kib=$$(du -sk --apparent-size out/gpu.tmp | cut -f1); \
	    if [ "$$kib" -ge 16384 ]; then echo "out/gpu.tmp has $$kib KiB: a bundle stays under 16384" >&2; exit 1; fi; \
	    rm -rf out/gpu && mv out/gpu.tmp out/gpu && echo "out/gpu: $$kib KiB; copy it and run tests/gpu/run there"

# What loading costs and does: an image of many modules, our own, their cubins and fatbins, two programs and run.sh.
gpu-load: images out/obj/load out/obj/loader out/bench/open
	@rm -rf out/gpu-load.tmp && mkdir -p out/gpu-load.tmp/peers
	$(Q)tests/bench/load_corpus.py out/load-corpus
	$(Q)out/bin/kpack -q out/load-corpus/corpus.lua out/load-corpus/fix.lua --out out/gpu-load.tmp
	$(Q)rm out/gpu-load.tmp/*.json && cp out/hopper.kpk out/gb10.kpk out/obj/load out/obj/loader out/bench/open tests/gpu/run.sh out/gpu-load.tmp
	$(Q)for name in hopper corpus; do \
	    tests/bench/peers.py out/gpu-load.tmp/$$name.kpk out/gpu-load.tmp/peers/$$name $(FATBINARY) || exit 1; done
	$(Q)tar -C out/gpu-load.tmp -cf out/gpu-load.tmp/peers.tar peers && rm -r out/gpu-load.tmp/peers
	@rm -rf out/gpu-load && mv out/gpu-load.tmp out/gpu-load && du -sk --apparent-size out/gpu-load
.PHONY: gpu-load

out/obj/load: tests/bench/load.c tests/bench/driver.c tests/bench/driver.h
out/obj/loader: tests/gpu/loader.c tests/bench/driver.c tests/bench/driver.h
out/obj/load out/obj/loader: out/lib/libkpk.a
out/obj/sanitize: tests/gpu/sanitize.c src/runtime/kpk.h src/ops/w8a16.h
out/obj/gdn_sanitize: tests/gpu/gdn_sanitize.c src/runtime/kpk.h src/ops/gdn.h
out/obj/load out/obj/loader out/obj/sanitize out/obj/gdn_sanitize: Makefile | setup
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -O2 $(WARNINGS) -Isrc -o $@ $(filter %.c %.a,$^) -Wl,-Bstatic -lzstd -Wl,-Bdynamic -ldl -lpthread

# ---- Benchmarks that need no device --------------------------------------------------------------

CXX ?= g++
out/bench/%.o: tests/bench/%.c $B/flags Makefile | setup
	$(call say,CC,$<)
	@mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(dep_cflags) -MMD -MP -c -o $@ $<

out/bench/open: tests/bench/peer_map.cc $(addprefix out/bench/,open.o driver.o bench_image.o) out/obj/core.a Makefile | setup
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CXX) -std=c++17 -O2 -Wall -Wextra -Isrc -o $@ $(filter %.cc %.o %.a,$^) -static-libstdc++ -static-libgcc -Wl,--gc-sections $(dep_libs)

# How group caps pack and decode: tests/bench/groups.py.
out/obj/groups: out/bench/groups.o $B/obj/core.a
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -o $@ $^ $(dep_libs)

# ---- Installing ---------------------------------------------------------------------------------

PREFIX ?= /usr/local
dest = $(DESTDIR)$(PREFIX)
ops_headers := src/ops/gdn.h src/ops/w8a16.h

# The launchers' headers name one another from src/, so they keep that layout under include/kpk/.
define kpk_pc
prefix=$(PREFIX)
libdir=$${prefix}/lib
includedir=$${prefix}/include

Name: kpk
Description: opens .kpk images of CUDA kernels
Version: $(VERSION)
Requires.private: libzstd
Libs: -L"$${libdir}" -lkpk
Libs.private: -ldl -lpthread
Cflags: -I"$${includedir}"
endef
define kpk_ops_pc
prefix=$(PREFIX)
libdir=$${prefix}/lib
includedir=$${prefix}/include

Name: kpk_ops
Description: launchers of the kernels that kpack ships
Version: $(VERSION)
Requires: kpk
Libs: -L"$${libdir}" -lkpk_ops
Cflags: -I"$${includedir}/kpk"
endef
export kpk_pc kpk_ops_pc

install: all
	$(Q)install -d '$(dest)/bin' '$(dest)/lib/pkgconfig' '$(dest)/share/man/man1' '$(dest)/include/kpk/ops' \
	    '$(dest)/include/kpk/runtime'
	$(Q)install -m 755 out/bin/kpack '$(dest)/bin'
	$(Q)install -m 644 out/lib/libkpk.a '$(dest)/lib'
	$(Q)install -m 755 out/lib/libkpk.so out/lib/libkpk_ops.so '$(dest)/lib'
	$(Q)install -m 644 src/runtime/kpk.h '$(dest)/include'
	$(Q)install -m 644 $(ops_headers) '$(dest)/include/kpk/ops'
	$(Q)ln -sfn ../../kpk.h '$(dest)/include/kpk/runtime/kpk.h'
	$(Q)install -m 644 src/cli/kpack.1 '$(dest)/share/man/man1'
	$(Q)printf '%s\n' "$$kpk_pc" > '$(dest)/lib/pkgconfig/kpk.pc'
	$(Q)printf '%s\n' "$$kpk_ops_pc" > '$(dest)/lib/pkgconfig/kpk_ops.pc'
.PHONY: install

# ---- Tests --------------------------------------------------------------------------------------

unit_src := $(wildcard tests/unit/test_*.c)
unit_bin := $(patsubst tests/unit/%.c,$B/tests/%,$(unit_src))
# qemu-user starts no worker, and NVRTC is the host's.
ifdef ARM
unit_bin := $(filter-out $(addprefix $B/tests/test_,compile compile_faults compile_units cubin_peer),$(unit_bin))
endif

# Archives: a test takes from them only what it calls.
$B/obj/ops.a: $(call obj,$(ops_src)) $B/sources
$B/obj/core.a: $(core_obj) $B/sources
$B/obj/help.a: $(call obj,$(filter-out $(unit_src),$(wildcard tests/unit/*.c)) tests/fake/cuda.c)
$B/obj/ops.a $B/obj/core.a $B/obj/help.a:
	$(call say,AR,$@)
	@mkdir -p $(@D)
	$(Q)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

$B/tests/%: $B/obj/tests/unit/%.o $B/obj/help.a $B/obj/ops.a $B/obj/core.a
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(SANITIZE) -rdynamic $(test_ldflags) -o $@ $^ -lcmocka $(dep_libs)

# The runtime and zstd get their memory from the test, which refuses it on demand.
$B/tests/test_runtime_memory: private test_ldflags := $(foreach f,malloc calloc realloc free madvise mmap pread fstat,-Wl,--wrap=$f)

# Writes the images that the tests of the command line read.
$B/tests/sample_image: $B/obj/tests/cli/sample_image.o $B/obj/tests/cli/sample_described.o $B/obj/core.a
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(SANITIZE) -o $@ $^ $(dep_libs)

# A fake CUDA driver, and one that is too old to have what the runtime needs.
fake := out$(if $(ARM),/arm64)/fake
$B/obj/tests/%.o: private override CFLAGS += -DFAKE='"$(fake)"'
fake: $(fake)/libcuda.so.1 $(fake)/old/libcuda.so.1
.PHONY: fake
$(fake)/libcuda.so.1: fake_ldflags :=
$(fake)/old/libcuda.so.1: fake_ldflags := -Wl,--version-script=tests/fake/old.map
$(fake)/libcuda.so.1 $(fake)/old/libcuda.so.1: tests/fake/cuda.c tests/fake/cuda.h tests/fake/old.map
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -O2 -fPIC -shared -Wl,-soname,libcuda.so.1 -Wl,-Bsymbolic $(fake_ldflags) -o $@ $< -lpthread

# A fake NVRTC with its builtins, which crashes, hangs and errs on demand.
fake: $(fake)/nvrtc/lib64/libnvrtc.so.13 $(fake)/nvrtc/lib64/libnvrtc-builtins.so.13.0
$(fake)/nvrtc/lib64/%: tests/fake/nvrtc.c Makefile
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -O2 $(WARNINGS) -fPIC -shared -Wl,-soname,$* -o $@ $< -ldl

# A fake nvJitLink, and one that lacks a function.
fake: out/fake/nvjitlink/libnvJitLink.so.13 out/fake/nvjitlink/old/libnvJitLink.so.13
out/fake/nvjitlink/libnvJitLink.so.13: private fake_ldflags :=
out/fake/nvjitlink/old/libnvJitLink.so.13: private fake_ldflags := -Wl,--version-script=tests/fake/nvjitlink_old.map
out/fake/nvjitlink/%.so.13: tests/fake/nvjitlink.c tests/fake/nvjitlink_old.map Makefile
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -O2 $(WARNINGS) -fPIC -shared $(fake_ldflags) -o $@ $<

# A fuzz target over its corpus, by a plain driver; make fuzz runs it for real, with clang's libFuzzer.
fuzz_targets := cache cubin image lookups ptxas target
$B/fuzz/replay_image: $(addprefix $B/obj/tests/,fuzz/replay.o fuzz/fuzz_image.o fake/cuda.o) $(call obj,$(runtime_src)) $B/sources
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(SANITIZE) -o $@ $(filter %.o,$^) -lzstd -ldl -lpthread

$B/fuzz/replay_%: $B/obj/tests/fuzz/replay.o $B/obj/tests/fuzz/fuzz_%.o $B/obj/core.a
	$(call say,LINK,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(SANITIZE) -o $@ $^ $(dep_libs)

FUZZ_RUNS ?= 1000000
base_files = $(addprefix src/base/,$(addsuffix .c,$1))
fuzz_cache_src := $(wildcard src/base/*.c src/cache/*.c src/compile/*.c) out/gen/embed_headers.c
fuzz_cubin_src := src/compile/cubin.c $(call base_files,diag mem str file watch digest map)
fuzz_image_src := tests/fake/cuda.c $(runtime_src)
fuzz_lookups_src := $(wildcard src/cli/lookup_*.c src/cli/source_*.c) $(call base_files,diag file mem str watch digest map)
fuzz_ptxas_src := src/compile/ptxas_log.c $(call base_files,mem str)
fuzz_target_src := $(wildcard src/base/*.c src/target/*.c) out/gen/embed_lua.c
$(foreach t,$(fuzz_targets),$(eval out/fuzz/fuzz_$t: tests/fuzz/fuzz_$t.c $(fuzz_$t_src)))
$(fuzz_targets:%=out/fuzz/fuzz_%): $(wildcard src/*/*.h tests/fake/*.h) Makefile
	$(call say,FUZZ,$@)
	@mkdir -p $(@D)
	$(Q)clang -std=c11 -D_GNU_SOURCE -O1 -g -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -Isrc \
	    -DKPACK_COMPILE_ID='"$(compile_id)"' $(dep_cflags) -o $@ $(filter %.c,$^) $(dep_libs)

fuzz: $(fuzz_targets:%=fuzz-%)
$(fuzz_targets:%=fuzz-%): fuzz-%: out/fuzz/fuzz_%
	@mkdir -p out/fuzz/corpus/$*
	$(Q)out/fuzz/fuzz_$* -runs=$(FUZZ_RUNS) -max_len=16384 -timeout=60 -rss_limit_mb=4096 -print_final_stats=1 \
	    -artifact_prefix=out/fuzz/ out/fuzz/corpus/$* tests/fuzz/corpus/$*
.PHONY: fuzz $(fuzz_targets:%=fuzz-%)

unit: $(unit_bin) $(fuzz_targets:%=$B/fuzz/replay_%) $B/tests/sample_image fake
.PHONY: unit

# Each test prints TAP. Unit tests run as built for users, under ASan + UBSan, and, where aarch64's libraries
# can be had, under qemu-user.
test:
	$(Q).ci/setup build test
	$(Q)$(MAKE) --no-print-directory images unit
	$(Q)$(MAKE) --no-print-directory SAN=1 all unit
	$(Q)if .ci/setup arm64; then $(MAKE) --no-print-directory ARM=1 all unit; fi
	$(Q)python3 tests/run.py

# FOLDER:PERCENT of lines, and words that pick the tests which run (all by default).
COVER ?= compile:90 cache:90 runtime:95 image:95
COVER_TESTS ?=
coverage:
	$(Q).ci/setup build test coverage
	$(Q)$(MAKE) --no-print-directory all cuda fake
	$(Q)$(MAKE) --no-print-directory COV=1 all unit
	@find out/cov -name '*.gcda' -delete; find out/cov -type d -exec chmod a+w {} +
	$(Q)KPACK_TEST_OUT=out/cov python3 tests/run.py $(COVER_TESTS)
	$(Q)tests/tools/coverage $(COVER)
.PHONY: coverage

clean:
	$(Q)mkdir -p out && find out -mindepth 1 -maxdepth 1 ! -name cuda ! -name wheels ! -name tools ! -name 'sysroot-*' -exec rm -rf {} +

.SECONDARY:
-include $(shell find $B/obj $B/pic out/bench -name '*.d' 2>/dev/null)
