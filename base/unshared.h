/* unshared.h - large blocks that child processes do not get.  Thread: any.
 *
 * A forked child shares the pages of its parent, and each page that the parent then writes to exists twice.  Helper processes
 * (base/helper.h) live for hours and never look at tables and modules of a session: without these a fork is short and a helper
 * small.  In a child the address of a block is not mapped.  The owner knows the length.
 *
 * Smaller blocks come from the heap; with sanitizers, which know only that, all do. */
#pragma once

#include "base/util.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNSHARED_BYTES SIZE_MAX
#else
#define UNSHARED_BYTES ((size_t)128 << 10)
#endif

/* A block that is made with this size or grows to it begins where a huge page can, and asks for them.  Where it grows on it may
 * move to where its ends have small pages. */
#define UNSHARED_HUGE ((size_t)2 << 20)

/* Zeroed; NULL: no memory. */
void *unshared_new(size_t len);
/* Added bytes are zero.  NULL: no memory, and the block stays as it was. */
void *unshared_resize(void *block, size_t old, size_t len);
/* Consumes the block, which may be NULL. */
void unshared_free(void *block, size_t len);
/* Before the first block: only those of at least @bytes are mapped. */
void unshared_from(size_t bytes);
