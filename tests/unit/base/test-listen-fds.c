/* test-listen-fds.c - sockets from a service manager, used only when they are what they are called;
 * sockets of our own. */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/listen-fds.h"
#include "tests/unit/cmocka.h"

static char folder[] = "/tmp/perfwind-listen-XXXXXX";
static char path[64];

static int setup(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/sock", folder);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	(void)unlink(path);
	return rmdir(folder);
}

enum { GOOD, BOUND, CONNECTED, PIPE, DATAGRAM, CLOSED };

static int make(int kind)
{
	int fds[2] = {-1, -1};

	if (kind == GOOD)
		assert_int_equal(listen_at(path, 0600, &fds[0]), 0);
	else if (kind == CONNECTED)
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	else if (kind == PIPE)
		assert_int_equal(pipe(fds), 0);
	else if (kind == DATAGRAM)
		fds[0] = socket(AF_UNIX, SOCK_DGRAM, 0);
	return fds[0];
}

/* In a child, where 3 and 4 are what a service manager would have left there: what
 * listen_fds_find() answers, and, where it is 0, which descriptor. */
static int find(int kind, const char *pid, const char *fds, const char *names, const char *name)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		char self[16];
		int made = make(kind), got = -1, r;

		(void)snprintf(self, sizeof(self), "%d", getpid());
		if (made < 0)
			(void)close(4);
		else if (made != 4)
			(void)dup2(made, 4);
		(void)setenv("LISTEN_PID", pid ? pid : self, 1);
		(void)setenv("LISTEN_FDS", fds, 1);
		(void)setenv("LISTEN_FDNAMES", names, 1);
		r = listen_fds_find(name, &got);
		if (r == 0 &&
		    (!(fcntl(got, F_GETFD) & FD_CLOEXEC) || !(fcntl(got, F_GETFL) & O_NONBLOCK)))
			got = 99;
		_exit(r < 0 ? -r : r ? 200 + r : 100 + got);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	(void)unlink(path);
	return WEXITSTATUS(status);
}

static void test_inherited(void **state)
{
	(void)state;
	assert_int_equal(find(GOOD, NULL, "2", "hook:control", "control"), 104);
	assert_int_equal(find(GOOD, NULL, "2", "control:hook", "hook"), 104);
	/* Not ours: another's, another name, a part of a name. */
	assert_int_equal(find(GOOD, "1", "2", "hook:control", "control"), 201);
	assert_int_equal(find(GOOD, NULL, "2", "hook:control", "other"), 201);
	assert_int_equal(find(GOOD, NULL, "2", "hook:control", "contro"), 201);
	assert_int_equal(find(GOOD, NULL, "2", "hook:controls", "control"), 201);
	/* Fewer descriptors than names; numbers that are none. */
	assert_int_equal(find(GOOD, NULL, "1", "hook:control", "control"), EINVAL);
	assert_int_equal(find(GOOD, NULL, "x", "hook:control", "control"), EINVAL);
	assert_int_equal(find(GOOD, NULL, "-1", "hook:control", "control"), EINVAL);
	assert_int_equal(find(GOOD, "4294967297", "2", "hook:control", "control"), EINVAL);
}

static void test_not_what_it_is_called(void **state)
{
	(void)state;
	assert_int_equal(find(CONNECTED, NULL, "2", "hook:control", "control"), EINVAL);
	assert_int_equal(find(PIPE, NULL, "2", "hook:control", "control"), EINVAL);
	assert_int_equal(find(DATAGRAM, NULL, "2", "hook:control", "control"), EINVAL);
	assert_int_equal(find(CLOSED, NULL, "2", "hook:control", "control"), EINVAL);
}

/* Android's init: one variable a socket, which is bound and does not listen (or does). */
static int find_android(int kind, const char *value, const char *name)
{
	pid_t child = fork();
	int status;

	assert_true(child >= 0);
	if (!child) {
		int made = kind == BOUND ? -1 : make(kind), got = -1, r;
		char number[16];

		if (kind == BOUND) {
			struct sockaddr_un at = {.sun_family = AF_UNIX};

			made = socket(AF_UNIX, SOCK_STREAM, 0);
			memcpy(at.sun_path, path, strlen(path));
			if (bind(made, (struct sockaddr *)&at, sizeof(at)) < 0)
				_exit(99);
		}
		if (made < 0)
			(void)close(made = 40);
		(void)snprintf(number, sizeof(number), "%d", made);
		(void)unsetenv("LISTEN_PID");
		(void)setenv("ANDROID_SOCKET_perfwind_some_name", value ? value : number, 1);
		r = listen_fds_find(name, &got);
		if (r == 0 && (got != made || !(fcntl(got, F_GETFD) & FD_CLOEXEC) ||
			       !(fcntl(got, F_GETFL) & O_NONBLOCK)))
			_exit(98);
		if (r == 0) { /* a client can connect */
			struct sockaddr_un at = {.sun_family = AF_UNIX};
			int to = socket(AF_UNIX, SOCK_STREAM, 0);

			memcpy(at.sun_path, path, strlen(path));
			if (connect(to, (struct sockaddr *)&at, sizeof(at)) < 0 ||
			    accept(got, NULL, NULL) < 0)
				_exit(97);
		}
		_exit(r < 0 ? -r : r ? 200 + r : 100);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	(void)unlink(path);
	return WEXITSTATUS(status);
}

static void test_android(void **state)
{
	(void)state;
	assert_int_equal(find_android(BOUND, NULL, "some_name"), 100);
	assert_int_equal(find_android(GOOD, NULL, "some_name"), 100); /* stream+listen */
	assert_int_equal(find_android(GOOD, NULL, "some-name"), 100); /* as init writes it */
	assert_int_equal(find_android(GOOD, NULL, "some"), 201);
	assert_int_equal(find_android(GOOD, "", "some_name"), EINVAL);
	assert_int_equal(find_android(GOOD, "x", "some_name"), EINVAL);
	assert_int_equal(find_android(GOOD, "2", "some_name"), EINVAL);
	assert_int_equal(find_android(CONNECTED, NULL, "some_name"), EINVAL);
	assert_int_equal(find_android(PIPE, NULL, "some_name"), EINVAL);
	assert_int_equal(find_android(DATAGRAM, NULL, "some_name"), EINVAL);
	assert_int_equal(find_android(CLOSED, NULL, "some_name"), EINVAL);
}

static void test_abstract(void **state)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	char name[64];
	int fd, second = -5, to = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	(void)snprintf(name, sizeof(name), "@perfwind-test-listen-%d", getpid());
	assert_int_equal(listen_at(name, 0600, &fd), 0);
	assert_int_equal(listen_at(name, 0600, &second), -EADDRINUSE);
	assert_int_equal(listen_at("@", 0600, &second), -ENAMETOOLONG);
	memcpy(at.sun_path + 1, name + 1, strlen(name) - 1);
	assert_int_equal(
		connect(to, (struct sockaddr *)&at,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))),
		0);
	(void)close(to);
	(void)close(fd);
}

/* As many may wait as the kernel allows: a client that fills the queue takes a place in it from others. */
static void test_queue(void **state)
{
	enum { CLIENTS = 300 };
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int listener, clients[CLIENTS], allowed = 0;
	FILE *f = fopen("/proc/sys/net/core/somaxconn", "r");

	(void)state;
	if (f) {
		(void)!fscanf(f, "%d", &allowed);
		fclose(f);
	}
	if (allowed < CLIENTS)
		skip(); /* net.core.somaxconn is smaller */
	memcpy(at.sun_path, path, strlen(path));
	assert_int_equal(listen_at(path, 0600, &listener), 0);
	for (int i = 0; i < CLIENTS; i++) {
		clients[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
		assert_int_equal(connect(clients[i], (struct sockaddr *)&at, sizeof(at)), 0);
	}
	for (int i = 0; i < CLIENTS; i++)
		close(clients[i]);
	close(listener);
	(void)unlink(path);
}

static void test_none(void **state)
{
	int fd = -5;

	(void)state;
	(void)unsetenv("LISTEN_PID");
	assert_int_equal(listen_fds_find("control", &fd), LISTEN_FDS_NONE);
	assert_int_equal(fd, -5);
}

static void test_own(void **state)
{
	struct stat st;
	char file[80], longer[200];
	int fd, second = -5;

	(void)state;
	assert_int_equal(listen_at(path, 0666, &fd), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFSOCK | 0666);
	assert_int_equal(listen_at(path, 0666, &second), -EADDRINUSE);
	/* Its listener is gone: it is replaced. */
	(void)close(fd);
	assert_int_equal(listen_at(path, 0600, &fd), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode, S_IFSOCK | 0600);
	(void)close(fd);
	(void)unlink(path);

	(void)snprintf(file, sizeof(file), "%s/file", folder);
	fd = open(file, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_int_equal(listen_at(file, 0600, &second), -EEXIST);
	assert_int_equal(access(file, F_OK), 0);
	(void)unlink(file);
	(void)close(fd);
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = 0;
	assert_int_equal(listen_at(longer, 0600, &second), -ENAMETOOLONG);
	assert_int_equal(listen_at("/nowhere/at/all", 0600, &second), -ENOENT);
	assert_int_equal(second, -5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_inherited), cmocka_unit_test(test_not_what_it_is_called),
		cmocka_unit_test(test_android),	  cmocka_unit_test(test_abstract),
		cmocka_unit_test(test_queue),	  cmocka_unit_test(test_none),
		cmocka_unit_test(test_own),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
