#!/bin/bash
# golden.sh - commands that read a trace give the same bytes each time: their whole output is compared with tests/data/golden.
# work.pftrace and again.pftrace are imports of tests/data/x86-64/dwarf.data and pipe.data.
# NEW=1: writes the golden files, to be reviewed in the difference.
. "$(dirname "$0")/lib"
cd tests/data/golden || exit 1
# What is printed, without the parts that are not the command's own: a compression, a page around its data.
plain() {
	case $1 in
	export-pprof) gzip -dc ;;
	*-html) "$PYTHON" -c 'import sys; sys.stdout.write(sys.stdin.read().split("id=\"data\">")[1].split("</script>")[0])' ;;
	*) cat ;;
	esac
}
golden() {
	local name=$1
	shift
	"$PERFWIND" "$@" 2>"$TMP/errors" | plain "$name" >"$TMP/$name"
	[ -z "${NEW:-}" ] || cp "$TMP/$name" "$name"
	cmp "$name" "$TMP/$name" && return 0
	diff -a "$name" "$TMP/$name" | head -n 20
	cat "$TMP/errors"
	return 1
}
while read -r name arguments; do
	check "$name" golden "$name" $arguments
done <<'END'
report report work.pftrace
report-tree report --tree work.pftrace
report-process report --by process work.pftrace
report-pid report --by pid work.pftrace
report-thread report --by thread work.pftrace
report-module report --by module work.pftrace
report-callers report --callers burn work.pftrace
report-callees report --callees main --max-depth 3 work.pftrace
report-sort report --sort name -n 5 work.pftrace
report-time report --time 10ms-30ms work.pftrace
report-comm report --comm made work.pftrace
report-function report --function middle work.pftrace
report-collapse report --tree --collapse-recursion work.pftrace
report-json report --json work.pftrace
report-csv report --csv work.pftrace
report-stock report -n 10 ../stock-50hz.pftrace
script script -n 3 work.pftrace
losses losses work.pftrace
losses-lossy losses ../stock-1000hz-lossy.pftrace
losses-json losses --json ../stock-1000hz-lossy.pftrace
list list page-faults
list-names list --names page-faults
export-folded export --to folded -o - work.pftrace
export-html export --to html -o - work.pftrace
export-pprof export --to pprof -o - work.pftrace
export-str export --to str -o - work.pftrace
export-bin export --to bin -o - work.pftrace
export-systrace export --to systrace -o - work.pftrace
diff diff work.pftrace again.pftrace
diff-all diff --all --normalise samples work.pftrace again.pftrace
diff-tree diff --by tree --all --normalise time work.pftrace again.pftrace
diff-json diff --json --all --normalise share work.pftrace again.pftrace
END

# As private as the trace.
mode() { (umask 022 && "$PERFWIND" "$@") >/dev/null 2>&1 && stat -c %a "$TMP/private"; }
check export-private [ "$(mode export --to folded -o "$TMP/private" work.pftrace)" = 600 ]
rm -f "$TMP/private"
check diff-private [ "$(mode diff --html "$TMP/private" work.pftrace again.pftrace)" = 600 ]

# The binary is not where it was recorded: found by its build id, in a folder as `perf buildid-cache` makes.  The text of
# instructions is the disassembler's.
id=$(readelf -n ../x86-64/work | awk '/Build ID/ { print $3 }')
mkdir -p "$TMP/cache/.build-id/${id:0:2}/${id:2}" && cp ../x86-64/work "$TMP/cache/.build-id/${id:0:2}/${id:2}/elf"
at() { "$PERFWIND" annotate "$@" burn work.pftrace | awk '/^ *[0-9.]+ +[0-9a-f]+/ { print $1, $2 }'; }
instructions() { "$PERFWIND" annotate "$@" burn work.pftrace | grep -c '^ .* 4010[0-9a-f]* .*[a-z]'; }
annotated="17.39 4010a0
4.35 4010a5
21.74 4010b2
43.48 4010b7
13.04 4010ba"
check annotate-shares [ "$(at --buildid-dir "$TMP/cache")" = "$annotated" ]
check annotate-buildid-dir [ "$(instructions --buildid-dir "$TMP/cache")" -gt 10 ]
check annotate-environment eval '[ "$(PERF_BUILDID_DIR=$TMP/cache instructions)" -gt 10 ]'
check annotate-nowhere [ "$(instructions --buildid-dir "$TMP")" = 0 ]
# Another file under that build id is not taken.
cp ../x86-64/work-fp "$TMP/cache/.build-id/${id:0:2}/${id:2}/elf"
check annotate-another-file [ "$(instructions --buildid-dir "$TMP/cache")" = 0 ]
