/* tailcall.c - tail_first jumps to tail_second: it is not on the stack while that works, and no
 * unwinder can show it. main > tail_caller > tail_second > burn   (and short: tail_caller >
 * tail_first) */
#include "program.h"

static NOINLINE uint64_t tail_second(uint64_t x)
{
	uint64_t y = burn(x & 63);

	NOT_LAST;
	return x + y;
}

static NOINLINE uint64_t tail_first(uint64_t x)
{
	return tail_second(x * 3);
}

static NOINLINE uint64_t tail_caller(uint64_t x)
{
	uint64_t y = tail_first(x);

	NOT_LAST;
	return y + 1;
}

int main(int argc, char **argv)
{
	program_start(argc, argv);
	for (uint64_t i = 0; program_running(); i++)
		tail_caller(i);
	return 0;
}
