/* test-unwinder-calls.c - engines and spaces are made, and stacks unwound, while each allocation and system call of that fails once.
 * Functions of interpreters, goroutines and Haskell's callers: test-python.c, test-native-go.c, test-native-stg.c; more samples,
 * and failures that go on: test-nomem.c. */
#include "tests/unit/unwinder/native-calls.h"

#include "unwinder/oracle.h"

static int make_engine(void *arg)
{
	const enum uw_engine_kind *kind = arg;
	struct uw_engine *engine;
	int r = uw_engine_new(*kind, &engine);

	assert_true(r == 0 || r == -ENOMEM);
	if (r >= 0)
		(void)uw_engine_free(engine);
	return r;
}

static void test_engines(void **state)
{
	enum uw_engine_kind kinds[] = {UW_ENGINE_NATIVE, UW_ENGINE_LIBUNWIND, UW_ENGINE_LIBDW,
				       UW_ENGINE_FP, UW_ENGINE_FP_COPY};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		calls_sweep(&(struct calls_made){uw_engine_name(kinds[i]), make_engine,
						 native_calls_end, &kinds[i]});
}

static void put_calls(struct fixture *f, size_t n)
{
	for (size_t i = 0; i + 1 < n; i++)
		f->stack[2 * i + 1] = SMALL + 1;
	f->stack[2 * n - 1] = ROOTED + 1;
}

/* Most of the stack is in the memory of the process. */
static void test_deep(void **state)
{
	struct fixture *f = *state;
	struct native_calls c = {.f = f, .pc = SMALL, .kind = UW_ENGINE_NATIVE};

	put_calls(f, 40);
	memcpy(f->fake.stack, f->stack, sizeof(f->stack));
	f->snapshot.stack_len = 128;
	f->snapshot.thread = 7;
	fixture_space(f, 6, &f->fake.memory);
	native_calls_sweep("deep stack", &c);
	assert_int_equal(c.n, 41);
}

/* As libunwind needs it.  (Without a page for its cache libunwind 1.6.2 waits for its own lock: it is not run here.) */
static int make_table(void *arg)
{
	const struct fixture *f = arg;
	struct oracle_module module = {.module = f->module, .image = uw_module_image(f->module)};
	struct oracle_space slot = {.key = 5};
	uint64_t word;
	int r = oracle_table_init(&slot, &module);

	assert_true(r == 0 || (r == -ENOMEM && !module.n_table));
	if (r == 0)
		assert_true(module.n_table > 20 &&
			    uw_regions_word(&slot.regions, module.table, &word));
	free(module.made_table);
	uw_regions_deinit(&slot.regions);
	return r;
}

/* Of a module without .eh_frame_hdr. */
static void test_tables(void **state)
{
	struct fixture *f = *state;
	struct native_calls c = {.f = f, .pc = SMALL, .kind = UW_ENGINE_NATIVE};
	struct uw_image *image = (struct uw_image *)uw_module_image(f->module), before = *image;

	image->eh_frame_hdr = (struct uw_section){.data = NULL};
	image->table = (struct uw_table){.n = 0};
	put_calls(f, 5);
	native_calls_sweep("index of FDEs", &c);
	assert_int_equal(c.n, 6);
	calls_sweep(&(struct calls_made){"table of FDEs", make_table, native_calls_end, f});
	image->eh_frame_hdr = before.eh_frame_hdr;
	image->table = before.table;
}

static int make_space(void *arg)
{
	const struct fixture *f = arg;
	size_t held = uw_spaces_held();
	struct uw_maps *parts[2] = {NULL};
	struct uw_space *space = NULL;
	int r = uw_maps_new(&f->maps[0], 1, &parts[0]);

	if (r >= 0)
		r = uw_maps_new(&f->maps[1], 1, &parts[1]);
	if (r >= 0)
		r = uw_space_of_parts(parts, 2, 9, NULL, &space);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		(void)uw_maps_unref(parts[i]);
	assert_true(r == 0 || r == -ENOMEM);
	if (r >= 0) {
		assert_ptr_equal(uw_space_find(space, SMALL)->module, f->module);
		assert_non_null(uw_space_find(space, JIT));
		(void)uw_space_unref(space);
	}
	assert_int_equal(uw_spaces_held(), held);
	return r;
}

static void test_space(void **state)
{
	calls_sweep(&(struct calls_made){"space", make_space, native_calls_end, *state});
}

/* Regions stay in order, whatever their number. */
static int make_regions(void *arg)
{
	struct uw_regions regions = {.n = 0};
	uint64_t word, bytes = 7;
	int r = 0;

	(void)arg;
	for (uint64_t i = 40; i > 0 && r >= 0; i--)
		r = uw_regions_add(&regions, 64 * i, &bytes, sizeof(bytes));
	for (uint64_t i = 40; i > 40 - regions.n; i--)
		assert_true(uw_regions_word(&regions, 64 * i, &word) && word == 7);
	uw_regions_deinit(&regions);
	return r;
}

static void test_regions(void **state)
{
	(void)state;
	calls_sweep(&(struct calls_made){"regions", make_regions, native_calls_end, NULL});
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_engines),
		TEST(test_deep),
		TEST(test_tables),
		TEST(test_space),
		cmocka_unit_test(test_regions),
	};

	return cmocka_run_group_tests_name("unwinder-calls", tests, NULL, NULL);
}
