/* orphan.c - forks a child that works for the given time, and exits itself after half of that.
 * main > child_work > burn */
#include <unistd.h>

#include "program.h"

static NOINLINE void child_work(void)
{
	while (program_running())
		burn(100);
	NOT_LAST;
}

int main(int argc, char **argv)
{
	program_start(argc, argv);
	if (fork() == 0) {
		child_work();
		_exit(0);
	}
	while (program_now() < program_deadline - (argc > 1 ? atof(argv[1]) : 2) / 2)
		burn(100);
	return 0;
}
