/* proc-fixture.h - a table on a real set of modules, and short forms of the records. */
#pragma once

#include "tests/unit/cmocka.h"

#include "proc/process-maps.h"

struct fixture {
	struct uw_modules *modules;
	struct process_table *table;
};

static inline void fixture_init(struct fixture *f, size_t max)
{
	assert_int_equal(uw_modules_new(&f->modules), 0);
	assert_int_equal(process_table_new(f->modules, max, &f->table), 0);
}

static inline void fixture_deinit(struct fixture *f)
{
	f->table = process_table_free(f->table);
	f->modules = uw_modules_free(f->modules);
}

static inline struct uw_file_id inode_id(uint64_t inode)
{
	return (struct uw_file_id){.major = 8, .minor = 1, .inode = inode};
}

static inline struct uw_file_id build_id(uint8_t first)
{
	return (struct uw_file_id){.build_id = {.len = 20, .bytes = {first, 2, 3}}};
}

/* One page at @page, of @path at offset 0. */
static inline void map_page(struct fixture *f, uint32_t pid, uint64_t page, const char *path,
			    struct uw_file_id id)
{
	assert_int_equal(process_mmap(f->table, pid, page << 12, 4096, 0, true, path, &id), 0);
}

static inline struct uw_space *space_of(struct fixture *f, struct process *p)
{
	struct uw_space *space = NULL;

	assert_int_equal(process_space(f->table, p, &space), 0);
	assert_non_null(space);
	return space;
}

/* The path of the module at a page; "" without a module, NULL where nothing is mapped. */
static inline const char *path_at(struct fixture *f, struct process *p, uint64_t page)
{
	const struct uw_map *map = uw_space_find(space_of(f, p), (page << 12) + 8);

	return !map ? NULL : map->module ? uw_module_path(map->module) : "";
}

static inline bool answer(struct fixture *f, struct process *p, const char *text, uint64_t now)
{
	bool changed = false;

	assert_int_equal(process_maps_answer(f->table, p, text, text ? strlen(text) : 0,
					     text ? 0 : -3, now, &changed),
			 0);
	return changed;
}
