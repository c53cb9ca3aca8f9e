/* test-demangle.c - what a name looks like to a person, and names made to hurt. */
#include "tests/unit/unwinder/fixture.h"

#include "unwinder/names.h"

static void test_names(void **state)
{
	static const char *const names[][2] = {
		{"main", "main"},
		{"", ""},
		{"_", "_"},
		{"_Z", "_Z"},
		{"_ZZZ", "_ZZZ"},
		{"_start", "_start"},
		/* C++ */
		{"_Z3fooi", "foo(int)"},
		{"_ZN3Foo3barEv", "Foo::bar()"},
		{"_ZNK3Foo3barEv", "Foo::bar() const"},
		{"_Z3fooIiEvT_", "foo<int>(int)"}, /* no "void" in front */
		{"_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()() const"},
		{"_ZN3FooC1Ev", "Foo::Foo()"},
		/* clones */
		{"_Z3fooi.cold", "foo(int) [clone .cold]"},
		{"_Z3fooi.part.0", "foo(int) [clone .part.0]"},
		{"_Z3fooi.isra.0", "foo(int) [clone .isra.0]"},
		{"_Z3foov.llvm.123", "foo() [clone .llvm.123]"},
		{"foo.cold", "foo.cold"},
		{"foo.part.0", "foo.part.0"},
		/* versions and stubs */
		{"memcpy@@GLIBC_2.14", "memcpy"},
		{"memcpy@GLIBC_2.2.5", "memcpy"},
		{"_ZNSt6thread4joinEv@@GLIBCXX_3.4.11", "std::thread::join()"},
		{"puts@plt", "puts@plt"},
		{"_Z3fooi@plt", "foo(int)@plt"},
		{"memcpy@GLIBC_2.2.5@plt", "memcpy@plt"},
		{"@plt", "@plt"},
		{"@", "@"},
		{"@@", "@@"},
		{"a@", "a@"},
		{"a@@", "a@@"},
		/* names of JITs stay */
		{"f@file.js:3", "f@file.js:3"},
		{"f@10", "f@10"},
		{"LazyCompile:~f /a/b.js:1", "LazyCompile:~f /a/b.js:1"},
		{"py::f:/usr/lib/x.py", "py::f:/usr/lib/x.py"},
		/* Rust */
		{"_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place"},
		{"_ZN4core3ptr13drop_in_place17h0123456789abcdefE.llvm.42", "core::ptr::drop_in_place"},
		{"_ZN50_$LT$T$u20$as$u20$core..convert..Into$LT$U$GT$$GT$4into17h0123456789abcdefE",
		 "<T as core::convert::Into<U>>::into"},
		{"_RNvCs1234_7mycrate3foo", "mycrate::foo"},
		{"_RNvC7mycrateu8gdel_5qa", "mycrate::g\303\266del"},
		{"_R", "_R"},
		{"_RX", "_RX"},
		/* D */
		{"_Dmain", "D main"},
		{"_D3std5stdio7writelnFZv", "std.stdio.writeln"},
		{"_D3foo3Bar6__ctorMFiZC3foo3Bar", "foo.Bar.this"},
		{"_D3foo8__T3barZ3bazFZv", "foo.bar!(...).baz"},
		{"_D3foo__T3barTiZQhFZv", "foo.bar!(...)"},
		{"_D3fooQeFZv", "foo.foo"}, /* a reference 4 back */
		{"_D3fooQzFZv", "_D3fooQzFZv"},
		{"_D3fooQ", "_D3fooQ"},
		{"_D99foo", "_D99foo"},
		{"_D99999999999999999999foo", "_D99999999999999999999foo"},
		{"_D0", "_D0"},
		{"_D", "_D"},
		{"_Destroy", "_Destroy"},
	};
	char out[256];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		memset(out, 'x', sizeof(out));
		uw_demangle(names[i][0], out, sizeof(out));
		if (strcmp(out, names[i][1]) != 0)
			fail_msg("%s: got \"%s\", not \"%s\"", names[i][0], out, names[i][1]);
	}
}

static void test_size(void **state)
{
	static const char full[] = "foo(int)@plt";
	char out[32];

	(void)state;
	uw_demangle("_Z3fooi@plt", out, 0);
	for (size_t size = 1; size < sizeof(out); size++) {
		memset(out, 'x', sizeof(out));
		uw_demangle("_Z3fooi@plt", out, size);
		assert_int_equal(strlen(out), min_u64(size - 1, strlen(full)));
		assert_memory_equal(out, full, strlen(out));
		if (size < sizeof(out) - 1)
			assert_int_equal(out[size], 'x');
	}
	uw_demangle("_RNvC7mycrateu8gdel_5qa", out, 12);
	assert_string_equal(out, "mycrate::g"); /* no half of a character */
	uw_demangle("_RNvC7mycrateu8gdel_5qa", out, 13);
	assert_string_equal(out, "mycrate::g\303\266");
	uw_demangle("\303\266\303\266", out, 4);
	assert_string_equal(out, "\303\266");
}

/* Each pair is made of two of the one before: 2^40 words of text in 300 bytes. */
static void test_doubling(void **state)
{
	char name[4096] = "_Z1fSt4pairIiiE", out[1024];

	(void)state;
	for (unsigned i = 0; i < 40; i++) {
		char id[8], one[32];

		if (i == 0)
			strcpy(id, "S_");
		else
			(void)snprintf(id, sizeof(id), "S%s%c_", i > 36 ? "1" : "",
				       (i - 1) % 36 < 10 ? '0' + (char)((i - 1) % 36) : 'A' + (char)((i - 1) % 36 - 10));
		(void)snprintf(one, sizeof(one), "St4pairI%s%sE", id, id);
		strcat(name, one);
	}
	uw_demangle(name, out, sizeof(out));
	assert_int_equal(strlen(out), sizeof(out) - 1);
	assert_memory_equal(out, "f(std::pair<int, int>", 21);
}

/* Rust's v0 form doubles by back references; with an identifier that libiberty holds memory for. */
static void test_rust_doubling(void **state)
{
	char name[512] = "_RIC1aTu8gdel_5qaTB4_B4_E", out[64];

	(void)state;
	uw_demangle("_RINvC1a1fTNtC1au8gdel_5qaB4_EE", out, sizeof(out));
	assert_in_range(strlen(out), 1, sizeof(out) - 1);
	for (unsigned i = 0; i < 30; i++)
		strcat(name, "TB4_B4_E");
	uw_demangle(name, out, sizeof(out)); /* too many references: as it is, and at once */
	assert_int_equal(strlen(out), sizeof(out) - 1);
	assert_memory_equal(out, "_RIC1a", 6);
}

static void test_long(void **state)
{
	static char name[100000];
	char out[200];

	(void)state;
	/* deep nesting: refused or cut, at any length */
	for (size_t len = 10; len < sizeof(name) - 10; len += len / 3) {
		static const char *const parts[] = {"P", "F", "M", "N1a", "I", "cl", "on", "XadL", "Dp", "1f"};

		for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
			size_t at = 5;

			strcpy(name, "_Z1fI");
			while (at < len) {
				strcpy(name + at, parts[i]);
				at += strlen(parts[i]);
			}
			strcpy(name + at, "iEvv");
			uw_demangle(name, out, sizeof(out));
			assert_in_range(strlen(out), 1, sizeof(out) - 1);
		}
	}
	memset(name, 'a', sizeof(name) - 1);
	uw_demangle(name, out, sizeof(out));
	assert_int_equal(strlen(out), sizeof(out) - 1);
	/* a template of two thousand bytes is no attack */
	strcpy(name, "_Z1fIJ");
	for (unsigned i = 0; i < 300; i++)
		strcat(name, "7Element");
	strcat(name, "EEvv");
	uw_demangle(name, out, sizeof(out));
	assert_memory_equal(out, "f<Element, Element", 18);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_size),
		cmocka_unit_test(test_doubling),
		cmocka_unit_test(test_rust_doubling),
		cmocka_unit_test(test_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
