/* test-reader.c - the entry queue: each slot is released once, whichever side is faster.
 *
 * reader.c is compiled into this file: the tests reach into its queue. */
#include "session/pipeline/reader.c"
#undef fail /* cmocka has one too */
#include "perf/source-parts.h"
#include "tests/unit/cmocka.h"

enum { SLOTS = 4, REFS = 1000 };

struct fixture {
	struct slot_queue entries;
	struct waker unwinder;
	struct reader rd;
	struct process process;
};

static void fixture_init(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	assert_int_equal(slot_queue_init(&f->entries, SLOTS, sizeof(struct entry)), 0);
	assert_int_equal(waker_init(&f->unwinder), 0);
	atomic_store(&f->process.refs, REFS);
	f->rd.c.entries = &f->entries;
	f->rd.c.unwinder = &f->unwinder;
}

static void fixture_deinit(struct fixture *f)
{
	slot_queue_deinit(&f->entries);
	waker_deinit(&f->unwinder);
	free(f->rd.control);
}

/* An entry that holds a reference until its slot is given back. */
static bool push(struct fixture *f)
{
	struct entry *e = entry_push(&f->rd);

	if (e)
		*e = (struct entry){.kind = ENTRY_SPACE, .info.process = process_ref(&f->process)};
	slot_queue_publish(&f->entries);
	return e;
}

static unsigned held(const struct fixture *f)
{
	return atomic_load(&f->process.refs) - REFS;
}

/* The unwinder pops while main pushes on, without a look back in between. */
static void test_popped_while_pushing(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	for (int i = 0; i < SLOTS; i++)
		assert_true(push(&f));
	assert_false(push(&f)); /* full */
	assert_int_equal(held(&f), SLOTS);
	slot_queue_pop(&f.entries, 3);
	for (int i = 0; i < 3; i++)
		assert_true(push(&f));
	assert_int_equal(held(&f), SLOTS);
	assert_false(push(&f));
	slot_queue_pop(&f.entries, SLOTS);
	reader_reclaim(&f.rd);
	assert_int_equal(held(&f), 0);
	assert_true(reader_idle(&f.rd));
	fixture_deinit(&f);
}

/* Control entries that find the queue full go in later, in order, before any sample. */
static void test_control_waits(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	for (int i = 0; i < SLOTS; i++)
		assert_true(push(&f));
	for (uint64_t i = 1; i <= 6; i++)
		assert_int_equal(reader_flush(&f.rd, i, 0), 0);
	slot_queue_pop(&f.entries, SLOTS);
	assert_false(push(&f)); /* nothing overtakes them */
	for (uint64_t i = 1; i <= 6; i += slot_queue_ready(&f.entries)) {
		slot_queue_pop(&f.entries, i == 1 ? 0 : SLOTS);
		reader_reclaim(&f.rd);
		for (uint64_t k = 0; k < slot_queue_ready(&f.entries); k++) {
			const struct entry *e =
				slot_queue_at(&f.entries, slot_queue_consumed(&f.entries) + k);

			assert_int_equal(e->kind, ENTRY_FLUSH);
			assert_int_equal(e->info.count, i + k);
		}
		assert_true(slot_queue_ready(&f.entries) > 0);
	}
	assert_int_equal(held(&f), 0);
	fixture_deinit(&f);
}

/* The records that the watermark of a ring lets wait are used in place. */
static void test_copies_beyond_watermark(void **state)
{
	enum { PAGE = 4096, SIZE = 64 << 10, RECORD = 4 << 10 };
	uint8_t *base = aligned_alloc(PAGE, PAGE + SIZE);
	const struct perf_event_header *record;
	struct perf_event_mmap_page *meta = (void *)base;
	struct ring *ring;
	uint64_t position;

	(void)state;
	assert_non_null(base);
	memset(base, 0, PAGE + SIZE);
	for (size_t at = 0; at < SIZE; at += RECORD)
		((struct perf_event_header *)(base + PAGE + at))->size = RECORD;
	meta->data_head = SIZE;
	assert_int_equal(ring_new(base, PAGE, SIZE, &ring), 0);
	assert_int_equal(ring_load_head(ring), 0);
	for (size_t n = 1; n <= SIZE / RECORD; n++) {
		assert_int_equal(ring_next(ring, &record, &position), 0);
		assert_int_equal(fills_up(ring), n > SIZE / RECORD / 8 * 3);
	}
	(void)ring_free(ring);
	free(base);
}

static bool not_allowed(void *arg, uint32_t pid)
{
	(void)arg;
	(void)pid;
	return false;
}

/* The samples of a process that may not be shown get the reason; samples of the others go on. */
static void test_verdict_is_sent(void **state)
{
	const struct entry *e;
	struct fixture f;

	(void)state;
	fixture_init(&f);
	assert_int_equal(send_space(&f.rd, &f.process, false), 0);
	f.rd.scope.c.allowed = not_allowed;
	assert_int_equal(send_space(&f.rd, &f.process, false), 0);
	assert_int_equal(slot_queue_ready(&f.entries), 2);
	for (uint64_t i = 0; i < 2; i++) {
		e = slot_queue_at(&f.entries, i);
		assert_int_equal(e->kind, ENTRY_SPACE);
		assert_int_equal(e->skip, i ? SKIP_NOT_ALLOWED : SKIP_NONE);
		assert_false(e->undecided);
		assert_ptr_equal(e->info.process, &f.process);
	}
	slot_queue_pop(&f.entries, 2);
	reader_reclaim(&f.rd);
	assert_int_equal(held(&f), 0);
	fixture_deinit(&f);
}

static void test_bytes_in_flight(void **state)
{
	struct process process = {.share.sent = 2};
	const struct sample_info answered = {.process = &process, .stack_len = 100};
	struct reader rd = {.scope.enqueued_bytes = 150};

	(void)state;
	reader_answered(&rd, &answered, SKIP_NONE);
	assert_int_equal(rd.scope.enqueued_bytes, 50);
	assert_int_equal(process.share.sent, 1);
}

/* A sample that gets no stack may stand for many: its weight is in the next one of its process.  With waits it is in no sample. */
static void test_weight_of_skipped(void **state)
{
	static const enum skip_reason back[] = {SKIP_MAPS_TIMEOUT, SKIP_MODULE_TIMEOUT,
						SKIP_PARK_FULL, SKIP_NO_MEMORY};
	static const enum skip_reason kept[] = {SKIP_NONE, SKIP_NOT_IN_SCOPE, SKIP_NOT_ALLOWED};
	struct process process = {.refs = 1, .share.sent = 10};
	const struct sample_info answered = {.process = &process, .weight = 7};
	struct reader rd = {0};
	uint64_t weight = 1;

	(void)state;
	thin_init(&rd.thin, write_owed, &rd);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		reader_answered(&rd, &answered, kept[i]);
	assert_int_equal(process.share.weight, 0);
	for (size_t i = 0; i < ARRAY_SIZE(back); i++)
		reader_answered(&rd, &answered, back[i]);
	assert_int_equal(process.share.weight, 4 * 7);
	assert_true(thin_keeps(&rd.thin, &process, 100, &weight));
	assert_int_equal(weight, 1 + 4 * 7);
	rd.scope.c.waits = (struct waits *)&process;
	reader_answered(&rd, &answered, SKIP_PARK_FULL);
	assert_int_equal(process.share.weight, 0);
	thin_deinit(&rd.thin);
	assert_int_equal(process.refs, 1);
}

/* Weight that is written late is not from before the samples that it stands for, nor from before those of its CPU. */
static void test_time_of_owed(void **state)
{
	struct process process = {.share.time = 500};
	struct cpu_count cpu = {0};
	struct sample_info info;

	(void)state;
	cpu_count_owed(&cpu, &process, 7, &info);
	assert_int_equal(info.time, 500);
	cpu_count_add(&cpu, 1, 600);
	cpu_count_owed(&cpu, &process, 7, &info);
	assert_int_equal(info.time, 601);
	assert_int_equal(info.count, 7 + 1 + 7);
	process.share.time = 0; /* its samples were long ago */
	cpu_count_owed(&cpu, &process, 7, &info);
	assert_int_equal(info.time, 602);
}

/* The next sample of the CPU is behind it, or would have its weight: one that was late, or of a clock that stands still. */
static void test_time_after_owed(void **state)
{
	const uint64_t second = NSEC_PER_SEC;
	struct process process = {.share.time = second};
	const struct perf_ring ring = {0};
	struct record_item item = {.from = &ring};
	struct record_sample s = {.period = 3};
	struct cpu_count cpu = {0};
	struct reader rd = {.counts = {&cpu, 1}, .options.arch = UW_ARCH_HOST};
	const uint64_t times[][2] = {
		{second, second + 1},	  {second, second + 2},	    {second - 1000, second + 3},
		{second + 4, second + 4}, {2 * second, 2 * second}, {second / 2, second / 2},
	};
	struct sample_info info;
	struct entry e;

	(void)state;
	cpu_count_owed(&cpu, &process, 7, &info);
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		s.time = times[i][0];
		fill_entry(&rd, &e, &item, &s, &process);
		assert_int_equal(e.info.time, times[i][1]);
		assert_int_equal(e.info.count, 7 + 3 * (i + 1));
	}
	item.from = NULL; /* what is in a file stays */
	fill_entry(&rd, &e, &item, &s, &process);
	assert_int_equal(e.info.time, second / 2);
}

struct written {
	int n_owed, n_skipped;
	enum skip_reason why;
	uint64_t count;
};

static int take_owed(void *arg, const struct sample_info *info)
{
	struct written *w = arg;

	w->n_owed++;
	w->count = info->count;
	return 0;
}

static int take_skipped(void *arg, const struct sample_info *info, enum skip_reason why)
{
	struct written *w = arg;

	w->n_skipped++;
	w->count = info->count;
	w->why = why;
	return 0;
}

static bool is_wanted(void *arg, uint32_t pid, const char *cmdline, size_t len)
{
	(void)arg;
	(void)pid;
	(void)cmdline;
	(void)len;
	return true;
}

/* Of a process that is not shown, or of which it is not known: counted like its samples, and in the trace where these are. */
static void test_owed_of_others(void **state)
{
	struct process process = {.permit = PERMIT_UNKNOWN};
	struct account account = {0};
	struct perf_source source = {0};
	struct cpu_count cpu = {.count = 100};
	struct written w = {0};
	struct reader rd = {
		.c.source = &source,
		.counts = {&cpu, 1},
		.scope.c = {.owed = take_owed, .arg = &w, .account = &account, .wanted = is_wanted},
		.scope.options.wanted_by_cmdline = true,
	};

	(void)state;
	process.scope = PROCESS_UNDECIDED;
	write_owed(&rd, &process, 7);
	process.scope = PROCESS_LEFT_OUT;
	write_owed(&rd, &process, 7);
	assert_int_equal(account.skipped[SKIP_MAPS_TIMEOUT], 1);
	assert_int_equal(account.skipped[SKIP_NOT_IN_SCOPE], 1);
	assert_int_equal(account.received, 2);
	assert_int_equal(cpu.count, 100);
	rd.scope.c.skipped = take_skipped;
	process.scope = PROCESS_WANTED;
	rd.scope.c.allowed = not_allowed;
	write_owed(&rd, &process, 7);
	assert_int_equal(account.skipped[SKIP_NOT_ALLOWED], 1);
	assert_int_equal(w.n_skipped, 1);
	assert_int_equal(w.why, SKIP_NOT_ALLOWED);
	assert_int_equal(w.count, 107);
	assert_int_equal(w.n_owed, 0);
	rd.scope.c.waits = (struct waits *)&process; /* its time is elsewhere */
	write_owed(&rd, &process, 7);
	assert_int_equal(account.received, 3);
	assert_int_equal(cpu.count, 107);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_popped_while_pushing),
		cmocka_unit_test(test_control_waits),
		cmocka_unit_test(test_copies_beyond_watermark),
		cmocka_unit_test(test_verdict_is_sent),
		cmocka_unit_test(test_bytes_in_flight),
		cmocka_unit_test(test_weight_of_skipped),
		cmocka_unit_test(test_time_of_owed),
		cmocka_unit_test(test_time_after_owed),
		cmocka_unit_test(test_owed_of_others),
	};

	return cmocka_run_group_tests_name("reader", tests, NULL, NULL);
}
