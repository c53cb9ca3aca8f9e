#!/bin/bash
# import-caches.sh - recordings of more programs than there are descriptors, or memory for their tables: what is dropped is
# read again, and every stack has its names.
. "$(dirname "$0")/lib"
[ "$(uname -m)" = x86_64 ] || { echo "skip import-caches: its stacks are x86-64's"; exit 77; }

# many NAME MODULES SYMBOLS : NAME/many.data
many() {
	mkdir "$TMP/$1" && "$PYTHON" "$INTEGRATION/many_modules.py" "$TMP/$1" "$2" "$3"
}
# import NAME AS [OPTIONS...] : NAME/many.data into AS.pftrace
import() {
	local from=$1 to=$2
	shift 2
	"$PERFWIND" import --json -o "$TMP/$to.pftrace" "$@" "$TMP/$from/many.data" >"$TMP/$to.json" 2>"$TMP/$to.err"
}
# right NAME AS : the stacks that were made
right() { folded "$2" | LC_ALL=C sort | cmp - "$TMP/$1/many.folded"; }
few_files() (
	ulimit -n "$1"
	shift
	"$@"
)

many small 1500 0
check many-imported import small many
check many-right right small many
check many-whole json many 'v["stacks"]["whole"] == total'
# Two descriptors a module, where there are as many.
check few-files-imported few_files 24 import small few
check few-files-right right small few
check few-files-whole json few 'v["stacks"]["whole"] == total'
check few-files-libdw-imported few_files 24 import small libdw --unwinder libdw
check few-files-libdw-right right small libdw
# None at all is reported.
few_files 6 import small none
check no-files-reported grep -q 'no file descriptors were left: .* ulimit -n' "$TMP/none.err"

# Their symbols would be 115 MiB.
many large 100 40000
check large-imported import large large --no-inline -v
check large-right right large large
held=$(sed -n 's/.*modules held \([0-9]*\) KiB at most.*/\1/p' "$TMP/large.err")
check large-are-more-than-fit [ "$held" -gt $((50 << 10)) ]
check large-bound [ "$held" -le $((64 << 10)) ]
