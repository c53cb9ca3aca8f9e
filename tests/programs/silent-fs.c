/* silent-fs.c - a file system that stops answering: silent-fs DIR FILE OPERATION...
 *
 * Mounts itself (FUSE, by the kernel's protocol alone: linux/fuse.h) on DIR with the one file "file",
 * with FILE's bytes, and answers everything until SIGUSR1.  From then on requests of the named
 * operations (open, getattr, read, flush, statfs, lookup) never get an answer; a read from UNREAD on never does, else the
 * kernel would have pages that another reader got before.  Needs root.
 * It prints "mounted" when it is. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ROOT = 1, THE_FILE = 2, READ_MAX = 128 << 10, UNREAD = 3 << 19 };
static volatile sig_atomic_t silent;
static int fuse_fd, file_fd;
static uint64_t size;
static bool muted[64];

static void become_silent(int sig)
{
	(void)sig;
	silent = 1;
}

static void reply(uint64_t unique, int error, const void *data, size_t len)
{
	struct fuse_out_header head = {
		.len = (uint32_t)(sizeof(head) + len), .error = error, .unique = unique};
	struct iovec iov[2] = {{&head, sizeof(head)}, {(void *)data, len}};

	if (writev(fuse_fd, iov, 2) < 0 && errno != ENOENT)
		perror("silent-fs: reply");
}

static struct fuse_attr attr_of(uint64_t node)
{
	return (struct fuse_attr){
		.ino = node,
		.size = node == THE_FILE ? size : 0,
		.mode = node == THE_FILE ? S_IFREG | 0755 : S_IFDIR | 0755,
		.nlink = 1,
		.blksize = 4096,
	};
}

static void lookup(const struct fuse_in_header *in, const char *name)
{
	struct fuse_entry_out out = {
		.nodeid = THE_FILE, .entry_valid = 3600, .attr = attr_of(THE_FILE)};

	if (strcmp(name, "file") != 0)
		reply(in->unique, -ENOENT, NULL, 0);
	else
		reply(in->unique, 0, &out, sizeof(out));
}

static void answer(const struct fuse_in_header *in, const void *body)
{
	static char bytes[READ_MAX];
	const struct fuse_read_in *read_in = body;
	struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION,
				     .minor = 31,
				     .max_readahead = 4096,
				     .max_write = 4096,
				     .flags = 0};
	/* What is cached stays: a target's own pages are not taken from it when we open. */
	struct fuse_open_out opened = {.open_flags = FOPEN_KEEP_CACHE};
	struct fuse_attr_out attr = {.attr = attr_of(in->nodeid)};
	struct fuse_statfs_out statfs_out = {.st = {.bsize = 4096, .namelen = 255}};
	ssize_t n;

	switch (in->opcode) {
	case FUSE_INIT:
		reply(in->unique, 0, &init, sizeof(init));
		break;
	case FUSE_LOOKUP:
		lookup(in, body);
		break;
	case FUSE_GETATTR:
		reply(in->unique, 0, &attr, sizeof(attr));
		break;
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		reply(in->unique, 0, &opened, sizeof(opened));
		break;
	case FUSE_READ:
		n = pread(file_fd, bytes, read_in->size < READ_MAX ? read_in->size : READ_MAX,
			  (off_t)read_in->offset);
		reply(in->unique, n < 0 ? -EIO : 0, bytes, n < 0 ? 0 : (size_t)n);
		break;
	case FUSE_STATFS:
		reply(in->unique, 0, &statfs_out, sizeof(statfs_out));
		break;
	case FUSE_FLUSH:
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
		reply(in->unique, 0, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break; /* have no answer */
	default:
		reply(in->unique, -ENOSYS, NULL, 0);
	}
}

static void mute(const char *name)
{
	static const struct {
		const char *name;
		int op;
	} ops[] = {{"open", FUSE_OPEN},	  {"getattr", FUSE_GETATTR}, {"read", FUSE_READ},
		   {"flush", FUSE_FLUSH}, {"statfs", FUSE_STATFS},   {"lookup", FUSE_LOOKUP}};

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
		if (!strcmp(name, ops[i].name))
			muted[ops[i].op] = true;
}

static bool is_muted(const struct fuse_in_header *in)
{
	const struct fuse_read_in *read_in = (const void *)(in + 1);

	return in->opcode < 64 && muted[in->opcode] &&
	       (silent || (in->opcode == FUSE_READ && read_in->offset >= UNREAD));
}

int main(int argc, char **argv)
{
	static char request[READ_MAX + 4096];
	const struct fuse_in_header *in = (const void *)request;
	struct sigaction action = {.sa_handler = become_silent, .sa_flags = SA_RESTART};
	char options[128];
	struct stat st;
	ssize_t n;

	if (argc < 3)
		return 2;
	for (int i = 3; i < argc; i++)
		mute(argv[i]);
	file_fd = open(argv[2], O_RDONLY | O_CLOEXEC);
	fuse_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (file_fd < 0 || fuse_fd < 0 || fstat(file_fd, &st) < 0)
		return 1;
	size = (uint64_t)st.st_size;
	(void)sigaction(SIGUSR1, &action, NULL);
	(void)snprintf(options, sizeof(options),
		       "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fuse_fd);
	if (mount("silent", argv[1], "fuse.silent", 0, options) < 0) {
		perror("silent-fs: mount");
		return 1;
	}
	puts("mounted");
	(void)fflush(stdout);
	while ((n = read(fuse_fd, request, sizeof(request))) > 0 || errno == EINTR ||
	       errno == ENOENT) {
		if (n < (ssize_t)sizeof(*in))
			continue;
		if (is_muted(in))
			continue;
		answer(in, request + sizeof(*in));
	}
	return 0;
}
