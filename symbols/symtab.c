/* symtab.c - names out of ELF symbol tables.
 *
 * Best first: .symtab of the image, that of its separate debug file, that inside .gnu_debugdata
 * (Fedora's xz-packed ELF), .gopclntab; .dynsym always, found through PT_DYNAMIC where there are no section
 * headers. A table that is damaged or over a limit is left out: names are worth having in part. */
#include <errno.h>
#include <string.h>

#include <lzma.h>

#include "base/bytes.h"
#include "base/error.h"
#include "symbols/debugfile.h"
#include "symbols/elf.h"
#include "symbols/gopclntab.h"
#include "symbols/parts.h"
#include "symbols/symbols.h"

/* ---- names for the entries of the procedure linkage table ----
 *
 * An entry is "jmp *slot(%rip)", perhaps behind endbr64 or bnd; on aarch64 "adrp x16, page; ldr x17,
 * [x16, #low]; add x16, x16, #low; br x17", perhaps behind bti.  The slot is the r_offset of the
 * relocation that names the function, in whatever order the linker put the entries. */

enum { PLT_MAX = 8 << 20, RELA_MAX = 64 << 20, NAME_MAX_PLT = 4096, ENTRY = 16 };

enum { FEW_ENTRIES = 8 }; /* less to look for than to sort for */

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

	return ascend(a->r_offset, b->r_offset);
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

/* Most relocations of .rela.dyn are for pointers in data, which no entry reads. */
static void keep_slots(struct relocations *rel)
{
	Elf64_Rela *rela = (void *)rel->rela.data;
	size_t n = 0;

	for (size_t i = 0; i < count(rel); i++)
		if (is_of_slot(&rela[i]))
			rela[n++] = rela[i];
	rel->rela.size = n * sizeof(*rela);
}

/* Linkers write the symbols of entries in order, so that there is most often nothing to do. */
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

/* The address that the entry's jump reads, 0: no jump of this kind. */
static uint64_t slot_of_entry(const uint8_t *entry, size_t len, uint64_t vaddr)
{
	for (size_t i = 0; i + 6 <= len && i <= 5; i++) {
		int32_t distance;

		if (entry[i] != 0xff || entry[i + 1] != 0x25)
			continue;
		memcpy(&distance, entry + i + 2, sizeof(distance));
		return vaddr + i + 6 + (uint64_t)(int64_t)distance;
	}
	return 0;
}

/* The same of an entry with its adrp at @entry. */
static uint64_t slot_of_adrp(const uint8_t *entry, uint64_t vaddr)
{
	uint32_t adrp, ldr;
	int64_t pages;

	memcpy(&adrp, entry, sizeof(adrp));
	memcpy(&ldr, entry + 4, sizeof(ldr));
	if ((adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211)
		return 0;
	pages = (int32_t)((adrp >> 5 & 0x7ffff) << 2 | (adrp >> 29 & 3)); /* 21 bits, signed */
	pages -= (pages & 1 << 20) << 1;
	return (vaddr & ~0xfffull) + (uint64_t)pages * 4096 + (ldr >> 10 & 0xfff) * 8;
}

static int add_entry(struct uw_symbols_builder *b, const struct relocations *rel, uint64_t slot,
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
static size_t entry_size(const struct uw_section *code, size_t at)
{
	uint32_t fifth = 0;

	if (code->size - at >= ENTRY + sizeof(fifth))
		memcpy(&fifth, code->data + at + ENTRY, sizeof(fifth));
	return fifth == 0xd61f0220 ? ENTRY + 4 : ENTRY;
}

static int add_code(struct uw_symbols_builder *b, const struct uw_section *code, size_t step,
		    bool adrp, const struct relocations *rel)
{
	int r;

	for (size_t at = 0; at + (adrp ? ENTRY : step) <= code->size; at += step) {
		uint64_t vaddr = code->vaddr + at;
		uint64_t slot = adrp ? slot_of_adrp(code->data + at, vaddr)
				     : slot_of_entry(code->data + at, step, vaddr);

		r = add_entry(b, rel, slot, vaddr, adrp ? entry_size(code, at) : step);
		if (r < 0)
			return trace(r);
	}
	return 0;
}

static int add_entries(struct uw_symbols_builder *b, const struct uw_elf *elf, const char *section,
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
	if (!rel->sorted && code.size / step > FEW_ENTRIES)
		sort(rel);
	return trace(add_code(b, &code, adrp ? 4 : step, adrp, rel));
}

/* Adds "name@plt" for each entry of .plt, .plt.sec and .plt.got (x86-64).  Section @dynsym has
 * @symbols, which are named by @strings.  -ENOMEM. */
static int uw_plt_add(struct uw_symbols_builder *b, const struct uw_elf *elf, size_t dynsym,
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
		r = add_entries(b, elf, ".plt", ENTRY, &plt);
	if (r >= 0)
		r = add_entries(b, elf, ".plt.sec", ENTRY, &plt);
	if (r != -ENOMEM && got) {
		r = load_relocations(elf, ".rela.dyn", dynsym, &dyn);
		if (r >= 0)
			r = add_entries(b, elf, ".plt.got", got->sh_entsize == 8 ? 8 : ENTRY, &dyn);
	}
	return r == -ENOMEM ? trace(r) : 0;
}

/* ---- .symtab and .dynsym ---- */

enum {
	SYMTAB_MAX = 128 << 20,
	STRTAB_MAX = 192 << 20,
	DEBUGDATA_MAX = 64 << 20, /* unpacked */
	XZ_MEMORY_MAX = 128 << 20,
	DYNAMIC_MAX = 1024, /* entries */
	HASH_BUCKETS_MAX = 1 << 20,
};

/* $x, $d, $t, $a and $x.anything mark code and data on ARM */
static bool is_mapping_symbol(const char *name)
{
	return name[0] == '$' && name[1] && strchr("xdta", name[1]) && (!name[2] || name[2] == '.');
}

static bool in_code_section(const struct uw_elf *elf, const Elf64_Sym *sym)
{
	if (sym->st_shndx >= elf->n_shdrs)
		return !elf->n_shdrs;
	return elf->shdrs[sym->st_shndx].sh_flags & SHF_EXECINSTR;
}

static int rank_of(const struct uw_elf *elf, const Elf64_Sym *sym)
{
	int rank;

	if (sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS || sym->st_shndx == SHN_COMMON)
		return 0;
	switch (ELF64_ST_BIND(sym->st_info)) {
	case STB_GLOBAL:
	case STB_GNU_UNIQUE:
		rank = UW_RANK_GLOBAL;
		break;
	case STB_WEAK:
		rank = UW_RANK_WEAK;
		break;
	case STB_LOCAL:
		rank = UW_RANK_LOCAL;
		break;
	default:
		return 0;
	}
	switch (ELF64_ST_TYPE(sym->st_info)) {
	case STT_FUNC:
	case STT_GNU_IFUNC:
		return rank + UW_RANK_FUNCTION;
	case STT_NOTYPE:
	case STT_OBJECT: /* is_code() decides */
		return in_code_section(elf, sym) ? rank : 0;
	default:
		return 0;
	}
}

/* ---- the name of a symbol ----
 *
 * Parts and copies that a compiler makes of a function have its name and a suffix (f.cold,
 * f.constprop.0, f.isra.0.part.1), and linkers put the version behind a name (f@@V for the default
 * version, f@V for an earlier one).  The function is f in each case, as in its DWARF. */

static bool is_suffix(const char *text, size_t len)
{
	static const char *const suffixes[] = {"cold",	   "constprop",	 "isra", "part",
					       "lto_priv", "localalias", "llvm"};

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
		if (len == strlen(suffixes[i]) && !memcmp(text, suffixes[i], len))
			return true;
	return false;
}

static bool is_number(const char *text, size_t len)
{
	return len && strspn(text, "0123456789") >= len;
}

/* The length without suffixes; 0 for none of the name stays. */
static size_t without_suffixes(const char *name, size_t len)
{
	for (;;) {
		const char *dot = memrchr(name, '.', len), *word = dot;
		size_t end = len;

		if (dot && is_number(dot + 1, (size_t)(name + len - dot - 1))) {
			end = (size_t)(dot - name);
			word = memrchr(name, '.', end);
		}
		if (!word || word == name || !is_suffix(word + 1, (size_t)(name + end - word - 1)))
			return len;
		len = (size_t)(word - name);
	}
}

static int lowered(int rank)
{
	return (rank & ~UW_RANK_BINDING) | UW_RANK_LOCAL;
}

/* @rank is lowered for an earlier version. */
static size_t plain_length(const char *name, size_t len, bool go, int *rank)
{
	const char *at = memchr(name, '@', len);

	if (at && at > name) {
		if (at[1] != '@')
			*rank = lowered(*rank);
		len = (size_t)(at - name);
	}
	/* In Go, p.cold is the function cold of package p. */
	return go ? len : without_suffixes(name, len);
}

/* GHC puts the table of a function in front of its code and calls both one object: f_info. */
static bool is_code(const Elf64_Sym *sym, const char *name, size_t len)
{
	return ELF64_ST_TYPE(sym->st_info) != STT_OBJECT ||
	       (len > 5 && !memcmp(name + len - 5, "_info", 5));
}

/* Names stand in no order: each would be waited for. */
static void prefetch_name(const struct uw_section *table, const struct uw_section *strings,
			  size_t at)
{
	Elf64_Sym sym;

	if (at + sizeof(sym) > table->size)
		return;
	memcpy(&sym, table->data + at, sizeof(sym));
	if (sym.st_name < strings->size)
		__builtin_prefetch(strings->data + sym.st_name);
}

/* Is the symbol at @at of its table an earlier version of a name, for programs linked long ago? */
static bool is_earlier_version(const struct uw_section *versions, size_t at)
{
	enum { HIDDEN = 0x8000 };
	size_t index = at / sizeof(Elf64_Sym);
	uint16_t version;

	if (index >= versions->size / sizeof(version))
		return false;
	memcpy(&version, versions->data + index * sizeof(version), sizeof(version));
	return version & HIDDEN;
}

/* @versions: of .dynsym, or empty. */
static int add_symbols(struct uw_symbols_builder *b, const struct uw_elf *elf,
		       const struct uw_section *table, const struct uw_section *strings,
		       const struct uw_section *versions)
{
	enum { AHEAD = 16 * sizeof(Elf64_Sym) };
	bool go = uw_elf_section(elf, ".gopclntab") != NULL;

	for (size_t at = 0; at + sizeof(Elf64_Sym) <= table->size; at += sizeof(Elf64_Sym)) {
		Elf64_Sym sym;
		const char *name;
		int rank, r;
		size_t len;

		prefetch_name(table, strings, at + AHEAD);
		memcpy(&sym, table->data + at, sizeof(sym));
		rank = rank_of(elf, &sym);
		if (!rank || sym.st_name >= strings->size)
			continue;
		name = (const char *)strings->data + sym.st_name;
		len = strnlen(name, min_u64(strings->size - sym.st_name, UW_SYMBOL_NAME_MAX + 1));
		if (len == strings->size - sym.st_name || is_mapping_symbol(name) ||
		    !is_code(&sym, name, len))
			continue; /* no NUL before the end, or no name of code */
		len = plain_length(name, len, go, &rank);
		if (is_earlier_version(versions, at))
			rank = lowered(rank);
		r = uw_symbols_add(b, sym.st_value, sym.st_size, name, len, rank);
		if (r < 0)
			return trace(r);
	}
	return 0;
}

/* .gnu.version: 16 bits for each symbol of section @dynsym; none: @ret_versions stays empty. */
static int load_versions(const struct uw_elf *elf, size_t dynsym, struct uw_section *ret_versions)
{
	for (size_t i = 0; i < elf->n_shdrs; i++) {
		const Elf64_Shdr *shdr = &elf->shdrs[i];
		int r;

		if (shdr->sh_type != SHT_GNU_versym || shdr->sh_link != dynsym)
			continue;
		r = uw_elf_load_section(elf, shdr, SYMTAB_MAX, ret_versions);
		return r == -ENOMEM ? trace(r) : 0;
	}
	return 0;
}

/* b->n shows whether a symbol was found. The entries go with .dynsym, which names them. */
static int add_table(struct uw_symbols_builder *b, const struct uw_elf *elf, uint32_t type)
{
	for (size_t i = 0; i < elf->n_shdrs; i++) {
		_cleanup_(uw_section_deinit) struct uw_section table = {0}, strings = {0},
							       versions = {0};
		struct uw_section names;
		const Elf64_Shdr *shdr = &elf->shdrs[i];
		int r;

		if (shdr->sh_type != type || shdr->sh_link >= elf->n_shdrs)
			continue;
		r = uw_elf_load_section(elf, shdr, SYMTAB_MAX, &table);
		if (r >= 0)
			r = uw_elf_load_section(elf, &elf->shdrs[shdr->sh_link], STRTAB_MAX,
						&strings);
		names = strings;
		if (r >= 0 && uw_symbols_take_text(b, (char *)strings.data, strings.size))
			strings.data = NULL;
		if (r >= 0 && type == SHT_DYNSYM)
			r = load_versions(elf, i, &versions);
		if (r >= 0)
			r = add_symbols(b, elf, &table, &names, &versions);
		if (r >= 0 && type == SHT_DYNSYM)
			r = uw_plt_add(b, elf, i, &table, &names);
		if (r == -ENOMEM)
			return trace(r);
	}
	return 0;
}

/* ---- .gnu_debugdata ---- */

static int unpack_xz(const struct uw_section *packed, struct buffer *out)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	lzma_ret status = lzma_stream_decoder(&stream, XZ_MEMORY_MAX, 0);

	stream.next_in = packed->data;
	stream.avail_in = packed->size;
	while (status == LZMA_OK && out->len < DEBUGDATA_MAX) {
		enum { STEP = 256 << 10 };

		stream.next_out = buffer_reserve(out, STEP);
		if (!stream.next_out)
			break;
		stream.avail_out = STEP;
		status = lzma_code(&stream, LZMA_FINISH);
		out->len += STEP - stream.avail_out;
	}
	lzma_end(&stream);
	if (out->bad || status == LZMA_MEM_ERROR)
		return fail(-ENOMEM);
	return status == LZMA_STREAM_END ? 0 : fail(-EBADMSG);
}

static int add_debugdata(struct uw_symbols_builder *b, const struct uw_elf *elf)
{
	const Elf64_Shdr *shdr = uw_elf_section(elf, ".gnu_debugdata");
	_cleanup_(uw_section_deinit) struct uw_section packed = {0};
	_cleanup_(buffer_deinit) struct buffer unpacked = {0};
	_cleanup_(uw_elf_close) struct uw_elf inner = {.fd = -1};
	int r;

	if (!shdr)
		return 0;
	r = uw_elf_load_section(elf, shdr, DEBUGDATA_MAX, &packed);
	if (r >= 0)
		r = unpack_xz(&packed, &unpacked);
	if (r >= 0)
		r = uw_elf_open_bytes(&inner, unpacked.data, unpacked.len);
	if (r >= 0)
		r = add_table(b, &inner, SHT_SYMTAB);
	return r == -ENOMEM ? trace(r) : 0;
}

static int add_debugfile(struct uw_symbols_builder *b, const struct uw_elf *elf, const char *path,
			 struct uw_source *source)
{
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(uw_elf_close) struct uw_elf debug = {.fd = -1};
	int r;

	r = uw_debugfile_open(elf, path, source, &fd);
	if (r != 0)
		return r < 0 ? trace(r) : 0;
	r = uw_elf_open_fd(&debug, fd);
	if (r >= 0)
		r = add_table(b, &debug, SHT_SYMTAB);
	return r == -ENOMEM ? trace(r) : 0;
}

/* ---- .dynsym without section headers ---- */

struct dynamic {
	uint64_t symtab, strtab, strsz, hash, gnu_hash;
};

static bool find_dynamic(const struct uw_elf *elf, struct dynamic *dyn)
{
	const Elf64_Phdr *phdr = uw_elf_phdr(elf, PT_DYNAMIC);
	uint64_t *const slots[] = {[DT_SYMTAB] = &dyn->symtab,
				   [DT_STRTAB] = &dyn->strtab,
				   [DT_STRSZ] = &dyn->strsz,
				   [DT_HASH] = &dyn->hash};

	for (size_t i = 0; phdr && i < DYNAMIC_MAX && i < phdr->p_memsz / sizeof(Elf64_Dyn); i++) {
		Elf64_Dyn d;
		uint64_t *slot = NULL;

		if (uw_elf_read_vaddr(elf, phdr->p_vaddr + i * sizeof(d), &d, sizeof(d)) < 0 ||
		    d.d_tag == DT_NULL)
			break;
		if (d.d_tag == DT_GNU_HASH)
			slot = &dyn->gnu_hash;
		else if (d.d_tag > 0 && d.d_tag < (int64_t)ARRAY_SIZE(slots))
			slot = slots[d.d_tag];
		if (!slot)
			continue;
		*slot = d.d_un.d_val;
		/* glibc's ld.so replaces the addresses by absolute ones; in the vDSO and under musl
		 * they stay */
		if (elf->memory && d.d_tag != DT_STRSZ && !uw_elf_load_at(elf, *slot))
			*slot = uw_elf_vaddr_of(elf, *slot);
	}
	return dyn->symtab && dyn->strtab;
}

/* u32 buckets, first symbol, bloom words, shift; u64 bloom[]; u32 buckets[]; u32 chain[], ended by
 * bit 0 */
static uint64_t gnu_hash_count(const struct uw_elf *elf, uint64_t vaddr)
{
	_cleanup_(uw_section_deinit) struct uw_section buckets = {0};
	uint32_t head[4], last = 0, link = 0;
	uint64_t at;

	if (uw_elf_read_vaddr(elf, vaddr, head, sizeof(head)) < 0 || head[0] > HASH_BUCKETS_MAX)
		return 0;
	at = vaddr + sizeof(head) + head[2] * 8ull;
	if (uw_elf_load_vaddr(elf, at, head[0] * 4ull, HASH_BUCKETS_MAX * 4ull, &buckets) < 0)
		return 0;
	for (size_t i = 0; i < head[0]; i++) {
		uint32_t first;

		memcpy(&first, buckets.data + i * 4, sizeof(first));
		last = first > last ? first : last;
	}
	if (last < head[1])
		return head[1];
	at += head[0] * 4ull;
	for (; last < UW_SYMBOLS_MAX; last++) {
		if (uw_elf_read_vaddr(elf, at + (last - head[1]) * 4ull, &link, sizeof(link)) < 0)
			return last;
		if (link & 1)
			return last + 1ull;
	}
	return last;
}

static uint64_t count_symbols(const struct uw_elf *elf, const struct dynamic *dyn)
{
	uint32_t head[2]; /* buckets, chains: as many as symbols */

	if (dyn->hash && uw_elf_read_vaddr(elf, dyn->hash, head, sizeof(head)) >= 0)
		return min_u64(head[1], UW_SYMBOLS_MAX);
	if (dyn->gnu_hash)
		return gnu_hash_count(elf, dyn->gnu_hash);
	return 0;
}

static int add_dynamic(struct uw_symbols_builder *b, const struct uw_elf *elf)
{
	_cleanup_(uw_section_deinit) struct uw_section table = {0}, strings = {0};
	struct dynamic dyn = {0};
	int r;

	if (!find_dynamic(elf, &dyn))
		return 0;
	r = uw_elf_load_vaddr(elf, dyn.symtab, count_symbols(elf, &dyn) * sizeof(Elf64_Sym),
			      SYMTAB_MAX, &table);
	if (r >= 0)
		r = uw_elf_load_vaddr(elf, dyn.strtab, dyn.strsz, STRTAB_MAX, &strings);
	if (r >= 0)
		r = add_symbols(b, elf, &table, &strings, &(struct uw_section){.size = 0});
	return r == -ENOMEM ? trace(r) : 0;
}

/* ---- all tables ---- */

static int add_all(struct uw_symbols_builder *b, const struct uw_elf *elf, const char *path,
		   struct uw_source *source)
{
	int r;

	r = add_table(b, elf, SHT_SYMTAB);
	if (r >= 0 && !b->n)
		r = add_debugfile(b, elf, path, source);
	if (r >= 0 && !b->n)
		r = add_debugdata(b, elf);
	if (r >= 0 && !b->n)
		r = uw_gopclntab_add(b, elf);
	if (r < 0)
		return trace(r);
	b->full = b->n > 0;
	r = elf->n_shdrs ? add_table(b, elf, SHT_DYNSYM) : add_dynamic(b, elf);
	return trace(r);
}

int uw_symbols_of_elf(const struct uw_elf *elf, const struct uw_layout *layout, const char *path,
		      struct uw_source *source, struct uw_symbols **ret_symbols)
{
	_cleanup_(uw_symbols_builder_deinit) struct uw_symbols_builder b = {.layout = layout};
	int r;

	if (elf->wide) { /* 32-bit programs are not unwound: their symbols are not needed */
		r = add_all(&b, elf, path, source);
		if (r < 0)
			return trace(r);
	}
	return trace(uw_symbols_build(&b, ret_symbols));
}
