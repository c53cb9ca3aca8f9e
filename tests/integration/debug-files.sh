#!/bin/bash
# debug-files.sh - where names and unwind information stand when they do not stand in the program: .gnu_debugdata, a
# debug file by build id or by link, the process's own memory.  The names stand in
# programs/recursion.c and programs/dlopen.c, with functions that have no dynamic symbols.
. "$(dirname "$0")/lib"
need_perf
CC=${CC:-gcc}
for tool in $CC objcopy strip readelf xz; do
	command -v ${tool%% *} >/dev/null || { echo "$tool is not installed"; exit 77; }
done

chain='main;(recurse_even;recurse_odd;){20,}recurse_even;recurse_odd;burn '
# build NAME FLAGS... : $TMP/NAME from recursion.c, with a build id of its own.
build() {
	local name=$1
	shift
	$CC -O2 -g -fomit-frame-pointer -D_GNU_SOURCE -Itests/programs "$@" -Wl,--build-id="0x$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')" \
		-o "$TMP/$name" tests/programs/recursion.c || not_ok "$name-build" "$CC"
}
# shows NAME : a recording of $TMP/NAME has the chain, whole.
shows() {
	record "$1" -- "$TMP/$1" 0.7
	check "$1-names" has "$1" "^$1;.*$chain"
	check "$1-whole" json "$1" 'v["stacks"]["whole"] >= 0.99 * total'
	check "$1-consistent" consistent "$1"
}

# Nothing at all to name it by: what the others are compared with.
build bare -s
record bare -- "$TMP/bare" 0.7
check bare-has-no-names hasnt bare 'recurse_|burn '
check bare-whole json bare 'v["stacks"]["whole"] >= 0.99 * total'

# On a terminal there is a hint.
if command -v script >/dev/null; then
	script -qec "'$PERFWIND' record -o '$TMP/bare-hint.pftrace' -- '$TMP/bare' 0.2" /dev/null >"$TMP/bare-hint" 2>&1 </dev/null
	check bare-hint grep -qF "$TMP/bare: " "$TMP/bare-hint"
	check bare-hint-types grep -q 'hint: perfwind symbolize --symfs DIR' "$TMP/bare-hint"
else
	skip bare-hint "script(1) is not installed"
fi

# Names that are added to the trace later, from a copy of the program that is not stripped.
build late
mkdir -p "$TMP/copies$TMP" && cp "$TMP/late" "$TMP/copies$TMP/late"
strip --strip-all "$TMP/late"
record late -- "$TMP/late" 0.7
check late-has-no-names hasnt late 'recurse_|burn '
"$PERFWIND" symbolize "$TMP/late.pftrace" >"$TMP/late.stripped" 2>&1
check late-is-stripped grep -qF "no symbols: $TMP/late" "$TMP/late.stripped"
rm "$TMP/late"
"$PERFWIND" symbolize "$TMP/late.pftrace" >"$TMP/late.gone" 2>&1
check late-is-gone grep -qF "not found: $TMP/late (there is no file here)" "$TMP/late.gone"
check late-hint grep -q 'hint: --symfs DIR' "$TMP/late.gone"
cp "$TMP/late.pftrace" "$TMP/late-debug.pftrace"
"$PERFWIND" symbolize --symfs "$TMP/copies" "$TMP/late.pftrace" >"$TMP/late.out" 2>&1
# (a sample of the start can be in ld.so, which is found, too)
check late-is-symbolized sh -c "grep -qE '^([1-9]) of \\1 modules found' '$TMP/late.out' || { cat '$TMP/late.out'; exit 1; }"
check late-names has late "^late;.*$chain"
# The same from its debug file alone, as a debug package brings it.
id=$(readelf -n "$TMP/copies$TMP/late" | awk '/Build ID/ { print $3 }')
mkdir -p "$TMP/packages/.build-id/${id:0:2}" && objcopy --only-keep-debug "$TMP/copies$TMP/late" "$TMP/packages/.build-id/${id:0:2}/${id:2}.debug"
check late-debug-symbolized "$PERFWIND" symbolize --debug-dir "$TMP/packages" "$TMP/late-debug.pftrace"
check late-debug-names has late-debug "^late;.*$chain"

# Stripped with a table of its function symbols packed into .gnu_debugdata, as distributions do.
build mini
nm -D "$TMP/mini" --format=posix --defined-only | awk '{print $1}' | sort >"$TMP/dynamic"
nm "$TMP/mini" --format=posix --defined-only | awk '$2 == "T" || $2 == "t" {print $1}' | sort >"$TMP/functions"
comm -13 "$TMP/dynamic" "$TMP/functions" >"$TMP/kept"
objcopy --only-keep-debug "$TMP/mini" "$TMP/mini.debug"
objcopy -S --remove-section .gdb_index --remove-section .comment --keep-symbols="$TMP/kept" "$TMP/mini.debug" "$TMP/mini.packed"
xz -f "$TMP/mini.packed"
strip --strip-all -R .comment "$TMP/mini"
objcopy --add-section .gnu_debugdata="$TMP/mini.packed.xz" "$TMP/mini"
rm "$TMP/mini.debug"
check mini-is-stripped sh -c "! readelf -SW '$TMP/mini' | grep -q symtab && readelf -SW '$TMP/mini' | grep -q gnu_debugdata"
shows mini

# A debug file by .gnu_debuglink: next to the program, and in .debug.  One of another program is rejected.
build linked
objcopy --only-keep-debug "$TMP/linked" "$TMP/linked.debug"
strip --strip-all "$TMP/linked"
(cd "$TMP" && objcopy --add-gnu-debuglink=linked.debug linked)
shows linked
mkdir "$TMP/.debug"
cp "$TMP/linked" "$TMP/hidden"
mv "$TMP/linked.debug" "$TMP/.debug/"
shows hidden
build other -DNOTHING
objcopy --only-keep-debug "$TMP/other" "$TMP/.debug/linked.debug"
cp "$TMP/hidden" "$TMP/deceived"
record deceived -- "$TMP/deceived" 0.7
check deceived-has-no-names hasnt deceived 'recurse_|burn '

# A debug file by build id, which is looked for in /usr/lib/debug as the process sees it.
if is_root; then
	build by-id
	id=$(readelf -n "$TMP/by-id" | sed -n 's/.*Build ID: //p')
	folder=/usr/lib/debug/.build-id/${id:0:2}
	made=$([ -d "$folder" ] || echo yes)
	mkdir -p "$folder"
	objcopy --only-keep-debug --compress-debug-sections=zlib "$TMP/by-id" "$folder/${id:2}.debug"
	strip --strip-all "$TMP/by-id"
	shows by-id
	rm "$folder/${id:2}.debug"
	[ -z "$made" ] || rmdir "$folder"
else
	skip by-id "needs root"
fi

# CFI that stands in the debug file alone: the program has .eh_frame for libc's startup code only.  Recorded, and
# imported from a raw recording; that of another program is rejected.
stripped() {
	build "$1" -fno-asynchronous-unwind-tables -fno-unwind-tables
	objcopy --only-keep-debug "$TMP/$1" "$2"
	strip --strip-all "$TMP/$1"
}
frames_only_in() { readelf -SW "$2" | grep -q ' \.debug_frame  *PROGBITS' && ! readelf -SW "$1" | grep -q '\.debug_frame'; }
# Code without CFI is walked, and found whole mostly; but then the report marks frames as guessed.  Of the programs with
# CFI that is read from elsewhere only the first samples may be, which do not wait for it.
guessed_share() { "$PERFWIND" report "$TMP/$1.pftrace" 2>/dev/null | awk '/^Guessed / { print $2 == "<" ? $3 : $2; n = 1 } END { if (!n) print 0 }'; }
guesses() { awk -v share="$(guessed_share "$1")" 'BEGIN { exit !(share > 50) }'; }
guesses_not() { awk -v share="$(guessed_share "$1")" 'BEGIN { print "guessed: " share " %"; exit !(share < 1) }'; }
# reads NAME : an import of a raw recording of $TMP/NAME has the chain, whole.
reads() {
	record "$1-raw" --perf-data "$TMP/$1.data" -- "$TMP/$1" 0.7
	"$PERFWIND" import --json -o "$TMP/$1-import.pftrace" "$TMP/$1.data" >"$TMP/$1-import.json" 2>"$TMP/$1-import.err"
	folded "$1-import" >"$TMP/$1-import.folded"
	check "$1-import-names" grep -qE "^$1;.*$chain" "$TMP/$1-import.folded"
	check "$1-import-not-guessed" guesses_not "$1-import"
	check "$1-import-whole" json "$1-import" 'v["stacks"]["whole"] >= 0.99 * total'
}
stripped frames "$TMP/frames.debug"
check frames-only-there frames_only_in "$TMP/frames" "$TMP/frames.debug"
(cd "$TMP" && objcopy --add-gnu-debuglink=frames.debug frames)
shows frames
check frames-not-guessed guesses_not frames
reads frames
cp "$TMP/.debug/linked.debug" "$TMP/frames.debug"
record frames-deceived -- "$TMP/frames" 0.7
check frames-deceived-guesses guesses frames-deceived
if is_root; then
	stripped frames-by-id "$TMP/frames-by-id.debug"
	id=$(readelf -n "$TMP/frames-by-id" | sed -n 's/.*Build ID: //p')
	folder=/usr/lib/debug/.build-id/${id:0:2}
	made=$([ -d "$folder" ] || echo yes)
	mkdir -p "$folder"
	mv "$TMP/frames-by-id.debug" "$folder/${id:2}.debug"
	shows frames-by-id
	check frames-by-id-not-guessed guesses_not frames-by-id
	reads frames-by-id
	rm "$folder/${id:2}.debug"
	[ -z "$made" ] || rmdir "$folder"
else
	skip frames-by-id "needs root"
fi

# What a user's program names as its debug file is read as that user could read it: not root's, through a profiler with
# root's rights (in systemd-unit.sh the daemon).  By its name next to the program, and by a link; the same file names it all where
# its user may read it.
if is_root && id nobody >/dev/null 2>&1; then
	mkdir -m 755 "$TMP/others" "$TMP/others/.debug"
	build others/sealed
	objcopy --only-keep-debug "$TMP/others/sealed" "$TMP/others/secret.debug"
	strip --strip-all "$TMP/others/sealed"
	(cd "$TMP/others" && objcopy --add-gnu-debuglink=secret.debug sealed)
	chmod a+rx "$TMP" "$TMP/others" "$TMP/others/.debug" "$TMP/others/sealed"
	# of_nobody NAME : a recording of the program while an ordinary user runs it.
	of_nobody() {
		setpriv --reuid nobody --clear-groups --inh-caps=-all --bounding-set=-all "$TMP/others/sealed" 60 &
		target=$!
		started $target
		wait_for used $target 20
		record "$1" -p $target -d 0.7
		kill $target
	}
	chmod 600 "$TMP/others/secret.debug"
	of_nobody sealed
	check sealed-is-recorded json sealed 'v["stacks"]["whole"] >= 0.99 * total > 20'
	check sealed-has-no-names hasnt sealed 'recurse_|burn '
	mv "$TMP/others/secret.debug" "$TMP/roots.debug"
	ln -s ../../roots.debug "$TMP/others/.debug/secret.debug"
	chown -h nobody "$TMP/others/.debug/secret.debug"
	of_nobody sealed-link
	check sealed-link-has-no-names hasnt sealed-link 'recurse_|burn '
	chmod 644 "$TMP/roots.debug"
	of_nobody unsealed
	check unsealed-names has unsealed "^sealed;.*$chain"
else
	skip sealed "needs root and a user nobody"
fi

# A library that no path leads to any more, recorded by a user that may not open what is only mapped: it is unwound and
# named (by its dynamic symbols) out of the process's memory.
if is_root && id nobody >/dev/null 2>&1 && [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -le 2 ]; then
	mkdir "$TMP/user"
	cp "$PERFWIND" "$PROGRAMS/plt" "$PROGRAMS/plugin.so" "$TMP/user/"
	chmod -R a+rX "$TMP"
	chown -R nobody "$TMP/user"
	setpriv --reuid nobody --clear-groups --inh-caps=-all --bounding-set=-all "$TMP/user/plt" 60 &
	target=$!
	started $target
	wait_for used $target 20
	rm "$TMP/user/plugin.so"
	as_nobody ./perfwind record --json -o memory.pftrace -p $target -d 1 >"$TMP/memory.json" 2>"$TMP/memory.err"
	kill $target
	mv "$TMP/user/memory.pftrace" "$TMP/"
	check memory-names has memory '^plt;.*main;call_through_plt;plugin_tiny '
	check memory-whole json memory 'v["stacks"]["whole"] >= 0.98 * total'
	check memory-consistent consistent memory
	# A trace that another user may only read.
	cp "$TMP/late.pftrace" "$TMP/user/roots.pftrace"
	chmod 644 "$TMP/user/roots.pftrace"
	as_nobody ./perfwind symbolize roots.pftrace >/dev/null 2>"$TMP/roots.err"
	check roots-hint grep -q 'roots.pftrace: Permission denied (hint: -o FILE ' "$TMP/roots.err"
	check roots-copy as_nobody ./perfwind symbolize -o copy.pftrace roots.pftrace
else
	skip memory "needs root, a user nobody and perf_event_paranoid of at most 2"
fi
