/* test-script-names.c - PHP's and Ruby's layouts and names by memory made by hand, and memory that is wrong. */
#include <errno.h>

#include "tests/unit/cmocka.h"
#include "tests/unit/unwinder/script-fixture.h"

#include "symbols/script-sign.h"
#include "unwinder/regs.h"

static struct sc_process sc;

/* ---- the layout ---- */

static void test_layout(void **state)
{
	struct uw_script script;

	(void)state;
	sc_php_init(&sc);
	assert_int_equal(sc_find(&sc, false, SC_BASE, &script), 0);
	assert_int_equal(script.version, 0x802);
	assert_int_equal(script.eval_start, SC_LOOP);
	assert_int_equal(script.eval_end, SC_LOOP + SC_LOOP_BYTES);
	assert_int_equal(script.current, sc.globals + 488);
	assert_int_equal(script.frame, 14);
	assert_int_equal(script.next, DWARF_X86_R15);
	assert_int_equal(script.saved_frame, SC_SAVED_FRAME);
	assert_int_equal(script.saved_next, SC_SAVED_NEXT);
	sc_ruby_init(&sc);
	assert_int_equal(sc_find(&sc, true, SC_BASE, &script), 0);
	assert_int_equal(script.version, 0x301);
	assert_int_equal(script.eval_start, SC_LOOP);
	assert_int_equal(script.eval_end, SC_LOOP + SC_LOOP_BYTES);
	assert_int_equal(script.frame, DWARF_X86_R15);
	assert_int_equal(script.current, 0); /* no VM is exported here */
	assert_int_equal(script.next, 14);
}

/* PHP 8.4 with frame pointers: two registers are pushed, and 0xa8 bytes are behind these. */
static void test_php_frame_pointers(void **state)
{
	static const uint8_t prologue[] = {
		0x55, 0x48, 0x89, 0xe5,			  /* push %rbp; mov %rsp,%rbp */
		0x41, 0x55, 0x53,			  /* push %r13; push %rbx */
		0x48, 0x81, 0xec, 0xa8, 0x00, 0x00, 0x00, /* sub $0xa8,%rsp */
		0x4c, 0x89, 0x75, 0xc8,			  /* mov %r14,-0x38(%rbp) */
		0x49, 0x89, 0xfe,			  /* mov %rdi,%r14 */
		0x4c, 0x89, 0x7d, 0xc0,			  /* mov %r15,-0x40(%rbp) */
	};
	struct uw_script script;

	(void)state;
	sc_php_init(&sc);
	memcpy(sc.bytes + (sc.version_at - SC_BASE), "xAPI420240924,NTS\0API20240924,NTS", 33);
	memcpy(sc.bytes + SC_LOOP_AT, prologue, sizeof(prologue));
	assert_int_equal(sc_find(&sc, false, SC_BASE, &script), 0);
	assert_int_equal(script.version, 0x804);
	assert_int_equal(script.offsets.len, 96);
	assert_int_equal(script.saved_frame, 0xa8 + 16 - 0x38);
	assert_int_equal(script.saved_next, 0xa8 + 16 - 0x40);
	sc.bytes[SC_LOOP_AT + 8] = 0x85; /* not sub: where rsp is, is not known */
	assert_int_equal(sc_find(&sc, false, SC_BASE, &script), -ENOTSUP);
}

/* Ruby 3.3: the pointer to the VM is in the code of a function, and the VM's main thread leads back to the VM. */
static void test_ruby_vm(void **state)
{
	static const uint8_t load[] = {0x48, 0x8b, 0x2d}; /* mov n(%rip),%rbp */
	const uint64_t code = SC_LOOP + 16 + 18;
	uint64_t vm, thread;
	struct uw_script script;

	(void)state;
	sc_ruby_init(&sc);
	sc_set(&sc, sc.version_at + 2, '3', 1);
	memcpy(sc.bytes + (code - SC_BASE), load, sizeof(load));
	sc_set(&sc, code + 3, sc.symbols_at + 8 - (code + 7), 4);
	assert_int_equal(sc_find(&sc, true, SC_BASE, &script), 0);
	assert_int_equal(script.version, 0x303);
	assert_int_equal(script.offsets.frame_bytes, 56);
	assert_int_equal(script.current, sc.symbols_at + 8); /* not started yet */
	vm = sc_heap(&sc, 64);
	thread = sc_heap(&sc, 64);
	sc_set(&sc, sc.symbols_at + 8, vm, 8);
	assert_int_equal(sc_find(&sc, true, SC_BASE, &script), 0);
	assert_int_equal(script.current, 0);
	sc_set(&sc, vm + 40, thread, 8);
	sc_set(&sc, thread + 32, vm, 8);
	assert_int_equal(sc_find(&sc, true, SC_BASE, &script), 0);
	assert_int_equal(script.current, sc.symbols_at + 8);
	sc_set(&sc, code + 3, sc.version_at - (code + 7), 4); /* no data */
	assert_int_equal(sc_find(&sc, true, SC_BASE, &script), 0);
	assert_int_equal(script.current, 0);
}

static void test_unsupported(void **state)
{
	struct uw_script script;

	(void)state;
	sc_php_init(&sc);
	sc_set(&sc, sc.version_at + 21, '9', 1); /* API29220829 */
	assert_int_equal(sc_find(&sc, false, SC_BASE, &script), -ENOTSUP);
	sc_php_init(&sc);
	memcpy(sc.bytes + (sc.version_at + 18 - SC_BASE), "API20220829,TS", 15);
	assert_int_equal(sc_find(&sc, false, SC_BASE, &script), -ENOTSUP);
	sc_php_init(&sc);
	memset(sc.bytes + SC_LOOP_AT, 0x90, 64); /* no registers */
	assert_int_equal(sc_find(&sc, false, SC_BASE, &script), -ENOTSUP);
	assert_int_equal(sc_find(&sc, true, SC_BASE, &script), -ENOEXEC); /* PHP is not Ruby */
	sc_ruby_init(&sc);
	assert_int_equal(sc_find(&sc, false, SC_BASE, &script), -ENOEXEC);
	sc_set(&sc, sc.version_at + 2, '9', 1);
	assert_int_equal(sc_find(&sc, true, SC_BASE, &script), -ENOTSUP);
	sc_ruby_init(&sc);
	memset(sc.bytes + SC_LOOP_AT, 0x90, SC_LOOP_BYTES);
	assert_int_equal(sc_find(&sc, true, SC_BASE, &script), -ENOTSUP);
	sc.bytes[0] = 0;
	assert_int_equal(sc_find(&sc, true, SC_BASE, &script), -ENOEXEC);
	assert_int_equal(sc_find(&sc, true, SC_BASE + 2 * SC_BYTES, &script), -ENOEXEC);
}

static void test_paths(void **state)
{
	(void)state;
	assert_int_equal(uw_path_language("/usr/bin/php8.2"), UW_LANGUAGE_PHP);
	assert_int_equal(uw_path_language("/usr/sbin/php-fpm8.2"), UW_LANGUAGE_PHP);
	assert_int_equal(uw_path_language("/usr/bin/php-cgi"), UW_LANGUAGE_PHP);
	assert_int_equal(uw_path_language("/usr/lib/apache2/modules/libphp8.2.so"),
			 UW_LANGUAGE_PHP);
	assert_int_equal(uw_path_language("php"), UW_LANGUAGE_PHP);
	assert_int_equal(uw_path_language("/usr/bin/phpize8.2"), UW_LANGUAGE_NONE);
	assert_int_equal(uw_path_language("/usr/bin/php-config"), UW_LANGUAGE_NONE);
	assert_int_equal(uw_path_language("/usr/lib/libruby-3.1.so.3.1.7"), UW_LANGUAGE_RUBY);
	assert_int_equal(uw_path_language("/usr/bin/ruby3.1"), UW_LANGUAGE_RUBY);
	assert_int_equal(uw_path_language("/usr/bin/rubygems"), UW_LANGUAGE_NONE);
}

/* ---- names ---- */

static bool text_of_frame(struct uw_script *script, uint64_t function, uint64_t position,
			  struct script_text *text)
{
	uint64_t frame = uw_script_frame(function, position);
	const struct php_declared none = {.n = 0};
	struct vm_memory m;
	bool found;

	assert_int_equal(vm_memory_begin(&m, &sc.memory, 8), 0);
	found = sc.ruby ? ruby_text(&m, script, SC_BASE, frame, text)
			: php_text(&m, script, &none, frame, text);
	vm_memory_end(&m);
	return found;
}

static void expect_text(struct uw_script *script, uint64_t function, uint64_t position,
			const char *name, const char *file, uint32_t line)
{
	struct script_text text;

	assert_true(text_of_frame(script, function, position, &text));
	assert_string_equal(text.function, name);
	assert_string_equal(text.file, file);
	assert_int_equal(text.line, line);
}

static void test_php_names(void **state)
{
	uint64_t file, class, method, code, strlen_, name;
	struct script_text text;
	struct uw_script script;

	(void)state;
	sc_php_init(&sc);
	assert_int_equal(sc_find(&sc, false, SC_BASE, &script), 0);
	file = sc_string(&sc, "/x/a.php");
	class = sc_heap(&sc, 64);
	sc_set(&sc, class + 8, sc_string(&sc, "Shop\\Cart"), 8);
	method = sc_php_function(&sc, class, "total", file, 20);
	code = sc_php_function(&sc, 0, NULL, file, 1);
	strlen_ = sc_php_internal(&sc, "strlen", 0x1234);
	expect_text(&script, method, 0, "Shop\\Cart::total", "/x/a.php", 20);
	expect_text(&script, method, 9, "Shop\\Cart::total", "/x/a.php", 24);
	expect_text(&script, method, UW_SCRIPT_NO_POSITION, "Shop\\Cart::total", "/x/a.php", 20);
	/* The memory has another function by now: of none with so many instructions. */
	assert_false(text_of_frame(&script, method, SC_CODE, &text));
	expect_text(&script, code, 3, "{main}", "/x/a.php", 2);
	expect_text(&script, strlen_, UW_SCRIPT_NO_POSITION, "strlen", "", 0);
	assert_false(text_of_frame(&script, 8, 0, &text));
	/* A text that is too long is cut, bytes that are not characters are replaced. */
	sc_set(&sc, file + 16, 1ull << 40, 8);
	sc_set(&sc, file + 25, 0xff, 1);
	assert_false(text_of_frame(&script, method, 0, &text) &&
		     strlen(text.file) >= sizeof(text.file));
	sc_set(&sc, file + 16, 8, 8);
	expect_text(&script, method, 0, "Shop\\Cart::total", "/?/a.php", 20);
	/* An anonymous class: a NUL is before its place. */
	name = sc_string(&sc, "class@anonymous#/x/a.php:3$0");
	sc_set(&sc, name + 24 + strlen("class@anonymous"), 0, 1);
	sc_set(&sc, class + 8, name, 8);
	expect_text(&script, method, 9, "class@anonymous::total", "/?/a.php", 24);
	sc_set(&sc, name + 24, 0, 1);
	expect_text(&script, method, 9, "total", "/?/a.php", 24);
}

/* The function that a closure is a copy of has no class, or another closure's: it has that of the function that declares it. */
static void test_php_closure_names(void **state)
{
	static struct php_declared declared;
	uint64_t file, classes[2], methods[2], closure, list;
	struct script_text text;
	struct uw_script script;
	struct vm_memory m;
	uint32_t sign;

	(void)state;
	sc_php_init(&sc);
	assert_int_equal(sc_find(&sc, false, SC_BASE, &script), 0);
	file = sc_string(&sc, "/x/a.php");
	closure = sc_php_function(&sc, 0, "{closure}", file, 30);
	list = sc_heap(&sc, 8);
	sc_set(&sc, list, closure, 8);
	for (int i = 0; i < 2; i++) {
		classes[i] = sc_heap(&sc, 64);
		sc_set(&sc, classes[i] + 8, sc_string(&sc, i ? "Shop\\Order" : "Shop\\Cart"), 8);
		methods[i] = sc_php_function(&sc, classes[i], "total", file, 20);
		sc_set(&sc, methods[i] + 180, 1, 4);
		sc_set(&sc, methods[i] + 192, list, 8);
	}
	assert_int_equal(vm_memory_begin(&m, &sc.memory, 8), 0);
	for (int i = 0; i < 2; i++) {
		assert_true(script_sign_in_class(&m, &script, closure, classes[i], &sign));
		assert_false(
			php_text(&m, &script, &declared, uw_script_place(closure, 2, sign), &text));
		php_declare(&m, &script, &declared, uw_script_frame(methods[i], 0));
		php_declare(&m, &script, &declared, uw_script_frame(methods[i], 0));
		assert_int_equal(declared.n, i + 1);
		assert_true(
			php_text(&m, &script, &declared, uw_script_place(closure, 2, sign), &text));
		assert_string_equal(text.function,
				    i ? "Shop\\Order::{closure}" : "Shop\\Cart::{closure}");
		assert_int_equal(text.line, 31);
	}
	assert_true(php_text(&m, &script, &declared, uw_script_frame(closure, 2), &text));
	assert_string_equal(text.function, "{closure}");
	vm_memory_end(&m);
}

/* A method in C by its number: 169 is the last operator, 16 a number.  *ret_ids: where the names are found. */
static uint64_t ruby_method(const char *name, uint64_t *ret_ids)
{
	uint64_t ids = sc_heap(&sc, 40), strings = sc_heap(&sc, 8 * 512), more = sc_heap(&sc, 40),
		 method = sc_ruby_method(&sc, 1, SC_LOOP);

	sc_set(&sc, method + 24, 200 << 4 | 1, 8);
	sc_set(&sc, ids, 7 | 1 << 13 | 1 << 15, 8);
	sc_set(&sc, ids + 16, more, 8);
	sc_set(&sc, more, 7, 8);
	sc_set(&sc, more + 16, 512, 8);
	sc_set(&sc, more + 32, strings, 8);
	sc_set(&sc, strings + 16 * '+', sc_string(&sc, "+"), 8);
	sc_set(&sc, strings + 16 * 200, sc_string(&sc, name), 8);
	*ret_ids = ids;
	return method;
}

static void set_ruby_names(uint64_t ids)
{
	sc_set(&sc, sc.symbols_at + 8, 300, 4);
	sc_set(&sc, sc.symbols_at + 16, SC_HEAP, 8);
	sc_set(&sc, sc.symbols_at + 24, ids, 8);
	sc_set(&sc, sc.symbols_at + 32, SC_HEAP, 8);
}

static void test_ruby_names(void **state)
{
	uint64_t file, f, both, ids, method;
	struct script_text text;
	struct uw_script script;

	(void)state;
	sc_ruby_init(&sc);
	assert_int_equal(sc_find(&sc, true, SC_BASE, &script), 0);
	file = sc_string(&sc, "/x/a.rb");
	f = sc_ruby_function(&sc, "block in each", file, 10, 560);
	/* An instruction that ends at 5 begins at 4, the third place with a line. */
	expect_text(&script, f, 5, "block in each", "/x/a.rb", 12);
	expect_text(&script, f, 0, "block in each", "/x/a.rb", 10);
	expect_text(&script, f, 54, "block in each", "/x/a.rb", 36);
	expect_text(&script, f, 55, "block in each", "/x/a.rb", 37);
	expect_text(&script, f, 200, "block in each", "/x/a.rb", 109);
	expect_text(&script, f, UW_SCRIPT_NO_POSITION, "block in each", "/x/a.rb", 10);
	both = sc_heap(&sc, 40); /* [path, real path] in the array itself */
	sc_set(&sc, both, 7 | 1 << 13 | 2 << 15, 8);
	sc_set(&sc, both + 16, file, 8);
	f = sc_ruby_function(&sc, "g", both, 3, 4);
	expect_text(&script, f, 4, "g", "/x/a.rb", 4);
	assert_false(text_of_frame(&script, f, 5, &text));
	assert_false(text_of_frame(&script, file, 0, &text));
	method = ruby_method("each", &ids);
	assert_false(text_of_frame(&script, method, 0, &text));
	set_ruby_names(ids);
	expect_text(&script, method, 0, "each", "", 0);
	assert_int_equal(script.names, ids);
}

/* A process with names that are not found is not searched for each of its methods. */
static void test_ruby_search_ends(void **state)
{
	struct script_text text;
	struct uw_script script;
	uint64_t method, reads = 0;

	(void)state;
	sc_ruby_init(&sc);
	assert_int_equal(sc_find(&sc, true, SC_BASE, &script), 0);
	method = sc_ruby_method(&sc, 1, SC_LOOP);
	sc_set(&sc, method + 24, 200 << 4 | 1, 8);
	for (int i = 0; i < 100; i++) {
		uint64_t before = sc.reads;

		assert_false(text_of_frame(&script, method, 0, &text));
		reads = i ? reads : sc.reads - before;
		if (i >= 16)
			assert_true(sc.reads - before < reads);
	}
}

/* Up to 3.1: a table of values, an entry of 24 bytes each. */
static void set_class_table(uint64_t class, const uint64_t *values, size_t n)
{
	uint64_t rest = sc_heap(&sc, 64), table = sc_heap(&sc, 64), entries = sc_heap(&sc, 24 * n);

	sc_set(&sc, class + 24, rest, 8);
	sc_set(&sc, rest + 8, table, 8);
	sc_set(&sc, table + 40, n, 8);
	sc_set(&sc, table + 48, entries, 8);
	for (size_t i = 0; i < n; i++)
		sc_set(&sc, entries + 24 * i + 16, values[i], 8);
}

/* The method sqrt, found by name, and memory for its class. */
static uint64_t ruby_method_of_class(struct uw_script *ret_script, uint64_t *ret_class)
{
	uint64_t ids, method;

	sc_ruby_init(&sc);
	assert_int_equal(sc_find(&sc, true, SC_BASE, ret_script), 0);
	method = ruby_method("sqrt", &ids);
	set_ruby_names(ids);
	*ret_class = sc_heap(&sc, 40);
	return method;
}

static void test_ruby_classes(void **state)
{
	uint64_t method, class, single, words[3];
	struct uw_script script;

	(void)state;
	method = ruby_method_of_class(&script, &class);
	sc_set(&sc, class, 2, 8);
	words[0] = 9; /* a number */
	words[1] = sc_string(&sc, "a text");
	words[2] = sc_string(&sc, "Deep::Math2");
	set_class_table(class, words, 3);
	expect_text(&script, method, 0, "sqrt", "", 0);
	sc_set(&sc, method + 32, class, 8);
	expect_text(&script, method, 0, "Deep::Math2#sqrt", "", 0);
	single = sc_heap(&sc, 40);
	sc_set(&sc, single, 2, 8);
	sc_set(&sc, class + 8, single, 8);
	words[0] = class;
	set_class_table(single, words, 2);
	sc_set(&sc, method + 32, single, 8);
	expect_text(&script, method, 0, "Deep::Math2.sqrt", "", 0);
	sc_set(&sc, class + 8, class, 8); /* the class of no singleton */
	expect_text(&script, method, 0, "sqrt", "", 0);
	sc_set(&sc, class, 5, 8);
	sc_set(&sc, method + 32, class, 8);
	expect_text(&script, method, 0, "sqrt", "", 0);
}

/* Methods with an iseq have its file and line, and the class of the method entry. */
static void test_ruby_methods(void **state)
{
	uint64_t class, single, words[1], method, definition;
	struct script_text text;
	struct uw_script script;

	(void)state;
	(void)ruby_method_of_class(&script, &class);
	sc_set(&sc, class, 3, 8);
	words[0] = sc_string(&sc, "Shop::Cart");
	set_class_table(class, words, 1);
	single = sc_heap(&sc, 40);
	sc_set(&sc, single, 2, 8);
	sc_set(&sc, class + 8, single, 8);
	words[0] = class;
	set_class_table(single, words, 1);
	method = sc_ruby_method(&sc, 0,
				sc_ruby_function(&sc, "total", sc_string(&sc, "a.rb"), 7, SC_CODE));
	expect_text(&script, method, 3, "total", "a.rb", 8);
	sc_set(&sc, method + 32, class, 8);
	expect_text(&script, method, 3, "Shop::Cart#total", "a.rb", 8);
	sc_set(&sc, method + 32, single, 8);
	expect_text(&script, method, 3, "Shop::Cart.total", "a.rb", 8);
	assert_false(text_of_frame(&script, method, SC_CODE + 1, &text));
	memcpy(&definition, sc.bytes + (method + 16 - SC_BASE), 8);
	sc_set(&sc, definition + 8, UINT64_MAX - 7, 8);
	assert_false(text_of_frame(&script, method, 3, &text));
	sc_set(&sc, method + 16, UINT64_MAX - 7, 8);
	assert_false(text_of_frame(&script, method, 3, &text));
}

/* Wrong tables: endless, outside of the memory. */
static void test_ruby_wrong_classes(void **state)
{
	static const uint64_t wrong[] = {0, 7, SC_BASE + SC_BYTES, UINT64_MAX - 7, SC_HEAP};
	uint64_t method, class, rest, table;
	struct uw_script script;

	(void)state;
	method = ruby_method_of_class(&script, &class);
	rest = sc_heap(&sc, 64);
	table = sc_heap(&sc, 64);
	sc_set(&sc, class, 3, 8);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		sc_set(&sc, method + 32, wrong[i], 8);
		expect_text(&script, method, 0, "sqrt", "", 0);
		sc_set(&sc, method + 32, class, 8);
		sc_set(&sc, class + 24, wrong[i], 8);
		expect_text(&script, method, 0, "sqrt", "", 0);
		sc_set(&sc, class + 24, rest, 8);
		sc_set(&sc, rest + 8, wrong[i], 8);
		expect_text(&script, method, 0, "sqrt", "", 0);
		sc_set(&sc, rest + 8, table, 8);
		sc_set(&sc, table + 40, UINT64_MAX, 8);
		sc_set(&sc, table + 48, wrong[i], 8);
		expect_text(&script, method, 0, "sqrt", "", 0);
	}
}

/* From 3.2 on the values are in the class. */
static void test_ruby_sizes(void **state)
{
	struct uw_script script;
	uint64_t file, f, ids, method, class;

	(void)state;
	sc_ruby_init(&sc);
	sc.sizes = true;
	sc_set(&sc, sc.version_at + 2, '4', 1);
	assert_int_equal(sc_find(&sc, true, SC_BASE, &script), 0);
	file = sc_string(&sc, "/x/a.rb");
	f = sc_ruby_function(&sc, "Cart#total", file, 10, 60);
	expect_text(&script, f, 5, "Cart#total", "/x/a.rb", 12);
	expect_text(&script, f, UW_SCRIPT_NO_POSITION, "Cart#total", "/x/a.rb", 10);
	method = ruby_method("times", &ids);
	set_ruby_names(ids);
	class = sc_heap(&sc, 320);
	sc_set(&sc, class, 3, 8);
	sc_set(&sc, class + 24 + 8 * 16, sc_string(&sc, "Integer"), 8);
	sc_set(&sc, class + 24 + 8 * 17, sc_string(&sc, "Next"), 8); /* the object behind */
	sc_set(&sc, method + 32, class, 8);
	expect_text(&script, method, 0, "Integer#times", "", 0);
	sc_set(&sc, class + 24 + 8 * 16, 0, 8);
	expect_text(&script, method, 0, "times", "", 0);
	sc_set(&sc, sc.version_at + 2, '2', 1); /* 3.2: an array */
	assert_int_equal(sc_find(&sc, true, SC_BASE, &script), 0);
	sc_set(&sc, class + 24 + 8, class + 200, 8);
	sc_set(&sc, class + 200 + 8, sc_string(&sc, "Array"), 8);
	expect_text(&script, method, 0, "Array#times", "", 0);
}

/* Data at the end of all addresses: the search for the names of methods ends. */
static void test_ruby_wrap(void **state)
{
	const Elf64_Phdr data = {
		.p_type = PT_LOAD,
		.p_flags = PF_R | PF_W,
		.p_vaddr = UINT64_MAX - 15 - SC_BASE,
		.p_memsz = 8,
	};
	struct script_text text;
	struct uw_script script;
	struct vm_exports x;
	struct vm_memory m;
	uint64_t method;

	(void)state;
	sc_ruby_init(&sc);
	assert_int_equal(sc_find(&sc, true, SC_BASE, &script), 0);
	method = sc_heap(&sc, 40);
	sc_set(&sc, method, 0x1a | 6 << 12, 8);
	sc_set(&sc, method + 24, 200 << 4 | 1, 8);
	memcpy(sc.bytes + sizeof(Elf64_Ehdr) + 2 * sizeof(data), &data, sizeof(data));
	assert_false(text_of_frame(&script, method, 0, &text));
	assert_int_equal(vm_memory_begin(&m, &sc.memory, 8), 0);
	assert_true(vm_exports_of(&m, SC_BASE, &x));
	assert_int_equal(x.data.start, 0);
	assert_int_equal(x.n_constants, 1);
	vm_memory_end(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layout),
		cmocka_unit_test(test_php_frame_pointers),
		cmocka_unit_test(test_ruby_vm),
		cmocka_unit_test(test_unsupported),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_php_names),
		cmocka_unit_test(test_php_closure_names),
		cmocka_unit_test(test_ruby_names),
		cmocka_unit_test(test_ruby_search_ends),
		cmocka_unit_test(test_ruby_classes),
		cmocka_unit_test(test_ruby_methods),
		cmocka_unit_test(test_ruby_wrong_classes),
		cmocka_unit_test(test_ruby_sizes),
		cmocka_unit_test(test_ruby_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
