/* test-scope-consent.c - which processes are asked for consent, once an incarnation; which are looked at again; which code
 * waits for the answer; what is reported and counted.  The reader is made by hand; the targets are real, and never answer. */
#include <errno.h>

#include "base/log.h"
#include "session/loader/loader.h"
#include "tests/unit/session/pipeline/scope-fixture.h"

static struct scope rd;

static int set_up(void **state)
{
	(void)state;
	if (scope_fixture_init() < 0)
		return -1;
	rd = (struct scope){
		.options = {.frames = FRAMES_USER, .maps_wait_ns = NSEC_PER_MSEC},
		.c = {.consent = consent, .processes = processes, .note = note},
	};
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	scope_fixture_deinit(&rd);
	return 0;
}

static struct process *target(void)
{
	struct process *p = process_get(processes, (uint32_t)child);

	assert_non_null(p);
	return p;
}

static bool answered(struct process *p, int error)
{
	const struct load_answer a = {
		.request = {.kind = LOAD_PROCESS, .process = p},
		.error = error,
	};

	return scope_ask_consent(&rd, p, &a);
}

static struct reader_consent_counts counts(void)
{
	return rd.counts;
}

/* Ticks until *@what is not 0. */
static void tick_until(const uint64_t *what)
{
	for (int i = 0; i < 20000 && !*what; i++) {
		(void)usleep(1000);
		assert_int_equal(scope_tick(&rd), 0);
	}
	assert_true(*what);
}

static void test_asked_once(void **state)
{
	struct process *p;
	char bytes[8];

	(void)state;
	start_target(true);
	p = target();
	assert_true(answered(p, -EACCES)); /* the mappings will come from it, or it is given up */
	assert_true(p->consent_asked);
	assert_int_equal(rd.n_asked, 1);
	assert_false(answered(p, -EACCES)); /* the same exec generation */
	assert_int_equal(counts().asked, 1);
	assert_int_equal(counts().unanswered, 0);
	tick_until(&rd.counts.unanswered);
	assert_int_equal(counts().unanswered, 1);
	assert_int_equal(counts().given, 0);
	assert_int_equal(n_notes, 2);
	assert_non_null(strstr(notes, "are asked for their consent"));
	assert_non_null(strstr(notes, "did not answer within 1 ms"));
	/* A late answer is still taken: the request stays. */
	assert_int_equal(rd.n_asked, 1);
	assert_int_equal(read(signals, bytes, sizeof(bytes)), 1);
}

static void test_not_needed(void **state)
{
	struct process *p;

	(void)state;
	start_target(true);
	p = target();
	assert_false(answered(p, 0)); /* could be read */
	assert_false(answered(p, -ESRCH));
	rd.options.by_callchain = true; /* the kernel unwinds */
	assert_false(answered(p, -EACCES));
	rd.options.by_callchain = false;
	rd.options.frames &= FRAMES_KERNEL;
	assert_false(answered(p, -EACCES));
	rd.options.frames |= FRAMES_USER;
	rd.c.consent = NULL;
	assert_false(answered(p, -EACCES));
	assert_false(p->consent_asked);
	assert_int_equal(counts().asked, 0);
	assert_int_equal(n_notes, 0);
}

/* A program may just be starting: it is looked at again, some times, then reported; once for all. */
static void test_no_hook(void **state)
{
	struct process *p;
	uint64_t noted = 0;

	(void)state;
	start_target(false);
	p = target();
	assert_false(answered(p, -EACCES));
	assert_int_equal(rd.n_asked, 1);
	assert_int_equal(n_notes, 0);
	for (int i = 0; i < 20000 && !noted; i++) {
		(void)usleep(1000);
		assert_int_equal(scope_tick(&rd), 0);
		noted = (uint64_t)n_notes;
	}
	assert_int_equal(n_notes, 1);
	assert_non_null(strstr(notes, "perfwind run"));
	assert_int_equal(rd.n_asked, 0);
	assert_int_equal(counts().asked, 0);
	p->consent_asked = false; /* as another exec generation */
	assert_false(answered(p, -EACCES));
	for (int i = 0; i < 20000 && rd.n_asked; i++) {
		(void)usleep(1000);
		assert_int_equal(scope_tick(&rd), 0);
	}
	assert_int_equal(rd.n_asked, 0);
	assert_int_equal(n_notes, 1);
}

/* A process with a Java VM that is asked for its consent, and code of it: waits for the answer? */
static struct loader *want_code(bool hook, struct process **ret_process)
{
	static const char maps[] = "7f0000000000-7f0000001000 r-xp 00000000 00:01 5 /x/libjvm.so\n";
	struct uw_module *code = NULL;
	struct loader *loader = NULL;
	bool changed;

	assert_int_equal(loader_new_inline("", &loader), 0); /* no answer is taken here */
	rd.c.loader = loader;
	rd.options.maps_wait_ns = 100 * NSEC_PER_SEC;
	start_target(hook);
	*ret_process = target();
	assert_false(answered(*ret_process, 0));
	assert_int_equal(process_maps_answer(processes, *ret_process, maps, sizeof(maps) - 1, 0, 2,
					     &changed),
			 0);
	assert_int_equal(answered(*ret_process, -EACCES), hook);
	assert_int_equal(uw_module_new(UW_MODULE_JIT, "[jit]", NULL, &code), 0);
	assert_int_equal(rd.n_asked, 1);
	scope_want_module(&rd, *ret_process, code);
	(void)uw_module_unref(code);
	return loader;
}

static void tick_until_loaded(const struct loader *loader)
{
	for (int i = 0; i < 20000 && !loader_pending(loader); i++) {
		(void)usleep(1000);
		assert_int_equal(scope_tick(&rd), 0);
	}
	assert_int_equal(loader_pending(loader), 1);
}

/* Its samples do not wait as long as a process may take to answer. */
static void test_code_waits(void **state)
{
	struct process *p;
	struct loader *loader = want_code(true, &p);

	(void)state;
	assert_int_equal(loader_pending(loader), 0);
	tick_until_loaded(loader);
	assert_int_equal(counts().unanswered, 0);
	assert_int_equal(rd.n_asked, 1);
	(void)loader_free(loader);
}

static void test_code_of_ended(void **state)
{
	struct process *p;
	struct loader *loader = want_code(true, &p);

	(void)state;
	p->exited = true;
	assert_int_equal(scope_tick(&rd), 0);
	assert_int_equal(loader_pending(loader), 1);
	assert_int_equal(rd.n_asked, 0);
	(void)loader_free(loader);
}

/* It is looked at again, and its code does not wait for that. */
static void test_code_without_hook(void **state)
{
	struct process *p;
	struct loader *loader = want_code(false, &p);

	(void)state;
	assert_int_equal(loader_pending(loader), 1);
	assert_int_equal(rd.n_asked, 1);
	(void)loader_free(loader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
		EACH(test_asked_once), EACH(test_not_needed),	 EACH(test_no_hook),
		EACH(test_code_waits), EACH(test_code_of_ended), EACH(test_code_without_hook),
#undef EACH
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
