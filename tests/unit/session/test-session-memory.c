/* test-session-memory.c - which of several sessions ends when there is too little memory for all, and which reads no further names. */
#include "base/memory-left.h"
#include "session/session-private.h"
#include "tests/unit/cmocka.h"

enum { ALICE = 1000, BOB = 1001, N = 5 };

static struct session_shared shared;
static struct session sessions[N];
static uint64_t bytes[N];

static uint64_t holds(void *arg)
{
	return *(const uint64_t *)arg;
}

/* Sessions 0 to 3 are Alice's, 4 is Bob's. */
static int set_up(void **state)
{
	(void)state;
	shared = (struct session_shared){0};
	for (int i = 0; i < N; i++) {
		sessions[i] = (struct session){
			.options = {.shared = &shared,
				    .owner = i < 4 ? ALICE : BOB,
				    .holds = holds,
				    .holds_arg = &bytes[i]},
		};
		bytes[i] = 0;
		if (uw_modules_new(&sessions[i].modules) < 0)
			return -1;
		session_share(&sessions[i]);
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (int i = 0; i < N; i++) {
		session_unshare(&sessions[i]);
		(void)uw_modules_free(sessions[i].modules);
	}
	assert_null(shared.sessions);
	return 0;
}

static void expect_most(int wanted)
{
	for (int i = 0; i < N; i++)
		assert_int_equal(session_holds_most(&sessions[i]), i == wanted);
}

/* A user's many take nothing from another's one, though that is the largest. */
static void test_by_user(void **state)
{
	(void)state;
	bytes[0] = bytes[1] = bytes[3] = 60 << 20;
	bytes[2] = 65 << 20;
	bytes[4] = 100 << 20;
	expect_most(2);
	bytes[4] = 300 << 20;
	expect_most(4);
	/* The largest is gone: there is room again, or the next one goes. */
	session_unshare(&sessions[4]);
	assert_true(session_holds_most(&sessions[2]));
}

/* Where all hold the same it is one of the owner with most sessions, and one only. */
static void test_equal(void **state)
{
	int n = 0;

	(void)state;
	for (int i = 0; i < N; i++)
		n += session_holds_most(&sessions[i]);
	assert_int_equal(n, 1);
	assert_false(session_holds_most(&sessions[4]));
}

static void test_alone(void **state)
{
	struct session s = {0};

	(void)state;
	session_share(&s);
	assert_true(session_holds_most(&s));
	session_unshare(&s);
}

/* In place of that of base/. */
static uint64_t left;
uint64_t memory_left(const char *root)
{
	(void)root;
	return left;
}

static void test_names_end(void **state)
{
	const uint64_t low = 48 << 20;
	struct session s = {
		.state = SESSION_NAMING, .deadline = UINT64_MAX, .relief.cgroup_low = low};

	(void)state;
	left = low / 2;
	assert_int_equal(session_keep_cgroup(&s), 0);
	assert_int_equal(s.deadline, UINT64_MAX);
	left--;
	s.relief.looked = 0;
	assert_int_equal(session_keep_cgroup(&s), 0);
	assert_true(s.relief.full && s.deadline <= clock_ns(CLOCK_MONOTONIC));
	assert_non_null(strstr(s.notes[0], "23 MiB left (hint: `perfwind symbolize FILE`"));
	free(s.notes[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_by_user, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_equal, set_up, tear_down),
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_names_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
