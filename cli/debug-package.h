/* debug-package.h - the Debian package that has the symbols of a file.  Thread: main (of a command). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { DEBUG_PACKAGES_MAX = 8, DEBUG_PACKAGE_NAME = 256 };

struct debug_package {
	char name[DEBUG_PACKAGE_NAME]; /* "libc6-dbg", "libssl3-dbgsym"; "": none is known */
	bool upgrade;		       /* it is of another version than the installed file */
};

/* The packages of up to DEBUG_PACKAGES_MAX files with paths ("": not of this machine) and build ids (hexadecimal; "": unknown).  By apt's lists it is the
 * package that states the build id, in whatever version; a package of the file's owner by its name where the lists have it in
 * the version that is installed, or where its archive (debug_package_command()) is not one of apt's sources and the installed
 * owner, or a later version (then upgrade), is a package of the others.  Without lists the name alone decides.  Reads the files of dpkg and apt below @root ("": of
 * this machine), once for all. */
void debug_packages(const char *root, const char *const *paths, const char *const *build_ids,
		    size_t n, struct debug_package *ret);
/* The command that installs it: "apt install libc6-dbg".  -dbgsym packages are in an archive
 * (Debian's debian-debug, Ubuntu's ddebs) that is not one of apt's default sources: it is named where apt has no list of it. */
void debug_package_command(const char *root, const struct debug_package *package, char *to,
			   size_t size);
