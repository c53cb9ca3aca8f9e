/* live.c - see live.h.  Modules are kept by path for as long as the process runs: what is tested
 * is the unwinder, and its files do not change meanwhile. */
#include "tests/differential/live.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "symbols/demangle.h"

static ssize_t read_memory(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	struct live *live = container_of(memory, struct live, memory);

	return pread(live->mem, to, len, (off_t)address);
}

size_t live_read(struct live *live, uint64_t address, void *to, size_t len)
{
	ssize_t got = read_memory(&live->memory, address, to, len);

	return got > 0 ? (size_t)got : 0;
}

int live_init(struct live *live, pid_t pid)
{
	char path[64];

	live->pid = pid;
	live->memory.read = read_memory;
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	live->mem = open(path, O_RDONLY | O_CLOEXEC);
	return live->mem < 0 ? -errno : 0;
}

void live_deinit(struct live *live)
{
	uw_space_unref(live->space);
	for (uint32_t i = 0; i < live->paths.n_entries; i++)
		uw_module_unref(live->modules[i]);
	free(live->modules);
	free(live->areas);
	string_table_deinit(&live->paths);
	fd_close(live->mem);
}

/* The module's first bytes stand where its mapping of offset 0 does: @image. */
static void load(struct live *live, struct uw_module *module, const struct live_area *image,
		 bool symbols)
{
	struct uw_source source = {
		.fd = -1, .memory = &live->memory, .start = image->start, .end = UINT64_MAX};

	if (uw_module_kind(module) == UW_MODULE_FILE && (!live->no_files || symbols))
		source = (struct uw_source){
			.fd = open(uw_module_path(module), O_RDONLY | O_CLOEXEC)};
	if (symbols)
		(void)uw_module_load_symbols(module, &source);
	else
		(void)uw_module_load_unwind(module, &source);
	fd_close(source.fd);
}

static int module_get(struct live *live, const char *path, const struct live_area *image,
		      struct uw_module **ret_module)
{
	struct uw_module **more, *module;
	bool vdso = !strcmp(path, "[vdso]"), new;
	uint32_t id;
	int r = string_table_add(&live->paths, path, strlen(path), &id, &new);

	if (r < 0)
		return r;
	if (!new) {
		*ret_module = live->modules[id - 1];
		return 0;
	}
	more = reallocarray(live->modules, id, sizeof(*more));
	if (!more)
		return -ENOMEM;
	live->modules = more;
	more[id - 1] = NULL;
	r = uw_module_new(vdso ? UW_MODULE_MEMORY : UW_MODULE_FILE, path, NULL, &module);
	if (r < 0)
		return r;
	more[id - 1] = module;
	(void)uw_module_want_unwind(module);
	load(live, module, image, false);
	*ret_module = module;
	return 0;
}

struct line {
	struct live_area area;
	uint64_t offset;
	char perms[8], path[4200];
};

static int refresh_line(struct live *live, const struct line *line, struct live_area *image,
			struct uw_map *map)
{
	struct live_area *areas =
		reallocarray(live->areas, live->n_areas + 1, sizeof(*live->areas));

	if (!areas)
		return -ENOMEM;
	live->areas = areas;
	areas[live->n_areas++] = line->area;
	if (!line->offset)
		*image = line->area;
	*map = (struct uw_map){line->area.start, line->area.end, line->offset, NULL};
	if (!strcmp(line->path, "[vsyscall]") || line->perms[2] != 'x')
		map->end = 0;
	else if (line->path[0] == '/' || !strcmp(line->path, "[vdso]"))
		return module_get(live, line->path, image, &map->module);
	return 0;
}

int live_refresh(struct live *live)
{
	enum { MAPS = 256 };
	struct uw_map maps[MAPS + 1];
	struct live_area image = {0};
	struct line line;
	char text[4400];
	size_t n = 0;
	FILE *file;
	int r = 0;

	snprintf(text, sizeof(text), "/proc/%d/maps", live->pid);
	file = fopen(text, "re");
	if (!file)
		return -errno;
	live->n_areas = 0;
	while (r == 0 && n < MAPS && fgets(text, sizeof(text), file)) {
		*line.path = 0;
		if (sscanf(text, "%lx-%lx %7s %lx %*s %*s %4199s", &line.area.start, &line.area.end,
			   line.perms, &line.offset, line.path) < 4)
			continue;
		r = refresh_line(live, &line, &image, &maps[n]);
		n += maps[n].end != 0;
	}
	fclose(file);
	if (r < 0)
		return r;
	uw_space_unref(live->space);
	live->space = NULL;
	return uw_space_new(maps, n, ++live->key, &live->memory, &live->space);
}

const struct live_area *live_area(const struct live *live, uint64_t address)
{
	for (size_t i = 0; i < live->n_areas; i++)
		if (address >= live->areas[i].start && address < live->areas[i].end)
			return &live->areas[i];
	return NULL;
}

void live_describe(struct live *live, uint64_t frame, char *to, size_t size)
{
	uint64_t pc = uw_frame_lookup(frame);
	const struct uw_map *map = uw_space_find(live->space, pc);
	struct live_area image = {0};
	struct uw_symbol symbol = {.name = ""};
	char name[160];
	const char *slash;

	if (!map || !map->module) {
		snprintf(to, size, "%s %#llx", map ? "[anon]" : "[no mapping]",
			 (unsigned long long)uw_frame_pc(frame));
		return;
	}
	if (uw_module_kind(map->module) == UW_MODULE_FILE && uw_module_want_symbols(map->module))
		load(live, map->module, &image, true);
	if (uw_module_symbol_state(map->module) == UW_MODULE_READY)
		(void)uw_module_symbol(map->module, uw_map_vaddr(map, pc), &symbol);
	uw_demangle(symbol.name, name, sizeof(name));
	slash = strrchr(uw_module_path(map->module), '/');
	snprintf(to, size, "%s+%#llx %s", slash ? slash + 1 : uw_module_path(map->module),
		 (unsigned long long)uw_map_vaddr(map, uw_frame_pc(frame)), name);
}
