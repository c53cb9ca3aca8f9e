/* spec-pmu.c - PMU/TERMS/ by sysfs.  See spec-parser.h.
 * /sys/bus/event_source/devices/PMU/ holds: type (a number), format/TERM ("config1:0-7,32": which
 * bits take a value, the lowest first), events/EVENT ("event=0x3c,umask=1": terms).
 * Documentation/ABI/testing/ sysfs-bus-event_source-devices-{events,format}. */
#include <dirent.h>
#include <errno.h>
#include <string.h>

#include "perf/spec-names.h"
#include "perf/spec-parser.h"

#define DEVICES "/sys/bus/event_source/devices"

static void closedirp(DIR **dir)
{
	if (*dir)
		(void)closedir(*dir);
}

static void offer_dir(struct spec_parser *parser, const char *below, struct nearest *nearest)
{
	_cleanup_(closedirp) DIR *dir = NULL;
	char path[SPEC_PATH_MAX];
	struct dirent *entry;

	(void)snprintf(path, sizeof(path), "%s" DEVICES "%s", parser->root, below);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			nearest_offer(nearest, entry->d_name);
}

void spec_pmu_offer(struct spec_parser *parser, struct nearest *nearest)
{
	offer_dir(parser, "", nearest);
}

static int read_line(struct spec_parser *parser, const char *pmu, const char *below,
		     const char *name, char **ret_text)
{
	char path[SPEC_PATH_MAX];
	int r;

	if (!spec_is_component(pmu) || (name && !spec_is_component(name)))
		return -ENOENT;
	(void)snprintf(path, sizeof(path), "%s" DEVICES "/%s/%s%s", parser->root, pmu, below,
		       name ? name : "");
	r = read_file(path, SPEC_FILE_MAX, ret_text, NULL);
	if (r < 0)
		return r;
	(*ret_text)[strcspn(*ret_text, "\n")] = 0;
	return 0;
}

int spec_pmu_type(struct spec_parser *parser, const char *pmu, uint32_t *ret_type)
{
	_cleanup_(freep) char *text = NULL;
	uint64_t type;

	if (read_line(parser, pmu, "type", NULL, &text) < 0 ||
	    parse_u64(text, 10, UINT32_MAX, &type) < 0)
		return -ENOENT; /* the callers know what to say */
	*ret_type = (uint32_t)type;
	return 0;
}

static uint64_t *field_of(const char *name, struct perf_spec *spec)
{
	if (strcmp(name, "config") == 0)
		return &spec->config;
	if (strcmp(name, "config1") == 0)
		return &spec->config1;
	if (strcmp(name, "config2") == 0)
		return &spec->config2;
	return NULL;
}

/* "0-7,32" : puts the low bits of @value there.  -EINVAL: not understood; -ERANGE: @value has more
 * bits. */
static int set_bits(char *ranges, uint64_t value, uint64_t *field)
{
	uint64_t bits = 0, mask = 0;
	char *save = NULL;

	for (char *range = strtok_r(ranges, ",", &save); range;
	     range = strtok_r(NULL, ",", &save)) {
		char *dash = strchr(range, '-');
		uint64_t from, to;

		if (dash)
			*dash++ = 0;
		if (parse_u64(range, 10, 63, &from) < 0 ||
		    parse_u64(dash ? dash : range, 10, 63, &to) < 0 || to < from)
			return fail(-EINVAL);
		for (uint64_t bit = from; bit <= to; bit++) {
			mask |= 1ull << bit;
			bits |= (value & 1) << bit;
			value >>= 1;
		}
	}
	if (value)
		return fail(-ERANGE);
	*field = (*field & ~mask) | bits;
	return 0;
}

int spec_pmu_set(struct spec_parser *parser, const char *pmu, const char *term, uint64_t value,
		 struct perf_spec *spec)
{
	_cleanup_(freep) char *format = NULL;
	uint64_t *field;
	char *ranges;
	int r;

	if (read_line(parser, pmu, "format/", term, &format) < 0)
		return -ENOENT; /* the callers know what to say */
	ranges = strchr(format, ':');
	if (ranges)
		*ranges++ = 0;
	field = field_of(format, spec);
	if (!field || !ranges)
		return spec_error(parser, -EINVAL, "%s/%s/ lives in '%s', which is not supported",
				  pmu, term, format);
	r = set_bits(ranges, value, field);
	if (r == -ERANGE)
		return spec_error(parser, -EINVAL,
				  "%s/%s=0x%llx/: the value has more bits than the term", pmu, term,
				  (unsigned long long)value);
	if (r < 0)
		return spec_error(parser, -EINVAL, "%s/%s/: its format in sysfs is not understood",
				  pmu, term);
	return 0;
}

static int unknown_term(struct spec_parser *parser, const char *pmu, const char *term)
{
	struct nearest nearest = {.wanted = term};
	char below[256];

	(void)snprintf(below, sizeof(below), "/%s/format", pmu);
	offer_dir(parser, below, &nearest);
	(void)snprintf(below, sizeof(below), "/%s/events", pmu);
	offer_dir(parser, below, &nearest);
	return spec_error_nearest(parser, -ENOENT, &nearest, "%s/ has no event or term '%s'", pmu,
				  term);
}

static int apply_terms(struct spec_parser *parser, const char *pmu, char *terms, bool from_sysfs,
		       struct perf_spec *spec);

/* A word without a value: an event of the PMU, or a term that is set to 1. */
static int apply_word(struct spec_parser *parser, const char *pmu, const char *word,
		      bool from_sysfs, struct perf_spec *spec)
{
	_cleanup_(freep) char *terms = NULL;
	int r;

	if (!from_sysfs && read_line(parser, pmu, "events/", word, &terms) == 0) {
		if (spec_names_is_cycles(word))
			spec->weight = PERF_WEIGHT_CYCLES;
		return trace(apply_terms(parser, pmu, terms, true, spec));
	}
	r = spec_pmu_set(parser, pmu, word, 1, spec);
	return r == -ENOENT ? unknown_term(parser, pmu, word) : r;
}

static int apply_value(struct spec_parser *parser, const char *pmu, const char *term,
		       const char *text, struct perf_spec *spec)
{
	uint64_t *field = field_of(term, spec);
	uint64_t value;
	int r;

	if (strcmp(term, "name") == 0) {
		(void)snprintf(spec->name, sizeof(spec->name), "%s", text);
		return 0;
	}
	if (strcmp(text, "?") == 0)
		return spec_error(parser, -EINVAL, "%s/ event needs a value for '%s'", pmu, term);
	if (parse_u64(text, 0, UINT64_MAX, &value) < 0)
		return spec_error(parser, -EINVAL, "%s/%s=%s/: not a number", pmu, term, text);
	if (field) {
		*field = value;
		return 0;
	}
	r = spec_pmu_set(parser, pmu, term, value, spec);
	return r == -ENOENT ? unknown_term(parser, pmu, term) : r;
}

/* @from_sysfs: the terms of an event's file, which names no further events.  @terms is cut up. */
static int apply_terms(struct spec_parser *parser, const char *pmu, char *terms, bool from_sysfs,
		       struct perf_spec *spec)
{
	char *save = NULL;

	for (char *term = strtok_r(terms, ",", &save); term; term = strtok_r(NULL, ",", &save)) {
		char *value = strchr(term, '=');
		int r;

		if (value)
			*value++ = 0;
		r = value ? apply_value(parser, pmu, term, value, spec)
			  : apply_word(parser, pmu, term, from_sysfs, spec);
		if (r < 0)
			return trace(r);
	}
	return 0;
}

int spec_pmu_parse(struct spec_parser *parser, const char *pmu, const char *terms,
		   struct perf_spec *spec)
{
	char copy[SPEC_PATH_MAX];

	if (spec_pmu_type(parser, pmu, &spec->type) < 0) {
		struct nearest nearest = {.wanted = pmu};

		spec_pmu_offer(parser, &nearest);
		return spec_error_nearest(parser, -ENOENT, &nearest, "this machine has no PMU '%s'",
					  pmu);
	}
	(void)snprintf(copy, sizeof(copy), "%s", terms);
	return trace(apply_terms(parser, pmu, copy, false, spec));
}
