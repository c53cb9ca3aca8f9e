/* test-raw.c - cli/raw.h: the file of --perf-data, and the one that was there before. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/raw.h"
#include "base/log.h"
#include "perf/perfdata/perfdata.h"
#include "tests/unit/cmocka.h"

static void test_old_one_is_kept(void **state)
{
	char folder[] = "/tmp/test-raw-XXXXXX", path[64], old[64], text[8] = "";
	struct perfdata_out *raw;
	struct perfdata *pd;
	struct stat st;
	bool replaced = false;
	char error[256];
	int fd;

	(void)state;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/perf.data", folder);
	(void)snprintf(old, sizeof(old), "%s/perf.data.old", folder);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, "before", 6), 6);
	close(fd);
	assert_int_equal(raw_open(path, 1, &replaced, &raw), 0);
	assert_true(replaced);
	assert_int_equal(raw_finish(raw, path), 0);
	perfdata_out_free(raw);

	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(perfdata_new(fd, NULL, &pd, error, sizeof(error)), 0);
	assert_int_equal(perfdata_info(pd)->n_events, 2);
	perfdata_free(pd);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600); /* stacks are in it */
	close(fd);
	fd = open(old, O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, text, sizeof(text)), 6);
	assert_string_equal(text, "before");
	close(fd);
	/* Nothing was recorded: the earlier file has its name again. */
	raw_discard(path, replaced);
	assert_int_equal(access(old, F_OK), -1);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(fd, text, sizeof(text)), 6);
	close(fd);
	unlink(path);
	rmdir(folder);
}

static void test_refused(void **state)
{
	char folder[] = "/tmp/test-raw-XXXXXX", path[64];
	struct perfdata_out *raw = NULL;
	bool replaced;

	(void)state;
	assert_true(raw_open("/tmp/not-made", 2, &replaced, &raw) < 0);
	assert_int_equal(access("/tmp/not-made", F_OK), -1);
	assert_true(raw_open("/no/such/folder/x", 1, &replaced, &raw) < 0);
	assert_null(raw);
	/* What is not a file keeps its name. */
	assert_non_null(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/fifo", folder);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(raw_open(path, 1, &replaced, &raw), -EEXIST);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(folder), 0);
	assert_int_equal(raw_finish(NULL, "x"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_old_one_is_kept),
		cmocka_unit_test(test_refused),
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
