/* plt.c - see plt.h.
 *
 * A stub is "jmp *slot(%rip)", perhaps behind endbr64 or bnd.  The slot it jumps through is the
 * r_offset of the relocation that names the function, whatever order linkers put the stubs in. */
#include <errno.h>
#include <string.h>

#include "daemon/base/error.h"
#include "unwinder/plt.h"

enum { PLT_MAX = 8 << 20, RELA_MAX = 64 << 20, NAME_MAX_PLT = 4096, STUB = 16 };

struct relocations {
	struct uw_section rela, symbols, strings; /* rela is sorted by r_offset here */
};

static void relocations_deinit(struct relocations *rel)
{
	uw_section_deinit(&rel->rela);
	uw_section_deinit(&rel->symbols);
	uw_section_deinit(&rel->strings);
}

static int by_offset(const void *left, const void *right)
{
	const Elf64_Rela *a = left, *b = right;

	return a->r_offset < b->r_offset ? -1 : a->r_offset > b->r_offset;
}

static int load_relocations(const struct uw_elf *elf, const char *section, struct relocations *rel)
{
	const Elf64_Shdr *rela = uw_elf_section(elf, section), *symbols, *strings;
	int r;

	if (!rela || rela->sh_type != SHT_RELA || rela->sh_link >= elf->n_shdrs)
		return -ENOENT;
	symbols = &elf->shdrs[rela->sh_link];
	if (symbols->sh_type != SHT_DYNSYM || symbols->sh_link >= elf->n_shdrs)
		return -ENOENT;
	strings = &elf->shdrs[symbols->sh_link];
	r = uw_elf_load_section(elf, rela, RELA_MAX, &rel->rela);
	if (r >= 0)
		r = uw_elf_load_section(elf, symbols, RELA_MAX, &rel->symbols);
	if (r >= 0)
		r = uw_elf_load_section(elf, strings, RELA_MAX, &rel->strings);
	if (r < 0)
		return trace(r);
	qsort(rel->rela.data, rel->rela.size / sizeof(Elf64_Rela), sizeof(Elf64_Rela), by_offset);
	return 0;
}

static const char *name_of_slot(const struct relocations *rel, uint64_t slot)
{
	const Elf64_Rela key = {.r_offset = slot}, *found;
	Elf64_Sym sym;
	size_t at;

	found = bsearch(&key, rel->rela.data, rel->rela.size / sizeof(key), sizeof(key), by_offset);
	if (!found)
		return NULL;
	at = ELF64_R_SYM(found->r_info) * sizeof(sym);
	if (!at || at > rel->symbols.size || rel->symbols.size - at < sizeof(sym))
		return NULL;
	memcpy(&sym, rel->symbols.data + at, sizeof(sym));
	if (sym.st_name >= rel->strings.size ||
	    !memchr(rel->strings.data + sym.st_name, 0, rel->strings.size - sym.st_name))
		return NULL;
	return (const char *)rel->strings.data + sym.st_name;
}

/* The address that the stub's jump reads, 0: no such jump. */
static uint64_t slot_of_stub(const uint8_t *stub, size_t len, uint64_t vaddr)
{
	for (size_t i = 0; i + 6 <= len && i <= 5; i++) {
		int32_t distance;

		if (stub[i] != 0xff || stub[i + 1] != 0x25)
			continue;
		memcpy(&distance, stub + i + 2, sizeof(distance));
		return vaddr + i + 6 + (uint64_t)(int64_t)distance;
	}
	return 0;
}

static int add_stubs(struct uw_symbols_builder *b, const struct uw_elf *elf, const char *section,
		     size_t step, const struct relocations *rel)
{
	const Elf64_Shdr *shdr = uw_elf_section(elf, section);
	_cleanup_(uw_section_deinit) struct uw_section code = {0};
	int r;

	if (!shdr)
		return 0;
	r = uw_elf_load_section(elf, shdr, PLT_MAX, &code);
	if (r < 0)
		return r == -ENOMEM ? trace(r) : 0;
	for (size_t at = 0; at + step <= code.size; at += step) {
		uint64_t slot = slot_of_stub(code.data + at, step, code.vaddr + at);
		const char *target = slot ? name_of_slot(rel, slot) : NULL;
		char name[NAME_MAX_PLT];
		int n;

		if (!target || !*target)
			continue;
		n = snprintf(name, sizeof(name), "%s@plt", target);
		if (n < 0 || (size_t)n >= sizeof(name))
			continue;
		r = uw_symbols_add(b, code.vaddr + at, step, name, (size_t)n, UW_RANK_MADE_UP);
		if (r < 0)
			return trace(r);
	}
	return 0;
}

int uw_plt_add(struct uw_symbols_builder *b, const struct uw_elf *elf)
{
	_cleanup_(relocations_deinit) struct relocations plt = {0}, dyn = {0};
	const Elf64_Shdr *got = uw_elf_section(elf, ".plt.got");
	int r;

	if (elf->arch != UW_ARCH_X86_64 || !elf->n_shdrs)
		return 0;
	r = load_relocations(elf, ".rela.plt", &plt);
	if (r >= 0)
		r = add_stubs(b, elf, ".plt", STUB, &plt);
	if (r >= 0)
		r = add_stubs(b, elf, ".plt.sec", STUB, &plt);
	if (r != -ENOMEM && got) {
		r = load_relocations(elf, ".rela.dyn", &dyn);
		if (r >= 0)
			r = add_stubs(b, elf, ".plt.got", got->sh_entsize == 8 ? 8 : STUB, &dyn);
	}
	return r == -ENOMEM ? trace(r) : 0;
}
