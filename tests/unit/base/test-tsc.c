/* test-tsc.c - times of the processor's counter: of now and of before, of counters that nothing can have. */
#include <time.h>

#include "base/tsc.h"
#include "base/util.h"
#include "tests/unit/cmocka.h"

/* 3 cycles a ns. */
static void test_rate(void **state)
{
	const struct tsc_clock c = {.first = {3000, 5000}, .last = {303000, 105000}};

	(void)state;
	assert_int_equal(tsc_clock_ns(&c, 303000), 105000);
	assert_int_equal(tsc_clock_ns(&c, 303001), 105000);
	assert_int_equal(tsc_clock_ns(&c, UINT64_MAX), 105000);
	assert_int_equal(tsc_clock_ns(&c, 300000), 104000);
	assert_int_equal(tsc_clock_ns(&c, 3000), 5000);
	assert_int_equal(tsc_clock_ns(&c, 0), 4000);
}

/* A counter of years before, and a clock without a second point. */
static void test_far(void **state)
{
	const struct tsc_clock c = {.first = {UINT64_MAX - 3000000, 5000},
				    .last = {UINT64_MAX - 1, 1005000}};
	const struct tsc_clock none = {.first = {10, 5000}, .last = {10, 5000}};

	(void)state;
	assert_int_equal(tsc_clock_ns(&c, 1), 0);
	assert_int_equal(tsc_clock_ns(&none, 1), 5000);
}

static void test_now(void **state)
{
	uint64_t before, after, tsc, at;
	struct tsc_clock c;

	(void)state;
	if (!tsc_clock_begin(&c))
		skip();
#ifdef __x86_64__
	for (int i = 0; i < 3; i++) {
		before = clock_ns(CLOCK_MONOTONIC);
		tsc = __builtin_ia32_rdtsc();
		after = clock_ns(CLOCK_MONOTONIC);
		tsc_clock_look(&c);
		at = tsc_clock_ns(&c, tsc);
		assert_true(at + 10000 >= before && at <= after + 10000);
		assert_true(clock_ns(CLOCK_MONOTONIC) >= tsc_clock_ns(&c, UINT64_MAX));
	}
#endif
}

/* As perf_event_open(2) states it; the counter is 64 bits wide, or as wide as the mask. */
static void test_converted(void **state)
{
	struct tsc_conversion c = {.shift = 4, .mult = 3, .zero = 100};

	(void)state;
	assert_int_equal(tsc_converted(&c, 0), 100);
	assert_int_equal(tsc_converted(&c, 16), 103);
	assert_int_equal(tsc_converted(&c, 16 + 8), 104); /* 4.5 */
	assert_int_equal(tsc_converted(&c, 1ull << 60), 100 + 3 * (1ull << 56));
	c.cycles = 0xff0;
	c.mask = 0xff;
	assert_int_equal(tsc_converted(&c, 0x00), 100 + 0x1000 / 16 * 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_far),
		cmocka_unit_test(test_now),
		cmocka_unit_test(test_converted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
