/* test-file-calls.c - each allocation and system call with which a trace is read, its frames get names and lines (of the file of a
 * module, of one that was fetched, of an archive), a function is annotated and a tarball is unpacked, fails once: an error and
 * nothing is kept, or the result is whole. */
#include <sys/stat.h>

#include "tests/unit/cli/with-line.h"
#include "tests/unit/fail-calls.h"
#include "tests/unit/unwinder/unwinder-fixture.h"

#include "base/log.h"
#include "cli/annotate.h"
#include "cli/archive.h"
#include "cli/cmd-symbolize.h"
#include "cli/trace-input.h"
#include "trace/sink.h"
#include "trace/writer.h"

enum { FRAMES = 8, STEP = 4 };

static char dir[] = "/tmp/perfwind-calls.XXXXXX";
static char library[64]; /* with work(); "": no compiler */
static struct uw_build_id library_id;
static uint64_t work_at;

static const char program[] = "volatile int sink;\n"
			      "static inline __attribute__((always_inline)) int leaf(int x) {\n"
			      "	return sink + x;\n"
			      "}\n"
			      "int work(int x) {\n"
			      "	int n = 0;\n"
			      "	for (int i = 0; i < x; i++) n += leaf(i) * leaf(x);\n"
			      "	return n;\n"
			      "}\n";

/* So that it counts as the program's own allocation (calls_own). */
char *strdup(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = malloc(size);

	return copy ? memcpy(copy, text, size) : NULL;
}

/* A trace with samples in work(), which has no lines. */
static void make_profile(struct profile *profile)
{
	const struct writer_options options = {.leader = {.counter = 1},
					       .frequency = 999,
					       .clock = CLOCK_MONOTONIC,
					       .sequence_id = 2,
					       .tool = "perfwind test"};
	struct writer_sample sample = {.time = 1000, .pid = 7, .tid = 7};
	uint32_t mapping, frame;
	struct writer *writer;
	struct sink *sink;
	const void *data;
	char error[512];
	size_t len;

	assert_int_equal(sink_memory_new(&sink), 0);
	assert_int_equal(writer_new(&options, sink, &writer), 0);
	assert_int_equal(writer_start(writer), 0);
	assert_int_equal(
		writer_mapping(writer, library, library_id.bytes, library_id.len, 0, 0, &mapping),
		0);
	for (uint64_t i = 0; i < FRAMES; i++) {
		assert_int_equal(writer_frame(writer, mapping, work_at + i * STEP, "work", &frame),
				 0);
		assert_int_equal(writer_callstack(writer, &frame, 1, &sample.callstack), 0);
		sample.time++;
		sample.count++;
		assert_int_equal(writer_sample(writer, &sample), 0);
	}
	(void)writer_free(writer);
	data = sink_memory_data(sink, &len);
	assert_int_equal(profile_parse(data, len, profile, error, sizeof(error)), 0);
	(void)sink_free(sink);
}

/* ---- names and lines ---- */

struct names {
	struct profile profile;
	struct file_places places;
	struct buffer packets;
	size_t len, lined; /* 0: not known yet */
};
static int make_names(void *arg)
{
	struct names *made = arg;
	struct symbolize_result result;
	int r;

	made->packets = (struct buffer){0};
	r = symbolize(&made->profile, &made->places, &made->packets, &result);
	if (r < 0) {
		buffer_deinit(&made->packets);
		return r;
	}
	/* Without a descriptor the file counts as missing, and libdw may have no lines (symbols/lines.c). */
	if (made->len && result.lined == made->lined && made->packets.len != made->len)
		fail_msg("call %lu: %zu bytes of %zu", calls_fail_at, made->packets.len, made->len);
	if (!made->len) {
		made->len = made->packets.len;
		made->lined = result.lined;
	}
	return 0;
}
static void end_names(void *arg)
{
	buffer_deinit(&((struct names *)arg)->packets);
}

/* ---- a function ---- */

struct annotations {
	struct profile profile;
	struct annotation annotation;
	size_t n_lines, n_texts; /* 0: not known yet */
};
static int make_annotation(void *arg)
{
	static const struct file_places places;
	static const struct annotate_options options = {.function = "work", .places = &places};
	struct annotations *made = arg;
	const struct annotation *a = &made->annotation;
	int r = annotate_init(&made->annotation, &made->profile, &options);

	if (r < 0)
		return r;
	/* libdw may have no lines (symbols/lines.c). */
	if (made->n_lines == a->lines.n && !a->note && a->texts.n_entries != made->n_texts)
		fail_msg("call %lu: %u texts of %zu", calls_fail_at, a->texts.n_entries,
			 made->n_texts);
	if (!made->n_texts) {
		made->n_lines = a->lines.n;
		made->n_texts = a->texts.n_entries;
	}
	return 0;
}
static void end_annotation(void *arg)
{
	annotate_deinit(&((struct annotations *)arg)->annotation);
}

/* ---- traces ---- */

struct inputs {
	const char *path;
	struct profile profile;
	size_t n_samples; /* 0: not known yet */
};
static int read_input(void *arg)
{
	struct inputs *made = arg;
	const struct profile_filter only = {.comm = "none"};
	const struct trace_input input = {.path = made->path, .only = &only};

	return trace_input_read(&input, "report", &made->profile);
}
static int make_input(void *arg)
{
	struct inputs *made = arg;
	int r = with_line(made->path, read_input, made);

	if (r < 0)
		return r;
	if (made->n_samples && made->profile.n_samples != made->n_samples)
		fail_msg("call %lu: %zu samples of %zu", calls_fail_at, made->profile.n_samples,
			 made->n_samples);
	made->n_samples = made->profile.n_samples;
	return 0;
}
static void end_input(void *arg)
{
	profile_deinit(&((struct inputs *)arg)->profile);
}

/* ---- archives ---- */

struct archives {
	char path[64];
	struct archive archive;
};
static bool has_file(const struct archive *a, const char *name, off_t size)
{
	char path[PATH_MAX + 64];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/.build-id/ab/0123/%s", a->folder, name);
	return stat(path, &st) == 0 && st.st_size == size;
}
static int unpack(void *arg)
{
	struct archives *made = arg;

	return archive_unpack(made->path, &made->archive);
}
static int make_archive(void *arg)
{
	struct archives *made = arg;
	int r = with_line("archive", unpack, made);

	if (r == -EINVAL)
		fail_msg("call %lu: the tarball is taken for another file", calls_fail_at);
	if (r < 0 && (made->archive.folder[0] || made->archive.keeper > 0))
		fail_msg("call %lu: %d and a folder", calls_fail_at, r);
	if (r >= 0 && !calls_fail_at &&
	    (!has_file(&made->archive, "elf", 5) || !has_file(&made->archive, "debug", 300000)))
		fail_msg("call %lu: a file is missing", calls_fail_at);
	return r;
}
static void end_archive(void *arg)
{
	archive_deinit(&((struct archives *)arg)->archive);
}

/* As calls_sweep(), of a fixed number of calls, most of which the process that unpacks makes: its failures may have no effect. */
static void sweep_children(const struct calls_made *of)
{
	enum { CALLS = 50 };
	size_t files;
	long held;

	assert_true(of->make(of->arg) >= 0);
	of->end(of->arg);
	files = open_files();
	held = malloc_held;
	for (unsigned long n = 1; n <= CALLS; n++) {
		int r;

		calls_fail(n);
		r = of->make(of->arg);
		calls_fail(0);
		if (r >= 0)
			of->end(of->arg);
		if (open_files() != files || malloc_held != held)
			fail_msg("%s, call %lu: %d, %zu descriptors, before %zu; %ld blocks, %ld",
				 of->name, n, r, open_files(), files, malloc_held, held);
	}
}

/* ---- the tests ---- */

static int setup(void **state)
{
	char path[128], name[64];
	struct uw_source source;
	uint64_t *work;
	Dl_info info;
	void *so;

	(void)state;
	log_level = LOG_LEVEL_QUIET;
	if (!mkdtemp(dir) || setenv("TMPDIR", dir, 1) < 0)
		return -1;
	(void)snprintf(path, sizeof(path), "%s/x.c", dir);
	(void)snprintf(name, sizeof(name), "%s/x.so", dir);
	file_write(path, program, sizeof(program) - 1);
	if (!have("gcc") ||
	    !shell("cd %s && gcc -g -O2 -shared -fPIC -Wl,--build-id -o x.so x.c", dir))
		return 0;
	so = dlopen(name, RTLD_NOW);
	work = so ? dlsym(so, "work") : NULL;
	if (!work || !dladdr(work, &info))
		return -1;
	work_at = (uint64_t)((uintptr_t)work - (uintptr_t)info.dli_fbase);
	(void)dlclose(so);
	source = (struct uw_source){.fd = open(name, O_RDONLY | O_CLOEXEC)};
	if (uw_source_build_id(&source, &library_id) < 0)
		return -1;
	(void)close(source.fd);
	(void)snprintf(library, sizeof(library), "%s", name);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	return shell("rm -r '%s'", dir) ? 0 : -1;
}

static void hex_of(const struct uw_build_id *id, char *to)
{
	for (unsigned i = 0; i < id->len; i++)
		(void)snprintf(to + 2 * i, 3, "%02x", id->bytes[i]);
}

/* The file of the module; the same file as one that debuginfod fetched, parsed by a process of its own. */
static void test_names(void **state)
{
	struct names made = {.places = {.symfs = NULL}};
	struct annotations annotations = {.n_lines = 0};
	char hex[2 * UW_BUILD_ID_MAX + 1] = "", fetched[80];

	(void)state;
	if (!*library) {
		print_message("no compiler here\n");
		skip();
	}
	calls_own = true;
	make_profile(&made.profile);
	annotations.profile = made.profile;
	calls_sweep(&(struct calls_made){"names", make_names, end_names, &made});
	assert_int_equal(made.lined, FRAMES);
	calls_sweep(
		&(struct calls_made){"function", make_annotation, end_annotation, &annotations});
	assert_true(annotations.n_lines > 0);
	hex_of(&library_id, hex);
	(void)snprintf(fetched, sizeof(fetched), "%s/fetched", dir);
	assert_true(shell("mkdir -p %s/%s && cp %s %s/%s/debuginfo", fetched, hex, library, fetched,
			  hex));
	made.places.fetched = fetched;
	made.len = 0;
	calls_sweep(&(struct calls_made){"fetched", make_names, end_names, &made});
	assert_int_equal(made.lined, FRAMES);
	calls_own = false;
	no_child_is_left();
	profile_deinit(&made.profile);
}

static void test_inputs(void **state)
{
	static const char *const paths[] = {"tests/fuzz/corpus/trace/stock",
					    "tests/fuzz/corpus/perfdata/file-dwarf"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		struct inputs made = {.path = paths[i]};

		calls_sweep(&(struct calls_made){paths[i], make_input, end_input, &made});
	}
}

static void test_archives(void **state)
{
	static const char *const options[] = {"", "--gzip", "--xz", "--bzip2"};
	struct archives made;

	(void)state;
	(void)snprintf(made.path, sizeof(made.path), "%s/x.tar", dir);
	assert_true(shell("cd '%s' && mkdir -p c/usr/x/ab0123 && echo code >c/usr/x/ab0123/elf && "
			  "dd if=/dev/zero of=c/usr/x/ab0123/debug bs=1000 count=300 status=none",
			  dir));
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		if (!shell("cd '%s' && tar -cf x.tar %s -C c . 2>/dev/null", dir, options[i]))
			continue; /* the program is not installed */
		sweep_children(&(struct calls_made){*options[i] ? options[i] : "plain",
						    make_archive, end_archive, &made});
	}
	no_child_is_left();
	assert_false(shell("ls -d '%s'/perfwind-archive-* >/dev/null 2>&1", dir));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_names),
					   cmocka_unit_test(test_inputs),
					   cmocka_unit_test(test_archives)};

	return cmocka_run_group_tests_name("file-calls", tests, setup, teardown);
}
