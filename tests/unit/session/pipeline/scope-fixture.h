/* scope-fixture.h - a consent object without a listener's peers, a process table, and a real target that counts the
 * requests and never answers: what a scope (session/pipeline/scope.h) refers to. */
#pragma once

#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "session/pipeline/scope.h"
#include "tests/unit/cmocka.h"

static struct loop loop;
static struct consent *consent;
static struct process_table *processes;
static struct uw_modules *modules;
static pid_t child;
static int signals; /* a byte for each request that the target has seen */
static int signal_fd;
static char notes[2048];
static int n_notes;

static inline void note(void *arg, const char *line)
{
	(void)arg;
	n_notes++;
	(void)snprintf(notes + strlen(notes), sizeof(notes) - strlen(notes), "%s\n", line);
}

static inline void count_request(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	if (info->si_code == SI_QUEUE && info->si_value.sival_int == HOOK_VALUE)
		(void)!write(signal_fd, "s", 1);
}

static inline void start_target(bool catches)
{
	int requests[2], ready[2];
	char byte;

	assert_int_equal(pipe(requests), 0);
	assert_int_equal(pipe(ready), 0);
	child = fork();
	if (!child) {
		struct sigaction action = {.sa_sigaction = count_request, .sa_flags = SA_SIGINFO};

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal_fd = requests[1];
		if (catches)
			(void)sigaction(HOOK_SIGNAL, &action, NULL);
		(void)!write(ready[1], "r", 1);
		for (;;)
			pause();
	}
	close(requests[1]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	signals = requests[0];
}

/* < 0: failed. */
static inline int scope_fixture_init(void)
{
	static char name[64];
	static int n;
	struct consent_options o = {.socket = name, .listen_fd = -1};

	(void)snprintf(name, sizeof(name), "@perfwind-test-scope-%d-%d", getpid(), n++);
	*notes = 0;
	n_notes = 0;
	child = 0;
	signals = -1;
	return loop_init(&loop) < 0 || consent_new(&o, &loop, &consent) < 0 ||
			       uw_modules_new(&modules) < 0 ||
			       process_table_new(modules, 16, &processes) < 0
		       ? -1
		       : 0;
}

static inline void scope_fixture_deinit(struct scope *scope)
{
	scope_deinit(scope);
	(void)process_table_free(processes);
	(void)uw_modules_free(modules);
	consent = consent_free(consent);
	loop_deinit(&loop);
	if (child > 0) {
		kill(child, SIGKILL);
		assert_int_equal(waitpid(child, NULL, 0), child);
		close(signals);
	}
}
