/* test-hook.c - programs with the hook loaded (tests/programs/hook-*.c), asked by a stand-in for the
 * daemon: what comes over the socket, and what the program notices.  Another perfwind on this machine
 * may ask them as well: a request more than ours is not a fault. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libc-hook/hook-proto.h"
#include "libc-hook/stack.h"
#include "tests/unit/cmocka.h"

enum { ANSWER_MS = 5000, SILENCE_MS = 150, SETTLE_MS = 40 };

struct target {
	pid_t pid;
	int in, out; /* its standard input and output, our ends */
};

static int listener;
static char socket_name[64], program[256], argument[16], library[256];
static const char *libc = "";

static void choose(const char *name, int number)
{
	const char *o = getenv("O");

	snprintf(program, sizeof(program), "%s/tests/programs/%s%s", o ? o : "build", name, libc);
	snprintf(argument, sizeof(argument), "%d", number);
}

static int start_listener(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const char *o = getenv("O");

	(void)state;
	choose("hook-target", 0);
	snprintf(library, sizeof(library), "%s/libperfwind-hook.so", o ? o : "build");
	snprintf(socket_name, sizeof(socket_name), "@perfwind-test-%d%s", getpid(), libc);
	memcpy(address.sun_path + 1, socket_name + 1, strlen(socket_name) - 1);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(
		bind(listener, (struct sockaddr *)&address,
		     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(socket_name))),
		0);
	return listen(listener, 1);
}

/* Not asked by another perfwind of this machine, which leaves processes under a filter alone. */
static bool filtered;

static void filter_nothing(void)
{
	struct sock_filter allow = {.code = BPF_RET | BPF_K, .k = SECCOMP_RET_ALLOW};
	const struct sock_fprog nothing = {.len = 1, .filter = &allow};

	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	(void)prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &nothing); /* a container may refuse it */
}

static void run_target(const char *mode, int in, int out)
{
	if (filtered)
		filter_nothing();
	dup2(in, 0);
	dup2(out, 1);
	if (!strcmp(mode, "closed"))
		close(2); /* one of the three is not open when it starts */
	if (strcmp(mode, "dlopen") != 0)
		setenv("LD_PRELOAD", library, 1);
	setenv("HOOK_LIBRARY", library, 1);
	setenv(HOOK_ENV_SOCKET, socket_name, 1);
	execl(program, program, mode, argument, NULL);
	_exit(127);
}

static void start(struct target *t, const char *mode, char *line, size_t line_size)
{
	int in[2], out[2];
	size_t n = 0;

	*line = 0;
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	t->pid = fork();
	if (!t->pid)
		run_target(mode, in[0], out[1]);
	close(in[0]);
	close(out[1]);
	t->in = in[1];
	t->out = out[0];
	while (n + 1 < line_size && read(t->out, line + n, 1) == 1) {
		line[++n] = 0;
		if (n >= 6 && !strcmp(line + n - 6, "ready\n"))
			return;
	}
	fail_msg("%s did not get ready: '%s'", mode, line);
}

static void ask(pid_t pid, int value)
{
	const union sigval v = {.sival_int = value};

	assert_int_equal(sigqueue(pid, HOOK_SIGNAL, v), 0);
}

/* The next connection with its credentials and descriptors; false: none within @ms. */
static bool answer(int ms, struct ucred *peer, int *fds)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};
	union {
		char bytes[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr align;
	} control;
	char data[16];
	struct iovec iov = {.iov_base = data, .iov_len = sizeof(data)};
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = control.bytes,
				 .msg_controllen = sizeof(control.bytes)};
	socklen_t len = sizeof(*peer);
	struct cmsghdr *c;
	int fd;

	if (poll(&p, 1, ms) != 1)
		return false;
	fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &len), 0);
	assert_int_equal(recvmsg(fd, &message, MSG_CMSG_CLOEXEC), 1);
	assert_int_equal(data[0], HOOK_BYTE);
	c = CMSG_FIRSTHDR(&message);
	assert_non_null(c);
	assert_int_equal(c->cmsg_len, CMSG_LEN(HOOK_DESCRIPTORS * sizeof(int)));
	memcpy(fds, CMSG_DATA(c), HOOK_DESCRIPTORS * sizeof(int));
	/* One message, then the end. */
	message.msg_controllen = sizeof(control.bytes);
	assert_int_equal(recvmsg(fd, &message, MSG_CMSG_CLOEXEC), 0);
	close(fd);
	return true;
}

static void check_file(int fd, pid_t pid, const char *name)
{
	char path[64];
	struct stat ours, theirs;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	assert_int_equal(stat(path, &ours), 0);
	assert_int_equal(fstat(fd, &theirs), 0);
	assert_int_equal(ours.st_dev, theirs.st_dev);
}

/* Both files contain what the process's own contain. */
static void check_answer(pid_t pid)
{
	int fds[HOOK_DESCRIPTORS];
	char text[4096], *own;
	unsigned char magic[4];
	struct ucred peer;
	ssize_t n;

	assert_true(answer(ANSWER_MS, &peer, fds));
	while (peer.pid != pid) {
		close(fds[HOOK_MAPS]);
		close(fds[HOOK_MEM]);
		assert_true(answer(ANSWER_MS, &peer, fds));
	}
	check_file(fds[HOOK_MAPS], pid, "maps");
	check_file(fds[HOOK_MEM], pid, "mem");
	n = read(fds[HOOK_MAPS], text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = 0;
	own = strstr(text, "/hook-");
	assert_non_null(own);
	while (own > text && own[-1] != '\n')
		own--;
	assert_int_equal(pread(fds[HOOK_MEM], magic, 4, (off_t)strtoull(own, NULL, 16)), 4);
	assert_memory_equal(magic, "\177ELF", 4);
	close(fds[HOOK_MAPS]);
	close(fds[HOOK_MEM]);
}

static void check_silence(void)
{
	int fds[HOOK_DESCRIPTORS];
	struct ucred peer;

	assert_false(answer(SILENCE_MS, &peer, fds));
}

/* Connections may come or not, and are let go unread. */
static void settle(int ms)
{
	struct pollfd p = {.fd = listener, .events = POLLIN};

	while (poll(&p, 1, ms) == 1)
		close(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
}

static void end(struct target *t)
{
	int status;

	close(t->in);
	assert_int_equal(waitpid(t->pid, &status, 0), t->pid);
	assert_int_equal(status, 0);
	close(t->out);
	settle(0);
}

/* Asked three times: an answer each, and nothing for a signal that is not a request. */
static void simple(const char *mode)
{
	struct target t;
	char line[128];

	start(&t, mode, line, sizeof(line));
	for (int i = 0; i < 3; i++) {
		ask(t.pid, HOOK_VALUE);
		check_answer(t.pid);
	}
	end(&t);
}

static void silent(const char *mode)
{
	struct target t;
	char line[128];

	start(&t, mode, line, sizeof(line));
	ask(t.pid, HOOK_VALUE);
	check_silence();
	end(&t);
}

static void test_modes(void **state)
{
	(void)state;
	simple("idle");
	simple("errno");
	simple("sigaction");
	simple("signal");
	simple("main-gone");
	simple("vfork");
	simple("closed");
	simple("fork-vfork");
	simple("once");
	simple("spent");
	simple("held");
	simple("mask");
}

/* Made with -fsanitize=address, the runtime of which wants to be the first library. */
static void test_sanitized(void **state)
{
	const char *was = libc;

	libc = "-asan";
	choose("hook-target", 0);
	if (access(program, X_OK) == 0)
		test_modes(state);
	libc = was;
	choose("hook-target", 0);
}

/* A program that has the signal for itself: it has the request as a signal of its own. */
static void test_taken(void **state)
{
	(void)state;
	silent("raw");
}

/* ---- alternate stacks ---- */

/* The kernel's figure is a parameter: no AVX, AVX, AVX-512, with AMX; 0: not reported. */
static void test_stack_sizes(void **state)
{
	static const struct {
		size_t largest_frame, takes, too_small;
	} machines[] = {
		{1296, 2048, 1800},  {1776, 2304, 2048}, {2736, 3248, 3072}, {3376, 4096, 3840},
		{3632, 8192, 4096},  {3632, 4144, 4143}, {3760, 8192, 4096}, {11952, 11952, 4096},
		{11952, 8192, 4271}, {0, 8192, 4096},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
		assert_true(stack_takes_frame(machines[i].takes, machines[i].largest_frame));
		assert_false(stack_takes_frame(machines[i].too_small, machines[i].largest_frame));
	}
	/* What a frame leaves of the stack: a second one, and an answer. */
	assert_true(stack_takes_answer(0x20000 - 3264, 0x20000 - 8192, 8192));
	assert_true(stack_takes_answer(0x20000 - 3480, 0x20000 - 8192, 8192));
	assert_false(stack_takes_answer(0x20000 - 3500, 0x20000 - 8192, 8192));
	assert_false(stack_takes_answer(0x20000 - 1200, 0x20000 - 3072, 3072));
	assert_true(stack_takes_answer(0x20000 - 1200, 0x20000 - 4096, 4096));
	assert_false(stack_takes_answer(0x20000 - 11800, 0x20000 - 24576, 24576));
	assert_true(stack_takes_answer(0x20000 - 11800, 0x20000 - 25600, 25600));
	/* elsewhere, and without one */
	assert_true(stack_takes_answer(0x20000, 0x20000 - 8192, 8192));
	assert_true(stack_takes_answer(0x10000, 0x20000 - 8192, 8192));
	assert_true(stack_takes_answer(0x10000, 0, 0));
}

static void ask_thread(pid_t pid, int tid)
{
	siginfo_t info = {0};

	info.si_signo = HOOK_SIGNAL;
	info.si_code = SI_QUEUE;
	info.si_value.sival_int = HOOK_VALUE;
	assert_int_equal(syscall(SYS_rt_tgsigqueueinfo, pid, tid, HOOK_SIGNAL, &info), 0);
}

static bool catches(pid_t pid)
{
	char path[64], line[128];
	unsigned long long set = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "r");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		(void)sscanf(line, "SigCgt: %llx", &set);
	fclose(f);
	return set >> (HOOK_SIGNAL - 1) & 1;
}

/* Asked while a thread waits in the program, or in its handler on a stack of @size: it goes on.
 * @taken_off: what the hook does where a frame may not fit. */
static void on_stack_of(const char *mode, int size, bool taken_off)
{
	struct target t;
	char line[128];
	bool caught;
	int tid = 0;

	choose("hook-stack", size);
	start(&t, mode, line, sizeof(line));
	assert_int_equal(sscanf(line, "thread %d", &tid), 1);
	caught = catches(t.pid);
	for (int i = 0; i < 3; i++) {
		ask_thread(t.pid, tid);
		settle(0);
	}
	end(&t);
	if (caught == taken_off)
		fail_msg("%s %d: the handler was%s there", mode, size, caught ? "" : " not");
	choose("hook-target", 0);
}

static void test_stacks(void **state)
{
	static const char *const seen[] = {"idle",	     "running", "autodisarm",
					   "before",	     "own",	"thread-idle",
					   "thread-running", "smaller", "raw-stack"};
	static const int sizes[] = {2048, 2560, 3072, 3584,  4096,  5120,
				    6144, 7168, 8192, 10240, 12288, 16384};
	size_t largest_frame = getauxval(AT_MINSIGSTKSZ);

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		bool fits = stack_takes_frame((size_t)sizes[i], largest_frame);

		for (size_t n = 0; n < sizeof(seen) / sizeof(seen[0]); n++)
			on_stack_of(seen[n], sizes[i], !fits && strcmp(seen[n], "raw-stack") != 0);
		/* It cannot be seen, but is not entered either. */
		on_stack_of("raw-idle", sizes[i], false);
		on_stack_of("dlopen", sizes[i], true);
	}
	/* A handler that cannot be seen: by the room that it leaves. */
	on_stack_of("raw-handler", 65536, false);
	choose("hook-stack", 0);
	simple("seen");
	choose("hook-target", 0);
}

/* Where it is large enough, answers are made on it, and what is below stays. */
static void test_answers_on_stack(void **state)
{
	static const char *const modes[] = {"idle", "thread-idle", "raw-idle", "own"};
	struct target t;
	char line[128];
	int tid = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		choose("hook-stack", 65536);
		start(&t, modes[i], line, sizeof(line));
		assert_int_equal(sscanf(line, "thread %d", &tid), 1);
		ask_thread(t.pid, tid);
		check_answer(t.pid);
		end(&t);
	}
	choose("hook-target", 0);
	silent("stack");
}

static void test_fork(void **state)
{
	struct target t;
	char line[128];
	int child = 0;

	(void)state;
	start(&t, "fork", line, sizeof(line));
	assert_int_equal(sscanf(line, "child %d", &child), 1);
	ask(child, HOOK_VALUE);
	check_answer(child);
	ask(t.pid, HOOK_VALUE);
	check_answer(t.pid);
	end(&t);
}

/* Tried again: a hook that answers to a signal that is not a request does so each time. */
static void test_not_a_request(void **state)
{
	int fds[HOOK_DESCRIPTORS], answers = 0;
	struct ucred peer;
	char line[128];

	(void)state;
	filtered = true;
	for (int i = 0; i < 3 && answers == i; i++) {
		struct target t;

		start(&t, "idle", line, sizeof(line));
		ask(t.pid, HOOK_VALUE);
		check_answer(t.pid);
		settle(0);
		ask(t.pid, HOOK_VALUE + 1);
		assert_int_equal(kill(t.pid, HOOK_SIGNAL), 0);
		if (answer(SILENCE_MS, &peer, fds)) {
			close(fds[HOOK_MAPS]);
			close(fds[HOOK_MEM]);
			answers++;
		}
		end(&t);
	}
	filtered = false;
	assert_true(answers < 3);
}

static void test_refuses(void **state)
{
	(void)state;
	silent("nondumpable");
	setenv(HOOK_ENV_DENY, "1", 1);
	silent("idle");
	unsetenv(HOOK_ENV_DENY);
}

static void test_nondumpable_allowed(void **state)
{
	(void)state;
	setenv(HOOK_ENV_NONDUMPABLE, "1", 1);
	simple("nondumpable");
	unsetenv(HOOK_ENV_NONDUMPABLE);
}

/* No process accepts connections and the backlog is full, or there is no listener: it goes on. */
static void test_unreachable(void **state)
{
	struct target t;
	char line[128];

	(void)state;
	start(&t, "idle", line, sizeof(line));
	for (int i = 0; i < 6; i++) {
		ask(t.pid, HOOK_VALUE);
		(void)usleep(
			30000); /* a second signal that is pending would be one with the first */
	}
	end(&t);
	snprintf(socket_name, sizeof(socket_name), "/nonexistent/%d", getpid());
	silent("idle");
}

/* ---- under a seccomp filter ---- */

/* The system calls of an answer, and others: each is trapped, and the process survives. */
static void test_traps(void **state)
{
	static const int calls[] = {
		SYS_prctl,  SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_getpid,
		SYS_gettid, SYS_openat,	      SYS_fcntl,	  SYS_fstat,
		SYS_socket, SYS_connect,      SYS_setsockopt,	  SYS_sendmsg,
		SYS_close,  SYS_nanosleep,    SYS_kcmp,		  SYS_tgkill,
	};
	char line[128];

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct target t;

		choose("hook-filter", calls[i]);
		start(&t, "trap", line, sizeof(line));
		for (int n = 0; n < 3; n++) {
			ask(t.pid, HOOK_VALUE);
			settle(SETTLE_MS);
		}
		end(&t);
		start(&t, "blocked", line, sizeof(line));
		ask(t.pid, HOOK_VALUE);
		check_silence();
		end(&t);
	}
	choose("hook-target", 0);
}

static void test_trap_before(void **state)
{
	struct target t;
	char line[128];

	(void)state;
	choose("hook-filter", SYS_madvise);
	start(&t, "exec", line, sizeof(line));
	ask(t.pid, HOOK_VALUE);
	check_silence();
	end(&t);
	choose("hook-filter", SYS_kcmp);
	start(&t, "exec", line, sizeof(line));
	ask(t.pid, HOOK_VALUE);
	check_answer(t.pid);
	end(&t);
	choose("hook-target", 0);
}

/* Its own traps are its own, and do to it what they did. */
static void test_own_traps(void **state)
{
	(void)state;
	choose("hook-filter", 0);
	silent("own");
	choose("hook-target", 0);
}

/* ---- something else in the middle of an answer ---- */

static int fillers[8];

/* The daemon's backlog: an answer then takes 10 ms. */
static void fill(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(socket_name));

	memcpy(address.sun_path + 1, socket_name + 1, strlen(socket_name) - 1);
	for (size_t i = 0; i < sizeof(fillers) / sizeof(fillers[0]); i++) {
		fillers[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		(void)!connect(fillers[i], (struct sockaddr *)&address, len);
	}
}

static void drain(void)
{
	for (size_t i = 0; i < sizeof(fillers) / sizeof(fillers[0]); i++)
		close(fillers[i]);
	settle(0);
}

/* On a machine with much to do it takes more answers until something falls into one. */
static bool has_happened(const struct target *t)
{
	struct pollfd p = {.fd = t->out, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void during_answer(const char *mode, int number)
{
	bool forks = strcmp(mode, "longjmp") != 0;
	struct target t;
	char line[128];

	choose("hook-during", number);
	start(&t, mode, line, sizeof(line));
	for (int i = 0; i < 5 || (forks && i < 200 && !has_happened(&t)); i++) {
		fill();
		ask(t.pid, HOOK_VALUE);
		(void)usleep(25000); /* it gives up meanwhile */
		drain();
		ask(t.pid, HOOK_VALUE);
		settle(SETTLE_MS);
	}
	end(&t);
	choose("hook-target", 0);
}

/* A child has neither its parent's descriptors nor its moment of being dumpable. */
static void test_fork_during_answer(void **state)
{
	(void)state;
	during_answer("fork", 0);
	during_answer("clone", 0);
	setenv(HOOK_ENV_NONDUMPABLE, "1", 1);
	during_answer("fork", 1);
	during_answer("clone", 1);
	unsetenv(HOOK_ENV_NONDUMPABLE);
}

static void test_longjmp_during_answer(void **state)
{
	(void)state;
	during_answer("longjmp", 0);
}

/* A child in its parent's memory is killed in its answer: the parent answers all the same. */
static void test_killed_in_answer(void **state)
{
	struct target t;
	char line[128];
	int child = 0;

	(void)state;
	choose("hook-during", 0);
	start(&t, "vfork", line, sizeof(line));
	assert_int_equal(sscanf(line, "child %d", &child), 1);
	fill();
	ask(child, HOOK_VALUE);
	(void)usleep(4000);
	assert_int_equal(kill(child, SIGKILL), 0);
	(void)usleep(20000);
	drain();
	choose("hook-target", 0);
	ask(t.pid, HOOK_VALUE);
	check_answer(t.pid);
	end(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_modes),
		cmocka_unit_test(test_sanitized),
		cmocka_unit_test(test_taken),
		cmocka_unit_test(test_stack_sizes),
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_answers_on_stack),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_not_a_request),
		cmocka_unit_test(test_refuses),
		cmocka_unit_test(test_nondumpable_allowed),
		cmocka_unit_test(test_traps),
		cmocka_unit_test(test_trap_before),
		cmocka_unit_test(test_own_traps),
		cmocka_unit_test(test_fork_during_answer),
		cmocka_unit_test(test_longjmp_during_answer),
		cmocka_unit_test(test_killed_in_answer),
		cmocka_unit_test(test_unreachable),
	};
	int r;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	r = cmocka_run_group_tests(tests, start_listener, NULL);
	/* Another libc: musl. */
	libc = "-musl";
	choose("hook-target", 0);
	if (r == 0 && access(program, X_OK) == 0)
		r = cmocka_run_group_tests_name("musl", tests, start_listener, NULL);
	return r;
}
