/* golines.c - see golines.h.
 *
 * Behind the head of a function's entry (src/runtime/runtime2.go, type _func; offsets from gopclntab.c's list):
 *
 *     16 pcsp, 20 pcfile, 24 pcln, 28 npcdata, 32 unit, [1.20 on: 36 startLine,] 4 bytes of which the last is nfuncdata,
 *     u32 pcdata[npcdata], u32 funcdata[nfuncdata]
 *
 * pcfile, pcln and pcdata[2] (the index into the tree of inlined calls) lead to values by pc: pairs of a difference to the
 * value, zigzag, and of bytes of code, both LEB128, from -1 at the function's start; a difference of 0 ends them.
 * A file's number leads through units[unit + number] to its name.
 *
 * funcdata[3] is the tree, an offset from go:func.*, whose address is in the runtime's moduledata:
 *
 *     1.18  i16 parent, u8, u8, i32 file, line (of the call), name, parentPc
 *     1.20  u8, 3 bytes, i32 name, parentPc, startLine: the call is at parentPc of the function */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "symbols/golines.h"
#include "symbols/gopclntab.h"

enum {
	PCDATA_INLINED = 2,
	FUNCDATA_INLINED = 3,
	DATA_MAX = 16 << 20, /* where moduledata is searched */
	TREES_MAX = 64 << 20,
	DEPTH_MAX = 64,
	PAIRS_MAX = 1 << 20,
	TEXT_WORD = 22, /* of moduledata, from its pointer to the table on */
};

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

/* ---- the table ---- */

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
		int r = shdr ? uw_elf_load_section(elf, shdr, DATA_MAX, &data) : -ENOENT;
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
	if (!gopclntab_header(&g->table) || g->table.version == GO_1_2 ||
	    g->table.version == GO_1_16 || !g->table.text)
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

		if (!gopclntab_entry(t, mid, &at, &entry))
			return false;
		if (at <= pc)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low || !gopclntab_entry(t, low - 1, &at, &entry) || entry > t->len ||
	    !gopclntab_entry(t, low, &end, &none) || pc >= end)
		return false;
	entry += t->list;
	head = t->version == GO_1_20 ? 40 : 36;
	*ret = (struct function){.entry = entry, .pc = at, .data = entry + head + 4};
	return gopclntab_read(t, entry + 28, 4, &ret->n_pcdata) &&
	       gopclntab_read(t, entry + 32, 4, &ret->unit) &&
	       gopclntab_read(t, entry + head + 3, 1, &ret->n_funcdata) && ret->n_pcdata <= 255;
}

static bool read_number(const struct gopclntab *t, uint64_t *at, uint32_t *ret)
{
	uint64_t byte;

	*ret = 0;
	for (unsigned shift = 0; shift < 32; shift += 7) {
		if (!gopclntab_read(t, (*at)++, 1, &byte))
			return false;
		*ret |= (uint32_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return true;
	}
	return false;
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

	return gopclntab_read(t, f->entry + field, 4, &offset) ? value_at(t, f, offset, pc) : -1;
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

	if (file < 0 || !gopclntab_read(t, t->units + (f->unit + (uint32_t)file) * 4, 4, &offset) ||
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
	    !gopclntab_read(&g->table, f->data + (f->n_pcdata + FUNCDATA_INLINED) * 4, 4, &tree) ||
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
	    !gopclntab_read(&g->table, f->data + PCDATA_INLINED * 4, 4, &offset))
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

		if (!inlined && !gopclntab_read(t, f.entry + 4, 4, &name))
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
