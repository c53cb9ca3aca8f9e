/* test-file-places.c - a build-id cache, a folder of copies and a folder of debug files, with this
 * program's own file in them. */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unwinder/unwinder-fixture.h"

#include "proc/file-places.h"

static char dir[64], self[PATH_MAX], hex[64];
static struct uw_build_id own;

/* The file DIR/@path: a copy of this program, or text. */
static void put(const char *path, bool program)
{
	char full[PATH_MAX];

	(void)snprintf(full, sizeof(full), "%s/%s", dir, path);
	*strrchr(full, '/') = 0;
	assert_true(shell("mkdir -p '%s'", full));
	(void)snprintf(full, sizeof(full), "%s/%s", dir, path);
	if (program)
		assert_true(shell("cp '%s' '%s'", self, full));
	else
		file_write(full, "text", 4);
}

static bool opened(int fd)
{
	if (fd < 0) {
		assert_int_equal(fd, -ENOENT);
		return false;
	}
	close(fd);
	return true;
}

static int setup(void **state)
{
	struct uw_source source = {.fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	(void)state;
	(void)snprintf(dir, sizeof(dir), "/tmp/perfwind-places-XXXXXX");
	if (n <= 0 || !mkdtemp(dir) || uw_source_build_id(&source, &own) < 0 || own.len < 2)
		return -1;
	self[n] = 0;
	close(source.fd);
	(void)snprintf(hex, sizeof(hex), "%02x/", own.bytes[0]);
	for (unsigned i = 1; i < own.len; i++)
		(void)snprintf(hex + strlen(hex), sizeof(hex) - strlen(hex), "%02x", own.bytes[i]);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	return shell("rm -r '%s'", dir) ? 0 : -1;
}

static void test_cache(void **state)
{
	struct file_places places = {.buildid_dir = dir};
	struct uw_build_id other = own;
	char path[256];

	(void)state;
	other.bytes[0] ^= 1;
	assert_false(opened(file_places_open_cached(&places, &own)));
	(void)snprintf(path, sizeof(path), "usr/bin/x/ID/elf");
	put(path, true);
	(void)snprintf(path, sizeof(path), "usr/bin/x/ID/debug");
	put(path, false);
	assert_true(
		shell("mkdir -p '%s/.build-id/%.2s' && ln -s ../../usr/bin/x/ID '%s/.build-id/%s'",
		      dir, hex, dir, hex));
	assert_true(opened(file_places_open_cached(&places, &own)));
	assert_false(opened(file_places_open_cached(&places, &other)));
	assert_false(opened(file_places_open_cached(&places, &(struct uw_build_id){.len = 0})));
	/* its debug file, where /usr/lib/debug would have it */
	(void)snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%s.debug", hex);
	assert_true(opened(file_places_open_debug(&places, path)));
	assert_false(opened(file_places_open_debug(&places, "/usr/lib/debug/.build-id/.debug")));
	assert_false(opened(file_places_open_debug(&places, "/usr/bin/x.debug")));
	/* another file than that of the link */
	assert_true(shell("mkdir -p '%s/.build-id/%02x' && ln -s ../../usr/bin/x/ID "
			  "'%s/.build-id/%02x/%s'",
			  dir, other.bytes[0], dir, other.bytes[0], hex + 3));
	assert_false(opened(file_places_open_cached(&places, &other)));
}

/* perf's default: a variable, then a folder at home. */
static void test_default(void **state)
{
	const struct file_places places = {.symfs = NULL};
	char path[PATH_MAX];

	(void)state;
	assert_int_equal(setenv("HOME", "/home/u", 1), 0);
	assert_int_equal(unsetenv("PERF_BUILDID_DIR"), 0);
	file_places_cache(&places, path, sizeof(path));
	assert_string_equal(path, "/home/u/.debug");
	assert_int_equal(setenv("PERF_BUILDID_DIR", "/cache", 1), 0);
	file_places_cache(&places, path, sizeof(path));
	assert_string_equal(path, "/cache");
	file_places_cache(&places, path, 4);
	assert_string_equal(path, "");
	assert_int_equal(unsetenv("PERF_BUILDID_DIR"), 0);
	assert_int_equal(unsetenv("HOME"), 0);
	file_places_cache(&places, path, sizeof(path));
	assert_string_equal(path, "");
	assert_false(opened(file_places_open_cached(&places, &own)));
}

static void test_copies(void **state)
{
	const struct file_places places = {.symfs = dir, .buildid_dir = "/none"};
	struct uw_build_id other = own;
	bool proved = false;

	(void)state;
	other.bytes[0] ^= 1;
	put("opt/work", true);
	assert_true(opened(file_places_open_copy(&places, "/opt/work", &own, &proved)));
	assert_true(proved);
	assert_false(opened(file_places_open_copy(&places, "/opt/work", &other, &proved)));
	assert_true(opened(file_places_open_copy(&places, "/opt/work",
						 &(struct uw_build_id){.len = 0}, &proved)));
	assert_false(proved); /* the user vouches for it */
	assert_false(opened(file_places_open_copy(&places, "/opt/none", &own, &proved)));
	assert_false(opened(file_places_open_copy(&places, "/opt", &own, &proved)));
	assert_false(opened(file_places_open_copy(&places, "[vdso]", &own, &proved)));
	put("usr/lib/debug/.build-id/ab/cd.debug", false);
	assert_true(
		opened(file_places_open_debug(&places, "/usr/lib/debug/.build-id/ab/cd.debug")));
	put("opt/.debug/work.debug", false);
	assert_true(opened(file_places_open_debug(&places, "/opt/.debug/work.debug")));
}

static void test_debug_dir(void **state)
{
	const struct file_places places = {.debug_dir = dir, .buildid_dir = "/none"};

	(void)state;
	put(".build-id/12/34.debug", false);
	assert_true(
		opened(file_places_open_debug(&places, "/usr/lib/debug/.build-id/12/34.debug")));
	assert_false(opened(file_places_open_debug(&places, "/usr/lib/.build-id/12/34.debug")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cache),
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_debug_dir),
		cmocka_unit_test(test_default),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
