#!/bin/bash
# unwinders.sh - the same program by each of the five engines, and a program of every kind of stack: the chains that
# the head comments of tests/programs promise.
. "$(dirname "$0")/lib"
need_perf

chain='main;(recurse_even;recurse_odd;){20,}.*burn '
for engine in native libunwind libdw fp fp-copy; do
	record "$engine" --unwinder $engine -- "$PROGRAMS/recursion-fp" 0.7
	check "$engine-chain" has "$engine" "$chain"
	check "$engine-consistent" consistent "$engine"
done
# Of ld.so's first function libunwind and libdw do not know that it is a root: the first 2 to 5 ms.
for engine in native libunwind libdw; do
	[ $engine = native ] && start=0 || start=3
	check "$engine-whole" json "$engine" "v['stacks']['whole'] >= 0.99 * total - $start"
	record "$engine-static" --unwinder $engine -- "$PROGRAMS/recursion-static" 0.7
	check "$engine-static-chain" has "$engine-static" "$chain"
	check "$engine-static-whole" json "$engine-static" 'v["stacks"]["whole"] >= 0.99 * total'
done
# A stack larger than the copy goes on in the process's memory, or is cut and marked so.
record small --stack-bytes 1024 -- "$PROGRAMS/recursion" 0.7
check small-copy json small 'v["stacks"]["cut"] + v["stacks"]["whole"] >= 0.98 * total'
check small-copy-leaf has small '(recurse_even;recurse_odd;){3,}.*burn '
check small-copy-consistent consistent small

# Programs of each kind: the share of samples that show the chain, that of whole stacks, and the chain.  Where no CFI
# shows the root, the process's code must be read: the first samples may come before its memory is open.
while read -r program share whole regex; do
	record "$program" -- "$PROGRAMS/$program" 0.7
	check "$program-chain" share_at_least "$program" "$share" "$regex"
	check "$program-whole" json "$program" "100 * v['stacks']['whole'] >= $whole * total"
	check "$program-consistent" consistent "$program"
done <<'LIST'
alloca 75 98 main;with_alloca;with_vla;with_realigned;burn
qsort 60 98 main;sort_numbers;.*qsort.*;compare_numbers
plt 75 98 main;call_through_plt
dlopen 50 98 main;run_plugin;plugin_work;plugin_inner;plugin_callback;burn
sigframe 10 98 main;interrupted_work;.*signal_handler;handler_work;burn
tailcall 70 98 main;tail_caller;tail_second;burn
exceptions 30 98 main;exception_round.*;throw_down
longjmp 70 98 main;jump_round;(jump_down;){20,}never_returns;burn
ucontext 70 50 coroutine_main;coroutine_work;burn
clone 75 98 clone[^;]*;clone_main;clone_work;burn
holes 50 60 main;with_hole;busy_leaf
threads 75 98 start_thread;thread_main;thread_work;burn
jit 70 98 main;call_jitted;jitted_function;jit_callback;burn
LIST
# What the copies lack cannot be read from a process that is gone: earlier stacks of the thread have to show it.
record holes-recorded -F 4000 --stack-bytes 65528 --perf-data "$TMP/holes.data" -- "$PROGRAMS/holes" 0.7
"$PERFWIND" import -q -o "$TMP/holes-imported.pftrace" "$TMP/holes.data"
check holes-imported-chain share_at_least holes-imported 50 'main;with_hole;busy_leaf'
check holes-imported-root share_at_least holes-imported 60 '_start;.*main;'
check plt-entry has plt 'main;call_through_plt;plugin_tiny@plt '
check exceptions-run-time has exceptions 'throw_here.*;__cxa_throw;.*_Unwind_RaiseException'

# Recursion over 64 KiB: no copy reaches the root.  What is there is right, and a stack that ends early is marked so.
record deep -- "$PROGRAMS/deep" 0.7
check deep-chain share_at_least deep 75 '(deep_call;){50,}deep_leaf;burn'
check deep-outcomes json deep 'v["stacks"]["cut"] + v["stacks"]["whole"] >= 0.98 * total'
check deep-marked share_at_least deep 75 '^deep;(\[cut\]|_start;.*main);.*deep_call'
check deep-consistent consistent deep
# Each frame of 3,000 is known.  With BPF the stacks are copied at the sample; without it no read that was torn may add
# frames to a cut stack, or fail.
known() { folded "$1" | "$PYTHON" tests/integration/known_stack.py "$TMP/$1.json" "$2"; }
record known -v -- "$PROGRAMS/known-stack" 0.7
if grep -q 'are copied at the moment of the sample' "$TMP/known.err"; then
	check known-right known known 95
else
	echo "no BPF programs here: stacks are not copied at the sample"
	check known-cut known known 0
fi
PERFWIND_WITHOUT=bpf record known-later -v -- "$PROGRAMS/known-stack" 0.7
[ -n "${RECORDS_BY_UNIT:-}" ] || # the daemon has no events for it
	check known-later-read-soon grep -q 'stacks are deeper than their copies: ' "$TMP/known-later.err"
check known-later-cut known known-later 0
check known-later-outcomes json known-later 'v["stacks"]["cut"] + v["stacks"]["whole"] >= 0.98 * total'
# A handler on a stack of its own: what it interrupted is read from the process's memory, or the stack has the reason.
record sigframe-alt -- "$PROGRAMS/sigframe-alt" 0.7
check sigframe-alt-chain has sigframe-alt 'signal_handler;handler_work;burn '
check sigframe-alt-outcomes json sigframe-alt 'v["stacks"]["whole"] + v["stacks"]["cut"] + v["stacks"]["failed"].get("memory", 0) >= 0.98 * total'
check sigframe-alt-consistent consistent sigframe-alt
