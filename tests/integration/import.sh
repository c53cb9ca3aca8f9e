#!/bin/bash
# import.sh - what stock `perf record` wrote, in its modes: the samples are those that `perf script` counts, and the
# names are in the programs' sources.
. "$(dirname "$0")/lib"
need_perf
PERF=$(command -v perf) || { echo "skip import: perf (linux-perf) is not installed"; exit 77; }
"$PERF" --version >/dev/null 2>&1 || { echo "skip import: $PERF does not run on this kernel"; exit 77; }

# perf_record NAME OPTIONS... : into NAME.data.  -N: no copies of files in the user's folder.  An old perf on a new kernel
# aborts now and then: it is asked again.
perf_record() {
	local name=$1 i
	shift
	for i in 1 2 3 4 5 6 7 8; do
		"$PERF" record -N -q -o "$TMP/$name.data" "$@" >/dev/null 2>"$TMP/$name.perf" && return 0
	done
	echo "# perf record of $name ended badly eight times: $(tail -n 1 "$TMP/$name.perf")"
	return 1
}
# perf_piped NAME OPTIONS... COMMAND : the same as perf writes it into a pipe.
perf_piped() {
	local name=$1 i
	shift
	for i in 1 2 3 4 5 6 7 8; do
		(set -o pipefail && "$PERF" record -N -q -o - "$@" 2>"$TMP/$name.perf" | cat >"$TMP/$name.data") && return 0
	done
	echo "# perf record of $name ended badly eight times: $(tail -n 1 "$TMP/$name.perf")"
	return 1
}
# import NAME [OPTIONS...] : NAME.data into NAME.pftrace
import() {
	local name=$1
	shift
	"$PERFWIND" import --json -o "$TMP/$name.pftrace" "$@" "$TMP/$name.data" >"$TMP/$name.json" 2>"$TMP/$name.err"
}
# perf_script NAME FIELDS : what perf script prints; asked again like perf record.
perf_script() {
	local i
	for i in 1 2 3 4 5; do
		"$PERF" script -i "$TMP/$1.data" -F "$2" >"$TMP/$1.script" 2>/dev/null && break
	done
	cat "$TMP/$1.script"
}
# scripted NAME [EVENT] : samples that perf script prints, pid 0 left out
scripted() {
	perf_script "$1" event,pid | awk -v event="${2:-cpu-clock}" \
		'$1 != 0 { sub(/[:\/].*/, "", $2); n += $2 == event } END { print n + 0 }'
}
# weight NAME ; scripted_weight NAME EVENT : sums; of the first sample a trace's reader trusts no
# more than of the second.
weight() { "$PERFWIND" export --to folded --weight -o - "$TMP/$1.pftrace" | awk '{ n += $NF } END { print n + 0 }'; }
scripted_weight() {
	perf_script "$1" event,period | awk -v event="$2" '
		{ sub(/[:\/].*/, "", $2) } $1 ~ /^[0-9]+$/ && $2 == event { n += $1; if (++k == 1) first = $1; if (k == 2 && $1 < first) n -= first - $1 }
		END { print n + 0 }'
}
# counted NAME [EVENT] : as many as perf script prints, and enough samples
counted() {
	local printed
	printed=$(scripted "$@")
	[ "$printed" -ge 40 ] || { echo "perf script prints $printed samples"; return 1; }
	json "$1" "v['samples'] == $printed"
}

perf_record dwarf -F 499 -e cpu-clock --call-graph dwarf,16384 -- "$PROGRAMS/recursion" 1.5
check dwarf-imported import dwarf
check dwarf-counted counted dwarf
check dwarf-consistent consistent dwarf
check dwarf-whole json dwarf 'v["stacks"]["whole"] >= 0.995 * total'
check dwarf-chain has dwarf '^recursion;.*main;(recurse_even;recurse_odd;){20,}.*burn '
check dwarf-nothing-left-out json dwarf 'v["skipped"] == {} and v["lost"]["samples"] == 0'
cp "$TMP/dwarf.pftrace" "$TMP/first.pftrace"
import dwarf
check dwarf-twice-the-same cmp "$TMP/first.pftrace" "$TMP/dwarf.pftrace"
# With few descriptors the same stacks, inlined calls and all.
folded dwarf >"$TMP/dwarf.folded"
few_files() (
	ulimit -n 20
	import dwarf
)
check few-files-imported few_files
check few-files-the-same cmp "$TMP/dwarf.folded" <(folded dwarf)
# What is not inlined has the same names without DWARF.
import dwarf --no-inline
check no-inline-chain has dwarf '^recursion;.*main;(recurse_even;recurse_odd;){20,}.*burn '
import dwarf --unwinder libdw
check libdw-chain has dwarf '^recursion;.*main;(recurse_even;recurse_odd;){20,}.*burn '

# Threads have names of their own.
perf_record threads -F 499 -e cpu-clock --call-graph dwarf,4096 -- "$PROGRAMS/threads" 1
check threads-imported import threads
check threads-counted counted threads
check threads-names has threads '^worker-[0-9];.*thread_main;thread_work;.*burn '

# A parent, children and what they run: all processes are gone by now, their numbers may be others'.
perf_record fork -F 999 -e cpu-clock --call-graph dwarf,4096 -- "$PROGRAMS/fork" 1
check fork-imported import fork
check fork-counted counted fork
check fork-consistent consistent fork
check fork-whole json fork 'v["stacks"]["whole"] >= 0.99 * total'

perf_record fp -F 499 -e cpu-clock --call-graph fp -- "$PROGRAMS/recursion-fp" 1
check fp-imported import fp
check fp-counted counted fp
check fp-chain has fp '^recursion-fp;.*main;(recurse_even;recurse_odd;){20,}.*burn '

perf_record none -F 499 -e cpu-clock -- "$PROGRAMS/recursion" 1
check none-imported import none
check none-counted counted none
check none-name has none '^recursion;burn '

perf_piped pipe -F 499 -e cpu-clock --call-graph dwarf,16384 -- "$PROGRAMS/recursion" 1
check pipe-file-imported import pipe
check pipe-counted json pipe 'v["samples"] > 100'
check pipe-chain has pipe '^recursion;.*main;(recurse_even;recurse_odd;){20,}.*burn '
cp "$TMP/pipe.pftrace" "$TMP/first.pftrace"
"$PERFWIND" import -q -o "$TMP/pipe.pftrace" - <"$TMP/pipe.data"
check pipe-read-from-a-pipe cmp "$TMP/first.pftrace" "$TMP/pipe.pftrace"

if perf_record packed -z -F 499 -e cpu-clock --call-graph dwarf,16384 -- "$PROGRAMS/recursion" 1; then
	check packed-imported import packed
	check packed-counted counted packed
	check packed-chain has packed '^recursion;.*main;(recurse_even;recurse_odd;){20,}.*burn '
else
	skip packed "this perf was built without libzstd"
fi

# Code of a JIT compiler, by its jitdump, and as perf inject --jit makes files of that: names, lines and unwinding information (no frame
# pointers).
check dump-recorded perf_record dump -k mono -F 499 -e cpu-clock --call-graph dwarf,8192 -- "$PROGRAMS/jitted" 1 "$TMP"
check dump-imported import dump
check dump-whole json dump 'v["stacks"]["whole"] >= 0.99 * total'
for name in first second third; do
	check dump-$name has dump ";main;turn;$name;burn"
done
# Without the dump's clock a sample cannot know what was at an address at its time.
check dump-clock-is-right test "$(grep -c 'perf record -k mono' "$TMP/dump.err")" = 0
check clockless-recorded perf_record clockless -F 499 -e cpu-clock --call-graph dwarf,8192 -- "$PROGRAMS/jitted" 1 "$TMP"
check clockless-imported import clockless
check clockless-is-reported grep -q 'loaded over other code, and the samples have another clock.*; hint: perf record -k mono' "$TMP/clockless.err"
check counter-recorded perf_record counter -k mono -F 499 -e cpu-clock --call-graph dwarf,8192 -- "$PROGRAMS/jitted" 1 "$TMP" 30 tsc
check counter-imported import counter
check counter-is-reported grep -q "times of the processor's counter" "$TMP/counter.err"
if "$PERF" inject --jit -i "$TMP/dump.data" -o "$TMP/jit.data" >/dev/null 2>"$TMP/jit.perf" &&
	ls "$TMP"/jitted-*.so >/dev/null 2>&1; then
	check jit-imported import jit
	check jit-counted counted jit
	check jit-whole json jit 'v["stacks"]["whole"] >= 0.99 * total'
	for name in first second third; do
		check jit-$name has jit ";main;turn;$name;burn"
	done
	check jit-line sh -c "'$PERFWIND' trace --dump '$TMP/jit.pftrace' | grep -A3 'third.src' | grep -q '[^0-9]9$'"
	check jit-nothing-missing test "$(grep -c 'another file is at\|could not be read' "$TMP/jit.err")" = 0
else
	skip jit "this perf has no inject --jit"
fi

# Two events that are sampled: one at a time.
perf_record two -e cpu-clock/freq=499/ -e page-faults/period=1/ -g -- "$PYTHON" -c 'print(sum(i * i for i in range(6000000)))'
check two-first-imported import two
check two-first-counted counted two cpu-clock
check two-first-reports json two "v['skipped'] == {'not-in-scope': $(scripted two page-faults)}"
"$PERFWIND" report -n 1 "$TMP/two.pftrace" >"$TMP/two.report"
check two-first-names-other grep -qxE "Note +$(scripted two page-faults) samples of page-faults[^ ]* were left out .-e EVENT takes another event." "$TMP/two.report"
check two-second-imported import two -e page-faults
check two-second-counted counted two page-faults
check two-no-such-event test "$("$PERFWIND" import -e cycles -o "$TMP/no" "$TMP/two.data" 2>&1 | grep -c 'has no event cycles; it has: cpu-clock/freq=499/u\? page-faults')" = 1

# A group: its leader alone is sampled, and has the counts of the members.
perf_record group -e '{cpu-clock,page-faults,context-switches}:S' -F 999 --call-graph dwarf,4096 -- "$PYTHON" -c '
import mmap, time
for i in range(500):
    mmap.mmap(-1, 1 << 20).write(bytes(1 << 20))
    time.sleep(0.001)'
check group-leader-imported import group
check group-leader-counted counted group
check group-leader-reports json group "v['skipped'] == {'not-in-scope': $(($(scripted group page-faults) + $(scripted group context-switches)))}"
check group-faults-imported import group -e page-faults
check group-faults-counted counted group page-faults
check group-faults-consistent consistent group
check group-faults-weigh test "$(weight group)" = "$(scripted_weight group page-faults)"
check group-switches-imported import group -e context-switches
if [ "$(scripted group context-switches)" = 0 ] && ! is_root; then
	skip group-switches "they are in the kernel, which is not counted here"
else
	check group-switches-counted counted group context-switches
	check group-switches-weigh test "$(weight group)" = "$(scripted_weight group context-switches)"
fi

# The machine, with the build ids in the mappings' records.
if perf_record all -a -F 299 -e cpu-clock --buildid-mmap --call-graph dwarf,8192 -- "$PROGRAMS/threads" 1; then
	check all-imported import all
	check all-counted counted all
	check all-names has all '^worker-[0-9];.*thread_main;thread_work;.*burn '
else
	skip all "perf record -a is not permitted: $(tail -n 1 "$TMP/all.perf")"
fi

# A program that is gone, or another one under its name: no names rather than wrong ones.
cp "$PROGRAMS/recursion" "$TMP/gone"
perf_record gone -F 499 -e cpu-clock --call-graph dwarf,4096 -- "$TMP/gone" 1
rm "$TMP/gone"
cp "$PROGRAMS/threads" "$TMP/gone"
# (perf puts what it records into ~/.debug, where other runs may have left this very program.)
mkdir "$TMP/none"
check gone-imported import gone --buildid-dir "$TMP/none"
check gone-counted counted gone
check gone-no-wrong-names hasnt gone 'thread_work|program_|recurse'
# Its copy in perf's build-id cache, or in a folder with copies of files, has its names and its unwind information.
rm "$TMP/gone"
import gone --buildid-dir "$TMP/none"
check gone-nowhere hasnt gone 'recurse'
mkdir -p "$TMP/copies$TMP" && cp "$PROGRAMS/recursion" "$TMP/copies$TMP/gone"
"$PERF" --buildid-dir "$TMP/cache" buildid-cache -a "$TMP/copies$TMP/gone" >/dev/null 2>&1
for place in --buildid-dir="$TMP/cache" --symfs="$TMP/copies"; do
	import gone "$place"
	check "gone-${place%%=*}" has gone '^gone;.*main;(recurse_even;recurse_odd;){20,}.*burn '
	check "gone-${place%%=*}-whole" json gone 'v["stacks"]["whole"] >= 0.98 * total'
done
# As `perf archive` packs it for another machine: the tarball, or unpacked.
tar -cjf "$TMP/ids.tar.bz2" -C "$TMP/cache" . && mkdir "$TMP/ids" && tar -xf "$TMP/ids.tar.bz2" -C "$TMP/ids"
names='^gone;.*main;(recurse_even;recurse_odd;){20,}.*burn '
import gone --buildid-dir "$TMP/ids"
check gone-unpacked has gone "$names"
export TMPDIR=$TMP/unpacked
mkdir "$TMPDIR"
import gone --buildid-dir "$TMP/ids.tar.bz2"
check gone-archive has gone "$names"
# perf archive writes it next to the recording.
mv "$TMP/ids.tar.bz2" "$TMP/gone.data.tar.bz2"
import gone
check gone-archive-next-to-it has gone "$names"
check gone-archive-note grep -q 'files of the recording come from .*/gone.data.tar.bz2' "$TMP/gone.err"
tar -czf "$TMP/cut.tar.gz" -C "$TMP/cache" . && truncate -s 3000 "$TMP/cut.tar.gz"
HOME=$TMP/none import gone --buildid-dir "$TMP/cut.tar.gz" # (without ~/.debug)
check gone-archive-cut hasnt gone recurse
check gone-archive-cut-note grep -q 'cut.tar.gz: is damaged or was cut off' "$TMP/gone.err"
# Names from an archive later, out of a debug file in it.
id=$(readelf -n "$PROGRAMS/recursion" | sed -n 's/.*Build ID: //p')
mkdir -p "$TMP/debug/x/$id"
objcopy --only-keep-debug "$PROGRAMS/recursion" "$TMP/debug/x/$id/debug"
strip --strip-all -o "$TMP/debug/x/$id/elf" "$PROGRAMS/recursion"
tar -czf "$TMP/debug.tar.gz" -C "$TMP/debug" .
check gone-symbolized sh -c "'$PERFWIND' symbolize --buildid-dir '$TMP/debug.tar.gz' '$TMP/gone.pftrace' >'$TMP/symbolized'"
check gone-symbolized-names has gone recurse_
check gone-symbolized-lines sh -c "'$PERFWIND' trace --dump '$TMP/gone.pftrace' | grep -q recursion.c"
check gone-no-archive sh -c "! '$PERFWIND' symbolize --buildid-dir '$TMP/gone.data' '$TMP/gone.pftrace' 2>'$TMP/none.err'"
check gone-no-archive-line grep -q 'gone.data: is not a tarball made by perf archive' "$TMP/none.err"
check gone-archives-removed rmdir "$TMPDIR"
unset TMPDIR

# One path, two files, as another machine sees it: perf read the build id of the second, all samples are of the first.
# That there is a second one stands behind them.
second_file() {
	cp "$PROGRAMS/recursion" "$TMP/same"
	perf_record same "$@" -F 499 -e cpu-clock --call-graph dwarf,4096 -- sh -c "
		'$TMP/same' 1; cp '$PROGRAMS/threads' '$TMP/new'; mv '$TMP/new' '$TMP/same'; LD_TRACE_LOADED_OBJECTS=1 '$TMP/same'" &&
		sed -i "s/$(uname -r)/$(uname -r | tr 0-9 9)/g" "$TMP/same.data"
}
for packed in "" -z; do
	second_file $packed || { skip "same$packed" "this perf was built without libzstd"; continue; }
	check "same$packed-imported" import same
	check "same$packed-counted" counted same
	# (ld.so has a _start, too, which calls _dl_start and is sampled at its first page fault.)
	check "same$packed-no-wrong-names" hasnt same '^same;(.*;)?(_start(;[^_[]|;\[[^k]|;__)|(main|thread_(main|work)|program_[^;]*|[^;]*tm_clones)(;| ))'
	check "same$packed-reported" grep -Eq 'another file is at the(ir)? path' "$TMP/same.err"
done

# Damaged: as much as can be read, and it is reported.
head -c $(($(stat -c %s "$TMP/dwarf.data") / 2)) "$TMP/dwarf.data" >"$TMP/cut.data"
check cut-imported import cut
check cut-reported grep -q 'damaged: the file ends too early' "$TMP/cut.err"
check cut-rest-is-there json cut 'total > 20'
check cut-consistent consistent cut
: >"$TMP/empty.data"
import empty
check empty-status test $? = 1
check empty-reported grep -q 'empty.data is not a perf.data file' "$TMP/empty.err"
printf '2ELIFREP\0\0\0\0\0\0\0\150' >"$TMP/foreign.data"
import foreign
check foreign-reported grep -q 'was recorded on a machine of the other byte order' "$TMP/foreign.err"
check nothing-is-left test ! -e "$TMP/empty.pftrace" -a ! -e "$TMP/foreign.pftrace"
