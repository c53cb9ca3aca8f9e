/* cfi-table.c - see cfi-table.h.  The search table in .eh_frame_hdr, and what makes a search in it short.
 *
 * Halving a table of a hundred thousand entries meets a dozen cache lines that nobody had for a
 * while.  So the addresses that it covers are cut into slices of one size, four entries each on the
 * average, and one word a slice says where in the table it begins.  A search is that word, and the
 * one or two lines of the table between it and the next:
 *
 *     slices    [0][3][3][9][11] ...         4 bytes for every 4 entries of 8: an eighth more
 *                |  |__|___
 *     entries   [a b c|d e f g h i|j k|...
 */
#include <string.h>

#include "symbols/cfi-table.h"

enum { SLICE_ENTRIES = 4 };

uint64_t cfi_pointer(struct cursor *c, uint8_t encoding)
{
	switch (encoding & PE_FORMAT) {
	case PE_ABS:
	case PE_UDATA8:
	case PE_SDATA8:
		return cursor_u64(c);
	case PE_ULEB:
		return cursor_uleb(c);
	case PE_SLEB:
		return (uint64_t)cursor_sleb(c);
	case PE_UDATA2:
		return cursor_u16(c);
	case PE_SDATA2:
		return (uint64_t)(int16_t)cursor_u16(c);
	case PE_UDATA4:
		return cursor_u32(c);
	case PE_SDATA4:
		return (uint64_t)(int32_t)cursor_u32(c);
	default:
		c->bad = true;
		return 0;
	}
}

/* [version 1][eh_frame_ptr enc][fde_count enc][table enc][eh_frame_ptr][fde_count][table] */
static bool table_open(const struct uw_section *hdr, struct uw_table *ret)
{
	struct cursor c;
	uint8_t version, pointer, count, form;
	uint64_t n;

	if (!hdr->data)
		return false;
	c = cursor_of(hdr->data, hdr->size);
	version = cursor_u8(&c);
	pointer = cursor_u8(&c);
	count = cursor_u8(&c);
	form = cursor_u8(&c);
	if (c.bad || version != 1 || count == PE_OMIT || form != (PE_DATAREL | PE_SDATA4))
		return false;
	if (pointer != PE_OMIT)
		(void)cfi_pointer(&c, pointer);
	n = cfi_pointer(&c, count);
	if (c.bad || !n)
		return false;
	ret->entries = c.p;
	ret->n = min_u64(n, cursor_left(&c) / 8);
	return ret->n != 0;
}

static int64_t table_word(const struct uw_table *table, size_t i, size_t half)
{
	int32_t word;

	memcpy(&word, table->entries + i * 8 + half * 4, sizeof(word));
	return word;
}

/* Of a table that is not sorted whatever comes out is an entry of it, too. */
static void table_slice(struct uw_table *table)
{
	int64_t first = table_word(table, 0, 0);
	uint64_t span = (uint64_t)(table_word(table, table->n - 1, 0) - first);
	size_t n = table->n / SLICE_ENTRIES;
	uint32_t *slices;
	unsigned shift = 0;

	while (shift < 32 && span >> shift >= n)
		shift++;
	if (span >> shift >= n || table->n > UINT32_MAX)
		return;
	n = (span >> shift) + 1;
	slices = calloc(n + 1, sizeof(*slices)); /* without them a search is slower */
	for (size_t i = 0; slices && i < table->n; i++) {
		uint64_t slice = (uint64_t)(table_word(table, i, 0) - first) >> shift;

		if (slice < n)
			slices[slice + 1] = (uint32_t)i + 1; /* so far */
	}
	for (size_t slice = 1; slices && slice <= n; slice++)
		slices[slice] = (uint32_t)max_u64(slices[slice], slices[slice - 1]);
	table->slices = slices;
	table->n_slices = n;
	table->shift = shift;
}

void cfi_table_init(struct uw_image *image)
{
	struct uw_table table = {0};

	if (!table_open(&image->eh_frame_hdr, &table))
		return;
	table_slice(&table);
	image->table = table;
}

/* The slice that has @want, which is not before the first entry.  There are slices. */
static const uint32_t *table_slice_of(const struct uw_table *table, int64_t want)
{
	uint64_t slice = (uint64_t)(want - table_word(table, 0, 0)) >> table->shift;

	return &table->slices[min_u64(slice, table->n_slices - 1)];
}

/* The last entry that begins at or before @want, which is not before the first. */
static size_t table_search(const struct uw_table *table, int64_t want)
{
	size_t at = 0, n = table->n;

	if (table->slices) {
		const uint32_t *slice = table_slice_of(table, want);

		at = slice[0];
		n = slice[1] - at;
		if (slice != table->slices) { /* the slice's first may begin behind it */
			at--;
			n++;
		}
	}
	while (n > 1) { /* no branch to mispredict but its end */
		size_t half = n / 2;

		at = table_word(table, at + half, 0) <= want ? at + half : at;
		n -= half;
	}
	return at;
}

enum cfi_result cfi_table_find(const struct uw_image *image, uint64_t vaddr, uint32_t *ret_offset)
{
	const struct uw_section *hdr = &image->eh_frame_hdr;
	int64_t want = (int64_t)(vaddr - hdr->vaddr);
	uint64_t offset;
	size_t at;

	if (!cfi_has_table(image) || want < table_word(&image->table, 0, 0))
		return CFI_NONE;
	at = table_search(&image->table, want);
	offset = hdr->vaddr + (uint64_t)table_word(&image->table, at, 1) - image->eh_frame.vaddr;
	if (offset >= image->eh_frame.size || offset > UINT32_MAX)
		return CFI_BAD;
	*ret_offset = (uint32_t)offset;
	return CFI_OK;
}

void cfi_table_prefetch_slice(const struct uw_image *image, uint64_t vaddr)
{
	int64_t want = (int64_t)(vaddr - image->eh_frame_hdr.vaddr);

	if (image->table.slices && want >= table_word(&image->table, 0, 0))
		__builtin_prefetch(table_slice_of(&image->table, want));
}

void cfi_table_prefetch_entries(const struct uw_image *image, uint64_t vaddr)
{
	int64_t want = (int64_t)(vaddr - image->eh_frame_hdr.vaddr);

	if (image->table.slices && want >= table_word(&image->table, 0, 0))
		__builtin_prefetch(image->table.entries +
				   8ull * table_slice_of(&image->table, want)[0]);
}
