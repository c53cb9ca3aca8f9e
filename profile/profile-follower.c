/* profile-follower.c - what was counted beside the samples: the events of a group that do not sample.
 *
 * Each sample has its followers' counts since the group was opened: on its CPU, and where tasks are
 * sampled and not CPUs, of its thread there (perfwind says so by a statistic of its own; a producer of
 * a tracing service samples CPUs).  A count that is less than the one before is of a group that was
 * opened anew. */
#include <errno.h>

#include "base/error.h"
#include "profile/profile-reader.h"
#include "profile/summary.h"

int reader_follower_count(struct reader *r, struct raw_sample *raw, uint64_t count)
{
	int e;

	if (raw->n_followers == READER_FOLLOWERS || r->n_follower_counts >= UINT32_MAX)
		return 0;
	e = reader_hold(r, HELD_FOLLOWERS, 1, sizeof(count));
	if (e >= 0)
		e = ROOM_FOR_ONE(r->follower_counts, r->n_follower_counts, r->room_follower_counts);
	if (e < 0)
		return trace(e);
	if (!raw->n_followers++)
		raw->first_follower = (uint32_t)r->n_follower_counts;
	r->follower_counts[r->n_follower_counts++] = count;
	return 0;
}

/* Where the sums of each event's followers begin in the profile's; UINT32_MAX: not yet. */
struct places {
	uint32_t first[256], n[256];
};

/* The followers of an event are those of the first of its sessions that has any. */
static int place(struct reader *r, struct places *places, uint8_t event,
		 const struct reader_event *of)
{
	struct profile *p = r->profile;
	struct profile_follower *more;

	if (places->n[event] || !of->n_followers)
		return 0;
	more = reallocarray(p->followers, p->n_followers + of->n_followers, sizeof(*more));
	if (!more)
		return fail(-ENOMEM);
	p->followers = more;
	places->first[event] = (uint32_t)p->n_followers;
	places->n[event] = of->n_followers;
	for (uint32_t i = 0; i < of->n_followers; i++)
		p->followers[p->n_followers++] =
			(struct profile_follower){.name = of->followers[i], .event = event};
	return 0;
}

static void add(struct reader *r, const struct places *places, uint8_t event,
		const struct raw_sample *now, const struct raw_sample *before)
{
	struct profile_follower *to = &r->profile->followers[places->first[event]];

	for (uint32_t i = 0; i < now->n_followers && i < places->n[event]; i++) {
		uint64_t count = r->follower_counts[now->first_follower + i], less = 0;

		if (before && i < before->n_followers)
			less = r->follower_counts[before->first_follower + i];
		to[i].count += count >= less ? count - less : count;
	}
}

int reader_finish_followers(struct reader *r)
{
	struct profile *p = r->profile;
	struct places places = {0};
	struct table last = {0}; /* of (sequence, CPU) or (thread, CPU): index in samples + 1 */
	double by_thread = 0;
	int e = 0;

	(void)summary_stat(p, "followers.by_thread", &by_thread);
	for (size_t i = 0; i < p->n_samples && r->n_follower_counts && e >= 0; i++) {
		const struct profile_sample *sample = &p->samples[i];
		const struct raw_sample *raw = &r->raw[i];
		uint64_t before = 0,
			 of = by_thread > 0 ? profile_sample_tid(p, sample) : raw->sequence;
		uint64_t key = of << 32 | sample->cpu;

		if (!raw->n_followers)
			continue;
		e = place(r, &places, sample->event, &r->events[sample->session]);
		if (e < 0 || !places.n[sample->event])
			continue;
		(void)table_get(&last, key, &before);
		add(r, &places, sample->event, raw, before ? &r->raw[before - 1] : NULL);
		e = reader_put(r, HELD_STREAMS, &last, key, i + 1);
	}
	table_deinit(&last);
	return e < 0 ? trace(e) : 0;
}
