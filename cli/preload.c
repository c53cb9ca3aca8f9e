/* preload.c - see preload.h. */
#include "cli/preload.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"

int preload_find(const char *name, char *path, size_t size)
{
	static const char *const places[] = {"", "../lib/perfwind/"};
	char self[PRELOAD_PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	if (len < 0)
		return fail(-errno);
	self[len] = 0;
	slash = strrchr(self, '/');
	if (!slash)
		return fail(-ENOENT);
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		int n = snprintf(path, size, "%.*s/%s%s", (int)(slash - self), self, places[i],
				 name);

		if (n > 0 && (size_t)n < size && access(path, R_OK) == 0)
			return 0;
	}
	return fail(-ENOENT);
}

int preload_set(const char *library)
{
	const char *others = getenv("LD_PRELOAD");
	_cleanup_(freep) char *preload = NULL;

	/* The dynamic linker takes blanks and colons for the end of a name. */
	if (strpbrk(library, " :"))
		return fail(-EINVAL);
	if (asprintf(&preload, "%s%s%s", library, others && *others ? ":" : "",
		     others ? others : "") < 0)
		return fail(-ENOMEM);
	return setenv("LD_PRELOAD", preload, 1) < 0 ? fail(-errno) : 0;
}
