/* test-scope-consent.c - which processes are asked for consent, once an incarnation; which are looked at again; what is reported
 * and counted.  The reader is made by hand; the targets are real, and never answer. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "session/pipeline/scope.h"
#include "tests/unit/cmocka.h"

static struct loop loop;
static struct consent *consent;
static struct process_table *processes;
static struct uw_modules *modules;
static struct scope rd;
static pid_t child;
static int signals; /* a byte for each request that the target has seen */
static char notes[2048];
static int n_notes;

static void note(void *arg, const char *line)
{
	(void)arg;
	n_notes++;
	(void)snprintf(notes + strlen(notes), sizeof(notes) - strlen(notes), "%s\n", line);
}

static int tell_fd;

static void handler(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	if (info->si_code == SI_QUEUE && info->si_value.sival_int == HOOK_VALUE)
		(void)!write(tell_fd, "s", 1);
}

static void start_target(bool catches)
{
	int told[2], ready[2];
	char byte;

	assert_int_equal(pipe(told), 0);
	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (!child) {
		struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		tell_fd = told[1];
		if (catches)
			(void)sigaction(HOOK_SIGNAL, &action, NULL);
		(void)!write(ready[1], "r", 1);
		for (;;)
			pause();
	}
	close(told[1]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	signals = told[0];
}

static int set_up(void **state)
{
	static char name[64];
	struct consent_options o = {.socket = name, .listen_fd = -1};
	static int n;

	(void)state;
	(void)snprintf(name, sizeof(name), "@perfwind-test-scope-consent-%d-%d", getpid(), n++);
	*notes = 0;
	n_notes = 0;
	child = 0;
	signals = -1;
	if (loop_init(&loop) < 0 || consent_new(&o, &loop, &consent) < 0 ||
	    uw_modules_new(&modules) < 0 || process_table_new(modules, 16, &processes) < 0)
		return -1;
	rd = (struct scope){
		.options = {.frames = FRAMES_USER, .maps_wait_ns = NSEC_PER_MSEC},
		.c = {.consent = consent, .processes = processes, .note = note},
	};
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	scope_deinit(&rd);
	(void)process_table_free(processes);
	(void)uw_modules_free(modules);
	consent = consent_free(consent);
	loop_deinit(&loop);
	if (child > 0) {
		kill(child, SIGKILL);
		assert_int_equal(waitpid(child, NULL, 0), child);
		close(signals);
	}
	return 0;
}

static struct process *target(void)
{
	struct process *p = process_get(processes, (uint32_t)child);

	assert_non_null(p);
	return p;
}

static bool answered(struct process *p, int error)
{
	const struct load_answer a = {
		.request = {.kind = LOAD_PROCESS, .process = p},
		.error = error,
	};

	return scope_ask_consent(&rd, p, &a);
}

static struct reader_consent_counts counts(void)
{
	return rd.counts;
}

/* Ticks until *@what is not 0. */
static void tick_until(const uint64_t *what)
{
	for (int i = 0; i < 20000 && !*what; i++) {
		(void)usleep(1000);
		assert_int_equal(scope_tick(&rd), 0);
	}
	assert_true(*what);
}

static void test_asked_once(void **state)
{
	struct process *p;
	char bytes[8];

	(void)state;
	start_target(true);
	p = target();
	assert_true(answered(p, -EACCES)); /* the mappings will come from it, or it is given up */
	assert_true(p->consent_asked);
	assert_int_equal(rd.n_asked, 1);
	assert_false(answered(p, -EACCES)); /* the same life */
	assert_int_equal(counts().asked, 1);
	assert_int_equal(counts().unanswered, 0);
	tick_until(&rd.counts.unanswered);
	assert_int_equal(counts().unanswered, 1);
	assert_int_equal(counts().given, 0);
	assert_int_equal(n_notes, 2);
	assert_non_null(strstr(notes, "are asked for their consent"));
	assert_non_null(strstr(notes, "did not answer within 1 ms"));
	/* A late answer is still taken: the request stays. */
	assert_int_equal(rd.n_asked, 1);
	assert_int_equal(read(signals, bytes, sizeof(bytes)), 1);
}

static void test_not_needed(void **state)
{
	struct process *p;

	(void)state;
	start_target(true);
	p = target();
	assert_false(answered(p, 0)); /* could be read */
	assert_false(answered(p, -ESRCH));
	rd.options.by_callchain = true; /* the kernel unwinds */
	assert_false(answered(p, -EACCES));
	rd.options.by_callchain = false;
	rd.options.frames &= FRAMES_KERNEL;
	assert_false(answered(p, -EACCES));
	rd.options.frames |= FRAMES_USER;
	rd.c.consent = NULL;
	assert_false(answered(p, -EACCES));
	assert_false(p->consent_asked);
	assert_int_equal(counts().asked, 0);
	assert_int_equal(n_notes, 0);
}

/* A program may just be starting: it is looked at again, some times, then reported; once for all. */
static void test_no_hook(void **state)
{
	struct process *p;
	uint64_t told = 0;

	(void)state;
	start_target(false);
	p = target();
	assert_false(answered(p, -EACCES));
	assert_int_equal(rd.n_asked, 1);
	assert_int_equal(n_notes, 0);
	for (int i = 0; i < 20000 && !told; i++) {
		(void)usleep(1000);
		assert_int_equal(scope_tick(&rd), 0);
		told = (uint64_t)n_notes;
	}
	assert_int_equal(n_notes, 1);
	assert_non_null(strstr(notes, "perfwind run"));
	assert_int_equal(rd.n_asked, 0);
	assert_int_equal(counts().asked, 0);
	p->consent_asked = false; /* as another life */
	assert_false(answered(p, -EACCES));
	for (int i = 0; i < 20000 && rd.n_asked; i++) {
		(void)usleep(1000);
		assert_int_equal(scope_tick(&rd), 0);
	}
	assert_int_equal(rd.n_asked, 0);
	assert_int_equal(n_notes, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
		EACH(test_asked_once),
		EACH(test_not_needed),
		EACH(test_no_hook),
#undef EACH
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
