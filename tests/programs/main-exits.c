/* main-exits.c - the main thread ends with pthread_exit(); another goes on.  Its /proc/PID/maps is
 * empty then. (clone, start_thread) > survivor > burn */
#include <pthread.h>

#include "program.h"

static NOINLINE void *survivor(void *arg)
{
	while (program_running())
		burn(100);
	NOT_LAST;
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	program_start(argc, argv);
	if (pthread_create(&thread, NULL, survivor, NULL))
		return 1;
	pthread_exit(NULL);
}
