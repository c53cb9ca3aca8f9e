/* ping-pong.c - two threads on one CPU that do nothing but pass a byte: each waits, and the other runs.
 *
 *   ping-pong TRIPS   writes its wall and CPU time in ns; 2 waits a trip */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int to[2], back[2];
static long trips;

static void pass(int in, int out)
{
	char c;

	if (read(in, &c, 1) != 1 || write(out, &c, 1) != 1)
		exit(1);
}

static void *pong(void *arg)
{
	for (long i = 0; i < trips; i++)
		pass(to[0], back[1]);
	return arg;
}

static uint64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv)
{
	uint64_t start;
	pthread_t thread;
	cpu_set_t cpus;

	trips = argc > 1 ? atol(argv[1]) : 1000;
	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	if (pipe(to) || pipe(back) || pthread_create(&thread, NULL, pong, NULL) ||
	    write(to[1], "x", 1) != 1)
		return 1;
	start = now(CLOCK_MONOTONIC);
	for (long i = 1; i < trips; i++)
		pass(back[0], to[1]);
	pthread_join(thread, NULL);
	printf("%lu %lu\n", (unsigned long)(now(CLOCK_MONOTONIC) - start),
	       (unsigned long)now(CLOCK_PROCESS_CPUTIME_ID));
	return 0;
}
