/* recorder.c - see recorder.h.
 *
 * pw-snapshot takes a message with the range of the buffer and a descriptor, writes, and answers with the
 * result.  A file system that does not answer holds up that process only.  It is made again if it
 * ends (a process out of memory, an operator).
 *
 * task_polls keeps a table of all tasks by number, open addressing, at most half full. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/child.h"
#include "base/error.h"
#include "base/fd-message.h"
#include "trace/file-mark.h"
#include "tracing/recorder.h"
#include "tracing/trace-buffer.h"

enum { SLOTS = 2 * TASK_POLLS_TASKS, CGROUP_MAX = 96 };

struct polled {
	struct task_row row;	/* pid 0: a free slot */
	uint32_t process, poll; /* poll: the last one that saw it */
	uint64_t seen;		/* CLOCK_BOOTTIME */
	char cgroup[CGROUP_MAX];
};

struct task_polls {
	struct task_table *table;
	struct sink *to; /* while polling */
	int error;
	uint32_t poll;
	uint64_t now;
	size_t n;
	struct polled slots[SLOTS];
};

static size_t home_of(uint32_t task)
{
	return hash_u64(task) % SLOTS;
}

/* Its slot, or the free one in which it would be. */
static struct polled *find(struct task_polls *p, uint32_t task)
{
	size_t i = home_of(task);

	while (p->slots[i].row.pid && p->slots[i].row.pid != task)
		i = (i + 1) % SLOTS;
	return &p->slots[i];
}

/* Closes the gap, so that a search for a task behind it does not end there. */
static void drop(struct task_polls *p, size_t gap)
{
	for (size_t i = (gap + 1) % SLOTS; p->slots[i].row.pid; i = (i + 1) % SLOTS) {
		size_t home = home_of(p->slots[i].row.pid);

		if ((i - home + SLOTS) % SLOTS < (i - gap + SLOTS) % SLOTS)
			continue;
		p->slots[gap] = p->slots[i];
		gap = i;
	}
	p->slots[gap].row.pid = 0;
	p->n--;
}

static void write_end(struct task_polls *p, struct polled *task)
{
	int r;

	task->row.ended = true;
	task->row.age_ns = max_u64(p->now - task->seen, 1);
	task->row.cgroup = task->cgroup;
	r = p->error < 0 ? 0 : task_row_write(task->process, &task->row, p->to);
	if (r < 0)
		p->error = r;
}

static void keep(struct polled *task, uint32_t process, const struct task_row *row)
{
	task->row = *row;
	task->process = process;
	task->row.cgroup = NULL;
	/* A part of a name would be another name. */
	if (row->cgroup_len > CGROUP_MAX)
		task->row.has &= ~(uint32_t)TASK_CGROUP;
	else if (row->cgroup_len)
		memcpy(task->cgroup, row->cgroup, row->cgroup_len);
}

static void see(void *arg, uint32_t process, const struct task_row *row)
{
	struct task_polls *p = arg;
	struct polled *task = find(p, row->pid);

	if (!task->row.pid) {
		if (p->n == TASK_POLLS_TASKS)
			return;
		p->n++;
	} else if (task->row.start_ticks != row->start_ticks || task->process != process) {
		write_end(p, task); /* the number is another task's now */
	}
	keep(task, process, row);
	task->poll = p->poll;
	task->seen = p->now;
}

int task_polls_poll(struct task_polls *p, uint64_t now, struct sink *to)
{
	int r;

	p->poll++;
	p->now = now;
	p->to = to;
	p->error = 0;
	r = task_table_each(p->table, see, p);
	if (r < 0)
		return trace(r);
	for (size_t i = 0; i < SLOTS;) {
		if (!p->slots[i].row.pid || p->slots[i].poll == p->poll) {
			i++;
			continue;
		}
		write_end(p, &p->slots[i]);
		drop(p, i);
	}
	return p->error < 0 ? trace(p->error) : 0;
}

uint32_t task_polls_wait_ms(uint64_t cpu_ns)
{
	uint64_t ms = cpu_ns * TASK_POLLS_SHARE / NSEC_PER_MSEC;

	return (uint32_t)min_u64(max_u64(ms, TASK_POLLS_MIN_MS), TASK_POLLS_MAX_MS);
}

int task_polls_new(struct task_table *table, struct task_polls **ret_polls)
{
	struct task_polls *p = malloc(sizeof(*p));

	if (!p)
		return fail(-ENOMEM);
	memset(p, 1, sizeof(*p)); /* touches all of it: task_table_new() has the reason */
	p->table = table;
	p->poll = 0;
	p->n = 0;
	for (size_t i = 0; i < SLOTS; i++)
		p->slots[i].row.pid = 0;
	*ret_polls = p;
	return 0;
}

struct task_polls *task_polls_free(struct task_polls *p)
{
	free(p);
	return NULL;
}

enum {
	SEQUENCE = 1,
	WAIT_MS = 60000,
	WARM_PACKET = 1000, /* bytes */
	WARM_BYTES = 512 << 10,
	ANSWER_MAX = TASK_ROW_MAX + 256,
};
static const char child_name[] = "pw-snapshot";
/* /proc/PID/io of other users' processes. */
#define FOR_TASKS (CAPS_BIT(CAP_SYS_PTRACE) | CAPS_BIT(CAP_DAC_READ_SEARCH))

/* What pw-snapshot sends: the result of a snapshot, or a whole packet with a row of a task that has ended. */
struct recorder_answer {
	enum { ANSWER_RESULT, ANSWER_PACKET } kind;
	struct recorder_result result;
	uint8_t packet[ANSWER_MAX];
};

struct recorder {
	struct sink sink;
	struct recorder_options options;
	bool running; /* behind the head */
	bool paused;  /* ends of tasks are left out */
	struct sink *head, *ring;
	struct trace_buffer *buffer;
	struct loop *loop;
	struct loop_source answers;
	pid_t child; /* 0: none */
	/* Of the snapshot in progress. */
	bool sealed;
	uint64_t cut;			/* options.clock */
	uint64_t sealed_at;		/* the buffer's position of the cut */
	uint64_t next_since, next_from; /* of RECORDER_NEXT: a time, and the position of its cut */
	bool gap;
	void (*done)(void *arg, const struct recorder_result *result);
	void *arg;
	/* In pw-snapshot, and in recorder_end(). */
	int requests;
	struct task_table *tasks; /* NULL: not wanted */
	struct task_polls *polls; /* the same */
	struct sink ends;	  /* of the polls: sends packets to the recorder */
	struct recorder_answer answer;
	struct sink *file, *out; /* out: what packets are written to; the file itself if plain */
};

/* ---- in ---- */

static int recorder_take(struct sink *sink, const void *data, size_t len)
{
	struct recorder *c = container_of(sink, struct recorder, sink);
	struct sink *to = c->running ? c->ring : c->head;
	int r;

	if (c->running)
		c->ring->renew = sink->renew;
	r = to->write(to, data, len);
	sink->bytes += len;
	if (c->running) {
		sink->renew = c->ring->renew;
		sink->dropped = c->ring->dropped;
	}
	return r < 0 ? trace(r) : 0;
}

static int recorder_flush(struct sink *sink)
{
	(void)sink;
	return 0;
}

static void recorder_sink_free(struct sink *sink)
{
	(void)sink;
}

/* ---- out ---- */

/* The outputs of this process: @file, which is consumed, and what compresses into it. */
static int make_outputs(struct recorder *c, struct sink *file)
{
	int r = c->options.tasks ? task_table_new("", &c->tasks) : 0;

	if (r < 0) {
		(void)sink_free(file);
		return trace(r);
	}
	c->file = c->out = file;
	if (c->options.plain)
		return 0;
	r = sink_deflate_new(file, &c->out);
	if (r < 0)
		c->file = c->out = NULL;
	return r < 0 ? trace(r) : 0;
}

static int write_out(struct recorder *c, const struct trace_buffer_range *range,
		     struct recorder_result *ret)
{
	struct sink_count count;
	const void *head;
	size_t len;
	int r = file_mark_begin(c->file, 0,
				true); /* uncompressed, for readers of the first bytes */

	head = sink_memory_data(c->head, &len);
	if (r >= 0)
		r = c->out->write(c->out, head, len);
	if (r >= 0)
		r = trace_buffer_read_range(c->buffer, range, c->out);
	if (r >= 0 && c->tasks)
		r = task_table_write(c->tasks, c->out);
	if (r >= 0)
		r = c->out->flush(c->out);
	if (r >= 0) {
		/* The begin mark is not compressed. */
		count = (struct sink_count){c->out->written.packets - c->options.plain,
					    c->out->written.samples};
		r = file_mark_end(c->out, &count, false);
	}
	if (r >= 0)
		r = c->out->flush(c->out);
	*ret = (struct recorder_result){r, c->out->bytes, c->out->written};
	return r < 0 ? trace(r) : 0;
}

static void set_times(struct recorder *c, uint64_t cut, uint64_t last_ns,
		      struct trace_buffer_range *range)
{
	uint64_t most = c->options.max_ns ? c->options.max_ns : UINT64_MAX;

	most = min_u64(most, last_ns ? last_ns : UINT64_MAX);
	range->since = cut - min_u64(most, cut);
	range->until = UINT64_MAX;
	if (last_ns != RECORDER_NEXT)
		return;
	/* Both ends of a range are included. */
	range->since = c->next_since;
	c->next_since = cut + 1;
	c->gap = range->from > c->next_from;
	c->next_from = c->sealed_at;
}

int recorder_end(struct recorder *c, struct sink *file, uint64_t last_ns,
		 struct recorder_result *ret_result)
{
	struct trace_buffer_range range;
	int r;

	c->running = false;
	trace_buffer_range(c->buffer, &range);
	set_times(c, clock_ns(c->options.clock), last_ns, &range);
	r = make_outputs(c, file);
	if (r >= 0)
		r = write_out(c, &range, ret_result);
	else
		*ret_result = (struct recorder_result){.error = r};
	c->out = sink_free(c->out);
	return r < 0 ? trace(r) : 0;
}

/* ---- pw-snapshot ---- */

/* Touches the buffers, and the compressor's memory, by packets that compress as little as stacks do at worst. */
static int warm_up(struct recorder *c)
{
	uint8_t packet[WARM_PACKET + PACK_FIELD_MAX],
		*p = pack_head(packet, TRACE__PACKET, WARM_PACKET);
	size_t len = (size_t)(p - packet) + WARM_PACKET;
	int fd = memfd_create("warm", MFD_CLOEXEC), r = 0;

	if (fd < 0)
		return fail(-errno);
	sink_fd_restart(c->file, fd);
	for (size_t done = 0, seed = 1; done < WARM_BYTES && r >= 0; done += len) {
		for (size_t i = 0; i < WARM_PACKET; i++, seed++)
			p[i] = (uint8_t)hash_u64(seed);
		r = c->out->write(c->out, packet, len);
	}
	if (r >= 0)
		r = c->out->flush(c->out);
	sink_fd_restart(c->file, -1);
	return r < 0 ? trace(r) : 0;
}

static int send_end(struct sink *sink, const void *data, size_t len)
{
	struct recorder *c = container_of(sink, struct recorder, ends);

	if (len > sizeof(c->answer.packet))
		return fail(-EMSGSIZE);
	c->answer.kind = ANSWER_PACKET;
	memcpy(c->answer.packet, data, len);
	len += offsetof(struct recorder_answer, packet);
	return send(c->requests, &c->answer, len, MSG_NOSIGNAL) == (ssize_t)len ? 0 : fail(-errno);
}

static int prepare(struct recorder *c)
{
	struct sink *file;
	int r = sink_fd_new(-1, &file);

	if (r >= 0)
		r = make_outputs(c, file);
	c->ends.write = send_end;
	if (r >= 0 && c->options.polls)
		r = task_polls_new(c->tasks, &c->polls);
	if (r >= 0)
		r = trace_buffer_prepare(c->buffer);
	if (r >= 0)
		r = warm_up(c);
	return r < 0 ? trace(r) : 0;
}

/* Polls tasks until a request has come. */
static void await_request(struct recorder *c)
{
	struct pollfd pfd = {.fd = c->requests, .events = POLLIN};
	int wait_ms = 0;

	while (c->polls && poll(&pfd, 1, wait_ms) == 0) {
		uint64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);

		(void)task_polls_poll(c->polls, clock_ns(CLOCK_BOOTTIME), &c->ends);
		wait_ms = (int)task_polls_wait_ms(clock_ns(CLOCK_THREAD_CPUTIME_ID) - before);
	}
}

static ssize_t next_request(struct recorder *c, struct trace_buffer_range *ret_range,
			    struct fd_message *ret_message)
{
	await_request(c);
	return fd_message_receive(c->requests, ret_range, sizeof(*ret_range), 1, 0, ret_message);
}

/* Runs until the recorder closes its end.  A short answer is a failure for the recorder. */
static void serve(void *arg)
{
	struct recorder *c = arg;
	struct trace_buffer_range range;
	struct fd_message message;

	if (prepare(c) < 0)
		return;
	while (next_request(c, &range, &message) == sizeof(range) && message.n == 1) {
		sink_fd_restart(c->file, message.fds[0]);
		if (c->out != c->file)
			sink_deflate_restart(c->out);
		(void)write_out(c, &range, &c->answer.result);
		sink_fd_restart(c->file,
				-1); /* closes it: the file is whole when the answer arrives */
		c->answer.kind = ANSWER_RESULT;
		(void)send(c->requests, (const uint8_t *)&c->answer,
			   offsetof(struct recorder_answer, packet), MSG_NOSIGNAL);
	}
}

static int start_child(struct recorder *c);

/* Closes our end, which ends an idle pw-snapshot. */
static void end_child(struct recorder *c)
{
	int fd = c->answers.fd;

	if (!c->child)
		return;
	loop_remove(c->loop, &c->answers);
	(void)fd_close(fd);
	child_end(c->child, child_name, 1000);
	c->child = 0;
}

static void finish(struct recorder *c, const struct recorder_result *result)
{
	if (!c->sealed)
		return;
	trace_buffer_unseal(c->buffer);
	c->sealed = false;
	if (c->done)
		c->done(c->arg, result);
}

static int answered(struct loop_source *source, uint32_t events)
{
	struct recorder *c = container_of(source, struct recorder, answers);
	const size_t head = offsetof(struct recorder_answer, packet);
	ssize_t n = read(source->fd, &c->answer, sizeof(c->answer));

	(void)events;
	if (n >= (ssize_t)head && c->answer.kind == ANSWER_PACKET)
		return c->running && !c->paused
			       ? recorder_take(&c->sink, c->answer.packet, (size_t)n - head)
			       : 0;
	if (n != (ssize_t)head) {
		c->answer.result = (struct recorder_result){.error = -EPIPE};
		end_child(c);
		(void)start_child(c); /* without it, the next request fails and tries again */
	}
	finish(c, &c->answer.result);
	return 0;
}

static int start_child(struct recorder *c)
{
	struct child child = {.name = child_name,
			      .rights = c->options.tasks ? FOR_TASKS : 0,
			      .calls = CHILD_CALLS_OURS,
			      .needed = true,
			      .run = serve,
			      .arg = c};
	int ends[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
		return fail(-errno);
	child.keep[0] = c->requests = ends[1];
	child.keep[1] = -1;
	r = loop_add(c->loop, &c->answers, ends[0], EPOLLIN, answered);
	if (r >= 0) {
		r = child_start(&child, &c->child);
		if (r < 0)
			loop_remove(c->loop, &c->answers);
	}
	(void)fd_close(ends[1]);
	if (r < 0)
		(void)fd_close(ends[0]);
	return r < 0 ? trace(r) : 0;
}

/* ---- snapshots ---- */

void recorder_seal(struct recorder *c)
{
	struct trace_buffer_range range;

	trace_buffer_seal(c->buffer);
	c->cut = clock_ns(c->options.clock);
	trace_buffer_range(c->buffer, &range);
	c->sealed_at = range.to;
	c->sealed = true;
	c->done = NULL;
}

bool recorder_had_gap(const struct recorder *c)
{
	return c->gap;
}

void recorder_cancel(struct recorder *c)
{
	trace_buffer_unseal(c->buffer);
	c->sealed = false;
}

int recorder_write(struct recorder *c, int fd, uint64_t last_ns,
		   void (*done)(void *arg, const struct recorder_result *result), void *arg)
{
	struct trace_buffer_range range;
	ssize_t n;
	int r = c->child ? 0 : start_child(c);

	trace_buffer_range(c->buffer, &range);
	set_times(c, c->cut, last_ns, &range);
	range.until = c->cut;
	if (r >= 0) {
		n = fd_message_send(c->answers.fd, &range, sizeof(range), &fd, 1, MSG_DONTWAIT);
		r = n == sizeof(range) ? 0 : fail(n < 0 ? (int)n : -EIO);
	}
	if (r < 0) {
		recorder_cancel(c);
		return trace(r);
	}
	c->done = done;
	c->arg = arg;
	return 0;
}

/* ---- the whole ---- */

void recorder_poll_tasks(struct recorder *c)
{
	c->options.polls = c->options.tasks;
}

void recorder_pause(struct recorder *c, bool paused)
{
	c->paused = paused;
}

int recorder_begin(struct recorder *c, struct loop *loop)
{
	int r;

	c->running = true;
	c->sink.renew = true; /* the definitions behind the head are in the buffer too */
	c->loop = loop;
	r = start_child(c);
	return r < 0 ? trace(r) : 0;
}

int recorder_new(const struct recorder_options *options, struct recorder **ret_recorder,
		 struct sink **ret_sink)
{
	const struct trace_buffer_options buffer = {.size = options->bytes,
						    .policy = TRACE_BUFFER_RING,
						    .uid = (int32_t)getuid(),
						    .recorder = true};
	struct recorder *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return fail(-ENOMEM);
	c->sink = (struct sink){
		.write = recorder_take, .flush = recorder_flush, .free = recorder_sink_free};
	c->options = *options;
	c->answers.fd = c->requests = -1;
	r = sink_memory_new(&c->head);
	if (r >= 0)
		r = trace_buffer_new(&buffer, &c->buffer);
	if (r >= 0)
		r = trace_buffer_sink_new(c->buffer, SEQUENCE, &c->ring);
	if (r < 0) {
		(void)recorder_free(c);
		return trace(r);
	}
	*ret_recorder = c;
	*ret_sink = &c->sink;
	return 0;
}

struct recorder *recorder_free(struct recorder *c)
{
	struct pollfd pfd;

	if (!c)
		return NULL;
	while (c->child && c->sealed && c->done) {
		pfd = (struct pollfd){.fd = c->answers.fd, .events = POLLIN};
		if (poll(&pfd, 1, WAIT_MS) == 1)
			(void)answered(&c->answers, 0);
		else
			finish(c, &(struct recorder_result){.error = -ETIMEDOUT});
	}
	end_child(c);
	(void)sink_free(c->ring);
	(void)trace_buffer_free(c->buffer);
	(void)sink_free(c->head);
	(void)task_polls_free(c->polls);
	(void)task_table_free(c->tasks);
	free(c);
	return NULL;
}
