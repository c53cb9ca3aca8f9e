/* spec-config.c - events by the fields of a config (PerfEvents), which names them more plainly than
 * a command line does.  See spec.h. */
#include <errno.h>
#include <string.h>

#include "perf/spec-parser.h"

static struct spec_parser parser_of(const struct perf_spec_env *env, char *error, size_t error_size)
{
	return (struct spec_parser){
		.root = env && env->root ? env->root : "",
		.error = error,
		.error_size = error_size,
	};
}

int perf_spec_of_tracepoint(const struct perf_spec_env *env, const char *name,
			    struct perf_spec *ret_spec, char *error, size_t error_size)
{
	struct spec_parser parser = parser_of(env, error, error_size);
	struct perf_spec spec = {.counter = -1};
	/* a slash counts before a colon: a name may hold the other */
	const char *cut = strchr(name, '/') ? strchr(name, '/') : strchr(name, ':');
	char group[sizeof(spec.tracepoint)];
	int r;

	if (!cut || cut == name || !cut[1])
		return spec_error(&parser, -EINVAL,
				  "'%.128s' is not GROUP:NAME or GROUP/NAME of a tracepoint", name);
	if (strlen(name) >= sizeof(spec.tracepoint))
		return spec_error(&parser, -EINVAL, "'%.32s...' is too long for a tracepoint",
				  name);
	(void)snprintf(group, sizeof(group), "%.*s", (int)(cut - name), name);
	(void)snprintf(spec.name, sizeof(spec.name), "%s", name);
	r = spec_trace_parse(&parser, group, cut + 1, &spec);
	if (r < 0)
		return trace(r);
	(void)snprintf(spec.name, sizeof(spec.name), "%s", spec.tracepoint);
	(void)snprintf(spec.tracepoint, sizeof(spec.tracepoint), "%s", name);
	*ret_spec = spec;
	return 0;
}

int perf_spec_pmu_type(const struct perf_spec_env *env, const char *pmu, uint32_t *ret_type,
		       char *error, size_t error_size)
{
	struct spec_parser parser = parser_of(env, error, error_size);
	struct nearest nearest = {.wanted = pmu};

	if (spec_pmu_type(&parser, pmu, ret_type) == 0)
		return 0;
	spec_pmu_offer(&parser, &nearest);
	return spec_error_nearest(&parser, -ENOENT, &nearest, "this machine has no PMU '%.128s'",
				  pmu);
}
