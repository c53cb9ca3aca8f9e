/* at-sample.c - see at-sample.h.
 *
 * Requests to pw-bpf, each answered with one descriptor at most:
 *
 *   LOAD    makes the maps, loads the program
 *   GIVE    a map; one request each.  Main maps it
 *   BEGIN   comes with the jump's array: puts the program there */
#include "perf/at-sample.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/error.h"
#include "base/helper.h"

enum map { DEEP_RING, DEEP_TABLE, PYTHON_RING, PYTHON_TABLE, MAPS };
_Static_assert((int)MAPS == AT_SAMPLE_MAPS, "all maps");
#define NONE                   \
	{                      \
		-1, -1, -1, -1 \
	}

/* The program that is wanted. */
struct plan {
	size_t bytes[MAPS]; /* 0: not wanted */
};

struct made {
	int maps[MAPS], program; /* -1: none */
};

enum { ROOM = 4096 }; /* at least sizeof(struct answer) */

enum step { STEP_LOAD = 1, STEP_GIVE, STEP_BEGIN = STEP_GIVE + MAPS };

struct request {
	uint32_t step;
	struct plan plan;
};

struct answer {
	int32_t result;
	char why[256];
};

/* ---- loading ---- */

static void made_deinit(struct made *made)
{
	for (size_t i = 0; i < MAPS; i++)
		made->maps[i] = fd_close(made->maps[i]);
	made->program = fd_close(made->program);
}

static int make_maps(const struct plan *plan, struct made *made)
{
	for (size_t i = 0; i < MAPS; i++) {
		bool ring = i == DEEP_RING || i == PYTHON_RING;

		if (!plan->bytes[i])
			continue;
		made->maps[i] =
			ring ? bpf_ring_map(plan->bytes[i]) : bpf_memory_map(plan->bytes[i]);
		if (made->maps[i] < 0)
			return fail(made->maps[i]);
	}
	return 0;
}

static int load(const struct made *made, const struct at_sample_settings *settings,
		const char *program, char *why, size_t why_size)
{
	const struct bpf_map_of maps[] = {
		{"deep_ring", made->maps[DEEP_RING]},
		{"deep_table", made->maps[DEEP_TABLE]},
		{"python_ring", made->maps[PYTHON_RING]},
		{"python_table", made->maps[PYTHON_TABLE]},
	};

	return bpf_program_new(program, settings, sizeof(*settings), maps, ARRAY_SIZE(maps), why,
			       why_size);
}

/* Samples of kernel code need BTF and a newer kernel; so do the loops of Python's frames. */
static int load_best(const struct plan *plan, struct made *made, char *why, size_t why_size)
{
	struct at_sample_settings settings = {
		.deep = plan->bytes[DEEP_RING] != 0,
		.python = plan->bytes[PYTHON_RING] != 0,
		.deep_ring_bytes = (uint32_t)plan->bytes[DEEP_RING],
	};
	static const char *const programs[] = {"at_sample", "at_sample_no_loop"};
	int r = -EINVAL;

	for (size_t i = 0; i < ARRAY_SIZE(programs) && (i == 0 || settings.deep); i++) {
		for (int in_kernel = 1; in_kernel >= 0; in_kernel--) {
			settings.in_kernel = (uint8_t)in_kernel;
			r = load(made, &settings, programs[i], why, why_size);
			if (r >= 0)
				made->program = r;
			if (r >= 0 && i > 0) {
				made->maps[PYTHON_RING] = fd_close(made->maps[PYTHON_RING]);
				made->maps[PYTHON_TABLE] = fd_close(made->maps[PYTHON_TABLE]);
			}
			if (r >= 0 || (r != -EINVAL && r != -EACCES && r != -ENOTSUP))
				return r;
		}
	}
	return r;
}

/* < 0: a line in @why. */
static int make(const struct plan *plan, struct made *made, char *why, size_t why_size)
{
	int r;

	*made = (struct made){.maps = NONE, .program = -1};
	r = make_maps(plan, made);
	if (r < 0)
		(void)snprintf(why, why_size, "no BPF program at samples: %s", strerror(-r));
	else
		r = load_best(plan, made, why, why_size);
	return r < 0 ? r : 0;
}

/* ---- pw-bpf ---- */

static void *begin_loading(const void *arg)
{
	struct made *made = malloc(sizeof(*made));

	(void)arg;
	if (made)
		*made = (struct made){.maps = NONE, .program = -1};
	return made;
}

static void serve(void *kept, struct helper_call *call)
{
	struct made *made = kept;
	struct answer answer = {.result = 0};
	struct request request;

	if (call->request_len != sizeof(request) || call->room < sizeof(answer))
		return;
	memcpy(&request, call->request, sizeof(request));
	if (request.step == STEP_LOAD) {
		made_deinit(made);
		answer.result = make(&request.plan, made, answer.why, sizeof(answer.why));
	} else if (request.step < STEP_BEGIN) {
		call->answer_fd = take_fd(made->maps[request.step - STEP_GIVE]);
	} else {
		answer.result = bpf_array_put(call->fd, made->program);
		(void)snprintf(answer.why, sizeof(answer.why),
			       "the events' array does not take it: %s", strerror(-answer.result));
	}
	memcpy(call->answer, &answer, sizeof(answer));
	call->answer_len = sizeof(answer);
}

/* RESOURCE: before 5.11 maps count as locked memory, and libbpf raises the limit.  Some containers grant SYS_ADMIN alone. */
static uint64_t rights_to_load(void)
{
	const uint64_t bpf = CAPS_BIT(CAP_BPF) | CAPS_BIT(CAP_PERFMON);
	struct caps caps;

	if (caps_get(&caps) < 0 || (caps.effective & bpf) == bpf)
		return bpf | CAPS_BIT(CAP_SYS_RESOURCE);
	return bpf | CAPS_BIT(CAP_SYS_RESOURCE) | CAPS_BIT(CAP_SYS_ADMIN);
}

static int make_later(struct at_sample *a)
{
	const struct helper_role role = {
		.name = "pw-bpf",
		.room = ROOM,
		.rights = rights_to_load(),
		.calls = CHILD_CALLS_BPF,
		.begin = begin_loading,
		.serve = serve,
	};

	a->array_fd = bpf_array_new();
	if (a->array_fd >= 0)
		a->program_fd = bpf_jump_new(a->array_fd);
	if (a->array_fd < 0 || a->program_fd < 0)
		return fail(a->array_fd < 0 ? a->array_fd : a->program_fd);
	return trace(helper_new(&role, NULL, &a->helper));
}

static struct plan plan_of(const struct at_sample *a)
{
	size_t n_cpus = (size_t)max_u64(1, (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
	struct plan plan = {.bytes = {0}};

	if (a->deep) {
		plan.bytes[DEEP_RING] = deep_ring_bytes(n_cpus);
		plan.bytes[DEEP_TABLE] = sizeof(struct deep_table);
	}
	if (a->python) {
		plan.bytes[PYTHON_RING] = python_stacks_ring_bytes(n_cpus);
		plan.bytes[PYTHON_TABLE] = sizeof(struct python_table);
	}
	return plan;
}

/* Maps what was made.  Without loops in programs there are no maps for Python. */
static int map_all(struct at_sample *a, const struct plan *plan)
{
	int *m = a->maps, ring, table, r = 0;

	if (a->deep && m[DEEP_RING] >= 0) {
		ring = take_fd(m[DEEP_RING]);
		table = take_fd(m[DEEP_TABLE]);
		r = deep_begin(a->deep, ring, plan->bytes[DEEP_RING], table);
	}
	if (r >= 0 && a->python && m[PYTHON_RING] >= 0) {
		ring = take_fd(m[PYTHON_RING]);
		table = take_fd(m[PYTHON_TABLE]);
		r = python_stacks_begin(a->python, ring, plan->bytes[PYTHON_RING], table);
	}
	return trace(r);
}

static int make_now(struct at_sample *a, char *why, size_t why_size)
{
	struct plan plan = plan_of(a);
	struct made made;
	int r = make(&plan, &made, why, why_size);

	if (r < 0) {
		made_deinit(&made);
		return r;
	}
	memcpy(a->maps, made.maps, sizeof(a->maps));
	a->program_fd = made.program;
	if (a->maps[PYTHON_RING] < 0)
		a->python = python_stacks_free(a->python);
	return map_all(a, &plan);
}

/* ---- life cycle ---- */

static struct at_sample *sample_alloc(void)
{
	struct at_sample *a = calloc(1, sizeof(*a));

	if (a)
		*a = (struct at_sample){.program_fd = -1, .array_fd = -1, .maps = NONE};
	return a;
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
	a = sample_alloc();
	if (!a)
		return fail(-ENOMEM);
	r = o->deep ? deep_new(&a->deep) : 0;
	if (r >= 0 && o->python)
		r = python_stacks_new(&a->python);
	if (r >= 0)
		r = o->later ? make_later(a) : make_now(a, why, why_size);
	if (r < 0) {
		if (!*why)
			(void)snprintf(why, why_size, "no BPF program at samples: %s",
				       strerror(-r));
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
	a->helper = helper_free(a->helper);
	for (size_t i = 0; i < MAPS; i++)
		a->maps[i] = fd_close(a->maps[i]);
	a->program_fd = fd_close(a->program_fd);
	a->array_fd = fd_close(a->array_fd);
	a->deep = deep_free(a->deep);
	a->python = python_stacks_free(a->python);
	free(a);
	return NULL;
}

/* ---- later ---- */

static int ask(struct at_sample *a, uint32_t step)
{
	struct request request = {.step = step, .plan = plan_of(a)};

	a->step = step;
	return trace(helper_ask(a->helper, &request, sizeof(request),
				step == STEP_BEGIN ? a->array_fd : -1));
}

static int refused(struct at_sample *a, const char *why)
{
	log_verbose("no BPF program at samples: %s", why);
	a->helper = helper_free(a->helper);
	return AT_SAMPLE_REFUSED;
}

int at_sample_want(struct at_sample *a)
{
	if (!a->helper || a->step)
		return -1;
	if (ask(a, STEP_LOAD) < 0) {
		(void)refused(a, "pw-bpf has ended");
		return -1;
	}
	return helper_fd(a->helper);
}

/* < 0: a line in @answer. */
static int take_answer(struct at_sample *a, int map, struct answer *answer)
{
	_cleanup_(fd_closep) int fd = -1;
	const uint8_t *bytes;
	size_t len;
	int r = helper_answer(a->helper, &bytes, &len, &fd);

	*answer = (struct answer){.why = "pw-bpf has ended"};
	if (r != 0)
		return r;
	if (len != sizeof(*answer))
		return fail(-EBADMSG);
	memcpy(answer, bytes, sizeof(*answer));
	answer->why[sizeof(answer->why) - 1] = 0;
	if (answer->result >= 0 && map >= 0)
		a->maps[map] = take_fd(fd);
	return answer->result < 0 ? answer->result : 0;
}

int at_sample_answer(struct at_sample *a)
{
	int map = a->step >= STEP_GIVE && a->step < STEP_BEGIN ? (int)a->step - STEP_GIVE : -1;
	struct plan plan = plan_of(a);
	struct answer answer;
	int r;

	if (!a->helper)
		return AT_SAMPLE_REFUSED;
	r = take_answer(a, map, &answer);
	if (r == HELPER_WAITING)
		return AT_SAMPLE_WAITS;
	if (r < 0)
		return refused(a, answer.why);
	if (a->step == STEP_BEGIN) {
		a->helper = helper_free(a->helper);
		log_verbose("the BPF program runs at samples");
		return 0;
	}
	r = a->step + 1 == STEP_BEGIN ? map_all(a, &plan) : 0;
	if (r >= 0)
		r = ask(a, a->step + 1);
	return r < 0 ? refused(a, strerror(-r)) : AT_SAMPLE_WAITS;
}
