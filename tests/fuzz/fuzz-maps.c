/* fuzz-maps.c - a text of maps, parsed and taken into a process with records on both sides of it.
 * What must hold for any text: mappings ascend, do not overlap, and a snapshot of the mappings can be made.
 */
#include <string.h>

#include "proc/process-maps.h"
#include "proc/procfs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every line found lies inside the text and states what a line can state. */
static void walk(const char *text, size_t len)
{
	const char *at = text, *end = text + len, *before = at;
	struct procfs_map map;
	int r;

	while ((r = procfs_maps_next(&at, end, &map)) != PROCFS_MAPS_END) {
		if (at <= before || at > end)
			abort();
		before = at;
		if (r == 0 &&
		    (map.start >= map.end || map.path < text || map.path + map.path_len > end ||
		     memchr(map.path, '\n', map.path_len)))
			abort();
	}
}

static void check(struct process_table *table, struct process *p)
{
	const struct process_map *m;
	struct uw_space *space;
	uint64_t end = 0;

	process_maps_each(p->maps, m)
	{
		if (m->start >= m->end || m->start < end)
			abort();
		end = m->end;
	}
	if (process_space(table, p, &space) < 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct uw_file_id id = {.build_id = {.len = 20, .bytes = {1}}};
	/* Half of the text first, all of it as a refresh. */
	const char *text = size ? (const char *)data : "";
	struct uw_modules *modules;
	struct process_table *table;
	struct process *p;
	bool changed;

	walk(text, size);
	if (uw_modules_new(&modules) < 0 || process_table_new(modules, 4, &table) < 0)
		abort();
	(void)process_mmap(table, 1, 0x10000, 0x8000, 0x1000, true, "/bin/x", &id);
	p = process_get(table, 1);
	for (unsigned i = 0; i < 2; i++) {
		process_maps_asked(p, 1);
		(void)process_mmap(table, 1, 0x20000, 0x1000, 0, true, "//anon", NULL);
		(void)process_mmap(table, 1, 0x12000, 0x1000, 0, false, "", NULL);
		if (process_maps_answer(table, p, text, i ? size : size / 2, 0, 2, &changed) < 0)
			abort();
		check(table, p);
	}
	(void)process_table_free(table);
	(void)uw_modules_free(modules);
	return 0;
}
