/* control-summary.c - see control-summary.h.  Thread: main. */
#include "daemon/control/control-summary.h"

void control_summary_read(const Pb__ControlSummary *m, struct session_summary *s)
{
	*s = (struct session_summary){
		.duration_s = m->duration_s,
		.cpu_accounted = m->cpu_accounted,
		.self_cpu_s = m->self_cpu_s,
		.self_us_per_sample = m->self_us_per_sample,
		.self_peak_rss_kb = m->self_peak_rss_kb,
		.user_only = m->user_only,
		.counts = {.lost_samples = m->lost_samples,
			   .lost_sideband = m->lost_sideband,
			   .lost_exact = m->lost_exact},
		.account = {.received = m->received,
			    .emitted = m->emitted,
			    .whole = m->whole,
			    .cut = m->cut,
			    .frames = m->frames,
			    .lost_records = m->lost_records,
			    .lost_sideband_records = m->lost_sideband_records,
			    .throttled_ns = m->throttled_ns},
	};
	for (size_t i = 0; i < m->n_failed && i < UW_REASON_COUNT; i++)
		s->account.failed[i] = m->failed[i];
	for (size_t i = 0; i < m->n_skipped && i < SKIP_COUNT; i++)
		s->account.skipped[i] = m->skipped[i];
	for (size_t i = 0; i < m->n_without_symbols && i < ARRAY_SIZE(s->unsymbolized); i++) {
		struct session_unsymbolized *to = &s->unsymbolized[s->n_unsymbolized++];

		(void)snprintf(to->path, sizeof(to->path), "%s",
			       m->without_symbols[i]->path ? m->without_symbols[i]->path : "");
		(void)snprintf(to->build_id, sizeof(to->build_id), "%s",
			       m->without_symbols[i]->build_id ? m->without_symbols[i]->build_id
							       : "");
		to->samples = m->without_symbols[i]->samples;
	}
}

void control_summary_read_trace(const Pb__ControlSummary *m, struct trace_session_summary *s)
{
	*s = (struct trace_session_summary){
		.n_sources = m->n_sources,
		.duration_s = m->duration_s,
		.samples = m->emitted,
		.skipped = m->n_skipped ? m->skipped[0] : 0,
		.lost = m->lost_samples,
		.overwritten = m->overwritten,
		.discarded = m->discarded,
		.full = m->full,
	};
}
