/* load-debug-path.c - which paths of debug files pw-parse may ask for: see loader-work.h. */
#include <string.h>

#include "session/loader/loader-work.h"

#define DEBUG_FILES "/usr/lib/debug"

/* The name of a file: no folder, and none above. */
static bool is_file_name(const char *name)
{
	return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static const char *behind(const char *path, const char *start, size_t len)
{
	return strncmp(path, start, len) == 0 ? path + len : "";
}

/* FF/FF...FF.debug */
static bool is_build_id_name(const char *name)
{
	static const char hex[] = "0123456789abcdef";
	size_t n;

	if (strspn(name, hex) != 2 || name[2] != '/')
		return false;
	n = strspn(name + 3, hex);
	return n && n <= 2 * (UW_BUILD_ID_MAX - 1) && !strcmp(name + 3 + n, ".debug");
}

/* The places of GDB's convention, and of DWARF that several share (dwz).  Who asks may be a parser that a file has taken
 * over: what is none of these is not opened, whoever could read it. */
bool load_is_debug_path(const char *module, const char *path)
{
	const char *slash = strrchr(module, '/'), *name;
	size_t folder = slash ? (size_t)(slash - module) + 1 : 0;

	if (is_build_id_name(behind(path, DEBUG_FILES "/.build-id/", sizeof(DEBUG_FILES) + 10)))
		return true;
	name = behind(path, DEBUG_FILES "/.dwz/", sizeof(DEBUG_FILES) + 5);
	if (*name)
		return !strstr(name, "/../") && strncmp(name, "../", 3) != 0;
	if (!folder || module[0] != '/')
		return false;
	name = behind(path, module, folder);
	if (is_file_name(name) || is_file_name(behind(name, ".debug/", 7)))
		return true;
	name = behind(path, DEBUG_FILES, sizeof(DEBUG_FILES) - 1);
	return is_file_name(behind(name, module, folder));
}
