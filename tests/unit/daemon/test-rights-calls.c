/* test-rights-calls.c - the lists: their order, and what is in each and what in none. */
#include <sys/syscall.h>

#include "daemon/rights-private.h"
#include "tests/unit/cmocka.h"

static bool is_in(enum rights_list list, int call)
{
	int calls[RIGHTS_CALLS];
	size_t n = rights_calls(list, calls);

	for (size_t i = 0; i < n; i++)
		if (calls[i] == call)
			return true;
	return false;
}

static void test_ascending(void **state)
{
	int calls[RIGHTS_CALLS];

	(void)state;
	for (enum rights_list list = RIGHTS_DAEMON; list <= RIGHTS_COMMAND; list++) {
		size_t n = rights_calls(list, calls);

		assert_true(n > 100 && n < RIGHTS_CALLS);
		assert_true(calls[0] >= 0);
		for (size_t i = 1; i < n; i++)
			assert_true(calls[i - 1] < calls[i]);
		assert_true(calls[n - 1] <= RIGHTS_NEWEST);
	}
}

static void test_members(void **state)
{
	static const int in_both[] = {SYS_read,	 SYS_openat,   SYS_perf_event_open, SYS_futex,
				      SYS_wait4, SYS_unlinkat, SYS_exit_group,	    SYS_statx};
	static const int command_only[] = {SYS_renameat, SYS_renameat2, SYS_setfsuid,
					   SYS_setgroups};
	/* What would make another program of us, or change another, the machine or the kernel; and what is decided by
	 * an argument. */
	static const int in_none[] = {SYS_execve,
				      SYS_execveat,
				      SYS_acct,
				      SYS_mount,
				      SYS_setns,
				      SYS_unshare,
				      SYS_bpf,
				      SYS_io_uring_setup,
				      SYS_init_module,
				      SYS_kexec_load,
				      SYS_process_vm_writev,
				      SYS_pidfd_getfd,
				      SYS_setuid,
				      SYS_setresuid,
				      SYS_chroot,
				      SYS_keyctl,
				      SYS_userfaultfd,
				      SYS_personality,
				      SYS_linkat,
				      SYS_mknodat,
				      SYS_mmap,
				      SYS_mprotect,
				      SYS_socket,
				      SYS_clone,
				      435 /* clone3 */};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(in_both); i++) {
		assert_true(is_in(RIGHTS_DAEMON, in_both[i]));
		assert_true(is_in(RIGHTS_COMMAND, in_both[i]));
	}
	for (size_t i = 0; i < ARRAY_SIZE(command_only); i++) {
		assert_false(is_in(RIGHTS_DAEMON, command_only[i]));
		assert_true(is_in(RIGHTS_COMMAND, command_only[i]));
	}
	for (size_t i = 0; i < ARRAY_SIZE(in_none); i++) {
		assert_false(is_in(RIGHTS_DAEMON, in_none[i]));
		assert_false(is_in(RIGHTS_COMMAND, in_none[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ascending),
		cmocka_unit_test(test_members),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
