/* debug-package.h - the Debian package that has the symbols of a file.  Thread: main (of a command). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { DEBUG_PACKAGES_MAX = 8, DEBUG_PACKAGE_NAME = 128 };

/* The packages of up to DEBUG_PACKAGES_MAX files: @ret_names[i] is that of @paths[i], "libssl3-dbgsym" or
 * "libc6-dbg"; "" where no installed package has the file.  Reads dpkg's lists of files below @root ("": of this
 * machine), once for all. */
void debug_packages(const char *root, const char *const *paths, size_t n,
		    char ret_names[][DEBUG_PACKAGE_NAME]);
/* The command that installs a package of debug_packages(): "apt install libc6-dbg".  -dbgsym packages are in an archive
 * (Debian's debian-debug, Ubuntu's ddebs) that is not one of apt's default sources: it is named where apt has no list of it. */
void debug_package_command(const char *root, const char *package, char *to, size_t size);
