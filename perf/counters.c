/* counters.c - see counters.h.
 *
 * Each event has a descriptor for each target.  Groups are read one event at a time: the kernel refuses inherited events
 * with PERF_FORMAT_GROUP before Linux 6.13. */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "perf/attr.h"
#include "perf/counters.h"
#include "perf/gate.h"

struct reading {
	uint64_t value, enabled, running; /* as read(2) returns them */
};

struct counter {
	int fd;
	uint32_t row;
	struct reading last, before;
};

struct counters {
	struct counters_options options;
	struct counter *counters; /* target by target, all events of each */
	size_t n, room;		  /* targets */
	struct event {
		size_t n_open, n_refused; /* targets */
		int error;		  /* of the first refusal */
		bool kernel_refused;
		char why[256];
	} events[COUNTERS_EVENTS];
};

int counters_new(const struct counters_options *options, struct counters **ret)
{
	struct counters *c;

	if (!options->n || options->n > COUNTERS_EVENTS)
		return fail(-EINVAL);
	c = calloc(1, sizeof(*c));
	if (!c)
		return fail(-ENOMEM);
	c->options = *options;
	use_hard_limit(RLIMIT_NOFILE);
	*ret = c;
	return 0;
}

struct counters *counters_free(struct counters *c)
{
	if (!c)
		return NULL;
	for (size_t i = 0; i < c->n * c->options.n; i++)
		(void)fd_close(c->counters[i].fd);
	free(c->counters);
	free(c);
	return NULL;
}

static int make_room(struct counters *c)
{
	size_t room = c->room ? c->room * 2 : 4;
	struct counter *more;

	if (c->n < c->room)
		return 0;
	more = reallocarray(c->counters, room * c->options.n, sizeof(*more));
	if (!more)
		return fail(-ENOMEM);
	c->counters = more;
	c->room = room;
	return 0;
}

/* The first event of @event's group. */
static size_t leader_of(const struct counters *c, size_t event)
{
	const uint8_t *groups = c->options.groups;

	while (event && groups[event] && groups[event] == groups[event - 1])
		event--;
	return event;
}

static void explain(struct counters *c, const struct counters_target *target, size_t event, int r)
{
	const struct perf_options options = {.clock = CLOCK_MONOTONIC};
	const struct gate_case refused = {
		.error = r,
		.tid = target->tid,
		.spec = &c->options.specs[event],
		.options = &options,
	};
	struct event *e = &c->events[event];

	e->n_refused++;
	if (e->error)
		return;
	e->error = r;
	(void)gate_explain(&refused, e->why, sizeof(e->why));
}

static int open_fd(struct counters *c, const struct counters_target *target, size_t event,
		   int group_fd)
{
	const struct perf_spec *spec = &c->options.specs[event];
	struct perf_event_attr attr;

	attr_counter(spec, &attr);
	attr.inherit = c->options.inherit;
	attr.disabled = group_fd < 0; /* goes with its leader */
	attr.enable_on_exec = group_fd < 0 && c->options.enable_on_exec;
	attr.exclude_kernel |= c->events[event].kernel_refused;
	return perf_event_open(&attr, target->cgroup_fd >= 0 ? target->cgroup_fd : target->tid,
			       target->cpu, group_fd,
			       target->cgroup_fd >= 0 ? PERF_FLAG_PID_CGROUP : 0);
}

/* Does user code alone have a count of its own?  Switches happen in the kernel: without it they count 0. */
static bool has_user_part(const struct perf_spec *spec)
{
	return spec->code & FRAMES_KERNEL && spec->code & FRAMES_USER &&
	       (spec->type != PERF_TYPE_SOFTWARE ||
		(spec->config != PERF_COUNT_SW_CONTEXT_SWITCHES &&
		 spec->config != PERF_COUNT_SW_CPU_MIGRATIONS));
}

/* 0, also if the event is refused; COUNTERS_GONE; < 0: no descriptor is left. */
static int open_event(struct counters *c, const struct counters_target *target, size_t event,
		      struct counter *of_target)
{
	size_t leader = leader_of(c, event);
	struct event *e = &c->events[event];
	int fd;

	if (leader != event && of_target[leader].fd < 0) {
		explain(c, target, event, c->events[leader].error);
		return 0;
	}
	fd = open_fd(c, target, event, leader != event ? of_target[leader].fd : -1);
	if ((fd == -EACCES || fd == -EPERM) && !e->kernel_refused &&
	    has_user_part(&c->options.specs[event])) {
		e->kernel_refused = true;
		fd = open_fd(c, target, event, leader != event ? of_target[leader].fd : -1);
		e->kernel_refused = fd >= 0;
	}
	if (fd == -ESRCH || (fd == -ENODEV && target->cpu >= 0))
		return COUNTERS_GONE;
	if (is_shortage(fd))
		return fail(fd);
	if (fd < 0) {
		explain(c, target, event, fd);
		return 0;
	}
	of_target[event].fd = fd;
	e->n_open++;
	return 0;
}

int counters_add(struct counters *c, const struct counters_target *target, char *error, size_t size)
{
	struct counter *of_target;
	int r = c->n < COUNTERS_TARGETS ? make_room(c) : fail(-EMFILE);

	*error = 0;
	if (r < 0)
		goto out;
	of_target = c->counters + c->n * c->options.n;
	for (size_t i = 0; i < c->options.n; i++)
		of_target[i] = (struct counter){.fd = -1, .row = target->row};
	for (size_t i = 0; i < c->options.n && r == 0; i++)
		r = open_event(c, target, i, of_target);
	if (r == 0) {
		c->n++;
		return 0;
	}
	for (size_t i = 0; i < c->options.n; i++) {
		c->events[i].n_open -= of_target[i].fd >= 0;
		(void)fd_close(of_target[i].fd);
	}
	if (r > 0)
		return r;
out:
	(void)snprintf(error, size, "%s",
		       r == -EMFILE || r == -ENFILE
			       ? "too few file descriptors (one for each event of each thread or "
				 "CPU): raise the limit with ulimit -n"
			       : strerror(-r));
	return trace(r);
}

bool counters_any(const struct counters *c)
{
	for (size_t i = 0; i < c->options.n; i++)
		if (c->events[i].n_open)
			return true;
	return false;
}

const char *counters_why(const struct counters *c, size_t event, size_t *ret_refused)
{
	*ret_refused = c->events[event].n_refused;
	return *ret_refused ? c->events[event].why : NULL;
}

bool counters_kernel_refused(const struct counters *c, size_t event)
{
	return c->events[event].kernel_refused;
}

int counters_enable(struct counters *c)
{
	for (size_t i = 0; i < c->n; i++)
		for (size_t j = 0; j < c->options.n; j++) {
			int fd = c->counters[i * c->options.n + j].fd;

			if (fd >= 0 && leader_of(c, j) == j &&
			    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
				return fail(-errno);
		}
	return 0;
}

int counters_read(struct counters *c)
{
	for (size_t i = 0; i < c->n * c->options.n; i++) {
		struct counter *counter = &c->counters[i];

		if (counter->fd < 0)
			continue;
		counter->before = counter->last;
		if (read(counter->fd, &counter->last, sizeof(counter->last)) !=
		    (ssize_t)sizeof(counter->last))
			return fail(-EIO);
	}
	return 0;
}

static uint64_t scaled(uint64_t value, uint64_t enabled, uint64_t running)
{
	if (!running || running >= enabled)
		return value;
	return (uint64_t)((double)value * ((double)enabled / (double)running) + 0.5);
}

static enum counter_state state_of(const struct event *e, bool ran)
{
	if (e->n_open)
		return ran ? COUNTER_COUNTED : COUNTER_NOT_COUNTED;
	if (!e->error) /* no target is left */
		return COUNTER_NOT_COUNTED;
	return e->error == -EACCES || e->error == -EPERM ? COUNTER_NOT_PERMITTED
							 : COUNTER_NOT_SUPPORTED;
}

void counters_value(const struct counters *c, uint32_t row, size_t event,
		    struct counters_value *ret)
{
	struct counters_value sum = {.value = 0};

	for (size_t i = 0; i < c->n; i++) {
		const struct counter *counter = &c->counters[i * c->options.n + event];
		uint64_t enabled = counter->last.enabled - counter->before.enabled,
			 running = counter->last.running - counter->before.running;

		if (counter->fd < 0 || counter->row != row)
			continue;
		sum.value += scaled(counter->last.value - counter->before.value, enabled, running);
		sum.enabled_ns += enabled;
		sum.running_ns += running;
	}
	sum.state = state_of(&c->events[event], sum.running_ns || sum.value);
	*ret = sum;
}
