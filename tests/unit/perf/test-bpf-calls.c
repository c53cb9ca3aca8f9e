/* test-bpf-calls.c - each allocation and system call with which a map, a ring, a program and the BPF program of a session are made
 * fails once: an error, or the session runs without, for which one line states the reason. */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "perf/at-sample.h"
#include "tests/unit/fail-calls.h"

static int make_memory(void *arg)
{
	int fd = bpf_memory_map(4096);

	return fd < 0 ? fd : bpf_memory_open(fd, 4096, arg);
}
static void end_memory(void *arg)
{
	bpf_memory_deinit(arg);
}

static int make_ring(void *arg)
{
	int fd = bpf_ring_map(4096);

	return fd < 0 ? fd : bpf_ring_open(fd, 4096, arg);
}
static void end_ring(void *arg)
{
	(void)bpf_ring_free(*(struct bpf_ring **)arg);
}

static int make_jump(void *arg)
{
	_cleanup_(fd_closep) int array = bpf_array_new();
	int *jump = arg;

	*jump = array < 0 ? array : bpf_jump_new(array);
	return *jump;
}
static void end_jump(void *arg)
{
	(void)fd_close(*(int *)arg);
}

static int try_it(void *arg)
{
	(void)arg;
	return bpf_try();
}
static void end_try(void *arg)
{
	(void)arg;
}

struct samples {
	bool later;
	struct at_sample *sample;
};

/* All parts are loaded by the helper process.  false: they were refused. */
static bool parts_are_loaded(struct at_sample *sample)
{
	struct pollfd pfd = {.events = POLLIN};
	int r = AT_SAMPLE_WAITS;

	pfd.fd = at_sample_want(sample, AT_SAMPLE_DEEP | AT_SAMPLE_PYTHON);
	if (pfd.fd < 0)
		return false;
	while (r == AT_SAMPLE_WAITS) {
		assert_int_equal(poll(&pfd, 1, 60000), 1);
		r = at_sample_answer(sample);
	}
	return r == 0;
}

static int make_sample(void *arg)
{
	static struct features features = {.has[FEATURE_BPF] = true};
	struct samples *made = arg;
	const struct at_sample_options options = {
		.features = &features, .deep = true, .python = true, .later = made->later};
	char why[256] = "";
	int r = at_sample_new(&options, &made->sample, why, sizeof(why));

	if (r < 0 || !made->sample) {
		if ((r != -ENOMEM && !why[0]) || made->sample)
			fail_msg("call %lu: %d without a line", calls_fail_at, r);
		return r;
	}
	at_sample_set_clock(made->sample, CLOCK_MONOTONIC);
	if (made->later && !parts_are_loaded(made->sample)) {
		made->sample = at_sample_free(made->sample);
		return -ECANCELED;
	}
	return 0;
}
static void end_sample(void *arg)
{
	struct samples *made = arg;

	made->sample = at_sample_free(made->sample);
}

static void sweep(const char *name, int (*make)(void *), void (*end)(void *), void *arg)
{
	const struct calls_made of = {name, make, end, arg};
	int r = bpf_try();

	if (r < 0) {
		print_message("no BPF here: %s\n", strerror(-r));
		skip();
	}
	calls_sweep(&of);
}

static void test_parts(void **state)
{
	struct bpf_memory memory;
	struct bpf_ring *ring;
	int jump;

	(void)state;
	sweep("memory", make_memory, end_memory, &memory);
	sweep("ring", make_ring, end_ring, &ring);
	sweep("jump", make_jump, end_jump, &jump);
	sweep("try", try_it, end_try, NULL);
}

static void test_now(void **state)
{
	struct samples samples = {.later = false};

	(void)state;
	sweep("now", make_sample, end_sample, &samples);
}

static void test_later(void **state)
{
	struct samples samples = {.later = true};

	(void)state;
	calls_of_children = true;
	sweep("later", make_sample, end_sample, &samples);
	calls_of_children = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_parts), cmocka_unit_test(test_now),
					   cmocka_unit_test(test_later)};

	return cmocka_run_group_tests_name("bpf-calls", tests, NULL, NULL);
}
