/* test-wait-reason.c - wait-reason.h: stacks of the kernel as Linux 6.18 has them, and system calls. */
#include <sys/syscall.h>

#include "session/pipeline/wait-reason.h"
#include "tests/unit/cmocka.h"

static enum wait_reason reason_of(const char *const *functions, size_t n)
{
	enum wait_reason reason = WAIT_OTHER;

	for (size_t i = 0; i < n; i++)
		reason = wait_reason_of_function(reason, functions[i]);
	return reason;
}

/* Innermost first. */
#define REASON(...)                                   \
	reason_of((const char *const[]){__VA_ARGS__}, \
		  ARRAY_SIZE(((const char *const[]){__VA_ARGS__})))

static void test_kernel(void **state)
{
	(void)state;
	assert_int_equal(REASON("schedule", "do_nanosleep", "hrtimer_nanosleep"), WAIT_SLEEP);
	assert_int_equal(REASON("schedule", "futex_do_wait", "__futex_wait"), WAIT_LOCK);
	assert_int_equal(REASON("schedule", "anon_pipe_read", "vfs_read"), WAIT_PIPE);
	assert_int_equal(REASON("schedule", "schedule_timeout", "unix_stream_data_wait"),
			 WAIT_PIPE);
	assert_int_equal(REASON("schedule", "schedule_hrtimeout_range", "ep_poll"), WAIT_POLL);
	assert_int_equal(REASON("schedule", "do_wait", "kernel_wait4"), WAIT_CHILD);
	assert_int_equal(REASON("schedule", "io_schedule", "bit_wait_io", "ext4_write_inode"),
			 WAIT_DISK);
	assert_int_equal(REASON("schedule", "io_schedule", "folio_wait_bit_common", "filemap_fault",
				"handle_mm_fault", "exc_page_fault"),
			 WAIT_FAULT);
	assert_int_equal(REASON("schedule", NULL, "some_driver_read"), WAIT_OTHER);
}

static void test_calls(void **state)
{
	(void)state;
	assert_int_equal(wait_reason_of_call(SYS_clock_nanosleep, WAIT_FILE_OTHER), WAIT_SLEEP);
	assert_int_equal(wait_reason_of_call(SYS_futex, WAIT_FILE_OTHER), WAIT_LOCK);
	assert_int_equal(wait_reason_of_call(SYS_read, WAIT_FILE_PIPE), WAIT_PIPE);
	assert_int_equal(wait_reason_of_call(SYS_read, WAIT_FILE_OTHER), WAIT_DISK);
	assert_int_equal(wait_reason_of_call(-1, WAIT_FILE_OTHER), WAIT_FAULT);
	assert_int_equal(wait_reason_of_call(1 << 20, WAIT_FILE_OTHER), WAIT_OTHER);
}

static void test_frames(void **state)
{
	(void)state;
	assert_string_equal(wait_reason_frame(WAIT_NONE), "");
	for (int i = 1; i < WAIT_REASONS; i++)
		assert_int_equal(wait_reason_frame((enum wait_reason)i)[0], '[');
	assert_string_equal(wait_reason_frame((enum wait_reason)200), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernel),
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_frames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
