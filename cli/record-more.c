/* record-more.c - see record-more.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "cli/json.h"
#include "cli/record-more.h"
#include "profile/profile-text.h"

int record_more_choose(struct record_more *more, const struct record_args *args, char *error,
		       size_t size)
{
	const struct perf_spec_env env = {""};

	for (size_t i = 0; i < args->n_more; i++) {
		struct record_more_event *e = &more->events[more->n];
		char text[SPEC_EVENT_MAX];
		const char *note;
		int r = perf_spec_parse(&env, perf_spec_or_default(args->more[i], text, &note),
					e->specs, ARRAY_SIZE(e->specs), &e->n_specs, error, size);

		if (r < 0)
			return trace(r);
		more->n++;
		/* Each event its own default: one sample for each occurrence, or some a second. */
		e->period = args->rate_given			? args->period
			    : perf_spec_is_point(args->more[i]) ? 1
								: 0;
		e->frequency = args->rate_given ? args->frequency : e->period ? 0 : RECORD_HZ;
		if ((args->user_only && e->specs[0].exclude_user) ||
		    (args->kernel_only && e->specs[0].exclude_kernel)) {
			(void)snprintf(error, size, "%s and %s together leave nothing to sample",
				       e->specs[0].name,
				       args->user_only ? "--user-only" : "--kernel-only");
			return fail(-EINVAL);
		}
	}
	return 0;
}

int record_more_open(struct record_more *more, const struct session_options *base,
		     struct sink *sink, struct loop *loop, char *error, size_t size)
{
	for (size_t i = 0; i < more->n; i++) {
		struct record_more_event *e = &more->events[i];
		struct session_options so = *base;
		int r;

		so.specs = e->specs;
		so.n_specs = e->n_specs;
		so.period = e->period;
		so.frequency = e->frequency;
		so.sequence = (uint32_t)i + 2;
		so.raw = NULL;
		so.at_sample = NULL; /* its memory has one reader */
		so.note = NULL;
		e->summary = calloc(1, sizeof(*e->summary));
		if (!e->summary)
			return fail(-ENOMEM);
		r = session_new(&so, sink, loop, &e->session, error, size);
		if (r < 0)
			return trace(r);
	}
	return 0;
}

int record_more_start(struct record_more *more)
{
	for (size_t i = 0; i < more->n; i++) {
		int r = session_start(more->events[i].session);

		if (r < 0)
			return trace(r);
	}
	return 0;
}

void record_more_stop(struct record_more *more)
{
	for (size_t i = 0; i < more->n; i++)
		if (more->events[i].session)
			session_stop(more->events[i].session);
}

bool record_more_done(const struct record_more *more)
{
	for (size_t i = 0; i < more->n; i++)
		if (session_state(more->events[i].session) != SESSION_DONE)
			return false;
	return true;
}

bool record_more_ends(const struct record_more *more)
{
	for (size_t i = 0; i < more->n; i++)
		if (session_state(more->events[i].session) > SESSION_RUNNING)
			return true;
	return false;
}

int record_more_error(const struct record_more *more, const char **ret_why)
{
	for (size_t i = 0; i < more->n; i++) {
		int r = session_error(more->events[i].session, ret_why);

		if (r < 0)
			return trace(r);
	}
	return 0;
}

bool record_more_probes(const struct record_more *more)
{
	for (size_t i = 0; i < more->n; i++)
		if (perf_has_kernel_probe(more->events[i].specs, more->events[i].n_specs))
			return true;
	return false;
}

static uint64_t lost_of(const struct record_more_event *e)
{
	return e->summary->counts.lost_exact ? e->summary->counts.lost_samples
					     : e->summary->account.lost_records;
}

static void print_event(const struct record_more_event *e, FILE *out)
{
	const struct account *a = &e->summary->account;
	char n[32];

	fprintf(out, "  also     %s sample%s of %s", text_count(a->emitted, n),
		a->emitted == 1 ? "" : "s", e->specs[0].name);
	if (e->frequency)
		fprintf(out, " (%" PRIu64 " Hz)", e->frequency);
	if (a->emitted)
		fprintf(out, ", %s of the stacks whole", text_share(a->whole, a->emitted, n));
	fprintf(out, ", %s lost (report --event %s)\n", text_count(lost_of(e), n),
		e->specs[0].name);
}

static void print_json(const struct record_more_event *e, FILE *out)
{
	const struct account *a = &e->summary->account;

	fprintf(out, "{\"event\":");
	json_string(out, e->specs[0].name);
	fprintf(out,
		",\"samples\":%" PRIu64 ",\"whole\":%" PRIu64 ",\"cut\":%" PRIu64
		",\"lost\":%" PRIu64 "}",
		a->emitted, a->whole, a->cut, lost_of(e));
}

uint64_t record_more_emitted(struct record_more *more)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < more->n; i++) {
		(void)session_summary(more->events[i].session, more->events[i].summary);
		sum += more->events[i].summary->account.emitted;
	}
	return sum;
}

void record_more_print(const struct record_more *more, bool json, FILE *out)
{
	for (size_t i = 0; i < more->n; i++)
		if (json) {
			fprintf(out, "%s", i ? "," : ",\"more\":[");
			print_json(&more->events[i], out);
		} else {
			print_event(&more->events[i], out);
		}
	if (json && more->n)
		fprintf(out, "]");
}

void record_more_deinit(struct record_more *more)
{
	for (size_t i = 0; i < more->n; i++) {
		struct record_more_event *e = &more->events[i];

		e->session = session_free(e->session);
		free(e->summary);
		e->summary = NULL;
		for (size_t j = 0; j < e->n_specs; j++)
			perf_spec_deinit(&e->specs[j]);
		e->n_specs = 0;
	}
	more->n = 0;
}
