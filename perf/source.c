/* source.c - see source.h.  The life of a source; the rest is in source-open.c, -rings.c, -count.c.
 */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "perf/gate.h"
#include "perf/source-parts.h"

void source_note(const struct perf_source *source, const char *format, ...)
{
	char line[512];
	va_list ap;

	if (!source->options.note)
		return;
	va_start(ap, format);
	(void)vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	source->options.note(source->options.note_arg, line);
}

int source_explain(const struct perf_source *source, int r, pid_t tid,
		   const struct source_answer *answer)
{
	const struct perf_spec *spec = source->failed ? source->failed : &source->options.leader;
	struct gate_case refused = {
		.error = r,
		.tid = tid,
		.spec = spec,
		.options = &source->options,
	};

	if (source->failed_filter) {
		const char *name = strchr(spec->tracepoint, ':');

		*answer->gate = PERF_GATE_OTHER;
		(void)snprintf(answer->error, answer->error_size,
			       "'%s': the kernel refuses the filter '%s' (%s)", spec->name,
			       spec->filter, strerror(-r));
		if (name) {
			size_t len = strnlen(answer->error, answer->error_size);

			(void)snprintf(answer->error + len, answer->error_size - len,
				       "; fields: /sys/kernel/tracing/events/%.*s/%s/format",
				       (int)(name - spec->tracepoint), spec->tracepoint, name + 1);
		}
		return fail(r);
	}
	*answer->gate = gate_explain(&refused, answer->error, answer->error_size);
	return fail(r);
}

static int copy_spec(struct perf_spec *spec)
{
	char *filter = spec->filter, *path = spec->probe_path;

	spec->filter = NULL;
	spec->probe_path = NULL;
	if (filter && !(spec->filter = strdup(filter)))
		return fail(-ENOMEM);
	if (path && !(spec->probe_path = strdup(path)))
		return fail(-ENOMEM);
	return 0;
}

/* The borrowed strings and CPUs become ours: a change of stack size opens events again. */
static int copy_options(struct perf_source *source, const struct perf_options *options)
{
	size_t n = options->n_followers;
	int r;

	source->options = *options;
	source->options.n_followers = 0;
	source->options.cpus = NULL;
	r = copy_spec(&source->options.leader);
	for (size_t i = 0; i < PERF_MAX_FOLLOWERS; i++) {
		struct perf_spec *spec = &source->options.followers[i];

		if (i >= n || r < 0) {
			spec->filter = NULL;
			spec->probe_path = NULL;
			continue;
		}
		r = copy_spec(spec);
	}
	if (r < 0)
		return trace(r);
	source->options.n_followers = n;

	source->option_cpus = calloc(options->n_cpus, sizeof(source->option_cpus[0]));
	source->cpus = calloc(options->n_cpus, sizeof(source->cpus[0]));
	if (!source->option_cpus || !source->cpus)
		return fail(-ENOMEM);
	memcpy(source->option_cpus, options->cpus, options->n_cpus * sizeof(options->cpus[0]));
	source->options.cpus = source->option_cpus;
	source->n_cpus = options->n_cpus;
	for (size_t i = 0; i < options->n_cpus; i++)
		source->cpus[i] = (struct source_cpu){
			.cpu = options->cpus[i],
			.stack_bytes = options->stack_bytes,
		};
	return 0;
}

static int check_options(const struct perf_options *options, const struct source_answer *answer)
{
	const char *wrong = NULL;

	*answer->gate = PERF_GATE_OTHER;
	if (options->n_cpus == 0)
		wrong = "no CPU to profile";
	else if (options->n_followers > PERF_MAX_FOLLOWERS)
		wrong = "too many followers: at most 7";
	else if (options->stack_bytes > 65528 || options->stack_bytes % 8)
		wrong = "the stack copy must be a multiple of 8, at most 65528 bytes";
	else if (options->poll && options->tasks)
		wrong = "counters are read of whole CPUs only";
	else if (!options->poll && !options->period == !options->frequency)
		wrong = "either a period or a frequency is needed";
	if (wrong) {
		(void)snprintf(answer->error, answer->error_size, "%s", wrong);
		return fail(-EINVAL);
	}
	if (!gate_frequency_allowed(options, answer->error, answer->error_size)) {
		*answer->gate = PERF_GATE_RATE;
		return fail(-EINVAL);
	}
	*answer->gate = PERF_GATE_NONE;
	return 0;
}

int perf_source_new(const struct perf_options *options, struct perf_source **ret_source,
		    enum perf_gate *ret_gate, char *error, size_t error_size)
{
	struct source_answer answer = {.gate = ret_gate, .error = error, .error_size = error_size};
	struct perf_source *source;
	int r;

	r = check_options(options, &answer);
	if (r < 0)
		return trace(r);
	/* Own events are many.  Where that fails the opens tell. */
	use_hard_limit(RLIMIT_NOFILE);
	use_hard_limit(RLIMIT_MEMLOCK);
	source = calloc(1, sizeof(*source));
	r = source ? copy_options(source, options) : -ENOMEM;
	if (r >= 0)
		r = merge_new(&source->merge);
	if (r < 0) {
		(void)snprintf(error, error_size, "%s", strerror(-r));
		*ret_gate = PERF_GATE_OTHER;
		goto failed;
	}
	if (options->tasks && options->n_followers &&
	    !options->features.has[FEATURE_INHERIT_READ]) {
		for (size_t i = 0; i < source->options.n_followers; i++)
			perf_spec_deinit(&source->options.followers[i]);
		source->options.n_followers = 0;
		source_note(source, "the events after the first are left out: counting them for a "
				    "process needs "
				    "Linux 6.13; the whole machine (-a) has them");
	}
	if (!options->tasks) {
		r = source_open_task(source, -1, &answer);
		if (r < 0)
			goto failed;
	}
	*ret_source = source;
	return 0;
failed:
	perf_source_free(source);
	return trace(r);
}

struct perf_source *perf_source_free(struct perf_source *source)
{
	if (!source)
		return NULL;
	source_rings_unmap(source);
	source->merge = merge_free(source->merge);
	for (size_t i = 0; i < source->n_tasks; i++)
		source_task_deinit(source, &source->tasks[i]);
	free(source->tasks);
	table_deinit(&source->tid_of_id);
	table_deinit(&source->added);
	perf_spec_deinit(&source->options.leader);
	for (size_t i = 0; i < PERF_MAX_FOLLOWERS; i++)
		perf_spec_deinit(&source->options.followers[i]);
	free(source->option_cpus);
	free(source->cpus);
	free(source);
	return NULL;
}

int perf_source_add_task(struct perf_source *source, pid_t tid, enum perf_gate *ret_gate,
			 char *error, size_t error_size)
{
	struct source_answer answer = {.gate = ret_gate, .error = error, .error_size = error_size};
	int r;

	if (!source->options.tasks || tid <= 0)
		return fail(-EINVAL);
	r = source_open_task(source, tid, &answer);
	if (r == -ESRCH)
		return PERF_TASK_GONE;
	return r < 0 ? trace(r) : 0;
}

void perf_source_forget_task(struct perf_source *source, pid_t tid)
{
	(void)table_remove(&source->added, (uint64_t)tid);
}

bool perf_source_has_task(const struct perf_source *source, pid_t tid)
{
	uint64_t v;

	return table_get(&source->added, (uint64_t)tid, &v);
}

size_t perf_source_n_tasks(const struct perf_source *source)
{
	return source->n_tasks;
}

void perf_source_withdraw_tasks(struct perf_source *source, size_t n)
{
	while (source->n_tasks > n) {
		struct source_task *task = &source->tasks[--source->n_tasks];

		(void)table_remove(&source->added, (uint64_t)task->tid);
		for (size_t i = 0; i < source->n_cpus; i++)
			(void)table_remove(&source->tid_of_id, task->groups[i].id);
		source_task_deinit(source, task);
	}
	source->living = 0;
}

bool perf_source_is_inherited_double(const struct perf_source *source, uint64_t id, pid_t tid)
{
	uint64_t owner;

	/* one task at first and nobody else: nothing could be counted twice */
	if (source->n_tasks < 2 || !table_get(&source->added, (uint64_t)tid, &owner))
		return false;
	return table_get(&source->tid_of_id, id, &owner) && owner != (uint64_t)tid;
}

size_t perf_source_fds_per_task(const struct perf_options *options)
{
	return options->n_cpus * (1 + options->n_followers + 1) + 1;
}

static int switch_fd(int fd, unsigned long request)
{
	if (fd < 0 || ioctl(fd, request, 0) == 0)
		return 0;
	return fail(-errno);
}

/* Side-band goes on first and off last: what a sample depends on is told. */
static int switch_all(struct perf_source *source, bool on)
{
	unsigned long request = on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE;
	int first_error = 0;

	for (int pass = 0; pass < 2; pass++) {
		bool sideband = (pass == 0) == on;

		for (size_t t = 0; t < source->n_tasks; t++) {
			const struct source_task *task = &source->tasks[t];

			for (size_t i = 0; i < source->n_cpus; i++) {
				const struct source_group *group = &task->groups[i];
				int r = switch_fd(sideband ? group->sideband : group->fds[0],
						  request);

				if (r < 0 && first_error == 0)
					first_error = r;
			}
			if (!sideband)
				(void)switch_fd(task->clock_fd, request);
		}
	}
	return first_error;
}

int perf_source_enable(struct perf_source *source)
{
	source->enabled = true;
	return trace(switch_all(source, true));
}

int perf_source_disable(struct perf_source *source)
{
	source->enabled = false;
	return trace(switch_all(source, false));
}

struct merge *perf_source_merge(struct perf_source *source)
{
	return source->merge;
}

size_t perf_source_n_rings(const struct perf_source *source)
{
	return source->n_rings;
}

const struct perf_ring *perf_source_ring(const struct perf_source *source, size_t index)
{
	return index < source->n_rings ? &source->rings[index].ring : NULL;
}

bool perf_source_user_only(const struct perf_source *source)
{
	return source->user_only;
}

const struct perf_options *perf_source_options(const struct perf_source *source)
{
	return &source->options;
}
