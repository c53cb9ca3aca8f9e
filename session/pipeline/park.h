/* park.h - bounded memory for samples that must leave the ring.  Thread: the owner's.
 * One arena of pages with a bitmap: a block is a run of whole pages.  Fixed size, first fit. */
#pragma once

#include "base/util.h"

enum { PARK_PAGE = 4096 };

struct park {
	uint8_t *arena;
	uint64_t *used; /* one bit a page */
	size_t n_pages, n_free, hint;
	size_t touched; /* pages from the begin that may hold memory */
};

/* @bytes is rounded up to 64 pages.  The memory is reserved, not touched, until it is used. */
int park_init(struct park *park, size_t bytes);
void park_deinit(struct park *park);
/* Would @len bytes leave a quarter of the park free? */
bool park_has_plenty(const struct park *park, size_t len);
/* NULL: no room. */
void *park_alloc(struct park *park, size_t len);
/* @len as given to park_alloc. */
void park_free(struct park *park, void *block, size_t len);
/* If nothing is parked: all memory but the first PARK_KEPT pages goes back.  About once a second. */
enum { PARK_KEPT = 64 };
void park_trim(struct park *park);
