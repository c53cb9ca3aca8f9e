/* recursion.c - two functions that call each other, 60 deep.
 * main > recurse_even > recurse_odd > recurse_even > ... (60 in all) > burn */
#include "program.h"

NOINLINE uint64_t recurse_even(int depth);
NOINLINE uint64_t recurse_odd(int depth);

uint64_t recurse_even(int depth)
{
	uint64_t x = depth ? recurse_odd(depth - 1) : burn(200);

	NOT_LAST;
	return x + 1;
}

uint64_t recurse_odd(int depth)
{
	volatile uint64_t local[3] = {(uint64_t)depth, 1, 2};
	uint64_t x = depth ? recurse_even(depth - 1) : burn(200);

	return x + local[depth % 3];
}

int main(int argc, char **argv)
{
	program_start(argc, argv);
	while (program_running())
		recurse_even(59);
	return 0;
}
