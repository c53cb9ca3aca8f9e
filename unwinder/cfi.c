/* cfi.c - see cfi.h.  CIEs, FDEs, and the search table. */
#include "unwinder/cfi.h"

/* DW_EH_PE_*: LSB core 5.0, 10.5.1 */
enum {
	PE_ABS = 0x00,
	PE_ULEB = 0x01,
	PE_UDATA2 = 0x02,
	PE_UDATA4 = 0x03,
	PE_UDATA8 = 0x04,
	PE_SLEB = 0x09,
	PE_SDATA2 = 0x0a,
	PE_SDATA4 = 0x0b,
	PE_SDATA8 = 0x0c,
	PE_FORMAT = 0x0f,
	PE_PCREL = 0x10,
	PE_DATAREL = 0x30,
	PE_APPLY = 0x70,
	PE_INDIRECT = 0x80,
	PE_OMIT = 0xff,
};

static const struct uw_section *cfi_section(const struct uw_image *image, bool debug_frame)
{
	return debug_frame ? &image->debug_frame : &image->eh_frame;
}

static uint64_t read_format(struct cursor *c, uint8_t encoding)
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

/* A pointer at the cursor; what is not absolute or relative to itself is refused. */
static uint64_t read_pointer(struct cursor *c, uint8_t encoding, const uint8_t *section,
			     uint64_t section_vaddr)
{
	uint64_t at = section_vaddr + (uint64_t)(c->p - section);
	uint64_t value = read_format(c, encoding);

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

/* What an augmentation string beginning with 'z' announces. */
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
				(void)read_format(&d, encoding);
			break;
		case 'S':
			cie->signal = true;
			break;
		case 'B': /* aarch64: return addresses signed with the B key */
		case 'G': /* aarch64: tagged stack */
			break;
		default:
			return false; /* what follows it, a pointer encoding too, cannot be told */
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
	return c->bad ? CFI_BAD : CFI_OK;
}

enum cfi_result cfi_fde_read(const struct uw_image *image, bool debug_frame, uint32_t offset,
			     struct cfi_fde *fde)
{
	const struct uw_section *section = cfi_section(image, debug_frame);
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
	result = cie_read(section, debug_frame, debug_frame ? id : id_at - id, &fde->cie);
	if (result != CFI_OK)
		return result;
	fde->machine = uw_machine_of(image->arch);
	if (fde->cie.ra_column >= fde->machine->n_regs)
		return CFI_BAD;
	fde->section = section->data;
	fde->section_size = section->size;
	fde->section_vaddr = section->vaddr;
	fde->begin = read_pointer(c, fde->cie.pointer_encoding, section->data, section->vaddr);
	size = read_format(c, fde->cie.pointer_encoding & PE_FORMAT);
	if (fde->cie.augmented)
		(void)cursor_bytes(c, cursor_uleb(c));
	if (c->bad || size > UINT64_MAX - fde->begin)
		return CFI_BAD;
	fde->end = fde->begin + size;
	fde->program = c->p;
	fde->program_end = c->end;
	return CFI_OK;
}

/* ---- .eh_frame_hdr ---- */

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
		(void)read_format(&c, pointer);
	n = read_format(&c, count);
	if (c.bad || !n)
		return false;
	ret->entries = c.p;
	ret->n = min_u64(n, cursor_left(&c) / 8);
	return ret->n != 0;
}

static int32_t table_word(const struct uw_table *table, size_t i, size_t half)
{
	int32_t word;

	memcpy(&word, table->entries + i * 8 + half * 4, sizeof(word));
	return word;
}

void cfi_table_init(struct uw_image *image)
{
	struct uw_table table = {0};
	size_t n;

	if (!table_open(&image->eh_frame_hdr, &table))
		return;
	n = (table.n + UW_TABLE_STEP - 1) / UW_TABLE_STEP;
	table.coarse = malloc(n * sizeof(*table.coarse)); /* without it the search is slower */
	for (size_t i = 0; table.coarse && i < n; i++)
		table.coarse[i] = table_word(&table, i * UW_TABLE_STEP, 0);
	image->table = table;
}

/* The last of @n values that is at most @want, or 0; no branch to mispredict in the loop. */
static size_t coarse_find(const int32_t *values, size_t n, int64_t want)
{
	size_t at = 0;

	while (n > 1) {
		size_t half = n / 2;

		at = values[at + half] <= want ? at + half : at;
		n -= half;
	}
	return at;
}

/* The last entry that begins at or before the address. */
static size_t table_search(const struct uw_table *table, int64_t want)
{
	size_t at = 0, n = table->n;

	if (table->coarse) {
		at = UW_TABLE_STEP *
		     coarse_find(table->coarse, (n + UW_TABLE_STEP - 1) / UW_TABLE_STEP, want);
		n = min_u64(n - at, UW_TABLE_STEP);
		for (size_t i = 0; i < n; i += 8) /* a line has eight */
			__builtin_prefetch(table->entries + (at + i) * 8);
	}
	while (n > 1) {
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
	offset = hdr->vaddr + (uint64_t)(int64_t)table_word(&image->table, at, 1) -
		 image->eh_frame.vaddr;
	if (offset >= image->eh_frame.size || offset > UINT32_MAX)
		return CFI_BAD;
	*ret_offset = (uint32_t)offset;
	return CFI_OK;
}
