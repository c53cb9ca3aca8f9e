/* session-output.c - what a session writes.  Thread: main.
 *
 * What the unwinder has answered becomes packets, in order.
 *
 * Code of a jitdump is known until the dump was read, so outcomes of later samples wait in the queue, with all that stands behind
 * them, for the next reading (emit_must_wait()):
 *
 *   taken ──► sample of 10.30 │ module wanted │ sample of 10.35 │ flushed      the dump was read at 10.29, and is read now
 *                              └─ at once
 *
 * Outcomes with kernel frames wait, as long as it takes, for the thread that reads the kernel's symbols for all sessions.
 *
 * Those of jitdumps cause this reading, and main wakes up when it is there.  They wait for HOLD_MS at most, and until a quarter of the queue is
 * in use, so the unwinder never waits for them.  Requests do not wait: other samples depend on them.  A flush waits, as it covers
 * the samples before it.
 *
 * `record --perf-data` also writes the unchanged records, for stock perf.  Two events: the sampled one, and the dummy event of the
 * sideband records.  Earlier mappings are written as perf writes them, by records without a time.  If the file cannot be written,
 * it ends, and the recording continues. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "base/error.h"
#include "perf/attr.h"
#include "proc/procfs.h"
#include "session/session-private.h"
#include "symbols/kallsyms.h"

enum {
	MAX_OUTCOMES = 4096,
	HOLD_MS =
		1000, /* the first reading of 500,000 functions, or all unwinding information of as many */
};

static int take_outcome(struct session *s, const struct outcome *o)
{
	switch (o->kind) {
	case OUTCOME_SAMPLE:
		if (!o->counted)
			reader_answered(s->reader, &o->info, (enum skip_reason)o->skipped);
		return session_parts_outcome(s, o);
	case OUTCOME_WANT_MODULE:
		return reader_want_module(s->reader, o->info.process, o->module);
	case OUTCOME_WANT_MAPS:
		return reader_want_maps(s->reader, o->info.process,
					o->reason == UW_NO_MODULE ? o->stopped_at : 0);
	case OUTCOME_EVICTED:
		(void)uw_module_unref(o->module);
		return 0;
	case OUTCOME_FLUSHED:
		s->flushes.answered = o->info.count;
		return 0;
	case OUTCOME_DRAINED:
		s->drained = true;
		return 0;
	case OUTCOME_TAKEN:
		return 0;
	default:
		return fail(-EINVAL);
	}
}

/* Of outcomes that wait: takes requests, and gives the samples' shares of the stages back. */
static int look_ahead(struct session *s)
{
	struct outcome *o;
	int r = 0;

	s->hold.looked = max_u64(s->hold.looked, s->outcomes.taken);
	while (r >= 0 && (o = byte_queue_look(&s->outcomes, &s->hold.looked))) {
		if (o->kind == OUTCOME_SAMPLE) {
			reader_answered(s->reader, &o->info, (enum skip_reason)o->skipped);
			o->counted = true;
		} else if (o->kind == OUTCOME_WANT_MODULE || o->kind == OUTCOME_WANT_MAPS) {
			r = take_outcome(s, o);
			o->kind = OUTCOME_TAKEN;
		}
	}
	return r < 0 ? trace(r) : 0;
}

/* Does the next outcome wait? */
static bool holds(struct session *s, const struct outcome *next)
{
	struct session_hold *hold = &s->hold;
	uint64_t now;

	if (next->kind == OUTCOME_SAMPLE && next->n_kernel &&
	    !session_kernel_names_read(s, s->state != SESSION_RUNNING)) {
		hold->since = clock_ns(CLOCK_MONOTONIC);
		return true;
	}
	if (next->kind != OUTCOME_SAMPLE || s->outcomes.taken < hold->given_up ||
	    !emit_must_wait(s->emit, &next->info))
		return false;
	now = clock_ns(CLOCK_MONOTONIC);
	hold->since = hold->since ? hold->since : now;
	if (now - hold->since < HOLD_MS * NSEC_PER_MSEC &&
	    byte_queue_ready(&s->outcomes) < s->outcomes.size / 4) {
		emit_read_dumps(s->emit, now, true);
		return true;
	}
	hold->given_up = s->outcomes.taken + byte_queue_ready(&s->outcomes);
	return false;
}

int session_take_outcomes(struct session *s, size_t *ret_n)
{
	uint64_t at = s->outcomes.taken, following;
	const struct outcome *o, *next;
	size_t len, n = 0;
	int r = 0, first = 0;

	while (n < MAX_OUTCOMES && (o = byte_queue_look(&s->outcomes, &at)) && !holds(s, o)) {
		s->hold.since = s->hold.looked = 0;
		(void)byte_queue_next(&s->outcomes, &len);
		following = at;
		next = byte_queue_look(&s->outcomes, &following);
		if (next && next->kind == OUTCOME_SAMPLE)
			emit_prefetch(s->emit, next);
		r = take_outcome(s, o);
		first = first ? first : r;
		n++;
	}
	if (!o)
		s->hold.given_up = 0;
	else if (s->hold.since)
		r = look_ahead(s);
	byte_queue_release(&s->outcomes);
	*ret_n = n;
	return first ? first : r;
}

static void writer_event_of(const struct perf_spec *spec, struct writer_event *event)
{
	*event = (struct writer_event){
		.name = spec->unnamed ? NULL : spec->name,
		.counter = spec->counter,
		.tracepoint = spec->tracepoint[0] ? spec->tracepoint : NULL,
		.filter = spec->filter,
		.raw_type = spec->type,
		.raw_config = spec->config,
		.raw_config1 = spec->config1,
		.raw_config2 = spec->config2,
		.modifiers = spec->code == FRAMES_ALL ? 0 : spec->code,
	};
}

int session_make_writer(struct session *s)
{
	const struct perf_options *o = perf_source_options(s->source);
	struct writer_options wo = {
		.followers = s->followers,
		.n_followers = o->n_followers,
		.period = o->period,
		.frequency = o->frequency,
		.poll_ms = s->options.poll_ms,
		.shard_count = s->options.shard_count,
		.shard = s->options.shard,
		.clock = s->options.poll_ms ? CLOCK_BOOTTIME : s->options.clock,
		.sequence_id = s->options.producer   ? 0
			       : s->options.sequence ? s->options.sequence
						     : 1,
		.tool = "perfwind " PERFWIND_VERSION,
	};

	writer_event_of(&o->leader, &wo.leader);
	for (size_t i = 0; i < o->n_followers; i++)
		writer_event_of(&o->followers[i], &s->followers[i]);
	return writer_new(&wo, s->sink, &s->writer);
}

static void raw_check(struct session *s, int r)
{
	if (r >= 0 || s->raw_failed)
		return;
	s->raw_failed = true;
	session_note(s, "--perf-data: %s: the file is incomplete", strerror(-r));
}

static int write_kernel_mapping(struct session *s)
{
	static const char name[] = "[kernel.kallsyms]_text";
	_cleanup_(fd_closep) int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
	uint64_t start = fd < 0 || !(session_code(s) & FRAMES_KERNEL) ? 0 : kernel_text_start(fd);

	if (!start)
		return 0;
	/* Up to the area of modules; perf finds the end itself. */
	return perfdata_out_mmap(s->options.raw, &(struct perfdata_out_mmap){
							 .pid = UINT32_MAX,
							 .start = start,
							 .len = 1 << 25,
							 .offset = start,
							 .path = name,
							 .path_len = sizeof(name) - 1,
						 });
}

int session_raw_start(struct session *s)
{
	const struct perf_options *o = perf_source_options(s->source);
	struct perf_event_attr attr;
	int r;

	attr_leader(o, o->stack_bytes, &attr);
	r = perfdata_out_event(s->options.raw, 0, &attr, o->leader.name);
	if (r >= 0) {
		attr_sideband(o, &attr);
		r = perfdata_out_event(s->options.raw, 1, &attr, "dummy");
	}
	if (r >= 0)
		r = write_kernel_mapping(s);
	return r < 0 ? trace(r) : 0;
}

void session_raw_record(void *arg, bool sideband, const struct perf_event_header *record)
{
	struct session *s = arg;

	if (s->raw_failed)
		return;
	if (record)
		raw_check(s, perfdata_out_record(s->options.raw, sideband, record));
	/* A round mark allows readers to process the samples before it: not before the mappings of
	 * their processes have been written. */
	else if (!loader_pending(s->loader))
		raw_check(s, perfdata_out_round(s->options.raw));
}

static uint32_t prot_of(const struct procfs_map *map)
{
	return (map->read ? PROT_READ : 0u) | (map->write ? PROT_WRITE : 0u) |
	       (map->exec ? PROT_EXEC : 0u);
}

static int write_mappings(struct session *s, const struct load_answer *a)
{
	const char *p = a->maps, *end = a->maps + a->maps_len;
	struct procfs_map map;
	int r = 0, got;

	while (p && r >= 0 && (got = procfs_maps_next(&p, end, &map)) != PROCFS_MAPS_END) {
		if (got < 0 || (!map.exec && (!map.path_len || *map.path != '/')))
			continue;
		r = perfdata_out_mmap(s->options.raw, &(struct perfdata_out_mmap){
							      .pid = a->request.pid,
							      .start = map.start,
							      .len = map.end - map.start,
							      .offset = map.offset,
							      .inode = map.inode,
							      .major = map.major,
							      .minor = map.minor,
							      .prot = prot_of(&map),
							      .path = map.path,
							      .path_len = map.path_len,
						      });
	}
	return r;
}

void session_raw_process(struct session *s, const struct load_answer *a)
{
	const struct process *process = a->request.process;
	int r;

	/* Once: the mappings of a refresh have no time and would be sorted before all else. */
	if (!s->options.raw || s->raw_failed || a->request.kind != LOAD_PROCESS || a->error ||
	    process->maps_read_at || process->replaced)
		return;
	r = perfdata_out_comm(s->options.raw, a->request.pid, a->request.pid, a->status.comm);
	for (size_t i = 0; i < a->n_threads && r >= 0; i++) {
		if (a->threads[i].tid != a->request.pid)
			r = perfdata_out_comm(s->options.raw, a->request.pid, a->threads[i].tid,
					      a->threads[i].comm);
	}
	if (r >= 0)
		r = write_mappings(s, a);
	raw_check(s, r);
}
