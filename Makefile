# perfwind.  `make help` lists the targets.
#   O=DIR  build folder        SAN=address,undefined  sanitizers (own build folder)
#   V=1    show commands       FAULTS=1 ...           see tests/README.md

SAN ?=
O ?= build$(if $(SAN),-$(subst $(comma),-,$(SAN)))
comma := ,
PREFIX ?= /usr/local
DESTDIR ?=
CC ?= gcc
PROTOC_C ?= protoc-c
PKG_CONFIG ?= pkg-config
# NAME:PACKAGE, as pkg-config and as Debian call a library.
NEEDED := libunwind-generic:libunwind-dev libdw:libdw-dev libelf:libelf-dev libprotobuf-c:libprotobuf-c-dev liblzma:liblzma-dev \
	zlib:zlib1g-dev libseccomp:libseccomp-dev
# libzstd: without it a compressed perf.data or debug section is refused with a clear line.
# libdeflate: half of zlib's time for packets and debug sections; zlib stays for streams.
# libbpf and clang: without them stacks beyond the kernel's copy and interpreters are read after the sample, not at it.
# capstone: without it `perfwind annotate` shows addresses and lines, no instructions.  It is loaded when it is needed (symbols/machine-code.c).
OPTIONAL := libzstd libdeflate capstone libbpf
# pkg-config runs when the first recipe needs flags, and once: on a bare machine `make demo` installs it first.
once = $(eval $(1) := $$(value_of_$(1)))$($(1))
names = $(foreach p,$(1),$(firstword $(subst :, ,$(p))))
# Each needed package that is not there is an error that names it; the words are the packages that are there.
value_of_PKGS = $(if $(shell command -v $(PKG_CONFIG)),,$(error $(PKG_CONFIG) is not installed; run: .ci/deps build))$(call \
	all_of,$(shell for p in $(call names,$(NEEDED)); do $(PKG_CONFIG) --print-errors --exists $$p && echo $$p; done)) $(shell \
	for p in $(OPTIONAL); do $(PKG_CONFIG) --exists $$p && echo $$p; done)
all_of = $(call complain,$(strip $(foreach p,$(NEEDED),$(if $(filter $(1),$(call names,$(p))),,$(lastword $(subst :, ,$(p))))) \
	$(if $(shell command -v $(PROTOC_C)),,protobuf-c-compiler) \
	$(if $(shell command -v $(firstword $(CC))),$(if $(call has_library,iberty),,libiberty-dev),gcc)))$(1)
complain = $(if $(1),$(error missing or incomplete (Debian's names): $(1); run: .ci/deps build))
# A library that pkg-config does not know: the compiler prints its path, or the name alone.
has_library = $(filter /%,$(foreach suffix,a so,$(shell $(CC) -print-file-name=lib$(1).$(suffix) 2>/dev/null)))
PKGS = $(call once,PKGS)
value_of_PKG_CFLAGS = $(shell $(PKG_CONFIG) --cflags $(PKGS)) $(if $(filter libzstd,$(PKGS)),-DHAVE_ZSTD) \
	$(if $(filter libdeflate,$(PKGS)),-DHAVE_LIBDEFLATE) $(if $(BPF_CC),-DHAVE_BPF -DBPF_OBJECT='"$(O)/perf/at-sample.bpf.o"') \
	$(if $(filter capstone,$(PKGS)),-DHAVE_CAPSTONE)
PKG_CFLAGS = $(call once,PKG_CFLAGS)
# The compiler of at-sample.bpf.c, where libbpf is there to load it.
CLANG ?= clang
value_of_BPF_CC = $(if $(filter libbpf,$(PKGS)),$(shell $(CLANG) -target bpf -x c -c -o /dev/null /dev/null 2>/dev/null && \
	echo $(CLANG)))
BPF_CC = $(call once,BPF_CC)
value_of_LIBS = $(shell $(PKG_CONFIG) --libs $(filter-out capstone libseccomp,$(PKGS))) -liberty -lm -ldl
LIBS = $(call once,LIBS)

CFLAGS ?= -O2 -g
WARN := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings \
	-Wpointer-arith -Wundef -Wvla -Wformat=2 -Wno-format-nonliteral -Werror
ALL_CFLAGS = -std=gnu11 -D_GNU_SOURCE -I. -I$(O) $(WARN) $(CFLAGS) -fno-omit-frame-pointer -pthread \
	$(PKG_CFLAGS) $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all) $(if $(filter thread,$(SAN)),-Wno-tsan) -MMD -MP
ALL_LDFLAGS = $(LDFLAGS) -pthread $(if $(SAN),-fsanitize=$(SAN))
VERSION := 0.1.0
ALL_CFLAGS += -DPERFWIND_VERSION='"$(VERSION)"'

Q := $(if $(V),,@)
report = $(if $(V),,@echo "  $(1)	$(patsubst $(O)/%,%,$(2))";)

# A folder is a library; USES_folder is what it may include and link, itself left out: the arrows of the drawing in
# ARCHITECTURE.md.  tests/static.sh checks the include lines against this table.
FOLDERS := base protos symbols unwinder trace proc perf perf/perfdata config marks session/consent session/loader \
	session/pipeline session tracing import profile watch daemon/policy daemon/control daemon/producer cli
lib = $(O)/lib/$(subst /,-,$(1)).a
USES_base :=
USES_protos := base
USES_symbols := protos base
USES_unwinder := symbols base
USES_trace := protos base
USES_proc := unwinder symbols base
USES_perf := base
USES_perf/perfdata := perf base
USES_config := trace proc perf perf/perfdata unwinder symbols protos base
USES_marks := trace proc unwinder symbols protos base libmarks
USES_session/consent := proc unwinder symbols base libc-hook
USES_session/loader := session/consent config $(USES_config) libc-hook
USES_session/pipeline := session/loader marks $(USES_session/loader)
USES_session := session/pipeline $(USES_session/pipeline)
USES_tracing := session $(USES_session)
USES_import := session $(USES_session)
USES_profile := symbols protos base
USES_watch := profile perf proc unwinder symbols protos base
USES_daemon/policy := session $(USES_session)
USES_daemon/control := daemon/policy tracing session $(USES_session)
USES_daemon/producer := daemon/policy session $(USES_session)
USES_cli := daemon/control daemon/producer daemon/policy watch import profile tracing session $(USES_session)
USES_libc-hook :=
USES_libmarks := libc-hook
# What FOLDER's unit tests and programs link.
closure = $(filter-out libc-hook libmarks,$(1) $(USES_$(1)))

PROTOS := $(wildcard protos/*.proto)
PROTO_HEADERS := $(PROTOS:%.proto=$(O)/%.pb-c.h) $(PROTOS:%.proto=$(O)/%.fields.h)
sources = $(filter-out %.bpf.c cli/main.c session/rights-generate.c,$(wildcard $(1)/*.c))
objects = $(patsubst %.c,$(O)/%.o,$(call sources,$(1))) $(if $(filter protos,$(1)),$(PROTOS:%.proto=$(O)/%.pb-c.o))

.PHONY: all
all: $(O)/perfwind $(O)/libperfwind-hook.so $(O)/libperfwind-marks.so

# For tests/static.sh: FOLDER: what it may include.
.PHONY: print-layers
print-layers:
	@$(foreach f,$(FOLDERS) libc-hook libmarks,echo "$(f): $(USES_$(f))";)

$(O)/perfwind: $(O)/cli/main.o $(foreach f,$(call closure,cli),$(call lib,$(f)))
	$(call report,LINK,$@)$(CC) $(ALL_LDFLAGS) -o $@ $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LIBS)

define folder_rule
$(call lib,$(1)): $(call objects,$(1))
	@mkdir -p $$(@D)
	$$(call report,AR,$$@)rm -f $$@; $(AR) rcs $$@ $$(filter %.o,$$^)
endef
$(foreach f,$(FOLDERS),$(eval $(call folder_rule,$(f))))

# The names that -v takes.
$(O)/cli/options.o: ALL_CFLAGS += -DPERFWIND_FOLDERS='"$(FOLDERS)"'
$(O)/%.o: %.c | $(PROTO_HEADERS)
	@mkdir -p $(@D)
	$(call report,CC,$@)$(CC) $(ALL_CFLAGS) -c -o $@ $<

# libseccomp makes the filters of system calls: a program that runs here and is not installed.
$(O)/session/rights-generate: $(O)/session/rights-generate.o $(O)/session/rights-calls.o
	$(call report,LINK,$@)$(CC) $(ALL_LDFLAGS) -o $@ $^ -lseccomp
$(O)/session/rights-programs.h: $(O)/session/rights-generate
	$(call report,GEN,$@)$< >$@.new && mv $@.new $@
$(O)/session/rights-filter.o: $(O)/session/rights-programs.h

# The kernel's headers for BPF are those of the machine that it is compiled for.  Debugging information is what libbpf takes the
# maps' layout from (.BTF).
machine = $(shell $(CC) -dumpmachine)
BPF_FLAGS = -target bpf -mcpu=v2 -O2 -g -Wall -Wextra -Werror -D__TARGET_ARCH_$(if $(filter aarch64%,$(machine)),arm64,x86) \
	-idirafter /usr/include/$(subst -pc-,-,$(machine)) -I. -MMD -MP
$(O)/perf/at-sample.bpf.o: perf/at-sample.bpf.c
	@mkdir -p $(@D)
	$(call report,BPF,$@)$(if $(BPF_CC),$(BPF_CC) $(BPF_FLAGS) -c -o $@ $<,: >$@)
$(O)/perf/bpf.o: $(O)/perf/at-sample.bpf.o

# Pages are built into their writers (.incbin).
$(O)/profile/html.o: $(wildcard profile/flame*)
$(O)/profile/diff-page.o: profile/diff-page.html

$(O)/protos/%.pb-c.c $(O)/protos/%.pb-c.h &: protos/%.proto
	@mkdir -p $(O)/protos$(if $(PKGS),)
	$(call report,PROTOC,$<)$(PROTOC_C) --c_out=$(O) $<
# The field numbers, for code that reads or writes packets by hand.
$(O)/protos/%.fields.h: protos/%.proto protos/fields.awk
	@mkdir -p $(@D)
	$(call report,AWK,$@)awk -f protos/fields.awk $< >$@.new && mv $@.new $@
$(O)/protos/%.pb-c.o: $(O)/protos/%.pb-c.c | $(PROTO_HEADERS)
	$(call report,CC,$@)$(CC) $(filter-out -Wconversion -Wshadow -Wundef,$(ALL_CFLAGS)) -c -o $@ $<
.PRECIOUS: $(O)/protos/%.pb-c.c $(O)/protos/%.pb-c.h

# ---- libc-hook: runs inside other programs, so it has flags of its own, and needs no library: what it takes from the
# libc is there in any.
HOOK_CFLAGS = -std=gnu11 -D_GNU_SOURCE -I. -Os -fPIC -fvisibility=hidden -fno-stack-protector -fomit-frame-pointer
# gcc's atomics for aarch64 are calls into libgcc by default.
HOOK_CFLAGS += $(if $(filter aarch64%,$(shell $(CC) -dumpmachine 2>/dev/null)),-mno-outline-atomics)
$(O)/libperfwind-hook.so: $(wildcard libc-hook/*.c libc-hook/*.h)
	@mkdir -p $(@D)
	$(call report,CC,$@)$(CC) $(HOOK_CFLAGS) $(WARN) -shared -nostdlib -s -Wl,-soname,libperfwind-hook.so -Wl,-z,now \
		-Wl,-z,nodelete -Wl,-z,noseparate-code -Wl,--hash-style=gnu -Wl,--build-id -o $@ $(filter %.c,$^)
# libmarks: the same, for speed.
$(O)/libperfwind-marks.so: $(wildcard libmarks/*.c libmarks/*.h) libc-hook/sanitizer.c libc-hook/syscalls.c libc-hook/syscalls.h
	@mkdir -p $(@D)
	$(call report,CC,$@)$(CC) $(HOOK_CFLAGS) -O2 $(WARN) -g -shared -nostdlib -Wl,-soname,libperfwind-marks.so -Wl,-z,now \
		-Wl,-z,nodelete -Wl,-z,noseparate-code -Wl,--hash-style=gnu -Wl,--build-id -o $@ $(filter %.c,$^)
# ---- end of libc-hook, libmarks

# tests/unit/FOLDER/test-X.c links FOLDER's library and those it may use, nothing else.
UNIT_FOLDERS := $(FOLDERS) libc-hook
UNIT := $(foreach f,$(UNIT_FOLDERS),$(wildcard tests/unit/$(f)/test-*.c))
UNIT_PROGRAMS := $(UNIT:%.c=$(O)/%)
.PHONY: unit
unit: $(UNIT_PROGRAMS)
define unit_rule
$(O)/tests/unit/$(1)/test-%: $(O)/tests/unit/$(1)/test-%.o $(foreach f,$(call closure,$(1)),$(call lib,$(f)))
	$$(call report,LINK,$$@)$$(CC) $$(ALL_LDFLAGS) -o $$@ $$< -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group $$(LIBS) -lcmocka
endef
$(foreach f,$(UNIT_FOLDERS),$(eval $(call unit_rule,$(f))))
.PRECIOUS: $(O)/%.o

# One unit program: make O=... run-unit T=perf/test-ring
.PHONY: run-unit
run-unit: $(O)/tests/unit/$(T)
	$(Q)$(O)/tests/unit/$(T)

# ---- tests/programs: what the integration and differential tests profile.  NAME-fp: with frame pointers,
# NAME-static: without a dynamic linker.  Their own flags: what they are made of must not depend on ours.
PROGRAM_CFLAGS := -O2 -g -fomit-frame-pointer -D_GNU_SOURCE -Wall -Wextra -Werror -pthread
# steps*: built many ways by tests/integration/steps.sh.
PROGRAM_NAMES := $(filter-out plugin steps steps-cxx steps-jit,$(basename $(notdir $(wildcard tests/programs/*.c tests/programs/*.cc))))
PROGRAMS := $(PROGRAM_NAMES:%=$(O)/tests/programs/%) $(O)/tests/programs/recursion-fp $(O)/tests/programs/recursion-static \
	$(O)/tests/programs/restless-static $(O)/tests/programs/wrong-cfi-fp
# With another libc, where there is one to try.
HOOK_PROGRAMS := hook-target hook-filter hook-during hook-stack
PROGRAMS += $(if $(shell command -v musl-gcc),$(HOOK_PROGRAMS:%=$(O)/tests/programs/%-musl) $(O)/tests/programs/restless-musl)
# With a sanitizer's shared runtime, where the compiler brings one.
PROGRAMS += $(if $(filter /%,$(shell $(CC) -print-file-name=libasan.so 2>/dev/null)),$(O)/tests/programs/hook-target-asan)
PROGRAM_FLAGS_plt = -Wl,-z,lazy $(O)/tests/programs/plugin.so -Wl,-rpath,'$$ORIGIN'
PROGRAM_FLAGS_hook-forger = -I.
PROGRAM_FLAGS_marking = -I. -rdynamic
PROGRAM_FLAGS_marks-cxx = -I.
PROGRAM_FLAGS_marks-functions = -finstrument-functions
# The dynamic linker takes as much of a stack as a signal does.
PROGRAM_FLAGS_hook-stack = -Wl,-z,now
$(foreach p,$(HOOK_PROGRAMS),$(O)/tests/programs/$(p) $(O)/tests/programs/$(p)-musl $(O)/tests/programs/$(p)-asan): tests/programs/hook-program.h
PROGRAM_FLAGS_shadow = -I. -finstrument-functions -finstrument-functions-exclude-file-list=program.h,base/,perf/,symbols/,unwinder/,samples.h
.PHONY: programs
programs: $(PROGRAMS)
$(O)/tests/programs/builds-slower: tests/programs/builds.c
$(O)/tests/programs/plugin.so: tests/programs/plugin.c
	@mkdir -p $(@D)
	$(call report,CC,$@)$(CC) $(PROGRAM_CFLAGS) -fPIC -shared -Wl,-soname,plugin.so -o $@ $<
# The same code under other names; its text calls only itself (-Bsymbolic), so it can be moved.
$(O)/tests/programs/plugin-second.so: tests/programs/plugin.c
	@mkdir -p $(@D)
	$(call report,CC,$@)$(CC) $(PROGRAM_CFLAGS) -Dplugin_work=second_work -Dplugin_inner=second_inner \
		-Dplugin_tiny=second_tiny -fPIC -shared -Wl,-Bsymbolic -Wl,-soname,plugin-second.so -o $@ $<
$(O)/tests/programs/plt $(O)/tests/programs/dlopen $(O)/tests/programs/reload: $(O)/tests/programs/plugin.so
$(O)/tests/programs/mremap $(O)/tests/programs/reload: $(O)/tests/programs/plugin-second.so
$(O)/tests/programs/sigframe-alt: tests/programs/sigframe.c
$(foreach p,hook-filter restless,$(O)/tests/programs/$(p) $(O)/tests/programs/$(p)-musl $(O)/tests/programs/$(p)-static): tests/programs/trap-calls.h
$(O)/tests/programs/%: tests/programs/%.c tests/programs/program.h
	@mkdir -p $(@D)
	$(call report,CC,$@)$(CC) $(PROGRAM_CFLAGS) -o $@ $< $(PROGRAM_FLAGS_$*)
$(O)/tests/programs/%: tests/programs/%.cc tests/programs/program.h
	@mkdir -p $(@D)
	$(call report,CXX,$@)$(CXX) $(PROGRAM_CFLAGS) -o $@ $< $(PROGRAM_FLAGS_$*)
$(O)/tests/programs/%-musl: tests/programs/%.c
	@mkdir -p $(@D)
	$(call report,CC,$@)musl-gcc $(PROGRAM_CFLAGS) -idirafter /usr/include -idirafter /usr/include/$(shell $(CC) -print-multiarch) -o $@ $<
$(O)/tests/programs/%-asan: tests/programs/%.c
	@mkdir -p $(@D)
	$(call report,CC,$@)$(CC) $(PROGRAM_CFLAGS) -fsanitize=address -o $@ $<
$(O)/tests/programs/%-fp: tests/programs/%.c tests/programs/program.h
	@mkdir -p $(@D)
	$(call report,CC,$@)$(CC) $(PROGRAM_CFLAGS) -fno-omit-frame-pointer -o $@ $<
$(O)/tests/programs/%-static: tests/programs/%.c tests/programs/program.h
	@mkdir -p $(@D)
	$(call report,CC,$@)$(CC) $(PROGRAM_CFLAGS) -static -o $@ $<
$(O)/tests/programs/marking $(O)/tests/programs/marks-cxx: libmarks/perfwind-marks.h libmarks/marks-ring.h
# ---- end of tests/programs

# ---- tests/differential, tests/bench: programs over live samples
SAMPLES_OBJECTS := $(patsubst %.c,$(O)/%.o,$(addprefix tests/differential/,samples.c take.c recorded.c replay.c agree.c judge.c bounds.c))
$(O)/tests/differential/diff-engines: $(O)/tests/differential/diff-engines.o
$(O)/tests/bench/bench-unwind: $(O)/tests/bench/bench-unwind.o $(O)/tests/bench/unwind-measure.o $(O)/tests/bench/unwind-first.o
$(O)/bench-unwind: $(O)/tests/bench/bench-unwind
	@ln -sf tests/bench/bench-unwind $@
$(O)/tests/differential/diff-engines $(O)/tests/bench/bench-unwind: $(SAMPLES_OBJECTS) \
	$(foreach f,unwinder symbols perf/perfdata perf base,$(call lib,$(f)))
	$(call report,LINK,$@)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LIBS)
$(O)/tests/bench/bench-source: $(O)/tests/bench/bench-source.o $(foreach f,$(call closure,daemon/producer),$(call lib,$(f)))
	$(call report,LINK,$@)$(CC) $(ALL_LDFLAGS) -o $@ $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LIBS)
STEPS_OBJECTS := $(patsubst %.c,$(O)/%.o,$(addprefix tests/differential/,live.c callers.c verdicts.c))
$(O)/tests/differential/diff-steps: $(O)/tests/differential/diff-steps.o $(STEPS_OBJECTS) $(foreach f,unwinder symbols base,$(call lib,$(f)))
	$(call report,LINK,$@)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LIBS)
TEST_TOOLS += $(O)/tests/differential/diff-steps
$(O)/tests/bench/bench-write: $(O)/tests/bench/bench-write.o $(foreach f,$(sort $(call closure,profile) $(call closure,trace)),$(call lib,$(f)))
	$(call report,LINK,$@)$(CC) $(ALL_LDFLAGS) -o $@ $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LIBS)
$(O)/tests/bench/hook-cost: tests/bench/hook-cost.c libc-hook/hook-proto.h
	@mkdir -p $(@D)
	$(call report,CC,$@)$(CC) $(PROGRAM_CFLAGS) -I. -o $@ $<
$(O)/tests/bench/marks-cost: tests/bench/marks-cost.c libmarks/perfwind-marks.h
	@mkdir -p $(@D)
	$(call report,CC,$@)$(CC) $(PROGRAM_CFLAGS) -I. -o $@ $<
# aarch64 samples on any host: tests/integration/aarch64.sh
$(O)/tests/aarch64/engines: $(O)/tests/aarch64/engines.o $(foreach f,unwinder symbols perf/perfdata perf base,$(call lib,$(f)))
	$(call report,LINK,$@)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LIBS)
TEST_TOOLS += $(O)/tests/aarch64/engines
TEST_TOOLS += $(O)/tests/differential/diff-engines $(O)/tests/bench/bench-unwind
# The engines over recordings, one table: FILES="a.data b.data"; JSON=FILE: one JSON object too.
.PHONY: bench-unwind
bench-unwind: $(O)/bench-unwind
	$(Q)$(if $(FILES),$(O)/bench-unwind $(if $(JSON),-o $(JSON)) $(FILES),echo 'which recordings? FILES="a.data b.data" (perf record --call-graph dwarf)'; exit 1)
.PHONY: check-bounds
check-bounds: $(O)/tests/differential/diff-engines $(O)/tests/bench/bench-unwind
	$(Q)FILES="$(FILES)" $(RUN) tests/integration/bounds.sh; r=$$?; cat $(O)/bounds.txt; exit $$r
.PHONY: differential
differential: $(O)/tests/differential/diff-engines $(PROGRAMS)
	$(Q)tests/differential/compare.sh $(O)
# ---- end of tests/differential, tests/bench

# ---- fuzzers: each tests/fuzz/fuzz-X.c also runs as a plain program over its corpus (a regression test);
# `make fuzz T=X SECONDS=600` builds it with clang's libFuzzer and lets it search.
FUZZERS := $(patsubst tests/fuzz/fuzz-%.c,%,$(wildcard tests/fuzz/fuzz-*.c))
FUZZ_PROGRAMS := $(FUZZERS:%=$(O)/tests/fuzz/corpus-%)
FUZZ_LIBS := $(foreach f,$(call closure,cli),$(call lib,$(f)))
$(O)/tests/fuzz/corpus-%: $(O)/tests/fuzz/fuzz-%.o $(O)/tests/fuzz/corpus-main.o $(FUZZ_LIBS)
	$(call report,LINK,$@)$(CC) $(ALL_LDFLAGS) -o $@ $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(LIBS)
.PHONY: print-fuzz-libs
print-fuzz-libs:
	@echo $(FUZZ_LIBS)
SECONDS ?= 60
.PHONY: fuzz
fuzz:
	$(Q)tests/fuzz/search.sh $(T) $(SECONDS)

# ---- tests
export O
RUN = tests/run
# How many tests that need no machine for themselves run at once.  A plain user's rings are all of one small budget.
AT_ONCE := $(shell n=$$(nproc); [ $$(id -u) = 0 ] || n=1; echo $$((n > 4 ? 4 : n)))
INTEGRATION := $(sort $(wildcard tests/integration/*.sh))
# Those that sample nothing live: no neighbour spoils them, nor they one.
UNSAMPLED := $(patsubst %,tests/integration/%.sh,aarch64 bounds golden import-caches replay selinux size-bombs steps)
# Those that wait more than they compute, and change no setting of the machine: little load for each other.  The longest first.
SHARING := $(patsubst %,tests/integration/%.sh,daemon control boot watch import from-perf shutdown flight unwinders marks \
	debug-files trace events hook-suite record-pid languages mappings containers processes debuginfod record-command triggers \
	install perf-data pid-reuse target-end errors rc-files traced trace-processor)
# Those that run two scripts at a time, and bear a build that takes what they leave of the CPUs.
BEARING := $(patsubst %,tests/integration/%.sh,systemd-unit fallback)
.PHONY: deps deps-check check check-all check-static check-unit check-fuzz check-integration check-sanitized test-programs
deps-check:
	$(Q).ci/deps check
# The packages may only just have been installed: pkg-config is asked again by a new make.
check: deps-check
	$(Q)$(MAKE) --no-print-directory check-all
check-all: all test-programs
	$(Q)$(RUN) -j $(AT_ONCE) tests/static.sh $(UNIT_PROGRAMS) $(FUZZ_PROGRAMS) $(UNSAMPLED) $(SHARING) --alone \
		$(BEARING) --undisturbed $(filter-out $(UNSAMPLED) $(SHARING) $(BEARING),$(INTEGRATION))
test-programs: $(UNIT_PROGRAMS) $(FUZZ_PROGRAMS) programs $(TEST_TOOLS)
check-static:
	$(Q)$(RUN) tests/static.sh
# What unit tests start besides themselves.
UNIT_NEEDS = $(O)/libperfwind-hook.so $(filter $(foreach p,$(HOOK_PROGRAMS),%/$(p) %/$(p)-musl %/$(p)-asan),$(PROGRAMS))
check-unit: $(UNIT_PROGRAMS) $(UNIT_NEEDS)
	$(Q)$(RUN) $(UNIT_PROGRAMS)
check-fuzz: $(FUZZ_PROGRAMS)
	$(Q)$(RUN) $(FUZZ_PROGRAMS)
check-integration: all programs $(TEST_TOOLS)
	$(Q)$(RUN) $(INTEGRATION)
# Both commands of the README on a fresh Debian: root, the network, half an hour.  Not a part of `check`.
.PHONY: check-bare
check-bare:
	$(Q).ci/deps bare
	$(Q)tests/bare.sh $(BARE_ROOT)
# Under an enforcing SELinux, in a machine that is emulated: minutes, and packages from the network.  Not a part of `check`.
.PHONY: check-selinux-boot
check-selinux-boot:
	$(Q).ci/deps selinux-boot
	$(Q)$(MAKE) --no-print-directory -s all $(O)/tests/programs/recursion
	$(Q)TEST_TIMEOUT=$${TEST_TIMEOUT:-7200} TEST_DEADLINE=$${TEST_TIMEOUT:-7200} $(RUN) tests/selinux-boot/boot-image.sh
# CPUs that go offline, clocks that are set: root, a machine without other users.  Not a part of `check`.
.PHONY: check-faults
check-faults: all programs
	$(Q)$(RUN) tests/faults-alone.sh
# Unit tests and fuzz corpora again, with sanitizers.
SANITIZED = $(MAKE) --no-print-directory SAN=address,undefined O=build-address-undefined CFLAGS="-O1 -g1"
.PHONY: sanitized-programs unit-programs check-units-only
check-sanitized:
	$(Q)$(SANITIZED) check-units-only
sanitized-programs:
	$(Q)$(SANITIZED) unit-programs
unit-programs: $(UNIT_PROGRAMS) $(FUZZ_PROGRAMS) $(UNIT_NEEDS)
check-units-only: unit-programs
	$(Q)$(RUN) -j $(AT_ONCE) $(UNIT_PROGRAMS) $(FUZZ_PROGRAMS)

# ThreadSanitizer, in a build folder of its own: recordings, a daemon, import, and the unit tests of what has threads.  Its memory
# lies at fixed addresses (setarch -R).  Not a part of `check`.
THREADED = setarch -R $(MAKE) --no-print-directory SAN=thread O=build-thread CFLAGS="-O1 -g"
STARTS_THREADS := pthread_create|sink_threaded_new|/(unwind|loader|session|trace-session|import|producer|control)(-fixture|-pool)?\.h
# Of these a report alone is a failure: they expect frames of their own code as the compiler makes it without instrumentation, or as many
# threads and page faults as they make themselves.  One answers in the unwinder's place, next to it: not run.
THREAD_REPORTS := $(patsubst %,$(O)/tests/unit/%,import/test-import import/test-import-group import/test-import-sample \
	import/test-import-waiting perf/test-source perf/test-source-count session/test-session-own daemon/control/test-control-limits)
THREAD_UNIT = $(filter-out %/test-session-kallsyms $(THREAD_REPORTS),$(patsubst %.c,$(O)/%,$(shell grep -lE '$(STARTS_THREADS)' $(UNIT))))
.PHONY: check-thread check-thread-only
check-thread:
	$(Q)$(THREADED) check-thread-only
check-thread-only: all $(THREAD_UNIT) $(THREAD_REPORTS) $(UNIT_NEEDS) $(addprefix $(O)/tests/programs/,recursion crowd marking)
	@echo "not run: $(words $(filter-out $(THREAD_UNIT) $(THREAD_REPORTS) %/test-session-kallsyms,$(UNIT_PROGRAMS))) unit programs, which start no thread, and test-session-kallsyms; other scripts"
	$(Q)THREAD_REPORTS="$(THREAD_REPORTS)" $(RUN) $(THREAD_UNIT) tests/thread.sh

# ---- for people
.PHONY: demo bench help install uninstall docs
demo:
	$(Q).ci/deps demo
	$(Q)$(MAKE) --no-print-directory -s all
	$(Q)tests/demo.sh $(O)/perfwind

bench:
	$(Q).ci/deps bench
	$(Q)$(MAKE) --no-print-directory -s all $(O)/bench-unwind $(O)/tests/bench/hook-cost $(O)/tests/bench/marks-cost $(O)/tests/bench/bench-source
	$(Q)tests/bench/run.sh $(O) $(if $(JSON),--json $(JSON)) $(PARTS)

# Man pages and completions are made by the program from its own option tables.
docs: $(O)/perfwind
	@mkdir -p $(O)/docs
	$(Q)$(O)/perfwind generate man $(O)/docs
	$(Q)$(O)/perfwind generate bash >$(O)/docs/perfwind.bash
	$(Q)$(O)/perfwind generate zsh >$(O)/docs/_perfwind
	$(Q)$(O)/perfwind generate fish >$(O)/docs/perfwind.fish

SYSTEMD_DIR ?= $(PREFIX)/lib/systemd
SYSCONF_DIR ?= /etc
RC_UNITS := $(wildcard rc/*.service rc/*.socket)
INSTALL_SHARE = $(DESTDIR)$(PREFIX)/share
install: all docs
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/perfwind $(INSTALL_SHARE)/man/man1 $(INSTALL_SHARE)/man/man5 \
		$(INSTALL_SHARE)/doc/perfwind $(INSTALL_SHARE)/bash-completion/completions $(INSTALL_SHARE)/zsh/site-functions \
		$(INSTALL_SHARE)/fish/vendor_completions.d
	install -m 755 $(O)/perfwind $(DESTDIR)$(PREFIX)/bin/perfwind
	install -m 644 $(O)/libperfwind-hook.so $(DESTDIR)$(PREFIX)/lib/perfwind/libperfwind-hook.so
	install -m 644 $(O)/libperfwind-marks.so $(DESTDIR)$(PREFIX)/lib/perfwind/libperfwind-marks.so
	install -d $(DESTDIR)$(PREFIX)/include
	install -m 644 libmarks/perfwind-marks.h $(DESTDIR)$(PREFIX)/include/perfwind-marks.h
	install -m 644 $(O)/docs/*.1 $(INSTALL_SHARE)/man/man1
	install -m 644 docs/perfwind.conf.5 $(INSTALL_SHARE)/man/man5
	install -m 644 $(O)/docs/perfwind.bash $(INSTALL_SHARE)/bash-completion/completions/perfwind
	install -m 644 $(O)/docs/_perfwind $(INSTALL_SHARE)/zsh/site-functions/_perfwind
	install -m 644 $(O)/docs/perfwind.fish $(INSTALL_SHARE)/fish/vendor_completions.d/perfwind.fish
	install -m 644 README.md ARCHITECTURE.md CHANGELOG.md LICENSE $(INSTALL_SHARE)/doc/perfwind
	install -d $(INSTALL_SHARE)/doc/perfwind/docs
	install -m 644 docs/*.md docs/*.png $(INSTALL_SHARE)/doc/perfwind/docs
	install -d $(DESTDIR)$(SYSTEMD_DIR)/system $(DESTDIR)$(SYSTEMD_DIR)/../sysusers.d $(DESTDIR)$(SYSTEMD_DIR)/../tmpfiles.d
	for f in $(notdir $(RC_UNITS)); do sed 's|/usr/bin/perfwind|$(PREFIX)/bin/perfwind|' rc/$$f \
		>$(DESTDIR)$(SYSTEMD_DIR)/system/$$f && chmod 644 $(DESTDIR)$(SYSTEMD_DIR)/system/$$f || exit 1; done
	install -m 644 rc/perfwind.sysusers $(DESTDIR)$(SYSTEMD_DIR)/../sysusers.d/perfwind.conf
	install -m 644 rc/perfwind.tmpfiles $(DESTDIR)$(SYSTEMD_DIR)/../tmpfiles.d/perfwind.conf
	install -d $(DESTDIR)$(SYSCONF_DIR)
	test -e $(DESTDIR)$(SYSCONF_DIR)/perfwind.conf || install -m 644 rc/perfwind.conf $(DESTDIR)$(SYSCONF_DIR)/perfwind.conf
# Settings that somebody has changed stay.
uninstall:
	if cmp -s rc/perfwind.conf $(DESTDIR)$(SYSCONF_DIR)/perfwind.conf; then rm $(DESTDIR)$(SYSCONF_DIR)/perfwind.conf; fi
	rm -f $(RC_UNITS:rc/%=$(DESTDIR)$(SYSTEMD_DIR)/system/%) $(DESTDIR)$(SYSTEMD_DIR)/../sysusers.d/perfwind.conf \
		$(DESTDIR)$(SYSTEMD_DIR)/../tmpfiles.d/perfwind.conf
	rm -f $(DESTDIR)$(PREFIX)/bin/perfwind $(INSTALL_SHARE)/man/man1/perfwind.1 \
		$(INSTALL_SHARE)/man/man1/perfwind-*.1 $(INSTALL_SHARE)/man/man5/perfwind.conf.5 $(INSTALL_SHARE)/bash-completion/completions/perfwind \
		$(INSTALL_SHARE)/zsh/site-functions/_perfwind $(INSTALL_SHARE)/fish/vendor_completions.d/perfwind.fish
	rm -f $(DESTDIR)$(PREFIX)/include/perfwind-marks.h
	rm -rf $(DESTDIR)$(PREFIX)/lib/perfwind $(INSTALL_SHARE)/doc/perfwind

# A package of the distribution's kind, made in a folder of its own from what git knows.
# MAINTAINER="NAME <ADDRESS>": of a package that is given away.
.PHONY: deb
deb:
	$(Q).ci/deps deb
	$(Q)rm -rf $(O)/deb && mkdir -p $(O)/deb/perfwind-$(VERSION)
	$(Q)git ls-files -co --exclude-standard -z | xargs -0 cp --parents -t $(O)/deb/perfwind-$(VERSION)
	$(Q)cd $(O)/deb/perfwind-$(VERSION) && mv rc/debian debian && mkdir -p debian/source && echo '3.0 (native)' >debian/source/format && \
		{ [ -z "$(MAINTAINER)" ] || sed -i 's/^Maintainer: .*/Maintainer: $(MAINTAINER)/' debian/control; } && \
		printf 'perfwind (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- %s  %s\n' \
			'$(VERSION)' "$$(sed -n 's/^Maintainer: //p' debian/control)" "$$(date -R)" >debian/changelog && \
		{ env -u O -u MAKEFLAGS dpkg-buildpackage -b -uc -us >../build.log 2>&1 || { tail -n 30 ../build.log; exit 1; }; }
	$(Q)mv $(O)/deb/perfwind_*.deb $(O)/ && ls $(O)/perfwind_*.deb

# For clangd and other tools that read the sources.
.PHONY: compdb
compdb: $(PROTO_HEADERS)
	$(Q)$(MAKE) --no-print-directory -nB V=1 all unit programs | tests/tools/compdb.py >compile_commands.json

help:
	@echo "make              build $(O)/perfwind"
	@echo "make demo         install what is missing, build, profile a real program, show the result"
	@echo "make check        the same set-up, then all tests (REQUIRE_ALL=1: a skip is a failure)"
	@echo "make bench        figures, as ratios measured in one run (PARTS=\"cost slowdown\" JSON=FILE BENCH_QUICK=1)"
	@echo "make bench-unwind FILES=\"a.data b.data\"   unwinding alone, by engine, over perf record --call-graph dwarf"
	@echo "make check-static check-unit check-fuzz check-integration check-sanitized   parts of the tests"
	@echo "make check-thread         recordings, daemon, import and the unit tests of what has threads with ThreadSanitizer (perf events, minutes)"
	@echo "make check-bounds FILES=\"a.data b.data\"   are recordings of 10,000 samples unwound as completely as promised?"
	@echo "make check-bare           make demo and make check on a fresh Debian, in a chroot (root, network, half an hour; BARE_ROOT=DIR keeps it)"
	@echo "make check-selinux-boot   perfwind in a machine with an enforcing SELinux, booted by qemu (root, minutes, packages)"
	@echo "make run-unit T=perf/test-ring      one unit test program"
	@echo "make fuzz T=ring SECONDS=600        search with libFuzzer (clang)"
	@echo "make compdb       compile_commands.json, for clangd"
	@echo "make install PREFIX=/usr/local DESTDIR=   and uninstall; make deb: a Debian package"
	@echo "O=DIR build folder   SAN=address,undefined sanitizers   V=1 show commands"

.PHONY: clean
clean:
	rm -rf $(O)

-include $(shell find $(O) -path $(O)/deb -prune -o -name '*.d' -type f -print 2>/dev/null)
