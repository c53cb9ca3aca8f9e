/* test-interpreter.c - interpreter.h: the paths of languages, and memory in which no interpreter is. */
#include "symbols/interpreter.h"
#include "symbols/module.h"
#include "tests/unit/cmocka.h"

#include <errno.h>
#include <string.h>

enum { AT = 0x400000, SIZE = 1 << 16 };

static uint8_t bytes[SIZE];

static ssize_t read_bytes(struct uw_memory *memory, uint64_t address, void *to, size_t len)
{
	(void)memory;
	if (address < AT || address >= AT + SIZE)
		return -EFAULT;
	len = min_u64(len, AT + SIZE - address);
	memcpy(to, bytes + (address - AT), len);
	return (ssize_t)len;
}

static void test_language(void **state)
{
	(void)state;
	assert_int_equal(interpreter_language(UW_PYTHON_PATH), UW_LANGUAGE_PYTHON);
	assert_int_equal(interpreter_language(UW_PHP_PATH), UW_LANGUAGE_PHP);
	assert_int_equal(interpreter_language(UW_RUBY_PATH), UW_LANGUAGE_RUBY);
	assert_int_equal(interpreter_language(uw_language_path(UW_LANGUAGE_JS)), UW_LANGUAGE_JS);
	assert_int_equal(interpreter_language("/usr/bin/python3"), UW_LANGUAGE_NONE);
	assert_int_equal(interpreter_language(""), UW_LANGUAGE_NONE);
}

/* Memory that cannot be read, zeros, noise: each is refused, and nothing is returned. */
static void test_no_interpreter(void **state)
{
	static const enum uw_language all[] = {UW_LANGUAGE_PYTHON, UW_LANGUAGE_PHP,
					       UW_LANGUAGE_RUBY, UW_LANGUAGE_JS};
	struct uw_memory memory = {.read = read_bytes};
	uint32_t seed = 1;

	(void)state;
	assert_null(interpreter_free(NULL));
	for (int noise = 0; noise < 2; noise++) {
		for (size_t i = 0; noise && i < SIZE; i++)
			bytes[i] = (uint8_t)((seed = seed * 1103515245 + 12345) >> 16);
		for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
			struct uw_symbols *symbols = NULL;
			struct uw_image *image = NULL;
			struct uw_module *module;

			assert_int_equal(uw_module_new(UW_MODULE_JIT, uw_language_path(all[i]),
						       NULL, &module),
					 0);
			assert_true(interpreter_load(module, &memory, AT, &image, &symbols) < 0);
			assert_true(interpreter_load(module, &memory, AT - 1, &image, &symbols) <
				    0);
			assert_null(image);
			assert_null(symbols);
			uw_module_unref(module);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_language),
		cmocka_unit_test(test_no_interpreter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
