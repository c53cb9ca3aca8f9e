/* test-flight.c - a flight recorder's files: requests by signal and by a client, files that follow each other, the end. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "cli/flight-protocol.h"
#include "cli/flight.h"
#include "protos/trace.fields.h"
#include "protos/trace.pb-c.h"
#include "protos/wire.h"
#include "tests/unit/cmocka.h"

enum { BYTES = 1 << 20 };

struct fixture {
	char dir[64], path[96];
	struct loop loop;
	struct flight *flight;
	struct sink *in;
	unsigned n_flushes;
	int on; /* of sample_on(); -1: never called */
};

/* The samples in flight are there already. */
static int flush(void *arg, void (*flushed)(void *), void *flushed_arg)
{
	struct fixture *f = arg;

	f->n_flushes++;
	flushed(flushed_arg);
	return 0;
}

static int sample_on(void *arg, bool on)
{
	((struct fixture *)arg)->on = on;
	return 0;
}

static void put(struct fixture *f, uint32_t pid)
{
	uint8_t body[64], sample[32], bytes[100], *p = sample, *to;
	size_t n_sample;

	p = pack_number(p, PERF_SAMPLE__CPU, 1);
	p = pack_number(p, PERF_SAMPLE__PID, pid);
	n_sample = (size_t)(p - sample);
	p = pack_number(body, TRACE_PACKET__TIMESTAMP, clock_ns(CLOCK_MONOTONIC));
	p = pack_bytes(p, TRACE_PACKET__PERF_SAMPLE, sample, n_sample);
	to = pack_bytes(bytes, TRACE__PACKET, body, (size_t)(p - body));
	assert_int_equal(f->in->write(f->in, bytes, (size_t)(to - bytes)), 0);
}

static void start(struct fixture *f, bool armed, bool files)
{
	const struct recorder_options options = {
		.bytes = BYTES, .clock = CLOCK_MONOTONIC, .plain = true};

	*f = (struct fixture){.dir = "/tmp/perfwind-flight.XXXXXX", .on = -1};
	assert_non_null(mkdtemp(f->dir));
	(void)snprintf(f->path, sizeof(f->path), "%s/t.pftrace", f->dir);
	assert_int_equal(loop_init(&f->loop), 0);
	assert_int_equal(
		flight_new(f->path, &options, &(struct flight_collect){0}, &f->flight, &f->in), 0);
	assert_int_equal(flight_watch(f->flight, &f->loop, flush, f), 0);
	if (armed)
		flight_arm(f->flight, sample_on);
	if (files)
		flight_switch(f->flight, 0);
	flight_leave(f->flight); /* nothing is there yet */
	assert_int_equal(access(f->path, F_OK), -1);
	assert_int_equal(flight_begin(f->flight), 0);
}

static void finish(struct fixture *f)
{
	assert_null(flight_free(f->flight));
	loop_deinit(&f->loop);
	(void)unlink(f->path);
	assert_int_equal(rmdir(f->dir), 0);
}

static Pb__Trace *decode(const char *path)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_(freep) char *data = NULL;
	size_t len;

	if (fd < 0 || read_fd(fd, 2 * BYTES, &data, &len) < 0)
		return NULL;
	return pb__trace__unpack(NULL, len, (const uint8_t *)data);
}

/* With the mark of its end. */
static bool is_whole(const char *path)
{
	Pb__Trace *t = decode(path);
	const Pb__TracePacket *last = t && t->n_packet ? t->packet[t->n_packet - 1] : NULL;
	bool whole = last && last->perfwind_stats && last->perfwind_stats->end;

	if (t)
		pb__trace__free_unpacked(t, NULL);
	return whole;
}

/* A sample each for the pids @first to @last is all that the trace has.  Removes the file. */
static void expect(struct fixture *f, const char *name, uint32_t first, uint32_t last)
{
	uint32_t next = first;
	char path[128];
	Pb__Trace *t;

	(void)snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	assert_true(is_whole(path));
	t = decode(path);
	for (size_t i = 0; i < t->n_packet; i++)
		if (t->packet[i]->perf_sample)
			assert_int_equal(t->packet[i]->perf_sample->pid, next++);
	assert_int_equal(next, last + 1);
	assert_int_equal(t->packet[t->n_packet - 1]->perfwind_stats->end->samples,
			 last + 1 - first);
	pb__trace__free_unpacked(t, NULL);
	assert_int_equal(unlink(path), 0);
}

/* SIGUSR2, to this thread: it is blocked until the loop reads it. */
static void request(struct fixture *f, const char *name)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	assert_int_equal(raise(SIGUSR2), 0);
	while (!is_whole(path))
		assert_int_equal(loop_run_once(&f->loop, 100), 0);
}

/* A connection as `perfwind snapshot` makes it, with a request for a file of the recorder's. */
static int ask(uint64_t arm_ns)
{
	struct flight_request ask = {.version = FLIGHT_VERSION,
				     .wants_file = 1,
				     .asked_at = clock_ns(CLOCK_MONOTONIC),
				     .arm_ns = arm_ns};
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int n = snprintf(to.sun_path + 1, sizeof(to.sun_path) - 1, FLIGHT_SOCKET + 1,
			 (unsigned)getpid());
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(
		connect(fd, (struct sockaddr *)&to,
			(socklen_t)offsetof(struct sockaddr_un, sun_path) + 1 + (socklen_t)n),
		0);
	assert_int_equal(send(fd, &ask, sizeof(ask), MSG_NOSIGNAL), sizeof(ask));
	return fd;
}

static struct flight_answer answer_of(struct fixture *f, int fd)
{
	struct flight_answer answer;
	ssize_t n;

	while ((n = recv(fd, &answer, sizeof(answer), MSG_DONTWAIT)) < 0) {
		assert_int_equal(errno, EAGAIN);
		assert_int_equal(loop_run_once(&f->loop, 100), 0);
	}
	assert_int_equal(n, sizeof(answer));
	(void)fd_close(fd);
	return answer;
}

/* Each snapshot has all that is there, and so has the trace at the end. */
static void test_signal(void **state)
{
	struct flight_answer answer;
	struct fixture f;

	(void)state;
	start(&f, false, false);
	put(&f, 1);
	put(&f, 2);
	answer = answer_of(&f, ask(0));
	assert_int_equal(answer.error, 0);
	assert_int_equal(answer.samples, 2);
	assert_false(answer.joined);
	assert_memory_equal(answer.name, f.dir, strlen(f.dir));
	expect(&f, "t-1.pftrace", 1, 2);
	put(&f, 3);
	request(&f, "t-1.pftrace");
	answer = answer_of(&f, ask(NSEC_PER_SEC));
	assert_int_equal(answer.error, -EOPNOTSUPP); /* it is not armed */
	assert_int_equal(f.n_flushes, 2);
	expect(&f, "t-1.pftrace", 1, 3);
	put(&f, 4);
	assert_int_equal(flight_end(f.flight), 0);
	assert_int_equal(f.in->written.samples, 4);
	expect(&f, "t.pftrace", 1, 4);
	finish(&f);
}

/* Files that follow each other have each sample once. */
static void test_files(void **state)
{
	struct fixture f;

	(void)state;
	start(&f, false, true);
	put(&f, 1);
	answer_of(&f, ask(0)); /* of all samples: takes none from the files */
	expect(&f, "t-1.pftrace", 1, 1);
	put(&f, 2);
	request(&f, "t-1.pftrace");
	expect(&f, "t-1.pftrace", 1, 2);
	put(&f, 3);
	flight_leave(f.flight);
	expect(&f, "t.pftrace", 3, 3);
	flight_leave(f.flight); /* all is written */
	assert_int_equal(access(f.path, F_OK), -1);
	finish(&f);
}

/* Sampling for a moment, by request. */
static void test_armed(void **state)
{
	struct flight_answer answer;
	struct fixture f;

	(void)state;
	start(&f, true, false);
	assert_int_equal(f.on, -1);
	answer = answer_of(&f, ask(1000));
	assert_int_equal(answer.error, 0);
	while (f.on != 0) /* off again by itself */
		assert_int_equal(loop_run_once(&f.loop, 100), 0);
	put(&f, 1);
	assert_int_equal(flight_end(f.flight), 0);
	expect(&f, "t.pftrace", 1, 1);
	finish(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_signal),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_armed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
