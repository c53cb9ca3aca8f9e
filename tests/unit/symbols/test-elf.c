/* test-elf.c - the reader trusts nothing: wrong headers, sections and notes. */
#include "tests/unit/unwinder/unwinder-fixture.h"

#include "symbols/elf.h"

static void put16(uint8_t *image, size_t at, uint16_t v)
{
	memcpy(image + at, &v, sizeof(v));
}

static void put64(uint8_t *image, size_t at, uint64_t v)
{
	memcpy(image + at, &v, sizeof(v));
}

static int open_image(struct uw_elf *elf, const uint8_t *image, size_t len)
{
	return uw_elf_open_bytes(elf, image, len);
}

static void test_headers(void **state)
{
	uint8_t image[IMAGE_SIZE];
	struct uw_elf elf;
	struct uw_build_id id, expected = image_id();

	(void)state;
	image_make(image);
	assert_int_equal(open_image(&elf, image, sizeof(image)), 0);
	assert_true(elf.wide);
	assert_int_equal(elf.arch, UW_ARCH_X86_64);
	assert_int_equal(elf.n_phdrs, 4);
	assert_int_equal(elf.n_shdrs, 6);
	assert_int_equal(uw_elf_section(&elf, ".text")->sh_addr, 0x402000);
	assert_null(uw_elf_section(&elf, ".tex"));
	uw_elf_build_id(&elf, &id);
	assert_memory_equal(&id, &expected, sizeof(id));
	uw_elf_close(&elf);
}

static void test_not_elf(void **state)
{
	uint8_t image[IMAGE_SIZE];
	struct uw_elf elf;
	int fd;

	(void)state;
	image_make(image);
	assert_int_equal(open_image(&elf, image, 0), -ENOEXEC);
	assert_int_equal(open_image(&elf, image, 51), -ENOEXEC);
	assert_int_equal(open_image(&elf, image, 63),
			 -EBADMSG); /* a header cut short does not have these program headers */
	image[EI_DATA] = ELFDATA2MSB;
	assert_int_equal(open_image(&elf, image, sizeof(image)), -ENOEXEC);
	image_make(image);
	image[EI_CLASS] = 3;
	assert_int_equal(open_image(&elf, image, sizeof(image)), -ENOEXEC);
	image_make(image);
	image[0] = 'x';
	assert_int_equal(open_image(&elf, image, sizeof(image)), -ENOEXEC);
	fd = open_or_die("/dev/null");
	assert_int_equal(uw_elf_open_fd(&elf, fd), -ENOEXEC);
	fd_close(fd);
	fd = open_or_die("/tmp");
	assert_int_equal(uw_elf_open_fd(&elf, fd), -ENOEXEC);
	fd_close(fd);
}

static void test_program_headers_lie(void **state)
{
	uint8_t image[IMAGE_SIZE];
	struct uw_elf elf;

	(void)state;
	image_make(image);
	put16(image, 56, 65535);
	assert_int_equal(open_image(&elf, image, sizeof(image)), -EBADMSG);
	image_make(image);
	put64(image, 32, UINT64_MAX - 8); /* e_phoff: offset + length wraps */
	assert_int_equal(open_image(&elf, image, sizeof(image)), -EBADMSG);
	image_make(image);
	put16(image, 54, 57); /* e_phentsize */
	assert_int_equal(open_image(&elf, image, sizeof(image)), -EBADMSG);
}

/* Section headers are optional: wrong ones are none. */
static void test_section_headers_lie(void **state)
{
	static const struct {
		size_t at;
		uint64_t value;
	} lies[] = {{40, IMAGE_SIZE - 10},
		    {40, UINT64_MAX},
		    {0x2000 + 5 * 64 + 24, UINT64_MAX},
		    {0x2000 + 5 * 64 + 32, 1ull << 40}};
	uint8_t image[IMAGE_SIZE];
	struct uw_elf elf;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		image_make(image);
		put64(image, lies[i].at, lies[i].value);
		assert_int_equal(open_image(&elf, image, sizeof(image)), 0);
		assert_int_equal(elf.n_shdrs, 0);
		assert_null(uw_elf_section(&elf, ".text"));
		uw_elf_close(&elf);
	}
	image_make(image);
	put16(image, 62, 6); /* e_shstrndx is not a section */
	assert_int_equal(open_image(&elf, image, sizeof(image)), 0);
	assert_int_equal(elf.n_shdrs, 0);
	uw_elf_close(&elf);
	image_make(image);
	memset(image + 0x2000 + 64, 0xff, 4); /* sh_name far outside */
	assert_int_equal(open_image(&elf, image, sizeof(image)), 0);
	assert_null(uw_elf_section(&elf, ".text"));
	assert_non_null(uw_elf_section(&elf, ".symtab"));
	uw_elf_close(&elf);
}

static void test_notes_lie(void **state)
{
	static const uint32_t sizes[] = {0, 21, 1000, 0x7fffffff, 0xfffffffc, 0xffffffff};
	uint8_t image[IMAGE_SIZE];
	struct uw_elf elf;
	struct uw_build_id id;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (size_t field = 0; field < 8; field += 4) {
			image_make(image);
			memcpy(image + 0x200 + field, &sizes[i], 4);
			assert_int_equal(open_image(&elf, image, sizeof(image)), 0);
			uw_elf_build_id(&elf, &id);
			assert_int_equal(id.len, 0);
			uw_elf_close(&elf);
		}
	}
	/* a descriptor of 24 bytes that is really there is cut at 20 */
	image_make(image);
	image[0x204] = 24;
	put64(image, 0x40 + 2 * 56 + 32, 40);
	assert_int_equal(open_image(&elf, image, sizeof(image)), 0);
	uw_elf_build_id(&elf, &id);
	assert_int_equal(id.len, 20);
	uw_elf_close(&elf);
}

static void test_load_section(void **state)
{
	uint8_t image[IMAGE_SIZE];
	struct uw_elf elf;
	struct uw_section s = {.size = 99};
	Elf64_Shdr shdr;

	(void)state;
	image_make(image);
	assert_int_equal(open_image(&elf, image, sizeof(image)), 0);
	shdr = *uw_elf_section(&elf, ".eh_frame");
	assert_int_equal(uw_elf_load_section(&elf, &shdr, 15, &s), -EFBIG);
	assert_int_equal(s.size, 99); /* untouched */
	assert_int_equal(uw_elf_load_section(&elf, &shdr, 16, &s), 0);
	assert_int_equal(s.size, 16);
	assert_int_equal(s.vaddr, 0x400340);
	assert_int_equal(s.data[15], 0xef);
	uw_section_deinit(&s);
	shdr.sh_offset = IMAGE_SIZE - 15;
	assert_int_equal(uw_elf_load_section(&elf, &shdr, 100, &s), -EBADMSG);
	shdr.sh_offset = UINT64_MAX - 3;
	assert_int_equal(uw_elf_load_section(&elf, &shdr, 100, &s), -EBADMSG);
	shdr = *uw_elf_section(&elf, ".eh_frame");
	shdr.sh_type = SHT_NOBITS;
	assert_int_equal(uw_elf_load_section(&elf, &shdr, 100, &s), -EBADMSG);
	shdr.sh_type = SHT_PROGBITS;
	shdr.sh_size = 0;
	assert_int_equal(uw_elf_load_section(&elf, &shdr, 100, &s), 0);
	assert_int_equal(s.size, 0);
	uw_section_deinit(&s);
	uw_elf_close(&elf);
}

static void test_by_address(void **state)
{
	uint8_t image[IMAGE_SIZE], byte[2];
	struct uw_elf elf;
	struct uw_section s = {0};

	(void)state;
	image_make(image);
	image[0x11ff] = 0x77;
	assert_int_equal(open_image(&elf, image, sizeof(image)), 0);
	assert_int_equal(uw_elf_read_vaddr(&elf, 0x4021ff, byte, 1), 0);
	assert_int_equal(byte[0], 0x77);
	assert_int_equal(uw_elf_read_vaddr(&elf, 0x4021ff, byte, 2),
			 -EBADMSG); /* past the segment */
	assert_int_equal(uw_elf_read_vaddr(&elf, 0x402200, byte, 1), -EBADMSG);
	assert_int_equal(uw_elf_read_vaddr(&elf, 0x3fffff, byte, 1), -EBADMSG);
	assert_int_equal(uw_elf_load_vaddr(&elf, 0x402000, 0x201, UINT64_MAX, &s), -EBADMSG);
	assert_int_equal(uw_elf_load_vaddr(&elf, 0x402000, 1ull << 50, UINT64_MAX, &s), -EBADMSG);
	assert_int_equal(uw_elf_load_vaddr(&elf, 0x402000, 0x200, 0x1ff, &s), -EFBIG);
	assert_int_equal(uw_elf_load_vaddr(&elf, 0x402000, 0x200, 0x200, &s), 0);
	assert_int_equal(s.data[0x1ff], 0x77);
	uw_section_deinit(&s);
	uw_elf_close(&elf);
}

/* As loaded: the segments at their distances, 0x10000000 the image's first byte. */
static void test_process_memory(void **state)
{
	uint8_t image[IMAGE_SIZE], loaded[0x3000] = {0}, byte;
	struct fake_memory f = {.memory.read = fake_read,
				.start = 0x10000000,
				.bytes = loaded,
				.len = sizeof(loaded)};
	struct uw_source source = {
		.fd = -1, .memory = &f.memory, .start = 0x10000000, .end = 0x10003000};
	struct uw_build_id id, expected = image_id();
	struct uw_elf elf;

	(void)state;
	image_make(image);
	image[0x1042] = 0x99;
	memcpy(loaded, image, 0x1000);
	memcpy(loaded + 0x2000, image + 0x1000, 0x200);
	assert_int_equal(uw_elf_open(&elf, &source), 0);
	assert_int_equal(elf.first_vaddr, 0x400000);
	assert_int_equal(elf.n_shdrs, 0); /* they are not in memory */
	assert_int_equal(uw_elf_read_vaddr(&elf, 0x402042, &byte, 1), 0);
	assert_int_equal(byte, 0x99);
	assert_int_equal(uw_elf_vaddr_of(&elf, 0x10002042), 0x402042);
	uw_elf_build_id(&elf, &id);
	assert_memory_equal(&id, &expected, sizeof(id));
	uw_elf_close(&elf);
	f.len = 0x2100; /* the rest is not mapped any more */
	assert_int_equal(uw_elf_open(&elf, &source), 0);
	assert_int_equal(uw_elf_read_vaddr(&elf, 0x402100, &byte, 1), -EFAULT);
	uw_elf_close(&elf);
	source.end = source.start;
	assert_int_equal(uw_elf_open(&elf, &source), -EINVAL);
}

static void test_32_bit(void **state)
{
	uint8_t image[256] = {0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT};
	Elf32_Phdr ph = {.p_type = PT_LOAD,
			 .p_flags = PF_X,
			 .p_offset = 0,
			 .p_vaddr = 0x8048000,
			 .p_filesz = 256,
			 .p_memsz = 256};
	Elf32_Ehdr eh;
	struct uw_elf elf;

	(void)state;
	memcpy(&eh, image, sizeof(eh));
	eh.e_machine = EM_386;
	eh.e_phoff = 52;
	eh.e_phnum = 1;
	eh.e_phentsize = sizeof(ph);
	memcpy(image, &eh, sizeof(eh));
	memcpy(image + 52, &ph, sizeof(ph));
	assert_int_equal(open_image(&elf, image, sizeof(image)), 0);
	assert_false(elf.wide);
	assert_int_equal(elf.arch, UW_ARCH_NONE);
	assert_int_equal(elf.phdrs[0].p_vaddr, 0x8048000);
	uw_elf_close(&elf);
	assert_int_equal(open_image(&elf, image, 52 + 31), -EBADMSG);
}

/* Whole, or nothing: from bytes and from a file. */
static void test_read(void **state)
{
	uint8_t image[IMAGE_SIZE], found[16];
	struct uw_elf elf;

	(void)state;
	image_make(image);
	for (int file = 0; file < 2; file++) {
		int fd = file ? memfd_of(image, sizeof(image)) : -1;

		assert_int_equal(file ? uw_elf_open_fd(&elf, fd)
				      : open_image(&elf, image, sizeof(image)),
				 0);
		assert_int_equal(uw_elf_read(&elf, IMAGE_SIZE - 16, found, 16), 0);
		assert_memory_equal(found, image + IMAGE_SIZE - 16, 16);
		assert_int_equal(uw_elf_read(&elf, IMAGE_SIZE, found, 0), 0);
		assert_int_equal(uw_elf_read(&elf, IMAGE_SIZE - 15, found, 16), -EBADMSG);
		assert_int_equal(uw_elf_read(&elf, UINT64_MAX - 7, found, 16), -EBADMSG);
		assert_int_equal(uw_elf_read(&elf, UINT64_MAX, found, 1), -EBADMSG);
		uw_elf_close(&elf);
		if (file)
			fd_close(fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_headers),
		cmocka_unit_test(test_not_elf),
		cmocka_unit_test(test_program_headers_lie),
		cmocka_unit_test(test_section_headers_lie),
		cmocka_unit_test(test_notes_lie),
		cmocka_unit_test(test_load_section),
		cmocka_unit_test(test_by_address),
		cmocka_unit_test(test_process_memory),
		cmocka_unit_test(test_32_bit),
		cmocka_unit_test(test_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
