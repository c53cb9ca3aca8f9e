#!/bin/bash
# selinux.sh - the policy module compiles with the distribution's devel Makefile, and its neverallow rules hold against the
# distribution's base policy (they are checked where modules are linked and expanded, not where they are compiled).
. "$(dirname "$0")/lib"

devel=/usr/share/selinux/devel/Makefile
base=/usr/share/selinux/default/base.pp.bz2
if [ ! -f $devel ] || [ ! -f $base ] || ! command -v semodule_expand >/dev/null 2>&1; then
	skip selinux "selinux-policy-dev, selinux-policy-default and semodule-utils are not all installed"
	exit 0
fi
cp selinux/* "$TMP"
cd "$TMP" || exit 1
bunzip2 -c $base >base.pp
compile() { "${MAKE:-make}" -s -f $devel NAME=default SHARE=/usr/share/selinux perfwind.pp; }
expand() { semodule_link -o linked.pp base.pp perfwind.pp 2>/dev/null && semodule_expand linked.pp policy 2>"$TMP/expand.err"; }
check compiles compile
check neverallow-holds expand
check policy-knows-perfwind grep -q perfwind_t policy

# home : the rules by which the daemon reads what users keep at home: all under the boolean, which is off.
home() {
	/usr/bin/python3 - policy <<-'PY'
		import sys, setools
		policy = setools.SELinuxPolicy(sys.argv[1])
		rules = setools.TERuleQuery(policy, ruletype=["allow"], source="perfwind_t", target="user_home_t", tclass=["file"],
		                            perms=["read", "open"]).results()
		wanted = 0
		for rule in rules:
		    try:
		        names = {str(b) for b in rule.conditional.booleans}
		    except setools.exception.RuleNotConditional:
		        names = set()
		    print(rule)
		    if names != {"perfwind_read_user_home"}:
		        sys.exit("not under the boolean")
		    wanted += 1
		state = {str(b): b.state for b in policy.bools()}["perfwind_read_user_home"]
		sys.exit("no rule" if not wanted else "it is on" if state else 0)
	PY
}
if /usr/bin/python3 -c 'import setools' 2>/dev/null; then check home-by-boolean home; else skip home-by-boolean "python3-setools is not installed"; fi

# Each thing it must never do is refused when a policy allows it.
forbidden() {
	cp "$INTEGRATION/../../selinux/perfwind.te" .
	echo "$1" >>perfwind.te
	compile >/dev/null 2>&1 || return 1
	! expand && grep -q 'neverallow violated' "$TMP/expand.err"
}
check never-ptrace forbidden 'gen_require(`type kernel_t;'\'') allow perfwind_t kernel_t:process ptrace;'
check never-admin forbidden 'allow perfwind_t self:capability sys_admin;'
check never-changes-itself forbidden 'allow perfwind_t perfwind_exec_t:file write;'
check never-network forbidden 'allow perfwind_t self:tcp_socket { create connect };'
check never-executes-data forbidden 'allow perfwind_t self:process execmem;'

# Each allow line has its reason: a comment stands above it or above the group it is in.
unexplained() {
	! awk '/^$/ { why = 0 } /^#/ && !/^#+$/ { why = 1 } /^allow/ && !why { print FILENAME ": " $0; bad = 1 } END { exit !bad }' \
		"$INTEGRATION/../../selinux/perfwind.te"
}
check each-allow-has-reason unexplained
