/* test-recorder.c - snapshots by the process that is made beforehand: what they hold, that they allocate nothing, and what
 * happens to packets that arrive meanwhile. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "protos/trace.fields.h"
#include "protos/trace.pb-c.h"
#include "tracing/recorder.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/fail-malloc.h"

enum { SIZE = 1 << 20 };

struct fixture {
	struct loop loop;
	struct recorder *recorder;
	struct sink *in;
	struct recorder_result result;
	bool done;
	uint64_t start; /* of the first sample, CLOCK_MONOTONIC */
};

/* A sample with @time and @pid; @defines: with interned data. */
static void put(struct fixture *f, uint64_t time, uint32_t pid, bool defines)
{
	uint8_t body[256], sample[32], bytes[300], *p = sample, *to;
	const uint8_t functions[] = {5 << 3 | WIRE_BYTES, 0}; /* an empty entry */
	size_t n_sample;

	p = pack_number(p, PERF_SAMPLE__CPU, 1);
	p = pack_number(p, PERF_SAMPLE__PID, pid);
	n_sample = (size_t)(p - sample);
	p = pack_number(body, TRACE_PACKET__TIMESTAMP, time);
	if (defines)
		p = pack_bytes(p, TRACE_PACKET__INTERNED_DATA, functions, sizeof(functions));
	p = pack_bytes(p, TRACE_PACKET__PERF_SAMPLE, sample, n_sample);
	to = pack_bytes(bytes, TRACE__PACKET, body, (size_t)(p - body));
	assert_int_equal(f->in->write(f->in, bytes, (size_t)(to - bytes)), 0);
}

static void put_system_info(struct fixture *f)
{
	uint8_t body[16], bytes[32], *p = pack_bytes(body, TRACE_PACKET__SYSTEM_INFO, "", 0), *to;

	to = pack_bytes(bytes, TRACE__PACKET, body, (size_t)(p - body));
	assert_int_equal(f->in->write(f->in, bytes, (size_t)(to - bytes)), 0);
}

static void start(struct fixture *f, uint64_t max_ns)
{
	const struct recorder_options options = {
		.bytes = SIZE, .clock = CLOCK_MONOTONIC, .plain = true, .max_ns = max_ns};

	*f = (struct fixture){.start = clock_ns(CLOCK_MONOTONIC)};
	assert_int_equal(loop_init(&f->loop), 0);
	assert_int_equal(recorder_new(&options, &f->recorder, &f->in), 0);
	put_system_info(f);
	assert_int_equal(recorder_begin(f->recorder, &f->loop), 0);
	assert_true(f->in->renew);
	f->in->renew = false;
}

static void finish(struct fixture *f)
{
	assert_null(recorder_free(f->recorder));
	loop_deinit(&f->loop);
}

static void done(void *arg, const struct recorder_result *result)
{
	struct fixture *f = arg;

	f->result = *result;
	f->done = true;
}

static void await(struct fixture *f)
{
	while (!f->done)
		assert_int_equal(loop_run_once(&f->loop, -1), 0);
	f->done = false;
}

static int memory(void)
{
	int fd = memfd_create("snapshot", MFD_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

/* A new one to memory, decoded. */
static Pb__Trace *decode(int fd)
{
	_cleanup_(freep) char *data = NULL;
	Pb__Trace *t;
	size_t len;

	assert_true(lseek(fd, 0, SEEK_SET) == 0);
	assert_int_equal(read_fd(fd, SIZE * 2, &data, &len), 0);
	t = pb__trace__unpack(NULL, len, (const uint8_t *)data);
	assert_non_null(t);
	return t;
}

static Pb__Trace *snapshot(struct fixture *f, uint64_t last_ns)
{
	_cleanup_(fd_closep) int fd = memory();

	recorder_seal(f->recorder);
	assert_int_equal(recorder_write(f->recorder, fd, last_ns, done, f), 0);
	await(f);
	assert_int_equal(f->result.error, 0);
	return decode(fd);
}

/* The pids of all samples of @t in order are @first to @last; the marks, and the head behind the first, are right. */
static void expect(Pb__Trace *t, uint32_t first, uint32_t last)
{
	const Pb__TracePacket *end = t->packet[t->n_packet - 1];
	uint32_t next = first;

	assert_true(t->n_packet >= 3);
	assert_non_null(t->packet[0]->perfwind_stats->begin);
	assert_true(t->packet[0]->perfwind_stats->begin->latest_only);
	assert_non_null(t->packet[1]->system_info);
	for (size_t i = 2; i + 1 < t->n_packet; i++) {
		const Pb__PerfSample *sample = t->packet[i]->perf_sample;

		if (sample)
			assert_int_equal(sample->pid, next++);
	}
	assert_int_equal(next, last + 1);
	assert_int_equal(end->perfwind_stats->end->samples, last - first + 1);
	assert_int_equal(end->perfwind_stats->end->packets, t->n_packet - 2);
	pb__trace__free_unpacked(t, NULL);
}

static void test_snapshots(void **state)
{
	struct fixture f;

	(void)state;
	start(&f, 0);
	for (uint32_t i = 1; i <= 100; i++)
		put(&f, f.start, i, false);
	expect(snapshot(&f, 0), 1, 100);
	expect(snapshot(&f, 0), 1, 100); /* nothing was taken out */
	for (uint32_t i = 101; i <= 150; i++)
		put(&f, f.start, i, false);
	expect(snapshot(&f, 0), 1, 150);
	finish(&f);
}

/* Samples older than the time are left out, and those after the cut; the entries that they define are not. */
static void test_times(void **state)
{
	size_t defined = 0;
	struct fixture f;
	Pb__Trace *t;

	(void)state;
	start(&f, 0);
	for (uint32_t i = 1; i <= 10; i++)
		put(&f, i, i, i % 2); /* when the machine began */
	for (uint32_t i = 11; i <= 20; i++)
		put(&f, f.start, i, i % 2);
	put(&f, UINT64_MAX, 21, true);
	t = snapshot(&f, f.start / 2);
	for (size_t i = 0; i < t->n_packet; i++)
		defined += t->packet[i]->interned_data != NULL;
	assert_int_equal(defined, 11);
	expect(t, 11, 20);
	expect(snapshot(&f, 0), 1, 20);
	finish(&f);
}

static void test_bound_by_time(void **state)
{
	struct fixture f;

	(void)state;
	start(&f, clock_ns(CLOCK_MONOTONIC) / 2);
	put(&f, 1, 1, true);
	put(&f, f.start, 2, false);
	expect(snapshot(&f, 0), 2, 2);
	expect(snapshot(&f, UINT64_MAX), 2, 2);
	finish(&f);
}

/* Sealed: what is there stays, new packets have an eighth of the room, then they are lost, and announced when there is room
 * again. */
static void test_sealed(void **state)
{
	uint32_t next = 1, sealed;
	size_t marked = 0;
	struct fixture f;
	Pb__Trace *t;
	int fd = memory();

	(void)state;
	start(&f, 0);
	while (f.in->bytes < 2 * SIZE)
		put(&f, f.start, next++, false);
	assert_int_equal(f.in->dropped, 0);
	recorder_seal(f.recorder);
	sealed = next - 1;
	for (uint64_t before = f.in->bytes; f.in->bytes < before + SIZE;) {
		if (!f.in->dropped)
			f.in->renew = false; /* of packets that found room */
		put(&f, f.start, next++, false);
	}
	assert_true(f.in->dropped > 0);
	assert_false(f.in->renew); /* in vain while it is sealed */
	assert_int_equal(recorder_write(f.recorder, fd, 0, done, &f), 0);
	await(&f);
	t = decode(fd);
	(void)close(fd);
	/* All that was sealed is in it, and the first packets behind. */
	assert_true(t->packet[2]->perf_sample->pid < sealed);
	assert_true(t->packet[t->n_packet - 2]->perf_sample->pid > sealed);
	expect(t, t->packet[2]->perf_sample->pid, t->packet[t->n_packet - 2]->perf_sample->pid);
	put(&f, f.start, next++, false);
	assert_true(f.in->renew);
	put(&f, f.start, next++, false);
	t = snapshot(&f, 0);
	assert_int_equal(t->packet[t->n_packet - 2]->perf_sample->pid, next - 1);
	for (size_t i = 0; i < t->n_packet; i++)
		marked += t->packet[i]->has_previous_packet_dropped ? 1 : 0;
	assert_int_equal(marked, 1);
	assert_true(t->packet[t->n_packet - 2]->has_previous_packet_dropped);
	pb__trace__free_unpacked(t, NULL);
	finish(&f);
}

/* Files that go on where the one before ends; one where the buffer was too small. */
static void test_next(void **state)
{
	struct recorder_result result;
	struct fixture f;
	struct sink *file;
	uint32_t next = 1;
	Pb__Trace *t;
	int fd = memory(), copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	(void)state;
	start(&f, 0);
	while (next <= 50)
		put(&f, clock_ns(CLOCK_MONOTONIC), next++, false);
	expect(snapshot(&f, RECORDER_NEXT), 1, 50);
	assert_false(recorder_had_gap(f.recorder));
	while (next <= 80)
		put(&f, clock_ns(CLOCK_MONOTONIC), next++, false);
	expect(snapshot(&f, 0), 1, 80); /* another kind of request */
	expect(snapshot(&f, RECORDER_NEXT), 51, 80);
	assert_false(recorder_had_gap(f.recorder));
	while (f.in->bytes < 3 * SIZE)
		put(&f, clock_ns(CLOCK_MONOTONIC), next++, false);
	t = snapshot(&f, RECORDER_NEXT);
	assert_true(recorder_had_gap(f.recorder));
	assert_int_equal(t->packet[t->n_packet - 2]->perf_sample->pid, next - 1);
	pb__trace__free_unpacked(t, NULL);
	put(&f, clock_ns(CLOCK_MONOTONIC), next, false);
	assert_int_equal(sink_fd_new(fd, &file), 0);
	assert_int_equal(recorder_end(f.recorder, file, RECORDER_NEXT, &result), 0);
	assert_false(recorder_had_gap(f.recorder));
	expect(decode(copy), next, next);
	(void)close(copy);
	finish(&f);
}

static void test_failures(void **state)
{
	_cleanup_(fd_closep) int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	struct fixture f;

	(void)state;
	assert_true(full >= 0);
	start(&f, 0);
	put(&f, f.start, 1, false);
	recorder_seal(f.recorder);
	assert_int_equal(recorder_write(f.recorder, full, 0, done, &f), 0);
	await(&f);
	assert_int_equal(f.result.error, -ENOSPC);
	expect(snapshot(&f, 0), 1, 1); /* the next one is as good as ever */
	recorder_seal(f.recorder);
	assert_int_equal(recorder_write(f.recorder, -1, 0, done, &f), -EBADF);
	recorder_seal(f.recorder);
	recorder_cancel(f.recorder);
	expect(snapshot(&f, 0), 1, 1);
	finish(&f);
}

static void test_end(void **state)
{
	struct recorder_result result;
	struct fixture f;
	struct sink *file;
	int fd = memory(), copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	(void)state;
	start(&f, 0);
	for (uint32_t i = 1; i <= 100; i++)
		put(&f, f.start, i, false);
	assert_int_equal(sink_fd_new(fd, &file), 0);
	assert_int_equal(recorder_end(f.recorder, file, 0, &result), 0);
	assert_int_equal(result.written.samples, 100);
	expect(decode(copy), 1, 100);
	(void)close(copy);
	finish(&f);
}

#if FAIL_MALLOC
/* Two processes for each CPU that spin. */
static pid_t busy_cpus(void)
{
	pid_t leader = fork();

	assert_true(leader >= 0);
	if (leader)
		return leader;
	(void)setpgid(0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (long i = 1; i < 2 * sysconf(_SC_NPROCESSORS_ONLN); i++)
		if (fork() == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			break;
		}
	for (;;)
		;
}

/* The write end of a pipe to a process that takes 4 KiB each millisecond: a slow disk. */
static int slow_file(pid_t *ret_reader)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	char data[4096];
	int fds[2];

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	*ret_reader = fork();
	assert_true(*ret_reader >= 0);
	if (!*ret_reader) {
		(void)close(fds[1]);
		while (read(fds[0], data, sizeof(data)) > 0)
			(void)nanosleep(&pause, NULL);
		_exit(0);
	}
	(void)close(fds[0]);
	return fds[1];
}

/* Neither this process nor pw-snapshot allocates once that has begun, with and without compression, also with all CPUs busy and
 * with a slow disk. */
static void test_no_allocation(void **state)
{
	struct recorder_options options = {.bytes = SIZE, .clock = CLOCK_MONOTONIC};
	_Atomic unsigned long *calls =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned long before = 0;
	struct fixture f;
	int fds[20];
	pid_t spinners, reader;

	(void)state;
	assert_true(calls != MAP_FAILED);
	spinners = busy_cpus();
	malloc_fail(0, false);
	malloc_shared = calls;
	for (int plain = 0; plain < 2; plain++) {
		f = (struct fixture){.start = clock_ns(CLOCK_MONOTONIC)};
		options.plain = plain;
		assert_int_equal(loop_init(&f.loop), 0);
		assert_int_equal(recorder_new(&options, &f.recorder, &f.in), 0);
		put_system_info(&f);
		assert_int_equal(recorder_begin(f.recorder, &f.loop), 0);
		for (uint32_t i = 1; f.in->bytes < 3 * SIZE; i++)
			put(&f, f.start, i, i % 2);
		for (size_t i = 0; i + 1 < ARRAY_SIZE(fds); i++)
			fds[i] = memory();
		fds[ARRAY_SIZE(fds) - 1] = slow_file(&reader);
		for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
			recorder_seal(f.recorder);
			put(&f, f.start, 1, true);
			assert_int_equal(recorder_write(f.recorder, fds[i], 0, done, &f), 0);
			while (!f.done)
				(void)loop_run_once(&f.loop, -1);
			f.done = false;
			if (i == 0)
				before = *calls; /* it has begun, which allocates */
		}
		assert_int_equal(*calls, before);
		assert_true(*calls > malloc_calls); /* calls of pw-snapshot are counted */
		assert_int_equal(f.result.error, 0);
		assert_true(f.result.written.samples > 1000);
		for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
			(void)close(fds[i]);
		finish(&f);
		assert_int_equal(waitpid(reader, NULL, 0), reader);
	}
	malloc_shared = NULL;
	(void)kill(-spinners, SIGKILL);
	assert_int_equal(waitpid(spinners, NULL, 0), spinners);
	(void)munmap((void *)(uintptr_t)calls, 4096);
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_snapshots),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_bound_by_time),
		cmocka_unit_test(test_sealed),
		cmocka_unit_test(test_next),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_end),
#if FAIL_MALLOC
		cmocka_unit_test(test_no_allocation),
#endif
	};

	log_level = LOG_LEVEL_QUIET;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
