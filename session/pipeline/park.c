/* park.c - memory for parked samples (park.h).  Blocks are 1 to 17 pages (a record is under 64
 * KiB). The search starts behind the last block, so an almost empty park costs a word or two. */
#include <errno.h>
#include <sys/mman.h>

#include "base/error.h"
#include "session/pipeline/park.h"

int park_init(struct park *park, size_t bytes)
{
	size_t n_pages = (bytes / PARK_PAGE + 63) & ~(size_t)63;
	void *arena;

	*park = (struct park){0};
	park->used = calloc(n_pages / 64 + 1, sizeof(*park->used));
	if (!park->used)
		return fail(-ENOMEM);
	arena = mmap(NULL, n_pages * PARK_PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (arena == MAP_FAILED) {
		free(take(park->used));
		return fail(-errno);
	}
	(void)madvise(arena, n_pages * PARK_PAGE, MADV_DONTFORK); /* helper processes do without */
	park->arena = arena;
	park->n_pages = park->n_free = n_pages;
	return 0;
}

void park_deinit(struct park *park)
{
	if (park->arena)
		(void)munmap(park->arena, park->n_pages * PARK_PAGE);
	free(park->used);
	*park = (struct park){0};
}

static bool page_used(const struct park *park, size_t page)
{
	return park->used[page / 64] >> (page % 64) & 1;
}

static void pages_flip(struct park *park, size_t first, size_t n)
{
	for (size_t i = first; i < first + n; i++)
		park->used[i / 64] ^= 1ull << (i % 64);
}

/* First run of @n free pages in [from, to), or @to. */
static size_t find_run(const struct park *park, size_t from, size_t to, size_t n)
{
	size_t run = 0;

	for (size_t i = from; i < to; i++) {
		if (i % 64 == 0 && park->used[i / 64] == ~0ull) {
			run = 0;
			i += 63;
			continue;
		}
		run = page_used(park, i) ? 0 : run + 1;
		if (run == n)
			return i + 1 - n;
	}
	return to;
}

static size_t slot_of(uint64_t owner)
{
	return hash_u64(owner) % PARK_OWNERS;
}

/* @n <= n_free */
static bool leaves_quarter(const struct park *park, size_t n)
{
	return park->n_free - n >= park->n_pages / 4;
}

static bool leaves_share(const struct park *park, uint64_t owner, size_t n)
{
	return owner == PARK_ANY || park->held[slot_of(owner)] + n <= park->n_free - n;
}

bool park_has_plenty(const struct park *park, uint64_t owner, size_t len)
{
	size_t n = (len + PARK_PAGE - 1) / PARK_PAGE;

	return n <= park->n_free && leaves_quarter(park, n) && leaves_share(park, owner, n);
}

void *park_alloc(struct park *park, uint64_t owner, size_t len)
{
	size_t n = (len + PARK_PAGE - 1) / PARK_PAGE, first;

	if (!n)
		n = 1;
	if (n > park->n_free || !(leaves_quarter(park, n) || leaves_share(park, owner, n)))
		return NULL;
	first = find_run(park, park->hint, park->n_pages, n);
	if (first == park->n_pages) {
		first = find_run(park, 0, park->n_pages, n);
		if (first == park->n_pages)
			return NULL;
	}
	pages_flip(park, first, n);
	park->n_free -= n;
	park->held[slot_of(owner)] += (uint32_t)n;
	park->hint = first + n < park->n_pages ? first + n : 0;
	park->touched = max_u64(park->touched, first + n);
	return park->arena + first * PARK_PAGE;
}

void park_free(struct park *park, uint64_t owner, void *block, size_t len)
{
	size_t n = (len + PARK_PAGE - 1) / PARK_PAGE;

	if (!block)
		return;
	if (!n)
		n = 1;
	pages_flip(park, (size_t)((uint8_t *)block - park->arena) / PARK_PAGE, n);
	park->n_free += n;
	park->held[slot_of(owner)] -= (uint32_t)n;
	if (park->n_free == park->n_pages)
		park->hint = 0; /* few samples at a time use few pages */
}

void park_trim(struct park *park)
{
	size_t kept = PARK_KEPT;

	if (park->n_free != park->n_pages || park->touched <= kept)
		return;
	(void)madvise(park->arena + kept * PARK_PAGE, (park->touched - kept) * PARK_PAGE,
		      MADV_DONTNEED);
	park->touched = kept;
}
