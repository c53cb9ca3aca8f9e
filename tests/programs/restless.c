/* restless.c - a program that is never the same for long: restless SECONDS [MODE].  Its workers fork,
 * exit, exec, set and reset handlers, posix_spawn, system and popen in tight loops.  Ends with 0
 * when every child ended as it was meant to; a child that was killed is told and is a 1.  What it
 * runs is restless_leaf > burn. */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

enum { LEAF_STATUS = 7 };

extern char **environ;
static const char *self;
static volatile sig_atomic_t handled;

NOINLINE void restless_leaf(void)
{
	burn(20);
	NOT_LAST;
}

static void expect(int status, int wanted, const char *what)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == wanted)
		return;
	fprintf(stderr, "restless: %s: a child %s %d\n", what,
		WIFSIGNALED(status) ? "was killed by signal" : "ended with",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	_exit(1);
}

static void await(pid_t pid, const char *what)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			_exit(2);
	expect(status, LEAF_STATUS, what);
}

static void do_exit(void)
{
	pid_t pid = fork();

	if (!pid) {
		restless_leaf();
		_exit(LEAF_STATUS);
	}
	await(pid, "exit");
}

static void do_exec(void)
{
	pid_t pid = fork();

	if (!pid) {
		execl(self, self, "0", "leaf", (char *)NULL);
		_exit(1);
	}
	await(pid, "exec");
}

static void do_vfork(void)
{
	pid_t pid = vfork();

	if (!pid) {
		execl(self, self, "0", "leaf", (char *)NULL);
		_exit(1);
	}
	await(pid, "vfork");
}

static void do_spawn(void)
{
	char *argv[] = {(char *)(uintptr_t)self, (char *)"0", (char *)"leaf", NULL};
	pid_t pid;

	if (posix_spawn(&pid, self, NULL, NULL, argv, environ) != 0)
		_exit(1);
	await(pid, "posix_spawn");
}

static void do_system(void)
{
	expect(system("exit 7"), LEAF_STATUS, "system");
}

static void do_popen(void)
{
	FILE *f = popen("echo line; exit 7", "r");
	char line[16] = "";

	if (!f)
		_exit(1);
	while (!fgets(line, sizeof(line), f) && ferror(f) && errno == EINTR)
		clearerr(f);
	if (strcmp(line, "line\n")) {
		fprintf(stderr, "restless: popen: read '%s'\n", line);
		_exit(1);
	}
	expect(pclose(f), LEAF_STATUS, "popen");
}

static void count(int signal)
{
	(void)signal;
	handled++;
}

/* With a signal of its own in between: the handler that is set must see it. */
static void do_handlers(void)
{
	static const struct sigaction none = {.sa_handler = SIG_DFL},
				      ignored = {.sa_handler = SIG_IGN};
	struct sigaction own = {.sa_handler = count}, was;
	sig_atomic_t before = handled;

	sigaction(SIGURG, &own, &was);
	raise(SIGURG);
	if (handled == before) {
		fprintf(stderr, "restless: a handler did not see its signal\n");
		_exit(1);
	}
	restless_leaf();
	sigaction(SIGURG, &ignored, NULL);
	signal(SIGURG, SIG_DFL);
	sigaction(SIGURG, &was, NULL);
	sigaction(SIGURG, &none, NULL);
}

static const struct {
	const char *name;
	void (*once)(void);
} modes[] = {
	{"exit", do_exit},     {"exec", do_exec},   {"vfork", do_vfork},       {"spawn", do_spawn},
	{"system", do_system}, {"popen", do_popen}, {"handlers", do_handlers},
};
enum { N_MODES = sizeof(modes) / sizeof(modes[0]) };

int main(int argc, char **argv)
{
	pid_t pids[N_MODES];
	int bad = 0;

	if (argc > 2) {
		restless_leaf();
		return LEAF_STATUS;
	}
	self = argv[0];
	program_start(argc, argv);
	for (int i = 0; i < N_MODES; i++) {
		pids[i] = fork();
		if (!pids[i]) {
			while (program_running())
				modes[i].once();
			_exit(0);
		}
	}
	for (int i = 0; i < N_MODES; i++) {
		int status;

		while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR)
			;
		if (!WIFEXITED(status) || WEXITSTATUS(status)) {
			fprintf(stderr, "restless: worker %s: status %x\n", modes[i].name, status);
			bad = 1;
		}
	}
	return bad;
}
