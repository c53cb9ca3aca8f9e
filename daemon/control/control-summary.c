/* control-summary.c - see control-summary.h.  Thread: main. */
#include "daemon/control/control-summary.h"

enum { MODULES = 16 }; /* modules without symbols in a message */

#define SET(m, field, value) ((m)->has_##field = true, (m)->field = (value))

static void set_account(Pb__ControlSummary *m, struct account *a)
{
	SET(m, received, a->received);
	SET(m, emitted, a->emitted);
	SET(m, whole, a->whole);
	SET(m, unchecked, a->unchecked);
	SET(m, lacks_functions, a->lacks_functions);
	SET(m, freed_functions, a->freed_functions);
	SET(m, cut, a->cut);
	SET(m, frames, a->frames);
	SET(m, lost_records, a->lost_records);
	SET(m, lost_sideband_records, a->lost_sideband_records);
	SET(m, throttled_ns, a->throttled_ns);
	m->failed = a->failed;
	m->n_failed = UW_REASON_COUNT;
	m->skipped = a->skipped;
	m->n_skipped = SKIP_COUNT;
}

int control_summary_send(struct control_stream *stream, enum control_type type,
			 struct session_summary *s, uint64_t lost_packets, uint64_t stream_bytes)
{
	Pb__ControlSummary m = PB__CONTROL_SUMMARY__INIT;
	Pb__ControlSummary__Module modules[MODULES], *list[MODULES];

	SET(&m, duration_s, s->duration_s);
	SET(&m, cpu_accounted, s->cpu_accounted);
	SET(&m, self_cpu_s, s->self_cpu_s);
	SET(&m, self_us_per_sample, s->self_us_per_sample);
	SET(&m, self_peak_rss_kb, s->self_peak_rss_kb);
	SET(&m, code, s->code);
	SET(&m, lost_samples, s->counts.lost_samples);
	SET(&m, lost_sideband, s->counts.lost_sideband);
	SET(&m, lost_exact, s->counts.lost_exact);
	SET(&m, lost_packets, lost_packets);
	SET(&m, stream_bytes, stream_bytes);
	set_account(&m, &s->account);
	m.without_symbols = list;
	for (; m.n_without_symbols < s->n_unsymbolized && m.n_without_symbols < MODULES;
	     m.n_without_symbols++) {
		struct session_unsymbolized *from = &s->unsymbolized[m.n_without_symbols];
		Pb__ControlSummary__Module *to = &modules[m.n_without_symbols];

		*to = (Pb__ControlSummary__Module)PB__CONTROL_SUMMARY__MODULE__INIT;
		to->path = from->path;
		to->build_id = from->build_id;
		SET(to, samples, from->samples);
		list[m.n_without_symbols] = to;
	}
	return control_summary_queue(stream, type, &m);
}

int control_summary_send_trace(struct control_stream *stream, enum control_type type,
			       const struct trace_session_summary *s, uint64_t stream_bytes)
{
	Pb__ControlSummary m = PB__CONTROL_SUMMARY__INIT;
	uint64_t skipped = s->skipped;

	SET(&m, n_sources, s->n_sources);
	SET(&m, duration_s, s->duration_s);
	SET(&m, emitted, s->samples);
	m.skipped = &skipped;
	m.n_skipped = 1;
	SET(&m, lost_samples, s->lost);
	SET(&m, overwritten, s->overwritten);
	SET(&m, discarded, s->discarded);
	SET(&m, full, s->full);
	SET(&m, untriggered, s->untriggered);
	SET(&m, stream_bytes, stream_bytes);
	return control_summary_queue(stream, type, &m);
}

void control_summary_read(const Pb__ControlSummary *m, struct session_summary *s)
{
	*s = (struct session_summary){
		.duration_s = m->duration_s,
		.cpu_accounted = m->cpu_accounted,
		.self_cpu_s = m->self_cpu_s,
		.self_us_per_sample = m->self_us_per_sample,
		.self_peak_rss_kb = m->self_peak_rss_kb,
		.code = m->code,
		.counts = {.lost_samples = m->lost_samples,
			   .lost_sideband = m->lost_sideband,
			   .lost_exact = m->lost_exact},
		.account = {.received = m->received,
			    .emitted = m->emitted,
			    .whole = m->whole,
			    .unchecked = m->unchecked,
			    .lacks_functions = m->lacks_functions,
			    .freed_functions = m->freed_functions,
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
		.untriggered = m->untriggered,
	};
}
