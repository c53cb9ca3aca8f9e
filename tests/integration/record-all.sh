#!/bin/bash
# record-all.sh - the whole machine while a parallel build of short processes runs.
. "$(dirname "$0")/lib"
need_root
need_perf

cat >"$TMP/unit.c" <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int unit(int n) { char b[64]; snprintf(b, sizeof b, "%d", n); return (int)strlen(b) + atoi(b); }
C
cat >"$TMP/build.mk" <<'MK'
all: $(patsubst %,o-%.o,$(shell seq 400))
o-%.o:
	gcc -O2 -c unit.c -o $@
MK
(cd "$TMP" && exec make -s -j4 -f build.mk) &
build=$!
started $build
record all -a -d 3
check all-status [ $? = 0 ]
kill $build
wait $build 2>/dev/null
check all-consistent consistent all
check all-many json all 'v["samples"] > 500'
check all-nothing-lost json all 'v["lost"]["samples"] == 0 and v["lost"]["sideband"] == 0'
check all-whole json all 'v["stacks"]["whole"] >= 0.95 * total'
if in_pid_namespace; then
	skip all-accounted "CPU time used outside of this pid namespace is counted, and its samples are left out"
else
	check all-accounted json all '0.8 <= v["cpu_accounted"] <= 1.1'
fi
check all-compiler-seen has all '^cc1;'
check all-driver-and-assembler-seen has all '^(gcc|as|make);'
check all-kernel-seen has all '_\[k\]'
check all-idle-left-out hasnt all '^(\[idle\]|swapper)'

# The idle task has to run: on a machine that is busy all the time there is nothing to see.
# In a pid namespace a process outside of it has the id of the idle task, so the kernel's function is looked for.
idle_ticks() { awk '/^cpu / {print $5}' /proc/stat; }
idle_seen() { has idle '^\[idle\];.*do_idle_\[k\]'; }
for _ in 1 2 3 4 5 6 7 8; do
	before=$(idle_ticks)
	record idle -a --idle -d 1
	idle_seen >/dev/null && break
done
if [ $(($(idle_ticks) - before)) -lt 20 ] && ! idle_seen >/dev/null; then
	skip idle-kept "the machine was never idle"
else
	check idle-kept idle_seen
	check idle-consistent consistent idle
fi

# One CPU: what is bound to the other is not in it.
if [ "$(nproc)" -gt 1 ]; then
	# Names of their own: whatever else runs here may be one of the test programs, too.
	cp "$PROGRAMS/recursion" "$TMP/zero-$$"
	cp "$PROGRAMS/qsort" "$TMP/one-$$"
	taskset -c 0 "$TMP/zero-$$" 60 &
	on_0=$!
	taskset -c 1 "$TMP/one-$$" 60 &
	on_1=$!
	started "$on_0 $on_1"
	wait_for used $on_0 20
	wait_for used $on_1 20
	record one-cpu -a --cpu 0 -d 1
	kill $on_0 $on_1
	check one-cpu-has-its-own has one-cpu "^zero-$$;.*main;recurse_even;"
	check one-cpu-not-the-other hasnt one-cpu "^one-$$;"
	check one-cpu-consistent consistent one-cpu
else
	skip one-cpu "there is only one"
fi

# From within a pid namespace what runs outside has no id: that is reported, not lost silently.
if unshare -pf --mount-proc true 2>/dev/null; then
	"$PROGRAMS/recursion" 60 &
	started $!
	# The shell keeps its pid 1 until both have ended.
	unshare -pf --mount-proc sh -c '"$1/threads" 2 & exec "$2" record --json -a -d 1 -o "$3/inside.pftrace"' sh "$PROGRAMS" "$PERFWIND" "$TMP" \
		>"$TMP/inside.json" 2>"$TMP/inside.err"
	check inside-reported grep -q 'its own pid namespace' "$TMP/inside.err"
	check inside-kept steps_kept inside 'its own pid namespace'
	check inside-own has inside '^worker-1;.*thread_main;thread_work;burn '
	check inside-consistent consistent inside
	check outside-prints-nothing sh -c "! grep -q 'its own pid namespace' $TMP/all.err"
else
	skip inside "a pid namespace is refused"
fi
