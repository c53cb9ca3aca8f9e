/* test-hotspot.c - a Java VM described by its own memory: names, unwind rules, and memory that is wrong. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/unwinder/hotspot-fixture.h"
#include "unwinder/cfi.h"

static struct fake_vm fake;

static void read_code(int jdk, struct hotspot **ret_vm, struct hotspot_code *ret_code)
{
	fake_vm_init(&fake, jdk);
	assert_int_equal(hotspot_new(&fake.memory, FAKE_BASE, ret_vm), 0);
	assert_int_equal(hotspot_code(*ret_vm, &fake.memory, ret_code), 0);
}

static void expect_name(const struct hotspot_code *code, uint64_t at, const char *name)
{
	struct uw_symbol symbol;
	char text[128];

	assert_true(uw_symbols_find(code->symbols, at, &symbol));
	(void)snprintf(text, sizeof(text), "%s [%s]", symbol.name, frame_kind_name(symbol.kind));
	assert_string_equal(text, name);
}

static rule_t rule_at(const struct hotspot_code *code, uint64_t at)
{
	struct uw_image image = {.arch = UW_ARCH_X86_64,
				 .eh_frame_hdr = code->sections[0],
				 .eh_frame = code->sections[1]};
	struct cfi_fde fde;
	struct cfi_row row;
	uint32_t offset;

	cfi_table_init(&image);
	assert_int_equal(cfi_table_find(&image, at, &offset), CFI_OK);
	assert_int_equal(cfi_fde_read(&image, false, offset, NULL, 1, &fde), CFI_OK);
	assert_true(at >= fde.begin && at < fde.end);
	assert_int_equal(cfi_row_at(&fde, at, &row), CFI_OK);
	free(image.table.slices);
	return cfi_rule(&row, at, 1, false);
}

static void expect_rule(const struct hotspot_code *code, uint64_t at, enum rule_kind kind,
			int64_t words, uint64_t saved_words)
{
	rule_t rule = rule_at(code, at);

	assert_int_equal(rule_kind(rule), kind);
	if (kind != RULE_SLOW)
		assert_true(rule == rule_frame(kind, words, saved_words));
}

static void test_names(void **state)
{
	static const int jdks[] = {8, 11, 17, 21, 25};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(jdks); i++) {
		struct hotspot_code code;
		struct hotspot *vm;

		read_code(jdks[i], &vm, &code);
		assert_int_equal(code.n_blobs, 6);
		expect_name(&code, fake.compiled, "Main.run [java-c2]");
		expect_name(&code, fake.compiled_end - 1, "Main.run [java-c2]");
		expect_name(&code, fake.native, "java.util.HashMap.get [native]");
		expect_name(&code, fake.runtime_code, "_new_instance_Java [native]");
		expect_name(&code, fake.entry, "Interpreter [native]");
		assert_true(code.places.interpreter.start == fake.interpreter);
		assert_int_equal(code.places.n_heaps, 1);
		hotspot_code_deinit(&code);
		(void)hotspot_free(vm);
	}
}

#if defined(__x86_64__)
static void test_compiled(void **state)
{
	struct hotspot_code code;
	struct hotspot *vm;

	(void)state;
	read_code(17, &vm, &code);
	expect_rule(&code, fake.compiled, RULE_SP, 1, 0);
	expect_rule(&code, fake.compiled + 7, RULE_SP, 1, 0);
	expect_rule(&code, fake.compiled + 8, RULE_SP, 2, 2);
	expect_rule(&code, fake.compiled + 12, RULE_SP, 6, 2);
	expect_rule(&code, fake.compiled + 16, RULE_SP, 6, 2);
	expect_rule(&code, fake.compiled + 20, RULE_SP, 2, 2);
	expect_rule(&code, fake.compiled + 21, RULE_SP, 1, 0);
	expect_rule(&code, fake.compiled + 34, RULE_SP, 1, 0);
	expect_rule(&code, fake.compiled + 35, RULE_SP, 6, 2);
	expect_rule(&code, fake.native + 1, RULE_SP, 2, 2);
	expect_rule(&code, fake.native + 8, RULE_SP, 4, 2);
	expect_rule(&code, fake.native + 11, RULE_SP, 1, 0);
	expect_rule(&code, fake.native + 12, RULE_SP, 4, 2);
	expect_rule(&code, fake.runtime_code + 20, RULE_SP, 6, 2);
	hotspot_code_deinit(&code);
	(void)hotspot_free(vm);
}

static void test_adapter(void **state)
{
	struct hotspot_code code;
	struct hotspot *vm;

	(void)state;
	read_code(17, &vm, &code);
	expect_rule(&code, fake.adapter, RULE_SP, 1, 0);
	expect_rule(&code, fake.adapter + 7, RULE_SLOW, 0, 0); /* in rax */
	expect_rule(&code, fake.adapter + 12, RULE_SP, 1, 0);
	expect_rule(&code, fake.adapter + 21, RULE_SLOW, 0, 0); /* by r13 */
	expect_rule(&code, fake.adapter + 29, RULE_SP, 1, 0);
	expect_rule(&code, fake.adapter + 30, RULE_SLOW, 0, 0);
	expect_rule(&code, fake.adapter + 41, RULE_SLOW, 0, 0);
	hotspot_code_deinit(&code);
	(void)hotspot_free(vm);
}

static void test_interpreter(void **state)
{
	struct hotspot_code code;
	struct hotspot *vm;

	(void)state;
	read_code(17, &vm, &code);
	for (uint64_t at = fake.entry; at < fake.entry_end; at++)
		expect_rule(&code, at, RULE_SLOW, 0, 0); /* the caller's rsp is saved */
	expect_rule(&code, fake.entry_end + 32 + 3, RULE_SLOW, 0, 0);
	expect_rule(&code, fake.entry_end + 31, RULE_SLOW, 0, 0); /* returns to its first byte */
	hotspot_code_deinit(&code);
	(void)hotspot_free(vm);
}
#endif

/* ---- one address ---- */

static char seen[128];

static void note_line(void *arg, const struct uw_line *line)
{
	(void)arg;
	(void)snprintf(seen, sizeof(seen), "%s [%s]", line->function, frame_kind_name(line->kind));
}

static void test_method(void **state)
{
	struct hotspot *vm;

	(void)state;
	fake_vm_init(&fake, 17);
	assert_int_equal(hotspot_new(&fake.memory, FAKE_BASE, &vm), 0);
	assert_int_equal(hotspot_lines(vm, &fake.memory, fake.other_method, note_line, NULL), 1);
	assert_string_equal(seen, "java.util.HashMap.get [java-interpreted]");
	assert_int_equal(hotspot_lines(vm, &fake.memory, fake.heap_at, note_line, NULL), 0);
	assert_int_equal(hotspot_lines(vm, &fake.memory, 0, note_line, NULL), 0);
	assert_int_equal(hotspot_lines(vm, &fake.memory, UINT64_MAX, note_line, NULL), 0);
	(void)hotspot_free(vm);
}

static char all[256];

static void add_line(void *arg, const struct uw_line *line)
{
	size_t len = strlen(all);

	(void)arg;
	(void)snprintf(all + len, sizeof(all) - len, "%s [%s];", line->function,
		       frame_kind_name(line->kind));
}

static void test_inlined(void **state)
{
	static const int jdks[] = {8, 11, 17, 21, 25};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(jdks); i++) {
		const uint64_t scopes = FAKE_BASE + FAKE_HEAP + FAKE_HEAP_BYTES + 48;
		struct hotspot_code code;
		struct hotspot *vm;

		read_code(jdks[i], &vm, &code);
		all[0] = 0;
		assert_int_equal(
			hotspot_lines(vm, &fake.memory, fake.compiled + 15, add_line, NULL), 2);
		assert_string_equal(all, "java.util.HashMap.get [java-c2];Main.run [java-c2];");
		/* between calls: that the method itself was compiled is all that is known */
		all[0] = 0;
		assert_int_equal(
			hotspot_lines(vm, &fake.memory, fake.compiled + 14, add_line, NULL), 1);
		assert_string_equal(all, "Main.run [java-c2];");
		/* behind the last call; other code is there by now; a scope that is its own caller */
		assert_int_equal(
			hotspot_lines(vm, &fake.memory, fake.compiled + 16, add_line, NULL), 0);
		fake_set(&fake, fake.compiled - FAKE_BLOB_BYTES + 40, fake.other_method, 8);
		assert_int_equal(
			hotspot_lines(vm, &fake.memory, fake.compiled + 15, add_line, NULL), 0);
		fake_set(&fake, scopes + 1, 1 + (jdks[i] > 17), 1);
		assert_int_equal(
			hotspot_lines(vm, &fake.memory, fake.compiled + 15, add_line, NULL), 0);
		hotspot_code_deinit(&code);
		(void)hotspot_free(vm);
	}
}

static int methods_at(struct hotspot *vm, uint64_t offset)
{
	all[0] = 0;
	return hotspot_lines(vm, &fake.memory, fake.compiled + offset, add_line, NULL);
}

/* HashMap.get, inlined, has a loop from offset 13 on; its safepoint is at 16. */
static void test_loop(void **state)
{
	static const uint8_t end[] = {
		0x41, 0x85, 0x02,		    /* 16 test %eax,(%r10) */
		0x48, 0x8b, 0x74, 0x24, 0x08,	    /* 19 mov 8(%rsp),%rsi */
		0x81, 0xff, 0x60, 0xea, 0x00, 0x00, /* 24 cmp $60000,%edi */
		0x7c, 0xed,			    /* 30 jl 13 */
	};
	static const char both[] = "java.util.HashMap.get [java-c2];Main.run [java-c2];";
	uint8_t *code;
	struct hotspot_code read;
	struct hotspot *vm;

	(void)state;
	read_code(17, &vm, &read);
	code = fake_at(&fake, fake.compiled + 16);
	memcpy(code, end, sizeof(end));
	for (uint64_t at = 13; at <= 30; at++) {
		assert_int_equal(methods_at(vm, at), 2);
		assert_string_equal(all, both);
	}
	assert_int_equal(methods_at(vm, 12), 1); /* before the loop */
	assert_string_equal(all, "Main.run [java-c2];");
	assert_int_equal(methods_at(vm, 32), 0); /* behind it, and behind the last call */
	code[15] = 5;				 /* it does not lead back */
	assert_int_equal(methods_at(vm, 14), 1);
	assert_int_equal(methods_at(vm, 20), 0);
	code[15] = 0xed;
	code[8] = 0xe8; /* a call in between, which has a record of its own */
	assert_int_equal(methods_at(vm, 14), 1);
	code[8] = 0x81;
	code[1] = 0x87; /* no safepoint */
	assert_int_equal(methods_at(vm, 14), 1);
	for (unsigned value = 0; value < 256; value++) /* any bytes */
		for (size_t i = 0; i < sizeof(end); i++) {
			memcpy(code, end, sizeof(end));
			code[i] = (uint8_t)value;
			assert_in_range(methods_at(vm, 14), 1, 2);
			assert_in_range(methods_at(vm, 20), 0, 2);
		}
	hotspot_code_deinit(&read);
	(void)hotspot_free(vm);
}

/* ---- wrong memory ---- */

static void test_no_vm(void **state)
{
	struct hotspot *vm;

	(void)state;
	fake_vm_init(&fake, 17);
	assert_int_equal(hotspot_new(&fake.memory, FAKE_BASE + 4096, &vm), -ENOEXEC);
	assert_int_equal(hotspot_new(&fake.memory, 0, &vm), -ENOEXEC);
	fake_set(&fake, fake.hash_at, 0, 4);
	assert_int_equal(hotspot_new(&fake.memory, FAKE_BASE, &vm), -ENOEXEC);
}

static void test_not_started(void **state)
{
	struct hotspot_code code;
	struct hotspot *vm;

	(void)state;
	fake_vm_init(&fake, 17);
	assert_int_equal(hotspot_new(&fake.memory, FAKE_BASE, &vm), 0);
	fake_set(&fake, fake.heaps_at, 0, 8);
	assert_int_equal(hotspot_code(vm, &fake.memory, &code), -ENOTSUP);
	(void)hotspot_free(vm);
}

static void test_other_layout(void **state)
{
	struct hotspot *vm;

	(void)state;
	fake_vm_init(&fake, 3); /* no field has the name that it has later */
	assert_int_equal(hotspot_new(&fake.memory, FAKE_BASE, &vm), -EPROTONOSUPPORT);
}

/* A block of length 0, a block longer than its heap, a heap that ends before it begins: the rest is still read. */
static void test_broken_lists(void **state)
{
	const uint64_t first = FAKE_BASE + FAKE_HEAP;
	struct hotspot_code code;
	struct hotspot *vm;

	(void)state;
	read_code(17, &vm, &code);
	hotspot_code_deinit(&code);
	fake_set(&fake, first, UINT64_MAX / 2, 8);
	assert_int_equal(hotspot_code(vm, &fake.memory, &code), -ENOTSUP);
	fake_set(&fake, first, 0, 8);
	assert_int_equal(hotspot_code(vm, &fake.memory, &code), -ENOTSUP);
	fake_set(&fake, fake.heap_at + 64, 63, 4);
	assert_int_equal(hotspot_code(vm, &fake.memory, &code), -ENOTSUP);
	fake_set(&fake, fake.heap_at + 32, 1, 8);
	assert_int_equal(hotspot_code(vm, &fake.memory, &code), -ENOTSUP);
	(void)hotspot_free(vm);
}

/* Pointers that lead in circles, and names without an end. */
static void test_broken_names(void **state)
{
	struct hotspot_code code;
	struct hotspot *vm;

	(void)state;
	read_code(17, &vm, &code);
	hotspot_code_deinit(&code);
	fake_set(&fake, fake.method + 8, fake.method, 8);
	fake_set(&fake, fake.other_method + 8, UINT64_MAX - 4, 8);
	assert_int_equal(hotspot_code(vm, &fake.memory, &code), 0);
	expect_name(&code, fake.compiled, "nmethod [native]");
	expect_name(&code, fake.native, "native nmethod [native]");
	hotspot_code_deinit(&code);
	(void)hotspot_free(vm);
}

/* As large as the address space: what is read has a limit. */
static ssize_t read_anything(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	(void)memory;
	memset(to, (int)(address >> 12 & 1), len);
	return (ssize_t)len;
}

static void test_endless(void **state)
{
	struct uw_memory memory = {.read = read_anything};
	struct hotspot_code code;
	struct hotspot *vm;
	int r;

	(void)state;
	fake_vm_init(&fake, 17);
	assert_int_equal(hotspot_new(&fake.memory, FAKE_BASE, &vm), 0);
	r = hotspot_code(vm, &memory, &code);
	if (r == 0)
		hotspot_code_deinit(&code);
	else
		assert_int_equal(r, -ENOTSUP);
	(void)hotspot_free(vm);
}

/* Blobs of a process that claims many interpreters: the codelets are read once. */
static void test_many_interpreters(void **state)
{
	const uint8_t room[16] = {0};
	struct hotspot_code code;
	struct hotspot *vm;
	uint64_t before, once;

	(void)state;
	fake_vm_init(&fake, 17);
	assert_int_equal(hotspot_new(&fake.memory, FAKE_BASE, &vm), 0);
	before = fake.reads;
	assert_int_equal(hotspot_code(vm, &fake.memory, &code), 0);
	once = fake.reads - before;
	hotspot_code_deinit(&code);
	for (int i = 0; i < 100; i++)
		(void)fake_blob(&fake, "Interpreter", room, sizeof(room), 0, 0, 0, 0);
	before = fake.reads;
	assert_int_equal(hotspot_code(vm, &fake.memory, &code), 0);
	assert_true(code.n_blobs > 100);
	assert_true(fake.reads - before < once + 100);
	hotspot_code_deinit(&code);
	(void)hotspot_free(vm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_method),
		cmocka_unit_test(test_no_vm),
		cmocka_unit_test(test_not_started),
		cmocka_unit_test(test_other_layout),
		cmocka_unit_test(test_broken_lists),
		cmocka_unit_test(test_broken_names),
		cmocka_unit_test(test_endless),
		cmocka_unit_test(test_many_interpreters),
		cmocka_unit_test(test_inlined),
		cmocka_unit_test(test_loop),
#if defined(__x86_64__)
		cmocka_unit_test(test_compiled),
		cmocka_unit_test(test_interpreter),
		cmocka_unit_test(test_adapter),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
