/* fake-machine.h - a machine for the merge's tests: a clock, and a fake ring per CPU into which the
 * test writes. Include it behind cmocka.h. */
#pragma once

#include "perf/merge.h"
#include "tests/unit/perf/fake-ring.h"

enum { MAX_RINGS = 400 };

/* A machine: a clock, and a ring per CPU into which the test writes. */
static struct {
	struct fake_ring fake[MAX_RINGS];
	struct ring *ring[MAX_RINGS];
	size_t n;
	struct merge *merge;
	uint64_t clock, random, written;
} machine;

static const struct record_layout timed = {.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TIME,
					   .sample_id_all = true};
static const struct record_layout untimed = {.sample_type = PERF_SAMPLE_IP, .sample_id_all = true};

static inline void add_ring(size_t size, const struct record_layout *layout)
{
	uint32_t index = 99;
	size_t i = machine.n++;

	fake_ring_init(&machine.fake[i], size, size - 24);
	assert_int_equal(ring_new(machine.fake[i].base, FAKE_PAGE, size, &machine.ring[i]), 0);
	assert_int_equal(merge_add(machine.merge, machine.ring[i], layout, &index), 0);
	assert_int_equal(index, i);
}

static inline void machine_start(size_t n_rings, size_t size)
{
	memset(&machine, 0, sizeof(machine));
	machine.random = 0x2545f4914f6cdd1d;
	machine.clock = 1000;
	assert_int_equal(merge_new(&machine.merge), 0);
	for (size_t i = 0; i < n_rings; i++)
		add_ring(size, &timed);
}

static inline void machine_stop(void)
{
	machine.merge = merge_free(machine.merge);
	assert_null(machine.merge);
	for (size_t i = 0; i < machine.n; i++) {
		ring_free(machine.ring[i]);
		fake_ring_deinit(&machine.fake[i]);
	}
}

/* A sample with @number as ip; @padding words behind make it longer. */
static inline bool add_sample(size_t ring, uint64_t time, uint64_t number, size_t padding)
{
	static struct fake_record record;

	fake_begin(&record, PERF_RECORD_SAMPLE, 0);
	fake_word(&record, number);
	fake_word(&record, time);
	while (padding-- > 0)
		fake_word(&record, 0);
	return fake_ring_add(&machine.fake[ring], &record);
}

/* COMM with its trailer (a time alone). */
static inline bool add_comm(size_t ring, uint64_t time)
{
	static struct fake_record record;

	fake_begin(&record, PERF_RECORD_COMM, 0);
	fake_pair(&record, 1, 1);
	fake_text(&record, "x");
	fake_word(&record, time);
	return fake_ring_add(&machine.fake[ring], &record);
}

static inline void publish_all(void)
{
	for (size_t i = 0; i < machine.n; i++)
		fake_ring_publish(&machine.fake[i]);
}

static inline void begin(void)
{
	assert_int_equal(merge_begin(machine.merge, machine.clock), 0);
}

static inline uint64_t number_of(const struct merge_item *item)
{
	return ((const uint64_t *)(const void *)item->record)[1];
}

/* The next record must be sample @number of @ring; it is given back. */
static inline void expect_next(uint32_t ring, uint64_t time, uint64_t number)
{
	struct merge_item item;

	assert_int_equal(merge_next(machine.merge, &item), 0);
	assert_int_equal(item.ring, ring);
	assert_int_equal(item.time, time);
	assert_int_equal(item.record->type, PERF_RECORD_SAMPLE);
	assert_int_equal(number_of(&item), number);
	merge_put(machine.merge, item.ring, item.position);
}

static inline void expect_done(void)
{
	struct merge_item item = {.ring = 77};

	assert_int_equal(merge_next(machine.merge, &item), MERGE_DONE);
	assert_int_equal(merge_next(machine.merge, &item), MERGE_DONE);
	assert_int_equal(item.ring, 77);
}

struct fake_sample {
	uint32_t ring;
	uint64_t time, number;
};

static inline void add_samples(const struct fake_sample *samples, size_t n)
{
	for (size_t i = 0; i < n; i++)
		(void)add_sample(samples[i].ring, samples[i].time, samples[i].number, 0);
	publish_all();
}

static inline void expect_samples(const struct fake_sample *samples, size_t n)
{
	for (size_t i = 0; i < n; i++)
		expect_next(samples[i].ring, samples[i].time, samples[i].number);
}

#define FAKE_SAMPLES(...)                          \
	(const struct fake_sample[]){__VA_ARGS__}, \
		sizeof((const struct fake_sample[]){__VA_ARGS__}) / sizeof(struct fake_sample)
/* {ring, time, number}, ...: added to the rings and published; the next ones that must come. */
#define ADD(...) add_samples(FAKE_SAMPLES(__VA_ARGS__))
#define EXPECT(...) expect_samples(FAKE_SAMPLES(__VA_ARGS__))
