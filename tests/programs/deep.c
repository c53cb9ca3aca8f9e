/* deep.c - a stack of more than 300 KB: no copy that the kernel gives reaches its root, so every
 * stack of deep_leaf is cut. main > deep_call > deep_call > ... (600 in all, over 500 bytes each) >
 * deep_leaf > burn */
#include "program.h"

static NOINLINE uint64_t deep_leaf(void)
{
	uint64_t x = burn(2000);

	NOT_LAST;
	return x + 1;
}

static NOINLINE uint64_t deep_call(int depth)
{
	volatile uint64_t local[64];
	uint64_t x;

	local[depth % 64] = (uint64_t)depth;
	x = depth ? deep_call(depth - 1) : deep_leaf();
	return x + local[depth % 64];
}

int main(int argc, char **argv)
{
	program_start(argc, argv);
	while (program_running())
		deep_call(599);
	return 0;
}
