/* alloca.c - frames with a size that is known at run time only, and one with a realigned stack (its CFA
 * comes by an expression, or by another register). main > with_alloca > with_vla > with_realigned >
 * burn */
#include <alloca.h>

#include "program.h"

static NOINLINE uint64_t with_realigned(int n)
{
	volatile uint64_t wide[8] __attribute__((aligned(128)));
	char *more = alloca((size_t)n * 16 +
			    1); /* a realigned frame that moves its stack pointer, too */
	uint64_t x;

	memset(more, n, (size_t)n * 16 + 1);
	wide[n & 7] = (uint64_t)more[n];
	x = burn(100);
	return x + wide[n & 7];
}

static NOINLINE uint64_t with_vla(int n)
{
	volatile uint64_t array[n + 1];
	uint64_t x;

	array[n] = (uint64_t)n;
	x = with_realigned(n);
	return x + array[n];
}

static NOINLINE uint64_t with_alloca(int n)
{
	volatile char *bytes = alloca((size_t)n * 40 + 8);
	uint64_t x;

	bytes[n * 40] = (char)n;
	x = with_vla(n);
	return x + (uint64_t)bytes[n * 40];
}

int main(int argc, char **argv)
{
	program_start(argc, argv);
	for (int i = 0; program_running(); i++)
		with_alloca(i % 50);
	return 0;
}
