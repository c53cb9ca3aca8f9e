/* test-trigger-socket.c - triggers from another process to a session's socket: answers, damaged messages, no listener. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

#include "cli/trigger-socket.h"

static char last[TRIGGER_NAME_MAX + 1];
static int n_triggers, n_starts;

static int on_trigger(void *arg, const char *name, uint32_t uid)
{
	(void)arg;
	assert_int_equal(uid, geteuid());
	(void)snprintf(last, sizeof(last), "%s", name);
	n_triggers++;
	return TRIGGER_LIMITED;
}

static int on_start(void *arg)
{
	(void)arg;
	n_starts++;
	return TRIGGER_STARTED;
}

static const struct trigger_events events = {on_trigger, on_start, NULL};

/* Sends from a child while the loop runs here; the child's answer. */
static int send_from_child(struct loop *loop, const char *name)
{
	uint32_t to = (uint32_t)getpid();
	int status = 0;
	pid_t child = fork();

	assert_true(child >= 0);
	if (!child) {
		int r = trigger_socket_send(geteuid(), to, name);

		_exit(r < 0 ? 255 : r);
	}
	while (waitpid(child, &status, WNOHANG) == 0)
		assert_int_equal(loop_run_once(loop, 10), 0);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void found_one(void *arg, uint32_t uid, uint32_t pid)
{
	*(bool *)arg |= uid == geteuid() && pid == (uint32_t)getpid();
}

static void test_answers(void **state)
{
	struct trigger_socket *s, *other = NULL;
	char name[TRIGGER_NAME_MAX + 2];
	bool found = false;
	struct loop loop;

	(void)state;
	assert_int_equal(loop_init(&loop), 0);
	assert_int_equal(trigger_socket_send(geteuid(), (uint32_t)getpid(), "x"), -ESRCH);
	assert_int_equal(trigger_socket_new(&events, &loop, &s), 0);
	assert_int_equal(trigger_socket_new(&events, &loop, &other), -EADDRINUSE);
	assert_null(other);
	assert_true(trigger_socket_find(found_one, &found) > 0);
	assert_true(found);
	assert_int_equal(send_from_child(&loop, "one"), TRIGGER_LIMITED);
	assert_string_equal(last, "one");
	assert_int_equal(send_from_child(&loop, NULL), TRIGGER_STARTED);
	assert_int_equal(n_starts, 1);
	memset(name, 'n', sizeof(name));
	name[TRIGGER_NAME_MAX + 1] = 0;
	assert_int_equal(trigger_socket_send(geteuid(), (uint32_t)getpid(), name), -ENAMETOOLONG);
	name[TRIGGER_NAME_MAX] = 0;
	assert_int_equal(send_from_child(&loop, name), TRIGGER_LIMITED);
	assert_string_equal(last, name);
	assert_int_equal(n_triggers, 2);
	assert_null(trigger_socket_free(s));
	assert_null(trigger_socket_free(NULL));
	assert_int_equal(trigger_socket_send(geteuid(), (uint32_t)getpid(), "x"), -ESRCH);
	loop_deinit(&loop);
}

static int on_later(void *arg, const char *name, uint32_t uid)
{
	(void)arg;
	(void)name;
	(void)uid;
	n_triggers++;
	return TRIGGER_LATER;
}

/* Answers that come later go to their requesters, in order. */
static void test_later(void **state)
{
	static const struct trigger_events later = {on_later, on_start, NULL};
	const int answers[] = {TRIGGER_ACCEPTED, TRIGGER_UNKNOWN, TRIGGER_BUSY};
	uint32_t to = (uint32_t)getpid();
	struct trigger_socket *s;
	struct loop loop;
	pid_t children[3];

	(void)state;
	n_triggers = 0;
	assert_int_equal(loop_init(&loop), 0);
	assert_int_equal(trigger_socket_new(&later, &loop, &s), 0);
	for (int i = 0; i < 3; i++) {
		children[i] = fork();
		assert_true(children[i] >= 0);
		if (!children[i]) {
			int r = trigger_socket_send(geteuid(), to, "x");

			_exit(r < 0 ? 255 : r);
		}
		while (n_triggers <= i)
			assert_int_equal(loop_run_once(&loop, -1), 0);
	}
	for (int i = 0; i < 3; i++) {
		int status;

		trigger_socket_answer(s, answers[i]);
		assert_int_equal(waitpid(children[i], &status, 0), children[i]);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), answers[i]);
	}
	trigger_socket_answer(s, TRIGGER_ACCEPTED); /* no message waits */
	assert_null(trigger_socket_free(s));
	loop_deinit(&loop);
}

/* Messages that are passed over; the one behind them is heard. */
static void test_damage(void **state)
{
	static const struct {
		const char *data;
		size_t len;
	} bad[] = {{"", 0}, {"T", 1}, {"Sx", 2}, {"Ta\0b", 4}, {"\0", 1}, {"?a", 2}};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int n = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
			 "perfwind-trigger/%u/%u", (unsigned)geteuid(), (unsigned)getpid());
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct trigger_socket *s;
	char large[600];
	struct loop loop;

	(void)state;
	n_triggers = n_starts = 0;
	assert_true(fd >= 0);
	assert_int_equal(loop_init(&loop), 0);
	assert_int_equal(trigger_socket_new(&events, &loop, &s), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(sendto(fd, bad[i].data, bad[i].len, 0,
					(const struct sockaddr *)&address, len),
				 bad[i].len);
		assert_int_equal(loop_run_once(&loop, 0), 0);
	}
	memset(large, 'T', sizeof(large));
	assert_int_equal(
		sendto(fd, large, sizeof(large), 0, (const struct sockaddr *)&address, len),
		sizeof(large));
	assert_int_equal(loop_run_once(&loop, 0), 0);
	assert_int_equal(n_triggers + n_starts, 0);
	assert_int_equal(sendto(fd, "Tx", 2, 0, (const struct sockaddr *)&address, len), 2);
	assert_int_equal(loop_run_once(&loop, 0), 0);
	assert_int_equal(n_triggers, 1);
	assert_string_equal(last, "x");
	(void)trigger_socket_free(s);
	loop_deinit(&loop);
	(void)close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers),
		cmocka_unit_test(test_later),
		cmocka_unit_test(test_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
