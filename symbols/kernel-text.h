/* kernel-text.h - where the kernel's text begins.  Thread: any. */
#pragma once

#include "base/util.h"

/* The address of _text, from the first lines of /proc/kallsyms in @fd, whose position is reset to
 * the start. 0: absent, or hidden. */
uint64_t kernel_text_start(int fd);
