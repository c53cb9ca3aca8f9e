/* image.c - the unwind half: .eh_frame_hdr, .eh_frame and .debug_frame, as they are.
 *
 * No FDE is looked at here: rules are worked out for sampled addresses only, by the engines.  Of
 * the search table a small index is made (cfi-table.c). .eh_frame is found as at run time,
 * through PT_GNU_EH_FRAME; the section header, where there is one that agrees, only adds the exact
 * size.  Without it the section is taken to reach to the end of its segment: CFI ends itself by a
 * zero length. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "symbols/cfi-table.h"
#include "symbols/debugfile.h"
#include "symbols/elf.h"
#include "symbols/parts.h"

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

/* Rarely needed: one that cannot be had must not cost the .eh_frame. */
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

/* What was stripped off: linkers put no .eh_frame into programs that are built without unwind tables
 * for the run time, and their .debug_frame goes with the debug information. */
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
	if (r < 0)
		return trace(r);
	return trace(load_debug_frame(elf, image));
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
	image->more =
		separate && !all && source->later && uw_debugfile_may_exist(elf, path, source);
	if (elf->fd >= 0 && !source->lone) /* out of descriptors: the native engine does without */
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
