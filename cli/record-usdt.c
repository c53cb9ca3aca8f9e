/* record-usdt.c - see record-usdt.h. */
#include "cli/record-usdt.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/safe-path.h"
#include "perf/spec-usdt.h"

enum { MAPS_MAX = 4 << 20 };

struct search {
	const char *provider, *name;
	size_t provider_len, name_len;
	/* The first file of a process that was not searched, and how many there are. */
	char passed[PATH_MAX];
	size_t n_passed;
};

static int is_probe(void *arg, const struct usdt_probe *probe)
{
	const struct search *s = arg;

	return strlen(probe->provider) == s->provider_len && strlen(probe->name) == s->name_len &&
	       !memcmp(probe->provider, s->provider, s->provider_len) &&
	       !memcmp(probe->name, s->name, s->name_len);
}

static bool has_probe(const char *path, struct search *s)
{
	return spec_usdt_each(path, is_probe, s) == 1;
}

static bool find_in_command(const char *command, struct search *s, char path[PATH_MAX])
{
	const char *folders = getenv("PATH");

	(void)snprintf(path, PATH_MAX, "%s", command);
	if (strchr(command, '/'))
		return has_probe(path, s);
	for (const char *at = folders; at && *at;) {
		size_t len = strcspn(at, ":");

		(void)snprintf(path, PATH_MAX, "%.*s/%s", (int)len, at, command);
		if (access(path, X_OK) == 0)
			return has_probe(path, s);
		at += len + (at[len] == ':');
	}
	return false;
}

/* A process can map files of any user, and this process, often root's, would parse them.  A comma or colon ends the path of
 * an event. */
static bool is_trusted(struct search *s, const char *file)
{
	if (safe_path(file) && !strpbrk(file, ",:"))
		return true;
	if (!s->n_passed++)
		(void)snprintf(s->passed, sizeof(s->passed), "%s", file);
	return false;
}

/* The files of which a process runs code: /proc/PID/maps. */
static bool find_in_process(uint32_t pid, struct search *s, char path[PATH_MAX])
{
	_cleanup_(freep) char *maps = NULL;
	char name[64], *save = NULL;

	(void)snprintf(name, sizeof(name), "/proc/%u/maps", pid);
	if (read_file(name, MAPS_MAX, &maps, NULL) < 0)
		return false;
	for (char *line = strtok_r(maps, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		const char *flags = strchr(line, ' '), *file = strchr(line, '/');

		if (!flags || !file || strlen(flags) < 4 || flags[3] != 'x')
			continue;
		(void)snprintf(path, PATH_MAX, "%s", file);
		if (is_trusted(s, path) && has_probe(path, s))
			return true;
	}
	return false;
}

static void report_passed(const struct search *s)
{
	char more[48] = "";

	if (s->n_passed > 1)
		(void)snprintf(more, sizeof(more), " (and %zu more)", s->n_passed - 1);
	log_info("usdt: %s%s was not searched for the probe: another user can change it, or its "
		 "path has a comma or colon; "
		 "if you trust it: -e usdt:%s:%s",
		 s->passed, more, s->passed, s->provider);
}

const char *record_usdt(const char *event, const char *command, const uint32_t *pids, size_t n_pids,
			char to[SPEC_EVENT_MAX])
{
	struct search s = {0};
	char path[PATH_MAX];
	bool found;

	if (!event || strncmp(event, "usdt:", 5) != 0)
		return event;
	s.provider = event + 5;
	s.provider_len = strcspn(s.provider, ":/,");
	if (s.provider[s.provider_len] != ':')
		return event;
	s.name = s.provider + s.provider_len + 1;
	s.name_len = strcspn(s.name, ":/,");
	if (s.name[s.name_len] && s.name[s.name_len] != ',')
		return event;
	found = command && find_in_command(command, &s, path);
	for (size_t i = 0; i < n_pids && !found; i++)
		found = find_in_process(pids[i], &s, path);
	if (!found && s.n_passed)
		report_passed(&s);
	if (!found ||
	    snprintf(to, SPEC_EVENT_MAX, "usdt:%s:%s", path, s.provider) >= SPEC_EVENT_MAX)
		return event;
	return to;
}
