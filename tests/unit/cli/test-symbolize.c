/* test-symbolize.c - a trace with frames of this program that have no names gets names and lines; not
 * from a file with another build id. */
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/cmd-symbolize.h"
#include "symbols/module.h"
#include "tests/unit/cmocka.h"
#include "trace/module-symbols.h"
#include "trace/sink.h"
#include "trace/writer.h"

int named_later(int x);

__attribute__((noinline)) int named_later(int x)
{
	return x * 7 + 1;
}

static int first_base(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	*(uint64_t *)data = info->dlpi_addr;
	return 1;
}

/* A trace with one sample with a frame in this program, with @id as its build id; the frame has
 * @name. */
static struct sink *make_trace(const struct uw_build_id *id, const char *path, const char *name)
{
	const struct writer_options options = {.leader = {.counter = 1},
					       .frequency = 999,
					       .clock = CLOCK_MONOTONIC,
					       .sequence_id = 2,
					       .tool = "perfwind test"};
	struct writer_sample sample = {.time = 1000, .pid = 7, .tid = 7, .count = 1};
	uint32_t mapping, frame;
	struct writer *writer;
	struct sink *sink;
	uint64_t base = 0;

	(void)dl_iterate_phdr(first_base, &base);
	assert_int_equal(sink_memory_new(&sink), 0);
	assert_int_equal(writer_new(&options, sink, &writer), 0);
	assert_int_equal(writer_start(writer), 0);
	assert_int_equal(writer_mapping(writer, path, id->bytes, id->len, 0, 0, &mapping), 0);
	assert_int_equal(writer_frame(writer, mapping, (uint64_t)(uintptr_t)named_later - base,
				      name, &frame),
			 0);
	assert_int_equal(writer_callstack(writer, &frame, 1, &sample.callstack), 0);
	assert_int_equal(writer_sample(writer, &sample), 0);
	writer_free(writer);
	return sink;
}

static void parse(struct sink *sink, struct profile *profile)
{
	char error[512];
	size_t len;
	const void *data = sink_memory_data(sink, &len);

	assert_int_equal(profile_parse(data, len, profile, error, sizeof(error)), 0);
	assert_int_equal(profile->n_samples, 1);
}

static const struct profile_line *line_of(const struct profile *p)
{
	return &p->lines[p->frames[p->nodes[p->samples[0].stack].frame].first_line];
}

static const char *name_in(const struct profile *p)
{
	uint32_t function = line_of(p)->function;

	return function ? string_table_text(&p->strings, function) : "";
}

/* Symbolizes; *ret_after is the trace with what was appended. */
static void run(struct sink *sink, const struct file_places *places,
		struct symbolize_result *result, struct profile *ret_after)
{
	_cleanup_(buffer_deinit) struct buffer packets = {0};
	struct profile before;

	parse(sink, &before);
	assert_int_equal(symbolize(&before, places, &packets, result), 0);
	if (packets.len)
		assert_int_equal(sink->write(sink, packets.data, packets.len), 0);
	profile_deinit(&before);
	parse(sink, ret_after);
}

static char self[PATH_MAX];
static struct uw_build_id own;

static int setup(void **state)
{
	struct uw_source source = {.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	(void)state;
	if (n <= 0 || uw_source_build_id(&source, &own) < 0 || !own.len)
		return -1;
	self[n] = 0;
	close(source.fd);
	return 0;
}

static void test_names(void **state)
{
	const struct file_places places = {.buildid_dir = "/none"};
	struct sink *sink = make_trace(&own, self, NULL);
	struct symbolize_result result;
	struct profile after;

	(void)state;
	run(sink, &places, &result, &after);
	assert_int_equal(result.modules, 1);
	assert_int_equal(result.found, 1);
	assert_int_equal(result.addresses, 1);
	assert_int_equal(result.named, 1);
	assert_int_equal(result.lined, 1);
	assert_string_equal(name_in(&after), "named_later");
	assert_int_not_equal(line_of(&after)->line, 0);
	assert_non_null(strstr(string_table_text(&after.strings, line_of(&after)->file),
			       "test-symbolize.c"));
	profile_deinit(&after);
	/* complete now: nothing is looked up again */
	run(sink, &places, &result, &after);
	assert_int_equal(result.modules, 0);
	profile_deinit(&after);
	(void)sink_free(sink);
}

/* A frame that has a name keeps it, and gets its line. */
static void test_one_name(void **state)
{
	const struct file_places places = {.buildid_dir = "/none"};
	struct sink *sink = make_trace(&own, self, "public_name");
	struct symbolize_result result;
	struct profile after;

	(void)state;
	run(sink, &places, &result, &after);
	assert_int_equal(result.named, 0);
	assert_int_equal(result.lined, 1);
	assert_string_equal(name_in(&after), "public_name");
	assert_int_not_equal(line_of(&after)->line, 0);
	profile_deinit(&after);
	(void)sink_free(sink);
}

/* Another build id, none, or another machine's path: no names rather than wrong ones. */
static void test_not_proved(void **state)
{
	const struct file_places places = {.buildid_dir = "/none"},
				 vouched = {.buildid_dir = "/none", .symfs = "/proc/self/root"};
	struct uw_build_id other = own, none = {.len = 0};
	const struct {
		const struct uw_build_id *id;
		const char *path;
		const struct file_places *places;
		bool found;
		enum symbolize_why why;
	} cases[] = {
		{&other, self, &places, false, SYMBOLIZE_OTHER_BUILD},
		{&none, self, &places, false, SYMBOLIZE_NO_BUILD_ID},
		{&own, "/none", &places, false, SYMBOLIZE_NO_FILE},
		{&other, self, &vouched, false, SYMBOLIZE_OTHER_BUILD},
		{&none, self, &vouched, true, SYMBOLIZE_NO_FILE},
	};

	(void)state;
	other.bytes[0] ^= 1;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct sink *sink = make_trace(cases[i].id, cases[i].path, NULL);
		struct symbolize_result result;
		struct profile after;

		run(sink, cases[i].places, &result, &after);
		assert_int_equal(result.modules, 1);
		assert_int_equal(result.found, cases[i].found);
		assert_int_equal(result.n_missing, !cases[i].found);
		if (!cases[i].found) {
			assert_string_equal(result.missing[0].path, cases[i].path);
			assert_int_equal(result.missing[0].why, cases[i].why);
		}
		assert_string_equal(name_in(&after), cases[i].found ? "named_later" : "");
		profile_deinit(&after);
		(void)sink_free(sink);
	}
}

/* ---- files of debuginfod ---- */

static char cache[] = "/tmp/symbolize.XXXXXX", folder[128], file[160];

static void put_file(const void *data, size_t len)
{
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), len);
	close(fd);
}

static void assert_fetched(const struct file_places *places, bool found)
{
	struct sink *sink = make_trace(&own, "/none", NULL);
	struct symbolize_result result;
	struct profile after;

	run(sink, places, &result, &after);
	assert_int_equal(result.found, found);
	assert_int_equal(result.addresses, found);
	assert_string_equal(name_in(&after), found ? "named_later" : "");
	profile_deinit(&after);
	(void)sink_free(sink);
}

/* A file of the cache counts if it has the build id, whatever else it is. */
static void test_fetched(void **state)
{
	const struct file_places places = {.buildid_dir = "/none", .fetched = cache};
	struct uw_build_id ids[2];
	struct profile before;
	struct sink *sink;
	char *data = NULL, hex[64] = "";
	size_t len = 0;

	(void)state;
	assert_non_null(mkdtemp(cache));
	for (unsigned i = 0; i < own.len; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", own.bytes[i]);
	(void)snprintf(folder, sizeof(folder), "%s/%s", cache, hex);
	(void)snprintf(file, sizeof(file), "%s/debuginfo", folder);
	assert_int_equal(mkdir(folder, 0755), 0);
	sink = make_trace(&own, "/none", NULL);
	parse(sink, &before);
	assert_int_equal(symbolize_missing(&before, &places, ids, 2), 1);
	assert_memory_equal(ids[0].bytes, own.bytes, own.len);
	assert_int_equal(symbolize_missing(&before, &places, ids, 0), 0);
	profile_deinit(&before);
	(void)sink_free(sink);
	assert_fetched(&places, false);
	put_file("", 0); /* the servers had none */
	assert_fetched(&places, false);
	put_file("no ELF", 6);
	assert_fetched(&places, false);
	assert_int_equal(read_file("/proc/self/exe", 1 << 30, &data, &len), 0);
	put_file(data, len);
	assert_fetched(&places, true);
	put_file(data, len / 2);
	assert_fetched(&places, false); /* its sections are gone: no names, no failure */
	for (size_t at = 0; at + own.len <= len; at++) /* another build id */
		if (!memcmp(data + at, own.bytes, own.len))
			data[at] ^= 1;
	put_file(data, len);
	assert_fetched(&places, false);
	free(data);
	(void)unlink(file);
	(void)rmdir(folder);
	(void)rmdir(cache);
}

/* Servers are asked first for what most samples lack: names, then lines. */
static void test_order(void **state)
{
	static const struct {
		const char *path, *name;
		unsigned samples;
	} modules[] = {{"/a", "named", 9}, {"/b", NULL, 1}, {"/c", NULL, 5}, {"/d", "named", 2}};
	const struct file_places places = {.buildid_dir = "/none"};
	const struct writer_options options = {.leader = {.counter = 1},
					       .frequency = 999,
					       .clock = CLOCK_MONOTONIC,
					       .sequence_id = 2,
					       .tool = "perfwind test"};
	struct writer_sample sample = {.pid = 7, .tid = 7, .count = 1};
	uint8_t id[] = {0xfe, 0xdc, 0xba, 0};
	struct uw_build_id ids[4];
	struct profile profile;
	struct writer *writer;
	struct sink *sink;
	const void *data;
	char error[512];
	size_t len;

	(void)state;
	assert_int_equal(sink_memory_new(&sink), 0);
	assert_int_equal(writer_new(&options, sink, &writer), 0);
	assert_int_equal(writer_start(writer), 0);
	for (size_t i = 0; i < 4; i++) {
		uint32_t mapping, frame;

		id[3] = (uint8_t)i;
		assert_int_equal(
			writer_mapping(writer, modules[i].path, id, sizeof(id), 0, 0, &mapping), 0);
		assert_int_equal(writer_frame(writer, mapping, 0x1000, modules[i].name, &frame), 0);
		assert_int_equal(writer_callstack(writer, &frame, 1, &sample.callstack), 0);
		for (unsigned k = 0; k < modules[i].samples; k++) {
			sample.time += 1000;
			sample.count += 10;
			assert_int_equal(writer_sample(writer, &sample), 0);
		}
	}
	writer_free(writer);
	data = sink_memory_data(sink, &len);
	assert_int_equal(profile_parse(data, len, &profile, error, sizeof(error)), 0);
	assert_int_equal(symbolize_missing(&profile, &places, ids, 4), 4);
	assert_int_equal(ids[0].bytes[3], 2);
	assert_int_equal(ids[1].bytes[3], 1);
	assert_int_equal(ids[2].bytes[3], 0);
	assert_int_equal(ids[3].bytes[3], 3);
	assert_int_equal(symbolize_missing(&profile, &places, ids, 1), 1);
	assert_int_equal(ids[0].bytes[3], 2);
	profile_deinit(&profile);
	(void)sink_free(sink);
}

/* The binary is gone, and its debug file is here: in a folder laid out as /usr/lib/debug.  Not one of another build id. */
static void test_debug_file_alone(void **state)
{
	static char dir[] = "/tmp/symbolize-debug.XXXXXX";
	const struct file_places places = {.buildid_dir = "/none", .debug_dir = dir};
	char ids[64], half[80], hex[64] = "", *data = NULL;
	size_t len = 0;

	(void)state;
	assert_non_null(mkdtemp(dir));
	for (unsigned i = 1; i < own.len; i++)
		(void)snprintf(hex + 2 * (i - 1), 3, "%02x", own.bytes[i]);
	(void)snprintf(ids, sizeof(ids), "%s/.build-id", dir);
	(void)snprintf(half, sizeof(half), "%s/%02x", ids, own.bytes[0]);
	(void)snprintf(file, sizeof(file), "%s/%s.debug", half, hex);
	assert_int_equal(mkdir(ids, 0755), 0);
	assert_int_equal(mkdir(half, 0755), 0);
	assert_int_equal(read_file("/proc/self/exe", 1 << 30, &data, &len), 0);
	assert_fetched(&places, false);
	put_file(data, len);
	assert_fetched(&places, true);
	for (size_t at = 0; at + own.len <= len; at++)
		if (!memcmp(data + at, own.bytes, own.len))
			data[at] ^= 1;
	put_file(data, len);
	assert_fetched(&places, false);
	free(data);
	(void)unlink(file);
	(void)rmdir(half);
	(void)rmdir(ids);
	(void)rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),	   cmocka_unit_test(test_one_name),
		cmocka_unit_test(test_not_proved), cmocka_unit_test(test_fetched),
		cmocka_unit_test(test_order),	   cmocka_unit_test(test_debug_file_alone),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
