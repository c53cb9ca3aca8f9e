/* spec.c - see spec.h.
 * An item ends at a comma, except inside PMU/.../, whose terms have commas of their own.
 * "GROUP/NAME" has one slash and "PMU/TERMS/" two, but "a/b,c/d" may be either: PMUs are looked up
 * in sysfs to decide. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "perf/spec-names.h"
#include "perf/spec-parser.h"

void perf_spec_deinit(struct perf_spec *spec)
{
	free(spec->filter);
	free(spec->probe_path);
	spec->filter = NULL;
	spec->probe_path = NULL;
}

int spec_error(struct spec_parser *parser, int r, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(parser->error, parser->error_size, format, ap);
	va_end(ap);
	return fail(r);
}

int spec_error_nearest(struct spec_parser *parser, int r, const struct nearest *nearest,
		       const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(parser->error, parser->error_size, format, ap);
	va_end(ap);
	nearest_append(nearest, parser->error, parser->error_size);
	return fail(r);
}

bool spec_is_component(const char *name)
{
	return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

bool spec_looks_like_modifiers(const char *text)
{
	return *text && text[strspn(text, "ukhp")] == 0;
}

/* Naming one of u, k, h leaves out the other two, as perf-list(1) has it. */
int spec_modifiers(struct spec_parser *parser, const char *event, const char *modifiers,
		   struct perf_spec *spec)
{
	bool user = false, kernel = false, hv = false;
	uint8_t precise = 0;

	for (const char *p = modifiers; *p; p++) {
		if (*p == 'u')
			user = true;
		else if (*p == 'k')
			kernel = true;
		else if (*p == 'h')
			hv = true;
		else if (*p == 'p' && precise < 3)
			precise++;
		else
			return spec_error(parser, -EINVAL,
					  "event '%s': unknown modifier in ':%s' (there are u, k, "
					  "h and p, pp, ppp)",
					  event, modifiers);
	}
	if (user || kernel || hv) {
		spec->exclude_user = !user;
		spec->exclude_kernel = !kernel;
		spec->exclude_hv = !hv;
	}
	if (precise)
		spec->precise_ip = precise;
	return 0;
}

static int unknown_event(struct spec_parser *parser, const char *item)
{
	struct nearest nearest = {.wanted = item};

	spec_names_offer(&nearest);
	spec_trace_offer(parser, &nearest);
	return spec_error_nearest(parser, -ENOENT, &nearest,
				  nearest.n ? "unknown event '%s'"
					    : "unknown event '%s' (perfwind record --help: -e)",
				  item);
}

/* @item is changed: it is cut at its colons. */
static int parse_named(struct spec_parser *parser, const char *whole, char *item,
		       struct perf_spec *spec)
{
	char *rest = strchr(item, ':'), *modifiers;
	uint64_t raw;
	int r;

	if (rest)
		*rest++ = 0;
	if (spec_names_find(item, spec))
		return rest ? spec_modifiers(parser, item, rest, spec) : 0;
	if (item[0] == 'r' && parse_u64(item + 1, 16, UINT64_MAX, &raw) == 0) {
		spec->type = PERF_TYPE_RAW;
		spec->config = raw;
		return rest ? spec_modifiers(parser, item, rest, spec) : 0;
	}
	if (!rest)
		return unknown_event(parser, whole);
	modifiers = strchr(rest, ':');
	if (modifiers)
		*modifiers++ = 0;
	r = spec_trace_parse(parser, item, rest, spec);
	if (r < 0)
		return trace(r);
	return modifiers ? spec_modifiers(parser, whole, modifiers, spec) : 0;
}

/* "GROUP/NAME[:MODIFIERS]" or "PMU/TERMS/[MODIFIERS]". */
static int parse_slashed(struct spec_parser *parser, const char *whole, char *item,
			 struct perf_spec *spec)
{
	char *first = strchr(item, '/'), *terms = first + 1, *end = strchr(terms, '/'), *modifiers;
	int r;

	*first = 0;
	if (end) {
		*end++ = 0;
		r = spec_pmu_parse(parser, item, terms, spec);
		modifiers = *end == ':' ? end + 1 : *end ? end : NULL;
	} else {
		modifiers = strchr(terms, ':');
		if (modifiers)
			*modifiers++ = 0;
		r = spec_trace_parse(parser, item, terms, spec);
	}
	if (r < 0)
		return trace(r);
	return modifiers ? spec_modifiers(parser, whole, modifiers, spec) : 0;
}

static int parse_item(struct spec_parser *parser, const char *text, size_t len,
		      struct perf_spec *ret_spec)
{
	_cleanup_(perf_spec_deinit) struct perf_spec spec = {.counter = -1};
	char item[SPEC_PATH_MAX], whole[SPEC_PATH_MAX];
	int r;

	if (len == 0)
		return spec_error(parser, -EINVAL,
				  "an event's name is missing (a comma too many?)");
	if (len >= sizeof(item))
		return spec_error(parser, -EINVAL, "the event's name is too long");
	memcpy(item, text, len);
	item[len] = 0;
	memcpy(whole, item, len + 1);
	/* only shown: a long path is cut */
	(void)snprintf(spec.name, sizeof(spec.name), "%.*s", (int)sizeof(spec.name) - 1, whole);

	r = spec_probe_parse(parser, item, &spec);
	if (r == SPEC_NOT_A_PROBE)
		r = strchr(item, '/') ? parse_slashed(parser, whole, item, &spec)
				      : parse_named(parser, whole, item, &spec);
	if (r < 0)
		return trace(r);
	*ret_spec = spec;
	spec.filter = NULL;
	spec.probe_path = NULL;
	return 0;
}

/* How long the item at @text is. */
static size_t item_len(struct spec_parser *parser, const char *text)
{
	size_t to_comma = strcspn(text, ","), to_slash = strcspn(text, "/");
	const char *second;
	char name[128];
	uint32_t type;

	if (strncmp(text, "uprobe:", 7) == 0 || strncmp(text, "uretprobe:", 10) == 0)
		return to_comma;
	if (to_slash > to_comma || !text[to_slash] || to_slash >= sizeof(name))
		return to_comma;
	second = strchr(text + to_slash + 1, '/');
	if (!second || (size_t)(second - text) < to_comma)
		return to_comma;
	memcpy(name, text, to_slash);
	name[to_slash] = 0;
	if (spec_pmu_type(parser, name, &type) < 0 &&
	    !memchr(text + to_slash, '=', to_comma - to_slash))
		return to_comma;
	return (size_t)(second - text) + strcspn(second, ",");
}

int perf_spec_parse(const struct perf_spec_env *env, const char *text, struct perf_spec *ret_specs,
		    size_t max, size_t *ret_n, char *error, size_t error_size)
{
	struct spec_parser parser = {
		.root = env && env->root ? env->root : "",
		.error = error,
		.error_size = error_size,
	};
	size_t n = 0;
	int r;

	for (;;) {
		size_t len = item_len(&parser, text);

		if (n == max)
			r = spec_error(&parser, -EINVAL,
				       "too many events: at most %zu with the followers", max);
		else
			r = parse_item(&parser, text, len, &ret_specs[n]);
		if (r < 0)
			break;
		n++;
		if (!text[len]) {
			*ret_n = n;
			return 0;
		}
		text += len + 1;
	}
	while (n > 0)
		perf_spec_deinit(&ret_specs[--n]);
	return trace(r);
}

int perf_spec_of_counter(int32_t counter, struct perf_spec *ret_spec)
{
	struct perf_spec spec = {.counter = -1};

	if (!spec_names_find_counter(counter, &spec))
		return fail(-EINVAL);
	*ret_spec = spec;
	return 0;
}

int perf_spec_cycles(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_HARDWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_HW_CPU_CYCLES,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	int fd = perf_event_open(&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return fd;
	fd_close(fd);
	return 0;
}

const char *perf_spec_default(const char **ret_note)
{
	int cycles = perf_spec_cycles();

	/* Refused is not missing: that is told by whoever meets it next. */
	*ret_note = cycles == 0 || cycles == -EPERM || cycles == -EACCES || cycles == -ENOSYS
			    ? NULL
			    : "no hardware cycle counter here (a virtual machine?): sampling by "
			      "cpu-clock, a timer";
	return cycles == 0 ? "cycles:ppp" : "cpu-clock";
}
