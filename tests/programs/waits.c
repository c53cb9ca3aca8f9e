/* waits.c - a program with known waits, each in a function of its own, and their true times.
 *
 *   waits [ROUNDS [FILE]]   writes "FUNCTION REASON NS" for each: the time between two readings of the clock around
 *                           the calls
 *
 * sleep 100 ms, futex 50 ms, pipe 30 ms, disk as long as fsync takes, and a loop that is preempted by a twin on its CPU. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

static int word, pipe_fds[2], file_fd;

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pause_ms(long ms)
{
	struct timespec t = {.tv_nsec = ms * 1000000};

	while (nanosleep(&t, &t) < 0 && errno == EINTR)
		;
}

NOINLINE void wait_sleep(void)
{
	pause_ms(100);
	__asm__ volatile("");
}

NOINLINE void wait_futex(void)
{
	const struct timespec t = {.tv_nsec = 50000000};

	syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &t, NULL, 0);
	__asm__ volatile("");
}

NOINLINE void wait_pipe(void)
{
	char c;

	if (read(pipe_fds[0], &c, 1) != 1)
		exit(1);
	__asm__ volatile("");
}

NOINLINE void wait_disk(void)
{
	static char block[1 << 20];

	if (pwrite(file_fd, block, sizeof(block), 0) < 0 || fsync(file_fd) < 0)
		exit(1);
	__asm__ volatile("");
}

/* Its twin takes half of the CPU. */
NOINLINE void spin(uint64_t until)
{
	static volatile uint64_t sink;

	while (now() < until)
		for (int i = 0; i < 1000; i++)
			sink++;
}

static void *writer(void *arg)
{
	int rounds = *(int *)arg;

	for (int i = 0; i < rounds; i++) {
		pause_ms(30);
		if (write(pipe_fds[1], "x", 1) != 1)
			exit(1);
	}
	return NULL;
}

static void timed(const char *name, const char *reason, int rounds, void (*call)(void))
{
	uint64_t start = now();

	for (int i = 0; i < rounds; i++)
		call();
	printf("%s %s %lu\n", name, reason, (unsigned long)(now() - start));
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 5;
	char path[] = "waits.XXXXXX";
	pthread_t thread;
	cpu_set_t cpus;
	uint64_t until;
	pid_t twin;

	if (argc > 2 && !freopen(argv[2], "w", stdout))
		return 1;
	file_fd = mkstemp(path);
	if (file_fd < 0 || unlink(path) < 0 || pipe(pipe_fds) < 0)
		return 1;
	timed("wait_sleep", "sleep", rounds, wait_sleep);
	timed("wait_futex", "lock", rounds, wait_futex);
	if (pthread_create(&thread, NULL, writer, &rounds))
		return 1;
	timed("wait_pipe", "pipe-or-socket", rounds, wait_pipe);
	pthread_join(thread, NULL);
	timed("wait_disk", "disk", rounds, wait_disk);
	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	until = now() + 300000000u;
	twin = fork();
	spin(until);
	if (!twin)
		_exit(0);
	waitpid(twin, NULL, 0);
	return 0;
}
