/* parts.h - the inside of a module.  Private to symbols/.
 *
 *   layout   published once by the loader, never changed or dropped: the meaning of an address must
 *            not depend on which halves are in memory
 *   image    the unwind half; published by unwind_state, dropped by the unwinder
 *   symbols  the symbol half; published by symbol_state, dropped by main
 *   lines    libdw's handle; used by the loader only */
#pragma once

#include <stdatomic.h>

#include "symbols/image.h"

struct uw_elf;
struct uw_symbols;
struct uw_lines;

struct uw_layout {
	struct uw_build_id build_id; /* as found; len 0: none */
	uint64_t load_bias;
	size_t n_segments;
	struct uw_segment segments[];
};

struct uw_module {
	_Atomic uint32_t refs;
	uint32_t serial;
	enum uw_module_kind kind;
	struct uw_build_id given_id;
	_Atomic(struct uw_layout *) layout;
	_Atomic(struct uw_jitdump *) jitdump;
	_Atomic int unwind_state, symbol_state; /* enum uw_module_state */
	struct uw_image *image;
	struct uw_symbols *symbols;
	struct uw_lines *lines;
	struct hotspot *vm;		 /* used by the loader only */
	struct interpreter *interpreter; /* the same */
	struct jitdump *dump;		 /* the same */
	_Atomic(struct uw_image *) next_image;
	_Atomic(struct uw_symbols *) next_symbols;
	struct uw_renewal renewal;
	_Atomic bool expects_vm, is_vm, has_jit_cfi, first_cfi;
	enum uw_language language;
	_Atomic bool unresponsive, wants_separate, keeps_file;
	_Atomic size_t unwind_bytes, symbol_bytes, lines_bytes;
	void *entry; /* modules.c, main thread */
	char path[];
};

/* The layout, NULL before the first load. */
static inline const struct uw_layout *uw_module_layout(const struct uw_module *module)
{
	return atomic_load_explicit(&module->layout, memory_order_acquire);
}
static inline bool uw_build_id_equal(const struct uw_build_id *a, const struct uw_build_id *b)
{
	return a->len == b->len && !__builtin_memcmp(a->bytes, b->bytes, a->len);
}

/* ---- image.c ---- */
/* @segments of @layout are borrowed by the image.  @all: with the CFI of a separate debug file. */
int uw_image_new(const struct uw_elf *elf, const struct uw_layout *layout, const char *path,
		 struct uw_source *source, bool all, struct uw_image **ret_image);
/* Of sections that were read already (@sections: eh_frame_hdr, eh_frame, debug_frame; their data is
 * consumed). */
int uw_image_of_sections(enum uw_arch arch, const struct uw_layout *layout,
			 struct uw_section sections[3], struct uw_image **ret_image);

/* For JIT modules: no ELF, no unwind information. */
int uw_image_new_empty(struct uw_image **ret_image);
struct uw_image *uw_image_free(struct uw_image *image);
/* As bytes for another process of ours, and back: checked as foreign bytes.  @layout: of its module; NULL: none.  -EBADMSG, -ENOMEM. */
struct packer;
struct cursor;
void uw_image_pack(const struct uw_image *image, struct packer *to);
int uw_image_unpack(struct cursor *from, const struct uw_layout *layout,
		    struct uw_image **ret_image);
static inline void uw_image_freep(struct uw_image **image)
{
	uw_image_free(*image);
}
