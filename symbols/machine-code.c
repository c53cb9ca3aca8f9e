/* machine-code.c - see machine-code.h.
 *
 * libcapstone is loaded at the first use: 84,000 relocations in its tables would cost each start of perfwind 0.4 ms and
 * 1.3 MiB. */
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#ifdef HAVE_CAPSTONE
#include <capstone/capstone.h>
#endif

#include "base/error.h"
#include "symbols/machine-code.h"
#include "symbols/elf.h"

int uw_code_load(struct uw_source *source, uint64_t vaddr, uint64_t len, struct uw_code *ret)
{
	_cleanup_(uw_elf_close) struct uw_elf elf = {.fd = -1};
	_cleanup_(freep) uint8_t *data = NULL;
	const Elf64_Phdr *segment;
	int r = uw_elf_open(&elf, source);

	if (r < 0)
		return trace(r);
	segment = uw_elf_load_at(&elf, vaddr);
	if (!segment || vaddr - segment->p_vaddr >= segment->p_filesz || !len)
		return fail(-EBADMSG);
	len = min_u64(len, segment->p_filesz - (vaddr - segment->p_vaddr));
	len = min_u64(len, UW_CODE_MAX);
	data = malloc(len);
	if (!data)
		return fail(-ENOMEM);
	r = uw_elf_read_vaddr(&elf, vaddr, data, len);
	if (r < 0)
		return trace(r);
	*ret = (struct uw_code){take(data), len, vaddr, elf.arch};
	return 0;
}

void uw_code_deinit(struct uw_code *code)
{
	free(code->data);
	*code = (struct uw_code){.data = NULL};
}

#ifdef HAVE_CAPSTONE
#define TEXT_OF(x) #x
#define SONAME_OF(major) "libcapstone.so." TEXT_OF(major)

struct capstone {
	void *library;
	cs_err (*open)(cs_arch arch, cs_mode mode, csh *handle);
	cs_err (*option)(csh handle, cs_opt_type type, size_t value);
	cs_insn *(*new)(csh handle);
	bool (*next)(csh handle, const uint8_t **code, size_t *size, uint64_t *address,
		     cs_insn *insn);
	void (*free)(cs_insn *insn, size_t count);
	cs_err (*close)(csh *handle);
};

static void unload(struct capstone *c)
{
	if (c->library)
		(void)dlclose(c->library);
}

/* false: it is not installed. */
static bool load(struct capstone *c)
{
	/* Of the same major version as the header. */
	c->library = dlopen(SONAME_OF(CS_API_MAJOR), RTLD_NOW | RTLD_LOCAL);
	if (!c->library)
		return false;
	*(void **)&c->open = dlsym(c->library, "cs_open");
	*(void **)&c->option = dlsym(c->library, "cs_option");
	*(void **)&c->new = dlsym(c->library, "cs_malloc");
	*(void **)&c->next = dlsym(c->library, "cs_disasm_iter");
	*(void **)&c->free = dlsym(c->library, "cs_free");
	*(void **)&c->close = dlsym(c->library, "cs_close");
	return c->open && c->option && c->new && c->next && c->free && c->close;
}

static int open_disassembler(const struct capstone *c, enum uw_arch arch, bool intel, csh *ret)
{
	cs_err e = CS_ERR_ARCH;

	if (arch == UW_ARCH_X86_64)
		e = c->open(CS_ARCH_X86, CS_MODE_64, ret);
	else if (arch == UW_ARCH_AARCH64)
		e = c->open(CS_ARCH_ARM64, CS_MODE_LITTLE_ENDIAN, ret);
	if (e == CS_ERR_MEM)
		return fail(-ENOMEM);
	if (e != CS_ERR_OK)
		return fail(-EOPNOTSUPP);
	if (arch == UW_ARCH_X86_64 && !intel)
		(void)c->option(*ret, CS_OPT_SYNTAX, CS_OPT_SYNTAX_ATT);
	return 0;
}

/* Bytes that are not an instruction: on x86 one, else a word. */
static void no_instruction(const struct uw_code *code, const uint8_t *at, size_t left,
			   struct uw_instruction *to)
{
	uint32_t word = 0;

	to->size = code->arch == UW_ARCH_X86_64 || left < 4 ? 1 : 4;
	memcpy(&word, at, to->size);
	(void)snprintf(to->text, sizeof(to->text), "%s 0x%" PRIx32,
		       to->size == 1 ? ".byte" : ".word", word);
}

static int each_of(const struct uw_code *code, const struct capstone *c, csh handle, cs_insn *insn,
		   int (*each)(void *arg, const struct uw_instruction *instruction), void *arg)
{
	const uint8_t *at = code->data;
	size_t left = code->len;
	uint64_t vaddr = code->vaddr;
	int r = 0;

	while (r == 0 && left) {
		struct uw_instruction out = {.vaddr = vaddr};
		const uint8_t *next = at;
		size_t next_left = left;
		uint64_t next_vaddr = vaddr;

		if (c->next(handle, &next, &next_left, &next_vaddr, insn) && next_left < left) {
			out.size = (uint32_t)(left - next_left);
			(void)snprintf(out.text, sizeof(out.text), "%-7s %s", insn->mnemonic,
				       insn->op_str);
		} else {
			no_instruction(code, at, left, &out);
		}
		at += out.size;
		left -= out.size;
		vaddr += out.size;
		r = each(arg, &out);
	}
	return r;
}

int uw_code_each(const struct uw_code *code, bool intel,
		 int (*each)(void *arg, const struct uw_instruction *instruction), void *arg)
{
	_cleanup_(unload) struct capstone c = {.library = NULL};
	cs_insn *insn;
	csh handle;
	int r;

	if (!load(&c))
		return fail(-EOPNOTSUPP);
	r = open_disassembler(&c, code->arch, intel, &handle);
	if (r < 0)
		return trace(r);
	insn = c.new(handle);
	r = insn ? each_of(code, &c, handle, insn, each, arg) : fail(-ENOMEM);
	if (insn)
		c.free(insn, 1);
	(void)c.close(&handle);
	return r;
}
#else
int uw_code_each(const struct uw_code *code, bool intel,
		 int (*each)(void *arg, const struct uw_instruction *instruction), void *arg)
{
	(void)code;
	(void)intel;
	(void)each;
	(void)arg;
	return fail(-EOPNOTSUPP);
}
#endif
