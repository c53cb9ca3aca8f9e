#!/bin/bash
# replay.sh - small recordings of stock perf from tests/data/x86-64, with the golden text of their stacks next to them:
# no perf, no kernel and no event of this machine takes part.  The programs lie there too and are known by build id.
. "$(dirname "$0")/lib"
DATA=tests/data/x86-64
# The recorded programs were in /tmp/recorded: that path gets our folder's name, which is as long.
FOLDER=$(mktemp -d /tmp/p.XXXXXX) && cp $DATA/work $DATA/work-fp "$FOLDER" || exit 1
trap 'rm -rf "$FOLDER"; cleanup' EXIT

# replayed NAME [OPTIONS...] : NAME.data into $TMP/NAME.pftrace
replayed() {
	local name=$1
	shift
	sed "s#/tmp/recorded/#$FOLDER/#g" "$DATA/$name.data" >"$TMP/$name.data"
	"$PERFWIND" import --json -o "$TMP/$name.pftrace" "$@" "$TMP/$name.data" >"$TMP/$name.json" 2>"$TMP/$name.err"
}
golden() {
	folded "$1" >"$TMP/$1.folded"
	diff "$DATA/$1.folded" "$TMP/$1.folded"
}
# all_whole NAME SAMPLES : that many, nothing lost or left out.
all_whole() {
	json "$1" "(v['samples'] == $2 and v['stacks'] == {'whole': $2, 'unchecked': 0, 'lacking_functions': 0, 'cut': 0, 'failed': {}} and v['skipped'] == {} and
		v['lost']['samples'] == 0 and v['lost']['sideband'] == 0 and v['modules_without_symbols'] == [])"
}
twice() {
	cp "$TMP/$1.pftrace" "$TMP/$1.first" && replayed "$1" && cmp "$TMP/$1.first" "$TMP/$1.pftrace"
}
# The numbers are as in `perf script -F pid`.
while read -r name samples; do
	check "$name-imported" replayed "$name"
	check "$name-stacks" golden "$name"
	check "$name-counted" all_whole "$name" "$samples"
	check "$name-consistent" consistent "$name"
	check "$name-twice-the-same" twice "$name"
	check "$name-no-inline" replayed "$name" --no-inline
	check "$name-no-inline-stacks" golden "$name"
done <<'END'
dwarf 23
fp 22
pipe 21
END
for engine in libdw libunwind; do
	[ "$(uname -m)" = x86_64 ] || [ $engine = libdw ] || continue
	check $engine-imported replayed dwarf --unwinder $engine
	check $engine-stacks golden dwarf
done
# Another file under the program's name: no names rather than wrong ones, and as many samples.
cp $DATA/work-fp "$FOLDER/work"
check replaced-imported replayed dwarf
check replaced-counted json dwarf "v['samples'] == 23"
check replaced-no-names hasnt dwarf 'burn|start_c|middle'

# Files of other machines, made of these.  One that states which: an error, and no trace.  One that does not, with
# registers that this machine does not have: no stack is made of these registers, the samples are there all the same.
foreign() {
	local name=$1
	shift
	sed "s#/tmp/recorded/#$FOLDER/#g" $DATA/dwarf.data >"$TMP/own.data"
	"$PYTHON" tests/integration/foreign.py "$TMP/own.data" "$TMP/$name.data" "$@"
}
refused() { # NAME TEXT
	! "$PERFWIND" import -o "$TMP/$1.pftrace" "$TMP/$1.data" 2>"$TMP/$1.err" && grep -q "$2" "$TMP/$1.err" &&
		[ "$(wc -l <"$TMP/$1.err")" = 1 ] && [ ! -e "$TMP/$1.pftrace" ]
}
# own NAME FEATURE... : without those feature sections
own() {
	local name=$1
	foreign "$name" without "$2" || return 1
	shift 2
	while [ $# -gt 0 ]; do
		"$PYTHON" tests/integration/foreign.py "$TMP/$name.data" "$TMP/$name.data" without "$1" || return 1
		shift
	done
}
imported() { "$PERFWIND" import --json -o "$TMP/$1.pftrace" "$TMP/$1.data" >"$TMP/$1.json" 2>"$TMP/$1.err"; }
cp $DATA/work "$FOLDER/work"
for arch in i686 armv7l riscv64 s390x ppc64 ppc64le loongarch64; do
	check "foreign-$arch-made" foreign $arch arch $arch
	check "foreign-$arch-refused" refused $arch "was recorded on $arch; known are x86_64 and aarch64"
done
check foreign-swapped-made foreign swapped swapped
check foreign-swapped-refused refused swapped 'was recorded on a machine of the other byte order'
# riscv64 has 32 registers, loongarch64 33, s390x 34, ppc64 45.
for n in 32 33 34 45; do
	{ own registers-$n 6 && "$PYTHON" tests/integration/foreign.py "$TMP/registers-$n.data" "$TMP/registers-$n.data" registers $n; } ||
		not_ok "registers-$n-made" "it could not be written"
	check "registers-$n-imported" imported registers-$n
	if [ "$(uname -m)" = x86_64 ]; then
		check "registers-$n-reported" grep -q 'its stacks cannot be unwound: they have registers that x86_64 does not have' "$TMP/registers-$n.err"
		check "registers-$n-no-stack" json registers-$n "v['samples'] == 23 and v['skipped'] == {}"
		check "registers-$n-no-callers" hasnt registers-$n 'start_c|middle;'
	fi
done
# 16, as arm has: too few.
{ own registers-16 6 && "$PYTHON" - "$TMP/registers-16.data" <<'PY'; } || not_ok registers-16-made "it could not be written"
import struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
at = struct.unpack_from("<Q", data, 24)[0] + 80
struct.pack_into("<Q", data, at, 0xfffff)  # as many bits, but others
open(sys.argv[1], "wb").write(data)
PY
check registers-16-imported imported registers-16
[ "$(uname -m)" = x86_64 ] && check registers-16-reported grep -q 'not all registers were recorded' "$TMP/registers-16.err"
# A file that states nothing of its machine, with registers as here, is taken for one of ours.
check silent-made own silent 6
[ "$(uname -m)" = x86_64 ] && check silent-imported imported silent && check silent-stacks json silent "v['stacks']['whole'] == 23"

# Without build ids there are paths and inodes: a file with another inode is not taken, without a recorded one the path has to
# do, and both are reported, once.
taken() { # NAME UNPROVED
	[ "$(grep -c "$2 modules were identified by their paths only, so another version may have run: there are no build ids in the file" "$TMP/$1.err")" = 1 ]
}
check no-ids-made own no-ids 2
check no-ids-imported imported no-ids
check no-ids-reported test "$(grep -c '1 module could not be read, or another file is at the path' "$TMP/no-ids.err")" = 1
check no-ids-none-taken sh -c "! grep -q 'by their paths only' '$TMP/no-ids.err'"
check no-ids-counted json no-ids "v['samples'] == 23"
check no-ids-no-names hasnt no-ids 'burn|start_c|middle'
check no-ids-not-whole json no-ids "v['stacks']['whole'] == 0"
"$PYTHON" tests/integration/foreign.py "$TMP/no-ids.data" "$TMP/likely.data" inode 0
check likely-imported imported likely
check likely-reported taken likely 1
check likely-none-missing sh -c "! grep -q 'could not be read' '$TMP/likely.err'"
check likely-stacks json likely "v['stacks']['whole'] == 23"
# A file that is not there is reported with its path.
mv "$FOLDER/work" "$FOLDER/away"
check gone-imported imported own
check gone-reported grep -q "1 module is not on this machine (the first: $FOLDER/work): no names" "$TMP/own.err"
check gone-counted json own "v['damage']['unread_modules'] == 1 and v['stacks']['whole'] == 0"
"$PERFWIND" import --debug-dir "$TMP" -o "$TMP/debug-only.pftrace" "$TMP/own.data" 2>"$TMP/debug-only.err"
check gone-debug-hint grep -q 'as debug files have no unwind tables; perfwind symbolize --debug-dir adds their names' "$TMP/debug-only.err"
mv "$FOLDER/away" "$FOLDER/work"
# With them nothing is reported; and where the kernel counted no losses, none is made up.
imported own
check ids-not-reported sh -c "! grep -q 'no build ids' '$TMP/own.err'"
check losses-none-known sh -c "! '$PERFWIND' import -o '$TMP/own.pftrace' '$TMP/own.data' 2>&1 | grep 'at least 0'"

# What could not be read is in the JSON; a file that is read is never the one that is written; folders are refused.
head -c $(($(stat -c %s "$TMP/own.data") / 2)) "$TMP/own.data" >"$TMP/half.data"
check damage-imported imported half
check damage-reported json half "v['damage']['bytes_not_read'] > 0"
check damage-none json own "v['damage'] == {'bytes_not_read': 0, 'bad_records': 0, 'unproved_modules': 0, 'unread_modules': 0}"
cp "$TMP/own.data" "$TMP/itself.data"
ln "$TMP/itself.data" "$TMP/itself.link"
itself() {
	! "$PERFWIND" import -o "$TMP/itself.link" "$TMP/itself.data" 2>"$TMP/itself.err" &&
		grep -q 'is the input, and cannot be the trace too' "$TMP/itself.err" && cmp "$TMP/own.data" "$TMP/itself.link"
}
check itself-refused itself
mkdir "$TMP/threads.data"
touch "$TMP/threads.data/data" "$TMP/threads.data/data.0"
check folder-refused sh -c "! '$PERFWIND' import '$TMP/threads.data' 2>'$TMP/folder.err' && grep -q 'perf record --threads' '$TMP/folder.err'"
# With --kcore the folder's one file is the recording.
mkdir "$TMP/kcore.data" "$TMP/kcore.data/kcore_dir"
cp "$TMP/own.data" "$TMP/kcore.data/data"
check kcore-imported imported kcore
check kcore-the-same cmp "$TMP/own.pftrace" "$TMP/kcore.pftrace"
# Names in a file do not reach the terminal as controls.
LC_ALL=C sed 's/cpu-clock/cpu\x1b[31;k/g' "$TMP/own.data" >"$TMP/escape.data"
check escape-imported imported escape
check escape-cleaned sh -c "grep -q 'cpu?.31;k' '$TMP/escape.err' && ! LC_ALL=C grep -q \"\$(printf '\\033')\" '$TMP/escape.err'"
