/* source-fixture.h - a source on real events: options, children to profile, everything read back.
 * All is stated in terms of what children do, not of how fast this machine is. */
#pragma once

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

#include "perf/source.h"

enum { SEEN_MAX = 1 << 16, NOTES_MAX = 8 };

struct seen_sample {
	uint64_t id, time, period;
	uint64_t counts[2];
	uint32_t ring, pid, tid, n_counts, stack_room, stack_len;
	uint8_t cpu_mode;
	uint64_t regs_abi, n_chain;
};

struct fixture {
	struct perf_options options;
	struct perf_source *source;
	enum perf_gate gate;
	char error[512], notes[NOTES_MAX][512];
	size_t n_notes;
	uint32_t *cpus;
	struct seen_sample *samples; /* SEEN_MAX */
	size_t n_samples;
	size_t n_comm, n_exec, n_fork, n_exit, n_mmap, n_build_id, n_lost, n_unknown;
	uint64_t last_time;
};

static void fixture_note(void *arg, const char *brief, const char *line)
{
	struct fixture *f = arg;

	(void)brief;
	if (f->n_notes < NOTES_MAX)
		(void)snprintf(f->notes[f->n_notes++], sizeof(f->notes[0]), "%s", line);
}

static inline void fixture_init(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	f->samples = calloc(SEEN_MAX, sizeof(f->samples[0]));
	assert_non_null(f->samples);
	assert_int_equal(perf_online_cpus(&f->cpus, &f->options.n_cpus), 0);
	f->options.cpus = f->cpus;
	f->options.leader = (struct perf_spec){
		.name = "cpu-clock",
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.code = FRAMES_ALL,
		.weight = PERF_WEIGHT_TIME,
		.counter = 1,
	};
	f->options.frequency = 999;
	f->options.stack_bytes = 8192;
	f->options.clock = CLOCK_MONOTONIC;
	f->options.note = fixture_note;
	f->options.note_arg = f;
	for (size_t i = 0; i < FEATURE_COUNT; i++)
		f->options.features.has[i] =
			true; /* each test that needs one asks fixture_skip_without() */
}

static inline void fixture_deinit(struct fixture *f)
{
	f->source = perf_source_free(f->source);
	free(f->cpus);
	free(f->samples);
}

static inline struct perf_spec fixture_software(const char *name, uint64_t config)
{
	struct perf_spec spec = {
		.type = PERF_TYPE_SOFTWARE, .config = config, .code = FRAMES_ALL, .counter = -1};

	(void)snprintf(spec.name, sizeof(spec.name), "%s", name);
	return spec;
}

static inline int fixture_open(struct fixture *f)
{
	return perf_source_new(&f->options, &f->source, &f->gate, f->error, sizeof(f->error));
}

static inline int fixture_add(struct fixture *f, pid_t tid)
{
	return perf_source_add_task(f->source, tid, &f->gate, f->error, sizeof(f->error));
}

static inline bool fixture_noted(const struct fixture *f, const char *part)
{
	for (size_t i = 0; i < f->n_notes; i++)
		if (strstr(f->notes[i], part))
			return true;
	return false;
}

static inline void fixture_see(struct fixture *f, const struct merge_item *item)
{
	const struct perf_ring *ring = perf_source_ring(f->source, item->ring);
	struct record_sample sample;
	struct record_event event;
	int r;

	if (item->record->type == PERF_RECORD_SAMPLE) {
		assert_false(ring->sideband);
		assert_int_equal(record_parse_sample(&ring->layout, item->record, &sample), 0);
		assert_true(f->n_samples < SEEN_MAX);
		f->samples[f->n_samples++] = (struct seen_sample){
			.id = sample.id,
			.time = sample.time,
			.period = sample.period,
			.counts = {sample.counts[0], sample.counts[1]},
			.ring = item->ring,
			.pid = sample.pid,
			.tid = sample.tid,
			.n_counts = sample.n_counts,
			.stack_room = sample.stack_room,
			.stack_len = sample.stack_len,
			.cpu_mode = sample.cpu_mode,
			.regs_abi = sample.regs_abi,
			.n_chain = sample.n_chain,
		};
		return;
	}
	r = record_parse_event(&ring->layout, item->record, &event);
	assert_true(r == 0 || r == RECORD_UNKNOWN);
	f->n_unknown += r == RECORD_UNKNOWN;
	f->n_comm += event.type == PERF_RECORD_COMM;
	f->n_exec += event.type == PERF_RECORD_COMM && event.comm.exec;
	f->n_fork += event.type == PERF_RECORD_FORK;
	f->n_exit += event.type == PERF_RECORD_EXIT;
	f->n_mmap += event.type == PERF_RECORD_MMAP2;
	f->n_build_id += event.type == PERF_RECORD_MMAP2 && event.mmap.build_id_len > 0;
	f->n_lost += event.type == PERF_RECORD_LOST;
	if (event.type == PERF_RECORD_MMAP2 || event.type == PERF_RECORD_COMM)
		assert_true(ring->sideband);
}

/* What is in the rings; the rest too when @last. */
static inline void fixture_drain(struct fixture *f, bool last)
{
	struct merge *merge = perf_source_merge(f->source);
	struct merge_item item;

	if (last)
		merge_finish(merge);
	assert_int_equal(merge_begin(merge, clock_ns(f->options.clock)), 0);
	while (merge_next(merge, &item) == 0) {
		fixture_see(f, &item);
		merge_put(merge, item.ring, item.position);
	}
}

/* Reads along for @ms. */
static inline void fixture_run(struct fixture *f, int ms)
{
	for (int i = 0; i < ms; i += 10) {
		(void)usleep(10000);
		fixture_drain(f, false);
	}
}

static inline size_t fixture_samples_of(const struct fixture *f, uint32_t pid)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n_samples; i++)
		n += f->samples[i].pid == pid;
	return n;
}

static inline void fixture_spin(uint64_t ms)
{
	volatile uint64_t x = 0;
	uint64_t end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ms * NSEC_PER_MSEC;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		for (int i = 0; i < 20000; i++)
			x += (uint64_t)i;
}

/* A child that runs @work once the parent calls child_go(), then exits.  It never outlives its
 * parent. */
struct child {
	pid_t pid;
	int go;
};

static inline struct child child_start(void (*work)(void))
{
	struct child c;
	int pipe_fds[2];

	assert_int_equal(pipe(pipe_fds), 0);
	c.pid = fork();
	assert_true(c.pid >= 0);
	if (c.pid == 0) {
		char byte;

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)close(pipe_fds[1]);
		if (read(pipe_fds[0], &byte, 1) == 1)
			work();
		_exit(0);
	}
	(void)close(pipe_fds[0]);
	c.go = pipe_fds[1];
	return c;
}

static inline void child_go(const struct child *c)
{
	assert_int_equal(write(c->go, "g", 1), 1);
}

static inline void child_wait(struct child *c)
{
	int status;

	(void)close(c->go);
	assert_int_equal(waitpid(c->pid, &status, 0), c->pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* For child_start(): 200 ms of work; the same in a child of the child. */
static inline void child_spins(void)
{
	fixture_spin(200);
}

static inline void child_spins_in_child(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		child_spins();
		_exit(0);
	}
	_exit(waitpid(pid, NULL, 0) != pid);
}

/* A child that does @what, followed with its children; skips the test if its events are refused.  @set: sets options,
 * may be NULL. */
static inline void fixture_follow(struct fixture *f, struct child *child, void (*what)(void),
				  void (*set)(struct perf_options *options))
{
	*child = child_start(what);
	fixture_init(f);
	f->options.tasks = true;
	f->options.children = true;
	if (set)
		set(&f->options);
	assert_int_equal(fixture_open(f), 0);
	if (fixture_add(f, child->pid) == 0)
		return;
	print_message("skipped: %s\n", f->error);
	child_go(child);
	child_wait(child);
	fixture_deinit(f);
	skip();
}

/* The child's work to its end. */
static inline void fixture_finish(struct fixture *f, struct child *child)
{
	child_go(child);
	child_wait(child);
	fixture_deinit(f);
}

/* poll() on the rings of samples, or of sideband records. */
static inline int fixture_poll(struct fixture *f, bool sideband, int timeout_ms)
{
	struct pollfd fds[256];
	nfds_t n = 0;

	for (size_t i = 0; i < perf_source_n_rings(f->source) && n < ARRAY_SIZE(fds); i++)
		if (perf_source_ring(f->source, i)->sideband == sideband)
			fds[n++] = (struct pollfd){perf_source_ring(f->source, i)->fd, POLLIN, 0};
	return poll(fds, n, timeout_ms);
}

/* Runs a test as uid @uid in a process of its own: what it asserts, it asserts there. */
static inline void as_user(uid_t uid, void (*test)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		if (setgid(uid) != 0 || setuid(uid) != 0 || prctl(PR_SET_DUMPABLE, 1) != 0)
			_exit(3);
		test();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("as uid %u: status %#x", uid, (unsigned int)status);
}

/* For inside as_user(): cmocka's jump has no place to go there. */
#define CHECK(condition)                                                                      \
	do {                                                                                  \
		if (!(condition)) {                                                           \
			(void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1);                                                             \
		}                                                                             \
	} while (0)

#define skip_without(condition, reason)                         \
	do {                                                    \
		if (!(condition)) {                             \
			print_message("skipped: %s\n", reason); \
			skip();                                 \
		}                                               \
	} while (0)

static inline bool may_profile_machine(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.disabled = 1,
	};
	int fd = perf_event_open(&attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return false;
	(void)close(fd);
	return true;
}
