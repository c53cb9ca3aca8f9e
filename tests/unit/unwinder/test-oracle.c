/* test-oracle.c - the kept objects of the oracles: found again by key, bounded, dropped with their
 * modules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "unwinder/oracle.h"

static int handles[200], dropped;
static void *last_dropped;

static void drop(void *handle)
{
	last_dropped = handle;
	dropped++;
}

static struct uw_space *space_of(uint32_t key, struct uw_module *module)
{
	const struct uw_map map = {.start = 0x1000, .end = 0x2000, .module = module};
	struct uw_space *space;

	assert_int_equal(uw_space_new(&map, 1, key, NULL, &space), 0);
	return space;
}

/* As an engine does; true when the slot was new. */
static bool use(struct oracle_spaces *spaces, struct uw_space *space, int number)
{
	struct oracle_space *slot = oracle_spaces_get(spaces, space);

	if (slot->handle) {
		assert_ptr_equal(slot->handle, &handles[number]);
		return false;
	}
	slot->handle = &handles[number];
	return true;
}

static void test_least_recently_used(void **state)
{
	struct oracle_spaces *spaces = calloc(1, sizeof(*spaces));
	struct uw_space *list[ORACLE_SPACES + 1];

	(void)state;
	assert_non_null(spaces);
	spaces->drop = drop;
	dropped = 0;
	for (uint32_t i = 0; i <= ORACLE_SPACES; i++)
		list[i] = space_of(i + 1, NULL);
	for (int i = 0; i < ORACLE_SPACES; i++)
		assert_true(use(spaces, list[i], i));
	assert_int_equal(dropped, 0);
	assert_false(use(spaces, list[0], 0)); /* now the second is the oldest */
	assert_true(use(spaces, list[ORACLE_SPACES], ORACLE_SPACES));
	assert_int_equal(dropped, 1);
	assert_ptr_equal(last_dropped, &handles[1]);
	assert_false(use(spaces, list[0], 0));
	assert_false(use(spaces, list[2], 2));
	oracle_spaces_deinit(spaces);
	assert_int_equal(dropped, 1 + ORACLE_SPACES);
	for (int i = 0; i <= ORACLE_SPACES; i++)
		uw_space_unref(list[i]);
	free(spaces);
}

/* The same key is the same process; key 0 is the very space, and the slot keeps it alive. */
static void test_keys(void **state)
{
	struct oracle_spaces *spaces = calloc(1, sizeof(*spaces));
	struct uw_space *a = space_of(5, NULL), *b = space_of(5, NULL), *none = space_of(0, NULL),
			*other = space_of(0, NULL);

	(void)state;
	assert_non_null(spaces);
	spaces->drop = drop;
	assert_true(use(spaces, a, 0));
	assert_false(use(spaces, b, 0));
	assert_true(use(spaces, none, 1));
	assert_true(use(spaces, other, 2));
	assert_false(use(spaces, none, 1));
	assert_int_equal(none->refs, 2);
	assert_int_equal(a->refs, 1);
	oracle_spaces_deinit(spaces);
	assert_int_equal(none->refs, 1);
	uw_space_unref(a);
	uw_space_unref(b);
	uw_space_unref(none);
	uw_space_unref(other);
	free(spaces);
}

static void test_modules(void **state)
{
	struct oracle_spaces *spaces = calloc(1, sizeof(*spaces));
	struct uw_result res = {0};
	struct oracle_module *found;
	struct oracle_space *slot;
	struct uw_module *module;
	struct uw_space *space;

	(void)state;
	assert_non_null(spaces);
	spaces->drop = drop;
	assert_int_equal(uw_module_new(UW_MODULE_FILE, "/x", NULL, &module), 0);
	space = space_of(1, module);
	assert_true(use(spaces, space, 0));
	slot = oracle_spaces_get(spaces, space);

	assert_int_equal(oracle_module_at(slot, space, 0x2000, &res, &found),
			 ORACLE_STOP); /* one past the end */
	assert_int_equal(res.outcome, UW_FAILED);
	assert_int_equal(res.reason, UW_NO_MODULE);
	assert_int_equal(oracle_module_at(slot, space, 0x1fff, &res, &found), ORACLE_STOP);
	assert_int_equal(res.outcome, UW_PENDING);
	assert_ptr_equal(res.pending, module);
	uw_module_set_unreadable(module);
	assert_int_equal(oracle_module_at(slot, space, 0x1000, &res, &found), ORACLE_STOP);
	assert_int_equal(res.reason, UW_UNREADABLE);
	uw_space_unref(space);
	uw_module_unref(module);

	assert_int_equal(uw_module_new(UW_MODULE_JIT, "[anon]", NULL, &module), 0);
	space = space_of(1, module);
	assert_int_equal(oracle_module_at(slot, space, 0x1000, &res, &found), ORACLE_NO_INFO);
	uw_space_unref(space);
	uw_module_unref(module);
	space = space_of(1, NULL);
	assert_int_equal(oracle_module_at(slot, space, 0x1000, &res, &found), ORACLE_NO_INFO);
	uw_space_unref(space);

	/* The slot never met a module, so only forgetting everything drops it. */
	dropped = 0;
	oracle_spaces_forget(spaces, (const struct uw_module *)(const void *)&handles[1]);
	assert_int_equal(dropped, 0);
	oracle_spaces_forget(spaces, NULL);
	assert_int_equal(dropped, 1);
	oracle_spaces_deinit(spaces);
	assert_int_equal(dropped, 1);
	free(spaces);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_least_recently_used),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_modules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
