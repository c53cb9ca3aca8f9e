/* tsc.h - times of the processor's counter (TSC of x86-64) as CLOCK_MONOTONIC.  Thread: any, one per clock.
 *
 * The rate is measured from the clock's first point to the last one: the error is about 1 us for a time 100 ms before the last point, less
 * the longer the clock is in use. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct tsc_clock {
	struct tsc_point {
		uint64_t tsc, ns;
	} first, last;
};

/* How the times of another clock follow from the counter, as the kernel states it (perf_event_open(2), cap_user_time_zero and
 * cap_user_time_short). */
struct tsc_conversion {
	uint64_t shift, mult, zero;
	uint64_t cycles, mask; /* mask 0: the counter is used as it is */
};

/* The time of @tsc in that clock. */
uint64_t tsc_converted(const struct tsc_conversion *conversion, uint64_t tsc);

/* false: the processor has no counter that always runs at one rate. */
bool tsc_clock_begin(struct tsc_clock *c);
/* The last point is now.  Takes 2 ms where the first point is not older. */
void tsc_clock_look(struct tsc_clock *c);
/* Of a counter up to the last point; of a later one the time of that. */
uint64_t tsc_clock_ns(const struct tsc_clock *c, uint64_t tsc);
