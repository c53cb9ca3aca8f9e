#!/bin/bash
# aarch64.sh - stacks of aarch64 programs, unwound on this host: by the native engine as the source states them, and
# by libdw the same.  tests/aarch64/snapshot.c takes the samples; tests/data/aarch64 has some that were taken under
# qemu-user, and where that and a cross compiler are here, they are taken again.
. "$(dirname "$0")/lib"
ENGINES=$O/tests/aarch64/engines
DATA=tests/data/aarch64
CROSS=aarch64-linux-gnu-gcc
FLAGS="-O2 -fomit-frame-pointer -fasynchronous-unwind-tables -fno-pie -no-pie -Wl,--build-id -Wall -Wextra -Werror"
BARE="$FLAGS -ffreestanding -nostdlib -static -Wl,-z,max-page-size=4096"

# The chain of each sample up to scenes(): see tests/aarch64/snapshot.c.
chains() {
	cat <<-'END'
	1 plain_inner plain_outer
	2 plain_inner plain_outer
	3 alloca_inner alloca_outer
	4 big_inner big_frame
	5 recursex41
	6 tail_target tail_caller
	7 plain_inner saves_all
	8 handler_inner handler [unnamed] signal_leaf* signal_outer
	9 handler_inner handler trampoline signal_leaf* signal_outer
	10 handler_inner handler trampoline_unsaid signal_leaf* signal_outer
	11 edges by_hand
	12 edges by_hand
	13 edges by_hand
	14 edges by_hand
	15 edges by_hand
	16 plain_inner apart by_hand
	17 plain_inner unsaid by_hand?
	18 unsaid_leaf by_hand?
	END
}

# What libdw cannot: the vDSO's CFI, and trampolines without any, leave out the function that was interrupted (8 to
# 10); of code without CFI it takes x30 for the return address whatever it is (17), and skips the caller of a leaf (18);
# it marks no guesses (where a function goes to a landing pad, 21, 22 and 24).
LIBDW_CANNOT='^(8|9|10|17|18|21|22|24) '

# Where functions go to a landing pad, in programs with a libc: see lands() and goes_on().
LANDINGS="20 lands by_hand
21 lands by_hand?
22 lands by_hand?
23 goes_on by_hand
24 goes_on by_hand?"

# compare NAME PERFDATA DIR ROOT [MORE] : every sample ends in ROOT, from scenes() on; MORE is more chains.
compare() {
	local name=$1 root=$4 more=${5:-}
	"$ENGINES" "$2" $3 >"$TMP/$name.lines" || { not_ok "$name" "the samples cannot be read"; return; }
	{ chains; [ -z "$more" ] || echo "$more"; } | sed "s/^\([0-9]*\) \(.*\)/\1 whole \2 $root/" >"$TMP/$name.wanted"
	sed -n 's/ native / /p' "$TMP/$name.lines" >"$TMP/$name.native"
	sed -n 's/ libdw / /p' "$TMP/$name.lines" >"$TMP/$name.libdw"
	check "$name-native" diff "$TMP/$name.wanted" "$TMP/$name.native"
	check "$name-addresses" diff <(sed -n 's/ .*//p' "$TMP/$name.wanted" | sed 's/$/ addresses same/' |
		grep -vE "$LIBDW_CANNOT") <(grep ' addresses ' "$TMP/$name.lines" | grep -vE "$LIBDW_CANNOT")
	check "$name-libdw" diff <(grep -vE "$LIBDW_CANNOT" "$TMP/$name.wanted") \
		<(grep -vE "$LIBDW_CANNOT" "$TMP/$name.libdw")
}

BARE_ROOT="scenes main start_c _start"
compare recorded $DATA/bare.perfdata $DATA "$BARE_ROOT"
compare recorded-signed $DATA/signed.perfdata $DATA "$BARE_ROOT"

# A recording with return addresses that are not signed would prove nothing.
signed_words() {
	"$PYTHON" - "$1" <<'PY'
import struct, sys
data = open(sys.argv[1], 'rb').read()
words = struct.unpack('<%dQ' % (len(data) // 8), data[:len(data) // 8 * 8])
print(sum(1 for w in words if w >> 48 and w >> 55 == 0 and w & 0xffffffffffff in range(0x400000, 0x410000)))
PY
}
check recorded-signatures test "$(signed_words $DATA/signed.perfdata)" -gt 40
check recorded-no-signatures test "$(signed_words $DATA/bare.perfdata)" = 0

# The same by perfwind import, of a file of another machine.  The program's path in it gets our folder's name, which
# is as long.  The weights are 1 ms each, so a stack is printed with its number of samples.
imported() {
	local folder
	folder=$(mktemp -d /tmp/p.XXXXXX) && cp $DATA/signed "$folder" || return 1
	sed "s#/tmp/snapshot/#$folder/#g" $DATA/signed.perfdata >"$TMP/signed.data"
	"$PERFWIND" import --json -o "$TMP/imported.pftrace" "$@" "$TMP/signed.data" \
		>"$TMP/imported.json" 2>"$TMP/imported.err" || { cat "$TMP/imported.err"; rm -rf "$folder"; return 1; }
	rm -rf "$folder"
	folded imported >"$TMP/imported.folded"
	cat "$TMP/imported.folded"
}
import_has() { grep -qE "$1" "$TMP/imported.folded" || { cat "$TMP/imported.folded"; return 1; }; }
check import imported
check import-plain import_has '^snapshot;_start;start_c;main;scenes;plain_outer;plain_inner '
check import-recursion import_has '^snapshot;_start;start_c;main;scenes(;recurse){41} '
check import-signal import_has ';scenes;signal_outer;signal_leaf;trampoline;handler;handler_inner '
check import-counted json imported "v['samples'] == 18 and v['stacks']['whole'] == 18"
check import-consistent consistent imported
check import-libdw imported --unwinder libdw
check import-libdw-plain import_has '^snapshot;_start;start_c;main;scenes;plain_outer;plain_inner '
no_libunwind() { ! imported --unwinder libunwind >/dev/null && grep -q 'use native or libdw' "$TMP/imported.err"; }
[ "$(uname -m)" = aarch64 ] || check import-libunwind-refused no_libunwind

for tool in $CROSS qemu-aarch64; do
	command -v $tool >/dev/null && continue
	skip fresh "no $tool"
	exit 0
done

# perfwind itself, as far as that goes without the libraries of that machine: their headers are this one's.
compiles() {
	"$CROSS" -std=gnu11 -D_GNU_SOURCE -I. -I"$O" -idirafter /usr/include -Wall -Wextra -Wconversion -Werror \
		-DPERFWIND_VERSION='""' -DPERFWIND_FOLDERS='""' -fsyntax-only $(ls {cli,daemon,daemon/*,unwinder,profile,libc-hook}/*.c)
}
check compiles compiles

# The hook, in a program of that machine: what the program checks by itself, and one answer.
hook_target() { "$CROSS" -O2 -D_GNU_SOURCE -pthread -o "$TMP/hook-target" tests/programs/hook-target.c; }
hooked() {
	exec qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_PRELOAD="$TMP/hook/libperfwind-hook.so" \
		-E PERFWIND_HOOK_SOCKET="@perfwind-aarch64-$$" "$TMP/hook-target" "$@"
}
check hook-builds make -s O="$TMP/hook" CC="$CROSS" "$TMP/hook/libperfwind-hook.so"
check hook-target-builds hook_target
for mode in signal once held mask fork-vfork; do
	hooked_mode() { (hooked $mode </dev/null >/dev/null); }
	check hook-$mode hooked_mode
done
mkfifo "$TMP/hook-in" "$TMP/hook-out"
hooked idle <"$TMP/hook-in" >"$TMP/hook-out" &
hooked=$!
started $hooked
exec 8>"$TMP/hook-in"
answers() {
	"$PYTHON" - "$hooked" "perfwind-aarch64-$$" "$TMP/hook-out" <<'PY'
import ctypes, os, signal, socket, sys
pid, name = int(sys.argv[1]), sys.argv[2]
listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
listener.bind("\0" + name)
listener.listen(1)
listener.settimeout(10)
with open(sys.argv[3]) as out:
    assert out.readline() == "ready\n"
    ctypes.CDLL(None).sigqueue(pid, signal.SIGURG, ctypes.c_void_p(1))
    data, fds, _, _ = socket.recv_fds(listener.accept()[0], 16, 4)
links = [os.readlink(f"/proc/self/fd/{fd}") for fd in fds]
assert data == b"p" and [link.rpartition("/")[2] for link in links] == ["maps", "mem"], (data, links)
PY
}
check hook-answers answers
exec 8>&-
wait $hooked
check hook-ends [ $? = 0 ]

# taken NAME CPU FLAGS... : the program built so takes its samples; false when it could not.
taken() {
	local name=$1 cpu=$2
	shift 2
	mkdir -p "$TMP/$name" && "$CROSS" "$@" -o "$TMP/$name/snapshot" tests/aarch64/snapshot.c &&
		qemu-aarch64 -cpu "$cpu" -L /usr/aarch64-linux-gnu "$TMP/$name/snapshot" "$TMP/$name/perf.data"
}
# fresh NAME CPU ROOT MORE FLAGS...
fresh() {
	local name=$1 cpu=$2 root=$3 more=$4
	shift 4
	check "$name-taken" taken "$name" "$cpu" "$@"
	compare "$name" "$TMP/$name/perf.data" "" "$root" "$more"
}
fresh bare cortex-a57 "$BARE_ROOT" "" $BARE
fresh bare-size cortex-a57 "$BARE_ROOT" "" $BARE -Os
fresh bare-frames cortex-a57 "$BARE_ROOT" "" $BARE -fno-omit-frame-pointer
fresh signed max "$BARE_ROOT" "" $BARE -mbranch-protection=standard
check signed-signatures test "$(signed_words "$TMP/signed/perf.data")" -gt 40
# One library has symbols, the other what it exports.
fresh static max "scenes main __libc_start_call_main __libc_start_main _start" \
	"19 compare msort_with_tmpx2 qsort_r sorts
$LANDINGS" $FLAGS -DHOSTED -static -mbranch-protection=standard
fresh dynamic cortex-a57 "scenes main [unnamed] __libc_start_main _start" "19 compare [unnamed]x2 qsort_r sorts
$LANDINGS" $FLAGS -DHOSTED
