/* cfi-table.h - the search table in .eh_frame_hdr: made ready when an image is loaded, searched by the
 * engines.  Thread: any.  Formats: LSB core 5.0 chapter 10. */
#pragma once

#include "base/bytes.h"
#include "symbols/image.h"

/* The result of a search for call frame information, and of running it (unwinder/cfi.h). */
enum cfi_result {
	CFI_OK,
	CFI_NONE,     /* no information about the address */
	CFI_BAD,      /* damaged or unsupported */
	CFI_NEED_REG, /* a register that is not known at this frame */
	CFI_MEMORY,   /* an address that cannot be read */
	CFI_PENDING,  /* the module is not loaded: its rules were kept when it was dropped */
};

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
/* A number in the format of @encoding, without its base. */
uint64_t cfi_pointer(struct cursor *c, uint8_t encoding);

/* Finds the search table of @image, once it is loaded (image.c). */
void cfi_table_init(struct uw_image *image);
/* Is there a search table, and the .eh_frame that it points to? */
static inline bool cfi_has_table(const struct uw_image *image)
{
	return image->table.n && image->eh_frame.data;
}
/* By the search table: the offset in .eh_frame of the FDE that may cover @vaddr (see cfi_fde_read).
 */
enum cfi_result cfi_table_find(const struct uw_image *image, uint64_t vaddr, uint32_t *ret_offset);
/* Prefetch the memory that a search reads first, and then the memory that it reads next: call one
 * after the other. */
void cfi_table_prefetch_slice(const struct uw_image *image, uint64_t vaddr);
void cfi_table_prefetch_entries(const struct uw_image *image, uint64_t vaddr);
