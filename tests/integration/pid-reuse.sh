#!/bin/bash
# pid-reuse.sh - one pid, several programs: each sample is of the program that ran when it was taken.
. "$(dirname "$0")/lib"
need_perf

# A loop that only a shell runs, in ms of CPU time as they come; no process of its own.
SHELL_WORK='i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'
# processes NAME : "pid name" of the report's rows, the busiest first.
processes() { "$PERFWIND" report --by pid --limit 0 "$TMP/$1.pftrace" 2>/dev/null | awk 'seen {print $(NF-1), $NF} /pid  process/ {seen = 1}'; }
# names NAME PROCESS... : one pid has exactly these names, in any order.
names() {
	local name=$1 is
	shift
	is=$(processes "$name" | sort)
	[ "$(echo "$is" | cut -d ' ' -f 1 | sort -u | wc -l)" = 1 ] && [ "$(echo "$is" | cut -d ' ' -f 2 | xargs)" = "$*" ] && return 0
	echo "$is"
	return 1
}

# exec: the pid stays, the program is another.
record exec -- sh -c "$SHELL_WORK; exec $PROGRAMS/qsort 0.5"
check exec-shell has exec '^sh;'
check exec-program has exec '^qsort;.*main;sort_numbers;.*compare_numbers'
check exec-shell-is-no-program hasnt exec '^sh;.*(sort_numbers|compare_numbers)'
check exec-program-is-no-shell hasnt exec '^qsort;.*\[(dash|bash|sh)\]'
check exec-processes names exec qsort sh
check exec-consistent consistent exec
check exec-page "$PYTHON" - "$PERFWIND" "$TMP/exec.pftrace" <<'PY'
import json, re, subprocess, sys
page = subprocess.run([sys.argv[1], "export", "--to", "html", "-o", "-", sys.argv[2]], capture_output=True, check=True).stdout
data = json.loads(re.search(rb'id="data">(.*?)</script>', page, re.S)[1])
rows = sorted((data["names"][process], pid, tid) for pid, tid, process, thread, nodes in data["threads"])
print(rows)
sys.exit([r[0] for r in rows] != ["qsort", "sh"] or len({r[1] for r in rows}) != 1)
PY
# ... by a short-lived shell, the samples of which wait for its modules while the next program already runs; and several times.
record chain -F 4000 -- sh -c "i=0; exec sh -c 'i=0; while [ \$i -lt 3000 ]; do i=\$((i+1)); done; exec $PROGRAMS/recursion 0.3'"
check chain-program has chain '^recursion;.*main;recurse_even'
check chain-shell-is-no-program hasnt chain '^sh;.*recurse_even'
check chain-program-is-no-shell hasnt chain '^recursion;.*\[(dash|bash|sh)\]'

# A name that is changed holds from then on; the process is the same.
record renamed -- sh -c "$SHELL_WORK; printf another >/proc/\$\$/comm; $SHELL_WORK"
check renamed-before share_at_least renamed 20 '^sh;'
check renamed-after share_at_least renamed 20 '^another;'
check renamed-process names renamed sh

# The same pid again, another program: in a pid namespace, where the next pid can be chosen.  With own privileges: a daemon
# outside does not know these pids, and reports it.
is_root || { skip reuse "needs root"; exit 0; }
unshare -pf --mount-proc true 2>/dev/null || { skip reuse "no pid namespaces here"; exit 0; }
[ -e /proc/sys/kernel/ns_last_pid ] || { skip reuse "no ns_last_pid (CONFIG_CHECKPOINT_RESTORE)"; exit 0; }
unshare -pf --mount-proc "$OWN_PERFWIND" record --json -o "$TMP/reuse.pftrace" -- sh -c "
	echo 99 >/proc/sys/kernel/ns_last_pid; $PROGRAMS/recursion 0.5 & wait
	echo 99 >/proc/sys/kernel/ns_last_pid; $PROGRAMS/qsort 0.5 & wait" >"$TMP/reuse.json" 2>"$TMP/reuse.err"
check reuse-first has reuse '^recursion;.*main;recurse_even'
check reuse-second has reuse '^qsort;.*main;sort_numbers'
check reuse-apart hasnt reuse '^recursion;.*sort_numbers|^qsort;.*recurse_even'
# Besides both, what the shell was at that pid before its exec may have been met.
processes reuse | grep '^100 ' | sort -u >"$TMP/reuse.rows"
check reuse-processes sh -c "grep -q '^100 qsort$' $TMP/reuse.rows && grep -q '^100 recursion$' $TMP/reuse.rows"
check reuse-consistent consistent reuse
