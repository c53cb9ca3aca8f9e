/* test-code-insn.c - lengths against the disassembler's, and the other fields of an instruction. */
#include "tests/unit/cmocka.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unwinder/code.h"

/* 0: not known, or longer than @len. */
static size_t code_length(const uint8_t *code, size_t len)
{
	struct code_insn in;

	return code_decode(&in, code, len) ? in.length : 0;
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
	assert_true(n > 500 && known > n - n / 50);
}

#define LENGTH(text) code_length((const uint8_t *)(text), sizeof(text) - 1)

/* As GNU as writes them. */
static void test_wide(void **state)
{
	(void)state;
	/* vmovdqu64 (%rsi),%zmm16; the same 64 bytes on; vpcmpneqb (%rsi),%ymm16,%k1 */
	assert_int_equal(LENGTH("\x62\xe1\xfe\x48\x6f\x06\x90"), 6);
	assert_int_equal(LENGTH("\x62\xe1\xfe\x48\x6f\x46\x01\x90"), 7);
	assert_int_equal(LENGTH("\x62\xf3\x7d\x20\x3f\x0e\x04\x90"), 7);
	assert_int_equal(LENGTH("\x62\xe1\xfe\x48\x6f"), 0);	     /* cut short */
	assert_int_equal(LENGTH("\x62\xe4\xfe\x48\x6f\x06\x90"), 0); /* map 4 */
	/* vmovdqu (%rsi),%ymm0 in two and in three bytes of prefix */
	assert_int_equal(LENGTH("\xc5\xfe\x6f\x06\x90"), 4);
	assert_int_equal(LENGTH("\xc4\xe1\x7e\x6f\x06\x90"), 5);
	assert_int_equal(LENGTH("\x0f\x01\xd6\x90"), 3); /* xtest */
	assert_int_equal(LENGTH("\x0f\x0b\x90"), 2);	 /* ud2 */
	assert_int_equal(LENGTH("\xf8"), 1);		 /* clc */
}

/* 0x66 makes numbers of two bytes, except where REX.W makes the operand one of eight. */
static void test_narrow(void **state)
{
	(void)state;
	assert_int_equal(LENGTH("\x66\x81\xc0\x10\x00\x90\x90\x90"), 5); /* add $16,%ax */
	assert_int_equal(LENGTH("\x66\x48\x81\xc4\x10\x00\x00\x00\x90"), 8);
	assert_int_equal(LENGTH("\x66\xb8\x10\x00\x90"), 4); /* mov $16,%ax */
	assert_int_equal(LENGTH("\x66\x48\xb8\x10\x00\x00\x00\x00\x00\x00\x00\x90"), 11);
	/* as the compiler writes a call of __tls_get_addr(), direct and by a slot */
	assert_int_equal(LENGTH("\x66\x66\x48\xe8\x00\x00\x00\x00\x90"), 8);
	assert_int_equal(LENGTH("\x66\x48\xff\x15\x00\x00\x00\x00\x90"), 8);
	assert_int_equal(LENGTH("\x66\xe8\x00\x00\x00\x00\x90"), 0);
}

static void test_parts(void **state)
{
	struct code_insn in;

	(void)state;
	assert_true(
		code_decode(&in, (const uint8_t *)"\x64\x48\x8b\x0a", 4)); /* mov %fs:(%rdx),%rcx */
	assert_true(in.segment && !in.narrow && !in.two);
	assert_int_equal(in.rex, 0x48);
	assert_int_equal(*in.op, 0x8b);
	assert_true(code_decode(&in, (const uint8_t *)"\x66\x0f\x6f\x06", 4)); /* movdqa */
	assert_true(in.narrow && in.two && !in.segment);
	assert_int_equal(*in.op, 0x6f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_wide),
		cmocka_unit_test(test_narrow),
		cmocka_unit_test(test_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
