/* apt-list.h - what apt knows of packages with debug files: from its lists of packages.  Thread: main (of a command).
 *
 * A package of debug files states the build ids that it has (deb822, "Build-Ids:"), so the right version of the right package is
 * known before it is installed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { APT_NAME_MAX = 120, APT_FOUND_MAX = 256 };

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
	/* private */
	char found_version[APT_NAME_MAX];
	size_t n_versions; /* of @package */
};

/* Answers @n questions by the lists below @root ("": of this machine; only there compressed ones are read, by apt-helper).
 * false: there are no lists, and no answers. */
bool apt_lists_ask(const char *root, struct apt_question *questions, size_t n);
