/* test-python-names.c - what perfwind knows of a CPython by memory made by hand: the layout of its frames, names, and signs. */
#include <errno.h>

#include "tests/unit/unwinder/interpreter-module.h"
#include "tests/unit/unwinder/native-fixture.h"
#include "tests/unit/unwinder/python-fixture.h"

#include "unwinder/regs.h"

static struct py_process py;

static void test_layout(void **state)
{
	(void)state;
	for (int minor = 11; minor <= 15; minor++) {
		const struct uw_python *layout;
		struct python *python;

		py_process_init(&py, minor);
		assert_int_equal(python_new(&py.memory, PY_BASE, &python), 0);
		layout = python_layout(python);
		assert_int_equal(layout->version, 0x300 + minor);
		assert_int_equal(layout->eval_start, PY_LOOP);
		assert_int_equal(layout->eval_end, PY_LOOP + PY_LOOP_BYTES);
		assert_true(layout->has_frame && layout->has_next);
		assert_int_equal(layout->frame, DWARF_X86_RBX);
		assert_int_equal(layout->next, DWARF_X86_R12);
		assert_int_equal(layout->n_slots, 2);
		assert_int_equal(layout->slots[0], 0x10);
		assert_int_equal(layout->slots[1], 0x08);
		(void)python_free(python);
	}
}

static void test_unsupported(void **state)
{
	struct python *python;

	(void)state;
	py_process_init(&py, 16);
	assert_int_equal(python_new(&py.memory, PY_BASE, &python), -ENOTSUP);
	py_process_init(&py, 13);
	py_set(&py, py.code_type + 8, 0, 8); /* without a GIL ob_type is farther */
	py_set(&py, py.code_type + 8, 0x10000, 8);
	assert_int_equal(python_new(&py.memory, PY_BASE, &python), -ENOTSUP);
	py_process_init(&py, 12);
	py.bytes[0] = 0;
	assert_int_equal(python_new(&py.memory, PY_BASE, &python), -ENOEXEC);
	assert_int_equal(python_new(&py.memory, PY_BASE + 2 * PY_BYTES, &python), -ENOEXEC);
	/* A loop with registers that cannot be known is a Python nevertheless: its names are read. */
	py_process_init(&py, 12);
	memset(py.bytes + PY_LOOP_AT, 0x90, PY_LOOP_BYTES);
	assert_int_equal(python_new(&py.memory, PY_BASE, &python), 0);
	assert_false(python_layout(python)->has_frame);
	(void)python_free(python);
}

static void test_paths(void **state)
{
	(void)state;
	assert_int_equal(uw_path_language("/usr/lib/libpython3.12.so.1.0"), UW_LANGUAGE_PYTHON);
	assert_int_equal(uw_path_language("/usr/bin/python3.11"), UW_LANGUAGE_PYTHON);
	assert_int_equal(uw_path_language("/usr/lib/python3.11/lib-dynload/_bz2.so"),
			 UW_LANGUAGE_NONE);
	assert_int_equal(uw_path_language("/usr/lib/libpython2.7.so.1.0"), UW_LANGUAGE_NONE);
	assert_int_equal(uw_path_language(""), UW_LANGUAGE_NONE);
}

static void test_names(void **state)
{
	(void)state;
	for (int minor = 11; minor <= 15; minor++) {
		struct python *python;
		struct noted noted;
		uint64_t file, code, wide, wrong;

		py_process_init(&py, minor);
		file = py_string(&py, "/x/work.py", false);
		code = py_code(&py, py_string(&py, "Shape.area", false), file, 21);
		wide = py_code(&py, py_string(&py, "ab", true), file, UINT32_MAX);
		wrong = py_code(&py, file + 8, file, 1);
		assert_int_equal(python_new(&py.memory, PY_BASE, &python), 0);
		assert_int_equal(python_lines(python, &py.memory, code, note, &noted), 1);
		assert_string_equal(noted.name, "Shape.area");
		assert_string_equal(noted.file, "/x/work.py");
		assert_int_equal(noted.line, 21);
		assert_int_equal(python_lines(python, &py.memory, wide, note, &noted), 1);
		assert_string_equal(noted.name, "\xcd\xa1\xcd\xa2"); /* U+0361, U+0362 */
		assert_int_equal(noted.line, 0);
		assert_int_equal(python_lines(python, &py.memory, wrong, note, &noted), 0);
		assert_int_equal(python_lines(python, &py.memory, file, note, &noted), 0);
		assert_int_equal(python_lines(python, &py.memory, 8, note, &noted), 0);
		/* Too long a name is cut, controls are replaced. */
		py_set(&py, file + 16, 1ull << 60, 8);
		py_set(&py, file + (minor == 11 ? 48 : 40) + 1, '\n', 1);
		assert_int_equal(python_lines(python, &py.memory, code, note, &noted), 1);
		assert_memory_equal(noted.file, "/?/work.py", 10);
		(void)python_free(python);
	}
}

/* The code of a module has the name of its file. */
static void test_modules(void **state)
{
	static const struct {
		const char *file, *name;
	} cases[] = {
		{"/x/shop.py", "<module shop.py>"},
		{"shop.py", "<module shop.py>"},
		{"/usr/lib/python3.11/json/__init__.py", "<module json/__init__.py>"},
		{"json/__main__.py", "<module json/__main__.py>"},
		{"__init__.py", "<module __init__.py>"},
		{"/__init__.py", "<module __init__.py>"},
		{"<frozen importlib._bootstrap>", "<module importlib._bootstrap>"},
		{"<string>", "<module>"},
		{"<stdin>", "<module>"},
		{"<frozen ", "<module>"},
		{"<frozen >", "<module>"},
		{"/x/", "<module>"},
	};
	struct noted noted;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct python *python;
		uint64_t file, code, other;

		py_process_init(&py, 11);
		file = py_string(&py, cases[i].file, false);
		code = py_code(&py, py_string(&py, "<module>", false), file, 1);
		other = py_code(&py, py_string(&py, "<lambda>", false), file, 1);
		assert_int_equal(python_new(&py.memory, PY_BASE, &python), 0);
		assert_int_equal(python_lines(python, &py.memory, code, note, &noted), 1);
		assert_string_equal(noted.name, cases[i].name);
		assert_string_equal(noted.file, cases[i].file);
		assert_int_equal(python_lines(python, &py.memory, other, note, &noted), 1);
		assert_string_equal(noted.name, "<lambda>");
		(void)python_free(python);
	}
}

/* Names of which the sign has the first characters, the last ones, or (not of ASCII) the length alone. */
static void test_signs(void **state)
{
	static const char *const names[] = {"f",
					    "g",
					    "eightchr",
					    "eightchs",
					    "Class.method_of_a",
					    "Class.method_of_b",
					    "Klass.method_of_a"};
	struct noted noted;

	(void)state;
	for (int minor = 11; minor <= 15; minor++) {
		struct python *python;
		uint64_t file, code, other;

		py_process_init(&py, minor);
		assert_int_equal(python_new(&py.memory, PY_BASE, &python), 0);
		file = py_string(&py, "/a.py", false);
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			for (size_t k = 0; k < 2 * i; k++) {
				code = py_code(&py, py_string(&py, names[i], false), file, 7);
				other = py_code(&py, py_string(&py, names[k / 2], k % 2), file, 7);
				assert_int_not_equal(py_sign(&py, code), py_sign(&py, other));
				assert_int_equal(python_lines(python, &py.memory,
							      code | py_sign(&py, code), note,
							      &noted),
						 1);
				assert_int_equal(python_lines(python, &py.memory,
							      other | py_sign(&py, other), note,
							      &noted),
						 1);
				assert_int_equal(python_lines(python, &py.memory,
							      code | py_sign(&py, other), note,
							      &noted),
						 0);
				py.heap = file + 64 - PY_HEAP;
			}
		(void)python_free(python);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layout),	cmocka_unit_test(test_unsupported),
		cmocka_unit_test(test_paths),	cmocka_unit_test(test_names),
		cmocka_unit_test(test_modules), cmocka_unit_test(test_signs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
