/* test-safe-path.c - files and folders by owner, mode and the folders above. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/safe-path.h"
#include "tests/unit/cmocka.h"

static void make(const char *path, mode_t mode)
{
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static void test_modes(void **state)
{
	char top[] = "/tmp/perfwind-safe-XXXXXX", dir[64], file[96], link[96];

	(void)state;
	assert_non_null(mkdtemp(top));
	(void)snprintf(dir, sizeof(dir), "%s/d", top);
	(void)snprintf(file, sizeof(file), "%s/f", dir);
	(void)snprintf(link, sizeof(link), "%s/l", dir);
	assert_int_equal(mkdir(dir, 0755), 0);
	make(file, 0755);
	assert_int_equal(symlink(file, link), 0);
	assert_true(safe_path("/"));
	assert_true(safe_path(dir));
	assert_true(safe_path(file));
	assert_false(safe_path(link));
	assert_false(safe_path("f"));
	assert_false(safe_path(""));
	assert_false(safe_path("/nonexistent/f"));
	for (mode_t bit = 020; bit; bit = bit == 020 ? 002 : 0) {
		assert_int_equal(chmod(file, 0755 | bit), 0);
		assert_false(safe_path(file));
		assert_int_equal(chmod(file, 0755), 0);
		assert_int_equal(chmod(dir, 0755 | bit), 0);
		assert_false(safe_path(file));
		assert_false(safe_path(dir));
		assert_int_equal(chmod(dir, 01755 | bit), 0);
		assert_true(safe_path(file));
		assert_int_equal(chmod(dir, 0755), 0);
	}
	if (geteuid() == 0) { /* of another user */
		assert_int_equal(chown(file, 65534, 65534), 0);
		assert_false(safe_path(file));
		assert_int_equal(chown(file, 0, 0), 0);
		assert_int_equal(chown(dir, 65534, 65534), 0);
		assert_false(safe_path(file));
	}
	(void)unlink(link);
	(void)unlink(file);
	(void)rmdir(dir);
	(void)rmdir(top);
}

/* A path that is longer than any. */
static void test_length(void **state)
{
	char path[8192];

	(void)state;
	memset(path, '/', sizeof(path));
	path[sizeof(path) - 1] = 0;
	assert_false(safe_path(path));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_modes),
		cmocka_unit_test(test_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
