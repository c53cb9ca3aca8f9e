/* fuzz-hotspot.c - the memory of a Java VM with changes: the input is a list of changes.
 *
 *   [jdk u8] then changes: [when u8][offset u24][value u64]     when: 0 from the start, else at that read
 *
 * What is read must be a section that every engine can search, and names with an end. */
#include "tests/fuzz/changes.h"
#include "tests/unit/unwinder/hotspot-fixture.h"
#include "unwinder/cfi.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_rules(const struct hotspot_code *code)
{
	struct uw_image image = {.arch = UW_ARCH_X86_64,
				 .eh_frame_hdr = code->sections[0],
				 .eh_frame = code->sections[1]};

	cfi_table_init(&image);
	for (uint64_t at = FAKE_BASE; image.eh_frame.data && at < FAKE_BASE + FAKE_BYTES;
	     at += 16) {
		struct cfi_fde fde;
		struct cfi_row row;
		uint32_t offset;

		if (cfi_table_find(&image, at, &offset) == CFI_OK &&
		    cfi_fde_read(&image, false, offset, NULL, 1, &fde) == CFI_OK &&
		    at >= fde.begin && at < fde.end && cfi_row_at(&fde, at, &row) != CFI_OK)
			abort(); /* our own writing */
	}
	free(image.table.slices);
}

static void count_line(void *arg, const struct uw_line *line)
{
	*(size_t *)arg += strlen(line->function) + strlen(frame_kind_name(line->kind));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct fake_vm fake;
	struct changing c = {.process = &fake.memory,
			     .bytes = fake.bytes,
			     .room = FAKE_BYTES,
			     .reads = &fake.reads};
	struct hotspot_code code;
	struct hotspot *vm;
	size_t len = 0;

	if (!size)
		return 0;
	fake_vm_init(&fake, (int[]){11, 17, 21, 25}[data[0] % 4]);
	changing_begin(&c, 3, data + 1, size - 1);
	if (hotspot_new(&c.memory, FAKE_BASE, &vm) < 0)
		return 0;
	if (hotspot_code(vm, &c.memory, &code) == 0) {
		struct uw_symbol symbol;

		check_rules(&code);
		for (uint64_t at = FAKE_BASE; at < FAKE_BASE + FAKE_BYTES; at += 64)
			if (uw_symbols_find(code.symbols, at, &symbol))
				len += strlen(symbol.name);
		hotspot_code_deinit(&code);
	}
	(void)hotspot_lines(vm, &c.memory, fake.method, count_line, &len);
	(void)hotspot_lines(vm, &c.memory, fake.compiled + 16, count_line, &len);
	(void)hotspot_free(vm);
	return 0;
}
