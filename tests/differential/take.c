/* take.c - samples of a command by perf events, one ring per CPU, all records kept.  See samples.h.
 *
 * The child waits on a pipe until the events are open; they start at its exec.  The rings are big
 * and drained every few milliseconds, so that nothing is lost on a machine that is not overloaded;
 * what is lost is counted. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perf/record.h"
#include "perf/ring.h"
#include "tests/differential/samples.h"

enum { RING_BYTES = 32 << 20, PAGE = 4096, MAX_CPUS = 256 };

struct take_ring {
	struct ring *ring;
	void *base;
	int fd;
};

struct taking {
	const struct samples_options *options;
	struct samples *samples;
	struct record_layout layout;
	struct take_ring rings[MAX_CPUS];
	size_t n_rings;
	uint64_t n_samples;
};

static void taking_deinit(struct taking *t)
{
	for (size_t i = 0; i < t->n_rings; i++) {
		ring_free(t->rings[i].ring);
		if (t->rings[i].base)
			munmap(t->rings[i].base, RING_BYTES + PAGE);
		fd_close(t->rings[i].fd);
	}
}

static int take_open(struct taking *t, pid_t pid, int cpu)
{
	struct take_ring *ring = &t->rings[t->n_rings];
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.freq = 1,
		.sample_freq = t->options->frequency,
		.sample_type = t->layout.sample_type,
		.sample_regs_user = t->layout.regs_mask,
		.sample_stack_user = t->options->stack_bytes,
		.disabled = 1,
		.enable_on_exec = 1,
		.inherit = 1,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.sample_id_all = 1,
		.exclude_kernel = t->options->user_only,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = RING_BYTES / 16,
	};
	void *base;

	*ring = (struct take_ring){
		.fd = perf_event_open(&attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC)};
	if (ring->fd < 0)
		return ring->fd;
	t->n_rings++;
	base = mmap(NULL, RING_BYTES + PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, 0);
	if (base == MAP_FAILED)
		return -errno;
	ring->base = base;
	return ring_new(base, PAGE, RING_BYTES, &ring->ring);
}

static int take_sample(struct taking *t, const struct perf_event_header *record)
{
	struct record_sample sample;
	struct sample_event *e;
	int r = record_parse_sample(&t->layout, record, &sample);

	if (r < 0)
		return r;
	if (t->n_samples >= t->options->max_samples || !sample.pid)
		return 0;
	e = samples_area_add(t->samples->area, sample.stack_len);
	if (!e)
		return 0;
	t->n_samples++;
	e->type = SAMPLE_STACK;
	e->flags = (uint16_t)((sample.stack_len && sample.stack_len == sample.stack_room) |
			      (sample.cpu_mode == PERF_RECORD_MISC_KERNEL) << 1);
	e->pid = sample.pid;
	e->tid = sample.tid;
	e->time = sample.time;
	e->stack.len = sample.stack_len;
	e->stack.n_regs = sample.regs_abi == PERF_SAMPLE_REGS_ABI_64 ? UW_X86_COUNT : 0;
	if (e->stack.n_regs)
		memcpy(e->stack.regs, sample.regs, sizeof(e->stack.regs));
	if (sample.stack_len)
		memcpy(e->data, sample.stack, sample.stack_len);
	return 0;
}

/* When another profiler asks for build ids, the kernel sets the misc bit for them in the one header
 * that it uses for all events, also for ours, with the body { major minor, inode, generation }
 * (seen on 6.18, kernel/events/core.c, perf_event_mmap_output()). */
static const struct perf_event_header *without_build_id(const struct perf_event_header *record,
							uint64_t *copy, size_t size)
{
	if (record->type != PERF_RECORD_MMAP2 || !(record->misc & PERFWIND_MISC_MMAP_BUILD_ID) ||
	    record->size > size)
		return record;
	memcpy(copy, record, record->size);
	((struct perf_event_header *)(void *)copy)->misc &= (uint16_t)~PERFWIND_MISC_MMAP_BUILD_ID;
	return (const struct perf_event_header *)(const void *)copy;
}

static int take_event(struct taking *t, const struct perf_event_header *record)
{
	uint64_t copy[1024]; /* a path has at most 4,096 bytes */
	struct record_event event;
	struct sample_event *e;
	size_t len = 0;
	int r;

	record = without_build_id(record, copy, sizeof(copy));
	r = record_parse_event(&t->layout, record, &event);
	if (r == RECORD_UNKNOWN)
		return 0;
	if (r < 0)
		return r;
	switch (event.type) {
	case PERF_RECORD_LOST:
		t->samples->lost += event.lost.count;
		return 0;
	case PERF_RECORD_COMM:
		if (!event.comm.exec)
			return 0;
		break;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		if (event.type == PERF_RECORD_MMAP2 && !(event.mmap.prot & PROT_EXEC))
			return 0;
		len = strlen(event.mmap.path) + 1;
		break;
	case PERF_RECORD_FORK:
		if (event.pid == event.task.ppid)
			return 0; /* a thread */
		break;
	default:
		return 0;
	}
	e = samples_area_add(t->samples->area, len);
	if (!e)
		return -ENOSPC;
	e->pid = event.pid;
	e->tid = event.tid;
	e->time = event.time;
	e->type = SAMPLE_EXEC;
	if (event.type == PERF_RECORD_FORK) {
		e->type = SAMPLE_FORK;
		e->parent = event.task.ppid;
	} else if (event.type != PERF_RECORD_COMM) {
		e->type = SAMPLE_MAP;
		e->map.start = event.mmap.start;
		e->map.end = event.mmap.start + event.mmap.len;
		e->map.offset = event.mmap.offset;
		memcpy(e->data, event.mmap.path, len);
	}
	return 0;
}

static int take_drain(struct taking *t)
{
	const struct perf_event_header *record;
	uint64_t position;
	int r = 0;

	for (size_t i = 0; i < t->n_rings; i++) {
		r = ring_load_head(t->rings[i].ring);
		while (r == 0 && (r = ring_next(t->rings[i].ring, &record, &position)) == 0) {
			r = record->type == PERF_RECORD_SAMPLE ? take_sample(t, record)
							       : take_event(t, record);
			ring_put(t->rings[i].ring, position);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static void child_run(const struct samples_options *options, int gate)
{
	char byte;

	if (read(gate, &byte, 1) != 1)
		_exit(126);
	if (options->quiet) {
		int null = open("/dev/null", O_RDWR | O_CLOEXEC);

		if (null >= 0)
			(void)(dup2(null, 0), dup2(null, 1), dup2(null, 2));
	}
	execvp(options->command[0], options->command);
	_exit(127);
}

static int take_run(struct taking *t, pid_t pid, int gate)
{
	long n_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int r = 0;
	pid_t done;

	for (int cpu = 0; cpu < n_cpus && cpu < MAX_CPUS && r == 0; cpu++)
		r = take_open(t, pid, cpu);
	if (r == 0 && write(gate, "", 1) != 1)
		r = -EPIPE;
	while (r == 0) {
		struct timespec tick = {.tv_nsec = 2 * NSEC_PER_MSEC};

		nanosleep(&tick, NULL);
		r = take_drain(t);
		done = waitpid(pid, &t->samples->exit_status, WNOHANG);
		if (done) {
			if (r == 0)
				r = take_drain(t);
			return r;
		}
	}
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, &t->samples->exit_status, 0);
	return r;
}

int samples_take(const struct samples_options *options, struct samples *samples)
{
	_cleanup_(taking_deinit) struct taking t = {
		.options = options,
		.samples = samples,
		.layout = {.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
					  PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
			   .regs_mask = UW_REGS_MASK_X86_64,
			   .sample_id_all = true},
	};
	int gate[2], r;
	pid_t pid;

	if (pipe2(gate, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		close(gate[1]);
		child_run(options, gate[0]);
	}
	close(gate[0]);
	if (pid < 0) {
		close(gate[1]);
		return -EAGAIN;
	}
	r = take_run(&t, pid, gate[1]);
	close(gate[1]);
	return r;
}
