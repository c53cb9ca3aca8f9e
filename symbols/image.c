/* image.c - see image.h.  The unwind half: .eh_frame_hdr, .eh_frame and .debug_frame, unchanged.
 *
 * No FDE is read here: the engines compute rules for sampled addresses only.  A small index of the
 * search table is made.  .eh_frame is found as at run time, through PT_GNU_EH_FRAME; a section header
 * that agrees only adds the exact size.  Without it the section is taken to reach to the end of its
 * segment: CFI ends itself by a zero length. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "symbols/cfi-table.h"
#include "symbols/debugfile.h"
#include "symbols/elf.h"
#include "symbols/gopclntab.h"
#include "symbols/parts.h"

/* ---- the search table ----
 *
 * A binary search of a table of a hundred thousand entries touches a dozen cache lines that were not
 * used for a while.  So the addresses that it covers are divided into slices of one size, with four
 * entries each on average, and one word a slice holds where in the table it begins.  A search reads
 * that word, and the one or two lines of the table between it and the next:
 *
 *     slices    [0][3][3][9][11] ...         4 bytes for every 4 entries of 8: an eighth more
 *                |  |__|___
 *     entries   [a b c|d e f g h i|j k|...
 */

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

/* In a table that is not sorted, the result is some entry of it. */
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

/* ---- sections ---- */

enum {
	EH_FRAME_MAX =
		128
		<< 20, /* the largest seen in the wild, a 2.8 million row server, is about half */
	EH_HDR_MAX = 64 << 20,
};

/* DW_EH_PE_*: LSB core specification, 10.5.1 */
enum {
	ENC_ABS = 0x00,
	ENC_U2 = 0x02,
	ENC_U4 = 0x03,
	ENC_U8 = 0x04,
	ENC_S2 = 0x0a,
	ENC_S4 = 0x0b,
	ENC_S8 = 0x0c,
	ENC_PCREL = 0x10,
	ENC_DATAREL = 0x30
};

static bool read_encoded(struct cursor *c, uint8_t enc, uint64_t field, uint64_t base,
			 uint64_t *ret_value)
{
	uint64_t v;

	switch (enc & 0x0f) {
	case ENC_ABS:
	case ENC_U8:
	case ENC_S8:
		v = cursor_u64(c);
		break;
	case ENC_U4:
		v = cursor_u32(c);
		break;
	case ENC_S4:
		v = (uint64_t)(int32_t)cursor_u32(c);
		break;
	case ENC_U2:
		v = cursor_u16(c);
		break;
	case ENC_S2:
		v = (uint64_t)(int16_t)cursor_u16(c);
		break;
	default:
		return false;
	}
	switch (enc & 0xf0) {
	case 0:
		break;
	case ENC_PCREL:
		v += field;
		break;
	case ENC_DATAREL:
		v += base;
		break;
	default:
		return false;
	}
	*ret_value = v;
	return !c->bad;
}

/* u8 version (1), u8 encodings of: .eh_frame pointer, count, table; then the pointer */
static bool eh_frame_address(const struct uw_section *hdr, uint64_t *ret_vaddr)
{
	struct cursor c = cursor_of(hdr->data, hdr->size);
	uint8_t version = cursor_u8(&c), enc = cursor_u8(&c);

	(void)cursor_u16(&c);
	return !c.bad && version == 1 &&
	       read_encoded(&c, enc, hdr->vaddr + 4, hdr->vaddr, ret_vaddr);
}

static int load_eh_frame(const struct uw_elf *elf, struct uw_image *image)
{
	const Elf64_Shdr *section = uw_elf_section(elf, ".eh_frame");
	const Elf64_Phdr *load;
	uint64_t vaddr, room;

	if (section && section->sh_type == SHT_NOBITS)
		section = NULL;
	if (!image->eh_frame_hdr.data || !eh_frame_address(&image->eh_frame_hdr, &vaddr)) {
		if (!section)
			return 0;
		return trace(uw_elf_load_section(elf, section, EH_FRAME_MAX, &image->eh_frame));
	}
	if (section && vaddr >= section->sh_addr && vaddr - section->sh_addr < section->sh_size)
		return trace(uw_elf_load_section(elf, section, EH_FRAME_MAX, &image->eh_frame));
	load = uw_elf_load_at(elf, vaddr);
	if (!load || vaddr - load->p_vaddr >= load->p_filesz)
		return 0; /* a header that points nowhere: as if there were no .eh_frame */
	room = load->p_filesz - (vaddr - load->p_vaddr);
	return trace(uw_elf_load_vaddr(elf, vaddr, min_u64(room, EH_FRAME_MAX), EH_FRAME_MAX,
				       &image->eh_frame));
}

/* Rarely needed: a failure must not lose the .eh_frame. */
static int load_debug_frame(const struct uw_elf *elf, struct uw_image *image)
{
	const Elf64_Shdr *section = uw_elf_section(elf, ".debug_frame");
	_cleanup_(uw_section_deinit) struct uw_section packed = {0};
	int r = 0;

	if (section && section->sh_type != SHT_NOBITS)
		r = uw_elf_load_section(elf, section, EH_FRAME_MAX, &image->debug_frame);
	else if ((section = uw_elf_section(elf, ".zdebug_frame"))) {
		r = uw_elf_load_section(elf, section, EH_FRAME_MAX, &packed);
		if (r >= 0)
			r = uw_elf_unpack_gnu(&packed, EH_FRAME_MAX, &image->debug_frame);
	}
	return r == -ENOMEM ? trace(r) : 0;
}

/* A stripped .debug_frame: linkers put no .eh_frame into programs that are built without unwind
 * tables, and their .debug_frame moves to the separate debug file. */
static int load_separate(const struct uw_elf *elf, const char *path, struct uw_source *source,
			 struct uw_image *image)
{
	_cleanup_(uw_elf_close) struct uw_elf debug = {.fd = -1};
	_cleanup_(fd_closep) int fd = -1;
	int r = uw_debugfile_open(elf, path, source, &fd);

	if (r == 0)
		r = uw_elf_open_fd(&debug, fd);
	if (r == 0 && debug.arch == elf->arch)
		r = load_debug_frame(&debug, image);
	return r == -ENOMEM ? trace(r) : 0;
}

static int load_sections(const struct uw_elf *elf, struct uw_image *image)
{
	const Elf64_Phdr *hdr = uw_elf_phdr(elf, PT_GNU_EH_FRAME);
	int r;

	if (hdr && hdr->p_filesz) {
		r = uw_elf_load_vaddr(elf, hdr->p_vaddr, hdr->p_filesz, EH_HDR_MAX,
				      &image->eh_frame_hdr);
		if (r < 0)
			return trace(r);
	}
	r = load_eh_frame(elf, image);
	if (r >= 0)
		r = load_debug_frame(elf, image);
	if (r >= 0)
		r = uw_gopclntab_frames(elf, &image->debug_frame);
	return r < 0 ? trace(r) : 0;
}

int uw_image_new_empty(struct uw_image **ret_image)
{
	struct uw_image *image = calloc(1, sizeof(*image));

	if (!image)
		return fail(-ENOMEM);
	image->arch = UW_ARCH_HOST;
	image->fd = -1;
	image->bytes = sizeof(*image);
	*ret_image = image;
	return 0;
}

static void image_finish(struct uw_image *image, enum uw_arch arch, const struct uw_layout *layout)
{
	image->arch = arch;
	image->segments = (struct uw_segment *)layout->segments;
	image->n_segments = layout->n_segments;
	image->load_bias = layout->load_bias;
	if (arch != UW_ARCH_NONE)
		cfi_table_init(image);
	image->bytes += image->eh_frame_hdr.size + image->eh_frame.size + image->debug_frame.size +
			image->table.n_slices * sizeof(*image->table.slices);
}

int uw_image_of_sections(enum uw_arch arch, const struct uw_layout *layout,
			 struct uw_section sections[3], struct uw_image **ret_image)
{
	struct uw_image *image;
	int r;

	r = uw_image_new_empty(&image);
	if (r < 0)
		return trace(r);
	image->eh_frame_hdr = sections[0];
	image->eh_frame = sections[1];
	image->debug_frame = sections[2];
	memset(sections, 0, 3 * sizeof(*sections));
	image_finish(image, arch, layout);
	*ret_image = image;
	return 0;
}

int uw_image_new(const struct uw_elf *elf, const struct uw_layout *layout, const char *path,
		 struct uw_source *source, bool all, struct uw_image **ret_image)
{
	bool separate = elf->fd >= 0 && elf->arch != UW_ARCH_NONE;
	_cleanup_(uw_image_freep) struct uw_image *image = NULL;
	int r;

	r = uw_image_new_empty(&image);
	if (r < 0)
		return trace(r);
	if (elf->arch != UW_ARCH_NONE) {
		r = load_sections(elf, image);
		if (r < 0)
			return trace(r);
	}
	separate &= !image->debug_frame.data;
	if (separate && all) {
		r = load_separate(elf, path, source, image);
		if (r < 0)
			return trace(r);
	}
	image->has_separate =
		separate && !all && source->later && uw_debugfile_may_exist(elf, path, source);
	if (elf->fd >= 0 &&
	    !source->no_duplicate) /* out of descriptors: the native engine does without */
		image->fd = fcntl(elf->fd, F_DUPFD_CLOEXEC, 3);
	image_finish(image, elf->arch, layout);
	*ret_image = take(image);
	return 0;
}

struct uw_image *uw_image_free(struct uw_image *image)
{
	if (!image)
		return NULL;
	uw_section_deinit(&image->eh_frame_hdr);
	uw_section_deinit(&image->eh_frame);
	uw_section_deinit(&image->debug_frame);
	free(image->table.slices);
	fd_close(image->fd);
	free(image);
	return NULL;
}

/* ---- to another process ---- */

static void pack_section(struct packer *to, const struct uw_section *section)
{
	packer_u64(to, section->vaddr);
	packer_block(to, section->data, section->size);
}

void uw_image_pack(const struct uw_image *image, struct packer *to)
{
	packer_u64(to, image->arch);
	packer_u64(to, image->has_separate);
	pack_section(to, &image->eh_frame_hdr);
	pack_section(to, &image->eh_frame);
	pack_section(to, &image->debug_frame);
	packer_block(to, &image->vm, sizeof(image->vm));
	packer_block(to, &image->python, sizeof(image->python));
	packer_block(to, &image->script, sizeof(image->script));
}

static int unpack_section(struct cursor *from, struct uw_section *ret_section)
{
	uint64_t vaddr = cursor_u64(from);
	size_t len;
	const void *data = cursor_block(from, &len);

	if (from->bad)
		return fail(-EBADMSG);
	*ret_section = (struct uw_section){.size = len, .vaddr = vaddr, .unshared = true};
	if (!len)
		return 0;
	ret_section->data = unshared_new(len);
	if (!ret_section->data)
		return fail(-ENOMEM);
	memcpy(ret_section->data, data, len);
	return 0;
}

static int unpack_vm(struct cursor *from, struct uw_vm_code *ret_vm)
{
	size_t len;
	const void *p = cursor_block(from, &len);

	if (!p || len != sizeof(*ret_vm))
		return fail(-EBADMSG);
	memcpy(ret_vm, p, len);
	return ret_vm->n_heaps > UW_VM_HEAPS ? fail(-EBADMSG) : 0;
}

static int unpack_python(struct cursor *from, struct uw_python *ret_python)
{
	size_t len;
	const void *p = cursor_block(from, &len);
	uint8_t flags[2];

	if (!p || len != sizeof(*ret_python))
		return fail(-EBADMSG);
	memcpy(flags, (const uint8_t *)p + offsetof(struct uw_python, has_frame), sizeof(flags));
	if (flags[0] > 1 || flags[1] > 1) /* a bool is 0 or 1 */
		return fail(-EBADMSG);
	memcpy(ret_python, p, len);
	return uw_python_fits(ret_python) ? 0 : fail(-EBADMSG);
}

static int unpack_script(struct cursor *from, struct uw_script *ret_script)
{
	size_t len;
	const void *p = cursor_block(from, &len);

	if (!p || len != sizeof(*ret_script))
		return fail(-EBADMSG);
	memcpy(ret_script, p, len);
	return uw_script_fits(ret_script) ? 0 : fail(-EBADMSG);
}

int uw_image_unpack(struct cursor *from, const struct uw_layout *layout,
		    struct uw_image **ret_image)
{
	struct uw_section sections[3] = {0};
	struct uw_vm_code vm = {.n_heaps = 0};
	struct uw_python python = {.version = 0};
	struct uw_script script = {.version = 0};
	uint64_t arch = cursor_u64(from);
	bool more = cursor_u64(from);
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sections) && r >= 0; i++)
		r = unpack_section(from, &sections[i]);
	if (r >= 0)
		r = unpack_vm(from, &vm);
	if (r >= 0)
		r = unpack_python(from, &python);
	if (r >= 0)
		r = unpack_script(from, &script);
	if (r >= 0 && arch != UW_ARCH_NONE && arch != UW_ARCH_X86_64 && arch != UW_ARCH_AARCH64)
		r = fail(-EBADMSG);
	if (r >= 0)
		r = layout ? uw_image_of_sections((enum uw_arch)arch, layout, sections, ret_image)
			   : uw_image_new_empty(ret_image);
	if (r >= 0) {
		(*ret_image)->has_separate = more;
		(*ret_image)->vm = vm;
		(*ret_image)->python = python;
		(*ret_image)->script = script;
	}
	for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
		uw_section_deinit(&sections[i]);
	return trace(r);
}
