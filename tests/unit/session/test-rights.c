/* test-rights.c - what is left of rights and descriptors; each in a child. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/child.h"
#include "session/rights.h"
#include "tests/unit/session/rights-fixture.h"

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
	EXPECT(!rights_beyond_user()); /* root's are root's own; a plain user has none */
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
	EXPECT(rights_beyond_user());
	return 0;
}

#define RIGHT(name) CAPS_BIT(CAP_##name)

/* Of a command's session: what is left before it is made, in its helper process that opens files, and once it runs. */
static void opener(void *arg)
{
	struct caps caps;

	(void)arg;
	if (caps_get(&caps) < 0 || caps.effective != caps.permitted ||
	    (caps.permitted & (RIGHT(KILL) | RIGHT(SYS_MODULE) | RIGHT(DAC_OVERRIDE))))
		_exit(1);
	_exit((caps.permitted & RIGHT(DAC_READ_SEARCH)) && (caps.permitted & RIGHT(SYS_PTRACE))
		      ? 0
		      : 2);
}

static int session(void)
{
	const uint64_t gone = RIGHT(SYS_MODULE) | RIGHT(SYS_RAWIO) | RIGHT(NET_ADMIN) |
			      RIGHT(MKNOD) | RIGHT(SETPCAP) | RIGHT(SYS_CHROOT);
	const struct child c = {
		.name = "opener", .keep = {-1, -1}, .rights = CAPS_ALL, .run = opener};
	struct caps caps;
	int status;
	pid_t pid;

	EXPECT(caps_get(&caps) == 0);
	if (!(caps.permitted & RIGHT(SYS_PTRACE)) || !(caps.permitted & RIGHT(PERFMON)) ||
	    !(caps.permitted & RIGHT(DAC_READ_SEARCH)))
		return 0;
	rights_prepare_session(false);
	EXPECT(caps_get(&caps) == 0 && !(caps.permitted & gone));
	EXPECT(prctl(PR_CAPBSET_READ, CAP_SYS_MODULE, 0, 0, 0) == 0);
	EXPECT((caps.effective & RIGHT(PERFMON)) && (caps.effective & RIGHT(SYS_PTRACE)));
	EXPECT(child_start(&c, &pid) == 0 && waitpid(pid, &status, 0) == pid && status == 0);
	rights_settle_session(true, false);
	EXPECT(caps_get(&caps) == 0 && (caps.effective & RIGHT(PERFMON)));
	EXPECT(!(caps.permitted & (RIGHT(SYS_PTRACE) | RIGHT(DAC_READ_SEARCH) | RIGHT(SETUID))));
	rights_settle_session(false, false);
	EXPECT(caps_get(&caps) == 0 && !(caps.permitted & RIGHT(DAC_OVERRIDE)));
	EXPECT(!(caps.permitted &
		 ~(RIGHT(PERFMON) | RIGHT(KILL) | RIGHT(SYSLOG) | RIGHT(IPC_LOCK))));
	return 0;
}

CHILD(session)
CHILD(descriptors)
CHILD(two_descriptors)
CHILD(no_new_rights)
CHILD(direct)
CHILD(user)

static void test_another_user(void **state)
{
	(void)state;
	if (getuid() != 0) {
		print_message("needs root: becomes another user\n");
		skip();
	}
	in_child(another_user);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_descriptors),   cmocka_unit_test(test_two_descriptors),
		cmocka_unit_test(test_no_new_rights), cmocka_unit_test(test_direct),
		cmocka_unit_test(test_user),	      cmocka_unit_test(test_another_user),
		cmocka_unit_test(test_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
