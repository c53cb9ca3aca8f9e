/* sigframe.c - a signal handler that works, on the stack that it interrupted; sigframe-alt: on a
 * stack of its own. main > interrupted_work > burn | (a signal) > signal_handler > handler_work >
 * burn The second form stands on top of main > interrupted_work [> burn]; with an alternate stack a
 * copy of the handler's stack does not hold those, and unwinding ends below them if it cannot read
 * the process's memory. */
#include <signal.h>
#include <sys/time.h>

#include "program.h"

#ifdef ALTERNATE
#define ON_STACK SA_ONSTACK
#else
#define ON_STACK 0
#endif

static NOINLINE uint64_t handler_work(void)
{
	uint64_t x = burn(1000);

	NOT_LAST;
	return x + 1;
}

static NOINLINE void signal_handler(int number)
{
	handler_work();
	program_sink += (uint64_t)number;
}

static NOINLINE void interrupted_work(void)
{
	while (program_running()) {
		burn(20);
		NOT_LAST;
	}
}

int main(int argc, char **argv)
{
	static char alternate[65536];
	stack_t stack = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
	struct sigaction action = {.sa_handler = signal_handler, .sa_flags = SA_RESTART | ON_STACK};
	struct itimerval timer = {.it_interval.tv_usec = 300, .it_value.tv_usec = 300};

	program_start(argc, argv);
	if (ON_STACK)
		sigaltstack(&stack, NULL);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	interrupted_work();
	return 0;
}
