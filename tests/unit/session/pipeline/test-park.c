/* test-park.c - the waiting room: bounds, no overlap, all room comes back. */
#include <sys/mman.h>

#include "session/pipeline/park.h"
#include "tests/unit/child-has.h"
#include "tests/unit/cmocka.h"

static void test_fill_and_empty(void **state)
{
	struct park park;
	void *blocks[64];

	(void)state;
	assert_int_equal(park_init(&park, 64 * PARK_PAGE), 0);
	for (int i = 0; i < 64; i++)
		assert_non_null(blocks[i] = park_alloc(&park, PARK_ANY, PARK_PAGE));
	assert_null(park_alloc(&park, PARK_ANY, 1));
	park_free(&park, PARK_ANY, blocks[10], PARK_PAGE);
	park_free(&park, PARK_ANY, blocks[12], PARK_PAGE);
	assert_null(park_alloc(&park, PARK_ANY, PARK_PAGE + 1)); /* two pages are free, but apart */
	park_free(&park, PARK_ANY, blocks[11], PARK_PAGE);
	assert_ptr_equal(park_alloc(&park, PARK_ANY, 3 * PARK_PAGE), blocks[10]);
	assert_null(park_alloc(&park, PARK_ANY, 0)); /* an empty block takes a page as well */
	park_deinit(&park);
}

/* Random blocks of 1 to 70,000 bytes, each filled with its own byte: no two may overlap. */
static void test_no_overlap(void **state)
{
	struct park park;
	struct {
		uint8_t *p;
		size_t len;
	} live[100] = {0};
	uint64_t seed = 1;

	(void)state;
	assert_int_equal(park_init(&park, 2 << 20), 0);
	for (int i = 0; i < 20000; i++) {
		size_t n, len;

		seed = seed * 6364136223846793005ull + 1442695040888963407ull;
		n = seed >> 33 & 63;
		len = (seed >> 40) % 70000 + 1;
		if (live[n].p) {
			for (size_t j = 0; j < live[n].len; j += 97)
				assert_int_equal(live[n].p[j], n);
			park_free(&park, PARK_ANY, live[n].p, live[n].len);
			live[n].p = NULL;
		} else if ((live[n].p = park_alloc(&park, PARK_ANY, len))) {
			live[n].len = len;
			memset(live[n].p, (int)n, len);
		}
	}
	for (size_t n = 0; n < 64; n++)
		park_free(&park, PARK_ANY, live[n].p, live[n].len);
	assert_int_equal(park.n_free, park.n_pages);
	park_deinit(&park);
}

static size_t resident(const struct park *park)
{
	unsigned char pages[512];
	size_t n = 0;

	assert_true(park->n_pages <= ARRAY_SIZE(pages));
	assert_int_equal(mincore(park->arena, park->n_pages * PARK_PAGE, pages), 0);
	for (size_t i = 0; i < park->n_pages; i++)
		n += pages[i] & 1;
	return n;
}

/* Memory goes back when nothing is parked, and few blocks at a time use few pages. */
static void test_trim(void **state)
{
	struct park park;
	void *blocks[256];

	(void)state;
	assert_int_equal(park_init(&park, 256 * PARK_PAGE), 0);
	for (int i = 0; i < 256; i++)
		memset((blocks[i] = park_alloc(&park, PARK_ANY, PARK_PAGE)), 1, PARK_PAGE);
	for (int i = 1; i < 256; i++)
		park_free(&park, PARK_ANY, blocks[i], PARK_PAGE);
	park_trim(&park);
	assert_int_equal(*(uint8_t *)blocks[0], 1);
	assert_int_equal(resident(&park), 256);
	park_free(&park, PARK_ANY, blocks[0], PARK_PAGE);
	park_trim(&park);
	assert_true(resident(&park) <= PARK_KEPT);
	for (int i = 0; i < 1000; i++) {
		memset((blocks[0] = park_alloc(&park, PARK_ANY, PARK_PAGE)), 1, PARK_PAGE);
		park_free(&park, PARK_ANY, blocks[0], PARK_PAGE);
	}
	assert_true(resident(&park) <= PARK_KEPT);
	park_deinit(&park);
}

/* A quarter stays free. */
static void test_plenty(void **state)
{
	struct park park;

	(void)state;
	assert_int_equal(park_init(&park, 64 * PARK_PAGE), 0);
	assert_true(park_has_plenty(&park, PARK_ANY, 48 * PARK_PAGE));
	assert_false(park_has_plenty(&park, PARK_ANY, 48 * PARK_PAGE + 1));
	assert_false(park_has_plenty(&park, PARK_ANY, 65 * PARK_PAGE));
	assert_non_null(park_alloc(&park, PARK_ANY, 40 * PARK_PAGE));
	assert_true(park_has_plenty(&park, PARK_ANY, 8 * PARK_PAGE));
	assert_false(park_has_plenty(&park, PARK_ANY, 9 * PARK_PAGE));
	park_deinit(&park);
}

/* One owner wants all, and 20 others one block each, of which half comes when it has what it can get. */
static void test_fair(void **state)
{
	enum { PAGES = 1024, OTHERS = 20, BLOCK = 17 * PARK_PAGE };
	void *hog[PAGES / 17], *others[OTHERS];
	struct park park;
	size_t n = 0;

	(void)state;
	assert_int_equal(park_init(&park, PAGES * PARK_PAGE), 0);
	for (uint64_t i = 0; i < OTHERS / 2; i++)
		assert_non_null(others[i] = park_alloc(&park, 2 + i, 1));
	while ((hog[n] = park_alloc(&park, 1, BLOCK)))
		n++;
	assert_in_range(n * 17, PAGES / 2, PAGES * 3 / 4);
	for (uint64_t i = OTHERS / 2; i < OTHERS; i++)
		assert_non_null(others[i] = park_alloc(&park, 2 + i, 4 * PARK_PAGE));
	assert_null(park_alloc(&park, 1, BLOCK));
	for (uint64_t i = 0; i < OTHERS; i++)
		park_free(&park, 2 + i, others[i], i < OTHERS / 2 ? 1 : 4 * PARK_PAGE);
	while (n)
		park_free(&park, 1, hog[--n], BLOCK);
	assert_int_equal(park.n_free, PAGES);
	for (size_t i = 0; i < PARK_OWNERS; i++)
		assert_int_equal(park.held[i], 0);
	park_deinit(&park);
}

/* A helper process that is made under load would keep a copy of what is parked. */
static void test_child(void **state)
{
	struct park park;
	uint8_t *block;

	(void)state;
	assert_int_equal(park_init(&park, 64 * PARK_PAGE), 0);
	assert_non_null(block = park_alloc(&park, PARK_ANY, PARK_PAGE));
	*block = 1;
	assert_false(child_has(block));
	park_deinit(&park);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fill_and_empty), cmocka_unit_test(test_no_overlap),
		cmocka_unit_test(test_trim),	       cmocka_unit_test(test_plenty),
		cmocka_unit_test(test_fair),	       cmocka_unit_test(test_child),
	};

	return cmocka_run_group_tests_name("park", tests, NULL, NULL);
}
