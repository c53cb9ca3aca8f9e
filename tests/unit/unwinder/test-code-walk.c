/* test-code-walk.c - walks through code with a known end.
 * Encodings as GNU as writes them. */
#include "tests/unit/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unwinder/code.h"
#include "unwinder/regs.h"

struct walked {
	bool found;
	struct code_way way;
};

static struct walked walk(const char *code, size_t at, size_t len)
{
	struct walked w = {.way = {.kind = CODE_WAY_FP, .ra = 99, .bp = 99}};
	uint8_t *copy =
		malloc(len ? len : 1); /* to the byte: the sanitizer sees what reads beyond */

	assert_non_null(copy);
	memcpy(copy, code, len);
	w.found = code_walk(copy, at, len, &w.way);
	free(copy);
	return w;
}
#define WALK(at, text) walk(text, at, sizeof(text) - 1)

static void assert_way(struct walked w, uint32_t ra, int32_t bp)
{
	assert_true(w.found);
	assert_int_equal(w.way.kind, CODE_WAY_STACK);
	assert_int_equal(w.way.ra, ra);
	assert_int_equal(w.way.bp, bp);
}

static void test_ends(void **state)
{
	(void)state;
	assert_way(WALK(0, "\xc3"), 0, -1);
	assert_way(WALK(0, "\xf3\xc3"), 0, -1);
	assert_way(WALK(0, "\xc2\x08\x00"), 0, -1);
	/* _fini: sub $8,%rsp; add $8,%rsp; ret */
	assert_way(WALK(0, "\x48\x83\xec\x08\x48\x83\xc4\x08\xc3"), 0, -1);
	assert_way(WALK(4, "\x48\x83\xec\x08\x48\x83\xc4\x08\xc3"), 8, -1);
	/* add $0x120,%rsp; pop %rbx; pop %rbp; pop %r12; ret */
	assert_way(WALK(0, "\x48\x81\xc4\x20\x01\x00\x00\x5b\x5d\x41\x5c\xc3"), 0x138, 0x128);
	/* pop %r13 is not pop %rbp */
	assert_way(WALK(0, "\x41\x5d\xc3"), 8, -1);
	/* push %rbp; call; pop %rbp; ret: rbp is live before the push, saved behind it */
	assert_way(WALK(0, "\x55\xe8\x01\x02\x03\x04\x5d\xc3"), 0, -1);
	assert_way(WALK(1, "\x55\xe8\x01\x02\x03\x04\x5d\xc3"), 8, 0);
	/* mov 8(%rsp),%rbp; add $16,%rsp; ret: Go; and into r13, which is nothing */
	assert_way(WALK(0, "\x48\x8b\x6c\x24\x08\x48\x83\xc4\x10\xc3"), 16, 8);
	assert_way(WALK(0, "\x48\x8b\xac\x24\x80\x00\x00\x00\x48\x81\xc4\x88\x00\x00\x00\xc3"),
		   0x88, 0x80);
	assert_way(WALK(0, "\x4c\x8b\x6c\x24\x08\x48\x83\xc4\x10\xc3"), 16, -1);
	/* a jump to the end; a conditional one is not taken; a jump out of a register ends */
	assert_way(WALK(0, "\xeb\x02\x0f\x0b\x58\xc3"), 8, -1);
	assert_way(WALK(0, "\x74\x02\x58\xc3\x0f\x0b"), 8, -1);
	assert_way(WALK(0, "\x58\xff\xe0"), 8, -1);
	assert_way(WALK(5, "\x58\xc3\x0f\x0b\x90\xeb\xf9"), 8, -1); /* backwards */
}

static void test_frame_pointer(void **state)
{
	struct walked w;

	(void)state;
	w = WALK(0, "\xc9\xc3"); /* leave; ret */
	assert_true(w.found && w.way.kind == CODE_WAY_FP);
	w = WALK(0, "\x48\x8d\x65\xf0\x5b\x41\x5c\x5d\xc3"); /* lea -16(%rbp),%rsp */
	assert_true(w.found && w.way.kind == CODE_WAY_FP);
	w = WALK(0, "\x48\x89\xec\x5d\xc3"); /* mov %rbp,%rsp */
	assert_true(w.found && w.way.kind == CODE_WAY_FP);
}

/* The walk meets what makes rbp the frame's, or what makes it something else. */
static void test_frame_pointer_made(void **state)
{
	/* push %rbp; mov %rdi,%rdx; mov %rsp,%rbp; push %rbx; sub $40,%rsp; leave; ret */
	static const char code[] = "\x55\x48\x89\xfa\x48\x89\xe5\x53\x48\x83\xec\x28\xc9\xc3";
	struct walked w;

	(void)state;
	assert_way(walk(code, 0, sizeof(code) - 1), 0, -1); /* rbp is live */
	assert_way(walk(code, 1, sizeof(code) - 1), 8, 0);
	assert_way(walk(code, 4, sizeof(code) - 1), 8, 0);
	w = walk(code, 7, sizeof(code) - 1);
	assert_true(w.found && w.way.kind == CODE_WAY_FP);
	/* push %rbx; lea 8(%rsp),%rbp; leave */
	assert_way(WALK(0, "\x53\x48\x8d\x6c\x24\x08\xc9\xc3"), 8, 0);
	/* mov %rsp,%rbp; push; mov %rbp,%rsp; pop %rbp */
	assert_way(WALK(0, "\x48\x89\xe5\x50\x48\x89\xec\x5d\xc3"), 8, 0);
	/* mov %rsp,%rbp; push %rbx; push; lea -8(%rbp),%rsp; pop %rbx; pop %rbp */
	assert_way(WALK(0, "\x48\x89\xe5\x53\x50\x48\x8d\x65\xf8\x5b\x5d\xc3"), 8, 0);
	/* mov (%rbp),%rbp; add $40,%rsp; jmp *%rcx: V8; the same behind push %rbp; mov %rsp,%rbp */
	w = WALK(0, "\x48\x8b\x6d\x00\x48\x83\xc4\x28\xff\xe1");
	assert_true(w.found && w.way.kind == CODE_WAY_FP);
	assert_way(WALK(1, "\x55\x48\x89\xe5\x48\x8b\x6d\x00\x48\x83\xc4\x08\xff\xe1"), 8, 0);
	/* By something else: mov %rdi,%rbp; mov 8(%rdi),%rbp; mov %esp,%ebp; pop %rbp */
	assert_false(WALK(0, "\x48\x89\xfd\xc9\xc3").found);
	assert_false(WALK(0, "\x48\x8b\x6f\x08\x48\x89\xec\x5d\xc3").found);
	assert_false(WALK(0, "\x89\xe5\xc9\xc3").found);
	assert_false(WALK(0, "\x5d\xc9\xc3").found);
	/* lea of a register is not an instruction, and nothing is read behind it; lea 16(%rip),%rsp */
	assert_false(WALK(0, "\x48\x8d\xec").found);
	assert_false(WALK(0, "\x48\x8d\xe4").found);
	assert_false(WALK(0, "\x48\x8d\xe5\xc3").found);
	assert_false(WALK(0, "\x48\x8d\x25\x10\x00\x00\x00\xc3").found);
	assert_false(WALK(0, "\x48\x89\xfd\x48\x8b\x6d\x00\xc3").found);
	/* mov %rsp,%r13; mov %rdi,%r13: no matter */
	w = WALK(0, "\x49\x89\xe5\x49\x89\xfd\xc9\xc3");
	assert_true(w.found && w.way.kind == CODE_WAY_FP);
}

/* libgmp's division has 90 instructions and 350 bytes from its loop to its end; and there is an end. */
static void test_far(void **state)
{
	char code[CODE_WALK_AFTER];

	(void)state;
	memset(code, 0x90, sizeof(code));
	for (size_t i = 0; i + 4 < 400; i += 4)
		memcpy(code + i, "\x0f\x1f\x40\x00", 4); /* nopl 0(%rax) */
	memcpy(code + 400, "\x5b\x5d\xc3", 3);		 /* pop %rbx; pop %rbp; ret */
	assert_way(walk(code, 0, sizeof(code)), 16, 8);
	memset(code, 0x90, sizeof(code));
	code[sizeof(code) - 1] = (char)0xc3;
	assert_false(walk(code, 0, sizeof(code)).found);
	assert_false(WALK(0, "\xeb\xfe").found); /* an endless loop */
}

static void test_lost(void **state)
{
	(void)state;
	assert_false(WALK(0, "").found);
	assert_false(WALK(0, "\x90\x90").found);	     /* no end */
	assert_false(WALK(0, "\xe8\x01\x02").found);	     /* cut short */
	assert_false(WALK(0, "\x0f\x0b").found);	     /* ud2 */
	assert_false(WALK(0, "\xcc\xc3").found);	     /* int3 */
	assert_false(WALK(0, "\xf4\xc3").found);	     /* hlt */
	assert_false(WALK(0, "\x48\x89\xf4\xc3").found);     /* mov %rsi,%rsp */
	assert_false(WALK(0, "\x48\x83\xe4\xc0\xc3").found); /* and $-64,%rsp */
	assert_false(WALK(0, "\x48\x29\xc4\xc3").found);     /* sub %rax,%rsp */
	assert_false(WALK(0, "\x48\x03\x20\xc3").found);     /* add (%rax),%rsp */
	assert_false(WALK(0, "\x66\x81\xc4\x08\x00").found); /* add $8,%sp */
	assert_false(WALK(0, "\x66\xe9\x00\x00\xc3").found);
	assert_false(WALK(0, "\x48\x94\xc3").found);	     /* xchg %rax,%rsp */
	assert_false(WALK(0, "\x48\x87\xe3\xc3").found);     /* xchg %rsp,%rbx, as GNU as has it */
	assert_false(WALK(0, "\x48\x87\xdc\xc3").found);     /* the same the other way round */
	assert_false(WALK(0, "\x48\x87\x27\xc3").found);     /* xchg %rsp,(%rdi) */
	assert_false(WALK(0, "\x5c\xc3").found);	     /* pop %rsp */
	assert_false(WALK(0, "\xe9\x00\x10\x00\x00").found); /* out of what is there */
	assert_false(WALK(0, "\xeb\xfe").found);	     /* an endless loop */
	assert_false(WALK(0, "\x48\x83\xc4\x04\xc3").found); /* between words */
	assert_false(WALK(0, "\x48\x81\xc4\x00\x20\x00\x00\xc3").found); /* too far */
	assert_false(WALK(0, "\x06\xc3").found);			 /* no instruction */
	/* of other registers, or into memory: these are nothing */
	assert_true(WALK(0, "\x4c\x89\xe0\x48\x83\xc0\x08\x48\x89\x04\x24\xc3").found);
	assert_true(WALK(0, "\x49\x83\xc4\x10\x48\x83\xfc\x10\xc3").found); /* r12; cmp */
	assert_true(WALK(0, "\x4d\x87\xe3\x48\x87\xd8\xc3")
			    .found); /* xchg of r12 and r11, rbx and rax */
	assert_way(WALK(0, "\x58\x66\x66\x48\xe8\x01\x02\x03\x04\xc3"), 8, -1); /* a call, padded */
}

/* Switching to another stack: the return address is pushed, and where from is known. */
static void test_pushes(void **state)
{
	/* glibc's swapcontext, behind mov 0xa0(%rdx),%rsp: mov 0x80(%rdx),%rbx; mov 0x78(%rdx),%rbp;
	 * mov 0xa8(%rdx),%rcx; push %rcx; mov 0x98(%rdx),%rcx; xor %eax,%eax; ret */
	static const char swap[] = "\x48\x8b\x9a\x80\x00\x00\x00\x48\x8b\x6a\x78"
				   "\x48\x8b\x8a\xa8\x00\x00\x00\x51"
				   "\x48\x8b\x8a\x98\x00\x00\x00\x31\xc0\xc3";
	struct walked w = WALK(0, swap);

	(void)state;
	assert_true(w.found && w.way.kind == CODE_WAY_PUSHES);
	assert_int_equal(w.way.from.reg, DWARF_X86_RDX);
	assert_true(w.way.from.memory);
	assert_int_equal(w.way.from.offset, 0xa8);
	assert_int_equal(w.way.bp_from.reg, DWARF_X86_RDX);
	assert_true(w.way.bp_from.memory);
	assert_int_equal(w.way.bp_from.offset, 0x78);
	w = WALK(18, swap); /* at the push: both are loaded */
	assert_true(w.found && w.way.kind == CODE_WAY_PUSHES);
	assert_int_equal(w.way.from.reg, DWARF_X86_RCX);
	assert_false(w.way.from.memory);
	assert_int_equal(w.way.bp_from.reg, DWARF_X86_RBP);
	assert_false(w.way.bp_from.memory);
	assert_way(WALK(19, swap), 0, -1); /* behind it */
	/* mov %r9,%rax; push %rax; ret: and push %r10; ret */
	w = WALK(0, "\x4c\x89\xc8\x50\xc3");
	assert_true(w.found && w.way.kind == CODE_WAY_PUSHES && w.way.from.reg == 9);
	w = WALK(0, "\x41\x52\xc3");
	assert_true(w.found && w.way.kind == CODE_WAY_PUSHES && w.way.from.reg == 10);
	/* What comes out of a loaded register, of fs, by an index, not of a word, or was counted
	 * with is not known. */
	assert_false(WALK(0, "\x48\x8b\x12\x48\x8b\x4a\x08\x51\xc3").found);
	assert_false(WALK(0, "\x64\x48\x8b\x0a\x51\xc3").found);
	assert_false(WALK(0, "\x48\x8b\x0c\x10\x51\xc3").found);
	assert_false(WALK(0, "\x8b\x0a\x51\xc3").found);
	assert_false(WALK(0, "\x48\xff\xc1\x51\xc3").found);
	assert_false(WALK(0, "\x48\x8b\x4a\xf8\x51\xc3").found); /* below: not reported */
	/* Two words, a jump, rbp loaded behind the push. */
	assert_false(WALK(0, "\x50\x51\xc3").found);
	assert_false(WALK(0, "\x50\xff\xe1").found);
	assert_false(WALK(0, "\x51\x48\x8b\x6a\x78\xc3").found);
}

static void test_lea(void **state)
{
	(void)state;
	assert_way(WALK(0, "\x48\x8d\x64\x24\x18\xc3"), 0x18, -1); /* lea 24(%rsp),%rsp */
	assert_way(WALK(0, "\x48\x8d\xa4\x24\x00\x01\x00\x00\x5d\xc3"), 0x108, 0x100);
	assert_false(WALK(0, "\x49\x8d\x64\x24\x18\xc3").found); /* of r12 */
	assert_false(WALK(0, "\x48\x8d\x64\x04\x18\xc3").found); /* and rax */
}

static void test_moves_sp(void **state)
{
	(void)state;
#define MOVES(text) code_moves_sp((const uint8_t *)(text), sizeof(text) - 1)
	assert_int_equal(MOVES("\x90\x50\xc3"), 1);		    /* push */
	assert_int_equal(MOVES("\x90\x90\x5d"), 2);		    /* pop */
	assert_int_equal(MOVES("\x48\x8b\xa2\xa0\x00\x00\x00"), 0); /* mov 0xa0(%rdx),%rsp */
	assert_int_equal(MOVES("\xc3\x48\x89\xf4\xc3"), 1);	    /* behind a ret, too */
	assert_int_equal(MOVES("\x74\x01\xc3\xc9\xc3"), 3);	    /* leave */
	assert_int_equal(MOVES("\xe8\x00\x00\x00\x00\x0f\x0b\xf4\xcc\xc3"), 10); /* nothing does */
	assert_int_equal(MOVES("\x90\x06\x90\x90"), 1);	    /* not known: it may */
	assert_int_equal(MOVES("\x90\x90\x48\x83\xec"), 2); /* cut */
	assert_int_equal(code_moves_sp(NULL, 0), 0);
}

static struct walked prologue(const char *code, size_t at, size_t len)
{
	struct walked w = {.way = {.kind = CODE_WAY_FP, .ra = 99, .bp = 99}};
	uint8_t *copy = malloc(len ? len : 1);

	assert_non_null(copy);
	memcpy(copy, code, len);
	w.found = code_prologue(copy, at, len, &w.way);
	free(copy);
	return w;
}
#define PROLOGUE(at, text) prologue(text, at, sizeof(text) - 1)

/* Of sljit: push %rbx, %r15, %r14, %r13, %rbp; mov %rdi,%rbx; sub $0x50,%rsp. */
#define SLJIT "\x53\x41\x57\x41\x56\x41\x55\x55\x48\x89\xfb\x48\x83\xec\x50"

static void test_prologue(void **state)
{
	(void)state;
	assert_way(PROLOGUE(16, SLJIT "\x90\x90"), 0x78, 0x50);
	assert_way(PROLOGUE(15, SLJIT), 0x78, 0x50);
	/* Before the subtraction, and before pushes. */
	assert_way(PROLOGUE(11, SLJIT), 0x28, 0);
	assert_way(PROLOGUE(8, SLJIT), 0x28, 0);
	assert_way(PROLOGUE(7, SLJIT), 0x20, -1);
	assert_way(PROLOGUE(3, SLJIT), 0x10, -1);
	assert_way(PROLOGUE(1, SLJIT), 8, -1);
	/* The nearest one; sub $0x120,%rsp. */
	assert_way(
		PROLOGUE(30, SLJIT "\xc3\x55\x53\x48\x81\xec\x20\x01\x00\x00\x90\x90\x90\x90\x90"),
		0x130, 0x128);
	/* None: before it, one push, a register twice, no subtraction, an odd one, one that is too large, one that is cut. */
	assert_false(PROLOGUE(0, SLJIT).found);
	assert_false(PROLOGUE(9, "\x90\x55\x48\x83\xec\x10\x90\x90\x90\x90").found);
	assert_false(PROLOGUE(9, "\x53\x53\x48\x83\xec\x10\x90\x90\x90\x90\x90").found);
	assert_false(PROLOGUE(9, "\x53\x55\x48\x89\xfb\xc3\x90\x90\x90\x90").found);
	assert_false(PROLOGUE(9, "\x53\x55\x48\x83\xec\x0c\x90\x90\x90\x90").found);
	assert_false(PROLOGUE(9, "\x53\x55\x48\x81\xec\x00\x00\x01\x00\x90").found);
	assert_false(PROLOGUE(9, "\x90\x90\x90\x53\x55\x48\x81\xec\x20").found);
	assert_false(PROLOGUE(0, "").found);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_frame_pointer),
		cmocka_unit_test(test_frame_pointer_made),
		cmocka_unit_test(test_far),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_pushes),
		cmocka_unit_test(test_lea),
		cmocka_unit_test(test_moves_sp),
		cmocka_unit_test(test_prologue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
