/* profile-reader.h - the state of a trace that is being read, shared by the parts of the reader.
 * Private to profile/.  Thread: main (of a command).
 *
 *   profile.c          the file, bounds of what a trace may hold, bytes (of compressed packets too) into packets
 *   profile-packet.c   what a packet adds: sequences, samples, events; processes and threads by their incarnation
 *   profile-content.c  interned tables and ModuleSymbols into modules, frames and stacks, each once
 *   profile-count.c    losses, as trace_processor's stats; the end of the file
 *   profile-mark.c     tracks and their events into marks and sections
 *   profile-finish.c   after the last packet: clocks, events, followers, weights, late names
 *
 * The file and the content of compressed packets pass through in pieces.  Each packet's content is counted
 * by reader_hold() before it is kept. */
#pragma once

#include "profile/profile.h"
#include "protos/wire.h"
#include "profile/trace-stats.h"

/* Room for one more behind the @n that are in @p: 0 or -ENOMEM. */
#define ROOM_FOR_ONE(p, n, room) ((n) == (room) && !array_grow(p, room, 64) ? fail(-ENOMEM) : 0)

enum { /* clock ids of the format: profile-finish.c */
       CLOCK_ID_BOOTTIME = 6,
       CLOCK_ID_SEQUENCE_FIRST = 64, /* these belong to a sequence */
       CLOCK_ID_SEQUENCE_END = 128,
};

enum { READER_FOLLOWERS = 32 }; /* of one event */

/* What a trace may have only so many of (profile.c). */
enum reader_kind {
	HELD_PACKETS, /* passed: they take time */
	HELD_SAMPLES,
	HELD_PROCESSES,
	HELD_THREADS,
	HELD_NODES,
	HELD_FRAMES,
	HELD_LINES,
	HELD_MODULES,
	HELD_NAMES,
	HELD_TEXT,
	HELD_DEMANGLED, /* bytes, also of names that are there already: it takes time */
	HELD_INTERNED,
	HELD_SEQUENCES,
	HELD_SYMBOLS,
	HELD_STATS,
	HELD_COUNTS,
	HELD_CLOCKS,
	HELD_FOLLOWERS,
	HELD_NUMBERS, /* in tables that lead to processes and threads */
	HELD_STREAMS,
	HELD_TRACKS,
	HELD_MARKS,
	HELD_KINDS
};

struct reader_event {
	char name[128];
	char unit[16];
	bool is_time;
	uint64_t period, frequency; /* one is 0 */
	uint32_t shard_count, shard;
	uint32_t followers[READER_FOLLOWERS]; /* names, in the profile's strings */
	uint32_t n_followers;
};

/* A clock of one sequence, in terms of a common one, since its last snapshot. */
struct sequence_clock {
	uint32_t id, base; /* base: the common clock's id */
	bool incremental;
	uint64_t multiplier;
	uint64_t last; /* incremental: its value now, ns */
	uint64_t at, base_at;
};

/* Values in tables of a sequence, besides indices of stacks: the sample has none, and counts.  Of
 * mappings: without a module. */
enum { STACK_EMPTY = UINT32_MAX - 1, STACK_BROKEN = UINT32_MAX - 2, MODULE_NONE = UINT32_MAX - 3 };

/* iid -> value.  Producers number from 1 on, or from where they were: an array; a table has others. */
struct iids {
	uint32_t *dense; /* of iids from base on: value + 1; 0: none */
	uint64_t base;
	uint32_t room, n;
	struct table sparse;
	uint64_t bytes;
};

static inline bool iids_get(const struct iids *t, uint64_t iid, uint32_t *ret_value)
{
	uint64_t value;

	if (iid - t->base < t->room && t->dense[iid - t->base]) {
		*ret_value = t->dense[iid - t->base] - 1;
		return true;
	}
	if (!t->sparse.n_used || !table_get(&t->sparse, iid, &value))
		return false;
	*ret_value = (uint32_t)value;
	return true;
}

enum { DROP_CAUSES = 8 }; /* bits of previous_packet_dropped behind the first */

struct sequence {
	uint32_t id;
	/* packets that report a hole before them, in all and by cause; that need interned state,
	 * and the samples among these that found none */
	uint32_t dropped, causes[DROP_CAUSES], needs, unmet;
	bool valid;	 /* incremental state is whole */
	uint8_t session; /* of its samples */
	uint32_t default_clock;
	struct reader_event event;
	struct sequence_clock *clocks;
	size_t n_clocks, room_clocks;
	/* iid -> id in profile->strings; index in modules, frames, stacks */
	struct iids function_names, mapping_paths, build_ids, source_paths, mappings, frames,
		callstacks;
};

/* Of the sample with the same index, its time is of `clock`, and its weight is a count until all
 * are known. */
struct raw_sample {
	uint32_t sequence;	 /* index */
	uint32_t first_follower; /* in follower_counts */
	uint8_t n_followers;
	uint8_t clock;
	bool has_count;
};

/* A stack that was read lately, outermost first: most begin as one of these. */
struct recent_stack {
	uint32_t *frames, *nodes, *hashes;
	size_t n, room;
};
enum { RECENT_STACKS = 8 };

/* Bytes that become packets. */
struct packet_stream {
	struct buffer held; /* of the packet that is not whole yet */
	uint64_t good;	    /* bytes up to the end of the last good packet */
	uint64_t skip;	    /* bytes to come of a packet that is too large */
};

struct clock_pair {
	uint64_t at, trace;
};

struct reader_symbol {
	uint32_t module, first_line, n_lines, order;
	uint64_t address;
};

/* What the reader knows of a process entry. */
struct reader_incarnation {
	uint64_t number;   /* 0: of a producer that does not number incarnations */
	uint32_t sequence; /* that gave the number */
	bool sampled;
};

struct reader {
	struct profile *profile;
	struct sequence *sequences;
	size_t n_sequences, room_sequences;
	struct table sequence_by_id;	 /* index + 1 */
	struct reader_event events[256]; /* by session; of the last defaults */
	size_t n_sessions;

	/* of profile->samples */
	struct raw_sample *raw;
	size_t room_samples, room_raw;
	uint64_t *follower_counts; /* of samples, one behind the other */
	size_t n_follower_counts, room_follower_counts;
	struct clock_pairs {
		struct clock_pair *pairs;
		size_t n, room;
	} clocks[CLOCK_ID_SEQUENCE_FIRST];
	uint32_t primary_clock;

	/* profile-packet.c: indices in processes and threads */
	struct table process_by_sequence, process_by_pid, process_by_incarnation;
	struct table thread_by_key, thread_by_name, thread_by_tid;
	struct reader_incarnation *incarnations; /* by process */
	bool *thread_sampled;
	size_t room_incarnations, room_thread_sampled;

	struct table track_by_uuid; /* index in tracks */
	bool *track_waits;	    /* by track: the next end on it is a wait's */
	size_t room_tracks, room_track_waits, room_marks;

	struct reader_symbol *symbols;
	size_t n_symbols, room_symbols;
	struct string_table mangled; /* names of functions as they came */
	uint32_t *demangled;	     /* by id in it - 1: id in the profile's strings */
	size_t room_demangled;
	uint64_t seed;
	struct hash_index modules, frames, nodes; /* by content */
	uint32_t *node_hash;
	size_t room_modules, room_frames, room_lines, room_nodes, room_node_hash, room_threads,
		room_processes, room_tasks, room_stats, room_notes;
	struct table stat_by_name, stat_of_sequence, note_by_text;

	uint32_t *scratch; /* frames of the stack being read */
	size_t n_scratch, room_scratch;
	struct recent_stack recent[RECENT_STACKS];
	unsigned next_recent;

	struct packet_stream outer, inner; /* the file; a compressed packet */
	struct inflater *inflater;
	bool in_compressed;

	uint64_t fed, inflated; /* bytes so far */
	uint64_t held;		/* bytes of memory, counted by reader_hold() */
	uint64_t n_held[HELD_KINDS];
	uint64_t without_state; /* samples without their interned state, which was lost */
	bool guardrail;
	struct { /* profile-count.c: since the file's first packet, or its end mark */
		bool open;
		uint32_t behind_ms;
		uint64_t packets;
	} marked;

	/* profile-count.c: stat << 32 | index + 1 -> value; the buffer of each sequence */
	struct table counts, buffer_of_sequence;
	struct reader_config { /* of the trace */
		bool write_into_file;
		uint64_t write_ms, flush_ms;
		uint32_t n_buffers;
		uint32_t discard[4]; /* bits, by buffer */
	} config;
	uint32_t service_version;
};

/* 0; > 0: READER_BROKEN, the packet is damaged; < 0: our own failure. */
enum { READER_BROKEN = 1 };

/* profile-packet.c.  A whole packet.  *ret_packed: packets that it has compressed, which are not read; data NULL: none. */
int reader_packet(struct reader *r, const uint8_t *data, size_t len, struct wire_field *ret_packed);

/* profile.c.  @n more of a kind, of @bytes in all: -E2BIG when that is over a bound. */
int reader_hold(struct reader *r, enum reader_kind kind, uint64_t n, uint64_t bytes);
void reader_release(struct reader *r, enum reader_kind kind, uint64_t n, uint64_t bytes);
/* table_put() with the memory held, as one of @kind. */
int reader_put(struct reader *r, enum reader_kind kind, struct table *t, uint64_t key,
	       uint64_t value);
/* profile-count.c */
int reader_note(struct reader *r, const char *text, size_t len); /* each text once */
/* A part of a packet: PerfwindStats of writer @sequence, TraceStats, TraceConfig or SystemInfo. */
int reader_statistics(struct reader *r, uint32_t sequence, const struct wire_field *part);

/* profile-count.c.  @index -1: none. */
int reader_count_add(struct reader *r, enum trace_stat stat, int32_t index, uint64_t value);
int reader_count_set(struct reader *r, enum trace_stat stat, int32_t index, uint64_t value);
int reader_finish_counts(struct reader *r);

/* profile-content.c */
int reader_interned_data(struct reader *r, struct sequence *s, struct cursor c);
void sequence_forget(struct reader *r, struct sequence *s);

/* profile-content.c: content to index or id, made if new. */
int reader_string(struct reader *r, const void *data, size_t len, uint32_t *ret_id);

/* profile-content.c */
int reader_module_symbols(struct reader *r, struct cursor c);

/* profile-packet.c */
void reader_event_default(struct reader_event *event);

/* profile-finish.c */
int reader_clock_snapshot(struct reader *r, struct sequence *s /* may be NULL */, struct cursor c);
/* A packet's time in the clock *clock of sequence @s, turned into one of a common clock. */
uint64_t reader_sequence_time(struct sequence *s, uint32_t *clock, uint64_t time);

/* profile-finish.c */
int reader_finish(struct reader *r);

/* profile-task.c.  ProcessStats: rows with data of perfwind. */
int reader_process_stats(struct reader *r, struct cursor c);

/* profile-mark.c: a TrackDescriptor; a TrackEvent at @time of @clock; after the last packet, @time_of: a clock's time as trace time. */
int reader_track_descriptor(struct reader *r, struct cursor c);
int reader_track_event(struct reader *r, uint8_t clock, uint64_t time, struct cursor c);
int reader_finish_marks(struct reader *r,
			uint64_t (*time_of)(const struct reader *r, uint32_t clock, uint64_t time));
