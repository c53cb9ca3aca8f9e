/* source.c - see source.h: rings, events, and the source as a whole.  source-count.c reads the counts and replaces events. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "perf/attr.h"
#include "perf/gate.h"
#include "perf/source-parts.h"

static void source_note(const struct perf_source *source, const char *brief, const char *format,
			...)
{
	char line[512];
	va_list ap;

	if (!source->options.note)
		return;
	va_start(ap, format);
	(void)vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	source->options.note(source->options.note_arg, brief, line);
}

static int source_explain(const struct perf_source *source, int r, pid_t tid,
			  const struct source_answer *answer)
{
	const struct perf_spec *spec = source->failed ? source->failed : &source->options.leader;
	struct gate_case refused = {
		.error = r,
		.tid = tid,
		.spec = spec,
		.options = &source->options,
	};

	if (source->failed_filter) {
		const char *name = strchr(spec->tracepoint, ':');

		*answer->gate = PERF_GATE_OTHER;
		(void)snprintf(answer->error, answer->error_size,
			       "'%s': the kernel refuses the filter '%s' (%s)", spec->name,
			       spec->filter, strerror(-r));
		if (name) {
			size_t len = strnlen(answer->error, answer->error_size);

			(void)snprintf(answer->error + len, answer->error_size - len,
				       "; fields: /sys/kernel/tracing/events/%.*s/%s/format",
				       (int)(name - spec->tracepoint), spec->tracepoint, name + 1);
		}
		return fail(r);
	}
	*answer->gate = gate_explain(&refused, answer->error, answer->error_size);
	return fail(r);
}

/* ---- rings: their size and owner ----
 *
 * Each ring belongs to an event of its own, an anchor: a disabled dummy that never writes.  The
 * events that do write are redirected into it by SET_OUTPUT, which requires the same CPU and clock
 * only.  So a ring outlives its writers: an event that is replaced can be closed, and a task that
 * exits does not turn the poll of its CPU's ring into an endless POLLHUP.  For tasks the anchors are
 * events of this thread, which needs no privilege.
 *
 * The locked-memory budget (perf_event_mlock_kb per CPU and user, then RLIMIT_MEMLOCK) is shared with
 * the user's other programs, so it is not computed but tried: halve until the kernel accepts.  Of several sources each one takes
 * its share of what the user may lock at most, or the last would have the smallest rings and lose its samples. */

enum { SLACK_PER_S = 4 /* a ring holds 1/4 s */, RING_MIN = 64 << 10 };
#define BUDGET_DEFAULT (256ull << 20)
/* A sampling ring wakes its reader when this many records wait, or a quarter of the ring (3/8 where most copies will be smaller);
 * in a ring that holds more than three times the samples of 100 ms, when these are there, as its reader looks that often by itself.  A
 * wake-up is two thread switches, dearer than unwinding ten samples; what 192 records touch (3-20 KB each) lies in the shared
 * cache, and comes from there whether early or late.  That is 5 to 21 wake-ups a second at any rate up to 4,000 Hz; small records
 * wake by bytes instead, or 4000 Hz without stacks would make it 125. */
enum { WAKE_BYTES_MIN = 64 << 10, WAKE_MS = 120 };
/* Sideband records are applied before the samples that follow them, whenever that is: they need room,
 * not speed. */
enum { WAKE_SIDEBAND = 32 << 10 };

/* Bytes of one sample; the size of a record is 16 bits. */
static uint64_t record_bytes(const struct perf_options *options)
{
	uint64_t bytes = 48; /* header, id, ip, pid and tid, time, period */

	if (options->n_followers)
		bytes += 24 + 16 * (options->n_followers + 1);
	if (options->callchain & FRAMES_KERNEL)
		bytes += 8 * 32; /* usual depths, not the deepest */
	if (options->callchain & FRAMES_USER)
		bytes += 8 * 64;
	if (options->stack_bytes)
		bytes += 8 + 8 * (uint64_t)__builtin_popcountll(PERF_REGS_MASK) + 16 +
			 options->stack_bytes;
	return min_u64(bytes, 65528);
}

uint64_t perf_sample_rate(const struct perf_options *options)
{
	uint64_t per_s = 1000; /* where the rate cannot be known: tracepoints, misses ... */

	if (options->frequency)
		return options->frequency;
	if (options->leader.weight == PERF_WEIGHT_TIME)
		per_s = NSEC_PER_SEC / options->period;
	else if (options->leader.weight == PERF_WEIGHT_CYCLES)
		per_s = 4 * NSEC_PER_SEC / options->period; /* 4 GHz */
	return max_u64(1, min_u64(per_s, 100000));
}

static uint64_t smallest_ring(const struct perf_options *options)
{
	return max_u64(RING_MIN, round_up_power_of_two(2 * record_bytes(options)));
}

static uint64_t wanted_ring(const struct perf_options *options)
{
	uint64_t bytes = options->ring_bytes;

	if (bytes == 0)
		bytes = record_bytes(options) * (perf_sample_rate(options) / SLACK_PER_S + 1);
	bytes = min_u64(
		bytes,
		1ull << 40); /* a number without sense is cut by the budget, not by overflow */
	return max_u64(smallest_ring(options), round_up_power_of_two(bytes));
}

static uint32_t watermark(const struct perf_options *options, uint64_t size)
{
	uint64_t bytes = max_u64(SOURCE_WAKE_RECORDS * record_bytes(options), WAKE_BYTES_MIN);
	uint64_t regular = record_bytes(options) * perf_sample_rate(options) * WAKE_MS / 1000;
	/* the rest stays for the time until the reader runs */
	uint64_t most = max_u64(size / 4, regular <= ring_wake_most(size) ? regular : 0);

	/* Most stacks get smaller copies soon, of which this is more than the regular ones. */
	if (options->sizes)
		most = max_u64(ring_wake_most(size), most);
	return (uint32_t)max_u64(min_u64(bytes, most), record_bytes(options));
}

uint32_t source_wakeup_events(const struct perf_source *source, bool soon, uint32_t stack_bytes)
{
	const struct perf_options *options = &source->options;

	if (soon)
		return 1;
	/* Bytes and records are counted apart, and both wake: where bytes come nearly as soon they suffice. */
	if (stack_bytes >= options->stack_bytes ||
	    watermark(options, source->ring_bytes) < SOURCE_WAKE_RECORDS * stack_bytes / 2 * 3)
		return 0;
	return SOURCE_WAKE_RECORDS;
}

static int map_one(struct perf_source *source, const struct source_cpu *cpu, bool sideband,
		   struct source_ring *ring)
{
	const struct perf_options *options = &source->options;
	uint64_t size = sideband ? source->sideband_bytes : source->ring_bytes;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct perf_event_attr attr;
	int fd;

	attr_anchor(options, sideband ? WAKE_SIDEBAND : watermark(options, size), &attr);
	fd = perf_event_open(&attr, options->tasks ? 0 : -1, (int)cpu->cpu, -1,
			     PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return fd;
	ring->ring.fd = fd;
	ring->ring.cpu = cpu->cpu;
	ring->ring.sideband = sideband;
	ring->len = page + size;
	ring->base = mmap(NULL, ring->len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return ring->base == MAP_FAILED ? -errno : 0;
}

static void unmap_all(struct perf_source *source)
{
	for (size_t i = 0; source->rings && i < 2 * source->n_cpus; i++) {
		struct source_ring *ring = &source->rings[i];

		ring->ring.ring = ring_free(ring->ring.ring);
		if (ring->base != MAP_FAILED)
			(void)munmap(ring->base, ring->len);
		ring->base = MAP_FAILED;
		ring->ring.fd = fd_close(ring->ring.fd);
	}
}

static void source_rings_unmap(struct perf_source *source)
{
	unmap_all(source);
	free(source->rings);
	source->rings = NULL;
	source->n_rings = 0;
}

/* All or none. */
static int map_all(struct perf_source *source)
{
	for (size_t i = 0; i < 2 * source->n_cpus; i++) {
		int r = map_one(source, &source->cpus[i / 2], i % 2, &source->rings[i]);

		if (r < 0) {
			unmap_all(source);
			return r; /* an answer for the halving, not yet a failure */
		}
	}
	return 0;
}

/* The sampling rings shrink first, but not below twice the sideband's: lost sideband records cost
 * more. */
static bool halve(struct perf_source *source, uint64_t smallest)
{
	bool sideband = source->sideband_bytes > SOURCE_SIDEBAND_MIN;

	if (source->ring_bytes > smallest &&
	    (source->ring_bytes > 2 * source->sideband_bytes || !sideband))
		source->ring_bytes /= 2;
	else if (sideband)
		source->sideband_bytes /= 2;
	else
		return false;
	return true;
}

static void halve_to(struct perf_source *source, uint64_t budget)
{
	while (source->n_cpus * (source->ring_bytes + source->sideband_bytes) > budget &&
	       halve(source, smallest_ring(&source->options)))
		;
}

static int map_halving(struct perf_source *source, bool *ret_mlock)
{
	uint64_t smallest = smallest_ring(&source->options);
	int r;

	for (;;) {
		r = map_all(source);
		if (r != -EPERM && r != -ENOMEM)
			return r;
		*ret_mlock = true;
		if (!halve(source, smallest))
			return r;
	}
}

static void note_size(const struct perf_source *source, uint64_t wanted, bool mlock)
{
	const struct perf_options *options = &source->options;
	uint64_t records = source->ring_bytes / record_bytes(options), ms;
	struct gate_text text;

	if (source->ring_bytes >= wanted ||
	    (options->switches && !source->samples_switches &&
	     options->leader.type == PERF_TYPE_SOFTWARE &&
	     options->leader.config == PERF_COUNT_SW_DUMMY)) /* nothing is sampled */
		return;
	ms = records * 1000 / perf_sample_rate(options);
	text = gate_text(GATE_RINGS, (int64_t)(source->ring_bytes >> 10), (int64_t)(wanted >> 10));
	if (mlock)
		source_note(source, gate_brief(GATE_RINGS),
			    "%s: they hold %lu ms of samples; hint: %s", text.cause, ms, text.hint);
	else
		source_note(source, NULL,
			    "rings of %lu KiB a CPU instead of %lu (limit of all rings): they hold "
			    "%lu ms of samples; hint: a lower -F or --stack-bytes",
			    source->ring_bytes >> 10, wanted >> 10, ms);
}

static int add_to_merge(struct perf_source *source)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	for (size_t i = 0; i < 2 * source->n_cpus; i++) {
		struct source_ring *ring = &source->rings[i];
		struct perf_event_attr attr;
		uint32_t index;
		int r;

		if (ring->ring.sideband)
			attr_sideband(&source->options, &attr);
		else
			attr_leader(&source->options, source->options.stack_bytes, &attr);
		attr_layout(&attr, &ring->ring.layout);
		r = ring_new(ring->base, page, ring->len - page, &ring->ring.ring);
		if (r >= 0)
			r = merge_add(source->merge, ring->ring.ring, &ring->ring.layout, &index);
		if (r < 0)
			return trace(r);
	}
	return 0;
}

static int refuse(const struct perf_source *source, int r, const struct source_answer *answer)
{
	struct gate_text text;

	if (r != -EPERM && r != -ENOMEM)
		return source_explain(source, r, source->options.tasks ? 0 : -1, answer);
	*answer->gate = PERF_GATE_MLOCK;
	text = gate_text(GATE_NO_RINGS, 0, 0);
	(void)snprintf(answer->error, answer->error_size, "%s; hint: %s", text.cause, text.hint);
	return fail(r);
}

static int source_rings_map(struct perf_source *source, const struct source_answer *answer)
{
	const struct perf_options *options = &source->options;
	uint64_t budget = options->ring_budget ? options->ring_budget : BUDGET_DEFAULT;
	uint64_t wanted = wanted_ring(options), locked;
	bool mlock;
	int r;

	source->rings = calloc(2 * source->n_cpus + 1, sizeof(source->rings[0]));
	if (!source->rings)
		return refuse(source, -ENOMEM, answer);
	for (size_t i = 0; i < 2 * source->n_cpus; i++) {
		source->rings[i].base = MAP_FAILED;
		source->rings[i].ring.fd = -1;
	}
	source->ring_bytes = wanted;
	source->sideband_bytes = options->switches ? SOURCE_SWITCHES_BYTES : SOURCE_SIDEBAND_BYTES;
	halve_to(source, budget);
	locked = source->ring_bytes;
	if (options->n_sources > 1)
		halve_to(source, gate_locked_bytes() / options->n_sources);
	mlock = source->ring_bytes < locked;
	r = map_halving(source, &mlock);
	if (r >= 0)
		r = add_to_merge(source);
	if (r < 0) {
		r = refuse(source, r, answer);
		source_rings_unmap(source);
		return r;
	}
	note_size(source, wanted, mlock);
	source->small_rings = mlock;
	source->n_rings = 2 * source->n_cpus;
	source->options.ring_bytes = source->ring_bytes;
	return 0;
}

/* ---- events: opening, and the fallbacks ----
 *
 * Every event is opened disabled, redirected into its ring (SET_OUTPUT), then enabled: an event that
 * runs before it has a ring loses records without a count.
 *
 * Fallbacks, tried until the first event is open; each is undone when it did not help:
 *   EACCES, EPERM                without the kernel (perf_event_paranoid 2 allows own user code only)
 *   EINVAL, EOPNOTSUPP, ENOENT   precise_ip one lower
 * Later events may only lower precise_ip: layouts are fixed once the rings are in the merge. */

static void source_task_deinit(struct perf_source *source, struct source_task *task)
{
	for (size_t i = 0; task->groups && i < source->n_cpus; i++)
		source_group_deinit(&task->groups[i]);
	free(task->groups);
	task->groups = NULL;
	task->clock_fd = fd_close(task->clock_fd);
}

/* Without the kernel nothing would be left of these. */
static bool is_in_kernel(const struct perf_spec *spec)
{
	if (!(spec->code & FRAMES_USER) || spec->tracepoint[0] ||
	    spec->type == PERF_TYPE_TRACEPOINT)
		return true;
	return spec->type == PERF_TYPE_SOFTWARE &&
	       (spec->config == PERF_COUNT_SW_CONTEXT_SWITCHES ||
		spec->config == PERF_COUNT_SW_CPU_MIGRATIONS ||
		spec->config == 11 /* cgroup-switches */);
}

static bool step_to_user(struct perf_source *source)
{
	struct perf_options *options = &source->options;

	if (source->settled || source->kernel_refused || is_in_kernel(&options->leader))
		return false;
	if (!source->failed || !(source->failed->code & FRAMES_KERNEL))
		return false;
	source->kernel_refused = true;
	options->leader.code &= FRAMES_USER;
	for (size_t i = 0; i < options->n_followers; i++)
		options->followers[i].code &= FRAMES_USER;
	options->callchain &= FRAMES_USER;
	return true;
}

static bool step_down(struct perf_source *source, int r)
{
	if (source->failed_filter)
		return false;
	if (r == -EACCES || r == -EPERM)
		return step_to_user(source);
	if ((r == -EINVAL || r == -EOPNOTSUPP || r == -ENOENT) &&
	    source->options.leader.precise_ip) {
		source->options.leader.precise_ip--;
		return true;
	}
	return false;
}

static void note_kernel(const struct perf_source *source)
{
	int64_t paranoid = gate_sysctl("perf_event_paranoid", 2);
	enum gate_row row = paranoid > 1 ? GATE_KERNEL : GATE_KERNEL_MODULE;
	struct gate_text text;

	text = gate_text(row, paranoid, 0);
	source_note(source, gate_brief(row), "%s: user code only; hint: %s", text.cause, text.hint);
}

static void note_steps(const struct perf_source *source, uint8_t precise_before,
		       bool refused_before)
{
	const char *name = source->options.leader.name;
	const char *modifiers = strpbrk(name, ":/");

	if (source->kernel_refused && !refused_before)
		note_kernel(source);
	for (size_t i = 0;
	     source->kernel_refused && !refused_before && i < source->options.n_followers; i++)
		if (is_in_kernel(&source->options.followers[i]))
			source_note(source, NULL, "'%s' happens in the kernel: it will count 0",
				    source->options.followers[i].name);
	/* Only if a precision was asked for: the default is "the highest", which needs no note. */
	for (const char *p = modifiers; p; p = strpbrk(p + 1, ":/"))
		modifiers = p;
	if (source->options.leader.precise_ip < precise_before && modifiers &&
	    strchr(modifiers, 'p'))
		source_note(source, NULL, "'%s': the highest precision of this machine is %u", name,
			    source->options.leader.precise_ip);
}

static int open_by_ladder(struct perf_source *source, pid_t tid, size_t cpu_index,
			  struct source_group *group, const struct source_answer *answer)
{
	struct perf_options before = source->options;
	bool kernel_refused = source->kernel_refused;
	int r;

	source->failed_filter = false;
	do {
		r = source_group_open(source, tid, cpu_index, source->cpus[cpu_index].stack_bytes,
				      group);
	} while (r < 0 && step_down(source, r));
	if (r >= 0) {
		note_steps(source, before.leader.precise_ip, kernel_refused);
		return 0;
	}
	if (r != -ENODEV && r != -ENOENT && r != -ESRCH)
		(void)source_explain(source, r, tid, answer);
	source->options = before;
	source->kernel_refused = kernel_refused;
	return r;
}

/* The events of @tid on one CPU; positive if it is offline or of a kind without this counter. */
enum { CPU_OFFLINE = 1, CPU_WITHOUT, CPU_REFUSED };
static int open_cpu(struct perf_source *source, pid_t tid, size_t i, struct source_group *group,
		    const struct source_answer *answer)
{
	struct perf_event_attr attr;
	int r;

	r = open_by_ladder(source, tid, i, group, answer);
	if (r == -ENODEV || r == -ENOENT)
		return r == -ENODEV ? CPU_OFFLINE : CPU_WITHOUT;
	if (r < 0 || source->options.poll)
		return r;
	attr_sideband(&source->options, &attr);
	source->failed = NULL;
	r = perf_event_open(&attr, tid, (int)source->cpus[i].cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (r == -ENODEV)
		return CPU_OFFLINE;
	if (r < 0)
		return r == -ESRCH ? r : source_explain(source, r, tid, answer);
	group->sideband = r;
	return 0;
}

static int open_clock(struct perf_source *source, struct source_task *task,
		      const struct source_answer *answer)
{
	struct perf_event_attr attr;
	int r;

	attr_task_clock(&source->options, &attr);
	source->failed = NULL;
	r = perf_event_open(&attr, task->tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (r < 0)
		return r == -ESRCH ? r : source_explain(source, r, task->tid, answer);
	task->clock_fd = r;
	return 0;
}

/* CPUs where groups stayed closed leave the list, before any ring is made. */
static void drop_empty_cpus(struct perf_source *source, struct source_task *task)
{
	size_t n = 0;

	for (size_t i = 0; i < source->n_cpus; i++) {
		if (task->groups[i].fds[0] < 0) {
			source_group_deinit(&task->groups[i]);
			continue;
		}
		task->groups[n] = task->groups[i];
		source->cpus[n] = source->cpus[i];
		source->option_cpus[n] = source->option_cpus[i];
		n++;
	}
	source->n_cpus = n;
	source->options.n_cpus = n;
}

static int open_all(struct perf_source *source, struct source_task *task,
		    const struct source_answer *answer)
{
	size_t opened = 0, without = 0;
	int r;

	for (size_t i = 0; i < source->n_cpus; i++) {
		r = open_cpu(source, task->tid, i, &task->groups[i], answer);
		if (r < 0 && source->options.ignore_open_failure)
			r = CPU_REFUSED;
		if (r < 0)
			return r;
		opened += r == 0;
		without += r == CPU_WITHOUT;
		if (r > 0)
			source_group_deinit(&task->groups[i]);
	}
	if (opened == 0 && !source->options.ignore_open_failure)
		return source_explain(source, -ENOENT, task->tid, answer);
	if (without && !source->settled)
		source_note(source, NULL,
			    "%zu of %zu CPUs have no counter for '%s': what runs there is not seen",
			    without, source->n_cpus, source->options.leader.name);
	return task->tid < 0 ? 0 : open_clock(source, task, answer);
}

static int send_to_rings(struct perf_source *source, const struct source_task *task)
{
	for (size_t i = 0; i < source->n_cpus && source->rings; i++) {
		const struct source_group *group = &task->groups[i];

		if (group->fds[0] < 0)
			continue;
		if (ioctl(group->fds[0], PERF_EVENT_IOC_SET_OUTPUT, source->rings[2 * i].ring.fd) <
			    0 ||
		    ioctl(group->sideband, PERF_EVENT_IOC_SET_OUTPUT,
			  source->rings[2 * i + 1].ring.fd) < 0 ||
		    source_switch_output(source, task, i) < 0)
			return fail(-errno);
	}
	return 0;
}

static int remember(struct perf_source *source, const struct source_task *task)
{
	int r = source_switch_remember(source, task);

	if (r < 0 || task->tid < 0)
		return trace(r);
	r = table_put(&source->added, (uint64_t)task->tid, 1);
	for (size_t i = 0; r >= 0 && i < source->n_cpus; i++)
		if (task->groups[i].fds[0] >= 0)
			r = table_put(&source->tid_of_id, task->groups[i].id, (uint64_t)task->tid);
	return r < 0 ? trace(r) : 0;
}

static int switch_fd(int fd, unsigned long request)
{
	if (fd < 0 || ioctl(fd, request, 0) == 0)
		return 0;
	return fail(-errno);
}

static int enable_task(const struct perf_source *source, const struct source_task *task)
{
	for (int pass = 0; pass < (source->held ? 1 : 2); pass++)
		for (size_t i = 0; i < source->n_cpus; i++) {
			int r = source_switch_request(source, &task->groups[i], pass == 0,
						      PERF_EVENT_IOC_ENABLE);

			if (r < 0)
				return trace(r);
		}
	if (task->clock_fd >= 0 && ioctl(task->clock_fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
		return fail(-errno);
	return 0;
}

static int make_room(struct perf_source *source)
{
	if (source->n_tasks == source->tasks_room &&
	    !array_grow(source->tasks, source->tasks_room, 8))
		return fail(-ENOMEM);
	return 0;
}

/* From open events to a member of the source. */
static int join(struct perf_source *source, struct source_task *task,
		const struct source_answer *answer)
{
	int r;

	if (!source->settled) {
		drop_empty_cpus(source, task);
		r = source->options.poll ? 0 : source_rings_map(source, answer);
		if (r < 0)
			return r;
		source->settled = true;
	}
	r = send_to_rings(source, task);
	source_watch_open(source, task);
	source_turns_open(source, task);
	if (r >= 0)
		r = make_room(source);
	if (r >= 0)
		r = remember(source, task);
	if (r >= 0 && source->enabled)
		r = enable_task(source, task);
	if (r < 0) {
		*answer->gate = PERF_GATE_OTHER;
		(void)snprintf(answer->error, answer->error_size, "perf events: %s", strerror(-r));
	}
	return r;
}

/* Opens @tid's events on all CPUs, maps the rings if they are not yet, and adds the task.  -ESRCH
 * without a line; else < 0 with one. */
static int source_open_task(struct perf_source *source, pid_t tid,
			    const struct source_answer *answer)
{
	struct source_task task = {.tid = tid, .clock_fd = -1};
	int r;

	task.groups = calloc(source->n_cpus, sizeof(task.groups[0]));
	if (!task.groups) {
		*answer->gate = PERF_GATE_OTHER;
		(void)snprintf(answer->error, answer->error_size, "%s", strerror(ENOMEM));
		return fail(-ENOMEM);
	}
	for (size_t i = 0; i < source->n_cpus; i++)
		source_group_init(&task.groups[i]);
	r = open_all(source, &task, answer);
	if (r >= 0)
		r = join(source, &task, answer);
	if (r < 0) {
		source_task_deinit(source, &task);
		return trace(r);
	}
	source->tasks[source->n_tasks++] = task;
	return 0;
}

/* ---- the source ---- */

static int copy_spec(struct perf_spec *spec)
{
	char *filter = spec->filter, *path = spec->probe_path;

	spec->filter = NULL;
	spec->probe_path = NULL;
	if (filter && !(spec->filter = strdup(filter)))
		return fail(-ENOMEM);
	if (path && !(spec->probe_path = strdup(path)))
		return fail(-ENOMEM);
	return 0;
}

/* The borrowed strings and CPUs become ours: a change of stack size opens events again. */
static int copy_options(struct perf_source *source, const struct perf_options *options)
{
	size_t n = options->n_followers;
	int r;

	source->options = *options;
	source->options.n_followers = 0;
	source->options.cpus = NULL;
	r = copy_spec(&source->options.leader);
	for (size_t i = 0; i < PERF_MAX_FOLLOWERS; i++) {
		struct perf_spec *spec = &source->options.followers[i];

		if (i >= n || r < 0) {
			spec->filter = NULL;
			spec->probe_path = NULL;
			continue;
		}
		r = copy_spec(spec);
	}
	if (r < 0)
		return trace(r);
	source->options.n_followers = n;

	source->option_cpus = calloc(options->n_cpus, sizeof(source->option_cpus[0]));
	source->cpus = calloc(options->n_cpus, sizeof(source->cpus[0]));
	if (!source->option_cpus || !source->cpus)
		return fail(-ENOMEM);
	memcpy(source->option_cpus, options->cpus, options->n_cpus * sizeof(options->cpus[0]));
	source->options.cpus = source->option_cpus;
	source->n_cpus = options->n_cpus;
	for (size_t i = 0; i < options->n_cpus; i++)
		source->cpus[i] = (struct source_cpu){
			.cpu = options->cpus[i],
			.stack_bytes = options->stack_bytes,
		};
	return 0;
}

static int check_options(const struct perf_options *options, const struct source_answer *answer)
{
	const char *wrong = NULL;

	*answer->gate = PERF_GATE_OTHER;
	if (options->n_cpus == 0)
		wrong = "no CPU to profile";
	else if (options->n_followers > PERF_MAX_FOLLOWERS)
		wrong = "too many followers: at most 7";
	else if (options->stack_bytes > 65528 || options->stack_bytes % 8)
		wrong = "the stack copy must be a multiple of 8, at most 65528 bytes";
	else if (options->poll && options->tasks)
		wrong = "counters are read of whole CPUs only";
	else if (!options->poll && !options->period == !options->frequency)
		wrong = "either a period or a frequency is needed";
	if (wrong) {
		(void)snprintf(answer->error, answer->error_size, "%s", wrong);
		return fail(-EINVAL);
	}
	if (!gate_frequency_allowed(options, answer->error, answer->error_size)) {
		*answer->gate = PERF_GATE_RATE;
		return fail(-EINVAL);
	}
	*answer->gate = PERF_GATE_NONE;
	return 0;
}

int perf_source_new(const struct perf_options *options, struct perf_source **ret_source,
		    enum perf_gate *ret_gate, char *error, size_t error_size)
{
	struct source_answer answer = {.gate = ret_gate, .error = error, .error_size = error_size};
	struct perf_source *source;
	int r;

	r = check_options(options, &answer);
	if (r < 0)
		return trace(r);
	/* Many events are opened.  If a limit cannot be raised the opens report it. */
	use_hard_limit(RLIMIT_NOFILE);
	use_hard_limit(RLIMIT_MEMLOCK);
	source = calloc(1, sizeof(*source));
	r = source ? copy_options(source, options) : -ENOMEM;
	if (r >= 0)
		r = merge_new(&source->merge);
	if (r < 0) {
		(void)snprintf(error, error_size, "%s", strerror(-r));
		*ret_gate = PERF_GATE_OTHER;
		goto failed;
	}
	if (options->tasks && options->n_followers &&
	    !options->features.has[FEATURE_INHERIT_READ]) {
		for (size_t i = 0; i < source->options.n_followers; i++)
			perf_spec_deinit(&source->options.followers[i]);
		source->options.n_followers = 0;
		source_note(source, NULL,
			    "the events after the first are left out: counting them for a "
			    "process needs "
			    "Linux 6.13; the whole machine (-a) has them");
	}
	if (!options->tasks) {
		r = source_open_task(source, -1, &answer);
		if (r < 0)
			goto failed;
	}
	*ret_source = source;
	return 0;
failed:
	perf_source_free(source);
	return trace(r);
}

struct perf_source *perf_source_free(struct perf_source *source)
{
	if (!source)
		return NULL;
	source_rings_unmap(source);
	source->merge = merge_free(source->merge);
	for (size_t i = 0; i < source->n_tasks; i++)
		source_task_deinit(source, &source->tasks[i]);
	free(source->tasks);
	table_deinit(&source->tid_of_id);
	table_deinit(&source->added);
	table_deinit(&source->switch_ids);
	table_deinit(&source->turn_ids);
	perf_spec_deinit(&source->options.leader);
	for (size_t i = 0; i < PERF_MAX_FOLLOWERS; i++)
		perf_spec_deinit(&source->options.followers[i]);
	free(source->option_cpus);
	free(source->cpus);
	free(source);
	return NULL;
}

int perf_source_add_task(struct perf_source *source, pid_t tid, enum perf_gate *ret_gate,
			 char *error, size_t error_size)
{
	struct source_answer answer = {.gate = ret_gate, .error = error, .error_size = error_size};
	int r;

	if (!source->options.tasks || tid <= 0)
		return fail(-EINVAL);
	r = source_open_task(source, tid, &answer);
	if (r == -ESRCH)
		return PERF_TASK_GONE;
	return r < 0 ? trace(r) : 0;
}

void perf_source_forget_task(struct perf_source *source, pid_t tid)
{
	(void)table_remove(&source->added, (uint64_t)tid);
}

bool perf_source_has_task(const struct perf_source *source, pid_t tid)
{
	uint64_t v;

	return table_get(&source->added, (uint64_t)tid, &v);
}

size_t perf_source_n_tasks(const struct perf_source *source)
{
	return source->n_tasks;
}

void perf_source_withdraw_tasks(struct perf_source *source, size_t n)
{
	while (source->n_tasks > n) {
		struct source_task *task = &source->tasks[--source->n_tasks];

		(void)table_remove(&source->added, (uint64_t)task->tid);
		for (size_t i = 0; i < source->n_cpus; i++)
			(void)table_remove(&source->tid_of_id, task->groups[i].id);
		source_task_deinit(source, task);
	}
	source->living = 0;
}

bool perf_source_is_inherited_double(const struct perf_source *source, uint64_t id, pid_t tid)
{
	uint64_t owner;

	/* a single task: nothing could be counted twice */
	if (source->n_tasks < 2 || !table_get(&source->added, (uint64_t)tid, &owner))
		return false;
	return table_get(&source->tid_of_id, id, &owner) && owner != (uint64_t)tid;
}

/* Sideband events are enabled first and disabled last: samples depend on their records. */
int source_switch_all(struct perf_source *source, bool on, bool sampling_only)
{
	unsigned long request = on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE;
	int first_error = 0;

	if (!on)
		source_turns_stop(source);
	for (int pass = 0; pass < 2; pass++) {
		bool sideband = (pass == 0) == on;

		if (sideband ? sampling_only : on && source->held)
			continue;
		for (size_t t = 0; t < source->n_tasks; t++) {
			const struct source_task *task = &source->tasks[t];

			for (size_t i = 0; i < source->n_cpus; i++) {
				const struct source_group *group = &task->groups[i];
				int r = source_switch_request(source, group, sideband, request);

				if (r < 0 && first_error == 0)
					first_error = r;
			}
			if (!sideband)
				(void)switch_fd(task->clock_fd, request);
		}
	}
	return first_error;
}

int perf_source_enable(struct perf_source *source)
{
	source->enabled = true;
	return trace(source_switch_all(source, true, false));
}

int perf_source_disable(struct perf_source *source)
{
	source->enabled = false;
	return trace(source_switch_all(source, false, false));
}

struct merge *perf_source_merge(struct perf_source *source)
{
	return source->merge;
}

size_t perf_source_n_rings(const struct perf_source *source)
{
	return source->n_rings;
}

const struct perf_ring *perf_source_ring(const struct perf_source *source, size_t index)
{
	return index < source->n_rings ? &source->rings[index].ring : NULL;
}

bool perf_source_kernel_refused(const struct perf_source *source)
{
	return source->kernel_refused;
}

const struct perf_options *perf_source_options(const struct perf_source *source)
{
	return &source->options;
}
