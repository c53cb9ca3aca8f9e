/* oracle-table.c - the binary search table that libunwind wants for each module.
 *
 * Normally it is .eh_frame_hdr's own:  [4 bytes of encodings][eh_frame pointer][count][table ...],
 * each entry {int32 start of the function, int32 FDE}, both relative to the section (LSB 5.0, "The
 * .eh_frame_hdr section").  A module without one, or with another encoding, gets a table of the
 * same form made from its .eh_frame, which libunwind then reads at an address where no process has
 * memory.
 */
#include <errno.h>
#include <limits.h>

#include "base/bytes.h"
#include "base/error.h"
#include "unwinder/oracle.h"

enum {
	DW_EH_PE_FORMAT = 0x0f,
	DW_EH_PE_UDATA4 = 0x03,
	DW_EH_PE_UDATA8 = 0x04,
	DW_EH_PE_SDATA4 = 0x0b,
	DW_EH_PE_SDATA8 = 0x0c,
	DW_EH_PE_PCREL = 0x10,
	DW_EH_PE_DATAREL = 0x30,
	DW_EH_PE_OMIT = 0xff,
	HDR_TABLE_ENCODING = DW_EH_PE_DATAREL | DW_EH_PE_SDATA4,
};

/* Kernel addresses: no stack and no section of a process lies there. */
#define MADE_TABLES 0xffff800000000000ull

struct table_entry {
	int32_t start, fde;
};

/* Bytes of an encoded pointer of a fixed size; 0: of another kind. */
static size_t encoded_size(uint8_t encoding)
{
	switch (encoding & DW_EH_PE_FORMAT) {
	case 0: /* absptr */
	case DW_EH_PE_UDATA8:
	case DW_EH_PE_SDATA8:
		return 8;
	case DW_EH_PE_UDATA4:
	case DW_EH_PE_SDATA4:
		return 4;
	default:
		return 0;
	}
}

static bool table_of_hdr(struct oracle_module *module)
{
	const struct uw_section *hdr = &module->image->eh_frame_hdr;
	struct cursor c = cursor_of(hdr->data, hdr->data ? hdr->size : 0);
	uint8_t version = cursor_u8(&c), pointer = cursor_u8(&c), count = cursor_u8(&c),
		table = cursor_u8(&c);
	uint32_t n;

	if (c.bad || version != 1 || count != DW_EH_PE_UDATA4 || table != HDR_TABLE_ENCODING ||
	    pointer == DW_EH_PE_OMIT || !encoded_size(pointer))
		return false;
	(void)cursor_bytes(&c, encoded_size(pointer));
	n = cursor_u32(&c);
	if (c.bad || !n || n > cursor_left(&c) / sizeof(struct table_entry))
		return false;
	module->table_base = hdr->vaddr + module->bias;
	module->table = module->table_base + (uint64_t)(c.p - hdr->data);
	module->n_table = n;
	return true;
}

/* The pointer encoding that the CIE at @offset says for its FDEs; DW_EH_PE_OMIT when it cannot be
 * read. */
static uint8_t cie_encoding(const struct uw_section *section, uint64_t offset)
{
	struct cursor c = cursor_of(section->data + offset, section->size - offset);
	const char *augmentation;
	uint32_t length = cursor_u32(&c), id = cursor_u32(&c);
	uint8_t version = cursor_u8(&c);

	augmentation = cursor_string(&c);
	if (c.bad || length == UINT32_MAX || id || (version != 1 && version != 3))
		return DW_EH_PE_OMIT;
	(void)cursor_uleb(&c);
	(void)cursor_sleb(&c);
	if (version == 1)
		(void)cursor_u8(&c);
	else
		(void)cursor_uleb(&c);
	if (*augmentation != 'z')
		return c.bad || *augmentation ? DW_EH_PE_OMIT : 0;
	(void)cursor_uleb(&c);
	for (const char *a = augmentation + 1; *a && !c.bad; a++) {
		if (*a == 'R')
			return cursor_u8(&c);
		if (*a == 'L')
			(void)cursor_u8(&c);
		else if (*a == 'P')
			(void)cursor_bytes(&c, encoded_size(cursor_u8(&c)));
		else if (*a != 'S' && *a != 'B')
			return DW_EH_PE_OMIT;
	}
	return c.bad ? DW_EH_PE_OMIT : 0;
}

/* The start of the function of the FDE whose fields after the CIE pointer are at @c, as a vaddr. */
static bool fde_start(const struct uw_section *section, struct cursor *c, uint8_t encoding,
		      uint64_t *ret_start)
{
	uint64_t at = section->vaddr + (uint64_t)(c->p - section->data), value;

	switch (encoding & DW_EH_PE_FORMAT) {
	case DW_EH_PE_SDATA4:
		value = (uint64_t)(int32_t)cursor_u32(c);
		break;
	case DW_EH_PE_UDATA4:
		value = cursor_u32(c);
		break;
	default:
		value = encoded_size(encoding) == 8 ? cursor_u64(c) : 0;
	}
	if (c->bad || !encoded_size(encoding) || encoding & 0x80)
		return false;
	if ((encoding & 0x70) == DW_EH_PE_PCREL)
		value += at;
	else if (encoding & 0x70)
		return false;
	*ret_start = value;
	return true;
}

static int entry_compare(const void *a, const void *b)
{
	int32_t x = ((const struct table_entry *)a)->start,
		y = ((const struct table_entry *)b)->start;

	return (x > y) - (x < y);
}

/* Walks .eh_frame: @table NULL counts only.  Entries are relative to the section's start. */
static size_t walk_eh_frame(const struct uw_section *section, struct table_entry *table,
			    size_t room)
{
	struct cursor c = cursor_of(section->data, section->size);
	size_t n = 0;

	while (cursor_left(&c) >= 8 && n < room) {
		uint64_t offset = (uint64_t)(c.p - section->data), start;
		uint32_t length = cursor_u32(&c), id;
		struct cursor fde;
		int64_t relative;

		if (!length || length == UINT32_MAX || length > cursor_left(&c))
			break;
		fde = cursor_of(c.p, length);
		c.p += length;
		id = cursor_u32(&fde);
		if (!id || fde.bad || id > offset + 4)
			continue;
		if (!fde_start(section, &fde, cie_encoding(section, offset + 4 - id), &start))
			continue;
		relative = (int64_t)(start - section->vaddr);
		if (relative < INT32_MIN || relative > INT32_MAX || offset > INT32_MAX)
			continue;
		if (table)
			table[n] = (struct table_entry){(int32_t)relative, (int32_t)offset};
		n++;
	}
	return n;
}

int oracle_table_init(struct oracle_space *slot, struct oracle_module *module)
{
	const struct uw_section *frames = &module->image->eh_frame;
	struct table_entry *table;
	size_t n;
	int r;

	if (table_of_hdr(module) || !frames->data)
		return 0;
	n = walk_eh_frame(frames, NULL, SIZE_MAX);
	if (!n)
		return 0;
	table = malloc(n * sizeof(*table));
	if (!table)
		return fail(-ENOMEM);
	n = walk_eh_frame(frames, table, n);
	qsort(table, n, sizeof(*table), entry_compare);
	module->made_table = table;
	module->table = MADE_TABLES + frames->vaddr + module->bias;
	r = uw_regions_add(&slot->regions, module->table, table, n * sizeof(*table));
	if (r == -ENOMEM)
		return trace(r);
	module->table_base = frames->vaddr + module->bias;
	module->n_table = r < 0 ? 0 : n;
	return 0;
}
