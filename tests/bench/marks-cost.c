/* marks-cost.c - what a mark costs, and one of a category that is off: part_marks.py.
 *
 *	perfwind record --marks --mark-categories 1 -- marks-cost THREADS MARKS
 *
 * prints both, in ns of the threads' CPU time. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "libmarks/perfwind-marks.h"

static long marks;
static unsigned long category;

static double cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *work(void *arg)
{
	double *result = arg, begin;

	perfwind_instant(category, "first");
	begin = cpu_ns();
	for (long i = 0; i < marks; i += 2) {
		perfwind_begin(category, "a mark's name");
		perfwind_end(category);
	}
	*result = (cpu_ns() - begin) / (double)marks;
	return NULL;
}

static double run(int n, unsigned long which)
{
	pthread_t threads[64];
	double results[64], sum = 0;

	category = which;
	for (int i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, work, &results[i]))
			exit(1);
	for (int i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		sum += results[i];
	}
	return sum / n;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 8;

	marks = argc > 2 ? atol(argv[2]) : 1000000;
	if (n < 1 || n > 64)
		return 2;
	printf("%.1f ", run(n, PERFWIND_DEFAULT));
	printf("%.2f\n", run(n, PERFWIND_CATEGORY(61)));
	return 0;
}
