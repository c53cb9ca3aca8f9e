/* code-prologue.c - see code.h.  Numbers of the x86-64 instruction set:
 *
 *     push %rbx %rbp           53, 55             push %r12 .. %r15        41 54 .. 41 57
 *     mov of two registers     48..4d 89|8b, ModRM with mod 3
 *     sub $n,%rsp              48 83 ec n8, 48 81 ec n32
 *
 * sljit (PCRE) and LLVM begin functions in this way, and leave rsp alone from there to the epilogue. */
#include "unwinder/code.h"

enum { PUSHES_MIN = 2, PUSHES_MAX = 6, MOVES_MAX = 6, PROLOGUE_MIN = 8 };

struct prologue {
	size_t pushes[PUSHES_MAX]; /* where each ends */
	uint32_t n, bp;		   /* bp: the number of rbp's, from 1; 0: none */
	size_t end;		   /* behind the subtraction */
	uint32_t room;		   /* that it makes */
};

/* The bytes of a push at @code, 0: none.  *ret_reg: 3, 5, 12 to 15. */
static size_t push_at(const uint8_t *code, size_t len, unsigned *ret_reg)
{
	if (len >= 1 && (code[0] == 0x53 || code[0] == 0x55)) {
		*ret_reg = code[0] - 0x50u;
		return 1;
	}
	if (len >= 2 && code[0] == 0x41 && code[1] >= 0x54 && code[1] <= 0x57) {
		*ret_reg = code[1] - 0x50u + 8;
		return 2;
	}
	return 0;
}

/* The bytes of the subtraction at @code, 0: none. */
static size_t room_at(const uint8_t *code, size_t len, uint32_t *ret_room)
{
	if (len < 4 || code[0] != 0x48 || code[2] != 0xec)
		return 0;
	if (code[1] == 0x83) {
		*ret_room = code[3];
		return code[3] < 0x80 && code[3] % 8 == 0 ? 4 : 0;
	}
	if (code[1] != 0x81 || len < 7)
		return 0;
	*ret_room = code[3] | (uint32_t)code[4] << 8 | (uint32_t)code[5] << 16 |
		    (uint32_t)code[6] << 24;
	return *ret_room % 8 == 0 && *ret_room < CODE_WALK_MAX - 8 * PUSHES_MAX ? 7 : 0;
}

/* Is there a prologue at @code + @at? */
static bool prologue_at(const uint8_t *code, size_t at, size_t len, struct prologue *ret)
{
	struct prologue p = {.n = 0};
	uint32_t seen = 0;
	unsigned reg;
	size_t n;

	for (; p.n < PUSHES_MAX && (n = push_at(code + at, len - at, &reg)); p.pushes[p.n++] = at) {
		if (seen >> reg & 1)
			return false;
		seen |= 1u << reg;
		p.bp = reg == 5 ? p.n + 1 : p.bp;
		at += n;
	}
	if (p.n < PUSHES_MIN)
		return false;
	for (n = 0; n < MOVES_MAX && len - at >= 3 && code[at] >= 0x48 && code[at] <= 0x4d &&
		    (code[at + 1] == 0x89 || code[at + 1] == 0x8b) && code[at + 2] >= 0xc0;
	     n++)
		at += 3;
	n = room_at(code + at, len - at, &p.room);
	p.end = at + n;
	*ret = p;
	return n > 0;
}

bool code_prologue(const uint8_t *code, size_t at, size_t len, struct code_way *ret_way)
{
	struct prologue p, last = {.n = 0};
	uint32_t done = 0, depth;

	for (size_t i = 0; i < at && i + PROLOGUE_MIN <= len;) {
		bool found = prologue_at(code, i, len, &p);

		if (found)
			last = p;
		i = found ? p.end : i + 1;
	}
	if (!last.n)
		return false;
	while (done < last.n && last.pushes[done] <= at)
		done++;
	depth = 8 * done + (last.end <= at ? last.room : 0);
	*ret_way = (struct code_way){
		.kind = CODE_WAY_STACK,
		.returns = true,
		.ra = depth,
		.bp = last.bp && last.bp <= done ? (int32_t)(depth - 8 * last.bp) : -1,
	};
	return true;
}
