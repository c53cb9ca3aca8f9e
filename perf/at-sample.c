/* at-sample.c - see at-sample.h. */
#include "perf/at-sample.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

static int load(const struct at_sample *a, const struct at_sample_settings *settings,
		const char *program, char *why, size_t why_size)
{
	const struct bpf_map_of maps[] = {
		{"deep_ring", a->deep ? deep_fd(a->deep) : -1},
		{"deep_table", a->deep ? deep_table_fd(a->deep) : -1},
		{"python_ring", a->python ? python_stacks_fd(a->python) : -1},
		{"python_table", a->python ? python_stacks_table_fd(a->python) : -1},
	};

	return bpf_program_new(program, settings, sizeof(*settings), maps, ARRAY_SIZE(maps), why,
			       why_size);
}

/* Samples of kernel code need BTF and a newer kernel; so do the loops of Python's frames. */
static int load_best(struct at_sample *a, char *why, size_t why_size)
{
	struct at_sample_settings settings = {
		.deep = a->deep != NULL,
		.python = a->python != NULL,
		.deep_ring_bytes = a->deep ? (uint32_t)deep_ring_bytes(a->deep) : 0,
	};
	static const char *const programs[] = {"at_sample", "at_sample_no_loop"};
	int r = -EINVAL;

	for (size_t i = 0; i < ARRAY_SIZE(programs) && (i == 0 || a->deep); i++) {
		for (int in_kernel = 1; in_kernel >= 0; in_kernel--) {
			settings.in_kernel = (uint8_t)in_kernel;
			r = load(a, &settings, programs[i], why, why_size);
			if (r >= 0 && i > 0)
				a->python = python_stacks_free(a->python);
			if (r >= 0 || (r != -EINVAL && r != -EACCES && r != -ENOTSUP))
				return r;
		}
	}
	return r;
}

int at_sample_new(const struct at_sample_options *o, struct at_sample **ret_sample, char *why,
		  size_t why_size)
{
	size_t n_cpus = (size_t)max_u64(1, (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
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
	r = o->deep ? deep_new(n_cpus, &a->deep) : 0;
	if (r >= 0 && o->python)
		r = python_stacks_new(n_cpus, &a->python);
	if (r < 0)
		(void)snprintf(why, why_size, "no BPF program at samples: %s", strerror(-r));
	else
		r = a->program_fd = load_best(a, why, why_size);
	if (r < 0) {
		(void)at_sample_free(a);
		return r == -ENOMEM ? fail(r) : 0;
	}
	*why = 0;
	*ret_sample = a;
	return 0;
}

void at_sample_set_clock(struct at_sample *a, int clock)
{
	if (a->deep)
		deep_set_clock(a->deep, clock);
	if (a->python)
		python_stacks_set_clock(a->python, clock);
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
