/* restless.c - a program that is never the same for long: restless SECONDS [MODE].  Its workers fork,
 * exit, exec (after fork and vfork, at once and later), set and reset handlers, take out-of-band
 * bytes, start and end threads, put themselves under a seccomp filter, run handlers on small alternate
 * stacks, posix_spawn, system and popen in tight loops.  Ends with 0 when every child ended as it was meant to; a child that was killed is
 * reported, and the status is 1.  What it runs is restless_leaf > burn. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"
#include "trap-calls.h"

enum { LEAF_STATUS = 7, HANDLER_ROOM = 768 };

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

/* The child stays for a while in its parent's memory. */
static void do_vfork_late(void)
{
	pid_t pid = vfork();

	if (!pid) {
		restless_leaf();
		execl(self, self, "0", "leaf", (char *)NULL);
		_exit(1);
	}
	await(pid, "vfork, later");
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

/* The signal's other use: a byte out of band, the arrival of which the program's own handler sees. */
static void do_urgent(void)
{
	struct sigaction own = {.sa_handler = count, .sa_flags = SA_RESTART}, was;
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
	socklen_t len = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0), in, out = socket(AF_INET, SOCK_STREAM, 0);
	sig_atomic_t before = handled;
	char byte = 0;

	sigaction(SIGURG, &own, &was);
	if (bind(listener, (struct sockaddr *)&at, len) < 0 || listen(listener, 1) < 0 ||
	    getsockname(listener, (struct sockaddr *)&at, &len) < 0 ||
	    connect(out, (struct sockaddr *)&at, len) < 0)
		_exit(2);
	in = accept(listener, NULL, NULL);
	if (in < 0 || fcntl(in, F_SETOWN, getpid()) < 0 || send(out, "!", 1, MSG_OOB) != 1)
		_exit(2);
	/* The signal does not queue: a request that waits at the same time stands for both. */
	for (int i = 0; handled == before && i < 100000; i++)
		restless_leaf();
	if (recv(in, &byte, 1, MSG_OOB) != 1 || byte != '!') {
		fprintf(stderr, "restless: urgent: the byte is not there\n");
		_exit(1);
	}
	sigaction(SIGURG, &was, NULL);
	/* the one that connected goes last: no port of the other waits for its time */
	close(in);
	close(out);
	close(listener);
}

/* Calls that a signal must not be seen in: the handler that runs has SA_RESTART. */
static void *thread_main(void *arg)
{
	int fds[2];
	char byte;

	if (pipe(fds) < 0 || write(fds[1], "x", 1) != 1 || read(fds[0], &byte, 1) != 1)
		_exit(2);
	restless_leaf();
	close(fds[0]);
	close(fds[1]);
	return arg;
}

static void do_threads(void)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		if (pthread_create(&threads[i], NULL, thread_main, (void *)(uintptr_t)(i + 1)) != 0)
			_exit(2);
	for (int i = 0; i < 4; i++) {
		void *back;

		if (pthread_join(threads[i], &back) != 0 || back != (void *)(uintptr_t)(i + 1)) {
			fprintf(stderr, "restless: threads: one is lost\n");
			_exit(1);
		}
	}
}

/* What a filter traps in its answer must not kill it. */
static void do_seccomp(void)
{
	pid_t pid = fork();

	if (!pid) {
		if (!trap_calls(SYS_socket, SYS_socket))
			_exit(2);
		for (int i = 0; i < 5; i++)
			restless_leaf();
		_exit(LEAF_STATUS);
	}
	await(pid, "seccomp");
}

/* In a handler on a stack of its own, and with a stack of its own at hand, of many sizes. */
static void burn_in_handler(int signal)
{
	(void)signal;
	restless_leaf();
}

static void do_stacks(void)
{
	static const size_t sizes[] = {2048, 3072, 4096, 5120, 6144, 8192, 12288, 16384};
	static size_t next;
	size_t size = sizes[next++ % (sizeof(sizes) / sizeof(sizes[0]))];
	size_t frame = getauxval(AT_MINSIGSTKSZ); /* 0: before Linux 5.14 */
	pid_t pid = fork();

	if (!pid) {
		struct sigaction own = {.sa_handler = burn_in_handler, .sa_flags = SA_ONSTACK};
		stack_t stack = {.ss_sp = malloc(size), .ss_size = size};

		if (!stack.ss_sp || sigaltstack(&stack, NULL) < 0 ||
		    sigaction(SIGUSR2, &own, NULL) < 0)
			_exit(2);
		for (int i = 0; i < 10; i++) {
			if (size >= (frame ? frame : 4096) + HANDLER_ROOM)
				raise(SIGUSR2);
			restless_leaf();
		}
		_exit(LEAF_STATUS);
	}
	await(pid, "stacks");
}

/* The one worker that stays as it is: its stacks have names however busy the others keep the machine. */
static void do_stay(void)
{
	for (int i = 0; i < 1000; i++)
		restless_leaf();
}

static const struct {
	const char *name;
	void (*once)(void);
} modes[] = {
	{"exit", do_exit},	   {"exec", do_exec},
	{"vfork", do_vfork},	   {"spawn", do_spawn},
	{"system", do_system},	   {"popen", do_popen},
	{"handlers", do_handlers}, {"vfork-late", do_vfork_late},
	{"urgent", do_urgent},	   {"threads", do_threads},
	{"seccomp", do_seccomp},   {"stacks", do_stacks},
	{"stay", do_stay},
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
