/* spec-trace.c - tracepoints, by tracefs.  See spec-parser.h.
 * The number of a tracepoint is in events/GROUP/NAME/id; available_events lists all as "GROUP:NAME"
 * lines.  Tracefs is mounted with mode 0700 by default, so an ordinary user is told so instead of
 * "unknown". */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "perf/spec-parser.h"

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
	return r; /* an answer, not yet a failure: the caller has the words for it */
}

void spec_trace_offer(struct spec_parser *parser, struct nearest *nearest)
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

int spec_trace_parse(struct spec_parser *parser, const char *group, const char *name,
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
		return spec_error(parser, r,
				  "tracepoint %s:%s: tracefs is closed to this user: run as root",
				  group, name);
	if (r < 0)
		return spec_error(parser, r,
				  "tracepoint %s:%s: tracefs is not mounted: "
				  "sudo mount -t tracefs nodev /sys/kernel/tracing",
				  group, name);
	(void)snprintf(path, sizeof(path), "%s/events/%s/%s/id", tracefs, group, name);
	r = read_id(path, &id);
	if (r == -EACCES)
		return spec_error(parser, r,
				  "tracepoint %s:%s may not be read by this user: run as root",
				  group, name);
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
