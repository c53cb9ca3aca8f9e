/* test-elf-unpack.c - compressed sections: each method, and headers that lie about what follows. */
#include "tests/unit/unwinder/unwinder-fixture.h"

#include <zlib.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include "symbols/elf.h"

enum { TEXT = 3000, ROOM = 4096 };

struct packed {
	uint8_t bytes[ROOM], text[TEXT];
	size_t len; /* all, with the header */
};

static void pack_header(struct packed *p, uint32_t type, uint64_t size)
{
	Elf64_Chdr ch = {.ch_type = type, .ch_size = size, .ch_addralign = 1};

	memcpy(p->bytes, &ch, sizeof(ch));
}

static void pack_zlib(struct packed *p, size_t header)
{
	uLongf len = ROOM - header;

	memset(p->text, 'z', sizeof(p->text));
	assert_int_equal(compress(p->bytes + header, &len, p->text, sizeof(p->text)), Z_OK);
	p->len = header + len;
	pack_header(p, ELFCOMPRESS_ZLIB, sizeof(p->text));
}

static int unpack(struct packed *p, uint64_t max, struct uw_section *ret)
{
	struct uw_section section = {.data = p->bytes, .size = p->len, .vaddr = 7};

	return uw_elf_unpack(&section, max, ret);
}

/* Whatever the method: the text, within the bound; a size that is not the data's; too short. */
static void check_method(struct packed *p, uint32_t type)
{
	struct uw_section s = {0};

	assert_int_equal(unpack(p, TEXT, &s), 0);
	assert_int_equal(s.size, TEXT);
	assert_int_equal(s.vaddr, 7);
	assert_memory_equal(s.data, p->text, TEXT);
	uw_section_deinit(&s);
	assert_int_equal(unpack(p, TEXT - 1, &s), -EFBIG);
	pack_header(p, type, TEXT - 1);
	assert_int_equal(unpack(p, 5000, &s), -EBADMSG);
	pack_header(p, type, TEXT + 1);
	assert_int_equal(unpack(p, 5000, &s), -EBADMSG);
	pack_header(p, type, 1ull << 30); /* no stream of these few bytes holds that */
	assert_int_equal(unpack(p, UINT64_MAX, &s), -EFBIG);
	pack_header(p, type, TEXT);
	p->len--;
	assert_int_equal(unpack(p, 5000, &s), -EBADMSG);
	p->bytes[sizeof(Elf64_Chdr)] ^= 0xff;
	assert_int_equal(unpack(p, 5000, &s), -EBADMSG);
	p->len = sizeof(Elf64_Chdr) - 1;
	assert_int_equal(unpack(p, 5000, &s), -EBADMSG);
}

static void test_zlib(void **state)
{
	struct packed p;

	(void)state;
	pack_zlib(&p, sizeof(Elf64_Chdr));
	check_method(&p, ELFCOMPRESS_ZLIB);
}

static void test_zstd(void **state)
{
	enum { METHOD_ZSTD = 2 };
	struct packed p;
	struct uw_section s;

	(void)state;
	pack_zlib(&p, sizeof(Elf64_Chdr));
#ifdef HAVE_ZSTD
	size_t len = ZSTD_compress(p.bytes + sizeof(Elf64_Chdr), ROOM - sizeof(Elf64_Chdr), p.text,
				   TEXT, 3);

	assert_false(ZSTD_isError(len));
	p.len = sizeof(Elf64_Chdr) + len;
	pack_header(&p, METHOD_ZSTD, TEXT);
	check_method(&p, METHOD_ZSTD);
	(void)s;
#else
	pack_header(&p, METHOD_ZSTD, TEXT);
	assert_int_equal(unpack(&p, 5000, &s), -EOPNOTSUPP);
#endif
}

static void test_other_method(void **state)
{
	static const uint32_t types[] = {0, 3, 77, UINT32_MAX};
	struct uw_section s;
	struct packed p;

	(void)state;
	pack_zlib(&p, sizeof(Elf64_Chdr));
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		pack_header(&p, types[i], TEXT);
		assert_int_equal(unpack(&p, 5000, &s), -EOPNOTSUPP);
	}
}

/* "ZLIB", eight bytes of size, the larger first. */
static void test_gnu(void **state)
{
	static const uint8_t header[] = {'Z', 'L', 'I', 'B', 0,		0,
					 0,   0,   0,	0,   TEXT >> 8, TEXT & 255};
	struct uw_section packed, s = {0};
	struct packed p;

	(void)state;
	pack_zlib(&p, sizeof(Elf64_Chdr));
	memmove(p.bytes + 12, p.bytes + sizeof(Elf64_Chdr), p.len - sizeof(Elf64_Chdr));
	memcpy(p.bytes, header, sizeof(header));
	packed = (struct uw_section){.data = p.bytes, .size = p.len - sizeof(Elf64_Chdr) + 12};
	assert_int_equal(uw_elf_unpack_gnu(&packed, TEXT, &s), 0);
	assert_int_equal(s.size, TEXT);
	assert_memory_equal(s.data, p.text, TEXT);
	uw_section_deinit(&s);
	assert_int_equal(uw_elf_unpack_gnu(&packed, TEXT - 1, &s), -EFBIG);
	p.bytes[4] = 1;
	assert_int_equal(uw_elf_unpack_gnu(&packed, UINT64_MAX, &s), -EFBIG);
	p.bytes[4] = 0;
	packed.size = 11;
	assert_int_equal(uw_elf_unpack_gnu(&packed, TEXT, &s), -EBADMSG);
	packed.size = 12;
	assert_int_equal(uw_elf_unpack_gnu(&packed, TEXT, &s), -EFBIG);
	p.bytes[0] = 'z';
	assert_int_equal(uw_elf_unpack_gnu(&packed, TEXT, &s), -EBADMSG);
}

/* A section of an image has a flag for compression. */
static void test_section(void **state)
{
	uint8_t image[IMAGE_SIZE];
	Elf64_Shdr shdr = {.sh_type = SHT_PROGBITS, .sh_offset = 0x1000};
	struct uw_section s = {0};
	struct uw_elf elf;
	struct packed p;

	(void)state;
	image_make(image);
	pack_zlib(&p, sizeof(Elf64_Chdr));
	assert_true(p.len < 0x400);
	memcpy(image + 0x1000, p.bytes, p.len);
	shdr.sh_size = p.len;
	assert_int_equal(uw_elf_open_bytes(&elf, image, sizeof(image)), 0);
	assert_int_equal(uw_elf_load_section(&elf, &shdr, 5000, &s), 0);
	assert_int_equal(s.size, p.len);
	uw_section_deinit(&s);
	shdr.sh_flags = SHF_COMPRESSED;
	assert_int_equal(uw_elf_load_section(&elf, &shdr, 5000, &s), 0);
	assert_int_equal(s.size, TEXT);
	assert_memory_equal(s.data, p.text, TEXT);
	uw_section_deinit(&s);
	uw_elf_close(&elf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_zlib),	     cmocka_unit_test(test_zstd),
		cmocka_unit_test(test_other_method), cmocka_unit_test(test_gnu),
		cmocka_unit_test(test_section),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
