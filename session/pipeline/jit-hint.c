/* jit-hint.c - see jit-hint.h.  The options are those of the runtimes' own documentation. */
#include <string.h>

#include "proc/process-maps.h"
#include "session/pipeline/jit-hint.h"

struct runtime {
	const char *name; /* what the name of its program or library begins with */
	const char *hint;
};

/* The first that fits: a program that embeds a runtime has the library of it mapped. */
static const struct runtime runtimes[] = {
	{"libjvm.so",
	 "java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit, read at the end"},
	{"libcoreclr.so", "DOTNET_PerfMapEnabled=1"},
	{"libjulia", "ENABLE_JITPROFILING=1"},
	{"libpython3", "python3 -X perf, from 3.12 on"},
	{"python3", "python3 -X perf, from 3.12 on"},
	{"libruby", "ruby --yjit-perf"},
	{"ruby", "ruby --yjit-perf"},
	{"libphp", "php -d opcache.jit_debug=0x10"},
	{"php", "php -d opcache.jit_debug=0x10"},
	{"beam.smp", "erl +JPperf true"},
	{"node", "node --perf-basic-prof"},
	{"deno", "deno --v8-flags=--perf-basic-prof"},
	{"wasmtime", "wasmtime --profile=perfmap"},
	{"qemu-", "qemu -perfmap"},
};

static bool fits(const struct runtime *runtime, const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && !strncmp(slash + 1, runtime->name, strlen(runtime->name));
}

const char *jit_hint(const struct process *process)
{
	size_t best = ARRAY_SIZE(runtimes);
	const struct process_map *m;

	if (!process)
		return NULL;
	process_maps_each(process->maps, m)
	{
		if (!m->module || uw_module_kind(m->module) != UW_MODULE_FILE)
			continue;
		for (size_t i = 0; i < best; i++)
			if (fits(&runtimes[i], uw_module_path(m->module)))
				best = i;
	}
	return best < ARRAY_SIZE(runtimes) ? runtimes[best].hint : NULL;
}
