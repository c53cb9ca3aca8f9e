/* fail-calls.h - a test program of which the n-th allocation or system call of one thread can be made to fail.  Included by
 * its one .c file.  The functions of libc are stood in for; other threads' calls do not count.  With a sanitizer, which has
 * an allocator of its own, allocations do not fail, and are not counted. */
#pragma once

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

static _Thread_local unsigned long calls_made, calls_fail_at; /* fail_at 0: none */
static bool
	calls_of_children; /* set by a test: calls of child processes fail, too, which are not counted here */
static bool
	calls_own; /* set by a test: allocations of libraries do not fail (libdw crashes without memory) */
static bool calls_of_libelf; /* the call that failed was an allocation of libelf */

extern const char __executable_start[], etext[]; /* the linker's: the program's text lies between */

/* From here on the @n-th call of this thread fails (0: none). */
static void calls_fail(unsigned long n)
{
	calls_made = 0;
	calls_fail_at = n;
}

/* Descriptors of this process. */
static size_t open_files(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		(void)closedir(dir);
	return n;
}

static _Atomic bool *calls_hit; /* of a child, too, a call has failed; NULL: not known */

static bool call_fails(void)
{
	bool fails = calls_fail_at && ++calls_made == calls_fail_at;

	if (fails && calls_hit)
		*calls_hit = true;
	return fails;
}

/* The next definition of @name, libc's. */
#define REAL(name) ((__typeof__(&(name)))(uintptr_t)dlsym(RTLD_NEXT, #name))
#define FAIL_CALL(error)                 \
	do {                             \
		if (call_fails()) {      \
			errno = (error); \
			return -1;       \
		}                        \
	} while (0)

/* @caller: the code that allocates.  libelf keeps a block where the second allocation of elf_memory() fails. */
__attribute__((unused)) static bool allocation_fails(const void *caller)
{
	unsigned long n = calls_fail_at;
	Dl_info info;

	if (calls_own &&
	    ((const char *)caller < __executable_start || (const char *)caller >= etext))
		return false;
	if (!call_fails())
		return false;
	calls_fail_at = 0;
	calls_of_libelf =
		dladdr(caller, &info) && info.dli_fname && strstr(info.dli_fname, "libelf");
	calls_fail_at = n;
	errno = ENOMEM; /* opendir() and others rely on it */
	return true;
}

#define MALLOC_RULE allocation_fails
#include "tests/unit/fail-malloc.h"
#if FAIL_MALLOC
#define CALLS_LEAST 1
void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
	if (call_fails()) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, at, len, prot, flags, fd, offset);
}
#else
#define CALLS_LEAST 0
static const long malloc_held; /* the sanitizer looks for leaks itself */
#endif

int eventfd(unsigned int count, int flags)
{
	FAIL_CALL(EMFILE);
	return REAL(eventfd)(count, flags);
}

int timerfd_create(int clock, int flags)
{
	FAIL_CALL(EMFILE);
	return REAL(timerfd_create)(clock, flags);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
	FAIL_CALL(ENOMEM);
	return REAL(timerfd_settime)(fd, flags, new, old);
}

/* As of a file of /proc; of a long one the beginning.  Timers and eventfds, of which 8 bytes are read, do not fail. */
ssize_t read(int fd, void *to, size_t len)
{
	static __typeof__(&read) _Atomic real; /* many small ones, of all threads */

	real = real ? real : REAL(read);
	if (calls_fail_at && len > sizeof(uint64_t) && lseek(fd, 0, SEEK_CUR) < 32768)
		FAIL_CALL(ENOMEM);
	return real(fd, to, len);
}

int setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	FAIL_CALL(ENOMEM);
	return REAL(setsockopt)(fd, level, name, value, len);
}

int epoll_create1(int flags)
{
	FAIL_CALL(EMFILE);
	return REAL(epoll_create1)(flags);
}

int signalfd(int fd, const sigset_t *mask, int flags)
{
	FAIL_CALL(EMFILE);
	return REAL(signalfd)(fd, mask, flags);
}

int connect(int fd, const struct sockaddr *address, socklen_t len)
{
	FAIL_CALL(ECONNREFUSED);
	return REAL(connect)(fd, address, len);
}

int epoll_ctl(int fd, int op, int of, struct epoll_event *event)
{
	if (op == EPOLL_CTL_ADD)
		FAIL_CALL(ENOSPC);
	return REAL(epoll_ctl)(fd, op, of, event);
}

int socketpair(int domain, int type, int protocol, int fds[2])
{
	FAIL_CALL(EMFILE);
	return REAL(socketpair)(domain, type, protocol, fds);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*body)(void *), void *arg)
{
	if (call_fails())
		return EAGAIN;
	return REAL(pthread_create)(thread, attr, body, arg);
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	FAIL_CALL(ENOMEM);
	return REAL(ioctl)(fd, request, arg);
}

enum { LANDLOCK_FIRST = 444, LANDLOCK_LAST = 446 };

/* Of system calls without a function in libc: perf_event_open(), bpf(), seccomp(), of Landlock, capset().  Reads more arguments than there may be. */
__attribute__((no_sanitize_address)) long syscall(long number, ...)
{
	long a[6];
	va_list ap;

	va_start(ap, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(ap, long);
	va_end(ap);
	if (number == SYS_perf_event_open || number == SYS_bpf)
		FAIL_CALL(EMFILE);
	if (number == SYS_seccomp || number == SYS_capset ||
	    (number >= LANDLOCK_FIRST && number <= LANDLOCK_LAST))
		FAIL_CALL(ENOMEM);
	return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int memfd_create(const char *name, unsigned int flags)
{
	FAIL_CALL(EMFILE);
	return REAL(memfd_create)(name, flags);
}

int ftruncate(int fd, off_t size)
{
	FAIL_CALL(ENOSPC);
	return REAL(ftruncate)(fd, size);
}

int pipe2(int fds[2], int flags)
{
	FAIL_CALL(EMFILE);
	return REAL(pipe2)(fds, flags);
}

int socket(int domain, int type, int protocol)
{
	FAIL_CALL(EMFILE);
	return REAL(socket)(domain, type, protocol);
}

static mode_t mode_of(int flags, va_list ap)
{
	return flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
	mode_t mode;
	va_list ap;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	FAIL_CALL(EMFILE);
	return REAL(open)(path, flags, mode);
}

int openat(int folder, const char *path, int flags, ...)
{
	mode_t mode;
	va_list ap;

	va_start(ap, flags);
	mode = mode_of(flags, ap);
	va_end(ap);
	FAIL_CALL(EMFILE);
	return REAL(openat)(folder, path, flags, mode);
}

int bind(int fd, const struct sockaddr *address, socklen_t len)
{
	FAIL_CALL(EADDRINUSE);
	return REAL(bind)(fd, address, len);
}

int listen(int fd, int backlog)
{
	FAIL_CALL(EADDRINUSE);
	return REAL(listen)(fd, backlog);
}

int fcntl(int fd, int command, ...)
{
	va_list ap;
	void *arg;

	va_start(ap, command);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (command == F_DUPFD_CLOEXEC)
		FAIL_CALL(EMFILE);
	return REAL(fcntl)(fd, command, arg);
}

/* A lookup fails as a whole: glibc's getgrnam() crashes without memory. */
#define FAIL_LOOKUP(type, name, key)             \
	struct type *name(key of)                \
	{                                        \
		unsigned long n = calls_fail_at; \
		struct type *entry;              \
                                                 \
		if (call_fails()) {              \
			errno = EMFILE;          \
			return NULL;             \
		}                                \
		calls_fail_at = 0;               \
		entry = REAL(name)(of);          \
		calls_fail_at = n;               \
		return entry;                    \
	}
FAIL_LOOKUP(passwd, getpwnam, const char *)
FAIL_LOOKUP(passwd, getpwuid, uid_t)
FAIL_LOOKUP(group, getgrnam, const char *)

pid_t fork(void)
{
	FAIL_CALL(EAGAIN);
	return REAL(fork)();
}

/* Makes an object again and again, of which the 1st, 2nd, 3rd ... call fails, until none does.  @make: < 0 and nothing is left of
 * it, or the object is there, and @end ends it. */
struct calls_made {
	const char *name;
	int (*make)(void *arg);
	void (*end)(void *arg);
	void *arg;
};
enum { CALLS_MOST = 20000 };

__attribute__((unused)) static void calls_sweep(const struct calls_made *of)
{
	unsigned long n = 1;
	bool reached = true;
	size_t files;
	long held;

	if (calls_of_children && !calls_hit)
		calls_hit = (void *)syscall(SYS_mmap, NULL, 4096, PROT_READ | PROT_WRITE,
					    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 2; i++) { /* what libraries keep they keep from now on */
		assert_true(of->make(of->arg) >= 0);
		of->end(of->arg);
	}
	files = open_files();
	held = malloc_held;
	for (; reached && n < CALLS_MOST; n++) {
		int r;

		if (calls_hit)
			*calls_hit = false;
		calls_fail(n);
		r = of->make(of->arg);
		reached = calls_made >= n || (calls_of_children && (r < 0 || *calls_hit));
		calls_fail(0);
		if (r >= 0)
			of->end(of->arg);
		if (calls_of_libelf && malloc_held - held <= 1)
			held = malloc_held;
		calls_of_libelf = false;
		if (open_files() != files || malloc_held != held || (r < 0 && !reached))
			fail_msg("%s, call %lu: %d, %zu descriptors, before %zu; %ld blocks, %ld",
				 of->name, n, r, open_files(), files, malloc_held, held);
	}
	print_message("%s: %lu calls\n", of->name, n - 2);
	assert_true(n >= 2 + CALLS_LEAST && n < CALLS_MOST);
}

/* Children that were killed, and are not waited for, end soon. */
__attribute__((unused)) static void no_child_is_left(void)
{
	int tries = 0;

	while (waitpid(-1, NULL, WNOHANG) >= 0 && tries++ < 1000)
		(void)usleep(10000);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}
