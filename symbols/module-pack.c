/* module-pack.c - a loaded module as bytes for another process of ours: see module.h.
 *
 *   layout      u64 1; block build id; u64 load bias; block segments      (0: none yet)
 *   unwind half u64 1; u64 arch; u64 more; three times u64 vaddr, block section   (0: not loaded)
 *   symbols     u64 1; as symbols.c packs them                            (0: not loaded)
 *
 * The process that packs has parsed a target's file, so what comes from it is believed as little as
 * the file is. */
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "symbols/elf.h"
#include "symbols/parts.h"
#include "symbols/symbols.h"

static void pack_section(struct packer *to, const struct uw_section *section)
{
	packer_u64(to, section->vaddr);
	packer_block(to, section->data, section->size);
}

void uw_module_pack(const struct uw_module *module, struct packer *to)
{
	const struct uw_layout *layout = uw_module_layout(module);
	const struct uw_image *image = uw_module_image(module);
	bool symbols = uw_module_symbol_state(module) == UW_MODULE_READY;

	packer_u64(to, layout != NULL);
	if (layout) {
		packer_block(to, layout->build_id.bytes, layout->build_id.len);
		packer_u64(to, layout->load_bias);
		packer_block(to, layout->segments,
			     layout->n_segments * sizeof(layout->segments[0]));
	}
	packer_u64(to, image != NULL);
	if (image) {
		packer_u64(to, image->arch);
		packer_u64(to, image->more);
		pack_section(to, &image->eh_frame_hdr);
		pack_section(to, &image->eh_frame);
		pack_section(to, &image->debug_frame);
	}
	packer_u64(to, symbols);
	if (symbols)
		uw_symbols_pack(module->symbols, to);
}

/* As module.c takes it from a file: nothing computed from it wraps. */
static bool segment_fits(const struct uw_segment *s)
{
	return s->filesz <= s->memsz && s->offset <= UINT64_MAX / 2 && s->memsz <= UINT64_MAX / 2 &&
	       s->vaddr <= UINT64_MAX - s->memsz;
}

static int unpack_layout(struct cursor *from, struct uw_layout **ret_layout)
{
	struct uw_layout *layout = NULL;
	size_t id_len, len;
	const void *id = cursor_block(from, &id_len), *segments;
	uint64_t bias = cursor_u64(from);

	segments = cursor_block(from, &len);
	if (from->bad || id_len > UW_BUILD_ID_MAX || len % sizeof(layout->segments[0]) ||
	    len / sizeof(layout->segments[0]) > UW_ELF_PHDRS_MAX)
		return fail(-EBADMSG);
	layout = calloc(1, sizeof(*layout) + len);
	if (!layout)
		return fail(-ENOMEM);
	layout->build_id.len = (uint8_t)id_len;
	memcpy(layout->build_id.bytes, id, id_len);
	layout->load_bias = bias;
	layout->n_segments = len / sizeof(layout->segments[0]);
	memcpy(layout->segments, segments, len);
	for (size_t i = 0; i < layout->n_segments; i++) { /* a bool is 0 or 1 */
		uint8_t exec;

		memcpy(&exec, &layout->segments[i].exec, sizeof(exec));
		layout->segments[i].exec = exec != 0;
		if (!segment_fits(&layout->segments[i])) {
			free(layout);
			return fail(-EBADMSG);
		}
	}
	*ret_layout = layout;
	return 0;
}

static int unpack_section(struct cursor *from, struct uw_section *ret_section)
{
	uint64_t vaddr = cursor_u64(from);
	size_t len;
	const void *data = cursor_block(from, &len);

	if (from->bad)
		return fail(-EBADMSG);
	*ret_section = (struct uw_section){.size = len, .vaddr = vaddr};
	if (!len)
		return 0;
	ret_section->data = malloc(len);
	if (!ret_section->data)
		return fail(-ENOMEM);
	memcpy(ret_section->data, data, len);
	return 0;
}

static int unpack_image(struct cursor *from, const struct uw_layout *layout,
			struct uw_image **ret_image)
{
	struct uw_section sections[3] = {0};
	uint64_t arch = cursor_u64(from);
	bool more = cursor_u64(from);
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sections) && r >= 0; i++)
		r = unpack_section(from, &sections[i]);
	if (r >= 0 && arch != UW_ARCH_NONE && arch != UW_ARCH_X86_64 && arch != UW_ARCH_AARCH64)
		r = fail(-EBADMSG);
	if (r >= 0)
		r = layout ? uw_image_of_sections((enum uw_arch)arch, layout, sections, ret_image)
			   : uw_image_new_empty(ret_image);
	if (r >= 0)
		(*ret_image)->more = more;
	for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
		uw_section_deinit(&sections[i]);
	return trace(r);
}

static int unpack_unwind(struct uw_module *module, struct cursor *from,
			 const struct uw_layout *layout, int *file)
{
	struct uw_image *image = NULL;
	int r;

	if (!cursor_u64(from))
		return 0;
	r = unpack_image(from, layout, &image);
	if (r < 0)
		return trace(r);
	if (uw_module_unwind_state(module) == UW_MODULE_READY) {
		(void)uw_image_free(image);
		return 0;
	}
	image->fd = take_fd(*file);
	uw_module_publish_image(module, image, 0);
	return 0;
}

static int unpack_symbols(struct uw_module *module, struct cursor *from)
{
	struct uw_symbols *symbols = NULL;
	int r;

	if (!cursor_u64(from))
		return 0;
	r = uw_symbols_unpack(from, &symbols);
	if (r < 0)
		return trace(r);
	if (uw_module_symbol_state(module) == UW_MODULE_READY)
		(void)uw_symbols_free(symbols);
	else
		uw_module_publish_symbols(module, symbols, 0);
	return 0;
}

int uw_module_unpack(struct uw_module *module, struct cursor *from, int file)
{
	_cleanup_(fd_closep) int copy = file;
	const struct uw_layout *adopted = NULL;
	struct uw_layout *layout = NULL;
	int r = 0;

	if (cursor_u64(from)) {
		r = unpack_layout(from, &layout);
		if (r >= 0)
			r = uw_module_adopt_layout(module, layout, &adopted);
	}
	if (r >= 0)
		r = unpack_unwind(module, from, adopted, &copy);
	if (r >= 0)
		r = unpack_symbols(module, from);
	if (r < 0)
		return trace(r);
	return from->bad ? fail(-EBADMSG) : 0;
}
