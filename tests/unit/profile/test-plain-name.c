/* test-plain-name.c - names of functions as a person types them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/plain-name.h"
#include "tests/unit/cmocka.h"

static void plain_names(void **state)
{
	static const struct {
		const char *name, *plain;
	} rows[] = {
		{"main", "main"},
		{"f(int, char)", "f"},
		{"ns::type<int>::f<long>(int) const", "ns::type::f"},
		{"(anonymous namespace)::f(int)", "f"},
		{"ns::(anonymous namespace)::f(int)", "ns::f"},
		{"f[abi:cxx11](int)", "f"},
		{"f(int) [clone .cold]", "f"},
		{"__gnu_cxx::__normal_iterator<int*, std::vector<int> >::operator++()",
		 "__gnu_cxx::__normal_iterator::operator++"},
		{"std::less<int>::operator()(int const&) const", "std::less::operator()"},
		{"operator<< <std::char_traits<char> >(int)", "operator<<"},
		{"std::operator==<char, std::char_traits<char>, std::allocator<char> >(int)",
		 "std::operator=="},
		{"std::operator+<char>(char const*)", "std::operator+"},
		{"X::operator[]<int>(int)", "X::operator[]"},
		{"X::operator-><int>()", "X::operator->"},
		{"X::operator->*<int>()", "X::operator->*"},
		{"X::operator<(X const&)", "X::operator<"},
		{"operator< <int>(int)", "operator<"},
		{"operator<=><int>(int)", "operator<=>"},
		{"X::operator()<int>(int)", "X::operator()"},
		{"operator new[](unsigned long)", "operator new[]"},
		{"operator delete(void*)", "operator delete"},
		{"X::operator bool() const", "X::operator bool"},
		{"operator\"\" _km<int>(int)", "operator\"\" _km"},
		{"X::operator co_await()", "X::operator co_await"},
		{"p<&a->b>::f()", "p::f"},
		{"operators(int)", "operators"},
		/* functions inside of a function */
		{"sum(std::vector<int> const&)::{lambda(int)#1}::operator()(int) const",
		 "sum::{lambda(int)#1}::operator()"},
		{"sum(const std::vector<int>&)::<lambda(int)>", "sum::<lambda(int)>"},
		{"A::f() const::B::g()", "A::f::B::g"},
		/* Rust */
		{"<alloc::vec::Vec<T> as core::ops::Drop>::drop", "::drop"},
		{"core::ptr::drop_in_place<T>", "core::ptr::drop_in_place"},
		{"a::b::{{closure}}", "a::b::{{closure}}"},
		/* not balanced, empty */
		{"f<int", "f"},
		{"f(int", "f"},
		{"{f", "{f"},
		{"", ""},
		{"main.(*T).f", "main."},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char to[128];

		plain_name(rows[i].name, to, sizeof(to));
		assert_string_equal(to, rows[i].plain);
	}
}

static void long_names_are_cut(void **state)
{
	char to[4];

	(void)state;
	plain_name("abcdef", to, sizeof(to));
	assert_string_equal(to, "abc");
	plain_name("a{bcdef}", to, sizeof(to));
	assert_string_equal(to, "a{b");
}

/* Not in quadratic time, which would be minutes. */
static void brackets_that_never_close(void **state)
{
	static const char *const units[] = {"{", "[abi:"};
	enum { LENGTH = 5 << 18 };
	char *name = malloc(LENGTH + 1), *to = malloc(LENGTH + 1);

	(void)state;
	assert_non_null(name);
	assert_non_null(to);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t n = strlen(units[i]);

		for (size_t at = 0; at < LENGTH; at++)
			name[at] = units[i][at % n];
		name[LENGTH] = 0;
		plain_name(name, to, LENGTH + 1);
		assert_string_equal(to, name);
	}
	free(name);
	free(to);
}

static void last_parts_fit(void **state)
{
	static const struct {
		const char *name, *wanted, *separators;
		int fits;
	} rows[] = {
		{"ns::type::f", "ns::type::f", "", 2},
		{"ns::type::f", "type::f", "", 1},
		{"ns::type::f", "f", "", 1},
		{"ns::type::ff", "f", "", 0},
		{"ns::type::f", "ns::type", "", 0},
		{"ns::f", ":f", "", 0},
		{"f", "ns::f", "", 0},
		{"f", "", "", 0},
		{"Class.f", "f", ".#\\", 1},
		{"Class.f", "f", "", 0},
		{"Zoo\\{closure}", "{closure}", ".#\\", 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(plain_name_fits(rows[i].name, strlen(rows[i].name), rows[i].wanted,
						 rows[i].separators),
				 rows[i].fits);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_names),
		cmocka_unit_test(long_names_are_cut),
		cmocka_unit_test(brackets_that_never_close),
		cmocka_unit_test(last_parts_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
