/* plt.c - see plt.h.
 *
 * A stub is "jmp *slot(%rip)", perhaps behind endbr64 or bnd; on aarch64 "adrp x16, page; ldr x17,
 * [x16, #low]; add x16, x16, #low; br x17", perhaps behind bti.  The slot it jumps through is the
 * r_offset of the relocation that names the function, whatever order linkers put the stubs in. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "symbols/plt.h"

enum { PLT_MAX = 8 << 20, RELA_MAX = 64 << 20, NAME_MAX_PLT = 4096, STUB = 16 };

enum { FEW_STUBS = 8 }; /* less to look for than to sort for */

struct relocations {
	struct uw_section rela;
	bool sorted; /* by r_offset */
	const struct uw_section *symbols, *strings;
};

static void relocations_deinit(struct relocations *rel)
{
	uw_section_deinit(&rel->rela);
}

static int by_offset(const void *left, const void *right)
{
	const Elf64_Rela *a = left, *b = right;

	return a->r_offset < b->r_offset ? -1 : a->r_offset > b->r_offset;
}

static int load_relocations(const struct uw_elf *elf, const char *section, size_t dynsym,
			    struct relocations *rel)
{
	const Elf64_Shdr *rela = uw_elf_section(elf, section);

	if (!rela || rela->sh_type != SHT_RELA || rela->sh_link != dynsym)
		return -ENOENT;
	return trace(uw_elf_load_section(elf, rela, RELA_MAX, &rel->rela));
}

static size_t count(const struct relocations *rel)
{
	return rel->rela.size / sizeof(Elf64_Rela);
}

static bool is_of_slot(const Elf64_Rela *rela)
{
	switch (ELF64_R_TYPE(rela->r_info)) {
	case R_X86_64_GLOB_DAT:
	case R_X86_64_JUMP_SLOT:
	case R_AARCH64_GLOB_DAT:
	case R_AARCH64_JUMP_SLOT:
		return true;
	default:
		return false;
	}
}

/* Of .rela.dyn most are of data that points to something, in which no stub looks. */
static void keep_slots(struct relocations *rel)
{
	Elf64_Rela *rela = (void *)rel->rela.data;
	size_t n = 0;

	for (size_t i = 0; i < count(rel); i++)
		if (is_of_slot(&rela[i]))
			rela[n++] = rela[i];
	rel->rela.size = n * sizeof(*rela);
}

/* Linkers write those of stubs in order, so that there is most often nothing to do. */
static void sort(struct relocations *rel)
{
	Elf64_Rela *rela = (void *)rel->rela.data;
	size_t ascending = 1;

	keep_slots(rel);
	while (ascending < count(rel) && by_offset(rela + ascending - 1, rela + ascending) <= 0)
		ascending++;
	if (ascending < count(rel))
		qsort(rela, count(rel), sizeof(*rela), by_offset);
	rel->sorted = true;
}

static const Elf64_Rela *find(const struct relocations *rel, uint64_t slot)
{
	const Elf64_Rela key = {.r_offset = slot}, *rela = (const void *)rel->rela.data;

	if (rel->sorted)
		return bsearch(&key, rela, count(rel), sizeof(key), by_offset);
	for (size_t i = 0; i < count(rel); i++)
		if (rela[i].r_offset == slot)
			return &rela[i];
	return NULL;
}

static const char *name_of_slot(const struct relocations *rel, uint64_t slot)
{
	const struct uw_section *strings = rel->strings;
	const Elf64_Rela *found = find(rel, slot);
	Elf64_Sym sym;
	size_t at;

	if (!found)
		return NULL;
	at = ELF64_R_SYM(found->r_info) * sizeof(sym);
	if (!at || at > rel->symbols->size || rel->symbols->size - at < sizeof(sym))
		return NULL;
	memcpy(&sym, rel->symbols->data + at, sizeof(sym));
	if (sym.st_name >= strings->size ||
	    !memchr(strings->data + sym.st_name, 0, strings->size - sym.st_name))
		return NULL;
	return (const char *)strings->data + sym.st_name;
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

/* The same of a stub whose adrp is at @stub. */
static uint64_t slot_of_adrp(const uint8_t *stub, uint64_t vaddr)
{
	uint32_t adrp, ldr;
	int64_t pages;

	memcpy(&adrp, stub, sizeof(adrp));
	memcpy(&ldr, stub + 4, sizeof(ldr));
	if ((adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211)
		return 0;
	pages = (int32_t)((adrp >> 5 & 0x7ffff) << 2 | (adrp >> 29 & 3)); /* 21 bits, signed */
	pages -= (pages & 1 << 20) << 1;
	return (vaddr & ~0xfffull) + (uint64_t)pages * 4096 + (ldr >> 10 & 0xfff) * 8;
}

static int add_stub(struct uw_symbols_builder *b, const struct relocations *rel, uint64_t slot,
		    uint64_t vaddr, size_t size)
{
	const char *target = slot ? name_of_slot(rel, slot) : NULL;
	char name[NAME_MAX_PLT];
	int n;

	if (!target || !*target)
		return 0;
	n = snprintf(name, sizeof(name), "%s@plt", target);
	if (n < 0 || (size_t)n >= sizeof(name))
		return 0;
	return trace(uw_symbols_add(b, vaddr, size, name, (size_t)n, UW_RANK_MADE_UP));
}

/* aarch64: from its adrp to its br, perhaps behind an autia. */
static size_t stub_size(const struct uw_section *code, size_t at)
{
	uint32_t fifth = 0;

	if (code->size - at >= STUB + sizeof(fifth))
		memcpy(&fifth, code->data + at + STUB, sizeof(fifth));
	return fifth == 0xd61f0220 ? STUB + 4 : STUB;
}

static int add_code(struct uw_symbols_builder *b, const struct uw_section *code, size_t step,
		    bool adrp, const struct relocations *rel)
{
	int r;

	for (size_t at = 0; at + (adrp ? STUB : step) <= code->size; at += step) {
		uint64_t vaddr = code->vaddr + at;
		uint64_t slot = adrp ? slot_of_adrp(code->data + at, vaddr)
				     : slot_of_stub(code->data + at, step, vaddr);

		r = add_stub(b, rel, slot, vaddr, adrp ? stub_size(code, at) : step);
		if (r < 0)
			return trace(r);
	}
	return 0;
}

static int add_stubs(struct uw_symbols_builder *b, const struct uw_elf *elf, const char *section,
		     size_t step, struct relocations *rel)
{
	const Elf64_Shdr *shdr = uw_elf_section(elf, section);
	bool adrp = elf->arch == UW_ARCH_AARCH64;
	_cleanup_(uw_section_deinit) struct uw_section code = {0};
	int r;

	if (!shdr)
		return 0;
	r = uw_elf_load_section(elf, shdr, PLT_MAX, &code);
	if (r < 0)
		return r == -ENOMEM ? trace(r) : 0;
	if (!rel->sorted && code.size / step > FEW_STUBS)
		sort(rel);
	return trace(add_code(b, &code, adrp ? 4 : step, adrp, rel));
}

int uw_plt_add(struct uw_symbols_builder *b, const struct uw_elf *elf, size_t dynsym,
	       const struct uw_section *symbols, const struct uw_section *strings)
{
	_cleanup_(relocations_deinit) struct relocations plt = {.symbols = symbols,
								.strings = strings};
	_cleanup_(relocations_deinit) struct relocations dyn = plt;
	const Elf64_Shdr *got = uw_elf_section(elf, ".plt.got");
	int r;

	if (elf->arch == UW_ARCH_NONE)
		return 0;
	r = load_relocations(elf, ".rela.plt", dynsym, &plt);
	if (r >= 0)
		r = add_stubs(b, elf, ".plt", STUB, &plt);
	if (r >= 0)
		r = add_stubs(b, elf, ".plt.sec", STUB, &plt);
	if (r != -ENOMEM && got) {
		r = load_relocations(elf, ".rela.dyn", dynsym, &dyn);
		if (r >= 0)
			r = add_stubs(b, elf, ".plt.got", got->sh_entsize == 8 ? 8 : STUB, &dyn);
	}
	return r == -ENOMEM ? trace(r) : 0;
}
