/* test-open-named.c - which name leads to which file: links, owners, folders, mounts; judged with root's rights and with
 * a daemon's.  In children, as users are changed. */
#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/caps.h"
#include "proc/open-file.h"
#include "tests/unit/proc/child-process.h"

enum { ALICE = 61002, BOB = 61003, DAEMON = 61001 };

static char dir[64];

static const char *in_dir(const char *name)
{
	static char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void put(const char *name, uid_t owner, mode_t mode)
{
	write_file(in_dir(name), name);
	assert_int_equal(chown(in_dir(name), owner, 0), 0);
	assert_int_equal(chmod(in_dir(name), mode), 0);
}

static void put_folder(const char *name, uid_t owner, mode_t mode)
{
	assert_int_equal(mkdir(in_dir(name), 0755), 0);
	assert_int_equal(chown(in_dir(name), owner, 0), 0);
	assert_int_equal(chmod(in_dir(name), mode), 0);
}

static void put_link(const char *name, const char *to)
{
	char target[128];

	(void)snprintf(target, sizeof(target), "%s/%s", dir, to);
	assert_int_equal(symlink(target, in_dir(name)), 0);
}

static int set_up(void **state)
{
	(void)state;
	temp_dir(dir);
	if (geteuid())
		return 0;
	assert_int_equal(chmod(dir, 0755), 0);
	put("roots", 0, 0600);
	put("everyones", 0, 0644);
	put("alices", ALICE, 0600);
	put("bobs", BOB, 0644);
	put("open-to-all", ALICE, 0666);
	put("groups", 0, 0640);
	put_folder("sealed", 0, 0700);
	put("sealed/everyones", 0, 0644);
	put("sealed/alices", ALICE, 0600);
	put_folder("home", ALICE, 0700);
	put("home/roots", 0, 0644);
	put_link("to-roots", "roots");
	put_link("to-alices", "alices");
	put_link("to-sealed", "sealed");
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	remove_dir(dir);
	return 0;
}

/* 'y' read, 'n' refused by the rule or the kernel, 'e' anything else. */
static char outcome(const char *name, uint32_t owner, bool made)
{
	const struct procfs_named f = {.path = in_dir(name), .owner = owner, .made = made};
	_cleanup_(fd_closep) int root = procfs_open_root("", 0);
	struct caps before, after;
	struct stat st;
	int fd;

	if (root < 0 || caps_get(&before) < 0)
		return 'e';
	fd = procfs_open_named_at(root, &f, &st);
	if (caps_get(&after) < 0 || memcmp(&before, &after, sizeof(after)) != 0)
		return 'e'; /* what was given up for the call is back */
	if (fd < 0)
		return fd == -EACCES || fd == -EINVAL || fd == -EPERM ? 'n' : 'e';
	(void)close(fd);
	return 'y';
}

static const struct {
	const char *name;
	uint32_t owner;
	bool made;
	char expected;
} cases[] = {
	/* what is named: everyone's or the owner's */
	{"everyones", ALICE, false, 'y'},
	{"everyones", PROCFS_NO_OWNER, false, 'y'},
	{"roots", ALICE, false, 'n'},
	{"roots", PROCFS_NO_OWNER, false, 'n'},
	{"groups", ALICE, false, 'n'},
	{"alices", ALICE, false, 'y'},
	{"alices", BOB, false, 'n'},
	{"alices", PROCFS_NO_OWNER, false, 'n'},
	{"bobs", ALICE, false, 'y'},
	{"to-roots", ALICE, false, 'n'},
	{"to-alices", ALICE, false, 'y'},
	{"to-alices", BOB, false, 'n'},
	{"sealed/everyones", ALICE, false, 'n'},
	{"to-sealed/everyones", ALICE, false, 'n'},
	{"home/roots", ALICE, false, 'y'},
	{"home/roots", BOB, false, 'n'},
	/* what is made: the owner's, or root's that everyone reads; at the very place */
	{"alices", ALICE, true, 'y'},
	{"everyones", ALICE, true, 'y'},
	{"everyones", PROCFS_NO_OWNER, true, 'y'},
	{"roots", ALICE, true, 'n'},
	{"bobs", ALICE, true, 'n'},
	{"bobs", PROCFS_NO_OWNER, true, 'n'},
	{"open-to-all", ALICE, true, 'n'},
	{"to-alices", ALICE, true, 'n'},
	{"to-roots", ALICE, true, 'n'},
	{"sealed/everyones", ALICE, true, 'n'},
};

/* As it differs: a daemon cannot walk as alice would, so in her own folder only what is hers is read. */
static bool differs(size_t i)
{
	return !strcmp(cases[i].name, "home/roots") && cases[i].owner == ALICE;
}

static int all(bool daemon)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char expected = daemon && differs(i) ? 'n' : cases[i].expected;

		if (outcome(cases[i].name, cases[i].owner, cases[i].made) != expected)
			return (int)i + 1;
	}
	return 0;
}

static int as_root(void)
{
	int r = all(false), sig = 0;

	if (r)
		return r;
	(void)prctl(PR_GET_PDEATHSIG, &sig);
	if (sig != SIGKILL) /* a helper process still ends with us */
		return 100;
	/* root's own processes: all that root reads, but no link to a map and none of bob's */
	if (outcome("roots", 0, false) != 'y' || outcome("roots", 0, true) != 'y' ||
	    outcome("to-roots", 0, true) != 'n' || outcome("bobs", 0, true) != 'n')
		return 101;
	return geteuid() == 0 && open(in_dir("sealed/everyones"), O_RDONLY | O_CLOEXEC) >= 0 ? 0
											     : 102;
}

/* A user with the right to read everything, and no other. */
static int as_daemon(void)
{
	struct caps caps;
	int r;

	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || syscall(SYS_setgroups, 0, NULL) < 0 ||
	    syscall(SYS_setresgid, DAEMON, DAEMON, DAEMON) < 0 ||
	    syscall(SYS_setresuid, DAEMON, DAEMON, DAEMON) < 0 || caps_get(&caps) < 0)
		return 110;
	caps.permitted = caps.effective = CAPS_BIT(CAP_DAC_READ_SEARCH);
	if (caps_set(&caps) < 0)
		return 111;
	r = all(true);
	if (r)
		return r;
	/* what is the owner's is his wherever it lies */
	return outcome("sealed/alices", ALICE, false) == 'y' ? 0 : 112;
}

static int as_alice(void)
{
	if (syscall(SYS_setgroups, 0, NULL) < 0 ||
	    syscall(SYS_setresgid, ALICE, ALICE, ALICE) < 0 ||
	    syscall(SYS_setresuid, ALICE, ALICE, ALICE) < 0)
		return 120;
	return outcome("alices", ALICE, true) == 'y' && outcome("roots", ALICE, false) == 'n' &&
			       outcome("bobs", ALICE, true) == 'n' &&
			       outcome("everyones", ALICE, false) == 'y'
		       ? 0
		       : 121;
}

static void in_child(int (*body)(void))
{
	pid_t pid;
	int status;

	if (geteuid()) {
		print_message("needs root: several users\n");
		skip();
	}
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(body());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0); /* else the case, from 1, or a place above */
}

static void test_root(void **state)
{
	(void)state;
	in_child(as_root);
}

static void test_daemon(void **state)
{
	(void)state;
	in_child(as_daemon);
}

static void test_alice(void **state)
{
	(void)state;
	in_child(as_alice);
}

/* A map with a second name: any user's file may be linked there. */
static void test_second_name(void **state)
{
	char first[128];

	(void)state;
	(void)snprintf(first, sizeof(first), "%s", in_dir("named-twice"));
	write_file(first, "x");
	assert_int_equal(chmod(first, 0644), 0);
	assert_int_equal(outcome("named-twice", geteuid(), true), 'y');
	assert_int_equal(link(first, in_dir("again")), 0);
	assert_int_equal(outcome("named-twice", geteuid(), true), 'n');
	assert_int_equal(outcome("again", geteuid(), true), 'n');
	assert_int_equal(outcome("again", geteuid(), false), 'y');
}

/* ---- the owner of a folder ---- */

/* /proc/5/mountinfo of a folder in which 5's root cannot be looked at. */
static void put_mounts(const char *text)
{
	write_file(in_dir("proc/5/mountinfo"), text);
}

static char map_of(uint32_t pid, const char *path)
{
	const struct procfs_named f = {.path = path, .owner = geteuid(), .made = true};
	int fd = procfs_open_named(dir, pid, &f);

	if (fd >= 0)
		(void)close(fd);
	return fd >= 0 ? 'y' : fd == -EXDEV ? 'x' : 'n';
}

/* In a chroot on a folder that is not a mount point, mountinfo does not show the file system of "/". */
static bool has_root_mount(const char *mounts)
{
	char at[256];

	for (const char *line = mounts; *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (sscanf(line, "%*s %*s %*s %*s %255s", at) == 1 && !strcmp(at, "/"))
			return true;
	return false;
}

static void test_place(void **state)
{
	_cleanup_(freep) char *own = NULL, *text = NULL;
	char map[64];

	(void)state;
	assert_int_equal(read_file("/proc/self/mountinfo", 4 << 20, &own, NULL), 0);
	if (!has_root_mount(own)) {
		print_message("skipped: \"/\" is not a mount point (a chroot)\n");
		skip();
	}
	assert_int_equal(mkdir(in_dir("proc"), 0755), 0);
	assert_int_equal(mkdir(in_dir("proc/5"), 0755), 0);
	(void)snprintf(map, sizeof(map), "/tmp/perf-%d.map", (int)getpid());
	(void)unlink(map);
	write_file(map, "1000 10 x\n");
	assert_int_equal(chmod(map, 0644), 0);

	/* ours, in a mount namespace of its own or not */
	put_mounts(own);
	assert_int_equal(map_of(5, map), 'y');
	/* a file system of its own covers it, as the last of those at that place */
	assert_true(asprintf(&text, "%s900 1 0:4242 / /tmp rw - tmpfs none rw\n", own) > 0);
	put_mounts(text);
	assert_int_equal(map_of(5, map), 'x');
	/* another folder of the same one, as PrivateTmp has */
	free(take(text));
	assert_true(asprintf(&text, "%s900 1 0:4242 /private/tmp /tmp rw - tmpfs none rw\n", own) >
		    0);
	put_mounts(text);
	assert_int_equal(map_of(5, map), 'x');
	/* what only begins alike, or lies deeper, covers nothing */
	free(take(text));
	assert_true(
		asprintf(
			&text,
			"%s900 1 0:4242 / /tm rw - tmpfs none rw\n901 1 0:1 / /tmp/p rw - x x rw\n",
			own) > 0);
	put_mounts(text);
	assert_int_equal(map_of(5, map), 'y');
	/* nothing that can be understood */
	put_mounts("");
	assert_int_equal(map_of(5, map), 'x');
	put_mounts("900 1 0:4242\n\n   \n900");
	assert_int_equal(map_of(5, map), 'x');
	/* one that has ended: by the number in the name */
	assert_int_equal(map_of((uint32_t)getpid(), map), 'y');
	assert_int_equal(map_of(6, map), 'x');
	(void)unlink(map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_root),  cmocka_unit_test(test_daemon),
		cmocka_unit_test(test_alice), cmocka_unit_test(test_second_name),
		cmocka_unit_test(test_place),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
