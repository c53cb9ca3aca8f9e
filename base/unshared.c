/* unshared.c - see unshared.h. */
#include <string.h>
#include <sys/mman.h>

#include "base/unshared.h"

static size_t limit = UNSHARED_BYTES;

void unshared_from(size_t bytes)
{
	limit = bytes > UNSHARED_BYTES ? bytes : UNSHARED_BYTES;
}

void *unshared_new(size_t len)
{
	void *block;

	if (len < limit)
		return calloc(1, len ? len : 1);
	block = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
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

	if (block && old >= limit && len >= limit) {
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
