/* expression.c - see expression.h.  DWARF expressions as CFI contains them: DWARF 5, 2.5 and 6.4.2.
 *
 * Bounds: 64 values, 512 operations (branches can loop), bytes inside the expression. */
#include "base/bytes.h"
#include "unwinder/expression.h"

enum {
	OP_ADDR = 0x03,
	OP_DEREF = 0x06,
	OP_CONST1U = 0x08,
	OP_CONST1S,
	OP_CONST2U,
	OP_CONST2S,
	OP_CONST4U,
	OP_CONST4S,
	OP_CONST8U,
	OP_CONST8S,
	OP_CONSTU,
	OP_CONSTS,
	OP_DUP,
	OP_DROP,
	OP_OVER,
	OP_PICK,
	OP_SWAP,
	OP_ROT,
	OP_ABS = 0x19,
	OP_AND,
	OP_DIV,
	OP_MINUS,
	OP_MOD,
	OP_MUL,
	OP_NEG,
	OP_NOT,
	OP_OR,
	OP_PLUS,
	OP_PLUS_UCONST,
	OP_SHL,
	OP_SHR,
	OP_SHRA,
	OP_XOR,
	OP_BRA,
	OP_EQ,
	OP_GE,
	OP_GT,
	OP_LE,
	OP_LT,
	OP_NE,
	OP_SKIP,
	OP_LIT0 = 0x30,
	OP_LIT31 = 0x4f,
	OP_BREG0 = 0x70,
	OP_BREG31 = 0x8f,
	OP_BREGX = 0x92,
	OP_DEREF_SIZE = 0x94,
	OP_NOP = 0x96,
};

enum { VALUES_MAX = 64, STEPS_MAX = 512 };

struct evaluation {
	struct cursor c;
	const uint8_t *begin;
	const struct cfi_regs *regs;
	struct cfi_memory *memory;
	uint64_t bias;
	enum cfi_result result; /* the first fault */
	unsigned n;
	uint64_t values[VALUES_MAX];
};

static void fault(struct evaluation *e, enum cfi_result result)
{
	if (e->result == CFI_OK)
		e->result = result;
}

static void push(struct evaluation *e, uint64_t value)
{
	if (e->n == VALUES_MAX)
		fault(e, CFI_BAD);
	else
		e->values[e->n++] = value;
}

static uint64_t pop(struct evaluation *e)
{
	if (e->n)
		return e->values[--e->n];
	fault(e, CFI_BAD);
	return 0;
}

static void pick(struct evaluation *e, unsigned depth)
{
	if (depth >= e->n)
		fault(e, CFI_BAD);
	else
		push(e, e->values[e->n - 1 - depth]);
}

static void deref(struct evaluation *e, unsigned size)
{
	uint64_t address = pop(e), value = 0;

	if (size < 1 || size > 8)
		fault(e, CFI_BAD);
	else if (e->result == CFI_OK && !e->memory->read(e->memory, address, size, &value))
		fault(e, CFI_MEMORY);
	push(e, value);
}

static void push_reg(struct evaluation *e, uint64_t reg, int64_t offset)
{
	if (reg >= DWARF_REGS)
		fault(e, CFI_BAD);
	else if (!(e->regs->known >> reg & 1))
		fault(e, CFI_NEED_REG);
	else
		push(e, e->regs->r[reg] + (uint64_t)offset);
}

static void jump(struct evaluation *e, int16_t distance, bool yes)
{
	ptrdiff_t at = e->c.p - e->begin + distance;

	if (!yes)
		return;
	if (at < 0 || at > e->c.end - e->begin)
		fault(e, CFI_BAD);
	else
		e->c.p = e->begin + at;
}

static void run_unary(struct evaluation *e, uint8_t op)
{
	uint64_t a = pop(e);

	switch (op) {
	case OP_ABS:
		push(e, (int64_t)a < 0 ? 0 - a : a);
		break;
	case OP_NEG:
		push(e, 0 - a);
		break;
	case OP_NOT:
		push(e, ~a);
		break;
	default: /* OP_PLUS_UCONST */
		push(e, a + cursor_uleb(&e->c));
	}
}

static uint64_t divide(struct evaluation *e, int64_t a, int64_t b)
{
	if (!b)
		fault(e, CFI_BAD);
	else if (b == -1)
		return 0 - (uint64_t)a; /* INT64_MIN / -1 would trap */
	else
		return (uint64_t)(a / b);
	return 0;
}

static void run_binary(struct evaluation *e, uint8_t op)
{
	uint64_t b = pop(e), a = pop(e);
	int64_t sa = (int64_t)a, sb = (int64_t)b;

	switch (op) {
	case OP_AND:
		push(e, a & b);
		break;
	case OP_OR:
		push(e, a | b);
		break;
	case OP_XOR:
		push(e, a ^ b);
		break;
	case OP_PLUS:
		push(e, a + b);
		break;
	case OP_MINUS:
		push(e, a - b);
		break;
	case OP_MUL:
		push(e, a * b);
		break;
	case OP_DIV:
		push(e, divide(e, sa, sb));
		break;
	case OP_MOD:
		if (!b)
			fault(e, CFI_BAD);
		push(e, b ? a % b : 0);
		break;
	case OP_SHL:
		push(e, b < 64 ? a << b : 0);
		break;
	case OP_SHR:
		push(e, b < 64 ? a >> b : 0);
		break;
	case OP_SHRA:
		push(e, (uint64_t)(sa >> min_u64(b, 63)));
		break;
	case OP_EQ:
		push(e, sa == sb);
		break;
	case OP_GE:
		push(e, sa >= sb);
		break;
	case OP_GT:
		push(e, sa > sb);
		break;
	case OP_LE:
		push(e, sa <= sb);
		break;
	case OP_LT:
		push(e, sa < sb);
		break;
	default:
		push(e, sa != sb); /* OP_NE */
	}
}

static void run_stack(struct evaluation *e, uint8_t op)
{
	uint64_t a, b, c;

	switch (op) {
	case OP_DUP:
		pick(e, 0);
		break;
	case OP_OVER:
		pick(e, 1);
		break;
	case OP_PICK:
		pick(e, cursor_u8(&e->c));
		break;
	case OP_DROP:
		(void)pop(e);
		break;
	case OP_SWAP:
		a = pop(e);
		b = pop(e);
		push(e, a);
		push(e, b);
		break;
	default: /* OP_ROT: the top goes below the next two */
		a = pop(e);
		b = pop(e);
		c = pop(e);
		push(e, a);
		push(e, c);
		push(e, b);
	}
}

static bool run_constant(struct evaluation *e, uint8_t op)
{
	struct cursor *c = &e->c;

	switch (op) {
	case OP_ADDR:
		push(e, cursor_u64(c) + e->bias);
		break;
	case OP_CONST1U:
		push(e, cursor_u8(c));
		break;
	case OP_CONST1S:
		push(e, (uint64_t)(int8_t)cursor_u8(c));
		break;
	case OP_CONST2U:
		push(e, cursor_u16(c));
		break;
	case OP_CONST2S:
		push(e, (uint64_t)(int16_t)cursor_u16(c));
		break;
	case OP_CONST4U:
		push(e, cursor_u32(c));
		break;
	case OP_CONST4S:
		push(e, (uint64_t)(int32_t)cursor_u32(c));
		break;
	case OP_CONST8U:
	case OP_CONST8S:
		push(e, cursor_u64(c));
		break;
	case OP_CONSTU:
		push(e, cursor_uleb(c));
		break;
	case OP_CONSTS:
		push(e, (uint64_t)cursor_sleb(c));
		break;
	default:
		return false;
	}
	return true;
}

static void run_other(struct evaluation *e, uint8_t op)
{
	uint64_t reg;
	int16_t distance;

	switch (op) {
	case OP_DEREF:
		deref(e, 8);
		break;
	case OP_DEREF_SIZE:
		deref(e, cursor_u8(&e->c));
		break;
	case OP_BREGX:
		reg = cursor_uleb(&e->c);
		push_reg(e, reg, cursor_sleb(&e->c));
		break;
	case OP_SKIP:
	case OP_BRA:
		distance = (int16_t)cursor_u16(&e->c);
		jump(e, distance, op == OP_SKIP || pop(e) != 0);
		break;
	case OP_NOP:
		break;
	default:
		fault(e, CFI_BAD);
	}
}

static void run_one(struct evaluation *e, uint8_t op)
{
	if (op >= OP_LIT0 && op <= OP_LIT31)
		push(e, op - (uint64_t)OP_LIT0);
	else if (op >= OP_BREG0 && op <= OP_BREG31)
		push_reg(e, op - (uint64_t)OP_BREG0, cursor_sleb(&e->c));
	else if (run_constant(e, op))
		return;
	else if (op >= OP_DUP && op <= OP_ROT)
		run_stack(e, op);
	else if (op == OP_ABS || op == OP_NEG || op == OP_NOT || op == OP_PLUS_UCONST)
		run_unary(e, op);
	else if ((op >= OP_AND && op <= OP_XOR) || (op >= OP_EQ && op <= OP_NE))
		run_binary(e, op);
	else
		run_other(e, op);
}

enum cfi_result cfi_evaluate(const uint8_t *expression, uint32_t len, const struct cfi_regs *regs,
			     uint64_t bias, const uint64_t *first, struct cfi_memory *memory,
			     uint64_t *ret_value)
{
	struct evaluation e; /* the values are written before they are read */

	e.c = cursor_of(expression, len);
	e.begin = expression;
	e.regs = regs;
	e.memory = memory;
	e.bias = bias;
	e.result = CFI_OK;
	e.n = 0;
	if (first)
		push(&e, *first);
	for (unsigned steps = 0; e.c.p < e.c.end && e.result == CFI_OK; steps++) {
		if (steps == STEPS_MAX)
			return CFI_BAD;
		run_one(&e, *e.c.p++);
		if (e.c.bad)
			fault(&e, CFI_BAD);
	}
	if (e.result != CFI_OK)
		return e.result;
	if (!e.n)
		return CFI_BAD;
	*ret_value = e.values[e.n - 1];
	return CFI_OK;
}
