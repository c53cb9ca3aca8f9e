#!/bin/bash
# runtimes.sh - programs of JIT compilers, interpreters and other compilers (tests/programs/runtimes): the share of whole stacks, and of
# samples with the right innermost function, as the program's source states it.  A table, one row a runtime and mode, is its last output.
# A runtime that is not installed is not a failure: `unable`, as Java, node and ghc are too large for .ci/deps.
. "$(dirname "$0")/lib"
need_perf
SOURCES=$PWD/tests/programs/runtimes
SECONDS_EACH=${SECONDS_EACH:-1}

# row NAME MIN_WHOLE_PERCENT COMMAND... : recorded from its start; prints the share of whole stacks.
row() {
	local name=$1 min=$2
	shift 2
	record "$name" -- "$@"
	row_is "$name" "$min"
}
# attached NAME MIN_WHOLE_PERCENT WARM_MS COMMAND... : recorded by pid after WARM_MS of CPU time.
attached() {
	local name=$1 min=$2 warm=$3 pid
	shift 3
	"$@" >/dev/null 2>&1 &
	pid=$!
	started $pid
	wait_for used $pid "$warm"
	record "$name" -p $pid -d "$SECONDS_EACH"
	kill -9 $pid
	wait $pid 2>/dev/null
	row_is "$name" "$min"
}
row_is() {
	"$PYTHON" - "$TMP/$1.json" "$1" "$2" <<-'PY' >>"$TMP/rows"
		import json, sys
		v = json.loads(open(sys.argv[1]).read().strip().splitlines()[-1])["stacks"]
		total = v["whole"] + v["cut"] + sum(v["failed"].values())
		print(sys.argv[2], total, "%.2f" % (100 * v["whole"] / max(total, 1)), sys.argv[3], "cut %d, failed %s" % (v["cut"], v["failed"]))
	PY
	tail -n 1 "$TMP/rows" | awk '{ name = $1; $1 = $2 = $4 = ""; total = $2; printf "    %-28s %s\n", name, $0 }'
	"$PERFWIND" report --by pid --no-colour "$TMP/$1.pftrace" 2>/dev/null | awk '$5 ~ /^[0-9]+$/ { print "/tmp/perf-" $5 ".map" }' | xargs -r rm -f
	# (of few stacks, one)
	check "$1-whole" json "$1" "total > 20 and total - v['stacks']['whole'] <= max(1, (100 - $2) * total / 100)"
	check "$1-consistent" consistent "$1"
}
# judged NAME MIN_RIGHT_PERCENT CALLER=LEAF... : of the samples in a caller, the share with its leaf as the program's innermost function.
judged() {
	local name=$1 min=$2
	shift 2
	folded "$name" | "$PYTHON" "$SOURCES/judge.py" "$@" >"$TMP/$name.right"
	if json "$name" 'total < 150' >/dev/null && ! right_is "$name" leaf 0 >/dev/null; then
		unable "$name-leaf" "few samples: the machine is busy"
	else
		right_at_least "$name" leaf "$min"
	fi
}
# right_at_least NAME WHAT PERCENT : a check; the leaf's share is in the table.
right_at_least() {
	[ "$2" != leaf ] || awk -v name="$1" -v min="$3" '$1 == "leaf" { print name, $2, $3, min }' "$TMP/$1.right" >>"$TMP/leaves"
	check "$1-$2" right_is "$1" "$2" "$3"
}
# The rows of all runtimes so far.
table() {
	touch "$TMP/rows" "$TMP/leaves"
	echo "| runtime and mode             | stacks | whole % | bound | samples judged | leaf right % | bound |"
	awk 'FILENAME == ARGV[1] { leaf[$1] = sprintf("%14d | %12s | %5s", $2, $3, $4); next }
		!($1 in row) { order[++n] = $1 } # (of a row that was recorded twice, the second)
		{ row[$1] = sprintf("| %-28s | %6d | %7s | %5s | %s |", $1, $2, $3, $4, $1 in leaf ? leaf[$1] : "             - |            - |     -") }
		END { for (i = 1; i <= n; i++) print row[order[i]] }' "$TMP/leaves" "$TMP/rows"
}
# share_about NAME STACK PERCENT : the share of the samples with these frames, which may differ by 8 %; without those that read the
# clock, a system call of its own on some machines.
share_about() {
	folded "$1" | awk -v stack="$2" -v about="$3" '/;cpu_now/ { next } { total += $NF; if (index($0, stack)) n += $NF }
		END { share = 100 * n / total; printf "    %-24s %6.2f %% of %d\n", stack, share, total; exit share < about - 8 || share > about + 8 }'
}
# leaves_right NAME LANGUAGE : which shares of the samples of leaves.py, .php, .rb or .js are right, from 0.3 s on: the start is read late.
leaves_right() {
	"$PERFWIND" export --to folded --time 300ms- -o - "$TMP/$1.pftrace" 2>/dev/null |
		"$PYTHON" "$SOURCES/leaves.py" --check "$2" >"$TMP/$1.right"
	awk -v name="$1" '{ s = s " " $1 " " $3 " % of " $2 } END { printf "    %-24s right:%s\n", name, s }' "$TMP/$1.right"
}
# right_is NAME WHAT PERCENT : (of few samples, one may be wrong; the share is rounded)
right_is() {
	awk -v what="$2" -v min="$3" '$1 == what && $2 > 20 && ($3 >= min || $2 * (100 - $3) < 150) { found = 1 } END { exit !found }' "$TMP/$1.right" && return 0
	cat "$TMP/$1.right"
	return 1
}
# has_tool NAME TOOL... : prints `unable` where one of the tools is missing.
has_tool() {
	local name=$1 tool
	shift
	for tool; do
		command -v "$tool" >/dev/null && continue
		unable "$name" "$tool is not installed"
		return 1
	done
}
# python_of VERSION : the path of that Python, from the search path or pyenv; none: nothing.
python_of() {
	local at
	for at in "$(command -v "python$1")" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python3; do
		[ -x "$at" ] && [ "$("$at" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$1" ] || continue
		echo "$at"
		return
	done
}

# ---- a jitdump: code that is moved and loaded over other code, without frame pointers ----

jitdump_moved() {
	local name
	row jitdump 99.5 "$PROGRAMS/jitted" 4 "$TMP"
	for name in first:25 second:50 third:25; do
		check jitdump-${name%:*} share_about jitdump ";main;turn;${name%:*};burn" ${name#*:}
	done
	check jitdump-unwinding hasnt jitdump 'failed: |;main;turn;burn'
	check jitdump-line sh -c "'$PERFWIND' trace --dump '$TMP/jitdump.pftrace' | grep -A3 'third.src' | grep -q '[^0-9]9$'"
}
twice jitdump jitdump_moved
# Code that is loaded over other code each 30 ms: its callee shows which one ran.  At most 1 % (or $2 %) is wrong.
reloads_right() {
	folded "$1" | awk -v most="${2:-1}" -v few="${3:-0}" '/;(even;even|odd;odd)_leaf/ { right += $NF } /;(even;odd|odd;even)_leaf/ { wrong += $NF }
		END { printf "    %-24s right %d, wrong %d\n", "reloaded code", right, wrong; exit right < 100 || (wrong > few && wrong * (100 - most) > right * most) }'
}
# jitdump_reloaded NAME MOST_PERCENT FEW SECONDS OPTIONS...
jitdump_reloaded() {
	local name=jitdump-$1 most=$2 few=$3 seconds=$4
	shift 4
	row "$name" 99.5 "$PROGRAMS/jitted" "$seconds" "$TMP" "$@"
	# Times of the processor's counter are known where it always runs at one rate.
	if [ "$name" != jitdump-tsc ] || grep -q '^flags.* nonstop_tsc' /proc/cpuinfo; then
		check "$name-names" reloads_right "$name" "$most" "$few"
	else
		check jitdump-tsc-is-reported grep -q '/jit-[0-9]*.dump has code that was loaded over other code, and times of the processor' "$TMP/jitdump-tsc.err"
	fi
}
twice jitdump-reload jitdump_reloaded reload 1 0 2 30
twice jitdump-large jitdump_reloaded large 1 0 2 30 20000
# (3 of about 70 periods of 30 ms in 2 s, of which a slow machine needs most to write the dump: 4 s)
twice jitdump-huge jitdump_reloaded huge 4.5 60 4 30 200000
twice jitdump-tsc jitdump_reloaded tsc 1 0 2 30 tsc
jitdump_attached() {
	attached jitdump-attached 99.5 1300 "$PROGRAMS/jitted" 4 "$TMP"
	check jitdump-attached-names share_about jitdump-attached ';main;turn;second;burn' 100
}
twice jitdump-attached jitdump_attached

# ---- node ----

NODE_LEAVES="north=northLeaf south=southLeaf"
node_plain() {
	row node 99.5 node "$SOURCES/work.js" "$SECONDS_EACH"
	check node-names has node ';main_\[j\];([^;]*;)*recurse_\[j\]'
}
# node_leaves NAME OPTIONS...
node_leaves() {
	local name=$1 what
	shift
	row "$name" 99.5 node "$@" "$SOURCES/leaves.js" "$SECONDS_EACH"
	leaves_right "$name" js
	for what in leaf outermost calls; do
		right_at_least "$name" $what 98
	done
	check "$name-named" right_is "$name" named 97
}
# node_described NAME OPTION : V8 describes its code in a file, and writes a log into the current folder, too.  Inlined calls have no
# frame.  Code of its last moments is gone before it is read, in up to ten samples.
node_described() {
	row "$1" 99.5 sh -c "cd '$TMP' && exec node --no-turbo-inlining $2 '$SOURCES/work.js' $((3 * SECONDS_EACH))"
	check "$1-names" has "$1" 'main .*recurse .*recurse .*inner '
	judged "$1" 99.5 $NODE_LEAVES
}
if has_tool node node; then
	twice node node_plain
	twice node-leaves node_leaves node-leaves
	twice node-interpreted node_leaves node-interpreted --no-opt --no-sparkplug
	twice node-map node_described node-map --perf-basic-prof
	twice node-jitdump node_described node-jitdump --perf-prof
fi

# ---- CPython: its functions without a flag; with -X perf a trampoline for each function, too ----

# Each of the four functions of reuse.py has a quarter of the samples.  On a busy machine one may be gone before its name is read, and
# has none then; none has the samples of another.
reused_names() {
	folded "$1" | awk '{ total += $NF; for (i = 0; i < 4; i++) if (index($0, ";phase_" i " [python]")) n[i] += $NF }
		END { for (i = 0; i < 4; i++) { printf "%s%d", i ? " " : "    ", n[i]; bad += n[i] > 0.4 * total; named += n[i] > 0 }
			print " of " total; exit bad || named < 2 }'
}
"$PERFWIND" doctor 2>/dev/null | grep -q 'BPF programs are permitted' && BPF=1 || BPF=
# three NAME PYTHON... : which shares of the samples of leaves.py have the right three outermost functions, by what main() called when.
# From 1 s on: which functions call each other is learned from what is read late.
three() {
	local name=$1
	shift
	record "$name" -- "$@" "$SOURCES/leaves.py" 4 "$TMP/$name.times"
	"$PERFWIND" script --time 1s- "$TMP/$name.pftrace" 2>/dev/null | "$PYTHON" "$SOURCES/outermost.py" "$TMP/$name.times" >"$TMP/$name.right"
	awk -v name="$name" '{ s = s " " $1 " " $3 " % of " $2 } END { printf "    %-24s right:%s\n", name, s }' "$TMP/$name.right"
}
# late_three NAME PYTHON... : the same of frames that are read late.  Of stacks that other callers fit as well the third one may be lacking; none
# is wrong.  sum() and max(), where they have symbols, show which one it is.
late_three() {
	PERFWIND_WITHOUT=bpf${PERFWIND_WITHOUT:+,$PERFWIND_WITHOUT} three "$@"
	check "$1-not-wrong" right_is "$1" not-wrong 99.5
	if grep -q '^three-in-c 0 ' "$TMP/$1.right"; then
		unable "$1-in-c" "this Python has no symbols"
	else
		check "$1-in-c" right_is "$1" three-in-c 99.5
	fi
}

python=$(python_of 3.10)
if [ -n "$python" ]; then
	python=$("$python" -c 'import sys; print(sys.executable)')
	record python-3.10 -- "$python" "$SOURCES/nested.py" "$SECONDS_EACH"
	check python-3.10-is-reported grep -q 'CPython 3.10 of process [0-9]* is not supported' "$TMP/python-3.10.err"
else
	unable python-3.10 "python3.10, which is not supported, is not installed"
fi
# python_plain NAME PYTHON
python_plain() {
	row "$1" 99.5 "$2" "$SOURCES/nested.py" "$SECONDS_EACH"
	check "$1-names" has "$1" ';<module nested.py> \[python\];([^;]*;)*main \[python\];(recurse \[python\];){11}inner \[python\]'
}
python_leaves() {
	row "$1-leaves" 99.5 "$2" "$SOURCES/leaves.py" "$SECONDS_EACH"
	leaves_right "$1-leaves" $([ "$BPF" ] && echo python || echo python-late)
	check "$1-outermost" right_is "$1-leaves" outermost 99.5
	right_at_least "$1-leaves" leaf 98
	[ -z "$BPF" ] || check "$1-calls" right_is "$1-leaves" calls 98
}
# python_three NAME PYTHON OPTIONS...
python_three() {
	three "$1-three" "${@:2}"
	check "$1-three" right_is "$1-three" three 99.5
}
# Frames that are read late: what is shown is right.
python_late() {
	PERFWIND_WITHOUT=bpf row "$1-late" 99.5 "$2" "$SOURCES/leaves.py" "$SECONDS_EACH"
	leaves_right "$1-late" python-late
	right_at_least "$1-late" leaf 98
	check "$1-late-outermost" right_is "$1-late" outermost 99.5
	check "$1-late-adjacent" right_is "$1-late" adjacent 98
}
# Functions with their frames at the same places, read late, from 1 s on: few stacks (0 to 0.3 % were seen; up to 23 % before) are impossible.
python_places() {
	PERFWIND_WITHOUT=bpf row "$1" 99.5 "$2" "$SOURCES/places.py" 3
	"$PERFWIND" export --to folded --time 1s- -o - "$TMP/$1.pftrace" 2>/dev/null | "$PYTHON" "$SOURCES/places.py" --check >"$TMP/$1.right"
	awk -v name="$1" '{ printf "    %-24s %s\n", name, $0 }' "$TMP/$1.right"
	check "$1-possible" awk '$1 == "impossible" { n = $2; bad = $3 } END { exit n < 300 || bad > 2 }' "$TMP/$1.right"
}
# Functions with code objects in the same memory, one after another; and bodies of modules in the memory of functions that never run: one
# that is freed before its name was read has none.
python_reused() {
	row python-reused 99.5 env PYTHONHASHSEED=0 "$1" "$SOURCES/reuse.py" 3
	check python-reused-names reused_names python-reused
	if [ "$BPF" ]; then
		check python-reused-bodies reused_bodies python-reused
	else
		unable python-reused-bodies "no BPF programs here: frames are read late"
	fi
}
reused_bodies() {
	folded "$1" | awk -v name="$1" '/;never_[0-9]+ \[python\]/ { wrong += $NF } /;body \[python\];(.*;)?<module body.py> \[python\]/ { right += $NF }
		END { printf "    %-24s bodies right %d, wrong %d\n", name, right, wrong; exit right < 100 || wrong * 200 > right }'
}
python_perf() {
	row "$1-perf" 99.5 "$2" -X perf "$SOURCES/nested.py" "$SECONDS_EACH"
	# recurse(10) calls itself ten times, and inner() is called by the last one.
	check "$1-perf-names" has "$1-perf" \
		'py::<module>:[^;]*nested.py[^;]*;([^;]*;)*py::main:[^;]*;([^;]*;)*(py::recurse:[^;]*;[^p]([^;]*;)*){11}py::inner:'
	check "$1-perf-depth" hasnt "$1-perf" '(py::recurse:.*){12}'
}
# Both in one copy: the trampolines, and the functions that perfwind finds by itself.
python_perf_leaves() {
	row "$1-perf-leaves" 99.5 "$2" -X perf "$SOURCES/leaves.py" "$SECONDS_EACH"
	leaves_right "$1-perf-leaves" trampolines
	right_at_least "$1-perf-leaves" leaf 98
	check "$1-perf-outermost" right_is "$1-perf-leaves" outermost 99.5
}
for version in 3.11 3.12 3.13; do
	name=python-$version
	python=$(python_of $version)
	[ -n "$python" ] || { unable $name "python$version is not installed"; continue; }
	python=$("$python" -c 'import sys; print(sys.executable)') # behind a script that selects one
	twice $name python_plain $name "$python"
	twice $name-leaves python_leaves $name "$python"
	twice $name-late-three late_three $name-late-three "$python"
	twice $name-places python_places $name-places "$python"
	if [ "$BPF" ]; then
		twice $name-three python_three $name "$python"
		twice $name-late python_late $name "$python"
	fi
	if [ $version = 3.11 ]; then
		twice python-reused python_reused "$python"
		continue
	fi
	twice $name-perf python_perf $name "$python"
	twice $name-perf-leaves python_perf_leaves $name "$python"
	twice $name-perf-three python_three $name-perf "$python" -X perf
done

# ---- PHP and Ruby: their functions without a flag ----

# With PCRE's own compiler, which writes code without unwind information.
php_regex() {
	row php-regex 98 php -d pcre.jit=1 -r '$t = str_repeat("hello wor1d 123 foo bar@baz.com ababcddd 99 ", 200); $end = microtime(true) + '"$SECONDS_EACH"';
		while (microtime(true) < $end) preg_match_all("/(\w+)\s+(\w+)@(\w+)\.com/", $t, $m);'
	check php-regex-jit has php-regex ';pcre2_jit_match_8;\[pcre-jit\] '
	check php-regex-names has php-regex ';\{main\} \[php\];preg_match_all \[php\];'
}
# Closures that each call makes and frees, at an address that others have in between: all but a few have their name.
php_closures() {
	row php-closures 98 php -r 'function leaf($n) { $s = 0; for ($i = 0; $i < $n; $i++) $s = ($s * 31 + $i) & 0xffffff; return $s; }
		function a() { return array_map(function($x) { return leaf(2000); }, [1, 2, 3]); }
		function b() { $f = function($n) { return leaf($n); }; return $f(6000); }
		function c() { $f = fn($n) => leaf($n); return $f(6000); }
		$t = microtime(true); while (microtime(true) - $t < 2) { a(); b(); c(); }'
	check php-closures-names closures_named
}
closures_named() {
	folded php-closures | awk '/;leaf \[php\]/ { n += $NF; if (/;(\[php\]|[abc] \[php\]);leaf/) bad += $NF }
		END { printf "    %-24s without a name %.2f %% of %d\n", "php-closures", 100 * bad / n, n; exit n < 100 || bad * 100 > 5 * n }'
}
# closures.php: from 0.1 s on, all but a few closures have their name, with the class of the function that makes them.
# php_each_closure NAME PHP_OPTION...
php_each_closure() {
	local name=$1
	shift
	row $name 98 php "$@" "$SOURCES/closures.php" $((1 + SECONDS_EACH))
	check $name-named closures_right $name
}
closures_right() {
	"$PERFWIND" export --to folded --time 100ms- -o - "$TMP/$1.pftrace" 2>/dev/null | awk -v name="$1" '
		match($0, /;App\\leaf_[a-z]+ /) {
			f = substr($0, RSTART + 10, RLENGTH - 11)
			class = f ~ /total|sorted|nested/ ? "Cart::" : ""
			if (f == "shared") # (of a trait)
				class = /;App\\Cart::shared / ? "Cart::" : "Order::"
			app = "App\\\\" class
			n[f]++
			total += $NF
			if ($0 ~ ";" app f " .*;" (class ? app : "") "(App\\\\)?[{]closure[^;]*[}] \\[php\\];App\\\\leaf_" f " ")
				good += $NF
			else if (++shown <= 3)
				print
		}
		END { for (f in n) kinds++
			printf "    %-24s %d closures, named %.2f %% of %d\n", name, kinds, 100 * good / total, total
			exit kinds != 8 || total < 300 || good * 100 < 99 * total }'
}
# generators.php: from 0.1 s on, PHP's functions of each stack are those above the leaf in the source.
php_generators() {
	row php-generators 98 php "$SOURCES/generators.php" $((1 + SECONDS_EACH))
	check php-generators-calls generators_right
}
generators_right() {
	"$PERFWIND" export --to folded --time 100ms- -o - "$TMP/php-generators.pftrace" 2>/dev/null | awk '
		FILENAME != "-" { if (/^\/\/ [{]main[}]/) { sub(/^\/\/ /, ""); sub(/ [(].*/, ""); list = $0 }
			if (match($0, /^function leaf_[a-z]+/)) want[substr($0, 10, RLENGTH - 9)] = list
			next }
		!/;leaf_[a-z]+ / { next }
		{ n = split($0, frames, ";"); got = ""
			for (i = 1; i <= n; i++) {
				if (frames[i] !~ / \[php\]/ || frames[i] ~ /^(Generator::|spin )/)
					continue
				sub(/ \[php\].*/, "", frames[i])
				if (frames[i] ~ /^leaf_/)
					leaf = frames[i]
				else
					got = got (got ? " " : "") frames[i]
			}
			total += $NF
			kinds += !seen[leaf]++
			if (got == want[leaf])
				good += $NF
			else if (++shown <= 3)
				print leaf ": " got }
		END { printf "    %-24s %d leaves, all callers in %.2f %% of %d\n", "php-generators", kinds, 100 * good / total, total
			exit kinds != 7 || total < 300 || good * 100 < 97 * total }' "$SOURCES/generators.php" -
}
# script_leaves NAME REGEX : of PHP or Ruby.
script_leaves() {
	row $1 98 $1 "$SOURCES/leaves.${1/ruby/rb}" "$SECONDS_EACH"
	leaves_right $1 $1
	check $1-names has $1 "$2"
	right_at_least $1 leaf 98
	check $1-outermost right_is $1 outermost 98
	if [ "$BPF" ]; then
		check $1-calls right_is $1 calls 98
	else
		unable $1-calls "no BPF programs here: frames are read late"
	fi
}
# Functions in C between a method and a block: none is there twice, and Enumerator#each, which jumps to the next one, is there.
# ruby_once NAME PERCENT
ruby_once() {
	row $1 98 ruby -e 'def work(n) = n.times.sum { |i| i * i }; stop = Time.now + 3; work(2000) while Time.now < stop'
	check $1-names has $1 ';Object#work \[ruby\];.*;Enumerable#sum \[ruby\];.*;block in work \[ruby\]'
	check $1-none-twice hasnt $1 ';Enumerable#sum \[ruby\].*;Enumerable#sum \[ruby\]'
	check $1-jumped jumped $1 $2
}
# From 1 s on: where frames are read late, what jumps is learned.
jumped() {
	"$PERFWIND" export --to folded --time 1s- -o - "$TMP/$1.pftrace" 2>/dev/null | awk -v name="$1" -v min="$2" '
		/;Enumerable#sum \[ruby\];.*;Integer#times \[ruby\]/ { n += $NF; if (/;Enumerator#each \[ruby\];/) right += $NF }
		END { printf "    %-24s Enumerator#each in %.2f %% of %d\n", name, 100 * right / n, n; exit n < 100 || right * 100 < min * n }'
}
# Behind the start; the frames of threads are read at the sample, too.
ruby_threads() {
	local what
	record ruby-threads -- ruby "$SOURCES/leaves.rb" "$SECONDS_EACH" threads
	leaves_right ruby-threads ruby
	for what in leaf calls outermost; do
		check ruby-threads-$what right_is ruby-threads $what 98
	done
}
# script_late NAME CHAIN_PERCENT : frames that are read late, behind the first 2 s: which functions call each other is learned meanwhile.  Of the
# samples in C functions, also those in which no function of the language is known, most have all callers; what is shown is right.
script_late() {
	PERFWIND_WITHOUT=bpf row $1-late 98 $1 "$SOURCES/leaves.${1/ruby/rb}" $((2 + 2 * SECONDS_EACH))
	"$PERFWIND" export --to folded --time 2s- -o - "$TMP/$1-late.pftrace" 2>/dev/null |
		"$PYTHON" "$SOURCES/leaves.py" --check $1 >"$TMP/$1-late.right"
	awk -v name="$1-late" '{ s = s " " $1 " " $3 " % of " $2 } END { printf "    %-24s right:%s\n", name, s }' "$TMP/$1-late.right"
	right_at_least $1-late leaf 98
	check $1-late-outermost right_is $1-late outermost 98
	check $1-late-adjacent right_is $1-late adjacent 98
	check $1-late-order right_is $1-late order 98
	check $1-late-chain right_is $1-late chain $2
	check $1-late-first first_shown $1-late
}
# The thread's first function is always shown, also where functions between are not known.
first_shown() {
	"$PERFWIND" export --to folded --time 2s- -o - "$TMP/$1.pftrace" 2>/dev/null | awk -v name="$1" '
		{ n += $NF } /;[{<]main[}>] \[(php|ruby)\]/ { right += $NF }
		END { printf "    %-24s first function in %.2f %% of %d\n", name, 100 * right / n, n; exit n < 500 || right * 100 < 98 * n }'
}
# Functions that are freed, and others in their memory (reuse.php, reuse.rb): one may have no name, as it is gone before that was
# read, but none has the name of another one without being marked as a guess.
not_reused() {
	"$PERFWIND" report --tree --csv --no-colour "$TMP/$1.pftrace" 2>/dev/null |
		"$PYTHON" "$SOURCES/reused.py" >"$TMP/$1.right"
	awk -v name="$1" '{ s = s " " $1 " " $3 " %" ; n = $2 } END { printf "    %-24s%s of %d\n", name, s, n }' "$TMP/$1.right"
	awk '$1 == "wrong" { wrong = $3; n = $2 } $1 == "right" { right = $3 } END { exit !(n > 100 && wrong <= 3 && right > 5) }' "$TMP/$1.right"
}
# script_reused NAME TOOL WITHOUT
script_reused() {
	PERFWIND_WITHOUT=$3 row $1 98 $2 "$SOURCES/reuse.${2/ruby/rb}" 2
	check $1-names not_reused $1
}
# One function with its frame at one place in several calls, read late: few stacks (0 to 5 % were seen; before, 30 to 40 %), from 1 s on, are impossible ones (REGEX).
# script_places NAME TOOL REGEX PROGRAM
script_places() {
	local code=-e
	[ $2 = ruby ] || code=-r
	PERFWIND_WITHOUT=bpf row $1 98 $2 $code "$4"
	check $1-possible few_have $1 "$3"
}
few_have() {
	"$PERFWIND" export --to folded --time 1s- -o - "$TMP/$1.pftrace" 2>/dev/null | awk -v name="$1" -v wrong="$2" '
		/leaf/ { n += $NF; if ($0 ~ wrong) { bad += $NF; if (++shown <= 3) print } }
		END { printf "    %-24s impossible %.2f %% of %d\n", name, 100 * bad / n, n; exit n < 100 || bad * 100 > 10 * n }'
}
if has_tool php php; then
	twice php-regex php_regex
	[ -z "$BPF" ] || twice php-closures php_closures
	[ -z "$BPF" ] || twice php-each-closure php_each_closure php-each-closure
	[ -z "$BPF" ] || twice php-generators php_generators
	if php -m 2>/dev/null | grep -q OPcache; then
		[ -z "$BPF" ] || twice php-opcache php_each_closure php-opcache -d opcache.enable_cli=1 -d opcache.jit=disable
	else
		unable php-opcache "no opcache"
	fi
	twice php-places script_places php-places php \
		'array_map [^;]*;.*;(yielder|blk) |;leaf [^;]*;.*(array_map|gen|blk|cb) |;(one|three) .*;(yielder|blk|cb) |;(one|yblock) .*;(gen|array_map) ' \
		'function leaf($n) { $s = 0; for ($i = 0; $i < $n; $i++) $s = ($s * 31 + $i) & 0xffffff; return $s; }
		function yielder($f) { return $f(2000); }
		function blk($n) { return leaf($n); }
		function yblock() { return yielder("blk"); }
		function one() { return leaf(2000); }
		function cb($x) { return leaf(700); }
		function two() { return array_map("cb", [1, 2, 3]); }
		function gen() { for ($i = 0; $i < 3; $i++) yield leaf(700); }
		function three() { $s = 0; foreach (gen() as $v) $s += $v; return $s; }
		$t = microtime(true); while (microtime(true) - $t < 3) { yblock(); one(); two(); three(); }'
	twice php script_leaves php ';\{main\} \[php\];([^;]*;)?main \[php\];left \[php\];([^;]*;)*generate \[php\];Pair::one \[php\]'
fi
if has_tool ruby ruby; then
	twice ruby-once ruby_once ruby-once 98
	PERFWIND_WITHOUT=bpf twice ruby-once-late ruby_once ruby-once-late 80
	twice ruby-places script_places ruby-places ruby 'Integer#times .*;Object#yielder |;Object#leaf [^;]*;.*block in |Object#one .*;(Object#yielder|block in)|yblock .*block in two' \
		'def leaf(n) = (s = i = 0; while i < n; s = (s * 31 + i) & 0xffffff; i += 1; end; s)
		def yielder = yield(2000)
		def yblock = yielder { |n| leaf(n) }
		def one = leaf(2000)
		def two = 3.times { leaf(700) }
		t = Time.now; while Time.now - t < 3; yblock; one; two; end'
	twice ruby script_leaves ruby \
		';<main> \[ruby\];([^;]*;)?Object#main \[ruby\];Object#left \[ruby\];Object#generate \[ruby\];([^;]*;)*Integer#times \[ruby\];([^;]*;)*block in generate \[ruby\];Pair#one \[ruby\]'
	[ -z "$BPF" ] || twice ruby-threads ruby_threads
fi
for name in php ruby; do
	has_tool $name-late $name || continue
	[ $name = php ] && least=70 || least=45 # (Ruby's frames are all at the same places)
	twice $name-late script_late $name $least
	without=${PERFWIND_WITHOUT:-}
	twice $name-reused script_reused $name-reused $name "$without"
	twice $name-reused-late script_reused $name-reused-late $name "bpf${without:+,$without}"
done

# ---- Java: with frame pointers and without, where the VM describes its code; interpreted, by C1 alone, by C1 and C2; attached ----

if has_tool java java javac && check java-build javac -d "$TMP" "$SOURCES/Work.java"; then
	LEAVES="Work.north=Work.northLeaf Work.south=Work.southLeaf"
	# java_hot NAME OPTIONS... : from its start.
	java_hot() {
		row "$1" 99.5 java "${@:2}" -cp "$TMP" Work all "$SECONDS_EACH"
		judged "$1" 99.5 $LEAVES
	}
	# java_attached NAME WARM_MS OPTIONS...
	java_attached() {
		attached "$1" 99.5 "$2" java "${@:3}" -cp "$TMP" Work all 60
		judged "$1" 99.5 $LEAVES
		[ "$1" != java-c2-attached ] ||
			check java-attached-names has java-c2-attached ';Work.main_\[[01j]\];Work.collections_\[j\];java.util.TreeMap.put_\[j\]'
	}
	# work() calls recurse(), which calls itself, and inner() is called by the last.
	java_recurse() {
		row java-recurse 99.5 java -Xint -cp "$TMP" Work recurse "$SECONDS_EACH"
		check java-interpreted-names has java-recurse ';Work.main_\[0\];(Work.recurse_\[0\];){41}Work.inner_\[0\]'
	}
	for frame in java-fp:-XX:+PreserveFramePointer java:; do
		while read -r mode warm options; do
			twice ${frame%%:*}-$mode java_hot ${frame%%:*}-$mode ${frame#*:} $options
			twice ${frame%%:*}-$mode-attached java_attached ${frame%%:*}-$mode-attached "$warm" ${frame#*:} $options
		done <<-END
			interpreted 300 -Xint
			c1 700 -XX:TieredStopAtLevel=1
			c2 1500
		END
	done
	twice java-recurse java_recurse
fi

# Virtual threads (21 on): frames that the VM brought back from its heap, in the first Java that has them.
java=
for at in java /usr/lib/jvm/*/bin/java; do
	[ "$java" ] || ! "$at" -version 2>&1 | grep -qE '^openjdk version "(2[1-9]|[3-9][0-9])' || java=$at
done
if [ -z "$java" ]; then
	unable java-virtual "no Java 21 or later is installed"
elif check java-virtual-build "${java}c" -d "$TMP" "$SOURCES/Virtual.java"; then
	java_virtual() {
		row java-virtual 99 "$java" -cp "$TMP" Virtual $((2 * SECONDS_EACH))
		judged java-virtual 99.5 "Virtual.middle=Virtual.leaf"
	}
	twice java-virtual java_virtual
fi

# ---- Go without symbols, OCaml, Haskell ----

LANGUAGES=$PWD/tests/programs/languages
# Without BPF programs a goroutine's stack is read after a sample on its thread's own stack: by then it may have gone on (cut).
go_whole=99.5
[ "$BPF" ] || go_whole=98.5
if has_tool go-stripped go && check go-stripped-build env GOCACHE="$TMP/go" GOPATH="$TMP/gopath" GO111MODULE=off GOTOOLCHAIN=local GOFLAGS= \
	go build -ldflags '-s -w' -o "$TMP/gostripped" "$LANGUAGES/work.go"; then
	go_stripped() {
		row go-stripped $go_whole "$TMP/gostripped" $((3 * SECONDS_EACH))
		judged go-stripped 99.5 main.goWork=main.goInner
	}
	twice go-stripped go_stripped
	# C functions that goroutines call run on the thread's own stack: of the samples in them, those with the Go functions that the
	# program's source states.  The C functions of a stripped program have no names.  Behind the start, which is read late.
	called_right() {
		"$PERFWIND" export --to folded --time 300ms- -o - "$TMP/$1.pftrace" 2>/dev/null | awk '
			{ n = $NF; sub(/ [0-9]+$/, ""); gsub(/;[^;]*_\[k\]/, ""); gsub(/\.abi0/, ""); leaf = $0; sub(/.*;/, "", leaf) }
			!/;(runtime.cgocall|\[cut\]|\[failed[^;]*);runtime.asmcgocall;.*;(north_leaf|south_leaf|\[[^;]*\])$/ { next }
			{ total += n }
			/;runtime.goexit;runtime.main;main.main;main.north;main._Cfunc_north_leaf;runtime.cgocall;runtime.asmcgocall;/ && leaf != "south_leaf" { right += n }
			/;runtime.goexit;runtime.main;main.main;main.south;main.southMiddle;main._Cfunc_south_leaf;runtime.cgocall;/ && leaf != "north_leaf" { right += n }
			/;\[cut\];/ { cut += n }
			END { if (!total) total = 1
				printf "callers %d %.2f\nnot-wrong %d %.2f\n", total, 100 * right / total, total, 100 * (right + cut) / total }' >"$TMP/$1.right"
		awk -v name="$1" '{ printf "    %-24s %-10s %s %% of %d\n", name, $1, $3, $2 }' "$TMP/$1.right"
	}
	# (4 s: at the start, until the BPF program runs, calls that are short are read too late)
	go_cgo() {
		row go-cgo-$1 $go_whole "$TMP/gocgo-$1" $((4 * SECONDS_EACH)) north
	}
	# Each thread stays on one of two callers for some microseconds: until the BPF program runs most are read too late.
	go_callers() {
		row go-callers-$1 95 "$TMP/gocgo-$1" $((3 * SECONDS_EACH)) c
		called_right go-callers-$1
		right_at_least go-callers-$1 callers 99.5
		right_at_least go-callers-$1 not-wrong 100
	}
	for mode in exe pie stripped; do
		flags=
		[ $mode = stripped ] && flags="-s -w"
		check go-cgo-$mode-build env GOCACHE="$TMP/go" GOPATH="$TMP/gopath" GO111MODULE=off GOTOOLCHAIN=local GOFLAGS= CGO_ENABLED=1 \
			go build -buildmode=${mode/stripped/exe} -ldflags "$flags" -o "$TMP/gocgo-$mode" "$LANGUAGES/cgo.go" || continue
		twice go-cgo-$mode go_cgo $mode
		twice go-callers-$mode go_callers $mode
	done
	# Work of Go's runtime there, with its callers: at the sample by a BPF program, else read after it: work of some microseconds has
	# ended by then, and the stack is cut where it began.
	go_gc_whole=90
	[ "$BPF" ] || go_gc_whole=75
	go_gc() {
		row go-gc $go_gc_whole "$TMP/gocgo-exe" $((3 * SECONDS_EACH)) gc
		"$PERFWIND" export --to folded --time 300ms- -o - "$TMP/go-gc.pftrace" 2>/dev/null | awk '
			/;runtime.systemstack/ { total += $NF } /;runtime.goexit[^;]*;.*;runtime.systemstack/ { right += $NF }
			/;runtime.systemstack/ && !/^[^;]*;(runtime.goexit|\[cut\]|\[failed)/ { wrong += $NF }
			END { if (!total) total = 1
				printf "callers %d %.2f\nnot-wrong %d %.2f\n", total, 100 * right / total, total, 100 * (total - wrong) / total }' >"$TMP/go-gc.right"
		awk '{ printf "    %-24s %-10s %s %% of %d\n", "go-gc", $1, $3, $2 }' "$TMP/go-gc.right"
		right_at_least go-gc not-wrong 100
		if [ "$BPF" ]; then
			right_at_least go-gc callers 95
		else
			unable go-gc-callers "no BPF programs here: goroutines are read late"
		fi
	}
	twice go-gc go_gc
	go_callback() {
		row go-callback 99 "$TMP/gocgo-exe" $((3 * SECONDS_EACH)) back
		check go-callback-stack has go-callback ';runtime.goexit[^;]*;.*;main.back;.*;runtime.cgocallback[^;]*;.*;main.goBack;main.backInner '
	}
	twice go-callback go_callback
fi
cp "$LANGUAGES/work.ml" "$SOURCES/leaves.hs" "$SOURCES/callers.hs" "$TMP"
if has_tool ocaml ocamlopt && check ocaml-build sh -c "cd '$TMP' && ocamlopt -o ocamlwork work.ml"; then
	ocaml() {
		row ocaml 99.5 "$TMP/ocamlwork" "$SECONDS_EACH"
		judged ocaml 99.5 Work.ocaml_work=Work.inner
	}
	twice ocaml ocaml
fi
if has_tool haskell ghc && check haskell-build sh -c "cd '$TMP' && ghc -O -o haskell leaves.hs"; then
	# Both have the same work.
	halves() { folded haskell | awk '/\.\$wnorthLeaf / { n += $NF } /\.\$wsouthLeaf / { s += $NF } END { print n, s; exit n < 0.7 * s || s < 0.7 * n || n + s < 20 }'; }
	haskell() {
		row haskell 95 "$TMP/haskell" "$SECONDS_EACH"
		judged haskell 95 'hs_main=*'
		check haskell-halves halves
	}
	twice haskell haskell
	# Behind the start: the callers of each leaf of callers.hs, as its source states them.  Without BPF programs a leaf may have no
	# callers in Haskell, and never those of another one.
	callers_right() {
		"$PERFWIND" export --to folded --time 300ms- -o - "$TMP/haskell-callers.pftrace" 2>/dev/null | awk '
			{ n = $NF; sub(/ [0-9]+$/, ""); gsub(/;[^;]*_\[k\]/, ""); leaf = $0; sub(/.*\.\$w/, "", leaf) }
			leaf !~ /^(north|south|deep)Leaf$/ { next }
			{ total += n }
			/;Main\.\$wloop;Main\.\$wnorth;Main\.\$wnorthMiddle;Main\.\$wnorthLeaf$/ { right += n; next }
			/;Main\.\$wloop;Main\.\$wsouth;Main\.\$wsouthMiddle;Main\.\$wsouthLeaf$/ { right += n; next }
			/;Main\.\$wloop(;Main\.\$wdepth){7};Main\.\$wdeepLeaf$/ { right += n; next }
			!/;Main\..*;Main\./ { none += n }
			END { printf "callers %d %.2f\nnot-wrong %d %.2f\n", total, 100 * right / (total ? total : 1), total, 100 * (right + none) / (total ? total : 1) }' \
			>"$TMP/haskell-callers.right"
		awk '{ printf "    haskell-%-16s %s %% of %d\n", $1, $3, $2 }' "$TMP/haskell-callers.right"
	}
	check haskell-callers-build sh -c "cd '$TMP' && ghc -O -outputdir callers.o -o callers callers.hs"
	haskell_callers() {
		row haskell-callers 95 "$TMP/callers" "$SECONDS_EACH"
		callers_right
		check haskell-callers-not-wrong right_is haskell-callers not-wrong 95
		if [ "$BPF" ]; then
			right_at_least haskell-callers callers 95
		else
			unable haskell-callers-callers "no BPF programs here: GHC's stack is read late"
		fi
	}
	twice haskell-callers haskell_callers
fi

table
