/* marking.c - a program with marks.  WAY:
 *   all      every kind of perfwind-marks.h, and text for trace_marker by each function that can write it
 *   loop     slices "cat0" and "cat1" of two categories until it is killed
 *   fork     a child's marks, also after vfork() and exec
 *   threads  400 threads, 10 at a time, one slice each
 *   signal   marks in a handler that interrupts marks
 *   flood    as many as it can
 *   hostile  writes into its own ring: other threads' numbers, other times, damaged marks, any heads */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "libmarks/marks-ring.h"
#include "libmarks/perfwind-marks.h"
#include "program.h"

#define MARKER "/sys/kernel/tracing/trace_marker"

uint64_t atrace_enabled_tags __attribute__((visibility("default")));

static void work(int ms)
{
	struct timespec t;
	uint64_t end;

	clock_gettime(CLOCK_MONOTONIC, &t);
	end = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec + (uint64_t)ms * 1000000u;
	do
		clock_gettime(CLOCK_MONOTONIC, &t);
	while ((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec < end);
}

static int fail(const char *what)
{
	perror(what);
	return 1;
}

static int text(void)
{
	char line[64];
	int fd = open(MARKER, O_WRONLY | O_CLOEXEC), other, pair[2];
	FILE *file;

	if (fd < 0)
		return fail("open");
	(void)snprintf(line, sizeof(line), "B|%d|by write", getpid());
	if (write(fd, line, strlen(line)) != (ssize_t)strlen(line))
		return fail("write");
	other = dup(fd);
	if (other < 0 || writev(other, (struct iovec[]){{"I|1|by ", 7}, {"writev", 6}}, 2) != 13)
		return fail("writev");
	if (dup2(fd, 100) != 100 || dprintf(100, "C|%d|by dprintf|%d", getpid(), 42) <= 0)
		return fail("dprintf");
	close(100);
	file = fdopen(fcntl(other, F_DUPFD_CLOEXEC, 50), "w");
	if (!file || fprintf(file, "I|1|by fdopen\n") <= 0 || fclose(file))
		return fail("fdopen");
	close(other);
	/* Its number is a pipe's now. */
	if (pipe(pair) || write(pair[1], "I|1|not a mark", 14) != 14 ||
	    read(pair[0], line, 14) != 14 || memcmp(line, "I|1|not a mark", 14))
		return fail("pipe");
	file = fopen("/sys/kernel/debug/tracing/trace_marker", "w");
	if (!file || fileno(file) < 0 || fputs("E|1\nI|1|by fopen\n", file) < 0 || fclose(file))
		return fail("fopen");
	close(fd);
	fd = creat(MARKER, 0600);
	if (fd < 0 || write(fd, "free text", 9) != 9)
		return fail("creat");
	close(fd);
	return open(MARKER, O_RDONLY) >= 0 ||
	       open("/sys/kernel/tracing/no_such_file", O_WRONLY) >= 0;
}

static int all(void)
{
	PERFWIND_SCOPE(PERFWIND_DEFAULT, "outer");

	if (text())
		return 1;
	perfwind_async_begin(PERFWIND_DEFAULT, "request", 7);
	perfwind_begin(PERFWIND_CATEGORY(1), "inner");
	work(20);
	perfwind_counter(PERFWIND_DEFAULT, "queue", -3);
	perfwind_end(PERFWIND_CATEGORY(1));
	perfwind_instant(PERFWIND_DEFAULT, "moment");
	perfwind_async_end(PERFWIND_DEFAULT, "request", 7);
	printf("tags %llx\n", (unsigned long long)atrace_enabled_tags);
	return 0;
}

static int loop(void)
{
	for (int i = 0; i < 1 << 30; i++) {
		PERFWIND_SCOPE(PERFWIND_CATEGORY(0), "cat0");
		PERFWIND_SCOPE(PERFWIND_CATEGORY(1), "cat1");
		work(2);
		usleep(1000);
	}
	return 0;
}

static int forks(char **argv)
{
	pid_t child;

	if (argv[2]) {
		PERFWIND_SCOPE(PERFWIND_DEFAULT, "after exec");
		work(2);
		return 0;
	}
	{
		PERFWIND_SCOPE(PERFWIND_DEFAULT, "before fork");
		child = fork();
		if (!child) {
			PERFWIND_SCOPE(PERFWIND_DEFAULT, "in child");
			work(2);
			_exit(0);
		}
		waitpid(child, NULL, 0);
	}
	child = vfork();
	if (!child) {
		execl(argv[0], argv[0], argv[1], "again", (char *)NULL);
		_exit(1);
	}
	waitpid(child, NULL, 0);
	return 0;
}

static void *thread(void *arg)
{
	(void)arg;
	perfwind_begin(PERFWIND_DEFAULT, "in thread");
	perfwind_end(PERFWIND_DEFAULT);
	return NULL;
}

static int threads(void)
{
	pthread_t t[10];

	for (int round = 0; round < 40; round++) {
		for (int i = 0; i < 10; i++)
			if (pthread_create(&t[i], NULL, thread, NULL))
				return 1;
		for (int i = 0; i < 10; i++)
			pthread_join(t[i], NULL);
	}
	return 0;
}

static volatile sig_atomic_t handled;

static void handler(int sig)
{
	(void)sig;
	perfwind_begin(PERFWIND_DEFAULT, "handler");
	handled++;
	perfwind_end(PERFWIND_DEFAULT);
}

static int signals(void)
{
	const struct itimerval often = {{0, 200}, {0, 200}}, off = {{0, 0}, {0, 0}};

	/* Marks of a handler that interrupts a thread's first mark are counted as lost. */
	perfwind_instant(PERFWIND_DEFAULT, "first");
	(void)sigaction(SIGALRM, &(struct sigaction){.sa_handler = handler, .sa_flags = SA_RESTART},
			NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	while (handled < 100) {
		perfwind_begin(PERFWIND_DEFAULT, "interrupted");
		perfwind_end(PERFWIND_DEFAULT);
		for (volatile int i = 0; i < 50000; i++)
			;
	}
	setitimer(ITIMER_REAL, &off, NULL);
	printf("handled %d\n", (int)handled);
	return 0;
}

static void *flood_thread(void *arg)
{
	for (int i = 0; i < 600000; i++)
		perfwind_instant(PERFWIND_DEFAULT, "flood");
	return arg;
}

static int flood(void)
{
	pthread_t t[2];

	for (int i = 0; i < 2; i++)
		if (pthread_create(&t[i], NULL, flood_thread, NULL))
			return 1;
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	return 0;
}

/* The descriptor of its own ring. */
static int own_ring(void)
{
	char path[64], target[64];

	for (int fd = 0; fd < 1024; fd++) {
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		memset(target, 0, sizeof(target));
		if (readlink(path, target, sizeof(target) - 1) > 0 && strstr(target, MARKS_MEMFD))
			return fd;
	}
	return -1;
}

static int hostile(void)
{
	char *memory;
	struct marks_slot *slots;
	uint64_t seed = 1;

	perfwind_instant(PERFWIND_DEFAULT, "honest");
	memory = mmap(NULL, MARKS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, own_ring(), 0);
	if (memory == MAP_FAILED)
		return fail("mmap");
	slots = (struct marks_slot *)(void *)(memory + MARKS_SLOTS_AT);
	for (int round = 0; round < 200; round++) {
		uint64_t *words =
			(uint64_t *)(void *)(memory + MARKS_DATA_AT + 5 * MARKS_RING_BYTES);
		uint32_t at = (uint32_t)slots[5].head;

		/* A whole mark: of the parent's thread, far in the future. */
		words[(at + 1) % MARKS_RING_WORDS] = UINT64_MAX - 5;
		words[(at + 2) % MARKS_RING_WORDS] =
			(slots[5].head >> 32) << 32 | (uint32_t)getppid();
		words[at % MARKS_RING_WORDS] = at | 5ull << 32 | (uint64_t)MARKS_INSTANT << 48;
		slots[5].head = ((slots[5].head >> 32) + 1) << 32 | (uint32_t)(at + 5);
		for (int i = 0; i < 5000; i++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			memcpy(memory + MARKS_DATA_AT + 6 * MARKS_RING_BYTES +
				       seed % (MARKS_RING_BYTES * 20),
			       &seed, 8);
		}
		slots[6 + round % 20].head += seed >> 40;
		usleep(1000);
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "all";

	return !strcmp(way, "all")	 ? all()
	       : !strcmp(way, "loop")	 ? loop()
	       : !strcmp(way, "fork")	 ? forks(argv)
	       : !strcmp(way, "threads") ? threads()
	       : !strcmp(way, "signal")	 ? signals()
	       : !strcmp(way, "flood")	 ? flood()
	       : !strcmp(way, "hostile") ? hostile()
					 : 2;
}
