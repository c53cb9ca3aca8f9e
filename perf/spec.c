/* spec.c - see spec.h.
 *
 * An item ends at a comma, except inside PMU/.../, where terms have commas of their own.
 * "GROUP/NAME" has one slash and "PMU/TERMS/" two, but "a/b,c/d" may be either: PMUs are looked up
 * in sysfs to decide. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "base/nearest.h"
#include "perf/gate.h"
#include "perf/spec.h"
#include "perf/spec-elf.h"
#include "perf/spec-usdt.h"

enum { SPEC_PATH_MAX = 4096, SPEC_FILE_MAX = 64 << 10 };

struct spec_parser {
	const char *root; /* before "/sys/..." */
	char *error;
	size_t error_size;
};

void perf_spec_deinit(struct perf_spec *spec)
{
	free(spec->filter);
	free(spec->probe_path);
	spec->filter = NULL;
	spec->probe_path = NULL;
}

bool perf_has_kernel_probe(const struct perf_spec *specs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (specs[i].probe_path)
			return true;
	return false;
}

static struct spec_parser parser_of(const struct perf_spec_env *env, char *error, size_t error_size)
{
	return (struct spec_parser){
		.root = env && env->root ? env->root : "",
		.error = error,
		.error_size = error_size,
	};
}

/* Writes the line for the user and returns @r. */
static int spec_error(struct spec_parser *parser, int r, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(parser->error, parser->error_size, format, ap);
	va_end(ap);
	return fail(r);
}

/* The same with the nearest names behind. */
static int spec_error_nearest(struct spec_parser *parser, int r, const struct nearest *nearest,
			      const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(parser->error, parser->error_size, format, ap);
	va_end(ap);
	nearest_append(nearest, parser->error, parser->error_size);
	return fail(r);
}

/* A name that may be one component of a path: not empty, no '/', not "." or "..". */
static bool spec_is_component(const char *name)
{
	return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static bool spec_looks_like_modifiers(const char *text)
{
	return *text && text[strspn(text, "ukhpP")] == 0;
}

/* Naming one of u, k, h leaves out the other two, as perf-list(1) has it. */
static int spec_modifiers(struct spec_parser *parser, const char *event, const char *modifiers,
			  struct perf_spec *spec)
{
	unsigned code = 0;
	uint8_t precise = 0;

	for (const char *p = modifiers; *p; p++) {
		if (*p == 'u')
			code |= FRAMES_USER;
		else if (*p == 'k')
			code |= FRAMES_KERNEL;
		else if (*p == 'h')
			code |= FRAMES_HYPERVISOR;
		else if (*p == 'P')
			precise = 3;
		else if (*p == 'p' && precise < 3)
			precise++;
		else
			return spec_error(parser, -EINVAL,
					  "event '%s': unknown modifier in ':%s' (there are u, k, "
					  "h and p, pp, ppp)",
					  event, modifiers);
	}
	if (code)
		spec->code = code;
	if (precise)
		spec->precise_ip = precise;
	return 0;
}

/* ---- names of generic events ----
 *
 * Names as in perf-list(1), numbers as in linux/perf_event.h (enum perf_hw_id, perf_sw_ids,
 * perf_hw_cache_id ...).  The name of a cache event consists of three words, "L1-dcache" + "load" +
 * "misses"; its config is cache | op << 8 | result << 16.  Case is ignored: LLC-loads, llc-loads. */

/* Names of one event stand together, the usual one first.  counter: PerfEvents.Counter of
 * perf_events.proto. */
static const struct name {
	const char *name;
	uint32_t type;
	uint32_t config;
	int32_t counter;
} names[] = {
	{"cpu-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 10},
	{"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 10},
	{"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, 11},
	{"cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES, 12},
	{"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, 13},
	{"branch-instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 14},
	{"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 14},
	{"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, 15},
	{"bus-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BUS_CYCLES, 16},
	{"stalled-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, 17},
	{"idle-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, 17},
	{"stalled-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND, 18},
	{"idle-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND, 18},
	{"ref-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES, 19},
	{"cpu-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 1},
	{"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 2},
	{"faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 2},
	{"task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, 3},
	{"context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, 4},
	{"cs", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, 4},
	{"cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, 5},
	{"migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, 5},
	{"minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN, 6},
	{"major-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ, 7},
	{"alignment-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_ALIGNMENT_FAULTS, 8},
	{"emulation-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_EMULATION_FAULTS, 9},
	{"dummy", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY, 20},
	{"bpf-output", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_BPF_OUTPUT, -1},
	{"cgroup-switches", PERF_TYPE_SOFTWARE, 11 /* PERF_COUNT_SW_CGROUP_SWITCHES, 5.13 */, -1},
};

static const struct word {
	const char *word;
	uint32_t value;
} caches[] =
	{
		{"L1-dcache", PERF_COUNT_HW_CACHE_L1D}, {"L1-icache", PERF_COUNT_HW_CACHE_L1I},
		{"LLC", PERF_COUNT_HW_CACHE_LL},	{"dTLB", PERF_COUNT_HW_CACHE_DTLB},
		{"iTLB", PERF_COUNT_HW_CACHE_ITLB},	{"branch", PERF_COUNT_HW_CACHE_BPU},
		{"node", PERF_COUNT_HW_CACHE_NODE},	{"L1d", PERF_COUNT_HW_CACHE_L1D},
		{"L1i", PERF_COUNT_HW_CACHE_L1I},
},
  ops[] = {
	  /* what the second and third word are together */
	  {"loads", PERF_COUNT_HW_CACHE_OP_READ << 8},
	  {"load-misses", PERF_COUNT_HW_CACHE_OP_READ << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16},
	  {"stores", PERF_COUNT_HW_CACHE_OP_WRITE << 8},
	  {"store-misses",
	   PERF_COUNT_HW_CACHE_OP_WRITE << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16},
	  {"prefetches", PERF_COUNT_HW_CACHE_OP_PREFETCH << 8},
	  {"prefetch-misses",
	   PERF_COUNT_HW_CACHE_OP_PREFETCH << 8 | PERF_COUNT_HW_CACHE_RESULT_MISS << 16},
};

/* Is this the usual name of the cycles counter? */
static bool spec_names_is_cycles(const char *name)
{
	return strcasecmp(name, "cycles") == 0 || strcasecmp(name, "cpu-cycles") == 0;
}

static void set_generic(const struct name *name, struct perf_spec *ret_spec)
{
	bool hardware = name->type == PERF_TYPE_HARDWARE;

	ret_spec->type = name->type;
	ret_spec->config = name->config;
	ret_spec->counter = name->counter;
	ret_spec->weight = PERF_WEIGHT_EVENTS;
	ret_spec->precise_ip = 0;
	if (hardware && name->config == PERF_COUNT_HW_CPU_CYCLES) {
		ret_spec->weight = PERF_WEIGHT_CYCLES;
		ret_spec->precise_ip = 3; /* the open goes down from here to what the machine has */
	}
	if (!hardware &&
	    (name->config == PERF_COUNT_SW_CPU_CLOCK || name->config == PERF_COUNT_SW_TASK_CLOCK))
		ret_spec->weight = PERF_WEIGHT_TIME;
}

static bool find_cache(const char *name, uint32_t *ret_config)
{
	for (size_t c = 0; c < ARRAY_SIZE(caches); c++) {
		size_t len = strlen(caches[c].word);

		if (strncasecmp(name, caches[c].word, len) != 0 || name[len] != '-')
			continue;
		for (size_t o = 0; o < ARRAY_SIZE(ops); o++)
			if (strcasecmp(name + len + 1, ops[o].word) == 0) {
				*ret_config = caches[c].value | ops[o].value;
				return true;
			}
	}
	return false;
}

static bool spec_names_find(const char *name, struct perf_spec *ret_spec)
{
	uint32_t config;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcasecmp(names[i].name, name) == 0) {
			set_generic(&names[i], ret_spec);
			return true;
		}
	if (!find_cache(name, &config))
		return false;
	ret_spec->type = PERF_TYPE_HW_CACHE;
	ret_spec->config = config;
	ret_spec->counter = -1;
	ret_spec->weight = PERF_WEIGHT_EVENTS;
	ret_spec->precise_ip = 0;
	return true;
}

/* Sets type, config, weight, precise_ip and counter.  False: no generic event has this name. */
static bool spec_names_find_counter(int32_t counter, struct perf_spec *ret_spec)
{
	if (counter < 0)
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].counter == counter) {
			set_generic(&names[i], ret_spec);
			(void)snprintf(ret_spec->name, sizeof(ret_spec->name), "%s", names[i].name);
			return true;
		}
	return false;
}

void perf_spec_each_name(void (*each)(void *arg, uint32_t type, const char *name), void *arg)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		each(arg, names[i].type, names[i].name);
	for (size_t c = 0; c < ARRAY_SIZE(caches); c++)
		for (size_t o = 0; o < ARRAY_SIZE(ops); o++) {
			char text[64];

			(void)snprintf(text, sizeof(text), "%s-%s", caches[c].word, ops[o].word);
			each(arg, PERF_TYPE_HW_CACHE, text);
		}
}

static void offer_name(void *nearest, uint32_t type, const char *name)
{
	(void)type;
	nearest_offer(nearest, name);
}

/* ---- tracepoints ----
 *
 * The number of a tracepoint is in events/GROUP/NAME/id of tracefs; available_events lists all as
 * "GROUP:NAME" lines.  Tracefs is mounted with mode 0700 by default: an ordinary user gets an error
 * about the mode, not "unknown tracepoint". */

enum { LIST_MAX = 8 << 20 }; /* available_events: 60-200 KB on common kernels */

static const char *const mounts[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};

/* The first tracefs that can be looked into.  -EACCES, -ENOENT (not mounted). */
static int find_tracefs(struct spec_parser *parser, char *ret_path, size_t size)
{
	int r = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(mounts); i++) {
		char path[SPEC_PATH_MAX], events[SPEC_PATH_MAX + 16];

		(void)snprintf(path, sizeof(path), "%s%s", parser->root, mounts[i]);
		(void)snprintf(events, sizeof(events), "%s/events", path);
		if (access(events, R_OK | X_OK) == 0) {
			(void)snprintf(ret_path, size, "%s", path);
			return 0;
		}
		if (errno == EACCES || errno == EPERM)
			r = -EACCES;
	}
	return r; /* not yet a failure: the caller reports it */
}

static void spec_trace_offer(struct spec_parser *parser, struct nearest *nearest)
{
	_cleanup_(freep) char *list = NULL;
	char tracefs[SPEC_PATH_MAX], path[SPEC_PATH_MAX + 32];
	char *save = NULL;

	if (find_tracefs(parser, tracefs, sizeof(tracefs)) < 0)
		return;
	(void)snprintf(path, sizeof(path), "%s/available_events", tracefs);
	if (read_file(path, LIST_MAX, &list, NULL) < 0)
		return;
	for (char *name = strtok_r(list, " \t\n", &save); name;
	     name = strtok_r(NULL, " \t\n", &save))
		nearest_offer(nearest, name);
}

static int read_id(const char *path, uint64_t *ret_id)
{
	_cleanup_(freep) char *text = NULL;
	int r;

	r = read_file(path, 64, &text, NULL);
	if (r < 0)
		return r;
	text[strcspn(text, "\n")] = 0;
	return parse_u64(text, 10, UINT32_MAX, ret_id);
}

static int tracefs_error(struct spec_parser *parser, int r, enum gate_row row, const char *group,
			 const char *name)
{
	struct gate_text text;

	text = gate_text(row, 0, 0);
	return spec_error(parser, r, "tracepoint %s:%s: %s; hint: %s", group, name, text.cause,
			  text.hint);
}

/* Offers "group:name" of all tracepoints that can be listed. */
static int spec_trace_parse(struct spec_parser *parser, const char *group, const char *name,
			    struct perf_spec *spec)
{
	char tracefs[SPEC_PATH_MAX], path[2 * SPEC_PATH_MAX], wanted[512];
	uint64_t id;
	int r;

	if (!spec_is_component(group) || !spec_is_component(name) ||
	    strlen(group) + strlen(name) + 2 > sizeof(spec->tracepoint))
		return spec_error(parser, -EINVAL, "'%s' is not GROUP:NAME of a tracepoint",
				  spec->name);
	r = find_tracefs(parser, tracefs, sizeof(tracefs));
	if (r == -EACCES)
		return tracefs_error(parser, r, GATE_TRACEFS, group, name);
	if (r < 0)
		return tracefs_error(parser, r, GATE_TRACEFS_MOUNT, group, name);
	(void)snprintf(path, sizeof(path), "%s/events/%s/%s/id", tracefs, group, name);
	r = read_id(path, &id);
	if (r == -EACCES)
		return tracefs_error(parser, r, GATE_TRACEFS, group, name);
	if (is_shortage(r))
		return spec_error(parser, r, "tracepoint %s:%s: %s", group, name, strerror(-r));
	if (r < 0 || id == 0) {
		struct nearest nearest = {.wanted = wanted};

		(void)snprintf(wanted, sizeof(wanted), "%s:%s", group, name);
		spec_trace_offer(parser, &nearest);
		return spec_error_nearest(parser, -ENOENT, &nearest, "unknown tracepoint '%s'",
					  wanted);
	}
	spec->type = PERF_TYPE_TRACEPOINT;
	spec->config = id;
	(void)snprintf(spec->tracepoint, sizeof(spec->tracepoint), "%s:%s", group, name);
	return 0;
}

/* ---- PMU/TERMS/ ----
 *
 * /sys/bus/event_source/devices/PMU/ holds: type (a number), format/TERM ("config1:0-7,32": which
 * bits take a value, the lowest first), events/EVENT ("event=0x3c,umask=1": terms).
 * Documentation/ABI/testing/sysfs-bus-event_source-devices-{events,format}. */

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

/* Offers the names of all PMUs. */
static void spec_pmu_offer(struct spec_parser *parser, struct nearest *nearest)
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

/* The type number of a PMU in /sys/bus/event_source/devices.  -ENOENT without a line. */
static int spec_pmu_type(struct spec_parser *parser, const char *pmu, uint32_t *ret_type)
{
	_cleanup_(freep) char *text = NULL;
	uint64_t type;

	if (read_line(parser, pmu, "type", NULL, &text) < 0 ||
	    parse_u64(text, 10, UINT32_MAX, &type) < 0)
		return -ENOENT; /* the callers write the message */
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

/* Sets the bits that format/@term of @pmu names.  -ENOENT without a line when there is no
 * term of this name; -EINVAL with one. */
static int spec_pmu_set(struct spec_parser *parser, const char *pmu, const char *term,
			uint64_t value, struct perf_spec *spec)
{
	_cleanup_(freep) char *format = NULL;
	uint64_t *field;
	char *ranges;
	int r;

	if (read_line(parser, pmu, "format/", term, &format) < 0)
		return -ENOENT; /* the callers write the message */
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

/* "config=1,umask=2,name=x" or "EVENT" for @pmu. */
static int spec_pmu_parse(struct spec_parser *parser, const char *pmu, const char *terms,
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

/* ---- kprobes and uprobes ----
 *
 * The kernel has PMUs of these names (since 4.17).  config1 points to a text: the function's name,
 * or the file's path; config2 is the offset; bit "retprobe" of config selects the return.  See
 * perf_event_open(2), "dynamic PMU". */

enum { SPEC_NOT_A_PROBE = 1 };
#define USDT "usdt:"

static const struct kind {
	const char *prefix, *pmu;
	bool user, ret;
} kinds[] = {
	{"kprobe:", "kprobe", false, false}, {"kretprobe:", "kprobe", false, true},
	{"uprobe:", "uprobe", true, false},  {"uretprobe:", "uprobe", true, true},
	{USDT, "uprobe", true, false},
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
			"uprobe: %s is not an ELF file with symbols: give the offset in the file",
			what);
	if (r < 0)
		return spec_error(parser, r, "uprobe: %s: %s", what, strerror(-r));
	return 0;
}

struct usdt_search {
	const char *provider, *name;
	struct nearest *nearest;
	struct usdt_probe found;
};

static int compare_usdt(void *arg, const struct usdt_probe *probe)
{
	struct usdt_search *search = arg;

	if (!strcmp(probe->provider, search->provider) && !strcmp(probe->name, search->name)) {
		search->found = *probe;
		return 1;
	}
	nearest_offer(search->nearest, probe->name);
	return 0;
}

/* "PATH:PROVIDER:NAME".  A probe that was inlined has several places: the first. */
static int parse_usdt(struct spec_parser *parser, char *what, struct perf_spec *spec)
{
	char *name = strrchr(what, ':'), *provider = NULL;
	struct nearest nearest = {0};
	struct usdt_search search = {.nearest = &nearest};
	int r;

	if (name) {
		*name++ = 0;
		provider = strrchr(what, ':');
	}
	if (!provider || provider == what || !provider[1] || !*name)
		return spec_error(parser, -EINVAL,
				  "'%s': no file with this probe; usdt:PATH:PROVIDER:NAME names it",
				  spec->name);
	*provider++ = 0;
	search.provider = provider;
	nearest.wanted = search.name = name;
	spec->probe_path = realpath(what, NULL);
	r = spec->probe_path ? spec_usdt_each(spec->probe_path, compare_usdt, &search) : -errno;
	if (r == 0)
		return spec_error_nearest(parser, -ENOENT, &nearest, "usdt: %s has no probe %s:%s",
					  what, provider, name);
	if (r < 0)
		return spec_error(parser, r, "usdt: %s: %s", what,
				  r == -ENOEXEC ? "no ELF file" : strerror(-r));
	spec->config2 = search.found.offset;
	(void)snprintf(spec->usdt, sizeof(spec->usdt), "%s:%s", provider, name);
	return search.found.semaphore ? spec_pmu_set(parser, "uprobe", "ref_ctr_offset",
						     search.found.semaphore, spec)
				      : 0;
}

static int spec_probe_parse(struct spec_parser *parser, const char *item, struct perf_spec *spec)
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
	modifiers = strcmp(kind->prefix, USDT) ? cut_modifiers(what, kind->user) : NULL;
	r = !strcmp(kind->prefix, USDT) ? parse_usdt(parser, what, spec)
	    : kind->user		? parse_user(parser, what, spec)
					: parse_kernel(parser, what, spec);
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

/* ---- items ---- */

static int unknown_event(struct spec_parser *parser, const char *item)
{
	struct nearest nearest = {.wanted = item};

	perf_spec_each_name(offer_name, &nearest);
	spec_trace_offer(parser, &nearest);
	return spec_error_nearest(parser, -ENOENT, &nearest,
				  nearest.n ? "unknown event '%s'"
					    : "unknown event '%s' (`perfwind list` has the events)",
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
	_cleanup_(perf_spec_deinit) struct perf_spec spec = {.code = FRAMES_ALL, .counter = -1};
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

	if (strncmp(text, "uprobe:", 7) == 0 || strncmp(text, "uretprobe:", 10) == 0 ||
	    strncmp(text, USDT, strlen(USDT)) == 0)
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
	struct spec_parser parser = parser_of(env, error, error_size);
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
	if (r == -ENOMEM)
		return spec_error(&parser, r, "%s", strerror(ENOMEM));
	return trace(r);
}

int perf_spec_of_counter(int32_t counter, struct perf_spec *ret_spec)
{
	struct perf_spec spec = {.code = FRAMES_ALL, .counter = -1};

	if (!spec_names_find_counter(counter, &spec))
		return fail(-EINVAL);
	*ret_spec = spec;
	return 0;
}

int perf_spec_cycles(void)
{
	return perf_event_try(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
}

const char *perf_spec_default(const char **ret_note)
{
	int cycles = perf_spec_cycles();

	/* Refused is not missing: the open reports that. */
	*ret_note = cycles == 0 || cycles == -EPERM || cycles == -EACCES || cycles == -ENOSYS
			    ? NULL
			    : GATE_CYCLES_CAUSE ": sampling by cpu-clock, a timer";
	return cycles == 0 ? "cycles:ppp" : "cpu-clock";
}

/* ---- events by the fields of a config (PerfEvents) ---- */

int perf_spec_of_tracepoint(const struct perf_spec_env *env, const char *name,
			    struct perf_spec *ret_spec, char *error, size_t error_size)
{
	struct spec_parser parser = parser_of(env, error, error_size);
	struct perf_spec spec = {.code = FRAMES_ALL, .counter = -1};
	/* a slash counts before a colon: a name may hold the other */
	const char *cut = strchr(name, '/') ? strchr(name, '/') : strchr(name, ':');
	char group[sizeof(spec.tracepoint)];
	int r;

	if (!cut || cut == name || !cut[1])
		return spec_error(&parser, -EINVAL,
				  "'%.128s' is not GROUP:NAME or GROUP/NAME of a tracepoint", name);
	if (strlen(name) >= sizeof(spec.tracepoint))
		return spec_error(&parser, -EINVAL, "'%.32s...' is too long for a tracepoint",
				  name);
	(void)snprintf(group, sizeof(group), "%.*s", (int)(cut - name), name);
	(void)snprintf(spec.name, sizeof(spec.name), "%s", name);
	r = spec_trace_parse(&parser, group, cut + 1, &spec);
	if (r < 0)
		return trace(r);
	(void)snprintf(spec.name, sizeof(spec.name), "%s", spec.tracepoint);
	(void)snprintf(spec.tracepoint, sizeof(spec.tracepoint), "%s", name);
	*ret_spec = spec;
	return 0;
}

int perf_spec_pmu_type(const struct perf_spec_env *env, const char *pmu, uint32_t *ret_type,
		       char *error, size_t error_size)
{
	struct spec_parser parser = parser_of(env, error, error_size);
	struct nearest nearest = {.wanted = pmu};

	if (spec_pmu_type(&parser, pmu, ret_type) == 0)
		return 0;
	spec_pmu_offer(&parser, &nearest);
	return spec_error_nearest(&parser, -ENOENT, &nearest, "this machine has no PMU '%.128s'",
				  pmu);
}
