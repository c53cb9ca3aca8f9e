/* verdict.h - what a recording came to: for a person, for a program, and live.  Thread: main. */
#pragma once

#include "import/import.h"
#include "session/session.h"
#include "tracing/trace-session.h"

struct record_more;
struct verdict {
	const struct session_summary *summary;
	const char *file;
	const char *event;
	uint64_t frequency, period;	    /* one is 0 */
	const struct import_damage *damage; /* of an import; else NULL */
	uint32_t stack_bytes;		    /* of an import: of a copy, at most */
	uint64_t unwritten;		    /* samples of the summary that are not in the file */
	bool complete;			    /* the file has its end mark */
	bool switched;			    /* those samples are in earlier files */
	/* Further events of the file: lines, or ",KEY:VALUE" of the object.  NULL: none. */
	const struct record_more *more;
	void (*print_more)(const struct record_more *more, bool json, FILE *out);
};

/* Of the samples that @summary counts: those that the file of @sink lacks, which has @others samples besides.  After a
 * flush. */
uint64_t verdict_unwritten(const struct session_summary *summary, const struct sink *sink,
			   uint64_t others);

/* For the man pages of the commands that have one. */
#define VERDICT_JSON                                                                               \
	"file, bytes    the trace, and its size\nduration_s     how long was sampled, "            \
	"seconds\nsamples        that are in the trace with a stack, or with the reason why it "   \
	"is not whole\ncomplete       true: the trace has its end mark, and all that was "         \
	"recorded until the\n               end; false: it was cut off (a full disk, a closed "    \
	"pipe, a daemon that ended)\nstacks         whole: up to a root; unchecked:\n            " \
	"   callchains "                                                                           \
	"that no unwind information checks; cut: deeper than the "                                 \
	"copy, and the rest could not\n               be read afterwards; failed: how many by "    \
	"reason; of unwritten samples too\nlost           losses in the kernel's rings\n  "        \
	"samples      the kernel's own count (before Linux 6.0: the count in LOST records)\n  "    \
	"sideband     records of mappings, names, forks and exits; /proc replaces them as far\n  " \
	"             as the process still exists\n  records_seen the losses that LOST records "   \
	"in the rings report: a part of the two\n               counts above, never to be added "  \
	"to them\n  throttled_s  seconds, of all CPUs, in which the kernel held sampling back\n  " \
	"unwritten    samples that were taken and are not in the trace: writing it failed, or\n  " \
	"             a daemon's client did not read fast enough\nskipped        samples that "    \
	"perfwind itself left out, by reason; double: two events\n               counted the "     \
	"same moment, one sample of it is in the trace, and nothing is missing\nwaits"             \
	"          of --off-cpu and --wall: n, s "                                                 \
	"(their time); of it "                                                                     \
	"thinned_s, without_stack_s;\n               unknown_s: records of switches were "         \
	"lost\ncpu_accounted  weight of the samples over the CPU "                                 \
	"time that the targets used (1: all\n               of it was seen); null if unknown, or " \
	"if too little ran\nself           cost of perfwind itself: cpu_s, us_per_sample, "        \
	"peak_rss_kb\nmodules_without_symbols\n               files with frames without symbols: " \
	"path, build_id, and the number of\n               samples with these frames"

/* Behind these of import. */
#define VERDICT_JSON_IMPORT                                                         \
	VERDICT_JSON                                                                \
	"\n"                                                                        \
	"damage         what the file has and the trace has not, or not proved\n"   \
	"  bytes_not_read, bad_records\n"                                           \
	"               behind damage, and records left out because of it\n"        \
	"  unproved_modules\n"                                                      \
	"               files taken by path: no build id and no inode proves they " \
	"ran\n"                                                                     \
	"  unread_modules\n"                                                        \
	"               files that are gone, or that another stands for today"

void verdict_print(const struct verdict *verdict, FILE *out);
/* Both: the first without --quiet, the second on standard output if @json. */
void verdict_show(const struct verdict *verdict, bool json);
/* One JSON object and a newline; its keys are an interface (README.md). */
void verdict_print_json(const struct verdict *verdict, FILE *out);
/* The line that is rewritten while recording. */
void verdict_print_live(const struct session_summary *summary, FILE *out);
/* What a trace session came to, in @file, which @sink has written; @complete: it has its
 * end mark. */
void verdict_print_trace(const struct trace_session_summary *summary, const char *file,
			 const struct sink *sink, bool complete, FILE *out);
