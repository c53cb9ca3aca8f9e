/* source-open.c - opening the events of the machine or of a task, and the steps down.  See
 * source-parts.h.
 *
 * Everything is opened disabled, sent into its ring (SET_OUTPUT), then enabled: an event that runs
 * before it has a ring loses records without a count.
 *
 * The ladder, walked until the first event is open; each step is undone when it did not help:
 *   EACCES, EPERM   without the kernel (perf_event_paranoid 2 allows own user code only)
 *   EINVAL, EOPNOTSUPP, ENOENT   precise_ip one lower
 * Later events may only lower precise_ip: layouts are fixed once the rings are in the merge. */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

#include "perf/attr.h"
#include "perf/gate.h"
#include "perf/source-parts.h"

void source_group_init(struct source_group *group)
{
	for (size_t i = 0; i < ARRAY_SIZE(group->fds); i++)
		group->fds[i] = -1;
	group->sideband = -1;
	group->id = 0;
}

void source_group_deinit(struct source_group *group)
{
	/* followers first: a leader that goes makes them leaders */
	for (size_t i = ARRAY_SIZE(group->fds); i-- > 0;)
		group->fds[i] = fd_close(group->fds[i]);
	group->sideband = fd_close(group->sideband);
}

void source_task_deinit(struct perf_source *source, struct source_task *task)
{
	for (size_t i = 0; task->groups && i < source->n_cpus; i++)
		source_group_deinit(&task->groups[i]);
	free(task->groups);
	task->groups = NULL;
	task->clock_fd = fd_close(task->clock_fd);
}

static int open_event(struct perf_source *source, struct perf_event_attr *attr,
		      const struct perf_spec *spec, pid_t tid, int cpu, int group_fd)
{
	int fd;

	source->failed = spec;
	fd = perf_event_open(attr, tid, cpu, group_fd, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return fd;
	if (spec && spec->filter && ioctl(fd, PERF_EVENT_IOC_SET_FILTER, spec->filter) < 0) {
		int r = -errno;

		source->failed_filter = true;
		fd_close(fd);
		return r;
	}
	return fd;
}

static int open_members(struct perf_source *source, pid_t tid, size_t cpu_index,
			uint32_t stack_bytes, struct source_group *group)
{
	const struct perf_options *options = &source->options;
	int cpu = (int)source->cpus[cpu_index].cpu;
	struct perf_event_attr attr;
	int fd;

	attr_leader(options, stack_bytes, &attr);
	fd = open_event(source, &attr, &options->leader, tid, cpu, -1);
	if (fd < 0)
		return fd;
	group->fds[0] = fd;
	for (size_t i = 0; i < options->n_followers; i++) {
		attr_follower(options, i, &attr);
		fd = open_event(source, &attr, &options->followers[i], tid, cpu, group->fds[0]);
		if (fd < 0)
			return fd;
		group->fds[1 + i] = fd;
	}
	source->failed = NULL;
	if (ioctl(group->fds[0], PERF_EVENT_IOC_ID, &group->id) < 0)
		return fail(-errno);
	return 0;
}

int source_group_open(struct perf_source *source, pid_t tid, size_t cpu_index, uint32_t stack_bytes,
		      struct source_group *group)
{
	int r = open_members(source, tid, cpu_index, stack_bytes, group);

	if (r < 0) /* not the side-band event, which may be there already */
		for (size_t i = ARRAY_SIZE(group->fds); i-- > 0;)
			group->fds[i] = fd_close(group->fds[i]);
	return r; /* an answer for the ladder, not yet a failure */
}

/* Without the kernel nothing would be left of these. */
static bool lives_in_kernel(const struct perf_spec *spec)
{
	if (spec->exclude_user || spec->tracepoint[0] || spec->type == PERF_TYPE_TRACEPOINT)
		return true;
	return spec->type == PERF_TYPE_SOFTWARE &&
	       (spec->config == PERF_COUNT_SW_CONTEXT_SWITCHES ||
		spec->config == PERF_COUNT_SW_CPU_MIGRATIONS ||
		spec->config == 11 /* cgroup-switches */);
}

static bool step_to_user(struct perf_source *source)
{
	struct perf_options *options = &source->options;

	if (source->settled || source->user_only || lives_in_kernel(&options->leader))
		return false;
	if (!source->failed || source->failed->exclude_kernel)
		return false;
	source->user_only = true;
	options->leader.exclude_kernel = true;
	options->leader.exclude_hv = true;
	for (size_t i = 0; i < options->n_followers; i++) {
		options->followers[i].exclude_kernel = true;
		options->followers[i].exclude_hv = true;
	}
	options->kernel_chain = false;
	return true;
}

static bool step_down(struct perf_source *source, int r)
{
	if (source->failed_filter)
		return false;
	if (r == -EACCES || r == -EPERM)
		return step_to_user(source);
	if ((r == -EINVAL || r == -EOPNOTSUPP || r == -ENOENT) &&
	    source->options.leader.precise_ip) {
		source->options.leader.precise_ip--;
		return true;
	}
	return false;
}

static void note_steps(const struct perf_source *source, uint8_t precise_before,
		       bool user_only_before)
{
	const char *name = source->options.leader.name;
	const char *modifiers = strpbrk(name, ":/");

	if (source->user_only && !user_only_before)
		source_note(source,
			    "kernel not permitted (perf_event_paranoid = %d): user code only; to "
			    "see the kernel: "
			    "sudo sysctl kernel.perf_event_paranoid=1, or run as root",
			    (int)gate_sysctl("perf_event_paranoid", 2));
	for (size_t i = 0;
	     source->user_only && !user_only_before && i < source->options.n_followers; i++)
		if (lives_in_kernel(&source->options.followers[i]))
			source_note(source, "'%s' happens in the kernel: it will count 0",
				    source->options.followers[i].name);
	/* Asked for in so many letters?  The default is "the highest", which needs no words. */
	for (const char *p = modifiers; p; p = strpbrk(p + 1, ":/"))
		modifiers = p;
	if (source->options.leader.precise_ip < precise_before && modifiers &&
	    strchr(modifiers, 'p'))
		source_note(source, "'%s': the highest precision of this machine is %u", name,
			    source->options.leader.precise_ip);
}

static int open_by_ladder(struct perf_source *source, pid_t tid, size_t cpu_index,
			  struct source_group *group, const struct source_answer *answer)
{
	struct perf_options before = source->options;
	bool user_only = source->user_only;
	int r;

	source->failed_filter = false;
	do {
		r = source_group_open(source, tid, cpu_index, source->cpus[cpu_index].stack_bytes,
				      group);
	} while (r < 0 && step_down(source, r));
	if (r >= 0) {
		note_steps(source, before.leader.precise_ip, user_only);
		return 0;
	}
	if (r != -ENODEV && r != -ENOENT && r != -ESRCH)
		(void)source_explain(source, r, tid, answer);
	source->options = before;
	source->user_only = user_only;
	return r;
}

/* One CPU's events of @tid, unless it went offline or is of a kind without this counter. */
enum { CPU_OFFLINE = 1, CPU_WITHOUT, CPU_REFUSED };
static int open_cpu(struct perf_source *source, pid_t tid, size_t i, struct source_group *group,
		    const struct source_answer *answer)
{
	struct perf_event_attr attr;
	int r;

	r = open_by_ladder(source, tid, i, group, answer);
	if (r == -ENODEV || r == -ENOENT)
		return r == -ENODEV ? CPU_OFFLINE : CPU_WITHOUT;
	if (r < 0 || source->options.poll)
		return r;
	attr_sideband(&source->options, &attr);
	r = open_event(source, &attr, NULL, tid, (int)source->cpus[i].cpu, -1);
	if (r == -ENODEV)
		return CPU_OFFLINE;
	if (r < 0)
		return r == -ESRCH ? r : source_explain(source, r, tid, answer);
	group->sideband = r;
	return 0;
}

static int open_clock(struct perf_source *source, struct source_task *task,
		      const struct source_answer *answer)
{
	struct perf_event_attr attr;
	int r;

	attr_task_clock(&source->options, &attr);
	r = open_event(source, &attr, NULL, task->tid, -1, -1);
	if (r < 0)
		return r == -ESRCH ? r : source_explain(source, r, task->tid, answer);
	task->clock_fd = r;
	return 0;
}

/* CPUs whose groups stayed closed leave the list, before any ring is made. */
static void drop_empty_cpus(struct perf_source *source, struct source_task *task)
{
	size_t n = 0;

	for (size_t i = 0; i < source->n_cpus; i++) {
		if (task->groups[i].fds[0] < 0) {
			source_group_deinit(&task->groups[i]);
			continue;
		}
		task->groups[n] = task->groups[i];
		source->cpus[n] = source->cpus[i];
		source->option_cpus[n] = source->option_cpus[i];
		n++;
	}
	source->n_cpus = n;
	source->options.n_cpus = n;
}

static int open_all(struct perf_source *source, struct source_task *task,
		    const struct source_answer *answer)
{
	size_t opened = 0, without = 0;
	int r;

	for (size_t i = 0; i < source->n_cpus; i++) {
		r = open_cpu(source, task->tid, i, &task->groups[i], answer);
		if (r < 0 && source->options.ignore_open_failure)
			r = CPU_REFUSED;
		if (r < 0)
			return r;
		opened += r == 0;
		without += r == CPU_WITHOUT;
		if (r > 0)
			source_group_deinit(&task->groups[i]);
	}
	if (opened == 0 && !source->options.ignore_open_failure)
		return source_explain(source, -ENOENT, task->tid, answer);
	if (without && !source->settled)
		source_note(source,
			    "%zu of %zu CPUs have no counter for '%s': what runs there is not seen",
			    without, source->n_cpus, source->options.leader.name);
	return task->tid < 0 ? 0 : open_clock(source, task, answer);
}

static int send_to_rings(struct perf_source *source, const struct source_task *task)
{
	for (size_t i = 0; i < source->n_cpus && source->rings; i++) {
		const struct source_group *group = &task->groups[i];

		if (group->fds[0] < 0)
			continue;
		if (ioctl(group->fds[0], PERF_EVENT_IOC_SET_OUTPUT, source->rings[2 * i].ring.fd) <
			    0 ||
		    ioctl(group->sideband, PERF_EVENT_IOC_SET_OUTPUT,
			  source->rings[2 * i + 1].ring.fd) < 0)
			return fail(-errno);
	}
	return 0;
}

static int remember(struct perf_source *source, const struct source_task *task)
{
	int r;

	if (task->tid < 0)
		return 0;
	r = table_put(&source->added, (uint64_t)task->tid, 1);
	for (size_t i = 0; r >= 0 && i < source->n_cpus; i++)
		if (task->groups[i].fds[0] >= 0)
			r = table_put(&source->tid_of_id, task->groups[i].id, (uint64_t)task->tid);
	return r < 0 ? trace(r) : 0;
}

static int enable_task(const struct perf_source *source, const struct source_task *task)
{
	for (int pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < source->n_cpus; i++) {
			int fd = pass == 0 ? task->groups[i].sideband : task->groups[i].fds[0];

			if (fd >= 0 && ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
				return fail(-errno);
		}
	if (task->clock_fd >= 0 && ioctl(task->clock_fd, PERF_EVENT_IOC_ENABLE, 0) < 0)
		return fail(-errno);
	return 0;
}

static int make_room(struct perf_source *source)
{
	size_t room = source->tasks_room ? 2 * source->tasks_room : 8;
	struct source_task *more;

	if (source->n_tasks < source->tasks_room)
		return 0;
	more = reallocarray(source->tasks, room, sizeof(*more));
	if (!more)
		return fail(-ENOMEM);
	source->tasks = more;
	source->tasks_room = room;
	return 0;
}

/* From open events to a member of the source. */
static int join(struct perf_source *source, struct source_task *task,
		const struct source_answer *answer)
{
	int r;

	if (!source->settled) {
		drop_empty_cpus(source, task);
		r = source->options.poll ? 0 : source_rings_map(source, answer);
		if (r < 0)
			return r;
		source->settled = true;
	}
	r = send_to_rings(source, task);
	if (r >= 0)
		r = make_room(source);
	if (r >= 0)
		r = remember(source, task);
	if (r >= 0 && source->enabled)
		r = enable_task(source, task);
	if (r < 0) {
		*answer->gate = PERF_GATE_OTHER;
		(void)snprintf(answer->error, answer->error_size, "perf events: %s", strerror(-r));
	}
	return r;
}

int source_open_task(struct perf_source *source, pid_t tid, const struct source_answer *answer)
{
	struct source_task task = {.tid = tid, .clock_fd = -1};
	int r;

	task.groups = calloc(source->n_cpus, sizeof(task.groups[0]));
	if (!task.groups) {
		*answer->gate = PERF_GATE_OTHER;
		(void)snprintf(answer->error, answer->error_size, "%s", strerror(ENOMEM));
		return fail(-ENOMEM);
	}
	for (size_t i = 0; i < source->n_cpus; i++)
		source_group_init(&task.groups[i]);
	r = open_all(source, &task, answer);
	if (r >= 0)
		r = join(source, &task, answer);
	if (r < 0) {
		source_task_deinit(source, &task);
		return trace(r);
	}
	source->tasks[source->n_tasks++] = task;
	return 0;
}
