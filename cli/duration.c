/* duration.c - see duration.h. */
#include <errno.h>
#include <string.h>

#include "cli/duration.h"
#include "base/error.h"

static const struct unit {
	const char *name;
	uint64_t ns;
} units[] = {
	{"us", 1000},
	{"ms", NSEC_PER_MSEC},
	{"s", NSEC_PER_SEC},
	{"min", 60 * NSEC_PER_SEC},
	{"h", 3600 * NSEC_PER_SEC},
	{"d", 86400 * NSEC_PER_SEC},
};

#define MOST (1000 * 86400 * NSEC_PER_SEC)

/* ".25" of @unit ns: the digits behind the point, to the nanosecond. */
static uint64_t fraction_of(const char *digits, uint64_t unit)
{
	uint64_t ns = 0;

	for (; unit && *digits >= '0' && *digits <= '9'; digits++) {
		unit /= 10;
		ns += (uint64_t)(*digits - '0') * unit;
	}
	return ns;
}

int duration_parse(const char *text, const char *usual_unit, uint64_t *ret_ns)
{
	size_t digits = strspn(text, "0123456789");
	const char *fraction = text[digits] == '.' ? text + digits + 1 : "";
	const char *end = *fraction ? fraction + strspn(fraction, "0123456789") : text + digits;
	const char *name = *end || !usual_unit ? end : usual_unit;
	char number[24];
	uint64_t n;

	if (!digits || digits >= sizeof(number) || (*fraction && end == fraction))
		return -EINVAL;
	memcpy(number, text, digits);
	number[digits] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (strcmp(name, units[i].name))
			continue;
		if (parse_u64(number, 10, MOST / units[i].ns, &n) < 0)
			return -EINVAL;
		n = n * units[i].ns + fraction_of(fraction, units[i].ns);
		if (!n || n > MOST)
			return -EINVAL;
		*ret_ns = n;
		return 0;
	}
	return -EINVAL;
}
