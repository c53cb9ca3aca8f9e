/* test-loader.c - loader.h: the same work with a thread and without.  The module is this program.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "session/loader/loader.h"
#include "tests/unit/cmocka.h"
#include "symbols/module.h"

int main(void);

static struct uw_module *own_module(struct uw_modules *modules)
{
	struct uw_module *module;
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	assert_true(n > 0);
	path[n] = 0;
	assert_int_equal(uw_modules_get(modules, path, NULL, &module), 0);
	assert_true(uw_module_want_unwind(module));
	return module;
}

static void check_answer(struct load_answer *a, enum load_kind kind, struct uw_module *module)
{
	assert_int_equal(a->request.kind, kind);
	assert_ptr_equal(a->request.module, module);
	assert_int_equal(a->error, 0);
	load_answer_deinit(a);
}

/* Nothing is done before it is asked for, and what was asked comes in order. */
static void test_inline(void **state)
{
	struct uw_modules *modules;
	struct uw_module *module;
	struct loader *loader;
	struct load_request request = {.kind = LOAD_UNWIND};
	struct load_answer a;

	(void)state;
	assert_int_equal(uw_modules_new(&modules), 0);
	assert_int_equal(loader_new_inline("/dev/null", &loader), 0);
	assert_false(loader_answer(loader, &a));
	request.module = module = own_module(modules);
	(void)uw_module_ref(module);
	assert_true(loader_ask(loader, &request));
	assert_int_equal(uw_module_unwind_state(module), UW_MODULE_WANTED);
	assert_true(loader_answer(loader, &a));
	check_answer(&a, LOAD_UNWIND, module);
	assert_int_equal(uw_module_unwind_state(module), UW_MODULE_READY);
	assert_int_equal(loader_pending(loader), 1);
	assert_true(loader_answer(loader, &a));
	check_answer(&a, LOAD_SYMBOLS, module);
	assert_int_equal(uw_module_symbol_state(module), UW_MODULE_READY);
	assert_int_equal(loader_pending(loader), 0);
	assert_false(loader_answer(loader, &a));
	(void)uw_module_unref(module); /* the request's */
	(void)uw_module_unref(module);
	loader_free(loader);
	uw_modules_free(modules);
}

/* The names of a script are in the memory of a process that may end: they come before the symbols of a file that wait. */
static void test_script_first(void **state)
{
	struct uw_modules *modules;
	struct uw_module *file, *script;
	struct loader *loader;
	struct load_request request = {
		.kind = LOAD_LINES, .pid = (uint32_t)getpid(), .n_vaddrs = 1};
	struct load_answer a;

	(void)state;
	assert_int_equal(uw_modules_new(&modules), 0);
	assert_int_equal(loader_new_inline("/dev/null", &loader), 0);
	file = own_module(modules);
	assert_int_equal(uw_module_new(UW_MODULE_JIT, UW_JS_PATH, NULL, &script), 0);
	request.vaddrs = calloc(LOAD_VADDRS_MAX, sizeof(*request.vaddrs));
	assert_non_null(request.vaddrs);
	assert_true(
		loader_ask(loader, &(struct load_request){.kind = LOAD_SYMBOLS, .module = file}));
	request.module = script;
	assert_true(loader_ask(loader, &request));
	assert_true(loader_answer(loader, &a));
	assert_int_equal(a.request.kind, LOAD_LINES);
	load_answer_deinit(&a);
	assert_true(loader_answer(loader, &a));
	assert_int_equal(a.request.kind, LOAD_SYMBOLS);
	load_answer_deinit(&a);
	(void)uw_module_unref(file);
	(void)uw_module_unref(script);
	loader_free(loader);
	uw_modules_free(modules);
}

/* What was asked and never taken gives its references back. */
static void test_dropped(void **state)
{
	struct uw_modules *modules;
	struct uw_module *module;
	struct loader *loader;
	struct load_request request = {.kind = LOAD_UNWIND};

	(void)state;
	assert_int_equal(uw_modules_new(&modules), 0);
	assert_int_equal(loader_new_inline("/dev/null", &loader), 0);
	request.module = module = own_module(modules);
	(void)uw_module_ref(module);
	assert_true(loader_ask(loader, &request));
	loader_free(loader);
	assert_int_equal(uw_module_unwind_state(module), UW_MODULE_WANTED);
	(void)uw_module_unref(module);
	uw_modules_free(modules);
}

static void test_thread(void **state)
{
	struct uw_modules *modules;
	struct uw_module *module;
	struct loader *loader;
	struct load_request request = {.kind = LOAD_UNWIND};
	struct load_answer a;
	struct waker waker;

	(void)state;
	assert_int_equal(waker_init(&waker), 0);
	assert_int_equal(uw_modules_new(&modules), 0);
	assert_int_equal(
		loader_new(&(struct loader_options){.root = "", .answers = &waker, .cache = -1},
			   &loader),
		0);
	request.module = module = own_module(modules);
	(void)uw_module_ref(module);
	assert_true(loader_ask(loader, &request));
	while (!loader_answer(loader, &a))
		(void)poll(NULL, 0, 1);
	check_answer(&a, LOAD_UNWIND, module);
	loader_free(loader); /* the symbols under way too */
	(void)uw_module_unref(module);
	uw_modules_free(modules);
	waker_deinit(&waker);
}

/* The next answer. */
static void await(struct loader *loader, enum load_kind kind, struct uw_module *module)
{
	struct load_answer a;

	while (!loader_answer(loader, &a))
		(void)poll(NULL, 0, 1);
	check_answer(&a, kind, module);
}

static void ask_unwind(struct loader *loader, struct uw_module *module)
{
	const struct load_request request = {.kind = LOAD_UNWIND, .module = module};

	(void)uw_module_ref(module);
	assert_true(uw_module_want_unwind(module));
	assert_true(loader_ask(loader, &request));
}

/* Files that this program has mapped. */
static void map_modules(struct uw_modules *modules, struct uw_module **ret, size_t n)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4352], path[4096] = "/";

	assert_non_null(maps);
	for (size_t i = 0; i < n;) {
		assert_non_null(fgets(line, sizeof(line), maps));
		if (sscanf(line, "%*s r-xp %*s %*s %*s /%4094s", path + 1) == 1)
			assert_int_equal(uw_modules_get(modules, path, NULL, &ret[i++]), 0);
	}
	(void)fclose(maps);
}

/* ... but a script with ever more names does not keep the symbols from their turn. */
static void test_script_turns(void **state)
{
	enum { LINES = 200 };
	struct load_request request = {
		.kind = LOAD_LINES, .pid = (uint32_t)getpid(), .n_vaddrs = 1};
	struct uw_modules *modules;
	struct uw_module *file, *script;
	struct loader *loader;
	struct waker waker;
	size_t n = 0, symbols = 0;

	(void)state;
	assert_int_equal(waker_init(&waker), 0);
	assert_int_equal(uw_modules_new(&modules), 0);
	file = own_module(modules);
	assert_int_equal(uw_module_new(UW_MODULE_JIT, UW_JS_PATH, NULL, &script), 0);
	assert_int_equal(
		loader_new(&(struct loader_options){.root = "", .answers = &waker, .cache = -1},
			   &loader),
		0);
	for (int i = 0; i < LINES; i++) {
		request.module = uw_module_ref(script);
		request.vaddrs = calloc(LOAD_VADDRS_MAX, sizeof(*request.vaddrs));
		assert_non_null(request.vaddrs);
		assert_true(loader_ask(loader, &request));
	}
	request = (struct load_request){.kind = LOAD_SYMBOLS, .module = uw_module_ref(file)};
	assert_true(loader_ask(loader, &request));
	while (n <= LINES) {
		struct load_answer a;

		if (!loader_answer(loader, &a)) {
			(void)poll(NULL, 0, 1);
			continue;
		}
		n++;
		if (a.request.kind == LOAD_SYMBOLS)
			symbols = n;
		(void)uw_module_unref(a.request.module);
		load_answer_deinit(&a);
	}
	assert_in_range(symbols, 1, LINES);
	loader_free(loader);
	(void)uw_module_unref(file);
	(void)uw_module_unref(script);
	uw_modules_free(modules);
	waker_deinit(&waker);
}

/* With a pace the symbols of a second file wait, and other work does not.  Without one again they come. */
static void test_pace(void **state)
{
	struct uw_modules *modules;
	struct uw_module *m[3];
	struct loader *loader;
	struct waker waker;

	(void)state;
	assert_int_equal(waker_init(&waker), 0);
	assert_int_equal(uw_modules_new(&modules), 0);
	map_modules(modules, m, ARRAY_SIZE(m));
	assert_int_equal(
		loader_new(&(struct loader_options){.root = "", .answers = &waker, .cache = -1},
			   &loader),
		0);
	loader_pace(loader, 1);
	ask_unwind(loader, m[0]);
	await(loader, LOAD_UNWIND, m[0]);
	await(loader, LOAD_SYMBOLS, m[0]);
	for (size_t i = 1; i < ARRAY_SIZE(m); i++) {
		ask_unwind(loader, m[i]);
		await(loader, LOAD_UNWIND, m[i]);
	}
	assert_int_equal(loader_pending(loader), 2);
	loader_pace(loader, 0);
	for (size_t i = 1; i < ARRAY_SIZE(m); i++)
		await(loader, LOAD_SYMBOLS, m[i]);
	loader_free(loader);
	for (size_t i = 0; i < ARRAY_SIZE(m); i++) {
		(void)uw_module_unref(m[i]); /* the request's */
		(void)uw_module_unref(m[i]);
	}
	uw_modules_free(modules);
	waker_deinit(&waker);
}

struct crowd {
	pthread_t threads[LOAD_THREADS_AT_ONCE + 6];
	pthread_barrier_t ready, end;
};

static void *stand(void *arg)
{
	struct crowd *crowd = arg;

	(void)pthread_setname_np(pthread_self(), "stander");
	(void)pthread_barrier_wait(&crowd->ready);
	(void)pthread_barrier_wait(&crowd->end);
	return NULL;
}

static void ask_own(struct loader *loader, enum load_kind kind, struct load_answer *a)
{
	const struct load_request request = {.kind = kind, .pid = (uint32_t)getpid()};

	assert_true(loader_ask(loader, &request));
	assert_true(loader_answer(loader, a));
	assert_int_equal(a->request.kind, kind);
	assert_int_equal(a->error, 0);
}

/* The names of few threads come with the mappings; of many by themselves. */
static void test_thread_names(void **state)
{
	const size_t counts[] = {3, LOAD_THREADS_AT_ONCE + 6};
	struct loader *loader;
	struct crowd crowd;
	struct load_answer a;
	size_t before; /* a sanitizer has one of its own */

	(void)state;
	assert_int_equal(loader_new_inline("", &loader), 0);
	ask_own(loader, LOAD_PROCESS, &a);
	before = a.status.n_threads;
	load_answer_deinit(&a);
	for (size_t i = 0; i < 2; i++) {
		size_t n = counts[i], named = 0;

		assert_int_equal(pthread_barrier_init(&crowd.ready, NULL, (unsigned)n + 1), 0);
		assert_int_equal(pthread_barrier_init(&crowd.end, NULL, (unsigned)n + 1), 0);
		for (size_t k = 0; k < n; k++)
			assert_int_equal(pthread_create(&crowd.threads[k], NULL, stand, &crowd), 0);
		(void)pthread_barrier_wait(&crowd.ready);
		ask_own(loader, LOAD_PROCESS, &a);
		assert_non_null(a.maps);
		assert_int_equal(a.status.n_threads, n + before);
		assert_int_equal(a.n_threads, i == 0 ? n + before : 0);
		load_answer_deinit(&a);
		ask_own(loader, LOAD_THREADS, &a);
		assert_int_equal(a.n_threads, n + before);
		for (size_t k = 0; k < a.n_threads; k++)
			named += !strcmp(a.threads[k].comm, "stander");
		assert_int_equal(named, n);
		load_answer_deinit(&a);
		(void)pthread_barrier_wait(&crowd.end);
		for (size_t k = 0; k < n; k++)
			assert_int_equal(pthread_join(crowd.threads[k], NULL), 0);
		(void)pthread_barrier_destroy(&crowd.ready);
		(void)pthread_barrier_destroy(&crowd.end);
	}
	loader_free(loader);
}

/* One that may not be opened is not, whatever rights we have: only what everybody sees. */
static void test_closed(void **state)
{
	static const enum load_kind kinds[] = {LOAD_PROCESS, LOAD_NAMES, LOAD_QUERY};
	struct loader *loader;
	struct load_answer a;

	(void)state;
	assert_int_equal(loader_new_inline("", &loader), 0);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		for (int closed = 0; closed < 2; closed++) {
			const struct load_request request = {
				.kind = kinds[i],
				.pid = (uint32_t)getpid(),
				.vaddr = (uint64_t)(uintptr_t)main,
				.closed = closed,
			};

			assert_true(loader_ask(loader, &request));
			assert_true(loader_answer(loader, &a));
			if (kinds[i] != LOAD_QUERY)
				assert_int_equal(a.status.pid, getpid());
			assert_int_equal(a.maps != NULL, kinds[i] == LOAD_PROCESS && !closed);
			assert_int_equal(a.memory != NULL, kinds[i] != LOAD_QUERY && !closed);
			if (closed)
				assert_int_equal(a.error, kinds[i] == LOAD_NAMES ? 0 : -EACCES);
			load_answer_deinit(&a);
		}
	}
	loader_free(loader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_inline),	     cmocka_unit_test(test_script_first),
		cmocka_unit_test(test_script_turns), cmocka_unit_test(test_dropped),
		cmocka_unit_test(test_thread_names), cmocka_unit_test(test_thread),
		cmocka_unit_test(test_pace),	     cmocka_unit_test(test_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
