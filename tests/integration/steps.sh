#!/bin/bash
# steps.sh - every kind of frame, stepped one instruction at a time: at each, native's stack must be the one that calls
# and returns made (tests/differential/diff-steps.c).  tests/README.md has the table of cases.
. "$(dirname "$0")/lib"
DIFF=$O/tests/differential/diff-steps
CC=${CC:-gcc} CXX=${CXX:-g++}

if ! "$DIFF" --max-steps 2000 -- /bin/true >"$TMP/probe" 2>&1 && grep -q 'not permitted\|No such process' "$TMP/probe"; then
	echo "ptrace is not permitted here"
	exit 77
fi

# build NAME FLAGS... : $TMP/NAME from steps.c, or from $FROM.
build() {
	local name=$1
	shift
	$CC -g -D_GNU_SOURCE -pthread "$@" -o "$TMP/$name" "tests/programs/${FROM:-steps.c}" >"$TMP/build.out" 2>&1 && return 0
	not_ok "$name-build" "$(head -n 1 "$TMP/build.out")"
	return 1
}
# steps NAME OPTIONS... : right at every instruction, and no frame a guess; what is not is printed.
steps() {
	local name=$1
	shift
	check "$name" "$DIFF" --from-trap --sure "$@"
}
# guesses NAME OPTIONS... : the same where frames may be guesses.
guesses() {
	local name=$1
	shift
	check "$name" "$DIFF" --from-trap "$@"
}

# From ld.so's first instruction to the end of exit: PLT entries, the resolver, crti's functions, _start.
check program "$DIFF" -- /bin/true

# The compiler's frames, each way of building.
while read -r name flags; do
	# shellcheck disable=SC2086
	build "$name" $flags || continue
	steps "frames-$name" -- "$TMP/$name" frames
	steps "longjmp-$name" -- "$TMP/$name" longjmp
done <<'LIST'
O0 -O0
O1 -O1
O2 -O2 -Wl,-z,lazy
O3 -O3 -mavx2
Os -Os
fp -O2 -fno-omit-frame-pointer
cf -O2 -fcf-protection=full -Wl,-z,ibtplt,-z,lazy
no-plt -O2 -fno-plt
no-pie -O2 -no-pie -fno-pie
static -O2 -static
static-pie -O2 -static-pie
lld-like -O2 -Wl,-z,noseparate-code
large -O2 -mcmodel=large
split-stack-off -O2 -fno-split-stack -fstack-protector-all -fstack-clash-protection
bias -O2 -pie -Wl,-Ttext-segment=0x7000000
segments -O2 -no-pie -fno-pie -DELSEWHERE -Wl,--section-start=.elsewhere=0x8000000
no-hdr -O2 -Wl,--no-eh-frame-hdr
debug-frame -O2 -fno-asynchronous-unwind-tables -fno-unwind-tables
LIST
# CFI that describes no epilogue, as compilers wrote it before GCC 4.5: from the first pop to the ret it is not true, and
# then the code counts.  The frame found so is a guess; none is wrong in silence.
without_epilogues() { # NAME FLAGS...
	local name=$1
	shift
	$CC -D_GNU_SOURCE "$@" -S -o "$TMP/$name.s" tests/programs/steps.c 2>"$TMP/build.out" && awk '
		/^\t\.cfi_(remember_state|restore_state|restore |def_cfa 7, 8)/ { next }
		/^\t\.cfi_def_cfa(_offset)? / && last ~ /^(pop|leave|add|lea.*,[[:space:]]*%rsp)/ { next }
		/^\t[a-z]/ { last = substr($0, 2) }
		{ print }' "$TMP/$name.s" >"$TMP/$name.bare.s" && ! cmp -s "$TMP/$name.s" "$TMP/$name.bare.s" &&
		$CC -pthread "$@" -o "$TMP/$name" "$TMP/$name.bare.s" 2>>"$TMP/build.out" && return 0
	not_ok "$name-build" "$(head -n 1 "$TMP/build.out")"
	return 1
}
if [ "$(uname -m)" = x86_64 ]; then
	while read -r name flags; do
		# shellcheck disable=SC2086
		without_epilogues "bare-$name" $flags || continue
		# Realigned frames are not described by rsp or rbp: they end with a reason, or come right.
		guesses "frames-bare-$name" --allow realigned,realigned_alloca -- "$TMP/bare-$name" frames
		guesses "longjmp-bare-$name" -- "$TMP/bare-$name" longjmp
	done <<-'LIST'
		O0 -O0
		O1 -O1
		O2 -O2
		O3 -O3 -mavx2
		Os -Os
		fp -O2 -fno-omit-frame-pointer
		cf -O2 -fcf-protection=full
		no-pie -O2 -no-pie -fno-pie
	LIST
fi
for how in zlib zlib-gnu zstd; do
	if objcopy --compress-debug-sections=$how "$TMP/debug-frame" "$TMP/packed-$how" 2>"$TMP/objcopy.err" &&
		readelf -SW "$TMP/packed-$how" | grep -qE '\.debug_frame .* C  |\.zdebug_frame'; then
		steps "frames-packed-$how" -- "$TMP/packed-$how" frames
	else
		skip "frames-packed-$how" "objcopy cannot compress so"
	fi
done
if command -v clang >/dev/null; then
	CC=clang build clang -O2 -Wno-everything && steps frames-clang -- "$TMP/clang" frames
fi
check no-hdr-has-none sh -c "! readelf -lW '$TMP/no-hdr' | grep -q EH_FRAME"
check segments-are-two sh -c "[ \$(readelf -lW '$TMP/segments' | grep -c 'LOAD.* R E ') = 2 ]"
check debug-frame-is-all sh -c "readelf -SW '$TMP/debug-frame' | grep -q '\.debug_frame'"

# libc's assembly, system calls, lazily bound calls through ld.so's resolver; the vDSO; modules out of memory alone.
steps libc -- "$TMP/O2" libc
guesses libc-static -- "$TMP/static" libc
steps vdso -- "$TMP/O2" vdso
steps vfork -- "$TMP/O2" vfork
"$TMP/O2" crypto >/dev/null 2>&1
if [ $? = 77 ]; then skip crypto "libcrypto.so.3 is not installed"; else steps crypto -- "$TMP/O2" crypto; fi
steps memory-only --no-files -- "$TMP/O2" frames
steps memory-only-libc --no-files --max-steps 30000 -- "$TMP/O2" libc
# Signals at many places of it, each instruction of the handler, the trampoline and its end.
steps signal --signal-every 31 -- "$TMP/O2" signal
steps signal-alt --signal-every 31 -- "$TMP/O2" signal-alt
steps signal-above --signal-every 31 -- "$TMP/O2" signal-above
steps signal-O0 --signal-every 61 -- "$TMP/O0" signal
# Other stacks.  Between taking the new stack and pushing what it returns to, glibc's swapcontext has its caller in
# memory: it is reported as a guess, or the stack ends there (a function that was never called yet).  So does __start_context
# once its function has returned.  The same of switches by hand, in each manner there is: CFI that is true gives what is
# right; with none, or only the begin and the end of the function, whatever is wrong is marked as a guess.
guesses ucontext --allow __start_context,swapcontext -- "$TMP/O2" ucontext
for how in O0 O2 fp; do
	steps "switch-$how" -- "$TMP/$how" switch_cfi
	for name in switch switch_jump switch_pop switch_push; do
		for cfi in nocfi lazy; do
			guesses "$name-$cfi-$how" --allow ${name}_$cfi -- "$TMP/$how" ${name}_$cfi
		done
	done
done
# Code without CFI, and code without a file.
guesses nocfi -- "$TMP/O2" nocfi
guesses jit -- "$TMP/O2" jit
guesses memfd -- "$TMP/O2" memfd

# The same with the .eh_frame of all of it next to it, which no process has registered: frame pointers and the code are all
# that native has.  With either every stack is right, and every frame found so is marked (diff-steps asks for that).
marked() {
	"$DIFF" --from-trap "$@" >"$TMP/marked.out" 2>&1
	local status=$?
	cat "$TMP/marked.out"
	[ $status = 0 ] && grep -qE '\([1-9][0-9]+ of them by a guess\)' "$TMP/marked.out"
}
while read -r name flags; do
	# shellcheck disable=SC2086
	FROM=steps-jit.c build "jit-$name" $flags || continue
	check "jit-$name-eh-frame-is-true" "$TMP/jit-$name" proof
	for case in code zeros number; do
		check "jit-$name-$case" marked -- "$TMP/jit-$name" $case
	done
done <<'LIST'
fp-O0 -O0
fp-O2 -O2 -fno-omit-frame-pointer
fp-cf -O2 -fno-omit-frame-pointer -fcf-protection=full
plain-O1 -O1 -fomit-frame-pointer
plain-O2 -O2 -fomit-frame-pointer
LIST

# C++: _Unwind_RaiseException and _Unwind_Resume write the landing's registers over their own before they go there; the
# caller that is found then is marked as a guess.
if $CXX -std=c++20 -g -O2 -Wl,-z,now -o "$TMP/cxx" tests/programs/steps-cxx.cc 2>"$TMP/build.out"; then
	for name in exceptions coroutines virtual; do
		guesses "$name" --allow _Unwind_RaiseException,_Unwind_Resume,_Unwind_Resume_or_Rethrow -- "$TMP/cxx" $name
	done
	check exceptions-cold sh -c "nm '$TMP/cxx' | grep -q '\.cold'"
else
	not_ok cxx-build "$(head -n 1 "$TMP/build.out")"
fi
