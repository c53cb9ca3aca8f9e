/* statistics.c - the statistics of a recording (statistics.h). */
#include "session/statistics.h"

#include <stdarg.h>

void stats_add(struct stats *list, double value, const char *format, ...)
{
	va_list ap;

	if (list->n == ARRAY_SIZE(list->stats))
		return;
	va_start(ap, format);
	(void)vsnprintf(list->names[list->n], sizeof(list->names[0]), format, ap);
	va_end(ap);
	list->stats[list->n] = (struct writer_stat){list->names[list->n], value};
	list->n++;
}

/* Of stacks that were continued in the memory of the process: how long after the sample that was read. */
static void add_reads(const struct account *a, struct stats *list)
{
	for (size_t i = 0; i < ACCOUNT_READS; i++) {
		uint32_t below = account_reads_below(i);

		if (a->memory_reads[i] && below == UINT32_MAX)
			stats_add(list, (double)a->memory_reads[i], "memory_reads.later");
		else if (a->memory_reads[i])
			stats_add(list, (double)a->memory_reads[i], "memory_reads.below_%uus",
				  below);
	}
}

/* A sample of a process counts once for its interpreter.  (Names of JavaScript are missing for other reasons.) */
uint64_t stats_freed_samples(const struct session_summary *summary)
{
	uint64_t samples = 0;

	for (size_t i = 0; i < summary->n_unsymbolized; i++)
		for (int k = UW_LANGUAGE_NONE + 1; k < UW_LANGUAGES; k++)
			if (k != UW_LANGUAGE_JS && !strcmp(summary->unsymbolized[i].path,
							   uw_language_path((enum uw_language)k)))
				samples += summary->unsymbolized[i].samples;
	return samples;
}

void stats_of(const struct session_summary *summary, struct stats *list)
{
	const struct account *a = &summary->account;
	const struct perf_counts *counts = &summary->counts;

	stats_add(list, (double)a->emitted, "samples");
	stats_add(list, (double)a->whole, "stacks.whole");
	if (a->unchecked)
		stats_add(list, (double)a->unchecked, "stacks.unchecked");
	if (a->by_fp)
		stats_add(list, (double)a->by_fp, "stacks.by_fp");
	if (a->completed)
		stats_add(list, (double)a->completed, "stacks.completed");
	if (a->lacks_functions)
		stats_add(list, (double)a->lacks_functions, "stacks.lacking_functions");
	if (a->lacks_at_start)
		stats_add(list, (double)a->lacks_at_start, "stacks.lacking_at_start");
	if (a->freed_functions)
		stats_add(list, (double)a->freed_functions, "functions.freed");
	if (stats_freed_samples(summary))
		stats_add(list, (double)stats_freed_samples(summary), "stacks.with_freed");
	if (a->deep)
		stats_add(list, (double)a->deep, "stacks.copied_deep");
	stats_add(list, (double)a->cut, "stacks.cut");
	if (a->too_deep)
		stats_add(list, (double)a->too_deep, "stacks.cut.%s", uw_reason_name(UW_TOO_DEEP));
	if (a->switched)
		stats_add(list, (double)a->switched, "stacks.cut.other-stack");
	if (a->page_absent)
		stats_add(list, (double)a->page_absent, "stacks.cut.absent-page");
	for (int i = 0; i < UW_REASON_COUNT; i++) {
		if (a->failed[i])
			stats_add(list, (double)a->failed[i], "stacks.failed.%s",
				  uw_reason_name((enum uw_reason)i));
	}
	stats_add(list, (double)(counts->lost_exact ? counts->lost_samples : a->lost_records),
		  "lost.samples");
	stats_add(list, (double)counts->lost_sideband, "lost.sideband");
	stats_add(list, (double)(a->lost_records + a->lost_sideband_records), "lost.records_seen");
	stats_add(list, (double)a->throttled_ns / 1e9, "lost.throttled_s");
	for (int i = 1; i < SKIP_COUNT; i++) {
		if (a->skipped[i] && i != SKIP_THINNED)
			stats_add(list, (double)a->skipped[i], "skipped.%s",
				  skip_reason_name((enum skip_reason)i));
	}
	if (a->skipped[SKIP_THINNED])
		stats_add(list, (double)a->skipped[SKIP_THINNED], "thinned");
	stats_add(list, (double)a->idle, "idle");
	if (summary->cpu_accounted >= 0)
		stats_add(list, summary->cpu_accounted, "cpu_accounted");
	stats_add(list, summary->duration_s, "duration_s");
	if (a->waits || a->unsampled_ns || a->run_ns) {
		stats_add(list, (double)a->waits, "waits");
		stats_add(list, (double)a->wait_ns / 1e9, "waits.s");
		stats_add(list, (double)a->thinned_ns / 1e9, "waits.thinned_s");
		stats_add(list, (double)a->unsampled_ns / 1e9, "waits.without_stack_s");
		stats_add(list, (double)a->unknown_ns / 1e9, "waits.unknown_s");
	}
	stats_add(list, (double)a->frames, "frames");
	stats_add(list, (double)a->guessed_frames, "frames.guessed");
	add_reads(a, list);
}

void stats_unsymbolized(struct emit *emit, struct session_summary *summary)
{
	_cleanup_(freep) struct emit_unsymbolized *list = NULL;
	size_t n = 0;

	if (emit_unsymbolized(emit, &list, &n) < 0)
		return;
	for (size_t i = 0; i < n && i < ARRAY_SIZE(summary->unsymbolized); i++) {
		struct session_unsymbolized *to = &summary->unsymbolized[summary->n_unsymbolized++];

		(void)snprintf(to->path, sizeof(to->path), "%s", list[i].path);
		for (uint8_t j = 0; j < list[i].build_id.len; j++)
			(void)snprintf(to->build_id + j * 2, 3, "%02x", list[i].build_id.bytes[j]);
		to->samples = list[i].samples;
		to->hint = list[i].hint;
	}
}
