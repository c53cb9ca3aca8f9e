/* control-summary.c - how a recording stands, as a message and back.  Thread: main. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "daemon/control/control-private.h"
#include "daemon/control/control-summary.h"

enum { NAMELESS = 16 };

#define SET(m, field, value) ((m)->has_##field = true, (m)->field = (value))

static void set_account(Pb__ControlSummary *m, struct session_summary *s)
{
	struct account *a = &s->account;

	SET(m, received, a->received);
	SET(m, emitted, a->emitted);
	SET(m, whole, a->whole);
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

static int queue_session(struct client *c, enum control_type type)
{
	Pb__ControlSummary m = PB__CONTROL_SUMMARY__INIT;
	Pb__ControlSummary__Nameless nameless[NAMELESS], *list[NAMELESS];
	struct session_summary *s = malloc(sizeof(*s));
	int r;

	if (!s)
		return fail(-ENOMEM);
	(void)session_summary(c->session, s);
	SET(&m, duration_s, s->duration_s);
	SET(&m, cpu_accounted, s->cpu_accounted);
	SET(&m, self_cpu_s, s->self_cpu_s);
	SET(&m, self_us_per_sample, s->self_us_per_sample);
	SET(&m, self_peak_rss_kb, s->self_peak_rss_kb);
	SET(&m, user_only, s->user_only);
	SET(&m, lost_samples, s->counts.lost_samples);
	SET(&m, lost_sideband, s->counts.lost_sideband);
	SET(&m, lost_exact, s->counts.lost_exact);
	SET(&m, lost_packets, c->sink.dropped);
	SET(&m, stream_bytes, c->streamed);
	set_account(&m, s);
	m.nameless = list;
	for (; m.n_nameless < s->n_nameless && m.n_nameless < NAMELESS; m.n_nameless++) {
		struct session_nameless *from = &s->nameless[m.n_nameless];
		Pb__ControlSummary__Nameless *to = &nameless[m.n_nameless];

		*to = (Pb__ControlSummary__Nameless)PB__CONTROL_SUMMARY__NAMELESS__INIT;
		to->path = from->path;
		to->build_id = from->build_id;
		SET(to, samples, from->samples);
		list[m.n_nameless] = to;
	}
	r = control_summary_queue(&c->stream, type, &m);
	free(s);
	return r < 0 ? trace(r) : 0;
}

static int queue_trace(struct client *c, enum control_type type)
{
	Pb__ControlSummary m = PB__CONTROL_SUMMARY__INIT;
	struct trace_session_summary s;
	uint64_t skipped;

	trace_session_summary(c->trace, &s);
	skipped = s.skipped;
	SET(&m, n_sources, s.n_sources);
	SET(&m, duration_s, s.duration_s);
	SET(&m, emitted, s.samples);
	m.skipped = &skipped;
	m.n_skipped = 1;
	SET(&m, lost_samples, s.lost);
	SET(&m, overwritten, s.overwritten);
	SET(&m, discarded, s.discarded);
	SET(&m, full, s.full);
	SET(&m, stream_bytes, c->streamed);
	return control_summary_queue(&c->stream, type, &m);
}

int control_send_summary(struct client *c, enum control_type type)
{
	return c->session ? queue_session(c, type) : queue_trace(c, type);
}

/* ---- and back ---- */

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
	for (size_t i = 0; i < m->n_nameless && i < ARRAY_SIZE(s->nameless); i++) {
		struct session_nameless *to = &s->nameless[s->n_nameless++];

		(void)snprintf(to->path, sizeof(to->path), "%s",
			       m->nameless[i]->path ? m->nameless[i]->path : "");
		(void)snprintf(to->build_id, sizeof(to->build_id), "%s",
			       m->nameless[i]->build_id ? m->nameless[i]->build_id : "");
		to->samples = m->nameless[i]->samples;
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
