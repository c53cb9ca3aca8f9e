/* test-late-sink.c - the file of a recording is made by its first packet, and what was there is kept then. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/late-sink.h"
#include "tests/unit/capture.h"
#include "tests/unit/cmocka.h"

static char folder[] = "/tmp/test-late-XXXXXX", path[64], old[64];
static const uint8_t packet[] = {0x0a, 3, 'a', 'b', 'c'};

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	(void)snprintf(path, sizeof(path), "%s/t", folder);
	(void)snprintf(old, sizeof(old), "%s/t.old", folder);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	(void)unlink(path);
	(void)unlink(old);
	(void)rmdir(folder);
	strcpy(folder + sizeof(folder) - 7, "XXXXXX");
	return 0;
}

static void put(const char *name, const char *text)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

static void assert_file(const char *name, const void *data, size_t len)
{
	char have[64];
	int fd = open(name, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(read(fd, have, sizeof(have)), (ssize_t)len);
	assert_memory_equal(have, data, len);
	close(fd);
}

/* Nothing came: nothing was touched. */
static void test_never(void **state)
{
	struct sink *sink;

	(void)state;
	put(path, "before");
	assert_int_equal(late_sink_new(path, true, &sink), 0);
	assert_int_equal(sink->flush(sink), 0);
	sink = sink_free(sink);
	assert_file(path, "before", 6);
	assert_int_equal(access(old, F_OK), -1);
}

static void check_report(const char *to, int error, const char *expected)
{
	struct sink *sink;
	struct capture c;
	char *output;
	bool printed;
	int r;

	assert_int_equal(late_sink_new(to, true, &sink), 0);
	assert_false(late_sink_report(sink));
	r = sink->write(sink, packet, sizeof(packet));
	assert_int_equal(r < 0 ? r : sink->flush(sink), error);
	capture_begin(&c, STDERR_FILENO);
	printed = late_sink_report(sink);
	output = capture_end(&c);
	assert_true(printed);
	assert_string_equal(output, expected);
	free(output);
	sink = sink_free(sink);
}

/* A file that cannot be made or written is reported with the option that names it; other sinks report nothing. */
static void test_report(void **state)
{
	struct sink *memory;

	(void)state;
	check_report("/nowhere/at/all", -ENOENT,
		     "perfwind: the trace cannot be written to /nowhere/at/all (-o): "
		     "its folder does not exist; hint: mkdir -p, or another -o\n");
	check_report("/dev/full", -ENOSPC,
		     "perfwind: the trace cannot be written to /dev/full (-o): "
		     "No space left on device; hint: -o FILE on another disk\n");
	assert_int_equal(sink_memory_new(&memory), 0);
	assert_false(late_sink_report(memory));
	memory = sink_free(memory);
	assert_false(late_sink_report(NULL));
}

static void check_first(int (*make)(const char *, bool, struct sink **))
{
	struct sink *sink;

	put(path, "before");
	assert_int_equal(make(path, true, &sink), 0);
	assert_int_equal(sink->write(sink, packet, sizeof(packet)), 0);
	assert_int_equal(sink->write(sink, packet, sizeof(packet)), 0);
	assert_int_equal(sink->flush(sink), 0);
	sink = sink_free(sink);
	assert_file(old, "before", 6);
	/* The packet that announces the end mark. */
	assert_file(path, "\n\006\212\246\035\002\042\000\012\3abc\012\3abc", 18);
}

static void check_end(int (*make)(const char *, bool, struct sink **))
{
	struct sink *sink;

	assert_int_equal(make(path, true, &sink), 0);
	late_sink_behind(sink, 1300);
	assert_int_equal(sink->write(sink, packet, sizeof(packet)), 0);
	assert_int_equal(sink->write(sink, "\012\5\222\4\2\010\1", 7), 0); /* a sample */
	assert_int_equal(late_sink_end(sink, true), 0);
	assert_int_equal(sink->written.samples, 1);
	assert_int_equal(sink->written.packets, 4);
	assert_int_equal(sink->bytes, 11 + 5 + 7 + 14);
	sink = sink_free(sink);
	assert_file(path,
		    "\n\011\212\246\035\005\042\003\010\224\012\012\3abc\012\5\222\4\2\010\1"
		    "\n\014\212\246\035\010\052\006\010\002\020\001\030\001",
		    11 + 5 + 7 + 14);
}

/* Nothing was recorded although packets came: the file before is back. */
static void check_discard(int (*make)(const char *, bool, struct sink **), bool plain)
{
	struct sink *sink;

	assert_int_equal(make(path, plain, &sink), 0);
	late_sink_discard(sink); /* nothing is open yet */
	assert_int_equal(sink->write(sink, packet, sizeof(packet)), 0);
	assert_int_equal(sink->flush(sink), 0);
	late_sink_discard(sink);
	sink = sink_free(sink);
}

static void test_discard(void **state)
{
	struct sink *memory;

	(void)state;
	check_discard(late_sink_new, true);
	assert_int_equal(access(path, F_OK), -1);
	put(path, "before");
	check_discard(late_sink_new, false);
	assert_file(path, "before", 6);
	check_discard(late_sink_new_threaded, false);
	assert_file(path, "before", 6);
	assert_int_equal(access(old, F_OK), -1);
	assert_int_equal(sink_memory_new(&memory), 0);
	late_sink_discard(memory);
	late_sink_discard(NULL);
	memory = sink_free(memory);
}

/* An end mark counts what was given, and is the last packet. */
static void test_end(void **state)
{
	(void)state;
	check_end(late_sink_new);
	check_end(late_sink_new_threaded);
}

/* Of a file that lacks something there is none, nor of no file, nor of other sinks. */
static void test_no_end(void **state)
{
	struct sink *sink;

	(void)state;
	assert_int_equal(late_sink_new("/dev/full", true, &sink), 0);
	assert_int_equal(late_sink_end(sink, false), LATE_SINK_CUT);
	assert_int_equal(sink->write(sink, packet, sizeof(packet)), 0);
	assert_int_equal(sink->flush(sink), -ENOSPC);
	assert_int_equal(late_sink_end(sink, false), -ENOSPC);
	assert_int_equal(sink->bytes, 0);
	sink = sink_free(sink);
	assert_int_equal(sink_memory_new(&sink), 0);
	assert_int_equal(late_sink_end(sink, false), LATE_SINK_CUT);
	sink = sink_free(sink);
}

static void test_first(void **state)
{
	(void)state;
	check_first(late_sink_new);
}

/* The same by a thread of its own. */
static void test_threaded(void **state)
{
	(void)state;
	check_first(late_sink_new_threaded);
}

/* Deflated it is one packet with a field 50, shorter than what came. */
static void test_deflated(void **state)
{
	struct sink *sink;
	struct stat st;
	uint8_t head[2];
	int fd;

	(void)state;
	assert_int_equal(late_sink_new(path, false, &sink), 0);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(sink->write(sink, packet, sizeof(packet)), 0);
	assert_int_equal(sink->flush(sink), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size > 10 && st.st_size < 1000);
	assert_int_equal(sink->bytes, st.st_size);
	sink = sink_free(sink);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, head, sizeof(head)), 2);
	assert_int_equal(head[0], 0x0a);
	close(fd);
}

/* One that cannot be opened is tried once: a second try would put aside what the first had made. */
static void test_refused(void **state)
{
	char nowhere[80];
	struct sink *sink;

	(void)state;
	(void)snprintf(nowhere, sizeof(nowhere), "%s/none/t", folder);
	assert_int_equal(late_sink_new(nowhere, true, &sink), 0);
	assert_int_equal(sink->write(sink, packet, sizeof(packet)), -ENOENT);
	(void)snprintf(nowhere, sizeof(nowhere), "%s/none", folder);
	assert_int_equal(mkdir(nowhere, 0700), 0);
	assert_int_equal(sink->write(sink, packet, sizeof(packet)), -ENOENT);
	assert_int_equal(sink->flush(sink), 0);
	sink = sink_free(sink);
	assert_int_equal(rmdir(nowhere), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
		EACH(test_never),    EACH(test_discard),  EACH(test_first),
		EACH(test_threaded), EACH(test_deflated), EACH(test_refused),
		EACH(test_report),   EACH(test_end),	  EACH(test_no_end),
#undef EACH
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
