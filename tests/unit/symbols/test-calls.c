/* test-calls.c - which calls hold an address: the walk (first question of a unit) and the flat
 * ranges (all others) have the same answer, for every address of a program with inlined calls in two parts,
 * loops and methods. */
#include "tests/unit/unwinder/unwinder-fixture.h"

#include <dwarf.h>

#include "symbols/calls.h"

static char dir[64];

static const char program[] =
	"volatile int sink;\n"
	"static inline __attribute__((always_inline)) int leaf(int x) {\n"
	"	if (__builtin_expect(x > 100, 0)) { sink = 1; __builtin_trap(); }\n"
	"	return sink + x;\n"
	"}\n"
	"static inline __attribute__((always_inline)) int middle(int x) {\n"
	"	int n = 0;\n"
	"	for (int i = 0; i < x; i++) n += leaf(i) * leaf(x);\n"
	"	return n;\n"
	"}\n"
	"namespace a { struct S { static __attribute__((noinline)) int f(int x) { return middle(x) "
	"- leaf(x); } }; }\n"
	"__attribute__((noinline)) int g(int x) { return middle(x) + middle(x + 1); }\n"
	"int main(int n, char **) { return g(n) + a::S::f(n); }\n";

static Dwarf *open_program(const char *compiler, int *ret_fd)
{
	char path[128];
	Dwarf *dwarf;

	if (!have(compiler))
		return NULL;
	(void)snprintf(path, sizeof(path), "%s/a.cc", dir);
	file_write(path, program, sizeof(program) - 1);
	if (!shell("cd %s && %s -x c++ -O2 -g -o a a.cc", dir, compiler))
		return NULL;
	(void)snprintf(path, sizeof(path), "%s/a", dir);
	*ret_fd = open_or_die(path);
	dwarf = dwarf_begin(*ret_fd, DWARF_C_READ);
	assert_non_null(dwarf);
	return dwarf;
}

/* The unit of a.cc: the only one in C++. */
static void find_unit(Dwarf *dwarf, Dwarf_Die *ret_cu)
{
	Dwarf_Off at = 0, next;
	size_t header;

	for (; dwarf_nextcu(dwarf, at, &next, &header, NULL, NULL, NULL) == 0; at = next) {
		assert_non_null(dwarf_offdie(dwarf, at + header, ret_cu));
		if (dwarf_srclang(ret_cu) != DW_LANG_Mips_Assembler && dwarf_diename(ret_cu) &&
		    strstr(dwarf_diename(ret_cu), "a.cc"))
			return;
	}
	fail_msg("no unit of a.cc");
}

static size_t compare(struct uw_calls *flat, Dwarf *dwarf, Dwarf_Die *cu, uint64_t address)
{
	Dwarf_Die by_walk[UW_CALLS_MAX], by_table[UW_CALLS_MAX];
	struct uw_calls fresh = {0};
	size_t n = uw_calls_find(&fresh, dwarf, cu, address, by_walk);

	assert_int_equal(uw_calls_find(flat, dwarf, cu, address, by_table), n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(dwarf_dieoffset(&by_table[i]), dwarf_dieoffset(&by_walk[i]));
	uw_calls_deinit(&fresh);
	return n;
}

static void check_with(const char *compiler)
{
	struct uw_calls flat = {0};
	size_t inlined = 0, deepest = 0;
	Dwarf_Addr base, low, high;
	ptrdiff_t step = 0;
	Dwarf_Die cu;
	int fd = -1;
	Dwarf *dwarf = open_program(compiler, &fd);

	if (!dwarf)
		return;
	find_unit(dwarf, &cu);
	while ((step = dwarf_ranges(&cu, step, &base, &low, &high)) > 0) {
		for (uint64_t a = low - 1; a <= high; a++) {
			size_t n = compare(&flat, dwarf, &cu, a);

			inlined += n > 1;
			deepest = n > deepest ? n : deepest;
		}
	}
	assert_true(inlined > 20);
	assert_int_equal(deepest, 3); /* leaf in middle in g */
	assert_true(flat.n_ranges >= 9);
	assert_int_equal(compare(&flat, dwarf, &cu, 0), 0);
	assert_int_equal(compare(&flat, dwarf, &cu, UINT64_MAX), 0);
	uw_calls_deinit(&flat);
	assert_int_equal(dwarf_end(dwarf), 0);
	fd_close(fd);
}

static void test_same(void **state)
{
	(void)state;
	check_with("g++");
	check_with("clang++");
}

static int setup(void **state)
{
	(void)state;
	(void)snprintf(dir, sizeof(dir), "/tmp/test-calls-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return shell("rm -rf %s", dir) ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_same)};

	return cmocka_run_group_tests(tests, setup, teardown);
}
