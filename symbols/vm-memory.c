/* vm-memory.c - see vm-memory.h.  The image is read as it lies in memory, so the file is not needed. */
#include <elf.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "symbols/vm-memory.h"

enum {
	PHDRS_MAX = 64,
	DYNAMIC_MAX = 512,
	CHAIN_MAX = 4096,
	NAME_ROOM = 128,
	RENEW_MAX = 12, /* pages read in one request */
	PLACES = 8,	/* where a page may be kept */
	WORD = 8,
};

struct vm_page {
	uint64_t address; /* 0: free */
	size_t len;
	bool stale;
	uint32_t request;   /* that has read it with the watched word; 0: none */
	uint32_t used;	    /* its number among those used since vm_memory_renew(); 0: it was not */
	uint32_t used_then; /* ... before it */
	uint8_t bytes[VM_PAGE];
};

/* ---- pages ---- */

int vm_memory_begin(struct vm_memory *m, struct uw_memory *memory, size_t n_pages)
{
	*m = (struct vm_memory){
		.memory = memory,
		.left = VM_READ_MAX,
		.n_pages = n_pages,
		.pages = calloc(n_pages, sizeof(*m->pages)),
	};
	return m->pages ? 0 : fail(-ENOMEM);
}

void vm_memory_again(struct vm_memory *m, struct uw_memory *memory, uint64_t bytes)
{
	m->memory = memory;
	m->left = bytes;
	m->watched = 0;
	for (size_t i = 0; i < m->n_pages; i++)
		m->pages[i].address = 0;
}

void vm_memory_renew(struct vm_memory *m, struct uw_memory *memory, uint64_t bytes)
{
	bool same = memory == m->memory;

	m->memory = memory;
	m->left = bytes;
	m->n_used = 0;
	m->watched = same ? m->watched : 0;
	for (size_t i = 0; i < m->n_pages; i++) {
		struct vm_page *page = &m->pages[i];

		if (!same || !page->used || page->len < VM_PAGE)
			page->address = 0;
		page->stale = true;
		page->request = 0;
		page->used_then = page->used;
		page->used = 0;
	}
}

void vm_memory_end(struct vm_memory *m)
{
	free(take(m->pages));
	m->memory = NULL;
}

static ssize_t read_some(struct vm_memory *m, uint64_t address, void *to, size_t len)
{
	ssize_t n;

	if (m->left < len || !m->memory)
		return -1;
	m->left -= len;
	n = m->memory->read(m->memory, address, to, len);
	return n > 0 && (size_t)n > len ? -1 : n;
}

static int by_address(const void *left, const void *right)
{
	const struct vm_page *const *a = left, *const *b = right;

	return (*a)->address < (*b)->address ? -1 : (*a)->address > (*b)->address;
}

/* The stale pages that were used first lately, which is where the reader begins.  The others change less.  Returns how many. */
static size_t stale_pages(const struct vm_memory *m, struct vm_page *first,
			  struct vm_page *pages[RENEW_MAX])
{
	size_t n = 1;

	pages[0] = first;
	for (size_t i = 0; i < m->n_pages; i++) {
		struct vm_page *page = &m->pages[i];
		size_t at = n;

		if (!page->address || !page->stale || page == first)
			continue;
		for (; at > 1 && pages[at - 1]->used_then > page->used_then; at--)
			if (at < RENEW_MAX)
				pages[at] = pages[at - 1];
		if (at < RENEW_MAX)
			pages[at] = page;
		n += n < RENEW_MAX;
	}
	return n;
}

/* Reads the stale page @first again, and others with it.  Pages that lie near each other are read right after each other: the
 * process runs on meanwhile.  The watched word is read before and after.  false: nothing was read. */
static bool read_stale(struct vm_memory *m, struct vm_page *first)
{
	struct vm_page *pages[RENEW_MAX];
	struct uw_range ranges[RENEW_MAX + 2];
	uint8_t bytes[RENEW_MAX * VM_PAGE + 2 * WORD], *at = bytes;
	size_t n, k = 0, word = m->watched ? WORD : 0;

	if (!m->memory || !m->memory->read_ranges)
		return false;
	n = stale_pages(m, first, pages);
	qsort(pages, n, sizeof(*pages), by_address);
	if (word)
		ranges[k++] = (struct uw_range){m->watched, word};
	for (size_t i = 0; i < n; i++)
		ranges[k++] = (struct uw_range){pages[i]->address, VM_PAGE};
	if (word)
		ranges[k++] = (struct uw_range){m->watched, word};
	if (m->left < n * VM_PAGE || !m->memory->read_ranges(m->memory, ranges, k, bytes))
		return false;
	m->left -= n * VM_PAGE;
	m->n_requests++;
	at += word;
	for (size_t i = 0; i < n; i++, at += VM_PAGE) {
		memcpy(pages[i]->bytes, at, VM_PAGE);
		pages[i]->stale = false;
		pages[i]->request = word ? m->n_requests : 0;
		if (pages[i]->address == (m->watched & ~(uint64_t)(VM_PAGE - 1))) {
			memcpy(&m->seen[0], bytes, WORD);
			memcpy(&m->seen[1], bytes + WORD + n * VM_PAGE, WORD);
		}
	}
	return true;
}

/* Where the page at @start is kept, or is to be. */
static struct vm_page *place_of(struct vm_memory *m, uint64_t start)
{
	uint64_t first = hash_u64(start);
	struct vm_page *free = NULL;

	for (uint64_t i = 0; i < PLACES; i++) {
		struct vm_page *page = &m->pages[(first + i) % m->n_pages];

		if (page->address == start)
			return page;
		if (!free || (free->address && (!page->address || (page->stale && !free->stale))))
			free = page;
	}
	return free;
}

/* The page of @address; NULL: it cannot be read. */
static const struct vm_page *page_of(struct vm_memory *m, uint64_t address)
{
	uint64_t start = address & ~(uint64_t)(VM_PAGE - 1);
	struct vm_page *page = place_of(m, start);
	ssize_t n;

	if (page->address == start && start && (!page->stale || read_stale(m, page))) {
		page->used = page->used ? page->used : ++m->n_used;
		return page;
	}
	n = read_some(m, start, page->bytes, VM_PAGE);
	page->address = n > 0 ? start : 0;
	page->len = n > 0 ? (size_t)n : 0;
	page->stale = false;
	page->request = 0;
	page->used = ++m->n_used;
	return n > 0 ? page : NULL;
}

static bool is_range(uint64_t address, size_t len)
{
	return address >= VM_PAGE && address < VM_ADDRESS_MAX && len <= VM_ADDRESS_MAX - address;
}

void vm_memory_watch(struct vm_memory *m, uint64_t address)
{
	if (m->watched == address)
		return;
	m->watched = address;
	for (size_t i = 0; i < m->n_pages; i++)
		m->pages[i].request = 0;
}

/* The request with the watched word that has read the page of @address; 0: none. */
static uint32_t request_of(struct vm_memory *m, uint64_t address)
{
	uint64_t start = address & ~(uint64_t)(VM_PAGE - 1);
	const struct vm_page *page = place_of(m, start);

	return start && page->address == start && !page->stale ? page->request : 0;
}

bool vm_memory_watched(struct vm_memory *m, uint64_t address, uint64_t ret_seen[2])
{
	uint32_t request = request_of(m, m->watched);

	if (!request || request != request_of(m, address))
		return false;
	memcpy(ret_seen, m->seen, sizeof(m->seen));
	return true;
}

bool vm_memory_is_address(uint64_t address)
{
	return is_range(address, 1);
}

bool vm_memory_read(struct vm_memory *m, uint64_t address, void *to, size_t len)
{
	uint8_t *at = to;

	if (!is_range(address, len))
		return false;
	while (len) {
		const struct vm_page *page = page_of(m, address);
		size_t skip = address % VM_PAGE, n;

		if (!page || page->len <= skip)
			return false;
		n = min_u64(len, page->len - skip);
		memcpy(at, page->bytes + skip, n);
		at += n;
		address += n;
		len -= n;
	}
	return true;
}

bool vm_memory_read_once(struct vm_memory *m, uint64_t address, void *to, size_t len)
{
	return is_range(address, len) && read_some(m, address, to, len) == (ssize_t)len;
}

bool vm_memory_text(struct vm_memory *m, uint64_t address, char *to, size_t room)
{
	for (size_t i = 0; i + 1 < room; i++) {
		if (!vm_memory_read(m, address + i, &to[i], 1))
			return false;
		if (!to[i])
			return i > 0;
	}
	to[room - 1] = 0;
	return true;
}

/* The bytes of the character at @p, 0: none that may be in a name. */
static size_t char_len(const char *p, size_t left)
{
	const uint8_t *at = (const uint8_t *)p;
	size_t n = *at < 0x80	? 1
		   : *at < 0xc2 ? 0
		   : *at < 0xe0 ? 2
		   : *at < 0xf0 ? 3
		   : *at < 0xf5 ? 4
				: 0;

	if (*at < 0x20 || *at == 0x7f || n > left)
		return 0;
	for (size_t i = 1; i < n; i++)
		if (at[i] >> 6 != 2)
			return 0;
	/* too long a form, surrogates, beyond the last one */
	if ((*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] > 0x9f) ||
	    (*at == 0xf0 && at[1] < 0x90) || (*at == 0xf4 && at[1] > 0x8f))
		return 0;
	return n;
}

bool vm_memory_name(struct vm_memory *m, uint64_t address, uint64_t len, char *to, size_t room)
{
	size_t n = min_u64(len, room - 1), step;

	if (!n || !vm_memory_read(m, address, to, n))
		return false;
	to[n] = 0;
	for (size_t i = 0; i < n; i += step) {
		step = char_len(to + i, n - i);
		if (!step) {
			to[i] = '?';
			step = 1;
		}
	}
	return true;
}

/* ---- exports ---- */

/* A pointer of .dynamic: glibc has added the bias, others have not. */
static uint64_t loaded(const struct vm_exports *x, uint64_t value)
{
	return value < x->bias ? value + x->bias : value;
}

static bool read_dynamic(struct vm_memory *m, uint64_t at, struct vm_exports *x)
{
	Elf64_Dyn entry;

	for (size_t i = 0; i < DYNAMIC_MAX; i++) {
		if (!vm_memory_read(m, at + i * sizeof(entry), &entry, sizeof(entry)))
			return false;
		if (entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag == DT_GNU_HASH)
			x->hash = loaded(x, entry.d_un.d_ptr);
		else if (entry.d_tag == DT_SYMTAB)
			x->symbols = loaded(x, entry.d_un.d_ptr);
		else if (entry.d_tag == DT_STRTAB)
			x->strings = loaded(x, entry.d_un.d_ptr);
	}
	return x->hash && x->symbols && x->strings;
}

/* The first @len bytes of a segment; false: its addresses are not all in a process. */
static bool segment_of(const struct vm_exports *x, const Elf64_Phdr *p, uint64_t len,
		       struct vm_range *ret_range)
{
	uint64_t start = x->bias + p->p_vaddr;

	if (!is_range(start, len))
		return false;
	*ret_range = (struct vm_range){start, start + len};
	return true;
}

bool vm_exports_of(struct vm_memory *m, uint64_t image, struct vm_exports *ret_exports)
{
	struct vm_exports x = {0};
	uint64_t at = 0;
	bool based = false;
	Elf64_Ehdr head;
	Elf64_Phdr p;

	if (!vm_memory_read(m, image, &head, sizeof(head)) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_phentsize != sizeof(p))
		return false;
	for (size_t i = 0; i < head.e_phnum && i < PHDRS_MAX; i++) {
		if (!vm_memory_read(m, image + head.e_phoff + i * sizeof(p), &p, sizeof(p)))
			return false;
		if (p.p_type == PT_LOAD && !based) {
			x.bias = image - (p.p_vaddr - p.p_offset);
			based = true;
		}
		if (p.p_type == PT_LOAD && p.p_flags == PF_R && x.n_constants < VM_CONSTANTS &&
		    segment_of(&x, &p, min_u64(p.p_filesz, VM_CONSTANTS_MAX),
			       &x.constants[x.n_constants]))
			x.n_constants++;
		if (p.p_type == PT_LOAD && p.p_flags & PF_W && !x.data.start)
			(void)segment_of(&x, &p, min_u64(p.p_memsz, VM_DATA_MAX), &x.data);
		if (p.p_type == PT_DYNAMIC)
			at = p.p_vaddr;
		if (p.p_type == PT_GNU_EH_FRAME && based)
			x.eh_frame_hdr = x.bias + p.p_vaddr;
	}
	if (!based || !at || !read_dynamic(m, x.bias + at, &x))
		return false;
	*ret_exports = x;
	return true;
}

/* The hash of .gnu.hash: Bernstein's. */
static uint32_t hash_of(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (uint8_t)*name;
	return h;
}

/* Is symbol @index the export @name? */
static bool is_symbol(struct vm_memory *m, const struct vm_exports *x, uint32_t index,
		      const char *name, Elf64_Sym *ret_symbol)
{
	char text[NAME_ROOM];

	return vm_memory_read(m, x->symbols + (uint64_t)index * sizeof(*ret_symbol), ret_symbol,
			      sizeof(*ret_symbol)) &&
	       vm_memory_text(m, x->strings + ret_symbol->st_name, text, sizeof(text)) &&
	       !strcmp(text, name);
}

/* [n_buckets u32][first u32][n_bloom u32][shift u32][bloom u64 * n][buckets u32 * n][chain u32 ..] */
uint64_t vm_exports_find(struct vm_memory *m, const struct vm_exports *x, const char *name,
			 uint64_t *ret_size)
{
	uint32_t head[4], hash = hash_of(name), index, link;
	uint64_t buckets, chain;
	Elf64_Sym symbol;

	if (!vm_memory_read(m, x->hash, head, sizeof(head)) || !head[0])
		return 0;
	buckets = x->hash + sizeof(head) + 8ull * head[2];
	chain = buckets + 4ull * head[0];
	if (!vm_memory_read(m, buckets + 4ull * (hash % head[0]), &index, 4) || index < head[1])
		return 0;
	for (size_t i = 0; i < CHAIN_MAX; i++, index++) {
		if (!vm_memory_read(m, chain + 4ull * (index - head[1]), &link, 4))
			return 0;
		if ((link | 1) == (hash | 1) && is_symbol(m, x, index, name, &symbol)) {
			if (ret_size)
				*ret_size = symbol.st_size;
			return x->bias + symbol.st_value;
		}
		if (link & 1)
			return 0;
	}
	return 0;
}
