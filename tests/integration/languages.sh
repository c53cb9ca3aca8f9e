#!/bin/bash
# languages.sh - other compilers' frames (tests/programs/languages), and 32-bit programs, which are not unwound, and reported so.
. "$(dirname "$0")/lib"
need_perf
SOURCES=$PWD/tests/programs/languages

# built NAME TOOL COMMAND... : skips where the tool is not installed.
built() {
	local name=$1 tool=$2
	shift 2
	if ! command -v "$tool" >/dev/null; then
		skip "$name" "no $tool"
		return 1
	fi
	(cd "$TMP" && "$@") >"$TMP/build.out" 2>&1 && return 0
	not_ok "$name-build" "$(grep -m 1 -i error "$TMP/build.out")"
	return 1
}
cp "$SOURCES"/work.* "$TMP/"

# Go: CFI in a compressed .debug_frame; stripped of it, the sizes of frames in .gopclntab.  Its first instructions, before a first
# goroutine, have CFI that is wrong.
export GOCACHE=$TMP/go GOPATH=$TMP/gopath GO111MODULE=off GOTOOLCHAIN=local GOFLAGS=
if built go go go build -o gowork work.go && (cd "$TMP" && go build -ldflags '-s -w' -o gostripped work.go); then
	record go -- "$TMP/gowork" 3
	check go-chain has go 'runtime.goexit[^;]*;.*main.worker;main.goWork;main.goInner '
	check go-library has go 'main.worker;main.goSort;sort.Strings;.*sort.'
	# Its runtime's work on the thread's own stack has the goroutine's callers, or none: no frame of long ago is taken for a caller (3 %
	# were; where no memory can be read, 0.2 to 0.8 %).
	go_own_stack() {
		folded go | awk '
			{ total += $NF }
			/;runtime.systemstack/ && !/^[^;]*;(\[cut\];)?runtime.(goexit|systemstack|mcall|morestack|mstart|rt0_go)/ { wrong += $NF }
			END { exit 500 * wrong >= total }'
	}
	check go-own-stack go_own_stack
	check go-whole json go 'v["stacks"]["whole"] >= 0.99 * total'
	check go-consistent consistent go
	record gostripped -- "$TMP/gostripped" 3
	check go-stripped-names has gostripped 'runtime.goexit[^;]*;.*main.worker;main.goWork;main.goInner '
	check go-stripped-inlined has gostripped 'main.worker;main.goSort;sort.Strings;.*sort.'
	# (of few stacks, three.)  A signal's handler has a stack of its own: where no memory can be read its callers are out of reach.  Go
	# preempts by signals, the more the busier the machine is.
	handlers=0
	[ "${RUNS_AS:-}" != asked ] ||
		handlers=$(folded gostripped | awk '/^[^;]*;\[(cut|failed)[^;]*;.*runtime[.]sig(tramp|return)/ { n += $NF } END { print n + 0 }')
	check go-stripped-whole json gostripped "total - v['stacks']['whole'] - $handlers <= max(3, 0.005 * total)"
	check go-stripped-consistent consistent gostripped
fi
if built rust rustc rustc -O -g -o rustwork work.rs; then
	record rust -- "$TMP/rustwork" 1
	check rust-chain has rust ';main;.*work::main;work::rust_work;work::rust_inner'
	check rust-library has rust 'work::main;work::rust_sort;.*sort'
	check rust-whole json rust 'v["stacks"]["whole"] >= 0.99 * total'
	check rust-consistent consistent rust
fi
if built ocaml ocamlopt ocamlopt -o ocamlwork work.ml; then
	record ocaml -- "$TMP/ocamlwork" 1
	check ocaml-chain has ocaml ';main;.*Work.ocaml_main;Work.ocaml_work;Work.inner '
	check ocaml-library has ocaml 'Work.ocaml_main;Work.ocaml_sort;Stdlib.List.'
	check ocaml-whole json ocaml 'v["stacks"]["whole"] >= 0.995 * total'
	check ocaml-consistent consistent ocaml
	# At a raise the stack is the handler's, and the CFI is not: the code shows it, where the process's memory may be read.
	if [ "${RUNS_AS:-}" != asked ]; then
		record exceptions -F 4999 -- "$TMP/ocamlwork" 2 exceptions
		check ocaml-exceptions-whole json exceptions "total - v['stacks']['whole'] <= max(2, 0.002 * total)"
		for name in ocaml_raise ocaml_across ocaml_nested; do
			check ocaml-exceptions-$name has exceptions "Work.entry;Work.ocaml_exceptions;Work.$name "
		done
		check ocaml-exceptions-once hasnt exceptions ';(Work.ocaml_(raise|nested|across|bounds|lookup));\1'
	fi
fi

# 32 bits: one outcome for every sample, and no stack.
if ! ${CC:-gcc} -m32 -O1 -fno-pie -no-pie -static -nostdlib -ffreestanding -fno-stack-protector \
	-o "$TMP/bits32" "$SOURCES/bits32.c" 2>"$TMP/build.out" || ! "$TMP/bits32"; then
	unable bits32 "the compiler or the kernel knows no 32-bit programs"
else
	record bits32 -- "$TMP/bits32"
	check bits32-outcome json bits32 'v["stacks"]["failed"].get("abi", 0) >= 0.95 * total and total > 20'
	check bits32-no-stack hasnt bits32 'work32|_start'
	check bits32-reported has bits32 '^bits32;\[failed: abi\]'
	check bits32-consistent consistent bits32
fi
