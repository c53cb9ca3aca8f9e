/* test-hotspot-cfi.c - rules of pieces of a Java VM's code, each made by hand: by its kind, its bytes, in any order, cut. */
#include "symbols/hotspot-cfi.h"
#include "tests/unit/cmocka.h"
#include "unwinder/cfi.h"

enum { BASE = 0x7000000, TEXT = 0x100000, STEP = 0x100 };

/* push %rbp; mov %rsp,%rbp; sub $32,%rsp; nop; add $32,%rsp; pop %rbp; ret */
static const uint8_t compiled[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20,
				   0x90, 0x48, 0x83, 0xc4, 0x20, 0x5d, 0xc3};

static void expect(struct uw_image *image, uint64_t at, enum rule_kind kind, int64_t words,
		   uint64_t saved_words)
{
	struct cfi_fde fde;
	struct cfi_row row;
	uint32_t offset;
	rule_t rule;

	assert_int_equal(cfi_table_find(image, at, &offset), CFI_OK);
	assert_int_equal(cfi_fde_read(image, false, offset, NULL, 1, &fde), CFI_OK);
	assert_true(at >= fde.begin && at < fde.end);
	assert_int_equal(cfi_row_at(&fde, at, &row), CFI_OK);
	rule = cfi_rule(&row, at, 1, false);
	assert_int_equal(rule_kind(rule), kind);
	if (kind != RULE_SLOW)
		assert_true(rule == rule_frame(kind, words, saved_words));
}

static struct uw_image finish(struct vm_cfi *cfi, struct uw_section sections[3])
{
	struct uw_image image = {.arch = UW_ARCH_X86_64};

	assert_int_equal(vm_cfi_finish(cfi, sections), 0);
	vm_cfi_deinit(cfi);
	image.eh_frame_hdr = sections[0];
	image.eh_frame = sections[1];
	cfi_table_init(&image);
	return image;
}

static void let_go(struct uw_image *image, struct uw_section sections[3])
{
	free(image->table.slices);
	free((void *)(uintptr_t)sections[0].data);
	free((void *)(uintptr_t)sections[1].data);
}

/* ret; mov 0x618(%r15),%rsp; push %rax; ret: frames of virtual threads return to its second byte. */
static const uint8_t barrier[] = {0xc3, 0x49, 0x8b, 0xa7, 0x18, 0x06, 0x00, 0x00, 0x50, 0xc3};

static void test_barrier(void **state)
{
	const struct vm_code codes[] = {
		{VM_BARRIER, TEXT, TEXT + sizeof(barrier), 80, 0, false, barrier},
		{VM_BARRIER, TEXT + STEP, TEXT + STEP + sizeof(barrier), 0, 0, false, barrier},
		{VM_BARRIER, TEXT + 2 * STEP, TEXT + 3 * STEP, 80, 0, false, NULL},
		{VM_BARRIER, TEXT + 3 * STEP, TEXT + 3 * STEP + 8, 80, 0, false, barrier},
	};
	struct uw_section sections[3] = {0};
	struct uw_image image;
	struct vm_cfi cfi;

	(void)state;
	vm_cfi_init(&cfi, BASE);
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		vm_cfi_add(&cfi, &codes[i]);
	image = finish(&cfi, sections);
	for (size_t at = 0; at < 9; at++)
		expect(&image, TEXT + at, RULE_SP, 10, 2);
	expect(&image, TEXT + 9, RULE_FP, 2, 2);
	/* The frame is not known; no code was read; it is cut. */
	for (size_t i = 1; i < ARRAY_SIZE(codes); i++)
		expect(&image, TEXT + i * STEP, RULE_FP, 2, 2);
	let_go(&image, sections);
}

/* The last piece first: the search table is in order all the same. */
static void test_kinds(void **state)
{
	const struct vm_code codes[] = {
		{VM_FP, TEXT + 3 * STEP, TEXT + 4 * STEP, 0, 0, false, NULL},
		{VM_LEAF, TEXT + 2 * STEP, TEXT + 3 * STEP, 0, 0, false, NULL},
		{VM_STUB, TEXT + STEP, TEXT + 2 * STEP, 64, 0, false, NULL},
		{VM_COMPILED, TEXT, TEXT + sizeof(compiled), 48, 8, false, compiled},
	};
	struct uw_section sections[3] = {0};
	struct uw_image image;
	struct vm_cfi cfi;
	uint32_t offset;

	(void)state;
	vm_cfi_init(&cfi, BASE);
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		vm_cfi_add(&cfi, &codes[i]);
	image = finish(&cfi, sections);
	expect(&image, TEXT, RULE_SP, 1, 0);
	expect(&image, TEXT + 1, RULE_SP, 2, 2);
	expect(&image, TEXT + 4, RULE_SP, 2, 2);
	expect(&image, TEXT + 8, RULE_SP, 6, 2);
	expect(&image, TEXT + 13, RULE_SP, 2, 2);
	expect(&image, TEXT + 14, RULE_SP, 1, 0);
	expect(&image, TEXT + STEP, RULE_SP, 1, 0);
	expect(&image, TEXT + STEP + 1, RULE_SP, 8, 2);
	expect(&image, TEXT + 2 * STEP + 9, RULE_SP, 1, 0);
	expect(&image, TEXT + 3 * STEP + 9, RULE_FP, 2, 2);
	/* between two pieces, and behind the last one, there is no code */
	if (cfi_table_find(&image, TEXT + sizeof(compiled), &offset) == CFI_OK) {
		struct cfi_fde fde;

		assert_int_equal(cfi_fde_read(&image, false, offset, NULL, 1, &fde), CFI_OK);
		assert_true(TEXT + sizeof(compiled) >= fde.end);
	}
	let_go(&image, sections);
}

/* At each length, in memory of exactly that size: a sanitizer sees a read beyond it.  What is there has its rules. */
static void test_cut(void **state)
{
	(void)state;
	for (size_t len = 1; len <= sizeof(compiled); len++) {
		uint8_t *bytes = malloc(len);
		const struct vm_code code = {VM_COMPILED, TEXT, TEXT + len, 48, 8, false, bytes};
		const struct vm_code entry = {VM_INTERPRETER, TEXT + STEP, TEXT + STEP + len, 0, 0,
					      false,	      bytes};
		struct uw_section sections[3] = {0};
		struct uw_image image;
		struct vm_cfi cfi;

		assert_non_null(bytes);
		memcpy(bytes, compiled, len);
		vm_cfi_init(&cfi, BASE);
		vm_cfi_add(&cfi, &code);
		vm_cfi_add_codelet(&cfi, &entry, true);
		image = finish(&cfi, sections);
		expect(&image, TEXT, RULE_SP, 1, 0);
		if (len > 8)
			expect(&image, TEXT + 8, RULE_SP, 6, 2);
		expect(&image, TEXT + STEP, RULE_SLOW, 0, 0); /* the caller's rsp is in r13 */
		let_go(&image, sections);
		free(bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_kinds),
					   cmocka_unit_test(test_barrier),
					   cmocka_unit_test(test_cut)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
