/* holes.c - a stack with pages that were never touched, in the middle of a frame: a copy of it ends
 * there, and what the copy holds changes all the time.
 *
 * main > with_hole > busy_leaf, and, for a short time, main > without_hole > burn */
#include "program.h"

static NOINLINE uint64_t busy_leaf(uint64_t n)
{
	volatile uint64_t words[64];

	for (uint64_t i = 0; i < n * 1000; i++)
		words[i % 64] = i * n;
	return words[n % 64];
}

static NOINLINE uint64_t with_hole(uint64_t n)
{
	volatile uint8_t bytes[90000];
	uint64_t x;

	bytes[n % 64] = (uint8_t)n;
	x = busy_leaf(n);
	return x + bytes[n % 64];
}

static NOINLINE void without_hole(void)
{
	(void)burn(60);
	NOT_LAST;
}

int main(int argc, char **argv)
{
	program_start(argc, argv);
	for (uint64_t n = 0; program_running(); n++) {
		program_sink += with_hole(100 + n % 7);
		without_hole();
	}
	return 0;
}
