/* test-consent-look.c - the processes that may be asked: a fake /proc for every reason not to, and the signal as
 * its receiver sees it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "session/consent/consent.c"
#undef fail /* cmocka has one too */
#include "tests/unit/cmocka.h"

static char root[64];

static void put(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/proc/50/%s", root, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* As Linux 6.18 writes it, cut down to what is looked at and its neighbours. */
static void put_status(const char *ns_pid, const char *blocked, const char *caught,
		       const char *seccomp)
{
	char text[1024];

	(void)snprintf(text, sizeof(text),
		       "Name:\tNSpid:\nUid:\t1000\t1000\t1000\t1000\nNSpid:\t%s\n"
		       "SigPnd:\t0000000000000000\nSigBlk:\t%s\nSigIgn:\t0000000000001000\n"
		       "SigCgt:\t%s\nSeccomp:\t%s\nSeccomp_filters:\t2\n",
		       ns_pid, blocked, caught, seccomp);
	put("status", text);
}

static void put_stat(char state, const char *flags)
{
	char text[512];

	(void)snprintf(text, sizeof(text),
		       "50 (a) b) %c 1 50 50 0 -1 %s 1 0 0 0 3 4 0 0 20 0 1 0 777 0 0\n", state,
		       flags);
	put("stat", text);
}

static int make_root(void **state)
{
	char path[128];

	(void)state;
	(void)snprintf(root, sizeof(root), "/tmp/test-consent-look-XXXXXX");
	if (!mkdtemp(root))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/proc", root);
	mkdir(path, 0700);
	(void)snprintf(path, sizeof(path), "%s/proc/50", root);
	return mkdir(path, 0700);
}

static int drop_root(void **state)
{
	char command[128];

	(void)state;
	(void)snprintf(command, sizeof(command), "rm -rf %s", root);
	return system(command);
}

/* SIGURG is 23: bit 22.  SIGSYS is 31: bit 30. */
#define NONE "0000000000000000"
#define URG "0000000000400000"
#define SYS "0000000040000000"
#define URG_SYS "0000000040400000"
#define ALL_BUT_URG "fffffffdbfbfffff"

static void test_looks(void **state)
{
	(void)state;
	put_stat('S', "4194304");
	put_status("50", NONE, URG, "0");
	assert_int_equal(consent_look(root, 50, false), CONSENT_ASKED);
	put_status("50\t7\t3", ALL_BUT_URG, URG, "0");
	assert_int_equal(consent_look(root, 50, false), CONSENT_ASKED);
	put_status("50", NONE, ALL_BUT_URG, "0");
	assert_int_equal(consent_look(root, 50, false), CONSENT_NOT_CAUGHT);
	put_status("50", URG, URG, "0");
	assert_int_equal(consent_look(root, 50, false), CONSENT_BLOCKED);
	put_status("50", NONE, URG, "1"); /* strict: never */
	assert_int_equal(consent_look(root, 50, false), CONSENT_SECCOMP);
	assert_int_equal(consent_look(root, 50, true), CONSENT_SECCOMP);
	put_status("50", NONE, URG, "2");
	assert_int_equal(consent_look(root, 50, false), CONSENT_SECCOMP);
	/* The hook's handlers under a filter: both signals are caught, SIGSYS is not blocked. */
	assert_int_equal(consent_look(root, 50, true), CONSENT_UNGUARDED);
	put_status("50", NONE, URG_SYS, "2");
	assert_int_equal(consent_look(root, 50, false), CONSENT_SECCOMP);
	assert_int_equal(consent_look(root, 50, true), CONSENT_ASKED);
	put_status("50", SYS, URG_SYS, "2");
	assert_int_equal(consent_look(root, 50, true), CONSENT_UNGUARDED);
	put_status("50", SYS, URG_SYS, "0"); /* it never answers then */
	assert_int_equal(consent_look(root, 50, false), CONSENT_UNGUARDED);
	put_status("50\t1", NONE, URG, "0");
	assert_int_equal(consent_look(root, 50, true), CONSENT_FIRST);
	put_status("50\t1\t9", NONE, URG, "0");
	assert_int_equal(consent_look(root, 50, true), CONSENT_FIRST);
	put_status("50\t11\t21", NONE, URG, "0");
	assert_int_equal(consent_look(root, 50, true), CONSENT_ASKED);
	assert_int_equal(consent_look(root, 51, true), CONSENT_GONE);
	put_stat('Z', "4194304");
	assert_int_equal(consent_look(root, 50, true), CONSENT_GONE);
	put_stat('S', "2129984"); /* PF_KTHREAD */
	assert_int_equal(consent_look(root, 50, true), CONSENT_KERNEL_THREAD);
}

static void test_damaged(void **state)
{
	(void)state;
	put_stat('S', "4194304");
	put("status", "");
	assert_int_equal(consent_look(root, 50, true), CONSENT_NOT_CAUGHT);
	put("status", "SigCgt:\t\nSigBlk:\nNSpid:");
	assert_int_equal(consent_look(root, 50, true), CONSENT_NOT_CAUGHT);
	put("status", "SigCgt:\tfffffffffffffffffffffffffffff\n");
	assert_int_equal(consent_look(root, 50, true), CONSENT_NOT_CAUGHT);
	put("status", "SigCgt:\t-1\n");
	assert_int_equal(consent_look(root, 50, true), CONSENT_NOT_CAUGHT);
}

static void test_texts(void **state)
{
	(void)state;
	for (int i = 0; i < CONSENT_REFUSALS; i++)
		assert_non_null(consent_refusal_text(i));
}

static siginfo_t seen;

static void keep(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	seen = *info;
}

static void expect_signal(int pidfd)
{
	memset(&seen, 0, sizeof(seen));
	assert_int_equal(send_signal((uint32_t)getpid(), pidfd), 0);
	assert_int_equal(seen.si_signo, HOOK_SIGNAL);
	assert_int_equal(seen.si_code, SI_QUEUE);
	assert_int_equal(seen.si_value.sival_int, HOOK_VALUE);
	assert_int_equal(seen.si_pid, getpid());
}

static void test_signal(void **state)
{
	struct sigaction action = {.sa_sigaction = keep, .sa_flags = SA_SIGINFO};
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);

	(void)state;
	assert_int_equal(sigaction(HOOK_SIGNAL, &action, NULL), 0);
	expect_signal(-1);
	expect_signal(pidfd);
	assert_int_equal(consent_look("", (uint32_t)getpid(), true), CONSENT_ASKED);
	action.sa_handler = SIG_DFL;
	action.sa_flags = 0;
	assert_int_equal(sigaction(HOOK_SIGNAL, &action, NULL), 0);
	assert_int_equal(send_signal((uint32_t)getpid(), pidfd), 0); /* harmless */
	assert_int_equal(consent_look("", (uint32_t)getpid(), true), CONSENT_NOT_CAUGHT);
	assert_int_equal(send_signal(0x7ffffff0, -1), -ESRCH);
	close(pidfd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_looks),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_signal),
	};

	return cmocka_run_group_tests(tests, make_root, drop_root);
}
