/* test-emit-late.c - names that come after their frames: of a module with symbols that were dropped;
 * what is remembered of modules is bounded. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "trace/writer-private.h"
#include "session/pipeline/emit-private.h"
#include "session/pipeline/jit-hint.h"
#include "tests/unit/cmocka.h"

int late_root(int x);
int pcre2_jit_match_test(int x);
int late_first(int x);
int late_second(int x);

__attribute__((noinline)) int late_root(int x)
{
	return late_first(x) - late_second(x) + pcre2_jit_match_test(x);
}

/* As the function that runs code of PCRE's compiler. */
__attribute__((noinline)) int pcre2_jit_match_test(int x)
{
	return x * 7;
}

__attribute__((noinline)) int late_first(int x)
{
	return x + 1;
}

__attribute__((noinline)) int late_second(int x)
{
	return x * 3;
}

struct fixture {
	struct uw_modules *modules;
	struct process_table *processes;
	struct loader *loader;
	struct sink *sink;
	struct writer *writer;
	struct account account;
	struct emit *emit;
};

static void fixture_init_lines(struct fixture *f, bool no_lines)
{
	const struct writer_options options = {.leader = {.counter = 1},
					       .frequency = 999,
					       .clock = CLOCK_MONOTONIC,
					       .sequence_id = 2,
					       .tool = "perfwind test"};

	*f = (struct fixture){0};
	assert_int_equal(uw_modules_new(&f->modules), 0);
	assert_int_equal(process_table_new(f->modules, 10, &f->processes), 0);
	assert_int_equal(loader_new_inline("", &f->loader), 0);
	assert_int_equal(sink_memory_new(&f->sink), 0);
	assert_int_equal(writer_new(&options, f->sink, &f->writer), 0);
	assert_int_equal(writer_start(f->writer), 0);
	assert_int_equal(emit_new(&(struct emit_context){.writer = f->writer,
							 .loader = f->loader,
							 .modules = f->modules,
							 .account = &f->account,
							 .clock = CLOCK_MONOTONIC,
							 .no_lines = no_lines},
				  &f->emit),
			 0);
}

static void fixture_init(struct fixture *f)
{
	fixture_init_lines(f, true);
}

static void fixture_deinit(struct fixture *f)
{
	f->emit = emit_free(f->emit);
	f->loader = loader_free(f->loader);
	writer_free(f->writer);
	sink_free(f->sink);
	f->processes = process_table_free(f->processes);
	f->modules = uw_modules_free(f->modules);
}

static void answer_all(struct fixture *f)
{
	struct load_answer a;

	while (loader_answer(f->loader, &a)) {
		assert_int_equal(emit_answer(f->emit, &a), 0);
		load_answer_deinit(&a);
	}
	assert_int_equal(writer_symbols_flush(f->writer), 0);
}

/* This program's own text, as its process has it mapped. */
static struct uw_module *map_self(struct fixture *f, struct process **ret_process)
{
	uint32_t pid = (uint32_t)getpid();
	char path[4096], line[4352];
	unsigned long start, end, offset;
	FILE *maps = fopen("/proc/self/maps", "r");
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	struct uw_file_id id = {0};
	struct uw_space *space;
	struct stat st;

	assert_true(n > 0 && maps);
	path[n] = 0;
	assert_int_equal(stat(path, &st), 0);
	id.major = major(st.st_dev);
	id.minor = minor(st.st_dev);
	id.inode = st.st_ino;
	do
		assert_non_null(fgets(line, sizeof(line), maps));
	while (sscanf(line, "%lx-%lx r-xp %lx", &start, &end, &offset) != 3);
	fclose(maps);
	assert_int_equal(
		process_mmap(f->processes, pid, start, end - start, offset, true, path, &id), 0);
	*ret_process = process_find(f->processes, pid);
	assert_int_equal(process_space(f->processes, *ret_process, &space), 0);
	assert_int_equal(space->n_maps, 1);
	return uw_space_map(space, 0)->module;
}

static void load(struct fixture *f, struct uw_module *module, const struct process *process)
{
	const struct load_request request = loader_module_request(process, module);

	assert_true(uw_module_want_unwind(module));
	(void)uw_module_ref(module);
	assert_true(loader_ask(f->loader, &request));
	answer_all(f);
	assert_int_equal(uw_module_symbol_state(module), UW_MODULE_READY);
}

/* With this program's own text, its names known. */
static struct uw_module *fixture_loaded(struct fixture *f, struct process **ret_process)
{
	struct uw_module *module;

	fixture_init(f);
	module = map_self(f, ret_process);
	load(f, module, *ret_process);
	return module;
}

static void sample_ended(struct fixture *f, struct process *process, int (*at)(int),
			 enum uw_outcome result, uint32_t n)
{
	struct outcome *o = calloc(1, sizeof(*o) + 2 * sizeof(o->frames[0]));
	struct uw_space *space;

	assert_non_null(o);
	assert_int_equal(process_space(f->processes, process, &space), 0);
	o->kind = OUTCOME_SAMPLE;
	o->result = (uint8_t)result;
	o->n_user = n;
	o->frames[0] = (uint64_t)(uintptr_t)at;
	o->frames[1] = (uint64_t)(uintptr_t)late_root;
	o->info.process = process_ref(process);
	o->info.space = uw_space_ref(space);
	o->info.pid = o->info.tid = process->pid;
	assert_int_equal(emit_outcome(f->emit, o), 0);
	free(o);
}

static void sample(struct fixture *f, struct process *process, int (*at)(int))
{
	sample_ended(f, process, at, UW_WHOLE, 2); /* a unsymbolized root is not counted */
}

static bool has_late_name(struct fixture *f, const char *name)
{
	size_t len;
	const void *data = sink_memory_data(f->sink, &len);

	return memmem(data, len, name, strlen(name)) != NULL;
}

static uint64_t unsymbolized(struct fixture *f)
{
	struct emit_unsymbolized *list;
	uint64_t samples = 0;
	size_t n;

	assert_int_equal(emit_unsymbolized(f->emit, &list, &n), 0);
	for (size_t i = 0; i < n; i++)
		samples += list[i].samples;
	free(list);
	return samples;
}

/* Of a stack that broke off, the last frame is not a root. */
static void broken_off(void **state)
{
	const uint64_t start = (uint64_t)(uintptr_t)late_root & ~0xfffull;
	const struct uw_file_id id = {.major = 8, .inode = 100};
	struct fixture f;

	(void)state;
	fixture_init(&f);
	assert_int_equal(process_mmap(f.processes, 700, start, 8192, 0, true, "/nowhere/a.so", &id),
			 0);
	sample_ended(&f, process_find(f.processes, 700), late_root, UW_WHOLE, 1);
	assert_int_equal(unsymbolized(&f), 1); /* the innermost frame, whatever it is */
	sample_ended(&f, process_find(f.processes, 700), late_root, UW_FAILED, 1);
	assert_int_equal(unsymbolized(&f), 2);
	fixture_deinit(&f);
}

/* Modules that a reader cannot distinguish are one line of the verdict. */
static void one_name_once(void **state)
{
	static const char *const paths[] = {"/nowhere/a.so", "/nowhere/b.so", "/nowhere/a.so"};
	const uint64_t start = (uint64_t)(uintptr_t)late_root & ~0xfffull;
	struct emit_unsymbolized *list;
	struct fixture f;
	size_t n;

	(void)state;
	fixture_init(&f);
	for (uint32_t i = 0; i < ARRAY_SIZE(paths); i++) {
		const struct uw_file_id id = {.major = 8, .inode = 100 + i};

		assert_int_equal(
			process_mmap(f.processes, 700 + i, start, 8192, 0, true, paths[i], &id), 0);
		sample(&f, process_find(f.processes, 700 + i), late_root);
	}
	assert_int_equal(emit_unsymbolized(f.emit, &list, &n), 0);
	assert_int_equal(n, 2);
	assert_string_equal(list[0].path, "/nowhere/a.so");
	assert_int_equal(list[0].samples, 2);
	assert_int_equal(list[1].samples, 1);
	free(list);
	fixture_deinit(&f);
}

/* Its rules stay when a module is dropped, so nothing but the emitter may want it again. */
static void wanted_again(void **state)
{
	struct process *process;
	struct uw_module *module;
	struct fixture f;

	(void)state;
	module = fixture_loaded(&f, &process);
	sample(&f, process, late_first);
	assert_true(has_late_name(&f, "late_first"));
	uw_module_drop_unwind(module);
	uw_module_drop_symbols(module);
	sample(&f, process, late_first); /* a known frame needs nothing */
	assert_int_equal(uw_module_symbol_state(module), UW_MODULE_NEW);
	sample(&f, process, late_second);
	assert_false(has_late_name(&f, "late_second"));
	assert_int_equal(unsymbolized(&f), 1);
	answer_all(&f);
	assert_true(has_late_name(&f, "late_second"));
	uw_module_drop_symbols(module);
	sample(&f, process, late_second); /* named, wherever its symbols are */
	assert_int_equal(unsymbolized(&f), 0);
	assert_int_equal(uw_module_symbol_state(module), UW_MODULE_NEW);
	assert_int_equal(uw_module_unwind_state(module), UW_MODULE_NEW);
	/* The tables begin again while the symbols are away: what got its name is not taken off again. */
	assert_int_equal(writer_forget(f.writer), 0);
	sample(&f, process, late_first);
	assert_int_equal(unsymbolized(&f), 1);
	fixture_deinit(&f);
}

/* Dropped before the answer came: a tick later it is wanted once more. */
static void dropped_meanwhile(void **state)
{
	struct process *process;
	struct uw_module *module;
	struct fixture f;

	(void)state;
	module = fixture_loaded(&f, &process);
	uw_module_drop_symbols(module);
	sample(&f, process, late_second);
	for (int i = 0; i < 2; i++) {
		struct load_answer a;

		assert_false(has_late_name(&f, "late_second"));
		assert_true(loader_answer(f.loader, &a));
		uw_module_drop_symbols(module);
		assert_int_equal(emit_answer(f.emit, &a), 0);
		load_answer_deinit(&a);
		assert_int_equal(emit_tick(f.emit), 0);
		assert_int_equal(uw_module_symbol_state(module), UW_MODULE_WANTED);
	}
	answer_all(&f);
	assert_true(has_late_name(&f, "late_second"));
	fixture_deinit(&f);
}

/* The names that cannot be had again take nothing else with them. */
static void gone_meanwhile(void **state)
{
	struct process *process;
	struct uw_module *module;
	struct fixture f;

	(void)state;
	module = fixture_loaded(&f, &process);
	uw_module_drop_unwind(module);
	uw_module_drop_symbols(module);
	uw_module_want_symbols(module);
	uw_module_set_no_symbols(module);
	sample(&f, process, late_second);
	assert_int_equal(unsymbolized(&f), 1);
	answer_all(&f);
	assert_int_equal(unsymbolized(&f), 1); /* an answer without names leaves the count alone */
	assert_false(has_late_name(&f, "late_second"));
	assert_int_equal(uw_module_unwind_state(module), UW_MODULE_NEW);
	assert_int_equal(uw_module_symbol_state(module), UW_MODULE_UNREADABLE);
	fixture_deinit(&f);
}

/* A Java VM writes its perf map when it exits: after the samples. */
static void map_at_the_end(void **state)
{
	const uint32_t pid = (uint32_t)getpid();
	char path[64], line[64];
	struct process *process;
	struct outcome *o = calloc(1, sizeof(*o) + 2 * sizeof(o->frames[0]));
	struct uw_space *space;
	struct fixture f;
	FILE *map;

	(void)state;
	assert_non_null(o);
	(void)snprintf(path, sizeof(path), "/tmp/perf-%u.map", pid);
	(void)unlink(path);
	fixture_init(&f);
	assert_int_equal(process_mmap(f.processes, pid, 0x10000, 0x2000, 0, true, "//anon", NULL),
			 0);
	process = process_find(f.processes, pid);
	process->owner = getuid();
	assert_int_equal(process_space(f.processes, process, &space), 0);
	o->kind = OUTCOME_SAMPLE;
	o->result = UW_WHOLE;
	o->n_user = 2;
	o->frames[0] = 0x10010;
	o->frames[1] = 0x11010;
	o->info.process = process_ref(process);
	o->info.space = uw_space_ref(space);
	o->info.pid = o->info.tid = pid;
	assert_int_equal(emit_outcome(f.emit, o), 0);
	free(o);
	answer_all(&f);
	assert_int_equal(unsymbolized(&f), 1);

	map = fopen(path, "we");
	assert_non_null(map);
	(void)snprintf(line, sizeof(line), "10000 100 late_jit\n11000 100 late_jit_root\n");
	assert_true(fputs(line, map) >= 0 && fchmod(fileno(map), 0600) == 0 && !fclose(map));
	emit_ask_names(f.emit);
	answer_all(&f);
	assert_true(has_late_name(&f, "late_jit"));
	assert_true(has_late_name(&f, "late_jit_root"));
	assert_int_equal(unsymbolized(&f), 0);
	assert_int_equal(unlink(path), 0);
	fixture_deinit(&f);
}

/* A sample at @time of @frames in JIT code, innermost first. */
static void sample_jit(struct fixture *f, struct process *process, uint64_t time,
		       const uint64_t *frames, uint32_t n)
{
	struct outcome *o = calloc(1, sizeof(*o) + n * sizeof(o->frames[0]));
	struct uw_space *space;

	assert_non_null(o);
	assert_int_equal(process_space(f->processes, process, &space), 0);
	o->kind = OUTCOME_SAMPLE;
	o->result = UW_WHOLE;
	o->n_user = n;
	memcpy(o->frames, frames, n * sizeof(*frames));
	o->info.process = process_ref(process);
	o->info.space = uw_space_ref(space);
	o->info.pid = o->info.tid = process->pid;
	o->info.time = time;
	assert_int_equal(emit_outcome(f->emit, o), 0);
	free(o);
}

static void put_load(FILE *dump, uint64_t time, const char *name)
{
	const uint64_t fixed[] = {time, 0, 0x10000, 0x10000, 0x100, 1};
	const uint32_t head[] = {0, (uint32_t)(8 + sizeof(fixed) + strlen(name) + 1)};

	assert_int_equal(fwrite(head, sizeof(head), 1, dump), 1);
	assert_int_equal(fwrite(fixed, sizeof(fixed), 1, dump), 1);
	assert_int_equal(fwrite(name, strlen(name) + 1, 1, dump), 1);
	assert_int_equal(fflush(dump), 0);
}

static struct uw_module *read_dump(const char *path, struct uw_extent known)
{
	struct uw_source source = {.fd = open(path, O_RDONLY | O_CLOEXEC),
				   .reading = {.names_only = true, .known = known}};
	struct uw_module *reader;

	assert_true(source.fd >= 0);
	assert_int_equal(uw_module_new(UW_MODULE_JIT, "jit-1.dump", NULL, &reader), 0);
	assert_int_equal(uw_module_load_symbols(reader, &source), 0);
	fd_close(source.fd);
	return reader;
}

/* @module gets what the dump has behind @known, as from the process that reads. */
static void read_on(const char *path, struct uw_module *module, struct uw_extent known)
{
	static uint8_t bytes[64 << 10];
	struct packer to = {.data = bytes, .room = sizeof(bytes)};
	struct uw_module *reader = read_dump(path, known);

	uw_module_pack(reader, &to);
	assert_in_range(to.len, 1, sizeof(bytes));
	assert_int_equal(
		uw_module_unpack(module, &(struct cursor){.p = bytes, .end = bytes + to.len}, -1),
		0);
	uw_module_unref(reader);
}

/* A dump that was read last before its program loaded other code to the address of a sample, which did not wait. */
static void dump_read_late(void **state)
{
	enum { SLICE_US = 151000 }; /* behind the reading it begins a slice */
	static const uint32_t header[] = {0x4a695444, 1, 12};
	const uint64_t now = clock_ns(CLOCK_MONOTONIC), jit[] = {0x10010, 0x10090};
	const uint32_t pid = (uint32_t)getpid();
	struct uw_file_id id = {0};
	struct process *process;
	struct fixture f;
	struct stat st;
	char path[64];
	FILE *dump;

	(void)state;
	(void)snprintf(path, sizeof(path), "/tmp/jit-%u.dump", pid);
	(void)unlink(path);
	dump = fopen(path, "wxe");
	assert_non_null(dump);
	assert_true(!fchmod(fileno(dump), 0600) && !fstat(fileno(dump), &st));
	assert_int_equal(fwrite(header, sizeof(header), 1, dump), 1);
	put_load(dump, now - 10 * NSEC_PER_SEC, "jit_before");
	fixture_init(&f);
	id = (struct uw_file_id){
		.major = major(st.st_dev), .minor = minor(st.st_dev), .inode = st.st_ino};
	assert_int_equal(process_mmap(f.processes, pid, 0x10000, 0x2000, 0, true, "//anon", NULL),
			 0);
	assert_int_equal(process_mmap(f.processes, pid, 0x20000, 0x1000, 0, true, path, &id), 0);
	process = process_find(f.processes, pid);
	process->owner = getuid();
	sample_jit(&f, process, now - 5 * NSEC_PER_SEC, jit, 2);
	answer_all(&f);
	assert_true(has_late_name(&f, "jit_before"));
	put_load(dump, clock_ns(CLOCK_MONOTONIC), "jit_after");
	assert_int_equal(usleep(SLICE_US), 0);
	sample_jit(&f, process, clock_ns(CLOCK_MONOTONIC), jit, 2);
	answer_all(&f);
	assert_false(has_late_name(&f, "jit_after"));
	emit_ask_names(f.emit);
	read_on(path, process->jit, uw_module_extent(process->jit));
	answer_all(&f);
	assert_true(has_late_name(&f, "jit_after"));
	assert_int_equal(fclose(dump), 0);
	assert_int_equal(unlink(path), 0);
	fixture_deinit(&f);
}

static bool must_wait(const struct fixture *f, struct process *process, uint64_t time)
{
	const struct sample_info info = {.process = process, .pid = process->pid, .time = time};

	return emit_must_wait(f->emit, &info);
}

/* A dump that was read up to behind the samples, while other code was loaded between them. */
static void dump_read_before(void **state)
{
	static const uint32_t header[] = {0x4a695444, 1, 12};
	const uint64_t begun = clock_ns(CLOCK_MONOTONIC), jit[] = {0x10010, 0x10090};
	const uint32_t pid = (uint32_t)getpid();
	struct process *process, *other;
	struct load_answer next;
	struct fixture f;
	struct stat st;
	uint64_t now;
	char path[64];
	FILE *dump;

	(void)state;
	(void)snprintf(path, sizeof(path), "/tmp/jit-%u.dump", pid);
	(void)unlink(path);
	dump = fopen(path, "wxe");
	assert_non_null(dump);
	assert_true(!fchmod(fileno(dump), 0600) && !fstat(fileno(dump), &st));
	assert_int_equal(fwrite(header, sizeof(header), 1, dump), 1);
	put_load(dump, begun - 10 * NSEC_PER_SEC, "jit_before");
	put_load(dump, begun - 3 * NSEC_PER_SEC, "jit_after");
	fixture_init(&f);
	assert_int_equal(process_mmap(f.processes, pid, 0x10000, 0x2000, 0, true, "//anon", NULL),
			 0);
	assert_int_equal(
		process_mmap(f.processes, pid + 1, 0x10000, 0x2000, 0, true, "//anon", NULL), 0);
	assert_int_equal(process_mmap(f.processes, pid, 0x20000, 0x1000, 0, true, path,
				      &(struct uw_file_id){.major = major(st.st_dev),
							   .minor = minor(st.st_dev),
							   .inode = st.st_ino}),
			 0);
	process = process_find(f.processes, pid);
	other = process_find(f.processes, pid + 1);
	process->owner = other->owner = getuid();
	assert_false(must_wait(&f, process, begun)); /* no code of it ran */
	sample_jit(&f, process, begun - 5 * NSEC_PER_SEC, jit, 2);
	sample_jit(&f, other, begun - 5 * NSEC_PER_SEC, jit, 2);
	now = clock_ns(CLOCK_MONOTONIC);
	assert_true(must_wait(&f, process, begun)); /* its symbols are requested */
	answer_all(&f);
	assert_false(must_wait(&f, process, begun));
	assert_true(must_wait(&f, process, now));
	assert_false(must_wait(&f, other, now)); /* it has no dump */
	sample_jit(&f, process, begun - 4 * NSEC_PER_SEC, jit, 2);
	answer_all(&f);
	assert_true(has_late_name(&f, "jit_before"));
	assert_false(has_late_name(&f, "jit_after"));
	sample_jit(&f, process, begun - 2 * NSEC_PER_SEC, jit, 2);
	answer_all(&f);
	assert_true(has_late_name(&f, "jit_after"));
	/* The next reading, or the last; all unwinding information of a small dump comes with it. */
	assert_int_equal(usleep(2000), 0);
	emit_read_dumps(f.emit, now + NSEC_PER_SEC, true);
	assert_true(loader_answer(f.loader, &next));
	assert_false(next.request.reading.names_only);
	assert_int_equal(emit_answer(f.emit, &next), 0);
	load_answer_deinit(&next);
	assert_false(must_wait(&f, process, now));
	now = clock_ns(CLOCK_MONOTONIC);
	assert_true(must_wait(&f, process, now));
	emit_ask_names(f.emit);
	assert_false(must_wait(&f, process, now));
	answer_all(&f);
	assert_int_equal(fclose(dump), 0);
	assert_int_equal(unlink(path), 0);
	fixture_deinit(&f);
}

/* A dump with 20,000 functions, which takes long to read, and then 40,000 more: pauses between two readings, and answers that are not of
 * one. */
static void dump_is_large(void **state)
{
	enum { FUNCTIONS = 20000 };
	static const uint32_t header[] = {0x4a695444, 1, 12};
	const uint64_t begun = clock_ns(CLOCK_MONOTONIC), jit[] = {0x10010};
	const uint32_t pid = (uint32_t)getpid();
	struct load_answer other = {.request = {.kind = LOAD_SYMBOLS}}, next;
	struct uw_module *reader;
	struct process *process;
	struct fixture f;
	struct stat st;
	uint64_t now;
	char path[64];
	FILE *dump;

	(void)state;
	(void)snprintf(path, sizeof(path), "/tmp/jit-%u.dump", pid);
	(void)unlink(path);
	dump = fopen(path, "wxe");
	assert_non_null(dump);
	assert_true(!fchmod(fileno(dump), 0600) && !fstat(fileno(dump), &st));
	assert_int_equal(fwrite(header, sizeof(header), 1, dump), 1);
	for (unsigned i = 0; i < FUNCTIONS; i++)
		put_load(dump, begun - 10 * NSEC_PER_SEC, "jit_function");
	fixture_init(&f);
	assert_int_equal(process_mmap(f.processes, pid, 0x10000, 0x2000, 0, true, "//anon", NULL),
			 0);
	assert_int_equal(process_mmap(f.processes, pid, 0x20000, 0x1000, 0, true, path,
				      &(struct uw_file_id){.major = major(st.st_dev),
							   .minor = minor(st.st_dev),
							   .inode = st.st_ino}),
			 0);
	process = process_find(f.processes, pid);
	process->owner = getuid();
	sample_jit(&f, process, begun - 5 * NSEC_PER_SEC, jit, 1);
	answer_all(&f);
	now = clock_ns(CLOCK_MONOTONIC);
	assert_true(must_wait(&f, process, now));
	/* The next reading has what was added, if anything, and no unwinding information, which comes whole. */
	emit_read_dumps(f.emit, now + 40 * NSEC_PER_MSEC, true);
	assert_int_equal(loader_pending(f.loader), 1);
	other.request.module = uw_module_ref(process->jit); /* after one that the unwinder made */
	assert_int_equal(emit_answer(f.emit, &other), 0);
	assert_true(must_wait(&f, process, now));
	assert_true(loader_answer(f.loader, &next));
	assert_true(next.request.reading.names_only);
	assert_int_equal(next.request.reading.known.codes, FUNCTIONS);
	assert_int_equal(emit_answer(f.emit, &next), 0);
	load_answer_deinit(&next);
	assert_false(must_wait(&f, process, now));
	emit_read_dumps(f.emit, now + 61 * NSEC_PER_MSEC, true);
	assert_int_equal(loader_pending(f.loader), 1);
	for (unsigned i = 0; i < 2 * FUNCTIONS; i++)
		put_load(dump, begun - 9 * NSEC_PER_SEC, "jit_function");
	/* Symbols that cannot be added are an error of their answer. */
	reader = read_dump(path, (struct uw_extent){.codes = 0});
	put_load(dump, begun, "jit_behind");
	read_on(path, process->jit, uw_module_extent(reader));
	uw_module_unref(reader);
	other.request.module = uw_module_ref(process->jit);
	assert_int_equal(emit_answer(f.emit, &other), 0);
	assert_int_equal(other.error, -EBADMSG);
	uw_module_drop_symbols(process->jit); /* that of another process is the same here */
	now = clock_ns(CLOCK_MONOTONIC);
	answer_all(&f);
	emit_read_dumps(f.emit, now + 120 * NSEC_PER_MSEC, true);
	assert_int_equal(loader_pending(f.loader), 0);
	emit_read_dumps(f.emit, now + NSEC_PER_SEC, true);
	assert_int_equal(loader_pending(f.loader), 1);
	answer_all(&f);
	assert_int_equal(fclose(dump), 0);
	assert_int_equal(unlink(path), 0);
	fixture_deinit(&f);
}

/* Code of a compiler of regular expressions, which no file names. */
static void name_by_caller(void **state)
{
	const uint64_t frames[] = {0x10010, 0x10020, (uint64_t)(uintptr_t)pcre2_jit_match_test,
				   (uint64_t)(uintptr_t)late_root};
	const uint64_t others[] = {0x10030, (uint64_t)(uintptr_t)late_first,
				   (uint64_t)(uintptr_t)late_root};
	struct process *process;
	struct fixture f;

	(void)state;
	(void)fixture_loaded(&f, &process);
	assert_int_equal(
		process_mmap(f.processes, process->pid, 0x10000, 0x2000, 0, true, "//anon", NULL),
		0);
	sample_jit(&f, process, 1, frames, 4);
	assert_true(has_late_name(&f, "[pcre-jit]"));
	assert_int_equal(unsymbolized(&f), 0);
	sample_jit(&f, process, 2, frames, 4);
	assert_int_equal(unsymbolized(&f), 0);
	sample_jit(&f, process, 3, others, 3);
	assert_int_equal(unsymbolized(&f), 1);
	fixture_deinit(&f);
}

/* The runtime that a process has mapped; a program that embeds one is named by its library. */
static void hints(void **state)
{
	static const struct {
		const char *path, *hint;
	} cases[] = {
		{"/usr/bin/work", NULL},
		{"/usr/bin/node", "node --perf-basic-prof"},
		{"/usr/lib/notlibjvm.so", "node --perf-basic-prof"},
		{"/usr/lib/libpython3.12.so.1.0", "python3 -X perf, from 3.12 on"},
		{"/usr/lib/jvm/server/libjvm.so", "java -XX:+UnlockDiagnosticVMOptions "
						  "-XX:+DumpPerfMapAtExit, read at the end"},
	};
	struct process *process;
	struct fixture f;

	(void)state;
	fixture_init(&f);
	assert_null(jit_hint(NULL));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct uw_file_id id = {.major = 8, .inode = i + 1};

		assert_int_equal(process_mmap(f.processes, 5, 0x10000 + i * 0x1000, 0x1000, 0, true,
					      cases[i].path, &id),
				 0);
		process = process_find(f.processes, 5);
		if (cases[i].hint)
			assert_string_equal(jit_hint(process), cases[i].hint);
		else
			assert_null(jit_hint(process));
	}
	fixture_deinit(&f);
}

static void test_old_python(void **state)
{
#define TEXT(text) text, sizeof(text) - 1
	static const char map[] = "1000-2000 r-xp 0 8:1 5 /usr/bin/python3.11\n";

	(void)state;
	assert_int_equal(jit_hint_old_python(TEXT("python3\0-X\0perf\0a.py"), TEXT(map)), 11);
	assert_int_equal(jit_hint_old_python(TEXT("python3\0-Xperf\0a.py"), TEXT(map)), 11);
	assert_int_equal(jit_hint_old_python(TEXT("python3\0perf\0-X"), TEXT(map)), 0);
	assert_int_equal(
		jit_hint_old_python(TEXT("python3\0-X\0perf"), TEXT("x /usr/bin/python3.12\n")), 0);
	assert_int_equal(jit_hint_old_python(
				 TEXT("python3\0-X\0perf\0"),
				 TEXT("x /lib/python3.9/site/x.so\nx /lib/libpython3.10.so.1.0\n")),
			 10);
	assert_int_equal(
		jit_hint_old_python(TEXT("python3\0-X\0perf"), TEXT("x /usr/bin/python3.")), 0);
	assert_int_equal(jit_hint_old_python(TEXT("python3\0-X\0perf"), NULL, 0), 0);
	assert_int_equal(jit_hint_old_python(NULL, 0, TEXT(map)), 0);
}

/* A frame in the module at @path, which has no file; and what it is called by there. */
static void sample_of(struct fixture *f, struct process *process, unsigned which)
{
	const uint64_t start = 0x10000000 + (uint64_t)which * 0x1000;
	const struct uw_file_id id = {.major = 8, .inode = which + 1};
	struct outcome *o = calloc(1, sizeof(*o) + 2 * sizeof(o->frames[0]));
	struct uw_space *space;
	char path[32];

	(void)snprintf(path, sizeof(path), "/module-%u", which);
	assert_non_null(o);
	assert_int_equal(
		process_mmap(f->processes, process->pid, start, 0x1000, 0, true, path, &id), 0);
	assert_int_equal(process_space(f->processes, process, &space), 0);
	for (size_t i = 0; i < space->n_maps; i++)
		uw_module_set_unreadable(uw_space_map(space, i)->module);
	o->kind = OUTCOME_SAMPLE;
	o->result = UW_WHOLE;
	o->n_user = 2;
	o->frames[0] = start + 0x10;
	o->frames[1] = start + 0x20;
	o->info.process = process_ref(process);
	o->info.space = uw_space_ref(space);
	o->info.pid = o->info.tid = process->pid;
	assert_int_equal(emit_outcome(f->emit, o), 0);
	free(o);
}

/* Programs without end, each in a process of its own. */
static void many_modules(void **state)
{
	enum { MANY = 40000 };
	uint32_t mapping, frame;
	struct fixture f;
	bool was_full = false;

	(void)state;
	fixture_init(&f);
	for (unsigned i = 0; i < MANY; i++) {
		struct process *process = process_get(f.processes, 10 + i);

		assert_non_null(process);
		sample_of(&f, process, i);
		was_full |= emit_is_full(f.emit);
		assert_true(emit_n_modules(f.emit) <= EMIT_MODULES_MAX);
	}
	assert_true(was_full);
	assert_int_equal(f.account.emitted, MANY);
	assert_int_equal(f.account.skipped[SKIP_OUTPUT], 0);
	/* a frame that was forgotten has its id again: ids of the first module are the first */
	assert_int_equal(writer_mapping(f.writer, "/module-0", NULL, 0, 0, 0, &mapping), 0);
	assert_int_equal(writer_frame(f.writer, mapping, 0x20, NULL, &frame), 0);
	assert_in_range(frame, 1, 4);
	fixture_deinit(&f);
}

/* @n programs from number @first on, each a file of its own, which have ended; some minutes later.  Returns the modules that are
 * left, of the emitter and of the set. */
static size_t churn(struct fixture *f, unsigned first, unsigned n)
{
	for (unsigned i = first; i < first + n; i++) {
		struct process *process = process_get(f->processes, 10 + i);

		assert_non_null(process);
		sample_of(f, process, i);
		assert_int_equal(process_exit(f->processes, 10 + i, 10 + i), 0);
	}
	process_table_release_ended(f->processes, 0);
	for (unsigned second = 0; second < 150; second++)
		assert_int_equal(emit_tick(f->emit), 0);
	assert_int_equal(uw_modules_forget_unused(f->modules, NULL, NULL), 0);
	return emit_n_modules(f->emit) + uw_modules_n(f->modules);
}

/* Memory does not grow with the number of programs that ran, and the list of files without symbols stays. */
static void forgets_modules(void **state)
{
	struct process *process;
	struct fixture f;
	size_t bytes;

	(void)state;
	fixture_init(&f);
	process = process_get(f.processes, 5);
	sample_of(&f, process, 5000); /* this one runs on */
	assert_int_equal(churn(&f, 0, 100), 2);
	bytes = uw_modules_set_bytes(f.modules);
	assert_int_equal(churn(&f, 100, 200), 2);
	assert_int_equal(uw_modules_set_bytes(f.modules), bytes);
	assert_int_equal(unsymbolized(&f), 301);
	sample_of(&f, process, 5000); /* the caches have its frames */
	sample_of(&f, process, 5001);
	assert_int_equal(unsymbolized(&f), 303);
	assert_int_equal(churn(&f, 0, 100), 4); /* the same files once more */
	assert_int_equal(unsymbolized(&f), 403);
	fixture_deinit(&f);
}

/* A module is kept until its lines were requested, and are there. */
static void forgets_after_lines(void **state)
{
	struct uw_module *module;
	struct process *process;
	struct fixture f;

	(void)state;
	fixture_init_lines(&f, false);
	module = map_self(&f, &process);
	load(&f, module, process);
	sample(&f, process, late_second);
	assert_int_equal(process_exit(f.processes, process->pid, process->pid), 0);
	process_table_release_ended(f.processes, 0);
	for (unsigned second = 0; second < 150; second++)
		assert_int_equal(emit_tick(f.emit), 0);
	assert_int_equal(emit_n_modules(f.emit), 1);
	assert_int_equal(loader_pending(f.loader), 1);
	answer_all(&f);
	assert_true(has_late_name(&f, "test-emit-late.c"));
	assert_int_equal(emit_lines_left(f.emit), 0);
	/* This loader, which is no process of its own, has the DWARF open. */
	assert_true(uw_modules_has_owners(module, 2));
	(void)uw_module_unref(module);
	for (unsigned second = 0; second < 10; second++)
		assert_int_equal(emit_tick(f.emit), 0);
	assert_int_equal(emit_n_modules(f.emit), 0);
	(void)uw_module_ref(module);
	fixture_deinit(&f);
}

/* Lines that are to wait for the end of the recording do not keep any number of modules. */
static void forgets_without_lines(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init_lines(&f, false);
	f.emit->c.lines_at_end = true;
	assert_true(churn(&f, 0, 500) == 1000);
	assert_true(churn(&f, 500, 2000) == 2048);
	assert_true(churn(&f, 2500, 4000) == 2048);
	fixture_deinit(&f);
}

/* Lines that come after all ids were forgotten are those of their module, though ids begin again. */
static void lines_of_their_module(void **state)
{
	struct uw_module *module;
	struct process *process;
	struct fixture f;
	const char *path;
	size_t before, len;
	const uint8_t *data;

	(void)state;
	fixture_init_lines(&f, false);
	module = map_self(&f, &process);
	load(&f, module, process);
	sample(&f, process, late_second);
	emit_ask(f.emit);
	assert_int_equal(writer_forget(f.writer), 0);
	sample_of(&f, process_get(f.processes, 7), 1); /* has the id that was the other's */
	assert_int_equal(writer_symbols_flush(f.writer), 0);
	(void)sink_memory_data(f.sink, &before);
	answer_all(&f);
	data = sink_memory_data(f.sink, &len);
	path = uw_module_path(module);
	assert_non_null(memmem(data + before, len - before, path, strlen(path)));
	assert_null(memmem(data + before, len - before, "/module-1", strlen("/module-1")));
	fixture_deinit(&f);
}

/* @n stacks of 1,000 frames that were not there before, then ten minutes. */
static size_t grow_tables(struct fixture *f, struct process *process, unsigned first, unsigned n)
{
	enum { FRAMES = 1000 };
	struct outcome *o = calloc(1, sizeof(*o) + FRAMES * sizeof(o->frames[0]));
	struct uw_space *space;
	size_t bytes;

	assert_non_null(o);
	for (unsigned i = first; i < first + n; i++) {
		assert_int_equal(process_space(f->processes, process, &space), 0);
		o->kind = OUTCOME_SAMPLE;
		o->result = UW_WHOLE;
		o->n_user = FRAMES;
		for (unsigned k = 0; k < FRAMES; k++)
			o->frames[k] = 0x10000000 + 0x10 * (i * FRAMES + k + 1);
		o->info.process = process_ref(process);
		o->info.space = uw_space_ref(space);
		o->info.pid = o->info.tid = process->pid;
		assert_int_equal(emit_outcome(f->emit, o), 0);
	}
	free(o);
	bytes = writer_table_bytes(f->writer);
	for (unsigned second = 0; second < 600; second++)
		assert_int_equal(emit_tick(f->emit), 0);
	return bytes;
}

/* Frames and stacks of more than ten minutes ago are forgotten, but for small tables. */
static void forgets_old_frames(void **state)
{
	struct process *process;
	uint32_t generation;
	struct fixture f;
	size_t bytes;

	(void)state;
	fixture_init(&f);
	process = process_get(f.processes, 5);
	assert_int_equal(process_mmap(f.processes, 5, 0x10000000, 0x1000000, 0, true, "/large",
				      &(struct uw_file_id){.major = 8, .inode = 1}),
			 0);
	generation = writer_generation(f.writer);
	bytes = grow_tables(&f, process, 0, 50);
	assert_true(bytes > 0);
	assert_int_equal(writer_generation(f.writer), generation);
	assert_int_equal(writer_table_bytes(f.writer), bytes);
	bytes = grow_tables(&f, process, 50, 100);
	assert_int_not_equal(writer_generation(f.writer), generation);
	assert_int_equal(writer_table_bytes(f.writer), 0);
	assert_true(grow_tables(&f, process, 150, 200) < bytes * 2);
	assert_int_equal(writer_table_bytes(f.writer), 0);
	fixture_deinit(&f);
}

/* Frames that were forgotten and come again do not get their lines twice. */
static void lines_once(void **state)
{
	struct uw_module *module;
	struct process *process;
	struct fixture f;

	(void)state;
	fixture_init_lines(&f, false);
	module = map_self(&f, &process);
	load(&f, module, process);
	sample(&f, process, late_second);
	emit_ask(f.emit);
	answer_all(&f);
	assert_int_equal(emit_lines_left(f.emit), 0);
	assert_int_equal(writer_forget(f.writer), 0);
	sample(&f, process, late_second);
	assert_int_equal(emit_lines_left(f.emit), 0);
	sample(&f, process, late_first); /* a new one */
	assert_int_equal(emit_lines_left(f.emit), 1);
	emit_renew(f.emit); /* its caller has asked for all lines, or cannot */
	sample(&f, process, late_second);
	assert_int_equal(emit_lines_left(f.emit), 2);
	fixture_deinit(&f);
}

/* Lines that were asked for when all was forgotten are answered all the same. */
static void renewed_while_asked(void **state)
{
	struct uw_module *module;
	struct process *process;
	struct load_answer a;
	struct fixture f;

	(void)state;
	fixture_init_lines(&f, false);
	module = map_self(&f, &process);
	load(&f, module, process);
	sample(&f, process, late_second);
	assert_int_equal(emit_lines_left(f.emit), 2);
	emit_ask(f.emit);
	emit_renew(f.emit);
	assert_int_equal(emit_n_modules(f.emit), 0);
	assert_int_equal(emit_lines_left(f.emit), 2);
	while (loader_answer(f.loader, &a)) {
		assert_int_equal(emit_answer(f.emit, &a), 0);
		load_answer_deinit(&a);
	}
	assert_int_equal(emit_lines_left(f.emit), 0);
	sample(&f, process, late_first); /* and goes on */
	assert_true(has_late_name(&f, "late_first"));
	fixture_deinit(&f);
}

/* The writer's tables were full, so no id of a name is good any more, when a name comes. */
static void forgotten_meanwhile(void **state)
{
	struct uw_module *module;
	struct process *process;
	struct fixture f;
	size_t before, len;
	const uint8_t *data;

	(void)state;
	fixture_init(&f);
	module = map_self(&f, &process);
	load(&f, module, process);
	sample(&f, process, late_first);
	uw_module_drop_symbols(module);
	f.writer->max_frame_bytes = 1;
	sample(&f, process, (int (*)(int))((uintptr_t)late_first + 1));
	assert_int_equal(f.writer->intern.names.n_entries, 0);
	(void)sink_memory_data(f.sink, &before);
	answer_all(&f);
	data = sink_memory_data(f.sink, &len);
	assert_non_null(memmem(data + before, len - before, "late_first", strlen("late_first")));
	fixture_deinit(&f);
}

/* Code that a library makes for itself. */
static void test_name_by_caller(void **state)
{
	(void)state;
	assert_string_equal(jit_name_by_caller("pcre2_match_8"), "[pcre-jit]");
	assert_string_equal(jit_name_by_caller("Builtins_RegExpPrototypeExec"), "[v8-regexp]");
	assert_string_equal(jit_name_by_caller("[pcre-jit]"), "[pcre-jit]"); /* its helpers */
	assert_null(jit_name_by_caller("my_pcre2_match"));
	assert_null(jit_name_by_caller(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_name_once),	 cmocka_unit_test(broken_off),
		cmocka_unit_test(wanted_again),		 cmocka_unit_test(dropped_meanwhile),
		cmocka_unit_test(map_at_the_end),	 cmocka_unit_test(dump_read_late),
		cmocka_unit_test(dump_read_before),	 cmocka_unit_test(dump_is_large),
		cmocka_unit_test(name_by_caller),	 cmocka_unit_test(hints),
		cmocka_unit_test(gone_meanwhile),	 cmocka_unit_test(many_modules),
		cmocka_unit_test(renewed_while_asked),	 cmocka_unit_test(forgotten_meanwhile),
		cmocka_unit_test(test_old_python),	 cmocka_unit_test(test_name_by_caller),
		cmocka_unit_test(forgets_modules),	 cmocka_unit_test(forgets_after_lines),
		cmocka_unit_test(forgets_without_lines), cmocka_unit_test(lines_of_their_module),
		cmocka_unit_test(forgets_old_frames),	 cmocka_unit_test(lines_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
