/* profile-count.c - what a trace has lost, counted as trace_processor's table `stats` does: from
 * samples and packets as they are read, and from what a tracing service reports of itself
 * (TraceStats).  The last TraceStats stands, but for the final flush, which adds up. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>

#include "base/error.h"
#include "profile/profile-reader.h"
#include "profile/profile-text.h"
#include "protos/perfwind.fields.h"
#include "protos/trace.fields.h"
#include "protos/trace.pb-c.h"
#include "protos/trace_config.fields.h"
#include "protos/trace_config.pb-c.h"

enum { MAX_NOTES = 4096 };

/* ---- the end of the file ----
 *
 * Is all of the file there?  What perfwind writes stands between two packets
 * (protos/perfwind.proto): the first announces the second, the second counts what is
 * between them.  A file may be several files one behind the other, and packets may follow the end
 * mark (traceconv appends symbols).  Traces of a tracing service do not have these packets. */

/* What was begun has no end. */
static void note_cut(struct reader *r)
{
	struct profile_end *end = &r->profile->end;

	if (!r->marked.open)
		return;
	end->unbound |= !r->marked.behind_ms;
	end->behind_ms = (uint32_t)max_u64(end->behind_ms, r->marked.behind_ms);
	end->cut++;
	r->marked.open = false;
}

static int begin_mark(struct reader *r, struct cursor c)
{
	struct wire_field f;

	note_cut(r);
	r->marked.open = true;
	r->marked.behind_ms = 0;
	r->marked.packets = 0;
	while (wire_next(&c, &f))
		if (wire_is(&f, PERFWIND_STATS__BEGIN__BEHIND_MS))
			r->marked.behind_ms = (uint32_t)min_u64(f.value, UINT32_MAX);
		else if (wire_is(&f, PERFWIND_STATS__BEGIN__LATEST_ONLY))
			r->profile->latest_only |= f.value;
	return c.bad ? READER_BROKEN : 0;
}

static int end_mark(struct reader *r, struct cursor c)
{
	/* The packet of the end mark itself has been counted. */
	uint64_t have = r->marked.packets ? r->marked.packets - 1 : 0;
	struct profile_end *end = &r->profile->end;
	struct wire_field f;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, PERFWIND_STATS__END__PACKETS) && f.value > have)
			end->missing += min_u64(f.value - have, UINT64_MAX - end->missing);
		else if (wire_is(&f, PERFWIND_STATS__END__FULL))
			end->full |= f.value != 0;
	}
	r->marked.open = false;
	r->marked.packets = 0;
	return c.bad ? READER_BROKEN : 0;
}

static int reader_finish_end(struct reader *r)
{
	const struct profile_end *end = &r->profile->end;
	int e = 0;

	note_cut(r);
	if (end->cut)
		e = reader_count_set(r, STAT_perfwind_end_missing, -1, end->cut);
	if (e >= 0 && end->missing)
		e = reader_count_set(r, STAT_perfwind_packets_missing, -1, end->missing);
	return e < 0 ? trace(e) : 0;
}

bool profile_is_damaged(const struct profile *p)
{
	return p->truncated_at || p->end.cut || p->end.missing;
}

bool profile_end_text(const struct profile *p, char *to, size_t size)
{
	char number[32];

	*to = 0;
	if (p->end.cut && p->end.unbound)
		(void)snprintf(to, size,
			       "ended without its end mark: how much is missing is not known");
	else if (p->end.cut)
		(void)snprintf(to, size,
			       "ended without its end mark: up to about %.1f s may be missing "
			       "(more if the file was cut or damaged later)",
			       p->end.behind_ms / 1e3);
	else if (p->end.missing)
		(void)snprintf(to, size, "%s packet%s missing: the end mark counts more",
			       text_count(p->end.missing, number),
			       p->end.missing == 1 ? " is" : "s are");
	return *to;
}

/* ---- statistics ---- */

enum {
	MAX_BUFFERS = 128, /* as a service has them at most */
	MAX_WRITERS = 65536,
	RING_WRITE_MS = 24 * 60 * 60 * 1000, /* a file written so seldom is a ring buffer */
	FLUSHES_BY_ITSELF = 54,		     /* from this version on, before each write */
};

static uint64_t key_of(enum trace_stat stat, int32_t index)
{
	return (uint64_t)stat << 32 | (uint32_t)(index + 1);
}

int reader_count_set(struct reader *r, enum trace_stat stat, int32_t index, uint64_t value)
{
	int e = reader_put(r, HELD_COUNTS, &r->counts, key_of(stat, index), value);

	return e < 0 ? trace(e) : 0;
}

int reader_count_add(struct reader *r, enum trace_stat stat, int32_t index, uint64_t value)
{
	uint64_t before = 0;

	(void)table_get(&r->counts, key_of(stat, index), &before);
	return reader_count_set(r, stat, index, before + value);
}

/* ---- TraceStats ---- */

/* Field number -> statistic + 1. */
static const uint8_t buffer_stats[] = {
	[TRACE_STATS__BUFFER_STATS__BYTES_WRITTEN] = STAT_traced_buf_bytes_written + 1,
	[TRACE_STATS__BUFFER_STATS__CHUNKS_WRITTEN] = STAT_traced_buf_chunks_written + 1,
	[TRACE_STATS__BUFFER_STATS__CHUNKS_OVERWRITTEN] = STAT_traced_buf_chunks_overwritten + 1,
	[TRACE_STATS__BUFFER_STATS__WRITE_WRAP_COUNT] = STAT_traced_buf_write_wrap_count + 1,
	[TRACE_STATS__BUFFER_STATS__PATCHES_SUCCEEDED] = STAT_traced_buf_patches_succeeded + 1,
	[TRACE_STATS__BUFFER_STATS__PATCHES_FAILED] = STAT_traced_buf_patches_failed + 1,
	[TRACE_STATS__BUFFER_STATS__READAHEADS_SUCCEEDED] =
		STAT_traced_buf_readaheads_succeeded + 1,
	[TRACE_STATS__BUFFER_STATS__READAHEADS_FAILED] = STAT_traced_buf_readaheads_failed + 1,
	[TRACE_STATS__BUFFER_STATS__ABI_VIOLATIONS] = STAT_traced_buf_abi_violations + 1,
	[TRACE_STATS__BUFFER_STATS__CHUNKS_REWRITTEN] = STAT_traced_buf_chunks_rewritten + 1,
	[TRACE_STATS__BUFFER_STATS__CHUNKS_COMMITTED_OUT_OF_ORDER] =
		STAT_traced_buf_chunks_committed_out_of_order + 1,
	[TRACE_STATS__BUFFER_STATS__BUFFER_SIZE] = STAT_traced_buf_buffer_size + 1,
	[TRACE_STATS__BUFFER_STATS__BYTES_OVERWRITTEN] = STAT_traced_buf_bytes_overwritten + 1,
	[TRACE_STATS__BUFFER_STATS__BYTES_READ] = STAT_traced_buf_bytes_read + 1,
	[TRACE_STATS__BUFFER_STATS__PADDING_BYTES_WRITTEN] =
		STAT_traced_buf_padding_bytes_written + 1,
	[TRACE_STATS__BUFFER_STATS__PADDING_BYTES_CLEARED] =
		STAT_traced_buf_padding_bytes_cleared + 1,
	[TRACE_STATS__BUFFER_STATS__CHUNKS_READ] = STAT_traced_buf_chunks_read + 1,
	[TRACE_STATS__BUFFER_STATS__CHUNKS_DISCARDED] = STAT_traced_buf_chunks_discarded + 1,
	[TRACE_STATS__BUFFER_STATS__TRACE_WRITER_PACKET_LOSS] =
		STAT_traced_buf_trace_writer_packet_loss + 1,
	[TRACE_STATS__BUFFER_STATS__CHUNKS_RELOCATED] = STAT_traced_buf_chunks_relocated + 1,
};
static const uint8_t session_stats[] = {
	[TRACE_STATS__PRODUCERS_CONNECTED] = STAT_traced_producers_connected + 1,
	[TRACE_STATS__PRODUCERS_SEEN] = STAT_traced_producers_seen + 1,
	[TRACE_STATS__DATA_SOURCES_REGISTERED] = STAT_traced_data_sources_registered + 1,
	[TRACE_STATS__DATA_SOURCES_SEEN] = STAT_traced_data_sources_seen + 1,
	[TRACE_STATS__TRACING_SESSIONS] = STAT_traced_tracing_sessions + 1,
	[TRACE_STATS__TOTAL_BUFFERS] = STAT_traced_total_buffers + 1,
	[TRACE_STATS__CHUNKS_DISCARDED] = STAT_traced_chunks_discarded + 1,
	[TRACE_STATS__PATCHES_DISCARDED] = STAT_traced_patches_discarded + 1,
	[TRACE_STATS__FLUSHES_REQUESTED] = STAT_traced_flushes_requested + 1,
	[TRACE_STATS__FLUSHES_SUCCEEDED] = STAT_traced_flushes_succeeded + 1,
	[TRACE_STATS__FLUSHES_FAILED] = STAT_traced_flushes_failed + 1,
};

/* What @stats (of @n) has for a number field; a value that is missing is 0. */
static int read_numbers(struct reader *r, const uint8_t *stats, size_t n, int32_t index,
			struct cursor c)
{
	struct wire_field f;
	int e = 0;

	for (size_t i = 0; e >= 0 && i < n; i++)
		if (stats[i])
			e = reader_count_set(r, (enum trace_stat)(stats[i] - 1), index, 0);
	while (e >= 0 && wire_next(&c, &f))
		if (f.wire != WIRE_BYTES && f.number < n && stats[f.number])
			e = reader_count_set(r, (enum trace_stat)(stats[f.number] - 1), index,
					     f.value);
	if (e < 0)
		return trace(e);
	return c.bad ? READER_BROKEN : 0;
}

static int read_writer(struct reader *r, struct cursor c)
{
	uint64_t sequence = 0, buffer = 0;
	struct wire_field f;
	int e;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, TRACE_STATS__WRITER_STATS__SEQUENCE_ID))
			sequence = f.value;
		else if (wire_is(&f, TRACE_STATS__WRITER_STATS__BUFFER))
			buffer = f.value;
	}
	if (c.bad)
		return READER_BROKEN;
	if (r->buffer_of_sequence.n_used > r->n_sequences + MAX_WRITERS)
		return 0; /* more than have packets here */
	e = table_put(&r->buffer_of_sequence, sequence, min_u64(buffer, INT32_MAX));
	return e < 0 ? trace(e) : 0;
}

static int read_final_flush(struct reader *r, uint64_t outcome)
{
	if (outcome == PB__TRACE_STATS__FINAL_FLUSH_OUTCOME__FINAL_FLUSH_SUCCEEDED)
		return reader_count_add(r, STAT_traced_final_flush_succeeded, -1, 1);
	if (outcome == PB__TRACE_STATS__FINAL_FLUSH_OUTCOME__FINAL_FLUSH_FAILED)
		return reader_count_add(r, STAT_traced_final_flush_failed, -1, 1);
	return 0;
}

static int read_trace_stats(struct reader *r, struct cursor c)
{
	struct cursor again = c;
	struct wire_field f;
	int32_t buffer = 0;
	int e = read_numbers(r, session_stats, ARRAY_SIZE(session_stats), -1, c);

	table_clear(&r->buffer_of_sequence);
	while (!e && wire_next(&again, &f)) {
		if (wire_is_bytes(&f, TRACE_STATS__BUFFER_STATS) && buffer < MAX_BUFFERS)
			e = read_numbers(r, buffer_stats, ARRAY_SIZE(buffer_stats), buffer++,
					 wire_message(&f));
		else if (wire_is_bytes(&f, TRACE_STATS__WRITER_STATS))
			e = read_writer(r, wire_message(&f));
		else if (wire_is(&f, TRACE_STATS__FINAL_FLUSH_OUTCOME))
			e = read_final_flush(r, f.value);
	}
	if (e < 0)
		return trace(e);
	return e || again.bad ? READER_BROKEN : 0;
}

/* ---- what the config contains of itself ---- */

static bool is_discard(struct cursor c)
{
	struct wire_field f;
	bool discard = false;

	while (wire_next(&c, &f))
		if (wire_is(&f, TRACE_CONFIG__BUFFER_CONFIG__FILL_POLICY))
			discard = f.value == PB__TRACE_CONFIG__BUFFER_CONFIG__FILL_POLICY__DISCARD;
	return discard;
}

static int read_trace_config(struct reader *r, struct cursor c)
{
	struct reader_config config = {0};
	struct wire_field f;

	while (wire_next(&c, &f)) {
		if (wire_is_bytes(&f, TRACE_CONFIG__BUFFERS) && config.n_buffers < MAX_BUFFERS) {
			if (is_discard(wire_message(&f)))
				config.discard[config.n_buffers / 32] |= 1u
									 << config.n_buffers % 32;
			config.n_buffers++;
		} else if (wire_is(&f, TRACE_CONFIG__WRITE_INTO_FILE)) {
			config.write_into_file = f.value;
		} else if (wire_is(&f, TRACE_CONFIG__FILE_WRITE_PERIOD_MS)) {
			config.write_ms = f.value;
		} else if (wire_is(&f, TRACE_CONFIG__FLUSH_PERIOD_MS)) {
			config.flush_ms = f.value;
		}
	}
	r->config = config;
	return c.bad ? READER_BROKEN : 0;
}

static int read_system_info(struct reader *r, struct cursor c)
{
	static const char prefix[] = "Perfetto v";
	struct wire_field f;

	while (wire_next(&c, &f)) {
		size_t i = sizeof(prefix) - 1;

		if (!wire_is_bytes(&f, SYSTEM_INFO__TRACING_SERVICE_VERSION) || f.len < i ||
		    memcmp(f.data, prefix, i) != 0)
			continue;
		for (r->service_version = 0;
		     i < f.len && f.data[i] >= '0' && f.data[i] <= '9' && r->service_version < 1000;
		     i++)
			r->service_version = r->service_version * 10 + (f.data[i] - (uint32_t)'0');
	}
	return c.bad ? READER_BROKEN : 0;
}

/* ---- statistics of the recorder ---- */

/* A count of one session: the counts of all sequences are added up.  Of other figures the last one stays. */
static bool is_added_up(const char *name)
{
	static const char *const prefixes[] = {"stacks.", "lost.", "skipped.", "frames", "waits"};

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return true;
	return !strcmp(name, "samples") || !strcmp(name, "idle") || !strcmp(name, "thinned");
}

/* What @sequence has added to the sum at @index gives way to @value. */
static int replace_stat(struct reader *r, uint32_t sequence, uint64_t index, double value)
{
	struct profile_stat *stat = &r->profile->stats[index];
	uint64_t key = (uint64_t)sequence << 32 | stat->name, bits = 0;
	double before = 0;

	if (!is_added_up(string_table_text(&r->profile->strings, stat->name))) {
		stat->value = value;
		return 0;
	}
	if (!isfinite(value))
		return 0;
	if (table_get(&r->stat_of_sequence, key, &bits))
		memcpy(&before, &bits, sizeof(before));
	stat->value += value - before;
	memcpy(&bits, &value, sizeof(bits));
	return reader_put(r, HELD_STATS, &r->stat_of_sequence, key, bits);
}

static int read_stat(struct reader *r, uint32_t sequence, struct cursor c)
{
	struct profile *profile = r->profile;
	struct profile_stat stat = {0};
	struct wire_field f;
	uint64_t index;
	int e;

	while (wire_next(&c, &f)) {
		if (wire_is_bytes(&f, PERFWIND_STATS__STAT__NAME)) {
			e = reader_string(r, f.data, f.len, &stat.name);
			if (e < 0)
				return trace(e);
		} else if (wire_is(&f, PERFWIND_STATS__STAT__VALUE) && f.wire == WIRE_64) {
			memcpy(&stat.value, &f.value, sizeof(stat.value));
		}
	}
	if (c.bad)
		return READER_BROKEN;
	if (!stat.name)
		return 0;
	if (table_get(&r->stat_by_name, stat.name, &index))
		return replace_stat(r, sequence, index, stat.value);
	e = ROOM_FOR_ONE(profile->stats, profile->n_stats, r->room_stats);
	if (e >= 0)
		e = reader_put(r, HELD_STATS, &r->stat_by_name, stat.name, profile->n_stats);
	if (e < 0)
		return trace(e);
	profile->stats[profile->n_stats++] = (struct profile_stat){.name = stat.name};
	return replace_stat(r, sequence, profile->n_stats - 1, stat.value);
}

int reader_note(struct reader *r, const char *text, size_t len)
{
	struct profile *profile = r->profile;
	uint64_t index;
	uint32_t id;
	int e;

	if (profile->n_notes >= MAX_NOTES)
		return 0;
	e = reader_string(r, text, len, &id);
	if (e < 0)
		return trace(e);
	if (table_get(&r->note_by_text, id, &index))
		return 0;
	e = ROOM_FOR_ONE(profile->notes, profile->n_notes, r->room_notes);
	if (e < 0)
		return trace(e);
	e = table_put(&r->note_by_text, id, profile->n_notes);
	if (e < 0)
		return trace(e);
	profile->notes[profile->n_notes++] = id;
	return 0;
}

static int read_stats(struct reader *r, uint32_t sequence, struct cursor c)
{
	struct wire_field f;
	int e = 0;

	while (wire_next(&c, &f)) {
		if (wire_is_bytes(&f, PERFWIND_STATS__STATS))
			e = read_stat(r, sequence, wire_message(&f));
		else if (wire_is_bytes(&f, PERFWIND_STATS__NOTES))
			e = reader_note(r, (const char *)f.data, f.len);
		else if (wire_is_bytes(&f, PERFWIND_STATS__BEGIN))
			e = begin_mark(r, wire_message(&f));
		else if (wire_is_bytes(&f, PERFWIND_STATS__END))
			e = end_mark(r, wire_message(&f));
		if (e)
			return e < 0 ? trace(e) : e;
	}
	return c.bad ? READER_BROKEN : 0;
}

int reader_statistics(struct reader *r, uint32_t sequence, const struct wire_field *f)
{
	switch (f->number) {
	case TRACE_PACKET__PERFWIND_STATS:
		return read_stats(r, sequence, wire_message(f));
	case TRACE_PACKET__TRACE_STATS:
		return read_trace_stats(r, wire_message(f));
	case TRACE_PACKET__TRACE_CONFIG:
		return read_trace_config(r, wire_message(f));
	default:
		return read_system_info(r, wire_message(f));
	}
}

static int count_config(struct reader *r)
{
	const struct reader_config *c = &r->config;
	uint64_t overwritten;
	int e = 0;

	if (!c->write_into_file)
		return 0;
	if (!c->flush_ms && r->service_version < FLUSHES_BY_ITSELF)
		e = reader_count_set(r, STAT_config_write_into_file_no_flush, -1, 1);
	for (uint32_t i = 0; e >= 0 && i < c->n_buffers; i++) {
		if (c->discard[i / 32] >> i % 32 & 1)
			e = reader_count_set(r, STAT_config_write_into_file_discard, (int32_t)i, 1);
		if (e >= 0 && c->write_ms < RING_WRITE_MS &&
		    table_get(&r->counts, key_of(STAT_traced_buf_bytes_overwritten, (int32_t)i),
			      &overwritten) &&
		    overwritten)
			e = reader_count_set(r, STAT_long_trace_mode_bytes_overwritten, (int32_t)i,
					     overwritten);
	}
	return e < 0 ? trace(e) : 0;
}

/* ---- the end ---- */

/* Holes of a sequence go to its buffer; where no service names it, to no index: they are reported all the same. */
static int count_sequence(struct reader *r, const struct sequence *s)
{
	static const enum trace_stat causes[DROP_CAUSES] = {
		STAT_traced_buf_data_loss_read_gap,
		STAT_traced_buf_data_loss_chunk_corrupted,
		STAT_traced_buf_data_loss_orphan_continuation,
		STAT_traced_buf_data_loss_reassembly_gap,
		STAT_traced_buf_data_loss_reassembly_broken_chain,
		STAT_traced_buf_data_loss_overwrite,
		STAT_traced_buf_data_loss_writer_abort,
		STAT_traced_buf_data_loss_smb_full,
	};
	uint64_t buffer = 0;
	bool known = table_get(&r->buffer_of_sequence, s->id, &buffer);
	int32_t index = known ? (int32_t)buffer : -1;
	bool useless = s->unmet && s->unmet == s->needs;
	int e = 0;

	if (known || s->dropped)
		e = reader_count_add(r, STAT_traced_buf_sequence_packet_loss, index, s->dropped);
	if (e >= 0 && (known || useless))
		e = reader_count_add(r, STAT_traced_buf_incremental_sequences_dropped, index,
				     useless);
	for (size_t i = 0; e >= 0 && i < DROP_CAUSES; i++)
		if (known || s->causes[i])
			e = reader_count_add(r, causes[i], index, s->causes[i]);
	return e < 0 ? trace(e) : 0;
}

static int count_shards(struct reader *r)
{
	int e = 0;

	for (size_t i = 0; e >= 0 && i < r->n_sessions; i++) {
		if (!r->events[i].shard_count)
			continue;
		e = reader_count_set(r, STAT_perf_process_shard_count, (int32_t)i,
				     r->events[i].shard_count);
		if (e >= 0)
			e = reader_count_set(r, STAT_perf_chosen_process_shard, (int32_t)i,
					     r->events[i].shard);
	}
	return e < 0 ? trace(e) : 0;
}

static int compare_counts(const void *a, const void *b)
{
	const struct profile_count *x = a, *y = b;

	return ascend(x->stat, y->stat) ?: ascend(x->index, y->index);
}

int reader_finish_counts(struct reader *r)
{
	struct profile *p = r->profile;
	int e = count_config(r);

	if (e >= 0)
		e = reader_finish_end(r);
	for (size_t i = 0; e >= 0 && i < r->n_sequences; i++)
		e = count_sequence(r, &r->sequences[i]);
	if (e >= 0)
		e = count_shards(r);
	if (e < 0)
		return trace(e);
	p->counts = reallocarray(NULL, r->counts.n_used + 1, sizeof(*p->counts));
	if (!p->counts)
		return fail(-ENOMEM);
	table_for_each (&r->counts, slot)
		p->counts[p->n_counts++] = (struct profile_count){
			.stat = (uint32_t)(slot->key >> 32),
			.index = (int32_t)((uint32_t)slot->key - 1),
			.value = slot->value,
		};
	if (p->n_counts)
		qsort(p->counts, p->n_counts, sizeof(*p->counts), compare_counts);
	return 0;
}
