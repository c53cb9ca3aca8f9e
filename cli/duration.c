/* duration.c - see duration.h. */
#include <errno.h>
#include <string.h>

#include "cli/duration.h"
#include "base/error.h"

static const struct unit {
	const char *name;
	uint64_t ns;
} units[] = {
	{"ms", NSEC_PER_MSEC},	    {"s", NSEC_PER_SEC},	 {"min", 60 * NSEC_PER_SEC},
	{"h", 3600 * NSEC_PER_SEC}, {"d", 86400 * NSEC_PER_SEC},
};

#define MOST (1000 * 86400 * NSEC_PER_SEC)

int duration_parse(const char *text, const char *usual_unit, uint64_t *ret_ns)
{
	size_t digits = strspn(text, "0123456789");
	const char *name = text[digits] || !usual_unit ? text + digits : usual_unit;
	char number[24];
	uint64_t n;

	if (!digits || digits >= sizeof(number))
		return -EINVAL;
	memcpy(number, text, digits);
	number[digits] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (strcmp(name, units[i].name))
			continue;
		if (parse_u64(number, 10, MOST / units[i].ns, &n) < 0 || !n)
			return -EINVAL;
		*ret_ns = n * units[i].ns;
		return 0;
	}
	return -EINVAL;
}
