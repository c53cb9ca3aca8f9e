/* test-hook-calls.c - each system call of an answer, and each with which the hook begins, fails once in the process that opts in:
 * errno, descriptors, the signal mask, dumpable and the program's actions are as before, and the next request is answered. */
#include "tests/unit/fail-calls.h"

#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/un.h>

#include "base/util.h"
#include "libc-hook/actions.c"
#include "libc-hook/answer.c"
#include "libc-hook/guard.c"
#include "libc-hook/hook.c"
#include "libc-hook/life.c"

const char hook_syscall_return[1];
static int failure; /* of the call that fails: an errno */
static int listener = -1;

long hook_syscall(long n, long a, long b, long c, long d, long e, long f)
{
	static __typeof__(&syscall) real;
	int was = errno;
	long r;

	real = real ? real : REAL(syscall);
	/* The kernel closes a descriptor and takes back PR_SET_DUMPABLE, whatever it returns. */
	if (call_fails() && n != SYS_close && !(n == SYS_prctl && a == PR_SET_DUMPABLE && !b))
		return -failure;
	r = real(n, a, b, c, d, e, f);
	r = r < 0 ? -errno : r;
	errno = was;
	return r;
}

void hook_pause(void)
{
}

static int libc_sigaction(int signal, const struct sigaction *action, struct sigaction *old)
{
	FAIL_CALL(failure);
	return sigaction(signal, action, old);
}

action_function *interpose_begin(void)
{
	return libc_sigaction;
}

/* Connections so far; they are closed. */
static int answers(void)
{
	int n = 0, fd;

	for (; (fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0; n++)
		(void)close(fd);
	return n;
}

static int ask(unsigned long n)
{
	const union sigval value = {.sival_int = HOOK_VALUE};

	errno = ERANGE;
	calls_fail(n);
	assert_int_equal(sigqueue(getpid(), HOOK_SIGNAL, value), 0);
	calls_fail_at = 0;
	assert_int_equal(errno, ERANGE);
	return answers();
}

static void sweep_answer(int error, int dumpable)
{
	sigset_t before, after;
	size_t files;
	unsigned long n = 1;

	failure = error;
	config.nondumpable = !dumpable;
	assert_int_equal(prctl(PR_SET_DUMPABLE, dumpable), 0);
	assert_int_equal(ask(0), 1);
	files = open_files();
	assert_int_equal(sigprocmask(SIG_BLOCK, NULL, &before), 0);
	do {
		(void)ask(n);
		assert_int_equal(sigprocmask(SIG_BLOCK, NULL, &after), 0);
		if (open_files() != files || prctl(PR_GET_DUMPABLE) != dumpable || life->answers ||
		    word_of(&before) != word_of(&after))
			fail_msg("error %d, call %lu: %zu descriptors, before %zu; dumpable: %d",
				 error, n, open_files(), files, prctl(PR_GET_DUMPABLE));
	} while (calls_made >= n++);
	print_message("an answer, %s: %lu calls\n", strerror(error), n - 2);
	assert_true(n > 8);
	assert_int_equal(ask(0), 1);
	assert_int_equal(prctl(PR_SET_DUMPABLE, 1), 0);
}

static void test_answer(void **state)
{
	static const int errors[] = {ENOSYS, EMFILE, EACCES, EINTR, EAGAIN};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
		sweep_answer(errors[i], 1);
		sweep_answer(errors[i], 0);
	}
}

/* A program that has closed its standard descriptors. */
static void test_closed(void **state)
{
	int saved = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10);

	(void)state;
	(void)close(STDIN_FILENO);
	sweep_answer(EMFILE, 1);
	assert_int_equal(fcntl(STDIN_FILENO, F_GETFD), -1);
	assert_int_equal(dup2(saved, STDIN_FILENO), STDIN_FILENO);
	(void)close(saved);
}

static bool is_default(int signal)
{
	struct sigaction action;

	assert_int_equal(sigaction(signal, NULL, &action), 0);
	return action.sa_handler == SIG_DFL;
}

/* Both handlers are there, or none. */
static void test_begin(void **state)
{
	unsigned long n = 0;
	bool begun;

	(void)state;
	failure = ENOMEM;
	do {
		action_end(HOOK_SIGNAL);
		action_end(SIGSYS);
		life_end();
		assert_true(is_default(HOOK_SIGNAL) && is_default(SIGSYS));
		errno = ERANGE;
		calls_fail(++n);
		hook_start();
		calls_fail_at = 0;
		begun = action_begun(HOOK_SIGNAL);
		if (errno != ERANGE || begun != action_begun(SIGSYS) ||
		    begun == is_default(HOOK_SIGNAL) || begun == is_default(SIGSYS) ||
		    begun != (life != NULL))
			fail_msg("call %lu: errno %d, %d handler", n, errno, begun);
	} while (calls_made >= n);
	print_message("the beginning: %lu calls\n", n - 1);
	assert_true(n > 8 && begun);
	assert_int_equal(ask(0), 1);
}

static int start_listener(void **state)
{
	char name[64];
	int len = snprintf(name, sizeof(name), "@perfwind-hook-calls-%d", getpid());

	(void)state;
	assert_int_equal(setenv(HOOK_ENV_SOCKET, name, 1), 0);
	choose_socket(true);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_true(len > 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&config.address, config.address_len), 0);
	return listen(listener, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_answer),
					   cmocka_unit_test(test_closed),
					   cmocka_unit_test(test_begin)};

	return cmocka_run_group_tests_name("hook-calls", tests, start_listener, NULL);
}
