/* test-machine-code.c - machine code as text: instructions stated by hand, bytes that are none, code of this program. */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbols/machine-code.h"
#include "tests/unit/cmocka.h"

struct listing {
	char text[2048];
	size_t n;
	uint64_t next;
	int end_after;
};

static int collect(void *arg, const struct uw_instruction *insn)
{
	struct listing *l = arg;
	size_t len = strlen(l->text);

	assert_int_equal(insn->vaddr, l->next);
	assert_in_range(insn->size, 1, 15);
	l->next += insn->size;
	if (len < sizeof(l->text) - 256)
		(void)snprintf(l->text + len, sizeof(l->text) - len, "%lx %s\n",
			       (unsigned long)insn->vaddr, insn->text);
	return ++l->n == (size_t)l->end_after ? 7 : 0;
}

static int list(const void *bytes, size_t len, enum uw_arch arch, bool intel, struct listing *l)
{
	struct uw_code code = {
		.data = (uint8_t *)(uintptr_t)bytes, .len = len, .vaddr = 0x1000, .arch = arch};

	l->next = 0x1000;
	l->n = 0;
	l->text[0] = 0;
	return uw_code_each(&code, intel, collect, l);
}

static bool can_disassemble(void)
{
	struct listing l = {.n = 0};

	return list("\xc3", 1, UW_ARCH_X86_64, false, &l) != -EOPNOTSUPP;
}

/* push %rbp; mov %rsp,%rbp; nothing (0x06 is not an instruction of 64-bit code); jmp -2; cut off. */
static void test_x86(void **state)
{
	static const uint8_t bytes[] = {0x55, 0x48, 0x89, 0xe5, 0x06, 0xeb, 0xfe, 0x48};
	struct listing l = {.n = 0};

	(void)state;
	if (!can_disassemble())
		skip();
	assert_int_equal(list(bytes, sizeof(bytes), UW_ARCH_X86_64, false, &l), 0);
	assert_string_equal(l.text, "1000 pushq   %rbp\n1001 movq    %rsp, %rbp\n1004 .byte 0x6\n"
				    "1005 jmp     0x1005\n1007 .byte 0x48\n");
	assert_int_equal(list(bytes, 4, UW_ARCH_X86_64, true, &l), 0);
	assert_string_equal(l.text, "1000 push    rbp\n1001 mov     rbp, rsp\n");
	l.end_after = 2;
	assert_int_equal(list(bytes, sizeof(bytes), UW_ARCH_X86_64, false, &l), 7);
	assert_int_equal(l.n, 2);
}

/* ret; a word that is none; two bytes that are cut off. */
static void test_aarch64(void **state)
{
	static const uint8_t bytes[] = {0xc0, 0x03, 0x5f, 0xd6, 0xff, 0xff, 0xff, 0xff, 0x1f, 0x20};
	struct listing l = {.n = 0};

	(void)state;
	if (!can_disassemble())
		skip();
	assert_int_equal(list(bytes, sizeof(bytes), UW_ARCH_AARCH64, false, &l), 0);
	assert_string_equal(l.text, "1000 ret     \n1004 .word 0xffffffff\n1008 .byte 0x1f\n1009 "
				    ".byte 0x20\n");
}

/* Whatever the bytes are, each is in one instruction. */
static void test_any_bytes(void **state)
{
	uint8_t bytes[4096];
	uint64_t x = 1;

	(void)state;
	if (!can_disassemble())
		skip();
	for (unsigned round = 0; round < 64; round++) {
		struct listing l = {.n = 0};

		for (size_t i = 0; i < sizeof(bytes); i++) {
			x = x * 6364136223846793005ull + 1442695040888963407ull;
			bytes[i] = (uint8_t)(x >> 56);
		}
		assert_int_equal(list(bytes, sizeof(bytes),
				      round % 2 ? UW_ARCH_X86_64 : UW_ARCH_AARCH64, false, &l),
				 0);
		assert_int_equal(l.next, 0x1000 + sizeof(bytes));
	}
}

static void test_other_machine(void **state)
{
	struct listing l = {.n = 0};

	(void)state;
	assert_int_equal(list("\xc3", 1, UW_ARCH_NONE, false, &l), -EOPNOTSUPP);
}

int code_of_this(int x);

__attribute__((noinline)) int code_of_this(int x)
{
	return x * 7 + 1;
}

static int first_base(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	*(uint64_t *)data = info->dlpi_addr;
	return 1;
}

static void test_load(void **state)
{
	struct uw_source source = {.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
	struct uw_code code;
	uint64_t base = 0, vaddr;

	(void)state;
	(void)dl_iterate_phdr(first_base, &base);
	vaddr = (uint64_t)(uintptr_t)code_of_this - base;
	assert_int_equal(uw_code_load(&source, vaddr, 4, &code), 0);
	assert_int_equal(code.len, 4);
	assert_memory_equal(code.data, (const void *)(uintptr_t)code_of_this, 4);
	assert_int_equal(code.arch, UW_ARCH_HOST);
	uw_code_deinit(&code);
	/* Not beyond the segment, nor where there is none. */
	assert_int_equal(uw_code_load(&source, vaddr, UINT64_MAX, &code), 0);
	assert_true(code.len < UW_CODE_MAX);
	uw_code_deinit(&code);
	assert_int_equal(uw_code_load(&source, UINT64_MAX - 8, 4, &code), -EBADMSG);
	assert_int_equal(uw_code_load(&source, vaddr, 0, &code), -EBADMSG);
	close(source.fd);
	source.fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
	assert_true(uw_code_load(&source, vaddr, 4, &code) < 0);
	close(source.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_x86),	  cmocka_unit_test(test_aarch64),
		cmocka_unit_test(test_any_bytes), cmocka_unit_test(test_other_machine),
		cmocka_unit_test(test_load),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
