/* archive.c - see archive.h. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <lzma.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "base/child.h"
#include "base/error.h"
#include "base/features.h"
#include "base/log.h"
#include "cli/archive.h"
#include "perf/probe.h"
#include "proc/archive-members.h"
#include "proc/open-file.h"
#include "session/rights-filter.h"

enum { PATH_ROOM = PATH_MAX + 128, PIECE = 64 << 10, XZ_MEMORY = 128 << 20, REMOVE_TRIES = 3 };
#define UNPACKED_BYTES_MAX (2 * ARCHIVE_BYTES_MAX) /* what is passed over counts too */

/* What pw-unpack writes: this, for a member followed by its bytes. */
struct message {
	uint32_t kind;	 /* enum archive_kind, or ARCHIVE_KINDS: the end, for the reason in size */
	uint32_t id_len; /* of the end: an errno, which is the reason, or 0 */
	uint64_t size;
	uint8_t id[24];
};

enum end { END_WHOLE, END_NO_ARCHIVE, END_DAMAGED, END_TOO_LARGE, END_NO_LIBRARY };

/* ---- pw-unpack ---- */

/* bz_stream and the functions of libbz2 (bzlib.h), which libdw loads where it knows bzip2. */
struct bzip2_stream {
	char *next_in;
	unsigned avail_in, in_low, in_high;
	char *next_out;
	unsigned avail_out, out_low, out_high;
	void *state, *alloc, *free, *opaque;
};
struct bzip2 {
	int (*begin)(struct bzip2_stream *s, int verbosity, int small);
	int (*step)(struct bzip2_stream *s);
	int (*end)(struct bzip2_stream *s);
	struct bzip2_stream s;
};
enum { BZIP2_OK = 0, BZIP2_STREAM_END = 4, BZIP2_NO_MEMORY = -3 };

struct unpacker {
	int from, to; /* the archive, the pipe */
	struct bzip2 bzip2;
	struct archive_reader reader;
	uint64_t unpacked, kept;
	uint8_t in[PIECE], out[PIECE];
	int error; /* 0: none */
	enum end end;
};

/* Before the process loses the file system. */
static bool load_bzip2(struct bzip2 *b)
{
	void *so = dlopen("libbz2.so.1.0", RTLD_NOW | RTLD_LOCAL);

	if (!so)
		so = dlopen("libbz2.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!so)
		return false;
	*(void **)&b->begin = dlsym(so, "BZ2_bzDecompressInit");
	*(void **)&b->step = dlsym(so, "BZ2_bzDecompress");
	*(void **)&b->end = dlsym(so, "BZ2_bzDecompressEnd");
	return b->begin && b->step && b->end;
}

static int put_member(void *arg, const struct archive_member *m)
{
	struct unpacker *u = arg;
	struct message message = {.kind = (uint32_t)m->kind, .id_len = m->id.len, .size = m->size};

	if (m->size > ARCHIVE_BYTES_MAX - u->kept) {
		u->end = END_TOO_LARGE;
		return fail(-EFBIG);
	}
	u->kept += m->size;
	memcpy(message.id, m->id.bytes, m->id.len);
	return write_all(u->to, &message, sizeof(message));
}

static int put_data(void *arg, const uint8_t *data, size_t len)
{
	const struct unpacker *u = arg;

	return write_all(u->to, data, len);
}

/* false: no more. */
static bool take_unpacked(struct unpacker *u, size_t len)
{
	int r;

	u->unpacked += len;
	if (u->unpacked > UNPACKED_BYTES_MAX) {
		u->end = END_TOO_LARGE;
		return false;
	}
	r = archive_read(&u->reader, u->out, len);
	if (r == 0)
		return true;
	if (r == ARCHIVE_END)
		u->end = END_WHOLE;
	else if (u->end != END_TOO_LARGE)
		u->end = u->unpacked <= len ? END_NO_ARCHIVE : END_DAMAGED;
	return false;
}

static ssize_t read_piece(struct unpacker *u, uint8_t *to)
{
	ssize_t n;

	do
		n = read(u->from, to, PIECE);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		u->error = errno;
	return n;
}

static void unpack_plain(struct unpacker *u)
{
	ssize_t n;

	while ((n = read_piece(u, u->out)) > 0 && take_unpacked(u, (size_t)n))
		;
}

static void note_memory(struct unpacker *u, bool is_lacking)
{
	if (is_lacking)
		u->error = ENOMEM;
}

/* A file may be several streams, one behind the other. */
static void unpack_bzip2(struct unpacker *u)
{
	struct bzip2 *b = &u->bzip2;
	bool begun = false;

	if (!b->begin) {
		u->end = END_NO_LIBRARY;
		return;
	}
	for (;;) {
		ssize_t n = b->s.avail_in ? 1 : read_piece(u, u->in);
		int r;

		if (n <= 0)
			return;
		if (!b->s.avail_in) {
			b->s.next_in = (char *)u->in;
			b->s.avail_in = (unsigned)n;
		}
		r = begun ? BZIP2_OK : b->begin(&b->s, 0, 0);
		note_memory(u, r == BZIP2_NO_MEMORY);
		if (r != BZIP2_OK)
			return;
		begun = true;
		do {
			b->s.next_out = (char *)u->out;
			b->s.avail_out = PIECE;
			r = b->step(&b->s);
			note_memory(u, r == BZIP2_NO_MEMORY);
			if ((r != BZIP2_OK && r != BZIP2_STREAM_END) ||
			    !take_unpacked(u, PIECE - b->s.avail_out))
				return;
		} while (r == BZIP2_OK && (b->s.avail_in || !b->s.avail_out));
		if (r == BZIP2_STREAM_END) {
			(void)b->end(&b->s);
			begun = false;
		}
	}
}

static void unpack_gzip(struct unpacker *u)
{
	z_stream s = {.next_in = NULL};
	int r = inflateInit2(&s, 15 + 16);
	ssize_t n;

	note_memory(u, r == Z_MEM_ERROR);
	while (r == Z_OK && (n = read_piece(u, u->in)) > 0) {
		s.next_in = u->in;
		s.avail_in = (unsigned)n;
		do {
			s.next_out = u->out;
			s.avail_out = PIECE;
			r = inflate(&s, Z_NO_FLUSH);
			if (r == Z_BUF_ERROR)
				r = Z_OK; /* it wants more bytes */
			note_memory(u, r == Z_MEM_ERROR);
			if ((r != Z_OK && r != Z_STREAM_END) ||
			    !take_unpacked(u, PIECE - s.avail_out))
				return;
			if (r == Z_STREAM_END)
				r = inflateReset(&s);
		} while (r == Z_OK && (s.avail_in || !s.avail_out));
	}
}

static void unpack_xz(struct unpacker *u)
{
	lzma_stream s = LZMA_STREAM_INIT;
	lzma_ret r = lzma_stream_decoder(&s, XZ_MEMORY, LZMA_CONCATENATED);
	ssize_t n;

	note_memory(u, r == LZMA_MEM_ERROR);
	while (r == LZMA_OK && (n = read_piece(u, u->in)) > 0) {
		s.next_in = u->in;
		s.avail_in = (size_t)n;
		do {
			s.next_out = u->out;
			s.avail_out = PIECE;
			r = lzma_code(&s, LZMA_RUN);
			if (r == LZMA_BUF_ERROR)
				r = LZMA_OK;
			note_memory(u, r == LZMA_MEM_ERROR);
			if (r != LZMA_OK || !take_unpacked(u, PIECE - s.avail_out))
				return;
		} while (s.avail_in || !s.avail_out);
	}
}

static void unpack(void *arg)
{
	static const uint8_t bzip2[] = {'B', 'Z', 'h'}, gzip[] = {0x1f, 0x8b},
			     xz[] = {0xfd, '7', 'z', 'X', 'Z', 0};
	struct unpacker *u = arg;
	struct message last = {.kind = ARCHIVE_KINDS};
	uint8_t head[8] = {0};

	u->end = END_DAMAGED; /* a file that ends early */
	(void)read_fd_at(u->from, head, sizeof(head), 0);
	if (!memcmp(head, bzip2, sizeof(bzip2)))
		unpack_bzip2(u);
	else if (!memcmp(head, gzip, sizeof(gzip)))
		unpack_gzip(u);
	else if (!memcmp(head, xz, sizeof(xz)))
		unpack_xz(u);
	else
		unpack_plain(u);
	if (u->end == END_DAMAGED && u->unpacked && archive_may_end(&u->reader))
		u->end = END_WHOLE; /* without its blocks of zeros */
	last.size = u->unpacked || u->end == END_NO_LIBRARY ? u->end : END_NO_ARCHIVE;
	last.id_len = (uint32_t)u->error;
	(void)write_all(u->to, &last, sizeof(last));
}

/* ---- the folder ---- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	(void)remove(path);
	return 0;
}

/* Removes the folder when the command has ended, whatever ended it. */
static void keep(const char *folder, int alive)
{
	static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	char byte;

	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		(void)sigaction(ignored[i], &ignore, NULL);
	(void)prctl(PR_SET_NAME, "pw-archive");
	if (alive > 0)
		(void)syscall(SYS_close_range, 0u, (unsigned)alive - 1, 0u);
	(void)syscall(SYS_close_range, (unsigned)alive + 1, ~0u, 0u);
	while (read(alive, &byte, 1) < 0 && errno == EINTR)
		;
	/* A lack of memory or descriptors may pass. */
	for (int i = 0; i < REMOVE_TRIES; i++)
		if (nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT) == 0)
			break;
}

static int make_folder(struct archive *a)
{
	const char *place = getenv("TMPDIR");
	int ends[2], n;

	n = snprintf(a->folder, sizeof(a->folder), "%s/perfwind-archive-XXXXXX",
		     place && *place ? place : "/var/tmp");
	if (n < 0 || (size_t)n >= sizeof(a->folder))
		return fail(-ENAMETOOLONG);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return fail(-errno);
	if (!mkdtemp(a->folder)) {
		n = errno;
		(void)close(ends[0]);
		(void)close(ends[1]);
		return fail(-n);
	}
	a->keeper = fork();
	if (a->keeper == 0) {
		keep(a->folder, ends[0]);
		_exit(0);
	}
	n = a->keeper < 0 ? -errno : 0;
	(void)close(ends[0]);
	a->alive = ends[1];
	if (n < 0) {
		a->alive = fd_close(a->alive);
		(void)rmdir(a->folder);
		return fail(n);
	}
	return 0;
}

void archive_deinit(struct archive *a)
{
	if (a->keeper > 0) {
		a->alive = fd_close(a->alive);
		while (waitpid(a->keeper, NULL, 0) < 0 && errno == EINTR)
			;
	}
	*a = (struct archive){.keeper = 0};
}

/* ---- the command ---- */

static bool read_full(int fd, void *to, size_t len)
{
	char *at = to;

	while (len) {
		ssize_t n = read(fd, at, len);

		if (n == 0 || (n < 0 && errno != EINTR))
			return false;
		at += n < 0 ? 0 : n;
		len -= n < 0 ? 0 : (size_t)n;
	}
	return true;
}

static int make_one(const char *path)
{
	return mkdir(path, 0700) < 0 && errno != EEXIST ? fail(-errno) : 0;
}

/* A descriptor; -1: there is a file of that name already. */
static int create_file(const struct archive *a, const struct message *m, char path[PATH_ROOM],
		       int *ret)
{
	char hex[2 * sizeof(m->id) + 1] = "";
	int n, r;

	for (unsigned i = 0; i < m->id_len; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", m->id[i]);
	n = snprintf(path, PATH_ROOM, "%s/.build-id", a->folder);
	r = make_one(path);
	n += snprintf(path + n, PATH_ROOM - (size_t)n, "/%.2s", hex);
	r = r < 0 ? r : make_one(path);
	n += snprintf(path + n, PATH_ROOM - (size_t)n, "/%s", hex + 2);
	r = r < 0 ? r : make_one(path);
	if (r < 0)
		return trace(r);
	(void)snprintf(path + n, PATH_ROOM - (size_t)n, "/%s",
		       archive_kind_name((enum archive_kind)m->kind));
	*ret = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return *ret < 0 && errno != EEXIST ? fail(-errno) : 0;
}

static int take_file(const struct archive *a, int from, const struct message *m)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[PATH_ROOM];
	uint8_t piece[PIECE];
	uint64_t left = m->size;
	int r = create_file(a, m, path, &fd);

	while (r >= 0 && left) {
		size_t n = min_u64(left, sizeof(piece));

		if (!read_full(from, piece, n)) {
			if (fd >= 0)
				(void)unlink(path); /* a part of a file is of no use */
			return fail(-EBADMSG);
		}
		if (fd >= 0)
			r = write_all(fd, piece, n);
		left -= n;
	}
	return r < 0 ? trace(r) : 0;
}

/* What the process answers is checked: it parsed foreign bytes.  The reason of the end, or an error of ours. */
static int take_files(const struct archive *a, int from)
{
	uint64_t bytes = 0;
	struct message m;

	for (size_t n = 0; n < ARCHIVE_FILES_MAX; n++) {
		int r;

		if (!read_full(from, &m, sizeof(m)) || m.kind > ARCHIVE_KINDS)
			return END_DAMAGED;
		if (m.kind == ARCHIVE_KINDS && m.id_len)
			return fail(m.id_len < 4096 ? -(int)m.id_len : -EBADMSG);
		if (m.kind == ARCHIVE_KINDS)
			return m.size <= END_NO_LIBRARY ? (int)m.size : END_DAMAGED;
		if (m.id_len < 2 || m.id_len > UW_BUILD_ID_MAX)
			return END_DAMAGED;
		if (m.size > ARCHIVE_BYTES_MAX - bytes)
			return END_TOO_LARGE;
		bytes += m.size;
		r = take_file(a, from, &m);
		if (r < 0)
			return r == -EBADMSG ? END_DAMAGED : trace(r);
	}
	return END_TOO_LARGE;
}

static int report(const char *path, int end)
{
	if (end < 0)
		log_error("%s: unpacking it: %s%s", path, strerror(-end),
			  is_shortage(end) ? "" : " (hint: set TMPDIR to a folder with room)");
	else if (end == END_NO_ARCHIVE)
		log_error("%s: is not a tarball made by perf archive", path);
	else if (end == END_NO_LIBRARY)
		log_error("%s: libbz2 is not installed (hint: apt install libbz2-1.0)", path);
	else if (end == END_DAMAGED)
		log_info("%s: is damaged or was cut off; the files before that are used", path);
	else if (end == END_TOO_LARGE)
		log_info("%s: holds more than %llu GiB or %d files; the first are used", path,
			 ARCHIVE_BYTES_MAX >> 30, ARCHIVE_FILES_MAX);
	if (end < 0)
		return end;
	return end == END_NO_ARCHIVE || end == END_NO_LIBRARY ? -EINVAL : 0;
}

/* The process that parses has a list of system calls, and no file system where the kernel has Landlock. */
static void confine_children(void)
{
	struct features features = {.has = {false}};
	char error[256];

	if (probe_features(&features, error, sizeof(error)) < 0)
		log_verbose("%s", error);
	child_landlock(features.has[FEATURE_LANDLOCK]);
	if (rights_filter_helpers(false) < 0)
		log_verbose("no system calls are filtered");
}

static int run_unpacker(struct archive *a, struct unpacker *u, int fd)
{
	struct child child = {
		.name = "pw-unpack",
		.calls = CHILD_CALLS_GIVEN,
		.other_user = true,
		.run = unpack,
		.arg = u,
	};
	int ends[2], r;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return fail(-errno);
	u->from = fd;
	u->to = ends[1];
	child.keep[0] = fd;
	child.keep[1] = ends[1];
	r = child_start(&child, &pid);
	(void)close(ends[1]);
	if (r >= 0) {
		r = take_files(a, ends[0]);
		child_end(pid, child.name, 1000);
	}
	(void)close(ends[0]);
	return r;
}

int archive_unpack(const char *path, struct archive *ret)
{
	_cleanup_(freep) struct unpacker *u = calloc(1, sizeof(*u));
	struct stat st;
	_cleanup_(fd_closep) int fd = procfs_open_regular(path, NULL, &st);
	int r;

	*ret = (struct archive){.keeper = 0};
	if (fd < 0) {
		log_error("%s: %s", path, strerror(-fd));
		return fd;
	}
	r = u ? make_folder(ret) : fail(-ENOMEM);
	if (r < 0) {
		ret->folder[0] = 0;
		return report(path, r);
	}
	(void)load_bzip2(&u->bzip2);
	u->reader = (struct archive_reader){.member = put_member, .data = put_data, .arg = u};
	confine_children();
	r = report(path, run_unpacker(ret, u, fd));
	if (r < 0)
		archive_deinit(ret);
	return r < 0 ? trace(r) : 0;
}
