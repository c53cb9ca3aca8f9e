/* cfi.c - see cfi.h.  CIEs and FDEs, and the sorted index of a section without a search table. */
#include <errno.h>

#include "base/error.h"
#include "unwinder/cfi.h"

static const struct uw_section *cfi_section(const struct uw_image *image, bool debug_frame)
{
	return debug_frame ? &image->debug_frame : &image->eh_frame;
}

/* A pointer at the cursor: absolute or relative to itself, others are refused. */
static uint64_t read_pointer(struct cursor *c, uint8_t encoding, const uint8_t *section,
			     uint64_t section_vaddr)
{
	uint64_t at = section_vaddr + (uint64_t)(c->p - section);
	uint64_t value = cfi_pointer(c, encoding);

	switch (encoding & (PE_APPLY | PE_INDIRECT)) {
	case PE_ABS:
		return value;
	case PE_PCREL:
		return value + at;
	default:
		c->bad = true;
		return 0;
	}
}

/* ---- records ---- */

struct record {
	struct cursor body; /* behind the length */
	bool wide;	    /* 64-bit DWARF */
};

static enum cfi_result record_open(const struct uw_section *section, uint64_t offset,
				   struct record *ret)
{
	struct cursor c;
	uint64_t length;

	if (!section->data)
		return CFI_BAD;
	c = cursor_of(section->data, section->size);
	if (!cursor_bytes(&c, offset))
		return CFI_BAD;
	length = cursor_u32(&c);
	ret->wide = length == UINT32_MAX;
	if (ret->wide)
		length = cursor_u64(&c);
	if (c.bad || length > cursor_left(&c))
		return CFI_BAD;
	if (!length)
		return CFI_NONE;
	ret->body = cursor_of(c.p, length);
	return CFI_OK;
}

enum cfi_result cfi_record(const struct uw_section *section, uint32_t offset, size_t *ret_next)
{
	struct record record;
	enum cfi_result result = record_open(section, offset, &record);

	if (result == CFI_OK)
		*ret_next = (size_t)(record.body.end - section->data);
	return result;
}

/* The data that an augmentation string beginning with 'z' announces. */
static bool cie_augmentation(struct cfi_cie *cie, const char *text, struct cursor *c)
{
	size_t len = cursor_uleb(c);
	const uint8_t *data = cursor_bytes(c, len);
	struct cursor d;

	if (!data)
		return false;
	d = cursor_of(data, len);
	cie->augmented = true;
	for (text++; *text; text++) {
		uint8_t encoding;

		switch (*text) {
		case 'R':
			cie->pointer_encoding = cursor_u8(&d);
			break;
		case 'L':
			(void)cursor_u8(&d);
			break;
		case 'P':
			encoding = cursor_u8(&d);
			if (encoding != PE_OMIT)
				(void)cfi_pointer(&d, encoding);
			break;
		case 'S':
			cie->signal = true;
			break;
		case 'B': /* aarch64: return addresses signed with the B key */
		case 'G': /* aarch64: tagged stack */
			break;
		default:
			return false; /* the meaning of what follows it is unknown */
		}
	}
	return !d.bad;
}

static enum cfi_result cie_read(const struct uw_section *section, bool debug_frame, uint64_t offset,
				struct cfi_cie *cie)
{
	struct record record;
	struct cursor *c = &record.body;
	const char *augmentation;
	uint64_t id;
	uint8_t version;

	if (record_open(section, offset, &record) != CFI_OK)
		return CFI_BAD;
	id = debug_frame && record.wide ? cursor_u64(c) : cursor_u32(c);
	if (id != (!debug_frame ? 0 : record.wide ? UINT64_MAX : UINT32_MAX))
		return CFI_BAD;
	*cie = (struct cfi_cie){.pointer_encoding = PE_ABS, .address_size = 8};
	version = cursor_u8(c);
	augmentation = cursor_string(c);
	if (!augmentation || (version != 1 && version != 3 && version != 4))
		return CFI_BAD;
	if (version == 4) {
		cie->address_size = cursor_u8(c);
		if (cursor_u8(c)) /* segment selectors */
			return CFI_BAD;
	}
	if (cie->address_size != 8)
		return CFI_BAD;
	if (!strcmp(augmentation, "eh"))
		(void)cursor_u64(c);
	cie->code_align = cursor_uleb(c);
	cie->data_align = cursor_sleb(c);
	cie->ra_column = version == 1 ? cursor_u8(c) : cursor_uleb(c);
	if (*augmentation == 'z' ? !cie_augmentation(cie, augmentation, c)
				 : *augmentation && strcmp(augmentation, "eh") != 0)
		return CFI_BAD;
	cie->program = c->p;
	cie->program_end = c->end;
	if (c->bad)
		return CFI_BAD;
	cie->is_quick = cfi_quick_cie(cie, &cie->quick);
	return CFI_OK;
}

/* The same, through the cache of CIEs. */
static enum cfi_result cie_get(const struct uw_section *section, bool debug_frame, uint64_t offset,
			       struct cfi_cies *cies, uint32_t serial, struct cfi_cie *cie)
{
	uint64_t key = ((uint64_t)serial << 33 | (uint64_t)debug_frame << 32 | offset) + 1;
	size_t place = key * 0x9e3779b97f4a7c15ull >> 58;
	enum cfi_result result;

	_Static_assert(CFI_CIES == 1 << (64 - 58), "a place is the upper bits of a hash");
	if (!cies || offset > UINT32_MAX || serial > INT32_MAX)
		return cie_read(section, debug_frame, offset, cie);
	if (cies->entries[place].key != key) {
		cies->entries[place].key = 0;
		cies->cies_read++;
		result = cie_read(section, debug_frame, offset, &cies->entries[place].cie);
		if (result != CFI_OK)
			return result;
		cies->entries[place].key = key;
	}
	*cie = cies->entries[place].cie;
	return CFI_OK;
}

/* The form of nearly every FDE: in .eh_frame, of 32 bits, its addresses relative to themselves.
 *
 *   [length u32][CIE, back from here u32][begin s32][size s32][n < 128][n bytes][program]
 *
 * false: another form, or damaged. */
static bool fde_usual(const struct uw_section *section, uint32_t offset, struct cfi_cies *cies,
		      uint32_t serial, struct cfi_fde *fde)
{
	enum { HEAD = 17 };
	const uint8_t *at;
	uint32_t length, back;
	int32_t begin, size;

	if (!section->data || offset >= section->size || section->size - offset < HEAD)
		return false;
	at = section->data + offset;
	memcpy(&length, at, 4);
	memcpy(&back, at + 4, 4);
	memcpy(&begin, at + 8, 4);
	memcpy(&size, at + 12, 4);
	if (length > section->size - offset - 4 || length < HEAD - 4u + at[16] || at[16] > 0x7f ||
	    !back || back > offset + 4ull ||
	    cie_get(section, false, offset + 4ull - back, cies, serial, &fde->cie) != CFI_OK ||
	    fde->cie.pointer_encoding != (PE_PCREL | PE_SDATA4) || !fde->cie.augmented)
		return false;
	fde->begin = section->vaddr + offset + 8 + (uint64_t)(int64_t)begin;
	fde->end = fde->begin + (uint64_t)(int64_t)size;
	fde->program = at + HEAD + at[16];
	fde->program_end = at + 4 + length;
	return size >= 0 && fde->end >= fde->begin;
}

static enum cfi_result fde_any(const struct uw_section *section, bool debug_frame, uint32_t offset,
			       struct cfi_cies *cies, uint32_t serial, struct cfi_fde *fde)
{
	struct record record;
	struct cursor *c = &record.body;
	uint64_t id, id_at, size;
	enum cfi_result result = record_open(section, offset, &record);

	if (result != CFI_OK)
		return result;
	id_at = (uint64_t)(c->p - section->data);
	id = debug_frame && record.wide ? cursor_u64(c) : cursor_u32(c);
	if (id == (!debug_frame ? 0 : record.wide ? UINT64_MAX : UINT32_MAX))
		return CFI_NONE;
	/* .eh_frame: how far back from the field itself; .debug_frame: an offset in the section. */
	if (!debug_frame && id > id_at)
		return CFI_BAD;
	result = cie_get(section, debug_frame, debug_frame ? id : id_at - id, cies, serial,
			 &fde->cie);
	if (result != CFI_OK)
		return result;
	fde->begin = read_pointer(c, fde->cie.pointer_encoding, section->data, section->vaddr);
	size = cfi_pointer(c, fde->cie.pointer_encoding & PE_FORMAT);
	if (fde->cie.augmented)
		(void)cursor_bytes(c, cursor_uleb(c));
	if (c->bad || size > UINT64_MAX - fde->begin)
		return CFI_BAD;
	fde->end = fde->begin + size;
	fde->program = c->p;
	fde->program_end = c->end;
	return CFI_OK;
}

enum cfi_result cfi_fde_read(const struct uw_image *image, bool debug_frame, uint32_t offset,
			     struct cfi_cies *cies, uint32_t serial, struct cfi_fde *fde)
{
	const struct uw_section *section = cfi_section(image, debug_frame);
	enum cfi_result result = CFI_OK;

	if (cies)
		cies->fdes_read++;
	if (debug_frame || !fde_usual(section, offset, cies, serial, fde))
		result = fde_any(section, debug_frame, offset, cies, serial, fde);
	if (result != CFI_OK)
		return result;
	fde->machine = uw_machine_of(image->arch);
	fde->section = section->data;
	fde->section_vaddr = section->vaddr;
	return fde->cie.ra_column < fde->machine->n_regs ? CFI_OK : CFI_BAD;
}

/* ---- the index ----
 *
 * An entry has 24 bytes and an FDE at least 16, so the size of the section bounds that of the index.  Of two FDEs with one begin the
 * later counts (symbols/gopclntab.h). */

static int entry_compare(const void *a, const void *b)
{
	const struct cfi_index_entry *x = a, *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int index_add(struct cfi_index *index, size_t *room, const struct cfi_fde *fde,
		     uint32_t offset)
{
	if (index->n_entries == *room && !array_grow(index->entries, *room, 256))
		return fail(-ENOMEM);
	index->entries[index->n_entries++] = (struct cfi_index_entry){fde->begin, fde->end, offset};
	return 0;
}

int cfi_index_init(struct cfi_index *index, const struct uw_image *image, bool debug_frame)
{
	const struct uw_section *section = debug_frame ? &image->debug_frame : &image->eh_frame;
	size_t offset = 0, next, room = 0;
	struct cfi_cies cies = {0};

	*index = (struct cfi_index){0};
	/* A record of length 0 ends .eh_frame; a damaged record ends the walk, and the records
	 * before it count. */
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
	size_t low = bisect(i, index->n_entries, index->entries[i].begin <= vaddr);

	if (!low || vaddr >= index->entries[low - 1].end)
		return CFI_NONE;
	*ret_offset = index->entries[low - 1].offset;
	return CFI_OK;
}
