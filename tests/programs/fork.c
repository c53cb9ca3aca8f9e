/* fork.c - children without an exec, one after the other, each ending during its work
 * after some milliseconds; the parent works meanwhile. main > parent_work > burn | (a child) > main
 * > child_main > child_work > burn */
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

static NOINLINE uint64_t parent_work(uint64_t n)
{
	uint64_t x = burn(n);

	NOT_LAST;
	return x + n;
}

static NOINLINE uint64_t child_work(uint64_t n, double end)
{
	uint64_t x = burn(n);

	if (program_now() > end)
		_exit(0);
	return x + n;
}

static NOINLINE void child_main(double end)
{
	for (;;) {
		child_work(20, end);
		NOT_LAST;
	}
}

int main(int argc, char **argv)
{
	program_start(argc, argv);
	for (int i = 0; program_running(); i++) {
		pid_t pid = fork();

		if (pid < 0)
			return 1;
		if (pid == 0)
			child_main(program_now() + 0.004 + (i % 4) * 0.004);
		while (waitpid(pid, NULL, WNOHANG) == 0)
			parent_work(20);
	}
	return 0;
}
