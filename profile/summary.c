/* summary.c - see summary.h. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "profile/summary.h"
#include "profile/profile-text.h"
#include "profile/trace-stats.h"

/* Of fewer samples no share and no mean is worth a figure. */
enum { ENOUGH = 10 };

double summary_duration(const struct profile *profile)
{
	double seconds;

	if (!profile->latest_only && profile_stat_value(profile, "duration_s", &seconds) &&
	    seconds >= 0 && seconds < 1e9)
		return seconds;
	if (profile->n_samples < 2 ||
	    profile->samples[profile->n_samples - 1].time < profile->samples[0].time)
		return 0;
	return (double)(profile->samples[profile->n_samples - 1].time - profile->samples[0].time) /
	       1e9;
}

static struct summary_fact *fact_new(struct summary *s, const char *label)
{
	struct summary_fact *fact = &s->facts[s->n < SUMMARY_MAX ? s->n++ : SUMMARY_MAX - 1];

	*fact = (struct summary_fact){.label = label};
	return fact;
}

_printf_(2, 3) static void fact_append(struct summary_fact *fact, const char *format, ...)
{
	size_t len = strlen(fact->value);
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(fact->value + len, sizeof(fact->value) - len, format, ap);
	va_end(ap);
}

/* A foreign figure as a count. */
static uint64_t as_count(double value)
{
	return value >= 1 && value < 9e18 ? (uint64_t)(value + 0.5) : 0;
}

/* "no-module 12, memory 3": the statistics with names that begin with @prefix, and without samples that are there twice, of which
 * nothing is missing.  Returns their sum. */
static uint64_t append_reasons(struct summary_fact *fact, const struct profile *p,
			       const char *prefix)
{
	uint64_t sum = 0;
	char number[32];

	for (size_t i = 0; i < p->n_stats; i++) {
		const char *name =
			p->stats[i].name ? string_table_text(&p->strings, p->stats[i].name) : "";
		uint64_t value = as_count(p->stats[i].value);

		if (strncmp(name, prefix, strlen(prefix)) || !strcmp(name, "skipped.double") ||
		    !value)
			continue;
		if (fact)
			fact_append(fact, "%s%.40s %s", sum ? ", " : "", name + strlen(prefix),
				    text_count(value, number));
		sum += value;
	}
	return sum;
}

/* "process 12, cgroup /x" */
static void add_filter(struct summary *s, const struct profile_filter *only)
{
	struct summary_fact *fact;
	const char *comma = "";

	if (!only)
		return;
	fact = fact_new(s, "Only");
	if (only->pid) {
		fact_append(fact, "process %u", only->pid);
		comma = ", ";
	}
	for (size_t i = 0; i < 6; i++) {
		const char *const what[] = {"cgroup",	"thread", "name",
					    "function", "during", "outside"};
		const char *const value[] = {only->cgroup,   only->thread, only->comm,
					     only->function, only->during, only->outside};

		if (!value[i])
			continue;
		fact_append(fact, "%s%s %s", comma, what[i], value[i]);
		comma = ", ";
	}
	if (only->by_cpu) {
		fact_append(fact, "%ssome CPUs", comma);
		comma = ", ";
	}
	if (only->by_time && only->to == UINT64_MAX)
		fact_append(fact, "%sfrom %.3f s", comma, (double)only->from / 1e9);
	else if (only->by_time)
		fact_append(fact, "%s%.3f to %.3f s", comma, (double)only->from / 1e9,
			    (double)only->to / 1e9);
}

static void add_samples(struct summary *s, const struct fold *f)
{
	const struct profile *p = f->profile;
	struct summary_fact *fact = fact_new(s, "Event");
	double seconds = summary_duration(p);
	char number[32];

	fact_append(fact, "%s", *p->event_name ? p->event_name : "unknown");
	for (size_t i = 0, n_shown = 0; i < p->n_events; i++) {
		if (p->n_events > 1 && i != p->event)
			fact_append(fact, "%s %.40s (%s samples)",
				    n_shown++ ? "," : "; not shown (--event NAME):",
				    p->events[i].name, text_count(p->events[i].n_samples, number));
	}
	fact = fact_new(s, "Samples");
	fact->warn = !f->count;
	fact_append(fact, "%s", text_count(f->count, number));
	if (f->only)
		fact_append(fact, " of %s", text_count(p->n_samples, number));
	if (seconds > 0)
		fact_append(fact, " over %.1f s%s", seconds,
			    p->latest_only ? " (of a flight recorder: the latest)" : "");
	if (!f->count)
		return;
	fact_append(fact, ", weight %s", text_weight(f->weight, p->weight_unit, number));
	if (strcmp(p->weight_unit, "ns"))
		fact_append(fact, " %s", p->weight_unit);
}

/* " (of these 3 WORDS, 4 WORDS)" */
static void append_notes(struct summary_fact *fact, const struct profile *p)
{
	static const struct {
		const char *stat, *words;
	} notes[] = {
		{"stacks.by_fp", "by frame pointers, as unwind information fails"},
		{"stacks.completed", "completed from earlier stacks of the same thread"},
	};
	bool any = false;
	char number[32];
	double n;

	for (size_t i = 0; i < ARRAY_SIZE(notes); i++) {
		if (!profile_stat_value(p, notes[i].stat, &n) || !as_count(n))
			continue;
		fact_append(fact, "%s%s %s", any ? ", " : " (of these ",
			    text_count(as_count(n), number), notes[i].words);
		any = true;
	}
	if (any)
		fact_append(fact, ")");
}

static void add_stacks(struct summary *s, const struct fold *f)
{
	struct summary_fact *fact = fact_new(s, "Stacks");
	uint64_t whole = f->count - f->cut - f->failed - f->no_stack;
	double unchecked = 0;
	char number[32];

	if (!f->count) {
		fact_append(fact, "none");
		return;
	}
	/* Which stacks they are is not in the trace. */
	(void)profile_stat_value(f->profile, "stacks.unchecked", &unchecked);
	if (!f->only)
		whole -= min_u64(as_count(unchecked), whole);
	fact_append(fact, "%s whole%s", text_share(whole, f->count, number),
		    f->only && as_count(unchecked) ? " or unchecked" : "");
	if (!f->only)
		append_notes(fact, f->profile);
	if (!f->only && as_count(unchecked))
		fact_append(fact, ", %s unchecked (callchains without unwind information)",
			    text_share(as_count(unchecked), f->count, number));
	if (f->cut)
		fact_append(fact, ", %s cut", text_share(f->cut, f->count, number));
	if (f->failed)
		fact_append(fact, ", %s failed", text_share(f->failed, f->count, number));
	if (f->failed && !f->only && append_reasons(NULL, f->profile, "stacks.failed.")) {
		fact_append(fact, " (");
		append_reasons(fact, f->profile, "stacks.failed.");
		fact_append(fact, ")");
	}
	if (f->no_stack)
		fact_append(fact, ", %s without a stack",
			    text_share(f->no_stack, f->count, number));
	fact->warn = text_percent(whole, f->count) < 95;
}

/* What is not known of an interpreter's functions, in the words of the recording's verdict. */
static void add_script(struct summary *s, const struct fold *f)
{
	double lacking = 0, at_start = 0, freed = 0, samples = 0;
	struct summary_fact *fact;
	char number[32], share[32];

	(void)profile_stat_value(f->profile, "stacks.lacking_functions", &lacking);
	(void)profile_stat_value(f->profile, "stacks.lacking_at_start", &at_start);
	(void)profile_stat_value(f->profile, "functions.freed", &freed);
	(void)profile_stat_value(f->profile, "stacks.with_freed", &samples);
	if (f->only || !f->count || (!as_count(lacking) && !as_count(freed) && !as_count(samples)))
		return;
	fact = fact_new(s, "Script");
	if (as_count(lacking)) {
		fact_append(fact, "%s stack%s (%s) lack functions of the script",
			    text_count(as_count(lacking), number),
			    as_count(lacking) == 1 ? "" : "s",
			    text_share(as_count(lacking), f->count, share));
		if (as_count(at_start))
			fact_append(fact, ", %s of these at the start of a program",
				    at_start < lacking ? text_count(as_count(at_start), number)
						       : "all");
		fact_append(fact, ": they had changed before perfwind read them%s",
			    as_count(freed) || as_count(samples) ? "; " : "");
	}
	if (as_count(samples))
		fact_append(fact, "%s sample%s (%s) with functions without a name",
			    text_count(as_count(samples), number),
			    as_count(samples) == 1 ? "" : "s",
			    text_share(as_count(samples), f->count, share));
	if (as_count(freed))
		fact_append(fact, "%s%s function%s%s", as_count(samples) ? " (" : "",
			    text_count(as_count(freed), number), as_count(freed) == 1 ? "" : "s",
			    as_count(samples) ? ")" : " without a name");
	if (as_count(samples) || as_count(freed))
		fact_append(fact, ": freed before perfwind read %s",
			    as_count(samples) || as_count(freed) > 1 ? "them" : "it");
}

/* Next to the event that is looked at. */
static void add_followers(struct summary *s, const struct profile *p)
{
	struct summary_fact *fact = NULL;
	char number[32];

	for (size_t i = 0; i < p->n_followers; i++) {
		const struct profile_follower *f = &p->followers[i];

		if (f->event != p->event)
			continue;
		fact_append(fact ? fact : fact_new(s, "Counted"), "%s%.60s %s", fact ? ", " : "",
			    string_table_text(&p->strings, f->name), text_count(f->count, number));
		fact = &s->facts[s->n - 1];
	}
}

static void add_guesses(struct summary *s, const struct profile *p)
{
	double guessed, frames;
	struct summary_fact *fact;
	char number[32];

	if (!profile_stat_value(p, "frames.guessed", &guessed) ||
	    !profile_stat_value(p, "frames", &frames) || !as_count(guessed))
		return;
	fact = fact_new(s, "Guessed");
	fact_append(fact,
		    "%s of the frames (no unwind information, earlier stacks, or memory read after "
		    "the sample)",
		    text_share(as_count(guessed), as_count(frames), number));
	fact->warn = guessed > frames / 20;
}

static void add_losses(struct summary *s, const struct fold *f)
{
	const struct profile *p = f->profile;
	struct summary_fact *fact = fact_new(s, "Lost");
	double samples = 0, sideband = 0, throttled = 0, thinned = 0;
	bool known = profile_stat_value(p, "lost.samples", &samples);
	uint64_t lost = known ? as_count(samples) : p->lost_records;
	char number[32];

	(void)profile_stat_value(p, "lost.sideband", &sideband);
	(void)profile_stat_value(p, "lost.throttled_s", &throttled);
	(void)profile_stat_value(p, "thinned", &thinned);
	if (lost) {
		fact_append(fact, "%s %s", text_count(lost, number), known ? "samples" : "records");
		fact_append(fact, " (%s)",
			    text_share(lost, lost + p->n_samples + as_count(thinned), number));
	} else {
		fact_append(fact, profile_is_damaged(p) ? "nothing known, but the file is not whole"
							: "nothing in the rings");
	}
	if (as_count(sideband))
		fact_append(fact, ", %s sideband records", text_count(as_count(sideband), number));
	if (throttled > 0)
		fact_append(fact, ", throttled for %.3f s", throttled);
	if (trace_stat_overwritten(p))
		fact_append(fact, "; the oldest %s made room for newer (RING_BUFFER)",
			    text_size(trace_stat_overwritten(p), number));
	if (lost && profile_is_damaged(p))
		fact_append(fact, "; there may be more, as the file is not whole");
	fact->warn = lost || as_count(sideband) || throttled > 0 || profile_is_damaged(p);
}

/* Of the whole trace. */
static uint64_t skipped_of(const struct fold *f)
{
	const struct profile *p = f->profile;
	uint64_t n = 0;

	if (!f->only)
		return f->skipped;
	for (size_t i = 0; i < p->n_samples; i++)
		n += p->samples[i].skipped_reason != 0;
	return n;
}

static void add_skipped(struct summary *s, const struct fold *f)
{
	uint64_t counted = append_reasons(NULL, f->profile, "skipped.");
	uint64_t n = max_u64(counted, skipped_of(f));
	struct summary_fact *fact;
	char number[32];

	if (!n)
		return;
	fact = fact_new(s, "Skipped");
	fact_append(fact, "%s sample%s", text_count(n, number), n == 1 ? "" : "s");
	if (counted) {
		fact_append(fact, " (");
		append_reasons(fact, f->profile, "skipped.");
		fact_append(fact, ")");
	}
	fact->warn = true;
}

static void add_thinned(struct summary *s, const struct profile *p)
{
	double thinned;
	char number[32];

	if (profile_stat_value(p, "thinned", &thinned) && as_count(thinned))
		fact_append(fact_new(s, "Thinned"), "%s samples, their weight is added to others",
			    text_count(as_count(thinned), number));
}

/* ", 3 WORDS"; nothing where there are none. */
static void append_count(struct summary_fact *fact, const struct profile *p, const char *stat,
			 const char *words)
{
	char number[32];
	double n;

	if (profile_stat_value(p, stat, &n) && as_count(n))
		fact_append(fact, ", %s %s", text_count(as_count(n), number), words);
}

/* What targets and strangers did not get by with, and what was given by consent. */
static void add_refused(struct summary *s, const struct profile *p)
{
	struct summary_fact *fact;
	char number[32];
	double asked;

	if (profile_stat_value(p, "consent.asked", &asked) && as_count(asked)) {
		fact = fact_new(s, "Consent");
		fact_append(fact, "%s asked", text_count(as_count(asked), number));
		append_count(fact, p, "consent.given", "gave");
		append_count(fact, p, "consent.late", "late");
		append_count(fact, p, "consent.unanswered", "did not answer");
	}
	if (!append_reasons(NULL, p, "refused."))
		return;
	fact = fact_new(s, "Refused");
	append_reasons(fact, p, "refused.");
	fact->warn = true;
}

static void add_costs(struct summary *s, const struct profile *p)
{
	struct summary_fact *fact;
	double value, each, samples = ENOUGH;

	(void)profile_stat_value(p, "samples", &samples);

	/* Of a few samples a share would be noise; of none it is to be seen. */
	if (profile_stat_value(p, "cpu_accounted", &value) && value >= 0 &&
	    (samples >= ENOUGH || samples <= 0)) {
		fact = fact_new(s, "CPU accounted");
		fact_append(fact, "%.1f %% of the CPU time that was used", value * 100);
		fact->warn = value < 0.9 || value > 1.1;
	}
	if (profile_stat_value(p, "self.cpu_s", &value) && value >= 0) {
		fact = fact_new(s, "Profiler's cost");
		fact_append(fact, "%.3f s of CPU", value);
		if (samples >= ENOUGH && profile_stat_value(p, "self.us_per_sample", &each) &&
		    each >= 0)
			fact_append(fact, ", %.1f us a sample", each);
	}
}

void summary_init(struct summary *summary, const struct fold *fold)
{
	const struct profile *p = fold->profile;
	char end[200];
	size_t of_all;

	*summary = (struct summary){0};
	add_filter(summary, fold->only);
	add_samples(summary, fold);
	add_stacks(summary, fold);
	add_script(summary, fold);
	of_all = summary->n;
	add_followers(summary, p);
	add_guesses(summary, p);
	add_losses(summary, fold);
	add_skipped(summary, fold);
	add_thinned(summary, fold->profile);
	add_refused(summary, p);
	add_costs(summary, p);
	for (size_t i = of_all; fold->only && i < summary->n; i++)
		fact_append(&summary->facts[i], " (whole trace)");
	if (profile_end_text(p, end, sizeof(end))) {
		struct summary_fact *fact = fact_new(summary, "End");

		fact_append(fact, "%s", end);
		fact->warn = true;
	} else if (p->end.full) {
		fact_append(fact_new(summary, "End"), "full: max_file_size_bytes was reached");
	}
	if (p->truncated_at) {
		struct summary_fact *fact = fact_new(summary, "File");

		fact_append(fact, "damaged or cut off at byte %llu; what stands before it is shown",
			    (unsigned long long)p->truncated_at);
		fact->warn = true;
	}
}
