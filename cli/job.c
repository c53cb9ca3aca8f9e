/* job.c - see job.h.  Thread: main.
 *
 * A command starts over two pipes: the child waits for a byte on one, and sends exec's errno through the
 * other, which is close-on-exec. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/job.h"
#include "base/log.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "base/error.h"

static _Noreturn void child_run(char *const *argv, int go_fd, int error_fd)
{
	const struct sigaction usual = {.sa_handler = SIG_DFL};
	sigset_t none;
	char go;
	int e;

	/* Under Yama's ptrace_scope 1 only ancestors may read a process's memory, and the process it names with its
	 * descendants: here perfwind with its helper processes.  EINVAL without Yama. */
	(void)prctl(PR_SET_PTRACER, (unsigned long)getppid(), 0, 0, 0);
	if (read(go_fd, &go, 1) != 1)
		_exit(0);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)sigaction(SIGPIPE, &usual, NULL);
	(void)sigaction(SIGXFSZ, &usual, NULL);
	execvp(argv[0], argv);
	e = errno;
	(void)!write(error_fd, &e, sizeof(e));
	_exit(e == ENOENT ? 127 : 126);
}

static int check_path(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return errno;
	if (S_ISDIR(st.st_mode))
		return EACCES;
	return access(path, X_OK) < 0 ? errno : 0;
}

int spawn_check(const char *name)
{
	const char *path = getenv("PATH");
	int best = ENOENT;

	if (strchr(name, '/'))
		return check_path(name);
	for (path = path ? path : "/bin:/usr/bin"; *path; path += *path == ':') {
		size_t len = strcspn(path, ":");
		char file[PATH_MAX];
		int e;

		if (snprintf(file, sizeof(file), "%.*s/%s", len ? (int)len : 1, len ? path : ".",
			     name) < PATH_MAX) {
			e = check_path(file);
			if (!e)
				return 0;
			best = e == EACCES ? e : best;
		}
		path += len;
	}
	return best;
}

/* The interpreter that a script names, as the kernel reads it (fs/binfmt_script.c): up to a blank in the first 256 bytes.
 * false: @path is not a script.  *ret_cr: a carriage return is its last character, and not in @to. */
static bool script_interpreter(const char *path, char to[256], bool *ret_cr)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, to, 255);
	size_t blanks, len;

	if (n < 2 || to[0] != '#' || to[1] != '!')
		return false;
	to[n] = 0;
	blanks = 2 + strspn(to + 2, " \t");
	len = strcspn(to + blanks, " \t\n");
	memmove(to, to + blanks, len);
	*ret_cr = len && to[len - 1] == '\r';
	to[len - *ret_cr] = 0;
	for (; *to; to++)
		if ((unsigned char)*to < ' ' || *to == 0x7f)
			*to = '?'; /* the message goes to a terminal */
	return true;
}

/* The file @name is there, and exec found none. */
static void explain_script(const char *name, char *to, size_t room)
{
	char interpreter[256];
	bool cr;

	if (!script_interpreter(name, interpreter, &cr))
		(void)snprintf(to, room, " (the file is there: the loader that it names is not)");
	else if (cr)
		(void)snprintf(to, room,
			       " (its interpreter '%s' ends in a carriage return: sed -i "
			       "'s/\\r$//' %s)",
			       interpreter, name);
	else
		(void)snprintf(to, room, " (the file is there: its interpreter %s is not)",
			       interpreter);
}

/* What is wrong with @name, beyond the error: "" or a text in parentheses. */
static void explain(const char *name, int e, bool pids, char *to, size_t room)
{
	bool bare = !strchr(name, '/'), here = access(name, F_OK) == 0;
	struct stat st;

	*to = 0;
	if (e == ENOENT && bare && pids && strspn(name, "0123456789,") == strlen(name))
		(void)snprintf(to, room, " (processes are given with -p %s)", name);
	else if (e == ENOENT && bare && here)
		(void)snprintf(to, room, " (the file here is ./%s)", name);
	else if (e == ENOENT && !bare && here)
		explain_script(name, to, room);
	else if (e == EACCES && here && stat(name, &st) == 0 && S_ISDIR(st.st_mode))
		(void)snprintf(to, room, " (it is a folder)");
	else if (e == EACCES && here && access(name, X_OK) < 0)
		(void)snprintf(to, room,
			       " (it is not executable: chmod +x, or its interpreter in front)");
}

int spawn_cannot_run(const char *name, int e, bool pids)
{
	char why[PATH_MAX + 512];

	explain(name, e, pids, why, sizeof(why));
	if (e == ENOENT && !strchr(name, '/'))
		log_error("%s: command not found in $PATH%s", name, why);
	else
		log_error("%s: %s%s", name, strerror(e), why);
	return e == ENOENT ? 127 : 126;
}

bool spawn_is_output(const char *path)
{
	struct stat own, file;

	if (!strcmp(path, "-"))
		return true;
	return fstat(STDOUT_FILENO, &own) == 0 && stat(path, &file) == 0 &&
	       own.st_dev == file.st_dev && own.st_ino == file.st_ino && !S_ISCHR(own.st_mode);
}

int spawn_new(char *const *argv, bool aside, struct spawn *ret)
{
	int go[2], err[2];
	pid_t pid;

	if (pipe2(go, O_CLOEXEC) < 0)
		return fail(-errno);
	if (pipe2(err, O_CLOEXEC) < 0) {
		int r = -errno;

		(void)fd_close(go[0]);
		(void)fd_close(go[1]);
		return fail(r);
	}
	pid = fork();
	if (pid == 0) {
		(void)close(go[1]);
		if (aside)
			(void)dup2(STDERR_FILENO, STDOUT_FILENO);
		child_run(argv, go[0], err[1]);
	}
	(void)fd_close(go[0]);
	(void)fd_close(err[1]);
	*ret = (struct spawn){.pid = pid, .go_fd = go[1], .error_fd = err[0]};
	if (pid < 0) {
		int r = -errno;

		spawn_deinit(ret);
		return fail(r);
	}
	return 0;
}

int spawn_go(struct spawn *spawn)
{
	int e = 0;

	if (write_all(spawn->go_fd, "g", 1) < 0)
		return ECHILD;
	spawn->go_fd = fd_close(spawn->go_fd);
	while (read(spawn->error_fd, &e, sizeof(e)) < 0 && errno == EINTR)
		;
	spawn->error_fd = fd_close(spawn->error_fd);
	return e;
}

int spawn_reap(const struct spawn *spawn, int *status)
{
	int ended;
	pid_t pid;

	if (*status >= 0 || spawn->pid <= 0)
		return 0;
	pid = waitpid(spawn->pid, &ended, WNOHANG);
	if (pid < 0 && errno == ECHILD) {
		*status = W_EXITCODE(1, 0);
		return fail(-ECHILD);
	}
	if (pid == spawn->pid)
		*status = ended;
	return 0;
}

void spawn_deinit(struct spawn *spawn)
{
	bool waits = spawn->go_fd >= 0;

	spawn->go_fd = fd_close(spawn->go_fd);
	spawn->error_fd = fd_close(spawn->error_fd);
	if (waits && spawn->pid > 0)
		(void)waitpid(spawn->pid, NULL, 0);
}

int spawn_exit_status(int wait_status)
{
	if (WIFEXITED(wait_status))
		return WEXITSTATUS(wait_status);
	return WIFSIGNALED(wait_status) ? 128 + WTERMSIG(wait_status) : 1;
}

enum { SAME_REQUEST_MS = 300 };

void job_init(struct job *c, char *const *command)
{
	*c = (struct job){
		.spawn = {.go_fd = -1, .error_fd = -1},
		.command = command,
		.status = -1,
		.signals.fd = -1,
	};
}

void job_deinit(struct job *c)
{
	job_watch_no_more(c);
	spawn_deinit(&c->spawn);
}

int job_check(const struct job *c)
{
	int e = c->command ? spawn_check(c->command[0]) : 0;

	return e ? spawn_cannot_run(c->command[0], e, true) : 0;
}

int job_hold(struct job *c)
{
	int r = c->command ? spawn_new(c->command, c->aside, &c->spawn) : 0;

	return r < 0 ? trace(r) : 0;
}

static void reap(struct job *c)
{
	if (spawn_reap(&c->spawn, &c->status) < 0)
		log_error("the exit status of %s is unknown", c->command[0]);
}

/* One request of timeout(1) and of others that signal a process and its group. */
static bool is_same_request(const struct job *c, const struct job_request *request)
{
	return request->pid && request->pid == c->first.pid && request->signal == c->first.signal &&
	       request->at < c->first.at + SAME_REQUEST_MS * NSEC_PER_MSEC;
}

static _Noreturn void leave(const struct job *c, int sig)
{
	if (c->live)
		fprintf(stderr, "\r\033[K");
	terminal_restore();
	if (c->leave)
		c->leave(c->leave_arg);
	_exit(128 + sig);
}

static void interrupt(struct job *c, const struct job_request *request)
{
	if (c->interrupted && is_same_request(c, request))
		return;
	if (c->interrupted)
		leave(c, request->signal);
	c->interrupted = true;
	c->first = *request;
	/* The terminal sends Ctrl-C to the command too, which decides for itself; the other signals reach only
	 * perfwind. */
	c->ended_by_us |= request->signal != SIGINT;
}

static int signal_ready(struct loop_source *source, uint32_t events)
{
	struct job *c = container_of(source, struct job, signals);
	struct job_request request = {.at = clock_ns(CLOCK_MONOTONIC)};

	(void)events;
	while ((request.signal = signals_next_from(source, &request.pid))) {
		if (request.signal == SIGCHLD)
			reap(c);
		else
			interrupt(c, &request);
	}
	if (c->interrupted || c->status >= 0)
		c->over(c->arg);
	return 0;
}

int job_watch(struct job *c, struct loop *loop, void (*over)(void *arg), void *arg)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGCHLD};
	const struct sigaction usual = {.sa_handler = SIG_DFL};

	job_watch_no_more(c);
	c->loop = loop;
	c->over = over;
	c->arg = arg;
	/* Some supervisors leave SIGCHLD ignored: the kernel would then discard the exit status. */
	(void)sigaction(SIGCHLD, &usual, NULL);
	return signals_watch(loop, &c->signals, signals, ARRAY_SIZE(signals), signal_ready);
}

void job_watch_no_more(struct job *c)
{
	if (c->loop)
		signals_unwatch(c->loop, &c->signals);
	c->loop = NULL;
}

int job_go(struct job *c)
{
	int e = c->command ? spawn_go(&c->spawn) : 0;

	return e ? spawn_cannot_run(c->command[0], e, true) : 0;
}

/* Without a loop: the signals have their default actions, so Ctrl-C ends perfwind at once. */
static void await_without_loop(struct job *c)
{
	sigset_t none;

	job_watch_no_more(c);
	sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	while (waitpid(c->spawn.pid, &c->status, 0) < 0)
		if (errno != EINTR) {
			c->status = W_EXITCODE(1, 0);
			return;
		}
}

/* Has the command had the time to end with the same Ctrl-C? */
static bool is_over(const struct job *c)
{
	return clock_ns(CLOCK_MONOTONIC) >= c->first.at + SAME_REQUEST_MS * NSEC_PER_MSEC;
}

void job_await(struct job *c, const char *failed)
{
	bool terminated = false, warned = false;

	if (!c->command || c->spawn.go_fd >= 0) /* no command, or never started */
		return;
	reap(c);
	if (c->status < 0 && failed)
		log_info("the recording has ended early: %s; %s goes on", failed, c->command[0]);
	while (c->status < 0) {
		int timeout_ms = -1;

		if (c->ended_by_us && !terminated) {
			(void)kill(c->spawn.pid, SIGTERM);
			terminated = true;
		} else if (c->interrupted && !terminated && !warned && !is_over(c)) {
			timeout_ms = SAME_REQUEST_MS; /* most commands end */
		} else if (c->interrupted && !terminated && !warned) {
			log_info("the recording has ended, %s goes on (Ctrl-C again stops waiting "
				 "for it)",
				 c->command[0]);
			warned = true;
		}
		if (loop_run_once(c->loop, timeout_ms) < 0)
			await_without_loop(c);
	}
	if (WIFSIGNALED(c->status) && !c->ended_by_us &&
	    !(c->interrupted && WTERMSIG(c->status) == SIGINT))
		log_info("%s: %s%s", c->command[0], strsignal(WTERMSIG(c->status)),
			 WCOREDUMP(c->status) ? " (core dumped)" : "");
}

int job_exit_status(const struct job *c, bool failed)
{
	int status = 0;

	if (c->command && !c->ended_by_us && c->status >= 0)
		status = spawn_exit_status(c->status);
	return status ? status : failed;
}
