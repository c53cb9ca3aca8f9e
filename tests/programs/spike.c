/* spike.c - calm for the first argument's seconds, busy for the second's of CPU time (guilty()), and calm again: what
 * `perfwind watch` waits for.  Prints "guilty" as it begins. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(clockid_t clock)
{
	struct timespec t;

	(void)clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static inline __attribute__((always_inline)) void spin(double seconds)
{
	volatile unsigned long sum = 0;

	for (double end = now(CLOCK_PROCESS_CPUTIME_ID) + seconds;
	     now(CLOCK_PROCESS_CPUTIME_ID) < end;)
		for (unsigned i = 0; i < 10000; i++)
			sum += i;
}

__attribute__((noinline)) void calm(double seconds);
void calm(double seconds)
{
	const struct timespec pause = {.tv_nsec = 90000000};

	for (double end = now(CLOCK_MONOTONIC) + seconds; now(CLOCK_MONOTONIC) < end;) {
		spin(0.002);
		(void)nanosleep(&pause, NULL);
	}
}

__attribute__((noinline)) void guilty(double seconds);
void guilty(double seconds)
{
	spin(seconds);
	__asm__ volatile(""); /* no tail call */
}

int main(int argc, char **argv)
{
	double before = argc > 1 ? atof(argv[1]) : 3, busy = argc > 2 ? atof(argv[2]) : 2;

	calm(before);
	puts("guilty");
	(void)fflush(stdout);
	guilty(busy);
	calm(argc > 3 ? atof(argv[3]) : 60);
	return 0;
}
