/* pid-list.c - see pid-list.h. */
#include <errno.h>
#include <string.h>

#include "cli/pid-list.h"
#include "base/error.h"
#include "base/log.h"

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
	log_error("-p takes process ids separated by commas: '%.64s' is not one", value);
	return fail(-EINVAL);
}
