/* pid-list.c - see pid-list.h. */
#include <errno.h>
#include <string.h>

#include "cli/pid-list.h"
#include "base/error.h"
#include "base/log.h"

static const char separators[] = ", \t\n";

int pid_list_add(const char *value, uint32_t *pids, size_t *n, size_t max)
{
	size_t before = *n;
	char text[16];

	for (;;) {
		size_t len;
		uint64_t pid;

		value += strspn(value, separators);
		len = strcspn(value, separators);
		if (!len)
			break;
		if (len >= sizeof(text))
			goto bad;
		memcpy(text, value, len);
		text[len] = 0;
		if (parse_u64(text, 10, INT32_MAX, &pid) < 0 || !pid)
			goto bad;
		if (*n == max) {
			log_error("-p takes at most %zu process ids", max);
			return fail(-EINVAL);
		}
		pids[(*n)++] = (uint32_t)pid;
		value += len;
	}
	if (*n > before)
		return 0;
	log_error("-p: no process matches (the list is empty)");
	return fail(-EINVAL);
bad:
	log_error("-p takes process ids separated by commas or blanks: '%.64s' is not one; "
		  "hint: pgrep NAME prints ids",
		  value);
	return fail(-EINVAL);
}
