/* program.h - what the test programs share.  Each runs for the seconds of its first argument
 * (default 2) and is made of functions with descriptive names that are never inlined, cloned or called
 * by a jump except where it is written. The head comment of each lists the functions that a profile must show,
 * outermost first. Thread: any. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))
/* After a call: keeps it from being the last thing done, hence from being a jump. */
#define NOT_LAST __asm__ volatile("" ::: "memory")

static double program_deadline;
static volatile uint64_t program_sink;

static inline double program_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static inline void program_start(int argc, char **argv)
{
	program_deadline = program_now() + (argc > 1 ? atof(argv[1]) : 2);
}

static inline bool program_running(void)
{
	return program_now() < program_deadline;
}

/* The innermost work of most programs: some tens of microseconds a call, without a call of its own.
 */
static NOINLINE __attribute__((unused)) uint64_t burn(uint64_t rounds)
{
	uint64_t x = rounds + 1;

	for (uint64_t i = 0; i < rounds * 100; i++)
		x = x * 6364136223846793005ull + 1442695040888963407ull;
	program_sink += x;
	return x;
}
