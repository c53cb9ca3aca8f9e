/* spec-list.c - see spec-list.h. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "perf/spec-list.h"

/* "ppu,page-faults" -> ":u,page-faults": a timer has no precision. */
static void add_modifiers(const char *modifiers, char *to, size_t size)
{
	size_t len = strlen(to), n = 0;

	for (; *modifiers && *modifiers != ','; modifiers++)
		if (*modifiers != 'p' && *modifiers != 'P' && len + 2 < size) {
			if (!n++)
				to[len++] = ':';
			to[len++] = *modifiers;
		}
	(void)snprintf(to + len, size - len, "%s", modifiers);
}

const char *perf_spec_or_default(const char *event, char to[SPEC_EVENT_MAX], const char **ret_note)
{
	size_t len = event ? strcspn(event, ":,") : 0;
	const char *instead;

	*ret_note = NULL;
	if (event && !(len == 6 && !strncmp(event, "cycles", len)) &&
	    !(len == 10 && !strncmp(event, "cpu-cycles", len)))
		return event;
	instead = perf_spec_default(ret_note);
	if (!event)
		return instead;
	if (!*ret_note)
		return event;
	(void)snprintf(to, SPEC_EVENT_MAX, "%s", instead);
	add_modifiers(event[len] == ':' ? event + len + 1 : event + len, to, SPEC_EVENT_MAX);
	return to;
}

struct software_name {
	const char *text;
	size_t len;
	bool found;
};

static void compare_name(void *arg, uint32_t type, const char *name)
{
	static const char *const others[] = {"cpu-clock", "task-clock", "dummy", "bpf-output"};
	struct software_name *wanted = arg;

	if (type != PERF_TYPE_SOFTWARE || strlen(name) != wanted->len ||
	    strncmp(name, wanted->text, wanted->len) != 0)
		return;
	wanted->found = true;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (!strcmp(name, others[i]))
			wanted->found = false;
}

/* page-faults, context-switches ... */
static bool counts_in_software(const char *event)
{
	struct software_name wanted = {.text = event, .len = strcspn(event, ":,")};

	perf_spec_each_name(compare_name, &wanted);
	return wanted.found;
}

bool perf_spec_is_point(const char *event)
{
	static const char *const probes[] = {
		"kprobe:", "kretprobe:", "uprobe:", "uretprobe:", "usdt:"};
	size_t len = strcspn(event, ","), colon = strcspn(event, ":,"),
	       slash = strcspn(event, "/,");
	char rest[SPEC_EVENT_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(probes); i++)
		if (!strncmp(event, probes[i], strlen(probes[i])))
			return true;
	if (counts_in_software(event))
		return true;
	if (slash < len) /* GROUP/NAME; PMU/EVENT/ and PMU/a=1,b=2/ have another sign */
		return slash + 1 + strcspn(event + slash + 1, "/=,") >= len;
	if (colon == len)
		return false;
	(void)snprintf(rest, sizeof(rest), "%.*s", (int)(len - colon - 1), event + colon + 1);
	return *rest && rest[strspn(rest, "ukhpP")];
}

/* ---- lists ---- */

enum { LIST_MAX = 8 << 20, FORMAT_MAX = 64 << 10, PATH_MAX_HERE = 4096 };

struct lister {
	const char *root;
	void (*each)(void *arg, enum perf_kind kind, const char *name);
	void *arg;
};

static void list_name(void *arg, uint32_t type, const char *name)
{
	const struct lister *l = arg;

	l->each(l->arg,
		type == PERF_TYPE_HARDWARE   ? PERF_KIND_HARDWARE
		: type == PERF_TYPE_SOFTWARE ? PERF_KIND_SOFTWARE
					     : PERF_KIND_CACHE,
		name);
}

/* The names of a folder, sorted, but for hidden ones.  Returns how many, or 0; free with free_names(). */
static int not_hidden(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* sysfs-bus-event_source-devices-events: NAME.scale and NAME.unit describe NAME. */
static int is_event(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');

	return not_hidden(entry) && (!dot || (strcmp(dot, ".scale") && strcmp(dot, ".unit") &&
					      strcmp(dot, ".snapshot") && strcmp(dot, ".per-pkg")));
}

/* A folder that is not there has no names. */
static int list_pmu(const struct lister *l, const char *pmu)
{
	char path[PATH_MAX_HERE], name[600];
	struct dirent **events;
	int n;

	(void)snprintf(path, sizeof(path), "%s/sys/bus/event_source/devices/%s/events", l->root,
		       pmu);
	n = scandir(path, &events, is_event, alphasort);
	if (n < 0)
		return is_shortage(-errno) ? fail(-errno) : 0;
	for (int i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "%s/%s/", pmu, events[i]->d_name);
		l->each(l->arg, PERF_KIND_PMU, name);
		free(events[i]);
	}
	free(events);
	return 0;
}

static int list_pmus(const struct lister *l)
{
	char path[PATH_MAX_HERE];
	struct dirent **pmus;
	int n, r = 0;

	(void)snprintf(path, sizeof(path), "%s/sys/bus/event_source/devices", l->root);
	n = scandir(path, &pmus, not_hidden, alphasort);
	if (n < 0)
		return is_shortage(-errno) ? fail(-errno) : 0;
	for (int i = 0; i < n; i++) {
		if (r >= 0)
			r = list_pmu(l, pmus[i]->d_name);
		free(pmus[i]);
	}
	free(pmus);
	return r < 0 ? trace(r) : 0;
}

/* A file of tracefs, wherever that is mounted. */
static int read_tracefs(const char *root, const char *name, size_t max, char **ret_text)
{
	static const char *const mounts[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
	int r = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(mounts); i++) {
		char path[PATH_MAX_HERE];
		int e;

		(void)snprintf(path, sizeof(path), "%s%s/%s", root, mounts[i], name);
		e = read_file(path, max, ret_text, NULL);
		if (e >= 0)
			return 0;
		if (is_shortage(e))
			return trace(e);
		if (e == -EACCES || e == -EPERM)
			r = -EACCES;
	}
	return r;
}

int perf_spec_list(const struct perf_spec_env *env,
		   void (*each)(void *arg, enum perf_kind kind, const char *name), void *arg)
{
	struct lister l = {env->root, each, arg};
	_cleanup_(freep) char *list = NULL;
	char *save = NULL;
	int r;

	perf_spec_each_name(list_name, &l);
	r = list_pmus(&l);
	if (r < 0)
		return trace(r);
	r = read_tracefs(l.root, "available_events", LIST_MAX, &list);
	if (r < 0)
		return r;
	for (char *name = strtok_r(list, " \t\n", &save); name;
	     name = strtok_r(NULL, " \t\n", &save))
		each(arg, PERF_KIND_TRACEPOINT, name);
	return 0;
}

/* Keeps "field:TYPE NAME" of "\tfield:TYPE NAME;\toffset:8;\tsize:4;\tsigned:1;" (Documentation/trace/events.rst).
 * In place. */
static void cut_fields(char *text)
{
	char *to = text, *next;

	for (char *line = text; line && *line; line = next) {
		char *at = line + strspn(line, "\t ");
		size_t len = strcspn(at, ";\n");

		next = strchr(line, '\n');
		next = next ? next + 1 : NULL;
		if (strncmp(at, "field:", 6) != 0)
			continue;
		memmove(to, at, len);
		to += len;
		*to++ = '\n';
	}
	*to = 0;
}

static int read_format(const struct perf_spec_env *env, const char *tracepoint, char **ret_text)
{
	const char *colon = strchr(tracepoint, ':');
	char name[512];

	if (!colon || strchr(tracepoint, '/') || strstr(tracepoint, "..") ||
	    strlen(tracepoint) > 256)
		return -ENOENT;
	(void)snprintf(name, sizeof(name), "events/%.*s/%s/format", (int)(colon - tracepoint),
		       tracepoint, colon + 1);
	return read_tracefs(env->root, name, FORMAT_MAX, ret_text);
}

int perf_spec_fields(const struct perf_spec_env *env, const char *tracepoint, char **ret_text)
{
	int r = read_format(env, tracepoint, ret_text);

	if (r == 0)
		cut_fields(*ret_text);
	return r;
}

/* The number behind @key in the line that begins at @line. */
static bool number_of(const char *line, const char *key, uint32_t *ret)
{
	const char *end = line + strcspn(line, "\n"), *at = strstr(line, key);
	char digits[16];
	uint64_t n;

	if (!at || at >= end)
		return false;
	at += strlen(key);
	(void)snprintf(digits, sizeof(digits), "%.*s", (int)strspn(at, "0123456789"), at);
	if (parse_u64(digits, 10, 1 << 20, &n) < 0)
		return false;
	*ret = (uint32_t)n;
	return true;
}

/* Does the line "field:TYPE NAME;..." define @name?  Arrays ("NAME[16]") do not. */
static bool defines(const char *line, const char *name)
{
	size_t declared = strcspn(line, ";\n"), len = strlen(name);

	return declared > len && !strncmp(line + declared - len, name, len) &&
	       line[declared - len - 1] == ' ';
}

int perf_spec_field(const struct perf_spec_env *env, const char *tracepoint, const char *name,
		    uint32_t *ret_offset, uint32_t *ret_size)
{
	_cleanup_(freep) char *text = NULL;
	uint32_t offset, size;
	int r = read_format(env, tracepoint, &text);

	if (r < 0)
		return r;
	for (const char *at = text; *name && (at = strstr(at, "field:")); at++) {
		if (!defines(at, name))
			continue;
		if (!number_of(at, "offset:", &offset) || !number_of(at, "size:", &size) ||
		    (size != 1 && size != 2 && size != 4 && size != 8) ||
		    !strncmp(at, "field:__data_loc", 16))
			return -EINVAL;
		*ret_offset = offset;
		*ret_size = size;
		return 0;
	}
	return -ENOENT;
}
