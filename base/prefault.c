/* prefault.c - see prefault.h. */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/prefault.h"
#include "base/unshared.h"

enum {
	POPULATE_WRITE = 23, /* MADV_POPULATE_WRITE, 5.14 */
	LARGEST = 256 << 20,
	STACK = 256 << 10,
	LARGE = 512 << 10, /* an allocation of more has pages of its own, and gives them back */
	KEPT = 64 << 20,   /* free memory at the end of the heap that is kept */
	PIECE = 64 << 10,
};

void prefault_one_heap(void)
{
#ifdef M_ARENA_MAX
	(void)mallopt(M_ARENA_MAX, 1);
#endif
#ifdef M_TRIM_THRESHOLD
	(void)mallopt(M_MMAP_THRESHOLD, LARGE);
	(void)mallopt(M_TRIM_THRESHOLD, KEPT);
#endif
	unshared_from(LARGE);
}

/* A line of /proc/self/maps: private and writable memory of the heap or of a file, or the end of a stack (of any anonymous memory:
 * a thread's stack has no name), no large mapping. */
static bool is_own_data(const char *line, uintptr_t *ret_from, size_t *ret_len)
{
	uint64_t from, to, inode;
	char rights[8], name[16] = "";

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %*x %*x:%*x %" SCNu64 " %15s", &from, &to,
		   rights, &inode, name) < 4 ||
	    strcmp(rights, "rw-p") != 0 || to <= from || to - from > LARGEST)
		return false;
	if (!inode && strcmp(name, "[heap]") != 0)
		from = max_u64(from, to - min_u64(to, STACK));
	*ret_from = (uintptr_t)from;
	*ret_len = (size_t)(to - from);
	return true;
}

/* In pieces: a larger one would get pages of its own, which go back to the kernel. */
static void grow_heap(size_t bytes)
{
	void *list = NULL, *piece;

	for (size_t i = 0; i < bytes / PIECE && (piece = malloc(PIECE)); i++) {
		memset(piece, 1, PIECE);
		memcpy(piece, &list, sizeof(list));
		list = piece;
	}
	for (; list; list = piece) {
		memcpy(&piece, list, sizeof(piece));
		free(list);
	}
}

void prefault_heap(size_t bytes)
{
	_cleanup_(freep) char *maps = NULL;
	uintptr_t from;
	size_t len;

	grow_heap(bytes);
	if (read_file("/proc/self/maps", 1 << 20, &maps, NULL) < 0)
		return;
	for (const char *line = maps; line && *line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!is_own_data(line, &from, &len))
			continue;
		(void)madvise((void *)from, len, POPULATE_WRITE);
		(void)mlock((void *)from, len);
	}
}
