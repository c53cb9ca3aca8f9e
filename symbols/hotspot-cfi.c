/* hotspot-cfi.c - see hotspot-cfi.h.  The unwind rules of the VM's code, written as .eh_frame: so every engine can
 * use them, and they are checked like CFI of any file.
 *
 * Compiled code (x86-64): the VM knows the size of the frame; the first and last instructions are recognised.
 *
 *     mov %eax,-N(%rsp)              CFA = rsp + 8        touches the stack's guard; not always there
 *     push %rbp                      CFA = rsp + 8
 *     [mov %rsp,%rbp]                CFA = rsp + 16
 *     sub $frame-16,%rsp             CFA = rsp + 16
 *     ...                            CFA = rsp + frame    the caller's rbp at CFA - 16
 *     add $frame-16,%rsp             CFA = rsp + frame
 *     pop %rbp                       CFA = rsp + 16
 *     [cmp N(%r15),%rsp; ja]  ret    CFA = rsp + 8        asks for a safepoint
 *
 * Virtual threads: a frame that the VM brought back returns to the barrier, not to its caller. That brings further frames back, or
 * goes on in the frame of Continuation.enterSpecial. Each frame that is brought back stands directly below that one; rbp is not known:
 *
 *     mov N(%r15),%rsp               CFA = rsp + that frame
 *     push %rax                      CFA = rbp + 16
 *
 * Interpreter: rbp is its frame.  [rbp - 8] is the caller's stack pointer, which may have been moved to make room for
 * locals; r13 has it while the frame is made. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "symbols/cfi-table.h"
#include "symbols/hotspot-cfi.h"

enum {
	REG_RAX,
	REG_RBX = 3,
	REG_RDI = 5,
	REG_RBP = 6,
	REG_RSP = 7,
	REG_R11 = 11,
	REG_R13 = 13,
	REG_RA = 16
};
enum { /* DWARF 5, 7.24 */
       OP_ADVANCE1 = 0x02,
       OP_ADVANCE2 = 0x03,
       OP_ADVANCE4 = 0x04,
       OP_SAME = 0x08,
       OP_REGISTER = 0x09,
       OP_DEF_CFA = 0x0c,
       OP_VAL_EXPRESSION = 0x16,
       OP_ADVANCE = 0x40,
       OP_OFFSET = 0x80,
       EXPR_DEREF = 0x06,
       EXPR_BREG = 0x70,
};
enum {
	FDE_HEAD = 17,
	FDES_MAX = 1 << 20,
	BYTES_MAX = 64 << 20,
	TAIL_MAX = 32,	   /* from the pop of rbp to the ret */
	ENTRY_PUSHES = 32, /* from the push of r13 to that of the Method */
};

/* ---- writing ---- */

static void put(struct vm_cfi *cfi, const void *data, size_t len)
{
	if (cfi->frames.len < BYTES_MAX)
		buffer_append(&cfi->frames, data, len);
	else
		cfi->bad = true;
}

static void put_u8(struct vm_cfi *cfi, uint8_t byte)
{
	put(cfi, &byte, 1);
}

static void put_u32(struct vm_cfi *cfi, uint32_t value)
{
	put(cfi, &value, sizeof(value));
}

static void put_uleb(struct vm_cfi *cfi, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		put_u8(cfi, (uint8_t)(value | 0x80));
	put_u8(cfi, (uint8_t)value);
}

static void set_u32(struct vm_cfi *cfi, size_t at, uint32_t value)
{
	if (!cfi->frames.bad && at + sizeof(value) <= cfi->frames.len)
		memcpy(cfi->frames.data + at, &value, sizeof(value));
}

/* Ends a record that began at @at: its length is a multiple of 8. */
static void end_record(struct vm_cfi *cfi, size_t at)
{
	while ((cfi->frames.len - at) % 8 && !cfi->frames.bad && !cfi->bad)
		put_u8(cfi, 0);
	set_u32(cfi, at, (uint32_t)(cfi->frames.len - at - 4));
}

/* ---- rows ---- */

static void row_cfa(struct vm_cfi *cfi, unsigned reg, uint64_t bytes)
{
	put_u8(cfi, OP_DEF_CFA);
	put_uleb(cfi, reg);
	put_uleb(cfi, bytes);
}

/* @reg is saved @bytes below the CFA. */
static void row_saved(struct vm_cfi *cfi, unsigned reg, unsigned bytes)
{
	put_u8(cfi, (uint8_t)(OP_OFFSET | reg));
	put_uleb(cfi, bytes / 8);
}

static void row_kept(struct vm_cfi *cfi, unsigned reg)
{
	put_u8(cfi, OP_SAME);
	put_uleb(cfi, reg);
}

static void row_in_register(struct vm_cfi *cfi, unsigned reg, unsigned in)
{
	put_u8(cfi, OP_REGISTER);
	put_uleb(cfi, reg);
	put_uleb(cfi, in);
}

/* The caller's rsp is in @reg. */
static void row_sp_in(struct vm_cfi *cfi, unsigned reg)
{
	const uint8_t op[] = {OP_VAL_EXPRESSION, REG_RSP, 2, (uint8_t)(EXPR_BREG + reg), 0};

	put(cfi, op, sizeof(op));
}

/* The caller's rsp is at [rbp - 8]. */
static void row_sp_saved(struct vm_cfi *cfi)
{
	const uint8_t op[] = {OP_VAL_EXPRESSION, REG_RSP, 3, EXPR_BREG + REG_RBP, 0x78, EXPR_DEREF};

	put(cfi, op, sizeof(op));
}

/* The following rows are from @address on. */
static void row_at(struct vm_cfi *cfi, uint64_t address)
{
	uint64_t delta = address - cfi->at;
	uint8_t bytes[5] = {OP_ADVANCE4};

	if (!delta || address < cfi->at || delta > UINT32_MAX)
		return;
	memcpy(bytes + 1, &delta, 4);
	if (delta < 64) {
		put_u8(cfi, (uint8_t)(OP_ADVANCE | delta));
	} else if (delta <= UINT8_MAX) {
		bytes[0] = OP_ADVANCE1;
		put(cfi, bytes, 2);
	} else if (delta <= UINT16_MAX) {
		bytes[0] = OP_ADVANCE2;
		put(cfi, bytes, 3);
	} else {
		put(cfi, bytes, 5);
	}
	cfi->at = address;
}

static void row_interpreted(struct vm_cfi *cfi)
{
	row_cfa(cfi, REG_RBP, 16);
	row_saved(cfi, REG_RA, 8);
	row_saved(cfi, REG_RBP, 16);
	row_sp_saved(cfi);
}

static void put_cie(struct vm_cfi *cfi, bool interpreted)
{
	/* version 1, "zR", code in units of 1, data of -8, rip; addresses relative to themselves */
	static const uint8_t head[] = {1, 'z', 'R', 0, 1, 0x78, REG_RA, 1, PE_PCREL | PE_SDATA4};
	size_t at = cfi->frames.len;

	put_u32(cfi, 0);
	put_u32(cfi, 0);
	put(cfi, head, sizeof(head));
	if (interpreted) {
		row_interpreted(cfi);
	} else {
		row_cfa(cfi, REG_RSP, 8);
		row_saved(cfi, REG_RA, 8);
	}
	end_record(cfi, at);
}

void vm_cfi_init(struct vm_cfi *cfi, uint64_t base)
{
	*cfi = (struct vm_cfi){.base = base};
	put_cie(cfi, false);
	cfi->cie[1] = (uint32_t)cfi->frames.len;
	put_cie(cfi, true);
}

void vm_cfi_deinit(struct vm_cfi *cfi)
{
	buffer_deinit(&cfi->frames);
	free(cfi->fdes);
	*cfi = (struct vm_cfi){0};
}

/* false: it does not fit. */
static bool begin_fde(struct vm_cfi *cfi, const struct vm_code *code, bool interpreted)
{
	size_t at = cfi->frames.len;
	int64_t begin = (int64_t)(code->start - (cfi->base + at + 8));

	if (cfi->n_fdes == cfi->room) {
		cfi->frames.bad |= !array_grow(cfi->fdes, cfi->room, 1024);
		cfi->bad |= cfi->frames.bad || cfi->room > FDES_MAX;
	}
	if (cfi->bad || code->end <= code->start || code->end - code->start > INT32_MAX ||
	    begin > INT32_MAX || begin < INT32_MIN)
		return false;
	cfi->fdes[cfi->n_fdes++] = (struct vm_fde){code->start, (uint32_t)at};
	cfi->fde_at = at;
	cfi->at = code->start;
	put_u32(cfi, 0);
	put_u32(cfi, (uint32_t)(at + 4 - cfi->cie[interpreted]));
	put_u32(cfi, (uint32_t)begin);
	put_u32(cfi, (uint32_t)(code->end - code->start));
	put_u8(cfi, 0);
	return true;
}

/* ---- instructions ---- */

struct bytes {
	const uint8_t *p;
	size_t len;
};

static bool is_at(const struct bytes *code, size_t at, const void *bytes, size_t len)
{
	return at <= code->len && code->len - at >= len && !memcmp(code->p + at, bytes, len);
}
#define IS_AT(code, at, text) is_at(code, at, text, sizeof(text) - 1)

/* add (0xc4) or sub (0xec) of @value and rsp; its length, 0: it is not there. */
static size_t is_move(const struct bytes *code, size_t at, uint8_t modrm, uint32_t value)
{
	uint8_t small[] = {0x48, 0x83, modrm, (uint8_t)value};
	uint8_t large[7] = {0x48, 0x81, modrm};

	memcpy(large + 3, &value, 4);
	if (value < 128 && is_at(code, at, small, sizeof(small)))
		return sizeof(small);
	return is_at(code, at, large, sizeof(large)) ? sizeof(large) : 0;
}

/* mov %rsp,%rbp in both encodings. */
static size_t is_frame(const struct bytes *code, size_t at)
{
	return IS_AT(code, at, "\x48\x8b\xec") || IS_AT(code, at, "\x48\x89\xe5") ? 3 : 0;
}

/* The bytes from @at up to and including an instruction that leaves the function: what stands between the pop of rbp
 * and the ret.  0: there is none. */
static size_t tail_len(const struct bytes *code, size_t at)
{
	size_t start = at;

	if (IS_AT(code, at, "\xc5\xf8\x77")) /* vzeroupper */
		at += 3;
	if (IS_AT(code, at, "\x49\x3b\xa7")) /* cmp N(%r15),%rsp; ja: JDK 16 on */
		at += 13;
	else if (IS_AT(code, at, "\x4d\x8b\x97")) /* mov N(%r15),%r10; test %eax,(%r10) */
		at += 10;
	else if (IS_AT(code, at, "\x85\x05")) /* test %eax,N(%rip) */
		at += 6;
	else if (IS_AT(code, at, "\x49\x83\x7f\x08")) /* cmpq $0,8(%r15); jne: of native methods */
		at += 11;
	else if (IS_AT(code, at, "\x49\x81\x7f\x08"))
		at += 14;
	if (IS_AT(code, at, "\xc3"))
		return at + 1 - start;
	if (IS_AT(code, at, "\xe9"))
		return at + 5 - start;
	if (IS_AT(code, at, "\x41\xff"))
		return at + 3 - start;
	if (IS_AT(code, at, "\xff") || IS_AT(code, at, "\xeb"))
		return at + 2 - start;
	for (size_t i = at; i < start + TAIL_MAX; i++)
		if (IS_AT(code, i, "\xc3"))
			return i + 1 - start;
	return 0;
}

/* ---- compiled code ---- */

static void row_framed(struct vm_cfi *cfi, uint32_t frame)
{
	row_cfa(cfi, REG_RSP, frame);
	row_saved(cfi, REG_RBP, 16);
}

/* Rows of a prologue at @at.  The bytes that it has, 0: none is there. */
static size_t add_prologue(struct vm_cfi *cfi, const struct vm_code *c, const struct bytes *code,
			   size_t at)
{
	static const uint8_t touch[] = {0x89, 0x84, 0x24}; /* mov %eax,-N(%rsp) */
	size_t len = 1, sub, before = at;

	if (!IS_AT(code, at, "\x55"))
		return 0;
	len += is_frame(code, at + len);
	sub = c->frame > 16 ? is_move(code, at + len, 0xec, c->frame - 16) : 0;
	if (!sub && (c->frame != 16 || at > c->complete))
		return 0;
	if (at >= 7 && is_at(code, at - 7, touch, sizeof(touch)))
		before = at - 7;
	if (c->start + before > cfi->at) { /* a second one: entered in a loop */
		row_at(cfi, c->start + before);
		row_cfa(cfi, REG_RSP, 8);
		row_kept(cfi, REG_RBP);
	}
	row_at(cfi, c->start + at + 1);
	row_framed(cfi, 16);
	if (sub) {
		row_at(cfi, c->start + at + len + sub);
		row_cfa(cfi, REG_RSP, c->frame);
	}
	return len + sub;
}

/* sub $frame-8,%rsp; mov %rbp,frame-16(%rsp): where the stack's guard is not touched. */
static size_t add_short_prologue(struct vm_cfi *cfi, const struct vm_code *c,
				 const struct bytes *code, size_t at)
{
	uint32_t saved = c->frame - 16;
	uint8_t small[] = {0x48, 0x89, 0x6c, 0x24, (uint8_t)saved};
	uint8_t large[8] = {0x48, 0x89, 0xac, 0x24};
	size_t sub, mov;

	if (c->frame < 24 || at > c->complete)
		return 0;
	memcpy(large + 4, &saved, 4);
	sub = is_move(code, at, 0xec, c->frame - 8);
	mov = saved < 128 && is_at(code, at + sub, small, sizeof(small)) ? sizeof(small)
	      : is_at(code, at + sub, large, sizeof(large))		 ? sizeof(large)
									 : 0;
	if (!sub || !mov)
		return 0;
	row_at(cfi, c->start + at + sub);
	row_cfa(cfi, REG_RSP, c->frame);
	row_at(cfi, c->start + at + sub + mov);
	row_saved(cfi, REG_RBP, 16);
	return sub + mov;
}

/* Rows of an epilogue at @at.  The bytes that it has, 0: none is there. */
static size_t add_epilogue(struct vm_cfi *cfi, const struct vm_code *c, const struct bytes *code,
			   size_t at)
{
	size_t add = c->frame > 16 ? is_move(code, at, 0xc4, c->frame - 16) : 0, len = add, tail;
	bool leave = c->native && !add && IS_AT(code, at, "\xc9");

	if (!leave && ((!add && c->frame > 16) || !IS_AT(code, at + add, "\x5d")))
		return 0;
	len++;
	tail = tail_len(code, at + len);
	if (!tail || at + len + tail > code->len || ((leave || !add) && tail > 20))
		return 0;
	if (add) {
		row_at(cfi, c->start + at + add);
		row_cfa(cfi, REG_RSP, 16);
	}
	row_at(cfi, c->start + at + len);
	row_cfa(cfi, REG_RSP, 8);
	row_kept(cfi, REG_RBP);
	row_at(cfi, c->start + at + len + tail);
	row_framed(cfi, c->frame);
	return len + tail;
}

/* The first byte of a prologue or an epilogue. */
static bool may_begin_row(uint8_t byte)
{
	return byte == 0x48 || byte == 0x55 || byte == 0x5d || byte == 0xc9;
}

static void add_compiled(struct vm_cfi *cfi, const struct vm_code *c)
{
	const struct bytes code = {c->bytes, c->bytes ? c->end - c->start : 0};
	bool framed = false;

	for (size_t at = 0; at < code.len;) {
		size_t len;

		if (framed && !may_begin_row(code.p[at])) {
			at++;
			continue;
		}
		len = add_prologue(cfi, c, &code, at);
		if (!len && !framed)
			len = add_short_prologue(cfi, c, &code, at);
		framed |= len > 0;
		if (!len && !framed && at >= c->complete && c->complete < code.len) {
			row_at(cfi, c->start + at); /* as far as the VM knows */
			row_framed(cfi, c->frame);
			framed = true;
		}
		if (!len && framed)
			len = add_epilogue(cfi, c, &code, at);
		at += len ? len : 1;
	}
	if (!framed && !code.len) {
		row_at(cfi, c->start + min_u64(c->complete, c->end - c->start - 1));
		row_framed(cfi, c->frame);
	}
}

static size_t find(const struct bytes *code, size_t from, size_t to, const void *text, size_t len);
#define FIND(code, from, to, text) find(code, from, to, text, sizeof(text) - 1)

/* Two adapters, one behind the other.  The return address is on top of the stack, but for the places where it is moved:
 *
 *   to compiled      mov (%rsp),%rax; mov %rsp,%r11; [sub]; and $-16,%rsp; push %rax
 *   to interpreted   mov %rsp,%r13; ...; mov %r13,%rsp          around a call of the VM
 *                    pop %rax; mov %rsp,%r13; sub; mov %rax,(%rsp) */
static void add_adapter(struct vm_cfi *cfi, const struct vm_code *c)
{
	const struct bytes code = {c->bytes, c->bytes ? c->end - c->start : 0};
	size_t at = FIND(&code, 0, 16, "\x4c\x8b\xdc"), end;

	end = FIND(&code, at + 3, at + 24, "\x50\x49\x8b\xc3");
	if (end < code.len) {
		row_at(cfi, c->start + at + 3);
		row_in_register(cfi, REG_RA, REG_RAX);
		row_at(cfi, c->start + end + 1);
		row_saved(cfi, REG_RA, 8);
	}
	at = FIND(&code, 0, code.len, "\x4c\x8b\xec\x48\x8b\x04\x24");
	end = FIND(&code, at, code.len, "\x49\x8b\xe5\x58");
	if (end < code.len) {
		row_at(cfi, c->start + at + 3);
		row_cfa(cfi, REG_R13, 8);
		row_at(cfi, c->start + end + 3);
		row_cfa(cfi, REG_RSP, 8);
	}
	at = FIND(&code, end < code.len ? end : 0, code.len, "\x58\x4c\x8b\xec");
	end = FIND(&code, at, at + 16, "\x48\x89\x04\x24");
	if (end < code.len) {
		row_at(cfi, c->start + at + 1);
		row_cfa(cfi, REG_RSP, 0);
		row_in_register(cfi, REG_RA, REG_RAX);
		row_at(cfi, c->start + at + 4);
		row_cfa(cfi, REG_R13, 0);
		row_at(cfi, c->start + end + 4);
		row_cfa(cfi, REG_RSP, 8);
		row_saved(cfi, REG_RA, 8);
		row_sp_in(cfi, REG_R13);
	}
}

/* The return address is looked up one byte before the barrier. */
static void add_barriers(struct vm_cfi *cfi, const struct vm_code *c)
{
	const struct bytes code = {c->bytes, c->bytes ? c->end - c->start : 0};

	row_cfa(cfi, REG_RBP, 16);
	row_saved(cfi, REG_RBP, 16);
	for (size_t at = 1; c->frame >= 16 && at + 8 <= code.len; at++) {
		if (!IS_AT(&code, at, "\x49\x8b\xa7") || code.p[at + 7] != 0x50)
			continue;
		row_at(cfi, c->start + at - 1);
		row_cfa(cfi, REG_RSP, c->frame);
		row_at(cfi, c->start + at + 8);
		row_cfa(cfi, REG_RBP, 16);
	}
}

void vm_cfi_add(struct vm_cfi *cfi, const struct vm_code *c)
{
	if (!begin_fde(cfi, c, false))
		return;
	switch (c->kind) {
	case VM_COMPILED:
		if (c->frame >= 16)
			add_compiled(cfi, c);
		break;
	case VM_STUB:
		row_at(cfi, c->start + 1);
		row_framed(cfi, c->frame);
		break;
	case VM_FP:
		row_cfa(cfi, REG_RBP, 16);
		row_saved(cfi, REG_RBP, 16);
		break;
	case VM_BARRIER:
		add_barriers(cfi, c);
		break;
	case VM_ADAPTER:
		add_adapter(cfi, c);
		break;
	case VM_LEAF:
	case VM_INTERPRETER:
		break;
	}
	end_record(cfi, cfi->fde_at);
}

/* ---- the interpreter ---- */

/* Where @text begins in the code, from @from on; the code's length: nowhere. */
static size_t find(const struct bytes *code, size_t from, size_t to, const void *text, size_t len)
{
	for (size_t at = from; at < to && at < code->len; at++)
		if (is_at(code, at, text, len))
			return at;
	return code->len;
}
/* The entry of a method.  The frame is made by
 *
 *     pop %rax                  the return address is in rax; room for the locals is made
 *     push %rax
 *     push %rbp; mov %rsp,%rbp
 *     push %r13; push $0; ...; push %rbx     the Method
 *
 * Returns how far it reaches. */
static size_t add_entry(struct vm_cfi *cfi, const struct vm_code *c, const struct bytes *code)
{
	size_t frame = FIND(code, 0, code->len, "\x50\x55\x48\x8b\xec\x41\x55"), pop, at, method;

	row_cfa(cfi, REG_RSP, 8);
	row_kept(cfi, REG_RBP);
	row_sp_in(cfi, REG_R13);
	if (frame == code->len)
		frame = FIND(code, 0, code->len, "\x50\x55\x48\x89\xe5\x41\x55");
	if (frame == code->len)
		return code->len; /* of an intrinsic: it has no frame */
	pop = FIND(code, 0, frame, "\x58\x4c\x8d\x74\xcc\xf8"); /* and lea -8(%rsp,%rcx,8),%r14 */
	if (pop < frame) {
		row_at(cfi, c->start + pop + 1);
		row_in_register(cfi, REG_RA, REG_RAX);
	}
	row_at(cfi, c->start + frame + 1);
	row_saved(cfi, REG_RA, 8);
	row_at(cfi, c->start + frame + 2);
	row_framed(cfi, 16);
	at = frame + 7; /* behind push %r13 */
	row_at(cfi, c->start + at);
	row_cfa(cfi, REG_RSP, 24);
	row_sp_saved(cfi);
	at += IS_AT(code, at, "\x68") ? 5 : 2;
	row_at(cfi, c->start + at);
	row_cfa(cfi, REG_RSP, 32);
	method = FIND(code, at, at + ENTRY_PUSHES, "\x53"); /* push %rbx */
	at = method < code->len ? method + 1 : at;
	row_at(cfi, c->start + at);
	row_interpreted(cfi);
	return at;
}

/* The end of a method: leave; pop of the return address; the caller's rsp; jmp. */
static size_t add_exit(struct vm_cfi *cfi, const struct vm_code *c, const struct bytes *code,
		       size_t at)
{
	bool native = IS_AT(code, at, "\xc9\x5f\x49\x8b\xe3\xff\xe7");
	bool java = IS_AT(code, at, "\xc9\x41\x5d\x48\x8b\xe3\x41\xff\xe5");
	size_t len = native ? 7 : 9;

	if (!native && !java)
		return 0;
	row_at(cfi, c->start + at + 1);
	row_cfa(cfi, REG_RSP, 8);
	row_kept(cfi, REG_RBP);
	row_sp_in(cfi, native ? REG_R11 : REG_RBX);
	row_at(cfi, c->start + at + (native ? 2 : 3));
	row_in_register(cfi, REG_RA, native ? REG_RDI : REG_R13);
	row_at(cfi, c->start + at + len);
	row_interpreted(cfi);
	return len;
}

void vm_cfi_add_codelet(struct vm_cfi *cfi, const struct vm_code *c, bool entry)
{
	const struct bytes code = {c->bytes, c->bytes ? c->end - c->start : 0};
	size_t at = 0;

	if (!begin_fde(cfi, c, true))
		return;
	if (entry)
		at = add_entry(cfi, c, &code);
	while (at < code.len) {
		size_t len = add_exit(cfi, c, &code, at);

		at += len ? len : 1;
	}
	end_record(cfi, cfi->fde_at);
}

/* ---- the section ---- */

static int by_start(const void *left, const void *right)
{
	const struct vm_fde *a = left, *b = right;

	return ascend(a->start, b->start);
}

/* .eh_frame_hdr lies behind .eh_frame. */
static int make_header(const struct vm_cfi *cfi, struct uw_section *ret_header)
{
	static const uint8_t forms[] = {1, PE_PCREL | PE_SDATA4, PE_UDATA4, PE_DATAREL | PE_SDATA4};
	size_t size = 12 + 8 * cfi->n_fdes;
	uint64_t vaddr = cfi->base + cfi->frames.len;
	struct packer p = {.data = malloc(size), .room = size};
	int32_t number = (int32_t)(cfi->base - (vaddr + sizeof(forms)));
	uint32_t n = (uint32_t)cfi->n_fdes;

	if (!p.data)
		return fail(-ENOMEM);
	packer_put(&p, forms, sizeof(forms));
	packer_put(&p, &number, sizeof(number));
	packer_put(&p, &n, sizeof(n));
	for (size_t i = 0; i < cfi->n_fdes; i++) {
		number = (int32_t)(cfi->fdes[i].start - vaddr);
		packer_put(&p, &number, sizeof(number));
		number = (int32_t)(cfi->base + cfi->fdes[i].offset - vaddr);
		packer_put(&p, &number, sizeof(number));
	}
	*ret_header = (struct uw_section){.data = p.data, .size = size, .vaddr = vaddr};
	return 0;
}

int vm_cfi_finish(struct vm_cfi *cfi, struct uw_section sections[3])
{
	int r;

	put_u32(cfi, 0);
	if (cfi->frames.bad)
		return fail(-ENOMEM);
	qsort(cfi->fdes, cfi->n_fdes, sizeof(*cfi->fdes), by_start);
	r = make_header(cfi, &sections[0]);
	if (r < 0)
		return trace(r);
	sections[1] = (struct uw_section){
		.data = cfi->frames.data, .size = cfi->frames.len, .vaddr = cfi->base};
	cfi->frames.data = NULL;
	return 0;
}
