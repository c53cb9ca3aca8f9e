/* test-space.c - spaces and engine names. */
#include "tests/unit/unwinder/unwinder-fixture.h"

#include "symbols/module.h"
#include "unwinder/unwinder.h"

static const struct uw_map maps[] = {
	{.start = 0x1000, .end = 0x2000, .offset = 1},
	{.start = 0x2000, .end = 0x3000, .offset = 2}, /* side by side */
	{.start = 0x5000, .end = 0x5001, .offset = 3},
	{.start = 0x7ffff7000000, .end = 0x7ffff7100000, .offset = 4},
	{.start = 0xffffffffff600000, .end = 0xffffffffff601000, .offset = 5},
};

static uint64_t at(const struct uw_space *space, uint64_t pc)
{
	const struct uw_map *map = uw_space_find(space, pc);

	return map ? map->offset : 0;
}

static void test_find(void **state)
{
	struct uw_space *space;

	(void)state;
	/* Of every number of mappings, as the search is by halves. */
	for (size_t n = 0; n <= ARRAY_SIZE(maps); n++) {
		assert_int_equal(uw_space_new(maps, n, 9, NULL, &space), 0);
		assert_int_equal(space->key, 9);
		assert_int_equal(at(space, 0), 0);
		assert_int_equal(at(space, 0xfff), 0);
		assert_int_equal(at(space, UINT64_MAX), 0);
		for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
			assert_int_equal(at(space, maps[i].start), i < n ? i + 1 : 0);
			assert_int_equal(at(space, maps[i].end - 1), i < n ? i + 1 : 0);
		}
		assert_int_equal(at(space, 0x3000), 0);
		assert_int_equal(at(space, 0x5001), 0);
		assert_null(uw_space_unref(space));
	}
	assert_null(uw_space_unref(NULL));
}

static void test_order(void **state)
{
	const struct uw_map wrong[] = {{.start = 0x2000, .end = 0x3000},
				       {.start = 0x1000, .end = 0x2000}};
	const struct uw_map overlap[] = {{.start = 0x1000, .end = 0x2001},
					 {.start = 0x2000, .end = 0x3000}};
	const struct uw_map empty[] = {{.start = 0x1000, .end = 0x1000}};
	struct uw_space *space = NULL;

	(void)state;
	assert_int_equal(uw_space_new(wrong, 2, 1, NULL, &space), -EINVAL);
	assert_int_equal(uw_space_new(overlap, 2, 1, NULL, &space), -EINVAL);
	assert_int_equal(uw_space_new(empty, 1, 1, NULL, &space), -EINVAL);
	assert_null(space);
}

static void test_refs(void **state)
{
	struct uw_map map = {.start = 0x1000, .end = 0x2000};
	struct uw_space *space;

	(void)state;
	assert_int_equal(uw_module_new(UW_MODULE_FILE, "/x", NULL, &map.module), 0);
	assert_int_equal(uw_space_new(&map, 1, 1, NULL, &space), 0);
	map.module = uw_module_unref(map.module); /* the space holds it */
	assert_ptr_equal(uw_space_ref(space), space);
	assert_null(uw_space_unref(space));
	assert_string_equal(uw_module_path(uw_space_map(space, 0)->module), "/x");
	assert_null(uw_space_unref(space)); /* the leak checker sees the rest */
}

static void test_names(void **state)
{
	struct uw_engine *engine = NULL;

	(void)state;
	assert_string_equal(uw_engine_name(UW_ENGINE_NATIVE), "native");
	assert_string_equal(uw_engine_name(UW_ENGINE_FP_COPY), "fp-copy");
	assert_string_equal(uw_engine_name(UW_ENGINE_COUNT), "unknown");
	for (unsigned i = 0; i < UW_REASON_COUNT; i++)
		assert_string_not_equal(uw_reason_name(i), "unknown");
	assert_string_equal(uw_reason_name(UW_NO_MODULE), "no-module");
	assert_string_equal(uw_outcome_name(UW_CUT), "cut");
	assert_int_equal(uw_engine_new(UW_ENGINE_COUNT, &engine), -EINVAL);
	assert_null(engine);
	assert_null(uw_engine_free(NULL));
}

static void test_vaddr(void **state)
{
	uint8_t image[IMAGE_SIZE];
	struct uw_source source;
	struct uw_module *m, *jit;
	struct uw_map map = {.start = 0x7f0000001000, .end = 0x7f0000002000, .offset = 0x1000};

	(void)state;
	assert_int_equal(uw_module_new(UW_MODULE_FILE, "/lib/image.so", NULL, &m), 0);
	assert_int_equal(uw_module_new(UW_MODULE_JIT, "[anon]", NULL, &jit), 0);
	image_make(image);
	source = (struct uw_source){.fd = memfd_of(image, sizeof(image))};
	map.module = m;
	assert_int_equal(uw_map_vaddr(&map, 0x7f0000001010), 0x1010); /* nothing known yet */
	assert_int_equal(uw_module_load_unwind(m, &source), 0);
	assert_int_equal(uw_map_vaddr(&map, 0x7f0000001010), 0x402010);
	map.module = jit;
	assert_int_equal(uw_map_vaddr(&map, 0x7f0000001010), 0x7f0000001010);
	map.module = NULL;
	assert_int_equal(uw_map_vaddr(&map, 0x7f0000001010), 0x7f0000001010);
	uw_module_unref(m);
	uw_module_unref(jit);
	fd_close(source.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_find),  cmocka_unit_test(test_order),
		cmocka_unit_test(test_vaddr), cmocka_unit_test(test_refs),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
