/* cmd-record.c - `perfwind record`: what to record, for how long, and how it ends.  Thread: main.
 *
 *   options ──► spec, targets ──► session (opened, disabled) ──► child let go ──► loop
 *                                                               verdict ◄── drained ◄──┘
 *
 * Ctrl-C (and TERM) ends cleanly: the session drains and the file is whole; a second one leaves at
 * once (the file is then good up to its last whole packet; a flight recorder writes what it holds).  A recording that fails
 * ends; the command runs on and is waited for.  The exit status is the command's own; 1 if that is 0 and perfwind failed. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/job.h"
#include "cli/command.h"
#include "cli/flight.h"
#include "trace/late-sink.h"
#include "cli/own-session.h"
#include "cli/raw.h"
#include "cli/record-ask.h"
#include "cli/record-marks.h"
#include "cli/record-usdt.h"
#include "cli/record-options.h"
#include "cli/record-scope.h"
#include "cli/debuginfod.h"
#include "cli/verdict.h"
#include "base/error.h"
#include "perf/gate.h"
#include "perf/probe.h"
#include "profile/profile-text.h"
#include "session/rights-filter.h"
#include "session/rights.h"
#include "session/consent/consent.h"
#include "session/session.h"

enum { LIVE_MS = 500, WATCH_MS = 100 };

/* -e again: further events, each a session of its own into the same trace.
 *
 *   -e A ─► session of the command (cmd-record.c) ─┐
 *   -e B ─► session, sequence 2 ───────────────────┼─► one sink, one trace with several events
 *   -e C ─► session, sequence 3 ───────────────────┘ */
struct record_more {
	struct record_more_event {
		struct perf_spec specs[1 + PERF_MAX_FOLLOWERS];
		size_t n_specs;
		uint64_t period, frequency; /* one is 0 */
		struct session *session;
		struct session_summary *summary;
	} events[RECORD_MORE];
	size_t n;
};

enum { WAITS_NOTE = 320 };

struct record {
	struct record_args args;
	struct record_scope scope;
	const char *note; /* the default event is not to be had; NULL */
	struct features features;
	struct perf_spec specs[1 + PERF_MAX_FOLLOWERS];
	size_t n_specs;
	uint32_t *cpus;
	size_t n_cpus;
	struct loop loop;
	struct loop_timer live, end, delay;
	struct symbolize_later later;
	uint32_t n_ticks;
	struct sink *sink;
	struct flight *flight; /* --flight-recorder; then the sink is its own */
	struct session *session;
	struct record_more more; /* -e again */
	char waits_note[WAITS_NOTE];
	struct at_sample *at_sample;
	struct consent *consent;
	struct record_marks marks;
	struct perfdata_out *raw;
	bool raw_replaced;
	bool started;
	struct job job;
	struct own_session own;
	int ended; /* the file: 0: it has its end mark */
	uint32_t command_pid;
	size_t n_asleep; /* sessions without a timer */
	bool delayed;	 /* --delay has passed */
	int status;	 /* of a command that ended before it */
};

/* The line that goes with a failure which was not reported yet. */
static int report_failure(const char *what, int r)
{
	log_error("%s: %s", what, strerror(-r));
	return r;
}

/* ---- --off-cpu and --wall: the event that stands for them ---- */

enum { COUNTER_CPU_CLOCK = 1 }; /* PerfEvents.Counter: weights are ns */

static enum session_waits waits_of(const struct record_args *args)
{
	return args->off_cpu ? SESSION_WAITS_OFF_CPU
	       : args->wall  ? SESSION_WAITS_WALL
			     : SESSION_WAITS_NONE;
}

/* What is sampled besides switches: nothing (off CPU), or a clock.  Turns args->frequency into a period. */
static void choose_waits(struct record_args *args, struct perf_spec *ret_spec)
{
	*ret_spec = (struct perf_spec){
		.type = PERF_TYPE_SOFTWARE,
		.config = args->wall ? PERF_COUNT_SW_CPU_CLOCK : PERF_COUNT_SW_DUMMY,
		.weight = PERF_WEIGHT_TIME,
		.counter = COUNTER_CPU_CLOCK,
		.code = FRAMES_ALL,
	};
	(void)snprintf(ret_spec->name, sizeof(ret_spec->name), "%s",
		       args->wall ? "wall-clock" : "off-cpu");
	if (args->frequency)
		args->period =
			max_u64(2, NSEC_PER_SEC / args->frequency); /* 1 has another meaning */
	args->frequency = 0;
}

/* Sets waits, and waking where this user may read tracefs.  Where --wakers cannot be honoured options->note has the reason, in
 * @note. */
static void set_waits(const struct record_args *args, struct session_options *options,
		      char note[static WAITS_NOTE])
{
	const struct perf_spec_env env = {""};
	struct perf_spec spec = {0};
	char why[256];

	options->waits = waits_of(args);
	options->wakers = args->wakers;
	if (!options->waits)
		return;
	if (perf_spec_of_tracepoint(&env, "sched:sched_waking", &spec, why, sizeof(why)) >= 0) {
		options->waking = spec.config;
	} else if (args->wakers) {
		(void)snprintf(note, WAITS_NOTE, "wakers are not recorded: %s", why);
		options->note = note;
		options->note_brief = NULL;
	}
	perf_spec_deinit(&spec);
}

/* ---- further events ---- */

static int check_modes(const struct record_args *args, const struct perf_spec *spec, char *error,
		       size_t size)
{
	if (record_code(args) & spec->code)
		return 0;
	(void)snprintf(error, size, "%s and %s together leave nothing to sample", spec->name,
		       args->user_only ? "--user-only" : "--kernel-only");
	return fail(-EINVAL);
}

/* Parses args->more.  < 0: @error has a line for the user. */
static int more_choose(struct record_more *more, const struct record_args *args, char *error,
		       size_t size)
{
	const struct perf_spec_env env = {""};

	for (size_t i = 0; i < args->n_more; i++) {
		struct record_more_event *e = &more->events[more->n];
		char text[SPEC_EVENT_MAX];
		const char *note;
		int r = perf_spec_parse(&env, perf_spec_or_default(args->more[i], text, &note),
					e->specs, ARRAY_SIZE(e->specs), &e->n_specs, error, size);

		if (r < 0)
			return trace(r);
		more->n++;
		/* Each event its own default: one sample for each occurrence, or some a second. */
		e->period = args->rate_given			? args->period
			    : perf_spec_is_point(args->more[i]) ? 1
								: 0;
		e->frequency = args->rate_given ? args->frequency : e->period ? 0 : RECORD_HZ;
		r = check_modes(args, &e->specs[0], error, size);
		if (r < 0)
			return trace(r);
		if (args->more_filter[i] && !e->specs[0].tracepoint[0]) {
			(void)snprintf(error, size, "--filter needs a tracepoint; %s is not one",
				       e->specs[0].name);
			return fail(-EINVAL);
		}
		if (args->more_filter[i] && !(e->specs[0].filter = strdup(args->more_filter[i])))
			return fail(-ENOMEM);
	}
	return 0;
}

/* Opens a session for each event, like @base but for what belongs to the first one alone.  < 0: @error has a line. */
static int more_open(struct record_more *more, const struct session_options *base,
		     struct sink *sink, struct loop *loop, char *error, size_t size)
{
	for (size_t i = 0; i < more->n; i++) {
		struct record_more_event *e = &more->events[i];
		struct session_options so = *base;
		int r;

		so.specs = e->specs;
		so.n_specs = e->n_specs;
		so.period = e->period;
		so.frequency = e->frequency;
		so.sequence = (uint32_t)i + 2;
		so.raw = NULL;
		so.at_sample = NULL;  /* its memory has one reader */
		so.mark_rings = NULL; /* the same */
		so.ftrace_print = NULL;
		so.note = NULL;
		e->summary = calloc(1, sizeof(*e->summary));
		if (!e->summary)
			return fail(-ENOMEM);
		r = session_new(&so, sink, loop, &e->session, error, size);
		if (r < 0)
			return trace(r);
	}
	return 0;
}

static int more_start(struct record_more *more)
{
	for (size_t i = 0; i < more->n; i++) {
		int r = session_start(more->events[i].session);

		if (r < 0)
			return trace(r);
	}
	return 0;
}

static void more_stop(struct record_more *more)
{
	for (size_t i = 0; i < more->n; i++)
		if (more->events[i].session)
			session_stop(more->events[i].session);
}

static bool more_done(const struct record_more *more)
{
	for (size_t i = 0; i < more->n; i++)
		if (session_state(more->events[i].session) != SESSION_DONE)
			return false;
	return true;
}

/* Is a session ending, or has it ended? */
static bool more_ends(const struct record_more *more)
{
	for (size_t i = 0; i < more->n; i++)
		if (session_state(more->events[i].session) > SESSION_RUNNING)
			return true;
	return false;
}

/* < 0: the first failure, and the line for the user. */
static int more_error(const struct record_more *more, const char **ret_why)
{
	for (size_t i = 0; i < more->n; i++) {
		int r = session_error(more->events[i].session, ret_why);

		if (r < 0)
			return trace(r);
	}
	return 0;
}

static bool more_probes(const struct record_more *more)
{
	for (size_t i = 0; i < more->n; i++)
		if (perf_has_kernel_probe(more->events[i].specs, more->events[i].n_specs))
			return true;
	return false;
}

static uint64_t more_lost(const struct record_more_event *e)
{
	return e->summary->counts.lost_exact ? e->summary->counts.lost_samples
					     : e->summary->account.lost_records;
}

static void more_print_event(const struct record_more_event *e, FILE *out)
{
	const struct account *a = &e->summary->account;
	char n[32];

	fprintf(out, "  also     %s sample%s of %s", text_count(a->emitted, n),
		a->emitted == 1 ? "" : "s", e->specs[0].name);
	if (e->frequency)
		fprintf(out, " (%" PRIu64 " Hz)", e->frequency);
	if (a->emitted)
		fprintf(out, ", %s of the stacks whole", text_share(a->whole, a->emitted, n));
	fprintf(out, ", %s lost (report --event %s)\n", text_count(more_lost(e), n),
		e->specs[0].name);
}

static void more_print_json(const struct record_more_event *e, FILE *out)
{
	const struct account *a = &e->summary->account;

	text_json_print(out, "{\"event\":", e->specs[0].name);
	fprintf(out,
		",\"samples\":%" PRIu64 ",\"whole\":%" PRIu64 ",\"cut\":%" PRIu64
		",\"lost\":%" PRIu64 "}",
		a->emitted, a->whole, a->cut, more_lost(e));
}

/* Takes the summaries: the samples of all. */
static uint64_t more_emitted(struct record_more *more)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < more->n; i++) {
		(void)session_summary(more->events[i].session, more->events[i].summary);
		sum += more->events[i].summary->account.emitted;
	}
	return sum;
}

/* As verdict.print_more, after more_emitted(). */
static void more_print(const struct record_more *more, bool json, FILE *out)
{
	for (size_t i = 0; i < more->n; i++)
		if (json) {
			fprintf(out, "%s", i ? "," : ",\"more\":[");
			more_print_json(&more->events[i], out);
		} else {
			more_print_event(&more->events[i], out);
		}
	if (json && more->n)
		fprintf(out, "]");
}

static void more_deinit(struct record_more *more)
{
	for (size_t i = 0; i < more->n; i++) {
		struct record_more_event *e = &more->events[i];

		e->session = session_free(e->session);
		free(e->summary);
		e->summary = NULL;
		for (size_t j = 0; j < e->n_specs; j++)
			perf_spec_deinit(&e->specs[j]);
		e->n_specs = 0;
	}
	more->n = 0;
}

/* ---- the event ---- */

static int choose_event(struct record *rec)
{
	const struct perf_spec_env env = {""};
	char text[SPEC_EVENT_MAX], usdt[SPEC_EVENT_MAX];
	const char *event = perf_spec_or_default(
		record_usdt(rec->args.event, rec->job.command ? rec->job.command[0] : NULL,
			    rec->args.pids, rec->args.n_pids, usdt),
		text, &rec->note);
	int r;

	if (waits_of(&rec->args)) {
		choose_waits(&rec->args, &rec->specs[0]);
		rec->note = NULL;
		rec->n_specs = 1;
		return 0;
	}
	r = perf_spec_parse(&env, event, rec->specs, ARRAY_SIZE(rec->specs), &rec->n_specs,
			    rec->own.lacks, sizeof(rec->own.lacks));
	if (r < 0)
		return own_session_refused(&rec->own, r);
	r = check_modes(&rec->args, &rec->specs[0], rec->own.lacks, sizeof(rec->own.lacks));
	if (r < 0)
		return own_session_refused(&rec->own, r);
	r = more_choose(&rec->more, &rec->args, rec->own.lacks, sizeof(rec->own.lacks));
	if (r < 0)
		return own_session_refused(&rec->own, r);
	if (!rec->args.filter)
		return 0;
	if (!rec->specs[0].tracepoint[0]) {
		log_error("--filter needs a tracepoint; %s is not one", rec->specs[0].name);
		return -EINVAL;
	}
	rec->specs[0].filter = strdup(rec->args.filter);
	return rec->specs[0].filter ? 0 : report_failure("--filter", fail(-ENOMEM));
}

/* ---- running ---- */

static void clear_live(const struct record *rec)
{
	if (rec->job.live)
		fprintf(stderr, "\r\033[K");
}

static void stop(void *arg)
{
	struct record *rec = arg;

	if (!rec->session) /* --delay */
		return;
	session_stop(rec->session);
	more_stop(&rec->more);
}

/* A second signal: the latest samples are in memory only. */
static void leave(void *arg)
{
	struct record *rec = arg;

	if (rec->flight)
		flight_leave(rec->flight);
	else if (rec->session && session_state(rec->session) != SESSION_DONE)
		log_info("left at the second signal, before the end was written: %s lacks the "
			 "latest "
			 "samples and names",
			 rec->args.output);
}

/* For a reason that is not the command's: it is terminated too. */
static void end_recording(struct record *rec)
{
	if (rec->job.interrupted) /* ended already, and the command is waited for */
		return;
	rec->job.ended_by_us = true;
	stop(rec);
}

/* For --debuginfod, each second: files of modules without names come while it records. */
static bool is_time_to_fetch(struct record *rec)
{
	return rec->later.pid && ++rec->n_ticks % (1000 / WATCH_MS) == 0;
}

static int live_tick(struct loop_timer *timer)
{
	struct record *rec = container_of(timer, struct record, live);
	struct session_summary summary;

	if (!rec->session) /* --delay */
		return 0;
	/* A command that exits while its events are opened: the signal is gone. */
	if (rec->delayed && rec->job.command && session_targets_gone(rec->session))
		stop(rec);
	if ((rec->args.n_pids && session_targets_gone(rec->session)) ||
	    (rec->args.max_bytes && rec->sink->bytes >= rec->args.max_bytes))
		end_recording(rec);
	if ((!rec->job.live && !is_time_to_fetch(rec)) ||
	    session_state(rec->session) != SESSION_RUNNING)
		return 0;
	(void)session_summary(rec->session, &summary);
	for (size_t i = 0; rec->later.pid && i < summary.n_unsymbolized; i++)
		symbolize_later_wants(&rec->later, summary.unsymbolized[i].build_id);
	if (rec->job.live)
		verdict_print_live(&summary, stderr);
	return 0;
}

static int end_tick(struct loop_timer *timer)
{
	struct record *rec = container_of(timer, struct record, end);

	end_recording(rec);
	return 0;
}

static uint64_t live_ns(const struct record *rec)
{
	return (rec->job.live ? LIVE_MS : WATCH_MS) * NSEC_PER_MSEC;
}

/* While nothing is recorded there is nothing to look at; a session wakes up when a target ends. */
static void asleep(void *arg, bool on)
{
	struct record *rec = arg;
	uint64_t live;

	rec->n_asleep = on ? rec->n_asleep + 1 : rec->n_asleep - 1;
	live = rec->n_asleep > rec->more.n ? 0 : live_ns(rec);
	(void)loop_timer_set(&rec->live, live, live);
}

static int watch(struct record *rec)
{
	uint64_t live = live_ns(rec);
	int r = job_watch(&rec->job, &rec->loop, stop, rec);

	if (r < 0)
		return report_failure("signals", r);
	r = loop_timer_add(&rec->loop, &rec->live, live, live, live_tick);
	return r < 0 ? report_failure("a timer", r) : 0;
}

static struct session_options session_options_of(struct record *rec)
{
	const struct record_args *args = &rec->args;
	bool command = rec->job.command && !args->stop_watch, runs = command && args->delay_ms > 0;

	return (struct session_options){
		.machine = args->all,
		.pids = runs ? &rec->command_pid : args->pids,
		.n_pids = runs ? 1 : args->n_pids,
		.tids = args->tids,
		.n_tids = args->n_tids,
		.child = command && !runs ? rec->command_pid : 0,
		.children = args->children || command,
		.specs = rec->specs,
		.n_specs = rec->n_specs,
		.period = args->period,
		.frequency = args->frequency,
		.stack_bytes = args->stack_bytes,
		.frames = args->kernel_only ? FRAMES_KERNEL : FRAMES_ALL,
		.code = record_code(args),
		.idle = args->idle,
		.native_frames = args->native_frames,
		.clock = record_clock(args),
		.cpus = rec->cpus,
		.n_cpus = rec->n_cpus,
		.ring_bytes = args->ring_bytes,
		.wanted = record_scope_is_set(&rec->scope) ? record_scope_wants : NULL,
		.wanted_arg = &rec->scope,
		.engine = (enum uw_engine_kind)args->unwinder,
		.features = rec->features,
		.no_lines = args->no_inline,
		.max_cpu_ppm = args->max_cpu_ppm,
		.kernel_build_ids = args->kernel_build_ids,
		.realtime = args->realtime,
		.goes_on = rec->flight,
		.armed = args->armed,
		.addresses = args->collect.addresses,
		.at_sample = rec->at_sample,
		.raw = rec->raw,
		.mark_rings = rec->marks.rings,
		.ftrace_print = rec->marks.print,
		.mark_counts = rec->marks.counts,
		.min_duration_ns = rec->args.min_duration_ns,
		.note = rec->note,
		.note_brief = gate_brief(GATE_CYCLES),
		.noted = own_session_noted,
		.noted_arg = &rec->own,
		.asleep = asleep,
		.asleep_arg = rec,
		.proc_root = "",
	};
}

static int open_session(struct record *rec)
{
	struct session_options so = session_options_of(rec);
	int r = own_session_consent(rec->args.hook_socket, rec->args.under_seccomp, &rec->features,
				    &rec->loop, &rec->consent);

	if (r < 0)
		return report_failure("cannot record", r);
	so.consent = rec->consent;
	so.n_sources = 1 + (uint32_t)rec->more.n;
	set_waits(&rec->args, &so, rec->waits_note);
	r = session_new(&so, rec->sink, &rec->loop, &rec->session, rec->own.lacks,
			sizeof(rec->own.lacks));
	if (r >= 0)
		r = more_open(&rec->more, &so, rec->sink, &rec->loop, rec->own.lacks,
			      sizeof(rec->own.lacks));
	if (r < 0)
		return own_session_refused(&rec->own, r);
	return own_session_enough(&rec->own, session_kernel_refused(rec->session));
}

static bool has_probe(const struct record *rec)
{
	return perf_has_kernel_probe(rec->specs, rec->n_specs) || more_probes(&rec->more);
}

/* Starts the session and the child.  > 0: the exit status for a command that cannot be run. */
static int start(struct record *rec)
{
	int r = session_start(rec->session);

	if (r >= 0)
		r = more_start(&rec->more);
	if (r < 0)
		return late_sink_report(rec->sink) ? r : report_failure(rec->args.output, r);
	if (rec->flight) {
		r = flight_begin(rec->flight);
		if (r < 0)
			return report_failure("the flight recorder", r);
	}
	rights_settle_session(rec->flight, has_probe(rec));
	if (rec->args.duration > 0) {
		r = loop_timer_add(&rec->loop, &rec->end, (uint64_t)(rec->args.duration * 1e9), 0,
				   end_tick);
		if (r < 0)
			return report_failure("the timer of --duration", r);
	}
	return rec->args.delay_ms > 0 ? 0 : job_go(&rec->job);
}

static int run(struct record *rec)
{
	int r = 0;

	while (r >= 0 && (session_state(rec->session) != SESSION_DONE || !more_done(&rec->more))) {
		/* The end of one session is the end of all. */
		if (session_state(rec->session) > SESSION_RUNNING || more_ends(&rec->more))
			stop(rec);
		r = loop_run_once(&rec->loop, -1);
	}
	clear_live(rec);
	return r < 0 ? trace(r) : 0;
}

static void print_verdict(struct record *rec)
{
	struct session_summary summary;
	struct verdict verdict = {
		.summary = &summary,
		.file = rec->args.output,
		.event = rec->specs[0].name,
		.frequency = rec->args.frequency,
		.period = waits_of(&rec->args) ? 0 : rec->args.period,
	};

	(void)session_summary(rec->session, &summary);
	verdict.more = &rec->more;
	verdict.print_more = more_print;
	verdict.unwritten = verdict_unwritten(&summary, rec->sink, more_emitted(&rec->more));
	verdict.complete = rec->ended == 0;
	verdict.switched = rec->args.switch_output;
	verdict_show(&verdict, rec->args.json);
}

/* What this recording came to, as an exit status.  @failed: the reason of a failure, or NULL. */
static int conclude(struct record *rec, const char *failed)
{
	bool bad = failed;

	print_verdict(rec);
	bad |= raw_finish(rec->raw, rec->args.perf_data) < 0;
	if (failed && rec->flight && rec->ended < 0)
		late_sink_report_error(rec->args.output, rec->ended);
	else if (failed && !late_sink_report(rec->sink))
		log_error("%s", failed);
	return job_exit_status(&rec->job, bad);
}

static int delay_tick(struct loop_timer *timer)
{
	container_of(timer, struct record, delay)->delayed = true;
	return 0;
}

/* --delay: the command runs, and nothing is open yet.  < 0: logged. */
static int wait_delay(struct record *rec)
{
	int r = loop_timer_add(&rec->loop, &rec->delay,
			       (uint64_t)(rec->args.delay_ms * NSEC_PER_MSEC), 0, delay_tick);

	if (r >= 0)
		rec->status = r = job_go(&rec->job);
	while (r == 0 && !rec->delayed && !rec->job.interrupted && rec->job.status < 0)
		r = loop_run_once(&rec->loop, -1);
	loop_timer_remove(&rec->loop, &rec->delay);
	if (r < 0)
		return report_failure("--delay", r);
	if (r > 0)
		return -ECHILD;
	if (rec->delayed)
		return 0;
	log_error("the %s before --delay had passed: nothing was recorded",
		  rec->job.interrupted ? "recording was ended" : "command exited");
	job_await(&rec->job, NULL);
	rec->status = job_exit_status(&rec->job, true);
	return -ECHILD;
}

static int flush(void *arg, void (*flushed)(void *), void *flushed_arg)
{
	struct record *rec = arg;

	return session_flush(rec->session, flushed, flushed_arg);
}

static int sample(void *arg, bool on)
{
	struct record *rec = arg;

	return session_sample(rec->session, on);
}

static int open_output(struct record *rec)
{
	const struct record_args *args = &rec->args;
	const struct recorder_options flight = {.bytes = args->flight_bytes,
						.max_ns = args->flight_ns,
						.clock = record_clock(args),
						.plain = args->plain,
						.tasks = args->collect.tasks};
	int r;

	if (args->flight_bytes)
		return flight_new(args->output, &flight, &args->collect, &rec->flight, &rec->sink);
	r = late_sink_new(args->output, args->plain, &rec->sink);
	if (r >= 0)
		late_sink_behind(rec->sink, SESSION_BEHIND_MS);
	return r;
}

/* While there still are the privileges for it. */
static int make_at_sample(struct record *rec)
{
	/* Of a command most need none, and many are short.  A flight recorder has all its memory from the start. */
	bool later = rec->command_pid && !rec->args.all && !rec->flight &&
		     rights_filter_helpers(log_level >= LOG_LEVEL_VERBOSE) >= 0;
	const struct at_sample_options o = {
		.features = &rec->features,
		.later = later,
		.deep = rec->args.unwinder == UW_ENGINE_NATIVE && !rec->args.kernel_only,
		.python = rec->args.unwinder == UW_ENGINE_NATIVE && !rec->args.kernel_only,
	};
	char why[256];
	int r;

	probe_bpf(&rec->features);
	r = at_sample_new(&o, &rec->at_sample, why, sizeof(why));
	if (*why)
		log_verbose("%s", why);
	return r < 0 ? report_failure("cannot record", r) : 0;
}

/* All up to the session, the command held back.  A failure was reported.  > 0: OWN_ASK and so on. */
static int prepare(struct record *rec)
{
	int r = choose_event(rec);

	if (r != 0)
		return r;
	r = loop_init(&rec->loop);
	if (r >= 0)
		r = open_output(rec);
	if (r < 0)
		return report_failure("cannot record", r);
	if (rec->args.perf_data)
		r = raw_open(rec->args.perf_data, rec->n_specs, &rec->raw_replaced, &rec->raw);
	if (r < 0)
		return r;
	r = record_marks_open(&rec->args, rec->job.command, rec->features.has[FEATURE_PEER_PIDFD],
			      &rec->marks);
	if (r < 0)
		return r;
	r = job_hold(&rec->job);
	if (r < 0)
		return report_failure("cannot fork", r);
	rec->command_pid = (uint32_t)rec->job.spawn.pid;
	if (rec->marks.rings && rec->command_pid &&
	    mark_rings_allow(rec->marks.rings, rec->command_pid) < 0)
		return report_failure("--marks", -ENOMEM);
	r = watch(rec);
	if (r < 0)
		return r;
	if (rec->flight)
		r = flight_watch(rec->flight, &rec->loop, flush, rec);
	if (r < 0)
		return report_failure("--flight-recorder", r);
	if (rec->args.armed)
		flight_arm(rec->flight, sample);
	if (rec->args.switch_output)
		flight_switch(rec->flight, rec->args.switch_ns);
	if (rec->args.delay_ms > 0)
		r = wait_delay(rec);
	if (r != 0)
		return r;
	r = make_at_sample(rec);
	if (r < 0)
		return r;
	own_session_give_up(&rec->features, has_probe(rec));
	return open_session(rec);
}

static void watch_no_more(struct record *rec)
{
	loop_timer_remove(&rec->loop, &rec->end);
	loop_timer_remove(&rec->loop, &rec->live);
}

/* The exit status; < 0: your privileges suffice. */
static int ask_daemon(struct record *rec, bool for_kernel)
{
	struct record_ask asked;
	int r = record_ask_open(&asked, &rec->args, &rec->job, rec->own.lacks, for_kernel);

	if (r == 0) {
		watch_no_more(rec);
		more_deinit(&rec->more);
		rec->session = session_free(rec->session);
		rec->sink = sink_free(rec->sink);
		r = record_ask_run(&asked);
	} else {
		r = ask_run_refused(&asked.run, rec->own.lacks, for_kernel);
	}
	record_ask_deinit(&asked);
	return r;
}

static int record_in_own_session(struct record *rec)
{
	const char *why = NULL;
	char text[128];
	int r = job_watch(&rec->job, &rec->loop, stop, rec);

	own_session_sure(&rec->own);
	if (r < 0) {
		(void)report_failure("signals", r);
		return 1;
	}
	r = start(rec);
	if (r > 0)
		late_sink_discard(rec->sink);
	if (r != 0)
		return r < 0 ? 1 : r;
	rec->started = true;
	r = run(rec);
	if (r < 0) {
		/* The loop itself is broken: the session cannot be drained. */
		(void)report_failure("cannot wait for events", r);
		job_await(&rec->job, "cannot wait for events");
		return job_exit_status(&rec->job, true);
	}
	rec->ended = rec->flight ? flight_end(rec->flight) : late_sink_end(rec->sink, false);
	if (session_error(rec->session, &why) >= 0 && more_error(&rec->more, &why) >= 0)
		why = NULL;
	if (!why && rec->ended < 0) {
		(void)snprintf(text, sizeof(text), "writing the trace: %s", strerror(-rec->ended));
		why = text;
	}
	job_await(&rec->job, why);
	return conclude(rec, why);
}

static int record_all(struct record *rec)
{
	int r;

	rec->job.aside = spawn_is_output(rec->args.output);
	if (rec->args.cpus) {
		r = perf_parse_cpu_list(rec->args.cpus, &rec->cpus, &rec->n_cpus);
		if (r == -ENOMEM) {
			(void)report_failure("--cpu", r);
			return 1;
		}
		if (r < 0) {
			log_error("--cpu takes a list like 0-3,8: '%.64s' is not one",
				  rec->args.cpus);
			return 2;
		}
	}
	if (record_scope_init(&rec->scope, rec->args.user, rec->args.cgroup) < 0)
		return 2;
	rec->own.socket = rec->args.socket;
	rec->own.alone = rec->args.no_ask ? NULL : record_args_alone(&rec->args);
	rec->own.may_ask = !rec->args.no_ask && !rec->own.alone;
	r = rec->args.ask ? OWN_ASK : prepare(rec);
	if (r > 0) {
		int status = ask_daemon(rec, r == OWN_ASK_FOR_KERNEL);

		rec->ended = status == 0 ? 0 : rec->ended;
		if (status >= 0)
			return status;
	}
	if (r < 0)
		return rec->status ? rec->status : 1;
	return record_in_own_session(rec);
}

static int record_main(int argc, char **argv)
{
	struct record *rec = calloc(1, sizeof(*rec));
	char error[256];
	int n, r;

	if (!rec) {
		(void)report_failure("cannot record", fail(-ENOMEM));
		return 1;
	}
	rec->args.frequency = rec->args.period = UINT64_MAX;
	rec->args.mark_categories = UINT64_MAX >> 2;
	rec->ended = -EINPROGRESS;
	r = options_parse(&record_options, argc, argv, &rec->args, &n);
	if (r != 0) {
		free(rec);
		return options_exit_status(r);
	}
	job_init(&rec->job, n ? argv : NULL);
	rec->job.leave = leave;
	rec->job.leave_arg = rec;
	rec->job.live = log_level > LOG_LEVEL_QUIET && isatty(STDERR_FILENO);
	rec->loop.epoll_fd = rec->live.source.fd = rec->end.source.fd = rec->delay.source.fd = -1;
	if (record_args_check(&rec->args, n > 0) < 0) {
		r = 2;
	} else if ((r = job_check(&rec->job))) {
		; /* it was reported */
	} else if (probe_features(&rec->features, error, sizeof(error)) < 0) {
		log_error("%s", error);
		r = 1;
	} else if (symbolize_later_start(&rec->later, rec->args.debuginfod, rec->args.output) < 0) {
		r = 2;
	} else {
		r = record_all(rec);
		if (rec->raw && !rec->started)
			raw_discard(rec->args.perf_data, rec->raw_replaced);
	}
	more_deinit(&rec->more);
	(void)session_free(rec->session);
	(void)at_sample_free(rec->at_sample);
	(void)consent_free(rec->consent);
	record_marks_close(&rec->marks);
	(void)perfdata_out_free(rec->raw);
	(void)sink_free(rec->sink);
	(void)flight_free(rec->flight);
	job_deinit(&rec->job);
	for (size_t i = 0; i < rec->n_specs; i++)
		perf_spec_deinit(&rec->specs[i]);
	free(rec->cpus);
	watch_no_more(rec);
	loop_deinit(&rec->loop);
	symbolize_later_end(&rec->later,
			    rec->ended == 0 && !rec->args.flight_bytes && !rec->args.flight_ns
				    ? rec->args.output
				    : NULL);
	free(rec);
	return r;
}

const struct command command_record = {
	.name = "record",
	.summary = "sample the machine, processes or a command into a trace",
	.run = record_main,
	.options = &record_options,
};
