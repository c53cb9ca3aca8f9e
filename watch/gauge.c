/* gauge.c - see gauge.h.
 *
 * Each kind is one reading: a counter that only grows (CPU time, waiting time, events) of which the rate since the last poll
 * is the value, or a value as it is (load, memory).  `kinds` is the table of all. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/cn_proc.h>
#include <linux/connector.h>
#include <linux/netlink.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/features.h"
#include "base/shared-counts.h"
#include "perf/pair.h"
#include "perf/probe.h"
#include "perf/source.h"
#include "proc/procfs.h"
#include "watch/gauge.h"

enum { TARGETS = 256, FILE_MAX = 64 << 10, HISTORY = 64 };
/* New processes are looked at each second (less, as a poll can come early), all others each 5 s: a name can change. */
#define LOOK_NEW (800 * NSEC_PER_MSEC)
#define LOOK_ALL (5 * NSEC_PER_SEC)
#define MINUTE (60 * NSEC_PER_SEC)

/* A process that the rule is about. */
struct target {
	uint32_t pid;
	uint64_t born; /* start_ticks: a pid can be used again */
	bool has_last;
	uint64_t last;
	/* memory-growth: one in each second of the last minute */
	struct {
		uint64_t at, bytes;
	} history[HISTORY];
	size_t n_history;
};

struct gauge {
	const struct watch_rule *rule;
	const char *root;
	uint64_t last_poll, last_look, last_all;
	uint32_t *old; /* pids of the last look at all, ascending */
	size_t n_old;
	bool has_last;
	uint64_t last; /* of the reading, where it is not a process's */
	struct target *targets;
	size_t n_targets;
	struct perf_source *events;
	struct pair *pair; /* latency */
	uint32_t *cpus;
	size_t n_cpus;
	int exits;		     /* signal: the kernel's process events */
	pid_t command;		     /* duration: that runs */
	uint64_t started;	     /* of the command, or of the last one */
	double took;		     /* seconds, of the last one */
	struct shared_counts *marks; /* borrowed */
	size_t mark;		     /* its slot; SIZE_MAX: none */
};

/* ---- readings ---- */

static int text_at(const struct gauge *g, const char *path, char **ret_text)
{
	char whole[PROCFS_PATH_MAX];
	int n = snprintf(whole, sizeof(whole), "%s%s", g->root, path);

	if (n < 0 || n >= PROCFS_PATH_MAX)
		return fail(-ENAMETOOLONG);
	return read_file(whole, FILE_MAX, ret_text, NULL);
}

/* The number behind @key in @text, of the first line that begins with @line. */
static bool number_behind(const char *text, const char *line, const char *key, double *ret)
{
	size_t len = strlen(line);

	for (; text; text = strchr(text, '\n'), text = text ? text + 1 : NULL) {
		const char *end = text + strcspn(text, "\n"), *at;

		if (strncmp(text, line, len))
			continue;
		at = strstr(text + len, key);
		if (!at || at >= end)
			return false;
		at += strlen(key);
		if (!isdigit((unsigned char)*at))
			return false;
		*ret = strtod(at, NULL);
		return true;
	}
	return false;
}

static int read_number(const struct gauge *g, const char *path, const char *line, const char *key,
		       double *ret)
{
	_cleanup_(freep) char *text = NULL;
	int r = text_at(g, path, &text);

	if (r >= 0 && !number_behind(text, line, key, ret))
		r = fail(-EBADMSG);
	return r < 0 ? trace(r) : 0;
}

/* CPU time of a cgroup in ns: version 2, then version 1 under either name of its hierarchy. */
static int read_cgroup(const struct gauge *g, uint64_t *ret)
{
	static const struct {
		const char *format, *key;
		double ns;
	} places[] = {{"/sys/fs/cgroup/%s/cpu.stat", "usage_usec ", 1000},
		      {"/sys/fs/cgroup/cpu,cpuacct/%s/cpuacct.usage", "", 1},
		      {"/sys/fs/cgroup/cpuacct/%s/cpuacct.usage", "", 1}};
	const char *name = g->rule->cgroup + (g->rule->cgroup[0] == '/');
	int r = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		char path[WATCH_TEXT + 64];
		double value;
		_cleanup_(freep) char *text = NULL;

		(void)snprintf(path, sizeof(path), places[i].format, name);
		r = text_at(g, path, &text);
		if (r >= 0 && number_behind(text, places[i].key, "", &value)) {
			*ret = (uint64_t)(value * places[i].ns);
			return 0;
		}
	}
	return r < 0 ? trace(r) : fail(-EBADMSG);
}

static int read_pressure(const struct gauge *g, uint64_t *ret)
{
	const char *path = g->rule->when == WATCH_PSI_CPU      ? "/proc/pressure/cpu"
			   : g->rule->when == WATCH_PSI_MEMORY ? "/proc/pressure/memory"
							       : "/proc/pressure/io";
	double us;
	int r = read_number(g, path, "some ", "total=", &us);

	*ret = r < 0 ? 0 : (uint64_t)(us * 1000);
	return r < 0 ? trace(r) : 0;
}

static int read_events(const struct gauge *g, uint64_t *ret)
{
	uint64_t counts[1 + PERF_MAX_FOLLOWERS], sum = 0;

	for (size_t i = 0; i < g->n_cpus; i++) {
		size_t n = 0;
		uint32_t cpu;
		int r = perf_source_read_group(g->events, i, counts, &n, &cpu);

		if (r < 0)
			return trace(r);
		sum += n ? counts[0] : 0;
	}
	*ret = sum;
	return 0;
}

/* A growing number for each kind that has one. */
static int read_total(const struct gauge *g, uint64_t *ret)
{
	switch (g->rule->when) {
	case WATCH_CGROUP_CPU:
		return read_cgroup(g, ret);
	case WATCH_MACHINE_CPU:
		return procfs_busy_ns(g->root, NULL, 0, ret);
	case WATCH_COUNTER:
	case WATCH_HIT:
		return read_events(g, ret);
	default:
		return read_pressure(g, ret);
	}
}

/* ---- processes ---- */

/* Time that the threads of a process waited for a CPU, ns (Documentation/scheduler/sched-stats.rst). */
static int read_run_delay(const struct gauge *g, uint32_t pid, uint64_t *ret)
{
	_cleanup_(freep) uint32_t *tids = NULL;
	size_t n;
	int r = procfs_threads(g->root, pid, &tids, &n);

	*ret = 0;
	for (size_t i = 0; r >= 0 && i < n; i++) {
		char path[64];
		_cleanup_(freep) char *text = NULL;
		uint64_t ran, waited;

		(void)snprintf(path, sizeof(path), "/proc/%u/task/%u/schedstat", pid, tids[i]);
		if (text_at(g, path, &text) >= 0 &&
		    sscanf(text, "%" SCNu64 " %" SCNu64, &ran, &waited) == 2)
			*ret += waited;
	}
	return r < 0 ? trace(r) : 0;
}

static int read_memory(const struct gauge *g, uint32_t pid, uint64_t *ret)
{
	char path[32];
	_cleanup_(freep) char *text = NULL;
	uint64_t size, resident;
	int r;

	(void)snprintf(path, sizeof(path), "/proc/%u/statm", pid);
	r = text_at(g, path, &text);
	if (r >= 0 && sscanf(text, "%" SCNu64 " %" SCNu64, &size, &resident) != 2)
		r = fail(-EBADMSG);
	*ret = r < 0 ? 0 : resident * (uint64_t)sysconf(_SC_PAGESIZE);
	return r < 0 ? trace(r) : 0;
}

/* MiB since a minute ago, or since the first poll. */
static double growth(struct target *t, uint64_t now, uint64_t bytes)
{
	size_t old = 0;

	while (old < t->n_history && now - t->history[old].at > MINUTE)
		old++;
	memmove(t->history, t->history + old, (t->n_history - old) * sizeof(t->history[0]));
	t->n_history -= old;
	if (t->n_history < HISTORY &&
	    (!t->n_history || now - t->history[t->n_history - 1].at >= NSEC_PER_SEC)) {
		t->history[t->n_history].at = now;
		t->history[t->n_history++].bytes = bytes;
	}
	return bytes > t->history[0].bytes ? (double)(bytes - t->history[0].bytes) / (1 << 20) : 0;
}

static double rate(uint64_t from, uint64_t to, uint64_t ns, double scale)
{
	return to > from && ns ? (double)(to - from) / (double)ns * scale : 0;
}

/* < 0: the process is gone. */
static int poll_target(const struct gauge *g, struct target *t, uint64_t now, double *ret)
{
	struct procfs_status status;
	uint64_t total;
	int r = procfs_status(g->root, t->pid, &status);

	if (r >= 0 && (status.start_ticks != t->born || status.zombie))
		r = -ESRCH;
	if (r >= 0 && g->rule->when == WATCH_MEMORY_GROWTH) {
		r = read_memory(g, t->pid, &total);
		*ret = r < 0 ? 0 : growth(t, now, total);
		return r;
	}
	total = r < 0 ? 0
		      : (status.utime_ticks + status.stime_ticks) *
				(NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK));
	if (r >= 0 && g->rule->when == WATCH_RUN_QUEUE)
		r = read_run_delay(g, t->pid, &total);
	if (r < 0)
		return trace(r);
	*ret = t->has_last ? rate(t->last, total, now - g->last_poll, 100) : 0;
	t->last = total;
	t->has_last = true;
	return 0;
}

static bool has_target(const struct gauge *g, uint32_t pid)
{
	for (size_t i = 0; i < g->n_targets; i++)
		if (g->targets[i].pid == pid)
			return true;
	return false;
}

static void add_target(struct gauge *g, uint32_t pid)
{
	struct procfs_status status;

	if (g->n_targets < TARGETS && !has_target(g, pid) &&
	    procfs_status(g->root, pid, &status) >= 0 && !status.zombie)
		g->targets[g->n_targets++] =
			(struct target){.pid = pid, .born = status.start_ticks};
}

static void look_for_name(struct gauge *g, uint64_t now)
{
	_cleanup_(freep) uint32_t *pids = NULL;
	bool all = !g->last_all || now - g->last_all >= LOOK_ALL;
	size_t n = 0, old = 0;

	if (procfs_pids(g->root, &pids, &n) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		char comm[16];

		while (old < g->n_old && g->old[old] < pids[i])
			old++;
		if (!all && old < g->n_old && g->old[old] == pids[i])
			continue;
		if (procfs_thread_comm(g->root, pids[i], pids[i], comm) >= 0 &&
		    !strncmp(comm, g->rule->process, 15))
			add_target(g, pids[i]);
	}
	if (!all)
		return;
	g->last_all = now;
	free(g->old);
	g->old = take(pids);
	g->n_old = n;
}

static void look_for_targets(struct gauge *g, uint64_t now)
{
	uint64_t pid;

	if (!g->rule->process[0] || (g->last_look && now - g->last_look < LOOK_NEW))
		return;
	g->last_look = now;
	if (parse_u64(g->rule->process, 10, UINT32_MAX, &pid) >= 0)
		add_target(g, (uint32_t)pid);
	else
		look_for_name(g, now);
}

static void poll_targets(struct gauge *g, uint64_t now, double *ret_value, uint32_t *ret_pid)
{
	look_for_targets(g, now);
	for (size_t i = 0; i < g->n_targets;) {
		double value = 0;

		if (poll_target(g, &g->targets[i], now, &value) < 0) {
			g->targets[i] = g->targets[--g->n_targets];
			continue;
		}
		if (value > *ret_value || !*ret_pid) {
			*ret_value = value;
			*ret_pid = g->targets[i].pid;
		}
		i++;
	}
}

/* ---- ends by a signal: the kernel's process events (connector, CN_IDX_PROC) ---- */

static int open_exits(struct gauge *g, char *error, size_t error_size)
{
	struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = CN_IDX_PROC};
	struct {
		struct nlmsghdr header;
		struct cn_msg message;
		uint32_t operation;
	} __attribute__((packed)) request = {
		.header = {.nlmsg_len = sizeof(request), .nlmsg_type = NLMSG_DONE},
		.message = {.id = {CN_IDX_PROC, CN_VAL_PROC}, .len = sizeof(uint32_t)},
		.operation = PROC_CN_MCAST_LISTEN,
	};

	g->exits = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_CONNECTOR);
	if (g->exits < 0 || bind(g->exits, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    send(g->exits, &request, sizeof(request), 0) < 0) {
		int r = -errno;

		(void)snprintf(error, error_size,
			       "the kernel's process events cannot be read: %s (root, or "
			       "CAP_NET_ADMIN)",
			       strerror(-r));
		return fail(r);
	}
	return 0;
}

static bool ended_by_signal(const void *data, size_t len, uint32_t *ret_pid)
{
	struct nlmsghdr header;
	struct proc_event event = {0};
	const size_t before = sizeof(header) + sizeof(struct cn_msg);
	/* The end of the exit event; what is behind it depends on the kernel. */
	const size_t enough = offsetof(struct proc_event, event_data.exit.exit_signal);

	if (len < before + enough)
		return false;
	memcpy(&event, (const char *)data + before,
	       len - before < sizeof(event) ? len - before : sizeof(event));
	*ret_pid = (uint32_t)event.event_data.exit.process_tgid;
	return event.what == PROC_EVENT_EXIT &&
	       event.event_data.exit.process_pid == event.event_data.exit.process_tgid &&
	       WIFSIGNALED((int)event.event_data.exit.exit_code);
}

static void poll_exits(struct gauge *g, uint64_t now, double *ret_value, uint32_t *ret_pid)
{
	char data[4096];
	struct sockaddr_nl from;
	socklen_t len = sizeof(from);
	ssize_t n;

	while ((n = recvfrom(g->exits, data, sizeof(data), MSG_DONTWAIT, (struct sockaddr *)&from,
			     &len)) > 0) {
		uint32_t pid;

		/* pid 0 is the kernel: any process can send here. */
		if (len == sizeof(from) && !from.nl_pid && ended_by_signal(data, (size_t)n, &pid) &&
		    (!g->rule->process[0] || has_target(g, pid))) {
			*ret_value += 1;
			*ret_pid = pid;
		}
		len = sizeof(from);
	}
	/* Afterwards: processes that ended are still in the list above. */
	for (size_t i = 0; i < g->n_targets;) {
		double unused;

		if (poll_target(g, &g->targets[i], now, &unused) < 0)
			g->targets[i] = g->targets[--g->n_targets];
		else
			i++;
	}
	look_for_targets(g, now);
}

/* ---- the duration of a command ---- */

static void start_command(struct gauge *g, uint64_t now)
{
	sigset_t none;

	g->started = now;
	g->command = fork();
	if (g->command > 0)
		(void)setpgid(g->command, g->command); /* the child does too: either may be first */
	if (g->command)
		return;
	(void)setpgid(0, 0);
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)execl("/bin/sh", "sh", "-c", g->rule->command, NULL);
	_exit(127);
}

/* One that still runs counts with the time that it has taken so far. */
static void poll_command(struct gauge *g, uint64_t now, double *ret_value)
{
	int status;
	double so_far = (double)(now - g->started) / 1e9;

	if (g->command > 0 && waitpid(g->command, &status, WNOHANG) == g->command) {
		g->took = so_far;
		g->command = 0;
	}
	if (g->command <= 0 && (!g->started || now - g->started >= g->rule->each_ns))
		start_command(g, now);
	*ret_value = g->command > 0 && so_far > g->took ? so_far : g->took;
	if (g->started == now)
		*ret_value = g->took;
}

/* ---- events ---- */

static int open_events(struct gauge *g, char *error, size_t error_size)
{
	const struct perf_spec_env env = {.root = g->root};
	struct perf_spec specs[1 + PERF_MAX_FOLLOWERS];
	struct perf_options options = {.poll = true, .clock = CLOCK_BOOTTIME};
	enum perf_gate gate;
	size_t n = 0;
	int r = perf_spec_parse(&env, g->rule->event, specs, ARRAY_SIZE(specs), &n, error,
				error_size);

	if (r < 0)
		return trace(r);
	options.leader = specs[0];
	r = perf_online_cpus(&g->cpus, &g->n_cpus);
	options.cpus = g->cpus;
	options.n_cpus = g->n_cpus;
	r = r < 0 ? r : probe_features(&options.features, error, error_size);
	if (r >= 0)
		r = perf_source_new(&options, &g->events, &gate, error, error_size);
	if (r >= 0)
		r = perf_source_enable(g->events);
	for (size_t i = 0; i < n; i++)
		perf_spec_deinit(&specs[i]);
	return r < 0 ? trace(r) : 0;
}

/* ---- latency ---- */

static int open_pair(struct gauge *g, char *error, size_t error_size)
{
	const struct watch_rule *rule = g->rule;
	char from[WATCH_POINT];
	const char *colon = strchr(rule->key, ':');
	struct pair_options options = {
		.root = g->root,
		.from = {rule->from, from},
		.to = {rule->to, colon ? colon + 1 : rule->key},
	};
	int r = perf_online_cpus(&g->cpus, &g->n_cpus);

	if (r < 0) {
		(void)snprintf(error, error_size, "online CPUs: %s", strerror(-r));
		return trace(r);
	}
	(void)snprintf(from, sizeof(from), "%.*s", (int)strcspn(rule->key, ":"), rule->key);
	options.cpus = g->cpus;
	options.n_cpus = g->n_cpus;
	return pair_new(&options, &g->pair, error, error_size);
}

static double poll_pair(const struct gauge *g)
{
	struct pair_result result;

	return pair_read(g->pair, &result) < 0 ? 0 : (double)result.longest_ns / NSEC_PER_MSEC;
}

/* ---- marks ---- */

static int open_mark(struct gauge *g, char *error, size_t error_size)
{
	int r = g->marks ? shared_counts_want(g->marks, g->rule->mark, &g->mark) : -ENOTSUP;

	if (r < 0)
		(void)snprintf(error, error_size, "marks '%s' cannot be counted: %s", g->rule->mark,
			       strerror(-r));
	return r < 0 ? trace(r) : 0;
}

static double poll_mark(struct gauge *g, uint32_t *ret_pid)
{
	uint64_t before = g->last;

	g->last = shared_counts_read(g->marks, g->mark, ret_pid);
	if (g->last == before)
		*ret_pid = 0;
	return (double)(g->last - before);
}

/* ---- the whole ---- */

static int open_kind(struct gauge *g, char *error, size_t error_size)
{
	enum watch_when when = g->rule->when;
	uint64_t total;
	int r = 0;

	if (when == WATCH_SIGNAL)
		return open_exits(g, error, error_size);
	if (when == WATCH_COUNTER || when == WATCH_HIT)
		return open_events(g, error, error_size);
	if (when == WATCH_LATENCY)
		return open_pair(g, error, error_size);
	if (when == WATCH_MARK)
		return open_mark(g, error, error_size);
	if (when == WATCH_CGROUP_CPU || when == WATCH_MACHINE_CPU || when == WATCH_PSI_CPU ||
	    when == WATCH_PSI_MEMORY || when == WATCH_PSI_IO)
		r = read_total(g, &total);
	if (r < 0)
		(void)snprintf(error, error_size, "%s cannot be read: %s%s", watch_when_names[when],
			       strerror(-r),
			       when == WATCH_CGROUP_CPU ? " (is there a cgroup of this name?)"
			       : r == -EOPNOTSUPP	? " (the kernel was booted without psi=1)"
							: "");
	return r < 0 ? trace(r) : 0;
}

int gauge_new(const struct watch_rule *rule, const char *root, struct shared_counts *marks,
	      struct gauge **ret_gauge, char *error, size_t error_size)
{
	struct gauge *g = calloc(1, sizeof(*g));
	int r = g ? 0 : -ENOMEM;

	error[0] = 0;
	if (r >= 0) {
		*g = (struct gauge){
			.rule = rule, .root = root, .exits = -1, .marks = marks, .mark = SIZE_MAX};
		g->targets = calloc(TARGETS, sizeof(*g->targets));
		r = g->targets ? open_kind(g, error, error_size) : -ENOMEM;
	}
	if (r == -ENOMEM)
		(void)snprintf(error, error_size, "out of memory");
	else if (r < 0 && !error[0])
		(void)snprintf(error, error_size, "%s cannot be measured: %s",
			       watch_when_names[rule->when], strerror(-r));
	if (r < 0) {
		(void)gauge_free(g);
		return trace(r);
	}
	*ret_gauge = g;
	return 0;
}

struct gauge *gauge_free(struct gauge *g)
{
	if (!g)
		return NULL;
	if (g->command > 0) {
		(void)kill(-g->command, SIGKILL);
		(void)waitpid(g->command, NULL, 0);
	}
	(void)perf_source_free(g->events);
	(void)pair_free(g->pair);
	(void)fd_close(g->exits);
	if (g->mark != SIZE_MAX)
		shared_counts_forget(g->marks, g->mark);
	free(g->cpus);
	free(g->targets);
	free(g->old);
	free(g);
	return NULL;
}

void gauge_move(struct gauge *gauge, const struct watch_rule *rule)
{
	gauge->rule = rule;
}

static double value_of_total(struct gauge *g, uint64_t now)
{
	uint64_t total = 0, ns = now - g->last_poll;
	double value = 0;

	if (read_total(g, &total) < 0)
		return 0;
	if (!g->has_last)
		g->last = total;
	if (g->rule->when == WATCH_HIT)
		value = (double)(total - g->last);
	else
		value = rate(g->last, total, ns, g->rule->when == WATCH_COUNTER ? 1e9 : 100);
	g->last = total;
	g->has_last = true;
	return value;
}

void gauge_poll(struct gauge *g, uint64_t now, double *ret_value, uint32_t *ret_pid)
{
	*ret_value = 0;
	*ret_pid = 0;
	switch (g->rule->when) {
	case WATCH_PROCESS_CPU:
	case WATCH_MEMORY_GROWTH:
	case WATCH_RUN_QUEUE:
		poll_targets(g, now, ret_value, ret_pid);
		break;
	case WATCH_SIGNAL:
		poll_exits(g, now, ret_value, ret_pid);
		break;
	case WATCH_DURATION:
		poll_command(g, now, ret_value);
		break;
	case WATCH_LATENCY:
		*ret_value = poll_pair(g);
		break;
	case WATCH_MARK:
		*ret_value = poll_mark(g, ret_pid);
		break;
	case WATCH_LOAD:
		if (read_number(g, "/proc/loadavg", "", "", ret_value) < 0)
			*ret_value = 0;
		break;
	default:
		*ret_value = value_of_total(g, now);
	}
	g->last_poll = now;
}
