/* source-rate.c - fewer samples, while they are taken.  See source-parts.h.
 *
 * PERF_EVENT_IOC_PERIOD changes the period of a timer, but not the period that its samples report (last_period in
 * perf_swevent_hrtimer(), kernel/events/core.c).  So the events of whole CPUs are replaced, as for another
 * size of copies: the period of each sample is that of its event, and what it stands for stays right.  Those of tasks take turns
 * (source-count.c). */
#include <errno.h>

#include "perf/source-parts.h"

int perf_source_set_frequency(struct perf_source *source, uint64_t hz)
{
	int first_error = 0;

	if (source->options.poll || source->options.switches || source->options.n_followers ||
	    !source->options.frequency)
		return -EOPNOTSUPP; /* an answer: the caller has another way */
	if (!hz)
		return fail(-EINVAL);
	if (source->options.tasks)
		return source_turns_set_frequency(source, hz);
	if (source->options.frequency == hz)
		return 0;
	source->options.frequency = hz;
	for (size_t i = 0; i < source->n_cpus; i++) {
		/* One that is offline gets the new rate when it comes back. */
		int r = source->cpus[i].dead
				? 0
				: source_replace(source, i, source->cpus[i].stack_bytes);

		first_error = first_error || r == -ENODEV ? first_error : r;
	}
	return first_error < 0 ? trace(first_error) : 0;
}
