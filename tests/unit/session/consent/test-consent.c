/* test-consent.c - asking real processes: what is given, what is forgotten, and a hook process that
 * hangs or dies while they are waited for.  The targets here do by hand what libc-hook does. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session/consent/consent.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/lingering.h"

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static socklen_t address_len;
static char name[64];
static struct loop loop;
static struct consent *consent;

static void name_socket(void)
{
	memcpy(address.sun_path + 1, name + 1, strlen(name) - 1);
	address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
}

static int set_up(void **state)
{
	static int n;
	struct consent_options o = {.socket = name, .listen_fd = -1};

	(void)state;
	(void)snprintf(name, sizeof(name), "@perfwind-test-consent-%d-%d", getpid(), n++);
	name_socket();
	o.features.has[FEATURE_PIDFD] = n % 2;
	if (loop_init(&loop) < 0)
		return -1;
	return consent_new(&o, &loop, &consent);
}

static int tear_down(void **state)
{
	(void)state;
	consent = consent_free(consent);
	loop_deinit(&loop);
	return 0;
}

/* ---- targets ---- */

struct target {
	pid_t pid;
	int signals; /* a byte for each that was seen */
};

static enum { SILENT, ANSWER, LINGER, HALF, EXEC, UNHOOK, LATER, THREAD } mode;
static int report_fd;

static int own_fds[2];

static pid_t opener;

static void *open_own(void *arg)
{
	opener = gettid();
	own_fds[0] = open("/proc/thread-self/maps", O_RDONLY);
	own_fds[1] = open("/proc/thread-self/mem", O_RDONLY);
	return arg;
}

/* Of a thread that has ended when they are sent. */
static void open_in_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, open_own, NULL) || pthread_join(thread, NULL))
		_exit(4);
	await_thread_end(opener);
}

static void answer_once(void)
{
	union {
		char bytes[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	char byte = HOOK_BYTE;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int other, fds[] = {own_fds[0]	     ? own_fds[0]
			    : mode == LINGER ? lingering(&other)
					     : open("/proc/self/maps", O_RDONLY),
			    own_fds[1] ? own_fds[1] : open("/proc/self/mem", O_RDONLY)};
	int to = socket(AF_UNIX, SOCK_STREAM, 0);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fds));
	memcpy(CMSG_DATA(c), fds, sizeof(fds));
	if (connect(to, (struct sockaddr *)&address, address_len) == 0)
		(void)!sendmsg(to, &m, 0);
	close(to);
	close(fds[0]);
	close(fds[1]);
	own_fds[0] = own_fds[1] = 0;
}

static void handler(int signal, siginfo_t *info, void *context)
{
	static int n;
	int e = errno;

	(void)signal;
	(void)context;
	if (info->si_code != SI_QUEUE || info->si_value.sival_int != HOOK_VALUE)
		return;
	(void)!write(report_fd, "s", 1);
	n++;
	if (mode == THREAD && n <= 2)
		open_in_thread();
	if (mode == LATER && n == 1)
		return;
	if (mode == EXEC) { /* another program with the hook in it: main() */
		char fd[16];

		(void)snprintf(fd, sizeof(fd), "%d", report_fd);
		(void)fcntl(report_fd, F_SETFD, 0);
		(void)execl("/proc/self/exe", "target", name, fd, NULL);
		_exit(3);
	}
	if (mode == UNHOOK) {
		(void)sigaction(HOOK_SIGNAL, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
		(void)!write(report_fd, "u", 1);
		return;
	}
	if (mode == HALF) { /* connects, sends nothing */
		(void)connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address,
			      address_len);
		return;
	}
	if (mode)
		answer_once();
	if (mode == LINGER)
		(void)!write(report_fd, "d", 1);
	errno = e;
}

static void stay(const char *word)
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
	sigset_t none;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)sigaction(HOOK_SIGNAL, &action, NULL);
	(void)!write(report_fd, word, 1);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL); /* an exec in a handler leaves it blocked */
	for (;;)
		pause();
}

static void start(struct target *t, int how)
{
	int pipe_fds[2];
	char byte;

	assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
	t->pid = fork();
	if (!t->pid) {
		mode = how;
		report_fd = pipe_fds[1];
		stay("r");
	}
	close(pipe_fds[1]);
	assert_int_equal(read(pipe_fds[0], &byte, 1), 1);
	t->signals = pipe_fds[0];
}

static void end(struct target *t)
{
	kill(t->pid, SIGKILL);
	assert_int_equal(waitpid(t->pid, NULL, 0), t->pid);
	close(t->signals);
}

/* ---- requests ---- */

struct asked {
	struct consent_request request;
	int n, maps;
	bool refused;
};

static void given(struct consent_request *request, const int *fds)
{
	struct asked *a = container_of(request, struct asked, request);

	a->n++;
	a->refused = !fds;
	if (!fds)
		return;
	a->maps = fds[HOOK_MAPS];
	close(fds[HOOK_MEM]);
}

static struct asked asked_of(const struct target *t)
{
	return (struct asked){.request = {.pid = (uint32_t)t->pid, .given = given}, .maps = -1};
}

/* A turn of the loop may be short: a bound of turns would be no bound of time. */
enum { DEADLINE_S = 60 };

static void run_until(const int *n, int wanted)
{
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + DEADLINE_S * NSEC_PER_SEC;

	while (clock_ns(CLOCK_MONOTONIC) < until && *n < wanted)
		assert_int_equal(loop_run_once(&loop, 100), 0);
	assert_int_equal(*n, wanted);
}

/* The process that serves the socket: the only child of ours that is not a target. */
static pid_t hook_process(void)
{
	char path[64];
	FILE *f;
	int pid = 0, last = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", getpid(), getpid());
	f = fopen(path, "r");
	assert_non_null(f);
	while (fscanf(f, "%d", &pid) == 1) {
		char comm[32] = "", file[64];
		FILE *c;

		(void)snprintf(file, sizeof(file), "/proc/%d/comm", pid);
		c = fopen(file, "r");
		if (c && fgets(comm, sizeof(comm), c) && !strcmp(comm, "pw-hook\n"))
			last = pid;
		if (c)
			fclose(c);
	}
	fclose(f);
	return last;
}

/* A process that is still in its handler blocks the signal, and that a hook process is gone is known before
 * another one is there. */
static void ask_in_the_end(struct consent_request *request)
{
	enum consent_refusal r;
	int tries = 0;

	while (((r = consent_ask(consent, request)) == CONSENT_TOO_MANY || r == CONSENT_BLOCKED) &&
	       tries++ < 1000)
		assert_int_equal(loop_run_once(&loop, 10), 0);
	assert_int_equal(r, CONSENT_ASKED);
}

/* ---- tests ---- */

static void test_given(void **state)
{
	uint64_t counts[HOOK_VERDICTS];
	struct target t;
	struct asked a;
	char text[32];

	(void)state;
	start(&t, ANSWER);
	a = asked_of(&t);
	assert_int_equal(consent_ask(consent, &a.request), CONSENT_ASKED);
	run_until(&a.n, 1);
	assert_false(a.refused);
	assert_true(pread(a.maps, text, sizeof(text), 0) > 0);
	close(a.maps);
	/* and again, as after an exec */
	ask_in_the_end(&a.request);
	run_until(&a.n, 2);
	close(a.maps);
	do /* it counts when all is done */
		consent_counts(consent, counts);
	while (counts[HOOK_GOOD] < 2);
	assert_int_equal(counts[HOOK_GOOD], 2);
	end(&t);
}

/* Two clients that ask for one process: one signal, descriptors for both. */
static void test_shared(void **state)
{
	struct target t;
	struct asked a, b, c;
	char bytes[8];

	(void)state;
	start(&t, ANSWER);
	a = asked_of(&t);
	b = asked_of(&t);
	c = asked_of(&t);
	assert_int_equal(consent_ask(consent, &a.request), CONSENT_ASKED);
	assert_int_equal(consent_ask(consent, &b.request), CONSENT_ASKED);
	assert_int_equal(consent_ask(consent, &c.request), CONSENT_ASKED);
	consent_forget(consent, &b.request);
	run_until(&a.n, 1);
	assert_int_equal(b.n, 0);
	assert_int_equal(c.n, 1);
	assert_int_not_equal(a.maps, c.maps);
	assert_int_equal(read(t.signals, bytes, sizeof(bytes)), 1);
	close(a.maps);
	close(c.maps);
	end(&t);
}

/* Signals that it has seen, when none is pending. */
static int signals_seen(const struct target *t)
{
	char path[64], text[4096];
	int n = 0;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", t->pid);
	for (int i = 0; i < DEADLINE_S * 1000; i++) {
		FILE *f = fopen(path, "r");
		size_t len;

		assert_non_null(f);
		len = fread(text, 1, sizeof(text) - 1, f);
		fclose(f);
		text[len] = 0;
		if (strstr(text, "State:\tS") && strstr(text, "ShdPnd:\t0000000000000000"))
			break;
		usleep(1000);
	}
	assert_int_equal(ioctl(t->signals, FIONREAD, &n), 0);
	return n;
}

/* One joins a request that is of the program before an exec, which gets no answer any more: when that
 * one is forgotten it has a signal of its own sent. */
static void test_stale(void **state)
{
	struct target t;
	struct asked a, b, c;
	char byte;

	(void)state;
	start(&t, EXEC);
	a = asked_of(&t);
	b = asked_of(&t);
	c = asked_of(&t);
	assert_int_equal(consent_ask(consent, &a.request), CONSENT_ASKED);
	assert_int_equal(read(t.signals, &byte, 1), 1);
	assert_int_equal(byte, 's');
	assert_int_equal(read(t.signals, &byte, 1), 1);
	assert_int_equal(byte, 'x'); /* the other program is there, with its handler */
	assert_int_equal(consent_ask(consent, &b.request), CONSENT_ASKED);
	assert_int_equal(consent_ask(consent, &c.request), CONSENT_ASKED);
	for (int i = 0; i < 3; i++)
		assert_int_equal(loop_run_once(&loop, 100), 0);
	assert_int_equal(b.n, 0);
	assert_int_equal(signals_seen(&t), 0);
	consent_forget(consent, &a.request);
	run_until(&b.n, 1);
	run_until(&c.n, 1);
	assert_int_equal(a.n, 0);
	assert_false(b.refused || c.refused);
	assert_int_equal(signals_seen(&t), 1); /* one for both */
	close(b.maps);
	close(c.maps);
	end(&t);
}

/* A request that would join is refused if the present program has no hook. */
static void test_joins_none(void **state)
{
	struct target t;
	struct asked a, b;
	char byte;

	(void)state;
	start(&t, UNHOOK);
	a = asked_of(&t);
	b = asked_of(&t);
	assert_int_equal(consent_ask(consent, &a.request), CONSENT_ASKED);
	assert_int_equal(read(t.signals, &byte, 1), 1);
	assert_int_equal(read(t.signals, &byte, 1), 1);
	assert_int_equal(byte, 'u');
	assert_int_equal(consent_ask(consent, &b.request), CONSENT_NOT_CAUGHT);
	consent_forget(consent, &a.request);
	end(&t);
}

/* No descriptor for it: reported as that, not as its end; and asked when there is one. */
static void test_no_means(void **state)
{
	struct consent_options o = {.socket = name, .listen_fd = -1};
	struct rlimit limit, none;
	struct target t;
	struct asked a;
	int next;

	(void)state;
	consent = consent_free(consent);
	o.features.has[FEATURE_PIDFD] = true;
	assert_int_equal(consent_new(&o, &loop, &consent), 0);
	start(&t, ANSWER);
	a = asked_of(&t);
	next = dup(0);
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = (rlim_t)next;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(consent_ask(consent, &a.request), CONSENT_NO_MEANS);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_non_null(strstr(consent_refusal_text(CONSENT_NO_MEANS), "no descriptor"));
	ask_in_the_end(&a.request);
	run_until(&a.n, 1);
	close(a.maps);
	end(&t);
}

static void test_refused(void **state)
{
	struct target t;
	struct asked a = {.request = {.pid = 1, .given = given}};

	(void)state;
	assert_int_equal(consent_ask(consent, &a.request), CONSENT_FIRST);
	a.request.pid = 0x7ffffff0;
	assert_int_equal(consent_ask(consent, &a.request), CONSENT_GONE);
	t.pid = fork();
	if (!t.pid) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	a.request.pid = (uint32_t)t.pid;
	assert_int_equal(consent_ask(consent, &a.request), CONSENT_NOT_CAUGHT);
	kill(t.pid, SIGKILL);
	assert_int_equal(waitpid(t.pid, NULL, 0), t.pid);
	assert_int_equal(a.n, 0);
	assert_int_equal(hook_process(), 0); /* no process was asked: nothing was opened */
}

/* It never answers: nothing comes, and it can be forgotten. */
static void test_silent(void **state)
{
	struct target t;
	struct asked a;
	char byte;

	(void)state;
	start(&t, SILENT);
	a = asked_of(&t);
	assert_int_equal(consent_ask(consent, &a.request), CONSENT_ASKED);
	assert_int_equal(read(t.signals, &byte, 1), 1);
	for (int i = 0; i < 3; i++)
		assert_int_equal(loop_run_once(&loop, 100), 0);
	assert_int_equal(a.n, 0);
	consent_forget(consent, &a.request);
	end(&t);
}

static pid_t await_hook_process(pid_t other_than)
{
	pid_t pid = 0;

	/* until it has its name */
	for (int i = 0; i < DEADLINE_S * 1000 && (!(pid = hook_process()) || pid == other_than);
	     i++)
		usleep(1000);
	assert_true(pid > 0 && pid != other_than);
	return pid;
}

static void run_until_taken(const struct asked *a, uint32_t again)
{
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + DEADLINE_S * NSEC_PER_SEC;

	while (clock_ns(CLOCK_MONOTONIC) < until &&
	       !(a->request.taken && a->request.again == again))
		assert_int_equal(loop_run_once(&loop, 100), 0);
	assert_true(a->request.taken);
	assert_int_equal(a->request.again, again);
}

/* It had connected when the hook process was lost: it is asked again, one signal however many wait
 * for it, and so many times and not more. */
static void test_half(void **state)
{
	struct target t, last;
	struct asked a, b, c;
	pid_t lost = 0;

	(void)state;
	start(&t, HALF);
	a = asked_of(&t);
	b = asked_of(&t);
	assert_int_equal(consent_ask(consent, &a.request), CONSENT_ASKED);
	assert_int_equal(consent_ask(consent, &b.request), CONSENT_ASKED);
	for (uint32_t again = 0; again <= CONSENT_AGAIN_MAX; again++) {
		run_until_taken(&a, again);
		assert_true(b.request.taken);
		assert_int_equal(signals_seen(&t), again + 1);
		lost = await_hook_process(lost);
		kill(lost, SIGKILL);
	}
	start(&last, ANSWER);
	c = asked_of(&last);
	ask_in_the_end(&c.request);
	run_until(&c.n, 1); /* the last one works */
	close(c.maps);
	(void)await_hook_process(lost);
	assert_int_equal(signals_seen(&t), CONSENT_AGAIN_MAX + 1);
	assert_int_equal(a.n + b.n, 0);
	consent_forget(consent, &a.request);
	consent_forget(consent, &b.request);
	end(&t);
	end(&last);
}

/* What a thread sent that has ended is of no use: the process is asked again. */
static void test_thread(void **state)
{
	uint64_t counts[HOOK_VERDICTS];
	struct target t;
	struct asked a;

	(void)state;
	start(&t, THREAD);
	a = asked_of(&t);
	assert_int_equal(consent_ask(consent, &a.request), CONSENT_ASKED);
	run_until(&a.n, 1);
	assert_false(a.refused);
	close(a.maps);
	consent_counts(consent, counts);
	assert_int_equal(counts[HOOK_THREAD_GONE], 2);
	assert_int_equal(counts[HOOK_NOT_ITS_OWN], 0);
	assert_int_equal(signals_seen(&t), 3);
	end(&t);
}

static void come_and_go(int n)
{
	for (int i = 0; i < n; i++) {
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

		assert_int_equal(connect(fd, (struct sockaddr *)&address, address_len), 0);
		close(fd);
	}
}

/* A process that did not answer is asked again where strangers may be the reason, and not otherwise. */
static void test_crowd(void **state)
{
	struct target t;
	struct asked a;
	char byte;

	(void)state;
	start(&t, LATER);
	a = asked_of(&t);
	assert_int_equal(consent_ask(consent, &a.request), CONSENT_ASKED);
	assert_int_equal(read(t.signals, &byte, 1), 1);
	come_and_go(10);
	for (int i = 0; i < 8; i++)
		assert_int_equal(loop_run_once(&loop, 100), 0);
	assert_int_equal(signals_seen(&t), 0);
	assert_int_equal(a.n, 0);
	come_and_go(100);
	run_until(&a.n, 1);
	assert_false(a.refused);
	assert_int_equal(signals_seen(&t), 1);
	assert_int_equal(a.request.again, 1);
	close(a.maps);
	end(&t);
}

static void replaced(int signal)
{
	struct target silent, t;
	struct asked a, b;
	pid_t first;

	start(&silent, SILENT);
	start(&t, ANSWER);
	a = asked_of(&silent);
	b = asked_of(&t);
	assert_int_equal(consent_ask(consent, &a.request), CONSENT_ASKED);
	first = await_hook_process(0);
	kill(first, signal);
	ask_in_the_end(&b.request);
	run_until(&b.n, 1); /* its answer waits at the socket for the next one */
	assert_false(b.refused);
	(void)await_hook_process(first);
	close(b.maps);
	assert_int_equal(a.n, 0); /* still waited for, by the new one */
	assert_int_equal(signals_seen(&silent), 1);
	assert_int_equal(signals_seen(&t), 1);
	consent_forget(consent, &a.request);
	end(&silent);
	end(&t);
}

static void test_hangs(void **state)
{
	(void)state;
	replaced(SIGSTOP);
}

static void test_dies(void **state)
{
	(void)state;
	replaced(SIGKILL);
}

/* Its own close() must not be the last: the hook process stands still until that is done. */
static void ask_stopped(struct target *t, struct consent_request *request)
{
	char error[256], byte;
	pid_t pid = 0;

	assert_int_equal(consent_open(consent, error, sizeof(error)), 0);
	for (int i = 0; i < 5000 && !(pid = hook_process()); i++)
		usleep(1000);
	assert_true(pid > 0);
	kill(pid, SIGSTOP);
	ask_in_the_end(request);
	assert_int_equal(read(t->signals, &byte, 1), 1);
	assert_int_equal(read(t->signals, &byte, 1), 1);
	kill(pid, SIGCONT);
}

/* What it sent cannot be closed: it is refused from then on, others are not, until three of its user
 * have done the same. */
static void test_stuck(void **state)
{
	struct target bad[CONSENT_BLAMES], good;
	uint64_t counts[HOOK_VERDICTS];
	struct asked a, b;

	(void)state;
	start(&good, ANSWER);
	b = asked_of(&good);
	for (int i = 0; i < CONSENT_BLAMES; i++) {
		start(&bad[i], LINGER);
		a = asked_of(&bad[i]);
		ask_stopped(&bad[i], &a.request);
		run_until(&a.n, 1);
		assert_true(a.refused);
		assert_int_equal(consent_ask(consent, &a.request), CONSENT_STUCK);
		if (i == CONSENT_BLAMES - 1)
			break;
		ask_in_the_end(&b.request);
		run_until(&b.n, i + 1);
		assert_false(b.refused);
		close(b.maps);
	}
	assert_int_equal(consent_ask(consent, &b.request), CONSENT_STUCK);
	consent_counts(consent, counts);
	assert_int_equal(counts[HOOK_WRITABLE], CONSENT_BLAMES);
	assert_int_equal(counts[HOOK_GOOD], CONSENT_BLAMES - 1);
	for (int i = 0; i < CONSENT_BLAMES; i++)
		end(&bad[i]);
	end(&good);
}

static void test_socket(void **state)
{
	struct consent_options o = {.listen_fd = -1};
	struct consent *c, *other;
	char path[64], error[256];
	struct stat st;

	(void)state;
	(void)snprintf(path, sizeof(path), "/tmp/test-consent-%d.sock", getpid());
	o.socket = path;
	assert_int_equal(consent_new(&o, &loop, &c), 0);
	assert_int_equal(consent_open(c, error, sizeof(error)), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0666);
	assert_int_equal(consent_new(&o, &loop, &other), 0);
	assert_int_equal(consent_open(other, error, sizeof(error)), -EADDRINUSE);
	assert_non_null(strstr(error, path));
	assert_non_null(strstr(error, "another perfwind listens there"));
	other = consent_free(other);
	assert_int_equal(stat(path, &st), 0); /* not its own to take away */
	c = consent_free(c);
	assert_int_equal(stat(path, &st), -1);
	o.socket = "/nowhere/hook.sock";
	assert_int_equal(consent_new(&o, &loop, &c), 0);
	assert_int_equal(consent_open(c, error, sizeof(error)), -ENOENT);
	c = consent_free(c);
	assert_null(consent_free(NULL));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
		EACH(test_given),      EACH(test_shared),   EACH(test_refused), EACH(test_silent),
		EACH(test_hangs),      EACH(test_dies),	    EACH(test_stuck),	EACH(test_half),
		EACH(test_thread),     EACH(test_crowd),    EACH(test_socket),	EACH(test_stale),
		EACH(test_joins_none), EACH(test_no_means),
#undef EACH
	};

	if (argc == 3 && !strcmp(argv[0], "target")) {
		(void)snprintf(name, sizeof(name), "%s", argv[1]);
		name_socket();
		report_fd = atoi(argv[2]); /* ours, from before the exec */
		mode = ANSWER;
		stay("x");
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
