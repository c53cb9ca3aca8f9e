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
 * or from the names.  1.20 differs from 1.18 by its magic number alone. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "symbols/gopclntab.h"

enum {
	DATA_MAX = 128 << 20,
	RELOCATIONS_MAX = 64 << 20,
	WORD = 8,
};

bool gopclntab_read(const struct gopclntab *t, uint64_t at, size_t size, uint64_t *ret)
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

bool gopclntab_header(struct gopclntab *t)
{
	uint64_t words[8];
	size_t shift;

	if (t->len < WORD || !is_header(t->data))
		return false;
	t->version = t->data[0];
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (!gopclntab_read(t, WORD + i * WORD, WORD, &words[i]))
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

/* In a program whose place is not fixed the loader writes the address of runtime.text: then it is the
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

bool gopclntab_entry(const struct gopclntab *t, uint64_t i, uint64_t *ret_pc, uint64_t *ret_entry)
{
	size_t size = has_offsets(t) ? 4 : WORD;

	*ret_entry = 0;
	return gopclntab_read(t, t->list + i * 2 * size, size, ret_pc) &&
	       (i == t->n || gopclntab_read(t, t->list + i * 2 * size + size, size, ret_entry));
}

static const char *name_of(const struct gopclntab *t, uint64_t entry, size_t *ret_len)
{
	uint64_t from = t->version == GO_1_2 ? 0 : t->list, name;

	if (entry > t->len ||
	    !gopclntab_read(t, from + entry + (has_offsets(t) ? 4 : WORD), 4, &name) ||
	    name >= t->len - t->names)
		return NULL;
	name += t->names;
	*ret_len = strnlen((const char *)t->data + name,
			   min_u64(t->len - name, UW_SYMBOL_NAME_MAX + 1));
	return (const char *)t->data + name;
}

static int add_functions(struct uw_symbols_builder *b, const struct gopclntab *t)
{
	uint64_t pc, entry, next, next_entry;

	if (!gopclntab_entry(t, 0, &pc, &entry))
		return 0;
	for (uint64_t i = 0; i < t->n; i++, pc = next, entry = next_entry) {
		const char *name;
		size_t len;
		int r;

		if (!gopclntab_entry(t, i + 1, &next, &next_entry) || next < pc)
			return 0;
		name = name_of(t, entry, &len);
		if (!name || next == pc)
			continue;
		r = uw_symbols_add(b, t->text + pc, next - pc, name, len,
				   UW_RANK_GLOBAL | UW_RANK_FUNCTION);
		if (r < 0)
			return trace(r);
	}
	return 0;
}

static int add_table(struct uw_symbols_builder *b, const struct uw_elf *elf,
		     const struct uw_section *section, size_t at)
{
	struct gopclntab t = {.data = section->data + at,
			      .len = section->size - at,
			      .vaddr = section->vaddr + at};
	int r;

	if (!gopclntab_header(&t))
		return 0;
	r = find_text(&t, elf);
	return r < 0 ? trace(r) : trace(add_functions(b, &t));
}

/* A C linker puts the table somewhere into .data.rel.ro, at a multiple of 32. */
static int search_data(struct uw_symbols_builder *b, const struct uw_elf *elf)
{
	const Elf64_Shdr *shdr = uw_elf_section(elf, ".data.rel.ro");
	_cleanup_(uw_section_deinit) struct uw_section section = {0};
	size_t before = b->n;
	int r;

	if (!shdr ||
	    (!uw_elf_section(elf, ".go.buildinfo") && !uw_elf_section(elf, ".note.go.buildid")))
		return 0;
	r = uw_elf_load_section(elf, shdr, DATA_MAX, &section);
	if (r < 0)
		return r == -ENOMEM ? trace(r) : 0;
	for (size_t at = -section.vaddr & 31; at + WORD <= section.size && b->n == before;
	     at += 32) {
		if (!is_header(section.data + at))
			continue;
		r = add_table(b, elf, &section, at);
		if (r < 0)
			return trace(r);
	}
	return 0;
}

int uw_gopclntab_add(struct uw_symbols_builder *b, const struct uw_elf *elf)
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
			r = add_table(b, elf, &section, 0);
		return r == -ENOMEM ? trace(r) : 0;
	}
	return search_data(b, elf);
}
