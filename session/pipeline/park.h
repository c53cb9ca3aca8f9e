/* park.h - bounded memory for samples that must leave the ring.  Thread: the owner's.
 * One arena of pages with a bitmap: a block is a run of whole pages.  Fixed size, first fit. */
#pragma once

#include "base/util.h"

enum { PARK_PAGE = 4096, PARK_OWNERS = 4096 };

struct park {
	uint8_t *arena;
	uint64_t *used; /* one bit a page */
	size_t n_pages, n_free, hint;
	size_t touched;		    /* pages from the begin that may hold memory */
	uint32_t held[PARK_OWNERS]; /* pages, by hash: owners that fall together share */
};

/* @bytes is rounded up to 64 pages.  The memory is reserved, not touched, until it is used. */
int park_init(struct park *park, size_t bytes);
void park_deinit(struct park *park);
/* NULL: no room.  Of the last quarter an @owner gets only what leaves as much free as it then holds: it cannot fill the park, and
 * another owner finds room.  PARK_ANY: no bound. */
#define PARK_ANY UINT64_MAX
void *park_alloc(struct park *park, uint64_t owner, size_t len);
/* Would @len bytes leave a quarter of the park free, and as much as the owner then holds? */
bool park_has_plenty(const struct park *park, uint64_t owner, size_t len);
/* @owner and @len as given to park_alloc. */
void park_free(struct park *park, uint64_t owner, void *block, size_t len);
/* If nothing is parked: all memory but the first PARK_KEPT pages goes back.  About once a second. */
enum { PARK_KEPT = 64 };
void park_trim(struct park *park);
