/* settings.c - see settings.h: one table has all settings. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/nearest.h"
#include "daemon/policy/settings.h"

enum { MAX_LINE = 512, MAX_FILE = 64 << 10 };

const struct settings settings_default = {
	.waiting_size = 4 << 20,
	.max_sources = 256,
	.all_groups = "perfwind",
	.own_processes = true,
	.max_recordings = 32,
	.user_recordings = 4,
	.user_rate = 20000,
	.user_memory = 256 << 20,
	.user_processes = 1024,
	.user_descriptors = 65536,
	.traced_service_users = "traced",
	.traced_rate = 20000,
	.traced_stack_bytes = 640 << 20,
	.recorder_rate = 49,
	.system_call_filter = true,
};

static const struct setting {
	const char *key;
	size_t offset;
	uint64_t min, max; /* bytes: 0 is valid, too */
	bool bytes;	   /* whole pages, K and M behind the number */
	bool power;	   /* of two */
	bool flag, list;   /* yes or no; a text */
	bool traced;	   /* settings.traced_set */
} table[] = {
	{"shmem-size", offsetof(struct settings, shmem_size), .min = 4096, .max = 32 << 20,
	 .bytes = true},
	{"shmem-page", offsetof(struct settings, shmem_page), .min = 4096, .max = 32 << 10,
	 .bytes = true, .power = true},
	{"waiting-size", offsetof(struct settings, waiting_size), .min = 4096, .max = 256 << 20,
	 .bytes = true},
	{"max-sources", offsetof(struct settings, max_sources), .min = 1, .max = 4096},
	{"all-users", offsetof(struct settings, all_users), .list = true},
	{"all-groups", offsetof(struct settings, all_groups), .list = true},
	{"own-processes", offsetof(struct settings, own_processes), .flag = true},
	{"confined-requesters", offsetof(struct settings, confined_requesters), .flag = true},
	{"max-recordings", offsetof(struct settings, max_recordings), .min = 0, .max = 1024},
	{"user-recordings", offsetof(struct settings, user_recordings), .min = 1, .max = 1024},
	{"user-rate", offsetof(struct settings, user_rate), .min = 1, .max = 10000000},
	{"user-memory", offsetof(struct settings, user_memory), .min = 1 << 20, .max = 1 << 30,
	 .bytes = true},
	{"user-processes", offsetof(struct settings, user_processes), .min = 1, .max = 1 << 20},
	{"user-descriptors", offsetof(struct settings, user_descriptors), .min = 1, .max = 1 << 20},
	{"user-max-cpu", offsetof(struct settings, user_max_cpu), .min = 0, .max = 10000},
	{"recording-max-cpu", offsetof(struct settings, recording_max_cpu), .min = 0, .max = 10000},
	{"traced-users", offsetof(struct settings, traced_users), .list = true, .traced = true},
	{"traced-groups", offsetof(struct settings, traced_groups), .list = true, .traced = true},
	{"traced-kernel", offsetof(struct settings, traced_kernel), .flag = true, .traced = true},
	{"traced-service-users", offsetof(struct settings, traced_service_users), .list = true},
	{"traced-rate", offsetof(struct settings, traced_rate), .min = 1, .max = 10000000},
	{"traced-stack-bytes", offsetof(struct settings, traced_stack_bytes), .min = 1 << 20,
	 .max = (uint64_t)UINT32_MAX & ~4095ull, .bytes = true},
	{"recorder-size", offsetof(struct settings, recorder_size), .min = 1 << 20, .max = 1 << 30,
	 .bytes = true},
	{"recorder-rate", offsetof(struct settings, recorder_rate), .min = 1, .max = 10000},
	{"recorder-collect", offsetof(struct settings, recorder_collect), .list = true},
	{"recorder-cgroups", offsetof(struct settings, recorder_cgroups), .list = true},
	{"direct", offsetof(struct settings, direct), .flag = true},
	{"system-call-filter", offsetof(struct settings, system_call_filter), .flag = true},
	{"consent-under-seccomp", offsetof(struct settings, consent_under_seccomp), .flag = true},
};

/* _ is the same as -, like in systemd. */
static bool same_key(const char *a, const char *b)
{
	for (; *a && *b; a++, b++) {
		if ((*a == '_' ? '-' : *a) != *b)
			return false;
	}
	return *a == *b;
}

static int parse_number(const struct setting *setting, const char *value, uint64_t *ret)
{
	size_t len = strlen(value);
	char digits[32];
	uint64_t unit = 1;

	if (setting->bytes && len && strchr("KkMm", value[len - 1]))
		unit = strchr("Kk", value[--len]) ? 1 << 10 : 1 << 20;
	if (!len || len >= sizeof(digits))
		return -EINVAL;
	memcpy(digits, value, len);
	digits[len] = 0;
	if (parse_u64(digits, 10, UINT32_MAX, ret) < 0)
		return -EINVAL;
	*ret *= unit;
	return 0;
}

static int set_words(const struct setting *s, struct settings *settings, const char *value,
		     char *error, size_t error_size)
{
	void *to = (char *)settings + s->offset;
	size_t len = strlen(value);

	if (s->flag && (!strcmp(value, "yes") || !strcmp(value, "no"))) {
		*(bool *)to = value[0] == 'y';
	} else if (s->list && len < sizeof(settings->all_users)) {
		memcpy(to, value, len + 1);
	} else {
		(void)snprintf(error, error_size, "%s takes %s, not '%.64s'", s->key,
			       s->flag ? "yes or no" : "names, 255 bytes in all", value);
		return fail(-EINVAL);
	}
	return 0;
}

int settings_set(struct settings *settings, const char *key, const char *value, char *error,
		 size_t error_size)
{
	struct nearest nearest = {.wanted = key};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		const struct setting *s = &table[i];
		uint64_t n;

		if (!same_key(key, s->key))
			continue;
		settings->traced_set |= s->traced;
		if (s->flag || s->list)
			return set_words(s, settings, value, error, error_size);
		if (parse_number(s, value, &n) < 0 || n > s->max ||
		    (n < s->min && (n || !s->bytes)) || (s->bytes && n % 4096) ||
		    (s->power && n && !is_power_of_two(n))) {
			(void)snprintf(error, error_size,
				       "%s takes a %s from %lu to %lu, not '%.64s'", key,
				       s->power	  ? "power of two"
				       : s->bytes ? "multiple of 4096"
						  : "number",
				       s->min, s->max, value);
			return fail(-EINVAL);
		}
		*(uint32_t *)(void *)((char *)settings + s->offset) = (uint32_t)n;
		return 0;
	}
	(void)snprintf(error, error_size, "unknown setting '%.64s'", key);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		nearest_offer(&nearest, table[i].key);
	nearest_append(&nearest, error, error_size);
	return fail(-EINVAL);
}

/* In place: without blanks at both ends. */
static char *trimmed(char *text)
{
	size_t len;

	while (isspace((unsigned char)*text))
		text++;
	for (len = strlen(text); len && isspace((unsigned char)text[len - 1]); len--)
		;
	text[len] = 0;
	return text;
}

static int parse_line(char *line, struct settings *settings, char *error, size_t error_size)
{
	char *hash = strchr(line, '#'), *equals;

	if (hash)
		*hash = 0;
	line = trimmed(line);
	if (!*line)
		return 0;
	equals = strchr(line, '=');
	if (!equals) {
		(void)snprintf(error, error_size, "'%.64s' is not KEY = VALUE", line);
		return fail(-EINVAL);
	}
	*equals = 0;
	return settings_set(settings, trimmed(line), trimmed(equals + 1), error, error_size);
}

int settings_check(const struct settings *s, char *error, size_t error_size)
{
	if (!s->shmem_size || s->shmem_size % max_u64(s->shmem_page, 1) == 0)
		return 0;
	(void)snprintf(error, error_size, "shmem-size must be a multiple of shmem-page");
	return fail(-EINVAL);
}

int settings_parse(const char *name, const char *text, struct settings *settings, char *error,
		   size_t error_size)
{
	struct settings s = *settings;

	for (unsigned n = 1; *text; n++) {
		size_t len = strcspn(text, "\n");
		char line[MAX_LINE], why[256] = "the line is too long";
		int r = -EINVAL;

		if (len < sizeof(line)) {
			memcpy(line, text, len);
			line[len] = 0;
			r = parse_line(line, &s, why, sizeof(why));
		}
		if (r < 0) {
			(void)snprintf(error, error_size, "%s:%u: %s", name, n, why);
			return trace(r);
		}
		text += len + (text[len] == '\n');
	}
	*settings = s;
	return 0;
}

int settings_read(const char *path, struct settings *settings, char *error, size_t error_size)
{
	const char *from = path ? path : SETTINGS_FILE;
	_cleanup_(freep) char *text = NULL;
	size_t len;
	int r = read_file(from, MAX_FILE, &text, &len);

	if (r == -ENOENT && !path)
		return 0;
	if (r >= 0)
		return settings_parse(from, text, settings, error, error_size);
	(void)snprintf(error, error_size, "%s: %s", from, strerror(-r));
	return trace(r);
}
