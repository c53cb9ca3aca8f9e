/* tsc.c - see tsc.h. */
#include "base/tsc.h"

#include <time.h>

#include "base/util.h"

enum { BASE_NS = 2 * NSEC_PER_MSEC, TRIES = 8 };

#ifdef __x86_64__
#include <cpuid.h>

static bool is_steady(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && d & 1u << 8;
}

static uint64_t counter(void)
{
	return __builtin_ia32_rdtsc();
}
#else
static bool is_steady(void)
{
	return false;
}

static uint64_t counter(void)
{
	return 0;
}
#endif

/* Both clocks at one moment: of some readings the shortest one. */
static struct tsc_point point(void)
{
	uint64_t shortest = UINT64_MAX;
	struct tsc_point p = {0};

	for (int i = 0; i < TRIES; i++) {
		uint64_t before = counter(), ns = clock_ns(CLOCK_MONOTONIC),
			 took = counter() - before;

		if (took < shortest) {
			shortest = took;
			p = (struct tsc_point){before + took / 2, ns};
		}
	}
	return p;
}

bool tsc_clock_begin(struct tsc_clock *c)
{
	if (!is_steady())
		return false;
	c->first = c->last = point();
	return true;
}

void tsc_clock_look(struct tsc_clock *c)
{
	do
		c->last = point();
	while (c->last.ns - c->first.ns < BASE_NS);
}

uint64_t tsc_converted(const struct tsc_conversion *c, uint64_t tsc)
{
	uint64_t shift = c->shift & 63, rest;

	if (c->mask)
		tsc = c->cycles + ((tsc - c->cycles) & c->mask);
	rest = tsc & ((1ull << shift) - 1);
	return c->zero + (tsc >> shift) * c->mult + (rest * c->mult >> shift);
}

uint64_t tsc_clock_ns(const struct tsc_clock *c, uint64_t tsc)
{
	uint64_t cycles = c->last.tsc - c->first.tsc, ago;

	if (!cycles || tsc >= c->last.tsc)
		return c->last.ns;
	ago = (uint64_t)((unsigned __int128)(c->last.tsc - tsc) * (c->last.ns - c->first.ns) /
			 cycles);
	return ago < c->last.ns ? c->last.ns - ago : 0;
}
