/* jit-hint.c - see jit-hint.h.  The options stand in the documentation of the runtimes. */
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

/* Compilers of regular expressions make code that no file names: pcre2_jit_match.c, V8's src/regexp. */
const char *jit_name_by_caller(const char *caller)
{
	static const struct {
		const char *caller; /* what its name begins with */
		const char *name;
	} codes[] = {
		{"pcre2_jit_match", "[pcre-jit]"},
		{"pcre2_match", "[pcre-jit]"},
		{"pcre_jit_exec", "[pcre-jit]"},
		{"pcre_exec", "[pcre-jit]"},
		{"Builtins_RegExp", "[v8-regexp]"},
		{"v8::internal::NativeRegExpMacroAssembler::", "[v8-regexp]"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (!strncmp(caller, codes[i].caller, strlen(codes[i].caller)) ||
		    !strcmp(caller, codes[i].name)) /* a helper in that code */
			return codes[i].name;
	return NULL;
}

/* -X perf, -Xperf, in front of the program's own arguments or among them: the version decides then. */
static bool asks_for_perf(const char *cmdline, size_t len)
{
	bool option = false;

	for (const char *at = cmdline, *end = cmdline + len; at < end;) {
		size_t n = strnlen(at, (size_t)(end - at));

		if ((option && n == 4 && !memcmp(at, "perf", 4)) ||
		    (n == 6 && !memcmp(at, "-Xperf", 6)))
			return true;
		option = n == 2 && !memcmp(at, "-X", 2);
		at += n + 1;
	}
	return false;
}

unsigned jit_hint_old_python(const char *cmdline, size_t cmdline_len, const char *maps,
			     size_t maps_len)
{
	static const char name[] = "python3.";
	const char *at = maps, *end;

	if (!maps || !cmdline || !asks_for_perf(cmdline, cmdline_len))
		return 0;
	end = maps + maps_len;
	/* .../python3.11, .../libpython3.11.so.1.0; not .../python3.11/site-packages/x.so */
	while (at < end && (at = memmem(at, (size_t)(end - at), name, sizeof(name) - 1))) {
		unsigned minor = 0, digits = 0;

		for (at += sizeof(name) - 1; at < end && *at >= '0' && *at <= '9' && digits < 3;
		     at++, digits++)
			minor = minor * 10 + (unsigned)(*at - '0');
		if (digits && at < end &&
		    (*at == '\n' || !strncmp(at, ".so", min_u64(3, (uint64_t)(end - at)))))
			return minor < 12 ? minor : 0;
	}
	return 0;
}
