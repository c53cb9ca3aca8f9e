/* code-walk.c - see code-walk.h.
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
 * walk gives up at whatever it does not know: no answer is better than a wrong one.
 *
 * What ends in leave has its frame at rbp: at the walk's first instruction already, unless the walk
 * meets the mov %rsp,%rbp that makes it so; and what ends in mov (%rbp),%rbp and an add to rsp.  Compilers put other work between that and the push.
 *
 *  -> mov 0x78(%rdx),%rbp    a switch of stacks, behind mov 0xa0(%rdx),%rsp: as long as there are
 *     mov 0xa8(%rdx),%rcx    only loads, it is known what is in every register
 *     push %rcx              the return address: the word at rdx + 0xa8
 *     mov 0x98(%rdx),%rcx
 *     ret                    at rsp - 8, which nothing but that push has filled */
#include "unwinder/code-walk.h"
#include "unwinder/code-insn.h"
#include "unwinder/regs.h"

#include <string.h>

#include "base/util.h"

enum {
	STEPS_MAX = 192,
	EXIT_STEPS = 32, /* an epilogue, and what a compiler puts between its pops */
};

/* What a register holds, by the registers at the walk's first instruction. */
struct held {
	uint8_t reg;
	bool memory;
	int32_t offset;
};

enum code_fp { FP_AS_IT_WAS, FP_KNOWN, FP_LOST };

struct code_state {
	int64_t sp;	 /* rsp, from where it stood at first */
	int64_t bp;	 /* where the caller's rbp was popped from, -1: nowhere */
	enum code_fp fp; /* what rbp is */
	int64_t fp_at;	 /* FP_KNOWN: where it points to */
	bool loads;	 /* nothing but loads so far: @regs is true */
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

/* mov N(%rsp),%rbp: as Go gives rbp back. */
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

/* Moves of 64 bits: what they bring where. */
static void note_move(const struct code_insn *in, struct code_state *s)
{
	uint8_t modrm = in->op[1], reg = (uint8_t)((modrm >> 3 & 7) | (in->rex & 4) << 1);
	uint8_t rm = (uint8_t)((modrm & 7) | (in->rex & 1) << 3), base;
	bool load = *in->op == 0x8b;
	struct held *to = &s->regs[load ? reg : rm];
	int32_t offset;

	if (!load && modrm >> 6 != 3)
		return;			     /* into memory */
	s->pushed &= to != &s->regs[REG_BP]; /* behind the push: not what was noted with it */
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

	/* Two registers are no operand, and have no byte behind ModRM. */
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

/* Arithmetic into rsp with what only the processor knows. */
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

	/* Whatever else there is may write a register. */
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

/* Numbers of the processor's to DWARF's: the first eight are in another order. */
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

/* The end was met: what it says. */
static bool walk_end(const struct code_state *s, enum way end, struct code_way *way)
{
	struct code_way told = {.bp = -1};

	if (end == ENDS_BY_FP) {
		told.kind = CODE_WAY_FP;
	} else if (end == ENDS && s->sp == -8 && s->pushed && s->bp == -1) {
		told.kind = CODE_WAY_PUSHES;
		if (!source_of(&s->ra_from, &told.from) || !source_of(&s->bp_from, &told.bp_from))
			return false;
	} else if (s->sp < 0 || s->sp > CODE_WALK_MAX || s->sp & 7) {
		return false;
	} else {
		told.ra = (uint32_t)s->sp;
	}
	/* What the walk itself pushed is not on the stack yet: rbp is live. */
	if (s->bp >= 0 && s->bp < CODE_WALK_MAX && !(s->bp & 7))
		told.bp = (int32_t)s->bp;
	*way = told;
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
		return (op & 0xf0) == 0x80;
	return (op & 0xf0) == 0x70 || (op & 0xfc) == 0xe0 || op == 0xe8 ||
	       (op == 0xff && (in->op[1] & 0x38) == 0x10);
}

/* mov REG,N(%rsp): it may make the return address. */
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
	struct code_exit told = {.kind = CODE_EXIT_RETURN};
	struct code_state s;
	struct code_insn in;

	state_init(&s);
	for (unsigned step = 0; step < EXIT_STEPS && at < len; step++) {
		enum way way;

		if (!code_decode(&in, code + at, len - at) || is_branch(&in) || is_stack_store(&in))
			return false;
		way = walk_one(&in, &s);
		at += in.length;
		told.pops |= is_pop_of_callers(&in);
		told.sp = s.sp;
		told.bp = s.bp;
		switch (way) {
		case GOES_ON:
			continue;
		case JUMPS:
			told.to = jump_target(&in, at);
			if (told.to >= 0 && told.to < (int64_t)len) {
				at = (size_t)told.to;
				continue;
			}
			told.kind = CODE_EXIT_JUMP;
			break;
		case ENDS_BY_JUMP:
			told.kind = CODE_EXIT_POINTER;
			break;
		case ENDS:
			break;
		default:
			return false;
		}
		*ret_exit = told;
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
