/* test-session-modes.c - what a data source's options make of the samples: scope, kinds of frames,
 * counters by the clock, limits.  All over real events. */
#include <errno.h>
#include <sys/mman.h>

#include "session/session-private.h"
#include "tests/unit/session/session-fixture.h"

enum { NOT_IN_SCOPE = 4, ENQUEUE = 3, UNWIND = 2 };

struct tally {
	size_t n, stacks, skipped[8], kernel_mode, kernel_stacks, user_stacks;
};

static void count(const Pb__PerfSample *s, struct tally *to)
{
	bool kernel = s->cpu_mode == PB__PERF_SAMPLE__CPU_MODE__MODE_KERNEL;
	bool stack = s->has_callstack_iid;
	unsigned skipped = 0;

	if (s->optional_sample_skipped_reason_case)
		skipped = (unsigned)s->sample_skipped_reason;
	assert_true(skipped < 8);
	assert_false(skipped && stack);
	to->n++;
	to->skipped[skipped]++;
	to->stacks += stack;
	to->kernel_mode += kernel;
	to->kernel_stacks += kernel && stack;
	to->user_stacks += !kernel && stack;
}

/* The samples of @pid, and the samples of all others. */
static void tally(struct fixture *f, pid_t pid, struct tally *ret_of, struct tally *ret_others)
{
	const Pb__Trace *t = fixture_decode(f);

	memset(ret_of, 0, sizeof(*ret_of));
	memset(ret_others, 0, sizeof(*ret_others));
	for (size_t i = 0; i < t->n_packet; i++) {
		const Pb__PerfSample *s = t->packet[i]->perf_sample;

		if (s && s->has_timebase_count)
			count(s, fixture_is_of(t->packet[i], pid) ? ret_of : ret_others);
	}
}

/* Is a frame of the kernel in the trace? */
static bool any_kernel_frame(const Pb__Trace *t)
{
	for (size_t i = 0; i < t->n_packet; i++) {
		const Pb__InternedData *in = t->packet[i]->interned_data;

		for (size_t j = 0; in && j < in->n_mappings; j++) {
			if (in->mappings[j]->iid == 1 && in->mappings[j]->n_path_string_ids)
				return true;
		}
	}
	return false;
}

/* Runs until the child has samples with user stacks (@stacks) or out of scope; 10 s of its CPU time at most. */
static void run_until_sampled(struct fixture *f, bool stacks, struct tally *ret_of,
			      struct tally *ret_others)
{
	for (int i = 1; i <= 50; i++) {
		fixture_run_ms(f, 200);
		f->n_flushed = 0;
		assert_int_equal(session_flush(f->session, fixture_flushed, f), 0);
		fixture_await(f, &f->n_flushed, 1);
		tally(f, f->child, ret_of, ret_others);
		if (stacks ? ret_of->user_stacks : ret_of->skipped[NOT_IN_SCOPE])
			return;
	}
}

/* A whole recording, until the child has user stacks: on a busy machine the first ones come late. */
static void run_until_stacks(struct fixture *f, struct tally *ret_of, struct tally *ret_others)
{
	fixture_start(f);
	run_until_sampled(f, true, ret_of, ret_others);
	fixture_stop(f);
	tally(f, f->child, ret_of, ret_others);
	assert_true(ret_of->user_stacks > 0);
}

static bool wanted_pid(void *arg, uint32_t pid, const char *cmdline, size_t len)
{
	const struct fixture *f = arg;

	assert_null(cmdline); /* not asked for */
	assert_int_equal(len, 0);
	return pid == (uint32_t)f->child;
}

static void test_wanted_pid(void **state)
{
	struct tally of, others;
	struct fixture f;
	pid_t other;

	(void)state;
	fixture_init(&f);
	other = fixture_work();
	f.options.wanted = wanted_pid;
	f.options.wanted_arg = &f;
	run_until_stacks(&f, &of, &others);
	assert_int_equal(of.skipped[NOT_IN_SCOPE], 0);
	/* the others are there, without stacks */
	assert_true(others.n > 0);
	assert_int_equal(others.stacks, 0);
	assert_int_equal(others.skipped[NOT_IN_SCOPE], others.n);
	fixture_end_child(&other);
	fixture_deinit(&f);
}

static bool wanted_name(void *arg, uint32_t pid, const char *cmdline, size_t len)
{
	(void)arg;
	(void)pid;
	return cmdline && len > 15 && !strcmp(cmdline, "perfwind-wanted");
}

/* Works under our name until the signal, then as a wanted one: one pid, two incarnations. */
static pid_t work_then_exec(int *ret_fd)
{
	const char *const script = "while :; do :; done";
	int fds[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid) {
		(void)close(fds[0]);
		*ret_fd = fds[1];
		return pid;
	}
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)close(fds[1]);
	(void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
	while (read(fds[0], &c, 1) != 1)
		;
	(void)execl("/bin/sh", "perfwind-wanted", "-c", script, (char *)NULL);
	_exit(1);
}

/* Samples were left out by the command line, or the command line was not read in time: no stack. */
static void assert_left_out(const struct tally *t)
{
	assert_int_equal(t->stacks, 0);
	assert_true(t->skipped[NOT_IN_SCOPE] > 0);
	assert_int_equal(t->skipped[NOT_IN_SCOPE] + t->skipped[UNWIND], t->n);
}

static void test_wanted_after_exec(void **state)
{
	struct tally of, others;
	struct fixture f;
	size_t before;
	int fd;

	(void)state;
	fixture_init(&f);
	fixture_end_child(&f.child);
	f.child = work_then_exec(&fd);
	f.options.wanted = wanted_name;
	f.options.wanted_by_cmdline = true;
	fixture_start(&f);
	run_until_sampled(&f, false, &of, &others);
	assert_left_out(&of);
	before = of.n;
	assert_int_equal(write(fd, "x", 1), 1);
	run_until_sampled(&f, true, &of, &others);
	fixture_stop(&f);
	tally(&f, f.child, &of, &others);
	assert_true(of.n > before);
	assert_true(of.stacks > 0);
	assert_left_out(&others);
	(void)close(fd);
	fixture_deinit(&f);
}

static void run(struct fixture *f, uint64_t ms)
{
	fixture_start(f);
	fixture_run_ms(f, ms);
	fixture_stop(f);
}

static void test_counters_only(void **state)
{
	struct tally of, others;
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.options.frames = 0;
	run(&f, 200);
	tally(&f, f.child, &of, &others);
	assert_true(of.n > 0);
	assert_int_equal(of.stacks + others.stacks, 0);
	assert_int_equal(of.skipped[0] + others.skipped[0], of.n + others.n);
	fixture_deinit(&f);
}

static void test_kernel_frames_only(void **state)
{
	struct tally of, others;
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.options.frames = FRAMES_KERNEL;
	run(&f, 200);
	tally(&f, f.child, &of, &others);
	assert_true(of.n > of.kernel_mode); /* the child computes */
	assert_int_equal(of.user_stacks + others.user_stacks, 0);
	assert_int_equal(of.kernel_stacks, of.kernel_mode);
	assert_int_equal(any_kernel_frame(f.trace), of.kernel_stacks + others.kernel_stacks > 0);
	fixture_deinit(&f);
}

static void test_user_frames_only(void **state)
{
	struct tally of, others;
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.options.frames = FRAMES_USER;
	run_until_stacks(&f, &of, &others);
	assert_false(any_kernel_frame(f.trace));
	fixture_deinit(&f);
}

/* The kernel's own user chains, and the walk over the copy. */
static void test_frame_pointers(void **state)
{
	const enum uw_engine_kind engines[] = {UW_ENGINE_FP, UW_ENGINE_FP_COPY};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct tally of, others;
		struct fixture f;

		fixture_init(&f);
		f.options.engine = engines[i];
		f.options.frames = i == 0 ? FRAMES_USER : FRAMES_ALL;
		run_until_stacks(&f, &of, &others);
		assert_int_equal(any_kernel_frame(f.trace) && i == 0, 0);
		fixture_deinit(&f);
	}
}

static void test_poll(void **state)
{
	struct fixture f;
	struct perf_spec specs[2];
	const Pb__Trace *t;
	uint64_t last[4096] = {0}, n = 0;

	(void)state;
	fixture_init(&f);
	specs[0] = specs[1] = f.spec;
	specs[1].config = PERF_COUNT_SW_PAGE_FAULTS;
	specs[1].counter = 2;
	f.options.specs = specs;
	f.options.n_specs = 2;
	f.options.frequency = 0;
	f.options.poll_ms = 20;
	run(&f, 100);
	t = fixture_decode(&f);
	for (size_t i = 0; i < t->n_packet; i++) {
		const Pb__TracePacket *p = t->packet[i];
		const Pb__PerfSample *s = p->perf_sample;

		if (p->trace_packet_defaults) {
			assert_int_equal(p->trace_packet_defaults->perf_sample_defaults->timebase
						 ->poll_period_ms,
					 20);
			assert_int_equal(p->trace_packet_defaults->timestamp_clock_id, 6);
		}
		if (!s)
			continue;
		assert_true(p->has_timestamp);
		assert_false(s->has_pid || s->has_tid || s->has_cpu_mode || s->has_callstack_iid);
		assert_int_equal(s->n_follower_counts, 1);
		assert_true(s->cpu < 4096 && s->timebase_count > last[s->cpu]);
		last[s->cpu] = s->timebase_count;
		n++;
	}
	assert_true(n > 0);
	fixture_deinit(&f);
}

/* It ends by itself, the reason is in the trace, and the owner gets one callback. */
static void test_guardrail(void **state)
{
	const Pb__Trace *t;
	struct fixture f;
	size_t n = 0;

	(void)state;
	fixture_init(&f);
	f.options.memory_kb = 1;
	fixture_start(&f);
	fixture_await(&f, &f.n_done, 1);
	assert_int_equal(session_state(f.session), SESSION_DONE);
	assert_int_equal(session_error(f.session, NULL), 0);
	t = fixture_decode(&f);
	for (size_t i = 0; i < t->n_packet; i++) {
		const Pb__PerfSample *s = t->packet[i]->perf_sample;

		if (!s || !s->producer_event)
			continue;
		assert_int_equal(s->producer_event->source_stop_reason, 1);
		n++;
	}
	assert_int_equal(n, 1);
	session_stop(f.session);
	fixture_run_ms(&f, 20);
	assert_int_equal(f.n_done, 1);
	fixture_deinit(&f);
}

/* The limit that holds where no config has one ends the recording too early: a failure. */
static void test_default_guardrail(void **state)
{
	const size_t much = 300 << 20;
	struct fixture f;
	const char *why;
	void *memory;

	(void)state;
	if (SESSION_MEMORY_KB != 256 << 10) {
		print_message("ThreadSanitizer's own memory raises the limit to %d KiB\n",
			      SESSION_MEMORY_KB);
		skip();
	}
	memory = mmap(NULL, much, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	fixture_init(&f);
	f.options.memory_kb = 0;
	fixture_start(&f);
	fixture_await(&f, &f.n_done, 1);
	assert_int_equal(munmap(memory, much), 0);
	assert_int_equal(session_state(f.session), SESSION_DONE);
	assert_int_equal(session_error(f.session, &why), -ENOMEM);
	assert_string_equal(why, "perfwind's memory reached its limit of 262144 KiB");
	fixture_deinit(&f);
}

static uint64_t own_kb(void)
{
	_cleanup_(freep) char *text = NULL;

	assert_int_equal(read_file("/proc/self/status", 65536, &text, NULL), 0);
	return session_status_memory_kb(text);
}

/* Near its limit a session gives back what can be had again, and goes on. */
static void test_relief(void **state)
{
	const size_t much = 1 << 30;
	void *memory;
	const Pb__Trace *t;
	struct fixture f;
	size_t cleared = 0, after = 0;
	uint32_t generation;

	(void)state;
	fixture_init(&f);
	memory = mmap(NULL, much, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	assert_ptr_not_equal(memory, MAP_FAILED);
	fixture_start(&f);
	fixture_run_ms(&f, 50);
	generation = writer_generation(f.session->writer);
	f.session->options.memory_kb = own_kb() / 100 * 112; /* relief begins at 98 */
	while (!f.session->relief.times)
		assert_int_equal(loop_run_once(f.loop, 1000), 0);
	assert_int_equal(session_state(f.session), SESSION_RUNNING);
	assert_int_not_equal(writer_generation(f.session->writer), generation);
	while (f.session->relief.next != RELIEF_NONE)
		assert_int_equal(loop_run_once(f.loop, 1000), 0);
	fixture_run_ms(&f, 100);
	assert_int_equal(f.session->relief.times, 1);
	assert_int_equal(munmap(memory, much), 0);
	fixture_stop(&f);
	assert_int_equal(session_error(f.session, NULL), 0);
	t = fixture_decode(&f);
	for (size_t i = 0; i < t->n_packet; i++) {
		cleared += (t->packet[i]->sequence_flags & 1) != 0;
		after += cleared == 2 && t->packet[i]->perf_sample &&
			 t->packet[i]->perf_sample->has_callstack_iid;
	}
	assert_int_equal(cleared, 2);
	assert_true(after > 10);
	fixture_deinit(&f);
}

static void test_status_memory(void **state)
{
	(void)state;
	assert_int_equal(
		session_status_memory_kb("Name:\tx\nVmRSS:\t 99 kB\nRssAnon:\t      68 kB\n"
					 "VmSwap:\t      10 kB\nThreads:\t1\n"),
		78);
	assert_int_equal(session_status_memory_kb(""), 0);
	assert_int_equal(session_status_memory_kb("Name:\tx\nRssAnon:\t68 kB\n"), 0);
	assert_int_equal(session_status_memory_kb("Name:\tx\nVmSwap:\t10 kB\n"), 0);
	assert_int_equal(session_status_memory_kb("Name:\tx\nRssAnon:\tx\nVmSwap:\t10 kB\n"), 0);
}

/* 100 bytes are little: a relief, 3 s for it to work, then the end; below half of it the end at once. */
static void test_full_cgroup(void **state)
{
	const uint64_t s = NSEC_PER_SEC;

	(void)state;
	assert_int_equal(session_cgroup_step(100, 100, UINT64_MAX), SESSION_CGROUP_FITS);
	assert_int_equal(session_cgroup_step(99, 100, UINT64_MAX), SESSION_CGROUP_RELIEVE);
	assert_int_equal(session_cgroup_step(50, 100, 20 * s), SESSION_CGROUP_RELIEVE);
	assert_int_equal(session_cgroup_step(50, 100, 3 * s - 1), SESSION_CGROUP_FITS);
	assert_int_equal(session_cgroup_step(99, 100, 3 * s), SESSION_CGROUP_END);
	assert_int_equal(session_cgroup_step(49, 100, UINT64_MAX), SESSION_CGROUP_END);
	assert_int_equal(session_cgroup_step(0, 100, 1), SESSION_CGROUP_END);
	assert_int_equal(session_cgroup_step(UINT64_MAX, 100, 1), SESSION_CGROUP_FITS);
}

/* Against what it was after a minute; each five minutes at most. */
static void test_grown_memory(void **state)
{
	const uint64_t s = NSEC_PER_SEC;
	uint64_t settled = 0;

	(void)state;
	assert_false(session_memory_grown(&settled, 90000, 59 * s));
	assert_true(settled == 0);
	assert_false(session_memory_grown(&settled, 100000, 60 * s));
	assert_false(session_memory_grown(&settled, 500000, 299 * s));
	assert_true(settled == 100000);
	assert_false(session_memory_grown(&settled, 125000, 300 * s));
	assert_true(session_memory_grown(&settled, 125001, 300 * s));
	assert_true(session_memory_grown(&settled, 125001, 3600 * s));
	settled = 1000; /* a quarter of little */
	assert_false(session_memory_grown(&settled, 1000 + (16 << 10), 300 * s));
	assert_true(session_memory_grown(&settled, 1001 + (16 << 10), 300 * s));
}

static void test_enqueued_bytes(void **state)
{
	struct tally of, others;
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.options.enqueued_bytes = 1;
	run(&f, 100);
	tally(&f, f.child, &of, &others);
	assert_true(of.n > 0);
	assert_int_equal(of.skipped[ENQUEUE], of.n);
	fixture_deinit(&f);
}

static void test_ignore_open_failure(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.spec.type = PERF_TYPE_TRACEPOINT;
	f.spec.config = UINT32_MAX; /* there is none of this number */
	f.spec.counter = -1;
	assert_true(fixture_open(&f) < 0);
	assert_true(f.error[0] != 0);
	f.options.ignore_open_failure = true;
	fixture_start(&f);
	assert_int_equal(session_flush(f.session, fixture_flushed, &f), 0);
	fixture_await(&f, &f.n_flushed, 1);
	fixture_stop(&f);
	assert_int_equal(session_error(f.session, NULL), 0);
	fixture_deinit(&f);
}

/* Processes of the list that are not there are left out; with none left there is nothing to start. */
static void test_cpu_list(void **state)
{
	const uint32_t cpus[] = {0, 4095};
	struct fixture f;
	const Pb__Trace *t;

	(void)state;
	fixture_init(&f);
	f.options.cpus = &cpus[1];
	f.options.n_cpus = 1;
	assert_int_equal(fixture_open(&f), -ENODEV);
	assert_string_equal(f.error, "none of the requested CPUs is online");
	f.options.cpus = cpus;
	f.options.n_cpus = 2;
	run(&f, 100);
	t = fixture_decode(&f);
	for (size_t i = 0; i < t->n_packet; i++) {
		if (t->packet[i]->perf_sample)
			assert_int_equal(t->packet[i]->perf_sample->cpu, 0);
	}
	fixture_deinit(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wanted_pid),
		cmocka_unit_test(test_wanted_after_exec),
		cmocka_unit_test(test_counters_only),
		cmocka_unit_test(test_kernel_frames_only),
		cmocka_unit_test(test_user_frames_only),
		cmocka_unit_test(test_frame_pointers),
		cmocka_unit_test(test_poll),
		cmocka_unit_test(test_guardrail),
		cmocka_unit_test(test_default_guardrail),
		cmocka_unit_test(test_relief),
		cmocka_unit_test(test_status_memory),
		cmocka_unit_test(test_full_cgroup),
		cmocka_unit_test(test_grown_memory),
		cmocka_unit_test(test_enqueued_bytes),
		cmocka_unit_test(test_ignore_open_failure),
		cmocka_unit_test(test_cpu_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
