/* source-hotplug.c - CPUs that go offline and come back.  See source-parts.h.
 *
 * The kernel takes the events of a CPU that goes offline away for good: they stay open and count no more, not even the time
 * for which they are enabled, which otherwise grows whether an event has a counter or not.  So a leader of which that time
 * stands still from one reading of the counts to the next is dead.  Opening an event on a CPU that is offline fails
 * (ENODEV), and is tried again later.  Rings stay: their memory does not belong to a CPU. */
#include <errno.h>
#include <sys/ioctl.h>

#include "perf/attr.h"
#include "perf/source-parts.h"

void source_hotplug_look(const struct perf_source *source, struct source_cpu *cpu,
			 uint64_t enabled_ns)
{
	cpu->dead = cpu->counted && source_samples(source) && enabled_ns == cpu->enabled_ns;
	cpu->counted = source_samples(source);
	cpu->enabled_ns = enabled_ns;
}

/* Mappings and names first: samples depend on their records. */
static int reopen_sideband(struct perf_source *source, size_t index)
{
	struct source_group *group = &source->tasks[0].groups[index];
	struct perf_event_attr attr;
	uint64_t lost;
	int fd;

	attr_sideband(&source->options, &attr);
	fd = perf_event_open(&attr, -1, (int)source->cpus[index].cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return fd; /* an answer: the CPU is offline */
	if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, source->rings[2 * index + 1].ring.fd) < 0 ||
	    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0) {
		int r = -errno;

		(void)fd_close(fd);
		return fail(r);
	}
	if (source_sideband_lost(source, group->sideband, &lost) >= 0)
		source->cpus[index].sideband_lost += lost;
	(void)fd_close(group->sideband);
	group->sideband = fd;
	return 0;
}

void perf_source_reopen_cpus(struct perf_source *source, void (*back)(void *arg, uint32_t cpu),
			     void *arg)
{
	if (source->options.tasks || source->options.poll || source->options.switches)
		return;
	for (size_t i = 0; i < source->n_cpus; i++) {
		struct source_cpu *cpu = &source->cpus[i];

		if (!cpu->dead || reopen_sideband(source, i) < 0 ||
		    source_replace(source, i, cpu->stack_bytes) < 0)
			continue;
		cpu->dead = cpu->counted = false;
		back(arg, cpu->cpu);
	}
}
