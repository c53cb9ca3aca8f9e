/* test-kernel-text.c - the start of the kernel's text out of symbol tables written by hand, and out of
 * what only looks like one. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols/kallsyms.h"
#include "tests/unit/cmocka.h"

static uint64_t start_of(const char *text, size_t len)
{
	int fd = memfd_create("kallsyms", MFD_CLOEXEC);
	uint64_t start;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), (ssize_t)len);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	start = kernel_text_start(fd);
	if (start)
		assert_int_equal(lseek(fd, 0, SEEK_CUR), 0); /* for the next reader */
	close(fd);
	return start;
}

static uint64_t start_of_text(const char *text)
{
	return start_of(text, strlen(text));
}

static void test_found(void **state)
{
	(void)state;
	assert_true(start_of_text("ffffffff81000000 T _text\n") == 0xffffffff81000000);
	assert_true(start_of_text("0000000000000000 A fixed_percpu_data\n"
				  "ffffffffa2200000 T startup_64\n"
				  "ffffffffa2200000 T _stext\n"
				  "ffffffffa2200040 T _text\n"
				  "ffffffffa2300000 T _text_end\n") == 0xffffffffa2200040);
}

static void test_not_reported(void **state)
{
	(void)state;
	assert_true(start_of_text("") == 0);
	assert_true(start_of_text("0000000000000000 T _text\n") == 0); /* hidden */
	assert_true(start_of_text(" T _text\n") == 0);		       /* no address */
	assert_true(start_of_text("ffffffff8100000 T _text\n") == 0);  /* too short */
	assert_true(start_of_text("ffffffff8100000x T _text\n") == 0);
	assert_true(start_of_text("ffffffff81000000 t _text\n") == 0);
	assert_true(start_of_text("ffffffff81000000 T _text") == 0); /* cut off */
	assert_true(start_of("\0ffffffff81000000 T _text\n", 27) == 0);
	assert_true(kernel_text_start(-1) == 0);
}

/* It is among the first lines: what stands far behind is not looked for. */
static void test_far(void **state)
{
	static char text[70000];
	size_t len = sizeof(text) - 26;

	(void)state;
	memset(text, '\n', len);
	memcpy(text + len, "ffffffff81000000 T _text\n", 25);
	assert_true(start_of(text, len + 25) == 0);
	memcpy(text + 100, "ffffffff82000000 T _text\n", 25);
	assert_true(start_of(text, len + 25) == 0xffffffff82000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found),
		cmocka_unit_test(test_not_reported),
		cmocka_unit_test(test_far),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
