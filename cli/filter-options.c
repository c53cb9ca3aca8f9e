/* filter-options.c - see filter-options.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/filter-options.h"
#include "base/error.h"
#include "base/log.h"
#include "perf/source.h"

int filter_set_cpus(void *to, const char *value)
{
	struct profile_filter *filter = to;
	_cleanup_(freep) uint32_t *cpus = NULL;
	size_t n = 0;
	int r = perf_parse_cpu_list(value, &cpus, &n);

	for (size_t i = 0; r >= 0 && i < n; i++) {
		if (cpus[i] >= PROFILE_CPUS)
			r = -EINVAL;
		else
			filter->cpus[cpus[i] / 8] |= (uint8_t)(1u << cpus[i] % 8);
	}
	filter->by_cpu = true;
	if (r >= 0)
		return 0;
	log_error("--cpu takes a list like 0-3,8: '%.64s' is not one", value);
	return -EINVAL;
}

/* "1.5s", "500ms", "20us", "3min", "2" (seconds) in ns.  Returns what follows; NULL: it is not a time. */
static const char *parse_time(const char *text, uint64_t *ret_ns)
{
	static const struct {
		const char *unit;
		double ns;
	} units[] = {{"ms", 1e6}, {"us", 1e3},	 {"ns", 1}, {"min", 60e9},
		     {"s", 1e9},  {"h", 3600e9}, {"", 1e9}};
	size_t len = strspn(text, "0123456789.");
	char number[32], *end;
	double value;

	if (!len || len >= sizeof(number))
		return NULL;
	memcpy(number, text, len);
	number[len] = 0;
	value = strtod(number, &end);
	if (*end || value > 1e9)
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		size_t n = strlen(units[i].unit);

		if (strncmp(text + len, units[i].unit, n))
			continue;
		*ret_ns = (uint64_t)(value * units[i].ns);
		return text + len + n;
	}
	return NULL;
}

/* "FROM-TO", each of which may be missing; perf's "FROM,TO" too. */
int filter_set_time(void *to, const char *value)
{
	struct profile_filter *filter = to;
	const char *at = value;

	filter->by_time = true;
	filter->from = 0;
	filter->to = UINT64_MAX;
	if (*at != '-' && *at != ',')
		at = parse_time(at, &filter->from);
	if (at && (*at == '-' || *at == ',')) {
		at++;
		if (*at)
			at = parse_time(at, &filter->to);
		if (at && !*at && value[1] && filter->from < filter->to)
			return 0;
	}
	log_error(
		"--time takes a part of the trace like 1.5s-2s, 500ms- or -10s: '%.64s' is not one",
		value);
	return -EINVAL;
}
