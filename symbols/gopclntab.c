/* gopclntab.c - see gopclntab.h.
 *
 * go build -ldflags "-s -w" leaves no symbols, but the runtime needs names for its own stack traces.
 * The table (src/runtime/symtab.go and src/debug/gosym/pclntab.go of Go; words have 8 bytes here):
 *
 *   header     u32 magic; u8 0, 0, quantum of instructions, size of a word
 *     1.2      word functions; then at once the list
 *     1.16     word functions, files; offsets of names, units, files, pc data, functions
 *     1.18 on  the same, with a word for the address of runtime.text behind the files
 *   list       for each function its pc and the offset of its entry; then the pc of the end.
 *              1.2 and 1.16: words, pcs are addresses.  1.18 on: u32, pcs count from runtime.text
 *   entry      pc as in the list (1.18 on: u32), i32 offset of the name; more that is not read
 *
 * Offsets of entries count from the table (1.2) or from the list, offsets of names from the table (1.2)
 * or from the names.  1.20 differs from 1.18 by its magic number alone.
 *
 * Behind the head of a function's entry (src/runtime/runtime2.go, type _func; offsets from the list):
 *
 *     16 pcsp, 20 pcfile, 24 pcln, 28 npcdata, 32 unit, [1.20 on: 36 startLine,] 4 bytes of which the last is nfuncdata,
 *     u32 pcdata[npcdata], u32 funcdata[nfuncdata]
 *
 * pcfile, pcln and pcdata[2] (the index into the tree of inlined calls) lead to values by pc: pairs of a difference to the
 * value, zigzag, and of bytes of code, both LEB128, from -1 at the function's start; a difference of 0 ends them.
 * A file's number leads through units[unit + number] to its name.
 *
 * funcdata[3] is the tree, an offset from go:func.*, the address of which is in the runtime's moduledata:
 *
 *     1.18  i16 parent, u8, u8, i32 file, line (of the call), name, parentPc
 *     1.20  u8, 3 bytes, i32 name, parentPc, startLine: the call is at parentPc of the function */
#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "symbols/gopclntab.h"

enum {
	DATA_MAX = 128 << 20,
	RELOCATIONS_MAX = 64 << 20,
	WORD = 8,
	PCDATA_INLINED = 2,
	FUNCDATA_INLINED = 3,
	MODULE_DATA_MAX = 16 << 20, /* where moduledata is searched */
	TREES_MAX = 64 << 20,
	DEPTH_MAX = 64,
	PAIRS_MAX = 1 << 20,
	TEXT_WORD = 22, /* of moduledata, from its pointer to the table on */
};

enum {
	GO_1_2 = 0xfb,
	GO_1_16 = 0xfa,
	GO_1_18 = 0xf0,
	GO_1_20 = 0xf1,
};

/* The table and its parts, as above. */
struct gopclntab {
	const uint8_t *data;
	size_t len;
	uint64_t vaddr; /* of the table */
	uint8_t version;
	uint64_t n, text, names, list;
	uint64_t units, files, values; /* 1.18 on: file numbers, file names, values by pc */
};

/* ---- the table ---- */

/* Little-endian, @size of 1 to 8. */
static bool table_read(const struct gopclntab *t, uint64_t at, size_t size, uint64_t *ret)
{
	*ret = 0;
	if (at > t->len || t->len - at < size)
		return false;
	memcpy(ret, t->data + at, size);
	return true;
}

static bool is_header(const uint8_t *p)
{
	bool known = p[0] == GO_1_2 || p[0] == GO_1_16 || p[0] == GO_1_18 || p[0] == GO_1_20;

	return known && p[1] == 0xff && p[2] == 0xff && p[3] == 0xff && !p[4] && !p[5] &&
	       (p[6] == 1 || p[6] == 2 || p[6] == 4) && p[7] == WORD;
}

static bool has_offsets(const struct gopclntab *t)
{
	return t->version == GO_1_18 || t->version == GO_1_20;
}

/* Fills in what follows data, len and vaddr.  false: not a table of a known version. */
static bool table_header(struct gopclntab *t)
{
	uint64_t words[8];
	size_t shift;

	if (t->len < WORD || !is_header(t->data))
		return false;
	t->version = t->data[0];
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (!table_read(t, WORD + i * WORD, WORD, &words[i]))
			words[i] = UINT64_MAX;
	t->n = words[0];
	shift = has_offsets(t);
	t->text = shift ? words[2] : 0;
	t->units = shift ? words[4] : 0;
	t->files = shift ? words[5] : 0;
	t->values = shift ? words[6] : 0;
	t->names = t->version == GO_1_2 ? 0 : words[2 + shift];
	t->list = t->version == GO_1_2 ? 2 * WORD : words[6 + shift];
	return t->n && t->n <= UW_SYMBOLS_MAX && t->names < t->len && t->list < t->len;
}

/* In a program without a fixed place the loader writes the address of runtime.text: then it is the
 * addend of a relocation, or, as nearly always, the start of .text. */
static int find_text(struct gopclntab *t, const struct uw_elf *elf)
{
	const Elf64_Shdr *rela = uw_elf_section(elf, ".rela.dyn"),
			 *text = uw_elf_section(elf, ".text");
	_cleanup_(uw_section_deinit) struct uw_section list = {0};
	int r;

	if (t->text || !has_offsets(t))
		return 0;
	t->text = text ? text->sh_addr : 0;
	if (!rela || rela->sh_type != SHT_RELA)
		return 0;
	r = uw_elf_load_section(elf, rela, RELOCATIONS_MAX, &list);
	if (r < 0)
		return r == -ENOMEM ? trace(r) : 0;
	for (size_t i = 0; i + sizeof(Elf64_Rela) <= list.size; i += sizeof(Elf64_Rela)) {
		Elf64_Rela entry;

		memcpy(&entry, list.data + i, sizeof(entry));
		if (entry.r_offset == t->vaddr + 3 * WORD) {
			t->text = (uint64_t)entry.r_addend;
			break;
		}
	}
	return 0;
}

/* Entry @i of the list.  The one behind the last has the end of the last function. */
static bool table_entry(const struct gopclntab *t, uint64_t i, uint64_t *ret_pc,
			uint64_t *ret_entry)
{
	size_t size = has_offsets(t) ? 4 : WORD;

	*ret_entry = 0;
	return table_read(t, t->list + i * 2 * size, size, ret_pc) &&
	       (i == t->n || table_read(t, t->list + i * 2 * size + size, size, ret_entry));
}

static bool read_number(const struct gopclntab *t, uint64_t *at, uint32_t *ret)
{
	uint64_t byte;

	*ret = 0;
	for (unsigned shift = 0; shift < 32; shift += 7) {
		if (!table_read(t, (*at)++, 1, &byte))
			return false;
		*ret |= (uint32_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return true;
	}
	return false;
}

/* ---- names ---- */

static const char *name_of(const struct gopclntab *t, uint64_t entry, size_t *ret_len)
{
	uint64_t from = t->version == GO_1_2 ? 0 : t->list, name;

	if (entry > t->len ||
	    !table_read(t, from + entry + (has_offsets(t) ? 4 : WORD), 4, &name) ||
	    name >= t->len - t->names)
		return NULL;
	name += t->names;
	*ret_len = strnlen((const char *)t->data + name,
			   min_u64(t->len - name, UW_SYMBOL_NAME_MAX + 1));
	return (const char *)t->data + name;
}

static int add_functions(void *arg, const struct gopclntab *t)
{
	struct uw_symbols_builder *b = arg;
	uint64_t pc, entry, next, next_entry;
	size_t before = b->n;

	if (!table_entry(t, 0, &pc, &entry))
		return 0;
	for (uint64_t i = 0; i < t->n; i++, pc = next, entry = next_entry) {
		const char *name;
		size_t len;
		int r;

		if (!table_entry(t, i + 1, &next, &next_entry) || next < pc)
			break;
		name = name_of(t, entry, &len);
		if (!name || next == pc)
			continue;
		r = uw_symbols_add(b, t->text + pc, next - pc, name, len,
				   UW_RANK_GLOBAL | UW_RANK_FUNCTION);
		if (r < 0)
			return trace(r);
	}
	return b->n != before;
}

/* ---- the place of the table ---- */

/* What is made of a table: 1: something; 0: nothing; -ENOMEM. */
typedef int (*use_table)(void *arg, const struct gopclntab *t);

static int try_table(const struct uw_elf *elf, const struct uw_section *section, size_t at,
		     use_table use, void *arg)
{
	struct gopclntab t = {.data = section->data + at,
			      .len = section->size - at,
			      .vaddr = section->vaddr + at};
	int r;

	if (!table_header(&t))
		return 0;
	r = find_text(&t, elf);
	return r < 0 ? trace(r) : use(arg, &t);
}

/* A C linker puts the table somewhere into .data.rel.ro, at a multiple of 32. */
static int search_data(const struct uw_elf *elf, use_table use, void *arg)
{
	const Elf64_Shdr *shdr = uw_elf_section(elf, ".data.rel.ro");
	_cleanup_(uw_section_deinit) struct uw_section section = {0};
	int r;

	if (!shdr ||
	    (!uw_elf_section(elf, ".go.buildinfo") && !uw_elf_section(elf, ".note.go.buildid")))
		return 0;
	r = uw_elf_load_section(elf, shdr, DATA_MAX, &section);
	if (r < 0)
		return r == -ENOMEM ? trace(r) : 0;
	r = 0;
	for (size_t at = -section.vaddr & 31; at + WORD <= section.size && r == 0; at += 32)
		if (is_header(section.data + at))
			r = try_table(elf, &section, at, use, arg);
	return r;
}

static int find_table(const struct uw_elf *elf, use_table use, void *arg)
{
	static const char *const names[] = {".gopclntab", ".data.rel.ro.gopclntab"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const Elf64_Shdr *shdr = uw_elf_section(elf, names[i]);
		_cleanup_(uw_section_deinit) struct uw_section section = {0};
		int r;

		if (!shdr)
			continue;
		r = uw_elf_load_section(elf, shdr, GOPCLNTAB_MAX, &section);
		if (r >= 0)
			r = try_table(elf, &section, 0, use, arg);
		return r == -ENOMEM ? trace(r) : r > 0;
	}
	return search_data(elf, use, arg);
}

int uw_gopclntab_add(struct uw_symbols_builder *b, const struct uw_elf *elf)
{
	int r = find_table(elf, add_functions, b);

	return r < 0 ? trace(r) : 0;
}

/* ---- frames ----
 *
 * pcsp has the size of the frame without the return address.  Go's linker (writeframes() of cmd/link/internal/ld/dwarf.go)
 * writes for each change DW_CFA_def_cfa_offset_sf and an advance, below one CIE.
 *
 * Four functions of the runtime go to the thread's own stack and call a function there, which neither the tables nor the linker's
 * .debug_frame state.  They are the first frame of that stack, so their return address is undefined from the switch on.  (Of
 * processes with readable memory the unwinder sees it by the code, see unwinder/code.h.) */

enum {
	FRAMES_MAX = 64 << 20,
	CHANGES_MAX = 16 << 20, /* of all functions: these can share their values */
	PCSP_AT = 16,
	CFA_DEF_OFFSET_SF = 0x13,
	CFA_OFFSET_EXTENDED = 5,
	CFA_UNDEFINED = 7,
	REG_RA = 16,
	SWITCH_MAX = 1024, /* bytes of a function of this kind */
	CFA_ADVANCE_1 = 2,
	CFA_ADVANCE_2,
	CFA_ADVANCE_4,
	FRAME_BYTES_MAX = 1 << 30,
};

static const uint8_t go_cie[] = {
	16,   0,  0, 0,	   0xff, 0xff, 0xff, 0xff, /* length, CIE */
	3,    0,  1, 0x7c, 16, /* version, augmentation, factors 1 and -4, return address */
	0x0c, 7,  8,	       /* CFA = rsp + 8 */
	0x05, 16, 2,	       /* it is at CFA - 8 */
	0,
};

struct frames {
	const struct uw_elf *elf;
	struct buffer b;
	uint32_t
		cie; /* its offset; not 0: behind a .debug_frame, for the functions that switch stacks */
	size_t changes;
	bool bad; /* too much */
};

static void frames_deinit(struct frames *f)
{
	buffer_deinit(&f->b);
}

static void put_bytes(struct frames *f, uint64_t value, size_t size)
{
	buffer_append(&f->b, &value, size);
	f->bad |= f->b.bad || f->b.len > FRAMES_MAX;
}

static void put_offset(struct frames *f, uint32_t size)
{
	int64_t value = -((int64_t)size + WORD) / 4;

	put_bytes(f, CFA_DEF_OFFSET_SF, 1);
	for (; value < -64; value >>= 7)
		put_bytes(f, (uint64_t)(value & 0x7f) | 0x80, 1);
	put_bytes(f, (uint64_t)value & 0x7f, 1);
}

static void put_advance(struct frames *f, uint64_t bytes)
{
	if (bytes < 0x40) {
		put_bytes(f, 0x40 | bytes, 1);
	} else {
		size_t size = bytes <= 0xff ? 1 : bytes <= 0xffff ? 2 : 4;

		put_bytes(f,
			  size == 1   ? CFA_ADVANCE_1
			  : size == 2 ? CFA_ADVANCE_2
				      : CFA_ADVANCE_4,
			  1);
		put_bytes(f, bytes, size);
	}
}

/* Where a function is on the thread's own stack: offsets. */
struct away {
	uint64_t from, to;
};
static const struct away never = {UINT64_MAX, UINT64_MAX};

/* An advance from @here by @bytes; the return address is undefined in @away. */
static void put_row(struct frames *f, uint64_t here, uint64_t bytes, const struct away *away)
{
	uint64_t end = here + bytes;

	if (away->from >= here && away->from < end) {
		put_advance(f, away->from - here);
		put_bytes(f, CFA_UNDEFINED, 1);
		put_bytes(f, REG_RA, 1);
		here = away->from;
	}
	if (away->to >= here && away->to < end) {
		put_advance(f, away->to - here);
		put_bytes(f, CFA_OFFSET_EXTENDED, 1);
		put_bytes(f, REG_RA, 1);
		put_bytes(f, 2, 1);
		here = away->to;
	}
	put_advance(f, end - here);
}

/* The changes of a function of @bytes bytes, padding included.  Returns its bytes without it, 0: there are none. */
static uint64_t put_changes(struct frames *f, const struct gopclntab *t, uint64_t entry,
			    uint64_t bytes, const struct away *away)
{
	uint32_t size = UINT32_MAX, delta, n;
	uint64_t at, here = 0;

	if (!table_read(t, t->list + entry + PCSP_AT, 4, &at) || !at || at > t->len)
		return 0;
	at += t->values;
	while (here < bytes && f->changes++ < CHANGES_MAX && !f->bad) {
		if (!read_number(t, &at, &delta) || (!delta && here) || !read_number(t, &at, &n) ||
		    !n)
			break;
		size += delta & 1 ? ~(delta >> 1) : delta >> 1;
		if (size > FRAME_BYTES_MAX)
			return 0;
		n = (uint32_t)min_u64((uint64_t)n * t->data[6], bytes - here);
		put_offset(f, size);
		put_row(f, here, n, away);
		here += n;
	}
	return here;
}

/* Functions that switch stacks (runtime/asm_amd64.s): the instructions behind the switch, and those that go back. */
#define CODE(text) text, sizeof(text) - 1
static const struct {
	const char *name;
	const char *there;
	size_t there_len;
	const char *back; /* NULL: it never does */
	size_t back_len;
} switches[] = {
	/* mov %rdi,%rdx; mov (%rdi),%rdi; call *%rdi; mov 0x38(%rax),%rsp */
	{"runtime.systemstack", CODE("\x48\x89\xfa\x48\x8b\x3f\xff\xd7"), CODE("\x48\x8b\x60\x38")},
	/* push %rax; mov (%rdx),%r12; call *%r12 */
	{"runtime.mcall", CODE("\x50\x4c\x8b\x22\x41\xff\xd4"), NULL, 0},
	/* mov 0x38(%rbx),%rsp: its last byte */
	{"runtime.morestack", CODE("\x63\x38"), NULL, 0},
	/* mov 0x38(%rsi),%rsp: the same; mov %rsi,%rsp */
	{"runtime.asmcgocall", CODE("\x66\x38"), CODE("\x48\x89\xf4")},
	/* and $-16,%rsp, behind a subtraction that Go's CFI does not state: the first function, a root */
	{"runtime.rt0_go", CODE("\x48\x83\xe4\xf0"), NULL, 0},
};

/* false: the function of @bytes bytes is none of these. */
static bool find_switch(const struct frames *f, const struct gopclntab *t, uint64_t pc,
			uint64_t entry, uint64_t bytes, struct away *ret_away)
{
	uint8_t code[SWITCH_MAX];
	const uint8_t *there, *back;
	const char *name;
	size_t len, i;

	name = name_of(t, entry, &len);
	for (i = 0; i < ARRAY_SIZE(switches); i++)
		if (name && len == strlen(switches[i].name) && !memcmp(name, switches[i].name, len))
			break;
	if (i == ARRAY_SIZE(switches) || bytes > sizeof(code) ||
	    uw_elf_read_vaddr(f->elf, t->text + pc, code, bytes) < 0)
		return false;
	there = memmem(code, bytes, switches[i].there, switches[i].there_len);
	if (!there || there == code)
		return false;
	back = switches[i].back ? memmem(there, bytes - (size_t)(there - code), switches[i].back,
					 switches[i].back_len)
				: NULL;
	ret_away->from = (uint64_t)(there - code);
	ret_away->to = back ? (uint64_t)(back - code) + switches[i].back_len : bytes;
	return true;
}

static void put_function(struct frames *f, const struct gopclntab *t, uint64_t pc, uint64_t entry,
			 uint64_t bytes)
{
	struct away away = never;
	size_t start = f->b.len;
	uint32_t len;

	if (!find_switch(f, t, pc, entry, bytes, &away) && f->cie)
		return;
	put_bytes(f, 0, 4); /* length */
	put_bytes(f, f->cie, 4);
	put_bytes(f, t->text + pc, WORD);
	put_bytes(f, 0, WORD); /* bytes */
	bytes = put_changes(f, t, entry, bytes, &away);
	while ((f->b.len - start) % WORD && !f->bad)
		put_bytes(f, 0, 1); /* DW_CFA_nop */
	if (!bytes || f->bad) {
		f->b.len = start;
		return;
	}
	len = (uint32_t)(f->b.len - start - 4);
	memcpy(f->b.data + start, &len, sizeof(len));
	memcpy(f->b.data + start + 8 + WORD, &bytes, sizeof(bytes));
}

static int make_frames(void *arg, const struct gopclntab *t)
{
	struct frames *f = arg;
	uint64_t pc, entry, next, next_entry;

	if (!has_offsets(t) || !table_entry(t, 0, &pc, &entry))
		return 0;
	buffer_append(&f->b, go_cie, sizeof(go_cie));
	f->bad = f->b.bad;
	for (uint64_t i = 0; i < t->n && !f->bad; i++, pc = next, entry = next_entry) {
		if (!table_entry(t, i + 1, &next, &next_entry) || next < pc)
			break;
		if (next > pc && entry <= t->len)
			put_function(f, t, pc, entry, next - pc);
	}
	if (f->b.bad)
		return fail(-ENOMEM);
	return !f->bad && f->b.len > sizeof(go_cie);
}

int uw_gopclntab_frames(const struct uw_elf *elf, struct uw_section *frame)
{
	_cleanup_(frames_deinit) struct frames f = {.elf = elf, .cie = (uint32_t)frame->size};
	uint8_t *more;
	int r;

	if (elf->arch != UW_ARCH_X86_64 || frame->size > FRAMES_MAX)
		return 0;
	r = find_table(elf, make_frames, &f);
	if (r <= 0)
		return r;
	more = realloc(frame->data, frame->size + f.b.len);
	if (!more)
		return fail(-ENOMEM);
	memcpy(more + frame->size, f.b.data, f.b.len);
	frame->data = more;
	frame->size += f.b.len;
	return 1;
}

/* ---- inlined calls and lines ---- */

struct uw_golines {
	struct gopclntab table;
	struct uw_section section, trees; /* trees: from go:func.* on; empty: not found */
};

struct uw_golines *uw_golines_free(struct uw_golines *lines)
{
	if (!lines)
		return NULL;
	uw_section_deinit(&lines->section);
	uw_section_deinit(&lines->trees);
	free(lines);
	return NULL;
}

static void golines_freep(struct uw_golines **lines)
{
	uw_golines_free(*lines);
}

size_t uw_golines_bytes(const struct uw_golines *lines)
{
	return sizeof(*lines) + lines->section.size + lines->trees.size;
}

/* ---- trees of inlined calls ---- */

/* The address of go:func.* out of moduledata, which begins with the address of the table; 0: not found. */
static uint64_t find_trees(const struct gopclntab *t, const struct uw_section *data)
{
	size_t word = t->version == GO_1_20 ? 40 : 38;
	uint64_t value, text;

	for (size_t at = -data->vaddr & 7; at + (word + 1) * 8 <= data->size; at += 8) {
		memcpy(&value, data->data + at, sizeof(value));
		memcpy(&text, data->data + at + TEXT_WORD * 8, sizeof(text));
		if (value == t->vaddr && text == t->text) {
			memcpy(&value, data->data + at + word * 8, sizeof(value));
			return value;
		}
	}
	return 0;
}

static int load_trees(struct uw_golines *g, const struct uw_elf *elf)
{
	static const char *const names[] = {".noptrdata", ".data"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		const Elf64_Shdr *shdr = uw_elf_section(elf, names[i]);
		_cleanup_(uw_section_deinit) struct uw_section data = {0};
		int r = shdr ? uw_elf_load_section(elf, shdr, MODULE_DATA_MAX, &data) : -ENOENT;
		uint64_t vaddr = r < 0 ? 0 : find_trees(&g->table, &data);
		const Elf64_Phdr *load = vaddr ? uw_elf_load_at(elf, vaddr) : NULL;

		if (r == -ENOMEM)
			return trace(r);
		if (!load)
			continue;
		r = uw_elf_load_vaddr(elf, vaddr,
				      min_u64(load->p_vaddr + load->p_filesz - vaddr, TREES_MAX),
				      TREES_MAX, &g->trees);
		return r == -ENOMEM ? trace(r) : 0;
	}
	return 0;
}

int uw_golines_new(const struct uw_elf *elf, struct uw_golines **ret_lines)
{
	const Elf64_Shdr *shdr = uw_elf_section(elf, ".gopclntab");
	_cleanup_(golines_freep) struct uw_golines *g = shdr ? calloc(1, sizeof(*g)) : NULL;
	int r;

	if (!g)
		return shdr ? fail(-ENOMEM) : -ENOENT;
	r = uw_elf_load_section(elf, shdr, GOPCLNTAB_MAX, &g->section);
	if (r < 0)
		return r == -ENOMEM ? trace(r) : -ENOENT;
	g->table = (struct gopclntab){
		.data = g->section.data, .len = g->section.size, .vaddr = g->section.vaddr};
	/* Without an address of runtime.text the program is relocated. */
	if (!table_header(&g->table) || g->table.version == GO_1_2 || g->table.version == GO_1_16 ||
	    !g->table.text)
		return -ENOENT;
	r = load_trees(g, elf);
	if (r < 0)
		return trace(r);
	*ret_lines = take(g);
	return 0;
}

/* ---- a function ---- */

struct function {
	uint64_t entry, pc; /* its offset in the table; its first pc, from runtime.text */
	uint64_t n_pcdata, n_funcdata, unit, data;
};

static bool find_function(const struct gopclntab *t, uint64_t pc, struct function *ret)
{
	uint64_t low = 0, high = t->n, at, entry, head, end, none;

	while (low < high) {
		uint64_t mid = low + (high - low) / 2;

		if (!table_entry(t, mid, &at, &entry))
			return false;
		if (at <= pc)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low || !table_entry(t, low - 1, &at, &entry) || entry > t->len ||
	    !table_entry(t, low, &end, &none) || pc >= end)
		return false;
	entry += t->list;
	head = t->version == GO_1_20 ? 40 : 36;
	*ret = (struct function){.entry = entry, .pc = at, .data = entry + head + 4};
	return table_read(t, entry + 28, 4, &ret->n_pcdata) &&
	       table_read(t, entry + 32, 4, &ret->unit) &&
	       table_read(t, entry + head + 3, 1, &ret->n_funcdata) && ret->n_pcdata <= 255;
}

/* The value at @pc of the ones that @offset leads to; -1: none. */
static int32_t value_at(const struct gopclntab *t, const struct function *f, uint64_t offset,
			uint64_t pc)
{
	uint64_t at = t->values + offset, here = f->pc;
	uint32_t value = UINT32_MAX, delta, bytes;

	if (!offset || offset > t->len)
		return -1;
	for (unsigned i = 0; i < PAIRS_MAX; i++) {
		if (!read_number(t, &at, &delta) || (!delta && i) || !read_number(t, &at, &bytes))
			return -1;
		value += delta & 1 ? ~(delta >> 1) : delta >> 1;
		here += (uint64_t)bytes * t->data[6];
		if (pc < here)
			return (int32_t)value;
	}
	return -1;
}

static int32_t field_at(const struct gopclntab *t, const struct function *f, size_t field,
			uint64_t pc)
{
	uint64_t offset;

	return table_read(t, f->entry + field, 4, &offset) ? value_at(t, f, offset, pc) : -1;
}

/* A text of the table, which ends in it; NULL: none. */
static const char *text_at(const struct gopclntab *t, uint64_t at)
{
	return at < t->len && memchr(t->data + at, 0, t->len - at) && t->data[at]
		       ? (const char *)t->data + at
		       : NULL;
}

static const char *file_name(const struct gopclntab *t, const struct function *f, int32_t file)
{
	uint64_t offset;
	const char *name;

	if (file < 0 || !table_read(t, t->units + (f->unit + (uint32_t)file) * 4, 4, &offset) ||
	    offset > t->len)
		return NULL;
	name = text_at(t, t->files + offset);
	return name && name[0] != '<' ? name : NULL; /* <autogenerated> */
}

/* ---- inlined calls ---- */

/* Field @at of the call @index in the tree of @f. */
static bool read_call(const struct uw_golines *g, const struct function *f, int32_t index,
		      size_t at, size_t size, int32_t *ret)
{
	size_t call = g->table.version == GO_1_20 ? 16 : 20;
	uint64_t tree, from;
	int16_t half;

	if (f->n_funcdata <= FUNCDATA_INLINED || index < 0 ||
	    !table_read(&g->table, f->data + (f->n_pcdata + FUNCDATA_INLINED) * 4, 4, &tree) ||
	    tree == UINT32_MAX)
		return false;
	from = tree + (uint64_t)(uint32_t)index * call + at;
	if (from > g->trees.size || g->trees.size - from < size)
		return false;
	if (size == sizeof(half)) {
		memcpy(&half, g->trees.data + from, sizeof(half));
		*ret = half;
	} else {
		memcpy(ret, g->trees.data + from, sizeof(*ret));
	}
	return true;
}

static int32_t inlined_at(const struct uw_golines *g, const struct function *f, uint64_t pc)
{
	uint64_t offset;

	if (f->n_pcdata <= PCDATA_INLINED ||
	    !table_read(&g->table, f->data + PCDATA_INLINED * 4, 4, &offset))
		return -1;
	return value_at(&g->table, f, offset, pc);
}

struct position {
	uint64_t pc;
	int32_t inlined, file, line;
};

/* From an inlined call to the place that it is at.  *ret_name: of the function that was inlined. */
static bool step_out(const struct uw_golines *g, const struct function *f, struct position *p,
		     int32_t *ret_name)
{
	int32_t pc;

	if (g->table.version == GO_1_20) {
		if (!read_call(g, f, p->inlined, 4, 4, ret_name) ||
		    !read_call(g, f, p->inlined, 8, 4, &pc) || pc < 0)
			return false;
		p->pc = f->pc + (uint32_t)pc;
		p->inlined = inlined_at(g, f, p->pc);
		p->file = field_at(&g->table, f, 20, p->pc);
		p->line = field_at(&g->table, f, 24, p->pc);
		return true;
	}
	return read_call(g, f, p->inlined, 4, 4, &p->file) &&
	       read_call(g, f, p->inlined, 8, 4, &p->line) &&
	       read_call(g, f, p->inlined, 12, 4, ret_name) &&
	       read_call(g, f, p->inlined, 0, 2, &p->inlined);
}

int uw_golines_at(const struct uw_golines *g, uint64_t vaddr,
		  void (*add)(void *arg, const struct uw_line *line), void *arg)
{
	const struct gopclntab *t = &g->table;
	struct function f;
	struct position p = {.pc = vaddr - t->text};
	struct uw_line line = {.function = NULL};
	uint64_t name;
	int n = 0;

	if (vaddr < t->text || !find_function(t, p.pc, &f))
		return 0;
	p.inlined = inlined_at(g, &f, p.pc);
	p.file = field_at(t, &f, 20, p.pc);
	p.line = field_at(t, &f, 24, p.pc);
	for (; n < DEPTH_MAX; n++) {
		struct position here = p;
		int32_t inlined_name = 0;
		bool inlined = p.inlined >= 0 && step_out(g, &f, &p, &inlined_name);

		if (!inlined && !table_read(t, f.entry + 4, 4, &name))
			return n;
		line.function = text_at(t, t->names + (inlined ? (uint32_t)inlined_name : name));
		line.file = file_name(t, &f, here.file);
		line.line = here.line > 0 ? (uint32_t)here.line : 0;
		if (!line.function)
			return n;
		add(arg, &line);
		if (!inlined)
			return n + 1;
	}
	return n;
}
