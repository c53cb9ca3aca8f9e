/* crowd.c - as many threads as its second argument states, which sleep; main works for the first argument's seconds of CPU time.
 * main > crowd_work > burn */
#include <pthread.h>
#include <unistd.h>

#include "program.h"

static NOINLINE void *crowd_sleep(void *arg)
{
	pause();
	return arg;
}

static NOINLINE uint64_t crowd_work(uint64_t n)
{
	uint64_t x = burn(2000 + n);

	NOT_LAST;
	return x + n;
}

static double cpu_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 2, until;
	int threads = argc > 2 ? atoi(argv[2]) : 0;
	pthread_attr_t small;
	pthread_t thread;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 32 << 10);
	for (int i = 0; i < threads; i++)
		if (pthread_create(&thread, &small, crowd_sleep, NULL) != 0)
			return 2;
	printf("ready\n");
	fflush(stdout);
	until = cpu_seconds() + seconds;
	while (cpu_seconds() < until)
		crowd_work(1);
	return 0;
}
