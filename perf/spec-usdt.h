/* spec-usdt.h - the static probes (USDT, sys/sdt.h) of a program or library.  Thread: main. */
#pragma once

#include "base/util.h"

enum { USDT_NAME_MAX = 128, USDT_ARGUMENTS_MAX = 512 };

struct usdt_probe {
	char provider[USDT_NAME_MAX], name[USDT_NAME_MAX];
	char arguments[USDT_ARGUMENTS_MAX]; /* where they are: "8@%rdi -4@-20(%rbp)" */
	uint64_t offset;		    /* in the file, of the instruction */
	uint64_t semaphore;		    /* the same, of its counter of users; 0: none */
};
/* Calls @each with each probe of the ELF file @path; a result other than 0 ends it and is returned.  Notes that do not fit are passed
 * over.  -ENOEXEC: no ELF file of this machine's byte order; -errno of open(). */
int spec_usdt_each(const char *path, int (*each)(void *arg, const struct usdt_probe *probe),
		   void *arg);
