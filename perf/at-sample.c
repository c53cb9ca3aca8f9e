/* at-sample.c - see at-sample.h. */
#include "perf/at-sample.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"

static int load(struct at_sample *a, char *why, size_t why_size)
{
	struct bpf_part parts[2];
	size_t n = 0;

	if (a->deep)
		parts[n++] = deep_part(a->deep);
	if (a->python)
		parts[n++] = python_stacks_part(a->python);
	a->program_fd = bpf_program_new(parts, n, why, why_size);
	/* Before Linux 5.17 there are no loops as the frames of Python need them. */
	if (a->program_fd < 0 && a->deep && a->python) {
		a->python = python_stacks_free(a->python);
		return load(a, why, why_size);
	}
	return a->program_fd;
}

int at_sample_new(const struct at_sample_options *o, struct at_sample **ret_sample, char *why,
		  size_t why_size)
{
	struct at_sample *a;
	int r;

	*why = 0;
	*ret_sample = NULL;
	if (!o->deep && !o->python)
		return 0;
	if (!o->features->has[FEATURE_BPF]) {
		(void)snprintf(why, why_size, "%s", feature_words(FEATURE_BPF, false));
		return 0;
	}
	a = calloc(1, sizeof(*a));
	if (!a)
		return fail(-ENOMEM);
	a->program_fd = -1;
	r = o->deep ? deep_new(o->clock, o->n_cpus, &a->deep) : 0;
	if (r >= 0 && o->python)
		r = python_stacks_new(o->clock, o->n_cpus, &a->python);
	if (r < 0)
		(void)snprintf(why, why_size, "no BPF program at samples: %s", strerror(-r));
	else
		r = load(a, why, why_size);
	if (r < 0) {
		(void)at_sample_free(a);
		return r == -ENOMEM ? fail(r) : 0;
	}
	*ret_sample = a;
	return 0;
}

struct at_sample *at_sample_free(struct at_sample *a)
{
	if (!a)
		return NULL;
	a->program_fd = fd_close(a->program_fd);
	a->deep = deep_free(a->deep);
	a->python = python_stacks_free(a->python);
	free(a);
	return NULL;
}
