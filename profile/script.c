/* script.c - see script.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"
#include "profile/fold.h"
#include "profile/profile-text.h"
#include "profile/script.h"

enum { FLUSH = 1 << 20 };

struct script {
	const struct profile *profile;
	struct fold fold;
	uint8_t *match; /* by symbol: filter->function; NULL: all */
	struct buffer out;
};

static void print_head(struct script *s, const struct profile_sample *sample)
{
	const struct profile *p = s->profile;
	uint64_t us = sample->time / 1000;
	char name[32];

	text_clean(&s->out, fold_thread_name(&s->fold, sample->thread, name));
	buffer_printf(&s->out, " %7u/%-7u [%03u] %5" PRIu64 ".%06" PRIu64 ": %10" PRIu64 " ",
		      profile_sample_pid(p, sample), profile_sample_tid(p, sample), sample->cpu,
		      us / 1000000, us % 1000000, sample->weight);
	text_clean(&s->out, *p->event_name ? p->event_name : "unknown");
	buffer_append(&s->out, ": \n", 3);
}

static void print_frame(struct script *s, uint32_t frame)
{
	const struct profile *p = s->profile;
	const struct profile_frame *f = &p->frames[frame];

	for (uint32_t c = s->fold.first_call[frame]; c < s->fold.first_call[frame + 1]; c++) {
		uint32_t symbol = fold_call_symbol(s->fold.calls[c]);
		uint32_t line = f->first_line + (c - s->fold.first_call[frame]);
		bool inlined = s->fold.calls[c] & FOLD_INLINED;
		const char *module = fold_symbol_module(&s->fold, symbol);

		buffer_printf(&s->out, "\t%16" PRIx64 " ", profile_frame_address(f));
		/* "[libx.so]" is a name of ours. */
		text_clean(&s->out, p->lines[line].function ? fold_symbol_name(&s->fold, symbol)
							    : "[unknown]");
		buffer_append(&s->out, " (", 2);
		text_clean(&s->out, inlined ? "inlined" : *module ? module : "[unknown]");
		/* Parsers of perf-script's text stop at the bracket, so that a function keeps one name. */
		buffer_printf(&s->out, ")%s\n", f->guessed ? " [" FRAME_KIND_GUESSED "]" : "");
	}
}

static bool has_function(const struct script *s, uint32_t stack)
{
	const struct profile_node *nodes = s->profile->nodes;

	if (!s->match)
		return true;
	for (; stack < s->profile->n_nodes; stack = nodes[stack].up)
		for (uint32_t c = s->fold.first_call[nodes[stack].frame];
		     c < s->fold.first_call[nodes[stack].frame + 1]; c++)
			if (s->match[fold_call_symbol(s->fold.calls[c])])
				return true;
	return false;
}

static void print_sample(struct script *s, const struct profile_sample *sample)
{
	const struct profile_node *nodes = s->profile->nodes;

	print_head(s, sample);
	for (uint32_t at = sample->stack; at < s->profile->n_nodes; at = nodes[at].up)
		if (!fold_is_error(&s->fold, at))
			print_frame(s, nodes[at].frame);
	buffer_append(&s->out, "\n", 1);
}

static int write_samples(struct script *s, const struct profile_filter *only, uint64_t limit,
			 FILE *out)
{
	const struct profile *p = s->profile;
	uint64_t n = 0;

	for (size_t i = 0; i < p->n_samples && (!limit || n < limit); i++) {
		const struct profile_sample *sample = &p->samples[i];

		if (sample->skipped_reason || (only && !profile_sample_wanted(p, sample, only)) ||
		    !has_function(s, sample->stack))
			continue;
		n++;
		print_sample(s, sample);
		if (s->out.bad)
			return fail(-ENOMEM);
		if (s->out.len < FLUSH)
			continue;
		(void)fwrite(s->out.data, 1, s->out.len, out);
		s->out.len = 0;
		if (ferror(out)) /* a reader that has enough */
			break;
	}
	if (s->out.len)
		(void)fwrite(s->out.data, 1, s->out.len, out);
	return text_finish(out);
}

int script_write(const struct profile *profile, const struct profile_filter *only, uint64_t limit,
		 FILE *out)
{
	/* All samples are printed one by one: nothing is to be grouped but the names. */
	const struct profile_filter none = {.by_time = true};
	struct script s = {.profile = profile};
	int r = fold_init(&s.fold, profile, &none);

	if (r == 0 && only && only->function)
		r = fold_find_function(&s.fold, only->function, &s.match);
	if (r == 0)
		r = write_samples(&s, only, limit, out);
	fold_deinit(&s.fold);
	buffer_deinit(&s.out);
	free(s.match);
	return r < 0 ? trace(r) : 0;
}
