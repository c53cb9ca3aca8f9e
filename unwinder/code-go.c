/* code-go.c - see code.h.  Functions of Go's runtime that go to the thread's own stack (runtime/asm_amd64.s, 1.18 to 1.24). */
#include <string.h>

#include "unwinder/code.h"

static bool starts(const uint8_t *code, size_t len, const char *bytes, size_t n)
{
	return len >= n && !memcmp(code, bytes, n);
}
#define STARTS(code, len, text) starts(code, len, text, sizeof(text) - 1)

/* Behind the call: [mov $-8,%rcx, where position-independent;] mov n(%rsp),%rdi, the goroutine; mov 8(%rdi),%rsi, the end of its
 * stack, as far as 16 bytes reach. */
static bool is_cgo_return(const uint8_t *code, size_t len, uint8_t n)
{
	uint8_t back[] = "\x48\xc7\xc1\xf8\xff\xff\xff\x48\x8b\x7c\x24\0\x48\x8b\x77\x08";

	back[11] = n;
	return (len >= 9 && !memcmp(code, back + 7, 9)) || (len >= 12 && !memcmp(code, back, 12));
}

enum code_go code_go_switch(enum uw_arch arch, const uint8_t *code, size_t before, size_t len)
{
	if (arch != UW_ARCH_X86_64 || before < 8 || len < before)
		return CODE_GO_NONE;
	code += before - 8;
	len -= before - 8;
	/* push %rax; mov (%rdx),%r12; call *%r12; pop %rax; jmp badmcall2 */
	if (STARTS(code + 1, len - 1, "\x50\x4c\x8b\x22\x41\xff\xd4\x58\xe9"))
		return CODE_GO_MCALL;
	/* mov 0x38(%rbx),%rsp; [1.21 on: mov n(%rbx),%rbp;] call newstack; call abort; ret */
	if ((STARTS(code, len, "\x8b\x63\x38\xe8") ||
	     (STARTS(code, len, "\x8b\x6b") && code[3] == 0xe8)) &&
	    len >= 14 && code[8] == 0xe8 && code[13] == 0xc3)
		return CODE_GO_MORESTACK;
	/* mov %rbx,%rdi; mov %rbx,%rcx; call *%rax */
	if (STARTS(code, len, "\x48\x89\xdf\x48\x89\xd9\xff\xd0"))
		return is_cgo_return(code + 8, len - 8, 0x30) ? CODE_GO_CGO_64 : CODE_GO_NONE;
	/* 1.22 on: call asmcgocall_landingpad */
	if (code[3] == 0xe8 && is_cgo_return(code + 8, len - 8, 8))
		return CODE_GO_CGO_16;
	/* mov %rdi,%rdx; mov (%rdi),%rdi; call *%rdi; and behind it mov %fs:-8,%rax, where position-independent
	 * by way of rcx */
	if (STARTS(code, len, "\x48\x89\xfa\x48\x8b\x3f\xff\xd7") &&
	    (STARTS(code + 8, len - 8, "\x64\x48\x8b\x04\x25\xf8\xff\xff\xff") ||
	     STARTS(code + 8, len - 8, "\x48\xc7\xc1\xf8\xff\xff\xff\x64\x48\x8b\x01")))
		return CODE_GO_SYSTEMSTACK;
	return CODE_GO_NONE;
}

/* mov n(%rbx),%rax or mov n(%rax),%rbx, its length; 0: neither. */
static size_t load_of(const uint8_t *code, size_t len, uint8_t modrm, uint32_t *ret_n)
{
	if (len < 7 || code[0] != 0x48 || code[1] != 0x8b)
		return 0;
	if (code[2] == (0x40 | modrm)) {
		*ret_n = code[3];
		return code[3] < 0x80 ? 4 : 0;
	}
	if (code[2] != (0x80 | modrm))
		return 0;
	memcpy(ret_n, code + 3, sizeof(*ret_n));
	return *ret_n < CODE_GO_OFFSET_MAX ? 7 : 0;
}

bool code_go_offsets(const uint8_t *code, size_t len, struct code_go_offsets *ret_offsets)
{
	size_t at = STARTS(code, len, "\x64") ? 9 : 11, n;
	struct code_go_offsets offsets;
	uint32_t sp;

	if (len < CODE_GO_AFTER)
		return false;
	n = load_of(code + at, len - at, 3 << 3 | 0, &offsets.m); /* g.m: of rax, to rbx */
	if (!n)
		return false;
	at += n;
	n = load_of(code + at, len - at, 0 << 3 | 3, &offsets.curg); /* m.curg: of rbx, to rax */
	if (!n)
		return false;
	/* mov %rax,g; mov n(%rax),%rsp */
	for (at += n; at + 7 <= len; at++) {
		if (!load_of(code + at, len - at, 4 << 3 | 0, &sp))
			continue;
		offsets.sp = sp;
		*ret_offsets = offsets;
		return !((offsets.m | offsets.curg | sp) & 7);
	}
	return false;
}
