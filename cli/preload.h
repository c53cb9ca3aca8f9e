/* preload.h - has a command load a library of perfwind's (LD_PRELOAD).  Thread: main. */
#pragma once

#include "base/util.h"

enum { PRELOAD_PATH_MAX = 4096 + 64 };
/* The path of the library @name: next to the program (a build folder), or in lib/perfwind next to its bin.  -ENOENT. */
int preload_find(const char *name, char *path, size_t size);
/* Puts @library before the libraries that LD_PRELOAD has.  -EINVAL: its path has a blank or a colon. */
int preload_set(const char *library);
