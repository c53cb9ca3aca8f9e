/* rename.c - a thread that changes its name halfway, next to main, which keeps its own.
 * (thread "early-name", then "late-name") thread_main > early_work > burn, then thread_main >
 * late_work > burn */
#include <pthread.h>

#include "program.h"

static double halfway;

static NOINLINE uint64_t early_work(uint64_t n)
{
	uint64_t x = burn(100 + n);

	NOT_LAST;
	return x + n;
}

static NOINLINE uint64_t late_work(uint64_t n)
{
	uint64_t x = burn(101 + n);

	NOT_LAST;
	return x + n;
}

static NOINLINE void *thread_main(void *arg)
{
	pthread_setname_np(pthread_self(), "early-name");
	while (program_now() < halfway)
		early_work(1);
	pthread_setname_np(pthread_self(), "late-name");
	while (program_running())
		late_work(1);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	program_start(argc, argv);
	halfway = (program_now() + program_deadline) / 2;
	if (pthread_create(&thread, NULL, thread_main, NULL))
		return 1;
	pthread_join(thread, NULL);
	return 0;
}
