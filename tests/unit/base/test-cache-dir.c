/* test-cache-dir.c - folders and files that another user could have made are not used. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cache-dir.h"
#include "tests/unit/cmocka.h"

struct fixture {
	char base[64];
	int dir;
};

static void init(struct fixture *f)
{
	(void)snprintf(f->base, sizeof(f->base), "/tmp/test-cache-XXXXXX");
	assert_non_null(mkdtemp(f->base));
	f->dir = cache_dir_open_in(f->base);
	assert_true(f->dir >= 0);
}

static const char *path(const struct fixture *f, const char *name)
{
	static char text[128];

	(void)snprintf(text, sizeof(text), "%s/%s", f->base, name);
	return text;
}

static void deinit(struct fixture *f)
{
	cache_dir_trim(f->dir, "", 0);
	fd_close(f->dir);
	(void)rmdir(path(f, "perfwind"));
	assert_int_equal(rmdir(f->base), 0);
}

static int read_back(const struct fixture *f, const char *name, const char *wanted)
{
	_cleanup_(freep) uint8_t *data = NULL;
	size_t len = 0;
	int r = cache_dir_read(f->dir, name, 100, &data, &len);

	if (r >= 0) {
		assert_int_equal(len, strlen(wanted));
		assert_memory_equal(data, wanted, len);
	}
	return r;
}

static void test_files(void **state)
{
	struct fixture f;
	struct stat st;

	(void)state;
	init(&f);
	assert_int_equal(read_back(&f, "a", ""), -ENOENT);
	assert_int_equal(cache_dir_write(f.dir, "a", "first", 5), 0);
	assert_int_equal(read_back(&f, "a", "first"), 0);
	assert_int_equal(cache_dir_write(f.dir, "a", "second one", 10), 0);
	assert_int_equal(read_back(&f, "a", "second one"), 0);
	assert_int_equal(fstatat(f.dir, "a", &st, 0), 0);
	assert_int_equal(st.st_mode, S_IFREG | 0600);
	assert_int_equal(fstat(f.dir, &st), 0);
	assert_int_equal(st.st_mode, S_IFDIR | 0700);
	/* nothing is left of a file that could not be written */
	assert_int_equal(cache_dir_write(f.dir, "no/folder", "x", 1), -ENOENT);
	deinit(&f);
}

/* What others could have written is not read. */
static void test_foreign_files(void **state)
{
	struct fixture f;
	char big[101] = "";

	(void)state;
	init(&f);
	assert_int_equal(cache_dir_write(f.dir, "a", "data", 4), 0);
	assert_int_equal(fchmodat(f.dir, "a", 0620, 0), 0);
	assert_int_equal(read_back(&f, "a", "data"), -EPERM);
	assert_int_equal(fchmodat(f.dir, "a", 0604, 0), 0);
	assert_int_equal(read_back(&f, "a", "data"), -EPERM);
	assert_int_equal(fchmodat(f.dir, "a", 0600, 0), 0);
	assert_int_equal(read_back(&f, "a", "data"), 0);
	assert_int_equal(linkat(f.dir, "a", f.dir, "b", 0), 0);
	assert_int_equal(read_back(&f, "a", "data"), -EPERM);
	assert_int_equal(unlinkat(f.dir, "b", 0), 0);
	assert_int_equal(symlinkat("a", f.dir, "b"), 0);
	assert_int_equal(read_back(&f, "b", "data"), -EPERM);
	assert_int_equal(mkfifoat(f.dir, "c", 0600), 0);
	assert_int_equal(read_back(&f, "c", ""), -EPERM);
	assert_int_equal(cache_dir_write(f.dir, "d", big, sizeof(big)), 0);
	assert_int_equal(read_back(&f, "d", ""), -EFBIG);
	if (geteuid() == 0) {
		assert_int_equal(fchownat(f.dir, "a", 1, 1, 0), 0);
		assert_int_equal(read_back(&f, "a", "data"), -EPERM);
	}
	/* a link in place of a file is replaced, and what it leads to is not written */
	assert_int_equal(cache_dir_write(f.dir, "b", "new", 3), 0);
	assert_int_equal(read_back(&f, "b", "new"), 0);
	deinit(&f);
}

static void test_foreign_folders(void **state)
{
	struct fixture f;

	(void)state;
	init(&f);
	assert_int_equal(chmod(f.base, 0777), 0);
	assert_int_equal(cache_dir_open_in(f.base), -EPERM);
	assert_int_equal(chmod(f.base, 0700), 0);
	assert_int_equal(fchmod(f.dir, 0770), 0);
	assert_int_equal(cache_dir_open_in(f.base), -EPERM);
	assert_int_equal(fchmod(f.dir, 0700), 0);
	if (geteuid() == 0) {
		assert_int_equal(fchown(f.dir, 1, 1), 0);
		assert_int_equal(cache_dir_open_in(f.base), -EPERM);
		assert_int_equal(fchown(f.dir, 0, 0), 0);
		assert_int_equal(chown(f.base, 1, 1), 0);
		assert_int_equal(cache_dir_open_in(f.base), -EPERM);
		assert_int_equal(chown(f.base, 0, 0), 0);
	}
	/* a link in place of the folder */
	assert_int_equal(rmdir(path(&f, "perfwind")), 0);
	assert_int_equal(symlink("/tmp", path(&f, "perfwind")), 0);
	assert_true(cache_dir_open_in(f.base) < 0);
	assert_int_equal(unlink(path(&f, "perfwind")), 0);
	assert_int_equal(cache_dir_open_in("/nowhere/at/all"), -ENOENT);
	assert_int_equal(cache_dir_open_in("/dev/null"), -ENOTDIR);
	deinit(&f);
}

static void test_environment(void **state)
{
	struct fixture f;
	int fd;

	(void)state;
	init(&f);
	assert_int_equal(setenv("XDG_CACHE_HOME", f.base, 1), 0);
	fd = cache_dir_open();
	assert_true(fd >= 0);
	assert_int_equal(cache_dir_write(fd, "a", "by name", 7), 0);
	fd_close(fd);
	assert_int_equal(read_back(&f, "a", "by name"), 0);
	if (geteuid() != 0) {
		assert_int_equal(unsetenv("XDG_CACHE_HOME"), 0);
		assert_int_equal(setenv("HOME", f.base, 1), 0);
		fd = cache_dir_open();
		assert_true(fd >= 0);
		fd_close(fd);
		assert_int_equal(rmdir(path(&f, ".cache/perfwind")), 0);
		assert_int_equal(rmdir(path(&f, ".cache")), 0);
	}
	deinit(&f);
}

static bool is_there(const struct fixture *f, const char *name)
{
	return faccessat(f->dir, name, F_OK, 0) == 0;
}

/* The oldest go first, and only files with the prefix. */
static void test_trim(void **state)
{
	static const char *const names[] = {"x-1", "x-2", "x-3", "y-1"};
	struct fixture f;

	(void)state;
	init(&f);
	for (int i = 0; i < 4; i++) {
		const struct timespec times[2] = {{.tv_sec = 1000 - i}, {.tv_sec = 1000 - i}};

		assert_int_equal(cache_dir_write(f.dir, names[i], "0123456789", 10), 0);
		assert_int_equal(utimensat(f.dir, names[i], times, 0), 0);
	}
	cache_dir_trim(f.dir, "x-", 30);
	assert_true(is_there(&f, "x-1") && is_there(&f, "x-2") && is_there(&f, "x-3"));
	cache_dir_trim(f.dir, "x-", 29);
	assert_true(is_there(&f, "x-1") && is_there(&f, "x-2") && !is_there(&f, "x-3"));
	cache_dir_trim(f.dir, "x-", 0);
	assert_true(!is_there(&f, "x-1") && !is_there(&f, "x-2") && is_there(&f, "y-1"));
	deinit(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_foreign_files),
		cmocka_unit_test(test_foreign_folders),
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_trim),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
