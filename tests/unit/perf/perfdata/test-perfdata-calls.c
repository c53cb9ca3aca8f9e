/* test-perfdata-calls.c - each allocation and system call with which a file of perf, and a pair of tracepoints are made fails once. */
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "tests/unit/fail-calls.h"

#include "perf/pair.h"
#include "perf/perfdata/perfdata-out.h"

static int make_out(void *arg)
{
	int fd = memfd_create("test",
			      MFD_CLOEXEC); /* of this test: where it fails nothing was consumed */

	return fd < 0 ? -errno : perfdata_out_new(fd, arg);
}
static void end_out(void *arg)
{
	(void)perfdata_out_free(*(struct perfdata_out **)arg);
}

struct pairs {
	struct pair_options options;
	struct pair *pair;
};
static int make_pair(void *arg)
{
	struct pairs *made = arg;
	char error[512] = "";
	int r = pair_new(&made->options, &made->pair, error, sizeof(error));

	if (r < 0 && !error[0])
		fail_msg("call %lu: %d without a line", calls_fail_at, r);
	return r;
}
static void end_pair(void *arg)
{
	(void)pair_free(((struct pairs *)arg)->pair);
}

static void test_out(void **state)
{
	struct perfdata_out *out;
	const struct calls_made of = {"file of perf", make_out, end_out, &out};

	(void)state;
	calls_sweep(&of);
}

static void test_pair(void **state)
{
	static const uint32_t cpu;
	struct pairs pairs = {.options = {.root = "",
					  .from = {"sched:sched_waking", "pid"},
					  .to = {"sched:sched_switch", "next_pid"},
					  .cpus = &cpu,
					  .n_cpus = 1}};
	const struct calls_made of = {"pair", make_pair, end_pair, &pairs};

	(void)state;
	if (make_pair(&pairs) < 0)
		skip(); /* no tracepoints here, or for this user */
	end_pair(&pairs);
	calls_sweep(&of);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_out), cmocka_unit_test(test_pair)};

	/* A tracefs of its own, whatever the machine has mounted. */
	if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("nodev", "/sys/kernel/tracing", "tracefs", 0, NULL) != 0)
		print_message("no tracefs of its own: %s\n", strerror(errno));
	return cmocka_run_group_tests_name("perfdata-calls", tests, NULL, NULL);
}
