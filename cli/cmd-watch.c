/* cmd-watch.c - `perfwind watch`: waits for what its rules describe, and keeps an episode of each.  Thread: main, the only one.
 *
 *   rules ─► gauges, polled ─► triggers ─► a fork per episode: perfwind snapshot, then the episode's files
 *   perfwind record --flight-recorder, a process of its own: the seconds before are in its memory already */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/common-options.h"
#include "cli/episode-folder.h"
#include "cli/flight-protocol.h"
#include "cli/record-options.h"
#include "cli/signals.h"
#include "cli/record-marks.h"
#include "base/error.h"
#include "base/log.h"
#include "base/peer.h"
#include "base/shared-counts.h"
#include "proc/procfs.h"
#include "watch/episode.h"
#include "watch/gauge.h"

enum {
	WORDS = 64,
	WRITERS = 8,
	RESTART_S = 10,
	RETRY_S = 60,
	END_MS = 60000,
	NICE = 10,
	ARM_S = 5
};

struct run {
	struct gauge *gauge;
	struct trigger trigger;
	pid_t writer; /* of the latest episode */
};

struct watcher {
	const char *path, *folder_option; /* options */
	bool check;
	struct watch_rules rules;
	struct run runs[WATCH_RULES];
	char folder[PATH_MAX], file[PATH_MAX]; /* file: the recorder's */
	struct loop loop;
	struct loop_timer timer;
	struct loop_source signals;
	struct shared_counts *marks; /* counted by the recorder */
	bool has_marks;		     /* the recorder runs with --marks */
	uint64_t armed_at;	     /* the last request, CLOCK_BOOTTIME */
	struct record_args *record;  /* the recorder's */
	pid_t recorder;
	uint64_t recorder_at; /* its last start or end */
	bool has_run;	      /* a recorder has ended: its options were taken */
	int status;	      /* of watch: the recorder's, where it cannot start again */
	pid_t writers[WRITERS];
	bool busy, failed; /* busy: the shorter poll is on; failed: an episode was not kept */
};

#define AT(member) .offset = offsetof(struct watcher, member)
static const struct option_def defs[] = {
	TEXT("config", 'c', "RULES", path, "the file of rules (needed)"),
	TEXT("directory", 'd', "DIR", folder_option,
	     "the folder of the episodes (default: `folder` of the rules, else "
	     "/var/lib/perfwind/episodes for root, ~/.local/state/perfwind/episodes)"),
	FLAG("check", 0, check, "check the rules and leave"),
	{0},
};

static const struct options options = {
	.command = "watch",
	.usage = "[OPTIONS] -c RULES",
	.description =
		"Waits until a rule holds, for example until a process uses more than 80 % of a "
		"CPU for a minute,\nand keeps a trace of the time before, during and after: an "
		"episode.  A flight recorder runs all the\ntime, so the seconds before are there.  "
		"`perfwind episodes` lists what was kept.",
	.defs = defs,
	.details =
		{"A file of rules has sections of `key = value` lines; '#' begins a comment.  "
		 "[watch]: `folder`, `record` (options of `perfwind record` for the flight "
		 "recorder, default -a -F 49), `memory` (of it, 64M), `disk` (of all episodes, 1G; "
		 "the oldest are deleted), `poll` (1s), `busy-poll` (300ms; above 80 % of a "
		 "threshold), `exec` (a program that runs with the folder of each new episode).",
		 "[rule NAME]: `when` (process-cpu, cgroup-cpu, machine-cpu, psi-cpu, psi-memory, "
		 "psi-io, load, memory-growth, run-queue, counter, hit, duration, signal, "
		 "latency, mark), of `process` (a pid or a name), `cgroup`, `event`, `command`, "
		 "`mark` (the name of a mark; the recorder then has --marks), or `from` "
		 "and `to` (two tracepoints with the same `key`); `above`, `below` "
		 "(hysteresis), `for` (how long above), `calm` (how long below, 3s), `before` "
		 "(30s), `after` (5s), `longest` (10min), `cooldown` (10min), `per-day` (24), "
		 "`threads-above` (percent of a CPU, 15: other threads are not in the call tree), "
		 "`each` (of duration, 60s).  docs/watch.md has units and the files of an "
		 "episode.",
		 "SIGHUP reads the rules again: equal rules keep their state.  SIGINT and SIGTERM "
		 "end it; an episode that is going on is kept."},
	.examples =
		"# a service that sometimes spins\n"
		"printf '[rule spin]\\nwhen = process-cpu\\nprocess = myserver\\nabove = 80\\n' "
		"| sudo tee /etc/perfwind.rules\n"
		"sudo perfwind watch -c /etc/perfwind.rules\n\n"
		"# are the rules right?\n"
		"sudo perfwind watch --check -c /etc/perfwind.rules",
};

/* ---- processes that watch starts ---- */

/* In a child, before exec: as the parent was started. */
static void be_plain_child(void)
{
	const struct sigaction usual = {.sa_handler = SIG_DFL};
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)sigaction(SIGPIPE, &usual, NULL);
}

static size_t split(char *text, const char **words, size_t room)
{
	size_t n = 0;
	char *save = NULL;

	for (char *word = strtok_r(text, " \t", &save); word && n < room;
	     word = strtok_r(NULL, " \t", &save))
		words[n++] = word;
	return n;
}

static bool wants_marks(const struct watch_rules *rules)
{
	for (size_t i = 0; i < rules->n; i++)
		if (rules->rules[i].when == WATCH_MARK)
			return true;
	return false;
}

/* In the recorder before its exec: the descriptor stays open there. */
static void give_counts(const struct watcher *w)
{
	char number[16];
	int fd = fcntl(shared_counts_fd(w->marks), F_DUPFD, 0);

	(void)snprintf(number, sizeof(number), "%d", fd);
	if (fd >= 0)
		(void)setenv(RECORD_MARK_COUNTS_ENV, number, 1);
}

/* The words of the recorder that writes @file at its end.  @record: the text of the rules, which is split. */
static size_t recorder_words(const char *memory, const char *file, char *record, bool marks,
			     const char *words[WORDS])
{
	const char *const first[] = {"perfwind", "record", "-q", "--flight-recorder",
				     memory,	 "-o",	   file, "--marks"};
	size_t n = ARRAY_SIZE(first) - !marks;

	memcpy(words, first, n * sizeof(*words));
	return n + split(record, words + n, WORDS - n - 1);
}

/* Would `perfwind record` accept the options of @rules?  -EINVAL: logged.  The strings in *args are not valid afterwards. */
static int read_record(const struct watch_rules *rules, struct record_args *args)
{
	static const char file[] = "FILE";
	const char *words[WORDS] = {0};
	char text[WATCH_TEXT];
	enum log_level level = log_level;
	int left, r;
	size_t n;

	(void)snprintf(text, sizeof(text), "%s", rules->record);
	n = recorder_words("64M", file, text, wants_marks(rules), words);
	memset(args, 0, sizeof(*args));
	args->frequency = args->period = UINT64_MAX;
	r = options_parse(&record_options, (int)n - 1, (char **)(uintptr_t)(words + 1), args,
			  &left);
	log_level = level;
	if (r == 0)
		r = record_args_check(args, left > 0);
	if (r == 0 && strcmp(args->output, file) != 0) {
		log_error("record: -o is not for watch, which names the file itself");
		r = -EINVAL;
	}
	if (r != 0)
		log_error("these options are not for the flight recorder: record = %s",
			  rules->record);
	return r ? fail(-EINVAL) : 0;
}

/* A group of its own: Ctrl-C is for watch, which still needs it then.  It does not outlive watch. */
static void start_recorder(struct watcher *w)
{
	const pid_t own = getpid();
	char text[WATCH_TEXT], memory[32];
	const char *words[WORDS] = {0};

	(void)read_record(&w->rules, w->record);
	(void)snprintf(memory, sizeof(memory), "%luK", w->rules.memory >> 10);
	(void)snprintf(text, sizeof(text), "%s", w->rules.record);
	w->has_marks = w->has_marks || wants_marks(&w->rules);
	(void)recorder_words(memory, w->file, text, w->has_marks, words);
	(void)unlink(w->file);
	w->recorder_at = clock_ns(CLOCK_BOOTTIME);
	w->recorder = fork();
	if (w->recorder < 0)
		log_error("the flight recorder cannot start: %s", strerror(errno));
	if (w->recorder)
		return;
	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != own)
		_exit(127);
	be_plain_child();
	if (w->has_marks)
		give_counts(w);
	(void)execv("/proc/self/exe", (char *const *)words);
	_exit(127);
}

/* Ends the recorder; its own trace is not needed. */
static void stop_recorder(struct watcher *w)
{
	if (w->recorder > 0) {
		(void)kill(w->recorder, SIGKILL);
		(void)waitpid(w->recorder, NULL, 0);
	}
	(void)unlink(w->file);
	w->recorder = 0;
}

/* An armed recorder samples from the rise of a rule on: each request extends the time.  Its answer is not needed. */
static void arm_recorder(struct watcher *w, uint64_t now)
{
	const struct flight_request request = {.version = FLIGHT_VERSION,
					       .wants_file = 1,
					       .asked_at = clock_ns(CLOCK_MONOTONIC),
					       .arm_ns = ARM_S * NSEC_PER_SEC +
							 2 * w->rules.calm_poll_ns};
	_cleanup_(fd_closep) int fd = -1;
	char name[FLIGHT_SOCKET_MAX];
	struct ucred peer;

	(void)snprintf(name, sizeof(name), FLIGHT_SOCKET, (uint32_t)w->recorder);
	if (unix_connect(name, SOCK_NONBLOCK, 0, &peer, &fd) < 0 || peer.pid != w->recorder ||
	    send(fd, &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request))
		log_verbose("the recorder cannot be armed: %s", strerror(errno));
	else
		w->armed_at = now;
}

/* ---- an episode, in a process of its own ---- */

/* Requests at once get one snapshot, under one name: the writers take turns.  A recorder that has ended left its file. */
static int take_snapshot(const struct watcher *w, const struct episode *e, const char *file)
{
	char pid[16], last[32];
	uint64_t from = e->of.start - min_u64(e->of.start, e->rule->before_ns);
	const char *words[] = {"perfwind", "snapshot", "-q",	 "-p", pid,
			       "-o",	   file,       "--last", last, NULL};
	_cleanup_(fd_closep) int folder = open(w->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int status;
	pid_t child;

	(void)snprintf(pid, sizeof(pid), "%d", w->recorder);
	(void)snprintf(last, sizeof(last), "%lus",
		       (unsigned long)((clock_ns(CLOCK_BOOTTIME) - from) / NSEC_PER_SEC + 1));
	if (folder < 0 || flock(folder, LOCK_EX) < 0)
		return fail(-errno);
	if (w->recorder <= 0)
		return link(w->file, file) < 0 ? fail(-errno) : 0;
	child = fork();
	if (child < 0)
		return fail(-errno);
	if (!child) {
		(void)execv("/proc/self/exe", (char *const *)words);
		_exit(127);
	}
	if (waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	(void)unlink(file);
	return link(w->file, file) < 0 ? fail(-EIO) : 0;
}

static void run_program(const struct watcher *w, const char *folder)
{
	pid_t child;

	if (!w->rules.execute[0])
		return;
	child = fork();
	if (child == 0)
		(void)execlp(w->rules.execute, w->rules.execute, folder, NULL);
	if (child <= 0)
		log_error("exec = %s: %s", w->rules.execute, strerror(errno));
	if (child == 0)
		_exit(127);
	(void)wait(NULL);
}

static int write_episode(const struct watcher *w, const struct episode *e, char *error, size_t size)
{
	char name[EPISODE_NAME], new[PATH_MAX], final[PATH_MAX], file[PATH_MAX];
	int r;

	episode_name(e, name);
	if (snprintf(new, sizeof(new), "%s/.new-%s", w->folder, name) >= PATH_MAX ||
	    snprintf(final, sizeof(final), "%s/%s", w->folder, name) >= PATH_MAX ||
	    snprintf(file, sizeof(file), "%s/trace.pftrace", new) >= PATH_MAX)
		return fail(-ENAMETOOLONG);
	if (mkdir(new, 0700) < 0) {
		(void)snprintf(error, size, "%.400s: %s", new, strerror(errno));
		return fail(-errno);
	}
	r = take_snapshot(w, e, file);
	if (r < 0)
		(void)snprintf(error, size, "no snapshot of the flight recorder");
	else
		r = episode_write(new, e, error, size);
	if (r >= 0 && rename(new, final) < 0) {
		r = -errno;
		(void)snprintf(error, size, "%.400s: %s", final, strerror(errno));
	}
	if (r < 0) {
		episode_discard(new);
		return trace(r);
	}
	log_info("episode %s: %s of rule %s: %.0f %s for %.1f s: %s", name,
		 watch_when_names[e->rule->when], e->rule->name, e->of.average,
		 watch_when_unit(e->rule->when), (double)(e->of.end - e->of.start) / 1e9, final);
	(void)episodes_keep_small(w->folder, w->rules.disk);
	run_program(w, final);
	return 0;
}

static void not_kept(struct watcher *w, struct run *run)
{
	w->failed = true;
	trigger_retry(&run->trigger, clock_ns(CLOCK_BOOTTIME) + RETRY_S * NSEC_PER_SEC);
}

static void begin_episode_writer(struct watcher *w, size_t rule)
{
	struct episode e = {.rule = &w->rules.rules[rule],
			    .of = trigger_episode(&w->runs[rule].trigger),
			    .wall_offset = (int64_t)clock_ns(CLOCK_REALTIME) -
					   (int64_t)clock_ns(CLOCK_BOOTTIME)};
	char error[512] = "";
	size_t i = 0;
	pid_t pid;
	int r;

	while (i < WRITERS && w->writers[i])
		i++;
	/* Its file has no samples of what came later. */
	if (i == WRITERS ||
	    (w->recorder <= 0 && (access(w->file, F_OK) < 0 || e.of.start >= w->recorder_at))) {
		log_error("rule %s: the episode is not kept: %s", e.rule->name,
			  i == WRITERS ? "eight others are being written"
				       : "the flight recorder does not run");
		not_kept(w, &w->runs[rule]);
		return;
	}
	pid = fork();
	if (pid < 0) {
		log_error("rule %s: the episode is not kept: %s", e.rule->name, strerror(errno));
		not_kept(w, &w->runs[rule]);
		return;
	}
	w->writers[i] = w->runs[rule].writer = pid;
	if (pid)
		return;
	(void)setpgid(0, 0);
	be_plain_child();
	(void)setpriority(PRIO_PROCESS, 0, NICE);
	r = write_episode(w, &e, error, sizeof(error));
	if (r < 0)
		log_error("rule %s: the episode is not kept: %s", e.rule->name,
			  error[0] ? error : strerror(-r));
	_exit(r < 0);
}

static bool reap_writers(struct watcher *w)
{
	bool any = false;
	int status;

	for (size_t i = 0; i < WRITERS; i++) {
		if (w->writers[i] && waitpid(w->writers[i], &status, WNOHANG)) {
			for (size_t j = 0; status && j < w->rules.n; j++)
				if (w->runs[j].writer == w->writers[i])
					not_kept(w, &w->runs[j]);
			w->writers[i] = 0;
			w->failed |= status != 0;
		}
		any |= w->writers[i] != 0;
	}
	return any;
}

/* ---- polls ---- */

/* "87", "0.42" */
static const char *text_of(double value, char to[static 32])
{
	(void)snprintf(to, 32, "%.*f", value < 10 && value != floor(value) ? 2 : 0, value);
	return to;
}

static void handle(struct watcher *w, size_t i, enum trigger_event event, double value)
{
	const struct watch_rule *rule = &w->rules.rules[i];
	const struct trigger *t = &w->runs[i].trigger;
	uint64_t wait = t->cooldown_until - min_u64(t->cooldown_until, t->last);
	char text[32], why[64];

	if (event == TRIGGER_FIRED)
		log_info("rule %s: %s is %s %s (above %g for %.1f s)", rule->name,
			 watch_when_names[rule->when], text_of(value, text),
			 watch_when_unit(rule->when), rule->above, (double)rule->hold_ns / 1e9);
	else if (event == TRIGGER_ENDED)
		begin_episode_writer(w, i);
	if (event != TRIGGER_SUPPRESSED)
		return;
	if (wait)
		(void)snprintf(why, sizeof(why), "the cooldown lasts %.0f s more",
			       ceil((double)wait / 1e9));
	else
		(void)snprintf(why, sizeof(why), "per-day = %u is reached", rule->per_day);
	log_info("rule %s: %s is %s %s; no episode: %s", rule->name, watch_when_names[rule->when],
		 text_of(value, text), watch_when_unit(rule->when), why);
}

/* Have all processes of -p, or threads of -t, ended? */
static bool targets_ended(const struct record_args *args)
{
	struct procfs_status status;

	for (size_t i = 0; i < args->n_tids; i++)
		if (procfs_status("", args->tids[i], &status) >= 0 && !status.zombie)
			return false;
	for (size_t i = 0; i < args->n_pids && !args->n_tids; i++)
		if (procfs_status("", args->pids[i], &status) >= 0 && !status.zombie)
			return false;
	return args->n_pids > 0;
}

/* Episodes that are going on end with it: its file has their samples. */
static void recorder_ended(struct watcher *w, int code, uint64_t now)
{
	bool recorded = access(w->file, F_OK) == 0, wrong = code == 2 && !recorded && !w->has_run;

	w->recorder = 0;
	w->recorder_at = now;
	w->has_run = true;
	for (size_t i = 0; recorded && i < w->rules.n; i++)
		handle(w, i, trigger_stop(&w->runs[i].trigger, &w->rules.rules[i], now), 0);
	if (wrong || targets_ended(w->record)) {
		log_error("%s; watch ends: record = %s",
			  wrong ? "the flight recorder does not take its options"
				: "the processes that the flight recorder sampled have ended",
			  w->rules.record);
		w->status = code;
		loop_quit(&w->loop);
		return;
	}
	log_error("the flight recorder ended (status %d); it starts again in %d s: perfwind record "
		  "%s%s",
		  code, RESTART_S, w->rules.record,
		  geteuid() && !w->record->n_pids
			  ? " (hint: record = -p PID -F 49 below [watch]: your own processes)"
			  : "");
}

static void check_recorder(struct watcher *w, uint64_t now)
{
	int status;

	if (w->recorder > 0 && waitpid(w->recorder, &status, WNOHANG) == w->recorder)
		recorder_ended(w, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
			       now);
	else if (w->recorder <= 0 && now - w->recorder_at >= RESTART_S * NSEC_PER_SEC)
		start_recorder(w);
}

static int poll_rules(struct loop_timer *timer)
{
	struct watcher *w = container_of(timer, struct watcher, timer);
	uint64_t now = clock_ns(CLOCK_BOOTTIME), period;
	bool busy = false, risen = false;

	for (size_t i = 0; i < w->rules.n; i++) {
		const struct watch_rule *rule = &w->rules.rules[i];
		struct run *run = &w->runs[i];
		double value;
		uint32_t pid;

		gauge_poll(run->gauge, now, &value, &pid);
		handle(w, i, trigger_step(&run->trigger, rule, now, value, pid), value);
		risen |= run->trigger.state != TRIGGER_CALM;
		busy |= run->trigger.state != TRIGGER_CALM || value > 0.8 * rule->above;
	}
	(void)reap_writers(w);
	check_recorder(w, now);
	if (risen && w->record->armed && w->recorder > 0 && now - w->armed_at >= NSEC_PER_SEC)
		arm_recorder(w, now);
	if (busy == w->busy)
		return 0;
	w->busy = busy;
	period = busy ? w->rules.busy_poll_ns : w->rules.calm_poll_ns;
	return loop_timer_set(&w->timer, period, period);
}

/* ---- rules ---- */

static int open_rule(const struct watcher *w, const struct watch_rule *rule, struct gauge **ret,
		     char *error, size_t size)
{
	char why[512] = "";
	int r = gauge_new(rule, "", w->marks, ret, why, sizeof(why));

	if (r < 0)
		(void)snprintf(error, size, "%s:%u:%u: rule %s: %s", w->path,
			       rule->text_line ? rule->text_line : rule->line,
			       rule->text_line ? rule->text_column : 1, rule->name, why);
	return r < 0 ? trace(r) : 0;
}

static int find_equal(const struct watcher *w, const struct watch_rule *rule)
{
	for (size_t i = 0; i < w->rules.n; i++)
		if (w->runs[i].gauge && watch_rule_equal(&w->rules.rules[i], rule))
			return (int)i;
	return -1;
}

/* Takes @new over, or leaves everything as it is and frees it. */
static int use_rules(struct watcher *w, struct watch_rules *new, char *error, size_t size)
{
	struct gauge *gauges[WATCH_RULES] = {0};
	struct run runs[WATCH_RULES] = {0};
	int r = 0;

	for (size_t i = 0; r >= 0 && i < new->n; i++)
		if (find_equal(w, &new->rules[i]) < 0)
			r = open_rule(w, &new->rules[i], &gauges[i], error, size);
	if (r < 0) {
		for (size_t i = 0; i < new->n; i++)
			(void)gauge_free(gauges[i]);
		watch_rules_deinit(new);
		return trace(r);
	}
	for (size_t i = 0; i < new->n; i++) {
		int old = gauges[i] ? -1 : find_equal(w, &new->rules[i]);

		runs[i].gauge = gauges[i];
		if (old >= 0) {
			runs[i] = w->runs[old];
			w->runs[old] = (struct run){0};
			gauge_move(runs[i].gauge, &new->rules[i]);
		}
	}
	for (size_t i = 0; i < w->rules.n; i++) {
		if (w->runs[i].gauge)
			handle(w, i,
			       trigger_stop(&w->runs[i].trigger, &w->rules.rules[i],
					    clock_ns(CLOCK_BOOTTIME)),
			       0);
		(void)gauge_free(w->runs[i].gauge);
	}
	watch_rules_deinit(&w->rules);
	w->rules = *new;
	memcpy(w->runs, runs, sizeof(runs));
	return 0;
}

static void reload(struct watcher *w)
{
	_cleanup_(freep) struct record_args *args = calloc(1, sizeof(*args));
	struct watch_rules new;
	char error[1024] = "";
	bool other;
	int r = watch_rules_read(w->path, &new, error, sizeof(error));

	if (r >= 0 && (!args || read_record(&new, args) < 0)) {
		watch_rules_deinit(&new);
		r = fail(-EINVAL);
		(void)snprintf(error, sizeof(error), "%s: wrong options in record", w->path);
	}
	if (r >= 0) {
		other = strcmp(new.record, w->rules.record) != 0 || new.memory != w->rules.memory ||
			strcmp(new.folder, w->rules.folder) != 0;
		if (other)
			log_info("folder, record and memory take effect when watch starts again");
		if (wants_marks(&new) && !w->has_marks)
			log_info("rules of marks take effect when watch starts again: the flight "
				 "recorder runs without --marks");
		r = use_rules(w, &new, error, sizeof(error));
	}
	if (r < 0)
		log_error("the rules stay as they were: %s", error);
	else
		log_info("%zu rules are read again", w->rules.n);
}

static int on_signal(struct loop_source *source, uint32_t events)
{
	struct watcher *w = container_of(source, struct watcher, signals);
	int signal;

	(void)events;
	while ((signal = signals_next(source))) {
		if (signal == SIGHUP)
			reload(w);
		else
			loop_quit(&w->loop);
	}
	return 0;
}

/* ---- the whole ---- */

/* What is going on is kept. */
static void end_all(struct watcher *w)
{
	uint64_t now = clock_ns(CLOCK_BOOTTIME), until = now + END_MS * NSEC_PER_MSEC;

	for (size_t i = 0; i < w->rules.n; i++) {
		handle(w, i, trigger_stop(&w->runs[i].trigger, &w->rules.rules[i], now), 0);
		w->runs[i].gauge = gauge_free(w->runs[i].gauge);
	}
	while (reap_writers(w) && clock_ns(CLOCK_BOOTTIME) < until)
		(void)poll(NULL, 0, 20);
	stop_recorder(w);
}

static int run_loop(struct watcher *w)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	int r = loop_init(&w->loop);

	if (r < 0)
		return trace(r);
	r = signals_watch(&w->loop, &w->signals, signals, ARRAY_SIZE(signals), on_signal);
	if (r >= 0) {
		start_recorder(w);
		r = loop_timer_add(&w->loop, &w->timer, w->rules.calm_poll_ns,
				   w->rules.calm_poll_ns, poll_rules);
	}
	if (r >= 0) {
		log_info("watching %zu rule%s; episodes go to %s", w->rules.n,
			 w->rules.n == 1 ? "" : "s", w->folder);
		r = loop_run(&w->loop);
		loop_timer_remove(&w->loop, &w->timer);
	}
	end_all(w);
	signals_unwatch(&w->loop, &w->signals);
	loop_deinit(&w->loop);
	return r < 0 ? trace(r) : 0;
}

static int check_own(const char *folder)
{
	struct stat st;
	int r = stat(folder, &st) < 0 ? -errno : 0;

	if (r >= 0 && !watch_is_own(&st))
		r = -EPERM;
	if (r < 0)
		log_error("%s: %s", folder,
			  r == -EPERM ? "another user can write this folder" : strerror(-r));
	return r < 0 ? trace(r) : 0;
}

/* The folder of the episodes is made, with mode 0700, and the folders above it that are missing.  -EPERM: another user can write
 * it. */
static int make_folder(const char *wanted, char to[PATH_MAX])
{
	int r = episode_folder_find(wanted, to);

	if (r < 0)
		return trace(r);
	for (char *slash = to + 1;; slash++) {
		slash = strchr(slash, '/');
		if (slash)
			*slash = 0;
		r = mkdir(to, 0700) < 0 && errno != EEXIST ? -errno : 0;
		if (r < 0)
			log_error("%s: %s", to, strerror(-r));
		if (slash)
			*slash = '/';
		if (r < 0 || !slash)
			return r < 0 ? trace(r) : check_own(to);
	}
}

static int prepare(struct watcher *w)
{
	struct watch_rules rules;
	char error[1024] = "";
	const char *folder;
	int r = watch_rules_read(w->path, &rules, error, sizeof(error));

	if (r >= 0 && read_record(&rules, w->record) < 0) {
		watch_rules_deinit(&rules);
		w->status = 2;
		return fail(-EINVAL);
	}
	if (r >= 0 && w->check) {
		watch_rules_deinit(&rules);
		return 0;
	}
	if (r >= 0 && shared_counts_new(&w->marks) < 0)
		w->marks = NULL; /* rules of marks are refused */
	if (r >= 0)
		r = use_rules(w, &rules, error, sizeof(error));
	if (r < 0) {
		log_error("watch: %s", error);
		return trace(r);
	}
	folder = w->folder_option ? w->folder_option : w->rules.folder;
	r = make_folder(*folder ? folder : NULL, w->folder);
	if (r >= 0 && snprintf(w->file, sizeof(w->file), "%s/.recorder-%d.pftrace", w->folder,
			       (int)getpid()) >= PATH_MAX) {
		r = fail(-ENAMETOOLONG);
		log_error("%s: %s", w->folder, strerror(-r));
	}
	return r < 0 ? trace(r) : 0;
}

static int watch_main(int argc, char **argv)
{
	struct watcher w = {.signals.fd = -1, .timer.source.fd = -1};
	int n, r = options_parse(&options, argc, argv, &w, &n);

	if (r != 0)
		return options_exit_status(r);
	if (!w.path) {
		log_error("watch needs its rules: perfwind watch -c RULES (man perfwind-watch has "
			  "an example)");
		return 2;
	}
	w.record = calloc(1, sizeof(*w.record));
	r = w.record ? prepare(&w) : fail(-ENOMEM);
	if (!w.record)
		log_error("watch: %s", strerror(-r));
	if (r >= 0 && w.check)
		printf("%s: the rules are valid\n", w.path);
	else if (r >= 0 && (r = run_loop(&w)) < 0)
		log_error("watch: %s", strerror(-r));
	for (size_t i = 0; i < w.rules.n; i++)
		(void)gauge_free(w.runs[i].gauge);
	watch_rules_deinit(&w.rules);
	(void)shared_counts_free(w.marks);
	free(w.record);
	return w.status ? w.status : r < 0 || w.failed;
}

const struct command command_watch = {
	.name = "watch",
	.summary = "wait for a rule to hold, and keep the time before, during and after",
	.run = watch_main,
	.options = &options,
};
