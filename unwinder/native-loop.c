/* native-loop.c - see script-frames.h.  Where CPython's evaluation loop keeps its next instruction during a call, by its code
 * behind the call: the register that has it else is one that calls clobber, with some compilers.
 *
 *     mov 0x10(%rsp),%r10      it comes back from a slot of the loop's own stack
 *     mov %rbp,%r10            ... from a register that calls preserve, or one that was loaded from a slot
 *     lea 0x6(%rdi),%r10       ... by a register that was loaded from a slot
 *     movzbl 0x1(%rbp),%r14d   it is fetched through a register of this kind, or one that was loaded from a slot
 *     mov 0x38(%rbp),%rax      ... from the frame: it is nowhere else
 *     mov %r10,0x28(%rsp)      it is put away during a later call: that slot has something else in the call in hand
 *
 * The bytes are looked at from each offset, so what is found may be none of these: the caller checks that the word is in a function.
 * Numbers of registers are those of the instruction set. */
#include "unwinder/script-frames.h"

enum {
	RSP = 4,
	FRAME_INSTR = 56,
	INSN_MAX = 9,
	JUMP_MAX = 1 << 18,
	SLOTS = 512 / 8, /* of the loop's stack that later code may use again */
	PRESERVED = 1 << 3 | 1 << 5 | 0xf << 12,
};

/* Of one instruction of the kinds above. */
struct insn {
	enum { OTHER, LOAD, STORE, MOVE, FETCH, SUM } kind;
	unsigned to, from; /* registers; STORE: @to is put where @from points */
	int32_t at;	   /* LOAD, STORE, FETCH: offset from the register @from */
};

/* The memory operand of ModRM at @p with @rex, without an index. */
static bool memory_operand(const uint8_t *p, unsigned rex, struct insn *i)
{
	unsigned mod = p[0] >> 6, base = p[0] & 7;
	const uint8_t *disp = p + 1;

	if (mod == 3 || (mod == 0 && base == 5))
		return false;
	if (base == RSP && *disp++ != 0x24)
		return false;
	i->from = base | (rex & 1) << 3;
	if (mod == 1)
		i->at = (int8_t)disp[0];
	else if (mod == 2)
		memcpy(&i->at, disp, sizeof(i->at));
	return true;
}

/* @p: INSN_MAX bytes, at least. */
static struct insn decode(const uint8_t *p)
{
	struct insn i = {.kind = OTHER};
	unsigned rex = (p[0] & 0xf0) == 0x40 ? *p++ : 0;

	if (p[0] == 0x0f && p[1] == 0xb6) {
		if (memory_operand(p + 2, rex, &i) && i.from != RSP)
			i.kind = FETCH;
		return i;
	}
	if (rex & 8 && p[0] == 0x8d && p[1] >> 6 != 3) { /* lea, with an index or not */
		i.to = (p[1] >> 3 & 7u) | (rex & 4) << 1;
		i.from = ((p[1] & 7) == RSP ? p[2] & 7u : p[1] & 7u) | (rex & 1) << 3;
		i.kind = SUM;
		return i;
	}
	if (!(rex & 8) || (p[0] != 0x8b && p[0] != 0x89))
		return i;
	i.to = (p[1] >> 3 & 7u) | (rex & 4) << 1;
	if (p[1] >> 6 == 3) {
		i.from = (p[1] & 7u) | (rex & 1) << 3;
		if (p[0] == 0x89) {
			unsigned to = i.from;

			i.from = i.to;
			i.to = to;
		}
		i.kind = MOVE;
	} else if (memory_operand(p + 1, rex, &i)) {
		i.kind = p[0] == 0x8b ? LOAD : STORE;
	}
	return i;
}

static bool is_preserved(unsigned reg)
{
	return PRESERVED >> reg & 1;
}

static void add(struct script_slot *s, uint8_t kind, int32_t at)
{
	if (s->n < SCRIPT_WHERES)
		s->where[s->n++] = (struct script_where){kind, at};
}

/* Does the code at @p jump?  *ret_to: 0, or how far from @p to the place where it goes on. */
static bool jumps(const uint8_t *p, int64_t *ret_to)
{
	int32_t to;

	*ret_to = 0;
	if (p[0] == 0xff && (p[1] & 0xf8) == 0xe0)
		return true; /* jmp *%reg: to the code of the instruction that was fetched */
	if (p[0] != 0xe9)
		return false;
	memcpy(&to, p + 1, sizeof(to));
	*ret_to = (int64_t)to + 5;
	return to > -JUMP_MAX && to < JUMP_MAX;
}

/* Which slots of the call in hand the registers and the slots have by now; < 0: none. */
struct contents {
	int32_t registers[16], slots[SLOTS];
};

/* What the slot at @at of the loop's stack has. */
static int32_t *content_of(struct contents *c, int32_t at)
{
	return at >= 0 && !(at & 7) && at / 8 < SLOTS ? &c->slots[at / 8] : NULL;
}

static void copy_content(struct contents *c, const struct insn *insn)
{
	int32_t *slot = insn->from == RSP ? content_of(c, insn->at) : NULL;

	if (insn->kind == LOAD)
		c->registers[insn->to] = slot ? *slot : -1;
	else if (insn->kind == STORE && slot)
		*slot = c->registers[insn->to];
}

uint64_t script_loop_slots(struct script_slot *s, const uint8_t *code, size_t len, uint64_t address,
			   unsigned next)
{
	struct contents c;
	int64_t to;

	for (size_t i = 0; i < ARRAY_SIZE(c.registers); i++)
		c.registers[i] = -1;
	for (int32_t i = 0; i < SLOTS; i++)
		c.slots[i] = 8 * i;
	for (size_t i = 0; i + INSN_MAX <= len && s->n < SCRIPT_WHERES; i++) {
		struct insn insn = decode(code + i);

		if (jumps(code + i, &to))
			return to ? address + i + (uint64_t)to : 0;
		copy_content(&c, &insn);
		if (insn.kind == LOAD && insn.from == RSP) {
			if (insn.to == next && c.registers[next] >= 0)
				add(s, SCRIPT_IN_SLOT, c.registers[next]);
		} else if (insn.kind == LOAD && insn.at == FRAME_INSTR) {
			add(s, SCRIPT_IN_FRAME, (int32_t)insn.from);
		} else if (insn.kind != FETCH &&
			   ((insn.kind != SUM && insn.kind != MOVE) || insn.to != next)) {
			continue;
		} else if (c.registers[insn.from] >= 0) {
			add(s, SCRIPT_IN_SLOT, c.registers[insn.from]);
		} else if (is_preserved(insn.from)) {
			add(s, SCRIPT_IN_REGISTER, (int32_t)insn.from);
		}
	}
	return 0;
}
