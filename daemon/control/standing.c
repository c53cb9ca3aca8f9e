/* standing.c - see standing.h.  The daemon writes no file: a snapshot goes to the requester's socket. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "daemon/control/standing.h"
#include "daemon/policy/policy.h"
#include "perf/spec-list.h"
#include "proc/procfs.h"
#include "tracing/system-counters.h"

struct standing {
	struct loop *loop;
	struct recorder *recorder;
	char cgroups[sizeof(((struct settings *)0)->recorder_cgroups)]; /* empty: all */
	struct sink *sink;
	struct session *session;
	struct perf_spec specs[1 + PERF_MAX_FOLLOWERS];
	size_t n_specs;
	struct system_counters *counters;
	struct loop_timer seconds;
	enum { IDLE, FLUSHING, WRITING } state;
	int fd;
	uint64_t last_ns;
	void (*done)(void *arg, const struct recorder_result *result);
	void *arg; /* NULL: the requester is gone */
};

/* session_options.wanted: recorder-cgroups.  A process without a cgroup that can be read is none of theirs. */
static bool is_wanted(void *arg, uint32_t pid, const char *cmdline, size_t cmdline_len)
{
	const struct standing *s = arg;
	_cleanup_(freep) char *cgroup = NULL;
	const char *at = s->cgroups;
	char wanted[sizeof(s->cgroups)];

	(void)cmdline;
	(void)cmdline_len;
	if (procfs_cgroup("", pid, &cgroup) < 0)
		return false;
	for (size_t len; (len = policy_next_word(&at)); at += len) {
		(void)snprintf(wanted, sizeof(wanted), "%.*s", (int)len, at);
		if (procfs_cgroup_below(cgroup, wanted))
			return true;
	}
	return false;
}

/* ---- snapshots ---- */

static void finished(void *arg, const struct recorder_result *result)
{
	struct standing *s = arg;

	s->state = IDLE;
	if (s->arg)
		s->done(s->arg, result);
}

static void flushed(void *arg)
{
	struct standing *s = arg;
	int r;

	if (s->state != FLUSHING)
		return;
	if (!s->arg) {
		s->state = IDLE;
		recorder_cancel(s->recorder);
		return;
	}
	s->state = WRITING;
	r = recorder_write(s->recorder, s->fd, s->last_ns, finished, s);
	if (r < 0)
		finished(s, &(struct recorder_result){.error = r});
}

int standing_snapshot(struct standing *s, int fd, uint64_t last_ns,
		      void (*done)(void *arg, const struct recorder_result *result), void *arg)
{
	int r;

	if (s->state != IDLE)
		return -EBUSY;
	if (session_state(s->session) != SESSION_RUNNING)
		return -ESHUTDOWN;
	recorder_seal(s->recorder);
	s->state = FLUSHING;
	s->fd = fd;
	s->last_ns = last_ns;
	s->done = done;
	s->arg = arg;
	r = session_flush(s->session, flushed, s);
	if (r < 0) {
		s->state = IDLE;
		recorder_cancel(s->recorder);
	}
	return r < 0 ? trace(r) : 0;
}

void standing_forget(struct standing *s, const void *arg)
{
	if (s->arg == arg)
		s->arg = NULL;
}

/* ---- beginning and end ---- */

static int second_passed(struct loop_timer *timer)
{
	struct standing *s = container_of(timer, struct standing, seconds);
	int r = 0;

	if (session_state(s->session) == SESSION_RUNNING)
		r = system_counters_write(s->counters, clock_ns(CLOCK_BOOTTIME), s->sink);
	return r < 0 ? trace(r) : 0;
}

static void ended(void *arg)
{
	struct standing *s = arg;
	const char *why = "";

	if (session_error(s->session, &why) < 0)
		log_error("the flight recorder has ended: %s", why);
}

static int start_counters(struct standing *s)
{
	int r = system_counters_new("", &s->counters);

	if (r >= 0)
		r = loop_timer_add(s->loop, &s->seconds, NSEC_PER_SEC, NSEC_PER_SEC, second_passed);
	return r < 0 ? trace(r) : 0;
}

static int open_session(struct standing *s, const struct settings *settings,
			const struct features *features, struct session_shared *shared, char *error,
			size_t size)
{
	const struct perf_spec_env env = {""};
	char text[SPEC_EVENT_MAX];
	const char *note;
	const char *event = perf_spec_or_default(NULL, text, &note);
	int r = perf_spec_parse(&env, event, s->specs, ARRAY_SIZE(s->specs), &s->n_specs, error,
				size);
	const struct session_options so = {
		.machine = true,
		.specs = s->specs,
		.n_specs = s->n_specs,
		.frequency = settings->recorder_rate,
		.wanted = s->cgroups[0] ? is_wanted : NULL,
		.wanted_arg = s,
		.frames = FRAMES_ALL,
		.code = FRAMES_ALL,
		.clock = CLOCK_MONOTONIC,
		.features = *features,
		.proc_root = "",
		.note = note,
		.shared = shared,
		.done = ended,
		.done_arg = s,
	};

	if (r >= 0)
		r = session_new(&so, s->sink, s->loop, &s->session, error, size);
	if (r < 0)
		return trace(r);
	r = session_start(s->session);
	if (r >= 0)
		r = recorder_begin(s->recorder, s->loop);
	return r < 0 ? trace(r) : 0;
}

struct standing *standing_start(const struct settings *settings, const struct features *features,
				struct session_shared *shared, struct loop *loop)
{
	const struct recorder_options options = {
		.bytes = settings->recorder_size,
		.clock = CLOCK_MONOTONIC,
		.tasks = policy_has_word(settings->recorder_collect, "tasks"),
		.polls = policy_has_word(settings->recorder_collect, "tasks")};
	struct standing *s = settings->recorder_size ? calloc(1, sizeof(*s)) : NULL;
	char error[512] = "";
	int r;

	if (!s && settings->recorder_size)
		log_error("no flight recorder: %s", strerror(ENOMEM));
	if (!s)
		return NULL;
	s->loop = loop;
	(void)snprintf(s->cgroups, sizeof(s->cgroups), "%s", settings->recorder_cgroups);
	s->seconds.source.fd = -1;
	r = recorder_new(&options, &s->recorder, &s->sink);
	if (r >= 0)
		r = open_session(s, settings, features, shared, error, sizeof(error));
	if (r >= 0 && policy_has_word(settings->recorder_collect, "system"))
		r = start_counters(s);
	if (r >= 0)
		return s;
	log_error("no flight recorder: %s", *error ? error : strerror(-r));
	return standing_free(s);
}

struct standing *standing_free(struct standing *s)
{
	if (!s)
		return NULL;
	s->arg = NULL;
	loop_timer_remove(s->loop, &s->seconds);
	(void)system_counters_free(s->counters);
	(void)session_free(s->session);
	(void)recorder_free(s->recorder);
	for (size_t i = 0; i < s->n_specs; i++)
		perf_spec_deinit(&s->specs[i]);
	free(s);
	return NULL;
}
