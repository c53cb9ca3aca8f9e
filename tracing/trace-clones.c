/* trace-clones.c - see trace-clones.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/child.h"
#include "base/error.h"
#include "tracing/trace-clones.h"

enum { END_MS = 1000 };
static const char child_name[] = "pw-clone";

enum clone_state { FREE, WAITING, DUE, FLUSHING, WRITING };

struct clone {
	enum clone_state state;
	struct trace_clones *all;
	struct trace_clone_trigger trigger;
	uint64_t due; /* CLOCK_MONOTONIC */
	struct loop_source answer;
	pid_t child;
	int file, to; /* of the forked process: its output, and where its result goes */
	char name[PATH_MAX];
};

struct trace_clones {
	struct trace_clone_calls calls;
	struct loop *loop;
	struct loop_timer timer; /* of the next that is due */
	struct clone list[TRACE_CLONES];
};

/* ---- the file ---- */

static void write_file(void *arg)
{
	struct clone *k = arg;
	const struct trace_clone_calls *calls = &k->all->calls;
	struct trace_clone_result result = {0};
	int r = calls->write(calls->arg, &k->trigger, k->file, &result);

	result.error = r < 0 ? r : 0;
	(void)!write(k->to, &result, sizeof(result));
}

static void end(struct clone *k, const struct trace_clone_result *result)
{
	const struct trace_clone_calls *calls = &k->all->calls;

	k->state = FREE;
	calls->written(calls->arg, k->name, result);
}

static int answered(struct loop_source *source, uint32_t events)
{
	struct clone *k = container_of(source, struct clone, answer);
	struct trace_clone_result result;
	int fd = source->fd;
	ssize_t n = read(fd, &result, sizeof(result));

	(void)events;
	/* A process that was killed has no answer. */
	if (n != sizeof(result))
		result = (struct trace_clone_result){.error = n < 0 ? -errno : -EPIPE};
	loop_remove(k->all->loop, source);
	(void)fd_close(fd);
	child_end(k->child, child_name, END_MS);
	end(k, &result);
	return 0;
}

static int start_child(struct clone *k)
{
	struct child child = {.name = child_name,
			      .keep = {k->file, -1},
			      .calls = CHILD_CALLS_OURS,
			      .run = write_file,
			      .arg = k};
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return fail(-errno);
	child.keep[1] = k->to = ends[1];
	r = loop_add(k->all->loop, &k->answer, ends[0], EPOLLIN, answered);
	if (r >= 0) {
		r = child_start(&child, &k->child);
		if (r < 0)
			loop_remove(k->all->loop, &k->answer);
	}
	(void)fd_close(ends[1]);
	if (r < 0)
		(void)fd_close(ends[0]);
	return r < 0 ? trace(r) : 0;
}

static void begin_file(struct clone *k)
{
	const struct trace_clone_calls *calls = &k->all->calls;
	int r;

	k->name[0] = 0;
	k->file = calls->open(calls->arg, k->name, sizeof(k->name));
	r = k->file < 0 ? k->file : start_child(k);
	k->file = fd_close(k->file);
	if (r < 0)
		end(k, &(struct trace_clone_result){.error = r});
	else
		k->state = WRITING;
}

/* ---- when ---- */

static void begin_files(struct trace_clones *c, enum clone_state state)
{
	for (size_t i = 0; i < TRACE_CLONES; i++)
		if (c->list[i].state == state)
			begin_file(&c->list[i]);
}

static bool change(struct trace_clones *c, enum clone_state from, enum clone_state to)
{
	bool any = false;

	for (size_t i = 0; i < TRACE_CLONES; i++) {
		if (c->list[i].state != from)
			continue;
		c->list[i].state = to;
		any = true;
	}
	return any;
}

/* One flush for all that are due. */
static void flush_due(struct trace_clones *c)
{
	int r;

	if (!change(c, DUE, FLUSHING))
		return;
	r = c->calls.flush(c->calls.arg);
	if (r == TRACE_CLONES_BUSY) /* that flush began before */
		(void)change(c, FLUSHING, DUE);
	else if (r < 0)
		begin_files(c, FLUSHING);
}

void trace_clones_flushed(struct trace_clones *c)
{
	if (!c)
		return;
	begin_files(c, FLUSHING);
	flush_due(c);
}

static int set_timer(struct trace_clones *c, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < TRACE_CLONES; i++)
		if (c->list[i].state == WAITING)
			next = min_u64(next, c->list[i].due);
	return loop_timer_set(&c->timer, next == UINT64_MAX ? 0 : max_u64(next, now + 1) - now, 0);
}

static int passed(struct loop_timer *timer)
{
	struct trace_clones *c = container_of(timer, struct trace_clones, timer);
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	for (size_t i = 0; i < TRACE_CLONES; i++)
		if (c->list[i].state == WAITING && c->list[i].due <= now)
			c->list[i].state = DUE;
	flush_due(c);
	return set_timer(c, now);
}

int trace_clones_add(struct trace_clones *c, const struct trace_clone_trigger *trigger,
		     uint32_t delay_ms)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	size_t i = 0;
	int r;

	while (i < TRACE_CLONES && c->list[i].state != FREE)
		i++;
	if (i == TRACE_CLONES)
		return -EBUSY;
	c->list[i].trigger = *trigger;
	c->list[i].due = now + delay_ms * NSEC_PER_MSEC;
	c->list[i].state = WAITING;
	r = set_timer(c, now);
	if (r < 0)
		c->list[i].state = FREE;
	return r < 0 ? trace(r) : 0;
}

void trace_clones_finish(struct trace_clones *c)
{
	if (!c)
		return;
	(void)change(c, WAITING, FLUSHING);
	(void)change(c, DUE, FLUSHING);
	begin_files(c, FLUSHING);
}

size_t trace_clones_pending(const struct trace_clones *c)
{
	size_t n = 0;

	for (size_t i = 0; c && i < TRACE_CLONES; i++)
		n += c->list[i].state != FREE;
	return n;
}

/* ---- the whole ---- */

int trace_clones_new(const struct trace_clone_calls *calls, struct loop *loop,
		     struct trace_clones **ret_clones)
{
	struct trace_clones *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return fail(-ENOMEM);
	c->calls = *calls;
	c->loop = loop;
	c->timer.source.fd = -1;
	for (size_t i = 0; i < TRACE_CLONES; i++) {
		c->list[i].all = c;
		c->list[i].answer.fd = c->list[i].file = -1;
	}
	r = loop_timer_add(loop, &c->timer, 0, 0, passed);
	if (r < 0) {
		free(c);
		return trace(r);
	}
	*ret_clones = c;
	return 0;
}

struct trace_clones *trace_clones_free(struct trace_clones *c)
{
	if (!c)
		return NULL;
	loop_timer_remove(c->loop, &c->timer);
	for (size_t i = 0; i < TRACE_CLONES; i++) {
		struct clone *k = &c->list[i];
		int fd = k->answer.fd;

		if (k->state != WRITING)
			continue;
		loop_remove(c->loop, &k->answer);
		(void)fd_close(fd);
		child_end(k->child, child_name, END_MS);
	}
	free(c);
	return NULL;
}
