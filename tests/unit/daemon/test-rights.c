/* test-rights.c - what is left of rights, descriptors and system calls; each in a child. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/rights.h"
#include "tests/unit/cmocka.h"

#define EXPECT(ok)                                 \
	do {                                       \
		if (!(ok))                         \
			return __LINE__ % 200 + 1; \
	} while (0)

static void in_child(int (*body)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid)
		_exit(body());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0); /* else a line of this file, modulo 200, and 1 */
}

static int reduce(bool direct, const int *keep, size_t n)
{
	const struct rights_options o = {.direct = direct, .keep_fds = keep, .n_keep_fds = n};
	char error[256];

	return rights_reduce(&o, error, sizeof(error));
}

static int descriptors(void)
{
	int low = fcntl(0, F_DUPFD, 10), kept = fcntl(0, F_DUPFD, 20),
	    high = fcntl(0, F_DUPFD, 300);

	EXPECT(low >= 10 && kept > low && high >= 300);
	EXPECT(reduce(false, &kept, 1) == 0);
	EXPECT(fcntl(0, F_GETFD) >= 0 && fcntl(2, F_GETFD) >= 0 && fcntl(kept, F_GETFD) >= 0);
	EXPECT(fcntl(low, F_GETFD) < 0 && fcntl(high, F_GETFD) < 0);
	return 0;
}

static int two_descriptors(void)
{
	int keep[2] = {fcntl(0, F_DUPFD, 20), 0};

	int last;

	keep[1] = fcntl(0, F_DUPFD, keep[0]);
	last = fcntl(0, F_DUPFD, keep[1]);
	EXPECT(last > keep[1]);
	EXPECT(reduce(false, keep, 2) == 0);
	EXPECT(fcntl(keep[0], F_GETFD) >= 0 && fcntl(keep[1], F_GETFD) >= 0);
	EXPECT(fcntl(last, F_GETFD) < 0);
	return 0;
}

/* The last only where the limit of locked memory cannot be raised, as in many containers. */
static bool is_usual(const char *names)
{
	return !strcmp(names, "perfmon,kill,dac_read_search,syslog") ||
	       !strcmp(names, "perfmon,kill,dac_read_search,syslog,ipc_lock");
}

static int no_new_rights(void)
{
	char names[128];

	EXPECT(reduce(false, NULL, 0) == 0);
	EXPECT(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	rights_names(names, sizeof(names));
	EXPECT(!strstr(names, "sys_ptrace"));
	EXPECT(!rights_lend()); /* root's are root's own; a plain user has none */
	if (getuid() != 0)
		return 0;
	EXPECT(is_usual(names));
	EXPECT(prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN, 0, 0, 0) == 0);
	EXPECT(prctl(PR_CAPBSET_READ, CAP_KILL, 0, 0, 0) == 1);
	EXPECT(setuid(12345) < 0 && errno == EPERM);
	return 0;
}

static int direct(void)
{
	char names[128];

	EXPECT(reduce(true, NULL, 0) == 0);
	rights_names(names, sizeof(names));
	EXPECT(getuid() != 0 || strstr(names, ",sys_ptrace"));
	return 0;
}

static int user(void)
{
	const struct rights_options wrong = {.user = "no-such-user-here"};
	char error[256] = "";

	EXPECT(rights_reduce(&wrong, error, sizeof(error)) == -ESRCH);
	EXPECT(!strcmp(error, "--user: there is no user 'no-such-user-here'"));
	return 0;
}

static int another_user(void)
{
	const struct rights_options o = {.user = "nobody"};
	char error[256] = "", names[128];
	int r = rights_reduce(&o, error, sizeof(error));

	if (r == -ESRCH)
		return 0; /* a machine without */
	EXPECT(r == 0 && geteuid() != 0 && getuid() == geteuid());
	rights_names(names, sizeof(names));
	EXPECT(is_usual(names));
	EXPECT(rights_lend());
	return 0;
}

static void *thread(void *arg)
{
	(void)arg;
	return socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EPERM ? (void *)1 : NULL;
}

/* The daemon's own calls are shown to work by its tests, which all run under the filter. */
static int filter_of(bool told)
{
	char error[256], *const argv[] = {(char *)(uintptr_t) "true", NULL};
	pthread_t t;
	void *ok = NULL, *map;
	int fd;

	EXPECT(reduce(false, NULL, 0) == 0);
	if (told) { /* what it says is for people */
		fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
		EXPECT(dup2(fd, 2) == 2);
	}
	EXPECT(rights_filter(told, error, sizeof(error)) == 0);
	EXPECT(socket(AF_INET, SOCK_STREAM, 0) < 0 && errno == EPERM);
	EXPECT(socket(AF_NETLINK, SOCK_RAW, 0) < 0 && errno == EPERM);
	EXPECT(execve("/bin/true", argv, NULL) < 0 && errno == EPERM);
	EXPECT(syscall(SYS_ptrace, 0, 0, 0, 0) < 0 && errno == EPERM);
	EXPECT(rename("/nowhere-1", "/nowhere-2") < 0 && errno == EPERM);
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		   0);
	EXPECT(map == MAP_FAILED && errno == EPERM);
	map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT(map != MAP_FAILED);
	EXPECT(mprotect(map, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) < 0 && errno == EPERM);
	EXPECT(mprotect(map, 4096, PROT_READ | PROT_EXEC) == 0);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	EXPECT(fd >= 0);
	EXPECT(pthread_create(&t, NULL, thread, NULL) == 0 && pthread_join(t, &ok) == 0 && ok);
	return 0;
}

/* What modules' files are copied with for libunwind and libdw, and what libunwind itself begins with, while all signals
 * are blocked: a call that is told, not allowed, would end the process there. */
static int for_engines(void)
{
	unsigned char there;
	char error[256];
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to;
	void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigset_t all;

	EXPECT(from >= 0 && page != MAP_FAILED && sigfillset(&all) == 0);
	EXPECT(rights_filter(true, error, sizeof(error)) == 0);
	EXPECT(sigprocmask(SIG_SETMASK, &all, NULL) == 0);
	to = memfd_create("copy", MFD_CLOEXEC);
	EXPECT(to >= 0 && sendfile(to, from, NULL, 64) == 64);
	EXPECT(mincore(page, 4096, &there) == 0);
	return 0;
}

static int filter(void)
{
	return filter_of(false);
}

static int filter_told(void)
{
	return filter_of(true);
}

#define CHILD(name)                           \
	static void test_##name(void **state) \
	{                                     \
		(void)state;                  \
		in_child(name);               \
	}

/* A process and a thread may be made, a namespace not, nor what could hide its flags in memory. */
static int no_namespace(void)
{
	char error[256];
	long pid;

	EXPECT(rights_filter(false, error, sizeof(error)) == 0);
	EXPECT(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) < 0 && errno == EPERM);
	EXPECT(syscall(SYS_clone3, NULL, 0) < 0 && errno == ENOSYS);
	pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (!pid)
		_exit(0);
	EXPECT(pid > 0 && waitpid((pid_t)pid, NULL, 0) == pid);
	return 0;
}

CHILD(descriptors)
CHILD(no_namespace)
CHILD(two_descriptors)
CHILD(no_new_rights)
CHILD(direct)
CHILD(user)
CHILD(filter)
CHILD(filter_told)
CHILD(for_engines)

static void test_another_user(void **state)
{
	(void)state;
	if (getuid() != 0)
		skip();
	in_child(another_user);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_descriptors),   cmocka_unit_test(test_two_descriptors),
		cmocka_unit_test(test_no_new_rights), cmocka_unit_test(test_direct),
		cmocka_unit_test(test_user),	      cmocka_unit_test(test_another_user),
		cmocka_unit_test(test_filter),	      cmocka_unit_test(test_no_namespace),
		cmocka_unit_test(test_filter_told),   cmocka_unit_test(test_for_engines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
