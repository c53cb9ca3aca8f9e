/* longjmp.c - a jump out of 20 frames, and functions with a call as last instruction that never
 * returns: the return address is the start of another function. main > jump_round > jump_down > ...
 * (20) > never_returns > burn */
#include <setjmp.h>

#include "program.h"

static jmp_buf back;

static __attribute__((noreturn)) NOINLINE void never_returns(uint64_t n)
{
	burn(100 + n);
	longjmp(back, 1);
}

static __attribute__((noreturn)) NOINLINE void jump_down(int depth)
{
	volatile uint64_t local[2] = {(uint64_t)depth, 1};

	if (!depth)
		never_returns(local[0]);
	jump_down(depth - (int)local[1]);
}

static NOINLINE void jump_round(void)
{
	if (!setjmp(back))
		jump_down(19);
	NOT_LAST;
}

int main(int argc, char **argv)
{
	program_start(argc, argv);
	while (program_running())
		jump_round();
	return 0;
}
