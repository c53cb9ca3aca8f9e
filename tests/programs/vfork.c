/* vfork.c - children by vfork() that end at once.  In libc's vfork the return address stands in a
 * register only, and the frame has no byte on the stack. main > vfork_round > (libc's vfork);  main
 * > vfork_round > burn */
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

static NOINLINE void vfork_round(void)
{
	pid_t pid = vfork();

	if (pid == 0)
		_exit(0);
	burn(5);
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
	program_start(argc, argv);
	while (program_running())
		vfork_round();
	return 0;
}
