/* cmd-stat.c - `perfwind stat`: counts events of a command, processes, CPUs or cgroups, without samples.  Thread: main.
 *
 *   options ──► targets, rows ──► counters (opened, disabled) ──► command let go ──► loop
 *                                 table ◄── read ◄── each interval, and at the end ──┘
 *
 * Counting costs no interrupt and reads nothing of a target but its name. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "cli/cmd-stat.h"
#include "cli/command.h"
#include "cli/common-options.h"
#include "cli/duration.h"
#include "cli/job.h"
#include "cli/pid-list.h"
#include "cli/stat-print.h"
#include "cli/stat-targets.h"
#include "base/error.h"
#include "proc/procfs.h"

enum { LIST_MAX = 4096 };

void event_list_deinit(struct event_list *list)
{
	while (list->n)
		perf_spec_deinit(&list->specs[--list->n]);
}

/* The events of @text[0..len), all of @group. */
static int add_names(struct event_list *list, const char *text, size_t len, uint8_t group,
		     char *error, size_t size)
{
	const struct perf_spec_env env = {""};
	char part[LIST_MAX];
	size_t n = 0;
	int r;

	if (len >= sizeof(part)) {
		(void)snprintf(error, size, "the list of events is too long");
		return fail(-EINVAL);
	}
	memcpy(part, text, len);
	part[len] = 0;
	r = perf_spec_parse(&env, part, list->specs + list->n, ARRAY_SIZE(list->specs) - list->n,
			    &n, error, size);
	if (r < 0)
		return trace(r);
	for (size_t i = 0; i < n; i++)
		list->groups[list->n++] = group;
	return 0;
}

/* The length of the events before the next group, without the comma. */
static size_t until_group(const char *text)
{
	const char *brace = strstr(text, ",{");

	return brace ? (size_t)(brace - text) : strlen(text);
}

/* "{a,b}:S": the text behind it, or NULL with a line in @error. */
static const char *add_group(struct event_list *list, const char *text, char *error, size_t size)
{
	const char *end = strchr(text, '}');

	if (!end) {
		(void)snprintf(error, size, "the '}' of a group is missing: '%.128s'", text);
		return NULL;
	}
	if (add_names(list, text + 1, (size_t)(end - text - 1), ++list->n_groups, error, size) < 0)
		return NULL;
	end++;
	if (!strncmp(end, ":S", 2))
		end += 2;
	if (!*end || *end == ',')
		return end;
	(void)snprintf(error, size, "'%.64s' behind a group: write modifiers behind each event",
		       end);
	return NULL;
}

int event_list_add(struct event_list *list, const char *text, char *error, size_t size)
{
	for (;;) {
		if (*text == '{') {
			text = add_group(list, text, error, size);
			if (!text)
				return fail(-EINVAL);
		} else {
			size_t len = until_group(text);
			int r = add_names(list, text, len, 0, error, size);

			if (r < 0)
				return trace(r);
			text += len;
		}
		if (!*text)
			return 0;
		text++; /* the comma */
	}
}

enum { STAT_PIDS = 4096, WATCH_MS = 100, RUNS_MAX = 10000 };
#define USUAL \
	"context-switches,cpu-migrations,page-faults,cycles,instructions,branches,branch-misses"

static const char *const by_names[] = {"total", "cpu", "process", "thread", "cgroup", NULL};

struct stat_args {
	bool all, csv, json, no_inherit;
	enum stat_by by;
	uint32_t pids[STAT_PIDS], tids[STAT_PIDS];
	size_t n_pids, n_tids;
	const char *cgroups, *cpus, *output, *separator;
	double interval_ms, delay_ms, duration;
	uint32_t runs;
};

struct sums {
	double sum, squares;
};

struct stat_state {
	struct stat_args args;
	struct event_list events;
	struct job job;
	struct loop loop;
	struct loop_timer interval, end, delay, watch;
	struct stat_targets targets;
	struct counters *counters;
	char *const *command;
	bool stop_watch; /* the command is not counted */
	bool over, failed;
	uint64_t started_at, read_at; /* CLOCK_MONOTONIC */
	uint32_t n_runs;
	FILE *out;
	/* of all runs */
	struct stat_row *rows;
	size_t n_rows;
	struct stat_count *counts;
	struct sums *sums; /* of each count, and of the elapsed time behind them */
	bool kernel_refused[COUNTERS_EVENTS];
	bool printed;
	double user_s, system_s;
};

static int add_pids(void *to, const char *value)
{
	struct stat_args *args = to;

	return pid_list_add(value, args->pids, &args->n_pids, STAT_PIDS);
}

static int add_tids(void *to, const char *value)
{
	struct stat_args *args = to;

	return pid_list_add(value, args->tids, &args->n_tids, STAT_PIDS);
}

static int add_events(void *to, const char *value)
{
	struct stat_state *st = container_of(to, struct stat_state, args);
	char error[512];

	if (event_list_add(&st->events, value, error, sizeof(error)) >= 0)
		return 0;
	log_error("stat: %s", error);
	return -EINVAL;
}

static int by_cpu(void *to, const char *value)
{
	(void)value;
	((struct stat_args *)to)->by = STAT_CPU;
	return 0;
}

static int by_thread(void *to, const char *value)
{
	(void)value;
	((struct stat_args *)to)->by = STAT_THREAD;
	return 0;
}

static int set_timeout(void *to, const char *value)
{
	uint64_t ns;

	if (duration_parse(value, "ms", &ns) < 0) {
		log_error("stat: --timeout %.64s: it is not a time like 500ms or 10s (without a "
			  "unit: ms)",
			  value);
		return -EINVAL;
	}
	((struct stat_args *)to)->duration = (double)ns / 1e9;
	return 0;
}

#define AT(member) .offset = offsetof(struct stat_args, member)
static const struct option_def defs[] = {
	FLAG("all", 'a', all, "the whole machine"),
	CALL("pid", 'p', "PID[,PID]", add_pids, "these processes, with all their threads"),
	CALL("tid", 't', "TID[,TID]", add_tids, "these threads alone"),
	TEXT("cgroup", 'G', "CGROUP[,CGROUP]", cgroups, "these cgroups, each in a row of its own"),
	CALL("event", 'e', "EVENT[,EVENT...]", add_events,
	     "the events to count, as `perfwind list` names them; {A,B}: a group,\nwhich is on a "
	     "CPU together (default: a clock, switches, page faults,\ncycles, instructions, "
	     "branches)"),
	CHOICE("by", "ROW", by, by_names,
	       "rows of the result: total (default), cpu, process or thread"),
	TEXT("cpu", 'C', "LIST", cpus, "only on these CPUs: 0-3,8"),
	TIME("interval", 'I', "ms", "MS", interval_ms, 86400000,
	     "print the counts of each interval of so many milliseconds"),
	DURATION(duration, "end after this time (a command is then terminated)"),
	TIME("delay", 'D', "ms", "MS", delay_ms, 86400000,
	     "begin this many milliseconds later (a command runs meanwhile)"),
	NUMBER("repeat", 'r', OPTION_U32, "N", runs, RUNS_MAX,
	       "run the command N times: means, with their standard errors"),
	FLAG("no-inherit", 'i', no_inherit,
	     "without the threads and processes that a target starts"),
	TEXT("output", 'o', "FILE", output,
	     "write there (default: standard error, --json: standard output)"),
	TEXT("field-separator", 'x', "SEP", separator,
	     "fields with this separator, in the order of `perf stat -x`"),
	FLAG("csv", 0, csv, "the same as -x,"),
	FLAG("json", 'j', json,
	     "one JSON object, the last line of standard output; with -I a line for\neach "
	     "interval, "
	     "between those that the command prints (-o FILE: alone)"),
	{0},
};

static const struct option_def foreign[] = {
	FLAG("all-cpus", 0, all, NULL),
	TEXT("for-each-cgroup", 0, "PATHS", cgroups, NULL),
	{.name = "no-aggr", .letter = 'A', .type = OPTION_CALL, .call = by_cpu},
	{.name = "per-thread", .type = OPTION_CALL, .call = by_thread},
	CALL("timeout", 0, "MS", set_timeout, NULL),
	IGNORED("big-num", 'B', NULL, NULL),
	IGNORED("no-big-num", 0, NULL, NULL),
	IGNORED("scale", 'c', NULL, NULL),
	IGNORED("null", 'n', NULL, NULL),
	IGNORED("summary", 0, NULL, NULL),
	REFUSED("detailed", 0, NULL, "-e cache-references,cache-misses,L1-dcache-load-misses"),
	REFUSED("metrics", 'M', "NAMES", "metrics are not computed by name; -e takes the events"),
	REFUSED("topdown", 0, NULL, "metrics are not computed by name; -e takes the events"),
	REFUSED("transaction", 'T', NULL, "-e takes the events"),
	REFUSED("per-socket", 0, NULL, "--by cpu shows each CPU"),
	REFUSED("per-core", 0, NULL, "--by cpu shows each CPU"),
	REFUSED("per-die", 0, NULL, "--by cpu shows each CPU"),
	REFUSED("per-node", 0, NULL, "--by cpu shows each CPU"),
	REFUSED("append", 0, NULL, "-o makes a new file"),
	{0},
};

static const struct options stat_options = {
	.command = "stat",
	.usage = "[OPTIONS] -a | -p PID[,PID] | -t TID | -G CGROUP | [--] COMMAND [ARGUMENTS]",
	.description = "Counts events, without samples.  With -a, -p, -t or -G a command is the "
		       "stop-watch: the count\nends when it exits.",
	.json = "{\"time_s\" (-I),\"elapsed_s\",\"runs\",\"user_s\",\"system_s\" (a command),\n"
		" \"rows\":[{\"row\":name or null,\n"
		"  \"counts\":[{\"event\",\"state\":\"counted\"|\"not counted\"|\"not "
		"supported\"|\"not permitted\",\n"
		"   \"value\" or null,\"unit\":\"ns\"|\"events\",\"running_percent\",\n"
		"   \"error_percent\" or null (-r),\"metric\",\"metric_unit\"}]}]}",
	.details =
		{"An event without a counter on this machine is `not supported`: virtual machines "
		 "often have no hardware counters. `not counted`: no thread ran, or no counter was "
		 "free. If there are more hardware events than counters, the kernel takes turns: "
		 "the count is scaled by the share of the time, which is printed with it.",
		 "Without permission for the kernel's part user code alone is counted, marked with "
		 ":u.",
		 "--by process and --by thread with -a count the threads that run at the start, "
		 "and those that these start.",
		 "The exit status is that of the command, as of perfwind-record(1)."},
	.examples = "# a command\n"
		    "perfwind stat -- make -j8\n\n"
		    "# switches and page faults of a process, each second\n"
		    "perfwind stat -e context-switches,page-faults -I 1000 -p 1234\n\n"
		    "# five runs, for a program\n"
		    "perfwind stat -r 5 --json -- ./benchmark >counts.json\n\n"
		    "# system calls of each CPU for ten seconds\n"
		    "sudo perfwind stat -a --by cpu -e raw_syscalls:sys_enter -- sleep 10",
	.defs = defs,
	.foreign = foreign,
	.max_arguments = -1,
	.stop_at_argument = true,
};

/* ---- tables ---- */

static size_t n_counts(const struct stat_state *st)
{
	return st->targets.n_rows * st->events.n;
}

/* Of the first run; later ones have the same rows. */
static int make_rows(struct stat_state *st)
{
	size_t n = st->targets.n_rows;

	if (!st->rows) {
		st->rows = calloc(n + 1, sizeof(*st->rows));
		st->counts = calloc(n_counts(st) + 1, sizeof(*st->counts));
		st->sums = calloc(n_counts(st) + 1, sizeof(*st->sums));
		st->n_rows = n;
	}
	if (!st->rows || !st->counts || !st->sums)
		return fail(-ENOMEM);
	if (n != st->n_rows) /* a CPU came or went */
		return fail(-ESTALE);
	for (size_t i = 0; i < n; i++) {
		st->rows[i].label = st->targets.labelled ? st->targets.labels[i] : NULL;
		st->rows[i].count = st->counts + i * st->events.n;
	}
	return 0;
}

/* The counts since the last read; with the sums of all runs. */
static void take_counts(struct stat_state *st)
{
	for (size_t i = 0; i < n_counts(st); i++) {
		struct counters_value value;
		struct stat_count *count = &st->counts[i];

		counters_value(st->counters, (uint32_t)(i / st->events.n), i % st->events.n,
			       &value);
		*count = (struct stat_count){
			.state = value.state,
			.value = (double)value.value,
			.running = value.enabled_ns ? fmin(1, (double)value.running_ns /
								      (double)value.enabled_ns)
				   : value.state == COUNTER_NOT_SUPPORTED ? 1
									  : 0,
			.running_ns = value.running_ns,
			.error = -1,
		};
		st->sums[i].sum += count->value;
		st->sums[i].squares += count->value * count->value;
	}
	for (size_t i = 0; i < st->events.n; i++)
		st->kernel_refused[i] = counters_kernel_refused(st->counters, i);
}

/* The standard error of the mean of @n values, in percent of the mean; -1: there is one value. */
static double error_of(const struct sums *sums, uint32_t n)
{
	double mean = sums->sum / n, variance;

	if (n < 2)
		return -1;
	variance = fmax(0, sums->squares - n * mean * mean) / (n - 1);
	return mean > 0 ? 100 * sqrt(variance / n) / mean : 0;
}

static const char *subject_of(const struct stat_state *st)
{
	const struct stat_args *args = &st->args;

	return args->cgroups  ? "cgroups"
	       : args->all    ? "the machine"
	       : args->n_pids ? "the processes"
	       : args->n_tids ? "the threads"
			      : st->command[0];
}

static void print_table(struct stat_state *st, double at_s, double elapsed_s)
{
	struct stat_table table = {
		.specs = st->events.specs,
		.n_events = st->events.n,
		.kernel_refused = st->kernel_refused,
		.rows = st->rows,
		.n_rows = st->targets.n_rows,
		.at_s = at_s,
		.elapsed_s = elapsed_s,
		.elapsed_error = error_of(&st->sums[n_counts(st)], st->n_runs),
		.user_s = st->command && !st->stop_watch && at_s < 0 ? st->user_s : -1,
		.system_s = st->system_s,
		.subject = subject_of(st),
		.runs = st->n_runs ? st->n_runs : 1,
		.separator = st->args.separator,
	};

	if (st->args.json)
		stat_print_json(&table, st->out);
	else if (st->args.separator)
		stat_print_csv(&table, st->out);
	else
		stat_print_text(&table, !st->printed, st->out);
	st->printed = true;
	(void)fflush(st->out);
}

/* Counts up to now: an interval's, or all. */
static int read_counts(struct stat_state *st)
{
	int r = counters_read(st->counters);

	if (r >= 0)
		take_counts(st);
	return r < 0 ? trace(r) : 0;
}

static int print_interval(struct stat_state *st)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	int r = read_counts(st);

	if (r < 0)
		return trace(r);
	print_table(st, (double)(now - st->started_at) / 1e9, (double)(now - st->read_at) / 1e9);
	st->read_at = now;
	return 0;
}

/* The means of all runs. */
static void print_runs(struct stat_state *st)
{
	uint32_t n = st->n_runs;
	double elapsed = st->sums[n_counts(st)].sum / n;

	for (size_t i = 0; i < n_counts(st); i++) {
		st->counts[i].value = st->sums[i].sum / n;
		st->counts[i].error = error_of(&st->sums[i], n);
	}
	st->user_s /= n;
	st->system_s /= n;
	print_table(st, -1, elapsed);
}

/* Why events were refused that others get: one line each. */
static void print_reasons(const struct stat_state *st)
{
	const char *last = "";

	for (size_t i = 0; i < st->events.n; i++) {
		size_t n;
		const char *why = counters_why(st->counters, i, &n);

		if (!why || !strcmp(why, last) || st->counts[i].state == COUNTER_NOT_SUPPORTED)
			continue;
		log_info("stat: %s%s", why,
			 st->counts[i].state == COUNTER_NOT_PERMITTED ? ""
								      : " (the count lacks these)");
		last = why;
	}
}

/* ---- one run ---- */

static void stop(void *arg)
{
	((struct stat_state *)arg)->over = true;
}

/* A timer with a period would fire at whole multiples of it, not from the start on. */
static int next_interval(struct stat_state *st)
{
	uint64_t interval = (uint64_t)(st->args.interval_ms * NSEC_PER_MSEC),
		 past = clock_ns(CLOCK_MONOTONIC) - st->started_at;

	return loop_timer_set(&st->interval, interval - past % interval, 0);
}

static int interval_tick(struct loop_timer *timer)
{
	struct stat_state *st = container_of(timer, struct stat_state, interval);
	int r = st->over ? 0 : print_interval(st);

	return r < 0 ? trace(r) : next_interval(st);
}

static int end_tick(struct loop_timer *timer)
{
	struct stat_state *st = container_of(timer, struct stat_state, end);

	st->job.ended_by_us = true;
	st->over = true;
	return 0;
}

static int delay_tick(struct loop_timer *timer)
{
	struct stat_state *st = container_of(timer, struct stat_state, delay);

	st->started_at = st->read_at = clock_ns(CLOCK_MONOTONIC);
	return counters_enable(st->counters);
}

static bool is_alive(uint32_t tid)
{
	struct procfs_status status;

	return procfs_status("", tid, &status) >= 0 && !status.zombie;
}

/* The end of all processes that were named. */
static int watch_tick(struct loop_timer *timer)
{
	struct stat_state *st = container_of(timer, struct stat_state, watch);

	for (size_t i = 0; i < st->args.n_pids; i++)
		if (is_alive(st->args.pids[i]))
			return 0;
	for (size_t i = 0; i < st->args.n_tids; i++)
		if (is_alive(st->args.tids[i]))
			return 0;
	st->over = true;
	return 0;
}

static int open_counters(struct stat_state *st)
{
	const struct stat_args *args = &st->args;
	const struct stat_scope scope = {
		.by = args->by,
		.all = args->all,
		.pids = args->pids,
		.n_pids = args->n_pids,
		.tids = args->tids,
		.n_tids = args->n_tids,
		.child = st->command && !st->stop_watch ? (uint32_t)st->job.spawn.pid : 0,
		.command = st->command ? st->command[0] : NULL,
		.cgroups = args->cgroups,
		.cpus = args->cpus,
	};
	const struct counters_options co = {
		.specs = st->events.specs,
		.groups = st->events.groups,
		.n = st->events.n,
		.inherit = !args->no_inherit && !args->n_tids,
		.enable_on_exec = scope.child && args->delay_ms <= 0,
	};
	char error[512] = "";
	const char *why;
	size_t n;
	int r = stat_targets_init(&st->targets, &scope);

	if (r < 0)
		return trace(r);
	r = counters_new(&co, &st->counters);
	for (size_t i = 0; i < st->targets.n && r >= 0; i++)
		r = counters_add(st->counters, &st->targets.list[i], error, sizeof(error));
	if (r < 0) {
		log_error("stat: %s", *error ? error : strerror(-r));
		return trace(r);
	}
	why = counters_why(st->counters, 0, &n);
	if (counters_any(st->counters) || !why)
		return 0;
	for (size_t i = 0; i < st->events.n; i++) {
		struct counters_value value;

		counters_value(st->counters, 0, i, &value);
		if (value.state == COUNTER_NOT_PERMITTED) {
			log_error("stat: %s", counters_why(st->counters, i, &n));
			return fail(-EACCES);
		}
	}
	return 0;
}

static int add_timers(struct stat_state *st)
{
	const struct stat_args *args = &st->args;
	uint64_t interval = (uint64_t)(args->interval_ms * NSEC_PER_MSEC),
		 watch = WATCH_MS * NSEC_PER_MSEC;
	int r = 0;

	if (args->delay_ms > 0)
		r = loop_timer_add(&st->loop, &st->delay,
				   (uint64_t)(args->delay_ms * NSEC_PER_MSEC), 0, delay_tick);
	if (r >= 0 && interval)
		r = loop_timer_add(&st->loop, &st->interval, interval, 0, interval_tick);
	if (r >= 0 && args->duration > 0)
		r = loop_timer_add(&st->loop, &st->end, (uint64_t)(args->duration * 1e9), 0,
				   end_tick);
	if (r >= 0 && args->n_pids + args->n_tids)
		r = loop_timer_add(&st->loop, &st->watch, watch, watch, watch_tick);
	return r < 0 ? trace(r) : 0;
}

static double seconds_of(const struct timeval *time)
{
	return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

/* User and system time of the commands that have ended. */
static void add_usage(struct stat_state *st, double sign)
{
	struct rusage usage;

	if (getrusage(RUSAGE_CHILDREN, &usage) < 0)
		return;
	st->user_s += sign * seconds_of(&usage.ru_utime);
	st->system_s += sign * seconds_of(&usage.ru_stime);
}

/* From the first instruction of the command to the last count. */
static int count(struct stat_state *st)
{
	struct sums *elapsed = &st->sums[n_counts(st)];
	double seconds;
	int r = 0;

	if (st->args.delay_ms <= 0 && (!st->command || st->stop_watch))
		r = counters_enable(st->counters);
	if (r >= 0)
		r = add_timers(st);
	if (r < 0)
		return trace(r);
	st->started_at = st->read_at = clock_ns(CLOCK_MONOTONIC);
	r = job_go(&st->job);
	if (r)
		return r;
	while (r >= 0 && !st->over)
		r = loop_run_once(&st->loop, -1);
	seconds = (double)(clock_ns(CLOCK_MONOTONIC) - st->started_at) / 1e9;
	if (r >= 0)
		r = st->args.interval_ms > 0 ? print_interval(st) : read_counts(st);
	elapsed->sum += seconds;
	elapsed->squares += seconds * seconds;
	st->n_runs++;
	return r < 0 ? trace(r) : 0;
}

static void remove_timers(struct stat_state *st)
{
	loop_timer_remove(&st->loop, &st->interval);
	loop_timer_remove(&st->loop, &st->end);
	loop_timer_remove(&st->loop, &st->delay);
	loop_timer_remove(&st->loop, &st->watch);
}

/* The exit status of the command; < 0: logged. */
static int run_once(struct stat_state *st)
{
	int r;

	job_init(&st->job, st->command);
	st->over = false;
	r = job_hold(&st->job);
	if (r >= 0)
		r = job_watch(&st->job, &st->loop, stop, st);
	if (r < 0) {
		log_error("stat: %s", strerror(-r));
		return r;
	}
	st->counters = counters_free(st->counters);
	stat_targets_deinit(&st->targets);
	r = open_counters(st);
	if (r < 0)
		return r;
	r = make_rows(st);
	add_usage(st, -1);
	if (r >= 0)
		r = count(st);
	remove_timers(st);
	if (r < 0)
		log_error("stat: %s", strerror(-r));
	if (r > 0) /* the command could not be run */
		return r;
	job_await(&st->job, NULL);
	add_usage(st, 1);
	return r < 0 ? r : job_exit_status(&st->job, false);
}

static int run_all(struct stat_state *st)
{
	int status = 0, r;

	for (uint32_t i = 0; i < st->args.runs; i++) {
		r = run_once(st);
		if (r < 0 || !st->n_runs)
			return r == -EINVAL ? 2 : r < 0 ? 1 : r;
		status = status ? status : r;
		if (st->job.interrupted)
			break;
		if (i + 1 < st->args.runs)
			job_deinit(&st->job);
	}
	if (st->args.interval_ms <= 0)
		print_runs(st);
	print_reasons(st);
	return status;
}

/* ---- the command ---- */

static int check_targets(struct stat_state *st, bool command)
{
	struct stat_args *args = &st->args;
	int kinds = args->all + (args->n_pids > 0) + (args->n_tids > 0) + (args->cgroups != NULL);

	/* perf's -G goes with -a. */
	if (args->cgroups && args->all && kinds == 2) {
		args->all = false;
		kinds = 1;
	}
	st->stop_watch = kinds > 0;
	if (kinds > 1)
		log_error("stat: -a, -p, -t and -G exclude each other");
	else if (!kinds && !command)
		log_error("stat needs a target: -a (the machine), -p PID, -t TID, -G CGROUP, or a "
			  "command");
	else if (args->by == STAT_CGROUP && !args->cgroups)
		log_error("stat: --by cgroup needs -G CGROUP[,CGROUP...]");
	else if (args->cgroups && args->by != STAT_TOTAL && args->by != STAT_CGROUP)
		log_error("stat: -G has a row for each cgroup");
	else
		return 0;
	return -EINVAL;
}

static int check(struct stat_state *st, bool command)
{
	struct stat_args *args = &st->args;

	if (check_targets(st, command) < 0)
		return -EINVAL;
	if (args->runs > 1 && (st->stop_watch || args->interval_ms > 0))
		log_error("stat: -r is for a command, without -a, -p, -t, -G and -I");
	else if (args->json && (args->csv || args->separator))
		log_error("stat: --json and --csv exclude each other");
	else if (args->interval_ms > 0 && args->interval_ms < 1)
		log_error("stat: -I takes at least 1 ms");
	else
		return 0;
	return -EINVAL;
}

static int prepare(struct stat_state *st)
{
	struct stat_args *args = &st->args;
	char usual[256], error[512];
	int r = 0;

	if (args->csv && !args->separator)
		args->separator = ",";
	if (args->separator && !strcmp(args->separator, "\\t"))
		args->separator = "\t";
	args->runs = args->runs ? args->runs : 1;
	(void)snprintf(usual, sizeof(usual), "%s,%s",
		       args->all || args->cgroups ? "cpu-clock" : "task-clock", USUAL);
	if (!st->events.n)
		r = event_list_add(&st->events, usual, error, sizeof(error));
	if (r < 0) {
		log_error("stat: %s", error);
		return r;
	}
	st->out = args->json ? stdout : stderr;
	if (args->output)
		st->out = fopen(args->output, "we");
	if (!st->out) {
		r = -errno;
		log_error("%s: %s", args->output, strerror(errno));
		return r;
	}
	r = loop_init(&st->loop);
	if (r < 0)
		log_error("stat: %s", strerror(-r));
	return r;
}

static void stat_deinit(struct stat_state *st)
{
	job_deinit(&st->job);
	remove_timers(st);
	loop_deinit(&st->loop);
	(void)counters_free(st->counters);
	stat_targets_deinit(&st->targets);
	event_list_deinit(&st->events);
	free(st->rows);
	free(st->counts);
	free(st->sums);
	free(st);
}

static int stat_run(int argc, char **argv)
{
	struct stat_state *st = calloc(1, sizeof(*st));
	int n, r;

	if (!st) {
		log_error("stat: %s", strerror(ENOMEM));
		return 1;
	}
	st->loop.epoll_fd = st->interval.source.fd = st->end.source.fd = st->delay.source.fd =
		st->watch.source.fd = -1;
	job_init(&st->job, NULL);
	r = options_parse(&stat_options, argc, argv, &st->args, &n);
	if (r) {
		r = options_exit_status(r);
		goto out;
	}
	st->command = n ? argv : NULL;
	job_init(&st->job, st->command);
	r = check(st, n > 0) < 0 ? 2 : job_check(&st->job);
	if (r)
		goto out;
	r = prepare(st) < 0 ? 1 : run_all(st);
	if (st->args.output && st->out && (ferror(st->out) | fclose(st->out))) {
		log_error("%s: %s", st->args.output, strerror(errno));
		r = r ? r : 1;
	}
out:
	stat_deinit(st);
	return r;
}

const struct command command_stat = {"stat", "count events, without samples", stat_run,
				     &stat_options};
