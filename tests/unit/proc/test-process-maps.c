/* test-process-maps.c - the list of mappings under change.
 *
 * The main test compares it with a model that cannot be wrong: one cell a page.  After each change
 * the list must answer as the model does, and no key may ever have had two answers for one page, over
 * all lists that had it. */
#include <stdatomic.h>
#include <stdlib.h>

#include "tests/unit/cmocka.h"

#include "tests/unit/proc/process-map-nth.h"

enum { N_PAGES = 48, N_LISTS = 4, N_MODULES = 4, PAGE = 4096, KEYS = 200000 };

static struct uw_module *modules[N_MODULES]; /* the last is of JIT kind */

static int set_up(void **state)
{
	(void)state;
	for (int i = 0; i < N_MODULES; i++) {
		char path[] = "/lib/0";

		path[5] = (char)('0' + i);
		assert_int_equal(uw_module_new(i == N_MODULES - 1 ? UW_MODULE_JIT : UW_MODULE_FILE,
					       path, NULL, &modules[i]),
				 0);
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (int i = 0; i < N_MODULES; i++)
		modules[i] = uw_module_unref(modules[i]);
	return 0;
}

static struct process_map map_of(uint64_t start, uint64_t end, int module, uint64_t offset)
{
	return (struct process_map){
		.start = start * PAGE,
		.end = end * PAGE,
		.offset = offset * PAGE,
		.module = module < 0 ? NULL : modules[module],
	};
}

static bool put(struct process_maps **maps, uint64_t start, uint64_t end, int module,
		uint64_t offset, bool exec)
{
	struct process_map map = map_of(start, end, module, offset);
	bool changed = false;

	assert_int_equal(process_maps_put(maps, &map, exec, &changed), 0);
	return changed;
}

static void assert_map(const struct process_maps *maps, size_t i, uint64_t start, uint64_t end,
		       int module, uint64_t offset)
{
	assert_true(i < maps->n);
	assert_int_equal(process_map_nth(maps, i)->start, start * PAGE);
	assert_int_equal(process_map_nth(maps, i)->end, end * PAGE);
	assert_ptr_equal(process_map_nth(maps, i)->module, module < 0 ? NULL : modules[module]);
	assert_int_equal(process_map_nth(maps, i)->offset, offset * PAGE);
}

static void test_overlap(void **state)
{
	struct process_maps *maps;
	uint32_t key;
	(void)state;

	assert_int_equal(process_maps_new(&maps), 0);
	key = maps->key;
	assert_int_not_equal(key, 0);
	assert_true(put(&maps, 10, 20, 0, 0, true));
	assert_true(put(&maps, 30, 40, 1, 5, true));
	assert_int_equal(maps->key, key); /* free areas */

	/* a hole of another file in the middle: the right remainder's offset moves along */
	assert_true(put(&maps, 12, 15, 2, 7, true));
	assert_int_not_equal(maps->key, key);
	assert_int_equal(maps->n, 4);
	assert_map(maps, 0, 10, 12, 0, 0);
	assert_map(maps, 1, 12, 15, 2, 7);
	assert_map(maps, 2, 15, 20, 0, 5);
	assert_map(maps, 3, 30, 40, 1, 5);

	/* over the ends of two and all of one, not executable */
	key = maps->key;
	assert_true(put(&maps, 14, 32, 2, 0, false));
	assert_int_not_equal(maps->key, key);
	assert_int_equal(maps->n, 3);
	assert_map(maps, 1, 12, 14, 2, 7);
	assert_map(maps, 2, 32, 40, 1, 7);

	/* exactly the same again, or a part of it: nothing */
	key = maps->key;
	assert_false(put(&maps, 12, 14, 2, 7, true));
	assert_false(put(&maps, 33, 35, 1, 8, true));
	assert_false(put(&maps, 20, 30, 1, 8, false));
	assert_int_equal(maps->n, 3);
	/* the same file at another offset is another thing */
	assert_true(put(&maps, 33, 35, 1, 9, true));
	assert_int_not_equal(maps->key, key);
	assert_int_equal(maps->n, 5);

	/* empty and turned round: nothing */
	assert_false(put(&maps, 5, 5, 0, 0, true));
	assert_false(put(&maps, 6, 5, 0, 0, true));
	(void)process_maps_unref(maps);
}

static void test_join(void **state)
{
	struct process_maps *maps;
	uint32_t key;
	(void)state;

	assert_int_equal(process_maps_new(&maps), 0);
	key = maps->key;
	/* JIT areas grow together, files that only touch do not (map_files wants the kernel's own
	 * areas) */
	assert_true(put(&maps, 10, 11, 3, 0, true));
	assert_true(put(&maps, 12, 13, 3, 0, true));
	assert_int_equal(maps->n, 2);
	assert_true(put(&maps, 11, 12, 3, 0, true));
	assert_int_equal(maps->n, 1);
	assert_map(maps, 0, 10, 13, 3, 0);
	assert_true(put(&maps, 20, 21, 0, 0, true));
	assert_true(put(&maps, 21, 22, 0, 1, true));
	assert_int_equal(maps->n, 3);
	assert_int_equal(maps->key, key);
	(void)process_maps_unref(maps);

	/* a record of both as one area */
	assert_int_equal(process_maps_new(&maps), 0);
	key = maps->key;
	assert_true(put(&maps, 20, 21, 0, 1, true));
	assert_true(put(&maps, 21, 22, 0, 2, true));
	assert_true(put(&maps, 19, 24, 0, 0, true));
	assert_int_equal(maps->n, 1);
	assert_map(maps, 0, 19, 24, 0, 0);
	assert_int_equal(maps->key, key); /* nothing that was known became untrue */
	(void)process_maps_unref(maps);
}

static void test_sharing(void **state)
{
	struct process_maps *a, *b;
	uint32_t key;
	(void)state;

	assert_int_equal(process_maps_new(&a), 0);
	assert_true(put(&a, 1, 2, 0, 0, true));
	key = a->key;
	b = process_maps_ref(a);
	/* into a free area, but shared: a copy with a key of its own */
	assert_true(put(&b, 5, 6, 1, 0, true));
	assert_ptr_not_equal(a, b);
	assert_int_not_equal(b->key, key);
	assert_int_equal(a->n, 1);
	assert_int_equal(b->n, 2);
	/* a is alone again and goes on under its key */
	assert_true(put(&a, 5, 6, 2, 0, true));
	assert_int_equal(a->key, key);
	(void)process_maps_unref(a);
	(void)process_maps_unref(b);
}

static struct process_maps *list_of(int module, size_t n)
{
	struct process_maps *maps;

	assert_int_equal(process_maps_new(&maps), 0);
	for (size_t i = 0; i < n; i++)
		assert_true(put(&maps, 10 * i + 1, 10 * i + 3, module, i, true));
	return maps;
}

static void test_adopt(void **state)
{
	struct process_maps *maps = list_of(0, 3), *sharer, *fresh;
	uint32_t key = maps->key;
	bool changed = false;
	(void)state;

	/* the same: also for a sharer, which keeps the list */
	sharer = process_maps_ref(maps);
	process_maps_adopt(&maps, list_of(0, 3), &changed);
	assert_false(changed);
	assert_ptr_equal(maps, sharer);
	assert_int_equal(maps->key, key);
	/* one more, but shared: another key */
	process_maps_adopt(&maps, list_of(0, 4), &changed);
	assert_true(changed);
	assert_ptr_not_equal(maps, sharer);
	assert_int_not_equal(maps->key, key);
	(void)process_maps_unref(sharer);
	/* one more, alone: the key stays */
	key = maps->key;
	process_maps_adopt(&maps, list_of(0, 5), &changed);
	assert_int_equal(maps->key, key);
	assert_int_equal(maps->n, 5);
	/* one less */
	changed = false;
	process_maps_adopt(&maps, list_of(0, 4), &changed);
	assert_true(changed);
	assert_int_not_equal(maps->key, key);
	/* another file at the same places */
	key = maps->key;
	changed = false;
	process_maps_adopt(&maps, list_of(1, 4), &changed);
	assert_true(changed);
	assert_int_not_equal(maps->key, key);
	/* the same, cut into other areas */
	key = maps->key;
	changed = false;
	fresh = list_of(1, 3);
	assert_true(put(&fresh, 31, 32, 1, 3, true));
	assert_true(put(&fresh, 32, 33, 1, 4, true));
	process_maps_adopt(&maps, fresh, &changed);
	assert_false(changed);
	assert_int_equal(maps->key, key);
	assert_int_equal(maps->n, 5);
	(void)process_maps_unref(maps);
}

static void test_limit(void **state)
{
	struct process_maps *maps;
	(void)state;

	assert_int_equal(process_maps_new(&maps), 0);
	for (uint64_t i = 0; i < PROCESS_MAX_MAPS; i++)
		assert_true(put(&maps, 2 * i, 2 * i + 1, 0, 0, true));
	assert_int_equal(maps->n, PROCESS_MAX_MAPS);
	/* one more is left out; one that covers is put in the place */
	assert_false(put(&maps, 2 * PROCESS_MAX_MAPS, 2 * PROCESS_MAX_MAPS + 1, 0, 0, true));
	assert_int_equal(maps->n, PROCESS_MAX_MAPS);
	assert_true(put(&maps, 0, 2, 1, 0, false));
	assert_true(put(&maps, 0, 2, 1, 0, true));
	assert_int_equal(maps->n, PROCESS_MAX_MAPS);
	assert_map(maps, 0, 0, 2, 1, 0);
	(void)process_maps_unref(maps);
}

/* ---- the model ---- */

struct cell {
	int module; /* -2: nothing, -1: no module */
	uint64_t file_page;
};

struct model {
	struct process_maps *maps;
	struct cell cells[N_PAGES];
};

static uint64_t random_state = 12345;

static uint64_t pick(uint64_t n)
{
	random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
	return (random_state >> 33) % n;
}

static bool cell_equal(struct cell a, struct cell b)
{
	return a.module == b.module &&
	       (a.module < 0 || a.module == N_MODULES - 1 || a.file_page == b.file_page);
}

static struct cell cell_of(const struct process_maps *maps, uint64_t page)
{
	const struct process_map *m = process_maps_get(maps, process_maps_at(maps, page * PAGE));
	struct cell c = {.module = -2};

	if (!m || m->start > page * PAGE)
		return c;
	c.module = -1;
	for (int k = 0; k < N_MODULES; k++)
		c.module = m->module == modules[k] ? k : c.module;
	c.file_page = m->offset / PAGE + page - m->start / PAGE;
	return c;
}

static struct cell (*answers)[N_PAGES]; /* by key */

static void check(struct model *m)
{
	uint32_t key = m->maps->key;

	assert_in_range(key, 1, KEYS - 1);
	for (uint64_t page = 0; page < N_PAGES; page++) {
		struct cell c = cell_of(m->maps, page);

		assert_true(cell_equal(c, m->cells[page]));
		if (c.module == -2)
			continue;
		if (answers[key][page].module != -2)
			assert_true(cell_equal(answers[key][page], c));
		answers[key][page] = c;
	}
	for (size_t i = 0; i < m->maps->n; i++) {
		assert_true(process_map_nth(m->maps, i)->start < process_map_nth(m->maps, i)->end);
		assert_true(!i || process_map_nth(m->maps, i - 1)->end <=
					  process_map_nth(m->maps, i)->start);
	}
}

static void step(struct model *lists)
{
	struct model *m = &lists[pick(N_LISTS)];
	uint64_t start = pick(N_PAGES), end = start + 1 + pick(min_u64(N_PAGES - start, 8));
	int module = (int)pick(N_MODULES + 1) - 1;
	/* often the very place that the file has everywhere, so that records repeat and join */
	uint64_t offset = module >= 0 && module < N_MODULES - 1 ? start + pick(2) : 0;
	bool exec = pick(4) != 0, changed = false;

	if (pick(12) == 0) { /* fork */
		struct model *child = &lists[pick(N_LISTS)];

		if (child == m)
			return;
		(void)process_maps_unref(child->maps);
		*child = *m;
		(void)process_maps_ref(m->maps);
		return;
	}
	if (pick(12) == 0) { /* a text with the same, with or without one more */
		struct process_maps *fresh;

		assert_int_equal(process_maps_new(&fresh), 0);
		for (size_t i = 0; i < m->maps->n; i++)
			assert_int_equal(process_maps_put(&fresh, process_map_nth(m->maps, i), true,
							  &changed),
					 0);
		if (pick(2)) {
			(void)put(&fresh, start, end, module, offset, exec);
			for (uint64_t p = start; p < end; p++)
				m->cells[p] = exec ? (struct cell){module, offset + p - start}
						   : (struct cell){-2, 0};
		}
		process_maps_adopt(&m->maps, fresh, &changed);
		return;
	}
	(void)put(&m->maps, start, end, module, offset, exec);
	for (uint64_t p = start; p < end; p++)
		m->cells[p] =
			exec ? (struct cell){module, offset + p - start} : (struct cell){-2, 0};
}

static void test_model(void **state)
{
	struct model lists[N_LISTS];
	(void)state;

	answers = malloc(KEYS * sizeof(*answers));
	assert_non_null(answers);
	for (size_t k = 0; k < KEYS; k++)
		for (size_t p = 0; p < N_PAGES; p++)
			answers[k][p].module = -2;
	for (int i = 0; i < N_LISTS; i++) {
		assert_int_equal(process_maps_new(&lists[i].maps), 0);
		for (size_t p = 0; p < N_PAGES; p++)
			lists[i].cells[p].module = -2;
	}
	for (unsigned n = 0; n < 60000; n++) {
		step(lists);
		for (int i = 0; i < N_LISTS; i++)
			check(&lists[i]);
	}
	for (int i = 0; i < N_LISTS; i++)
		(void)process_maps_unref(lists[i].maps);
	free(answers);
}

/* ---- a list of many chunks ---- */

enum { MANY = 3000 };

/* Chunks are few, and a snapshot answers as the list does. */
static void check_many(struct process_maps *maps, const struct cell *cells)
{
	struct uw_space *space;
	size_t n = 0;

	for (size_t i = 0; i < maps->n_chunks; i++) {
		n += maps->chunks[i]->n;
		assert_true(!i || maps->chunks[i - 1]->n + maps->chunks[i]->n > PROCESS_CHUNK / 2);
	}
	assert_int_equal(n, maps->n);
	assert_int_equal(process_maps_space(maps, NULL, &space), 0);
	assert_int_equal(space->n_maps, maps->n);
	for (uint64_t page = 0; page < MANY; page++) {
		const struct uw_map *map = uw_space_find(space, page * PAGE + 8);

		assert_true(cell_equal(cell_of(maps, page), cells[page]));
		assert_int_equal(map != NULL, cells[page].module != -2);
		if (map && cells[page].module >= 0)
			assert_ptr_equal(map->module, modules[cells[page].module]);
	}
	(void)uw_space_unref(space);
}

static void put_many(struct process_maps **maps, struct cell *cells)
{
	uint64_t start = pick(MANY), len = pick(50) ? 1 : pick(500),
		 end = min_u64(start + len, MANY);
	int module = (int)pick(N_MODULES - 1);
	bool exec = pick(3) != 0;

	(void)put(maps, start, end, module, start, exec);
	for (uint64_t p = start; p < end; p++)
		cells[p] = exec ? (struct cell){module, p} : (struct cell){-2, 0};
}

static void test_many(void **state)
{
	static struct cell cells[2][MANY];
	struct process_maps *maps[2];
	(void)state;

	assert_int_equal(process_maps_new(&maps[0]), 0);
	for (uint64_t p = 0; p < MANY; p++) {
		cells[0][p] = p % 2 ? (struct cell){-2, 0} : (struct cell){0, p};
		if (p % 2 == 0)
			assert_true(put(&maps[0], p, p + 1, 0, p, true));
	}
	assert_true(maps[0]->n_chunks >= MANY / 2 / PROCESS_CHUNK);
	maps[1] = process_maps_ref(maps[0]);
	memcpy(cells[1], cells[0], sizeof(cells[0]));
	for (unsigned n = 0; n < 30000; n++) {
		unsigned i = n % 2;

		put_many(&maps[i], cells[i]);
		if (n % 3000 == 0) { /* a fork */
			(void)process_maps_unref(maps[!i]);
			maps[!i] = process_maps_ref(maps[i]);
			memcpy(cells[!i], cells[i], sizeof(cells[0]));
		}
		if (n % 100 < 2)
			check_many(maps[i], cells[i]);
	}
	for (unsigned i = 0; i < 2; i++) {
		(void)put(&maps[i], 0, MANY, 0, 0, false);
		assert_int_equal(maps[i]->n, 0);
		assert_int_equal(maps[i]->n_chunks, 0);
		(void)process_maps_unref(maps[i]);
	}
}

/* One new mapping among many: the next snapshot has all runs of the one before but one, and a child that maps one
 * more has all chunks but one. */
static void test_shared(void **state)
{
	size_t before = process_maps_held(), all, shared = 0, runs = uw_spaces_held(), run;
	struct process_maps *maps, *child;
	struct uw_space *space, *next;
	(void)state;

	assert_int_equal(process_maps_new(&maps), 0);
	for (uint64_t i = 0; i < PROCESS_MAX_MAPS - 10; i++)
		(void)put(&maps, 3 * i, 3 * i + 1, 0, i, true);
	assert_int_equal(process_maps_space(maps, NULL, &space), 0);
	all = process_maps_held() - before;
	run = uw_spaces_held() - runs;
	assert_true(run > PROCESS_MAX_MAPS * sizeof(struct uw_map));
	assert_true(put(&maps, 3001, 3002, 1, 0, true));
	assert_int_equal(process_maps_space(maps, NULL, &next), 0);
	for (size_t i = 0; i < space->n_parts; i++)
		for (size_t k = 0; k < next->n_parts; k++)
			shared += space->parts[i].maps == next->parts[k].maps;
	assert_int_equal(shared, space->n_parts - 1);
	assert_true(uw_spaces_held() - runs < run + run / 20);
	child = process_maps_ref(maps);
	assert_true(put(&child, 4, 5, 1, 0, true));
	assert_true(process_maps_held() - before < all + all / 20);
	(void)uw_space_unref(space);
	(void)uw_space_unref(next);
	(void)process_maps_unref(child);
	(void)process_maps_unref(maps);
	assert_int_equal(process_maps_held(), before);
	assert_int_equal(uw_spaces_held(), runs);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_overlap), cmocka_unit_test(test_join),
		cmocka_unit_test(test_sharing), cmocka_unit_test(test_adopt),
		cmocka_unit_test(test_limit),	cmocka_unit_test(test_model),
		cmocka_unit_test(test_many),	cmocka_unit_test(test_shared),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
