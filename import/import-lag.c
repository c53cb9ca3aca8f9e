/* import-lag.c - outcomes that wait for the kernel's names.  Thread: main.
 *
 * Reading those takes as long as reading and unwinding 10,000 samples, and the first frame of the
 * kernel comes with the first samples.  So outcomes are kept, and written when the limit below is
 * reached or the file ends: never when the names happen to be there, as the same file has to give
 * the same bytes.  From then on they are written as they come.
 *
 * The emitter is used to samples that come late: it looks up names of processes by the sample's
 * time, and what an outcome refers to is kept for it.  Only of a thread's second last name nothing
 * is left, so that a thread with two renames ends the waiting too. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "import/import-private.h"

enum {
	LAG_BYTES = 16 << 20,
	LAG_SPACES = 1024,  /* snapshots of mappings that are kept for them */
	LAG_MAPS = 1 << 20, /* mappings in these */
};

static size_t outcome_size(const struct outcome *o)
{
	return sizeof(*o) + ((size_t)o->n_kernel + o->n_user) * sizeof(o->frames[0]);
}

static int emit_one(struct import *im, const struct outcome *o)
{
	import_kernel_frames(im, o);
	return emit_outcome(im->emit, o);
}

static void give_back(const struct outcome *o)
{
	(void)uw_space_unref(o->info.space);
	(void)process_unref(o->info.process);
}

static const struct outcome *first_of(struct import *im)
{
	const struct outcome *o =
		(const void *)(im->lag.outcomes.data + im->lag.at); /* sizes are multiples of 8 */

	im->lag.at += outcome_size(o);
	return o;
}

int import_lag_end(struct import *im)
{
	struct import_lag *lag = &im->lag;
	uint64_t n = 0;
	int r = 0;

	if (!lag->on)
		return 0;
	lag->on = false;
	while (r >= 0 && lag->at < lag->outcomes.len) {
		const struct outcome *o = first_of(im);

		import_kernel_frames(im, o);
		import_kernel_catch_up(im, n++);
		r = emit_outcome(im->emit, o);
		if (r >= 0)
			r = import_name(im);
	}
	if (r < 0)
		return trace(r);
	import_kernel_catch_up(im, UINT64_MAX);
	buffer_deinit(&lag->outcomes);
	lag->outcomes = (struct buffer){0};
	lag->at = 0;
	return import_serve(im);
}

/* false: no memory. */
static bool keep(struct import_lag *lag, const struct outcome *o)
{
	size_t size = outcome_size(o);
	uint8_t *to = buffer_reserve(&lag->outcomes, size);

	if (!to)
		return false;
	memcpy(to, o, size);
	lag->outcomes.len += size;
	lag->n++;
	if (o->info.space && o->info.space != lag->last_space) {
		lag->n_spaces++;
		lag->n_maps += o->info.space->n_maps;
	}
	lag->last_space = o->info.space;
	return true;
}

int import_emit(struct import *im, const struct outcome *o)
{
	struct import_lag *lag = &im->lag;
	int r;

	if (lag->on && lag->outcomes.len + outcome_size(o) <= LAG_BYTES &&
	    lag->n_spaces < LAG_SPACES && lag->n_maps < LAG_MAPS && keep(lag, o))
		return 0;
	r = import_lag_end(im); /* what waits goes first */
	if (r >= 0)
		return emit_one(im, o);
	give_back(o);
	return trace(r);
}

int import_lag_comm(struct import *im, const struct record_event *e)
{
	const struct process *process = process_find(im->processes, e->pid);
	const struct process_thread *thread =
		process ? table_pointer(&process->threads, e->tid) : NULL;
	int r;

	if (!thread || thread->renamed_at < im->first_time ||
	    (!import_waits(im) && !im->lag.outcomes.len))
		return 0;
	r = import_drain(im);
	return r < 0 ? trace(r) : import_lag_end(im);
}

void import_lag_deinit(struct import *im)
{
	while (im->lag.at < im->lag.outcomes.len)
		give_back(first_of(im));
	buffer_deinit(&im->lag.outcomes);
}
