/* test-symtab.c - names of real and hand-made files: .symtab, .dynsym, .gnu_debugdata, separate
 * files, PLT. The judge is nm. */
#include "tests/unit/unwinder/unwinder-fixture.h"

#include <zlib.h>

#include "symbols/elf.h"
#include "symbols/parts.h"
#include "symbols/symbols.h"

static struct uw_module *load_path(const char *path,
				   int (*opener)(struct uw_source *, const char *))
{
	struct uw_source source = {.fd = open_or_die(path), .open = opener};
	struct uw_module *m;

	assert_int_equal(uw_module_new(UW_MODULE_FILE, path, NULL, &m), 0);
	assert_int_equal(uw_module_load_symbols(m, &source), 0);
	fd_close(source.fd);
	return m;
}

static struct uw_module *load_in_dir(const char *name)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", fixture_dir, name);
	return load_path(path, NULL);
}

static void test_by_hand(void **state)
{
	uint8_t image[IMAGE_SIZE];
	struct uw_source source;
	struct uw_module *m;
	struct uw_symbol s;

	(void)state;
	image_make(image);
	source = (struct uw_source){.fd = memfd_of(image, sizeof(image))};
	assert_int_equal(uw_module_new(UW_MODULE_FILE, "/x", NULL, &m), 0);
	assert_int_equal(uw_module_load_symbols(m, &source), 0);
	assert_true(uw_module_has_symbols(m));
	assert_true(uw_module_symbol(m, 0x402010, &s));
	assert_string_equal(s.name, "alpha");		/* not __alpha */
	assert_true(uw_module_symbol(m, 0x40204f, &s)); /* $x.1 at 402044 is not a name */
	assert_string_equal(s.name, "beta");
	assert_false(uw_module_symbol(m, 0x402050, &s));
	assert_true(uw_module_symbol(m, 0x4020ff, &s));
	assert_string_equal(s.name, "gamma"); /* up to delta */
	assert_int_equal(s.size, 0x80);
	assert_true(uw_module_symbol(m, 0x402107, &s));
	assert_string_equal(s.name, "delta");
	assert_false(uw_module_symbol(m, 0x402110, &s)); /* an object */
	assert_int_equal(uw_module_load_bias(m), 0x401000);
	uw_module_unref(m);
	fd_close(source.fd);
}

/* A string table without its last NUL, and names beyond it. */
static void test_names_lie(void **state)
{
	uint8_t image[IMAGE_SIZE];
	struct uw_source source;
	struct uw_module *m;
	struct uw_symbol s;
	const uint64_t four = 5;

	(void)state;
	image_make(image);
	memcpy(image + 0x2000 + 3 * 64 + 32, &four, 8); /* "\0alph" */
	source = (struct uw_source){.fd = memfd_of(image, sizeof(image))};
	assert_int_equal(uw_module_new(UW_MODULE_FILE, "/x", NULL, &m), 0);
	assert_int_equal(uw_module_load_symbols(m, &source), 0);
	assert_false(uw_module_has_symbols(m));
	assert_false(uw_module_symbol(m, 0x402010, &s));
	uw_module_unref(m);
	fd_close(source.fd);
}

/* Each function of @list ("address size type name" by nm -S) is found by its middle; of aliases
 * one. */
static void compare_with_nm(const struct uw_module *m, const char *list, unsigned at_least)
{
	_cleanup_(file_closep) FILE *f = fopen(list, "re");
	unsigned n = 0, same = 0;
	uint64_t start, size;
	char type, name[512];

	assert_non_null(f);
	while (fscanf(f, "%lx %lx %c %511s", &start, &size, &type, name) == 4) {
		struct uw_symbol s;
		char *at = strchr(name, '@');

		if (!strchr("TtWi", type) || !size)
			continue;
		if (at)
			*at = 0;
		if (!uw_module_symbol(m, start + size / 2, &s))
			fail_msg("no symbol for %s", name);
		assert_true(s.start >= start && s.start < start + size); /* an alias, or nested */
		n++;
		same += s.start == start && !strncmp(s.name, name, strlen(name));
	}
	assert_true(n >= at_least);
	assert_true(same * 10 >= n * 6);
}

static void test_self(void **state)
{
	struct uw_module *m;
	char list[128];

	(void)state;
	if (!have("nm"))
		return;
	(void)snprintf(list, sizeof(list), "%s/nm", fixture_dir);
	assert_true(
		shell("nm -S --defined-only /proc/%d/exe | awk 'NF==4' >%s", (int)getpid(), list));
	m = load_path("/proc/self/exe", NULL);
	assert_true(uw_module_has_symbols(m));
	compare_with_nm(m, list, 100);
	uw_module_unref(m);
}

static bool make_program(void)
{
	static const char source[] =
		"#include <stdio.h>\n"
		"static __attribute__((noinline)) int hidden_one(int x){ return x * 3 + "
		"puts(\"x\"); }\n"
		"int exported_one(int x){ return hidden_one(x) + 1; }\n"
		"int main(int n, char **v){ (void)v; return exported_one(n); }\n";
	char path[128];

	if (!have("gcc") || !have("objcopy") || !have("strip"))
		return false;
	(void)snprintf(path, sizeof(path), "%s/a.c", fixture_dir);
	file_write(path, source, sizeof(source) - 1);
	return shell("cd %s && gcc -O1 -g -rdynamic -Wl,-z,lazy -Wl,--build-id=sha1 -o full a.c && "
		     "strip -o bare full && "
		     "objcopy --only-keep-debug full full.debug && nm full >names",
		     fixture_dir);
}

static uint64_t address_of(const char *name)
{
	_cleanup_(file_closep) FILE *f = NULL;
	char path[128], line[512], found[256], type;
	uint64_t address;

	(void)snprintf(path, sizeof(path), "%s/names", fixture_dir);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx %c %255s", &address, &type, found) == 3 &&
		    !strcmp(found, name))
			return address;
	fail_msg("nm does not know %s", name);
	return 0;
}

static bool knows(const struct uw_module *m, const char *name)
{
	struct uw_symbol s;
	uint64_t at = address_of(name);

	return uw_module_symbol(m, at + 1, &s) && s.start == at && !strcmp(s.name, name);
}

static int no_file(struct uw_source *source, const char *path)
{
	(void)source;
	(void)path;
	return -ENOENT;
}

/* The address of @name in the output of nm. */
static uint64_t address_in(const char *file, const char *name)
{
	_cleanup_(file_closep) FILE *f = NULL;
	char path[128], line[256], found[128];
	uint64_t at;

	(void)snprintf(path, sizeof(path), "%s/%s", fixture_dir, file);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx %*c %127s", &at, found) == 2 && !strcmp(found, name))
			return at;
	fail_msg("nm does not know %s", name);
	return 0;
}

/* Parts and copies of a function, and versions, have the name of the function. */
static void test_plain_names(void **state)
{
	static const char *const names[][2] = {
		{"plain", "plain"},	     {"f1.cold", "f1"},	     {"f2.constprop.0", "f2"},
		{"f3.isra.0.part.12", "f3"}, {"f4.llvm.1234", "f4"}, {"f5.cold.1", "f5"},
		{"f6.colder", "f6.colder"},  {"f7.0", "f7.0"},	     {"f8.hot.cold", "f8.hot"},
		{".cold", ".cold"},
	};
	struct uw_module *m;
	char path[128], text[4096];
	int len = snprintf(text, sizeof(text),
			   "\t.section .note.GNU-stack,\"\"\n\t.text\n\t.globl main\nmain:\n");

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		len += snprintf(text + len, sizeof(text) - (size_t)len,
				"\t.type \"%s\", @function\n\"%s\":\n\t.skip 16\n"
				"\t.size \"%s\", 16\n",
				names[i][0], names[i][0], names[i][0]);
	(void)snprintf(path, sizeof(path), "%s/names.s", fixture_dir);
	file_write(path, text, (size_t)len);
	if (!have("gcc") || !have("nm") ||
	    !shell("cd %s && gcc -no-pie -o names names.s && nm names >names.nm", fixture_dir))
		skip();
	m = load_in_dir("names");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct uw_symbol s;

		assert_true(uw_module_symbol(m, address_in("names.nm", names[i][0]), &s));
		assert_string_equal(s.name, names[i][1]);
	}
	uw_module_unref(m);
}

/* A name with a version: the default one, and an earlier one that loses against another name. */
static void test_versions(void **state)
{
	static const char text[] = "\t.section .note.GNU-stack,\"\"\n\t.text\n\t.globl now, old\n"
				   "\t.type now, @function\n\t.type old, @function\n"
				   "now:\nold:\n\t.skip 16\n\t.size now, 16\n\t.size old, 16\n"
				   "\t.symver now, call@@V2\n\t.symver old, a@V1\n";
	struct uw_module *m;
	struct uw_symbol s;
	char path[128];

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/versions.s", fixture_dir);
	file_write(path, text, sizeof(text) - 1);
	(void)snprintf(path, sizeof(path), "%s/versions.map", fixture_dir);
	file_write(path, "V1 {global: a; local: *;}; V2 {global: call;} V1;", 49);
	if (!have("gcc") || !have("nm") ||
	    !shell("cd %s && gcc -shared -nostdlib -o versions versions.s "
		   "-Wl,--version-script=versions.map && nm versions >versions.nm && "
		   "grep -q 'call@@V2' versions.nm",
		   fixture_dir))
		skip();
	m = load_in_dir("versions");
	assert_true(uw_module_symbol(m, address_in("versions.nm", "now"), &s));
	assert_string_equal(s.name, "call");
	uw_module_unref(m);
}

static void test_stripped(void **state)
{
	struct uw_module *m;
	char path[128];

	(void)state;
	if (!make_program())
		return;
	m = load_in_dir("full");
	assert_true(knows(m, "hidden_one"));
	assert_true(uw_module_has_symbols(m));
	uw_module_unref(m);
	(void)snprintf(path, sizeof(path), "%s/bare", fixture_dir);
	m = load_path(path, no_file);
	assert_false(knows(m, "hidden_one"));
	assert_true(knows(m, "exported_one")); /* .dynsym */
	assert_false(uw_module_has_symbols(m));
	uw_module_unref(m);
	/* section headers gone as well: the same through PT_DYNAMIC */
	assert_true(shell("cd %s && cp bare blind && printf '\\0\\0\\0\\0' | dd of=blind bs=1 "
			  "seek=60 conv=notrunc 2>/dev/null",
			  fixture_dir));
	(void)snprintf(path, sizeof(path), "%s/blind", fixture_dir);
	m = load_path(path, no_file);
	assert_true(knows(m, "exported_one"));
	uw_module_unref(m);
}

static void test_plt(void **state)
{
	struct uw_module *m;
	struct uw_symbol s;
	bool found = false;

	(void)state;
	if (!make_program())
		return;
	m = load_in_dir("full");
	for (uint64_t a = 0x1000; a < 0x1400; a++)
		if (uw_module_symbol(m, a, &s) && !strcmp(s.name, "puts@plt")) {
			found = true;
			assert_int_equal(s.size, 16);
			assert_int_equal(s.start & 15, 0);
		}
	assert_true(found);
	uw_module_unref(m);
}

/* PLT entries of another machine, of both lengths; made where its compiler is. */
static void test_plt_aarch64(void **state)
{
	static const struct {
		const char *flags;
		unsigned step, size;
	} kinds[] = {{"", 16, 16}, {"-mbranch-protection=standard -Wl,-z,pac-plt", 24, 20}};

	(void)state;
	if (!have("aarch64-linux-gnu-gcc") || !have("aarch64-linux-gnu-objdump"))
		skip();
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		uint64_t starts[2];
		char names[2][16], list[128];
		struct uw_module *m;
		struct uw_symbol s;
		FILE *f;

		assert_true(shell("cd %s && echo 'void one(void); void two(void); "
				  "void f(void) { one(); two(); one(); }' >plt.c && "
				  "aarch64-linux-gnu-gcc -O1 %s -nostdlib -shared -fPIC -o arm.so "
				  "plt.c && aarch64-linux-gnu-objdump -d -j .plt arm.so | "
				  "sed -n 's/^\\([0-9a-f]*\\) <\\(.*@plt\\)>:/\\1 \\2/p' >arm.plt",
				  fixture_dir, kinds[i].flags));
		(void)snprintf(list, sizeof(list), "%s/arm.plt", fixture_dir);
		f = fopen(list, "re");
		assert_non_null(f);
		assert_int_equal(
			fscanf(f, "%lx %15s %lx %15s", &starts[0], names[0], &starts[1], names[1]),
			4);
		(void)fclose(f);
		assert_int_equal(starts[1] - starts[0], kinds[i].step);
		m = load_in_dir("arm.so");
		for (size_t j = 0; j < 2; j++) {
			assert_true(uw_module_symbol(m, starts[j] + 12, &s));
			assert_string_equal(s.name, names[j]);
			assert_int_equal(s.size, kinds[i].size);
		}
		assert_false(uw_module_symbol(m, starts[0] - 16, &s)); /* before the first symbol */
		uw_module_unref(m);
	}
}

static void test_debugdata(void **state)
{
	struct uw_module *m;
	char path[128];

	(void)state;
	if (!make_program() || !have("xz"))
		return;
	assert_true(shell("cd %s && strip --strip-debug -o mini full && xz -kf mini && "
			  "objcopy --add-section .gnu_debugdata=mini.xz bare packed && "
			  "head -c 400 mini.xz >cut.xz && objcopy --add-section "
			  ".gnu_debugdata=cut.xz bare cut && "
			  "head -c 70000000 /dev/zero | xz >bomb.xz && objcopy --add-section "
			  ".gnu_debugdata=bomb.xz bare bomb",
			  fixture_dir));
	(void)snprintf(path, sizeof(path), "%s/packed", fixture_dir);
	m = load_path(path, no_file);
	assert_true(knows(m, "hidden_one"));
	assert_true(uw_module_has_symbols(m));
	uw_module_unref(m);
	(void)snprintf(path, sizeof(path), "%s/cut",
		       fixture_dir); /* damaged: the rest still serves */
	m = load_path(path, no_file);
	assert_false(uw_module_has_symbols(m));
	assert_true(knows(m, "exported_one"));
	uw_module_unref(m);
	(void)snprintf(path, sizeof(path), "%s/bomb", fixture_dir);
	m = load_path(path, no_file);
	assert_false(uw_module_has_symbols(m));
	uw_module_unref(m);
}

/* /usr/lib/debug/.build-id leads into our directory. */
static int redirect(struct uw_source *source, const char *path)
{
	char at[256];

	(void)source;
	if (strncmp(path, "/usr/lib/debug/.build-id/", 25) != 0)
		return -ENOENT;
	assert_int_equal(strlen(path), 25 + 2 + 1 + 38 + 6);
	(void)snprintf(at, sizeof(at), "%s/by-id", fixture_dir);
	return open(at, O_RDONLY | O_CLOEXEC);
}

static void test_by_build_id(void **state)
{
	char path[128];
	struct uw_module *m;

	(void)state;
	if (!make_program())
		return;
	(void)snprintf(path, sizeof(path), "%s/bare", fixture_dir);
	assert_true(shell("cd %s && cp full.debug by-id", fixture_dir));
	m = load_path(path, redirect);
	assert_true(knows(m, "hidden_one"));
	uw_module_unref(m);
	/* another program's */
	assert_true(shell("cd %s && echo 'int main(void){return 7;}' >o.c && gcc -g "
			  "-Wl,--build-id=sha1 -o other o.c && cp other by-id",
			  fixture_dir));
	m = load_path(path, redirect);
	assert_false(uw_module_has_symbols(m));
	uw_module_unref(m);
}

static void test_by_link(void **state)
{
	static const struct {
		const char *make;
		bool found;
	} cases[] = {
		{"mkdir -p .debug && cp full.debug .debug/linked.debug", true},
		{"cp full.debug linked.debug", true},
		{"cp full.debug linked.debug && printf x >>linked.debug", false}, /* another CRC */
		{"mkfifo linked.debug", false}, /* must not hang */
	};

	(void)state;
	if (!make_program())
		return;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct uw_module *m;

		/* no build id, so that only the link can lead there */
		assert_true(shell("cd %s && rm -rf .debug linked* && cp full.debug linked.debug && "
				  "objcopy -R .note.gnu.build-id --add-gnu-debuglink=linked.debug "
				  "bare linked && "
				  "rm linked.debug && %s",
				  fixture_dir, cases[i].make));
		m = load_in_dir("linked");
		assert_int_equal(uw_module_has_symbols(m), cases[i].found);
		uw_module_unref(m);
	}
}

/* The names of a file alone, without a module: the same, and they need no layout. */
static void test_alone(void **state)
{
	uint8_t image[IMAGE_SIZE];
	struct uw_source source;
	struct uw_symbols *s;
	struct uw_symbol found;
	struct uw_elf elf;

	(void)state;
	image_make(image);
	source = (struct uw_source){.fd = memfd_of(image, sizeof(image))};
	assert_int_equal(uw_elf_open(&elf, &source), 0);
	assert_int_equal(uw_symbols_of_elf(&elf, NULL, "/x", &source, &s), 0);
	assert_true(uw_symbols_full(s));
	assert_true(uw_symbols_find(s, 0x402010, &found));
	assert_string_equal(found.name, "alpha");
	assert_int_equal(found.kind, FRAME_NATIVE);
	assert_false(uw_symbols_find(s, 0x402110, &found)); /* an object */
	uw_symbols_free(s);
	uw_elf_close(&elf);
	fd_close(source.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_hand),	    cmocka_unit_test(test_names_lie),
		cmocka_unit_test(test_plain_names), cmocka_unit_test(test_versions),
		cmocka_unit_test(test_self),	    cmocka_unit_test(test_stripped),
		cmocka_unit_test(test_plt),	    cmocka_unit_test(test_plt_aarch64),
		cmocka_unit_test(test_debugdata),   cmocka_unit_test(test_by_build_id),
		cmocka_unit_test(test_by_link),	    cmocka_unit_test(test_alone),
	};

	return cmocka_run_group_tests(tests, fixture_dir_make, fixture_dir_remove);
}
