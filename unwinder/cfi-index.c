/* cfi-index.c - see cfi.h.  Made once for a section that has no search table; 24 bytes an FDE, and
 * an FDE has at least 16 bytes of its own, so its size is bounded by the section's. */
#include <errno.h>

#include "base/error.h"
#include "unwinder/cfi.h"

static int entry_compare(const void *a, const void *b)
{
	const struct cfi_index_entry *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static int index_add(struct cfi_index *index, size_t *room, const struct cfi_fde *fde,
		     uint32_t offset)
{
	if (index->n_entries == *room) {
		size_t more = *room ? *room * 2 : 256;
		struct cfi_index_entry *entries =
			reallocarray(index->entries, more, sizeof(*entries));

		if (!entries)
			return fail(-ENOMEM);
		index->entries = entries;
		*room = more;
	}
	index->entries[index->n_entries++] = (struct cfi_index_entry){fde->begin, fde->end, offset};
	return 0;
}

int cfi_index_init(struct cfi_index *index, const struct uw_image *image, bool debug_frame)
{
	const struct uw_section *section = debug_frame ? &image->debug_frame : &image->eh_frame;
	size_t offset = 0, next, room = 0;
	struct cfi_cies cies = {0};

	*index = (struct cfi_index){0};
	/* A record of length 0 ends .eh_frame; whatever is damaged ends the walk, what came before
	 * counts. */
	while (offset < section->size && offset <= UINT32_MAX) {
		struct cfi_fde fde;
		int r;

		if (cfi_record(section, (uint32_t)offset, &next) != CFI_OK)
			break;
		if (cfi_fde_read(image, debug_frame, (uint32_t)offset, &cies, 0, &fde) == CFI_OK &&
		    fde.begin && fde.end > fde.begin) {
			r = index_add(index, &room, &fde, (uint32_t)offset);
			if (r < 0) {
				cfi_index_deinit(index);
				return trace(r);
			}
		}
		offset = next;
	}
	if (index->n_entries)
		qsort(index->entries, index->n_entries, sizeof(*index->entries), entry_compare);
	return 0;
}

void cfi_index_deinit(struct cfi_index *index)
{
	free(index->entries);
	*index = (struct cfi_index){0};
}

enum cfi_result cfi_index_find(const struct cfi_index *index, uint64_t vaddr, uint32_t *ret_offset)
{
	size_t low = 0, high = index->n_entries;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (index->entries[mid].begin <= vaddr)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low || vaddr >= index->entries[low - 1].end)
		return CFI_NONE;
	*ret_offset = index->entries[low - 1].offset;
	return CFI_OK;
}
