#!/bin/bash
# replay.sh - small recordings of stock perf from tests/data/x86-64, with the golden text of their stacks beside them:
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
	json "$1" "(v['samples'] == $2 and v['stacks'] == {'whole': $2, 'cut': 0, 'failed': {}} and v['skipped'] == {} and
		v['lost']['samples'] == 0 and v['lost']['sideband'] == 0 and v['modules_without_symbols'] == [])"
}
twice() {
	cp "$TMP/$1.pftrace" "$TMP/$1.first" && replayed "$1" && cmp "$TMP/$1.first" "$TMP/$1.pftrace"
}
# The numbers are those of `perf script -F pid`.
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
