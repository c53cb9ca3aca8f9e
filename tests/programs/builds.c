/* builds.c - five functions that take turns, each with its part of the CPU time; one of another build (builds-slower.c) takes longer.
 *
 *   builds ROUNDS   a fixed amount of work
 *
 * main > (parse, look_up, convert, check, store) */
#include <stdint.h>
#include <stdlib.h>

#ifndef SLOWER
#define SLOWER 0 /* percent */
#endif
#define NOINLINE __attribute__((noinline))

static volatile uint64_t sink;

/* A macro: an inlined function would have the time. */
#define WORK(seed, steps)                           \
	do {                                        \
		uint64_t x = (seed) | 1;            \
		for (int i = 0; i < (steps); i++) { \
			x ^= x << 13;               \
			x ^= x >> 7;                \
			x ^= x << 17;               \
		}                                   \
		sink += x;                          \
	} while (0)

NOINLINE void parse(uint64_t n)
{
	WORK(n, 120000);
}

NOINLINE void look_up(uint64_t n)
{
	WORK(n + 1, 80000);
}

NOINLINE void convert(uint64_t n)
{
	WORK(n + 2, 100000 + 1000 * SLOWER);
}

NOINLINE void check(uint64_t n)
{
	WORK(n + 3, 60000);
}

NOINLINE void store(uint64_t n)
{
	WORK(n + 4, 40000);
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 1000;

	for (long i = 0; i < rounds; i++) {
		parse((uint64_t)i);
		look_up((uint64_t)i);
		convert((uint64_t)i);
		check((uint64_t)i);
		store((uint64_t)i);
	}
	return 0;
}
