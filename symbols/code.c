/* code.c - see code.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#ifdef HAVE_CAPSTONE
#include <capstone/capstone.h>
#endif

#include "base/error.h"
#include "symbols/code.h"
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
static int open_disassembler(enum uw_arch arch, bool intel, csh *ret)
{
	cs_err e = CS_ERR_ARCH;

	if (arch == UW_ARCH_X86_64)
		e = cs_open(CS_ARCH_X86, CS_MODE_64, ret);
	else if (arch == UW_ARCH_AARCH64)
		e = cs_open(CS_ARCH_ARM64, CS_MODE_LITTLE_ENDIAN, ret);
	if (e == CS_ERR_MEM)
		return fail(-ENOMEM);
	if (e != CS_ERR_OK)
		return fail(-EOPNOTSUPP);
	if (arch == UW_ARCH_X86_64 && !intel)
		(void)cs_option(*ret, CS_OPT_SYNTAX, CS_OPT_SYNTAX_ATT);
	return 0;
}

/* Bytes that are no instruction: on x86 one, else a word. */
static void no_instruction(const struct uw_code *code, const uint8_t *at, size_t left,
			   struct uw_instruction *to)
{
	uint32_t word = 0;

	to->size = code->arch == UW_ARCH_X86_64 || left < 4 ? 1 : 4;
	memcpy(&word, at, to->size);
	(void)snprintf(to->text, sizeof(to->text), "%s 0x%" PRIx32,
		       to->size == 1 ? ".byte" : ".word", word);
}

int uw_code_each(const struct uw_code *code, bool intel,
		 int (*each)(void *arg, const struct uw_instruction *instruction), void *arg)
{
	const uint8_t *at = code->data;
	size_t left = code->len;
	uint64_t vaddr = code->vaddr;
	cs_insn *insn;
	csh handle;
	int r = open_disassembler(code->arch, intel, &handle);

	if (r < 0)
		return trace(r);
	insn = cs_malloc(handle);
	if (!insn)
		r = fail(-ENOMEM);
	while (r == 0 && left) {
		struct uw_instruction out = {.vaddr = vaddr};
		const uint8_t *next = at;
		size_t next_left = left;
		uint64_t next_vaddr = vaddr;

		if (cs_disasm_iter(handle, &next, &next_left, &next_vaddr, insn) &&
		    next_left < left) {
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
	if (insn)
		cs_free(insn, 1);
	(void)cs_close(&handle);
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
