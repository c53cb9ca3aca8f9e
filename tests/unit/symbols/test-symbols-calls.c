/* test-symbols-calls.c - modules, tables of the kernel and code are made, while each allocation and system call of that fails once:
 * an error and nothing is kept, and the next try succeeds; or the object is the one that is made without failures.  Tables of Go:
 * test-golines.c, test-gopclntab.c; by libelf's allocations too: tests/unit/unwinder/test-nomem.c. */
#include <link.h>
#include <sys/auxv.h>

#include "tests/unit/fail-calls.h"

#include "tests/unit/fake-root.h"
#include "tests/unit/unwinder/unwinder-fixture.h"
#define fake_read vm_read /* unwinder-fixture.h has one */
#include "tests/unit/unwinder/hotspot-fixture.h"
#undef fake_read
#include "tests/unit/unwinder/python-fixture.h"
#include "tests/unit/unwinder/v8-fixture.h"

#include "base/bytes.h"
#include "base/cache-dir.h"
#include "base/table.h"
#include "symbols/jitdump.h"
#include "symbols/kernel-names.h"
#include "symbols/lines.h"
#include "symbols/machine-code.h"
#include "symbols/modules.h"
#include "symbols/parts.h"

static bool reads_fail; /* set by a test: so does pread() */

ssize_t pread(int fd, void *to, size_t len, off_t at)
{
	static __typeof__(&pread) real;

	real = real ? real : REAL(pread);
	if (reads_fail)
		FAIL_CALL(EIO);
	return real(fd, to, len, at);
}

static void sweep(const char *name, int (*make)(void *arg), void (*end)(void *arg), void *arg)
{
	calls_sweep(&(struct calls_made){name, make, end, arg});
}

static void nothing(void *arg)
{
	(void)arg;
}

/* No call fails from here on; returns what calm_ends() needs. */
static unsigned long calm(void)
{
	unsigned long at = calls_fail_at;

	calls_fail_at = 0;
	return at;
}

static void calm_ends(unsigned long at)
{
	calls_fail_at = at;
}

/* ---- modules ---- */

struct job {
	const char *path;
	enum uw_module_kind kind;
	struct uw_source source;
	bool wants_separate, separate;
	uint64_t address;  /* of lines; 0: none are asked for */
	const char *lines; /* there */
	/* Bytes to unpack, and others for the halves that are adopted then; NULL: the module is loaded. */
	const struct packer *packed, *next;
	struct uw_module *module;
	uint64_t golden; /* hash of the whole module; 0: not known yet */
	char seen[256];
};

/* All that another process would get of it. */
static uint64_t hash_of(const struct uw_module *m)
{
	enum { ROOM = 32 << 20 };
	static uint8_t bytes[ROOM];
	struct packer p = {.data = bytes, .room = ROOM};

	uw_module_pack(m, &p);
	assert_false(p.bad);
	return hash_bytes(bytes, p.len);
}

static void note_line(void *arg, const struct uw_line *line)
{
	struct job *job = arg;
	size_t len = strlen(job->seen);

	(void)snprintf(job->seen + len, sizeof(job->seen) - len, "%s %s:%u;", line->function,
		       line->file ? line->file : "-", line->line);
}

static int read_lines(struct job *job)
{
	int r;

	if (!job->address)
		return 0;
	job->seen[0] = 0;
	r = uw_module_lines(job->module, &job->source, job->address, note_line, job);
	if (r >= 0 && strcmp(job->seen, job->lines) != 0)
		fail_msg("%s, call %lu: %d lines: %s", job->path, calls_made, r, job->seen);
	return r;
}

static int unpack(struct uw_module *m, const struct packer *from)
{
	struct cursor c = cursor_of(from->data, from->len);

	return uw_module_unpack(m, &c, -1);
}

static int adopt(struct job *job)
{
	int r = unpack(job->module, job->next);

	if (r < 0)
		return r;
	(void)uw_module_adopt_unwind(job->module);
	r = uw_module_adopt_symbols(job->module);
	assert_int_not_equal(r, 0);
	return r < 0 ? r : 0;
}

static int load(struct job *job)
{
	int r;

	if (job->packed) {
		r = unpack(job->module, job->packed);
		return r >= 0 && job->next ? adopt(job) : r;
	}
	r = uw_module_load_unwind(job->module, &job->source);
	if (r >= 0)
		r = uw_module_load_symbols(job->module, &job->source);
	return r < 0 ? r : read_lines(job);
}

static void expect_whole(struct job *job)
{
	struct uw_symbol s;

	assert_int_equal(uw_module_unwind_state(job->module), UW_MODULE_READY);
	assert_int_equal(uw_module_symbol_state(job->module), UW_MODULE_READY);
	if (job->next) { /* it has more parts than can be packed */
		assert_true(uw_module_symbol(job->module, job->address, &s));
		assert_string_equal(s.name, job->lines);
		return;
	}
	/* (It may have one also where that cannot be known for now.) */
	assert_true(job->module->image->has_separate || !job->separate);
	job->separate = !job->golden && job->module->image->has_separate;
	job->module->image->has_separate = false;
	if (!job->golden)
		job->golden = hash_of(job->module);
	if (job->golden != hash_of(job->module))
		fail_msg("%s, call %lu: another module", job->path, calls_made);
}

/* A half that failed has nothing. */
static void expect_halves(const struct uw_module *m)
{
	if (uw_module_unwind_state(m) != UW_MODULE_READY) {
		assert_null(m->image);
		assert_false(uw_module_keeps_file(m));
	}
	if (uw_module_symbol_state(m) != UW_MODULE_READY) {
		assert_null(m->symbols);
		assert_int_equal(m->symbol_bytes, 0);
	}
}

static int make_module(void *arg)
{
	struct job *job = arg;
	int r = uw_module_new(job->kind, job->path, NULL, &job->module);
	unsigned long at;

	if (r < 0)
		return r;
	if (job->wants_separate)
		uw_module_want_separate(job->module);
	r = load(job);
	at = calm();
	if (r < 0) {
		assert_true(r == -ENOMEM || r == -EIO); /* another would stand for the file */
		expect_halves(job->module);
		assert_true(load(job) >= 0);
	}
	expect_whole(job);
	calm_ends(at);
	if (r < 0)
		job->module = uw_module_unref(job->module);
	return r;
}

static void end_module(void *arg)
{
	struct job *job = arg;

	job->module = uw_module_unref(job->module);
}

static void sweep_module(const char *name, struct job *job)
{
	sweep(name, make_module, end_module, job);
}

static void sweep_file(const char *path)
{
	struct job job = {.path = path, .source = {.fd = open_or_die(path)}};

	job.source.later = true;
	sweep_module(path, &job);
	fd_close(job.source.fd);
}

/* Symbols in the file, by hand, in .gnu_debugdata; .debug_frame; and of this program. */
static void test_files(void **state)
{
	(void)state;
	sweep_file("tests/fuzz/corpus/elf/by-hand");
	sweep_file("tests/fuzz/corpus/elf/debugdata");
	sweep_file("tests/fuzz/corpus/elf/debug-frame");
	sweep_file("/proc/self/exe");
}

/* In a file of its own, by its name: a file that cannot be opened for now is not one that does not exist. */
static void test_separate(void **state)
{
	char path[128];
	struct job job = {.path = path};

	(void)state;
	if (!have("gcc") || !have("objcopy"))
		skip();
	dir_make(fixture_dir);
	assert_true(shell("cd %s && echo 'int main(int n, char **v) { return n + !v; }' >a.c && "
			  "gcc -g -O1 -fno-asynchronous-unwind-tables -o full a.c && "
			  "objcopy --only-keep-debug full full.debug && strip -o bare full && "
			  "objcopy --remove-section=.note.gnu.build-id "
			  "--add-gnu-debuglink=full.debug bare linked",
			  fixture_dir));
	(void)snprintf(path, sizeof(path), "%s/linked", fixture_dir);
	sweep_file(path);
	job.source.fd = open_or_die(path);
	job.wants_separate = true;
	sweep_module("wanted .debug_frame", &job);
	fd_close(job.source.fd);
	dir_remove(fixture_dir);
}

static void test_memory(void **state)
{
	uint64_t at = getauxval(AT_SYSINFO_EHDR);
	struct fake_memory f = {.memory = {.read = fake_read},
				.start = at,
				.bytes = (const uint8_t *)(uintptr_t)at,
				.len = 0x2000};
	struct job job = {
		.path = "[vdso]",
		.kind = UW_MODULE_MEMORY,
		.source = {.fd = -1, .memory = &f.memory, .start = at, .end = at + f.len}};

	(void)state;
	if (!at)
		skip();
	sweep_module(job.path, &job);
}

/* ---- lines ---- */

__attribute__((noinline)) static int has_lines(int x)
{
	return x + 1;
}

static void count_line(void *arg, const struct uw_line *line)
{
	(*(int *)arg)++;
	assert_string_equal(line->function, "has_lines");
}

/* The look-up itself is test-nomem.c's: libdw ends the program where it gets no memory there. */
static int make_lines(void *arg)
{
	_cleanup_(uw_elf_close) struct uw_elf elf = {.fd = -1};
	struct job *job = arg;
	struct uw_lines *lines;
	int r = uw_elf_open(&elf, &job->source), n = 0;
	unsigned long at;

	if (r >= 0)
		r = uw_lines_new(&elf, job->path, &job->source, &lines);
	if (r < 0)
		return r;
	at = calm();
	r = uw_lines_at(lines, job->address, count_line, &n);
	assert_int_equal(r, 1);
	assert_int_equal(n, 1);
	(void)uw_lines_free(lines);
	calm_ends(at);
	return 0;
}

static void test_lines(void **state)
{
	struct job job = {.path = "/proc/self/exe"};
	const struct link_map *self = dlopen(NULL, RTLD_NOW);

	(void)state;
	assert_non_null(self);
	job.address = (uint64_t)(uintptr_t)has_lines - self->l_addr;
	job.source.fd = open_or_die(job.path);
	sweep("lines", make_lines, nothing, &job);
	fd_close(job.source.fd);
}

/* ---- JIT compilers ---- */

#define JIT_THIRD 0x7f0aca371000ull /* of the corpus's jitdump: the latest code there */

static void test_perf_map(void **state)
{
	struct job job = {.path = "[anon]",
			  .kind = UW_MODULE_JIT,
			  .source.fd = open_or_die("tests/fuzz/corpus/perfmap/text")};

	(void)state;
	reads_fail = true;
	sweep_module("perf map", &job);
	fd_close(job.source.fd);
}

/* A jitdump with @copies of the corpus's records: code over other code, lines, unwinding information. */
static int jitdump_of(size_t copies)
{
	static const uint32_t header[10] = {0x4a695444, 1, sizeof(header)};
	int from = open_or_die("tests/fuzz/corpus/perfmap/jitdump-lines-unwinding");
	int fd = memfd_create("jitdump", MFD_CLOEXEC);
	uint8_t records[4096];
	ssize_t len = read(from, records, sizeof(records));

	fd_close(from);
	assert_true(fd >= 0 && len > 0);
	assert_int_equal(write(fd, header, sizeof(header)), sizeof(header));
	for (size_t i = 0; i < copies; i++)
		assert_int_equal(write(fd, records, (size_t)len), len);
	return fd;
}

static void test_jitdump(void **state)
{
	struct job job = {.path = "[anon]", .kind = UW_MODULE_JIT, .source.fd = jitdump_of(1)};

	(void)state;
	sweep_module("jitdump", &job);
	fd_close(job.source.fd);
	job = (struct job){.path = "[anon]", .kind = UW_MODULE_JIT, .source.fd = jitdump_of(400)};
	sweep_module("long jitdump", &job);
	fd_close(job.source.fd);
}

static int make_jit_code(void *arg)
{
	struct uw_code code;
	const int *fd = arg;
	int r = jitdump_code(*fd, JIT_THIRD, &code);

	if (r < 0)
		return r;
	assert_int_equal(code.len, 33);
	assert_int_equal(code.vaddr, JIT_THIRD);
	assert_memory_equal(code.data, "\x55\x48\x83\xec", 4);
	uw_code_deinit(&code);
	return 0;
}

static int make_code(void *arg)
{
	struct uw_source source = {.fd = *(const int *)arg};
	struct uw_code code;
	int r = uw_code_load(&source, 0x402010, 0x20, &code);

	if (r < 0)
		return r;
	assert_int_equal(code.len, 0x20);
	uw_code_deinit(&code);
	return 0;
}

static void test_code(void **state)
{
	int dump = jitdump_of(1), file;
	uint8_t image[IMAGE_SIZE];

	(void)state;
	image_make(image);
	file = memfd_of(image, sizeof(image));
	reads_fail = true;
	sweep("code of a jitdump", make_jit_code, nothing, &dump);
	sweep("code of a file", make_code, nothing, &file);
	fd_close(dump);
	fd_close(file);
}

/* ---- processes that describe themselves ---- */

/* As /proc/PID/mem: @bytes at address @at. */
static int memory_of(const uint8_t *bytes, size_t len, uint64_t at)
{
	int fd = memfd_create("memory", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, len, (off_t)at), len);
	return fd;
}

static void sweep_process(struct job *job, const uint8_t *bytes, size_t len, uint64_t at)
{
	job->kind = UW_MODULE_JIT;
	job->source = (struct uw_source){.fd = memory_of(bytes, len, at), .vm = at};
	sweep_module(job->path, job);
	fd_close(job->source.fd);
}

static void test_hotspot(void **state)
{
	static const int jdks[] = {8, 17, 25};
	static struct fake_vm vm;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(jdks); i++) {
		struct job job = {.path = "[anon]"};

		fake_vm_init(&vm, jdks[i]);
		job.address = vm.compiled + 15;
		job.lines = "java.util.HashMap.get -:0;Main.run -:0;";
		sweep_process(&job, vm.bytes, sizeof(vm.bytes), FAKE_BASE);
	}
}

static void test_python(void **state)
{
	static struct py_process py;
	struct job job = {.path = UW_PYTHON_PATH, .lines = "f /x/a.py:7;"};

	(void)state;
	py_process_init(&py, 12);
	job.address = py_code(&py, py_string(&py, "f", false), py_string(&py, "/x/a.py", false), 7);
	sweep_process(&job, py.bytes, sizeof(py.bytes), PY_BASE);
}

static struct sc_process sc;

static void test_php(void **state)
{
	struct job job = {.path = UW_PHP_PATH, .lines = "f /x/a.php:24;"};

	(void)state;
	sc_php_init(&sc);
	job.address =
		uw_script_frame(sc_php_function(&sc, 0, "f", sc_string(&sc, "/x/a.php"), 20), 9);
	sweep_process(&job, sc.bytes, sizeof(sc.bytes), SC_BASE);
}

static void test_ruby(void **state)
{
	struct job job = {.path = UW_RUBY_PATH, .lines = "f /x/a.rb:12;"};

	(void)state;
	sc_ruby_init(&sc);
	job.address =
		uw_script_frame(sc_ruby_function(&sc, "f", sc_string(&sc, "/x/a.rb"), 10, 560), 5);
	sweep_process(&job, sc.bytes, sizeof(sc.bytes), SC_BASE);
}

static void test_js(void **state)
{
	struct job job = {.path = UW_JS_PATH, .lines = "f /x/a.js:3;"};
	struct vm_memory m;
	struct uw_script found;
	struct v8_function f;
	uint64_t script, shared;

	(void)state;
	v8_process_init(&sc, NULL);
	script = V8_OBJECT(&sc, V8_SCRIPT, v8_string(&sc, "line 1\nline 2\nline 3\n"),
			   v8_string(&sc, "/x/a.js"), 0, 0, 0, 0);
	shared = v8_shared(&sc, script, v8_string(&sc, "f"), V8_OBJECT(&sc, V8_ODDBALL, 0, 0), 14,
			   20);
	assert_int_equal(vm_memory_begin(&m, &sc.memory, 8), 0);
	assert_int_equal(v8_new(&m, SC_BASE, &found), 0);
	assert_true(v8_function(&m, &found.v8, v8_js_function(&sc, shared, 0, 0), &f));
	vm_memory_end(&m);
	job.address = f.frame;
	sweep_process(&job, sc.bytes, sizeof(sc.bytes), SC_BASE);
}

/* ---- modules out of another process ---- */

/* What that process sends of the module of @job. */
static struct packer packed_of(struct job *job)
{
	struct packer p = {.data = malloc(8 << 20), .room = 8 << 20};

	assert_non_null(p.data);
	assert_int_equal(load(job), 0);
	uw_module_pack(job->module, &p);
	assert_false(p.bad);
	return p;
}

static struct uw_module *new_module(const struct job *job)
{
	struct uw_module *m;

	assert_int_equal(uw_module_new(job->kind, job->path, NULL, &m), 0);
	return m;
}

static void sweep_packed(const char *name, struct job *job, const struct packer *packed,
			 const struct packer *next)
{
	struct job other = {.path = job->path,
			    .kind = job->kind,
			    .address = job->address,
			    .lines = job->lines,
			    .packed = packed,
			    .next = next};

	sweep_module(name, &other);
}

static void test_packed_file(void **state)
{
	struct job job = {.path = "/proc/self/exe"};
	struct packer p;

	(void)state;
	job.source.fd = open_or_die(job.path);
	job.module = new_module(&job);
	p = packed_of(&job);
	sweep_packed("packed file", &job, &p, NULL);
	free(p.data);
	end_module(&job);
	fd_close(job.source.fd);
}

/* The second part continues the first one. */
static void test_packed_jitdump(void **state)
{
	struct job job = {.path = "[anon]",
			  .kind = UW_MODULE_JIT,
			  .source.fd = jitdump_of(3),
			  .address = JIT_THIRD,
			  .lines = "third"};
	struct packer first, next;
	uint8_t more[4096];
	struct stat st;
	ssize_t len;
	uint64_t address = job.address;

	(void)state;
	job.address = 0;
	job.module = new_module(&job);
	first = packed_of(&job);
	job.source.reading =
		(struct uw_reading){.known = uw_module_extent(job.module), .again = true};
	assert_int_equal(fstat(job.source.fd, &st), 0);
	len = (st.st_size - 40) / 3;
	assert_int_equal(pread(job.source.fd, more, (size_t)len, 40), len);
	assert_int_equal(pwrite(job.source.fd, more, (size_t)len, st.st_size), len);
	uw_module_drop_unwind(job.module);
	uw_module_drop_symbols(job.module);
	next = packed_of(&job);
	job.address = address;
	sweep_packed("packed jitdump", &job, &first, NULL);
	sweep_packed("jitdump that continues", &job, &first, &next);
	free(first.data);
	free(next.data);
	end_module(&job);
	fd_close(job.source.fd);
}

static void test_packed_vm(void **state)
{
	static struct fake_vm vm;
	struct job job = {.path = "[anon]", .kind = UW_MODULE_JIT};
	struct packer p;

	(void)state;
	fake_vm_init(&vm, 17);
	job.source = (struct uw_source){.fd = memory_of(vm.bytes, sizeof(vm.bytes), FAKE_BASE),
					.vm = FAKE_BASE};
	job.module = new_module(&job);
	p = packed_of(&job);
	job.address = vm.compiled;
	job.lines = "Main.run";
	sweep_packed("packed VM", &job, &p, NULL);
	sweep_packed("VM again", &job, &p, &p);
	free(p.data);
	end_module(&job);
	fd_close(job.source.fd);
}

/* ---- the set of modules ---- */

static int fill(struct uw_modules *set, struct uw_module *ret_modules[3], struct uw_source *source)
{
	const struct uw_file_id by_inode = {.major = 8, .minor = 1, .inode = 77};
	const struct uw_file_id by_id = {.build_id = image_id()};
	int r = uw_modules_get(set, "/bin/x", &by_inode, &ret_modules[0]);

	if (r >= 0)
		r = uw_module_load_unwind(ret_modules[0], source);
	if (r >= 0)
		r = uw_modules_loaded(set, ret_modules[0]); /* it is known by its build id, too */
	if (r >= 0)
		r = uw_modules_get(set, "/bin/y", &by_id, &ret_modules[1]);
	if (r >= 0)
		r = uw_modules_add(set, UW_MODULE_JIT, "[anon]", &ret_modules[2]);
	if (r >= 0)
		r = uw_module_set_jitdump(ret_modules[2], "/tmp/jit-1.dump", 0, 4096, &by_inode);
	if (r < 0)
		return r;
	assert_ptr_equal(ret_modules[0], ret_modules[1]);
	assert_string_equal(uw_module_jitdump(ret_modules[2])->path, "/tmp/jit-1.dump");
	return 0;
}

static int make_set(void *arg)
{
	struct uw_module *modules[3] = {NULL};
	struct uw_modules *set;
	int r = uw_modules_new(&set);

	if (r < 0)
		return r;
	r = fill(set, modules, arg);
	for (size_t i = 0; i < ARRAY_SIZE(modules); i++)
		(void)uw_module_unref(modules[i]);
	(void)uw_modules_free(set);
	return r;
}

static void test_set(void **state)
{
	uint8_t image[IMAGE_SIZE];
	struct uw_source source;

	(void)state;
	image_make(image);
	source = (struct uw_source){.fd = memfd_of(image, sizeof(image))};
	sweep("set of modules", make_set, nothing, &source);
	fd_close(source.fd);
}

/* ---- the kernel's symbols ---- */

#define KERNEL 0xffffffff81000000ull
#define MODULE 0xffffffffc0000000ull
enum { FUNCTIONS = 3000, MOVED = 0x200000 };

/* Of the kernel in order, of two modules not. */
static size_t kallsyms_text(char *to, size_t room)
{
	size_t len = (size_t)snprintf(to, room, "%016llx T _text\n", KERNEL);

	for (unsigned i = 1; i < FUNCTIONS; i++)
		len += (size_t)snprintf(to + len, room - len, "%016llx t name_%u\n",
					KERNEL + 256ull * i, i);
	for (unsigned i = 0; i < 20; i++)
		len += (size_t)snprintf(to + len, room - len, "%016llx t of_%u\t[%s]\n",
					MODULE + 64ull * (20 - i), i, i < 10 ? "one" : "two");
	return len;
}

struct kernel {
	int fd;
	char text[128 << 10];
	size_t len;
	struct uw_kernel_key key;
	bool cached;
};

static void kernel_begin(struct kernel *k)
{
	k->len = kallsyms_text(k->text, sizeof(k->text));
	k->fd = memfd_of(k->text, k->len);
}

static int expect_name(const char *name, const char *expected)
{
	if (!name)
		return -ENOENT;
	assert_string_equal(name, expected);
	return 0;
}

static int make_kallsyms(void *arg)
{
	struct kernel *k = arg;
	struct uw_kallsyms *ks;
	uint64_t start;
	int r;

	assert_int_equal(lseek(k->fd, 0, SEEK_SET), 0);
	r = uw_kallsyms_new(k->fd, &ks);
	if (r < 0)
		return r;
	assert_int_equal(r, 0);
	assert_int_equal(uw_kallsyms_count(ks), FUNCTIONS + 20);
	r = uw_kallsyms_add(ks, MODULE + 0x1000, 64, "bpf_prog");
	if (r >= 0)
		assert_string_equal(uw_kallsyms_name(ks, MODULE + 0x1001, &start), "bpf_prog");
	assert_string_equal(uw_kallsyms_name(ks, KERNEL + 256 * 7 + 3, &start), "name_7");
	assert_string_equal(uw_kallsyms_name(ks, MODULE + 64 * 3, &start), "of_17");
	(void)uw_kallsyms_free(ks);
	return r;
}

/* Parts of it are read when a name in them is asked for. */
static int make_moved(void *arg)
{
	struct kernel *k = arg;
	struct uw_kallsyms *ks;
	uint64_t start;
	unsigned long at;
	const char *name;
	int r;

	assert_int_equal(lseek(k->fd, 0, SEEK_SET), 0);
	r = uw_kallsyms_new_moved(k->fd, KERNEL + MOVED, &ks);
	if (r < 0)
		return r;
	assert_int_equal(r, 0);
	name = uw_kallsyms_name(ks, KERNEL + MOVED + 256 * 2900, &start);
	r = expect_name(name, "name_2900");
	at = calm();
	name = uw_kallsyms_name(ks, KERNEL + MOVED + 256 * 2900, &start);
	assert_int_equal(expect_name(name, "name_2900"), 0);
	calm_ends(at);
	(void)uw_kallsyms_free(ks);
	return r;
}

static int make_table(void *arg)
{
	struct kernel *k = arg;
	struct uw_kernel_table *t;
	struct uw_kallsyms *ks;
	struct buffer bytes = {0};
	uint64_t start;
	bool core;
	unsigned long at = calm();
	const char *name;
	int fd = -1, r;

	assert_int_equal(lseek(k->fd, 0, SEEK_SET), 0);
	assert_int_equal(uw_kallsyms_new(k->fd, &ks), 0);
	calm_ends(at);
	r = uw_kernel_table_pack(ks, KERNEL, &k->key, &bytes);
	at = calm();
	if (r >= 0)
		fd = memfd_of(bytes.data, bytes.len);
	calm_ends(at);
	if (r >= 0)
		r = uw_kernel_table_new(fd, bytes.len, KERNEL, &k->key, &t);
	if (r >= 0) {
		name = uw_kernel_table_name(t, KERNEL + 256 * 2900, &start, &core);
		r = expect_name(name, "name_2900");
		at = calm();
		name = uw_kernel_table_name(t, KERNEL + 256 * 2900, &start, &core);
		assert_int_equal(expect_name(name, "name_2900"), 0);
		(void)uw_kernel_table_free(t);
		calm_ends(at);
	}
	(void)uw_kallsyms_free(ks);
	buffer_deinit(&bytes);
	return r;
}

/* With a table of an earlier run, which the first one writes, or without. */
static int make_names(void *arg)
{
	const struct kernel *k = arg;
	int cache = k->cached ? cache_dir_open_in(root) : -1, r;
	struct uw_kernel_names *n;
	uint64_t start;

	if (k->cached && cache < 0)
		return cache;
	r = uw_kernel_names_new(root, cache, &n);
	if (r < 0)
		return r;
	assert_int_equal(r, 0);
	r = uw_kernel_names_add(n, MODULE + 0x1000, 64, "bpf_prog");
	if (r >= 0)
		r = expect_name(uw_kernel_name(n, MODULE + 0x1001, &start), "bpf_prog");
	if (r >= 0)
		r = expect_name(uw_kernel_name(n, KERNEL + 256 * 7 + 3, &start), "name_7");
	if (r >= 0)
		r = expect_name(uw_kernel_name(n, MODULE + 64 * 3, &start), "of_17");
	assert_true(r >= 0 || r == -ENOMEM || uw_kernel_names_error(n) < 0);
	(void)uw_kernel_names_free(n);
	return r;
}

static int make_names_of(void *arg)
{
	struct uw_kallsyms *ks = NULL;
	struct uw_kernel_names *n;
	int r = uw_kallsyms_new_empty(&ks);

	(void)arg;
	if (r < 0)
		return r;
	r = uw_kernel_names_new_of(ks, &n);
	if (r >= 0)
		(void)uw_kernel_names_free(n);
	else
		(void)uw_kallsyms_free(ks);
	return r;
}

static void test_kernel(void **state)
{
	static struct kernel k;

	(void)state;
	kernel_begin(&k);
	reads_fail = true;
	sweep("kallsyms", make_kallsyms, nothing, &k);
	sweep("kallsyms of another run", make_moved, nothing, &k);
	sweep("table of the kernel", make_table, nothing, &k);
	fake_root_make();
	put("/proc/kallsyms", k.text);
	put("/proc/modules", "one 16384 3 - Live 0xffffffffc0000000\n");
	put("/proc/sys/kernel/random/boot_id", "4d3f0b6e-3c2e-4e0f-9a51-0f8e3d9c7a11\n");
	sweep("names of the kernel", make_names, nothing, &k);
	k.cached = true;
	sweep("names with a table", make_names, nothing, &k);
	sweep("names read elsewhere", make_names_of, nothing, &k);
	assert_int_equal(fake_root_remove(), 0);
	fd_close(k.fd);
}

/* A test that failed leaves nothing to the next one. */
static int begin(void **state)
{
	(void)state;
	reads_fail = false;
	calls_fail(0);
	return 0;
}

int main(void)
{
#define TEST(test) cmocka_unit_test_setup(test, begin)
	const struct CMUnitTest tests[] = {
		TEST(test_files),	TEST(test_separate),	   TEST(test_memory),
		TEST(test_lines),	TEST(test_perf_map),	   TEST(test_jitdump),
		TEST(test_code),	TEST(test_hotspot),	   TEST(test_python),
		TEST(test_php),		TEST(test_ruby),	   TEST(test_js),
		TEST(test_packed_file), TEST(test_packed_jitdump), TEST(test_packed_vm),
		TEST(test_set),		TEST(test_kernel),
	};

	return cmocka_run_group_tests_name("symbols-calls", tests, NULL, NULL);
}
