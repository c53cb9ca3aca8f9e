/* episodes.c - the folder of all episodes: list, delete, keep below a bound.  See episode.h.
 *
 * episode.json is our own, yet read as a file that anyone could have written: bounded, flat, and only the keys that a list
 * shows. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "watch/episode.h"

enum { INFO_MAX = 64 << 10, EPISODES = 100000 };

/* ---- episode.json ---- */

static const char *value_of(const char *json, const char *key)
{
	char quoted[64];
	const char *at;

	(void)snprintf(quoted, sizeof(quoted), "\n\"%s\": ", key);
	at = strstr(json, quoted);
	return at ? at + strlen(quoted) : NULL;
}

/* The character of the escape that *@at is at, '?' for one that a terminal should not get; *@at becomes its last byte. */
static char unescape(const char **at)
{
	char hex[5] = "";
	uint64_t value;

	++*at;
	if (**at != 'u')
		return **at == '"' || **at == '\\' || **at == '/' ? **at : '?';
	(void)snprintf(hex, sizeof(hex), "%.4s", *at + 1);
	if (strspn(hex, "0123456789abcdefABCDEF") != 4 || parse_u64(hex, 16, 0xffff, &value) < 0)
		return '?';
	*at += 4;
	return value < ' ' || value > '~' ? '?' : (char)value;
}

static void text_of(const char *json, const char *key, char *to, size_t size)
{
	const char *at = value_of(json, key);
	size_t n = 0;

	if (at && *at++ == '"')
		for (; *at && *at != '"' && *at != '\n' && n + 1 < size; at++) {
			if (*at == '\\' && at[1])
				to[n++] = unescape(&at);
			else
				to[n++] = (unsigned char)*at < ' ' ? '?' : *at;
		}
	to[n] = 0;
}

static double number_of(const char *json, const char *key)
{
	const char *at = value_of(json, key);

	return at ? strtod(at, NULL) : 0;
}

/* Is @name one that an episode can have?  "." and hidden ones are not. */
static bool is_name(const char *name)
{
	size_t len = strlen(name);

	return len && len < EPISODE_NAME && *name != '.' && !strchr(name, '/');
}

static int open_episode(int folder, const char *name)
{
	int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? fail(-errno) : fd;
}

/* INFO_NONE: it is not an episode. */
enum { INFO_NONE = 1 };
static int read_info(int folder, const char *name, struct episode_info *info)
{
	_cleanup_(fd_closep) int episode = open_episode(folder, name);
	_cleanup_(fd_closep) int fd =
		episode < 0 ? -1
			    : openat(episode, "episode.json",
				     O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	_cleanup_(freep) char *json = NULL;
	struct stat st;
	size_t len;
	int r = episode < 0 ? episode : fd < 0 || fstat(fd, &st) < 0 ? -errno : 0;

	if (r >= 0 && !S_ISREG(st.st_mode))
		return INFO_NONE;
	if (r >= 0)
		r = read_fd(fd, INFO_MAX, &json, &len);
	if (r < 0)
		return is_shortage(r) ? trace(r) : INFO_NONE;
	*info = (struct episode_info){0};
	(void)snprintf(info->name, sizeof(info->name), "%s", name);
	text_of(json, "rule", info->rule, sizeof(info->rule));
	text_of(json, "when", info->when, sizeof(info->when));
	text_of(json, "unit", info->unit, sizeof(info->unit));
	text_of(json, "hottest", info->hottest, sizeof(info->hottest));
	text_of(json, "process", info->process, sizeof(info->process));
	info->lasting = number_of(json, "lasting");
	info->average = number_of(json, "average");
	return info->rule[0] ? 0 : INFO_NONE;
}

/* ---- files ---- */

/* Calls @each for each plain file of an open folder, which it takes. */
static int each_file(int folder, void (*each)(void *arg, int folder, const char *name), void *arg)
{
	DIR *dir = fdopendir(folder);
	const struct dirent *entry;

	if (!dir) {
		int r = -errno;

		(void)fd_close(folder);
		return fail(r);
	}
	while ((entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			each(arg, dirfd(dir), entry->d_name);
	(void)closedir(dir);
	return 0;
}

static void add_size(void *arg, int folder, const char *name)
{
	struct stat st;

	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
		*(uint64_t *)arg += (uint64_t)st.st_size;
}

static void remove_file(void *arg, int folder, const char *name)
{
	(void)arg;
	(void)unlinkat(folder, name, 0);
}

/* ---- all episodes ---- */

struct list {
	struct episode_info *list;
	size_t n, room;
	int error;
};

static void add_episode(void *arg, int folder, const char *name)
{
	struct list *l = arg;
	struct episode_info info;
	int fd, r;

	if (l->error || l->n == EPISODES || !is_name(name))
		return;
	r = read_info(folder, name, &info);
	l->error = r < 0 ? r : 0;
	if (r)
		return;
	if (l->n == l->room && !array_grow(l->list, l->room, 16)) {
		l->error = fail(-ENOMEM);
		return;
	}
	fd = open_episode(folder, name);
	r = fd < 0 ? fd : each_file(fd, add_size, &info.bytes);
	l->error = is_shortage(r) ? trace(r) : 0;
	l->list[l->n++] = info;
}

/* A name begins with its time. */
static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct episode_info *)a)->name,
		      ((const struct episode_info *)b)->name);
}

int episodes_read(const char *folder, struct episode_info **ret_list, size_t *ret_n)
{
	struct list l = {0};
	int r, fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return fail(-errno);
	r = each_file(fd, add_episode, &l);
	if (r < 0 || l.error) {
		free(l.list);
		return trace(r < 0 ? r : l.error);
	}
	if (l.n)
		qsort(l.list, l.n, sizeof(*l.list), compare_names);
	*ret_list = l.list;
	*ret_n = l.n;
	return 0;
}

int episode_delete(const char *folder, const char *name)
{
	_cleanup_(fd_closep) int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct episode_info info;
	int fd, r;

	if (dir < 0)
		return fail(-errno);
	if (!is_name(name))
		return fail(-EINVAL);
	r = read_info(dir, name, &info);
	if (r)
		return r < 0 ? trace(r) : fail(-ENOENT);
	fd = open_episode(dir, name);
	if (fd < 0)
		return trace(fd);
	r = each_file(fd, remove_file, NULL);
	if (r < 0)
		return trace(r);
	return unlinkat(dir, name, AT_REMOVEDIR) < 0 ? fail(-errno) : 0;
}

void episode_discard(const char *path)
{
	int fd = open_episode(AT_FDCWD, path);

	if (fd >= 0)
		(void)each_file(fd, remove_file, NULL);
	(void)rmdir(path);
}

int episodes_keep_small(const char *folder, uint64_t bytes)
{
	_cleanup_(freep) struct episode_info *list = NULL;
	uint64_t all = 0;
	size_t n;
	int deleted = 0, r = episodes_read(folder, &list, &n);

	if (r < 0)
		return trace(r);
	for (size_t i = 0; i < n; i++)
		all += list[i].bytes;
	for (size_t i = 0; i + 1 < n && all > bytes; i++) {
		r = episode_delete(folder, list[i].name);
		if (r < 0)
			return trace(r);
		all -= list[i].bytes;
		deleted++;
	}
	return deleted;
}
