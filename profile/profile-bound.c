/* profile-bound.c - how much a trace may hold, and what a reader says of one that holds more.
 *
 * A trace of a few megabytes can unpack to gigabytes, and a gigabyte of small things can take ten of
 * memory.  So each kind of thing has a bound, and the bytes of all kinds together have one.  The
 * bounds are those of a trace below 100 MiB and grow with a larger one: a file that long is a long
 * recording.  They are some times of what the densest recordings hold (46 MB of g++ at 12 kHz: 1.2 M
 * samples, 5 M calls of stacks, 0.2 M frames); what they cost together stays below 512 MB. */
#include <errno.h>
#include <inttypes.h>

#include "base/error.h"
#include "profile/profile-reader.h"
#include "profile/profile-text.h"

#define SMALL (100ull << 20) /* bytes of a trace that the bounds below are for */
#define READ_MEMORY (384ull << 20)
#define WRITE_MEMORY (456ull << 20)
#define INFLATED (2048ull << 20)

static const struct {
	const char *what;
	uint64_t max;
} kinds[HELD_KINDS] = {
	[HELD_PACKETS] = {"packets", 64 << 20},
	[HELD_SAMPLES] = {"samples", 8 << 20},
	[HELD_PROCESSES] = {"processes", 1 << 20},
	[HELD_THREADS] = {"threads", 1 << 20},
	[HELD_NODES] = {"different calls in its stacks", 24 << 20},
	[HELD_FRAMES] = {"frames", 2 << 20},
	[HELD_LINES] = {"source lines", 4 << 20},
	[HELD_MODULES] = {"mappings", 256 << 10},
	[HELD_NAMES] = {"names", 1 << 20},
	[HELD_TEXT] = {"bytes of names", 64 << 20},
	[HELD_DEMANGLED] = {"bytes of demangled names", 256 << 20},
	[HELD_INTERNED] = {"interned entries at a time", 8 << 20},
	[HELD_SEQUENCES] = {"sequences", 64 << 10},
	[HELD_SYMBOLS] = {"symbols of modules", 2 << 20},
	[HELD_STATS] = {"figures of the recorder", 64 << 10},
	[HELD_COUNTS] = {"statistics", 64 << 10},
	[HELD_CLOCKS] = {"readings of clocks", 1 << 20},
	[HELD_FOLLOWERS] = {"counts of followers", 24 << 20},
	[HELD_NUMBERS] = {"numbers of processes and threads", 4 << 20},
	[HELD_STREAMS] = {"CPUs of its sequences", 1 << 20},
};

static uint64_t scale_of(const struct reader *r)
{
	return max_u64(r->fed, SMALL);
}

static uint64_t scaled(const struct reader *r, uint64_t bound)
{
	return (uint64_t)((double)bound * ((double)scale_of(r) / (double)SMALL));
}

static struct profile_memory *memory_of(struct reader *r)
{
	return r->profile->memory;
}

/* "of a trace below 100 MiB", "of a trace of 412.0 MiB" */
static const char *of_a_trace(const struct reader *r, char to[64])
{
	char size[32];

	if (scale_of(r) == SMALL)
		(void)snprintf(to, 64, "of a trace below 100 MiB");
	else
		(void)snprintf(to, 64, "of a trace of %s", text_size(r->fed, size));
	return to;
}

int reader_too_large(struct reader *r, const char *what, uint64_t bound)
{
	struct profile_memory *memory = memory_of(r);
	char number[32], trace_size[64];

	(void)snprintf(memory->why, sizeof(memory->why), "more than %s %s: the bound %s",
		       text_count(bound, number), what, of_a_trace(r, trace_size));
	return fail(-E2BIG);
}

int reader_hold(struct reader *r, enum reader_kind kind, uint64_t n, uint64_t bytes)
{
	r->n_held[kind] += n;
	r->held += bytes;
	if (r->n_held[kind] > kinds[kind].max && r->n_held[kind] > scaled(r, kinds[kind].max))
		return reader_too_large(r, kinds[kind].what, scaled(r, kinds[kind].max));
	if (r->held > READ_MEMORY && r->held > scaled(r, READ_MEMORY))
		return reader_too_large(r, "MiB of memory for all that it holds",
					scaled(r, READ_MEMORY) >> 20);
	return 0;
}

void reader_release(struct reader *r, enum reader_kind kind, uint64_t n, uint64_t bytes)
{
	r->n_held[kind] -= n;
	r->held -= bytes;
}

int reader_put(struct reader *r, enum reader_kind kind, struct table *t, uint64_t key,
	       uint64_t value)
{
	size_t n = t->n_used;
	int e = table_put(t, key, value);

	if (e >= 0 && t->n_used > n)
		e = reader_hold(r, kind, 1, TABLE_ENTRY_BYTES);
	return e < 0 ? trace(e) : 0;
}

int reader_inflated(struct reader *r, uint64_t bytes)
{
	r->inflated += bytes;
	if (r->inflated <= INFLATED || r->inflated <= scaled(r, INFLATED))
		return 0;
	return reader_too_large(r, "MiB unpacked", scaled(r, INFLATED) >> 20);
}

void reader_leave(struct reader *r)
{
	struct profile *p = r->profile;
	struct profile_memory *m = memory_of(r);

	m->scale = scale_of(r);
	m->limit = scaled(r, WRITE_MEMORY);
	m->held = p->n_nodes * sizeof(*p->nodes) + p->n_frames * sizeof(*p->frames) +
		  p->n_lines * sizeof(*p->lines) + p->n_modules * sizeof(*p->modules) +
		  p->n_processes * sizeof(*p->processes) + p->n_threads * sizeof(*p->threads) +
		  max_u64(p->n_samples, p->n_all_samples) * sizeof(*p->samples) +
		  p->strings.n_entries * sizeof(*p->strings.entries) +
		  hash_index_bytes(p->strings.n_entries) + r->n_held[HELD_TEXT] +
		  p->strings.n_entries * 24ull; /* malloc's own */
}
