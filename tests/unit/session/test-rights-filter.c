/* test-rights-filter.c - the filter: its program, walked as the kernel does; and what it does to a child. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/child.h"
#include "proc/procfs.h"
#include "session/rights-filter.h"
#include "tests/unit/session/rights-fixture.h"

/* ---- the program ---- */

#if defined(__aarch64__)
#define MACHINE AUDIT_ARCH_AARCH64
#else
#define MACHINE AUDIT_ARCH_X86_64
#endif

enum { REFUSED = SECCOMP_RET_ERRNO | EPERM, UNKNOWN = SECCOMP_RET_ERRNO | ENOSYS };

/* As Documentation/networking/filter.rst has the machine; what it has not, and a jump past the end, fail the test. */
static uint32_t walk(const struct sock_filter *code, size_t n, const struct seccomp_data *data)
{
	uint32_t a = 0;

	for (size_t pc = 0; pc < n; pc++) {
		const struct sock_filter *i = &code[pc];
		bool is = false;

		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			assert_true(i->k % 4 == 0 && i->k <= sizeof(*data) - 4);
			memcpy(&a, (const char *)data + i->k, 4);
			continue;
		case BPF_ALU | BPF_AND | BPF_K:
			a &= i->k;
			continue;
		case BPF_RET | BPF_K:
			return i->k;
		case BPF_JMP | BPF_JA:
			pc += i->k;
			continue;
		case BPF_JMP | BPF_JEQ | BPF_K:
			is = a == i->k;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			is = a >= i->k;
			break;
		case BPF_JMP | BPF_JGT | BPF_K:
			is = a > i->k;
			break;
		case BPF_JMP | BPF_JSET | BPF_K:
			is = (a & i->k) != 0;
			break;
		default:
			fail_msg("instruction %zu is %x", pc, i->code);
		}
		pc += is ? i->jt : i->jf;
	}
	fail_msg("past the end");
	return 0;
}

static struct rights_program listed, absent, tried;

static void make(enum rights_list list, uint32_t otherwise)
{
	assert_int_equal(rights_listed(list, otherwise, &listed), 0);
	assert_int_equal(rights_absent(&absent), 0);
	assert_int_equal(rights_tried(list, &tried), 0);
}

/* The filters as the kernel takes them: at most one does not allow.  What libraries try is refused by the one of
 * which the kernel logs nothing. */
static uint32_t answer_of(int call, uint64_t first, uint64_t second, uint64_t third)
{
	const struct seccomp_data data = {
		.nr = call, .arch = MACHINE, .args = {first, second, third}};
	uint32_t answer = walk(listed.code, listed.n, &data),
		 exists = walk(absent.code, absent.n, &data),
		 quiet = tried.n ? walk(tried.code, tried.n, &data) : SECCOMP_RET_ALLOW;

	assert_true((answer != SECCOMP_RET_ALLOW) + (exists != SECCOMP_RET_ALLOW) +
			    (quiet != SECCOMP_RET_ALLOW) <=
		    1);
	return quiet != SECCOMP_RET_ALLOW ? quiet : exists == SECCOMP_RET_ALLOW ? answer : exists;
}

static uint32_t answer(int call, uint64_t first, uint64_t third)
{
	return answer_of(call, first, 0, third);
}

#if defined(SYS_readlink)
static const int old_readlink = SYS_readlink;
#else
static const int old_readlink = -1;
#endif

/* Each number: numbers of the list, numbers that are decided by an argument, unknown numbers, the rest. */
static void test_numbers(void **state)
{
	(void)state;
	for (enum rights_list list = RIGHTS_DAEMON; list <= RIGHTS_GIVEN; list++) {
		int calls[RIGHTS_CALLS];
		size_t n = rights_calls(list, calls), next = 0;

		make(list, REFUSED);
		for (int call = 0; call < 2048; call++) {
			bool is_listed = next < n && calls[next] == call;
			uint32_t wanted = is_listed			   ? SECCOMP_RET_ALLOW
					  : call == 435			   ? UNKNOWN
					  : call > 462 && call <= 462 + 64 ? UNKNOWN
									   : REFUSED;

			next += is_listed;
			if (call == SYS_mmap || call == SYS_mprotect ||
			    (call == SYS_clone && list <= RIGHTS_ACCEPT) ||
			    (call == SYS_openat && list != RIGHTS_GIVEN) ||
			    (call == SYS_prlimit64 && list != RIGHTS_GIVEN) ||
			    (call == SYS_sched_setscheduler && list == RIGHTS_ACCEPT) ||
			    (call == SYS_pidfd_send_signal && list == RIGHTS_ACCEPT) ||
			    (call == SYS_setpriority && list >= RIGHTS_OPEN))
				wanted = SECCOMP_RET_ALLOW;
			if (list == RIGHTS_GIVEN &&
			    (call == SYS_readlinkat || call == old_readlink))
				wanted = SECCOMP_RET_ERRNO | EACCES;
			assert_int_equal(answer(call, 0, 0), wanted);
		}
		assert_int_equal(answer(-1, 0, 0), REFUSED);
	}
}

static void test_arguments(void **state)
{
	static const int maps[] = {SYS_mmap, SYS_mprotect};

	(void)state;
	make(RIGHTS_DAEMON, REFUSED);
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		assert_int_equal(answer(maps[i], 0, PROT_READ | PROT_WRITE), SECCOMP_RET_ALLOW);
		assert_int_equal(answer(maps[i], 0, PROT_READ), SECCOMP_RET_ALLOW);
		assert_int_equal(answer(maps[i], 0, PROT_READ | PROT_EXEC), REFUSED);
		assert_int_equal(answer(maps[i], 0, PROT_EXEC), REFUSED);
		assert_int_equal(answer(maps[i], 0, PROT_WRITE | PROT_EXEC), REFUSED);
		assert_int_equal(answer(maps[i], 0, ~0ull), REFUSED);
	}
	assert_int_equal(answer(SYS_socket, AF_UNIX, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(answer(SYS_socket, AF_INET, 0), REFUSED);
	/* the kernel takes the lower half */
	assert_int_equal(answer(SYS_socket, 1ull << 32 | AF_INET6, 0), REFUSED);
	assert_int_equal(answer(SYS_clone, CLONE_VM | CLONE_THREAD, 0), SECCOMP_RET_ALLOW);
	assert_int_equal(answer(SYS_clone, CLONE_VM | CLONE_NEWUSER, 0), REFUSED);
	assert_int_equal(answer(SYS_clone, CLONE_NEWNET, 0), REFUSED);
}

/* The flags of openat() are its third argument. */
static void test_opening(void **state)
{
	static const uint64_t writing[] = {
		O_WRONLY, O_RDWR, O_RDONLY | O_CREAT, O_RDONLY | O_TRUNC, O_WRONLY | O_TMPFILE,
		~0ull};
	const uint64_t reading = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW;

	(void)state;
	for (enum rights_list list = RIGHTS_DAEMON; list <= RIGHTS_GIVEN; list++) {
		uint32_t for_writing = list == RIGHTS_COMMAND ? SECCOMP_RET_ALLOW : REFUSED;

		make(list, REFUSED);
		for (size_t i = 0; i < ARRAY_SIZE(writing); i++)
			assert_int_equal(answer(SYS_openat, 0, writing[i]), for_writing);
		assert_int_equal(answer(SYS_openat, 0, reading),
				 list == RIGHTS_GIVEN ? REFUSED : SECCOMP_RET_ALLOW);
		/* As malloc() opens a file. */
		assert_int_equal(answer(SYS_openat, 0, O_RDONLY | O_CLOEXEC),
				 list == RIGHTS_GIVEN ? SECCOMP_RET_ERRNO | EACCES
						      : SECCOMP_RET_ALLOW);
		assert_int_equal(answer(SYS_openat, 0, O_PATH | O_DIRECTORY),
				 list == RIGHTS_GIVEN ? REFUSED : SECCOMP_RET_ALLOW);
	}
}

/* A helper process changes no other process and sends no signal by a descriptor's owner (F_SETOWN), and types nothing into a
 * terminal. */
static void test_of_others(void **state)
{
	const uint64_t another = 1;

	(void)state;
	for (enum rights_list list = RIGHTS_ACCEPT; list <= RIGHTS_GIVEN; list++) {
		uint32_t not_given = list == RIGHTS_GIVEN ? REFUSED : SECCOMP_RET_ALLOW;

		make(list, REFUSED);
		assert_int_equal(answer(SYS_prlimit64, another, 0), REFUSED);
		assert_int_equal(answer(SYS_sched_setscheduler, another, 0), REFUSED);
		assert_int_equal(answer_of(SYS_pidfd_send_signal, 5, SIGKILL, 0), REFUSED);
		assert_int_equal(answer_of(SYS_fcntl, 5, F_GETFL, 0), SECCOMP_RET_ALLOW);
		assert_int_equal(answer_of(SYS_fcntl, 5, F_DUPFD_CLOEXEC, 3), SECCOMP_RET_ALLOW);
		assert_int_equal(answer_of(SYS_fcntl, 5, F_SETOWN, 1), REFUSED);
		assert_int_equal(answer_of(SYS_fcntl, 5, F_SETOWN_EX, 1), REFUSED);
		assert_int_equal(answer_of(SYS_fcntl, 5, F_SETSIG, SIGKILL), REFUSED);
		assert_int_equal(answer_of(SYS_fcntl, 5, F_SETFL, O_ASYNC), REFUSED);
		assert_int_equal(answer_of(SYS_ioctl, 5, FIONREAD, 0), not_given);
		assert_int_equal(answer_of(SYS_ioctl, 5, PROCFS_QUERY, 0), not_given);
		assert_int_equal(answer_of(SYS_ioctl, 5, TIOCSTI, 0), REFUSED);
		if (list == RIGHTS_ACCEPT)
			continue;
		assert_int_equal(answer_of(SYS_setpriority, PRIO_PROCESS, 0, 5), SECCOMP_RET_ALLOW);
		assert_int_equal(answer_of(SYS_setpriority, PRIO_PROCESS, another, 5), REFUSED);
		assert_int_equal(answer_of(SYS_setpriority, PRIO_USER, 0, 5), REFUSED);
	}
	/* Nor does a main process change another's limits. */
	make(RIGHTS_DAEMON, REFUSED);
	assert_int_equal(answer(SYS_prlimit64, another, 0), REFUSED);
}

/* A user that root's helper processes become: that one, and by a command's alone. */
static void test_becoming(void **state)
{
	static const int calls[] = {SYS_setresuid, SYS_setresgid};

	(void)state;
	for (enum rights_list list = RIGHTS_DAEMON; list <= RIGHTS_GIVEN; list++) {
		make(list, REFUSED);
		for (size_t i = 0; i < ARRAY_SIZE(calls); i++) {
			struct seccomp_data data = {
				.nr = calls[i],
				.arch = MACHINE,
				.args = {CHILD_USER, CHILD_USER, CHILD_USER},
			};

			assert_int_equal(walk(listed.code, listed.n, &data),
					 list == RIGHTS_COMMAND ? SECCOMP_RET_ALLOW : REFUSED);
			data.args[2] = 0;
			assert_int_equal(walk(listed.code, listed.n, &data), REFUSED);
		}
	}
}

static void test_machine(void **state)
{
	const struct seccomp_data data = {.nr = SYS_read, .arch = AUDIT_ARCH_I386};

	(void)state;
	make(RIGHTS_COMMAND, REFUSED);
	assert_int_equal(walk(listed.code, listed.n, &data), SECCOMP_RET_KILL_PROCESS);
	assert_int_equal(walk(absent.code, absent.n, &data), SECCOMP_RET_KILL_PROCESS);
#if defined(__x86_64__)
	const struct seccomp_data x32 = {.nr = SYS_read | 0x40000000, .arch = MACHINE};

	assert_int_equal(walk(listed.code, listed.n, &x32), SECCOMP_RET_KILL_PROCESS);
#endif
}

/* What is refused ends as it was asked for, and nothing else does. */
static void test_otherwise(void **state)
{
	(void)state;
	make(RIGHTS_COMMAND, SECCOMP_RET_TRAP);
	assert_int_equal(answer(SYS_execve, 0, 0), SECCOMP_RET_TRAP);
	assert_int_equal(answer(SYS_mmap, 0, PROT_WRITE | PROT_EXEC), SECCOMP_RET_TRAP);
	assert_int_equal(answer(435, 0, 0), UNKNOWN);
	assert_int_equal(answer(SYS_read, 0, 0), SECCOMP_RET_ALLOW);
}

/* ---- the kernel ---- */

static bool filter(enum rights_list list, bool reported)
{
	char error[256];

	return rights_filter(list, reported, error, sizeof(error)) == 0;
}

static void *thread(void *arg)
{
	(void)arg;
	return socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EPERM ? (void *)1 : NULL;
}

/* The own calls are shown to work by the integration tests, which all run under the filter. */
static int filtered(enum rights_list list, bool reported)
{
	char *const argv[] = {(char *)(uintptr_t) "true", NULL};
	pthread_t t;
	void *ok = NULL, *map;
	int fd;

	if (reported) { /* its text is for people */
		fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
		EXPECT(dup2(fd, 2) == 2);
	}
	EXPECT(filter(list, reported));
	EXPECT(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	EXPECT(socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EPERM);
	EXPECT(socket(AF_NETLINK, SOCK_RAW, 0) < 0 && errno == EPERM);
	EXPECT(execve("/bin/true", argv, NULL) < 0 && errno == EPERM);
#if !defined(__SANITIZE_ADDRESS__)
	EXPECT(syscall(SYS_ptrace, 0, 0, 0, 0) < 0 && errno == EPERM);
#endif
	EXPECT(chroot("/") < 0 && errno == EPERM);
	EXPECT(rename("/nowhere-1", "/nowhere-2") < 0 &&
	       errno == (list == RIGHTS_COMMAND ? ENOENT : EPERM));
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		   0);
	EXPECT(map == MAP_FAILED && errno == EPERM);
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT(map != MAP_FAILED);
	EXPECT(mprotect(map, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) < 0 && errno == EPERM);
	EXPECT(mprotect(map, 4096, PROT_READ | PROT_EXEC) < 0 && errno == EPERM);
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	EXPECT(fd >= 0);
	EXPECT(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED &&
	       errno == EPERM);
	fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	EXPECT(list == RIGHTS_COMMAND ? fd >= 0 : fd < 0 && errno == EPERM);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	EXPECT(fd >= 0);
	EXPECT(pthread_create(&t, NULL, thread, NULL) == 0 && pthread_join(t, &ok) == 0 && ok);
	return 0;
}

static int daemons(void)
{
	return filtered(RIGHTS_DAEMON, false);
}

static int daemons_reported(void)
{
	return filtered(RIGHTS_DAEMON, true);
}

static int commands(void)
{
	return filtered(RIGHTS_COMMAND, false);
}

/* What modules' files are copied with for libunwind and libdw, and what libunwind itself begins with, while all signals
 * are blocked: a call that is logged, not allowed, would end the process there. */
static int for_engines(void)
{
	unsigned char there;
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to;
	void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigset_t all;

	EXPECT(from >= 0 && page != MAP_FAILED && sigfillset(&all) == 0);
	EXPECT(filter(RIGHTS_DAEMON, true));
	EXPECT(sigprocmask(SIG_SETMASK, &all, NULL) == 0);
	to = memfd_create("copy", MFD_CLOEXEC);
	EXPECT(to >= 0 && sendfile(to, from, NULL, 64) == 64);
	EXPECT(mincore(page, 4096, &there) == 0);
	return 0;
}

/* A process and a thread may be made, a namespace not, nor what could hide its flags in memory. */
static int no_namespace(void)
{
	long pid;

	EXPECT(filter(RIGHTS_DAEMON, false));
	EXPECT(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) < 0 && errno == EPERM);
	EXPECT(syscall(SYS_clone3, NULL, 0) < 0 && errno == ENOSYS);
	pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (!pid)
		_exit(0);
	EXPECT(pid > 0 && waitpid((pid_t)pid, NULL, 0) == pid);
	return 0;
}

/* A call that a libc tries first, and one of a kernel to come. */
static int unknown(void)
{
	EXPECT(filter(RIGHTS_COMMAND, false));
	EXPECT(syscall(463, 0, 0, 0, 0, 0, 0) < 0 && errno == ENOSYS);
	EXPECT(syscall(520) < 0 && errno == ENOSYS);
	EXPECT(syscall(600) < 0 && errno == EPERM);
	return 0;
}

/* What a helper process of each kind may do of what a taken over one would. */
struct tried {
	enum child_calls calls;
	bool opens, is_parent;
};

static void try_all(void *arg)
{
	const struct tried *t = arg;
	int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);

	if ((fd >= 0) != t->opens || (fd < 0 && errno != EACCES)) /* refused without a report */
		_exit(2);
	if (open("/dev/null", O_RDWR | O_CLOEXEC) >= 0 || errno != EPERM)
		_exit(3);
	if (t->is_parent ? kill(getpid(), 0) < 0 : kill(getpid(), 0) == 0 || errno != EPERM)
		_exit(4);
	if (unlink("/nowhere") == 0 || errno != EPERM || chmod("/nowhere", 0) == 0 ||
	    errno != EPERM)
		_exit(5);
	if (socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || errno != EPERM)
		_exit(6);
	if (mmap(NULL, 4096, PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
		_exit(7);
	/* by a descriptor of its own, and by a limit */
	if (fcntl(STDIN_FILENO, F_SETOWN, 1) == 0 || errno != EPERM)
		_exit(8);
	if (prlimit(1, RLIMIT_CPU, NULL, NULL) == 0 || errno != EPERM)
		_exit(9);
}

static int children(void)
{
	static const struct tried kinds[] = {
		{CHILD_CALLS_ACCEPT, true, true},
		{CHILD_CALLS_OPEN, true, false},
		{CHILD_CALLS_GIVEN, false, false},
		{CHILD_CALLS_BPF, true, false},
	};

	EXPECT(filter(RIGHTS_COMMAND, false));
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const struct child c = {.name = "tried",
					.keep = {-1, -1},
					.calls = kinds[i].calls,
					.run = try_all,
					.arg = (void *)(uintptr_t)&kinds[i]};
		int status;
		pid_t pid;

		EXPECT(child_start(&c, &pid) == 0 && waitpid(pid, &status, 0) == pid);
		EXPECT(status == 0);
	}
	return 0;
}

static void make_a_refused_call(void *arg)
{
	(void)arg;
	(void)syscall(SYS_acct, NULL);
}

/* Of the process and of one that it makes, which has no standard error; neither dies. */
static int reported_in_a_file(void)
{
	/* Also where Landlock would not let it open the file. */
	struct child c = {.name = "reported",
			  .keep = {-1, -1},
			  .calls = CHILD_CALLS_GIVEN,
			  .run = make_a_refused_call};
	char path[] = "/tmp/test-rights-XXXXXX", is[256] = "", wanted[256];
	int fd = mkstemp(path), status;
	pid_t pid;

	EXPECT(fd >= 0 && setenv("PERFWIND_REFUSED", path, 1) == 0);
	child_landlock(syscall(444, NULL, 0, 1) > 0); /* landlock_create_ruleset: the version */
	EXPECT(filter(RIGHTS_COMMAND, false));
	EXPECT(chroot("/") < 0 && errno == EPERM);
	EXPECT(child_start(&c, &pid) == 0 && waitpid(pid, &status, 0) == pid && status == 0);
	EXPECT(read(fd, is, sizeof(is) - 1) > 0 && unlink(path) == 0);
	(void)snprintf(wanted, sizeof(wanted),
		       "perfwind: the filter refuses system call %d\n"
		       "perfwind: the filter refuses system call %d\n",
		       SYS_chroot, SYS_acct);
	EXPECT(!strcmp(is, wanted));
	return 0;
}

CHILD(daemons)
CHILD(daemons_reported)
CHILD(commands)
CHILD(for_engines)
CHILD(no_namespace)
CHILD(unknown)
CHILD(children)
CHILD(reported_in_a_file)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_machine),
		cmocka_unit_test(test_otherwise),
		cmocka_unit_test(test_opening),
		cmocka_unit_test(test_becoming),
		cmocka_unit_test(test_of_others),
		cmocka_unit_test(test_children),
		cmocka_unit_test(test_daemons),
		cmocka_unit_test(test_daemons_reported),
		cmocka_unit_test(test_commands),
		cmocka_unit_test(test_for_engines),
		cmocka_unit_test(test_no_namespace),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_reported_in_a_file),
	};

	(void)unsetenv("PERFWIND_REFUSED");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
