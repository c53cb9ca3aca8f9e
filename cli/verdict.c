/* verdict.c - see verdict.h. */
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/debug-package.h"
#include "cli/verdict.h"
#include "base/log.h"
#include "perf/gate.h"
#include "session/statistics.h"
#include "session/pipeline/account.h"
#include "symbols/module.h"
#include "profile/profile-text.h"

/* Of fewer samples no share and no mean is worth a figure. */
enum { ENOUGH = 10, STACK_MOST = 65528 /* that the kernel copies */ };
/* Of less CPU time, in a recording of some length, a profile means little. */
#define IDLE_SHARE 0.01
#define IDLE_S 0.3
/* Of more CPU time less than this share was seen: by processes that end before their first sample. */
#define SHORT_S 0.005
#define LATE_SHARE 0.01
#define SHORT_SEEN 0.6

static uint64_t lost_samples(const struct session_summary *s)
{
	return s->counts.lost_exact ? s->counts.lost_samples : s->account.lost_records;
}

/* Nothing was sampled: a recording that works, and no CPU time to see. */
static void print_none(const struct verdict *v, FILE *out)
{
	const struct session_summary *s = v->summary;
	uint64_t missed = lost_samples(s);

	for (int i = 1; i < SKIP_COUNT; i++)
		missed += s->account.skipped[i];
	fprintf(out, "  stacks   none");
	if (missed && missed == s->account.skipped[SKIP_NOT_IN_SCOPE])
		fprintf(out, " (hint: no process in the scope, as of -u or -G, used CPU time)");
	else if (!missed && !v->damage && v->frequency)
		fprintf(out,
			" (hint: less CPU time was used than the %.2f ms of one sample: record for "
			"longer, or raise -F)",
			1e3 / (double)v->frequency);
	else if (!missed && !v->damage)
		fprintf(out, " (hint: the event occurred less than %lu time%s)", v->period,
			v->period == 1 ? "" : "s");
	fprintf(out, "\n");
}

static void print_cut(const struct verdict *v, FILE *out)
{
	const struct account *a = &v->summary->account;
	uint64_t beyond = a->cut - min_u64(a->cut, a->too_deep + a->switched + a->page_absent);
	bool many = LATE_SHARE * (double)a->emitted < (double)beyond;
	const char *open = " (";
	char n[32];

	fprintf(out, ", %s cut", text_count(a->cut, n));
	if (beyond) {
		fprintf(out, "%sdeeper than the copy", open);
		if (many && v->damage)
			fprintf(out, "; hint: %s",
				v->stack_bytes < STACK_MOST ? "perf record --call-graph dwarf,65528"
							    : "perfwind record completes them");
		else if (many && !v->summary->at_sample)
			fprintf(out,
				"; hint: `perfwind doctor` shows whether BPF can copy the rest");
		open = "; ";
	}
	if (a->too_deep) {
		fprintf(out, "%s%s of more than %d frames", open, text_count(a->too_deep, n),
			UW_MAX_FRAMES);
		open = "; ";
	}
	if (a->page_absent) {
		fprintf(out,
			"%s%s at a page of the stack that was not in memory yet, as behind a fork",
			open, text_count(a->page_absent, n));
		open = "; ";
	}
	if (a->switched)
		fprintf(out, "%s%s go on in a stack that is not in the copy, as a goroutine's%s",
			open, text_count(a->switched, n),
			v->damage || !geteuid() ? "" : "; root may read it");
	if (a->cut)
		fprintf(out, ")");
}

/* Where one reason has most stacks.  A note of an import names the files that are missing. */
static const char *failures_hint(const struct verdict *v)
{
	const struct account *a = &v->summary->account;

	if (a->emitted < ENOUGH)
		return NULL;
	if (2 * a->failed[UW_UNREADABLE] > a->emitted && !v->damage)
		return geteuid() ? "the files and the memory of the programs cannot be read; root "
				   "may"
				 : "the files and the memory of the programs cannot be read: "
				   "`perfwind doctor` shows why";
	/* A frame pointer that has another use leads to what is no code, too. */
	if (4 * a->failed[UW_NO_UNWIND_INFO] <= a->emitted ||
	    2 * (a->failed[UW_NO_UNWIND_INFO] + a->failed[UW_NO_MODULE]) <= a->emitted)
		return NULL;
	return v->damage
		       ? "callchains need programs with frame pointers; --call-graph dwarf "
			 "does not"
		       : "--unwinder fp, and code without unwind information, need frame pointers";
}

static void print_stacks(const struct verdict *v, FILE *out)
{
	const struct account *a = &v->summary->account;
	char n[32];
	uint64_t failed = account_failed(a);
	const char *open = " (", *hint = failures_hint(v);
	double frames;

	fprintf(out, "  stacks   %s whole (%.2f %%)", text_count(a->whole, n),
		text_percent(a->whole, a->emitted));
	if (a->by_fp)
		fprintf(out, ", %s by frame pointers, as unwind information fails",
			text_count(a->by_fp, n));
	if (a->completed)
		fprintf(out, ", %s completed from earlier stacks of the same thread",
			text_count(a->completed, n));
	if (a->unchecked)
		fprintf(out, ", %s unchecked (callchains without unwind information)",
			text_count(a->unchecked, n));
	print_cut(v, out);
	fprintf(out, ", %s failed", text_count(failed, n));
	for (int i = 0; i < UW_REASON_COUNT && failed; i++) {
		if (!a->failed[i])
			continue;
		fprintf(out, "%s%s %s", open, uw_reason_name((enum uw_reason)i),
			text_count(a->failed[i], n));
		open = ", ";
	}
	frames = (double)a->frames / (double)a->emitted;
	fprintf(out, "%s; %.0f frame%s each", failed ? ")" : "", frames, frames < 1.5 ? "" : "s");
	if (hint)
		fprintf(out, " (hint: %s)", hint);
	fprintf(out, "\n");
}

static void print_freed(const struct session_summary *s, FILE *out)
{
	uint64_t functions = s->account.freed_functions, samples = stats_freed_samples(s);
	char n[32];

	if (!functions && !samples)
		return;
	fprintf(out, "  script   ");
	if (samples)
		fprintf(out, "%s sample%s (%.2f %%) with functions without a name",
			text_count(samples, n), samples == 1 ? "" : "s",
			text_percent(samples, s->account.emitted));
	if (functions)
		fprintf(out, "%s%s function%s%s", samples ? " (" : "", text_count(functions, n),
			functions == 1 ? "" : "s", samples ? ")" : " without a name");
	fprintf(out, ": freed by the program before perfwind read %s\n",
		samples || functions > 1 ? "them" : "it");
}

static void print_script(const struct session_summary *s, FILE *out)
{
	const struct account *a = &s->account;
	uint64_t later = a->lacks_functions - min_u64(a->lacks_at_start, a->lacks_functions);
	bool many = LATE_SHARE * (double)a->emitted < (double)later;
	char n[32];

	print_freed(s, out);
	if (!a->lacks_functions)
		return;
	fprintf(out, "  script   %s stack%s (%.2f %%) lack functions of the script",
		text_count(a->lacks_functions, n), a->lacks_functions == 1 ? "" : "s",
		text_percent(a->lacks_functions, a->emitted));
	if (a->lacks_at_start)
		fprintf(out, ", %s of these in the first %.1f s of a program",
			later ? text_count(a->lacks_at_start, n) : "all",
			ACCOUNT_START_MS / 1000.0);
	fprintf(out, ": they had changed before perfwind read them%s\n",
		many && !s->at_sample
			? " (hint: `perfwind doctor` shows whether BPF can copy them at the sample)"
			: "");
}

static void print_late(const struct account *a, FILE *out)
{
	uint64_t late = a->skipped[SKIP_MAPS_TIMEOUT] + a->skipped[SKIP_MODULE_TIMEOUT] +
			a->skipped[SKIP_PARK_FULL];
	char n[32];

	if (late > LATE_SHARE * (double)(late + a->emitted))
		fprintf(out,
			"  late     for %s of these samples (%.0f %% of all) the files of new "
			"programs were not read in time: the machine is busy (hint: --realtime, as "
			"root, or a lower -F); their weight is added to others\n",
			text_count(late, n), text_percent(late, late + a->emitted));
}

static void print_losses(const struct session_summary *s, FILE *out)
{
	const struct account *a = &s->account;
	char n[32];

	if (s->counts.lost_exact || lost_samples(s))
		fprintf(out, "  lost     %s%s in the kernel's rings",
			s->counts.lost_exact ? "" : "at least ", text_count(lost_samples(s), n));
	else
		fprintf(out, "  lost     none known in the kernel's rings");
	if (lost_samples(s) && s->counts.small_rings)
		fprintf(out, " (hint: %s)", gate_text(GATE_RINGS, 0, 0).hint);
	if (s->counts.lost_sideband)
		fprintf(out, ", %s process records", text_count(s->counts.lost_sideband, n));
	if (a->throttled_ns)
		fprintf(out,
			", throttled for %.2f s: the kernel allows fewer samples (hint: a lower "
			"-F)",
			(double)a->throttled_ns / 1e9);
	for (int i = 1; i < SKIP_COUNT; i++) {
		/* Of what is double nothing is missing: the same moment is in another sample, with all of its weight. */
		if (a->skipped[i] && i != SKIP_THINNED && i != SKIP_DOUBLE)
			fprintf(out, "; %s skipped (%s)", text_count(a->skipped[i], n),
				skip_reason_name((enum skip_reason)i));
	}
	fprintf(out, "\n");
	print_late(a, out);
	if (a->skipped[SKIP_THINNED])
		fprintf(out, "  thinned  %s samples, their weight is added to others\n",
			text_count(a->skipped[SKIP_THINNED], n));
}

/* The period of a task's timer begins with the task. */
static void print_short_lived(const struct session_summary *s, FILE *out)
{
	if (s->used_s > SHORT_S && s->code & FRAMES_KERNEL && s->cpu_accounted >= 0 &&
	    s->cpu_accounted < SHORT_SEEN && !lost_samples(s) && !s->account.throttled_ns &&
	    account_skipped(&s->account) == s->account.skipped[SKIP_DOUBLE] && !s->account.waits)
		fprintf(out,
			"  short    %.3f s of CPU time were used and little of it was seen; hint: "
			"of "
			"processes that live for less than a sample, `record -a -- COMMAND` sees "
			"more\n",
			s->used_s);
}

static void print_accounted(const struct session_summary *s, FILE *out)
{
	if (s->used_s > 0 && s->used_s < IDLE_SHARE * s->duration_s && s->duration_s > IDLE_S &&
	    s->account.emitted < ENOUGH && !s->account.waits)
		fprintf(out,
			"  idle     the targets used %.3f s of CPU time; hint: record --off-cpu "
			"shows what "
			"they wait for\n",
			s->used_s);
	print_short_lived(s, out);
	if (s->cpu_accounted < 0 || (s->account.emitted && s->account.emitted < ENOUGH))
		return;
	fprintf(out, "  seen     %.1f %% of the CPU time used", 100 * s->cpu_accounted);
	if (!(s->code & FRAMES_KERNEL) && s->cpu_accounted < 0.95)
		fprintf(out, "; the rest was in the kernel%s%s",
			s->account.skipped[SKIP_NOT_IN_SCOPE] ||
					s->account.skipped[SKIP_NOT_ALLOWED]
				? " or in processes out of scope"
				: ", which was not sampled",
			lost_samples(s) || s->account.throttled_ns ? ", or was lost" : "");
	fprintf(out, "\n");
}

/* Shares of time: the number of waits means little. */
static void print_waits(const struct account *a, FILE *out)
{
	uint64_t all = a->wait_ns;
	char n[32];

	if (!a->waits)
		return;
	fprintf(out, "  waits    %s, %.2f s of all threads; %.1f %% of it ",
		text_count(a->waits, n), (double)all / 1e9, text_percent(a->thinned_ns, all));
	fprintf(out, "under the stacks of other waits (thinned), %.1f %% without a stack",
		text_percent(a->unsampled_ns, all));
	if (a->unknown_ns)
		fprintf(out, "; %.3f s unknown (records lost)", (double)a->unknown_ns / 1e9);
	fprintf(out, "\n");
}

enum { JIT_PATH = sizeof("/tmp/perf-") - 1 };

/* As the unwinder calls what has no file: by the perf map that would name it. */
static bool is_jit(const char *path)
{
	return !strncmp(path, "/tmp/perf-", JIT_PATH);
}

static bool is_script(const char *path)
{
	for (int i = UW_LANGUAGE_NONE + 1; i < UW_LANGUAGES; i++)
		if (!strcmp(path, uw_language_path((enum uw_language)i)))
			return true;
	return false;
}

static const char *hint_of(const struct session_unsymbolized *module)
{
	if (module->hint)
		return module->hint;
	return is_jit(module->path) ? "start its runtime with a perf map or jitdump" : NULL;
}

static void print_without_symbols(const struct session_summary *s, FILE *out)
{
	enum { SHOWN = 5 };
	struct debug_package packages[SHOWN] = {0};
	const char *paths[SHOWN], *ids[SHOWN];
	char n[32];
	size_t shown = min_u64(s->n_unsymbolized, SHOWN);
	bool person = isatty(fileno(out));

	for (size_t i = 0; i < shown; i++) {
		paths[i] = hint_of(&s->unsymbolized[i]) ? "" : s->unsymbolized[i].path;
		ids[i] = *paths[i] ? s->unsymbolized[i].build_id : "";
	}
	/* The lists of dpkg and apt are megabytes: read for a person only. */
	if (shown && person)
		debug_packages("", paths, ids, shown, packages);
	for (size_t i = 0; i < shown; i++) {
		const struct session_unsymbolized *module = &s->unsymbolized[i];
		const char *hint = hint_of(module);
		char install[128 + DEBUG_PACKAGE_NAME];

		fprintf(out, "  %s ", i ? "        " : "symbols ");
		if (is_jit(module->path)) /* there may be no file of this name */
			fprintf(out, "JIT code of process %.*s",
				(int)strspn(module->path + JIT_PATH, "0123456789"),
				module->path + JIT_PATH);
		else
			text_print(out, module->path);
		fprintf(out, ": %s sample%s with frames without symbols",
			text_count(module->samples, n), module->samples == 1 ? "" : "s");
		if (is_script(module->path))
			fprintf(out, " (their code was gone before its name was read)");
		else if (hint)
			fprintf(out, " (hint: %s)", hint);
		else if (packages[i].name[0]) {
			debug_package_command("", &packages[i], install, sizeof(install));
			fprintf(out, " (hint: %s)", install);
		} else if (person && module->path[0] == '/') {
			fprintf(out, " (hint: perfwind symbolize --symfs DIR, or --debug-dir DIR, "
				     "of a build with symbols)");
		}
		fprintf(out, "\n");
	}
}

uint64_t verdict_unwritten(const struct session_summary *summary, const struct sink *sink,
			   uint64_t others)
{
	uint64_t emitted = summary->account.emitted, all = emitted + others;

	return min_u64(emitted, all - min_u64(all, sink->written.samples));
}

void verdict_print(const struct verdict *v, FILE *out)
{
	const struct session_summary *s = v->summary;
	const struct account *a = &s->account;
	uint64_t written = a->emitted - v->unwritten;
	char n[32];

	fprintf(out, "%s sample%s in %.1f s (", text_count(written, n), written == 1 ? "" : "s",
		s->duration_s);
	text_print(out, v->event);
	if (v->frequency)
		fprintf(out, ", %lu Hz", v->frequency);
	else if (v->period)
		fprintf(out, ", one each %s", text_count(v->period, n));
	fprintf(out, ")");
	if (v->unwritten)
		fprintf(out, "; %s more are %s", text_count(v->unwritten, n),
			v->switched ? "in the files before it" : "not in the file");
	fprintf(out, "\n");
	print_accounted(s, out);
	print_waits(a, out);
	if (a->emitted && !a->frames && a->waits)
		fprintf(out, "  stacks   none\n");
	else if (a->emitted)
		print_stacks(v, out);
	else
		print_none(v, out);
	print_script(s, out);
	print_losses(s, out);
	if (v->more)
		v->print_more(v->more, false, out);
	fprintf(out, "  cost     ");
	if (a->emitted >= ENOUGH)
		fprintf(out, "%.1f us CPU a sample, ", s->self_us_per_sample);
	fprintf(out, "%.2f s%s in all, %s at most\n", s->self_cpu_s,
		a->emitted >= ENOUGH ? "" : " of CPU", text_size(s->self_peak_rss_kb << 10, n));
	fprintf(out, "  file     ");
	text_print(out, v->file);
	fprintf(out, ", %s", text_size(s->bytes, n));
	if (written >= ENOUGH)
		fprintf(out, " (%.0f bytes a sample)", (double)s->bytes / (double)written);
	fprintf(out, "%s\n",
		v->complete ? ""
		: s->bytes  ? ", cut off: it has no end mark"
			    : ": nothing was written");
	print_without_symbols(s, out);
	fflush(out);
}

void verdict_print_live(const struct session_summary *s, FILE *out)
{
	char samples[32], lost[32], size[32], line[192];
	struct winsize window = {0};
	int room = sizeof(line);

	/* A line that wraps is not replaced by the next one. */
	if (ioctl(fileno(out), TIOCGWINSZ, &window) == 0 && window.ws_col)
		room = window.ws_col - 1;
	(void)snprintf(line, sizeof(line), "%6.1f s  %s samples  %s lost  %.2f %% CPU  %s",
		       s->duration_s, text_count(s->account.emitted, samples),
		       text_count(lost_samples(s), lost),
		       s->duration_s > 0 ? 100 * s->self_cpu_s / s->duration_s : 0.0,
		       text_size(s->bytes, size));
	fprintf(out, "\r\033[K%.*s", room, line);
	fflush(out);
	log_live_line(true);
}

/* ---- JSON ---- */

/* Of @n counts those that are not 0, by the names of their reasons. */
static void json_counts(const char *key, const uint64_t *counts, int n, bool skips, FILE *out)
{
	const char *comma = "";

	fprintf(out, "\"%s\":{", key);
	for (int i = skips; i < n; i++) {
		if (!counts[i])
			continue;
		fprintf(out, "%s\"%s\":%lu", comma,
			skips ? skip_reason_name((enum skip_reason)i)
			      : uw_reason_name((enum uw_reason)i),
			counts[i]);
		comma = ",";
	}
	fprintf(out, "}");
}

static void json_unsymbolized(const struct session_summary *s, FILE *out)
{
	fprintf(out, "\"modules_without_symbols\":[");
	for (size_t i = 0; i < s->n_unsymbolized; i++) {
		text_json_print(out, i ? ",{\"path\":" : "{\"path\":", s->unsymbolized[i].path);
		fprintf(out, ",\"build_id\":\"%s\",\"samples\":%lu}", s->unsymbolized[i].build_id,
			s->unsymbolized[i].samples);
	}
	fprintf(out, "]");
}

void verdict_print_json(const struct verdict *v, FILE *out)
{
	const struct session_summary *s = v->summary;
	const struct account *a = &s->account;

	text_json_print(out, "{\"file\":", v->file);
	fprintf(out, ",\"bytes\":%lu,\"duration_s\":%.3f,\"samples\":%lu,\"complete\":%s,",
		s->bytes, s->duration_s, a->emitted - v->unwritten, v->complete ? "true" : "false");
	fprintf(out,
		"\"stacks\":{\"whole\":%lu,\"unchecked\":%lu,\"lacking_functions\":%lu,\"cut\":%"
		"lu,",
		a->whole, a->unchecked, a->lacks_functions, a->cut);
	json_counts("failed", a->failed, UW_REASON_COUNT, false, out);
	fprintf(out,
		"},\"freed_functions\":%lu,\"lost\":{\"samples\":%lu,\"sideband\":%lu,\"records_"
		"seen\":%lu,\"throttled_s\":"
		"%.6f,\"unwritten\":%lu},",
		a->freed_functions, lost_samples(s), s->counts.lost_sideband,
		a->lost_records + a->lost_sideband_records, (double)a->throttled_ns / 1e9,
		v->unwritten);
	json_counts("skipped", a->skipped, SKIP_COUNT, true, out);
	if (a->waits)
		fprintf(out,
			",\"waits\":{\"n\":%lu,\"s\":%.6f,\"thinned_s\":%.6f,\"without_stack_s\":%."
			"6f,"
			"\"unknown_s\":%.6f}",
			a->waits, (double)a->wait_ns / 1e9, (double)a->thinned_ns / 1e9,
			(double)a->unsampled_ns / 1e9, (double)a->unknown_ns / 1e9);
	if (s->cpu_accounted >= 0)
		fprintf(out, ",\"cpu_accounted\":%.4f,", s->cpu_accounted);
	else
		fprintf(out, ",\"cpu_accounted\":null,");
	fprintf(out, "\"self\":{\"cpu_s\":%.4f,\"us_per_sample\":%.3f,\"peak_rss_kb\":%lu},",
		s->self_cpu_s, s->self_us_per_sample, s->self_peak_rss_kb);
	json_unsymbolized(s, out);
	if (v->more)
		v->print_more(v->more, true, out);
	if (v->damage)
		fprintf(out,
			",\"damage\":{\"bytes_not_read\":%lu,\"bad_records\":%lu,"
			"\"unproved_modules\":%lu,\"unread_modules\":%lu}",
			v->damage->bytes_not_read, v->damage->bad_records,
			v->damage->unproved_modules, v->damage->unread_modules);
	fprintf(out, "}\n");
}

void verdict_show(const struct verdict *v, bool json)
{
	if (log_level > LOG_LEVEL_QUIET)
		verdict_print(v, stderr);
	if (json)
		verdict_print_json(v, stdout);
}

void verdict_print_trace(const struct trace_session_summary *s, const char *file,
			 const struct sink *sink, bool complete, FILE *out)
{
	char n[32];

	fprintf(out, "%s sample%s in %.1f s from %zu data source%s", text_count(s->samples, n),
		s->samples == 1 ? "" : "s", s->duration_s, s->n_sources,
		s->n_sources == 1 ? "" : "s");
	if (sink->written.samples < s->samples)
		fprintf(out, ", %s in the file", text_count(sink->written.samples, n));
	if (s->out_of_scope)
		fprintf(out, ", and %s out of scope", text_count(s->out_of_scope, n));
	fprintf(out, "\n");
	if (s->whole + s->cut + s->failed) {
		fprintf(out, "  stacks   %s whole (%.2f %%)", text_count(s->whole, n),
			text_percent(s->whole, s->samples));
		fprintf(out, ", %s cut", text_count(s->cut, n));
		fprintf(out, ", %s failed%s\n", text_count(s->failed, n),
			s->failed ? " (perfwind report prints the reasons)" : "");
	}
	fprintf(out, "  lost     %s in the kernel's rings", text_count(s->lost, n));
	if (s->skipped)
		fprintf(out, "; %s skipped (perfwind report prints the reasons)",
			text_count(s->skipped, n));
	if (s->overwritten)
		fprintf(out, "; %s packets overwritten in a RING_BUFFER, as configured",
			text_count(s->overwritten, n));
	if (s->discarded)
		fprintf(out, "; %s packets that a full buffer did not take",
			text_count(s->discarded, n));
	fprintf(out, "\n  cost     %.2f s of CPU\n  file     ", s->self_cpu_s);
	text_print(out, file);
	fprintf(out, ", %s%s%s\n", text_size(sink->bytes, n),
		s->full ? " (full: max_file_size_bytes)" : "",
		complete ? "" : ", cut off: it has no end mark");
}
