/* process-modules.c - which module stands behind a mapping's path.
 *
 * Code without a file is a JIT compiler's: all of it in one process shares one module, whose path
 * is the perf map that the compiler may write, named by the pid that it sees
 * (tools/perf/Documentation/jit-interface.txt). The vDSO is the same image in every process of one
 * kind; its size tells the kinds apart. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "proc/maps.h"

static bool starts_with(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* System V shared memory: "/SYSV" and the key in hex. */
static bool is_sysv(const char *path)
{
	return starts_with(path, "/SYSV") && strspn(path + 5, "0123456789abcdef") == 8 &&
	       (!path[13] || path[13] == ' ');
}

enum path_kind process_path_kind(const char *path, bool has_build_id)
{
	static const char *const nameless[] = {
		"//anon",    "[heap]",	       "[stack",       "[anon",
		"/dev/zero", "/anon_hugepage", "/dev/ashmem/", "anon_inode:",
	};

	if (!*path)
		return PATH_JIT;
	if (!strcmp(path, "[vdso]"))
		return PATH_VDSO;
	/* what is unpacked into a memfd and loaded as ELF has a build id where the kernel tells
	 * them */
	if (starts_with(path, "/memfd:"))
		return has_build_id ? PATH_FILE : PATH_JIT;
	for (size_t i = 0; i < ARRAY_SIZE(nameless); i++) {
		if (starts_with(path, nameless[i]))
			return PATH_JIT;
	}
	if (is_sysv(path))
		return PATH_JIT;
	return *path == '/' ? PATH_FILE : PATH_NONE;
}

static int vdso_module(struct process_table *table, uint64_t size, struct uw_module **ret_module)
{
	for (size_t i = 0; i < ARRAY_SIZE(table->vdsos); i++) {
		struct process_vdso *v = &table->vdsos[i];
		int r;

		if (!v->module) {
			r = uw_modules_add(table->modules, UW_MODULE_MEMORY, "[vdso]", &v->module);
			if (r < 0)
				return trace(r);
			v->size = size;
		}
		if (v->size == size) {
			*ret_module = uw_module_ref(v->module);
			return 0;
		}
	}
	*ret_module = NULL; /* more kinds than a kernel has: not a vDSO that can be believed */
	return 0;
}

static int jit_module(struct process_table *table, struct process *process,
		      struct uw_module **ret_module)
{
	char path[64];
	int r;

	if (!process->jit) {
		(void)snprintf(path, sizeof(path), "/tmp/perf-%u.map",
			       process->ns_pid ? process->ns_pid : process->pid);
		r = uw_modules_add(table->modules, UW_MODULE_JIT, path, &process->jit);
		if (r < 0)
			return trace(r);
	}
	*ret_module = uw_module_ref(process->jit);
	return 0;
}

static int file_module(struct process_table *table, const char *path, const struct uw_file_id *id,
		       struct uw_module **ret_module)
{
	static const char deleted[] = " (deleted)";
	char plain[PROCESS_PATH_MAX];
	size_t len = strlen(path), tail = strlen(deleted);

	if (len > tail && len - tail < sizeof(plain) && !strcmp(path + len - tail, deleted)) {
		memcpy(plain, path, len - tail);
		plain[len - tail] = 0;
		path = plain;
	}
	return uw_modules_get(table->modules, path, id, ret_module);
}

int process_map_resolve(struct process_table *table, struct process *process, const char *path,
			struct process_map *map)
{
	int r = 0;

	map->module = NULL;
	switch (process_path_kind(path, map->id.build_id.len != 0)) {
	case PATH_FILE:
		r = file_module(table, path, &map->id, &map->module);
		break;
	case PATH_JIT:
		map->offset = 0;
		map->id = (struct uw_file_id){0};
		r = jit_module(table, process, &map->module);
		break;
	case PATH_VDSO:
		map->offset = 0;
		map->id = (struct uw_file_id){0};
		r = vdso_module(table, map->end - map->start, &map->module);
		break;
	case PATH_NONE:
		map->offset = 0;
		map->id = (struct uw_file_id){0};
		break;
	}
	return r < 0 ? trace(r) : 0;
}

/* The perf map has another name than was thought: what this life's JIT code belongs to changes with
 * it. */
int process_set_ns_pid(struct process_table *table, struct process *process, uint32_t ns_pid)
{
	uint32_t before = process->ns_pid ? process->ns_pid : process->pid;
	struct uw_module *old = process->jit, *now = NULL;
	int r = 0;

	process->ns_pid = ns_pid;
	if (!old || !ns_pid || ns_pid == before)
		return 0;
	process->jit = NULL;
	r = jit_module(table, process, &now);
	for (size_t i = 0; i < process->maps->n && r >= 0; i++) {
		struct process_map map = process->maps->maps[i];
		bool changed = false;

		if (map.module != old)
			continue;
		map.module = now;
		r = process_maps_put(&process->maps, &map, true, &changed);
		i = process_maps_at(process->maps, map.start);
		process->space = uw_space_unref(process->space);
	}
	for (size_t i = 0; process->log && i < process->log->n && r >= 0; i++) {
		struct process_map *map = &process->log->entries[i].map;

		if (map->module == old) {
			(void)uw_module_unref(old);
			map->module = uw_module_ref(now);
		}
	}
	(void)uw_module_unref(now);
	(void)uw_module_unref(old);
	return r < 0 ? trace(r) : 0;
}
