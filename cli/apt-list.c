/* apt-list.c - see apt-list.h.
 *
 * /var/lib/apt/lists/HOST_debian_dists_SUITE_main_binary-amd64_Packages, plain or compressed (Acquire::GzipIndexes): paragraphs of
 * fields, one a line, with an empty line behind each (deb-control(5)). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "cli/apt-list.h"

enum { LISTS_MAX = 4096 };
#define LIST_BYTES_MAX (1ull << 30)

static const char helper[] = "/usr/lib/apt/apt-helper";

struct paragraph {
	char package[APT_NAME_MAX], version[APT_NAME_MAX];
	bool has_ids;
};

struct asked {
	struct apt_question *questions;
	size_t n;
	struct paragraph now;
};

static const char *field_of(const char *line, const char *name)
{
	size_t len = strlen(name);

	return strncmp(line, name, len) ? NULL : line + len;
}

static void take_value(char to[APT_NAME_MAX], const char *value)
{
	(void)snprintf(to, APT_NAME_MAX, "%.*s", (int)strcspn(value, "\n"), value);
}

/* "Package" comes before "Build-Ids", "Version" anywhere. */
static void take_ids(struct asked *a, const char *ids)
{
	a->now.has_ids = true;
	for (size_t i = 0; i < a->n; i++) {
		struct apt_question *q = &a->questions[i];

		if (*q->build_id && strstr(ids, q->build_id)) {
			(void)snprintf(q->found, sizeof(q->found), "%s", a->now.package);
			q->found_version[0] = '?'; /* at the end of the paragraph */
		}
	}
}

static bool is_dbg_of(const char *package, const char *owner)
{
	size_t len = strlen(owner);

	return len && !strncmp(package, owner, len) && !strcmp(package + len, "-dbg");
}

static void end_paragraph(struct asked *a)
{
	const struct paragraph *p = &a->now;

	for (size_t i = 0; i < a->n && *p->package; i++) {
		struct apt_question *q = &a->questions[i];
		bool same = *q->version && !strcmp(p->version, q->version);

		if (q->found_version[0] == '?')
			memcpy(q->found_version, p->version, sizeof(q->found_version));
		q->owner_known |= same && !strcmp(p->package, q->owner);
		q->owner_dbg |= same && !p->has_ids && is_dbg_of(p->package, q->owner);
		if (strcmp(p->package, q->package) != 0)
			continue;
		q->has_package = true;
		q->n_versions++;
		q->same_version |= same && !p->has_ids;
	}
	a->now = (struct paragraph){.has_ids = false};
}

/* false: it is empty. */
static bool read_list(struct asked *a, FILE *list)
{
	_cleanup_(freep) char *line = NULL;
	uint64_t bytes = 0;
	size_t room = 0;
	ssize_t n;

	while (bytes < LIST_BYTES_MAX && (n = getline(&line, &room, list)) > 0) {
		const char *value;

		bytes += (uint64_t)n;
		if (*line == '\n')
			end_paragraph(a);
		else if ((value = field_of(line, "Package: ")))
			take_value(a->now.package, value);
		else if ((value = field_of(line, "Version: ")))
			take_value(a->now.version, value);
		else if ((value = field_of(line, "Build-Ids: ")))
			take_ids(a, value);
	}
	end_paragraph(a);
	return bytes > 0;
}

/* A process that recorded starts no programs (rights-filter.h): each attempt would be a line in the kernel's log. */
static bool may_start(void)
{
	_cleanup_(freep) char *text = NULL;

	return read_file("/proc/self/status", 64 << 10, &text, NULL) < 0 ||
	       !strstr(text, "\nNoNewPrivs:\t1");
}

/* apt-helper knows each compression of apt. */
static bool read_compressed(struct asked *a, const char *path)
{
	bool read = false;
	int ends[2];
	FILE *list;
	pid_t pid;

	if (!may_start() || access(helper, X_OK) < 0 || pipe2(ends, O_CLOEXEC) < 0)
		return false;
	pid = fork();
	if (pid == 0) {
		(void)dup2(ends[1], STDOUT_FILENO);
		(void)close(STDERR_FILENO);
		(void)execl(helper, "apt-helper", "cat-file", path, (char *)NULL);
		_exit(1);
	}
	(void)close(ends[1]);
	list = pid > 0 ? fdopen(ends[0], "r") : NULL;
	if (list) {
		read = read_list(a, list);
		(void)fclose(list);
	} else {
		(void)close(ends[0]);
	}
	if (pid > 0) {
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
	return read;
}

/* true: it is a list, and was read. */
static bool read_one(struct asked *a, const char *root, const char *name)
{
	static const char packages[] = "_Packages";
	const char *behind = strstr(name, packages);
	char path[PATH_MAX];
	bool read;
	FILE *list;
	int n;

	behind = behind ? behind + strlen(packages) : NULL;
	n = snprintf(path, sizeof(path), "%s/var/lib/apt/lists/%s", root, name);
	if (!behind || (*behind && *behind != '.') || n < 0 || (size_t)n >= sizeof(path))
		return false;
	if (*behind)
		return !*root && read_compressed(a, path);
	list = fopen(path, "re");
	if (!list)
		return false;
	read = read_list(a, list);
	(void)fclose(list);
	return read;
}

bool apt_lists_ask(const char *root, struct apt_question *questions, size_t n)
{
	struct asked a = {.questions = questions, .n = n};
	const struct dirent *entry;
	char path[PATH_MAX];
	bool any = false;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "%s/var/lib/apt/lists", root);
	dir = opendir(path);
	for (size_t i = 0; dir && i < LISTS_MAX && (entry = readdir(dir)); i++)
		any |= read_one(&a, root, entry->d_name);
	if (dir)
		(void)closedir(dir);
	for (size_t i = 0; i < n; i++) {
		struct apt_question *q = &questions[i];
		size_t len = strlen(q->found);

		if (len && q->n_versions > 1 && !strcmp(q->found, q->package) && len < APT_NAME_MAX)
			(void)snprintf(q->found + len, sizeof(q->found) - len, "=%s",
				       q->found_version);
	}
	return any;
}
