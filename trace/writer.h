/* writer.h - a session's packets: interned tables, samples, names, statistics.  Thread: main.
 *
 * One writer is one packet sequence.  Ids are small and only grow; an entry is written once a
 * generation, in the packet that first needs it or before.  Field numbers and rules: protos/ (and
 * what it cites). Nothing is allocated a sample once the tables are warm.
 *
 * How long an id is good: a callstack's for the writer_sample() that follows; a frame's and a mapping's while writer_generation() stays
 * the same (it changes only in writer_forget(), and inside writer_sample(), when the tables have reached their bound). */
#pragma once

#include "base/bytes.h"
#include "base/table.h"
#include "protos/frame-kind.h"
#include "trace/sink.h"

struct writer;

/* An event, for the defaults packet. */
struct writer_event {
	const char *name;	/* NULL or "": the usual name of the counter */
	int32_t counter;	/* PerfEvents.Counter, -1: none */
	const char *tracepoint; /* "GROUP:NAME" or NULL */
	const char *filter;	/* of the tracepoint, or NULL */
	uint32_t raw_type;	/* when neither counter nor tracepoint */
	uint64_t raw_config, raw_config1, raw_config2;
	unsigned modifiers; /* bit N: EventModifier N + 1; 0: it counts everywhere */
};
/* A recording that was made before: times are of its own clock, written as CLOCK_BOOTTIME,
 * and nothing is read from the machine that writes. */
struct writer_past {
	uint64_t first_time;
	uint64_t wall_clock;	       /* CLOCK_REALTIME at first_time; 0: not known */
	const char *release, *machine; /* uname's; NULL: not known */
	uint32_t n_cpus;	       /* 0: not known */
	uint64_t ram_bytes;
};
struct writer_options {
	struct writer_event leader;
	const struct writer_event *followers; /* borrowed while the writer lives */
	size_t n_followers;
	uint64_t period, frequency;  /* one is 0 */
	uint32_t poll_ms;	     /* not 0: counters read at this period instead (both are 0) */
	uint32_t shard_count, shard; /* one of so many shares of the processes; 0: all */
	int clock;		     /* CLOCK_* of the timestamps given to writer_sample */
	uint32_t sequence_id;	     /* trusted_packet_sequence_id; 0: left to a service */
	const char *tool;	     /* "perfwind 0.1", into SystemInfo.tracing_service_version */
	const struct writer_past *past; /* borrowed while the writer lives; NULL: here and now */
};

int writer_new(const struct writer_options *options, struct sink *sink /* borrowed */,
	       struct writer **ret_writer);
struct writer *writer_free(struct writer *writer);

/* Head of a trace: clock snapshot, system info, trace uuid, defaults, fixed internings. */
int writer_start(struct writer *writer);
int writer_clock_snapshot(struct writer *writer);
/* Begins incremental state again: defaults and every interned entry are written again at next use. */
int writer_clear_incremental_state(struct writer *writer);
/* The same if the sink asks for it, and WRITER_RENEWED: then the data that readers need besides
 * interned entries (processes, threads) must be written again too.  Not between writer_callstack() and the
 * writer_sample() that uses it. */
enum { WRITER_RENEWED = 1 };
int writer_renew(struct writer *writer);
/* Packets that the sink has dropped so far. */
uint64_t writer_dropped(const struct writer *writer);

/* ProcessTree.  Samples belong to the incarnation and have the names that were written last before them;
 * incarnations of one pid may take turns.  The main thread is named along. */
struct writer_process {
	uint32_t pid, ppid, uid;
	uint64_t incarnation; /* a number that no other one of the pid has; 0: unknown */
	const char *comm;
	const char *cmdline; /* NUL-separated; NULL: comm stands for it, and is marked so */
	size_t cmdline_len;
	const char *cgroup; /* its path; NULL: not known */
	bool kernel_thread;
};
int writer_process(struct writer *writer, const struct writer_process *process,
		   uint64_t boottime_ns);
int writer_thread(struct writer *writer, uint32_t pid, uint32_t tid, const char *comm,
		  uint64_t boottime_ns);

/* A module -> mapping id.  One mapping serves all processes (start = end = 0; addresses are ELF
 * virtual addresses).  @build_id raw bytes.  @exact_offset: file offset of the executable mapping
 * the frames are in; with
 * @load_bias it is what offline symbolisers check the addresses against.  The kernel's is
 * WRITER_KERNEL_MAPPING. */
enum { WRITER_KERNEL_MAPPING = 1 };
int writer_mapping(struct writer *writer, const char *path, const void *build_id,
		   size_t build_id_len, uint64_t load_bias, uint64_t exact_offset,
		   uint32_t *ret_mapping);
/* A frame -> id.  @name NULL: not known yet (a later call with the same mapping and rel_pc gives
 * the same id). The kernel's have rel_pc 0 and a name.  rel_pc | WRITER_GUESSED: a frame found
 * without unwind information; it has an id of its own and a mark (Frame.kind_str). */
#define WRITER_GUESSED (1ull << 63)
int writer_frame(struct writer *writer, uint32_t mapping, uint64_t rel_pc, const char *name,
		 uint32_t *ret_frame);
/* The same by the id of a name, 0: not known yet.  A name's id is valid as long as the ids of frames
 * are, and its text as long. */
int writer_frame_named(struct writer *writer, uint32_t mapping, uint64_t rel_pc, uint32_t name,
		       uint32_t *ret_frame);
int writer_name(struct writer *writer, const char *name, uint32_t *ret_name);
const char *writer_name_text(const struct writer *writer, uint32_t name);
/* The kind of its code (Frame.kind_str), before the frame's first callstack; FRAME_NATIVE at first. */
void writer_frame_kind(struct writer *writer, uint32_t frame, enum frame_kind kind);
/* What a frame was made of.  name: NULL where it has none yet; borrowed.  false: of an older generation. */
struct writer_frame_parts {
	uint32_t mapping;
	uint64_t rel_pc;
	const char *name;
};
bool writer_frame_parts(const struct writer *writer, uint32_t frame,
			struct writer_frame_parts *ret_parts);
/* Changes when the ids of frames and mappings given out so far have become invalid: a caller that keeps
 * them compares it before each stack. */
uint32_t writer_generation(const struct writer *writer);
/* Drops all frames, names of frames, mappings and callstacks, with the memory for them, and begins a new generation. */
int writer_forget(struct writer *writer);
/* Memory of what it drops. */
size_t writer_table_bytes(const struct writer *writer);
/* Frames @ids, innermost first, -> callstack id.  -ESTALE for a frame of an older generation. */
int writer_callstack(struct writer *writer, const uint32_t *ids, size_t n, uint32_t *ret_callstack);
/* Changes when the callstack ids given out so far have become invalid; never 0. */
uint32_t writer_stack_generation(const struct writer *writer);

struct writer_sample {
	uint64_t time; /* the session's clock */
	uint32_t cpu, pid, tid;
	bool counts_only; /* read by the clock: of no task */
	uint8_t cpu_mode; /* PERF_RECORD_MISC_CPUMODE */
	uint64_t count;	  /* timebase_count: running sum of weights of this CPU */
	const uint64_t *follower_counts;
	size_t n_follower_counts;
	uint32_t callstack;	 /* 0: none (counter only, or skipped) */
	uint32_t unwind_error;	 /* StackUnwindError; 0: none */
	uint32_t skipped_reason; /* SampleSkipReason; 0: not skipped */
};
int writer_sample(struct writer *writer, const struct writer_sample *sample);
/* The source ends here because its own memory passed the limit. */
int writer_guardrail(struct writer *writer, uint64_t boottime_ns);
int writer_lost(struct writer *writer, uint32_t cpu, uint64_t records, uint64_t boottime_ns);

/* Late names and inlined calls: lines innermost first, of one address of one module.  The last one
 * gets the name of its frame, where that has one: a function has one name in a trace. */
struct writer_line {
	const char *function, *file; /* file may be NULL */
	uint32_t line;
	enum frame_kind kind; /* of the code; also of an inlined call */
};
int writer_symbol(struct writer *writer, uint32_t mapping, uint64_t rel_pc,
		  const struct writer_line *lines, size_t n);
/* Frames at @rel_pc have another name than they were written with: it was looked up too early.  true: one had another; writer_symbol()
 * has to follow, which writes it. */
bool writer_rename(struct writer *writer, uint32_t mapping, uint64_t rel_pc, uint32_t name,
		   enum frame_kind kind);
/* Sends collected writer_symbol() lines as ModuleSymbols packets. */
int writer_symbols_flush(struct writer *writer);

/* perfwind's own statistics and notes (protos/perfwind.proto). */
struct writer_stat {
	const char *name; /* "lost.samples" ... */
	double value;
};
int writer_stats(struct writer *writer, const struct writer_stat *stats, size_t n,
		 const char *const *notes, size_t n_notes, uint64_t boottime_ns);
