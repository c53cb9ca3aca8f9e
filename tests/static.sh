#!/bin/bash
# static.sh - rules of the code that a machine can see.  Run by `make check`; each rule is one test.
set -u
cd "$(dirname "$0")/.."
CC=${CC:-gcc}
O=${O:-build}
sources=$(git ls-files '*.c' '*.h' 2>/dev/null | grep -v '^tests/' || find . -name '*.[ch]' -not -path './build*' -not -path './tests/*')

# What a folder may include stands once, in the Makefile (USES_*); itself is always allowed.
bad=$(make -s print-layers | awk '
	function folder(path) { return sub("/[^/]*$", "", path) ? path : "." }
	NR == FNR { dir = $1; sub(/:$/, "", dir); known[dir]; for (i = 2; i <= NF; i++) allowed[dir, $i]; next }
	FNR == 1 { dir = folder(FILENAME); if (!(dir in known)) print "\t" FILENAME " is in no folder of the table in the Makefile" }
	/^#include "/ { split($0, part, "\""); to = folder(part[2])
		if (to != dir && !((dir, to) in allowed)) print "\t" FILENAME " includes " part[2] }' - $sources) || bad="$bad (awk failed)"
[ -z "$bad" ] && echo "ok layers" || printf 'not ok layers: arrows that do not point down:\n%s\n' "$bad"

# unwinder/ takes only the parts of base that are plain data: no loop, no queue, no thread.
bad=$(grep -nE '#include "base/(loop|queue|features)' unwinder/*.[ch] symbols/*.[ch] 2>/dev/null)
[ -z "$bad" ] && echo "ok unwinder-stands-alone" || echo "not ok unwinder-stands-alone: $bad"

headers=$(echo "$sources" | grep '\.h$')
bad=$(for h in $headers; do
	$CC -std=gnu11 -D_GNU_SOURCE -I. -I"$O" -Wall -Wextra -Werror -fsyntax-only -x c - <<<"#include \"$h\"" 2>/dev/null || echo " $h"
done; grep -L '#pragma once' $headers | sed 's/.*/ &(no-pragma-once)/')
[ -z "$bad" ] && echo "ok headers-alone" || echo "not ok headers-alone:$bad"

bad=$(grep -nE '\b(strcpy|strcat|sprintf|strtok|atoi|atol|strtol|alloca|system|popen|signal|dup)\(' $(echo "$sources" | grep '\.c$') |
	grep -vE 'libc-hook/interpose\.c.*signal|libmarks/marker-file\.c.*dup\(' | grep -vE '^\S+\s*(/?\*|//)' | grep -vE '^[^:]+:[0-9]+:\s*\*')
[ -z "$bad" ] && echo "ok banned-functions" || echo "not ok banned-functions: $bad"

# The unwinder and the hook never log.
bad=$(grep -nE '\blog_(error|info|verbose|print)\(' unwinder/*.c symbols/*.c libc-hook/*.c 2>/dev/null)
[ -z "$bad" ] && echo "ok no-log-in-unwinder" || echo "not ok no-log-in-unwinder: $bad"

# The hook stays small, and shows what it stands in for and nothing else.
if [ -f "$O/libperfwind-hook.so" ]; then
	bad=$(nm -D --defined-only "$O/libperfwind-hook.so" | awk '{ print $3 }' | sort | tr '\n' ' ')
	size=$(stat -c %s "$O/libperfwind-hook.so")
	shown="__asan_default_options __sigaction __sysv_signal bsd_signal sigaction sigaltstack sigignore siginterrupt signal sigset ssignal sysv_signal "
	[ "$bad" = "$shown" ] && [ "$size" -lt 20480 ] && echo "ok hook-is-small" ||
		echo "not ok hook-is-small: $size bytes; shows $bad"
else
	echo "skip hook-is-small: it is not built"
fi

# The library of marks stands in for these and nothing else, and needs no library.
if [ -f "$O/libperfwind-marks.so" ]; then
	bad=$(nm -D --defined-only "$O/libperfwind-marks.so" | awk '{ print $3 }' | LC_ALL=C sort | tr '\n' ' ')
	shown="__asan_default_options __cyg_profile_func_enter __cyg_profile_func_exit __dprintf_chk __open64_2 __open_2 __openat64_2 __openat_2 __vdprintf_chk __write close close_range closefrom creat creat64 dprintf dup dup2 dup3 fcntl fcntl64 fdopen fileno fileno_unlocked fopen fopen64 open open64 openat openat64 perfwind_marks_calls_1 setcontext sigaltstack swapcontext vdprintf write writev "
	[ "$bad" = "$shown" ] && ! readelf -d "$O/libperfwind-marks.so" | grep -q NEEDED && echo "ok marks-exports" ||
		echo "not ok marks-exports: $bad"
else
	echo "skip marks-exports: it is not built"
fi

python3 tests/structure.py "$O"

# A module is one file until it has a second interface; functions fit on a screen, or nearly.
bad=$(wc -l $(echo "$sources" | grep '\.c$' | grep -v '\.bpf\.c$') | awk '$2 != "total" && $1 > 1000 { print $2 " (" $1 " lines)" }')
[ -z "$bad" ] && echo "ok file-size" || echo "not ok file-size: $bad"
bad=$(awk 'FNR == 1 { start = 0 }
	/^[a-zA-Z_].*[^;]$/ && !/^(struct|enum|union|static const|const|#|extern|typedef)/ { head = FNR; name = $0 }
	/^{/ { start = FNR }
	/^}/ && start { if (FNR - start > 60) print FILENAME ":" start " " FNR - start " lines"; start = 0 }' $(echo "$sources" | grep '\.c$' | grep -v '\.bpf\.c$'))
[ -z "$bad" ] && echo "ok function-size" || echo "not ok function-size: $bad"

# A file name states which file is meant, in a message or an answer: no two are alike (test programs aside).
bad=$(printf "%s\n" $sources tests/unit/*/*.[ch] tests/unit/*/*/*.[ch] tests/fuzz/*.[ch] | sed "s|.*/||" | sort | uniq -d)
[ -z "$bad" ] && echo "ok file-names" || echo "not ok file-names: two files each:" $bad

bad=$(awk 'FNR == 1 && !/^\/\*/ { print FILENAME }' $sources) || bad="$bad (awk failed)"
[ -z "$bad" ] && echo "ok head-comments" || echo "not ok head-comments: $bad"

bad=$(git grep -nE '[[:space:]]+$' -- '*.c' '*.h' '*.sh' '*.md' Makefile 2>/dev/null | head -n 5)
[ -z "$bad" ] && echo "ok trailing-blanks" || echo "not ok trailing-blanks: $bad"

# Another version lays some lines out otherwise.
if clang-format --version 2>/dev/null | grep -q 'version 14'; then
	bad=$(clang-format --dry-run $(git ls-files '*.c' '*.h') 2>&1 | grep -c 'warning: code should be clang-formatted')
	[ "$bad" = 0 ] && echo "ok format" || echo "not ok format: $bad places; run: clang-format -i \$(git ls-files '*.c' '*.h')"
else
	echo "skip format: clang-format 14 is not installed"
fi

# Each make command in a document has a rule.
bad=$(grep -hoE '(`make|"make) [a-z][a-z-]*/?' ./*.md tests/*.md Makefile | sed 's/^.make //; /\/$/d' | sort -u |
	while read -r target; do grep -qE "^([a-z-]+ )*$target( [a-z-]+)*:" Makefile || echo "$target"; done)
[ -z "$bad" ] && echo "ok make-targets" || echo "not ok make-targets: no rule:" $bad

# Three documents are read in one go.
bad=
[ "$(wc -c <README.md)" -le 6500 ] && [ "$(wc -l <README.md)" -le 130 ] || bad="README.md"
[ "$(wc -c <ARCHITECTURE.md)" -le 16384 ] || bad="$bad ARCHITECTURE.md"
[ "$(wc -c <tests/README.md)" -le 15872 ] || bad="$bad tests/README.md"
[ -z "$bad" ] && echo "ok document-sizes" || echo "not ok document-sizes: too long: $bad"

# A path that a document names is there: a file, a folder, or a module without its ending.
bad=$(for f in ./*.md docs/*.md tests/*.md; do
	grep -oE '(`|\]\()[a-zA-Z.][a-zA-Z0-9_.-]*(/[a-zA-Z0-9_.-]+)+(`|\))' "$f" | tr -d '`()]' | sort -u | while read -r p; do
		case $p in build/* | *FOLDER* | *X.* | net/* | kernel/*) continue ;; esac
		for base in "$p" "$(dirname "$f")/$p" "tests/$p"; do
			[ -e "$base" ] || [ -e "$base.c" ] || [ -e "$base.h" ] && continue 2
		done
		echo "$f: $p"
	done
done)
[ -z "$bad" ] && echo "ok document-paths" || echo "not ok document-paths: no such file:" $bad

# Words that have made readers stop are not in messages, man pages and documents.
bad=$(python3 tests/wording.py 2>&1 | head -n 20)
[ -z "$bad" ] && echo "ok wording" || echo "not ok wording: CONTRIBUTING.md, Language: $bad"

# A missing package is reported by its name, pkg-config is asked once, and `make demo` finds neither it nor a compiler missing
# before it has installed them.
fake=$(mktemp -d)
cat >"$fake/pkg-config" <<-'END'
	#!/bin/sh
	echo "$*" >>"$0.log"
	case " $* " in *" $LACKS "*) exit 1 ;; esac
	exec pkg-config "$@"
END
chmod +x "$fake/pkg-config"
dry_run() { env -u MAKEFLAGS -u MAKELEVEL make -n O="$fake/o" "$@" 2>&1; }
bad=
env -u MAKEFLAGS -u MAKELEVEL make -pn 2>/dev/null </dev/null | grep -q '^\.DEFAULT_GOAL := all$' || bad="make without a goal does not build perfwind"
out=$(LACKS=libelf dry_run PKG_CONFIG="$fake/pkg-config" all) && bad="succeeds without libelf"
case $out in *"libelf-dev; run: .ci/deps build"*) ;; *) bad="$bad $(echo "$out" | tail -n 2)" ;; esac
: >"$fake/pkg-config.log"
LACKS=libzstd dry_run PKG_CONFIG="$fake/pkg-config" all >"$fake/out" || bad="$bad without libzstd: $(tail -n 2 "$fake/out")"
! grep -q HAVE_ZSTD "$fake/out" || bad="$bad HAVE_ZSTD without libzstd"
[ "$(grep -c -e --cflags -e --libs "$fake/pkg-config.log")" = 2 ] || bad="$bad asked $(wc -l <"$fake/pkg-config.log") times"
printf '#!/bin/sh\ncase $1 in *libiberty*) echo ${1#*=} ;; *) exec %s "$@" ;; esac\n' "$CC" >"$fake/cc"
chmod +x "$fake/cc"
for lack in "PROTOC_C=/no/protoc protobuf-c-compiler;" "CC=$fake/cc libiberty-dev;" "CC=/no/cc gcc;"; do
	out=$(dry_run "${lack% *}" all)
	case $out in *": ${lack#* } run: .ci/deps build"*) ;; *) bad="$bad $lack $(echo "$out" | tail -n 2)" ;; esac
done
out=$(dry_run PKG_CONFIG=/no/pkg-config CC=/no/cc all)
case $out in *"/no/pkg-config is not installed"*) ;; *) bad="$bad $(echo "$out" | tail -n 2)" ;; esac
out=$(dry_run PKG_CONFIG=/no/pkg-config CC=/no/cc deps-check)
case $out in *"not found"* | *"No such file"*) bad="$bad $out" ;; esac
rm -rf "$fake"
[ -z "$bad" ] && echo "ok packages" || echo "not ok packages: $bad"

# tests/run: a test that hangs has a deadline of its own, and what ran again is listed.
fake=$(mktemp -d)
printf '#!/bin/sh\necho ok before\nexec sleep 60\n' >"$fake/hangs"
printf '#!/bin/sh\n[ -e "$0.ran" ] && { echo ok second; exit; }\n: >"$0.ran"\necho "not ok first: once"\n' >"$fake/flaky"
chmod +x "$fake/hangs" "$fake/flaky"
bad=$(TEST_DEADLINE=2 RETRY= tests/run "$fake/hangs" && echo "the hang passes")
case $bad in *"hangs: no line in 2 s after: ok before"*"0 ran again; "*"1 passed, 1 failed, 0 skipped") bad= ;; esac
out=$(RETRY=1 tests/run "$fake/flaky") || bad="$bad the second run does not count"
case $out in *"ran again: $fake/flaky (not in "*"1 ran again; "*"1 passed, 0 failed, 0 skipped") ;; *) bad="$bad $out" ;; esac
while IFS=$(printf '\t') read -r name why; do
	{ [ -e "tests/$name" ] || [ -e "tests/$name.c" ]; } && [ -n "$why" ] || bad="$bad load-sensitive: $name"
done <tests/load-sensitive
rm -rf "$fake"
[ -z "$bad" ] && echo "ok runner" || echo "not ok runner: $bad"

# It does not know the cleanup attribute: leaks are looked for by the sanitizers instead.
# What did not change since the last run is not looked at again.
if command -v cppcheck >/dev/null 2>&1; then
	mkdir -p "$O/cppcheck"
	bad=$(cppcheck --quiet --cppcheck-build-dir="$O/cppcheck" --std=c11 --enable=warning,portability --inline-suppr -j 2 -I. \
		--suppress=missingInclude --suppress=memleak --suppress=resourceLeak --suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches \
		--error-exitcode=0 $(echo "$sources" | grep '\.c$' | grep -v '\.bpf\.c$') 2>&1 | grep -E 'error|warning' | head -n 20)
	[ -z "$bad" ] && echo "ok cppcheck" || echo "not ok cppcheck: $bad"
else
	echo "skip cppcheck: not installed"
fi
