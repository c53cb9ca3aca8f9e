/* code.c - see code.h.  x86-64 encodings: Intel SDM volume 2. */
#include <string.h>

#include "unwinder/code.h"

/* FF /2: call r/m64.  The ModRM byte tells how many bytes of SIB and displacement follow. */
static size_t call_indirect_len(const uint8_t *code, size_t len)
{
	uint8_t modrm, mod, rm;
	size_t n = 2;

	if (len < 2 || code[0] != 0xff || (code[1] >> 3 & 7) != 2)
		return 0;
	modrm = code[1];
	mod = modrm >> 6;
	rm = modrm & 7;
	if (mod == 3)
		return n;
	if (rm == 4) { /* SIB; base 5 without mod has a 32-bit displacement */
		if (len < 3)
			return 0;
		if (mod == 0 && (code[2] & 7) == 5)
			n += 4;
		n++;
	}
	if (mod == 1)
		n += 1;
	else if (mod == 2 || (mod == 0 && rm == 5))
		n += 4;
	return n;
}

bool code_ends_in_call(enum uw_arch arch, const uint8_t *code, size_t len)
{
	if (arch == UW_ARCH_AARCH64)
		return code_ends_in_call_aarch64(code, len);
	if (len >= 5 && code[len - 5] == 0xe8)
		return true;
	for (size_t n = 2; n <= 7 && n <= len; n++)
		if (call_indirect_len(code + len - n, n) == n)
			return true;
	return false;
}

static bool starts(const uint8_t *code, size_t len, const char *bytes, size_t n)
{
	return len >= n && !memcmp(code, bytes, n);
}
#define STARTS(code, len, text) starts(code, len, text, sizeof(text) - 1)

bool code_is_goexit(enum uw_arch arch, const uint8_t *code, size_t before, size_t len)
{
	const uint8_t *at = code + before;

	return arch == UW_ARCH_X86_64 && before && len >= before + 6 && at[-1] == 0x90 &&
	       at[0] == 0xe8 && at[5] == 0x90;
}

bool code_is_go_switch(enum uw_arch arch, const uint8_t *code, size_t before, size_t len)
{
	if (arch != UW_ARCH_X86_64 || before < 8)
		return false;
	code += before - 8;
	len -= before - 8;
	/* runtime/asm_amd64.s: push %rax; mov (%rdx),%r12; call *%r12; pop %rax; jmp badmcall2 */
	if (STARTS(code + 1, len - 1, "\x50\x4c\x8b\x22\x41\xff\xd4\x58\xe9"))
		return true;
	/* mov %rdi,%rdx; mov (%rdi),%rdi; call *%rdi; and behind it mov %fs:-8,%rax, where position-independent
	 * by way of rcx */
	return STARTS(code, len, "\x48\x89\xfa\x48\x8b\x3f\xff\xd7") &&
	       (STARTS(code + 8, len - 8, "\x64\x48\x8b\x04\x25\xf8\xff\xff\xff") ||
		STARTS(code + 8, len - 8, "\x48\xc7\xc1\xf8\xff\xff\xff\x64\x48\x8b\x01"));
}

static enum rule_form code_form_x86(const uint8_t *code, size_t before, size_t len)
{
	const uint8_t *at = code + before;
	size_t left = len - before;

	if (STARTS(at, left, "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05") || /* mov $15,%rax; syscall */
	    (before >= 7 && STARTS(at, left, "\x0f\x05") &&
	     STARTS(at - 7, left + 7, "\x48\xc7\xc0\x0f\x00\x00\x00")))
		return RULE_FORM_SIGRETURN;
	if (STARTS(at, left, "\x48\x89\xdc\x48\x8b\x3c\x24"))
		return RULE_FORM_ROOT; /* mov %rbx,%rsp; mov (%rsp),%rdi: glibc's __start_context */
	if (STARTS(at, left,
		   "\xf3\x0f\x1e\xfa")) { /* endbr64: a function's or a stub's first instruction */
		at += 4;
		left -= 4;
	}
	if (STARTS(at, left, "\x55") ||					/* push %rbp */
	    STARTS(at, left, "\xc3") || STARTS(at, left, "\xf3\xc3") || /* ret */
	    STARTS(at, left, "\xc2") ||					/* ret $n */
	    STARTS(at, left, "\xff\x25") ||
	    STARTS(at, left, "\xf2\xff\x25")) /* jmp *slot(%rip): a stub */
		return RULE_FORM_ENTRY;
	if (STARTS(at, left, "\x68") && left >= 6 &&
	    (at[5] == 0xe9 || STARTS(at + 5, left - 5, "\xf2\xe9")))
		return RULE_FORM_ENTRY; /* push $index; jmp plt0 */
	if (before >= 5 && at[-5] == 0x68 &&
	    (STARTS(at, left, "\xe9") || STARTS(at, left, "\xf2\xe9")))
		return RULE_FORM_PLT; /* behind that push */
	if (before >= 1 && at[-1] == 0x55 &&
	    (STARTS(at, left, "\x48\x89\xe5") || STARTS(at, left, "\x48\x8b\xec")))
		return RULE_FORM_PUSHED; /* mov %rsp,%rbp */
	if (STARTS(at, left, "\x5d\xc3"))
		return RULE_FORM_PUSHED; /* pop %rbp; ret */
	return RULE_FORM_FP;
}

enum rule_form code_form(enum uw_arch arch, const uint8_t *code, size_t before, size_t len)
{
	return arch == UW_ARCH_AARCH64 ? code_form_aarch64(code, before, len)
				       : code_form_x86(code, before, len);
}
