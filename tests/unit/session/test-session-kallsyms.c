/* test-session-kallsyms.c - the kernel's symbols of sessions that share them. */
#include "session/session-private.h"
#include "tests/unit/session/session-fixture.h"

static void open_or_skip(struct fixture *f)
{
	if (fixture_open(f) == 0 && f->session->kernel_names)
		return;
	fixture_deinit(f);
	print_message("kernel names are not permitted, or hidden (kernel.kptr_restrict)\n");
	skip();
}

static void test_shared(void **state)
{
	struct session_shared *shared;
	struct uw_kernel_names *names;
	struct session *first;
	struct fixture f;
	uint64_t start;

	(void)state;
	assert_int_equal(session_shared_new(&shared), 0);
	fixture_init(&f);
	f.options.shared = shared;
	open_or_skip(&f);
	first = f.session;
	names = first->kernel_names;
	assert_int_equal(fixture_open(&f), 0);
	assert_ptr_equal(f.session->kernel_names, names);
	/* what the first leaves is there for the second, and for one that comes soon */
	(void)session_free(first);
	assert_int_equal(
		uw_kernel_names_add(f.session->kernel_names, 0xffffffffc0000000, 16, "ours"), 0);
	f.session = session_free(f.session);
	assert_int_equal(fixture_open(&f), 0);
	assert_ptr_equal(f.session->kernel_names, names);
	assert_string_equal(uw_kernel_name(f.session->kernel_names, 0xffffffffc0000008, &start),
			    "ours");
	fixture_deinit(&f);
	assert_null(session_shared_free(shared));
}

static void *read_slowly(void *fd)
{
	char byte;

	assert_int_equal(read(*(int *)fd, &byte, 1), 1);
	return NULL;
}

/* A sample of this process, as the unwinder answers it. */
static void answer(struct session *s, uint32_t n_kernel)
{
	struct outcome *o = byte_queue_reserve(&s->outcomes, sizeof(*o) + sizeof(uint64_t));
	struct process *process = process_get(s->processes, (uint32_t)getpid());

	assert_non_null(o);
	assert_non_null(process);
	*o = (struct outcome){
		.kind = OUTCOME_SAMPLE,
		.skipped = SKIP_MAPS_TIMEOUT,
		.counted = true,
		.n_kernel = n_kernel,
		.info = {.process = process_ref(process), .pid = process->pid, .tid = process->pid},
	};
	o->frames[0] = 0xffffffff81000000;
	byte_queue_commit(&s->outcomes, sizeof(*o) + n_kernel * sizeof(uint64_t));
	byte_queue_publish(&s->outcomes);
}

/* Main does not read the symbols: samples with kernel frames wait for the thread that does, and main does other work. */
static void test_samples_wait(void **state)
{
	struct session_shared *shared;
	struct fixture f;
	int fds[2];
	size_t n;

	(void)state;
	assert_int_equal(session_shared_new(&shared), 0);
	fixture_init(&f);
	f.options.shared = shared;
	open_or_skip(&f);
	assert_true(session_kernel_names_read(f.session, true));
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(pthread_create(&shared->names_reader, NULL, read_slowly, fds), 0);
	shared->reads_names = true;
	f.session->state = SESSION_RUNNING;
	answer(f.session, 0);
	answer(f.session, 1);
	assert_int_equal(session_take_outcomes(f.session, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(session_take_outcomes(f.session, &n), 0);
	assert_int_equal(n, 0);
	session_check_kernel_names(f.session); /* of each second: would never return */
	assert_int_equal(write(fds[1], "", 1), 1);
	assert_true(session_kernel_names_read(f.session, true));
	assert_int_equal(session_take_outcomes(f.session, &n), 0);
	assert_int_equal(n, 1);
	fixture_deinit(&f);
	assert_null(session_shared_free(shared));
	assert_int_equal(close(fds[0]) | close(fds[1]), 0);
}

static void test_own(void **state)
{
	struct session *first;
	struct fixture f;

	(void)state;
	fixture_init(&f);
	open_or_skip(&f);
	first = f.session;
	assert_int_equal(fixture_open(&f), 0);
	assert_ptr_not_equal(f.session->kernel_names, first->kernel_names);
	(void)session_free(first);
	f.session = session_free(f.session);
	/* a session without kernel frames needs none */
	f.options.frames = FRAMES_USER;
	assert_int_equal(fixture_open(&f), 0);
	assert_null(f.session->kernel_names);
	fixture_deinit(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_samples_wait),
		cmocka_unit_test(test_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
