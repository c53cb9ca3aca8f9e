/* consent.c - requests, the hook socket, and the supervision of the hook process (consent.h).
 *
 *   request ─ expect ─► hook process;  then the signal, so that no answer arrives unexpected
 *
 *   while requests wait: a ping each tick.  If it is unanswered for STUCK_TICKS, the hook process
 *   is abandoned, the target of the message in work is blamed, and the next one expects all
 *   others
 *
 * No call here waits: a full channel means that the hook process hangs.
 *
 * May a process be asked?  HOOK_SIGNAL does no harm to a process without a handler, so these
 * checks protect no process except the one on seccomp: a filter may kill for the system calls of
 * the answer, or trap them, which kills a process that blocks SIGSYS.  The checks save useless
 * signals, and give the reason to report.  The kernel writes /proc, but a fake one in tests may
 * hold anything.
 *
 * Blame: a process is blamed by pid and start time, as the pid may be used again.  Its user is
 * blamed after several, since a user can create as many processes as there may be hook processes
 * to hang. Both tables are bounded: a process that finds no room is asked again and can hang
 * another hook process, of which there are ABANDONED_MAX at most.
 *
 * The hook process is a child of base/child.h that ends with its channel. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/error.h"
#include "base/fd-message.h"
#include "base/listen-fds.h"
#include "base/table.h"
#include "proc/procfs.h"
#include "session/consent/hook-server.h"
#include "session/consent/consent.h"

struct hook_work {
	_Atomic uint64_t at_work;
	_Atomic uint64_t counts[HOOK_VERDICTS];
};

struct message {
	uint32_t what, value;
};

/* ---- the child ---- */

struct server {
	struct hook_server server;
	int channel;
	bool begun;
};

static int report(struct server *c, uint32_t kind, uint32_t value, const int *fds)
{
	const struct hook_report r = {.kind = kind, .value = value};
	ssize_t n = fd_message_send(c->channel, &r, sizeof(r), fds, fds ? HOOK_DESCRIPTORS : 0,
				    MSG_DONTWAIT);

	return n < 0 ? (int)n : 0;
}

static int verified(void *arg, uint32_t pid, const int fds[static HOOK_DESCRIPTORS])
{
	return report(arg, HOOK_REPORT_FILES, pid, fds);
}

static void taken(void *arg, uint32_t pid)
{
	(void)report(arg, HOOK_REPORT_TAKEN, pid, NULL);
}

static void lost(void *arg, uint32_t pid)
{
	(void)report(arg, HOOK_REPORT_LOST, pid, NULL);
}

/* false: main is gone. */
static bool listen_to_main(struct server *c)
{
	struct message message;
	ssize_t n;

	while ((n = recv(c->channel, &message, sizeof(message), MSG_DONTWAIT)) == sizeof(message)) {
		if (message.what == HOOK_SEND_EXPECT)
			(void)hook_server_expect(&c->server, message.value);
		else if (message.what == HOOK_SEND_FORGET)
			hook_server_forget(&c->server, message.value);
		else if (message.what == HOOK_SEND_BEGIN)
			c->begun = true;
		else
			(void)report(c, HOOK_REPORT_PONG, message.value, NULL);
	}
	return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void hear_main(void *arg)
{
	(void)listen_to_main(arg); /* the next wait notices an end of main */
}

static void run(void *arg)
{
	struct server *c = arg;
	bool message = false;

	hook_server_init(&c->server);
	while (!c->begun) {
		struct pollfd pfd = {.fd = c->channel, .events = POLLIN};

		if (poll(&pfd, 1, -1) == 1 && !listen_to_main(c))
			return;
	}
	for (;;) {
		/* The messages of main come first: they name the processes that were just asked. */
		if (hook_server_wait(&c->server, c->channel, -1, &message) < 0 ||
		    !listen_to_main(c))
			return;
		hook_server_take(&c->server);
	}
}

/* ---- main ---- */

int hook_process_start(int listen_fd, bool peer_pidfd, struct hook_process *ret_process)
{
	struct hook_work *work = mmap(NULL, sizeof(*work), PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct server server = {
		.server = {.listen_fd = listen_fd,
			   .peer_pidfd = peer_pidfd,
			   .at_work = &work->at_work,
			   .counts = work->counts,
			   .verified = verified,
			   .taken = taken,
			   .lost = lost,
			   .hear = hear_main,
			   .arg = &server},
	};
	struct child child = {
		.name = HOOK_PROCESS_NAME, .calls = CHILD_CALLS_ACCEPT, .run = run, .arg = &server};
	int pair[2], r;
	pid_t pid;

	if (work == MAP_FAILED)
		return fail(-errno);
	r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 ? fail(-errno) : 0;
	if (r >= 0) {
		server.channel = child.keep[0] = pair[1];
		child.keep[1] = listen_fd;
		r = child_start(&child, &pid);
		(void)madvise(work, sizeof(*work), MADV_DONTFORK); /* for this child alone */
		(void)fd_close(pair[1]);
		if (r < 0)
			(void)fd_close(pair[0]);
	}
	if (r < 0) {
		(void)munmap(work, sizeof(*work));
		return trace(r);
	}
	*ret_process = (struct hook_process){.pid = pid, .fd = pair[0], .work = work};
	return 0;
}

int hook_process_send(struct hook_process *p, enum hook_message what, uint32_t value)
{
	const struct message message = {.what = what, .value = value};

	if (send(p->fd, &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	return fail(errno == EAGAIN ? -EAGAIN : -EPIPE);
}

int hook_process_hear(struct hook_process *p, struct hook_report *ret_report,
		      int ret_fds[static HOOK_DESCRIPTORS])
{
	struct hook_report r;
	struct fd_message m;
	ssize_t n = fd_message_receive(p->fd, &r, sizeof(r), HOOK_DESCRIPTORS, MSG_DONTWAIT, &m);

	if (n == -EAGAIN)
		return -EAGAIN; /* the normal end of a round */
	if (n != sizeof(r)) {
		fd_message_close(&m);
		return fail(-EPIPE);
	}
	for (size_t i = 0; i < HOOK_DESCRIPTORS; i++)
		ret_fds[i] = i < m.n ? m.fds[i] : -1;
	*ret_report = r;
	return 0;
}

uint32_t hook_process_at_work(const struct hook_process *p, uint32_t *ret_uid)
{
	uint64_t at_work = p->fd >= 0 ? atomic_load(&p->work->at_work) : 0;

	*ret_uid = hook_at_work_uid(at_work);
	return hook_at_work_pid(at_work);
}

void hook_process_counts(const struct hook_process *p, uint64_t ret_counts[static HOOK_VERDICTS])
{
	for (int i = 0; i < HOOK_VERDICTS; i++)
		ret_counts[i] = p->fd >= 0 ? atomic_load(&p->work->counts[i]) : 0;
}

void hook_process_end(struct hook_process *p, int wait_ms, uint64_t counts[static HOOK_VERDICTS])
{
	if (p->fd < 0)
		return;
	p->fd = fd_close(p->fd);
	child_end(p->pid, HOOK_PROCESS_NAME, wait_ms);
	for (int i = 0; i < HOOK_VERDICTS; i++)
		counts[i] += atomic_load(&p->work->counts[i]);
	(void)munmap(p->work, sizeof(*p->work));
}

enum {
	TICK_MS = 100,
	END_WAIT_MS = 20,
	STUCK_TICKS = 10,
	REQUESTS_MAX = 200, /* so that all expected pids fit into the channel at once */
	ABANDONED_MAX = 16, /* hook processes that could not be killed; then no more are created */
	SOCKET_MODE = 0666, /* any process may answer; the kernel gives its identity */
	LOST_MS = 100,	    /* then the signal is sent again, and after twice that, ... */
	CROWDED_MS = 500,   /* the same where other connections may have kept an answer out */
	CROWD = 64,	    /* the number of these since the request */
	STATUS_MAX = 64 << 10,
	SECCOMP_STRICT = 1,
	SECCOMP_FILTERED = 2,
	BLAMED_MAX = 1024,
};

struct blame {
	struct table processes; /* pid -> start time */
	struct table users;	/* uid -> number of blames */
};

struct consent {
	struct consent_options options;
	struct loop *loop;
	int listen_fd;
	bool own_path; /* options.socket was created here */
	int closed;    /* < 0: consent_open() failed, and is not tried again */
	struct hook_process process;
	struct loop_source reports;
	struct loop_timer tick;
	uint32_t pinged, heard, late; /* late: ticks since the oldest ping without an answer */
	struct consent_request *requests;
	size_t n_requests;
	struct blame blame;
	uint64_t past[HOOK_VERDICTS]; /* of earlier hook processes */
	char why[256];
};

void consent_set_under_seccomp(struct consent *c, bool under_seccomp)
{
	c->options.under_seccomp = under_seccomp;
}

const char *consent_socket(const struct consent *c)
{
	return c->options.socket ? c->options.socket : HOOK_SOCKET;
}

const char *consent_why(const struct consent *c)
{
	return c->why;
}

void consent_counts(const struct consent *c, uint64_t ret_counts[static HOOK_VERDICTS])
{
	hook_process_counts(&c->process, ret_counts);
	for (int i = 0; i < HOOK_VERDICTS; i++)
		ret_counts[i] += c->past[i];
}

/* ---- blame ---- */

static void blame_put(struct blame *b, const char *root, uint32_t pid, uint32_t uid)
{
	struct procfs_status status;
	uint64_t n = 0;

	if (b->processes.n_used == BLAMED_MAX)
		table_clear(&b->processes);
	if (procfs_status(root, pid, &status) >= 0)
		(void)table_put(&b->processes, pid, status.start_ticks);
	if (table_get(&b->users, uid, &n) || b->users.n_used < BLAMED_MAX)
		(void)table_put(&b->users, uid, n + 1);
}

static bool blame_has(const struct blame *b, const char *root, uint32_t pid)
{
	struct procfs_status status;
	uint64_t v;

	if ((!b->processes.n_used && !b->users.n_used) || procfs_status(root, pid, &status) < 0)
		return false;
	if (table_get(&b->processes, pid, &v) && v == status.start_ticks)
		return true;
	return table_get(&b->users, status.uid, &v) && v >= CONSENT_BLAMES;
}

/* ---- may it be asked? ---- */

const char *consent_refusal_text(enum consent_refusal refusal)
{
	static const char *const texts[CONSENT_REFUSALS] = {
		[CONSENT_ASKED] = "it was asked",
		[CONSENT_GONE] = "it has exited",
		[CONSENT_KERNEL_THREAD] = "it is a kernel thread",
		[CONSENT_FIRST] =
			"it is the first process of a container or of the machine, which gets "
			"no signal",
		[CONSENT_NOT_CAUGHT] = "the hook is not loaded in it, or disabled itself on a "
				       "small alternate signal stack",
		[CONSENT_BLOCKED] = "it blocks the hook's signal",
		[CONSENT_SECCOMP] = "its seccomp filter may kill it for answering",
		[CONSENT_FORBIDDEN] = "no permission to send it a signal (CAP_KILL)",
		[CONSENT_UNGUARDED] = "it does not let the hook handle SIGSYS, so a seccomp filter "
				      "would kill it for answering",
		[CONSENT_STUCK] =
			"data from this process, or from another process of its user, could not be "
			"handled in time",
		[CONSENT_NO_SOCKET] = "the hook socket cannot be opened",
		[CONSENT_TOO_MANY] = "too many processes are being asked at this time",
		[CONSENT_NO_MEANS] = "no descriptor or memory is left for it (a limit on open "
				     "files?)",
	};

	return texts[refusal];
}

/* The value behind "NAME:\t" at the beginning of a line, or NULL. */
static const char *value_of(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, name, len) && line[len] == ':')
			return line + len + 1 + strspn(line + len + 1, "\t ");
	}
	return NULL;
}

/* The word at @p as a number. */
static bool number(const char *p, int base, uint64_t *ret)
{
	char word[24];
	size_t len = p ? strcspn(p, " \t\n") : 0;

	if (!len || len >= sizeof(word))
		return false;
	memcpy(word, p, len);
	word[len] = 0;
	return parse_u64(word, base, UINT64_MAX, ret) >= 0;
}

static bool in_set(const char *text, const char *name, int signal)
{
	uint64_t set;

	return number(value_of(text, name), 16, &set) && (set >> (signal - 1) & 1);
}

/* NSpid has one number for each pid namespace, from that of /proc inwards. */
static bool is_first(const char *text, uint32_t pid)
{
	const char *p = value_of(text, "NSpid");
	uint64_t n;

	for (; p && number(p, 10, &n); p += strspn(p, "\t ")) {
		if (n == 1)
			return true;
		p += strcspn(p, "\t \n");
	}
	return pid == 1;
}

enum consent_refusal consent_look(const char *root, uint32_t pid, bool under_seccomp)
{
	_cleanup_(freep) char *text = NULL;
	char path[PROCFS_PATH_MAX];
	struct procfs_status status;
	uint64_t seccomp = 0;

	if (procfs_status(root, pid, &status) < 0 || status.zombie ||
	    procfs_path(path, root, pid, "status") < 0 ||
	    read_file(path, STATUS_MAX, &text, NULL) < 0)
		return CONSENT_GONE;
	if (status.kernel_thread)
		return CONSENT_KERNEL_THREAD;
	if (is_first(text, pid))
		return CONSENT_FIRST;
	if (!in_set(text, "SigCgt", HOOK_SIGNAL))
		return CONSENT_NOT_CAUGHT;
	if (in_set(text, "SigBlk", HOOK_SIGNAL))
		return CONSENT_BLOCKED;
	(void)number(value_of(text, "Seccomp"), 10, &seccomp);
	/* In strict mode any system call but read and write kills, whatever the options. */
	if (seccomp == SECCOMP_STRICT || (!under_seccomp && seccomp == SECCOMP_FILTERED))
		return CONSENT_SECCOMP;
	/* The hook does not answer where SIGSYS is blocked: it cannot know whether there is a
	 * filter. */
	if (in_set(text, "SigBlk", SIGSYS) ||
	    (seccomp == SECCOMP_FILTERED && !in_set(text, "SigCgt", SIGSYS)))
		return CONSENT_UNGUARDED;
	return CONSENT_ASKED;
}

/* HOOK_SIGNAL with HOOK_VALUE, by @pidfd, or by @pid where that is -1. */
static int send_signal(uint32_t pid, int pidfd)
{
	siginfo_t info = {0};
	long r;

	info.si_signo = HOOK_SIGNAL;
	info.si_code = SI_QUEUE;
	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_int = HOOK_VALUE;
	r = pidfd >= 0 ? syscall(SYS_pidfd_send_signal, pidfd, HOOK_SIGNAL, &info, 0)
		       : syscall(SYS_rt_sigqueueinfo, pid, HOOK_SIGNAL, &info);
	return r < 0 ? fail(-errno) : 0;
}

/* ---- requests ---- */

static void remove_request(struct consent *c, struct consent_request *r)
{
	*r->at = r->next;
	if (r->next)
		r->next->at = r->at;
	r->next = NULL;
	r->at = NULL;
	c->n_requests--;
}

static struct consent_request *request_of(struct consent *c, uint32_t pid)
{
	struct consent_request *r = c->requests;

	while (r && r->pid != pid)
		r = r->next;
	return r;
}

/* Several sessions may wait for one process: each gets its own descriptors. */
static void give(struct consent *c, uint32_t pid, const int *fds)
{
	struct consent_request *r;

	while ((r = request_of(c, pid))) {
		int copies[HOOK_DESCRIPTORS];

		remove_request(c, r);
		for (size_t i = 0; fds && i < HOOK_DESCRIPTORS; i++)
			copies[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
		r->given(r, fds ? copies : NULL);
	}
}

/* ---- the hook process ---- */

static void end_process(struct consent *c, int wait_ms)
{
	if (c->process.fd < 0)
		return;
	loop_remove(c->loop, &c->reports);
	hook_process_end(&c->process, wait_ms, c->past);
	c->pinged = c->heard = c->late = 0;
}

static int start_process(struct consent *c);
static enum consent_refusal send_request(struct consent *c, uint32_t pid);

static uint64_t strangers(const struct consent *c)
{
	uint64_t counts[HOOK_VERDICTS];

	consent_counts(c, counts);
	return counts[HOOK_STRANGER];
}

static void note_sent(const struct consent *c, struct consent_request *r)
{
	r->taken = r->lost = false;
	r->sent = clock_ns(CLOCK_MONOTONIC);
	r->strangers = strangers(c);
}

/* Has an answer been lost, or perhaps been lost, and is it time for another signal? */
static bool is_due(const struct consent *c, const struct consent_request *r)
{
	bool crowded = !r->taken && strangers(c) - r->strangers >= CROWD;
	uint64_t wait = (uint64_t)(r->lost ? LOST_MS : CROWDED_MS) << r->again;

	return (r->lost || crowded) && r->again < CONSENT_AGAIN_MAX && !r->unsent &&
	       clock_ns(CLOCK_MONOTONIC) - r->sent >= wait * NSEC_PER_MSEC;
}

/* One signal for all requests of a process. */
static void ask_again(struct consent *c)
{
	for (struct consent_request *r = c->requests; r && c->process.fd >= 0; r = r->next) {
		if (!is_due(c, r) || send_request(c, r->pid) != CONSENT_ASKED)
			continue;
		for (struct consent_request *same = c->requests; same; same = same->next) {
			if (same->pid != r->pid)
				continue;
			same->again++;
			note_sent(c, same);
		}
	}
}

static void note_taken(struct consent *c, uint32_t pid)
{
	for (struct consent_request *r = c->requests; r; r = r->next)
		r->taken |= r->pid == pid;
}

static void note_lost(struct consent *c, uint32_t pid)
{
	for (struct consent_request *r = c->requests; r; r = r->next)
		r->lost |= r->pid == pid;
}

/* Processes of the answers that the lost hook process was handling are asked again.  Other answers are in
 * the queue of the socket or still to come: the next hook process expects these, without a second
 * signal. */
static void note_all_lost(struct consent *c)
{
	for (struct consent_request *r = c->requests; r; r = r->next)
		r->lost |= r->taken;
}

/* The hook process hangs or is gone: a new one replaces it, and the target that caused that is not
 * asked again. */
static void replace_process(struct consent *c)
{
	uint32_t uid, culprit = hook_process_at_work(&c->process, &uid);

	end_process(c, 0);
	if (culprit) {
		log_verbose("process %u of user %u: its message at the hook socket could not be "
			    "handled",
			    culprit, uid);
		blame_put(&c->blame, "", culprit, uid);
		give(c, culprit, NULL);
	}
	note_all_lost(c);
	(void)start_process(c); /* tried again by the tick */
}

static int reports_ready(struct loop_source *source, uint32_t events)
{
	struct consent *c = container_of(source, struct consent, reports);
	struct hook_report report;
	int fds[HOOK_DESCRIPTORS], r;

	(void)events;
	while ((r = hook_process_hear(&c->process, &report, fds)) == 0) {
		if (report.kind == HOOK_REPORT_PONG)
			c->heard = report.value;
		else if (report.kind == HOOK_REPORT_TAKEN)
			note_taken(c, report.value);
		else if (report.kind == HOOK_REPORT_LOST)
			note_lost(c, report.value);
		else if (fds[HOOK_MAPS] >= 0 && fds[HOOK_MEM] >= 0)
			give(c, report.value, fds);
		for (size_t i = 0; i < HOOK_DESCRIPTORS; i++)
			(void)fd_close(fds[i]); /* procfs, checked: it cannot hang */
	}
	if (r != -EAGAIN)
		replace_process(c);
	return 0;
}

static int start_process(struct consent *c)
{
	int r;

	if (child_left(HOOK_PROCESS_NAME) >= ABANDONED_MAX)
		return fail(-EAGAIN);
	r = hook_process_start(c->listen_fd, c->options.features.has[FEATURE_PEER_PIDFD],
			       &c->process);
	if (r < 0) {
		c->process.fd = -1;
		return trace(r);
	}
	r = loop_add(c->loop, &c->reports, c->process.fd, EPOLLIN, reports_ready);
	for (struct consent_request *q = c->requests; q && r >= 0; q = q->next)
		r = hook_process_send(&c->process, HOOK_SEND_EXPECT, q->pid);
	if (r >= 0)
		r = hook_process_send(&c->process, HOOK_SEND_BEGIN, 0);
	if (r < 0)
		end_process(c, 0);
	return r < 0 ? trace(r) : 0;
}

/* The request that had the signal sent ended without an answer, because an exec replaced the
 * program or because the session no longer needs it: requests that relied on it send a signal
 * themselves. */
static void ask_for_joined(struct consent *c)
{
	for (struct consent_request *r = c->requests; r && c->process.fd >= 0; r = r->next) {
		enum consent_refusal refusal = r->unsent ? send_request(c, r->pid) : CONSENT_ASKED;

		r->sender |= r->unsent && refusal == CONSENT_ASKED;
		r->unsent &= refusal == CONSENT_NOT_CAUGHT || refusal == CONSENT_BLOCKED ||
			     refusal == CONSENT_TOO_MANY || refusal == CONSENT_NO_MEANS;
	}
}

static int tick(struct loop_timer *timer)
{
	struct consent *c = container_of(timer, struct consent, tick);

	ask_for_joined(c);
	ask_again(c);
	if (c->process.fd < 0) {
		if (c->listen_fd >= 0 && c->requests)
			replace_process(c);
	} else if (c->heard != c->pinged && child_runnable(c->process.pid)) {
		; /* it waits for a CPU: the machine is slow */
	} else if (c->heard != c->pinged && ++c->late >= STUCK_TICKS) {
		replace_process(c);
	} else if (c->heard == c->pinged) {
		c->late = 0;
		if (hook_process_send(&c->process, HOOK_SEND_PING, c->pinged + 1) == 0)
			c->pinged++;
		else
			c->late++;
	}
	if (!c->requests)
		(void)loop_timer_set(&c->tick, 0, 0);
	return 0;
}

/* ---- the socket ---- */

/* The default folder is created; other folders are not. */
static int listen_path(struct consent *c, const char *path)
{
	int r;

	if (!strcmp(path, HOOK_SOCKET))
		(void)mkdir(HOOK_FOLDER, 0755);
	r = listen_at(path, SOCKET_MODE, &c->listen_fd);
	c->own_path = r >= 0 && *path != '@';
	return r < 0 ? trace(r) : 0;
}

static int open_socket(struct consent *c)
{
	const char *name = consent_socket(c);
	int r;

	if (c->listen_fd >= 0)
		return 0;
	if (c->closed < 0)
		return c->closed;
	r = listen_path(c, name);
	if (r < 0)
		(void)snprintf(c->why, sizeof(c->why), "%.200s: %s", name,
			       r == -EADDRINUSE ? "another perfwind listens there" : strerror(-r));
	return r < 0 ? trace(r) : 0;
}

static int open_all(struct consent *c)
{
	int r = open_socket(c);

	if (r >= 0 && c->process.fd < 0) {
		r = start_process(c);
		if (r < 0)
			(void)snprintf(c->why, sizeof(c->why), "%.200s: %s", consent_socket(c),
				       strerror(-r));
	}
	return r < 0 ? trace(r) : 0;
}

int consent_open(struct consent *c, char *error, size_t error_size)
{
	int r = open_all(c);

	if (r < 0)
		(void)snprintf(error, error_size, "the hook socket %s", c->why);
	c->closed = r;
	return r < 0 ? trace(r) : 0;
}

/* ---- asking ---- */

static enum consent_refusal send_request(struct consent *c, uint32_t pid)
{
	_cleanup_(fd_closep) int pidfd = -1;
	enum consent_refusal refusal;
	int r;

	/* Before the checks, so that the checked process is the one that is asked. */
	if (c->options.features.has[FEATURE_PIDFD]) {
		pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
		if (pidfd < 0)
			return is_shortage(-errno) ? CONSENT_NO_MEANS : CONSENT_GONE;
	}
	refusal = consent_look("", pid, c->options.under_seccomp);
	if (refusal != CONSENT_ASKED)
		return refusal;
	if (open_all(c) < 0)
		return CONSENT_NO_SOCKET;
	if (hook_process_send(&c->process, HOOK_SEND_EXPECT, pid) < 0)
		return CONSENT_TOO_MANY;
	r = send_signal(pid, pidfd);
	if (r == 0)
		return CONSENT_ASKED;
	(void)hook_process_send(&c->process, HOOK_SEND_FORGET, pid);
	return r == -ESRCH ? CONSENT_GONE : CONSENT_FORBIDDEN;
}

/* A waiting request may concern the program before an exec: the present one may have no hook yet.
 * A process that blocks the signal may be answering just now. */
static enum consent_refusal look_to_join(const struct consent *c, uint32_t pid)
{
	enum consent_refusal refusal = consent_look("", pid, c->options.under_seccomp);

	return refusal == CONSENT_NOT_CAUGHT || refusal == CONSENT_GONE ? refusal : CONSENT_ASKED;
}

enum consent_refusal consent_ask(struct consent *c, struct consent_request *request)
{
	bool joins = request_of(c, request->pid) != NULL;
	enum consent_refusal refusal;

	if (blame_has(&c->blame, "", request->pid))
		return CONSENT_STUCK;
	if (c->n_requests == REQUESTS_MAX)
		return CONSENT_TOO_MANY;
	refusal = joins ? look_to_join(c, request->pid) : send_request(c, request->pid);
	if (refusal != CONSENT_ASKED)
		return refusal;
	request->again = 0;
	request->unsent = false;
	note_sent(c, request);
	request->sender = !joins;
	request->next = c->requests;
	request->at = &c->requests;
	if (request->next)
		request->next->at = &request->next;
	c->requests = request;
	c->n_requests++;
	(void)loop_timer_set(&c->tick, TICK_MS * NSEC_PER_MSEC, TICK_MS * NSEC_PER_MSEC);
	return CONSENT_ASKED;
}

void consent_forget(struct consent *c, struct consent_request *request)
{
	struct consent_request *other;

	remove_request(c, request);
	other = request_of(c, request->pid);
	if (other)
		other->unsent |= request->sender || request->unsent;
	else if (c->process.fd >= 0)
		(void)hook_process_send(&c->process, HOOK_SEND_FORGET, request->pid);
}

/* ---- life cycle ---- */

int consent_new(const struct consent_options *options, struct loop *loop,
		struct consent **ret_consent)
{
	_cleanup_(fd_closep) int listen_fd = options->listen_fd;
	struct consent *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return fail(-ENOMEM);
	c->options = *options;
	c->loop = loop;
	c->process.fd = c->reports.fd = c->tick.source.fd = -1;
	r = loop_timer_add(loop, &c->tick, 0, 0, tick);
	if (r < 0) {
		free(c);
		return trace(r);
	}
	c->listen_fd = take_fd(listen_fd);
	*ret_consent = c;
	return 0;
}

void consent_unlink(struct consent *c)
{
	if (c && c->own_path)
		(void)unlink(consent_socket(c));
}

struct consent *consent_free(struct consent *c)
{
	if (!c)
		return NULL;
	consent_unlink(c);
	/* The hook process holds the socket last, and its end frees what strangers queued there. */
	(void)fd_close(c->listen_fd);
	end_process(c, END_WAIT_MS); /* if it cannot be killed, init reaps it after we exit */
	loop_timer_remove(c->loop, &c->tick);
	table_deinit(&c->blame.processes);
	table_deinit(&c->blame.users);
	free(c);
	return NULL;
}
