/* module-file.h - the file of a trace's module on this machine, for its names, lines and code.  Thread: main. */
#pragma once

#include "cli/archive.h"
#include "proc/file-places.h"
#include "profile/profile.h"
#include "symbols/module.h"

/* Is each of the places that the options name a folder?  Else logs which one is none: -EINVAL.  In place of the build-id cache a
 * tarball of `perf archive` is unpacked: into *archive, which lives as long as @places. */
int module_file_open_places(struct file_places *places, struct archive *archive);

struct module_file {
	const struct file_places *places;
	struct uw_source
		source; /* of uw_module_load_symbols(), uw_module_lines(), uw_code_load() */
};

/* Is @module a file that could be found?  Not the kernel, not code of a JIT compiler, not the vDSO. */
bool module_file_is_one(const struct profile *profile, const struct profile_module *module);
/* Opens the file of @module: the copy below places->symfs, the file at its path, or that in the build-id cache.  It is trusted
 * if it has the build id of the module; without one only below symfs.  -ENOENT. */
int module_file_open(struct module_file *file, const struct file_places *places,
		     const struct profile *profile, const struct profile_module *module);
/* Opens its debug file alone, where the file is gone: names and lines, and no code.  -ENOENT. */
int module_file_open_debug(struct module_file *file, const struct file_places *places,
			   const struct profile_module *module);
void module_file_close(struct module_file *file);
/* A new module of symbols/ with the symbols of the open file. */
int module_file_symbols(struct module_file *file, const struct profile *profile,
			const struct profile_module *module, struct uw_module **ret_module);
