/* code-insn.c - see code-insn.h.  x86-64 encodings: Intel SDM volume 2, appendix A.
 *
 * Lengths come from three tables of what follows an opcode.  What the tables do not know ends a walk,
 * so instructions that only a processor's mode or an old one gives a meaning to are left out. */
#include "unwinder/code-insn.h"

#include "base/util.h"

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
	/* f0 */ X, X, X, X, NO, NO, M | T, M | T, NO, NO, X, X, NO, NO, M, M,
};
/* clang-format on */

/* Behind 0f, and of VEX map 1. */
static uint8_t two_byte(uint8_t op)
{
	switch (op) {
	case 0x05: /* syscall */
	case 0x0b: /* ud2 */
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
	case 0x00:
	case 0x02 ... 0x04:
	case 0x06 ... 0x0a:
	case 0x0c:
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

/* *at stands behind the prefixes and on the last opcode byte then.  Returns what follows it. */
static uint8_t opcode(struct code_insn *in, const uint8_t **at, const uint8_t *end)
{
	const uint8_t *p = *at;
	uint8_t map;

	if (end - p >= 4 && (*p == 0xc5 || *p == 0xc4)) { /* VEX */
		map = *p == 0xc5 ? 1 : p[1] & 31;
		*at = in->op = p + (*p == 0xc5 ? 2 : 3);
		in->vex = true;
		return map == 1 ? two_byte(**at) : map == 2 ? M : map == 3 ? M | B : X;
	}
	if (end - p >= 6 && *p == 0x62) { /* EVEX; maps 5 and 6 are FP16's */
		map = p[1] & 7;
		*at = in->op = p + 4;
		in->vex = true;
		return map == 1 ? two_byte(**at) : map == 3 ? M | B : map == 4 || !map ? X : M;
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

static bool is_prefix(uint8_t byte)
{
	switch (byte) {
	case 0x26:
	case 0x2e:
	case 0x36:
	case 0x3e:
	case 0x64 ... 0x66:
	case 0xf0:
	case 0xf2 ... 0xf3:
		return true;
	default:
		return false;
	}
}

bool code_decode(struct code_insn *in, const uint8_t *code, size_t len)
{
	const uint8_t *at = code, *end = code + min_u64(len, 15);
	uint8_t follows;
	size_t modrm = 0;

	*in = (struct code_insn){0};
	for (; at < end && is_prefix(*at); at++) {
		in->narrow |= *at == 0x66;
		in->segment |= *at == 0x64 || *at == 0x65;
	}
	if (at < end && (*at & 0xf0) == 0x40)
		in->rex = *at++;
	/* REX.W wins: 0x66 is padding then, as in calls of __tls_get_addr(). */
	if (in->rex & 8)
		in->narrow = false;
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
	struct code_insn in;

	return code_decode(&in, code, len) ? in.length : 0;
}
