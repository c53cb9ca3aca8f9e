/* hotspot-cfi.h - unwind rules of the code of a Java VM: of one piece of code, and the section of all.  Private to
 * symbols/. */
#pragma once

#include "base/bytes.h"
#include "symbols/image.h"

enum vm_kind {
	VM_COMPILED, /* frame_size is exact behind the prologue */
	VM_STUB,     /* the same, without a prologue that is known */
	VM_LEAF,     /* the return address is on top of the stack */
	VM_FP,	     /* stubs: frame pointers, or code that has to be looked at */
	VM_BARRIER, /* the same, with those of virtual threads; frame: that of the code that entered the thread */
	VM_ADAPTER, /* moves arguments between compiled and interpreted code */
	VM_INTERPRETER,
};

struct vm_code {
	enum vm_kind kind;
	uint64_t start, end;
	uint32_t frame;	      /* bytes, return address included */
	uint32_t complete;    /* the frame is there from this offset on */
	bool native;	      /* the wrapper of a native method: it ends in leave */
	const uint8_t *bytes; /* end - start bytes; NULL: not read */
};

/* The section of all code, ascending or not. */
struct vm_cfi {
	struct buffer frames;
	struct vm_fde {
		uint64_t start;
		uint32_t offset;
	} * fdes;
	size_t n_fdes, room;
	uint64_t base; /* the section's vaddr */
	uint32_t cie[2];
	/* of the FDE in hand */
	size_t fde_at;
	uint64_t at;
	bool bad;
};
void vm_cfi_init(struct vm_cfi *cfi, uint64_t base);
void vm_cfi_deinit(struct vm_cfi *cfi);
void vm_cfi_add(struct vm_cfi *cfi, const struct vm_code *code);
/* For the interpreter: the entry of a method at [@start, @end) with its code, and the code of all others. */
void vm_cfi_add_codelet(struct vm_cfi *cfi, const struct vm_code *code, bool entry);
/* .eh_frame_hdr and .eh_frame.  -ENOMEM. */
int vm_cfi_finish(struct vm_cfi *cfi, struct uw_section sections[3]);
