/* test-probe.c - probe.h: PERFWIND_WITHOUT by name, all, unknown; and what a closed machine gives.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

#include "perf/probe.h"

static char error[256];

static int probe(const char *without, struct features *ret)
{
	if (without)
		assert_int_equal(setenv("PERFWIND_WITHOUT", without, 1), 0);
	else
		assert_int_equal(unsetenv("PERFWIND_WITHOUT"), 0);
	error[0] = 0;
	return probe_features(ret, error, sizeof(error));
}

static void test_machine(void **state)
{
	struct features f, again;

	(void)state;
	assert_int_equal(probe(NULL, &f), 0);
	assert_int_equal(probe("", &again), 0);
	assert_memory_equal(&f, &again, sizeof(f));
	for (enum feature i = 0; i < FEATURE_COUNT; i++)
		print_message("%s %s\n", feature_name(i), f.has[i] ? "yes" : "no");
	assert_true(f.has[FEATURE_PIDFD]); /* 5.3: older than the oldest kernel supported */
}

static void test_without(void **state)
{
	struct features all, f;

	(void)state;
	assert_int_equal(probe(NULL, &all), 0);
	for (enum feature i = 0; i < FEATURE_COUNT; i++) {
		assert_int_equal(probe(feature_name(i), &f), 0);
		for (enum feature j = 0; j < FEATURE_COUNT; j++)
			assert_int_equal(f.has[j], j == i ? false : all.has[j]);
	}
	assert_int_equal(probe("pidfd,build-id", &f), 0);
	assert_false(f.has[FEATURE_PIDFD] || f.has[FEATURE_BUILD_ID]);
	assert_int_equal(f.has[FEATURE_FORMAT_LOST], all.has[FEATURE_FORMAT_LOST]);
	assert_int_equal(probe("all", &f), 0);
	for (enum feature i = 0; i < FEATURE_COUNT; i++)
		assert_false(f.has[i]);
}

static void test_unknown(void **state)
{
	static const char *const bad[] = {"pidf", "pidfdd",	    "PIDFD",
					  "al",	  "pidfd,nonsense", "pidfd build-id"};
	struct features f;

	(void)state;
	memset(&f, 0x5a, sizeof(f));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(probe(bad[i], &f), -EINVAL);
		assert_non_null(strstr(error, "PERFWIND_WITHOUT"));
		assert_non_null(strstr(error, "procmap-query")); /* the names there are */
	}
	assert_non_null(strstr(error, "'pidfd build-id'"));
	for (size_t i = 0; i < sizeof(f); i++)
		assert_int_equal(((const uint8_t *)&f)[i], 0x5a);
	/* a line longer than its room is cut */
	memset(error, 'x', sizeof(error));
	assert_int_equal(probe_features(&f, error, 60), -EINVAL);
	assert_true(strlen(error) < 60);
}

/* Where perf_event_open() does not exist its facilities are absent, the others not, and that is no
 * error. */
static void test_closed_machine(void **state)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_perf_event_open, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = ARRAY_SIZE(code), .filter = code};
	struct features f;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(unsetenv("PERFWIND_WITHOUT"), 0);
	pid = fork();
	if (pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
			_exit(2);
		if (probe_features(&f, error, sizeof(error)) != 0)
			_exit(3);
		_exit(f.has[FEATURE_PIDFD] && !f.has[FEATURE_BUILD_ID] &&
				      !f.has[FEATURE_FORMAT_LOST] && !f.has[FEATURE_KSYMBOL] &&
				      !f.has[FEATURE_INHERIT_READ]
			      ? 0
			      : 4);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_machine),
		cmocka_unit_test(test_without),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_closed_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
