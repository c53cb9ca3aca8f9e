/* emit-stack.c - the frame ids of a stack.  Thread: main.
 *
 * Samples of a thread that follow each other share most of their stack, and looking up 50 frames in
 * a cache of a megabyte is 50 loads from far away.  So the last stack of each thread is kept, root
 * first, in a small table by thread; the ids of what is the same are copied, and only the rest is
 * looked up. */
#include <errno.h>

#include "base/error.h"
#include "session/pipeline/emit-private.h"

enum { RECENT_STACKS = 64, RECENT_FRAMES = 256 };

struct recent_stack {
	uint32_t tid, space_key, n;
	uint32_t ids[RECENT_FRAMES]; /* or marked NAMELESS */
	uint64_t frames[RECENT_FRAMES];
};

int emit_recent_new(struct emit *em)
{
	em->recent = calloc(RECENT_STACKS, sizeof(*em->recent));
	return em->recent ? 0 : fail(-ENOMEM);
}

void emit_recent_forget(struct emit *em)
{
	for (size_t i = 0; i < RECENT_STACKS; i++)
		em->recent[i].n = 0;
}

/* User frames: @frames and @ids innermost first. */
static int user_ids(struct emit *em, const struct sample_info *info, const uint64_t *frames,
		    size_t n, uint32_t *ids)
{
	struct recent_stack *recent = &em->recent[info->tid % RECENT_STACKS];
	uint32_t key = info->space->key;
	bool unmapped = false;
	size_t same = 0, most = min_u64(n, recent->n), kept = min_u64(n, RECENT_FRAMES);

	if (recent->tid != info->tid || recent->space_key != key)
		most = 0;
	for (; same < most && recent->frames[same] == frames[n - 1 - same]; same++)
		ids[n - 1 - same] = recent->ids[same];
	recent->n = 0; /* until it is whole again */
	for (size_t i = 0; i < n - same; i++)
		emit_frame_prefetch(em, frames[i], key);
	for (size_t i = 0; i < n - same; i++) {
		int r = emit_frame_id(em, info, frames[i], false, &ids[i]);

		if (r < 0)
			return trace(r);
		unmapped |= r == EMIT_UNMAPPED;
	}
	if (unmapped)
		return 0;
	for (size_t k = same; k < kept; k++) {
		recent->frames[k] = frames[n - 1 - k];
		recent->ids[k] = ids[n - 1 - k];
	}
	recent->tid = info->tid;
	recent->space_key = key;
	recent->n = (uint32_t)kept;
	return 0;
}

/* A sample counts once, for the innermost of the module's nameless frames. */
static void count_nameless(struct emit *em, struct nameless_frame *frame)
{
	struct emit_module *m = em->modules[frame->module];

	if (m->last_sample != em->n_samples) {
		m->last_sample = em->n_samples;
		m->nameless_samples++;
		frame->samples++;
	}
}

int emit_stack_ids(struct emit *em, const struct outcome *o, size_t *ret_n)
{
	size_t n = (size_t)o->n_kernel + o->n_user;
	int r;

	for (uint32_t i = 0; i < o->n_kernel; i++)
		emit_frame_prefetch(em, o->frames[i], 0);
	for (uint32_t i = 0; i < o->n_kernel; i++) {
		r = emit_frame_id(em, &o->info, o->frames[i], true, &em->ids[i]);
		if (r < 0)
			return trace(r);
	}
	if (o->n_user) {
		r = user_ids(em, &o->info, o->frames + o->n_kernel, o->n_user,
			     em->ids + o->n_kernel);
		if (r < 0)
			return trace(r);
	}
	for (size_t i = 0; i < n; i++) {
		struct nameless_frame *frame;

		if (!(em->ids[i] & NAMELESS))
			continue;
		frame = &em->nameless[em->ids[i] & ~NAMELESS];
		em->ids[i] = frame->id;
		/* A nameless root (_start of a stripped program) tells nobody anything. */
		if (i + 1 < n)
			count_nameless(em, frame);
	}
	*ret_n = n;
	return 0;
}
