#!/bin/bash
# unwinders.sh - the same program by each of the five engines; the frame pointer ones on a build that has them.
. "$(dirname "$0")/lib"
need_perf

chain='main;(recurse_even;recurse_odd;){20,}.*burn '
for engine in native libunwind libdw fp fp-copy; do
	record "$engine" --unwinder $engine -- "$PROGRAMS/recursion-fp" 1
	check "$engine-chain" has "$engine" "$chain"
	check "$engine-equation" json "$engine" 'v["samples"] == total and v["samples"] > 100'
done
for engine in native libunwind libdw; do
	check "$engine-whole" json "$engine" 'v["stacks"]["whole"] >= 0.99 * total'
	record "$engine-static" --unwinder $engine -- "$PROGRAMS/recursion-static" 1
	check "$engine-static-chain" has "$engine-static" "$chain"
done
# A stack larger than the copy is cut, and says so; with all of it in reach it is whole.
record small --stack-bytes 1024 -- "$PROGRAMS/recursion" 1
check small-copy json small 'v["stacks"]["cut"] + v["stacks"]["whole"] >= 0.99 * total'
# Programs of each kind: the chain that their head comment promises.
while read -r program regex; do
	record "$program" -- "$PROGRAMS/$program" 1
	check "$program-chain" has "$program" "$regex"
	check "$program-whole" json "$program" 'v["stacks"]["whole"] >= 0.98 * total'
done <<'LIST'
alloca main;.*burn
qsort qsort.*;.*burn
plt main;.*plugin_.*burn
dlopen run_plugin;plugin_work;plugin_inner;plugin_callback;burn
sigframe .*burn
sigframe-alt .*burn
tailcall main;.*burn
exceptions .*burn
longjmp .*burn
ucontext .*burn
threads thread_main;thread_work;burn
jit call_jitted;jitted_function;jit_callback;burn
LIST
