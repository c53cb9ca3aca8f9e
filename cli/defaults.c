/* defaults.c - see defaults.h. */
#include <errno.h>
#include <string.h>

#include "cli/defaults.h"
#include "daemon/base/error.h"
#include "daemon/base/log.h"
#include "daemon/perf/spec.h"

const char *default_event(const char **ret_note)
{
	int cycles = perf_spec_cycles();

	/* Refused is not missing: that is told by whoever meets it next. */
	*ret_note = cycles == 0 || cycles == -EPERM || cycles == -EACCES || cycles == -ENOSYS
			    ? NULL
			    : "no hardware cycle counter here (a virtual machine?): sampling by "
			      "cpu-clock, a timer";
	/* The highest precision that there is. */
	return cycles == 0 ? "cycles:ppp" : "cpu-clock";
}

int pid_list_add(const char *value, uint32_t *pids, size_t *n, size_t max)
{
	char text[16];

	while (*value) {
		size_t len = strcspn(value, ",");
		uint64_t pid;

		if (len == 0 || len >= sizeof(text) || *n == max)
			goto bad;
		memcpy(text, value, len);
		text[len] = 0;
		if (parse_u64(text, 10, INT32_MAX, &pid) < 0 || !pid)
			goto bad;
		pids[(*n)++] = (uint32_t)pid;
		value += len + (value[len] == ',');
	}
	return 0;
bad:
	log_error("-p takes process ids with commas between: '%.64s' is not one", value);
	return fail(-EINVAL);
}
