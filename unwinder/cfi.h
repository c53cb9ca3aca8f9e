/* cfi.h - call frame information: finding the entry of an address, and running its program. Private
 * to unwinder/.  Thread: the engine's.
 *
 *   .eh_frame_hdr   [fixed part][initial_location, fde address] * n   sorted: binary search
 *   .eh_frame       [CIE][FDE][FDE] ... [0]                           every FDE names its CIE
 *   .debug_frame    the same with other marks; no search table
 *
 * Where there is no search table, a sorted index of the section is made at its first use and kept.
 * All bytes come from files that may be made to harm us: every read goes through a cursor, every
 * number is checked where it is used.  Formats: LSB core 5.0 chapter 10, DWARF 5 section 6.4. */
#pragma once

#include "symbols/cfi-table.h"
#include "unwinder/regs.h"
#include "unwinder/rule.h"

struct cfi_index_entry {
	uint64_t begin, end;
	uint32_t offset;
};

/* The FDEs of one section, ascending. */
struct cfi_index {
	struct cfi_index_entry *entries;
	size_t n_entries;
};

/* -ENOMEM. */
int cfi_index_init(struct cfi_index *index, const struct uw_image *image, bool debug_frame);
void cfi_index_deinit(struct cfi_index *index);
/* CFI_OK and the offset of an FDE that covers @vaddr, or CFI_NONE. */
enum cfi_result cfi_index_find(const struct cfi_index *index, uint64_t vaddr, uint32_t *ret_offset);

/* x86-64: the part of a row that a packed rule needs (cfi-row.c). */
struct cfi_quick {
	int64_t cfa, bp, ra; /* CFA = register + cfa; saved at CFA + bp and CFA + ra; 0: kept */
	uint32_t cfa_register;
};

struct cfi_cie {
	const uint8_t *program, *program_end;
	uint64_t code_align;
	int64_t data_align;
	uint64_t ra_column;
	uint8_t pointer_encoding; /* of FDEs */
	uint8_t address_size;	  /* .debug_frame */
	bool signal;		  /* 'S' */
	bool augmented;		  /* 'z' */
	bool is_quick;		  /* @quick is the result of its program */
	struct cfi_quick quick;
};

/* CIEs that were read: thousands of FDEs share a few. An entry is valid as long as the sections of
 * its module are loaded; the code that drops them clears it. */
enum { CFI_CIES = 64 };
struct cfi_cies {
	struct {
		uint64_t key; /* 0: empty */
		struct cfi_cie cie;
	} entries[CFI_CIES];
	uint64_t cies_read, fdes_read; /* through these, so far */
};

struct cfi_fde {
	const struct uw_machine *machine;
	struct cfi_cie cie;
	uint64_t begin, end; /* vaddr */
	const uint8_t *program, *program_end;
	uint64_t section_vaddr; /* of section data */
	const uint8_t *section;
};

/* CFI_NONE: a CIE or the end mark stands there.  @cies may be NULL; in it the CIE is known by
 * @serial, the module's. */
enum cfi_result cfi_fde_read(const struct uw_image *image, bool debug_frame, uint32_t offset,
			     struct cfi_cies *cies, uint32_t serial, struct cfi_fde *ret_fde);
/* One record's extent, for walks over a section.  *ret_next is the offset behind it. */
enum cfi_result cfi_record(const struct uw_section *section, uint32_t offset, size_t *ret_next);

enum cfi_where {
	CFI_UNSPECIFIED,
	CFI_UNDEFINED,
	CFI_SAME,
	CFI_OFFSET,	    /* at CFA + value */
	CFI_VAL_OFFSET,	    /* is CFA + value */
	CFI_REGISTER,	    /* in register value */
	CFI_EXPRESSION,	    /* at the address that the expression gives */
	CFI_VAL_EXPRESSION, /* is the result of the expression */
};

struct cfi_reg {
	uint32_t where; /* enum cfi_where */
	uint32_t len;	/* of the expression */
	union {
		int64_t value;
		const uint8_t *expression; /* borrowed from the image */
	};
};

/* DWARF 5, 7.24; from 0x2c on Arm's (aadwarf64, 4.4.1) and GNU's */
enum {
	CFA_ADVANCE_LOC = 0x40, /* upper two bits; the lower six are the operand */
	CFA_OFFSET = 0x80,
	CFA_RESTORE = 0xc0,
	CFA_NOP = 0x00,
	CFA_SET_LOC = 0x01,
	CFA_ADVANCE_LOC1 = 0x02,
	CFA_ADVANCE_LOC2 = 0x03,
	CFA_ADVANCE_LOC4 = 0x04,
	CFA_OFFSET_EXTENDED = 0x05,
	CFA_RESTORE_EXTENDED = 0x06,
	CFA_UNDEFINED = 0x07,
	CFA_SAME_VALUE = 0x08,
	CFA_REGISTER = 0x09,
	CFA_REMEMBER_STATE = 0x0a,
	CFA_RESTORE_STATE = 0x0b,
	CFA_DEF_CFA = 0x0c,
	CFA_DEF_CFA_REGISTER = 0x0d,
	CFA_DEF_CFA_OFFSET = 0x0e,
	CFA_DEF_CFA_EXPRESSION = 0x0f,
	CFA_EXPRESSION = 0x10,
	CFA_OFFSET_EXTENDED_SF = 0x11,
	CFA_DEF_CFA_SF = 0x12,
	CFA_DEF_CFA_OFFSET_SF = 0x13,
	CFA_VAL_OFFSET = 0x14,
	CFA_VAL_OFFSET_SF = 0x15,
	CFA_VAL_EXPRESSION = 0x16,
	CFA_AARCH64_NEGATE_RA_STATE_WITH_PC = 0x2c,
	CFA_AARCH64_NEGATE_RA_STATE = 0x2d,
	CFA_GNU_ARGS_SIZE = 0x2e,
	CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

enum { CFI_PROGRAM_MAX = 1 << 20 };

/* How every register is found at one address. */
struct cfi_row {
	struct cfi_reg cfa; /* CFI_REGISTER: register cfa_register plus value; CFI_VAL_EXPRESSION */
	uint32_t cfa_register;
	bool signal;
	uint8_t ra;			  /* the column of the return address */
	const struct uw_machine *machine; /* only its registers are set below */
	struct cfi_reg regs[DWARF_REGS];
};

/* Runs the FDE's program up to @vaddr.  The address behind the last instruction counts, too. */
enum cfi_result cfi_row_at(const struct cfi_fde *fde, uint64_t vaddr, struct cfi_row *ret_row);

/* The row as a rule; @offset and @debug_frame name its FDE, for a rule that cannot be packed. */
rule_t cfi_rule(const struct cfi_row *row, uint64_t vaddr, uint32_t offset, bool debug_frame);

/* The result of a CIE's program, of any machine. false: it has an operation that is left
 * to cfi_row_at(). */
bool cfi_quick_cie(const struct cfi_cie *cie, struct cfi_quick *ret_quick);
/* The result of cfi_row_at() and cfi_rule(), faster. false: the program has an operation that is
 * left to cfi_row_at(). *ret_ends (may be NULL): the CFI describes epilogues, as the frame has no more
 * than its return address, or a row behind @vaddr releases stack, or there is a whole epilogue
 * before it. */
bool cfi_quick_rule(const struct cfi_fde *fde, uint64_t vaddr, bool *ret_ends, rule_t *ret_rule);

/* Is it a row of a function that returns to a landing pad (_Unwind_RaiseException() and others)?
 * Only these save rax and rdx, or x0 to x3: GCC's __builtin_eh_return. */
bool cfi_saves_landing(const struct cfi_row *row);
/* Is @vaddr, with the row @row, where this function leaves? There GCC's runtime has overwritten the
 * saved registers, the return address included, with the registers of the target frame, and CFI cannot
 * express that.  On x86-64 it ends in a CFA by rcx; from the copy to there are some 130 bytes (GCC
 * 12).  On aarch64 it ends in a row where nothing is saved any more; from the copy to there are 76
 * bytes, or 28 to the function's end, where a jump leads back to the epilogue. */
enum {
	CFI_LANDING_MAX = 160,
	CFI_LANDING_ARM64 = 96,
	CFI_LANDING_LAST = 48,
	CFI_LANDING_PROGRAM = 48, /* bytes at least, for the places of sixteen registers */
};
bool cfi_is_landing(const struct cfi_fde *fde, uint64_t vaddr, const struct cfi_row *row);
