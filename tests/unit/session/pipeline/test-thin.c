/* test-thin.c - a process with many samples is thinned before the others lose one, and no weight is lost. */
#include "proc/process.h"
#include "session/pipeline/thin.h"
#include "tests/unit/cmocka.h"

enum {
	OTHERS = 50,
	HOG_RATE = 1000,
	RATE = 10,
	WINDOWS = 100,
	REFS = 1 << 20,
	PLENTY = 1 << 20
}; /* samples in a window of 0.1 s */

struct fixture {
	struct thin thin;
	struct process processes[1 + OTHERS]; /* the first one: 10 kHz; the others: 99 Hz or so */
	uint64_t given[1 + OTHERS], kept[1 + OTHERS], weight[1 + OTHERS], settled[1 + OTHERS];
	uint64_t n_settled;
};

static void settle(void *arg, struct process *process, uint64_t weight)
{
	struct fixture *f = arg;

	f->settled[process->serial - 1] += weight;
	f->n_settled++;
}

static void fixture_init(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	thin_init(&f->thin, settle, f);
	for (size_t i = 0; i <= OTHERS; i++) {
		atomic_store(&f->processes[i].refs, REFS);
		f->processes[i].serial = i + 1;
	}
}

static void fixture_deinit(struct fixture *f)
{
	thin_deinit(&f->thin);
	for (size_t i = 0; i <= OTHERS; i++)
		assert_int_equal(atomic_load(&f->processes[i].refs), REFS);
}

static void give(struct fixture *f, size_t i, uint64_t period)
{
	uint64_t weight = period;

	f->given[i] += period;
	if (!thin_keeps(&f->thin, &f->processes[i], PLENTY, &weight))
		return;
	f->kept[i]++;
	f->weight[i] += weight;
}

/* The hog's samples lie between samples of the others. */
static void run_window(struct fixture *f, uint64_t allowed, bool pressed)
{
	thin_next(&f->thin, allowed, pressed);
	for (int n = 0; n < HOG_RATE; n++) {
		give(f, 0, 7);
		for (size_t i = 1; n % (HOG_RATE / RATE) == 0 && i <= OTHERS; i++)
			give(f, i, 100);
	}
}

static uint64_t sum(const uint64_t *values)
{
	uint64_t n = 0;

	for (size_t i = 0; i <= OTHERS; i++)
		n += values[i];
	return n;
}

static uint64_t waiting(const struct fixture *f)
{
	uint64_t n = 0;

	for (size_t i = 0; i <= OTHERS; i++)
		n += f->processes[i].share.weight;
	return n;
}

static void test_all_by_default(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	for (int i = 0; i < 3; i++)
		run_window(&f, UINT64_MAX, false);
	for (size_t i = 0; i <= OTHERS; i++)
		assert_int_equal(f.kept[i], 3 * (i ? RATE : HOG_RATE));
	assert_int_equal(sum(f.weight), sum(f.given));
	fixture_deinit(&f);
}

/* 600 may be kept: the 500 of the others, and 100 of the hog. */
static void test_hog(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	run_window(&f, 600, false); /* counts */
	memset(f.kept, 0, sizeof(f.kept));
	for (int i = 0; i < WINDOWS; i++)
		run_window(&f, 600, false);
	for (size_t i = 1; i <= OTHERS; i++) {
		assert_int_equal(f.kept[i], WINDOWS * RATE);
		assert_int_equal(f.weight[i], f.given[i]);
	}
	assert_in_range(f.kept[0], WINDOWS * 99, WINDOWS * 101);
	assert_int_equal(f.weight[0] + waiting(&f), f.given[0]);
	assert_in_range(f.weight[0], f.given[0] - 7 * 11,
			f.given[0]); /* what one kept sample stands for */
	fixture_deinit(&f);
}

/* Less than one sample for each: all are thinned, and the sum stays right. */
static void test_small_budget(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	for (int i = 0; i < WINDOWS; i++)
		run_window(&f, 20, false);
	assert_in_range(sum(f.kept), WINDOWS * 18 + HOG_RATE,
			WINDOWS * 24 + HOG_RATE + OTHERS * RATE);
	assert_int_equal(sum(f.weight) + waiting(&f), sum(f.given));
	/* the end of a recording: the last samples are kept, and what waits is settled */
	thin_next(&f.thin, UINT64_MAX, false);
	give(&f, 1, 100);
	thin_settle(&f.thin);
	assert_int_equal(sum(f.weight) + sum(f.settled), sum(f.given));
	fixture_deinit(&f);
}

/* A ring fills up: the limit comes without a budget, and goes. */
static void test_pressure(void **state)
{
	uint64_t before;
	struct fixture f;

	(void)state;
	fixture_init(&f);
	for (int i = 0; i < 10; i++)
		run_window(&f, UINT64_MAX, true);
	for (size_t i = 1; i <= OTHERS; i++)
		assert_true(f.kept[i] >= 4 * RATE);
	assert_true(f.kept[0] < 5 * HOG_RATE);
	for (int i = 0; i < 60; i++)
		run_window(&f, UINT64_MAX, false);
	before = f.kept[0];
	run_window(&f, UINT64_MAX, false);
	assert_int_equal(f.kept[0] - before, HOG_RATE);
	assert_int_equal(sum(f.weight) + waiting(&f), sum(f.given));
	fixture_deinit(&f);
}

/* One sample of process @i with @room; nothing comes back.  Was it kept? */
static bool offer(struct fixture *f, size_t i, uint64_t room)
{
	uint64_t weight = 3;

	f->given[i] += 3;
	if (!thin_keeps(&f->thin, &f->processes[i], room, &weight))
		return false;
	thin_sent(&f->processes[i]);
	f->kept[i]++;
	f->weight[i] += weight;
	return true;
}

/* The room behind the reader fills up within a window: the hog gets half of it, the others lose no sample. */
static void test_room(void **state)
{
	enum { ROOM = 256 };
	uint64_t used = 0;
	struct fixture f;

	(void)state;
	fixture_init(&f);
	thin_next(&f.thin, UINT64_MAX, false);
	for (int n = 0; n < 10 * HOG_RATE; n++) {
		used += offer(&f, 0, ROOM - used);
		assert_true(used < ROOM);
		if (n % 1000 == 0)
			for (size_t i = 1; i <= 10; i++) {
				assert_true(offer(&f, i, ROOM - used));
				used++;
			}
	}
	assert_in_range(f.kept[0], ROOM / 4, ROOM / 2 + 1);
	assert_int_equal(sum(f.weight) + waiting(&f), sum(f.given));
	assert_int_equal(sum(f.settled), 0);
	/* The stages have caught up: the next sample of the hog has the weight of those that were left out. */
	while (f.processes[0].share.sent)
		thin_back(&f.processes[0]);
	thin_next(&f.thin, UINT64_MAX, false);
	assert_true(offer(&f, 0, ROOM));
	assert_int_equal(f.processes[0].share.weight, 0);
	assert_int_equal(sum(f.weight), sum(f.given));
	for (int i = 0; i < 3; i++)
		thin_next(&f.thin, UINT64_MAX, false);
	assert_false(f.thin.on);
	assert_int_equal(sum(f.settled), 0);
	fixture_deinit(&f);
}

/* Alone it takes from no other: the queue fills up, and the kernel counts what it loses. */
static void test_room_alone(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	for (uint64_t n = 0; n <= 100; n++) {
		if (n % 10 == 0)
			thin_next(&f.thin, UINT64_MAX, false);
		assert_true(offer(&f, 0, 100 - n));
	}
	thin_back(&f.processes[1]); /* one that was never sent */
	assert_int_equal(f.processes[1].share.sent, 0);
	fixture_deinit(&f);
}

/* Alone it takes from no other. */
static void test_pressure_alone(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	for (int i = 0; i < 10; i++) {
		thin_next(&f.thin, UINT64_MAX, true);
		for (int n = 0; n < HOG_RATE; n++)
			give(&f, 0, 1);
	}
	assert_int_equal(f.kept[0], 10 * HOG_RATE);
	fixture_deinit(&f);
}

/* Is each process's weight in samples of its own? */
static void assert_own(const struct fixture *f)
{
	for (size_t i = 0; i <= OTHERS; i++)
		assert_int_equal(f->weight[i] + f->settled[i] + f->processes[i].share.weight,
				 f->given[i]);
}

/* Processes that have no more samples while another has many: nothing of their weight is in samples of that. */
static void test_quiet(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	run_window(&f, 20, false);
	run_window(&f, 20, false);
	assert_true(f.processes[2].share.weight);
	for (int i = 0; i < THIN_QUIET; i++) {
		thin_next(&f.thin, 20, false);
		for (int n = 0; n < 40; n++)
			give(&f, 1, 100);
		assert_int_equal(sum(f.settled), 0);
		assert_own(&f);
	}
	assert_int_equal(thin_n_active(&f.thin), 1);
	for (int i = 0; i < 2; i++) {
		thin_next(&f.thin, 20, false);
		give(&f, 1, 100);
	}
	for (size_t i = 0; i <= OTHERS; i++)
		if (i != 1)
			assert_int_equal(f.weight[i] + f.settled[i], f.given[i]);
	assert_int_equal(f.settled[1], 0);
	assert_own(&f);
	fixture_deinit(&f);
}

/* Nothing is left out any more: the next sample of each process has its weight, and no sample that of another. */
static void test_off(void **state)
{
	struct fixture f;
	uint64_t before;

	(void)state;
	fixture_init(&f);
	run_window(&f, 20, false);
	run_window(&f, 20, false);
	before = f.weight[3];
	thin_next(&f.thin, UINT64_MAX, false);
	give(&f, 3, 100);
	assert_int_equal(f.weight[3] - before, f.given[3] - before);
	assert_own(&f);
	give(&f, 3, 100);
	thin_settle(&f.thin);
	assert_int_equal(waiting(&f), 0);
	assert_int_equal(f.settled[3], 0);
	assert_true(f.settled[2]);
	assert_own(&f);
	for (int i = 0; i < 2; i++)
		thin_next(&f.thin, UINT64_MAX, false);
	assert_false(f.thin.on);
	fixture_deinit(&f);
}

/* A sample in the stages behind may get a stack, which shows the weight: it waits for that. */
static void test_sent(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.given[1] = 1000;
	thin_sent(&f.processes[1]);
	thin_return(&f.thin, &f.processes[1], 1000);
	for (int i = 0; i < 3 * THIN_QUIET; i++)
		thin_next(&f.thin, UINT64_MAX, false);
	assert_int_equal(f.settled[1], 0);
	thin_back(&f.processes[1]);
	thin_next(&f.thin, UINT64_MAX, false);
	assert_int_equal(f.settled[1], 1000);
	assert_own(&f);
	fixture_deinit(&f);
}

/* However many processes share the samples, one has one written for all of its own that were left out. */
static void test_many(void **state)
{
	enum { MANY = 10000, EACH = 10 };
	struct process *more = calloc(MANY, sizeof(*more));
	uint64_t kept = 0, given = 0;
	struct fixture f;

	(void)state;
	assert_non_null(more);
	fixture_init(&f);
	for (size_t n = 0; n < (size_t)EACH * MANY; n++) {
		struct process *process = &more[n % MANY];
		uint64_t weight = 7;

		if (n < MANY)
			*process = (struct process){.refs = 2, .serial = n % OTHERS + 1};
		if (n % (MANY * EACH / 2) == 0)
			thin_next(&f.thin, 1, false);
		given += weight;
		if (thin_keeps(&f.thin, process, PLENTY, &weight))
			kept += weight;
	}
	assert_int_equal(f.n_settled, 0);
	for (int i = 0; i < THIN_QUIET + 2; i++)
		thin_next(&f.thin, 1, false);
	assert_in_range(f.n_settled, 1, MANY);
	assert_int_equal(kept + sum(f.settled), given);
	fixture_deinit(&f);
	for (size_t i = 0; i < MANY; i++)
		assert_int_equal(more[i].refs, 2);
	free(more);
}

/* No sample can come of a process that has ended, or that only this list has: its weight does not wait, but for one behind. */
static void test_gone(void **state)
{
	struct process *evicted = calloc(1, sizeof(*evicted));
	struct fixture f;

	(void)state;
	assert_non_null(evicted);
	fixture_init(&f);
	f.processes[1].exited = f.processes[2].exited = true;
	*evicted = (struct process){.refs = 1, .serial = 5, .given_maps = -1, .given_mem = -1};
	thin_sent(&f.processes[2]);
	for (size_t i = 1; i <= 3; i++)
		thin_return(&f.thin, &f.processes[i], 1000);
	thin_return(&f.thin, evicted, 1000);
	(void)process_unref(evicted);
	thin_next(&f.thin, UINT64_MAX, false);
	assert_int_equal(f.settled[1], 1000);
	assert_int_equal(f.settled[4], 1000);
	assert_int_equal(f.n_settled, 2);
	thin_back(&f.processes[2]);
	thin_next(&f.thin, UINT64_MAX, false);
	assert_int_equal(f.settled[2], 1000);
	assert_int_equal(f.n_settled, 3);
	thin_settle(&f.thin);
	assert_int_equal(f.settled[3], 1000);
	fixture_deinit(&f);
}

/* The queue was full: the same sample comes again, and stands for the same weight. */
static void test_again(void **state)
{
	struct fixture f;
	uint64_t weight, first;

	(void)state;
	fixture_init(&f);
	run_window(&f, 20, false);
	thin_next(&f.thin, 20, false);
	do {
		weight = 7;
		f.given[0] += 7;
	} while (!thin_keeps(&f.thin, &f.processes[0], PLENTY, &weight));
	first = weight;
	for (int i = 0; i < 5; i++) {
		thin_again(&f.thin, &f.processes[0], weight);
		weight = 7;
		assert_true(thin_keeps(&f.thin, &f.processes[0], PLENTY, &weight));
		assert_int_equal(weight, first);
	}
	f.weight[0] += weight;
	assert_int_equal(sum(f.weight) + waiting(&f), sum(f.given));
	fixture_deinit(&f);
}

/* Samples that got no stack, while nothing is left out and while much is: their weight is in the next ones of their process. */
static void test_return(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f);
	f.given[1] = 1000;
	thin_return(&f.thin, &f.processes[1], 1000);
	thin_return(&f.thin, &f.processes[2], 0);
	give(&f, 2, 100);
	assert_int_equal(f.weight[2], 100);
	give(&f, 1, 100);
	assert_int_equal(f.weight[1], 1100);
	run_window(&f, 20, false);
	run_window(&f, 20, false);
	f.given[0] += 1000;
	thin_return(&f.thin, &f.processes[0], 1000);
	assert_own(&f);
	run_window(&f, 20, false);
	f.given[3] += 1000;
	thin_return(&f.thin, &f.processes[3], 1000);
	for (int i = 0; i < THIN_QUIET + 2; i++) {
		thin_next(&f.thin, UINT64_MAX, false);
		give(&f, 4, 5);
	}
	assert_true(f.settled[3] >= 1000);
	assert_int_equal(waiting(&f), 0);
	assert_own(&f);
	fixture_deinit(&f);
}

/* Time that is in no sample goes to the next ones, which weigh twice as much at most; too much is taken off, of each up to half. */
static void test_owed(void **state)
{
	struct fixture f;
	uint64_t weight = 100;

	(void)state;
	fixture_init(&f);
	thin_owe(&f.thin, 250);
	for (size_t i = 1; i <= 4; i++)
		give(&f, i, 100);
	assert_int_equal(f.weight[1], 200);
	assert_int_equal(f.weight[2], 200);
	assert_int_equal(f.weight[3], 150);
	assert_int_equal(f.weight[4], 100);
	thin_owe(&f.thin, -70);
	for (size_t i = 5; i <= 7; i++)
		give(&f, i, 100);
	assert_int_equal(f.weight[5], 50);
	assert_int_equal(f.weight[6], 80);
	assert_int_equal(f.weight[7], 100);
	assert_int_equal(f.thin.sampled, sum(f.given));
	/* One that comes again is counted once. */
	assert_true(thin_keeps(&f.thin, &f.processes[0], PLENTY, &weight));
	thin_again(&f.thin, &f.processes[0], weight);
	assert_int_equal(f.thin.sampled, sum(f.given));
	/* ... with the same part of what is owed. */
	thin_owe(&f.thin, -30);
	weight = 100;
	assert_true(thin_keeps(&f.thin, &f.processes[0], PLENTY, &weight));
	thin_again(&f.thin, &f.processes[0], weight);
	assert_int_equal(f.thin.owed, -30);
	assert_int_equal(waiting(&f), 0);
	fixture_deinit(&f);
}

static void test_afford(void **state)
{
	(void)state;
	assert_int_equal(thin_afford(10, 5, 1000), 2000);
	assert_int_equal(thin_afford(10, 20, 1000), 500);
	assert_int_equal(thin_afford(10, 1000, 1000), 250); /* a quarter */
	assert_int_equal(thin_afford(0, 1000, 1000), 250);
	assert_int_equal(thin_afford(1000, 1, 1000), 4010); /* four times */
	assert_int_equal(thin_afford(1000, 0, 0), 10);	    /* out of nothing */
	assert_int_equal(thin_afford(1000, 300, 0), 0);
	assert_int_equal(thin_afford(1000, 200, 1), 14);
	assert_int_equal(thin_afford(1000, 500, 100), 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_by_default),
		cmocka_unit_test(test_hog),
		cmocka_unit_test(test_small_budget),
		cmocka_unit_test(test_pressure),
		cmocka_unit_test(test_pressure_alone),
		cmocka_unit_test(test_quiet),
		cmocka_unit_test(test_again),
		cmocka_unit_test(test_afford),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_room_alone),
		cmocka_unit_test(test_owed),
		cmocka_unit_test(test_return),
		cmocka_unit_test(test_off),
		cmocka_unit_test(test_sent),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_gone),
	};

	return cmocka_run_group_tests_name("thin", tests, NULL, NULL);
}
