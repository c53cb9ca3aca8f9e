/* cfi-fixture.h - call frame information and modules made by hand.
 *
 *   text  vaddr 0x1000 .. 0x9000, mapped at 0x401000 (CFI_BIAS) if a test does not state otherwise
 *   eh_frame at vaddr 0x10000, eh_frame_hdr at 0xf000, debug_frame at 0 */
#pragma once

#include "tests/unit/cmocka.h"

#include "unwinder/cfi.h"
#include "unwinder/expression.h"
#include "symbols/parts.h"

#define UNUSED __attribute__((unused))

enum {
	EH_FRAME_AT = 0x10000,
	HDR_AT = 0xf000,
	TEXT_AT = 0x1000,
	TEXT_END = 0x9000,
	CFI_BIAS = 0x400000
};

/* DWARF's numbers, written out here again so that the tests do not lean on what they test. */
enum {
	RAX = 0,
	RDX = 1,
	RCX = 2,
	RBX = 3,
	RDI = 5,
	RBP = 6,
	RSP = 7,
	R10 = 10,
	R12 = 12,
	RIP = 16
};
enum {
	DEF_CFA = 0x0c,
	DEF_CFA_REGISTER = 0x0d,
	DEF_CFA_OFFSET = 0x0e,
	DEF_CFA_EXPRESSION = 0x0f,
	DEF_CFA_OFFSET_SF = 0x13,
	EXPRESSION = 0x10
};
enum {
	ADVANCE = 0x40,
	ADVANCE1 = 0x02,
	OFFSET = 0x80,
	RESTORE = 0xc0,
	REMEMBER = 0x0a,
	RECALL = 0x0b,
	UNDEFINED = 0x07,
	SAME = 0x08,
	IN_REGISTER = 0x09,
	OFFSET_SF = 0x11,
	VAL_EXPRESSION = 0x16
};

struct bytes {
	uint8_t b[65536];
	size_t n;
};

UNUSED static void put(struct bytes *to, const void *data, size_t len)
{
	assert_true(to->n + len <= sizeof(to->b));
	memcpy(to->b + to->n, data, len);
	to->n += len;
}
UNUSED static void put8(struct bytes *to, unsigned v)
{
	put(to, &(uint8_t){(uint8_t)v}, 1);
}
UNUSED static void put32(struct bytes *to, uint64_t v)
{
	put(to, &(uint32_t){(uint32_t)v}, 4);
}
UNUSED static void put64(struct bytes *to, uint64_t v)
{
	put(to, &v, 8);
}

/* A record: put32(0) is its length, set at the end after padding with DW_CFA_nop to 4. */
UNUSED static size_t record_begin(struct bytes *to)
{
	size_t at = to->n;

	put32(to, 0);
	return at;
}
UNUSED static void record_end(struct bytes *to, size_t at)
{
	uint32_t len;

	while (to->n % 4)
		put8(to, 0);
	len = (uint32_t)(to->n - at - 4);
	memcpy(to->b + at, &len, 4);
}

/* .eh_frame CIE: version 1, "zR" (or "zRS"), code 1, data -8, ra 16, pcrel sdata4; CFA = rsp + 8,
 * ra at CFA - 8. */
UNUSED static size_t put_cie(struct bytes *to, const char *augmentation)
{
	size_t at = record_begin(to);

	put32(to, 0);
	put8(to, 1);
	put(to, augmentation, strlen(augmentation) + 1);
	put(to, (uint8_t[]){1, 0x78, RIP, 1, 0x1b, DEF_CFA, RSP, 8, OFFSET | RIP, 1}, 10);
	record_end(to, at);
	return at;
}

/* Its FDE for [begin, begin + size). */
UNUSED static size_t put_fde(struct bytes *to, size_t cie, uint64_t begin, uint64_t size,
			     const void *program, size_t len)
{
	size_t at = record_begin(to);

	put32(to, at + 4 - cie);
	put32(to, begin - (EH_FRAME_AT + at + 8));
	put32(to, size);
	put8(to, 0); /* augmentation data */
	put(to, program, len);
	record_end(to, at);
	return at;
}
/* Behind 0x80 bytes: as if there were rows of an epilogue. */
#define EPILOGUE ADVANCE | 0x3f, ADVANCE | 0x3f, ADVANCE | 2, DEF_CFA, RSP, 8
#define PUT_FDE(to, cie, begin, size, ...) \
	put_fde(to, cie, begin, size, (uint8_t[]){__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__}))

/* .eh_frame_hdr: [n] pairs of (vaddr, offset in .eh_frame), ascending. */
UNUSED static void put_hdr(struct bytes *to, size_t n, const uint64_t pairs[][2])
{
	put(to, (uint8_t[]){1, 0x1b, 0x03, 0x3b}, 4);
	put32(to, EH_FRAME_AT - (HDR_AT + 4));
	put32(to, n);
	for (size_t i = 0; i < n; i++) {
		put32(to, pairs[i][0] - HDR_AT);
		put32(to, EH_FRAME_AT + pairs[i][1] - HDR_AT);
	}
}

UNUSED static void section_set(struct uw_section *section, const struct bytes *bytes,
			       uint64_t vaddr)
{
	/* An allocation of its own, to the byte: the sanitizer sees what reads beyond. */
	section->data = malloc(bytes->n ? bytes->n : 1);
	assert_non_null(section->data);
	memcpy(section->data, bytes->b, bytes->n);
	section->size = bytes->n;
	section->vaddr = vaddr;
}

/* Any of the three may be NULL. */
UNUSED static struct uw_image *image_of(const struct bytes *hdr, const struct bytes *eh,
					const struct bytes *debug)
{
	struct uw_image *image;

	assert_int_equal(uw_image_new_empty(&image), 0);
	image->arch = UW_ARCH_X86_64;
	if (hdr)
		section_set(&image->eh_frame_hdr, hdr, HDR_AT);
	if (eh)
		section_set(&image->eh_frame, eh, EH_FRAME_AT);
	if (debug)
		section_set(&image->debug_frame, debug, 0);
	cfi_table_init(image);
	return image;
}

/* A module that is READY with @image, which it owns from here on. */
UNUSED static struct uw_module *module_of(struct uw_image *image)
{
	struct uw_module *module;

	assert_int_equal(uw_module_new(UW_MODULE_FILE, "/made/by/hand", NULL, &module), 0);
	module->image = image;
	atomic_store(&module->unwind_state, UW_MODULE_READY);
	return module;
}
