/* control-summary.c - see control-summary.h.  Thread: main. */
#include "daemon/control/control-summary.h"

enum { MODULES = 16 }; /* modules without symbols in a message */

#define SET(m, field, value) ((m)->has_##field = true, (m)->field = (value))

/* The fields of equal names: in the message, and in a summary or its account. */
#define SUMMARY_FIELDS(X) \
	X(duration_s)     \
	X(cpu_accounted)  \
	X(self_cpu_s) X(self_us_per_sample) X(self_peak_rss_kb) X(code) X(at_sample)
#define COUNT_FIELDS(X) X(lost_samples) X(lost_sideband) X(lost_exact)
#define ACCOUNT_FIELDS(X)  \
	X(received)        \
	X(emitted)         \
	X(whole)           \
	X(unchecked)       \
	X(by_fp)           \
	X(completed)       \
	X(lacks_functions) \
	X(lacks_at_start)  \
	X(freed_functions) \
	X(cut)             \
	X(too_deep)        \
	X(switched)        \
	X(page_absent) X(frames) X(lost_records) X(lost_sideband_records) X(throttled_ns)
#define TRACE_FIELDS(X) \
	X(n_sources)    \
	X(duration_s)   \
	X(whole) X(cut) X(self_cpu_s) X(overwritten) X(discarded) X(full) X(untriggered)

int control_summary_send(struct control_stream *stream, enum control_type type,
			 struct session_summary *s, uint64_t lost_packets, uint64_t stream_bytes)
{
	Pb__ControlSummary m = PB__CONTROL_SUMMARY__INIT;
	Pb__ControlSummary__Module modules[MODULES], *list[MODULES];

#define PUT(field) SET(&m, field, s->field);
#define PUT_COUNT(field) SET(&m, field, s->counts.field);
#define PUT_ACCOUNT(field) SET(&m, field, s->account.field);
	SUMMARY_FIELDS(PUT)
	COUNT_FIELDS(PUT_COUNT)
	ACCOUNT_FIELDS(PUT_ACCOUNT)
	SET(&m, lost_packets, lost_packets);
	SET(&m, stream_bytes, stream_bytes);
	m.failed = s->account.failed;
	m.n_failed = UW_REASON_COUNT;
	m.skipped = s->account.skipped;
	m.n_skipped = SKIP_COUNT;
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
	uint64_t skipped = s->skipped, failed = s->failed;

	TRACE_FIELDS(PUT)
	SET(&m, emitted, s->samples);
	m.skipped = &skipped;
	m.n_skipped = 1;
	m.failed = &failed;
	m.n_failed = 1;
	SET(&m, lost_samples, s->lost);
	SET(&m, stream_bytes, stream_bytes);
	return control_summary_queue(stream, type, &m);
}

void control_summary_read(const Pb__ControlSummary *m, struct session_summary *s)
{
#define GET(field) .field = m->field,
	*s = (struct session_summary){SUMMARY_FIELDS(GET).counts = {COUNT_FIELDS(GET)},
				      .account = {ACCOUNT_FIELDS(GET)}};
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
		TRACE_FIELDS(GET).samples = m->emitted,
		.skipped = m->n_skipped ? m->skipped[0] : 0,
		.failed = m->n_failed ? m->failed[0] : 0,
		.lost = m->lost_samples,
	};
}
