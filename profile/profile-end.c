/* profile-end.c - is all of the file there?  What perfwind writes stands between two packets
 * (protos/perfwind.proto): the first says that the second will come, the second counts what is
 * between them.  A file may be several files one behind the other, and packets may follow the end
 * mark (traceconv appends symbols).  Traces of a tracing service have no such packets. */
#include <inttypes.h>

#include "base/error.h"
#include "profile/profile-reader.h"
#include "profile/profile-text.h"
#include "protos/perfwind.fields.h"

/* What was begun has no end. */
static void note_cut(struct reader *r)
{
	struct profile_end *end = &r->profile->end;

	if (!r->marked.open)
		return;
	end->unbound |= !r->marked.behind_ms;
	end->behind_ms = (uint32_t)max_u64(end->behind_ms, r->marked.behind_ms);
	end->cut++;
	r->marked.open = false;
}

int reader_begin_mark(struct reader *r, struct cursor c)
{
	struct wire_field f;

	note_cut(r);
	r->marked.open = true;
	r->marked.behind_ms = 0;
	r->marked.packets = 0;
	while (wire_next(&c, &f))
		if (wire_is(&f, PERFWIND_STATS__BEGIN__BEHIND_MS))
			r->marked.behind_ms = (uint32_t)min_u64(f.value, UINT32_MAX);
	return c.bad ? READER_BROKEN : 0;
}

int reader_end_mark(struct reader *r, struct cursor c)
{
	/* The packet of the end mark itself has been counted. */
	uint64_t have = r->marked.packets ? r->marked.packets - 1 : 0;
	struct profile_end *end = &r->profile->end;
	struct wire_field f;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, PERFWIND_STATS__END__PACKETS) && f.value > have)
			end->missing += min_u64(f.value - have, UINT64_MAX - end->missing);
		else if (wire_is(&f, PERFWIND_STATS__END__FULL))
			end->full |= f.value != 0;
	}
	r->marked.open = false;
	r->marked.packets = 0;
	return c.bad ? READER_BROKEN : 0;
}

int reader_finish_end(struct reader *r)
{
	const struct profile_end *end = &r->profile->end;
	int e = 0;

	note_cut(r);
	if (end->cut)
		e = reader_count_set(r, STAT_perfwind_end_missing, -1, end->cut);
	if (e >= 0 && end->missing)
		e = reader_count_set(r, STAT_perfwind_packets_missing, -1, end->missing);
	return e < 0 ? trace(e) : 0;
}

bool profile_is_damaged(const struct profile *p)
{
	return p->truncated_at || p->end.cut || p->end.missing;
}

bool profile_end_text(const struct profile *p, char *to, size_t size)
{
	char number[32];

	*to = 0;
	if (p->end.cut && p->end.unbound)
		(void)snprintf(to, size,
			       "ended without its end mark: how much is missing is not known");
	else if (p->end.cut)
		(void)snprintf(to, size,
			       "ended without its end mark: up to about %.1f s may be missing "
			       "(more if the file was cut or damaged later)",
			       p->end.behind_ms / 1e3);
	else if (p->end.missing)
		(void)snprintf(to, size, "%s packet%s missing: the end mark counts more",
			       text_count(p->end.missing, number),
			       p->end.missing == 1 ? " is" : "s are");
	return *to;
}
