/* spec-probe.c - kprobes and uprobes by the kernel's PMUs of these names (4.17).  See
 * spec-parser.h. config1 points to a text: the function's name, or the file's path; config2 is the
 * offset; bit "retprobe" of config asks for the return.  perf_event_open(2), "dynamic PMU". */
#include <errno.h>
#include <limits.h>
#include <string.h>

#include "perf/spec-parser.h"

static const struct kind {
	const char *prefix, *pmu;
	bool user, ret;
} kinds[] = {
	{"kprobe:", "kprobe", false, false},
	{"kretprobe:", "kprobe", false, true},
	{"uprobe:", "uprobe", true, false},
	{"uretprobe:", "uprobe", true, true},
};

/* Cuts ":MODIFIERS" off the end; only when a ':' is left before it if @need_colon: "uprobe:PATH:u"
 * is function u. */
static char *cut_modifiers(char *text, bool need_colon)
{
	char *colon = strrchr(text, ':');

	if (!colon || !spec_looks_like_modifiers(colon + 1))
		return NULL;
	if (need_colon && !memchr(text, ':', (size_t)(colon - text)))
		return NULL;
	*colon = 0;
	return colon + 1;
}

/* "FUNC", "FUNC+0x10" or "0xADDRESS". */
static int parse_kernel(struct spec_parser *parser, char *what, struct perf_spec *spec)
{
	char *plus = strchr(what, '+');

	if (plus) {
		*plus++ = 0;
		if (parse_u64(plus, 0, UINT64_MAX, &spec->config2) < 0)
			return spec_error(parser, -EINVAL, "'%s': the offset is not a number",
					  spec->name);
	}
	if (!*what)
		return spec_error(parser, -EINVAL, "'%s': the function is missing", spec->name);
	/* an address is a probe without a name */
	if (!plus && parse_u64(what, 0, UINT64_MAX, &spec->config2) == 0)
		return 0;
	spec->probe_path = strdup(what);
	return spec->probe_path ? 0 : fail(-ENOMEM);
}

static int parse_user(struct spec_parser *parser, char *what, struct perf_spec *spec)
{
	char *colon = strrchr(what, ':'), *place;
	struct nearest nearest = {0};
	int r;

	if (!colon || colon == what || !colon[1])
		return spec_error(parser, -EINVAL,
				  "'%s' is not uprobe:PATH:OFFSET or uprobe:PATH:FUNCTION",
				  spec->name);
	*colon = 0;
	place = colon + 1;
	spec->probe_path =
		realpath(what, NULL); /* the kernel reads it later, perhaps from elsewhere */
	if (!spec->probe_path) {
		r = -errno;
		return spec_error(parser, r, "uprobe: %s: %s", what, strerror(-r));
	}
	if (parse_u64(place, 0, INT64_MAX, &spec->config2) == 0)
		return 0;
	nearest.wanted = place;
	r = spec_elf_offset(spec->probe_path, place, &nearest, &spec->config2);
	if (r == -ENOENT)
		return spec_error_nearest(parser, r, &nearest, "uprobe: %s has no function '%s'",
					  what, place);
	if (r == -ENOEXEC)
		return spec_error(
			parser, -EINVAL,
			"uprobe: %s is no ELF file with symbols: give the offset in the file",
			what);
	if (r < 0)
		return spec_error(parser, r, "uprobe: %s: %s", what, strerror(-r));
	return 0;
}

int spec_probe_parse(struct spec_parser *parser, const char *item, struct perf_spec *spec)
{
	const struct kind *kind = NULL;
	char what[SPEC_PATH_MAX];
	char *modifiers;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(kinds) && !kind; i++)
		if (strncmp(item, kinds[i].prefix, strlen(kinds[i].prefix)) == 0)
			kind = &kinds[i];
	if (!kind)
		return SPEC_NOT_A_PROBE;
	if (spec_pmu_type(parser, kind->pmu, &spec->type) < 0)
		return spec_error(parser, -ENOENT, "'%s': this kernel has no %ss (%s)", item,
				  kind->pmu,
				  kind->user ? "CONFIG_UPROBE_EVENTS" : "CONFIG_KPROBE_EVENTS");
	(void)snprintf(what, sizeof(what), "%s", item + strlen(kind->prefix));
	modifiers = cut_modifiers(what, kind->user);
	r = kind->user ? parse_user(parser, what, spec) : parse_kernel(parser, what, spec);
	if (r < 0)
		return trace(r);
	if (kind->ret) {
		r = spec_pmu_set(parser, kind->pmu, "retprobe", 1, spec);
		if (r < 0)
			return spec_error(parser, -ENOENT, "'%s': this kernel has no return probes",
					  item);
	}
	return modifiers ? spec_modifiers(parser, item, modifiers, spec) : 0;
}
