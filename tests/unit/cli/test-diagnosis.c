/* test-diagnosis.c - facts stated by hand, and the diagnosis that follows from them. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "cli/cmd-doctor.h"
#include "session/session.h"
#include "tests/unit/cmocka.h"

/* Root on a machine that has everything. */
static struct doctor_facts all_open(void)
{
	struct doctor_facts f = {
		.root = true,
		.cap_admin = true,
		.cap_perfmon = true,
		.cap_ptrace = true,
		.cap_syslog = true,
		.cap_ipc_lock = true,
		.paranoid = 2,
		.ptrace_scope = -1,
		.kernel_addresses = true,
		.ring_bytes = 16 << 20,
		.ring_wanted = 16 << 20,
		.files = 1 << 20,
		.max_rate = 100000,
		.debug_files = true,
	};

	for (int i = 0; i < FEATURE_COUNT; i++)
		f.features.has[i] = true;
	return f;
}

static void test_all_open(void **state)
{
	const struct doctor_facts d = all_open();

	(void)state;
	assert_true(doctor_can_record(&d));
	for (int i = 0; i < DOCTOR_GATES; i++) {
		struct doctor_finding f;

		doctor_judge(&d, i, &f);
		assert_int_equal(f.state, DOCTOR_OPEN);
		assert_true(*f.what && !*f.cost && !*f.hint);
	}
}

static void expect(const struct doctor_facts *d, enum doctor_gate gate, enum doctor_state state,
		   const char *what, const char *hint)
{
	struct doctor_finding f;

	doctor_judge(d, gate, &f);
	assert_int_equal(f.state, state);
	assert_non_null(strstr(f.what, what));
	assert_non_null(strstr(f.hint, hint));
	assert_true(*f.cost);
}

static void test_user_at_2(void **state)
{
	struct doctor_facts d = all_open();

	(void)state;
	d.root = d.cap_admin = d.cap_perfmon = d.cap_ptrace = d.cap_syslog = d.cap_ipc_lock = false;
	d.kernel_addresses = false;
	d.own_kernel = d.machine = -EACCES;
	d.tracepoints = -EACCES;
	d.ring_bytes = 512 << 10;
	d.cycles = -ENOENT;
	assert_true(doctor_can_record(&d));
	expect(&d, DOCTOR_KERNEL, DOCTOR_SHUT, "= 2", "perf_event_paranoid=1");
	expect(&d, DOCTOR_MACHINE, DOCTOR_SHUT, "= 2", "perf_event_paranoid=0");
	expect(&d, DOCTOR_OTHERS, DOCTOR_SHUT, "CAP_SYS_PTRACE", "sudo perfwind record -p");
	expect(&d, DOCTOR_HARDWARE, DOCTOR_PARTLY, "virtual", "pmu");
	expect(&d, DOCTOR_TRACEPOINTS, DOCTOR_SHUT, "tracefs or its events are closed", "as root");
	expect(&d, DOCTOR_CAPABILITIES, DOCTOR_SHUT, "held: none; not held: PERFMON SYS_PTRACE",
	       "sudo perfwind");
	expect(&d, DOCTOR_RINGS, DOCTOR_PARTLY, "rings of 512 KiB a CPU instead of 16384",
	       "perf_event_mlock_kb");
	expect(&d, DOCTOR_DAEMON, DOCTOR_PARTLY, "no perfwind daemon",
	       "sudo useradd -r perfwind && sudo perfwind daemon --user perfwind");
	d.units = true;
	expect(&d, DOCTOR_DAEMON, DOCTOR_PARTLY, "no perfwind daemon",
	       "sudo systemd-sysusers && sudo systemctl enable --now perfwind-hook.socket");
	d.service_user = true;
	expect(&d, DOCTOR_DAEMON, DOCTOR_PARTLY, "no perfwind daemon",
	       "sudo systemctl enable --now perfwind-hook.socket perfwind-control.socket");
	d.units = false;
	expect(&d, DOCTOR_DAEMON, DOCTOR_PARTLY, "no perfwind daemon",
	       "sudo perfwind daemon --user perfwind");
	d.tracepoints = -ENOENT;
	expect(&d, DOCTOR_TRACEPOINTS, DOCTOR_SHUT, "not mounted", "mount -t tracefs");
	d.user_namespace = true;
	expect(&d, DOCTOR_CAPABILITIES, DOCTOR_SHUT, "user namespace", "outside");
}

/* What the daemon's settings give, in words. */
static void test_policy(void **state)
{
	struct doctor_facts d = {.daemon = true, .user = "ada", .group = "perf"};
	struct doctor_finding f;

	(void)state;
	expect(&d, DOCTOR_DAEMON, DOCTOR_PARTLY, "it records nothing for you (own-processes = no",
	       "sudo usermod -aG perf ada");
	d.scope = POLICY_OWN;
	expect(&d, DOCTOR_DAEMON, DOCTOR_PARTLY, "your own processes, user code only",
	       "sudo usermod -aG perf ada, and log in again");
	*d.group = 0;
	expect(&d, DOCTOR_DAEMON, DOCTOR_PARTLY, "your own processes, user code only",
	       "all-users = ada in /etc/perfwind.conf");
	d.scope = POLICY_ALL;
	doctor_judge(&d, DOCTOR_DAEMON, &f);
	assert_true(f.state == DOCTOR_OPEN && !*f.cost && !*f.hint);
	assert_non_null(strstr(f.what, "every process and the kernel"));
	strcpy(d.settings_error, "/etc/perfwind.conf: Permission denied");
	expect(&d, DOCTOR_DAEMON, DOCTOR_PARTLY, "unknown: /etc/perfwind.conf: Permission denied",
	       "perfwind record --daemon");
}

/* The hint of each combination, by kernel/ksyms_common.c. */
static void test_kernel_names(void **state)
{
	static const struct {
		int kptr, paranoid;
		bool syslog;
		const char *hint;
	} cases[] = {
		{0, 2, false, "sudo sysctl kernel.perf_event_paranoid=1"},
		{1, 2, false, "sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1"},
		{1, 1, false, "sudo sysctl kernel.kptr_restrict=0"},
		{2, 4, false, "sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1"},
		{2, 1, false, "sudo sysctl kernel.kptr_restrict=0"},
		{2, 2, true, "sudo sysctl kernel.kptr_restrict=1"},
		{1, 2, true, "outside"},
		{0, 1, false, "outside"},
	};
	struct doctor_facts d = all_open();

	(void)state;
	d.kernel_addresses = false;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct doctor_finding f;

		d.kptr_restrict = cases[i].kptr;
		d.paranoid = cases[i].paranoid;
		d.cap_syslog = cases[i].syslog;
		doctor_judge(&d, DOCTOR_KERNEL_NAMES, &f);
		assert_int_equal(f.state, DOCTOR_SHUT);
		if (!strncmp(cases[i].hint, "sudo", 4))
			assert_string_equal(f.hint, cases[i].hint);
		else
			assert_non_null(strstr(f.hint, cases[i].hint));
	}
}

/* CAP_SYS_PTRACE, and a process that cannot be read all the same. */
static void test_protected(void **state)
{
	struct doctor_facts d = all_open();
	struct doctor_finding f;

	(void)state;
	d.first_process = -EACCES;
	expect(&d, DOCTOR_OTHERS, DOCTOR_PARTLY, "protects, as process 1", "sandbox");
	/* This gate is Yama's alone: it does not contradict the other. */
	d.ptrace_scope = 1;
	doctor_judge(&d, DOCTOR_PTRACE, &f);
	assert_non_null(strstr(f.what, "kernel.yama.ptrace_scope = 1 does not limit"));
	assert_null(strstr(f.what, "all processes"));
	assert_int_equal(f.state, DOCTOR_OPEN);
	d.ptrace_scope = -1;
	doctor_judge(&d, DOCTOR_PTRACE, &f);
	assert_non_null(strstr(f.what, "Yama is not active"));
}

static void test_yama(void **state)
{
	struct doctor_facts d = all_open();
	struct doctor_finding f;

	(void)state;
	for (d.ptrace_scope = -1; d.ptrace_scope < 3; d.ptrace_scope++) {
		doctor_judge(&d, DOCTOR_PTRACE, &f);
		assert_int_equal(f.state, DOCTOR_OPEN); /* CAP_SYS_PTRACE */
	}
	expect(&d, DOCTOR_PTRACE, DOCTOR_SHUT, "= 3", "boot");
	d.cap_ptrace = false;
	d.ptrace_scope = 2;
	expect(&d, DOCTOR_PTRACE, DOCTOR_SHUT, "= 2", "sudo sysctl kernel.yama.ptrace_scope=0");
	d.ptrace_scope = 1;
	expect(&d, DOCTOR_PTRACE, DOCTOR_PARTLY, "= 1", "sudo sysctl kernel.yama.ptrace_scope=0");
	d.ptrace_scope = 0;
	doctor_judge(&d, DOCTOR_PTRACE, &f);
	assert_int_equal(f.state, DOCTOR_OPEN);
}

static void test_closed(void **state)
{
	struct doctor_facts d = all_open();

	(void)state;
	d.cap_admin = false;
	d.own_user = -EACCES;
	d.paranoid = 3;
	assert_false(doctor_can_record(&d));
	expect(&d, DOCTOR_OWN_PROGRAMS, DOCTOR_SHUT, "closed even to CAP_PERFMON",
	       "perf_event_paranoid=2");
	d.cap_perfmon = false;
	d.paranoid = 4;
	expect(&d, DOCTOR_OWN_PROGRAMS, DOCTOR_SHUT, "= 4", "perf_event_paranoid=2");
	d.own_user = -EPERM;
	d.seccomp = true;
	expect(&d, DOCTOR_OWN_PROGRAMS, DOCTOR_SHUT, "seccomp", "--security-opt");
	expect(&d, DOCTOR_SECCOMP, DOCTOR_SHUT, "refuses perf_event_open", "--security-opt");
	/* an unknown cause is not reported as another one */
	for (int i = 0; i < DOCTOR_GATES; i++) {
		static const enum doctor_gate unknown[] = {DOCTOR_KERNEL, DOCTOR_MACHINE,
							   DOCTOR_HARDWARE, DOCTOR_RINGS,
							   DOCTOR_FACILITIES};

		d.own_kernel = d.machine = d.cycles = -EPERM;
		d.ring_bytes = 0;
		if ((size_t)i < ARRAY_SIZE(unknown))
			expect(&d, unknown[i], DOCTOR_SHUT, "unknown", "own-programs");
	}
	/* A filter is ours alone: a daemon can do it. */
	assert_false(doctor_can_record(&d));
	d.daemon = true;
	d.scope = POLICY_OWN;
	assert_true(doctor_can_record(&d) && doctor_by_daemon(&d));
	expect(&d, DOCTOR_OWN_PROGRAMS, DOCTOR_PARTLY, "seccomp", "--security-opt");
	d.pid_namespace = true; /* the daemon is in it too */
	assert_true(doctor_can_record(&d));
	d.daemon_outside = true; /* it knows the processes of this namespace by other ids */
	assert_false(doctor_can_record(&d));
	d.pid_namespace = d.daemon_outside = false;
	d.scope = POLICY_NOTHING;
	assert_false(doctor_can_record(&d));
	d.daemon = false;
	d.own_user = -ENOSYS; /* of a kernel that has the sysctl */
	expect(&d, DOCTOR_OWN_PROGRAMS, DOCTOR_SHUT, "seccomp", "--security-opt");
	d.paranoid = INT_MAX;
	expect(&d, DOCTOR_OWN_PROGRAMS, DOCTOR_SHUT, "without perf events", "CONFIG_PERF_EVENTS");
	d.own_user = -EACCES;
	d.paranoid = 2;
	expect(&d, DOCTOR_OWN_PROGRAMS, DOCTOR_SHUT, "security module", "ausearch");
	/* an event, and no memory to write it to */
	d = all_open();
	d.ring_bytes = 0;
	assert_false(doctor_can_record(&d));
	expect(&d, DOCTOR_OWN_PROGRAMS, DOCTOR_SHUT, "locked memory", "perf_event_mlock_kb");
}

/* No hint names perf_event_paranoid where another gate refuses. */
static void test_modules(void **state)
{
	struct doctor_facts d = all_open();

	(void)state;
	d.own_kernel = d.machine = -EPERM;
	expect(&d, DOCTOR_KERNEL, DOCTOR_SHUT, "lockdown", "lockdown");
	expect(&d, DOCTOR_MACHINE, DOCTOR_SHUT, "security module", "ausearch");
	d.cap_perfmon = false;
	expect(&d, DOCTOR_KERNEL, DOCTOR_SHUT, "= 2", "perf_event_paranoid=1");
	expect(&d, DOCTOR_MACHINE, DOCTOR_SHUT, "= 2", "perf_event_paranoid=0");
}

static void test_partly(void **state)
{
	struct doctor_facts d = all_open();
	struct doctor_finding f;

	(void)state;
	d.pid_namespace = true;
	d.files = 1024;
	d.max_rate = 1000;
	d.debug_files = false;
	d.features.has[FEATURE_PROCMAP_QUERY] = false;
	d.ring_bytes = 0;
	expect(&d, DOCTOR_MACHINE, DOCTOR_PARTLY, "container", "--pid=host");
	expect(&d, DOCTOR_FILES, DOCTOR_PARTLY, "1024", "ulimit");
	expect(&d, DOCTOR_RATE, DOCTOR_PARTLY, "1000", "max_sample_rate");
	expect(&d, DOCTOR_SYMBOLS, DOCTOR_PARTLY, "no separate", "dbgsym");
	expect(&d, DOCTOR_FACILITIES, DOCTOR_PARTLY, "lacks", "6.13");
	d.features.has[FEATURE_PROCMAP_QUERY] = true;
	d.features.has[FEATURE_BPF] = false;
	doctor_judge(&d, DOCTOR_FACILITIES, &f);
	assert_int_equal(f.state, DOCTOR_OPEN);
	expect(&d, DOCTOR_RINGS, DOCTOR_SHUT, "0 KiB", "mlock");
	d.debuginfod = true;
	expect(&d, DOCTOR_DEBUGINFOD, DOCTOR_PARTLY, "DEBUGINFOD_URLS is set", "--debuginfod");
	assert_true(doctor_in_container(&d));
}

/* Looking leaves no descriptor behind and agrees with what the system reports of us. */
static void test_look(void **state)
{
	struct doctor_facts d;
	int before = dup(0), after;

	(void)state;
	close(before);
	doctor_look("/nonexistent/perfwind-test.sock", &d);
	after = dup(0);
	close(after);
	assert_int_equal(before, after);
	assert_int_equal(d.root, geteuid() == 0 && !d.user_namespace);
	assert_true(is_power_of_two(d.ring_wanted) && d.ring_bytes <= d.ring_wanted);
	/* What a recording wants; many CPUs get less. */
	assert_true(d.ring_wanted <= session_ring_of_tasks(999));
	assert_false(d.daemon);
	assert_true(*d.user && (!d.root || *d.settings_error || d.scope == POLICY_ALL));
	assert_true(d.max_rate > 0 && d.files > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_open),     cmocka_unit_test(test_user_at_2),
		cmocka_unit_test(test_closed),	     cmocka_unit_test(test_partly),
		cmocka_unit_test(test_look),	     cmocka_unit_test(test_policy),
		cmocka_unit_test(test_kernel_names), cmocka_unit_test(test_protected),
		cmocka_unit_test(test_yama),	     cmocka_unit_test(test_modules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
