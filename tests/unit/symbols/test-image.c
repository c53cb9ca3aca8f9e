/* test-image.c - where .eh_frame is, by whatever the image states of it. */
#include "tests/unit/unwinder/unwinder-fixture.h"

#include "symbols/elf.h"
#include "symbols/parts.h"

static struct uw_module *load(const uint8_t *image, size_t len, int expected)
{
	struct uw_source source = {.fd = memfd_of(image, len)};
	struct uw_module *m;

	assert_int_equal(uw_module_new(UW_MODULE_FILE, "x", NULL, &m), 0);
	assert_int_equal(uw_module_load_unwind(m, &source), expected);
	fd_close(source.fd); /* the image has its own */
	return m;
}

static void test_with_sections(void **state)
{
	uint8_t image[IMAGE_SIZE], byte;
	struct uw_module *m;
	const struct uw_image *i;

	(void)state;
	image_make(image);
	m = load(image, sizeof(image), 0);
	i = uw_module_image(m);
	assert_int_equal(i->arch, UW_ARCH_X86_64);
	assert_int_equal(i->n_segments, 2);
	assert_true(i->segments[1].exec);
	assert_int_equal(i->load_bias, 0x401000);
	assert_int_equal(i->eh_frame_hdr.vaddr, 0x400300);
	assert_int_equal(i->eh_frame_hdr.size, 12);
	assert_int_equal(i->eh_frame.vaddr, 0x400340);
	assert_int_equal(i->eh_frame.size, 16);
	assert_int_equal(i->eh_frame.data[0], 0xe0);
	assert_null(i->debug_frame.data);
	assert_int_equal(pread(i->fd, &byte, 1, 1), 1);
	assert_int_equal(byte, 'E');
	assert_true(i->bytes >= 28);
	uw_module_unref(m);
}

static void test_without_sections(void **state)
{
	uint8_t image[IMAGE_SIZE];
	struct uw_module *m;
	const struct uw_image *i;

	(void)state;
	image_make(image);
	memset(image + 60, 0, 4); /* e_shnum, e_shstrndx */
	m = load(image, sizeof(image), 0);
	i = uw_module_image(m);
	assert_int_equal(i->eh_frame.vaddr, 0x400340);
	assert_int_equal(i->eh_frame.size, 0x600 - 0x340); /* to the end of the segment */
	assert_int_equal(i->eh_frame.data[15], 0xef);
	uw_module_unref(m);
}

static void test_without_header(void **state)
{
	uint8_t image[IMAGE_SIZE];
	struct uw_module *m;

	(void)state;
	image_make(image);
	image[0x40 + 3 * 56] = 0; /* PT_NULL */
	m = load(image, sizeof(image), 0);
	assert_null(uw_module_image(m)->eh_frame_hdr.data);
	assert_int_equal(uw_module_image(m)->eh_frame.size, 16);
	uw_module_unref(m);
	memset(image + 60, 0, 4);
	m = load(image, sizeof(image), 0); /* no unwind information at all is not a fault */
	assert_null(uw_module_image(m)->eh_frame.data);
	uw_module_unref(m);
}

/* The pointer to .eh_frame in each encoding that a linker may choose; all lead to 0x400340. */
static void test_pointer_encodings(void **state)
{
	static const struct {
		uint8_t encoding;
		uint64_t value;
	} forms[] = {
		{0x00, 0x400340}, {0x03, 0x400340}, {0x04, 0x400340}, {0x0b, 0x400340},
		{0x0c, 0x400340}, {0x12, 0x3c},	    {0x1a, 0x3c},     {0x13, 0x3c},
		{0x1b, 0x3c},	  {0x1c, 0x3c},	    {0x32, 0x40},     {0x3a, 0x40},
		{0x33, 0x40},	  {0x3b, 0x40},	    {0x3c, 0x40},
	};
	uint8_t image[IMAGE_SIZE];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++) {
		struct uw_module *m;

		image_make(image);
		memset(image + 60, 0, 4);
		image[0x301] = forms[i].encoding;
		memcpy(image + 0x304, &forms[i].value, 8);
		m = load(image, sizeof(image), 0);
		assert_int_equal(uw_module_image(m)->eh_frame.vaddr, 0x400340);
		uw_module_unref(m);
	}
}

/* A header that is no good: the section, where there is one, serves. */
static void test_bad_header(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
	} lies[] = {{0x300, 2}, {0x301, 0xff}, {0x301, 0x4b}, {0x301, 0x05}};
	uint8_t image[IMAGE_SIZE];
	struct uw_module *m;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
		image_make(image);
		image[lies[i].at] = lies[i].value;
		m = load(image, sizeof(image), 0);
		assert_int_equal(uw_module_image(m)->eh_frame.size, 16);
		uw_module_unref(m);
	}
	image_make(image);
	image[0x307] = 0x70; /* far away */
	m = load(image, sizeof(image), 0);
	assert_null(uw_module_image(m)->eh_frame.data);
	uw_module_unref(m);
	image_make(image);
	memset(image + 0x40 + 3 * 56 + 32, 0xff, 8); /* p_filesz */
	m = load(image, sizeof(image), -EFBIG);
	uw_module_unref(m);
	image_make(image);
	image[0x40 + 3 * 56 + 33] = 0x10; /* 0x100c bytes at 0x400300: past its segment */
	m = load(image, sizeof(image), -EBADMSG);
	uw_module_unref(m);
}

static void test_other_machine(void **state)
{
	uint8_t image[IMAGE_SIZE];
	struct uw_module *m;

	(void)state;
	image_make(image);
	image[18] = 40; /* EM_ARM */
	m = load(image, sizeof(image), 0);
	assert_int_equal(uw_module_image(m)->arch, UW_ARCH_NONE);
	assert_null(uw_module_image(m)->eh_frame.data);
	assert_int_equal(uw_module_vaddr(m, 0x1000), 0x402000);
	uw_module_unref(m);
}

static void check_sizes(const char *path, bool debug_frame, const char *what)
{
	int fd = open_or_die(path);
	struct uw_source source = {.fd = fd};
	struct uw_module *m;

	assert_int_equal(uw_module_new(UW_MODULE_FILE, path, NULL, &m), 0);
	assert_int_equal(uw_module_load_unwind(m, &source), 0);
	if (!!uw_module_image(m)->debug_frame.data != debug_frame)
		fail_msg("%s", what);
	if (debug_frame) /* a CIE comes first: its id is all ones */
		assert_memory_equal(uw_module_image(m)->debug_frame.data + 4, "\xff\xff\xff\xff",
				    4);
	uw_module_unref(m);
	fd_close(fd);
}

static void test_debug_frame(void **state)
{
	char dir[64], path[128];

	(void)state;
	if (!have("gcc") || !have("objcopy"))
		return;
	dir_make(dir);
	assert_true(shell(
		"cd %s && echo 'int main(void){return 0;}' >a.c && gcc -g "
		"-fno-asynchronous-unwind-tables a.c -o plain && "
		"objcopy --compress-debug-sections=zlib-gabi plain packed && strip plain -o none",
		dir));
	(void)snprintf(path, sizeof(path), "%s/plain", dir);
	check_sizes(path, true, "plain");
	(void)snprintf(path, sizeof(path), "%s/packed", dir);
	check_sizes(path, true, "packed");
	(void)snprintf(path, sizeof(path), "%s/none", dir);
	check_sizes(path, false, "none");
	dir_remove(dir);
}

static struct uw_module *load_later(const char *dir, const char *name, bool separate)
{
	char path[128];
	struct uw_source source = {.later = true};
	struct uw_module *m;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	source.fd = open_or_die(path);
	assert_int_equal(uw_module_new(UW_MODULE_FILE, path, NULL, &m), 0);
	if (separate)
		uw_module_want_separate(m);
	assert_int_equal(uw_module_load_unwind(m, &source), 0);
	fd_close(source.fd);
	return m;
}

static void check_later(const char *dir, const char *name, bool separate, bool more, bool there)
{
	struct uw_module *m = load_later(dir, name, separate);

	assert_int_equal(uw_module_image(m)->has_separate, more);
	assert_int_equal(uw_module_image(m)->debug_frame.data != NULL, there);
	uw_module_unref(m);
}

/* A stripped .debug_frame: noticed at first, read once it is wanted, and used only if it is the one
 * that the program names. */
static void test_separate(void **state)
{
	char dir[64];

	(void)state;
	if (!have("gcc") || !have("objcopy"))
		return;
	dir_make(dir);
	assert_true(
		shell("cd %s && echo 'int main(void){return 0;}' >a.c && gcc -g "
		      "-fno-asynchronous-unwind-tables -Wl,--build-id=none a.c -o plain && "
		      "objcopy --only-keep-debug plain a.debug && strip plain -o none && "
		      "objcopy --add-gnu-debuglink=a.debug none linked && cp a.debug b.debug && "
		      "objcopy --add-gnu-debuglink=b.debug none deceived && "
		      "echo more >>b.debug",
		      dir));
	check_later(dir, "plain", false, false, true); /* its own */
	check_later(dir, "none", false, false, false); /* names none */
	check_later(dir, "linked", false, true, false);
	check_later(dir, "linked", true, false, true);
	check_later(dir, "deceived", false, true, false); /* it was not read */
	check_later(dir, "deceived", true, false, false);
	dir_remove(dir);
}

/* The image alone, and one of sections that another process has read. */
static void test_alone(void **state)
{
	uint8_t image[IMAGE_SIZE];
	struct uw_section sections[3];
	struct uw_image *alone, *copy;
	const struct uw_image *i;
	struct uw_source source;
	struct uw_module *m;
	struct uw_elf elf;

	(void)state;
	image_make(image);
	m = load(image, sizeof(image), 0);
	i = uw_module_image(m);
	source = (struct uw_source){.fd = memfd_of(image, sizeof(image))};
	assert_int_equal(uw_elf_open(&elf, &source), 0);
	assert_int_equal(uw_image_new(&elf, uw_module_layout(m), "x", &source, false, &alone), 0);
	assert_int_equal(alone->eh_frame.vaddr, i->eh_frame.vaddr);
	assert_int_equal(alone->eh_frame.size, i->eh_frame.size);
	assert_memory_equal(alone->eh_frame.data, i->eh_frame.data, i->eh_frame.size);
	sections[0] = alone->eh_frame_hdr;
	sections[1] = alone->eh_frame;
	sections[2] = alone->debug_frame;
	alone->eh_frame_hdr.data = alone->eh_frame.data = alone->debug_frame.data = NULL;
	alone->table.entries = NULL;
	assert_int_equal(uw_image_of_sections(UW_ARCH_X86_64, uw_module_layout(m), sections, &copy),
			 0);
	assert_int_equal(copy->arch, UW_ARCH_X86_64);
	assert_int_equal(copy->load_bias, i->load_bias);
	assert_int_equal(copy->n_segments, i->n_segments);
	assert_int_equal(copy->table.n, i->table.n);
	assert_int_equal(copy->fd, -1);
	assert_memory_equal(copy->eh_frame.data, i->eh_frame.data, i->eh_frame.size);
	uw_image_free(copy);
	uw_image_free(alone);
	uw_elf_close(&elf);
	fd_close(source.fd);
	uw_module_unref(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_with_sections),  cmocka_unit_test(test_without_sections),
		cmocka_unit_test(test_without_header), cmocka_unit_test(test_pointer_encodings),
		cmocka_unit_test(test_bad_header),     cmocka_unit_test(test_other_machine),
		cmocka_unit_test(test_debug_frame),    cmocka_unit_test(test_separate),
		cmocka_unit_test(test_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
