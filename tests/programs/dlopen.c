/* dlopen.c - a plugin is loaded, used and unloaded again and again, mostly at the same address.
 * main > run_plugin > plugin_work > plugin_inner > plugin_callback > burn   (plugin_* but the
 * callback in plugin.so, which is in the folder of the program) */
#include <dlfcn.h>

#include "program.h"

static NOINLINE uint64_t plugin_callback(uint64_t n)
{
	uint64_t x = burn(50 + n % 2);

	NOT_LAST;
	return x;
}

static NOINLINE int run_plugin(const char *path)
{
	uint64_t (*work)(uint64_t(*callback)(uint64_t), uint64_t n);
	void *plugin = dlopen(path, RTLD_LAZY);

	if (!plugin)
		return -1;
	work = (uint64_t(*)(uint64_t(*)(uint64_t), uint64_t))(uintptr_t)dlsym(plugin,
									      "plugin_work");
	for (int i = 0; i < 20; i++)
		program_sink += work(plugin_callback, 50);
	dlclose(plugin);
	return 0;
}

int main(int argc, char **argv)
{
	char path[4096];
	const char *slash = strrchr(argv[0], '/');

	program_start(argc, argv);
	snprintf(path, sizeof(path), "%.*splugin.so", slash ? (int)(slash + 1 - argv[0]) : 2,
		 slash ? argv[0] : "./");
	while (program_running()) {
		if (run_plugin(path) < 0) {
			fprintf(stderr, "dlopen: cannot load %s\n", path);
			return 1;
		}
	}
	return 0;
}
