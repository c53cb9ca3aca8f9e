/* test-cfi-quick.c - rules without a row: the same as by the row, wherever anything is stated.
 *
 * The oracle is the whole way (cfi_row_at, cfi_rule): over programs made at random of all
 * operations, at every address, and over every function of the libraries that this test has mapped.
 */
#include "tests/unit/unwinder/cfi-fixture.h"

#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include "symbols/elf.h"

enum { FUNCTION = TEXT_AT, FUNCTION_BYTES = 64 };

struct counts {
	uint64_t quick, frames, all;
};

/* The rule of one address both ways. */
static void compare(const struct uw_image *image, const struct cfi_fde *fde, uint64_t vaddr,
		    uint32_t offset, struct counts *counts)
{
	rule_t quick = 0, rule = 0;
	struct cfi_row row;
	enum cfi_result result = cfi_row_at(fde, vaddr, &row);

	(void)image;
	if (result == CFI_OK)
		rule = cfi_rule(&row, vaddr, offset, false);
	counts->all++;
	counts->frames += rule_is_frame(rule);
	if (!cfi_quick_rule(fde, vaddr, NULL, &quick))
		return;
	counts->quick++;
	assert_int_equal(result, CFI_OK);
	assert_int_equal(quick, rule);
}

static void test_made_by_hand(void **state)
{
	static const uint8_t program[] = {
		ADVANCE | 1, DEF_CFA_OFFSET,   16,	    OFFSET | RBP,  2,
		ADVANCE | 3, DEF_CFA_REGISTER, RBP,	    OFFSET | RBX,  3,
		ADVANCE | 4, REMEMBER,	       DEF_CFA,	    RSP,	   8,
		ADVANCE | 1, RECALL,	       ADVANCE | 1, RESTORE | RBP,
	};
	static const struct {
		uint64_t at;
		enum rule_kind kind;
		int64_t cfa;
		uint64_t saved;
	} rows[] = {
		{0, RULE_SP, 8, 0},   {1, RULE_SP, 16, 16}, {3, RULE_SP, 16, 16},
		{4, RULE_FP, 16, 16}, {7, RULE_FP, 16, 16}, {8, RULE_SP, 8, 0},
		{9, RULE_FP, 16, 16}, {10, RULE_FP, 16, 0}, {63, RULE_FP, 16, 0},
	};
	struct bytes eh = {.n = 0};
	size_t cie = put_cie(&eh, "zR");
	uint32_t at =
		(uint32_t)put_fde(&eh, cie, FUNCTION, FUNCTION_BYTES, program, sizeof(program));
	struct uw_image *image = image_of(NULL, &eh, NULL);
	struct cfi_fde fde;
	rule_t rule;

	(void)state;
	assert_int_equal(cfi_fde_read(image, false, at, NULL, 0, &fde), CFI_OK);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_true(cfi_quick_rule(&fde, FUNCTION + rows[i].at, NULL, &rule));
		assert_int_equal(rule_kind(rule), rows[i].kind);
		assert_int_equal(rule_cfa(rule), rows[i].cfa);
		assert_int_equal(rule_saved(rule), rows[i].saved);
	}
	assert_false(cfi_quick_rule(&fde, FUNCTION - 1, NULL, &rule));
	assert_false(cfi_quick_rule(&fde, FUNCTION + FUNCTION_BYTES + 1, NULL, &rule));
	uw_image_free(image);
}

/* Has a program a row that releases stack behind an address, or a whole epilogue before it? */
static void test_gives_back(void **state)
{
	static const struct {
		uint8_t program[14];
		bool ends;
	} cases[] = {
		{{0}, true}, /* only the return address is there */
		{{DEF_CFA_OFFSET, 24}, false},
		{{DEF_CFA_OFFSET, 24, ADVANCE | 4, DEF_CFA_OFFSET, 32}, false},
		{{DEF_CFA_OFFSET, 24, ADVANCE | 4, DEF_CFA_OFFSET, 16}, true},
		{{DEF_CFA_OFFSET, 24, ADVANCE | 4, REMEMBER}, true},
		{{DEF_CFA_OFFSET, 24, ADVANCE | 4, RESTORE | RBP}, true},
		{{DEF_CFA_OFFSET, 24, ADVANCE | 4, OFFSET | RBX, 3}, false},
		{{DEF_CFA_OFFSET, 24, 0x02, 4, 0x03, 4, 0, DEF_CFA_OFFSET, 8}, true},
		{{DEF_CFA_OFFSET, 16, ADVANCE | 4, 0x0d, RBP}, false},
		{{DEF_CFA_OFFSET, 16, 0x0d, RBP, ADVANCE | 4, DEF_CFA, RSP, 8}, true},
		{{DEF_CFA_OFFSET, 16, 0x0d, RBP, ADVANCE | 4, DEF_CFA_OFFSET, 8}, false},
		{{DEF_CFA_OFFSET, 24, ADVANCE | 4, 0x3f}, true}, /* unknown */
		{{DEF_CFA_OFFSET, 24, REMEMBER, DEF_CFA_OFFSET, 8, ADVANCE | 1, RECALL}, true},
		{{DEF_CFA_OFFSET, 24, DEF_CFA_OFFSET, 8, ADVANCE | 1, DEF_CFA_OFFSET, 24}, true},
		{{DEF_CFA_OFFSET, 24, REMEMBER, DEF_CFA_OFFSET, 16, ADVANCE | 1, RECALL}, false},
		{{DEF_CFA_OFFSET, 16, OFFSET | RBP, 2, 0x0d, RBP, REMEMBER, DEF_CFA, RSP, 8,
		  ADVANCE | 1, RECALL},
		 true},
		{{DEF_CFA_OFFSET, 16, 0x0d, RBP, REMEMBER, DEF_CFA_OFFSET, 8, ADVANCE | 1, RECALL},
		 false}, /* of rbp */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct bytes eh = {.n = 0};
		size_t cie = put_cie(&eh, "zR");
		uint32_t at = (uint32_t)put_fde(&eh, cie, FUNCTION, FUNCTION_BYTES,
						cases[i].program, sizeof(cases[i].program));
		struct uw_image *image = image_of(NULL, &eh, NULL);
		bool ends = !cases[i].ends;
		struct cfi_fde fde;
		rule_t rule;

		assert_int_equal(cfi_fde_read(image, false, at, NULL, 0, &fde), CFI_OK);
		assert_true(cfi_quick_rule(&fde, FUNCTION + 1, &ends, &rule));
		assert_int_equal(ends, cases[i].ends);
		uw_image_free(image);
	}
}

/* What only the whole way knows. */
static void test_left_alone(void **state)
{
	static const uint8_t programs[][6] = {
		{DEF_CFA, R10, 8},		       /* another register */
		{OFFSET | RSP, 2},		       /* rsp out of memory */
		{OFFSET | RBP, 0},		       /* rbp at the CFA: not to be packed */
		{OFFSET | RIP, 2},		       /* the return address elsewhere */
		{UNDEFINED, RIP},		       /* a root */
		{DEF_CFA_OFFSET, 12},		       /* no word */
		{IN_REGISTER, RIP, RDI},	       /* in a register */
		{EXPRESSION, RBP, 1, 0x30},	       /* by an expression */
		{DEF_CFA_OFFSET, 0x80, 0x80, 0x80, 1}, /* four bytes */
		{RECALL},			       /* nothing was remembered */
		{DEF_CFA_OFFSET},		       /* cut off */
		{0x3f},				       /* no operation */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(programs); i++) {
		struct bytes eh = {.n = 0};
		size_t len = sizeof(programs[i]), cie = put_cie(&eh, "zR");
		struct uw_image *image;
		struct cfi_fde fde;
		uint32_t at;
		rule_t rule;

		while (len > 1 && !programs[i][len - 1])
			len--;
		len += i == 2; /* its 0 is an operand */
		at = (uint32_t)put_fde(&eh, cie, FUNCTION, FUNCTION_BYTES, programs[i], len);
		image = image_of(NULL, &eh, NULL);
		assert_int_equal(cfi_fde_read(image, false, at, NULL, 0, &fde), CFI_OK);
		/* Behind the last operation of an FDE comes padding, which is nothing. */
		if (i == ARRAY_SIZE(programs) - 2)
			fde.program_end = fde.program + 1;
		assert_false(cfi_quick_rule(&fde, FUNCTION + 1, NULL, &rule));
		uw_image_free(image);
	}
}

static uint64_t random_next(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return *seed >> 33;
}

static size_t random_program(uint64_t *seed, uint8_t *program, size_t room)
{
	static const uint8_t ops[] = {
		ADVANCE | 1,   ADVANCE | 5,   0x02,	      0x03,
		OFFSET | RBP,  OFFSET | RBX,  OFFSET | RIP,   OFFSET | R12,
		RESTORE | RBP, RESTORE | RBX, RESTORE | RIP,  REMEMBER,
		RECALL,	       DEF_CFA,	      DEF_CFA_OFFSET, DEF_CFA_REGISTER,
		0x00,	       0x2e,	      DEF_CFA_OFFSET, ADVANCE | 2,
		SAME,	       UNDEFINED,     0x05,	      0x12,
	};
	static const uint8_t operands[] = {RSP, RBP, 8, 16, 2, 3, 24, 0, 0x80, RSP, RBP, 16};
	size_t n = 0;

	while (n + 3 < room && random_next(seed) % 12) {
		uint8_t op = ops[random_next(seed) % ARRAY_SIZE(ops)];

		program[n++] = op;
		if ((op & 0xc0) == ADVANCE || (op & 0xc0) == RESTORE || op == REMEMBER ||
		    op == RECALL || !op)
			continue;
		for (int i = op == DEF_CFA || op == 0x03 || op == 0x05 || op == 0x12 ? 2 : 1; i;
		     i--)
			program[n++] = operands[random_next(seed) % ARRAY_SIZE(operands)];
	}
	return n;
}

static void test_random(void **state)
{
	struct counts counts = {0};
	uint64_t seed = 7;

	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		struct bytes *eh = calloc(1, sizeof(*eh));
		uint8_t program[48];
		struct uw_image *image;
		struct cfi_fde fde;
		size_t cie, n;
		uint32_t at;

		assert_non_null(eh);
		cie = put_cie(eh, "zR");
		n = random_program(&seed, program, sizeof(program));
		at = (uint32_t)put_fde(eh, cie, FUNCTION, FUNCTION_BYTES, program, n);
		image = image_of(NULL, eh, NULL);
		assert_int_equal(cfi_fde_read(image, false, at, NULL, 0, &fde), CFI_OK);
		if (i % 4 == 0) { /* a CIE of these operations, too */
			fde.cie.program = fde.program;
			fde.cie.program_end = fde.program_end;
			fde.cie.is_quick = cfi_quick_cie(&fde.cie, &fde.cie.quick);
		}
		for (uint64_t vaddr = FUNCTION; vaddr <= FUNCTION + FUNCTION_BYTES; vaddr++)
			compare(image, &fde, vaddr, at, &counts);
		uw_image_free(image);
		free(eh);
	}
	assert_true(counts.quick > counts.all / 10);
}

/* Every function of one library, at its first byte, behind its last, and in between. */
static int compare_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct uw_source source = {.fd = open(info->dlpi_name, O_RDONLY | O_CLOEXEC)};
	struct uw_module *module;
	const struct uw_image *image;
	struct counts *counts = arg;
	size_t next;

	(void)size;
	if (source.fd < 0)
		return 0;
	assert_int_equal(uw_module_new(UW_MODULE_FILE, info->dlpi_name, NULL, &module), 0);
	assert_int_equal(uw_module_load_unwind(module, &source), 0);
	image = uw_module_image(module);
	for (uint32_t at = 0; cfi_record(&image->eh_frame, at, &next) == CFI_OK;
	     at = (uint32_t)next) {
		struct cfi_fde fde;

		if (cfi_fde_read(image, false, at, NULL, 0, &fde) != CFI_OK)
			continue;
		for (uint64_t vaddr = fde.begin; vaddr <= fde.end;
		     vaddr += 1 + (fde.end - fde.begin) / 16)
			compare(image, &fde, vaddr, at, counts);
	}
	uw_module_unref(module);
	close(source.fd);
	return 0;
}

static void test_libraries(void **state)
{
	struct counts counts = {0};

	(void)state;
	(void)dl_iterate_phdr(compare_library, &counts);
	print_message("%llu of %llu frames\n", (unsigned long long)counts.quick,
		      (unsigned long long)counts.frames);
	assert_true(counts.frames > 1000);
	/* Frames of more than 16 KB, PLT entries by expressions: few. */
	assert_true(counts.quick > counts.frames / 100 * 98);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_made_by_hand), cmocka_unit_test(test_gives_back),
		cmocka_unit_test(test_left_alone),   cmocka_unit_test(test_random),
		cmocka_unit_test(test_libraries),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
