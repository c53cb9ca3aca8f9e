/* session-budget.c - --max-cpu: the session's own CPU time, and how many samples it may take for that.  Thread: main.
 *
 * A turn of a second shows what a sample costs.  What is left of the budget of ten seconds decides how many samples the next
 * second takes.  Where these are not all:
 *
 *   1  stacks are copied no longer than most of them need (adapt_save()), and the rings wait for SESSION_SAVING_MS or their
 *      watermark.  No sample wakes main at once.
 *   2  samples that are left out cost the kernel and the targets, too: where only a part is affordable, the rate of the events is
 *      divided by PERF_RATE_STEP, and again
 *   3  for what remains thin.h chooses the samples
 *
 * What leaves most of the budget unused for some seconds is taken back.  The first turns, which read files, are shorter and count
 * with what they may spend at most.  Nothing is read for processes without samples.  Symbols of files have a pace of their own
 * until the stop.
 *
 * Each thread of a command or process begins a period of its own on each CPU, and the longer that is, the more of its time is in
 * no sample.  Few samples of a CPU that is idle at times are a guess at its busy time.  So the CPU time that the kernel has counted
 * since the rate was lowered first is compared with the weight of the samples, and what is missing (lost samples, too) goes to
 * samples to come, what is too much is taken from them.
 *
 * Without a budget the same is done at high rates: the kernel's timer skips the periods that end while it is late, as where a hypervisor
 * has taken the CPU or a long stack was copied, and counts none of them.  A machine's CPUs have no exact clock of that kind: the
 * event's own time includes idle time, in which the timer skips periods, too, and /proc/stat counts ticks. */
#include <errno.h>
#include <time.h>

#include "base/error.h"
#include "session/pipeline/thin.h"
#include "session/session-private.h"

enum {
	START_TURNS = 6,	/* of half a second */
	FIRST_SAMPLE_NS = 5000, /* what a sample costs, until that is known */
	MARGIN_PERCENT = 30,	/* what a second costs is known when it is over */
	EXCEEDED_PERCENT = 10,
	PAY_BACK_S = 4,
	FEW = 100,
	FEW_TIMES = 2,
	FEW_LEAST = 4,
	LEAST = 1, /* samples in a window, so that a target is never unseen */
	SPARE_S = 3,
	SPARE_TIMES = 2,  /* for step 1 */
	SYMBOLS_PART = 8, /* of the budget, for symbols of files */
	SKIPS_HZ = 2000,  /* from here on the timer is late by a period */
};

/* Sessions that share a process share main, too: each counts its own work in it. */
static uint64_t main_cpu_ns(const struct session *s)
{
	return s->options.max_cpu_ppm && s->options.shared ? clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
}

void session_budget_enter(struct session *s)
{
	s->budget.entered = main_cpu_ns(s);
}

void session_budget_leave(struct session *s)
{
	s->budget.main_ns += main_cpu_ns(s) - s->budget.entered;
}

static uint64_t spent_ns(const struct session *s)
{
	uint64_t own = s->options.shared ? s->budget.main_ns + unwind_stage_cpu_ns(s->unwinder)
					 : session_own_cpu_ns() - s->cpu_at_start;

	return own + session_helpers_cpu_ns(s);
}

static uint64_t allowance(const struct session *s, uint64_t ns)
{
	return (uint64_t)((double)ns * s->options.max_cpu_ppm / 1e6);
}

/* What may the next second spend, where the last turn has spent @used a second?  What turns have spent too much is paid back over
 * PAY_BACK_S. */
static uint64_t left_for(struct session *s, uint64_t used)
{
	struct session_budget *b = &s->budget;
	uint64_t spent = 0, n, second = allowance(s, NSEC_PER_SEC), over;
	uint64_t goal = second - second * MARGIN_PERCENT / 100;

	/* At first files are read, which fewer samples do not change. */
	if (b->n_turns < START_TURNS)
		used = min_u64(used, goal);
	b->used[b->n_turns++ % SESSION_BUDGET_S] = used;
	n = min_u64(b->n_turns, SESSION_BUDGET_S);
	for (uint64_t i = 0; i < n; i++)
		spent += b->used[i];
	over = spent - min_u64(spent, n * goal);
	return max_u64(goal - min_u64(goal, over / PAY_BACK_S), goal / 8);
}

/* Of thin.h; the tick ends it. */
static uint64_t window_ns(const struct session *s)
{
	return max_u64(session_read_ns(s), THIN_WINDOW_MS * NSEC_PER_MSEC);
}

static void allow(struct session *s, uint64_t samples, uint64_t received)
{
	struct session_budget *b = &s->budget;

	b->allowed = samples > received + received / 8
			     ? UINT64_MAX
			     : max_u64(samples * window_ns(s) / NSEC_PER_SEC, LEAST);
	if (b->steps || (b->allowed != UINT64_MAX && s->account.skipped[SKIP_THINNED]))
		session_note(
			s,
			"samples are taken less often or left out, to use at most %.3g %% of a "
			"CPU (--max-cpu, in perfwind.conf user-max-cpu and recording-max-cpu); "
			"their weight is added to the samples that are kept",
			s->options.max_cpu_ppm / 1e4);
}

static uint64_t rate_at(const struct session_budget *b, uint32_t steps)
{
	uint64_t hz = b->rate;

	for (; steps; steps--)
		hz /= PERF_RATE_STEP;
	return hz;
}

static void set_steps(struct session *s, uint32_t steps)
{
	struct session_budget *b = &s->budget;
	uint64_t hz = rate_at(b, steps);

	b->spare = 0;
	if (perf_source_set_frequency(s->source, hz) == -EOPNOTSUPP)
		return;
	log_verbose("%lu samples a second on each CPU (were %lu)", hz, rate_at(b, b->steps));
	b->lowered |= steps > 0;
	b->steps = steps;
}

/* CPU time that the kernel has counted, of all that is sampled; 0: not known. */
static uint64_t clock_of(const struct session *s)
{
	const struct session_options *so = &s->options;

	/* Without the kernel's part the time in it is in no sample, at any rate. */
	if (!(session_code(s) & FRAMES_KERNEL) || so->specs[0].weight != PERF_WEIGHT_TIME)
		return 0;
	if (perf_source_options(s->source)->tasks)
		return s->counts.task_clock_ns;
	return so->machine && !so->idle && !so->wanted && !so->allowed && s->used_at_start
		       ? s->used_at_stop - min_u64(s->used_at_start, s->used_at_stop)
		       : 0;
}

static void owe(struct session *s, int64_t missing)
{
	thin_owe(reader_weights(s->reader), missing - s->budget.missing);
	s->budget.missing = missing;
}

void session_budget_make_up(struct session *s)
{
	struct session_budget *b = &s->budget;
	uint64_t clock;
	int64_t missing;

	if (!s->options.max_cpu_ppm || !b->rate || s->state != SESSION_RUNNING)
		return;
	clock = clock_of(s);
	if (b->clock == clock)
		return;
	b->clock = clock;
	missing = (int64_t)(b->clock - reader_weights(s->reader)->sampled);
	/* At first many samples of a machine are lost. */
	if (b->lowered)
		owe(s, missing);
	else if (!s->options.machine)
		b->missing = missing;
}

/* Samples that wait in a ring are missing as well. */
static bool caught_up(const struct session *s)
{
	enum { PART = 32 };

	for (size_t i = 0; i < perf_source_n_rings(s->source); i++) {
		const struct perf_ring *ring = perf_source_ring(s->source, i);

		if (!ring->sideband && ring_backlog(ring->ring) > ring_size(ring->ring) / PART)
			return false;
	}
	return true;
}

void session_budget_add_skipped(struct session *s, uint64_t now)
{
	struct session_budget *b = &s->budget;
	uint64_t clock;
	int64_t missing;

	if (s->options.max_cpu_ppm || b->rate < SKIPS_HZ || s->state != SESSION_RUNNING ||
	    !perf_source_options(s->source)->tasks || s->waits || s->options.armed || !caught_up(s))
		return;
	session_read_counts(s, now);
	clock = clock_of(s);
	if (b->clock == clock)
		return;
	b->clock = clock;
	missing = (int64_t)(clock - reader_weights(s->reader)->sampled -
			    s->counts.lost_samples * NSEC_PER_SEC / b->rate);
	/* A thread's event stays throttled while the thread runs on another CPU. */
	if (missing > 0)
		missing -= (int64_t)min_u64(s->account.throttled_ns, (uint64_t)missing);
	owe(s, missing);
}

/* The kernel's records of processes that start, and of what they map, are read for the samples that may come: fewer samples do not
 * save that. */
static void note_exceeded(struct session *s)
{
	struct session_budget *b = &s->budget;
	double budget = s->options.max_cpu_ppm / 1e4, spent = 0;

	if (b->exceeded || b->n_turns < START_TURNS + SESSION_BUDGET_S)
		return;
	for (size_t i = 0; i < SESSION_BUDGET_S; i++)
		spent += (double)b->used[i] / (NSEC_PER_SEC / 100) / SESSION_BUDGET_S;
	if (spent <= budget * (100 + EXCEEDED_PERCENT) / 100)
		return;
	b->exceeded = true;
	session_note(
		s,
		"--max-cpu is not kept: %.3g %% of a CPU in 10 s, and %.3g %% are allowed; "
		"the records of processes that start, and of files that they map, are read at any "
		"rate of samples; hint: record fewer processes (-p), or allow more",
		spent, budget);
}

static void set_saving(struct session *s, bool on)
{
	struct session_budget *b = &s->budget;

	b->spare = 0;
	b->saving = on;
	session_adapt_save(s, on);
	if (s->idle.state != SESSION_ASLEEP && !s->eager_until)
		(void)loop_timer_set(&s->tick, session_read_ns(s), session_read_ns(s));
}

/* The steps down at once, where @samples of @received are affordable.  A process of a command has a sample of each of its events in
 * a second, else those that end have none at all. */
static uint32_t steps_for(const struct session *s, uint64_t samples, uint64_t received)
{
	const struct perf_options *o = perf_source_options(s->source);
	const struct session_budget *b = &s->budget;
	uint64_t events = o->tasks ? thin_n_active(reader_weights(s->reader)) * o->n_cpus : 0;
	uint32_t steps = b->steps, most = o->tasks ? PERF_RATE_STEPS : UINT32_MAX;

	while (b->rate && steps < most && rate_at(b, steps + 1) >= PERF_RATE_LEAST &&
	       samples < received / PERF_RATE_STEP && received / PERF_RATE_STEP >= events) {
		received /= PERF_RATE_STEP;
		steps++;
	}
	return steps;
}

/* The files of processes that are given are read once at the start.  On a whole machine they are read for samples of new processes
 * all the time. */
static uint64_t judged_from(const struct session *s)
{
	return s->options.machine ? 1 : START_TURNS + 1;
}

/* @samples are affordable in the next second; the last one had @received. */
static void adapt_cost(struct session *s, uint64_t samples, uint64_t received)
{
	struct session_budget *b = &s->budget;
	uint64_t times = b->steps ? PERF_RATE_STEP : SPARE_TIMES;
	uint32_t steps = steps_for(s, samples, received);

	if (samples < received && !b->saving) {
		set_saving(s, true);
		return;
	}
	if (steps > b->steps) {
		set_steps(s, steps);
		return;
	}
	b->spare = b->saving && samples > received * times ? b->spare + 1 : 0;
	if (b->spare < SPARE_S)
		return;
	if (b->steps)
		set_steps(s, b->steps - 1);
	else
		set_saving(s, false);
}

static uint64_t each_second(uint64_t n, uint64_t ns)
{
	return (uint64_t)((double)n * NSEC_PER_SEC / (double)max_u64(ns, 1));
}

/* How many samples are affordable in the next second. */
static uint64_t afford(struct session_budget *b, uint64_t left, uint64_t used, uint64_t kept,
		       uint64_t received)
{
	/* Few samples do not show what many cost: the mean of some seconds. */
	if (kept >= FEW)
		b->sample_ns = max_u64(used / kept, 1);
	else if (kept)
		b->sample_ns = (3 * b->sample_ns + used / kept) / 4;
	return received < FEW ? left / b->sample_ns : thin_afford(left, used, kept);
}

static void spend(struct session *s, uint64_t now)
{
	struct session_budget *b = &s->budget;
	uint64_t spent = spent_ns(s), took = now - b->turn_at;
	uint64_t used = each_second(spent - b->spent, took);
	uint64_t kept = each_second(s->account.queued - b->queued, took);
	uint64_t received = each_second(s->account.received - b->received, took);
	uint64_t left = left_for(s, used), samples;

	b->spent = spent;
	b->queued = s->account.queued;
	b->received = s->account.received;
	b->turn_at = now;
	samples = afford(b, left, used, kept, received);
	if (b->n_turns >= judged_from(s))
		adapt_cost(s, samples, received);
	note_exceeded(s);
	if (received < FEW)
		samples = min_u64(samples, FEW_TIMES * kept + FEW_LEAST);
	allow(s, samples, received);
}

void session_budget_start(struct session *s)
{
	struct session_budget *b = &s->budget;

	b->turn_at = b->window_at = s->started_at;
	b->sample_ns = FIRST_SAMPLE_NS;
	b->rate = perf_source_options(s->source)->frequency;
	b->allowed = s->options.max_cpu_ppm
			     ? max_u64(allowance(s, window_ns(s)) / FIRST_SAMPLE_NS, LEAST)
			     : UINT64_MAX;
	loader_pace(s->loader, s->options.max_cpu_ppm / SYMBOLS_PART);
	reader_thin(s->reader, b->allowed);
}

static uint64_t turn_ns(const struct session_budget *b)
{
	return b->n_turns < START_TURNS ? NSEC_PER_SEC / 2 : NSEC_PER_SEC;
}

void session_budget_tick(struct session *s, uint64_t now)
{
	struct session_budget *b = &s->budget;

	if (s->state != SESSION_RUNNING || s->waits ||
	    now - b->window_at < THIN_WINDOW_MS * NSEC_PER_MSEC * 9 / 10)
		return;
	if (s->options.max_cpu_ppm && now - b->turn_at >= turn_ns(b) - NSEC_PER_SEC / 100)
		spend(s, now);
	b->window_at = now;
	reader_thin(s->reader, b->allowed);
}
