/* test-rights-calls.c - the lists: their order, and what is in each and what in none. */
#include <sys/syscall.h>

#include "session/rights-filter.h"
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
	for (enum rights_list list = RIGHTS_DAEMON; list <= RIGHTS_GIVEN; list++) {
		size_t n = rights_calls(list, calls);

		assert_true(n > (list < RIGHTS_ACCEPT ? 100 : 30) && n < RIGHTS_CALLS);
		assert_true(calls[0] >= 0);
		for (size_t i = 1; i < n; i++)
			assert_true(calls[i - 1] < calls[i]);
		assert_true(calls[n - 1] <= RIGHTS_NEWEST);
	}
}

static void test_members(void **state)
{
	static const int in_both[] = {SYS_read,	 SYS_openat2,  SYS_perf_event_open, SYS_futex,
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
				      SYS_openat,
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

/* What a helper process may do, its maker may; a call that no process needs is permitted to none, whatever the arguments. */
static void test_helpers(void **state)
{
	static const int in_none[] = {SYS_unlinkat,
				      SYS_fchmod,
				      SYS_fchmodat,
				      SYS_mkdirat,
				      SYS_renameat,
				      SYS_ftruncate,
				      SYS_perf_event_open,
				      SYS_socket,
				      SYS_connect,
				      SYS_bind,
				      SYS_listen,
				      SYS_tgkill,
				      SYS_rt_sigqueueinfo,
				      SYS_process_vm_readv,
				      SYS_setpriority,
				      SYS_fcntl,
				      SYS_ioctl,
				      SYS_prlimit64,
				      SYS_sched_setscheduler,
				      SYS_pidfd_send_signal};
	static const int by_name[] = {SYS_openat2, SYS_readlinkat, SYS_getdents64, SYS_prctl,
				      SYS_capset,  SYS_setfsuid,   SYS_statfs};
	static const int of_children[] = {SYS_kill, SYS_socketpair, SYS_wait4, SYS_accept4};
	int calls[RIGHTS_CALLS];

	(void)state;
	for (enum rights_list list = RIGHTS_ACCEPT; list <= RIGHTS_GIVEN; list++) {
		size_t n = rights_calls(list, calls);

		for (size_t i = 0; i < n; i++)
			assert_true(is_in(RIGHTS_COMMAND, calls[i]));
		for (size_t i = 0; i < ARRAY_SIZE(in_none); i++)
			assert_false(is_in(list, in_none[i]));
		for (size_t i = 0; i < ARRAY_SIZE(by_name); i++)
			assert_int_equal(is_in(list, by_name[i]), list != RIGHTS_GIVEN);
		for (size_t i = 0; i < ARRAY_SIZE(of_children); i++)
			assert_int_equal(is_in(list, of_children[i]), list == RIGHTS_ACCEPT);
		assert_true(is_in(list, SYS_pread64) && is_in(list, SYS_recvmsg));
	}
}

/* What loads BPF programs changes nothing else: no call that another helper process lacks but these. */
static void test_bpf(void **state)
{
	static const int more[] = {
		SYS_bpf,
		SYS_memfd_create,
		SYS_dup3,
		SYS_faccessat,
		SYS_faccessat2,
		SYS_uname,
#if defined(__x86_64__)
		SYS_access,
		SYS_dup2
#endif
	};
	int calls[RIGHTS_CALLS];
	size_t n = rights_calls(RIGHTS_BPF, calls), n_more = 0;

	(void)state;
	for (size_t i = 0; i < n; i++)
		n_more += !is_in(RIGHTS_GIVEN, calls[i]);
	assert_int_equal(n_more, ARRAY_SIZE(more));
	for (size_t i = 0; i < ARRAY_SIZE(more); i++)
		assert_true(is_in(RIGHTS_BPF, more[i]) && !is_in(RIGHTS_GIVEN, more[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ascending),
		cmocka_unit_test(test_members),
		cmocka_unit_test(test_helpers),
		cmocka_unit_test(test_bpf),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
