#!/bin/bash
# size-bombs.sh - small files that unpack to gigabytes, or that have millions of small things: each command takes at most
# 512 MB for any file below 100 MB, and names the bound that a file is over.
. "$(dirname "$0")/lib"

BOMBS=$INTEGRATION/size_bombs.py
make_bomb() { "$PYTHON" "$BOMBS" make "$1" "$TMP/$1"; }
# bounded STATUS COMMAND... : perfwind ends so within its memory and $CPU seconds of CPU; its messages are in $TMP/messages.
CPU=200
bounded() {
	local wanted=$1 status
	shift
	"$PYTHON" "$BOMBS" run 512 "$CPU" "$PERFWIND" "$@" >"$TMP/out" 2>"$TMP/messages"
	status=$?
	[ $status = "$wanted" ] && return 0
	echo "status $status, not $wanted"
	tail -n 3 "$TMP/messages" | cut -c 1-300
	return 1
}
# prints TEXT
prints() { grep -qF "$1" "$TMP/messages" || { tail -n 3 "$TMP/messages"; return 1; }; }

# refused KIND REASON COMMAND... : the commands do not read it, and give the reason.  The bounds are those of one reader
# (profile/profile.c), which counts before a command sees anything: every command is run on one file of many samples and on the one
# that takes the most memory, and each other bound is reached once, by one command or another.
refused() {
	local kind=$1 reason=$2 command
	make_bomb "$kind" || { not_ok "$kind" "it could not be made"; return; }
	refused_by() { bounded "$1" "${@:2}" "$TMP/$kind" && prints "$reason"; }
	for command in "${@:3}"; do
		case $command in
		report) check "$kind-report" refused_by 1 report ;;
		losses) check "$kind-losses" refused_by 2 losses ;;
		export) check "$kind-export" refused_by 1 export --to pprof -o - ;;
		esac
	done
	rm "$TMP/$kind"
}
refused packets 'more than 67,108,864 packets: the bound of a trace below 100 MiB' losses
refused unpacked 'more than 2,048 MiB unpacked' export
refused one_packet 'more than 32 MiB in one packet' report losses export
refused samples 'more than 8,388,608 samples' report losses export
refused names 'more than 67,108,864 bytes of names' report
refused mappings 'more than 262,144 mappings' losses
refused memory 'more than 384 MiB of memory for all that it holds' report losses export
refused lines 'more than 4,194,304 source lines' export
refused clocks 'more than 1,048,576 readings of clocks' report
refused followers 'more than 25,165,824 counts of followers' losses

# A damaged packet ends the reading; here nothing stands before it.
make_bomb nested
check nested-report bounded 1 report "$TMP/nested"
check nested-is-damaged prints 'is damaged or cut off, and no sample is left in it'

# Their samples can be read, and are too much for a writer.
too_much() { bounded 1 "${@:2}" && prints "$1"; }
make_bomb depth
check depth-losses bounded 0 losses "$TMP/depth"
for as in folded pprof html; do
	check depth-$as too_much 'more than 536,870,912 calls in the stacks of its threads' export --to $as -o - "$TMP/depth"
done
check depth-report too_much 'more than 536,870,912 calls in the stacks of its threads' report --tree "$TMP/depth"
make_bomb line
check line-report bounded 0 report "$TMP/line"
check line-folded too_much 'more than 16,777,216 bytes in a line' export --to folded -o - "$TMP/line"
for as in pprof html; do check line-$as bounded 0 export --to $as -o - "$TMP/line"; done

# perf.data: nothing is refused, what does not fit is left out or comes early, and a note reports it.
if [ ! -e "$(ldconfig -p | sed -n 's/.*libzstd.so.1 .*=> //p' | head -n 1)" ]; then
	skip perf-data "no libzstd.so.1"
	exit
fi
# imported KIND NOTE
imported() {
	make_bomb "$1"
	bounded 0 import -o "$TMP/imported.pftrace" "$TMP/$1" && prints "$2"
}
check perf-waiting imported perf_waiting 'records were put in order as far as memory allowed'
check perf-mappings imported perf_mappings 'processes were forgotten, as all processes take more than 128 MiB'
check perf-threads imported perf_threads 'processes were forgotten, as all processes take more than 128 MiB'
check perf-build-ids imported perf_build_ids 'damaged records were left out'
CPU=40 check perf-alternating imported perf_alternating '120,000 samples'
