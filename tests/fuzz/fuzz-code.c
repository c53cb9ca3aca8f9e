/* fuzz-code.c - any bytes as code around an address: nothing is read outside of the bytes, and what is
 * found lies within its bounds. */
#include <string.h>

#include "unwinder/code.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte is the place of the address. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t at = size > 1 ? data[0] % (size - 1) : 0, len = size ? size - 1 : 0;
	uint8_t *code =
		malloc(len ? len : 1); /* to the byte: the sanitizer sees what reads beyond */
	struct code_way way;
	struct code_exit exit;
	struct code_insn insn;
	struct code_go_offsets offsets;
	int64_t to;

	if (!code)
		abort();
	if (len)
		memcpy(code, data + 1, len);
	if (code_decode(&insn, code, len) && insn.length > len)
		abort();
	if (code_moves_sp(code, len) > len)
		abort();
	if (code_walk(code, at, len, &way) &&
	    (way.ra > CODE_WALK_MAX || way.ra & 7 || way.bp >= CODE_WALK_MAX || way.bp < -1 ||
	     way.from.reg > 15 || way.from.offset > CODE_SOURCE_MAX || way.from.offset & 7 ||
	     way.bp_from.reg > 15 || way.bp_from.offset > CODE_SOURCE_MAX))
		abort();
	if (code_prologue(code, at, len, &way) &&
	    (way.kind != CODE_WAY_STACK || way.ra >= CODE_WALK_MAX || way.ra & 7 || way.bp < -1 ||
	     way.bp >= (int32_t)way.ra))
		abort();
	if (code_exits(code, at, len, &exit) && exit.kind == CODE_EXIT_JUMP && exit.to >= 0 &&
	    exit.to < (int64_t)len)
		abort();
	if (code_go_offsets(code + at, len - at, &offsets) &&
	    (offsets.m | offsets.curg | offsets.sp) >= CODE_GO_OFFSET_MAX)
		abort();
	for (size_t from = 0, before = 0; code_next_jump(code, len, &from, &to); before = from)
		if (from > len || from <= before)
			abort();
	if (code_branch_to(code, len) > len || code_raise(code, at, len) > 1)
		abort();
	for (int arch = UW_ARCH_X86_64; arch <= UW_ARCH_AARCH64; arch++) {
		size_t before = arch == UW_ARCH_AARCH64 ? at & ~(size_t)3 : at;

		(void)code_ends_in_call((enum uw_arch)arch, code, len);
		(void)code_form((enum uw_arch)arch, code, before, len);
		(void)code_is_goexit((enum uw_arch)arch, code, before, len);
		(void)code_go_switch((enum uw_arch)arch, code, before, len);
	}
	free(code);
	return 0;
}
