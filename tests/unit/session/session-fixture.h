/* session-fixture.h - sessions over real events with a memory sink, a child that works, and the
 * packets read back.  What is waited for is the child's CPU time, never the clock alone. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/cmocka.h"

#include "perf/probe.h"
#include "session/session.h"
#include "protos/trace.pb-c.h"

struct fixture {
	struct loop own_loop, *loop; /* another session's, to run next to it */
	struct session_options options;
	struct perf_spec spec;
	struct sink *sink;
	struct session *session;
	char error[512];
	pid_t child;
	int n_done, n_flushed;
	Pb__Trace *trace;
};

static inline void fixture_done(void *arg)
{
	((struct fixture *)arg)->n_done++;
}

static inline void fixture_flushed(void *arg)
{
	((struct fixture *)arg)->n_flushed++;
}

/* A process of ours that computes until it is ended. */
static inline pid_t fixture_work(void)
{
	pid_t pid = fork();
	volatile uint64_t x = 1;

	assert_true(pid >= 0);
	if (pid)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		x = x * 3 + 1;
}

static inline void fixture_end_child(pid_t *pid)
{
	if (*pid <= 0)
		return;
	assert_int_equal(kill(*pid, SIGKILL), 0);
	assert_int_equal(waitpid(*pid, NULL, 0), *pid);
	*pid = 0;
}

static inline uint64_t fixture_used_ns(pid_t pid)
{
	struct timespec ts;
	clockid_t clock;

	assert_int_equal(clock_getcpuclockid(pid, &clock), 0);
	assert_int_equal(clock_gettime(clock, &ts), 0);
	return (uint64_t)ts.tv_sec * NSEC_PER_SEC + (uint64_t)ts.tv_nsec;
}

static inline void fixture_init(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	f->spec = (struct perf_spec){
		.name = "cpu-clock",
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.code = FRAMES_ALL,
		.weight = PERF_WEIGHT_TIME,
		.counter = 1,
	};
	f->options = (struct session_options){
		.machine = true,
		.specs = &f->spec,
		.n_specs = 1,
		.frequency = 999,
		.clock = CLOCK_MONOTONIC,
		.frames = FRAMES_ALL,
		.code = FRAMES_ALL,
		.engine = UW_ENGINE_NATIVE,
		.proc_root = "",
		.producer = true,
		.memory_kb = 16 << 20, /* sanitizers take more than the usual limit */
		.done = fixture_done,
		.done_arg = f,
	};
	assert_int_equal(probe_features(&f->options.features, f->error, sizeof(f->error)), 0);
	assert_int_equal(loop_init(&f->own_loop), 0);
	f->loop = &f->own_loop;
	assert_int_equal(sink_memory_new(&f->sink), 0);
	f->child = fixture_work();
}

static inline int fixture_open(struct fixture *f)
{
	return session_new(&f->options, f->sink, f->loop, &f->session, f->error, sizeof(f->error));
}

static inline void fixture_start(struct fixture *f)
{
	int r = fixture_open(f);

	if (r == -EACCES || r == -EPERM) {
		print_message("%s\n", f->error);
		fixture_end_child(&f->child);
		skip();
	}
	assert_int_equal(r, 0);
	assert_int_equal(session_start(f->session), 0);
}

static inline void fixture_deinit(struct fixture *f)
{
	fixture_end_child(&f->child);
	(void)session_free(f->session);
	if (f->trace)
		pb__trace__free_unpacked(f->trace, NULL);
	(void)sink_free(f->sink);
	loop_deinit(&f->own_loop);
}

/* The loop runs until the child has used so much more CPU time. */
static inline void fixture_run_ms(struct fixture *f, uint64_t ms)
{
	uint64_t until = fixture_used_ns(f->child) + ms * NSEC_PER_MSEC;

	while (fixture_used_ns(f->child) < until)
		assert_int_equal(loop_run_once(f->loop, 5), 0);
}

/* ... until *@count is @wanted. */
static inline void fixture_await(struct fixture *f, const int *count, int wanted)
{
	while (*count < wanted)
		assert_int_equal(loop_run_once(f->loop, 1000), 0);
}

static inline void fixture_stop(struct fixture *f)
{
	/* A session that has ended by itself would never be reported: the test fails, it does not hang. */
	assert_int_equal(session_state(f->session), SESSION_RUNNING);
	session_stop(f->session);
	fixture_await(f, &f->n_done, f->n_done + 1);
	assert_int_equal(session_state(f->session), SESSION_DONE);
}

/* All packets so far. */
static inline const Pb__Trace *fixture_decode(struct fixture *f)
{
	const void *data;
	size_t len;

	if (f->trace)
		pb__trace__free_unpacked(f->trace, NULL);
	data = sink_memory_data(f->sink, &len);
	f->trace = pb__trace__unpack(NULL, len, data);
	assert_non_null(f->trace);
	return f->trace;
}

/* A sample of @pid? */
static inline bool fixture_is_of(const Pb__TracePacket *p, pid_t pid)
{
	return p->perf_sample && p->perf_sample->has_pid && p->perf_sample->pid == (uint32_t)pid;
}
