/* debug-package.c - see debug-package.h.
 *
 * /var/lib/dpkg/info/NAME.list, or NAME:ARCH.list, has the paths of the files of a package, one a line.  Debian
 * builds NAME-dbgsym of each package (https://wiki.debian.org/DebugPackage); of these the main archive has one instead
 * (Debian 12): glibc's is libc6-dbg, pythonX.Y-dbg and openjdk-N-dbg are those of all packages of CPython X.Y and OpenJDK N.
 * Each states the build ids of its files in apt's lists, openjdk-N-dbg excepted (apt-list.h).
 * (libstdc++6-12-dbg has no debug files of libstdc++6: it is another build.)  A path has one name in /lib and one in /usr/lib
 * where these are the same folder. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "cli/apt-list.h"
#include "cli/debug-package.h"

enum { LISTS_MAX = 1 << 16, LIST_BYTES_MAX = 32 << 20 };

/* The installed package of a file. */
struct owner {
	char name[DEBUG_PACKAGE_NAME], version[DEBUG_PACKAGE_NAME];
};

static const char info[] = "/var/lib/dpkg/info", list_end[] = ".list";

/* A path without the /usr that it may have in a list. */
static const char *behind_usr(const char *path)
{
	return strncmp(path, "/usr/", 5) == 0 ? path + 4 : path;
}

static bool has_line(const char *text, size_t len, const char *path)
{
	size_t n = strlen(path);
	const char *end = text + len, *at = text;

	while ((at = memmem(at, (size_t)(end - at), path, n))) {
		const char *line = at;

		if (at - text >= 4 && !memcmp(at - 4, "/usr", 4))
			line = at - 4;
		if ((line == text || line[-1] == '\n') && (at + n == end || at[n] == '\n'))
			return true;
		at += n;
	}
	return false;
}

/* The length of "python3.11" in "python3.11-minimal" and "libpython3.11-stdlib", of "openjdk-17" in "openjdk-17-jre-headless".
 * 0: another package; *ret_at: where it begins. */
static size_t family_of(const char *list, const char **ret_at)
{
	static const char *const families[] = {"python3.", "openjdk-"};

	*ret_at = list + (strncmp(list, "lib", 3) ? 0 : 3);
	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		size_t len = strlen(families[i]), n;

		if (strncmp(*ret_at, families[i], len) != 0)
			continue;
		n = strspn(*ret_at + len, "0123456789");
		return n && strchr("-:.", (*ret_at)[len + n]) ? len + n : 0;
	}
	return 0;
}

/* "libssl3:amd64.list" -> "libssl3-dbgsym". */
static void name_of(const char *list, char to[DEBUG_PACKAGE_NAME])
{
	size_t len = strcspn(list, ":"), n;
	const char *family;

	n = family_of(list, &family);
	if (n && n + sizeof("-dbg") <= DEBUG_PACKAGE_NAME) {
		(void)snprintf(to, DEBUG_PACKAGE_NAME, "%.*s-dbg", (int)n, family);
		return;
	}
	len = min_u64(len, strlen(list) - (strchr(list, ':') ? 0 : strlen(list_end)));
	if (len + sizeof("-dbgsym") > DEBUG_PACKAGE_NAME)
		return;
	(void)snprintf(to, DEBUG_PACKAGE_NAME, "%.*s%s", (int)len, list,
		       len == 5 && !strncmp(list, "libc6", 5) ? "-dbg" : "-dbgsym");
}

static void look(const char *root, const char *list, const char *const *paths, size_t n,
		 struct owner *owners, struct debug_package *ret)
{
	_cleanup_(freep) char *text = NULL;
	char path[PATH_MAX];
	size_t len = 0, name = strcspn(list, ":");
	int m = snprintf(path, sizeof(path), "%s%s/%s", root, info, list);

	if (m < 0 || (size_t)m >= sizeof(path) || read_file(path, LIST_BYTES_MAX, &text, &len) < 0)
		return;
	name = min_u64(name, strlen(list) - strlen(list_end));
	for (size_t i = 0; i < n; i++) {
		if (paths[i][0] != '/' || ret[i].name[0] ||
		    !has_line(text, len, behind_usr(paths[i])))
			continue;
		name_of(list, ret[i].name);
		(void)snprintf(owners[i].name, sizeof(owners[i].name), "%.*s", (int)name, list);
	}
}

static void find_owners(const char *root, const char *const *paths, size_t n, struct owner *owners,
			struct debug_package *ret)
{
	char path[PATH_MAX];
	const struct dirent *entry;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "%s%s", root, info);
	dir = opendir(path);
	for (size_t i = 0; dir && i < LISTS_MAX && (entry = readdir(dir)); i++) {
		size_t len = strlen(entry->d_name), end = strlen(list_end);

		if (len > end && !strcmp(entry->d_name + len - end, list_end))
			look(root, entry->d_name, paths, n, owners, ret);
	}
	if (dir)
		(void)closedir(dir);
}

/* The versions that are installed, of /var/lib/dpkg/status: paragraphs with Package before Version. */
static void find_versions(const char *root, struct owner *owners, size_t n)
{
	_cleanup_(freep) char *text = NULL;
	char path[PATH_MAX], line[DEBUG_PACKAGE_NAME + 16];

	(void)snprintf(path, sizeof(path), "%s/var/lib/dpkg/status", root);
	if (read_file(path, LIST_BYTES_MAX, &text, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		const char *at = text, *end, *version;

		if (!owners[i].name[0])
			continue;
		(void)snprintf(line, sizeof(line), "Package: %.*s\n", DEBUG_PACKAGE_NAME - 1,
			       owners[i].name);
		while ((at = strstr(at, line)) && at != text && at[-1] != '\n')
			at++;
		end = at ? strstr(at, "\n\n") : NULL;
		version = at ? strstr(at, "\nVersion: ") : NULL;
		if (!version || (end && version > end))
			continue;
		version += strlen("\nVersion: ");
		(void)snprintf(owners[i].version, sizeof(owners[i].version), "%.*s",
			       (int)strcspn(version, "\n"), version);
	}
}

static bool archive_is_known(const char *root);

/* By apt's answer. */
static void decide(const char *root, const struct apt_question *q, struct debug_package *to)
{
	if (*q->found) {
		(void)snprintf(to->name, sizeof(to->name), "%s", q->found);
		return;
	}
	if (strstr(to->name, "-dbgsym")) {
		if (q->owner_dbg) /* made by hand, in the place of the other */
			to->name[strlen(to->name) - strlen("sym")] = 0;
		else if (!q->owner_known || archive_is_known(root))
			to->name[0] = 0;
		return;
	}
	to->upgrade = q->has_package && !q->same_version;
	if (!q->has_package)
		to->name[0] = 0;
}

void debug_packages(const char *root, const char *const *paths, const char *const *build_ids,
		    size_t n, struct debug_package *ret)
{
	struct owner owners[DEBUG_PACKAGES_MAX] = {0};
	struct apt_question asked[DEBUG_PACKAGES_MAX] = {0};
	bool any = false;

	n = min_u64(n, DEBUG_PACKAGES_MAX);
	for (size_t i = 0; i < n; i++)
		ret[i] = (struct debug_package){.upgrade = false};
	find_owners(root, paths, n, owners, ret);
	find_versions(root, owners, n);
	for (size_t i = 0; i < n; i++) {
		asked[i] = (struct apt_question){.build_id = build_ids[i],
						 .package = ret[i].name,
						 .owner = owners[i].name,
						 .version = owners[i].version};
		any |= *asked[i].build_id || ret[i].name[0];
	}
	if (!any || !apt_lists_ask(root, asked, n))
		return;
	for (size_t i = 0; i < n; i++)
		decide(root, &asked[i], &ret[i]);
}

/* apt names a list by its address: HOST_debian-debug_dists_SUITE_main_binary-amd64_Packages. */
static bool archive_is_known(const char *root)
{
	const struct dirent *entry;
	bool known = false;
	char path[PATH_MAX];
	DIR *dir;

	(void)snprintf(path, sizeof(path), "%s/var/lib/apt/lists", root);
	dir = opendir(path);
	for (size_t i = 0; dir && i < LISTS_MAX && (entry = readdir(dir)); i++)
		known |= strstr(entry->d_name, "debian-debug") || strstr(entry->d_name, "ddebs");
	if (dir)
		(void)closedir(dir);
	return known;
}

void debug_package_command(const char *root, const struct debug_package *package, char *to,
			   size_t size)
{
	bool lacks = strstr(package->name, "-dbgsym") && !archive_is_known(root);

	(void)snprintf(to, size, "%sapt install %s%s",
		       lacks ? "add the archive debian-debug to apt's sources, then " : "",
		       package->name,
		       package->upgrade ? ", of another version: upgrade and record again" : "");
}
