/* clone.c - work in a task made by clone() itself, on a stack of its own: its root is clone's
 * undefined return address.
 *
 * clone > clone_main > clone_work > burn */
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "program.h"

static NOINLINE void clone_work(void)
{
	burn(100);
	NOT_LAST;
}

static int clone_main(void *argument)
{
	(void)argument;
	while (program_running())
		clone_work();
	return 0;
}

int main(int argc, char **argv)
{
	static uint8_t stack[65536] __attribute__((aligned(16)));
	pid_t pid;

	program_start(argc, argv);
	pid = clone(clone_main, stack + sizeof(stack), CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD,
		    NULL);
	return pid > 0 && waitpid(pid, NULL, 0) == pid ? 0 : 1;
}
