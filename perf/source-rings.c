/* source-rings.c - how large the rings are, and who owns them.  See source-parts.h.
 *
 * Each ring belongs to an event of its own, an anchor: a disabled dummy that never writes.  The
 * events that do write are sent into it by SET_OUTPUT, which only wants the same CPU and clock.  So
 * a ring outlives its writers: an event that is replaced can be closed, and a task that exits does
 * not turn the poll of its CPU's ring into an endless POLLHUP.  For tasks the anchors are events of
 * this thread, which needs no right.
 *
 * The locked-memory budget (perf_event_mlock_kb a CPU and user, then RLIMIT_MEMLOCK) is shared with
 * whatever else the user runs, so it is not computed but tried: halve until the kernel takes it. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "perf/attr.h"
#include "perf/source-parts.h"

enum { SLACK_PER_S = 4 /* a ring holds 1/4 s */, RING_MIN = 64 << 10 };
#define BUDGET_DEFAULT (256ull << 20)
/* A sampling ring wakes its reader when this many records wait.  A wake-up is two thread switches,
 * dearer than unwinding ten samples; what 64 records touch (3-20 KB each) lies in the cache of the
 * CPU that sampled or in the shared one, and comes from there whether early or late.  At 999 Hz
 * that is 16 wake-ups a second; small records wake by bytes instead, or 4000 Hz without stacks
 * would make it 125. */
enum { WAKE_RECORDS = 64, WAKE_BYTES_MIN = 64 << 10 };
/* Side-band records are applied before the samples that follow them, whenever that is: no hurry,
 * but room. */
enum { WAKE_SIDEBAND = 32 << 10 };

/* Bytes of one sample; the size of a record is 16 bits. */
static uint64_t record_bytes(const struct perf_options *options)
{
	uint64_t bytes = 48; /* header, id, ip, pid and tid, time, period */

	if (options->n_followers)
		bytes += 24 + 16 * (options->n_followers + 1);
	if (options->kernel_chain)
		bytes += 8 * 32; /* usual depths, not the deepest */
	if (options->user_chain)
		bytes += 8 * 64;
	if (options->stack_bytes)
		bytes += 8 + 8 * (uint64_t)__builtin_popcountll(PERF_REGS_MASK) + 16 +
			 options->stack_bytes;
	return min_u64(bytes, 65528);
}

/* Samples a second on a busy CPU, at most. */
static uint64_t sample_rate(const struct perf_options *options)
{
	uint64_t per_s = 1000; /* of what nobody can know: tracepoints, misses ... */

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
		bytes = record_bytes(options) * (sample_rate(options) / SLACK_PER_S + 1);
	bytes = min_u64(
		bytes,
		1ull << 40); /* a number without sense is cut by the budget, not by overflow */
	return max_u64(smallest_ring(options), round_up_power_of_two(bytes));
}

static uint32_t watermark(const struct perf_options *options, uint64_t size)
{
	uint64_t bytes = max_u64(WAKE_RECORDS * record_bytes(options), WAKE_BYTES_MIN);

	/* three quarters stay for the time until the reader runs */
	return (uint32_t)max_u64(min_u64(bytes, size / 4), record_bytes(options));
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

void source_rings_unmap(struct perf_source *source)
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

/* The sampling rings give way first, but not below twice the side-band's: what is lost there costs
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

static int map_halving(struct perf_source *source, bool *ret_mlock)
{
	uint64_t smallest = smallest_ring(&source->options);
	int r;

	*ret_mlock = false;
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
	uint64_t records = source->ring_bytes / record_bytes(options);

	if (source->ring_bytes >= wanted)
		return;
	source_note(
		source,
		"rings of %llu KiB a CPU instead of %llu (%s): they hold %llu ms of samples; %s",
		(unsigned long long)(source->ring_bytes >> 10), (unsigned long long)(wanted >> 10),
		mlock ? "limit of locked memory" : "limit of all rings",
		(unsigned long long)(records * 1000 / sample_rate(options)),
		mlock ? "for more: run as root, raise ulimit -l, or sysctl "
			"kernel.perf_event_mlock_kb"
		      : "a smaller stack copy or rate makes it more");
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
	if (r != -EPERM && r != -ENOMEM)
		return source_explain(source, r, source->options.tasks ? 0 : -1, answer);
	*answer->gate = PERF_GATE_MLOCK;
	(void)snprintf(answer->error, answer->error_size,
		       "not even rings of %llu KiB a CPU fit into the limit of locked memory: run "
		       "as root, raise "
		       "ulimit -l, or: sudo sysctl kernel.perf_event_mlock_kb=2048",
		       (unsigned long long)((source->ring_bytes + source->sideband_bytes) >> 10));
	return fail(r);
}

int source_rings_map(struct perf_source *source, const struct source_answer *answer)
{
	const struct perf_options *options = &source->options;
	uint64_t budget = options->ring_budget ? options->ring_budget : BUDGET_DEFAULT;
	uint64_t wanted = wanted_ring(options);
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
	source->sideband_bytes = SOURCE_SIDEBAND_BYTES;
	while (source->n_cpus * (source->ring_bytes + source->sideband_bytes) > budget &&
	       halve(source, smallest_ring(options)))
		;
	r = map_halving(source, &mlock);
	if (r >= 0)
		r = add_to_merge(source);
	if (r < 0) {
		r = refuse(source, r, answer);
		source_rings_unmap(source);
		return r;
	}
	note_size(source, wanted, mlock);
	source->n_rings = 2 * source->n_cpus;
	source->options.ring_bytes = source->ring_bytes;
	return 0;
}
