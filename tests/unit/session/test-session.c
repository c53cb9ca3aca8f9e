/* test-session.c - a session's states: flush, clearing, stop and free in every state, several at
 * once. */
#include "session/session-private.h"
#include "tests/unit/session/session-fixture.h"

/* Samples of the child with a time before @time, in packets [from, to). */
static size_t n_before(const Pb__Trace *t, size_t from, pid_t pid, uint64_t time)
{
	size_t n = 0;

	for (size_t i = from; i < t->n_packet; i++)
		n += fixture_is_of(t->packet[i], pid) && t->packet[i]->timestamp < time;
	return n;
}

/* Until its modules are loaded, however slow that is here: no sample of the child has to wait. */
static void warm_up(struct fixture *f)
{
	size_t stacks = 0;

	while (!stacks) {
		const Pb__Trace *t;

		fixture_run_ms(f, 50);
		assert_int_equal(session_flush(f->session, fixture_flushed, f), 0);
		fixture_await(f, &f->n_flushed, f->n_flushed + 1);
		t = fixture_decode(f);
		for (size_t i = 0; i < t->n_packet; i++)
			stacks += fixture_is_of(t->packet[i], f->child) &&
				  t->packet[i]->perf_sample->has_callstack_iid;
	}
}

static void test_flush(void **state)
{
	struct fixture f;
	const Pb__Trace *t;
	uint64_t now;
	size_t n;

	(void)state;
	fixture_init(&f);
	fixture_start(&f);
	warm_up(&f);
	fixture_run_ms(&f, 15); /* some samples wait in a ring, far below its watermark */
	f.n_flushed = 0;
	now = clock_ns(CLOCK_MONOTONIC);
	assert_int_equal(session_flush(f.session, fixture_flushed, &f), 0);
	assert_int_equal(f.n_flushed, 0); /* never from inside the call */
	fixture_await(&f, &f.n_flushed, 1);
	n = fixture_decode(&f)->n_packet;
	assert_true(n_before(f.trace, 0, f.child, now) > 0);
	fixture_run_ms(&f, 50);
	fixture_stop(&f);
	/* What came later is later: nothing from before the call was missing. */
	t = fixture_decode(&f);
	assert_true(n < t->n_packet);
	assert_int_equal(n_before(t, n, f.child, now), 0);
	fixture_deinit(&f);
}

static int order[4], n_order;

static void flushed_first(void *arg)
{
	(void)arg;
	order[n_order++] = 1;
}

static void flushed_second(void *arg)
{
	(void)arg;
	order[n_order++] = 2;
}

static void test_flush_in_each_state(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	n_order = 0;
	if (fixture_open(&f) < 0) {
		fixture_deinit(&f);
		skip();
	}
	assert_int_equal(session_flush(f.session, fixture_flushed, &f), 0);
	fixture_await(&f, &f.n_flushed, 1);
	assert_int_equal(session_state(f.session), SESSION_READY);
	assert_int_equal(session_start(f.session), 0);
	fixture_run_ms(&f, 30);
	/* several at once, in their order; a stop does not lose them */
	assert_int_equal(session_flush(f.session, flushed_first, NULL), 0);
	assert_int_equal(session_flush(f.session, flushed_second, NULL), 0);
	session_stop(f.session);
	assert_int_equal(session_state(f.session), SESSION_DRAINING);
	assert_int_equal(session_flush(f.session, fixture_flushed, &f), 0);
	fixture_await(&f, &f.n_done, 1);
	assert_int_equal(n_order, 2);
	assert_int_equal(order[0], 1);
	assert_int_equal(order[1], 2);
	assert_int_equal(f.n_flushed, 2);
	assert_int_equal(session_flush(f.session, fixture_flushed, &f), 0);
	fixture_await(&f, &f.n_flushed, 3);
	assert_int_equal(f.n_done, 1);
	fixture_deinit(&f);
}

/* More than the unwinder takes at a time. */
static void test_many_flushes(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	fixture_start(&f);
	for (int i = 0; i < 100; i++)
		assert_int_equal(session_flush(f.session, fixture_flushed, &f), 0);
	fixture_await(&f, &f.n_flushed, 100);
	assert_int_equal(f.n_flushed, 100);
	assert_int_equal(session_flush(f.session, fixture_flushed, &f), 0);
	f.session = session_free(f.session); /* without a callback */
	fixture_run_ms(&f, 20);
	assert_int_equal(f.n_flushed, 100);
	assert_int_equal(f.n_done, 0);
	fixture_deinit(&f);
}

static void test_stop_anywhere(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	if (fixture_open(&f) < 0) {
		fixture_deinit(&f);
		skip();
	}
	session_stop(f.session); /* before the start */
	session_stop(f.session);
	assert_int_equal(f.n_done, 0);
	fixture_await(&f, &f.n_done, 1);
	assert_int_equal(session_state(f.session), SESSION_DONE);
	session_stop(f.session);
	fixture_run_ms(&f, 20);
	assert_int_equal(f.n_done, 1);
	f.session = session_free(f.session);
	fixture_start(&f);
	fixture_run_ms(&f, 20);
	session_stop(f.session);
	session_stop(f.session);
	fixture_await(&f, &f.n_done, 2);
	session_stop(f.session);
	fixture_run_ms(&f, 20);
	assert_int_equal(f.n_done, 2);
	fixture_deinit(&f);
}

static void free_it(void *arg)
{
	struct fixture *f = arg;

	f->session = session_free(f->session);
	f->n_done++;
}

static void test_free_from_callback(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.options.done = free_it;
	fixture_start(&f);
	fixture_run_ms(&f, 20);
	session_stop(f.session);
	fixture_await(&f, &f.n_done, 1);
	assert_null(f.session);
	fixture_start(&f);
	assert_int_equal(session_flush(f.session, free_it, &f), 0);
	assert_int_equal(session_flush(f.session, fixture_flushed, &f), 0);
	fixture_await(&f, &f.n_done, 2);
	fixture_run_ms(&f, 20);
	assert_int_equal(f.n_flushed, 0);
	fixture_start(&f); /* freed while it drains */
	fixture_run_ms(&f, 20);
	session_stop(f.session);
	f.session = session_free(f.session);
	fixture_run_ms(&f, 20);
	assert_int_equal(f.n_done, 2);
	fixture_deinit(&f);
}

/* From packet @from on all definitions that samples of the child refer to are written again. */
static void check_reported(const Pb__Trace *t, size_t from, pid_t child)
{
	bool defaults = false, process = false;
	uint64_t known[65536] = {0};
	size_t n = 0;

	for (size_t i = from; i < t->n_packet; i++) {
		const Pb__TracePacket *p = t->packet[i];

		defaults |= p->trace_packet_defaults && p->sequence_flags == 1;
		for (size_t j = 0; p->process_tree && j < p->process_tree->n_processes; j++)
			process |= p->process_tree->processes[j]->pid == child;
		for (size_t j = 0; p->interned_data && j < p->interned_data->n_callstacks; j++)
			known[p->interned_data->callstacks[j]->iid % 65536] = 1;
		if (!fixture_is_of(p, child))
			continue;
		assert_true(defaults && process);
		if (p->perf_sample->has_callstack_iid)
			assert_int_equal(known[p->perf_sample->callstack_iid % 65536], 1);
		n++;
	}
	assert_true(n > 0);
}

static void test_clear(void **state)
{
	struct fixture f;
	size_t before;

	(void)state;
	fixture_init(&f);
	if (fixture_open(&f) < 0) {
		fixture_deinit(&f);
		skip();
	}
	assert_int_equal(session_clear_incremental_state(f.session), 0); /* nothing to clear */
	assert_int_equal(session_start(f.session), 0);
	fixture_run_ms(&f, 200);
	before = fixture_decode(&f)->n_packet;
	assert_int_equal(session_clear_incremental_state(f.session), 0);
	fixture_run_ms(&f, 200);
	fixture_stop(&f);
	assert_int_equal(session_clear_incremental_state(f.session), 0);
	check_reported(fixture_decode(&f), 0, f.child);
	check_reported(f.trace, before, f.child);
	fixture_deinit(&f);
}

/* On one loop: each has all the child's samples, whatever the others do. */
static void test_side_by_side(void **state)
{
	struct fixture f, g;
	uint64_t end;
	size_t n;

	(void)state;
	fixture_init(&f);
	fixture_start(&f);
	g = f;
	g.session = NULL;
	g.options.done_arg = &g;
	assert_int_equal(sink_memory_new(&g.sink), 0);
	fixture_start(&g);
	fixture_run_ms(&f, 150);
	for (int i = 0; i < 50 && (!f.session->account.whole || !g.session->account.whole); i++)
		fixture_run_ms(&f, 100); /* on a busy machine the child is looked into late */
	fixture_stop(&f);
	f.session = session_free(f.session);
	end = clock_ns(CLOCK_MONOTONIC);
	n = g.session->account.whole;
	for (int i = 0; i < 50 && g.session->account.whole < n + 10; i++)
		fixture_run_ms(&f, 150);
	session_stop(g.session);
	fixture_await(&f, &g.n_done, 1);
	/* while both ran, each had its own; the end of one is not that of the other */
	assert_true(n_before(fixture_decode(&f), 0, f.child, end) > 0);
	n = n_before(fixture_decode(&g), 0, f.child, end);
	assert_true(n > 0);
	assert_true(n_before(g.trace, 0, f.child, UINT64_MAX) > n);
	assert_int_equal(session_error(g.session, NULL), 0);
	(void)session_free(g.session);
	pb__trace__free_unpacked(g.trace, NULL);
	(void)sink_free(g.sink);
	fixture_deinit(&f);
}

static int full(struct sink *sink, const void *data, size_t len)
{
	(void)sink;
	(void)data;
	(void)len;
	return -ENOSPC;
}

/* A sink that takes no more ends the session, by the done callback like any end. */
static void test_full_sink(void **state)
{
	int (*write)(struct sink *, const void *, size_t);
	struct fixture f;
	const char *why;

	(void)state;
	fixture_init(&f);
	fixture_start(&f);
	fixture_run_ms(&f, 50);
	write = f.sink->write;
	f.sink->write = full;
	fixture_await(&f, &f.n_done, 1);
	f.sink->write = write;
	assert_int_equal(session_error(f.session, &why), -ENOSPC);
	assert_string_equal(why, "writing the trace: No space left on device");
	fixture_deinit(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flush),
		cmocka_unit_test(test_flush_in_each_state),
		cmocka_unit_test(test_many_flushes),
		cmocka_unit_test(test_stop_anywhere),
		cmocka_unit_test(test_free_from_callback),
		cmocka_unit_test(test_clear),
		cmocka_unit_test(test_side_by_side),
		cmocka_unit_test(test_full_sink),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
