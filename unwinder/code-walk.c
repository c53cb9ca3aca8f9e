/* code-walk.c - see code-walk.h.  x86-64 encodings: Intel SDM volume 2, appendix A.
 *
 *     push %rbx        rsp is followed from the pc on to the ret; what was pushed before the pc
 *     sub  $48,%rsp    is popped behind it, so at the ret rsp is at the return address:
 *  -> call f
 *     add  $48,%rsp    +48
 *     pop  %rbx        +8        return address at rsp + 56
 *     ret
 *
 * A conditional jump is not taken, a jump is followed, a call gives back what it took.  That is
 * one way through the function, and all ways to a ret agree on where the return address is.  The
 * walk gives up at whatever it does not know: no answer is better than a wrong one. */
#include "unwinder/code-walk.h"

#include <string.h>

#include "daemon/base/util.h"

enum { STEPS_MAX = 96 };

/* What follows an opcode. */
enum {
	NO = 0, /* nothing */
	M = 1,	/* ModRM */
	B = 2,	/* one byte */
	Z = 4,	/* four bytes, two with 0x66 */
	W = 8,	/* two bytes */
	Q = 16, /* as Z, eight with REX.W */
	T = 32, /* a byte or Z if ModRM.reg is 0 or 1: test */
	X = 64, /* not known */
};

/* clang-format off */
static const uint8_t one_byte[256] = {
	/* 00 */ M, M, M, M, B, Z, X, X, M, M, M, M, B, Z, X, X,
	/* 10 */ M, M, M, M, B, Z, X, X, M, M, M, M, B, Z, X, X,
	/* 20 */ M, M, M, M, B, Z, X, X, M, M, M, M, B, Z, X, X,
	/* 30 */ M, M, M, M, B, Z, X, X, M, M, M, M, B, Z, X, X,
	/* 40 */ X, X, X, X, X, X, X, X, X, X, X, X, X, X, X, X,
	/* 50 */ NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, NO,
	/* 60 */ X, X, X, M, X, X, X, X, Z, M | Z, B, M | B, X, X, X, X,
	/* 70 */ B, B, B, B, B, B, B, B, B, B, B, B, B, B, B, B,
	/* 80 */ M | B, M | Z, X, M | B, M, M, M, M, M, M, M, M, M, M, M, M,
	/* 90 */ NO, NO, NO, NO, NO, NO, NO, NO, NO, NO, X, NO, NO, NO, NO, NO,
	/* a0 */ X, X, X, X, NO, NO, NO, NO, B, Z, NO, NO, NO, NO, NO, NO,
	/* b0 */ B, B, B, B, B, B, B, B, Q, Q, Q, Q, Q, Q, Q, Q,
	/* c0 */ M | B, M | B, W, NO, X, X, M | B, M | Z, X, NO, X, X, NO, X, X, X,
	/* d0 */ M, M, M, M, X, X, X, X, M, M, M, M, M, M, M, M,
	/* e0 */ B, B, B, B, X, X, X, X, Z, Z, X, B, X, X, X, X,
	/* f0 */ X, X, X, X, NO, X, M | T, M | T, X, X, X, X, NO, NO, M, M,
};
/* clang-format on */

/* Behind 0f, and of VEX map 1. */
static uint8_t two_byte(uint8_t op)
{
	switch (op) {
	case 0x05: /* syscall */
	case 0x31: /* rdtsc */
	case 0x77: /* emms, vzeroupper */
	case 0xa2: /* cpuid */
		return NO;
	case 0x70 ... 0x73:
	case 0xa4:
	case 0xac:
	case 0xba:
	case 0xc2:
	case 0xc4 ... 0xc6:
		return M | B;
	case 0x80 ... 0x8f:
		return Z;
	case 0xc8 ... 0xcf:
		return NO;
	case 0x00 ... 0x04:
	case 0x06 ... 0x0c:
	case 0x0e:
	case 0x0f:
	case 0x20 ... 0x27:
	case 0x30:
	case 0x32 ... 0x3f:
	case 0xa0:
	case 0xa1:
	case 0xa8 ... 0xaa:
	case 0xff:
		return X;
	default:
		return M;
	}
}

static size_t modrm_length(const uint8_t *at, const uint8_t *end)
{
	size_t n = 1;
	uint8_t mod, rm;

	if (at >= end)
		return 0;
	mod = at[0] >> 6;
	rm = at[0] & 7;
	if (mod == 3)
		return n;
	if (rm == 4) {
		if (end - at < 2)
			return 0;
		n += mod == 0 && (at[1] & 7) == 5 ? 5u : 1u;
	}
	return n + (mod == 1 ? 1u : mod == 2 || (mod == 0 && rm == 5) ? 4u : 0u);
}

/* An instruction taken apart as far as the walk needs it. */
struct instruction {
	size_t length;
	const uint8_t *op; /* the last opcode byte; ModRM behind it */
	uint8_t rex;
	bool two, vex;
	bool narrow; /* 0x66 */
};

/* *at stands behind the prefixes and on the last opcode byte then.  Returns what follows it. */
static uint8_t opcode(struct instruction *in, const uint8_t **at, const uint8_t *end)
{
	const uint8_t *p = *at;
	uint8_t map;

	if (end - p >= 4 && (*p == 0xc5 || *p == 0xc4)) { /* VEX */
		map = *p == 0xc5 ? 1 : p[1] & 31;
		*at = in->op = p + (*p == 0xc5 ? 2 : 3);
		in->vex = true;
		return map == 1 ? two_byte(**at) : map == 2 ? M : map == 3 ? M | B : X;
	}
	if (*p != 0x0f) {
		in->op = p;
		return one_byte[*p];
	}
	in->two = true;
	*at = in->op = ++p;
	if (p + 1 >= end)
		return X;
	if (*p != 0x38 && *p != 0x3a)
		return two_byte(*p);
	*at = in->op = p + 1;
	return *p == 0x38 ? M : M | B;
}

static bool decode(struct instruction *in, const uint8_t *code, size_t len)
{
	const uint8_t *at = code, *end = code + min_u64(len, 15);
	uint8_t follows;
	size_t modrm = 0;

	*in = (struct instruction){0};
	while (at < end && *at && memchr("\x66\xf2\xf3\x2e\x3e\x36\x26\x64\x65\xf0", *at, 10)) {
		in->narrow |= *at == 0x66;
		at++;
	}
	if (at < end && (*at & 0xf0) == 0x40)
		in->rex = *at++;
	if (at >= end)
		return false;
	follows = opcode(in, &at, end);
	if (follows & X)
		return false;
	at++;
	if (in->narrow && !in->two && (*in->op == 0xe8 || *in->op == 0xe9))
		return false; /* two bytes to one maker's processors, four to another's */
	if (*in->op == 0x8f && !in->two && at < end && *at & 0x38)
		return false; /* XOP */
	if (follows & M) {
		modrm = modrm_length(at, end);
		if (!modrm)
			return false;
		if (follows & T && !(*at >> 3 & 6))
			follows |= *in->op == 0xf6 ? B : Z;
	}
	at += modrm;
	at += (follows & B ? 1 : 0) + (follows & W ? 2 : 0);
	if (follows & Q)
		at += in->rex & 8 ? 8 : in->narrow ? 2 : 4;
	if (follows & Z)
		at += in->narrow && !(in->two && (*in->op & 0xf0) == 0x80) ? 2 : 4;
	in->length = (size_t)(at - code);
	return in->length <= len && in->length <= 15;
}

size_t code_length(const uint8_t *code, size_t len)
{
	struct instruction in;

	return decode(&in, code, len) ? in.length : 0;
}

/* ---- the walk ---- */

struct code_state {
	int64_t sp; /* rsp, from where it stood at first */
	int64_t bp; /* where the caller's rbp was popped from, -1: nowhere */
};

enum way { GOES_ON, JUMPS, ENDS, ENDS_BY_FP, LOST };

static int64_t imm8(const uint8_t *at)
{
	return (int8_t)*at;
}

static int64_t imm32(const uint8_t *at)
{
	int32_t value;

	memcpy(&value, at, 4);
	return value;
}

enum { REG_SP = 4, REG_BP = 5 };

/* Arithmetic with an immediate number: opcode 81 or 83. */
static enum way walk_arithmetic(const struct instruction *in, struct code_state *s)
{
	uint8_t modrm = in->op[1], operation = modrm >> 3 & 7;
	int64_t value;

	if ((modrm & 0xc7) != (0xc0 | REG_SP) || in->rex & 1)
		return GOES_ON; /* not of rsp */
	if (in->narrow)
		return LOST; /* of sp, and its number has two bytes */
	value = *in->op == 0x83 ? imm8(in->op + 2) : imm32(in->op + 2);
	if (operation == 0)
		s->sp += value;
	else if (operation == 5)
		s->sp -= value;
	else if (operation != 7) /* cmp */
		return LOST;
	return GOES_ON;
}

/* mov N(%rsp),%rbp: as Go gives rbp back. */
static bool is_bp_load(const struct instruction *in, int64_t *ret_offset)
{
	uint8_t modrm = in->op[1];

	if (*in->op != 0x8b || (modrm & 0x3f) != (REG_BP << 3 | 4) || modrm >> 6 == 3 ||
	    in->op[2] != 0x24 || (in->rex & 0xf) != 8)
		return false;
	*ret_offset = modrm >> 6 == 0 ? 0 : modrm >> 6 == 1 ? imm8(in->op + 3) : imm32(in->op + 3);
	return true;
}

/* mov and lea into rsp or rbp. */
static enum way walk_move(const struct instruction *in, struct code_state *s)
{
	uint8_t modrm = in->op[1], reg = modrm >> 3 & 7, rm = modrm & 7;
	bool registers = modrm >> 6 == 3;
	uint8_t to = *in->op == 0x89 ? rm : reg, from = *in->op == 0x89 ? reg : rm;
	uint8_t to_rex = *in->op == 0x89 ? 1 : 4, from_rex = *in->op == 0x89 ? 4 : 1;
	int64_t offset;

	if (is_bp_load(in, &offset))
		s->bp = s->sp + offset;
	if (*in->op == 0x89 && !registers)
		return GOES_ON; /* into memory */
	if (in->rex & to_rex || to != REG_SP)
		return GOES_ON;
	/* mov %rbp,%rsp and lea -N(%rbp),%rsp: rbp is the frame's. */
	return from == REG_BP && !(in->rex & from_rex) && (registers || *in->op == 0x8d)
		       ? ENDS_BY_FP
		       : LOST;
}

static enum way walk_group5(const struct instruction *in, struct code_state *s)
{
	switch (in->op[1] >> 3 & 7) {
	case 2: /* call */
	case 0:
	case 1:
		return GOES_ON;
	case 4: /* jmp: to another function, if nothing is left on the stack */
		return ENDS;
	case 6:
		s->sp -= 8;
		return GOES_ON;
	default:
		return LOST;
	}
}

/* Arithmetic into rsp with what only the processor knows. */
static bool is_lost(const struct instruction *in)
{
	uint8_t op = *in->op;
	bool both_ways = op < 0x40 && (op & 7) < 4, to_rm = op == 0x87 || (both_ways && !(op & 2));

	if (op == 0x94 && !(in->rex & 1))
		return true;				       /* xchg %rax,%rsp */
	if ((!both_ways && op != 0x87) || (op & 0xf8) == 0x38) /* cmp */
		return false;
	if (to_rm)
		return (in->op[1] & 0xc7) == (0xc0 | REG_SP) && !(in->rex & 1);
	return (in->op[1] >> 3 & 7) == REG_SP && !(in->rex & 4);
}

static enum way walk_one(const struct instruction *in, struct code_state *s)
{
	uint8_t op = *in->op;

	if (in->two || in->vex)
		return in->two && op == 0x0b ? LOST : GOES_ON;
	if (is_lost(in))
		return LOST;
	switch (op) {
	case 0x50 ... 0x57:
		s->sp -= 8;
		return GOES_ON;
	case 0x58 ... 0x5f:
		if (op == 0x58 + REG_SP && !(in->rex & 1))
			return LOST;
		if (op == 0x58 + REG_BP && !(in->rex & 1))
			s->bp = s->sp;
		s->sp += 8;
		return GOES_ON;
	case 0x68:
	case 0x6a:
		s->sp -= 8;
		return GOES_ON;
	case 0x9c:
		s->sp -= 8;
		return GOES_ON;
	case 0x8f:
	case 0x9d:
		s->sp += 8;
		return GOES_ON;
	case 0x81:
	case 0x83:
		return walk_arithmetic(in, s);
	case 0x89:
	case 0x8b:
	case 0x8d:
		return walk_move(in, s);
	case 0xc9:
		return ENDS_BY_FP;
	case 0xc2:
	case 0xc3:
		return ENDS;
	case 0xcc:
	case 0xf4:
		return LOST;
	case 0xe9:
	case 0xeb:
		return JUMPS;
	case 0xff:
		return walk_group5(in, s);
	default:
		return GOES_ON;
	}
}

bool code_walk(const uint8_t *code, size_t at, size_t len, struct code_way *ret_way)
{
	struct code_state s = {.bp = -1};
	struct instruction in;

	for (unsigned step = 0; step < STEPS_MAX && at < len; step++) {
		enum way way;
		int64_t to;

		if (!decode(&in, code + at, len - at))
			return false;
		way = walk_one(&in, &s);
		at += in.length;
		if (way == GOES_ON)
			continue;
		if (way == JUMPS) {
			to = (int64_t)at + (*in.op == 0xeb ? imm8(in.op + 1) : imm32(in.op + 1));
			if (to < 0 || to >= (int64_t)len)
				return false;
			at = (size_t)to;
			continue;
		}
		if (way == ENDS && (s.sp < 0 || s.sp > CODE_WALK_MAX || s.sp & 7))
			return false;
		if (way == LOST)
			return false;
		*ret_way = (struct code_way){
			.by_fp = way == ENDS_BY_FP,
			.ra = (uint32_t)(way == ENDS ? s.sp : 0),
			/* What the walk itself pushed is not on the stack yet: rbp is live. */
			.bp = s.bp >= 0 && s.bp < CODE_WALK_MAX && !(s.bp & 7) ? (int32_t)s.bp : -1,
		};
		return true;
	}
	return false;
}
