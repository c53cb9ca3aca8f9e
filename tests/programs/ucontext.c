/* ucontext.c - two coroutines on stacks of their own, made by makecontext().
 * (libc's start of a context) > coroutine_main > coroutine_work > burn */
#include <ucontext.h>

#include "program.h"

static ucontext_t main_context, contexts[2];

static NOINLINE uint64_t coroutine_work(uint64_t n)
{
	uint64_t x = burn(100 + n);

	NOT_LAST;
	return x + n;
}

static NOINLINE void coroutine_main(int self)
{
	while (program_running()) {
		coroutine_work((uint64_t)self);
		swapcontext(&contexts[self], &contexts[!self]);
	}
}

int main(int argc, char **argv)
{
	static char stacks[2][65536];

	program_start(argc, argv);
	for (int i = 0; i < 2; i++) {
		getcontext(&contexts[i]);
		contexts[i].uc_stack.ss_sp = stacks[i];
		contexts[i].uc_stack.ss_size = sizeof(stacks[i]);
		contexts[i].uc_link = &main_context;
		makecontext(&contexts[i], (void (*)(void))coroutine_main, 1, i);
	}
	swapcontext(&main_context, &contexts[0]);
	return 0;
}
