/* cpus.c - lists of CPU numbers, see the end of source.h.
 * The kernel writes them as "0-3,8" (/sys/devices/system/cpu/online), users do too (--cpu). */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "perf/source.h"

enum { CPU_MAX = 8192 }; /* NR_CPUS of the largest configurations */

static int parse_range(char *text, bool set[CPU_MAX])
{
	char *dash = strchr(text, '-');
	uint64_t from, to;

	if (dash)
		*dash++ = 0;
	if (parse_u64(text, 10, CPU_MAX - 1, &from) < 0 ||
	    parse_u64(dash ? dash : text, 10, CPU_MAX - 1, &to) < 0 || to < from)
		return fail(-EINVAL);
	for (uint64_t cpu = from; cpu <= to; cpu++)
		set[cpu] = true;
	return 0;
}

int perf_parse_cpu_list(const char *text, uint32_t **ret_cpus, size_t *ret_n)
{
	_cleanup_(freep) uint32_t *cpus = NULL;
	bool set[CPU_MAX] = {false};
	size_t n = 0;

	for (;;) {
		size_t len = strcspn(text, ",");
		char range[32];

		if (len >= sizeof(range))
			return fail(-EINVAL);
		memcpy(range, text, len);
		range[len] = 0;
		if (parse_range(range, set) < 0)
			return fail(-EINVAL);
		text += len;
		if (!*text)
			break;
		text++;
	}
	for (size_t cpu = 0; cpu < CPU_MAX; cpu++)
		n += set[cpu];
	cpus = calloc(n, sizeof(*cpus)); /* n > 0: a range holds at least one */
	if (!cpus)
		return fail(-ENOMEM);
	n = 0;
	for (uint32_t cpu = 0; cpu < CPU_MAX; cpu++)
		if (set[cpu])
			cpus[n++] = cpu;
	*ret_cpus = take(cpus);
	*ret_n = n;
	return 0;
}

int perf_online_cpus(uint32_t **ret_cpus, size_t *ret_n)
{
	_cleanup_(freep) char *text = NULL;
	int r;

	r = read_file("/sys/devices/system/cpu/online", 64 << 10, &text, NULL);
	if (r < 0)
		return trace(r);
	text[strcspn(text, "\n")] = 0;
	return trace(perf_parse_cpu_list(text, ret_cpus, ret_n));
}
