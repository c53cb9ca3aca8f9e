/* test-open-mapped.c - the right file or none: deleted, replaced, a FIFO, another root. */
#include <errno.h>
#include <sys/sysmacros.h>

#include "base/util.h"
#include "proc/open-file.h"
#include "proc/procfs.h"
#include "tests/unit/proc/child-process.h"

static char dir[64];

static const char program[] =
	"#include <unistd.h>\n"
	"int main(void) { char c = 's'; return write(1, &c, 1) != 1 || read(0, &c, 1) != 1; }\n";

static int set_up(void **state)
{
	char path[128];

	(void)state;
	temp_dir(dir);
	(void)snprintf(path, sizeof(path), "%s/one", dir);
	compile(program, path, false);
	(void)snprintf(path, sizeof(path), "%s/two", dir);
	compile("int main(void) { return 0; }\n", path, false);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	remove_dir(dir);
	return 0;
}

static char *in_dir(const char *name)
{
	static char path[2][128];
	static unsigned turn;
	char *p = path[turn++ % 2];

	(void)snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
	return p;
}

static void copy_file(const char *from, const char *to)
{
	_cleanup_(freep) char *data = NULL;
	size_t len;
	int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);

	assert_true(fd >= 0);
	assert_int_equal(read_file(from, 16 << 20, &data, &len), 0);
	assert_int_equal(write_all(fd, data, len), 0);
	assert_int_equal(close(fd), 0);
}

static struct uw_file_id inode_of(const char *path)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return (struct uw_file_id){
		.major = major(st.st_dev), .minor = minor(st.st_dev), .inode = st.st_ino};
}

static struct uw_file_id build_id_of(const char *path)
{
	struct uw_file_id id = {0};
	struct uw_source source = {.fd = open(path, O_RDONLY | O_CLOEXEC)};

	assert_true(source.fd >= 0);
	assert_int_equal(uw_source_build_id(&source, &id.build_id), 0);
	assert_int_equal(id.build_id.len, 20);
	close(source.fd);
	return id;
}

static int try_open(uint32_t pid, uint64_t start, uint64_t end, const char *path,
		    const struct uw_file_id *id, bool *ret_proved)
{
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;
	int r;

	*ret_proved = false;
	r = procfs_open_mapped("", pid, start, end, path, id, geteuid(), NULL, &fd, ret_proved);
	if (r < 0) {
		assert_int_equal(fd, -1);
		return r;
	}
	assert_int_equal(r, 0);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	return (int)(st.st_ino & 0x7fffffff); /* which one it was */
}

static int ino(const char *path)
{
	return (int)(inode_of(path).inode & 0x7fffffff);
}

/* By path alone: no process has the pid. */
static void test_by_path(void **state)
{
	const uint32_t nobody = 0x7ffffff0;
	struct uw_file_id id;
	char one[128];
	bool proved;
	(void)state;

	strcpy(one, in_dir("one"));
	id = build_id_of(one);
	assert_int_equal(try_open(nobody, 1, 2, one, &id, &proved), ino(one));
	assert_true(proved);
	assert_int_equal(try_open(nobody, 1, 2, in_dir("two"), &id, &proved), -ENOENT);
	id.build_id.bytes[19] ^= 1;
	assert_int_equal(try_open(nobody, 1, 2, one, &id, &proved), -ENOENT);
	id = build_id_of(one);
	id.build_id.len = 16;
	assert_int_equal(try_open(nobody, 1, 2, one, &id, &proved), -ENOENT);
	/* a build id is known, the file is not an ELF image at all */
	id = build_id_of(one);
	assert_int_equal(try_open(nobody, 1, 2, in_dir("one.c"), &id, &proved), -ENOENT);

	id = inode_of(one);
	assert_int_equal(try_open(nobody, 1, 2, one, &id, &proved), ino(one));
	assert_true(proved);
	id.minor++; /* as on btrfs: usable, not proved */
	assert_int_equal(try_open(nobody, 1, 2, one, &id, &proved), ino(one));
	assert_false(proved);
	assert_int_equal(try_open(nobody, 1, 2, in_dir("two"), &id, &proved), -ENOENT);
	/* nothing is known */
	id = (struct uw_file_id){0};
	assert_int_equal(try_open(nobody, 1, 2, one, &id, &proved), ino(one));
	assert_false(proved);

	assert_int_equal(try_open(nobody, 1, 2, in_dir("none"), &id, &proved), -ENOENT);
	assert_int_equal(try_open(nobody, 1, 2, "", &id, &proved), -ENOENT);
	assert_int_equal(try_open(nobody, 1, 2, "one", &id, &proved),
			 -ENOENT); /* never relative to where we are */
}

static void test_not_regular(void **state)
{
	struct uw_file_id id = {0};
	char fifo[128];
	bool proved;
	(void)state;

	strcpy(fifo, in_dir("fifo"));
	assert_int_equal(mkfifo(fifo, 0666), 0);
	(void)alarm(10); /* a reader would never return */
	assert_int_equal(try_open((uint32_t)getpid(), 0, 0, fifo, &id, &proved), -ENOENT);
	id = inode_of(fifo);
	assert_int_equal(try_open((uint32_t)getpid(), 0, 0, fifo, &id, &proved), -ENOENT);
	id = (struct uw_file_id){0};
	assert_int_equal(try_open((uint32_t)getpid(), 0, 0, "/dev/zero", &id, &proved), -ENOENT);
	assert_int_equal(try_open((uint32_t)getpid(), 0, 0, dir, &id, &proved), -ENOENT);
	(void)alarm(0);
}

static void exec_path(int in, int out, void *arg)
{
	char *argv[] = {arg, NULL};

	(void)dup2(in, 0);
	(void)dup2(out, 1);
	execv(arg, argv);
}

/* The executable mapping of @path in a text; its id as the text has it. */
static bool mapping_of(pid_t pid, const char *path, struct procfs_map *ret_map)
{
	_cleanup_(freep) char *text = NULL;
	const char *at;
	size_t len;

	assert_int_equal(procfs_maps("", (uint32_t)pid, &text, &len), 0);
	at = text;
	while (procfs_maps_next(&at, text + len, ret_map) == 0) {
		if (ret_map->exec && ret_map->path_len >= strlen(path) &&
		    !memcmp(ret_map->path, path, strlen(path)))
			return true;
	}
	return false;
}

static void test_deleted_and_replaced(void **state)
{
	struct uw_file_id by_build_id, by_inode;
	struct procfs_map map;
	struct child c;
	char path[128];
	int was;
	bool proved;
	(void)state;

	if (geteuid()) {
		print_message("needs root: map_files asks for CAP_CHECKPOINT_RESTORE\n");
		skip();
	}
	strcpy(path, in_dir("running"));
	copy_file(in_dir("one"), path);
	by_build_id = build_id_of(path);
	was = ino(path);
	c = child_new(exec_path, path);
	child_hear(&c);
	assert_true(mapping_of(c.pid, path, &map));
	by_inode = (struct uw_file_id){.major = map.major, .minor = map.minor, .inode = map.inode};
	assert_int_equal(try_open((uint32_t)c.pid, map.start, map.end, path, &by_inode, &proved),
			 was);
	assert_true(proved);

	/* deleted: only map_files has it */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(try_open((uint32_t)c.pid, map.start, map.end, path, &by_build_id, &proved),
			 was);
	assert_true(proved);
	assert_int_equal(try_open((uint32_t)c.pid, map.start, map.end, path, &by_inode, &proved),
			 was);
	assert_true(proved);
	assert_int_equal(try_open((uint32_t)c.pid, 0, 0, path, &by_inode, &proved), -ENOENT);

	/* replaced: the one at the path is another */
	copy_file(in_dir("two"), path);
	assert_int_equal(try_open((uint32_t)c.pid, map.start, map.end, path, &by_build_id, &proved),
			 was);
	assert_int_equal(try_open((uint32_t)c.pid, 0, 0, path, &by_build_id, &proved), -ENOENT);
	assert_int_equal(try_open((uint32_t)c.pid, 0, 0, path, &by_inode, &proved), -ENOENT);

	/* a mapping of that place that is of another file than was asked for */
	by_inode.inode += 1000003; /* the next one is the new file */
	assert_int_equal(try_open((uint32_t)c.pid, map.start, map.end, path, &by_inode, &proved),
			 -ENOENT);
	child_end(&c);
	/* the process is gone, the file is not: verified by build id */
	by_build_id = build_id_of(path);
	assert_int_equal(try_open((uint32_t)c.pid, map.start, map.end, path, &by_build_id, &proved),
			 ino(path));
	assert_true(proved);
}

static void change_root(int in, int out, void *arg)
{
	if (chroot(arg) < 0)
		_exit(1);
	child_stop(in, out);
}

static void test_chroot(void **state)
{
	struct uw_file_id id;
	char jail[128], inside[300];
	struct child c;
	bool proved;
	(void)state;

	if (geteuid()) {
		print_message("needs root: chroot\n");
		skip();
	}
	strcpy(jail, in_dir("jail"));
	assert_int_equal(mkdir(jail, 0755), 0);
	(void)snprintf(inside, sizeof(inside), "%s/perfwind-inside", jail);
	copy_file(in_dir("two"), inside);
	c = child_new(change_root, jail);
	child_hear(&c);
	id = build_id_of(inside);
	assert_int_equal(try_open((uint32_t)c.pid, 1, 2, "/perfwind-inside", &id, &proved),
			 ino(inside));
	assert_true(proved);
	child_end(&c);
	assert_int_equal(try_open((uint32_t)c.pid, 1, 2, "/perfwind-inside", &id, &proved),
			 -ENOENT);
}

static void test_denied(void **state)
{
	struct uw_file_id id = {0};
	struct child c;
	bool proved;
	char path[128];
	(void)state;

	if (geteuid()) {
		print_message("needs root: another user's process\n");
		skip();
	}
	strcpy(path, in_dir("secret"));
	copy_file(in_dir("one"), path);
	assert_int_equal(chmod(path, 0000), 0);
	assert_int_equal(chmod(dir, 0755), 0);
	c = child_new(change_root, (void *)(uintptr_t) "/"); /* a process of root */
	child_hear(&c);
	assert_int_equal(seteuid(65534), 0);
	assert_int_equal(try_open((uint32_t)c.pid, 1, 2, path, &id, &proved), -EACCES);
	assert_int_equal(seteuid(0), 0);
	child_end(&c);
}

static void test_compare(void **state)
{
	struct uw_file_id id = inode_of(in_dir("one"));
	(void)state;

	assert_int_equal(procfs_compare(in_dir("one"), &id), PROCFS_SAME);
	assert_int_equal(procfs_compare(in_dir("two"), &id), PROCFS_OTHER);
	assert_int_equal(procfs_compare(in_dir("none"), &id), PROCFS_OTHER);
	id.minor++;
	assert_int_equal(procfs_compare(in_dir("one"), &id), PROCFS_SAME_INODE);
	id.minor--;
	id.inode++;
	assert_int_equal(procfs_compare(in_dir("one"), &id), PROCFS_OTHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_path),
		cmocka_unit_test(test_not_regular),
		cmocka_unit_test(test_deleted_and_replaced),
		cmocka_unit_test(test_chroot),
		cmocka_unit_test(test_denied),
		cmocka_unit_test(test_compare),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
