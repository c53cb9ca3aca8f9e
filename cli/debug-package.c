/* debug-package.c - see debug-package.h.
 *
 * /var/lib/dpkg/info/NAME.list, or NAME:ARCH.list, has the paths of the files of a package, one a line.  Debian
 * builds NAME-dbgsym of each package (https://wiki.debian.org/DebugPackage); of these the main archive has one instead
 * (Debian 12): glibc's is libc6-dbg, pythonX.Y-dbg and openjdk-N-dbg are those of all packages of CPython X.Y and OpenJDK N.
 * Each states the build ids of its files in apt's lists (deb822, "Build-Ids:"), openjdk-N-dbg excepted, so the right version of the
 * right package is known before it is installed.
 * (libstdc++6-12-dbg has no debug files of libstdc++6: it is another build.)  A path has one name in /lib and one in /usr/lib
 * where these are the same folder.
 *
 * /var/lib/apt/lists/HOST_debian_dists_SUITE_main_binary-amd64_Packages, plain or compressed (Acquire::GzipIndexes): paragraphs of
 * fields, one a line, with an empty line behind each (deb-control(5)). */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util.h"
#include "cli/debug-package.h"

enum {
	LISTS_MAX = 1 << 16, /* of dpkg */
	LIST_BYTES_MAX = 32 << 20,
	APT_LISTS_MAX = 4096,
	APT_NAME_MAX = 120,
	APT_FOUND_MAX = 256
};
#define APT_LIST_BYTES_MAX (1ull << 30)

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

/* ---- lists of packages of apt ---- */

struct apt_question {
	const char *build_id;	     /* hexadecimal; "": unknown */
	const char *package;	     /* that may have the debug files; "": unknown */
	const char *owner, *version; /* the installed package of the file; "" */
	/* answers */
	/* the package with the build id, "libc6-dbg=2.36-9" where there are other versions; "" */
	char found[APT_FOUND_MAX];
	bool has_package;  /* there is @package */
	bool same_version; /* ... in @version, and it states no build ids */
	bool owner_dbg;	   /* there is @owner-dbg in @version, which states no build ids */
	bool owner_known;  /* there is @owner in @version */
	bool owner_newer;  /* ... in a later one */
	/* private */
	char found_version[APT_NAME_MAX];
	size_t n_versions; /* of @package */
};

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
		/* Near enough to dpkg's order (deb-version(7)) for versions of one package. */
		q->owner_newer |= *q->version && !strcmp(p->package, q->owner) &&
				  strverscmp(p->version, q->version) > 0;
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

	while (bytes < APT_LIST_BYTES_MAX && (n = getline(&line, &room, list)) > 0) {
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

/* Answers @n questions by the lists below @root ("": of this machine; only there compressed ones are read, by apt-helper).
 * false: there are no lists, and no answers. */
static bool apt_lists_ask(const char *root, struct apt_question *questions, size_t n)
{
	struct asked a = {.questions = questions, .n = n};
	const struct dirent *entry;
	char path[PATH_MAX];
	bool any = false;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "%s/var/lib/apt/lists", root);
	dir = opendir(path);
	for (size_t i = 0; dir && i < APT_LISTS_MAX && (entry = readdir(dir)); i++)
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

/* apt names a list by its address: HOST_debian-debug_dists_SUITE_main_binary-amd64_Packages. */
static bool archive_is_known(const char *root)
{
	const struct dirent *entry;
	bool known = false;
	char path[PATH_MAX];
	DIR *dir;

	(void)snprintf(path, sizeof(path), "%s/var/lib/apt/lists", root);
	dir = opendir(path);
	for (size_t i = 0; dir && i < APT_LISTS_MAX && (entry = readdir(dir)); i++)
		known |= strstr(entry->d_name, "debian-debug") || strstr(entry->d_name, "ddebs");
	if (dir)
		(void)closedir(dir);
	return known;
}

/* By apt's answer. */
static void decide(const char *root, const struct apt_question *q, struct debug_package *to)
{
	if (*q->found) {
		(void)snprintf(to->name, sizeof(to->name), "%s", q->found);
		return;
	}
	if (strstr(to->name, "-dbgsym")) {
		to->upgrade = !q->owner_dbg && q->owner_newer && !q->owner_known;
		if (q->owner_dbg) /* made by hand, in the place of the other */
			to->name[strlen(to->name) - strlen("sym")] = 0;
		else if (archive_is_known(root) ? !to->upgrade || !q->has_package
						: !to->upgrade && !q->owner_known)
			to->name[0] = 0;
		to->upgrade &= to->name[0] != 0;
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

void debug_package_command(const char *root, const struct debug_package *package, char *to,
			   size_t size)
{
	bool lacks = strstr(package->name, "-dbgsym") && !archive_is_known(root);

	(void)snprintf(to, size, "%sapt install %s%s",
		       lacks ? "add the archive debian-debug to apt's sources, then " : "",
		       package->name,
		       package->upgrade ? ", of another version: upgrade and record again" : "");
}
