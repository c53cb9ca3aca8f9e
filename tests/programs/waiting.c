/* waiting.c - a program with known waits, each in a function of its own, and their true times.
 *
 *   waiting [ROUNDS [FILE]]   writes "FUNCTION REASON BLOCKED DELAY" for each, in ns; DELAY: the kernel's own figure of the time
 *                           that the thread could run and did not (0: not known); BLOCKED: the rest of the wall time
 *                           without CPU time
 *
 * sleep 100 ms, futex 50 ms, pipe 30 ms, disk as long as a read of 32 MiB takes, of a fast disk of up to 256 MiB (no line where files are
 * in memory), and two processes "twin" that share a CPU. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

enum { READ_LEAST = 32 << 20, READ_MOST = 256 << 20, READ_NS = 20000000, SPIN_MS = 400 };

static int word, pipe_fds[2], file_fd;
static char *block;
static ssize_t read_bytes;

static uint64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The second field of schedstat: ns that the task could run and did not. */
static uint64_t run_delay(const char *task)
{
	unsigned long long ran, delay = 0;
	char path[64];
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%s/schedstat", task);
	f = fopen(path, "r");
	if (f && fscanf(f, "%llu %llu", &ran, &delay) != 2)
		delay = 0;
	if (f)
		fclose(f);
	return delay;
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
	if (pread(file_fd, block, read_bytes, 0) != read_bytes)
		exit(1);
	__asm__ volatile("");
}

/* 0: reads of a file of our own do not come from a disk. */
static int open_file(void)
{
	char path[] = "waits.XXXXXX", again[32];
	struct statfs fs;
	int fd = mkstemp(path);
	uint64_t start;

	block = aligned_alloc(2 << 20, READ_MOST);
	if (fd < 0 || unlink(path) < 0 || !block)
		exit(1);
	if (fstatfs(fd, &fs) < 0 || fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC)
		return 0;
	(void)madvise(
		block, READ_MOST,
		MADV_HUGEPAGE); /* a request with few parts: a read takes hardly any CPU time */
	(void)snprintf(again, sizeof(again), "/proc/self/fd/%d", fd);
	file_fd = open(again, O_RDONLY | O_DIRECT);
	if (file_fd < 0)
		return 0;
	for (read_bytes = READ_LEAST;; read_bytes *= 2) {
		memset(block, 1, read_bytes);
		if (pwrite(fd, block, read_bytes, 0) != read_bytes || fsync(fd) < 0)
			exit(1);
		start = now(CLOCK_MONOTONIC);
		if (pread(file_fd, block, read_bytes, 0) != read_bytes)
			exit(1);
		if (read_bytes == READ_MOST || now(CLOCK_MONOTONIC) - start >= READ_NS)
			return 1;
	}
}

NOINLINE void spin(uint64_t until)
{
	static volatile uint64_t sink;

	while (now(CLOCK_MONOTONIC) < until)
		for (int i = 0; i < 1000; i++)
			sink++;
}

/* Two processes on one CPU: each has half of it at most.  What the kernel counted is read when they have ended, as a process may be
 * preempted while it exits, too. */
static void share_cpu(void)
{
	uint64_t until = now(CLOCK_MONOTONIC) + SPIN_MS * 1000000ull;
	uint64_t *before =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t sum = 0;
	cpu_set_t cpus;
	pid_t pids[2];
	int start[2];

	if (before == MAP_FAILED || pipe(start) < 0)
		exit(1);
	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		pids[i] = fork();
		if (pids[i])
			continue;
		close(start[1]);
		/* ... until the parent has closed its end: from here on it waits. */
		if (read(start[0], start, 1) < 0)
			_exit(1);
		before[i] = run_delay("thread-self");
		prctl(PR_SET_NAME, "twin");
		spin(until);
		_exit(0);
	}
	close(start[1]);
	for (int i = 0; i < 2; i++) {
		char name[16];
		siginfo_t info;

		(void)snprintf(name, sizeof(name), "%d", pids[i]);
		if (waitid(P_PID, (id_t)pids[i], &info, WEXITED | WNOWAIT) < 0)
			exit(1);
		sum += run_delay(name) - before[i];
		waitpid(pids[i], NULL, 0);
	}
	if (sum)
		printf("twin preempted 0 %llu\n", (unsigned long long)sum);
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

struct times {
	uint64_t blocked, delay;
};

/* The three figures at one time: again where the thread was preempted in between. */
static struct times read_times(void)
{
	struct times t;

	do {
		t.delay = run_delay("thread-self");
		t.blocked = now(CLOCK_MONOTONIC) - now(CLOCK_THREAD_CPUTIME_ID) - t.delay;
	} while (run_delay("thread-self") != t.delay);
	return t;
}

static void timed(const char *name, const char *reason, int rounds, void (*call)(void))
{
	struct times start = read_times(), end;

	for (int i = 0; i < rounds; i++)
		call();
	end = read_times();
	printf("%s %s %llu %llu\n", name, reason, (unsigned long long)(end.blocked - start.blocked),
	       (unsigned long long)(end.delay - start.delay));
}

/* A thread "disk": where perfwind cannot sample switches, short waits have the stack of a later one of their thread. */
static void *reader(void *arg)
{
	prctl(PR_SET_NAME, "disk");
	timed("wait_disk", "disk", 2 * *(int *)arg, wait_disk);
	return NULL;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 5;
	pthread_t thread;

	if (argc > 2 && !freopen(argv[2], "w", stdout))
		return 1;
	if (pipe(pipe_fds))
		return 1;
	timed("wait_sleep", "sleep", rounds, wait_sleep);
	timed("wait_futex", "lock", rounds, wait_futex);
	if (pthread_create(&thread, NULL, writer, &rounds))
		return 1;
	timed("wait_pipe", "pipe-or-socket", rounds, wait_pipe);
	pthread_join(thread, NULL);
	if (open_file()) {
		if (pthread_create(&thread, NULL, reader, &rounds))
			return 1;
		pthread_join(thread, NULL);
	}
	share_cpu();
	return 0;
}
