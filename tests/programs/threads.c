/* threads.c - four threads named worker-0 .. worker-3, or as many as the second argument states,
 * which work until the end; main waits. (clone, start_thread) > thread_main > thread_work > burn */
#include <pthread.h>

#include "program.h"

enum { MAX_THREADS = 256 };

static NOINLINE uint64_t thread_work(uint64_t n)
{
	uint64_t x = burn(100 + n);

	NOT_LAST;
	return x + n;
}

static NOINLINE void *thread_main(void *arg)
{
	char name[16];

	snprintf(name, sizeof(name), "worker-%d", (int)(intptr_t)arg);
	pthread_setname_np(pthread_self(), name);
	while (program_running())
		thread_work((uint64_t)(intptr_t)arg);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[MAX_THREADS];
	int n = argc > 2 ? atoi(argv[2]) : 4;

	program_start(argc, argv);
	if (n < 1 || n > MAX_THREADS)
		return 2;
	for (intptr_t i = 0; i < n; i++)
		if (pthread_create(&threads[i], NULL, thread_main, (void *)i))
			return 1;
	for (int i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
