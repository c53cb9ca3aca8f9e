/* record-usdt.c - see record-usdt.h. */
#include "cli/record-usdt.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "perf/spec-usdt.h"

enum { MAPS_MAX = 4 << 20 };

struct search {
	const char *provider, *name;
	size_t provider_len, name_len;
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
		if (has_probe(path, s))
			return true;
	}
	return false;
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
	if (!found ||
	    snprintf(to, SPEC_EVENT_MAX, "usdt:%s:%s", path, s.provider) >= SPEC_EVENT_MAX)
		return event;
	return to;
}
