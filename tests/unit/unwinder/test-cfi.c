/* test-cfi.c - hand-assembled call frame information and the rules it must give. */
#include "tests/unit/unwinder/cfi-fixture.h"

static rule_t rule_at(const struct uw_image *image, bool debug_frame, uint32_t offset,
		      uint64_t vaddr)
{
	struct cfi_fde fde;
	struct cfi_row row;

	if (cfi_fde_read(image, debug_frame, offset, NULL, 0, &fde) != CFI_OK ||
	    cfi_row_at(&fde, vaddr, &row) != CFI_OK)
		return rule_simple(RULE_BAD);
	return cfi_rule(&row, vaddr, offset, debug_frame);
}

/* One FDE for [0x1000, 0x1100) with @program; its rule at 0x1000 + @at. */
static rule_t rule_of(const char *augmentation, uint64_t at, const void *program, size_t len)
{
	struct bytes eh = {.n = 0};
	size_t fde = put_fde(&eh, put_cie(&eh, augmentation), TEXT_AT, 0x100, program, len);
	struct uw_image *image = image_of(NULL, &eh, NULL);
	rule_t rule = rule_at(image, false, (uint32_t)fde, TEXT_AT + at);

	uw_image_free(image);
	return rule;
}
#define RULE_OF(at, ...) \
	rule_of("zR", at, (uint8_t[]){__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__}))

#define assert_rule(rule, kind, cfa, saved)                \
	do {                                               \
		rule_t got_ = (rule);                      \
		assert_int_equal(rule_kind(got_), kind);   \
		assert_int_equal(rule_cfa(got_), cfa);     \
		assert_int_equal(rule_saved(got_), saved); \
	} while (0)

/* push %rbp; mov %rsp,%rbp; ...; leave; ret */
#define PROLOGUE                                                                              \
	ADVANCE | 1, DEF_CFA_OFFSET, 16, OFFSET | RBP, 2, ADVANCE | 3, DEF_CFA_REGISTER, RBP, \
		ADVANCE | 0x20, DEF_CFA, RSP, 8

static void test_frame_pointer(void **state)
{
	(void)state;
	assert_rule(RULE_OF(0, PROLOGUE), RULE_SP, 8, 0);
	assert_rule(RULE_OF(1, PROLOGUE), RULE_SP, 16, 16);
	assert_rule(RULE_OF(3, PROLOGUE), RULE_SP, 16, 16);
	assert_rule(RULE_OF(4, PROLOGUE), RULE_FP, 16, 16);
	assert_rule(RULE_OF(0x23, PROLOGUE), RULE_FP, 16, 16);
	/* Behind leave the CFI still has rbp at CFA - 16, which is below rsp by now: kept. */
	assert_rule(RULE_OF(0x24, PROLOGUE), RULE_SP, 8, 0);
	assert_rule(RULE_OF(0xff, PROLOGUE), RULE_SP, 8, 0);
	assert_rule(RULE_OF(0x100, PROLOGUE), RULE_SP, 8, 0); /* behind a system call at the end */
	assert_rule(RULE_OF(0x101, PROLOGUE), RULE_BAD, 0, 0);
}

static void test_state_stack(void **state)
{
	(void)state;
#define BODY                                                                                    \
	ADVANCE | 1, DEF_CFA_OFFSET, 64, REMEMBER, ADVANCE | 1, DEF_CFA_OFFSET, 8, ADVANCE | 1, \
		RECALL
	assert_rule(RULE_OF(1, BODY), RULE_SP, 64, 0);
	assert_rule(RULE_OF(2, BODY), RULE_SP, 8, 0);
	assert_rule(RULE_OF(3, BODY), RULE_SP, 64, 0);
	assert_rule(RULE_OF(0, RECALL), RULE_BAD, 0, 0);
	assert_rule(RULE_OF(0, REMEMBER, REMEMBER, REMEMBER, REMEMBER, REMEMBER, REMEMBER, REMEMBER,
			    REMEMBER, REMEMBER, REMEMBER, REMEMBER, REMEMBER, REMEMBER, REMEMBER,
			    REMEMBER, REMEMBER),
		    RULE_SP, 8, 0);
	assert_rule(RULE_OF(0, REMEMBER, REMEMBER, REMEMBER, REMEMBER, REMEMBER, REMEMBER, REMEMBER,
			    REMEMBER, REMEMBER, REMEMBER, REMEMBER, REMEMBER, REMEMBER, REMEMBER,
			    REMEMBER, REMEMBER, REMEMBER),
		    RULE_BAD, 0, 0);
}

static void test_operations(void **state)
{
	(void)state;
	/* 90,304 = 0x160c0: uleb c0 c1 05 */
	assert_rule(RULE_OF(0, DEF_CFA_OFFSET, 0xc0, 0xc1, 0x05), RULE_SP, 90304, 0);
	assert_rule(RULE_OF(2, 0x02, 2, DEF_CFA_OFFSET, 16), RULE_SP, 16, 0); /* advance_loc1 */
	assert_rule(RULE_OF(1, 0x02, 2, DEF_CFA_OFFSET, 16), RULE_SP, 8, 0);
	assert_rule(RULE_OF(2, 0x03, 2, 0, DEF_CFA_OFFSET, 16), RULE_SP, 16, 0); /* advance_loc2 */
	assert_rule(RULE_OF(2, 0x04, 2, 0, 0, 0, DEF_CFA_OFFSET, 16), RULE_SP, 16,
		    0); /* advance_loc4 */
	assert_rule(RULE_OF(2, 0x04, 0xff, 0xff, 0xff, 0xff, DEF_CFA_OFFSET, 16), RULE_SP, 8, 0);
	assert_rule(RULE_OF(0, 0x12, RSP, 0x7e), RULE_SP, 16, 0); /* def_cfa_sf: -2 * -8 */
	assert_rule(RULE_OF(0, 0x13, 0x7d), RULE_SP, 24, 0);	  /* def_cfa_offset_sf */
	assert_rule(RULE_OF(0, DEF_CFA_OFFSET, 32, 0x05, RBP, 3), RULE_SP, 32,
		    24); /* offset_extended */
	assert_rule(RULE_OF(0, DEF_CFA_OFFSET, 32, 0x11, RBP, 3), RULE_SP, 32,
		    24); /* offset_extended_sf */
	assert_rule(RULE_OF(0, DEF_CFA_OFFSET, 32, OFFSET | RBP, 3, RESTORE | RBP), RULE_SP, 32, 0);
	assert_rule(RULE_OF(0, DEF_CFA_OFFSET, 32, OFFSET | RBP, 3, 0x06, RBP), RULE_SP, 32, 0);
	assert_rule(RULE_OF(0, DEF_CFA_OFFSET, 32, OFFSET | RBP, 3, SAME, RBP), RULE_SP, 32, 0);
	assert_rule(RULE_OF(0, 0x2e, 16), RULE_SP, 8, 0);    /* GNU_args_size */
	assert_rule(RULE_OF(0, 0x05, 60, 3), RULE_SP, 8, 0); /* a vector register */
	assert_int_equal(rule_kind(RULE_OF(0, UNDEFINED, RIP)), RULE_ROOT);
}

static void test_slow(void **state)
{
	static const uint8_t deref[] = {DEF_CFA_EXPRESSION, 3, 0x76, 0x78, 0x06};

	(void)state;
	assert_int_equal(rule_kind(RULE_OF(0, DEF_CFA, R10, 0)), RULE_SLOW);
	assert_int_equal(rule_kind(RULE_OF(0, DEF_CFA_OFFSET, 12)),
			 RULE_SLOW); /* not a multiple of 8 */
	assert_int_equal(rule_kind(RULE_OF(0, OFFSET | RIP, 2)), RULE_SLOW); /* ra elsewhere */
	assert_int_equal(rule_kind(RULE_OF(0, OFFSET | RSP, 2)), RULE_SLOW); /* rsp saved */
	assert_int_equal(rule_kind(RULE_OF(0, 0x09, RBP, RBX)), RULE_SLOW);  /* rbp in rbx */
	assert_int_equal(rule_kind(RULE_OF(0, UNDEFINED, RBP)), RULE_SLOW);
	assert_int_equal(rule_kind(RULE_OF(0, EXPRESSION, RBP, 2, 0x76, 0)),
			 RULE_SLOW); /* rbp at [rbp] */
	assert_int_equal(rule_kind(rule_of("zR", 0, deref, sizeof(deref))), RULE_SLOW);
	assert_int_equal(rule_kind(rule_of("zRS", 0, "", 0)), RULE_SLOW);
	/* 8 MB: over what a packed rule holds.  uleb 80 80 80 04 */
	assert_int_equal(rule_kind(RULE_OF(0, DEF_CFA_OFFSET, 0x80, 0x80, 0x80, 0x04)), RULE_SLOW);
}

static void test_plt(void **state)
{
	static const uint8_t plt[] = {
		DEF_CFA_EXPRESSION, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22};
	uint8_t other[sizeof(plt)];

	(void)state;
	assert_rule(rule_of("zR", 0, plt, sizeof(plt)), RULE_SP, 8, 0);
	assert_rule(rule_of("zR", 10, plt, sizeof(plt)), RULE_SP, 8, 0);
	assert_rule(rule_of("zR", 11, plt, sizeof(plt)), RULE_SP, 16, 0);
	assert_rule(rule_of("zR", 15, plt, sizeof(plt)), RULE_SP, 16, 0);
	assert_rule(rule_of("zR", 16, plt, sizeof(plt)), RULE_SP, 8, 0);
	memcpy(other, plt, sizeof(plt));
	other[12] = 0x1c; /* minus in place of plus */
	assert_int_equal(rule_kind(rule_of("zR", 0, other, sizeof(other))), RULE_SLOW);
}

static void test_damaged_programs(void **state)
{
	(void)state;
	assert_rule(RULE_OF(0, 0x3f), RULE_BAD, 0, 0); /* unknown operation */
	assert_rule(RULE_OF(0, DEF_CFA_EXPRESSION, 0x7f, 0x77), RULE_BAD, 0,
		    0); /* longer than the program */
	assert_rule(RULE_OF(0, DEF_CFA_EXPRESSION, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
			    0xff, 1),
		    RULE_BAD, 0, 0);
	assert_rule(RULE_OF(0, DEF_CFA_OFFSET, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
			    0x80, 0x80, 0),
		    RULE_BAD, 0, 0);
	assert_rule(RULE_OF(0, DEF_CFA_EXPRESSION, 2, 0x77, 8, DEF_CFA_OFFSET, 8), RULE_BAD, 0,
		    0); /* no offset to set */
	assert_int_equal(rule_kind(RULE_OF(0, DEF_CFA, 0xff, 0xff, 0xff, 0xff, 0x0f, 8)),
			 RULE_SLOW); /* not a register */
}

static void test_table(void **state)
{
	struct bytes eh = {.n = 0}, hdr = {.n = 0};
	size_t cie = put_cie(&eh, "zR");
	uint64_t pairs[5][2];
	struct uw_image *image;
	uint32_t offset;

	(void)state;
	for (size_t i = 0; i < 5; i++) {
		pairs[i][0] = TEXT_AT + i * 0x100;
		pairs[i][1] =
			PUT_FDE(&eh, cie, pairs[i][0], 0x80, DEF_CFA_OFFSET, (uint8_t)(16 + 8 * i));
	}
	for (size_t n = 1; n <= 5; n++) {
		hdr.n = 0;
		put_hdr(&hdr, n, (const uint64_t(*)[2])pairs);
		image = image_of(&hdr, &eh, NULL);
		assert_true(cfi_has_table(image));
		assert_int_equal(cfi_table_find(image, TEXT_AT - 1, &offset), CFI_NONE);
		for (size_t i = 0; i < n; i++) {
			assert_int_equal(cfi_table_find(image, TEXT_AT + i * 0x100, &offset),
					 CFI_OK);
			assert_int_equal(offset, pairs[i][1]);
			assert_int_equal(cfi_table_find(image, TEXT_AT + i * 0x100 + 0x7f, &offset),
					 CFI_OK);
			assert_int_equal(offset, pairs[i][1]);
			assert_rule(rule_at(image, false, offset, TEXT_AT + i * 0x100 + 0x7f),
				    RULE_SP, 16 + 8 * (int)i, 0);
		}
		uw_image_free(image);
	}
}

/* A table of @n functions at @at, ascending, searched from before the first to behind the last; the
 * oracle is a walk along it. */
static void search_everywhere(const uint32_t *at, size_t n, bool sliced)
{
	uint8_t *entries = malloc(12 + n * 8), *frames = calloc(1, n);
	const uint32_t count = (uint32_t)n;
	struct uw_image image = {
		.eh_frame_hdr = {.data = entries, .size = 12 + n * 8, .vaddr = HDR_AT},
		.eh_frame = {.data = frames, .size = n, .vaddr = EH_FRAME_AT},
	};
	uint32_t offset;
	size_t is = 0;

	assert_non_null(entries);
	assert_non_null(frames);
	memcpy(entries, "\1\x1b\3\x3b\0\0\0\0", 8);
	memcpy(entries + 8, &count, 4);
	for (uint32_t i = 0; i < n; i++) {
		const uint32_t pair[] = {at[i] - HDR_AT, EH_FRAME_AT + i - HDR_AT};

		memcpy(entries + 12 + i * 8, pair, 8);
	}
	cfi_table_init(&image);
	assert_int_equal(image.table.n_slices != 0, sliced);
	assert_int_equal(cfi_table_find(&image, at[0] - 1, &offset), CFI_NONE);
	for (uint64_t vaddr = at[0]; vaddr < at[n - 1] + 50ull;
	     vaddr += is + 1 < n && at[is + 1] > vaddr + 100 ? 50 : 1) {
		while (is + 1 < n && at[is + 1] <= vaddr)
			is++;
		assert_int_equal(cfi_table_find(&image, vaddr, &offset), CFI_OK);
		assert_int_equal(offset, is);
	}
	assert_int_equal(cfi_table_find(&image, at[n - 1] + (1ull << 34), &offset), CFI_OK);
	assert_int_equal(offset, n - 1);
	free(image.table.slices);
	free(entries);
	free(frames);
}

static void test_large_table(void **state)
{
	enum { MOST = 1200 };
	static const size_t sizes[] = {1, 3, 4, 5, 7, 8, 9, 63, 64, 65, 200, MOST};
	uint32_t at[MOST] = {0};

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(sizes); k++) {
		const size_t n = sizes[k];

		for (uint32_t i = 0; i < n; i++)
			at[i] = TEXT_AT + i * 16;
		search_everywhere(at, n, n >= 4);
		for (uint32_t i = 0; i < n; i++) /* near together, then ever farther apart */
			at[i] = TEXT_AT + i + i * i / 7;
		search_everywhere(at, n, n >= 4);
		for (uint32_t i = 0; i < n; i++) /* all but the last in one slice */
			at[i] = TEXT_AT + i + (i + 1 == n ? 100000u : 0);
		search_everywhere(at, n, n >= 4);
		for (uint32_t i = 0; i < n; i++) /* several at one address */
			at[i] = TEXT_AT + i / 3 * 40;
		search_everywhere(at, n, n >= 4);
	}
}

/* One that is not sorted: some entry, and nothing outside. */
static void test_unsorted_table(void **state)
{
	struct bytes eh = {.n = 0}, hdr = {.n = 0};
	size_t fde = PUT_FDE(&eh, put_cie(&eh, "zR"), TEXT_AT, 0x80, DEF_CFA_OFFSET, 16);
	uint64_t pairs[16][2], seed = 5;
	struct uw_image *image;
	uint32_t offset;

	(void)state;
	for (size_t round = 0; round < 200; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			pairs[i][0] = TEXT_AT + (seed >> 33) % (round < 100 ? 0x1000 : UINT32_MAX);
			pairs[i][1] = fde;
		}
		hdr.n = 0;
		put_hdr(&hdr, ARRAY_SIZE(pairs), (const uint64_t(*)[2])pairs);
		image = image_of(&hdr, &eh, NULL);
		for (uint64_t vaddr = TEXT_AT; vaddr < TEXT_AT + 0x1100; vaddr += 8)
			if (cfi_table_find(image, vaddr, &offset) == CFI_OK)
				assert_int_equal(offset, fde);
		uw_image_free(image);
	}
}

static void test_damaged_table(void **state)
{
	struct bytes eh = {.n = 0}, hdr = {.n = 0};
	size_t cie = put_cie(&eh, "zR"), fde = PUT_FDE(&eh, cie, TEXT_AT, 0x80, DEF_CFA_OFFSET, 16);
	struct uw_image *image;
	uint32_t offset;

	(void)state;
	put_hdr(&hdr, 1, (const uint64_t[][2]){{TEXT_AT, fde}});
	for (size_t len = 0; len < 20; len++) { /* a table without a whole pair is none */
		struct bytes cut = hdr;

		cut.n = len;
		image = image_of(&cut, &eh, NULL);
		assert_false(cfi_has_table(image));
		assert_int_equal(cfi_table_find(image, TEXT_AT, &offset), CFI_NONE);
		uw_image_free(image);
	}
	for (size_t i = 0; i < 4; i++) { /* version and encodings */
		struct bytes other = hdr;

		other.b[i] = i == 1 ? 0x0f : 0x07;
		image = image_of(&other, &eh, NULL);
		assert_false(cfi_has_table(image));
		uw_image_free(image);
	}
	hdr.n = 0; /* more entries announced than there are, and one that points outside */
	put_hdr(&hdr, 2, (const uint64_t[][2]){{TEXT_AT, fde}, {TEXT_AT + 0x100, 1 << 20}});
	memset(hdr.b + 8, 0xff, 4);
	image = image_of(&hdr, &eh, NULL);
	assert_int_equal(cfi_table_find(image, TEXT_AT, &offset), CFI_OK);
	assert_int_equal(cfi_table_find(image, TEXT_AT + 0x100, &offset), CFI_BAD);
	uw_image_free(image);
}

static uint64_t end_by(struct cfi_cies *cies, uint32_t serial, const struct uw_image *image,
		       size_t offset, struct cfi_fde *ret_fde)
{
	assert_int_equal(cfi_fde_read(image, false, (uint32_t)offset, cies, serial, ret_fde),
			 CFI_OK);
	return ret_fde->end;
}

/* CIEs are kept by module and place: two modules have different ones at one offset. */
static void test_known_cies(void **state)
{
	struct bytes eh[2] = {{.n = 0}, {.n = 0}};
	struct cfi_cies cies = {0};
	struct uw_image *images[2];
	size_t at[2];
	struct cfi_fde fde;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		at[i] = PUT_FDE(&eh[i], put_cie(&eh[i], i ? "zRS" : "zR"), TEXT_AT, 0x80 + i, 0);
		images[i] = image_of(NULL, &eh[i], NULL);
	}
	for (unsigned round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < 2; i++) {
			assert_int_equal(end_by(&cies, 7 + i, images[i], at[i], &fde),
					 TEXT_AT + 0x80 + i);
			assert_int_equal(fde.cie.signal, i);
			assert_int_equal(fde.cie.is_quick, !i);
			assert_int_equal(end_by(NULL, 7 + i, images[i], at[i], &fde),
					 TEXT_AT + 0x80 + i);
			assert_int_equal(fde.cie.signal, i);
		}
	}
	/* It is taken from there, not read again. */
	images[0]->eh_frame.data[8] = 9;
	(void)end_by(&cies, 7, images[0], at[0], &fde);
	assert_int_equal(cfi_fde_read(images[0], false, (uint32_t)at[0], NULL, 7, &fde), CFI_BAD);
	memset(&cies, 0, sizeof(cies));
	assert_int_equal(cfi_fde_read(images[0], false, (uint32_t)at[0], &cies, 7, &fde), CFI_BAD);
	assert_int_equal(cfi_fde_read(images[0], false, (uint32_t)at[0], &cies, 7, &fde), CFI_BAD);
	uw_image_free(images[0]);
	uw_image_free(images[1]);
}

/* The usual form of an FDE, and the same written otherwise: a length of the augmentation in two bytes,
 * a length of the record in eight. */
static void test_usual(void **state)
{
	static const uint8_t program[] = {PROLOGUE};
	struct bytes eh = {.n = 0};
	size_t cie = put_cie(&eh, "zR"), at[3], begin;
	struct cfi_fde fdes[3];
	struct uw_image *image;

	(void)state;
	at[0] = put_fde(&eh, cie, TEXT_AT, 0x80, program, sizeof(program));
	at[1] = begin = record_begin(&eh);
	put32(&eh, (uint32_t)(eh.n - cie));
	put32(&eh, TEXT_AT - (EH_FRAME_AT + eh.n));
	put32(&eh, 0x80);
	put(&eh, (uint8_t[]){0x80, 0}, 2);
	put(&eh, program, sizeof(program));
	record_end(&eh, begin);
	at[2] = eh.n;
	put32(&eh, UINT32_MAX);
	put64(&eh, 13 + sizeof(program));
	put32(&eh, (uint32_t)(eh.n - cie));
	put32(&eh, TEXT_AT - (EH_FRAME_AT + eh.n));
	put32(&eh, 0x80);
	put(&eh, (uint8_t[]){0}, 1);
	put(&eh, program, sizeof(program));
	image = image_of(NULL, &eh, NULL);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(cfi_fde_read(image, false, (uint32_t)at[i], NULL, 0, &fdes[i]),
				 CFI_OK);
		assert_int_equal(fdes[i].begin, TEXT_AT);
		assert_int_equal(fdes[i].end, TEXT_AT + 0x80);
		assert_true(fdes[i].program_end - fdes[i].program >= (ptrdiff_t)sizeof(program));
		assert_memory_equal(fdes[i].program, program, sizeof(program));
	}
	uw_image_free(image);
}

/* version 4, addresses of 8 bytes, FDEs name their CIE by offset, addresses are absolute */
static size_t put_debug(struct bytes *to)
{
	size_t cie = record_begin(to), fde;

	put32(to, UINT32_MAX);
	put(to, (uint8_t[]){4, 0, 8, 0, 1, 0x78, RIP, DEF_CFA, RSP, 8, OFFSET | RIP, 1}, 12);
	record_end(to, cie);
	fde = record_begin(to);
	put32(to, cie);
	put64(to, TEXT_AT + 0x500);
	put64(to, 0x40);
	put(to, (uint8_t[]){DEF_CFA_OFFSET, 48}, 2);
	record_end(to, fde);
	return fde;
}

static void test_index(void **state)
{
	struct bytes eh = {.n = 0}, debug = {.n = 0};
	size_t cie = put_cie(&eh, "zR"),
	       high = PUT_FDE(&eh, cie, TEXT_AT + 0x200, 0x10, DEF_CFA_OFFSET, 24);
	size_t low = PUT_FDE(&eh, cie, TEXT_AT, 0x80, DEF_CFA_OFFSET, 16),
	       first = put_debug(&debug), fde = put_debug(&debug);
	struct uw_image *image;
	struct cfi_index index;
	uint32_t offset;

	(void)state;
	PUT_FDE(&eh, cie, TEXT_AT + 0x300, 0, 0); /* empty: not in */
	put32(&eh, 0);
	PUT_FDE(&eh, cie, TEXT_AT + 0x400, 0x10, 0); /* behind the end mark: not seen */
	image = image_of(NULL, &eh, &debug);
	assert_int_equal(cfi_index_init(&index, image, false), 0);
	assert_int_equal(index.n_entries, 2);
	assert_int_equal(cfi_index_find(&index, TEXT_AT + 0x7f, &offset), CFI_OK);
	assert_int_equal(offset, low);
	assert_int_equal(cfi_index_find(&index, TEXT_AT + 0x200, &offset), CFI_OK);
	assert_int_equal(offset, high);
	assert_int_equal(cfi_index_find(&index, TEXT_AT - 1, &offset), CFI_NONE);
	assert_int_equal(cfi_index_find(&index, TEXT_AT + 0x80, &offset), CFI_NONE);
	assert_int_equal(cfi_index_find(&index, TEXT_AT + 0x210, &offset), CFI_NONE);
	cfi_index_deinit(&index);
	assert_int_equal(cfi_index_init(&index, image, true), 0);
	assert_int_equal(index.n_entries, 2);
	assert_int_equal(cfi_index_find(&index, TEXT_AT + 0x53f, &offset), CFI_OK);
	assert_true(first < fde);
	assert_int_equal(offset, fde); /* the later one of two with one begin */
	assert_rule(rule_at(image, true, offset, TEXT_AT + 0x53f), RULE_SP, 48, 0);
	cfi_index_deinit(&index);
	uw_image_free(image);
}

/* Every length and every single byte turned over: no crash, no read outside (sanitizers), an end.
 */
static void test_damage(void **state)
{
	struct bytes eh = {.n = 0};
	size_t fde = PUT_FDE(&eh, put_cie(&eh, "zRS"), TEXT_AT, 0x80, PROLOGUE);
	struct uw_image *image;

	(void)state;
	for (size_t len = 0; len < eh.n; len++) {
		struct bytes cut = eh;

		cut.n = len;
		image = image_of(NULL, &cut, NULL);
		assert_int_equal(rule_kind(rule_at(image, false, (uint32_t)fde, TEXT_AT)),
				 RULE_BAD);
		uw_image_free(image);
	}
	for (size_t i = 0; i < eh.n * 8; i++) {
		struct bytes other = eh;
		struct cfi_index index;

		other.b[i / 8] ^= (uint8_t)(1 << i % 8);
		image = image_of(NULL, &other, NULL);
		(void)rule_at(image, false, (uint32_t)fde, TEXT_AT + 0x24);
		assert_int_equal(cfi_index_init(&index, image, false), 0);
		cfi_index_deinit(&index);
		uw_image_free(image);
	}
	image = image_of(NULL, &eh, NULL);
	assert_int_equal(rule_kind(rule_at(image, false, UINT32_MAX, TEXT_AT)), RULE_BAD);
	uw_image_free(image);
}

/* ---- expressions ---- */

static bool memory_read(struct cfi_memory *memory, uint64_t address, unsigned size,
			uint64_t *ret_value)
{
	memory->missed = address;
	*ret_value = 0;
	if (address != 0x7000)
		return false;
	memcpy(ret_value, (uint8_t[]){0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11}, size);
	return true;
}

static enum cfi_result evaluate(const uint8_t *e, size_t len, uint64_t *ret)
{
	struct cfi_regs regs = {.r = {[RBP] = 0x6ff8, [RSP] = 0x6000, [RIP] = 0x1234},
				.known = 1u << RBP | 1u << RSP | 1u << RIP};
	struct cfi_memory memory = {.read = memory_read};
	uint64_t first = 0x5000;

	return cfi_evaluate(e, (uint32_t)len, &regs, CFI_BIAS, &first, &memory, ret);
}
#define EVALUATE(ret, ...) evaluate((uint8_t[]){__VA_ARGS__}, sizeof((uint8_t[]){__VA_ARGS__}), ret)
#define assert_value(value, ...)                                      \
	do {                                                          \
		uint64_t v_;                                          \
		assert_int_equal(EVALUATE(&v_, __VA_ARGS__), CFI_OK); \
		assert_int_equal(v_, value);                          \
	} while (0)

static void test_expressions(void **state)
{
	(void)state;
	assert_value(0x5000, 0x96);				 /* the CFA that was pushed */
	assert_value(0x6008, 0x77, 8);				 /* breg7 8 */
	assert_value(0x6ff0, 0x92, RBP, 0x78);			 /* bregx */
	assert_value(0x1122334455667788, 0x76, 8, 0x06);	 /* breg6 8; deref */
	assert_value(0x7788, 0x76, 8, 0x94, 2);			 /* deref_size */
	assert_value(0x401000, 0x03, 0, 0x10, 0, 0, 0, 0, 0, 0); /* addr */
	assert_value(UINT64_MAX, 0x09, 0xff);			 /* const1s */
	assert_value(0xff, 0x08, 0xff);
	assert_value(0x8000, 0x0a, 0, 0x80);
	assert_value((uint64_t)-0x8000, 0x0b, 0, 0x80);
	assert_value(300, 0x10, 0xac, 0x02);
	assert_value((uint64_t)-2, 0x11, 0x7e);
	assert_value(1, 0x33, 0x32, 0x1c);		       /* 3 - 2 */
	assert_value((uint64_t)-2, 0x11, 0x7a, 0x33, 0x1b);    /* -6 / 3 is signed */
	assert_value(1, 0x37, 0x33, 0x1d);		       /* 7 mod 3 */
	assert_value(1, 0x11, 0x7f, 0x30, 0x2d);	       /* -1 < 0 */
	assert_value(12, 0x33, 0x32, 0x24);		       /* 3 << 2 */
	assert_value(0, 0x31, 0x08, 64, 0x24);		       /* 1 << 64 */
	assert_value(UINT64_MAX, 0x11, 0x7f, 0x08, 200, 0x26); /* -1 >> 200, signed */
	assert_value(2, 0x31, 0x32, 0x33, 0x17);	       /* rot: 3 1 2 */
	assert_value(1, 0x31, 0x32, 0x14);		       /* over */
	assert_value(0x5000, 0x31, 0x32, 0x15, 2);	       /* pick 2 */
	assert_value(5, 0x35, 0x2f, 1, 0, 0x39);	       /* skip over lit9 */
	assert_value(9, 0x35, 0x30, 0x28, 1, 0, 0x39);	       /* bra not taken */
	/* INT64_MIN / -1 and |INT64_MIN| must not trap */
	assert_value(1ull << 63, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x09, 0xff, 0x1b);
	assert_value(1ull << 63, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0x80, 0x19);
}

static void test_bad_expressions(void **state)
{
	uint8_t many[65];
	uint64_t v = 7;

	(void)state;
	assert_int_equal(EVALUATE(&v, 0x73, 0), CFI_NEED_REG); /* rbx */
	assert_int_equal(EVALUATE(&v, 0x77, 0, 0x06), CFI_MEMORY);
	assert_int_equal(EVALUATE(&v, 0x90, 17), CFI_BAD);    /* regx has no value here */
	assert_int_equal(EVALUATE(&v, 0x92, 33, 0), CFI_BAD); /* of no machine */
	assert_int_equal(EVALUATE(&v, 0x13, 0x13), CFI_BAD);  /* drop, drop */
	assert_int_equal(EVALUATE(&v, 0x13), CFI_BAD);	      /* nothing left */
	assert_int_equal(EVALUATE(&v, 0x15, 1), CFI_BAD);
	assert_int_equal(EVALUATE(&v, 0x30, 0x1b), CFI_BAD); /* by zero */
	assert_int_equal(EVALUATE(&v, 0x30, 0x1d), CFI_BAD);
	assert_int_equal(EVALUATE(&v, 0x94, 9), CFI_BAD);
	assert_int_equal(EVALUATE(&v, 0x0e, 1), CFI_BAD); /* cut short */
	assert_int_equal(EVALUATE(&v, 0x2f, 0xfd, 0xff),
			 CFI_BAD); /* skip to itself, an endless loop */
	assert_int_equal(EVALUATE(&v, 0x2f, 0xfc, 0xff), CFI_BAD); /* before the beginning */
	assert_int_equal(EVALUATE(&v, 0x2f, 1, 0), CFI_BAD);	   /* behind the end */
	memset(many, 0x12, sizeof(many));
	assert_int_equal(evaluate(many, 63, &v), CFI_OK);
	assert_int_equal(evaluate(many, 64, &v), CFI_BAD);
	v = 7;
	assert_int_equal(EVALUATE(&v, 0xe0), CFI_BAD);
	assert_int_equal(v, 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_frame_pointer),
		cmocka_unit_test(test_state_stack),
		cmocka_unit_test(test_operations),
		cmocka_unit_test(test_slow),
		cmocka_unit_test(test_plt),
		cmocka_unit_test(test_damaged_programs),
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_large_table),
		cmocka_unit_test(test_unsorted_table),
		cmocka_unit_test(test_known_cies),
		cmocka_unit_test(test_usual),
		cmocka_unit_test(test_damaged_table),
		cmocka_unit_test(test_index),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_expressions),
		cmocka_unit_test(test_bad_expressions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
