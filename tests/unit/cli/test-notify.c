/* test-notify.c - datagrams to systemd's socket, and descriptors to be notified. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "cli/cmd-daemon.h"
#include "base/util.h"
#include "tests/unit/cmocka.h"

static int bound(const char *name, size_t len)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	memcpy(a.sun_path, name, len);
	assert_int_equal(bind(fd, (const struct sockaddr *)&a,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)),
			 0);
	return fd;
}

static void expect_text(int fd, const char *text)
{
	char got[256];
	ssize_t n = recv(fd, got, sizeof(got), 0);

	assert_int_equal(n, strlen(text));
	assert_memory_equal(got, text, (size_t)n);
}

static void test_path_and_abstract(void **state)
{
	char folder[] = "/tmp/test-notify-XXXXXX", path[64], name[64];
	int fd;

	(void)state;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/socket", folder);
	fd = bound(path, strlen(path));
	assert_int_equal(setenv("NOTIFY_SOCKET", path, 1), 0);
	notify_state("READY=1\nSTATUS=well");
	expect_text(fd, "READY=1\nSTATUS=well");
	(void)fd_close(fd);
	notify_state("nobody listens"); /* and nothing happens */
	(void)unlink(path);
	(void)rmdir(folder);

	(void)snprintf(name, sizeof(name), "@test-notify-%d", getpid());
	name[0] = 0;
	fd = bound(name, 1 + strlen(name + 1));
	name[0] = '@';
	assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
	notify_state("STOPPING=1");
	expect_text(fd, "STOPPING=1");
	(void)fd_close(fd);
}

static void test_reloading(void **state)
{
	char name[64], got[256] = "";
	int fd;

	(void)state;
	(void)snprintf(name, sizeof(name), "@test-reload-%d", getpid());
	name[0] = 0;
	fd = bound(name, 1 + strlen(name + 1));
	name[0] = '@';
	assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
	notify_reloading();
	assert_true(recv(fd, got, sizeof(got) - 1, 0) > 0);
	assert_memory_equal(got, "RELOADING=1\nMONOTONIC_USEC=", 27);
	assert_int_equal(strspn(got + 27, "0123456789"), strlen(got + 27));
	(void)fd_close(fd);
}

static void test_nowhere(void **state)
{
	static const char *const names[] = {"", "vsock:2:1234", "relative/path"};
	char longest[200];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		assert_int_equal(setenv("NOTIFY_SOCKET", names[i], 1), 0);
		notify_state("READY=1");
	}
	memset(longest, '/', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = 0;
	assert_int_equal(setenv("NOTIFY_SOCKET", longest, 1), 0);
	notify_state("READY=1");
	assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
	notify_state("READY=1");
}

static void test_descriptor(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(notify_check_fd(fds[1]), 0);
	assert_int_equal(fcntl(fds[1], F_GETFD), FD_CLOEXEC);
	assert_int_equal(notify_check_fd(fds[0]), -EBADF); /* for reading only */
	(void)fd_close(fds[0]);
	(void)fd_close(fds[1]);
	assert_int_equal(notify_check_fd(fds[1]), -EBADF);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_path_and_abstract),
		cmocka_unit_test(test_reloading),
		cmocka_unit_test(test_nowhere),
		cmocka_unit_test(test_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
