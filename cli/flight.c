/* flight.c - see flight.h.
 *
 * A snapshot is a fork: the kernel copies the page tables, and pages only as they are overwritten, so
 * the cut is one moment, whatever the disk does then.  The file is open and all processes of a recording
 * have forked before; the child compresses and writes at its own pace and prints nothing: it sends its
 * result to the parent, which reports it.  A request while a snapshot is written is served by that one. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/flight.h"
#include "cli/signals.h"
#include "base/child.h"
#include "base/error.h"
#include "base/log.h"
#include "profile/profile-text.h"
#include "trace/mark.h"
#include "tracing/trace-buffer.h"

enum {
	SEQUENCE = 1,
	NUMBERS_MAX = 10000, /* of snapshots next to one trace */
	WAIT_MS = 60000,
};
static const char child_name[] = "pw-snapshot";

/* What the child sends. */
struct outcome_of_snapshot {
	int error;
	uint64_t bytes;
	struct sink_count written;
};

struct flight {
	struct sink sink;
	const char *path;
	bool plain, running; /* running: behind the head */
	struct sink *head, *ring;
	struct trace_buffer *buffer;
	struct loop *loop;
	struct loop_source requests, result;
	int (*flush)(void *arg, void (*flushed)(void *), void *flushed_arg);
	void *arg;
	bool flushes; /* a request waits for the samples in flight */
	/* of the snapshot that is written */
	pid_t child;
	int file, answer;
	char name[PATH_MAX];
};

/* ---- in ---- */

static int flight_write(struct sink *sink, const void *data, size_t len)
{
	struct flight *f = container_of(sink, struct flight, sink);
	struct sink *to = f->running ? f->ring : f->head;
	int r;

	if (f->running)
		f->ring->renew = sink->renew;
	r = to->write(to, data, len);
	sink->bytes += len;
	if (f->running)
		sink->renew = f->ring->renew;
	return r < 0 ? trace(r) : 0;
}

static int flight_flush(struct sink *sink)
{
	(void)sink;
	return 0;
}

static void flight_sink_free(struct sink *sink)
{
	(void)sink;
}

void flight_begin(struct flight *f)
{
	f->running = true;
	f->sink.renew = true; /* the definitions behind the head are in the ring too */
}

/* ---- out ---- */

/* Consumes @file, a new one.  Takes what it writes out of the buffer. */
static int write_out(struct flight *f, struct sink *file, struct outcome_of_snapshot *ret)
{
	struct sink_count count;
	const void *head;
	size_t len;
	int r = mark_begin(file, 0, true); /* uncompressed, for readers of the first bytes */

	if (r >= 0 && !f->plain) {
		r = sink_deflate_new(file, &file);
		if (r < 0)
			file = NULL;
	}
	head = sink_memory_data(f->head, &len);
	if (r >= 0)
		r = file->write(file, head, len);
	if (r >= 0)
		r = trace_buffer_read(f->buffer, file, UINT64_MAX);
	if (r >= 0)
		r = file->flush(file);
	if (r >= 0) {
		/* The begin mark is not compressed. */
		count = (struct sink_count){file->written.packets - f->plain,
					    file->written.samples};
		r = mark_end(file, &count, false);
	}
	if (r >= 0)
		r = file->flush(file);
	if (file)
		*ret = (struct outcome_of_snapshot){r, file->bytes, file->written};
	ret->error = r;
	(void)sink_free(file);
	return r < 0 ? trace(r) : 0;
}

int flight_end(struct flight *f)
{
	struct outcome_of_snapshot result = {0};
	struct sink *file;
	int r = sink_file_new(f->path, &file);

	f->running = false;
	if (r >= 0)
		r = write_out(f, file, &result);
	f->sink.bytes = result.bytes;
	f->sink.written = result.written;
	return r < 0 ? trace(r) : 0;
}

/* ---- snapshots ---- */

void flight_snapshot_name(const char *path, unsigned number, char *name, size_t size)
{
	static const char suffix[] = ".pftrace";
	size_t len = strlen(path), end = sizeof(suffix) - 1;

	if (len > end && !strcmp(path + len - end, suffix))
		len -= end;
	(void)snprintf(name, size, "%.*s-%u%s", (int)len, path, number, suffix);
}

/* The file is new: an older snapshot stays. */
static int open_next(struct flight *f)
{
	for (unsigned n = 1; n < NUMBERS_MAX; n++) {
		flight_snapshot_name(f->path, n, f->name, sizeof(f->name));
		f->file = open(f->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (f->file >= 0 || errno != EEXIST)
			return f->file < 0 ? fail(-errno) : 0;
	}
	return fail(-EEXIST);
}

/* In the child.  A short write of the answer is a failure for the parent. */
static void write_snapshot(void *arg)
{
	struct flight *f = arg;
	struct outcome_of_snapshot result = {0};
	struct sink *file;
	int r = sink_fd_new(f->file, &file);

	if (r >= 0)
		r = write_out(f, file, &result);
	result.error = r;
	(void)!write(f->answer, &result, sizeof(result));
}

static void report(const struct flight *f, const struct outcome_of_snapshot *result)
{
	char samples[32];

	if (result->error)
		log_error("snapshot %s: %s", f->name, strerror(-result->error));
	else
		log_info("snapshot: %s samples, %lu KiB: %s",
			 text_count(result->written.samples, samples), result->bytes >> 10,
			 f->name);
}

static int finish(struct loop_source *source, uint32_t events)
{
	struct flight *f = container_of(source, struct flight, result);
	struct outcome_of_snapshot result;
	int fd = source->fd;

	(void)events;
	if (read(fd, &result, sizeof(result)) != sizeof(result))
		result = (struct outcome_of_snapshot){.error = -EIO};
	report(f, &result);
	loop_remove(f->loop, source);
	(void)fd_close(fd);
	child_end(f->child, child_name, 1000); /* it has nothing more to do */
	f->child = 0;
	return 0;
}

static int start_snapshot(struct flight *f)
{
	struct child child = {
		.name = child_name, .calls = CHILD_CALLS_OURS, .run = write_snapshot, .arg = f};
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return fail(-errno);
	f->answer = ends[1];
	child.keep[0] = f->file;
	child.keep[1] = f->answer;
	r = loop_add(f->loop, &f->result, ends[0], EPOLLIN, finish);
	if (r >= 0) {
		r = child_start(&child, &f->child);
		if (r < 0)
			loop_remove(f->loop, &f->result);
	}
	(void)fd_close(ends[1]);
	if (r < 0)
		(void)fd_close(ends[0]);
	return r < 0 ? trace(r) : 0;
}

static void take_snapshot(void *arg)
{
	struct flight *f = arg;
	int r;

	f->flushes = false;
	if (!f->running) /* the end has written the trace */
		return;
	r = open_next(f);
	if (r >= 0) {
		r = start_snapshot(f);
		(void)fd_close(f->file);
		if (r < 0)
			(void)unlink(f->name);
	}
	if (r < 0) /* the recording goes on */
		report(f, &(struct outcome_of_snapshot){.error = r});
}

static int requested(struct loop_source *source, uint32_t events)
{
	struct flight *f = container_of(source, struct flight, requests);
	bool any = false;
	int r;

	(void)events;
	while (signals_next(source))
		any = true;
	if (!any || f->child || f->flushes || !f->running)
		return 0;
	f->flushes = true;
	r = f->flush(f->arg, take_snapshot, f);
	if (r < 0)
		take_snapshot(f); /* without the samples in flight */
	return 0;
}

int flight_watch(struct flight *f, struct loop *loop,
		 int (*flush)(void *arg, void (*flushed)(void *), void *flushed_arg), void *arg)
{
	static const int request[] = {SIGUSR2};

	f->loop = loop;
	f->flush = flush;
	f->arg = arg;
	return signals_watch(loop, &f->requests, request, 1, requested);
}

/* ---- the whole ---- */

int flight_new(const char *path, uint64_t bytes, bool plain, struct flight **ret_flight,
	       struct sink **ret_sink)
{
	const struct trace_buffer_options options = {.size = bytes,
						     .policy = TRACE_BUFFER_RING,
						     .uid = (int32_t)getuid(),
						     .recorder = true};
	struct flight *f = calloc(1, sizeof(*f));
	int r;

	if (!f)
		return fail(-ENOMEM);
	f->sink = (struct sink){
		.write = flight_write, .flush = flight_flush, .free = flight_sink_free};
	f->path = path;
	f->plain = plain;
	f->requests.fd = f->result.fd = -1;
	r = sink_memory_new(&f->head);
	if (r >= 0)
		r = trace_buffer_new(&options, &f->buffer);
	if (r >= 0)
		r = trace_buffer_sink_new(f->buffer, SEQUENCE, &f->ring);
	if (r < 0) {
		(void)flight_free(f);
		return trace(r);
	}
	*ret_flight = f;
	*ret_sink = &f->sink;
	return 0;
}

struct flight *flight_free(struct flight *f)
{
	struct pollfd pfd;

	if (!f)
		return NULL;
	if (f->child) {
		pfd = (struct pollfd){.fd = f->result.fd, .events = POLLIN};
		(void)poll(&pfd, 1, WAIT_MS);
		(void)finish(&f->result, 0);
	}
	if (f->loop)
		signals_unwatch(f->loop, &f->requests);
	(void)sink_free(f->ring);
	(void)trace_buffer_free(f->buffer);
	(void)sink_free(f->head);
	free(f);
	return NULL;
}
