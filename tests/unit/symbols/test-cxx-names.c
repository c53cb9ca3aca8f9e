/* test-cxx-names.c - names of inlined C++ functions; the judge is the compiler's own mangling: each function of the program has a
 * symbol where nothing is inlined. */
#include <dwarf.h>

#include "tests/unit/unwinder/unwinder-fixture.h"

#include "symbols/cxx-names.h"
#include "symbols/demangle.h"
#include "symbols/elf.h"
#include "symbols/lines.h"

static const char program[] =
	"#include <string>\n"
	"#include <vector>\n"
	"volatile int sink;\n"
	"#define NOINLINE __attribute__((noinline))\n"
	"template<class F> NOINLINE static int far(F f, int n) { int s = 0; for (int i = 0; i < n; "
	"i++) s += f(i); return s; }\n"
	"template<class F> static int near(F f, int n) { int s = 0; for (int i = 0; i < n; i++) s "
	"+= f(i); return s; }\n"
	"namespace shop {\n"
	"struct Cart { int k;\n"
	"	NOINLINE int total(int n) {\n"
	"		auto a = [this](int i) { sink = i; return i * k; };\n"
	"		auto b = [this](int i) { sink = i * 3; return i - k; };\n"
	"		auto c = [](long i) { sink = i * 7; return (int)i + 4; };\n"
	"		return near(a, n) + near(b, n) + far(c, n) + far(a, n);\n"
	"	}\n"
	"};\n"
	"namespace {\n"
	"enum Colour { RED, BLUE };\n"
	"template<class T, int N, bool B, Colour C, unsigned long L> struct Box {\n"
	"	T t; int operator()(int i) const { sink = i * 41; return i + N + B + C + L; }\n"
	"	int operator<<(T x) { sink = x * 41; return N; }\n"
	"	template<class U> int operator<(U x) const { sink = x * 43; return N; }\n"
	"	static int make(Box &&b, T *const *p, const volatile T &v) { sink = v * 3; return "
	"b.t + (p != nullptr); }\n"
	"};\n"
	"template<class... A> int pack(A... a) { return ((sink = a * 45), ...), sizeof...(a); }\n"
	"int types(int (*f)(char, ...), int (&a)[3], int Cart::*m, int (Cart::*t)(int), const "
	"std::string &s, std::vector<long> *v,\n"
	"	  unsigned long long u, short w, unsigned char c, void *p, decltype(nullptr)) {\n"
	"	sink = a[1] + (f != nullptr) + (m != nullptr) + (t != nullptr) + s.size() + (v != "
	"nullptr) + u + w + c + (p != nullptr); return 7; }\n"
	"NOINLINE int hidden(int n) {\n"
	"	auto a = [](int i) { sink = i * 5; return i ^ 3; };\n"
	"	auto b = [](int i) { sink = i * 9; return i ^ 4; };\n"
	"	Box<short, -3, true, BLUE, 9> box{1}; int three[3] = {n, n, n};\n"
	"	return pack(1, 2l) + near(a, n) + far(b, n) + near(box, n) + (box << 4) + (box < "
	"5L) + "
	"Box<short, -3, true, BLUE, 9>::make(std::move(box), nullptr, box.t) +\n"
	"	       types(nullptr, three, nullptr, nullptr, \"\", nullptr, 3, 4, 5, nullptr, "
	"nullptr);\n"
	"}\n"
	"}\n"
	"NOINLINE int visible(int n) {\n"
	"	return hidden(n) + near([](auto i) { sink = i * 11; return i + 5; }, n) +\n"
	"	       near([](auto i) { sink = i * 12; return i + 6; }, n) + far([](const auto "
	"&i) { sink = i * 13; return i + 7; }, n);\n"
	"}\n"
	"template<class T> NOINLINE T temp(T n) {\n"
	"	auto a = [n](int i) { sink = i * 15; return i ^ (int)n; };\n"
	"	auto b = [n](int i) { sink = i * 17; return i + (int)n; };\n"
	"	return near(a, n) + far(b, n);\n"
	"}\n"
	"inline int open(int n) { return near([n](int i) { sink = i * 19; return i ^ n; }, n) + "
	"far([n](int i) { sink = i * 21; return i + n; }, n); }\n"
	"}\n"
	"auto shared = [](int i) { sink = i * 23; return i; };\n"
	"static const auto own = [](int i) { sink = i * 25; return i; };\n"
	"struct M { int call(int n) { auto o = [n](int i) {\n"
	"	auto in = [i](int j) { sink = j * 29; return j + i; }; return near(in, n) + "
	"far(in, 3); }; return near(o, n) + far(o, n); } };\n"
	"extern \"C\" { inline int plain(int n) { sink = n * 3; return n; } }\n"
	"int main(int argc, char **) {\n"
	"	int n = argc; shop::Cart cart{argc};\n"
	"	auto a = [](int i) { sink = i * 31; return i + 1; };\n"
	"	auto b = [](int i, const char *const *p, unsigned long u) { sink = i * 33 + (p == "
	"nullptr); return i + u; };\n"
	"	auto unused = [](int i) { return i + 77; };\n"
	"	auto d = [&]() { sink = n * 35; return n; };\n"
	"	int r = plain(n) + cart.total(n) + shop::visible(n) + shop::temp<int>(n) + "
	"shop::temp<long>(n) + shop::open(n) + near(shared, n) + far(own, n) +\n"
	"		M().call(n);\n"
	"	if (argc > 2) { auto e = [](int i) { sink = i * 37; return i + 4; }; r += near(e, "
	"n); }\n"
	"	auto m = [n](int i) mutable { sink = i * 39; return n++ + i; };\n"
	"	return r + near(a, n) + b(n, nullptr, 7) + far(a, n) + d() + near(m, n) + "
	"far([&](int i) { return d() + i; }, n) == 5;\n"
	"}\n";

enum { NAMES_MAX = 512, NAME_BYTES = 512 };

struct names {
	unsigned n;
	char names[NAMES_MAX][NAME_BYTES];
};

static bool has(const struct names *names, const char *name)
{
	for (unsigned i = 0; i < names->n; i++)
		if (!strcmp(names->names[i], name))
			return true;
	return false;
}

static void add_name(struct names *names, const char *name)
{
	if (has(names, name))
		return;
	assert_true(names->n < NAMES_MAX && strlen(name) < NAME_BYTES);
	(void)snprintf(names->names[names->n++], NAME_BYTES, "%s", name);
}

static void add_line(void *arg, const struct uw_line *line)
{
	add_name(arg, line->function);
}

/* The symbols of functions in a file made by nm. */
static void read_symbols(const char *file, struct names *to)
{
	_cleanup_(file_closep) FILE *f = NULL;
	char path[128], line[4096], found[2048], name[NAME_BYTES], type;

	to->n = 0;
	(void)snprintf(path, sizeof(path), "%s/%s", fixture_dir, file);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%*x %c %2047s", &type, found) != 2 || !strchr("TtWw", type))
			continue;
		uw_demangle(found, name, sizeof(name));
		add_name(to, name);
	}
}

/* The names of all functions, inlined or not, of all code of a program. */
static void read_names(const char *file, struct names *to)
{
	struct uw_lines *lines;
	struct uw_source source;
	const Elf64_Shdr *text;
	struct uw_elf elf;
	char path[128];

	to->n = 0;
	(void)snprintf(path, sizeof(path), "%s/%s", fixture_dir, file);
	source = (struct uw_source){.fd = open_or_die(path)};
	assert_int_equal(uw_elf_open(&elf, &source), 0);
	assert_int_equal(uw_lines_new(&elf, path, &source, &lines), 0);
	text = uw_elf_section(&elf, ".text");
	for (uint64_t i = 0; i < text->sh_size; i++)
		assert_true(uw_lines_at(lines, text->sh_addr + i, add_line, to) >= 0);
	uw_lines_free(lines);
	uw_elf_close(&elf);
	fd_close(source.fd);
}

static bool build(const char *compiler, const char *flags)
{
	char path[128];

	if (!have(compiler) || !have("nm"))
		return false;
	(void)snprintf(path, sizeof(path), "%s/n.cc", fixture_dir);
	file_write(path, program, sizeof(program) - 1);
	return shell("cd %s && %s -w -O2 -g %s -fno-exceptions -o fast n.cc && %s -w -O0 -o slow "
		     "n.cc && nm slow >symbols",
		     fixture_dir, compiler, flags, compiler);
}

static struct names names, symbols;

static uint64_t number_in(const char *path)
{
	_cleanup_(file_closep) FILE *f = fopen(path, "re");
	uint64_t number = 0;

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lx", &number), 1);
	return number;
}

/* Of the libraries; or by a number that clang gives when it emits the lambda. */
static bool is_elsewhere(const char *name)
{
	return !strncmp(name, "std::", 5) || strstr(name, "$_") || name[0] == '_';
}

static bool has_prefix(const struct names *all, const char *prefix)
{
	for (unsigned i = 0; i < all->n; i++)
		if (!strncmp(all->names[i], prefix, strlen(prefix)))
			return true;
	return false;
}

static void check_compiler(const char *compiler, const char *flags, const char *const *wanted,
			   size_t n_wanted)
{
	if (!build(compiler, flags))
		skip();
	read_symbols("symbols", &symbols);
	read_names("fast", &names);
	for (unsigned i = 0; i < names.n; i++)
		if (!has(&symbols, names.names[i]) && !is_elsewhere(names.names[i]))
			fail_msg("%s %s: no symbol of %s", compiler, flags, names.names[i]);
	for (size_t i = 0; i < n_wanted; i++)
		if (!has_prefix(&names, wanted[i]))
			fail_msg("%s %s: not found: %s", compiler, flags, wanted[i]);
}

static void test_gcc(void **state)
{
	/* up to a number that depends on the version of g++ */
	static const char *const wanted[] = {
		"main::{lambda(int)#1}::operator()(int) const",
		"main::{lambda(int, char const* const*, unsigned long)#",
		"main::{lambda()#",
		"shop::Cart::total(int)::{lambda(int)#2}::operator()(int) const",
		"shop::(anonymous namespace)::hidden(int)::{lambda(int)#2}::operator()(int) const",
		"shop::visible(int)::{lambda(auto:1)#2}::operator()<int>(int) const",
		"shop::visible(int)::{lambda(auto:1 const&)#",
		"M::call(int)::{lambda(int)#1}::operator()(int) "
		"const::{lambda(int)#1}::operator()(int) const",
		"own::{lambda(int)#1}::operator()(int) const",
		"int near<main::{lambda(int)#1}>(main::{lambda(int)#1}, int)" + 4,
		"shop::(anonymous namespace)::types(int (*)(char, ...), int (&) [3], int "
		"shop::Cart::*, ",
		"int shop::(anonymous namespace)::pack<int, long>(int, long)" + 4,
		"plain",
	};
	static const char *const flags[] = {"", "-gdwarf-4", "-gdwarf-4 -fdebug-types-section",
					    "-std=c++20"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++)
		check_compiler("g++", flags[i], wanted, ARRAY_SIZE(wanted));
}

/* From g++ 13 on the lambdas of each signature have numbers of their own. */
static void test_numbers_by_signature(void **state)
{
	(void)state;
	if (!build("g++", "-gno-record-gcc-switches") ||
	    !shell("cd %s && LC_ALL=C sed -i 's/\\(GNU C++[0-9]* \\)1[0-2]\\./\\113./' fast && "
		   "grep -q 'GNU C++[0-9]* 13\\.' fast",
		   fixture_dir))
		skip();
	read_names("fast", &names);
	assert_true(has(&names, "main::{lambda(int)#1}::operator()(int) const"));
	assert_true(has(&names,
			"main::{lambda(int, char const* const*, unsigned "
			"long)#1}::operator()(int, char const* const*, unsigned long) const"));
	assert_true(has(&names, "main::{lambda()#1}::operator()() const"));
	assert_true(
		has(&names,
		    "main::{lambda(int)#3}::operator()(int) const")); /* e, behind a and unused */
	assert_true(has(&names, "main::{lambda(int)#4}::operator()(int)"));
}

/* clang has linkage names of all. */
static void test_clang(void **state)
{
	static const char *const wanted[] = {
		"shop::Cart::total(int)::{lambda(int)#2}::operator()(int) const",
		"M::call(int)::{lambda(int)#1}::operator()(int) "
		"const::{lambda(int)#1}::operator()(int) const",
		"plain",
	};

	(void)state;
	check_compiler("clang++", "", wanted, ARRAY_SIZE(wanted));
	check_compiler("clang++", "-gdwarf-4", wanted, ARRAY_SIZE(wanted));
}

static bool has_suffix(const char *name, const char *suffix)
{
	size_t len = strlen(name), n = strlen(suffix);

	return len >= n && !strcmp(name + len - n, suffix);
}

/* Without types a function has no parameters in DWARF, which does not show that it takes none. */
static void test_without_types(void **state)
{
	static const char *const ways[][2] = {{"g++", "-g1"}, {"clang++", "-gmlt"}};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		if (!build(ways[i][0], ways[i][1]))
			skip();
		read_names("fast", &names);
		assert_true(has(&names, "main"));
		for (unsigned k = 0; k < names.n; k++)
			if (has_suffix(names.names[k], "()") &&
			    !has_suffix(names.names[k], "operator()") &&
			    !is_elsewhere(names.names[k]))
				fail_msg("%s %s: %s", ways[i][0], ways[i][1], names.names[k]);
	}
}

/* Names are kept, and count as memory of the module. */
static void test_bytes(void **state)
{
	struct uw_source source;
	struct uw_module *m;
	const Elf64_Shdr *text;
	struct uw_elf elf;
	size_t before = 0;
	char path[128];

	(void)state;
	if (!build("g++", ""))
		skip();
	(void)snprintf(path, sizeof(path), "%s/fast", fixture_dir);
	source = (struct uw_source){.fd = open_or_die(path)};
	assert_int_equal(uw_module_new(UW_MODULE_FILE, path, NULL, &m), 0);
	assert_int_equal(uw_elf_open(&elf, &source), 0);
	text = uw_elf_section(&elf, ".text");
	names.n = 0;
	for (uint64_t i = 0; i < text->sh_size; i++) {
		assert_true(uw_module_lines(m, &source, text->sh_addr + i, add_line, &names) >= 0);
		before = before ? before : uw_module_bytes(m);
	}
	assert_true(uw_module_bytes(m) > before + 2000);
	uw_module_drop_lines(m);
	assert_int_equal(uw_module_bytes(m), 0);
	uw_module_unref(m);
	uw_elf_close(&elf);
	fd_close(source.fd);
}

/* DWARF 4 by hand.  Each piece of code refers to one DIE that leads nowhere, or too far; its name is then the plain one. */
static const char hostile[] =
	".text\n.globl code\ncode: .rept 128; nop; .endr\n"
	".section .debug_abbrev\n"
	".byte 1,0x11,1, 0x13,0x0b, 0x11,0x01, 0x12,0x07, 0,0\n" /* unit: language, addresses */
	".byte 2,0x2e,0, 0x31,0x13, 0x11,0x01, 0x12,0x07, 0,0\n" /* code: abstract origin, addresses */
	".byte 3,0x2e,1, 0,0\n"					 /* function around others */
	".byte 4,0x2e,0, 0x03,0x08, 0,0\n"			 /* function: name */
	".byte 5,0x2e,0, 0x47,0x13, 0,0\n"			 /* function: specification */
	".byte 6,0x2e,1, 0x03,0x08, 0,0\n"			 /* function with children: name */
	".byte 7,0x05,0, 0x49,0x13, 0,0\n"			 /* parameter: type */
	".byte 8,0x0f,0, 0x49,0x13, 0,0\n"			 /* pointer: type */
	".byte 9,0x13,1, 0x03,0x08, 0,0\n"			 /* structure: name */
	".byte 10,0x2f,0, 0x49,0x13, 0,0\n"			 /* template argument: type */
	".byte 11,0x13,1, 0x01,0x13, 0,0\n"			 /* structure: sibling */
	".byte 12,0x13,1, 0,0\n"				 /* structure without name */
	".byte 13,0x26,0, 0x49,0x13, 0,0\n"			 /* const: type */
	".byte 14,0x24,0, 0x03,0x08, 0,0\n"			 /* base type: name */
	".byte 0\n"
	".macro of die, at\n.byte 2\n.4byte \\die - unit\n.8byte code + \\at * 16, 16\n.endm\n"
	".section .debug_info\nunit: .4byte end - start\nstart: .2byte 4\n.4byte 0\n.byte 8\n"
	".byte 1, 4\n.8byte code, 128\n"
	"of deep, 0\nof circle, 1\nof loop, 2\nof bush, 3\nof back, 4\nof call, 5\nof always, "
	"6\nof wide, 7\n"
	/* 300 functions in each other, none with a sibling */
	".rept 300; .byte 3; .endr\ndeep: .byte 4; .asciz \"deep\"\n.rept 300; .byte 0; .endr\n"
	"circle: .byte 5\n.4byte other - unit\nother: .byte 5\n.4byte circle - unit\n"
	"loop: .byte 6; .asciz \"loop\"; .byte 7\n.4byte pointer - unit\n.byte 0\n"
	"pointer: .byte 8\n.4byte pointer - unit\n"
	"always: .byte 6; .asciz \"always\"; .byte 7\n.4byte constant - unit\n.byte 0\n"
	"constant: .byte 13\n.4byte constant - unit\n"
	"wide: .byte 6; .asciz \"wide\"; .rept 100000; .byte 7; .4byte node - unit; .endr\n"
	".byte 0\nnode: .byte 9; .asciz \"node\"; .byte 0\n"
	/* a type with eight arguments, each of which is that type */
	"bush: .byte 6; .asciz \"bush\"; .byte 7\n.4byte self - unit\n.byte 0\n"
	"self: .byte 9; .asciz \"self<int>\"\n.rept 8; .byte 10; .4byte self - unit; .endr\n.byte "
	"0\n"
	/* its sibling stands before it */
	"turn: .byte 11\n.4byte circle - unit\n.byte 0\nback: .byte 4; .asciz \"back\"\n"
	/* a closure type in itself, by the type of a parameter */
	"lambda: .byte 12\ncall: .byte 6; .asciz \"operator()\"; .byte 7\n.4byte lambda - "
	"unit\n.byte 0, 0\n"
	/* else the unit had no types, and no function of it parameters */
	"base: .byte 14; .asciz \"base\"\n"
	".byte 0\nend:\n";

/* Units by hand for uw_names_get(); the first DIEs are functions. */
#define UNIT_HEAD                                                                                \
	".text\n.globl code\ncode: .rept 16; nop; .endr\n"                                       \
	".section .debug_abbrev\n"                                                               \
	".byte 1,0x11,1, 0x13,0x0b, 0x11,0x01, 0x12,0x07, 0,0\n" /* unit: language, addresses */ \
	".byte 2,0x2e,1, 0x03,0x08, 0,0\n"			 /* function: name */            \
	".byte 3,0x05,0, 0x49,0x13, 0,0\n"			 /* parameter: type */           \
	".byte 4,0x24,0, 0x03,0x08, 0,0\n"			 /* base type: name */           \
	".byte 5,0x39,1, 0x03,0x08, 0,0\n"			 /* namespace: name */           \
	".byte 6,0x27,0, 0,0\n"					 /* constant */                  \
	".byte 0\n"                                                                              \
	".section .debug_info\nunit: .4byte end - start\nstart: .2byte 4\n.4byte 0\n.byte 8\n"   \
	".byte 1, 4\n.8byte code, 16\n"

/* One base type with a name of 1 MB, and a hundred parameters of it. */
static const char huge[] =
	UNIT_HEAD ".byte 2; .asciz \"first\"; .byte 0\n"
		  ".byte 2; .asciz \"huge\"; .rept 100; .byte 3; .4byte type - unit; .endr\n"
		  ".byte 0\ntype: .byte 4; .fill 1048576, 1, 0x61; .byte 0\n"
		  ".byte 0\nend:\n";

/* Each of the scopes is 9.6 MB in memory: not all of them can be kept. */
static const char full[] =
	UNIT_HEAD ".rept 5; .byte 5; .asciz \"full\"; .byte 2; .asciz \"call\"; .byte 3\n"
		  ".4byte type - unit; .byte 0; .fill 1200000, 1, 6; .byte 0; .endr\n"
		  "type: .byte 4; .asciz \"type\"; .byte 0\nend:\n";

/* Returns the first DIE of the unit. */
static Dwarf *assemble(const char *text, size_t len, int *ret_fd, Dwarf_Die *ret_die)
{
	Dwarf_Off next;
	Dwarf_Die unit;
	size_t header;
	char path[128];
	Dwarf *dwarf;

	(void)snprintf(path, sizeof(path), "%s/u.s", fixture_dir);
	file_write(path, text, len);
	if (!have("gcc") || !shell("cd %s && gcc -shared -nostdlib -o u u.s", fixture_dir))
		skip();
	(void)snprintf(path, sizeof(path), "%s/u", fixture_dir);
	*ret_fd = open_or_die(path);
	dwarf = dwarf_begin(*ret_fd, DWARF_C_READ);
	assert_non_null(dwarf);
	assert_int_equal(dwarf_nextcu(dwarf, 0, &next, &header, NULL, NULL, NULL), 0);
	assert_non_null(dwarf_offdie(dwarf, header, &unit));
	assert_int_equal(dwarf_child(&unit, ret_die), 0);
	return dwarf;
}

/* The work is charged, and ends soon, whatever room there is for the text. */
static void test_huge_name(void **state)
{
	static char to[8 << 20];
	static const size_t sizes[] = {512, sizeof(to)};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct uw_names own = {.n = 0};
		uint64_t before;
		Dwarf_Die die;
		int fd;
		Dwarf *dwarf = assemble(huge, sizeof(huge) - 1, &fd, &die);

		uw_names_get(&own, &die, to, sizes[i]);
		assert_string_equal(to, "first()");
		before = own.looked; /* the unit's DIEs, once */
		assert_int_equal(dwarf_siblingof(&die, &die), 0);
		uw_names_get(&own, &die, to, sizes[i]);
		assert_string_equal(to, "huge");
		assert_true(own.looked - before >= 1 << 20 && own.looked - before < 5 << 19);
		uw_names_deinit(&own);
		dwarf_end(dwarf);
		fd_close(fd);
	}
}

/* What is kept has a bound; names go on behind it, as long as the time does. */
static void test_beyond_kept(void **state)
{
	struct uw_names own = {.n = 0};
	Dwarf_Die space, die;
	char to[512];
	int fd;
	Dwarf *dwarf = assemble(full, sizeof(full) - 1, &fd, &space);
	unsigned n = 0;

	(void)state;
	do {
		if (dwarf_tag(&space) != DW_TAG_namespace)
			break;
		assert_int_equal(dwarf_child(&space, &die), 0);
		uw_names_get(&own, &die, to, sizeof(to));
		assert_string_equal(to, "full::call(type)");
		assert_true(own.bytes < 16 << 20);
		n++;
	} while (dwarf_siblingof(&space, &space) == 0);
	assert_int_equal(n, 5);
	uw_names_deinit(&own);
	dwarf_end(dwarf);
	fd_close(fd);
}

static void test_hostile(void **state)
{
	static const char *const wanted[] = {"deep", "??",	   "loop",   "bush",
					     "back", "operator()", "always", "wide"};
	struct uw_source source;
	struct uw_lines *lines;
	struct uw_elf elf;
	uint64_t start;
	char path[128];

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/h.s", fixture_dir);
	file_write(path, hostile, sizeof(hostile) - 1);
	if (!have("gcc") || !have("nm") ||
	    !shell("cd %s && gcc -shared -nostdlib -o h h.s && nm h | awk '$3==\"code\"{print $1}' "
		   ">at",
		   fixture_dir))
		skip();
	(void)snprintf(path, sizeof(path), "%s/at", fixture_dir);
	start = number_in(path);
	(void)snprintf(path, sizeof(path), "%s/h", fixture_dir);
	source = (struct uw_source){.fd = open_or_die(path)};
	assert_int_equal(uw_elf_open(&elf, &source), 0);
	assert_int_equal(uw_lines_new(&elf, path, &source, &lines), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(wanted); i++) {
		names.n = 0;
		assert_int_equal(uw_lines_at(lines, start + 16 * i, add_line, &names), 1);
		assert_string_equal(names.names[0], wanted[i]);
	}
	uw_lines_free(lines);
	uw_elf_close(&elf);
	fd_close(source.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_gcc),	      cmocka_unit_test(test_numbers_by_signature),
		cmocka_unit_test(test_clang),	      cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_huge_name),     cmocka_unit_test(test_beyond_kept),
		cmocka_unit_test(test_without_types), cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, fixture_dir_make, fixture_dir_remove);
}
