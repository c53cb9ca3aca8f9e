/* hotspot-private.h - the inside of hotspot.h.
 *
 *   hotspot-vm.c    libjvm.so's exports, the layout of the VM's structures
 *   hotspot-cfi.c   unwind rules of one piece of code, and the section of all
 *   hotspot.c       the walk through the code heaps, names of methods, inlined methods */
#pragma once

#include "base/bytes.h"
#include "symbols/hotspot.h"
#include "symbols/vm-memory.h"

/* Fields of the VM's structures, and what each is an offset of. */
enum vm_field {
	VM_HEAPS, /* static: its address */
	VM_LIST_LEN,
	VM_LIST_DATA,
	VM_HEAP_MEMORY,
	VM_HEAP_LOG2,
	VM_SPACE_LOW,
	VM_SPACE_HIGH,
	VM_SPACE_BOUNDARY_LOW,
	VM_SPACE_BOUNDARY_HIGH,
	VM_BLOCK_LENGTH,
	VM_BLOCK_USED,
	VM_BLOB_NAME,
	VM_BLOB_SIZE,
	VM_BLOB_COMPLETE,
	VM_BLOB_FRAME,
	VM_BLOB_BEGIN,
	VM_BLOB_END,
	VM_BLOB_CODE_OFFSET, /* JDK 23 on, instead of BEGIN and END */
	VM_BLOB_DATA_OFFSET,
	VM_NMETHOD_METHOD,
	VM_NMETHOD_LEVEL,
	VM_NMETHOD_SCOPES_DATA, /* an address */
	VM_NMETHOD_PCS,		/* offsets from the blob */
	VM_NMETHOD_DEPENDENCIES,
	VM_NMETHOD_METADATA,
	VM_METHOD_CONST,
	VM_CONST_POOL,
	VM_CONST_NAME,
	VM_POOL_HOLDER,
	VM_KLASS_NAME,
	VM_SYMBOL_LENGTH,
	VM_SYMBOL_BODY,
	VM_CODELETS, /* static: the address of its StubQueue */
	VM_QUEUE_BUFFER,
	VM_QUEUE_BEGIN,
	VM_QUEUE_END,
	VM_CODELET_SIZE,
	VM_CODELET_TEXT,
	VM_MAJOR_VERSION, /* static: its address */
	VM_FIELDS,
};

enum {
	VM_PAGES = 1024, /* kept of one request for all code, */
	VM_INLINED_MAX = 48,
	VM_LINE_PAGES = 64, /* ... for one address */
	VM_TEXT_MAX = 512,  /* bytes of a class name or of a method name */
	VM_BLOBS_MAX = 1 << 18,
	VM_HEAPS_MAX = UW_VM_HEAPS,
	VM_CODE_MAX = 64 << 20, /* bytes of code that are looked at in one request */
};

struct hotspot {
	uint64_t offset[VM_FIELDS];
	uint8_t width[VM_FIELDS]; /* bytes; 0: the VM has no such field */
	uint64_t pool_size;	  /* of a ConstantPool: its entries are behind */
	uint64_t block_size;	  /* of a HeapBlock: the blob is behind */
	uint64_t codelet_size;
	bool dense_numbers; /* JDK 20 on: numbers in streams have no byte 0 */
	struct vm_blob {
		uint64_t start, end, blob;
	} * blobs; /* compiled methods of the last hotspot_code(), ascending */
	size_t n_blobs, blobs_room;
	/* of the request in hand */
	struct vm_memory memory;
};

/* ---- hotspot-vm.c ---- */
int vm_begin(struct hotspot *vm, struct uw_memory *memory, size_t n_pages);
void vm_end(struct hotspot *vm);
/* false: not all of it can be read. */
bool vm_read(struct hotspot *vm, uint64_t address, void *to, size_t len);
/* The same without keeping pages: for code. */
bool vm_read_code(struct hotspot *vm, uint64_t address, void *to, size_t len);
/* A field of the structure at @base, unsigned or sign-extended from its width; 0: the VM has none, or it cannot be
 * read. */
uint64_t vm_get(struct hotspot *vm, uint64_t base, enum vm_field field);
int64_t vm_get_signed(struct hotspot *vm, uint64_t base, enum vm_field field);
/* A pointer that leads into the process, or 0. */
uint64_t vm_pointer(struct hotspot *vm, uint64_t base, enum vm_field field);
/* The text at @address with its NUL, cut at @room - 1; false: none. */
bool vm_text(struct hotspot *vm, uint64_t address, char *to, size_t room);

/* ---- hotspot-cfi.c ---- */
enum vm_kind {
	VM_COMPILED, /* frame_size is exact behind the prologue */
	VM_STUB,     /* the same, without a prologue that is known */
	VM_LEAF,     /* the return address is on top of the stack */
	VM_FP,	     /* stubs: frame pointers, or code that has to be looked at */
	VM_ADAPTER,  /* moves arguments between compiled and interpreted code */
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
