#!/bin/bash
# unwinders.sh - the same program by each of the five engines, and a program of every kind of stack: the chains that
# the head comments of tests/programs promise.
. "$(dirname "$0")/lib"
need_perf

chain='main;(recurse_even;recurse_odd;){20,}.*burn '
# Of ld.so's first function libunwind and libdw do not know that it is a root: the first 2 to 5 ms.
engine_chain() {
	record "$1" --unwinder $1 -- "$PROGRAMS/recursion-fp" 0.7
	check "$1-chain" has "$1" "$chain"
	check "$1-consistent" consistent "$1"
	case $1 in
	native) check "$1-whole" json "$1" "v['stacks']['whole'] >= 0.99 * total" ;;
	lib*) check "$1-whole" json "$1" "v['stacks']['whole'] >= 0.99 * total - 3" ;;
	esac
}
engine_static() {
	record "$1-static" --unwinder $1 -- "$PROGRAMS/recursion-static" 0.7
	check "$1-static-chain" has "$1-static" "$chain"
	check "$1-static-whole" json "$1-static" 'v["stacks"]["whole"] >= 0.99 * total'
}
for engine in native libunwind libdw fp fp-copy; do
	twice $engine engine_chain $engine
	case $engine in fp*) ;; *) twice $engine-static engine_static $engine ;; esac
done
# A stack larger than the copy goes on in the process's memory, or is cut and marked so.
small() {
	record small --stack-bytes 1024 -- "$PROGRAMS/recursion" 0.7
	check small-copy json small 'v["stacks"]["cut"] + v["stacks"]["whole"] >= 0.98 * total'
	check small-copy-leaf has small '(recurse_even;recurse_odd;){3,}.*burn '
	check small-copy-consistent consistent small
}
twice small small

# Programs of each kind: the share of samples that show the chain, that of whole stacks, and the chain.  Where no CFI
# shows the root, the process's code must be read: the first samples may come before its memory is open.
kind() { # program, share, whole, regex
	record "$1" -- "$PROGRAMS/$1" 0.7
	check "$1-chain" share_at_least "$1" "$2" "$4"
	check "$1-whole" json "$1" "100 * v['stacks']['whole'] >= $3 * total"
	check "$1-consistent" consistent "$1"
	[ "$1" != plt ] || check plt-entry has plt 'main;call_through_plt;plugin_tiny@plt '
	[ "$1" != exceptions ] || check exceptions-run-time has exceptions 'throw_here.*;__cxa_throw;.*_Unwind_RaiseException'
}
while read -r program share whole regex; do
	twice "$program" kind "$program" "$share" "$whole" "$regex"
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
holes_imported() {
	record holes-recorded -F 4000 --stack-bytes 65528 --perf-data "$TMP/holes.data" -- "$PROGRAMS/holes" 0.7
	"$PERFWIND" import -q -o "$TMP/holes-imported.pftrace" "$TMP/holes.data"
	check holes-imported-chain share_at_least holes-imported 50 'main;with_hole;busy_leaf'
	check holes-imported-root share_at_least holes-imported 60 '_start;.*main;'
}
twice holes-imported holes_imported

# Recursion over 64 KiB: no copy reaches the root.  What is there is right, and a stack that ends early is marked so.
deep() {
	record deep -- "$PROGRAMS/deep" 0.7
	check deep-chain share_at_least deep 75 '(deep_call;){50,}deep_leaf;burn'
	check deep-outcomes json deep 'v["stacks"]["cut"] + v["stacks"]["whole"] >= 0.98 * total'
	check deep-marked share_at_least deep 75 '^deep;(\[cut\]|_start;.*main);.*deep_call'
	check deep-consistent consistent deep
}
twice deep deep
# Each frame of 3,000 is known.  With BPF the stacks are copied at the sample; without it no read that was torn may add
# frames to a cut stack, or fail.
known() { folded "$1" | "$PYTHON" tests/integration/known_stack.py "$TMP/$1.json" "$2"; }
known_copied() {
	record known -v -- "$PROGRAMS/known-stack" 0.7
	if grep -q 'are copied at the moment of the sample' "$TMP/known.err"; then
		check known-right known known 95
	else
		echo "no BPF programs here: stacks are not copied at the sample"
		check known-cut known known 0
	fi
}
twice known known_copied
known_later() {
	PERFWIND_WITHOUT=bpf record known-later -v -- "$PROGRAMS/known-stack" 0.7
	[ -n "${RECORDS_BY_UNIT:-}" ] || # the daemon has no events for it
		check known-later-read-soon grep -q 'stacks are deeper than their copies: ' "$TMP/known-later.err"
	check known-later-cut known known-later 0
	check known-later-outcomes json known-later 'v["stacks"]["cut"] + v["stacks"]["whole"] >= 0.98 * total'
}
twice known-later known_later
# A function with wrong CFI that keeps a frame pointer: native switches for it where the walks reach the root, and the verdict reports it.
# (Before that 20 stacks fail.)
wrong_cfi() {
	record wrong-cfi$1 -F 4000 -- "$PROGRAMS/wrong-cfi$1" 1.5
	check wrong-cfi$1-switched grep -q '[0-9] by frame pointers, as unwind information fails' "$TMP/wrong-cfi$1.err"
	check wrong-cfi$1-chain share_at_least wrong-cfi$1 60 '_start;.*main;wrong_caller;wrong_frame'
	check wrong-cfi$1-not-wrong hasnt wrong-cfi$1 'wrong_caller;burn|main;wrong_frame'
	check wrong-cfi$1-consistent consistent wrong-cfi$1
}
twice wrong-cfi wrong_cfi ''
twice wrong-cfi-fp wrong_cfi -fp
# A handler on a stack of its own: what it interrupted is read from the process's memory, or the stack has the reason.
sigframe_alt() {
	record sigframe-alt -- "$PROGRAMS/sigframe-alt" 0.7
	check sigframe-alt-chain has sigframe-alt 'signal_handler;handler_work;burn '
	check sigframe-alt-outcomes json sigframe-alt 'v["stacks"]["whole"] + v["stacks"]["cut"] + v["stacks"]["failed"].get("memory", 0) >= 0.98 * total'
	check sigframe-alt-consistent consistent sigframe-alt
}
twice sigframe-alt sigframe_alt
