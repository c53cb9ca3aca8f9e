/* code-ocaml.c - see code.h.  Code of OCaml's compiler and runtime (asmcomp/amd64/emit.mlp, runtime/amd64.S), 4.10 on. */
#include <string.h>

#include "unwinder/code.h"

/* The instructions of a raise, with the offsets between them; 0xff in @bytes: the offset of the record in the state that r14 has. */
static const struct raise {
	uint8_t bytes[13], len;
	uint8_t ends; /* where the address is in r11; 0: nowhere */
} raises[] = {
	/* mov n(%r14),%rsp; pop n(%r14); pop %r11; jmp *%r11 */
	{"\x49\x8b\x66\xff\x41\x8f\x46\xff\x41\x5b\x41\xff\xe3", 13, 10},
	/* ... ret */
	{"\x49\x8b\x66\xff\x41\x8f\x46\xff\xc3", 9, 0},
	/* ... mov 8(%r14),%r15; ret */
	{"\x49\x8b\x66\xff\x41\x8f\x46\xff\x4d\x8b\x7e\x08\xc3", 13, 0},
};
enum { RAISE_OFFSET = 3, RAISE_POP = 4, RAISE_POPPED = 8 };

static bool is_raise(const struct raise *raise, const uint8_t *code, size_t len)
{
	if (len < raise->len)
		return false;
	for (size_t i = 0; i < raise->len; i++)
		if (code[i] != raise->bytes[i] &&
		    (raise->bytes[i] != 0xff || i >= RAISE_POPPED || code[i] != code[RAISE_OFFSET]))
			return false;
	return !(code[RAISE_OFFSET] & 0x87);
}

int code_raise(const uint8_t *code, size_t before, size_t len)
{
	for (size_t i = 0; i < sizeof(raises) / sizeof(*raises); i++) {
		const struct raise *raise = &raises[i];

		for (size_t at = RAISE_POP; at < raise->len && at <= before; at++)
			if (is_raise(raise, code + before - at, len - (before - at)))
				return at == RAISE_POP			  ? 1
				       : raise->ends && at >= raise->ends ? CODE_RAISE_R11
									  : 0;
	}
	return CODE_RAISE_NONE;
}

size_t code_branch_to(const uint8_t *code, size_t to)
{
	struct code_insn in;
	int32_t by;

	for (size_t at = 0; at < to; at += in.length) {
		if (!code_decode(&in, code + at, to - at))
			return to;
		if (in.vex || !(in.two ? code_is_long_branch(&in) : (*in.op & 0xf0) == 0x70))
			continue;
		by = (int8_t)in.op[1];
		if (in.two)
			memcpy(&by, in.op + 1, sizeof(by));
		if ((int64_t)(at + in.length) + by == (int64_t)to)
			return at;
	}
	return to;
}
