/* test-consent-calls.c - each allocation and system call with which a consent object is made, its hook socket opened and its hook
 * process started fails once: an error with a line.  An inherited socket is consumed all the same. */
#include <errno.h>
#include <string.h>
#include <sys/un.h>

#include "session/consent/consent.h"
#include "tests/unit/fail-calls.h"

static struct loop loop;

struct consents {
	char name[64]; /* another one each time: a hook process may hold the last one for some ms */
	unsigned int n;
	int inherited; /* a socket, or -1 */
	struct consent *consent;
};

static int make_consent(void *arg)
{
	struct consents *made = arg;
	struct consent_options options = {.socket = made->name, .listen_fd = -1};
	unsigned long n = calls_fail_at;
	char error[300] = "";
	int r;

	(void)snprintf(made->name, sizeof(made->name), "@perfwind-calls-%d-%u", getpid(),
		       made->n++);
	if (made->inherited >= 0) {
		calls_fail_at = 0;
		options.listen_fd = fcntl(made->inherited, F_DUPFD_CLOEXEC, 3);
		calls_fail_at = n;
	}
	r = consent_new(&options, &loop, &made->consent);
	if (r < 0)
		return r;
	r = consent_open(made->consent, error, sizeof(error));
	if (r >= 0)
		return 0;
	if (!error[0])
		fail_msg("call %lu: %d without a line", n, r);
	made->consent = consent_free(made->consent);
	return r;
}

static void end_consent(void *arg)
{
	struct consents *made = arg;

	made->consent = consent_free(made->consent);
}

static void sweep(const char *name, int inherited)
{
	struct consents consents = {.inherited = inherited};
	const struct calls_made of = {name, make_consent, end_consent, &consents};

	calls_sweep(&of);
}

static void test_named(void **state)
{
	(void)state;
	sweep("named", -1);
}

static void test_inherited(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(sa_family_t)), 0);
	assert_int_equal(listen(fd, 1), 0);
	sweep("inherited", fd);
	(void)close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_named),
					   cmocka_unit_test(test_inherited)};

	assert_int_equal(loop_init(&loop), 0);
	return cmocka_run_group_tests_name("consent-calls", tests, NULL, NULL);
}
