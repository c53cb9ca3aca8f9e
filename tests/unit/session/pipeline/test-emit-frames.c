/* test-emit-frames.c - emit-module.h: the mapping and the key of a frame, and what is asked about a module. */
#include "session/pipeline/emit-module.h"
#include "tests/unit/cmocka.h"

#include <string.h>
#include <unistd.h>

static const struct sample_info unknown = {.pid = 70};

static struct emit_module *module_new(enum uw_module_kind kind, const char *path)
{
	struct uw_module *module;
	struct emit_module *m;

	assert_int_equal(uw_module_new(kind, path, NULL, &module), 0);
	m = emit_module_new(module, &unknown);
	assert_non_null(m);
	assert_ptr_equal(m->module, module);
	assert_int_equal(m->pid, 70);
	assert_int_equal(m->owner, PROCFS_NO_OWNER); /* no process is known */
	uw_module_unref(module);
	return m;
}

static void test_list(void **state)
{
	struct late_list list = {0};

	(void)state;
	for (uint64_t i = 0; i < 100; i++)
		assert_int_equal(late_list_push(&list, i * 3), 0);
	assert_int_equal(list.n, 100);
	for (uint64_t i = 0; i < 100; i++)
		assert_int_equal(list.vaddrs[i], i * 3);
	free(list.vaddrs);
}

/* A file is read once; a perf map grows. */
static void test_names_to_come(void **state)
{
	struct emit_module *file = module_new(UW_MODULE_FILE, "/bin/none");
	struct emit_module *jit = module_new(UW_MODULE_JIT, "/tmp/none.map");
	struct uw_symbol symbol;

	(void)state;
	assert_true(emit_module_names_to_come(file));
	assert_false(emit_module_has_epochs(file));
	assert_false(emit_module_names_by_lines(file->module));
	uw_module_set_unreadable(file->module);
	assert_false(emit_module_names_to_come(file));
	assert_false(emit_module_symbol(file, 0x1000, &symbol));
	assert_true(emit_module_has_epochs(jit));
	uw_module_set_no_symbols(jit->module);
	assert_true(emit_module_names_to_come(jit));
	assert_false(emit_module_symbol(jit, 0x1000, &symbol));
	emit_module_free(file);
	emit_module_free(jit);
}

/* Frames of an interpreter belong to its module, and to one process; others to the mapping at their address. */
static void test_map_of_frame(void **state)
{
	struct uw_module *text, *python;
	struct uw_map map = {.start = 0x1000, .end = 0x2000}, script;
	const struct uw_map *found;
	struct uw_space *space;

	(void)state;
	assert_int_equal(uw_module_new(UW_MODULE_FILE, "/bin/none", NULL, &text), 0);
	assert_int_equal(uw_module_new(UW_MODULE_JIT, "[python]", NULL, &python), 0);
	map.module = text;
	assert_int_equal(uw_space_new(&map, 1, 77, NULL, &space), 0);
	uw_space_set_script(space, python);

	found = emit_map_of_frame(space, 0x1800, &script);
	assert_non_null(found);
	assert_ptr_equal(found->module, text);
	assert_int_equal(emit_frame_key(space, 0x1800), 77);
	assert_null(emit_map_of_frame(space, 0x3000, &script));
	assert_null(emit_map_of_frame(NULL, 0x1800, &script));
	/* There is no Java VM that could have a method. */
	assert_null(emit_map_of_frame(space, UW_FRAME_METHOD | 0x1800, &script));

	assert_ptr_equal(emit_map_of_frame(space, UW_FRAME_SCRIPT | 0x1800, &script), &script);
	assert_ptr_equal(script.module, python);
	assert_int_not_equal(emit_frame_key(space, UW_FRAME_SCRIPT | 0x1800), 77);
	uw_space_unref(space);
	uw_module_unref(python);
	uw_module_unref(text);
}

/* Each distinct address once, LOAD_VADDRS_MAX of the list at a time. */
static void test_lines(void **state)
{
	enum { N = LOAD_VADDRS_MAX + 4 };
	struct emit_module *m = module_new(UW_MODULE_FILE, "/bin/none");
	struct load_answer a;
	struct loader *loader;

	(void)state;
	assert_int_equal(loader_new_inline("", &loader), 0);
	assert_int_equal(emit_module_ask_lines(m, loader), 0); /* none is due */
	for (uint64_t i = 0; i < N; i++)
		assert_int_equal(late_list_push(&m->unlined, 0x1000 + (N - i) / 2), 0);
	m->unlined_due = N;
	assert_int_equal(emit_module_ask_lines(m, loader), LOAD_VADDRS_MAX / 2 + 1);
	assert_int_equal(emit_module_ask_lines(m, loader), 3);
	assert_int_equal(emit_module_ask_lines(m, loader), 0);

	assert_true(loader_answer(loader, &a));
	assert_int_equal(a.request.kind, LOAD_LINES);
	assert_ptr_equal(a.request.module, m->module);
	assert_int_equal(a.request.n_vaddrs, LOAD_VADDRS_MAX / 2 + 1);
	for (size_t i = 1; i < a.request.n_vaddrs; i++)
		assert_true(a.request.vaddrs[i - 1] < a.request.vaddrs[i]);
	(void)uw_module_unref(a.request.module);
	load_answer_deinit(&a);
	loader_free(loader);
	emit_module_free(m);
}

/* The symbols of a perf map are asked for again after 1, 2, 4, 8, 8 ... seconds, while frames wait for names. */
static void test_again(void **state)
{
	static const bool due[] = {1, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0,
				   0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1};
	struct emit_module *m = module_new(UW_MODULE_JIT, "/tmp/none.map");
	struct loader *loader;
	struct load_answer a;

	(void)state;
	assert_int_equal(loader_new_inline("", &loader), 0);
	uw_module_set_no_symbols(m->module);
	emit_module_ask_again(m, loader, false);
	assert_false(loader_answer(loader, &a)); /* no frame waits */
	assert_int_equal(late_list_push(&m->unnamed, 0x1000), 0);
	for (size_t i = 0; i < ARRAY_SIZE(due); i++) {
		emit_module_ask_again(m, loader, false);
		assert_int_equal(loader_pending(loader), due[i]);
		if (!due[i])
			continue;
		assert_true(loader_answer(loader, &a));
		assert_int_equal(a.request.kind, LOAD_SYMBOLS);
		(void)uw_module_unref(a.request.module);
		load_answer_deinit(&a);
	}
	emit_module_ask_again(m, loader, true); /* due or not */
	assert_int_equal(loader_pending(loader), 1);
	emit_module_ask_symbols(m, loader); /* is asked for already */
	assert_int_equal(loader_pending(loader), 1);
	loader_free(loader);
	emit_module_free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_list),	     cmocka_unit_test(test_names_to_come),
		cmocka_unit_test(test_map_of_frame), cmocka_unit_test(test_lines),
		cmocka_unit_test(test_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
