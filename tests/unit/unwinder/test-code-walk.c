/* test-code-walk.c - walks through code whose end is known, and lengths against the disassembler's.
 * Encodings as GNU as writes them. */
#include "tests/unit/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unwinder/code-walk.h"

struct walked {
	bool found;
	struct code_way way;
};

static struct walked walk(const char *code, size_t at, size_t len)
{
	struct walked w = {.way = {.by_fp = true, .ra = 99, .bp = 99}};
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
	assert_false(w.way.by_fp);
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
	assert_true(w.found && w.way.by_fp);
	w = WALK(0, "\x48\x8d\x65\xf0\x5b\x41\x5c\x5d\xc3"); /* lea -16(%rbp),%rsp */
	assert_true(w.found && w.way.by_fp);
	w = WALK(0, "\x48\x89\xec\x5d\xc3"); /* mov %rbp,%rsp */
	assert_true(w.found && w.way.by_fp);
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
	assert_false(WALK(0, "\x48\x94\xc3").found);			 /* xchg %rax,%rsp */
	assert_false(WALK(0, "\x5c\xc3").found);			 /* pop %rsp */
	assert_false(WALK(0, "\xe9\x00\x10\x00\x00").found);		 /* out of what is there */
	assert_false(WALK(0, "\xeb\xfe").found);			 /* for ever */
	assert_false(WALK(0, "\x50\xc3").found);			 /* below rsp */
	assert_false(WALK(0, "\x48\x83\xc4\x04\xc3").found);		 /* between words */
	assert_false(WALK(0, "\x48\x81\xc4\x00\x20\x00\x00\xc3").found); /* too far */
	assert_false(WALK(0, "\x06\xc3").found);			 /* no instruction */
	/* of other registers, or into memory: these are nothing */
	assert_true(WALK(0, "\x4c\x89\xe0\x48\x83\xc0\x08\x48\x89\x04\x24\xc3").found);
	assert_true(WALK(0, "\x49\x83\xc4\x10\x48\x83\xfc\x10\xc3").found); /* r12; cmp */
}

/* Each instruction of this program: "  address:\tbytes \tmnemonic". */
static void test_lengths(void **state)
{
	FILE *file = popen("objdump -d -w --insn-width=16 /proc/$PPID/exe 2>/dev/null", "re");
	char line[512];
	unsigned n = 0, known = 0;

	(void)state;
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		char *bytes = strstr(line, ":\t"), *end;
		uint8_t code[16];
		size_t len = 0, is;

		if (!bytes || strstr(line, "(bad)"))
			continue;
		for (bytes += 2; len < sizeof(code); bytes = end) {
			unsigned long byte = strtoul(bytes, &end, 16);

			if (*bytes == '\t' || end != bytes + 2)
				break;
			code[len++] = (uint8_t)byte;
			while (*end == ' ')
				end++;
		}
		/* Prefixes without their instruction stand alone in its output. */
		if (!len || strstr(line, "data16") || strstr(line, "rex"))
			continue;
		is = code_length(code, len);
		n++;
		known += is != 0;
		if (is && is != len)
			print_error("%zu, not %zu: %s", is, len, line);
		assert_true(!is || is == len);
		assert_int_equal(code_length(code, len - 1), 0);
	}
	if (pclose(file) != 0)
		skip(); /* no objdump here */
	assert_true(n > 1000 && known > n - n / 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_frame_pointer),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_lengths),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
