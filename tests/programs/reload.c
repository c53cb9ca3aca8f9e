/* reload.c - two plugins take turns at one address: each is loaded where the other was unloaded a
 * moment ago.  They are made of one source, so their code is all but at the same places. main >
 * run_first > plugin_work > plugin_inner > plugin_callback > burn main > run_second > second_work >
 * second_inner > plugin_callback > burn Ends with 3 when they never came to lie at one address:
 * then nothing was tested. */
#include <dlfcn.h>
#include <link.h>

#include "program.h"

typedef uint64_t work_function(uint64_t (*callback)(uint64_t), uint64_t n);

static uintptr_t last_at;
static int met;

static NOINLINE uint64_t plugin_callback(uint64_t n)
{
	uint64_t x = burn(50 + n % 2);

	NOT_LAST;
	return x;
}

static NOINLINE void run_first(work_function *work)
{
	for (int i = 0; i < 20; i++)
		program_sink += work(plugin_callback, 50);
}

static NOINLINE void run_second(work_function *work)
{
	for (int i = 0; i < 20; i++)
		program_sink += work(plugin_callback, 51);
}

static void run_plugin(const char *dir, int len, const char *file, const char *function)
{
	char path[4096];
	struct link_map *map;
	work_function *work;
	void *plugin;

	snprintf(path, sizeof(path), "%.*s%s", len, dir, file);
	plugin = dlopen(path, RTLD_NOW);
	if (!plugin) {
		fprintf(stderr, "reload: %s\n", dlerror());
		exit(1);
	}
	work = (work_function *)(uintptr_t)dlsym(plugin, function);
	if (!work || dlinfo(plugin, RTLD_DI_LINKMAP, &map))
		exit(1);
	met += map->l_addr == last_at;
	last_at = map->l_addr;
	if (*function == 'p')
		run_first(work);
	else
		run_second(work);
	dlclose(plugin);
}

int main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/');
	const char *dir = slash ? argv[0] : "./";
	int len = slash ? (int)(slash + 1 - argv[0]) : 2;

	program_start(argc, argv);
	while (program_running()) {
		run_plugin(dir, len, "plugin.so", "plugin_work");
		run_plugin(dir, len, "plugin-second.so", "second_work");
	}
	return met ? 0 : 3;
}
