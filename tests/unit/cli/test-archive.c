/* test-archive.c - cli/archive.h: tarballs in each compression become a build-id cache that goes with its owner; hostile names
 * make no file outside of it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/archive.h"
#include "tests/unit/unwinder/unwinder-fixture.h"

static char dir[64];

static int setup(void **state)
{
	(void)state;
	(void)snprintf(dir, sizeof(dir), "/tmp/test-archive-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	setenv("TMPDIR", dir, 1);
	log_level = LOG_LEVEL_QUIET;
	return shell("cd '%s' && mkdir -p c/usr/x/ab0123 c/.build-id/ab && echo code "
		     ">c/usr/x/ab0123/elf "
		     "&& ln -s ../../usr/x/ab0123 c/.build-id/ab/0123 && ln -s /etc c/usr/cd45 && "
		     "dd if=/dev/zero of=c/usr/x/ab0123/debug bs=1000 count=300 status=none",
		     dir)
		       ? 0
		       : -1;
}

static int teardown(void **state)
{
	(void)state;
	return shell("rm -r '%s'", dir) ? 0 : -1;
}

static bool has(const struct archive *a, const char *name, off_t size)
{
	char path[2 * PATH_MAX];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/.build-id/%s", a->folder, name);
	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == size;
}

static int unpacked(const char *name, struct archive *a)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return archive_unpack(path, a);
}

static void each_compression(void **state)
{
	static const char *const options[] = {"", "--gzip", "--xz", "--bzip2"};
	struct archive a;
	char folder[PATH_MAX];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		if (!shell("cd '%s' && tar -cf x.tar %s -C c . 2>/dev/null", dir, options[i]))
			continue; /* the program is not installed */
		assert_int_equal(unpacked("x.tar", &a), 0);
		assert_true(has(&a, "ab/0123/elf", 5));
		assert_true(has(&a, "ab/0123/debug", 300000));
		strcpy(folder, a.folder);
		archive_deinit(&a);
		assert_int_equal(access(folder, F_OK), -1);
		archive_deinit(&a);
	}
}

/* No name of the archive is a path: not above the folder, not through its links. */
static void hostile_names(void **state)
{
	struct archive a;

	(void)state;
	assert_true(shell("cd '%s' && mkdir -p d && cp -r c/. d && tar -P -cf x.tar "
			  "--transform='s,^usr/x,../../../../../..%s/out,' -C d usr .build-id",
			  dir, dir));
	assert_int_equal(unpacked("x.tar", &a), 0);
	assert_true(has(&a, "ab/0123/elf", 5));
	archive_deinit(&a);
	assert_false(shell("test -e '%s/out'", dir));
	/* The first of two with one name. */
	assert_true(shell("cd '%s' && tar -cf x.tar -C c usr/x/ab0123/elf && echo longer "
			  ">d/usr/x/ab0123/elf && tar -rf x.tar -C d usr/x/ab0123/elf",
			  dir));
	assert_int_equal(unpacked("x.tar", &a), 0);
	assert_true(has(&a, "ab/0123/elf", 5));
	archive_deinit(&a);
}

static void what_is_none(void **state)
{
	struct archive a;

	(void)state;
	assert_true(
		shell("cd '%s' && head -c 5000 /dev/urandom >random && : >empty && tar -czf "
		      "x.tar -C c . && head -c 200 x.tar >cut && printf BZh9 >short && mkfifo f",
		      dir));
	assert_int_equal(unpacked("nothing", &a), -ENOENT);
	assert_int_equal(unpacked("random", &a), -EINVAL);
	assert_int_equal(unpacked("empty", &a), -EINVAL);
	assert_int_equal(unpacked("short", &a), -EINVAL);
	assert_true(unpacked("f", &a) < 0); /* is not waited for */
	archive_deinit(&a);
	assert_int_equal(unpacked("cut", &a),
			 0); /* what came before is kept, and no part of a file */
	assert_false(has(&a, "ab/0123/debug", 300000));
	assert_false(shell("test -e '%s/.build-id/ab/0123/debug'", a.folder));
	archive_deinit(&a);
	assert_true(shell("cd '%s' && ! ls -d perfwind-archive-* 2>/dev/null", dir));
}

/* A file of many GiB, which its archive holds as a hole. */
static void bomb(void **state)
{
	struct archive a;

	(void)state;
	assert_true(
		shell("cd '%s' && mkdir -p b/x/ab01 b/x/ab02 && echo 1 >b/x/ab01/elf && truncate "
		      "-s 5G b/x/ab02/elf && (tar -cf - -C b x/ab01/elf x/ab02/elf 2>/dev/null | "
		      "head -c 100000 >bomb.tar)",
		      dir));
	assert_int_equal(unpacked("bomb.tar", &a), 0);
	assert_true(has(&a, "ab/01/elf", 2));
	assert_false(shell("test -e '%s/.build-id/ab/02'", a.folder));
	archive_deinit(&a);
}

static void owner_is_killed(void **state)
{
	char folder[PATH_MAX] = "";
	int ends[2];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_true(shell("cd '%s' && tar -cf x.tar -C c .", dir));
	pid = fork();
	if (pid == 0) {
		struct archive a;

		if (unpacked("x.tar", &a) == 0)
			(void)!write(ends[1], a.folder, sizeof(a.folder));
		pause();
		_exit(1);
	}
	assert_int_equal(read(ends[0], folder, sizeof(folder)), sizeof(folder));
	assert_int_equal(access(folder, F_OK), 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	for (int i = 0; i < 1000 && access(folder, F_OK) == 0; i++)
		usleep(10000);
	assert_int_equal(access(folder, F_OK), -1);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_compression), cmocka_unit_test(hostile_names),
		cmocka_unit_test(what_is_none),	    cmocka_unit_test(bomb),
		cmocka_unit_test(owner_is_killed),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
