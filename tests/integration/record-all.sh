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
all: $(patsubst %,o-%.o,$(shell seq 60))
o-%.o:
	gcc -O2 -c unit.c -o $@
MK
(cd "$TMP" && rm -f o-*.o && make -s -j4 -f build.mk) &
started $!
build=$!
record all -a -d 3
check all-status [ $? = 0 ]
wait $build
check all-equation json all 'v["samples"] == total and v["samples"] > 500'
check all-nothing-lost json all 'v["lost"]["samples"] == 0 and v["lost"]["sideband"] == 0'
check all-whole json all 'v["stacks"]["whole"] >= 0.95 * total'
check all-accounted json all '0.8 <= v["cpu_accounted"] <= 1.1'
check all-compiler-seen has all '^cc1;'
check all-kernel-seen has all '_\[k\]'
check all-idle-left-out hasnt all '^swapper'
record idle -a --idle -d 0.7
check idle-kept has idle '^swapper'
record one-cpu -a --cpu 0 -d 0.5
check one-cpu json one-cpu 'v["duration_s"] < 3'
