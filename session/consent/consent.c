/* consent.c - see consent.h: the requests, the socket and the hook process behind it.
 *
 *   request ─ expect ─► hook process;  then the signal, so that no answer comes unexpected
 *   while requests wait: a ping each tick; no answer to it for STUCK_TICKS: the process is abandoned,
 *   whose descriptors it had in hand is refused from then on, and the next one expects all others
 *
 * Nothing here waits: a channel that is full is one that hangs. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/error.h"
#include "base/listen-fds.h"
#include "session/consent/consent-blame.h"
#include "session/consent/consent.h"
#include "session/consent/hook-process.h"

enum {
	TICK_MS = 100,
	END_WAIT_MS = 20,
	STUCK_TICKS = 10,
	REQUESTS_MAX = 200, /* so that all that is expected fits into the channel at once */
	ABANDONED_MAX = 16, /* hook processes that could not be killed; then no more are made */
	SOCKET_MODE = 0666, /* anyone may answer; who it is says the kernel */
	LOST_MS = 100,	    /* then the signal is sent again, and after twice that, ... */
	CROWDED_MS = 500,   /* the same where strangers may have kept an answer out */
	CROWD = 64,	    /* so many of them since it was asked */
};

struct consent {
	struct consent_options options;
	struct loop *loop;
	int listen_fd;
	bool own_path; /* options.socket is a file of ours */
	int closed;    /* what consent_open() has come to: not tried again, < 0 */
	struct hook_process process;
	struct loop_source reports;
	struct loop_timer tick;
	uint32_t pinged, heard, late; /* late: ticks since the oldest ping without an answer */
	struct consent_request *requests;
	size_t n_requests;
	struct consent_blame blame;
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

/* Several sessions may wait for one process: each has descriptors of its own. */
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
	uint64_t counts[HOOK_VERDICTS];

	if (c->process.fd < 0)
		return;
	loop_remove(c->loop, &c->reports);
	consent_counts(c, counts);
	memcpy(c->past, counts, sizeof(counts));
	hook_process_end(&c->process, wait_ms);
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

/* Has an answer been lost, or may it have been, and is it time to ask again? */
static bool is_due(const struct consent *c, const struct consent_request *r)
{
	bool crowded = !r->taken && strangers(c) - r->strangers >= CROWD;
	uint64_t wait = (uint64_t)(r->lost ? LOST_MS : CROWDED_MS) << r->again;

	return (r->lost || crowded) && r->again < CONSENT_AGAIN_MAX && !r->unsent &&
	       clock_ns(CLOCK_MONOTONIC) - r->sent >= wait * NSEC_PER_MSEC;
}

/* One signal for all who wait for a process. */
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

/* Whose answer was with the hook process that is lost is asked again.  The others' are in the socket's
 * queue, or still to come: the next hook process expects them, and they get no second signal. */
static void note_all_lost(struct consent *c)
{
	for (struct consent_request *r = c->requests; r; r = r->next)
		r->lost |= r->taken;
}

/* It hangs or is gone: another one takes its place, and whose fault it was is asked no more. */
static void replace_process(struct consent *c)
{
	uint32_t uid, culprit = hook_process_at_work(&c->process, &uid);

	end_process(c, 0);
	if (culprit) {
		log_verbose("process %u of user %u: what it sent to the hook socket could not be "
			    "handled",
			    culprit, uid);
		consent_blame_put(&c->blame, "", culprit, uid);
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
		r = hook_process_say(&c->process, HOOK_SAY_EXPECT, q->pid);
	if (r >= 0)
		r = hook_process_say(&c->process, HOOK_SAY_BEGIN, 0);
	if (r < 0)
		end_process(c, 0);
	return r < 0 ? trace(r) : 0;
}

/* Whoever had the signal sent gave up without an answer, since the program that got it was replaced by
 * an exec, or since it wants no more: those who relied on it have it sent themselves. */
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
		; /* slow, as the machine is */
	} else if (c->heard != c->pinged && ++c->late >= STUCK_TICKS) {
		replace_process(c);
	} else if (c->heard == c->pinged) {
		c->late = 0;
		if (hook_process_say(&c->process, HOOK_SAY_PING, c->pinged + 1) == 0)
			c->pinged++;
		else
			c->late++;
	}
	if (!c->requests)
		(void)loop_timer_set(&c->tick, 0, 0);
	return 0;
}

/* ---- the socket ---- */

/* The usual place is made where it is not there; others' folders are theirs. */
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

	/* Before the look, so that who was looked at is who is asked. */
	if (c->options.features.has[FEATURE_PIDFD]) {
		pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
		if (pidfd < 0)
			return errno == EMFILE || errno == ENFILE || errno == ENOMEM
				       ? CONSENT_NO_MEANS
				       : CONSENT_GONE;
	}
	refusal = consent_look("", pid, c->options.under_seccomp);
	if (refusal != CONSENT_ASKED)
		return refusal;
	if (open_all(c) < 0)
		return CONSENT_NO_SOCKET;
	if (hook_process_say(&c->process, HOOK_SAY_EXPECT, pid) < 0)
		return CONSENT_TOO_MANY;
	r = consent_signal(pid, pidfd);
	if (r == 0)
		return CONSENT_ASKED;
	(void)hook_process_say(&c->process, HOOK_SAY_FORGET, pid);
	return r == -ESRCH ? CONSENT_GONE : CONSENT_FORBIDDEN;
}

/* One that waits already may be of the program before an exec: the one that is there now may have no
 * hook yet.  Who blocks the signal may be just answering. */
static enum consent_refusal look_to_join(const struct consent *c, uint32_t pid)
{
	enum consent_refusal refusal = consent_look("", pid, c->options.under_seccomp);

	return refusal == CONSENT_NOT_CAUGHT || refusal == CONSENT_GONE ? refusal : CONSENT_ASKED;
}

enum consent_refusal consent_ask(struct consent *c, struct consent_request *request)
{
	bool joins = request_of(c, request->pid) != NULL;
	enum consent_refusal refusal;

	if (consent_blame_has(&c->blame, "", request->pid))
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
		(void)hook_process_say(&c->process, HOOK_SAY_FORGET, request->pid);
}

/* ---- life ---- */

int consent_new(const struct consent_options *options, struct loop *loop,
		struct consent **ret_consent)
{
	struct consent *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return fail(-ENOMEM);
	c->options = *options;
	c->loop = loop;
	c->listen_fd = options->listen_fd;
	c->process.fd = c->reports.fd = c->tick.source.fd = -1;
	r = loop_timer_add(loop, &c->tick, 0, 0, tick);
	if (r < 0) {
		free(c);
		return trace(r);
	}
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
	/* The hook process has it last: with it goes what strangers have put into its queue. */
	(void)fd_close(c->listen_fd);
	end_process(c, END_WAIT_MS); /* one that cannot be killed becomes init's when we exit */
	loop_timer_remove(c->loop, &c->tick);
	consent_blame_deinit(&c->blame);
	free(c);
	return NULL;
}
