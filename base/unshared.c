/* unshared.c - see unshared.h. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/unshared.h"

static size_t limit = UNSHARED_BYTES;

static size_t page_end(size_t len)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (len + page - 1) & ~(page - 1);
}

void unshared_from(size_t bytes)
{
	limit = bytes > UNSHARED_BYTES ? bytes : UNSHARED_BYTES;
}

/* Where huge pages can begin: a table that is read at random has as many TLB misses as loads without them. */
static void *map_aligned(size_t len)
{
	const size_t mapped = len + UNSHARED_HUGE;
	uint8_t *base = len < mapped ? mmap(NULL, mapped, PROT_READ | PROT_WRITE,
					    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
				     : MAP_FAILED;
	size_t before;

	if (base == MAP_FAILED)
		return MAP_FAILED;
	before = -(uintptr_t)base & (UNSHARED_HUGE - 1);
	if (before)
		(void)munmap(base, before);
	len = page_end(len);
	(void)munmap(base + before + len, page_end(mapped) - before - len);
	(void)madvise(base + before, len, MADV_HUGEPAGE);
	return base + before;
}

void *unshared_new(size_t len)
{
	void *block;

	if (len < limit)
		return calloc(1, len ? len : 1);
	block = len < UNSHARED_HUGE ? mmap(NULL, len, PROT_READ | PROT_WRITE,
					   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
				    : map_aligned(len);
	if (block == MAP_FAILED)
		return NULL;
	(void)madvise(block, len, MADV_DONTFORK);
	return block;
}

void unshared_free(void *block, size_t len)
{
	if (len < limit)
		free(block);
	else if (block)
		(void)munmap(block, len);
}

void *unshared_resize(void *block, size_t old, size_t len)
{
	void *more;

	if (block && old >= limit && len >= limit &&
	    (old >= UNSHARED_HUGE || len < UNSHARED_HUGE)) {
		more = mremap(block, old, len, MREMAP_MAYMOVE);
		return more == MAP_FAILED ? NULL : more;
	}
	more = unshared_new(len);
	if (more && block) {
		memcpy(more, block, old < len ? old : len);
		unshared_free(block, old);
	}
	return more;
}
