/* test-control-request.c - what is denied, and with which reason.  Other users are only to be had as root. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/log.h"
#include "daemon/control/control.c"
#include "tests/unit/daemon/control/control-fixture.h"

enum { ALICE = 61002 };

static struct control_fixture f;

static int set_up(void **state)
{
	(void)state;
	control_fixture_init(&f);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	control_fixture_deinit(&f);
	return 0;
}

static void test_numbers(void **state)
{
	static uint32_t two[] = {1, 2}, zero[] = {0};
	Pb__ControlRequest good = control_fixture_request(&f), q;

	(void)state;
	q = good;
	q.has_machine = q.machine = true;
	control_fixture_denied(&f, geteuid(), &q, "either the machine or processes");
	q.n_pids = 0;
	q.machine = false;
	control_fixture_denied(&f, geteuid(), &q, "either the machine or processes");
	q = good;
	q.has_period = true;
	q.period = 1000;
	control_fixture_denied(&f, geteuid(), &q, "either a frequency or a period");
	q = good;
	q.clock = 77;
	control_fixture_denied(&f, geteuid(), &q, "an invalid value");
	q = good;
	q.has_stack_bytes = true;
	q.stack_bytes = 65536;
	control_fixture_denied(&f, geteuid(), &q, "an invalid value");
	q.stack_bytes = 12;
	control_fixture_denied(&f, geteuid(), &q, "an invalid value");
	q = good;
	q.has_engine = true;
	q.engine = UW_ENGINE_COUNT;
	control_fixture_denied(&f, geteuid(), &q, "an invalid value");
	q = good;
	q.code = 0;
	control_fixture_denied(&f, geteuid(), &q, "an invalid value");
	q.code = FRAMES_ALL + 1;
	control_fixture_denied(&f, geteuid(), &q, "an invalid value");
	q = good;
	q.pids = zero;
	control_fixture_denied(&f, geteuid(), &q, "0 is not a process id");
	q = good;
	q.has_command = q.command = true;
	q.pids = two;
	q.n_pids = 2;
	control_fixture_denied(&f, geteuid(), &q, "a command is one process");
}

static void test_events(void **state)
{
	static char probe[] = "uprobe:/bin/ls:main", unknown[] = "cpu-clok", clock[] = "cpu-clock";
	Pb__ControlRequest good = control_fixture_request(&f), q = good;

	(void)state;
	q.event = probe;
	control_fixture_denied(&f, geteuid(), &q, "the daemon places no probes");
	q.event = unknown;
	control_fixture_denied(&f, geteuid(), &q, "cpu-clock"); /* what was meant */
	q.event = clock;
	q.filter = clock;
	control_fixture_denied(&f, geteuid(), &q, "--filter is for tracepoints");
	q = good;
	q.cpus = unknown;
	control_fixture_denied(&f, geteuid(), &q, "is not a list of CPUs");
}

static void test_others(void **state)
{
	Pb__ControlRequest q = control_fixture_request(&f);

	(void)state;
	need_root();
	control_fixture_denied(&f, ALICE, &q, "is another user's (0, you are 61002)");
	q.has_kernel_needed = q.kernel_needed = true;
	control_fixture_denied(&f, ALICE, &q, "you may not record kernel code");
	q.kernel_needed = false;
	q.has_machine = q.machine = true;
	q.code = FRAMES_KERNEL;
	q.n_pids = 0;
	control_fixture_denied(&f, ALICE, &q, "you may not record kernel code");
	f.settings.own_processes = false;
	control_set_settings(f.control, &f.settings);
	control_fixture_denied(&f, ALICE, &q, "you may not record through the daemon");
}

/* A connection that the kernel labelled (policy_confined() is tested by itself). */
static void connect_confined(void)
{
	control_fixture_connect(&f, geteuid());
	while (!f.control->clients)
		assert_int_equal(loop_run_once(&f.loop, 100), 0);
	(void)snprintf(f.control->clients->requester.confined,
		       sizeof(f.control->clients->requester.confined),
		       "AppArmor profile a-test (enforce)");
}

static void test_confined(void **state)
{
	Pb__ControlRequest q = control_fixture_request(&f), all = q;

	(void)state;
	f.settings.confined_requesters = false;
	control_set_settings(f.control, &f.settings);
	all.n_pids = 0;
	all.has_machine = all.machine = true;
	for (int i = 0; i < 3; i++) {
		connect_confined();
		/* The last is a command with a process that is not confined as the requester is. */
		q.has_command = q.command = i == 2;
		control_fixture_ask(&f, i == 1 ? &all : &q);
		control_fixture_expect(
			&f, CONTROL_DENIED,
			"you are confined (AppArmor profile a-test (enforce)) and may "
			"record the command that you start");
		control_fixture_expect(&f, 0, NULL);
	}
	f.settings.confined_requesters = true;
	control_set_settings(f.control, &f.settings);
	connect_confined();
	q.command = false;
	control_fixture_begin(&f, &q);
}

/* A process of a user's rootless container: the message names the way that works. */
static void test_user_namespace(void **state)
{
	Pb__ControlRequest q = control_fixture_request(&f);
	uint32_t pid;
	int ready[2];
	char byte;

	(void)state;
	need_root();
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = (uint32_t)fork();
	if (!pid) {
		if (setresuid(ALICE, ALICE, ALICE) < 0 || unshare(CLONE_NEWUSER) < 0)
			_exit(1);
		(void)!write(ready[1], "", 1);
		pause();
	}
	close(ready[1]);
	q.pids = &pid;
	if (read(ready[0], &byte, 1) == 1)
		control_fixture_denied(&f, ALICE, &q, "is in a user namespace (a rootless");
	else
		print_message("no user namespace can be made\n");
	close(ready[0]);
	assert_int_equal(kill((pid_t)pid, SIGKILL), 0);
	assert_int_equal(waitpid((pid_t)pid, NULL, 0), pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
		EACH(test_numbers),  EACH(test_events),		EACH(test_others),
		EACH(test_confined), EACH(test_user_namespace),
#undef EACH
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
