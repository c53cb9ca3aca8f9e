/* vm-memory.h - the memory of a process with an interpreter or a virtual machine, in pages, and the exports of its
 * library as it lies there.  Private to symbols/ and unwinder/.  Thread: any; an object belongs to one.
 *
 * The process is not trusted: each read is checked, and one request reads VM_READ_MAX bytes at most. */
#pragma once

#include "symbols/module.h"

enum { VM_PAGE = 4096, VM_CONSTANTS = 4 };
#define VM_CONSTANTS_MAX (64ull << 20) /* bytes of a segment of read-only data */
#define VM_DATA_MAX (4ull << 20)       /* the same of data that is written */
#define VM_READ_MAX (256ull << 20)     /* bytes that one request reads */
#define VM_ADDRESS_MAX (1ull << 47)

struct vm_memory {
	struct uw_memory *memory; /* borrowed until vm_memory_end() */
	struct vm_page *pages;
	size_t n_pages;
	uint64_t left;	  /* bytes that may be read */
	uint64_t watched; /* vm_memory_watch(); 0: none */
	uint64_t seen
		[2]; /* the word there at the begin and the end of the request that has read its page */
	uint32_t n_used; /* pages since vm_memory_renew() */
	uint32_t n_requests;
};
/* Keeps @n_pages pages.  -ENOMEM. */
int vm_memory_begin(struct vm_memory *m, struct uw_memory *memory, size_t n_pages);
void vm_memory_end(struct vm_memory *m);
/* Forgets the pages: from now on those of @memory are read, @bytes at most.  After vm_memory_begin(). */
void vm_memory_again(struct vm_memory *m, struct uw_memory *memory, uint64_t bytes);
/* The same, but of the same memory the pages that were used since the last call are read in one request when the first of
 * these is needed.  In a page that can no longer be read there are zeros then. */
void vm_memory_renew(struct vm_memory *m, struct uw_memory *memory, uint64_t bytes);
/* From the next request for several pages on the word at @address, which the process often changes, is read at its begin and its
 * end, too. */
void vm_memory_watch(struct vm_memory *m, uint64_t address);
/* Was the page of @address read in one request with that of the watched word?  *ret_seen: the word at the begin and the end of that
 * request. */
bool vm_memory_watched(struct vm_memory *m, uint64_t address, uint64_t ret_seen[2]);
/* Can @address be one of the process? */
bool vm_memory_is_address(uint64_t address);
/* false: not all of it can be read. */
bool vm_memory_read(struct vm_memory *m, uint64_t address, void *to, size_t len);
/* The same without keeping pages: for code. */
bool vm_memory_read_once(struct vm_memory *m, uint64_t address, void *to, size_t len);
/* The text at @address with its NUL, cut at @room - 1; false: none. */
bool vm_memory_text(struct vm_memory *m, uint64_t address, char *to, size_t room);
/* The text of @len bytes at @address as a name, cut at @room - 1: bytes that are not printable UTF-8 are replaced by '?'.  false:
 * it is empty or cannot be read. */
bool vm_memory_name(struct vm_memory *m, uint64_t address, uint64_t len, char *to, size_t room);

/* The word, or the 32 bits, at @address; 0: it cannot be read. */
static inline uint64_t vm_word(struct vm_memory *m, uint64_t address)
{
	uint64_t word;

	return vm_memory_read(m, address, &word, sizeof(word)) ? word : 0;
}
static inline uint32_t vm_half(struct vm_memory *m, uint64_t address)
{
	uint32_t half;

	return vm_memory_read(m, address, &half, sizeof(half)) ? half : 0;
}

struct vm_exports {
	uint64_t bias, hash, symbols, strings; /* addresses */
	uint64_t eh_frame_hdr;		       /* the same; 0: none */
	/* Read-only data: loaded segments that are neither written nor executed.  Each range is below VM_ADDRESS_MAX. */
	struct vm_range {
		uint64_t start, end;
	} constants[VM_CONSTANTS];
	size_t n_constants;
	struct vm_range data; /* the first segment that is written */
};
/* The exports of the ELF image that begins at @image.  false: there is none. */
bool vm_exports_of(struct vm_memory *m, uint64_t image, struct vm_exports *ret_exports);
/* The address of the export @name, 0: none.  *ret_size (may be NULL): its size. */
uint64_t vm_exports_find(struct vm_memory *m, const struct vm_exports *x, const char *name,
			 uint64_t *ret_size);
