/* test-scope.c - which samples go on: verdicts, kernel threads, the bound on bytes under
 * way. */
#include "session/pipeline/scope.h"
#include "tests/unit/cmocka.h"

static int n_asked;

/* Wants pid 7, and processes of the name "good". */
static bool wanted(void *arg, uint32_t pid, const char *cmdline, size_t len)
{
	n_asked++;
	assert_ptr_equal(arg, &n_asked);
	assert_int_equal(cmdline ? 5 : 0, len);
	return pid == 7 || (cmdline && !strcmp(cmdline, "good"));
}

static struct scope scope_with(bool by_cmdline)
{
	n_asked = 0;
	return (struct scope){
		.options = {.frames = FRAMES_ALL, .wanted_by_cmdline = by_cmdline},
		.c = {.wanted = wanted, .wanted_arg = &n_asked},
	};
}

static const struct record_sample user_sample = {.regs_abi = 2, .stack_len = 100};

static void test_no_filter(void **state)
{
	struct process p = {.pid = 1};
	struct scope rd = {.options.frames = FRAMES_USER};

	(void)state;
	assert_int_equal(scope_of(&rd, &p), PROCESS_WANTED);
	assert_int_equal(scope_skips_sample(&rd, &p, &user_sample), SKIP_NONE);
	assert_int_equal(p.scope, PROCESS_UNDECIDED); /* not requested */
}

/* Once an incarnation, at once where no command line is needed. */
static void test_by_pid(void **state)
{
	struct scope rd = scope_with(false);
	struct process in = {.pid = 7}, out = {.pid = 8};

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(scope_skips_sample(&rd, &in, &user_sample), SKIP_NONE);
		assert_int_equal(scope_skips_sample(&rd, &out, &user_sample), SKIP_NOT_IN_SCOPE);
	}
	assert_int_equal(n_asked, 2);
}

/* Not before what can be learned of the process is there; the samples go on till then. */
static void test_by_cmdline(void **state)
{
	struct scope rd = scope_with(true);
	struct process good = {.pid = 1, .cmdline = (char *)(uintptr_t) "good", .cmdline_len = 5};
	struct process other = {.pid = 2, .cmdline = (char *)(uintptr_t) "evil", .cmdline_len = 5};
	struct process unsymbolized = {.pid = 3}, by_pid = {.pid = 7};

	(void)state;
	assert_int_equal(scope_of(&rd, &good), PROCESS_UNDECIDED);
	assert_int_equal(scope_skips_sample(&rd, &good, &user_sample), SKIP_NONE);
	assert_int_equal(n_asked, 0);
	scope_process_read(&rd, &good);
	scope_process_read(&rd, &other);
	scope_process_read(&rd, &unsymbolized);
	scope_process_read(&rd, &by_pid);
	scope_process_read(&rd, &by_pid);
	assert_int_equal(n_asked, 4);
	assert_int_equal(scope_of(&rd, &good), PROCESS_WANTED);
	assert_int_equal(scope_of(&rd, &other), PROCESS_LEFT_OUT);
	assert_int_equal(scope_of(&rd, &unsymbolized), PROCESS_LEFT_OUT);
	assert_int_equal(scope_of(&rd, &by_pid), PROCESS_WANTED);
	assert_int_equal(n_asked, 4);
}

/* What has no user part, where only user frames are wanted. */
static void test_kernel_threads(void **state)
{
	const uint64_t kernel_chain[] = {(uint64_t)-128, 0xffffffff81000000};
	const uint64_t user_chain[] = {(uint64_t)-128, 0xffffffff81000000, (uint64_t)-512, 0x1000};
	struct record_sample kernel = {.chain = kernel_chain, .n_chain = 2};
	struct record_sample user = {.chain = user_chain, .n_chain = 4};
	struct scope rd = {.options = {.frames = FRAMES_ALL}};
	struct process p = {.pid = 1};

	(void)state;
	assert_int_equal(scope_skips_sample(&rd, &p, &kernel), SKIP_NONE);
	rd.options.frames &= FRAMES_USER;
	assert_int_equal(scope_skips_sample(&rd, &p, &kernel), SKIP_NOT_IN_SCOPE);
	assert_int_equal(scope_skips_sample(&rd, &p, &user_sample), SKIP_NONE);
	rd.options.by_callchain = true; /* the callchain shows it, there are no registers */
	assert_int_equal(scope_skips_sample(&rd, &p, &kernel), SKIP_NOT_IN_SCOPE);
	assert_int_equal(scope_skips_sample(&rd, &p, &user), SKIP_NONE);
	rd.options.frames &= FRAMES_KERNEL; /* counters only: of everybody */
	assert_int_equal(scope_skips_sample(&rd, &p, &kernel), SKIP_NONE);
}

static void test_enqueued(void **state)
{
	struct scope rd = {.options = {.frames = FRAMES_USER, .enqueued_bytes = 250}};
	struct process p = {.pid = 1};

	(void)state;
	rd.enqueued_bytes = 100;
	assert_int_equal(scope_skips_sample(&rd, &p, &user_sample), SKIP_NONE); /* 200 */
	rd.enqueued_bytes = 150;
	assert_int_equal(scope_skips_sample(&rd, &p, &user_sample), SKIP_ENQUEUED); /* 250 */
	rd.enqueued_bytes = 50;
	assert_int_equal(scope_skips_sample(&rd, &p, &user_sample), SKIP_NONE);
	rd.options.enqueued_bytes = 0; /* no bound */
	rd.enqueued_bytes = UINT64_MAX / 2;
	assert_int_equal(scope_skips_sample(&rd, &p, &user_sample), SKIP_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_filter),  cmocka_unit_test(test_by_pid),
		cmocka_unit_test(test_by_cmdline), cmocka_unit_test(test_kernel_threads),
		cmocka_unit_test(test_enqueued),
	};

	return cmocka_run_group_tests_name("scope", tests, NULL, NULL);
}
