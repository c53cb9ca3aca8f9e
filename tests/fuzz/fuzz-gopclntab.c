/* fuzz-gopclntab.c - any bytes as the .gopclntab of a Go program. */
#include <string.h>

#include "symbols/gopclntab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char names[] = "\0.gopclntab\0.shstrtab";

/* An image with the bytes as its only section; its size. */
static size_t make_image(uint8_t *image, const uint8_t *data, size_t size)
{
	const Elf64_Shdr sections[] = {
		{.sh_type = SHT_NULL},
		{.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_addr = 0x500000, .sh_offset = 512},
		{.sh_name = 12, .sh_type = SHT_STRTAB, .sh_offset = 384, .sh_size = sizeof(names)},
	};
	const Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1},
				 .e_type = ET_EXEC,
				 .e_machine = EM_X86_64,
				 .e_version = 1,
				 .e_shoff = 64,
				 .e_ehsize = sizeof(head),
				 .e_shentsize = sizeof(Elf64_Shdr),
				 .e_shnum = ARRAY_SIZE(sections),
				 .e_shstrndx = 2};

	memcpy(image, &head, sizeof(head));
	memcpy(image + 64, sections, sizeof(sections));
	((Elf64_Shdr *)(void *)(image + 64))[1].sh_size = size;
	memcpy(image + 384, names, sizeof(names));
	memcpy(image + 512, data, size);
	return 512 + size;
}

static void count_line(void *arg, const struct uw_line *line)
{
	*(size_t *)arg += strlen(line->function) + (line->file ? strlen(line->file) : 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct uw_symbols_builder b = {.layout = NULL};
	struct uw_elf elf = {.fd = -1};
	struct uw_section frame = {0};
	struct uw_symbols *symbols;
	struct uw_golines *lines;
	size_t len = 0;
	struct uw_symbol s;
	uint8_t *image;

	if (size > 1 << 20)
		return 0;
	image = malloc(512 + size);
	if (!image || uw_elf_open_bytes(&elf, image, make_image(image, data, size)) < 0)
		abort();
	if (uw_gopclntab_frames(&elf, &frame) < 0 || frame.size > 65 << 20)
		abort();
	uw_section_deinit(&frame);
	if (uw_gopclntab_add(&b, &elf) < 0 || uw_symbols_build(&b, &symbols) < 0)
		abort();
	for (uint64_t a = 0x400000; a < 0x402000; a += 8)
		if (uw_symbols_find(symbols, a, &s) &&
		    (a - s.start >= s.size || strlen(s.name) > UW_SYMBOL_NAME_MAX))
			abort();
	if (uw_golines_new(&elf, &lines) >= 0) {
		for (uint64_t a = 0x400000; a < 0x402000; a += 8)
			if (uw_golines_at(lines, a, count_line, &len) > 64)
				abort();
		(void)uw_golines_free(lines);
	}
	uw_symbols_free(symbols);
	uw_elf_close(&elf);
	free(image);
	return 0;
}
