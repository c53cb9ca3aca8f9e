/* code.c - see code.h.  Encodings: x86-64, Intel SDM volume 2; aarch64, Arm Architecture Reference
 * Manual for A-profile, C4.1 and C6.2. */
#include <string.h>

#include "base/util.h"
#include "unwinder/code.h"
#include "unwinder/regs.h"

/* ---- x86-64 instructions ----
 *
 * Three tables give the operands of an opcode (appendix A).  An instruction that the tables do not
 * know ends a walk, so instructions that only a processor mode or an old processor defines are left
 * out. */

/* The bytes that follow an opcode. */
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

/* Moves *at behind the prefixes, to the last opcode byte. Returns the operands of the opcode. */
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

/* ---- walks through x86-64 code ----
 *
 *     push %rbx        rsp is followed from the pc to the ret; registers pushed before the pc
 *     sub  $48,%rsp    are popped behind it, so at the ret rsp is at the return address:
 *  -> call f
 *     add  $48,%rsp    +48
 *     pop  %rbx        +8        return address at rsp + 56
 *     ret
 *
 * A conditional jump is not taken, a jump is followed, a call restores rsp.  That is one path through
 * the function, and all paths to a ret agree on the place of the return address.  The walk gives up
 * at every instruction it does not know: no answer is better than a wrong one.
 *
 * A path that ends in leave has its frame at rbp, from the first instruction of the walk on, except where
 * the walk meets the mov %rsp,%rbp that sets it.  So does a path that ends in mov (%rbp),%rbp and an
 * add to rsp.  Compilers put other work between that mov and the push.
 *
 *  -> mov 0x78(%rdx),%rbp    a switch of stacks, behind mov 0xa0(%rdx),%rsp: as long as there are
 *     mov 0xa8(%rdx),%rcx    only loads, the content of every register is known
 *     push %rcx              the return address: the word at rdx + 0xa8
 *     mov 0x98(%rdx),%rcx
 *     ret                    at rsp - 8, which only that push has filled */

enum {
	STEPS_MAX = 192,
	EXIT_STEPS =
		32, /* an epilogue, and the instructions that a compiler puts between its pops */
};

/* The content of a register, in terms of the registers at the first instruction of the walk. */
struct held {
	uint8_t reg;
	bool memory;
	int32_t offset;
};

enum code_fp { FP_AS_IT_WAS, FP_KNOWN, FP_LOST };

struct code_state {
	int64_t sp;	 /* rsp, from where it stood at first */
	int64_t bp;	 /* where the caller's rbp was popped from, -1: nowhere */
	enum code_fp fp; /* the content of rbp */
	int64_t fp_at;	 /* FP_KNOWN: where it points to */
	bool loads;	 /* only loads so far: @regs is valid */
	bool pushed;	 /* so was the first word below where rsp stood */
	struct held regs[16], ra_from, bp_from;
};

enum way { GOES_ON, JUMPS, ENDS, ENDS_BY_JUMP, ENDS_BY_FP, LOST };

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
static enum way walk_arithmetic(const struct code_insn *in, struct code_state *s)
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

/* mov N(%rsp),%rbp: as Go restores rbp. */
static bool is_bp_load(const struct code_insn *in, int64_t *ret_offset)
{
	uint8_t modrm = in->op[1];

	if (*in->op != 0x8b || (modrm & 0x3f) != (REG_BP << 3 | 4) || modrm >> 6 == 3 ||
	    in->op[2] != 0x24 || (in->rex & 0xf) != 8)
		return false;
	*ret_offset = modrm >> 6 == 0 ? 0 : modrm >> 6 == 1 ? imm8(in->op + 3) : imm32(in->op + 3);
	return true;
}

/* The memory operand of ModRM as register and offset; false: of another form. */
static bool based_operand(const struct code_insn *in, uint8_t *ret_reg, int32_t *ret_offset)
{
	uint8_t modrm = in->op[1], mod = modrm >> 6, rm = modrm & 7;

	if (mod == 3 || rm == REG_SP || (mod == 0 && rm == REG_BP) || in->segment)
		return false;
	*ret_reg = (uint8_t)(rm | (in->rex & 1) << 3);
	*ret_offset = (int32_t)(mod == 0 ? 0 : mod == 1 ? imm8(in->op + 2) : imm32(in->op + 2));
	return true;
}

/* Moves of 64 bits: notes the source of the destination. */
static void note_move(const struct code_insn *in, struct code_state *s)
{
	uint8_t modrm = in->op[1], reg = (uint8_t)((modrm >> 3 & 7) | (in->rex & 4) << 1);
	uint8_t rm = (uint8_t)((modrm & 7) | (in->rex & 1) << 3), base;
	bool load = *in->op == 0x8b;
	struct held *to = &s->regs[load ? reg : rm];
	int32_t offset;

	if (!load && modrm >> 6 != 3)
		return;			     /* into memory */
	s->pushed &= to != &s->regs[REG_BP]; /* a change behind the push: the note is invalid */
	if (*in->op == 0x8d || !(in->rex & 8))
		s->loads = false;
	else if (modrm >> 6 == 3)
		*to = s->regs[load ? rm : reg];
	else if (based_operand(in, &base, &offset) && s->regs[base].reg == base &&
		 !s->regs[base].memory)
		*to = (struct held){.reg = base, .memory = true, .offset = offset};
	else
		s->loads = false;
}

static void note_push(const struct code_insn *in, struct code_state *s)
{
	if (s->sp == 0 && s->loads) {
		s->pushed = true;
		s->ra_from = s->regs[(*in->op & 7) | (in->rex & 1) << 3];
		s->bp_from = s->regs[REG_BP];
	}
	s->sp -= 8;
}

/* N(%rsp), for lea. */
static bool sp_operand(const struct code_insn *in, int64_t *ret_offset)
{
	uint8_t modrm = in->op[1];

	/* Two registers are not an operand, and have no byte behind ModRM. */
	if (modrm >> 6 == 3 || (modrm & 7) != REG_SP || in->op[2] != 0x24 || in->rex & 3)
		return false;
	*ret_offset = modrm >> 6 == 0 ? 0 : modrm >> 6 == 1 ? imm8(in->op + 3) : imm32(in->op + 3);
	return true;
}

/* mov and lea into rbp. */
static void note_fp(const struct code_insn *in, uint8_t from, bool from_is_rex,
		    struct code_state *s)
{
	int64_t offset = 0;

	s->fp = FP_LOST;
	if (!(in->rex & 8))
		return;
	if (*in->op == 0x8d ? sp_operand(in, &offset)
			    : in->op[1] >> 6 == 3 && from == REG_SP && !from_is_rex) {
		s->fp = FP_KNOWN;
		s->fp_at = s->sp + offset;
	}
}

/* mov %rbp,%rsp and lea -N(%rbp),%rsp. */
static enum way walk_to_fp(const struct code_insn *in, struct code_state *s)
{
	uint8_t mod = in->op[1] >> 6;

	if (*in->op == 0x8d && mod != 1 && mod != 2)
		return LOST; /* by rip, or no instruction */
	if (s->fp != FP_KNOWN)
		return s->fp == FP_LOST ? LOST : ENDS_BY_FP; /* it is the frame's */
	s->sp = s->fp_at;
	if (*in->op == 0x8d)
		s->sp += mod == 1 ? imm8(in->op + 2) : imm32(in->op + 2);
	return GOES_ON;
}

static enum way walk_leave(struct code_state *s)
{
	if (s->fp != FP_KNOWN)
		return s->fp == FP_LOST ? LOST : ENDS_BY_FP;
	s->bp = s->fp_at;
	s->sp = s->fp_at + 8;
	s->fp = FP_LOST;
	return GOES_ON;
}

/* mov (%rbp),%rbp: the caller's rbp is taken back, as V8 does before it jumps on. */
static bool is_fp_load(const struct code_insn *in)
{
	return *in->op == 0x8b && in->op[1] == (1 << 6 | REG_BP << 3 | REG_BP) && !in->op[2] &&
	       (in->rex & 0xf) == 8;
}

static enum way walk_fp_load(struct code_state *s)
{
	if (s->fp != FP_KNOWN)
		return s->fp == FP_LOST ? LOST : ENDS_BY_FP;
	s->bp = s->fp_at;
	s->fp = FP_LOST;
	return GOES_ON;
}

/* mov and lea into rsp or rbp. */
static enum way walk_move(const struct code_insn *in, struct code_state *s)
{
	uint8_t modrm = in->op[1], reg = modrm >> 3 & 7, rm = modrm & 7;
	bool registers = modrm >> 6 == 3;
	uint8_t to = *in->op == 0x89 ? rm : reg, from = *in->op == 0x89 ? reg : rm;
	uint8_t to_rex = *in->op == 0x89 ? 1 : 4, from_rex = *in->op == 0x89 ? 4 : 1;
	int64_t offset;

	if (is_bp_load(in, &offset))
		s->bp = s->sp + offset;
	note_move(in, s);
	if (*in->op == 0x89 && !registers)
		return GOES_ON; /* into memory */
	if (is_fp_load(in))
		return walk_fp_load(s);
	if (!(in->rex & to_rex) && to == REG_BP)
		note_fp(in, from, in->rex & from_rex, s);
	if (in->rex & to_rex || to != REG_SP)
		return GOES_ON;
	if (*in->op == 0x8d && sp_operand(in, &offset)) {
		s->sp += offset;
		return GOES_ON;
	}
	return from == REG_BP && !(in->rex & from_rex) && (registers || *in->op == 0x8d)
		       ? walk_to_fp(in, s)
		       : LOST;
}

static enum way walk_group5(const struct code_insn *in, struct code_state *s)
{
	switch (in->op[1] >> 3 & 7) {
	case 2: /* call */
	case 0:
	case 1:
		return GOES_ON;
	case 4: /* jmp: to another function, if nothing is left on the stack */
		return ENDS_BY_JUMP;
	case 6:
		s->sp -= 8;
		return GOES_ON;
	default:
		return LOST;
	}
}

/* Arithmetic on rsp with a value that is not in the code. */
static bool is_lost(const struct code_insn *in)
{
	uint8_t op = *in->op;
	bool exchanges = op == 0x87, both_ways = op < 0x40 && (op & 7) < 4;
	bool rm, reg;

	if (op == 0x94 && !(in->rex & 1))
		return true;				       /* xchg %rax,%rsp */
	if ((!both_ways && !exchanges) || (op & 0xf8) == 0x38) /* cmp */
		return false;
	rm = (in->op[1] & 0xc7) == (0xc0 | REG_SP) && !(in->rex & 1);
	reg = (in->op[1] >> 3 & 7) == REG_SP && !(in->rex & 4);
	return exchanges ? rm || reg : op & 2 ? reg : rm;
}

static enum way walk_one(const struct code_insn *in, struct code_state *s)
{
	uint8_t op = *in->op;

	/* Any other instruction may write a register. */
	s->loads &= !in->two && !in->vex &&
		    (op == 0x89 || op == 0x8b || op == 0x8d || (op & 0xf8) == 0x50);
	if (in->two || in->vex)
		return in->two && op == 0x0b ? LOST : GOES_ON;
	if (is_lost(in))
		return LOST;
	switch (op) {
	case 0x50 ... 0x57:
		note_push(in, s);
		return GOES_ON;
	case 0x58 ... 0x5f:
		if (op == 0x58 + REG_SP && !(in->rex & 1))
			return LOST;
		if (op == 0x58 + REG_BP && !(in->rex & 1)) {
			s->bp = s->sp;
			s->fp = FP_LOST;
		}
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
		return walk_leave(s);
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

/* Register numbers of the processor to DWARF's: the first eight are in another order. */
static bool source_of(const struct held *held, struct code_source *ret_source)
{
	static const uint8_t dwarf[] = {DWARF_X86_RAX, DWARF_X86_RCX, DWARF_X86_RDX, DWARF_X86_RBX,
					DWARF_X86_RSP, DWARF_X86_RBP, DWARF_X86_RSI, DWARF_X86_RDI};

	if (held->offset < 0 || held->offset > CODE_SOURCE_MAX || held->offset & 7)
		return false;
	*ret_source = (struct code_source){
		.reg = held->reg < 8 ? dwarf[held->reg] : held->reg,
		.memory = held->memory,
		.offset = (uint32_t)held->offset,
	};
	return true;
}

/* The result at the end of the walk. */
static bool walk_end(const struct code_state *s, enum way end, struct code_way *way)
{
	struct code_way found = {.returns = end != ENDS_BY_JUMP, .bp = -1};

	if (end == ENDS_BY_FP) {
		found.kind = CODE_WAY_FP;
	} else if (end == ENDS && s->sp == -8 && s->pushed && s->bp == -1) {
		found.kind = CODE_WAY_PUSHES;
		if (!source_of(&s->ra_from, &found.from) || !source_of(&s->bp_from, &found.bp_from))
			return false;
	} else if (s->sp < 0 || s->sp > CODE_WALK_MAX || s->sp & 7) {
		return false;
	} else {
		found.ra = (uint32_t)s->sp;
	}
	/* A register that the walk itself pushed is not on the stack yet: rbp is live. */
	if (s->bp >= 0 && s->bp < CODE_WALK_MAX && !(s->bp & 7))
		found.bp = (int32_t)s->bp;
	*way = found;
	return true;
}

static void state_init(struct code_state *s)
{
	*s = (struct code_state){.bp = -1, .loads = true};
	for (uint8_t reg = 0; reg < 16; reg++)
		s->regs[reg].reg = reg;
}

static int64_t jump_target(const struct code_insn *in, size_t behind)
{
	return (int64_t)behind + (*in->op == 0xeb ? imm8(in->op + 1) : imm32(in->op + 1));
}

bool code_walk(const uint8_t *code, size_t at, size_t len, struct code_way *ret_way)
{
	struct code_state s;
	struct code_insn in;

	state_init(&s);
	for (unsigned step = 0; step < STEPS_MAX && at < len; step++) {
		enum way way;
		int64_t to;

		if (!code_decode(&in, code + at, len - at))
			return false;
		way = walk_one(&in, &s);
		at += in.length;
		if (way == GOES_ON)
			continue;
		if (way != JUMPS)
			return way != LOST && walk_end(&s, way, ret_way);
		to = jump_target(&in, at);
		if (to < 0 || to >= (int64_t)len)
			return false;
		at = (size_t)to;
	}
	return false;
}

/* A call, or a branch that may be taken or not. */
static bool is_branch(const struct code_insn *in)
{
	uint8_t op = *in->op;

	if (in->vex)
		return false;
	if (in->two)
		return code_is_long_branch(in);
	return (op & 0xf0) == 0x70 || (op & 0xfc) == 0xe0 || op == 0xe8 ||
	       (op == 0xff && (in->op[1] & 0x38) == 0x10);
}

/* mov REG,N(%rsp): it may write the return address. */
static bool is_stack_store(const struct code_insn *in)
{
	return !in->two && !in->vex && *in->op == 0x89 && in->op[1] >> 6 != 3 &&
	       (in->op[1] & 7) == REG_SP && (in->op[2] & 7) == REG_SP && !(in->rex & 1);
}

/* rbx, rbp and r12 to r15 are the caller's. */
static bool is_pop_of_callers(const struct code_insn *in)
{
	unsigned reg = (*in->op & 7u) | (in->rex & 1u) << 3;

	if (in->two || in->vex)
		return false;
	return *in->op == 0xc9 ||
	       ((*in->op & 0xf8) == 0x58 && (reg == 3 || reg == REG_BP || reg >= 12));
}

bool code_exits(const uint8_t *code, size_t at, size_t len, struct code_exit *ret_exit)
{
	struct code_exit found = {.kind = CODE_EXIT_RETURN};
	struct code_state s;
	struct code_insn in;

	state_init(&s);
	for (unsigned step = 0; step < EXIT_STEPS && at < len; step++) {
		enum way way;

		if (!code_decode(&in, code + at, len - at) || is_branch(&in) || is_stack_store(&in))
			return false;
		way = walk_one(&in, &s);
		at += in.length;
		found.pops |= is_pop_of_callers(&in);
		found.sp = s.sp;
		found.bp = s.bp;
		switch (way) {
		case GOES_ON:
			continue;
		case JUMPS:
			found.to = jump_target(&in, at);
			if (found.to >= 0 && found.to < (int64_t)len) {
				at = (size_t)found.to;
				continue;
			}
			found.kind = CODE_EXIT_JUMP;
			break;
		case ENDS_BY_JUMP:
			found.kind = CODE_EXIT_POINTER;
			break;
		case ENDS:
			break;
		default:
			return false;
		}
		*ret_exit = found;
		return true;
	}
	return false;
}

static bool is_trap(const struct code_insn *in)
{
	return in->two ? *in->op == 0x0b : *in->op == 0xcc || *in->op == 0xf4;
}

size_t code_moves_sp(const uint8_t *code, size_t len)
{
	struct code_insn in;
	struct code_state s;

	state_init(&s);
	for (size_t at = 0; at < len; at += in.length) {
		enum way way;

		if (!code_decode(&in, code + at, len - at))
			return at;
		way = walk_one(&in, &s);
		if (s.sp || way == ENDS_BY_FP || (way == LOST && !is_trap(&in)))
			return at;
	}
	return len;
}

/* mov REG,(%rsp) or push REG, and a ret behind it, at @at: a jump to REG, as in thunks against Spectre. */
static bool is_jump_by_ret(const struct code_insn *in, const uint8_t *code, size_t at, size_t len)
{
	if (in->two || at >= len || code[at] != 0xc3)
		return false;
	return (*in->op & 0xf8) == 0x50 || (*in->op == 0x89 && (in->op[1] & 0xc7) == REG_SP &&
					    in->op[2] == 0x24 && !(in->rex & 3));
}

bool code_next_jump(const uint8_t *code, size_t len, size_t *at, int64_t *ret_to)
{
	struct code_insn in;

	while (*at < len) {
		if (!code_decode(&in, code + *at, len - *at)) {
			*at = len;
			*ret_to = CODE_TO_POINTER;
			return true;
		}
		*at += in.length;
		if (in.vex)
			continue;
		if (in.two ? code_is_long_branch(&in) : *in.op == 0xe9)
			*ret_to = (int64_t)*at + imm32(in.op + 1);
		else if (!in.two && ((*in.op & 0xf0) == 0x70 || *in.op == 0xeb))
			*ret_to = (int64_t)*at + imm8(in.op + 1);
		else if ((!in.two && *in.op == 0xff && (in.op[1] & 0x38) == 0x20) ||
			 is_jump_by_ret(&in, code, *at, len))
			*ret_to = CODE_TO_POINTER;
		else
			continue;
		return true;
	}
	return false;
}

/* ---- aarch64 ----
 *
 * Instructions have 4 bytes, so code can be read backwards.  Where x30 may be the return address or
 * a leftover of a call, the nearest of these instructions before the pc decides: a function that
 * stores x29 and x30 has a frame record from there on; before its first instruction it has none. */

enum {
	INSN_RET = 0xd65f03c0,
	INSN_RETAA = 0xd65f0bff,
	INSN_RETAB = 0xd65f0fff,
	INSN_PACIASP = 0xd503233f,
	INSN_PACIBSP = 0xd503237f,
	INSN_AUTIASP = 0xd50323bf,
	INSN_AUTIBSP = 0xd50323ff,
	INSN_BTI_C = 0xd503245f,
	INSN_MOV_X29_SP = 0x910003fd,
	INSN_STP_X29_X30_16 = 0xa9bf7bfd, /* stp x29, x30, [sp, #-16]! */
	INSN_LDP_X29_X30_16 = 0xa8c17bfd, /* ldp x29, x30, [sp], #16 */
	INSN_STP_X16_X30_16 = 0xa9bf7bf0, /* stp x16, x30, [sp, #-16]!: the first PLT entry */
	INSN_BR_X17 = 0xd61f0220,
	INSN_MOV_X8_139 = 0xd2801168, /* rt_sigreturn's number */
	INSN_SVC_0 = 0xd4000001,
};

static uint32_t insn(const uint8_t *at)
{
	uint32_t word;

	memcpy(&word, at, sizeof(word));
	return word;
}

/* bl; blr; blraa, blrab and their forms without a modifier. */
static bool is_call(uint32_t i)
{
	return (i & 0xfc000000) == 0x94000000 || (i & 0xfffffc1f) == 0xd63f0000 ||
	       (i & 0xfefff800) == 0xd63f0800;
}

/* stp x29, x30, [sp, #n] and [sp, #n]! */
static bool is_record_stored(uint32_t i)
{
	return (i & 0xffc07fff) == 0xa9007bfd || (i & 0xffc07fff) == 0xa9807bfd;
}

/* ldp x29, x30, [sp, #n] and [sp], #n */
static bool is_record_loaded(uint32_t i)
{
	return (i & 0xffc07fff) == 0xa9407bfd || (i & 0xffc07fff) == 0xa8c07bfd;
}

static bool is_ret(uint32_t i)
{
	return i == INSN_RET || i == INSN_RETAA || i == INSN_RETAB;
}

static bool is_begin(uint32_t i)
{
	return i == INSN_PACIASP || i == INSN_PACIBSP || i == INSN_BTI_C;
}

static bool code_ends_in_call_aarch64(const uint8_t *code, size_t len)
{
	return len >= 4 && is_call(insn(code + len - 4));
}

/* The instructions before the pc, from the last one on. */
static enum rule_form form_scan(const uint8_t *code, size_t before)
{
	for (size_t at = before; at >= 4; at -= 4) {
		uint32_t i = insn(code + at - 4);

		if (is_record_stored(i))
			return RULE_FORM_FP;
		/* Of an epilogue only an authentication stands behind the load. */
		if (is_begin(i) || (before - at <= 4 && is_record_loaded(i)))
			return RULE_FORM_ENTRY;
		if (is_ret(i) && at >= 8) {
			uint32_t last = insn(code + at - 8);

			/* Behind a function without a frame, its own early return mostly. */
			if (!is_record_loaded(last) && last != INSN_AUTIASP && last != INSN_AUTIBSP)
				return RULE_FORM_ENTRY;
			break;
		}
	}
	return RULE_FORM_FP;
}

/* adrp x16; ldr x17, [x16, #n]; add x16, x16, #n; br x17: an entry of a PLT, at any of its instructions. */
static bool is_plt_entry(const uint8_t *at, size_t left)
{
	for (size_t i = 0; i + 4 <= left && i <= 12; i += 4) {
		uint32_t word = insn(at + i);

		if (word == INSN_BR_X17)
			return true;
		if ((word & 0x9f00001f) != 0x90000010 && (word & 0xffc003ff) != 0xf9400211 &&
		    (word & 0xffc003ff) != 0x91000210)
			return false;
	}
	return false;
}

static enum rule_form code_form_aarch64(const uint8_t *code, size_t before, size_t len)
{
	const uint8_t *at = code + before;
	size_t left = len - before;
	uint32_t this = left >= 4 ? insn(at) : 0, next = left >= 8 ? insn(at + 4) : 0,
		 last = before >= 4 ? insn(at - 4) : 0;

	if ((this == INSN_MOV_X8_139 && next == INSN_SVC_0) ||
	    (this == INSN_SVC_0 && last == INSN_MOV_X8_139))
		return RULE_FORM_SIGRETURN;
	if (this == INSN_LDP_X29_X30_16 && is_ret(next))
		return RULE_FORM_PUSHED;
	if (last == INSN_STP_X29_X30_16 && this == INSN_MOV_X29_SP)
		return RULE_FORM_PUSHED;
	if (is_plt_entry(at, left)) {
		/* The first entry pushes before it begins as the others do. */
		for (size_t n = 4; n <= 16 && n <= before; n += 4)
			if (insn(at - n) == INSN_STP_X16_X30_16)
				return RULE_FORM_PLT;
		return RULE_FORM_ENTRY;
	}
	if (is_record_stored(this) || is_ret(this) || is_begin(this) || this == INSN_STP_X16_X30_16)
		return RULE_FORM_ENTRY;
	return form_scan(code, before);
}

/* ---- the code around an address ---- */

/* FF /2: call r/m64.  The ModRM byte gives the number of SIB and displacement bytes that follow. */
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

bool code_ends_in_indirect_call(const uint8_t *code, size_t len)
{
	for (size_t n = 2; n <= 7 && n <= len; n++)
		if (call_indirect_len(code + len - n, n) == n)
			return true;
	return false;
}

bool code_ends_in_call(enum uw_arch arch, const uint8_t *code, size_t len)
{
	if (arch == UW_ARCH_AARCH64)
		return code_ends_in_call_aarch64(code, len);
	return (len >= 5 && code[len - 5] == 0xe8) || code_ends_in_indirect_call(code, len);
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
		   "\xf3\x0f\x1e\xfa")) { /* endbr64: the first of a function or a PLT entry */
		at += 4;
		left -= 4;
	}
	if (STARTS(at, left, "\x55") ||					/* push %rbp */
	    STARTS(at, left, "\xc3") || STARTS(at, left, "\xf3\xc3") || /* ret */
	    STARTS(at, left, "\xc2") ||					/* ret $n */
	    STARTS(at, left, "\xff\x25") ||
	    STARTS(at, left, "\xf2\xff\x25")) /* jmp *slot(%rip): a PLT entry */
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
