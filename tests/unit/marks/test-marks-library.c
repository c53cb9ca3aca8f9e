/* test-marks-library.c - the library inside a target, with system calls that are watched: a child of fork() takes a ring of its
 * own, a ring goes to no stranger, and each system call fails once. */
#include <stdio.h>
#include <sys/wait.h>

#include "libmarks/marks.c"
#include "base/fd-message.h"
#include "tests/unit/cmocka.h"

static struct {
	int probe[2];	       /* a pipe: a write to it from memory that is not there fails */
	const void *readable;  /* after each system call, and at its begin */
	uint32_t calls, holes; /* seen while readable is set */
	uid_t peer;	       /* of SO_PEERCRED; (uid_t)-1: the kernel's answer */
	int device_of;	       /* a descriptor with another st_dev; -1: none */
	int closed;	       /* the last descriptor that was closed */
	int sent;	       /* messages */
	int made, fail_at;     /* system calls; the one that fails with -ENOMEM, 0: none */
} watch = {.peer = (uid_t)-1, .device_of = -1, .probe = {-1, -1}};

static bool is_readable(const void *at)
{
	char byte;

	return write(watch.probe[1], at, 1) == 1 && read(watch.probe[0], &byte, 1) == 1;
}

static bool can_fail(long n)
{
	return n != SYS_close && n != SYS_munmap && n != SYS_getpid && n != SYS_gettid &&
	       n != SYS_geteuid;
}

long hook_syscall(long n, long a, long b, long c, long d, long e, long f)
{
	int was = errno;
	long r;

	if (watch.fail_at && can_fail(n) && ++watch.made == watch.fail_at)
		return -ENOMEM;
	r = syscall(n, a, b, c, d, e, f);
	r = r == -1 ? -errno : r;
	errno = was;
	if (n == SYS_getsockopt && c == SO_PEERCRED && watch.peer != (uid_t)-1)
		((struct ucred *)d)->uid = watch.peer;
	if (n == SYS_fstat && a == watch.device_of)
		((struct stat *)b)->st_dev++;
	if (n == SYS_close)
		watch.closed = (int)a;
	watch.sent += n == SYS_sendmsg && r == 1;
	if (watch.readable) {
		watch.calls++;
		watch.holes += !is_readable(watch.readable);
	}
	return r;
}

void functions_begin(void)
{
}

/* A recording's socket, in @address too.  Its backlog takes one connection. */
static int new_listener(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t len = sizeof(address);

	/* The kernel chooses the name. */
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(fd, 0), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	memset(marks_head->socket, 0, MARKS_SOCKET_MAX);
	marks_head->socket[0] = '@';
	memcpy(marks_head->socket + 1, address.sun_path + 1,
	       len - offsetof(struct sockaddr_un, sun_path) - 1);
	return fd;
}

/* As a recording invites, for an hour. */
static void invite(void)
{
	marks_head->clock = CLOCK_MONOTONIC;
	marks_head->until = now(CLOCK_MONOTONIC) + 3600ull * 1000000000u;
	marks_head->invitation++;
	marks_head->mask = 1;
}

static void mark(void)
{
	perfwind_marks_calls_1.put(MARKS_INSTANT, 1, "name", 4, 0);
}

/* The rings that came to @listener; the first one is in *ret_fd where it is not NULL. */
static int received(int listener, int *ret_fd)
{
	int n = 0, fd;

	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
		struct fd_message m;
		char data[2];

		if (fd_message_receive(fd, data, sizeof(data), FD_MESSAGE_MAX, MSG_DONTWAIT, &m) ==
		    1) {
			assert_int_equal(m.n, 1);
			if (ret_fd && !n)
				*ret_fd = m.fds[0];
			else
				(void)close(m.fds[0]);
			n++;
		}
		(void)close(fd);
	}
	return n;
}

static void only_the_user_and_root(void **state)
{
	int listener = new_listener();

	(void)state;
	for (int i = 0; i < 3; i++) {
		static const uid_t strangers[] = {12345, (uid_t)-2, 65533};

		watch.peer = strangers[i];
		invite();
		mark();
		assert_int_equal(watch.sent, 0);
		assert_int_equal(received(listener, NULL), 0);
		assert_int_equal(marks_head->mask,
				 0); /* no further attempt, until an invitation comes */
	}
	watch.peer = geteuid();
	invite();
	mark();
	assert_int_equal(received(listener, NULL), 1);
	watch.peer = 0;
	invite();
	mark();
	assert_int_equal(received(listener, NULL), 1);
	watch.peer = (uid_t)-1; /* the kernel's: this user listens */
	invite();
	mark();
	assert_int_equal(received(listener, NULL), 1);
	assert_int_equal(watch.sent, 3);
	(void)close(listener);
}

/* At the start of a program: its ring goes to a recording of all processes, of root or of its user. */
static void hello(void **state)
{
	/* No user has this number: no other test or recording is disturbed. */
	uint32_t uid = 0x80000000u | (uint32_t)getpid();
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int n = snprintf(address.sun_path, sizeof(address.sun_path), MARKS_ALL_SOCKET "%08x", uid);
	int ring = -1;

	(void)state;
	address.sun_path[0] = 0;
	watch.sent = 0;
	send_hello(uid); /* none is there */
	assert_int_equal(bind(listener, (struct sockaddr *)&address,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)n)),
			 0);
	assert_int_equal(listen(listener, 4), 0);
	watch.peer = 12345;
	send_hello(uid);
	assert_int_equal(received(listener, NULL), 0);
	watch.peer = 0;
	send_hello(uid);
	watch.peer = (uid_t)-1;
	assert_int_equal(received(listener, &ring), 1);
	assert_true(is_file(ring, ring_file));
	assert_int_equal(watch.sent, 1);
	(void)close(ring);
	(void)close(listener);
}

/* Another user's connections fill the backlog: attempts end, and the next invitation begins with as many. */
static void full_backlog(void **state)
{
	struct sockaddr_un address;
	int listener = new_listener(), other = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	unsigned len = address_of(marks_head->socket, &address);

	(void)state;
	watch.sent = 0;
	assert_int_equal(connect(other, (struct sockaddr *)&address, len), 0);
	for (int round = 0; round < 2; round++) {
		int attempts = 0;

		invite();
		for (; marks_head->mask; attempts++) {
			mark();
			assert_true(attempts <= TRIES);
		}
		assert_int_equal(attempts, TRIES + 1);
	}
	assert_int_equal(watch.sent, 0);
	(void)close(other);
	(void)close(listener);
}

/* The program has put another file where the ring's descriptor was: of the same number, on another device. */
static void another_device(void **state)
{
	int listener = new_listener();

	(void)state;
	watch.device_of = ring_fd;
	invite();
	mark();
	assert_int_equal(received(listener, NULL), 0);
	assert_int_equal(marks_head->mask, 0);
	watch.device_of = -1;
	invite();
	mark();
	assert_int_equal(received(listener, NULL), 1);
	(void)close(listener);
}

#define OR_EXIT(ok)                            \
	do {                                   \
		if (!(ok))                     \
			_exit(__LINE__ % 256); \
	} while (0)

/* In the child of fork(), which was made at any time, also in a handler that interrupted a mark. */
static void in_child(bool other_device)
{
	int old = ring_fd;
	struct marks_head before = *marks_head;

	if (other_device)
		watch.device_of = ring_fd;
	watch.closed = -1;
	watch.calls = watch.holes = 0;
	watch.readable = marks_head; /* other threads of the child read it at any time */
	mark();
	watch.readable = NULL;
	OR_EXIT(watch.calls > 5 && !watch.holes);
	OR_EXIT(ring_fd != old && marks_head->pid == (uint32_t)getpid());
	OR_EXIT(!strcmp(marks_head->socket, before.socket) && marks_head->mask == 1);
	/* A file that is not the ring keeps its descriptor. */
	OR_EXIT((fcntl(old, F_GETFD) >= 0) == other_device);
	_exit(0);
}

static void child(void **state)
{
	int listener = new_listener(), ring = -1;

	(void)state;
	invite();
	mark();
	assert_int_equal(received(listener, NULL), 1);
	assert_non_null(own.slot);
	for (int i = 0; i < 2; i++) {
		int status;
		pid_t pid = fork();

		if (!pid)
			in_child(i);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		assert_int_equal(received(listener, &ring), 1);
		assert_false(is_file(ring, ring_file));
		(void)close(ring);
	}
	/* The parent's ring is as it was. */
	mark();
	assert_int_equal(marks_head->pid, getpid());
	(void)close(listener);
}

/* The handler that forked returns into a mark that was half written: its memory is there. */
static void child_of_a_handler(void **state)
{
	int listener = new_listener(), status;
	pid_t pid;

	(void)state;
	invite();
	mark();
	assert_non_null(own.slot);
	pid = fork();
	if (!pid) {
		const char *ring = (const char *)own.ring;

		become_child();
		OR_EXIT(owner() == getpid());
		OR_EXIT(is_readable(ring) && is_readable(ring + MARKS_RING_BYTES - 1));
		memset(own.ring, 0, MARKS_RING_BYTES);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	(void)close(listener);
}

static size_t lines_of(const char *path)
{
	FILE *file = fopen(path, "re");
	size_t n = 0;
	int c;

	while (file && (c = fgetc(file)) != EOF)
		n += c == '\n';
	if (file)
		(void)fclose(file);
	return n;
}

static int open_descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 2048; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* A process that loads the library, and writes a mark, where the @n-th call fails: without a ring nothing is kept.  Exits with 0, 1
 * (there are fewer calls), or the line of what is wrong. */
static void load_once(int n)
{
	int before = open_descriptors(), listener;
	size_t mappings;

	fresh = NULL;
	marks_head = &nothing;
	ring_fd = -1;
	own.slot = NULL;
	(void)lines_of("/proc/self/maps"); /* the heap has grown */
	mappings = lines_of("/proc/self/maps");
	watch.made = 0;
	watch.fail_at = n;
	errno = 77;
	marks_begin();
	OR_EXIT(errno == 77);
	OR_EXIT(open_descriptors() == before + (fresh != NULL));
	OR_EXIT((fresh != NULL) == (marks_head != &nothing));
	OR_EXIT(fresh || lines_of("/proc/self/maps") == mappings);
	if (fresh) {
		listener = new_listener();
		invite();
		errno = 77;
		mark();
		OR_EXIT(errno == 77);
		OR_EXIT(!own.slot || received(listener, NULL) == 1);
		(void)close(listener);
		OR_EXIT(open_descriptors() == before + 1);
	}
	_exit(watch.made < n);
}

static void each_call(void **state)
{
	int status, n = 0;

	(void)state;
	do {
		pid_t pid = fork();

		n++;
		if (!pid)
			load_once(n);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
			fail_msg("call %d: line %d, signal %d", n, WEXITSTATUS(status),
				 WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	} while (!status && n < 200);
	print_message("library: %d calls\n", n - 1);
	assert_true(n > 10 && n < 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_the_user_and_root),
		cmocka_unit_test(full_backlog),
		cmocka_unit_test(another_device),
		cmocka_unit_test(child),
		cmocka_unit_test(child_of_a_handler),
		cmocka_unit_test(hello),
		cmocka_unit_test(each_call),
	};

	if (pipe2(watch.probe, O_CLOEXEC) < 0 || !fresh)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
