/* test-merge-order.c - the promise of merge.h: the clock first, then the heads, and no record comes
 * too late.
 *
 * merge.c is compiled into this file, so that the head reads can be hooked: between two reads a
 * machine of several CPUs goes on writing, as it does under a reader that is preempted there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "perf/ring.h"
#include "tests/unit/perf/count-malloc.h"

static int hooked_load_head(struct ring *ring);
#define ring_load_head hooked_load_head
#include "perf/merge.c"
#undef ring_load_head
#undef fail /* cmocka has one too */

#include <cmocka.h>

#include "tests/unit/perf/fake-machine.h"

static void (*before_head_read)(void); /* NULL: none */
static bool heads_are_loaded;	       /* merge_begin() loads none itself */

static int hooked_load_head(struct ring *ring)
{
	if (heads_are_loaded)
		return 0;
	if (before_head_read)
		before_head_read();
	return ring_load_head(ring);
}

static void stop(void)
{
	before_head_read = NULL;
	heads_are_loaded = false;
	machine_stop();
}

/* The machine goes on for a while: each step is a record or a burst on some CPU, stamped by the
 * clock.  In a burst the later stamp may stand first, as when a LOST record is written in front of
 * the sample that found room. */
static void machine_run(void)
{
	for (uint64_t steps = fake_random(&machine.random) % 8; steps > 0; steps--) {
		const uint64_t r = fake_random(&machine.random);
		const size_t cpu = r % machine.n, padding = r / 1024 % 20;

		machine.clock += 1 + r / 65536 % 3;
		if (r / 1048576 % 4 == 0 && add_sample(cpu, machine.clock + 1, machine.written, 0))
			machine.written++;
		if (add_sample(cpu, machine.clock, machine.written, padding))
			machine.written++;
		machine.clock += 2;
		fake_ring_publish(&machine.fake[cpu]);
	}
}

/* Takes what a round gives, with some records kept for a while, and gives them back in random
 * order. */
static uint64_t drain(uint64_t *last_time)
{
	static struct merge_item kept[64];
	static size_t n_kept;
	uint64_t taken = 0;
	int r = 0;

	while (r == 0) {
		if (n_kept < ARRAY_SIZE(kept)) {
			r = merge_next(machine.merge, &kept[n_kept]);
			assert_in_range(r, 0, MERGE_DONE);
			if (r == 0 && *last_time != UINT64_MAX) {
				assert_true(kept[n_kept].time >= *last_time);
				*last_time = kept[n_kept].time;
			}
			taken += r == 0;
			n_kept += r == 0;
		}
		while (n_kept > 0 && (n_kept == ARRAY_SIZE(kept) || r == MERGE_DONE)) {
			size_t i = fake_random(&machine.random) % n_kept;

			merge_put(machine.merge, kept[i].ring, kept[i].position);
			kept[i] = kept[--n_kept];
		}
	}
	return taken;
}

enum { ROUNDS = 5000 };

/* The promise of merge.h: the clock first, then the heads, whatever happens between two head reads.
 */
static void test_delay_between_heads(void **state)
{
	(void)state;
	for (size_t n_rings = 1; n_rings <= 5; n_rings += 2) {
		uint64_t taken = 0, last_time = 0;

		machine_start(n_rings, 4096);
		before_head_read = machine_run;
		for (int round = 0; round < ROUNDS; round++) {
			machine_run();
			begin();
			taken += drain(&last_time);
		}
		assert_int_equal(merge_violations(machine.merge), 0);
		assert_true(taken > ROUNDS);
		merge_finish(machine.merge);
		before_head_read = NULL;
		begin();
		taken += drain(&last_time);
		assert_int_equal(taken, machine.written); /* each once, none lost */
		assert_int_equal(merge_violations(machine.merge), 0);
		stop();
	}
}

/* The same machine, the heads first and then the clock: the test above can fail. */
static void test_heads_first_is_wrong(void **state)
{
	uint64_t any_time = UINT64_MAX;

	(void)state;
	machine_start(3, 4096);
	before_head_read = machine_run;
	for (int round = 0; round < ROUNDS; round++) {
		machine_run();
		for (size_t i = 0; i < machine.n; i++)
			assert_int_equal(hooked_load_head(machine.ring[i]), 0);
		machine_run();
		heads_are_loaded = true;
		begin(); /* reads the clock only now */
		heads_are_loaded = false;
		drain(&any_time);
	}
	assert_true(merge_violations(machine.merge) > ROUNDS / 10);
	stop();
}

static void test_many_rings(void **state)
{
	uint64_t last_time = 0, taken = 0;

	(void)state;
	machine_start(MAX_RINGS, 512);
	before_head_read = machine_run;
	for (int round = 0; round < 20; round++) {
		begin();
		taken += drain(&last_time);
	}
	machine.clock++;
	before_head_read = NULL;
	begin();
	taken += drain(&last_time);
	assert_int_equal(taken, machine.written);
	assert_true(taken > 20 * MAX_RINGS);
	assert_int_equal(merge_violations(machine.merge), 0);
	stop();
}

#if COUNT_MALLOC
static void test_no_allocation_once_warm(void **state)
{
	uint64_t last_time = 0;
	size_t before = 0;

	(void)state;
	machine_start(4, 16384);
	before_head_read = machine_run;
	for (int round = 0; round < ROUNDS; round++) {
		if (round == ROUNDS / 2)
			before = malloc_count;
		/* Now and then as much as the rings hold. */
		for (int burst = 0; round % 500 == 0 && burst < 1000; burst++)
			machine_run();
		begin();
		drain(&last_time);
	}
	assert_int_equal(malloc_count, before);
	stop();
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_delay_between_heads),
		cmocka_unit_test(test_heads_first_is_wrong),
		cmocka_unit_test(test_many_rings),
#if COUNT_MALLOC
		cmocka_unit_test(test_no_allocation_once_warm),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
