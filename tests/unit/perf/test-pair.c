/* test-pair.c - latencies of pairs: joined by hand, and of this machine's scheduler. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "perf/pair.h"
#include "perf/source.h"
#include "tests/unit/cmocka.h"

static void test_join(void **state)
{
	struct pair *p = pair_new_empty();
	struct pair_result r = {0};

	(void)state;
	assert_non_null(p);
	assert_int_equal(pair_take(p, PAIR_FROM, 5, PAIR_NO_KEY, 100, &r), 0);
	assert_int_equal(pair_take(p, PAIR_FROM, 6, PAIR_NO_KEY, 110, &r), 0);
	assert_int_equal(pair_take(p, PAIR_TO, 7, PAIR_NO_KEY, 120, &r), 0); /* without a begin */
	assert_int_equal(r.n, 0);
	assert_int_equal(pair_take(p, PAIR_TO, 6, PAIR_NO_KEY, 150, &r), 0);
	assert_int_equal(pair_take(p, PAIR_TO, 5, PAIR_NO_KEY, 190, &r), 0);
	assert_int_equal(r.n, 2);
	assert_int_equal(r.longest_ns, 90);
	assert_int_equal(r.key, 5);
	assert_int_equal(pair_take(p, PAIR_TO, 5, PAIR_NO_KEY, 900, &r), 0); /* once */
	assert_int_equal(r.n, 2);
	/* The later begin counts; one that a switch away ended does not. */
	assert_int_equal(pair_take(p, PAIR_FROM, 5, PAIR_NO_KEY, 1000, &r), 0);
	assert_int_equal(pair_take(p, PAIR_FROM, 5, PAIR_NO_KEY, 1990, &r), 0);
	assert_int_equal(pair_take(p, PAIR_TO, 5, PAIR_NO_KEY, 2000, &r), 0);
	assert_int_equal(r.longest_ns, 90);
	assert_int_equal(pair_take(p, PAIR_FROM, 8, PAIR_NO_KEY, 3000, &r), 0);
	assert_int_equal(pair_take(p, PAIR_TO, 9, 8, 3500, &r), 0);
	assert_int_equal(pair_take(p, PAIR_TO, 8, 9, 9000, &r), 0);
	assert_int_equal(r.n, 3);
	assert_int_equal(r.longest_ns, 90);
	assert_null(pair_free(p));
	assert_null(pair_free(NULL));
}

/* Begins without an end do not grow without bound. */
static void test_bound(void **state)
{
	struct pair *p = pair_new_empty();
	struct pair_result r = {0};

	(void)state;
	for (uint64_t i = 0; i < 3 * PAIR_KEYS; i++)
		assert_int_equal(pair_take(p, PAIR_FROM, i, PAIR_NO_KEY, i, &r), 0);
	assert_int_equal(pair_take(p, PAIR_TO, 3 * PAIR_KEYS - 1, PAIR_NO_KEY, 1 << 30, &r), 0);
	assert_int_equal(r.n, 1);
	assert_int_equal(pair_take(p, PAIR_TO, 1, PAIR_NO_KEY, 1 << 30, &r), 0);
	assert_int_equal(r.n, 1);
	(void)pair_free(p);
}

static struct pair_options scheduler(uint32_t **ret_cpus)
{
	struct pair_options o = {.root = "",
				 .from = {"sched:sched_waking", "pid"},
				 .to = {"sched:sched_switch", "next_pid"}};

	assert_int_equal(perf_online_cpus(ret_cpus, &o.n_cpus), 0);
	o.cpus = *ret_cpus;
	return o;
}

/* Two processes that wake each other by pipes. */
static void wake_each_other(void)
{
	int to[2], from[2];
	pid_t child;
	char byte = 0;

	assert_int_equal(pipe(to) | pipe(from), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		for (int i = 0; i < 50 && read(to[0], &byte, 1) == 1; i++)
			if (write(from[1], &byte, 1) != 1)
				break;
		_exit(0);
	}
	for (int i = 0; i < 50; i++) {
		assert_int_equal(write(to[1], &byte, 1), 1);
		assert_int_equal(read(from[0], &byte, 1), 1);
	}
	for (int i = 0; i < 2; i++) {
		(void)close(to[i]);
		(void)close(from[i]);
	}
}

static void test_scheduler(void **state)
{
	uint32_t *cpus;
	struct pair_options o = scheduler(&cpus);
	struct pair_result r = {0};
	char error[512];
	struct pair *p;
	uint64_t n = 0;
	int e = pair_new(&o, &p, error, sizeof(error));

	(void)state;
	if (e < 0) {
		print_message("%s\n", error);
		free(cpus);
		skip();
	}
	/* Records younger than the round's clock wait for the next one. */
	for (int i = 0; n < 50; i++) {
		wake_each_other();
		assert_int_equal(pair_read(p, &r), 0);
		n += r.n;
		assert_true(!r.n || r.longest_ns < 60 * NSEC_PER_SEC);
	}
	(void)pair_free(p);
	free(cpus);
}

static void test_refused(void **state)
{
	uint32_t *cpus;
	struct pair_options o = scheduler(&cpus);
	char error[512];
	struct pair *p;

	(void)state;
	o.from.event = "sched:no_such_event";
	assert_true(pair_new(&o, &p, error, sizeof(error)) < 0);
	assert_true(*error);
	free(cpus);
	o = scheduler(&cpus);
	o.from.field = "no_such_field";
	assert_true(pair_new(&o, &p, error, sizeof(error)) < 0);
	assert_true(strstr(error, "no_such_field") || strstr(error, "tracefs"));
	free(cpus);
}

/* In a mount namespace of its own, so that tracefs is there whatever the machine has mounted. */
static void mount_tracefs(void)
{
	if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("nodev", "/sys/kernel/tracing", "tracefs", 0, NULL) != 0)
		print_message("no tracefs of its own: %s\n", strerror(errno));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_join),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_scheduler),
		cmocka_unit_test(test_refused),
	};

	mount_tracefs();
	return cmocka_run_group_tests_name("pair", tests, NULL, NULL);
}
