/* sink.c - see sink.h: files, memory, compression, a thread that writes.
 *
 * The file sink gathers up to BUFFER_SIZE and writes whole packets only: a write(2) that the disk
 * cuts short is taken back to the last packet that is whole, so the file ends in one whatever
 * happens short of a crash. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef HAVE_LIBDEFLATE
#include <libdeflate.h>
#else
#include <zlib.h>
#endif

#include "base/bytes.h"
#include "base/error.h"
#include "base/sem.h"
#include "protos/trace.fields.h"
#include "protos/wire.h"
#include "trace/sink.h"

enum {
	BUFFER_SIZE = 256 << 10,
};

struct sink_file {
	struct sink sink;
	int fd;
	int error;	  /* the first one; nothing is written after it */
	uint64_t out;	  /* bytes that the kernel has taken */
	char *path, *old; /* NULL: not a file that we made; nothing was put aside for it */
	bool discarded;
	size_t len;
	uint8_t buffer[BUFFER_SIZE];
};

bool sink_next_packet(struct cursor *c, const void **ret_packet, size_t *ret_len)
{
	uint64_t tag, len;
	const void *packet;

	if (!cursor_left(c))
		return false;
	tag = cursor_uleb(c);
	len = cursor_uleb(c);
	packet = cursor_bytes(c, len);
	if (c->bad || tag != SINK_PACKET_TAG) {
		c->bad = true;
		return false;
	}
	*ret_packet = packet;
	*ret_len = len;
	return true;
}

/* How many of the first @written bytes of @data are whole packets: the walk over tags and lengths.
 */
static size_t whole_packets(const uint8_t *data, size_t written)
{
	struct cursor c = cursor_of(data, written);
	const void *packet;
	size_t whole = 0, len;

	while (sink_next_packet(&c, &packet, &len))
		whole = written - cursor_left(&c);
	return whole;
}

/* Writes @len bytes that are whole packets.  On failure takes back what is cut. */
static int file_write_out(struct sink_file *f, const uint8_t *data, size_t len)
{
	size_t done = 0, whole;

	while (done < len) {
		ssize_t n = write(f->fd, data + done, len - done);
		int r = n < 0 ? -errno : -EIO;
		off_t end;

		if (n > 0) {
			done += (size_t)n;
			continue;
		}
		if (r == -EINTR)
			continue;
		f->error = fail(r);
		f->len = 0;
		/* Pipes and terminals cannot be cut: their reader sees a cut packet, as after a
		 * crash. */
		end = lseek(f->fd, 0, SEEK_CUR);
		whole = whole_packets(data, done);
		sink_count_add(&f->sink.written, data, whole);
		f->sink.bytes = f->out + done;
		done -= whole;
		if (done && end >= (off_t)done && ftruncate(f->fd, end - (off_t)done) == 0) {
			(void)lseek(f->fd, end - (off_t)done, SEEK_SET);
			f->sink.bytes -= done;
		}
		return f->error;
	}
	sink_count_add(&f->sink.written, data, len);
	f->out += len;
	return 0;
}

static int file_flush(struct sink *sink)
{
	struct sink_file *f = container_of(sink, struct sink_file, sink);
	int r;

	if (f->error < 0)
		return trace(f->error);
	if (!f->len)
		return 0;
	r = file_write_out(f, f->buffer, f->len);
	if (r < 0)
		return trace(r);
	f->len = 0;
	return 0;
}

static int file_write(struct sink *sink, const void *data, size_t len)
{
	struct sink_file *f = container_of(sink, struct sink_file, sink);
	int r;

	if (f->error < 0)
		return trace(f->error);
	if (len > BUFFER_SIZE - f->len) {
		r = file_flush(sink);
		if (r < 0)
			return trace(r);
	}
	if (len > BUFFER_SIZE) {
		r = file_write_out(f, data, len);
		if (r < 0)
			return trace(r);
	} else if (len) {
		memcpy(f->buffer + f->len, data, len);
		f->len += len;
	}
	sink->bytes += len;
	return 0;
}

/* Nothing came to stand in it (a session that did not start, a disk that was full before), or it is not wanted: as
 * it was before. */
static void put_back(const struct sink_file *f)
{
	struct stat st;

	if (f->fd >= 0 &&
	    (fstat(f->fd, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_size && !f->discarded)))
		return;
	if (f->old)
		(void)rename(f->old, f->path);
	else if (f->fd >= 0)
		(void)unlink(f->path);
}

static void file_free(struct sink *sink)
{
	struct sink_file *f = container_of(sink, struct sink_file, sink);

	if (f->path)
		put_back(f);
	fd_close(f->fd);
	free(f->path);
	free(f->old);
	free(f);
}

int sink_fd_new(int fd, struct sink **ret_sink)
{
	_cleanup_(fd_closep) int owned = fd;
	struct sink_file *f = malloc(sizeof(*f));

	if (!f)
		return fail(-ENOMEM);
	*f = (struct sink_file){
		.sink = {.write = file_write, .flush = file_flush, .free = file_free},
		.fd = take_fd(owned),
	};
	*ret_sink = &f->sink;
	return 0;
}

void sink_file_discard(struct sink *sink)
{
	container_of(sink, struct sink_file, sink)->discarded = true;
}

int sink_fd(struct sink *sink)
{
	return container_of(sink, struct sink_file, sink)->fd;
}

void sink_fd_restart(struct sink *sink, int fd)
{
	struct sink_file *f = container_of(sink, struct sink_file, sink);

	(void)fd_close(f->fd);
	f->fd = fd;
	f->error = 0;
	f->out = f->len = 0;
	sink->bytes = sink->dropped = 0;
	sink->written = (struct sink_count){0};
	sink->renew = false;
}

/* ---- how a path is opened ----
 *
 * nothing there                    made, mode 0600
 * a regular file, a link to one    becomes PATH.old
 * a link that leads nowhere        becomes PATH.old
 * a device, a pipe, a link to one  written into, if @is_trap() does not report that another user made it
 * -, /dev/stdout, /dev/fd/N ...    the descriptor itself, whatever it is */

/* In a folder where everybody makes files, another user's link or pipe leads where that user likes.  The rule
 * of fs.protected_symlinks and fs.protected_fifos (Documentation/admin-guide/sysctl/fs.rst), which may be off. */
static bool is_trap(const char *path, const struct stat *st)
{
	_cleanup_(freep) char *folder = strdup(path);
	char *slash = folder ? strrchr(folder, '/') : NULL;
	struct stat in;

	if (st->st_uid == geteuid())
		return false;
	if (slash)
		slash[slash == folder] = 0;
	if (!folder || stat(slash ? folder : ".", &in) < 0)
		return true;
	return (in.st_mode & (S_ISVTX | S_IWOTH)) == (S_ISVTX | S_IWOTH) && in.st_uid != st->st_uid;
}

enum { FILE_NEW, FILE_OLD, FILE_SPECIAL };

static int look(const char *path)
{
	struct stat st, to;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? FILE_NEW : fail(-errno);
	to = st;
	if (S_ISLNK(st.st_mode)) {
		if (is_trap(path, &st))
			return fail(-ELOOP);
		if (stat(path, &to) < 0)
			return errno == ENOENT || errno == ELOOP ? FILE_OLD : fail(-errno);
	}
	if (S_ISDIR(to.st_mode))
		return fail(-EISDIR);
	if (S_ISREG(to.st_mode))
		return FILE_OLD;
	return is_trap(path, &st) ? fail(-ELOOP) : FILE_SPECIAL;
}

static int keep_old(const char *path, char **ret_old)
{
	_cleanup_(freep) char *old = NULL;

	if (asprintf(&old, "%s.old", path) < 0) {
		old = NULL;
		return fail(-ENOMEM);
	}
	if (rename(path, old) < 0)
		return fail(errno == EISDIR ? -ENOTEMPTY : -errno);
	*ret_old = take(old);
	return 0;
}

static int file_open(struct sink_file *f, const char *path)
{
	int r, flags = O_WRONLY | O_CLOEXEC | O_NOCTTY;

	f->path = strdup(path);
	if (!f->path)
		return fail(-ENOMEM);
	r = look(path);
	if (r == FILE_OLD) {
		r = keep_old(path, &f->old);
		if (r < 0)
			return trace(r);
	} else if (r < 0) {
		return trace(r);
	}
	if (r != FILE_SPECIAL)
		flags |= O_CREAT | O_EXCL | O_NOFOLLOW;
	f->fd = open(path, flags, 0600);
	return f->fd < 0 ? fail(-errno) : 0;
}

/* N of a path that names our descriptor N, else -1. */
static int named_descriptor(const char *path)
{
	static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
	uint64_t n;

	if (!strcmp(path, "-") || !strcmp(path, "/dev/stdout"))
		return STDOUT_FILENO;
	if (!strcmp(path, "/dev/stderr"))
		return STDERR_FILENO;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		size_t len = strlen(folders[i]);

		if (!strncmp(path, folders[i], len) && parse_u64(path + len, 10, INT_MAX, &n) == 0)
			return (int)n;
	}
	return -1;
}

/* What it is open for is shared: its position, and whether it appends.  -EBADF: not one that we have inherited,
 * which our own are not (O_CLOEXEC). */
static int dup_inherited(int fd)
{
	int flags = fcntl(fd, F_GETFD);

	if (flags < 0 || flags & FD_CLOEXEC)
		return fail(-EBADF);
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? fail(-errno) : fd;
}

int sink_file_new(const char *path, struct sink **ret_sink)
{
	int named = named_descriptor(path), fd = named < 0 ? -1 : dup_inherited(named), r;
	struct sink *sink;

	if (named >= 0 && fd < 0)
		return trace(fd);
	r = sink_fd_new(fd, &sink);
	if (r < 0)
		return trace(r);
	if (named < 0)
		r = file_open(container_of(sink, struct sink_file, sink), path);
	if (r < 0) {
		(void)sink_free(sink);
		return trace(r);
	}
	*ret_sink = sink;
	return 0;
}

struct sink *sink_free(struct sink *sink)
{
	if (sink)
		sink->free(sink);
	return NULL;
}

/* ---- memory ---- */
struct sink_memory {
	struct sink sink;
	struct buffer buffer;
	size_t most;
};

static uint64_t count_packets(const void *data, size_t len)
{
	struct cursor c = cursor_of(data, len);
	const void *packet;
	size_t size;
	uint64_t n = 0;

	while (sink_next_packet(&c, &packet, &size))
		n++;
	return n;
}

static int memory_write(struct sink *sink, const void *data, size_t len)
{
	struct sink_memory *m = container_of(sink, struct sink_memory, sink);

	if (len > m->most - min_u64(m->buffer.len, m->most)) {
		sink->dropped += count_packets(data, len);
		sink->renew = true;
		return 0;
	}
	buffer_append(&m->buffer, data, len);
	if (m->buffer.bad)
		return fail(-ENOMEM);
	sink->bytes += len;
	return 0;
}

static int memory_flush(struct sink *sink)
{
	(void)sink;
	return 0;
}

static void memory_free(struct sink *sink)
{
	struct sink_memory *m = container_of(sink, struct sink_memory, sink);

	buffer_deinit(&m->buffer);
	free(m);
}

int sink_memory_new(struct sink **ret_sink)
{
	struct sink_memory *m = calloc(1, sizeof(*m));

	if (!m)
		return fail(-ENOMEM);
	m->most = SIZE_MAX;
	m->sink = (struct sink){.write = memory_write, .flush = memory_flush, .free = memory_free};
	*ret_sink = &m->sink;
	return 0;
}

const void *sink_memory_data(struct sink *sink, size_t *ret_len)
{
	struct sink_memory *m = container_of(sink, struct sink_memory, sink);

	*ret_len = m->buffer.len;
	return m->buffer.data;
}

void sink_memory_limit(struct sink *sink, size_t most)
{
	container_of(sink, struct sink_memory, sink)->most = most;
}

void sink_memory_clear(struct sink *sink)
{
	container_of(sink, struct sink_memory, sink)->buffer.len = 0;
}

/* ---- compression: sink_deflate_new() ----
 *
 *   Trace.packet { TracePacket.compressed_packets = zlib stream of [Trace.packet ...] }
 *
 * Field 50, and readers want each packet of this kind under 512 KiB (the trace format's own comment).  Each is
 * a stream of its own, so that a file that is cut loses no more than the last one; CHUNK is well
 * above zlib's window, so little is lost by that.  Level 1: the bulk of a trace is stacks that
 * differ from one before in a few frames, which the fastest matcher finds as well as the best.
 * libdeflate does the same in half of zlib's time (a chunk at once, no state between), so it is
 * used where it is there.  Figures: writer.c. */

enum {
	CHUNK = 192 << 10,
	LEVEL = 1,
	MARKS = 64,
};

#ifdef HAVE_LIBDEFLATE
struct engine {
	struct libdeflate_compressor *compressor;
};

/* *ret_room: what CHUNK bytes may become. */
static bool engine_init(struct engine *e, size_t *ret_room)
{
	e->compressor = libdeflate_alloc_compressor(LEVEL);
	*ret_room = e->compressor ? libdeflate_zlib_compress_bound(e->compressor, CHUNK) : 0;
	return e->compressor;
}

/* 0: it does not fit. */
static size_t engine_pack(struct engine *e, const void *data, size_t len, void *to, size_t room)
{
	return libdeflate_zlib_compress(e->compressor, data, len, to, room);
}

static void engine_deinit(struct engine *e)
{
	libdeflate_free_compressor(e->compressor);
}
#else
struct engine {
	z_stream stream;
};

static bool engine_init(struct engine *e, size_t *ret_room)
{
	if (deflateInit(&e->stream, LEVEL) != Z_OK)
		return false;
	*ret_room = deflateBound(&e->stream, CHUNK);
	return true;
}

static size_t engine_pack(struct engine *e, const void *data, size_t len, void *to, size_t room)
{
	(void)deflateReset(&e->stream);
	e->stream.next_in = (void *)data;
	e->stream.avail_in = (uInt)len;
	e->stream.next_out = to;
	e->stream.avail_out = (uInt)room;
	return deflate(&e->stream, Z_FINISH) == Z_STREAM_END ? room - e->stream.avail_out : 0;
}

static void engine_deinit(struct engine *e)
{
	(void)deflateEnd(&e->stream);
}
#endif

/* Where a compressed packet ends in the file, and what stands before that: if the file cannot be
 * written to its end, the marks give how much of the input is there. */
struct mark {
	uint64_t bytes;
	struct sink_count count;
};

struct sink_deflate {
	struct sink sink;
	struct sink *inner;
	struct sink_count given;  /* to the inner sink */
	struct mark marks[MARKS]; /* since it was flushed */
	size_t n_marks;
	struct engine engine;
	size_t len, room; /* of packed, behind its heads */
	uint8_t *packed;
	uint8_t raw[CHUNK];
};

static void settle(struct sink_deflate *d, int r)
{
	d->sink.bytes = d->inner->bytes;
	if (r >= 0)
		d->sink.written = d->given;
	for (size_t i = 0; r < 0 && i < d->n_marks && d->marks[i].bytes <= d->inner->bytes; i++)
		d->sink.written = d->marks[i].count;
	d->n_marks = 0;
}

static int flush_inner(struct sink_deflate *d)
{
	int r = d->inner->flush(d->inner);

	settle(d, r);
	return r < 0 ? trace(r) : 0;
}

/* Hands on one packet, in which there is @data. */
static int hand_on(struct sink_deflate *d, const void *packet, size_t packet_len, const void *data,
		   size_t len)
{
	int r = d->inner->write(d->inner, packet, packet_len);

	if (r < 0) {
		settle(d, r);
		return trace(r);
	}
	d->sink.bytes = d->inner->bytes;
	sink_count_add(&d->given, data, len);
	d->marks[d->n_marks++] = (struct mark){d->inner->bytes, d->given};
	return d->n_marks < MARKS ? 0 : flush_inner(d);
}

/* The gathered packets as one compressed packet to the inner sink. */
static int deflate_out(struct sink_deflate *d)
{
	size_t n, head;
	uint8_t *p;
	int r;

	if (!d->len)
		return 0;
	n = engine_pack(&d->engine, d->raw, d->len, d->packed + 2 * PACK_FIELD_MAX, d->room);
	if (!n)
		return fail(-EIO);
	head = pack_bytes_size(TRACE_PACKET__COMPRESSED_PACKETS, n);
	p = d->packed + 2 * PACK_FIELD_MAX - (pack_bytes_size(TRACE__PACKET, head) - n);
	(void)pack_head(pack_head(p, TRACE__PACKET, head), TRACE_PACKET__COMPRESSED_PACKETS, n);
	r = hand_on(d, p, pack_bytes_size(TRACE__PACKET, head), d->raw, d->len);
	d->len = 0;
	return r < 0 ? trace(r) : 0;
}

static int deflate_write(struct sink *sink, const void *data, size_t len)
{
	struct sink_deflate *d = container_of(sink, struct sink_deflate, sink);
	int r;

	if (len > CHUNK - d->len) {
		r = deflate_out(d);
		if (r < 0)
			return trace(r);
	}
	if (len > CHUNK) /* a giant stays as it is */
		return hand_on(d, data, len, data, len);
	if (len)
		memcpy(d->raw + d->len, data, len);
	d->len += len;
	return 0;
}

static int deflate_flush(struct sink *sink)
{
	struct sink_deflate *d = container_of(sink, struct sink_deflate, sink);
	int r;

	r = deflate_out(d);
	if (r >= 0)
		r = flush_inner(d);
	return r < 0 ? trace(r) : 0;
}

static void deflate_free(struct sink *sink)
{
	struct sink_deflate *d = container_of(sink, struct sink_deflate, sink);

	engine_deinit(&d->engine);
	sink_free(d->inner);
	free(d->packed);
	free(d);
}

int sink_deflate_new(struct sink *inner, struct sink **ret_sink)
{
	struct sink_deflate *d = calloc(1, sizeof(*d));

	if (!d) {
		sink_free(inner);
		return fail(-ENOMEM);
	}
	d->sink =
		(struct sink){.write = deflate_write, .flush = deflate_flush, .free = deflate_free};
	d->inner = inner;
	if (engine_init(&d->engine, &d->room))
		d->packed = malloc(d->room + 2 * PACK_FIELD_MAX);
	if (!d->packed) {
		sink_free(&d->sink);
		return fail(-ENOMEM);
	}
	*ret_sink = &d->sink;
	return 0;
}

void sink_deflate_restart(struct sink *sink)
{
	struct sink_deflate *d = container_of(sink, struct sink_deflate, sink);

	d->len = d->n_marks = 0;
	d->given = sink->written = (struct sink_count){0};
	sink->bytes = sink->dropped = 0;
	sink->renew = false;
}

/* ---- a thread that writes: sink_threaded_new() ----
 *
 *   main ──► piece, piece, piece, piece (a ring) ──► pw-write: inner->write()
 *            ▲ `free` counts those to be filled       │ `full` those to be written
 *            └────────────────────────────────────────┘
 *
 * The semaphores are all that the two share apart from the pieces; a piece belongs to one thread
 * at a time.  A flush takes all pieces back, so that the inner sink is main's while it lasts. */

enum { PIECES = 4, PIECE_BYTES = 64 << 10 };

struct piece {
	uint8_t *data; /* NULL: the end */
	size_t len, room;
};

struct sink_threaded {
	struct sink sink;
	struct sink *inner;
	pthread_t thread;
	sem_t free, full;
	struct piece pieces[PIECES];
	size_t at;	     /* main: the one that is filled, once it is ours */
	bool filling;	     /* it is */
	int error;	     /* the thread's, the first; main looks at it with all pieces in hand */
	_Atomic bool failed; /* there is one */
};

static void *write_pieces(void *arg)
{
	struct sink_threaded *b = arg;

	(void)pthread_setname_np(pthread_self(), "pw-write");
	for (size_t at = 0;; at = (at + 1) % PIECES) {
		const struct piece *p = &b->pieces[at];

		sem_take(&b->full);
		if (!p->data)
			return NULL;
		if (!b->failed) {
			b->error = b->inner->write(b->inner, p->data, p->len);
			b->failed = b->error < 0;
		}
		(void)sem_post(&b->free);
	}
}

/* The piece under way is the thread's. */
static void hand_over(struct sink_threaded *b)
{
	if (!b->filling)
		return;
	b->filling = false;
	b->at = (b->at + 1) % PIECES;
	(void)sem_post(&b->full);
}

/* A piece of our own with room for @len bytes more; NULL: no memory. */
static struct piece *piece_for(struct sink_threaded *b, size_t len)
{
	struct piece *p = &b->pieces[b->at];
	uint8_t *more;

	if (b->filling && p->len + len > PIECE_BYTES) {
		hand_over(b);
		p = &b->pieces[b->at];
	}
	if (!b->filling) {
		sem_take(&b->free);
		b->filling = true;
		p->len = 0;
	}
	if (p->room >= p->len + len)
		return p;
	more = realloc(p->data, max_u64(len, PIECE_BYTES));
	if (!more) {
		b->filling = false; /* handed over without data, it would be the thread's end */
		(void)sem_post(&b->free);
		return NULL;
	}
	p->data = more;
	p->room = max_u64(len, PIECE_BYTES);
	return p;
}

/* All that was given has been written: everything is ours until let_go(). */
static void take_all(struct sink_threaded *b)
{
	hand_over(b);
	for (size_t i = 0; i < PIECES; i++)
		sem_take(&b->free);
}

static void let_go(struct sink_threaded *b)
{
	for (size_t i = 0; i < PIECES; i++)
		(void)sem_post(&b->free);
}

static int threaded_flush(struct sink *sink)
{
	struct sink_threaded *b = container_of(sink, struct sink_threaded, sink);
	int r;

	take_all(b);
	r = b->error;
	if (r >= 0)
		r = b->inner->flush(b->inner);
	sink->bytes = b->inner->bytes;
	sink->written = b->inner->written;
	let_go(b);
	return r < 0 ? trace(r) : 0;
}

static int threaded_write(struct sink *sink, const void *data, size_t len)
{
	struct sink_threaded *b = container_of(sink, struct sink_threaded, sink);
	struct piece *p;

	if (b->failed)
		return threaded_flush(sink); /* returns the error */
	if (!len)
		return 0;
	p = piece_for(b, len);
	if (!p)
		return fail(-ENOMEM);
	memcpy(p->data + p->len, data, len);
	p->len += len;
	return 0;
}

static void threaded_free(struct sink *sink)
{
	struct sink_threaded *b = container_of(sink, struct sink_threaded, sink);

	take_all(b);
	free(take(b->pieces[b->at].data)); /* where the thread looks next: its end */
	(void)sem_post(&b->full);
	(void)pthread_join(b->thread, NULL);
	for (size_t i = 0; i < PIECES; i++)
		free(b->pieces[i].data);
	(void)sem_destroy(&b->free);
	(void)sem_destroy(&b->full);
	(void)sink_free(b->inner);
	free(b);
}

int sink_threaded_new(struct sink *inner, struct sink **ret_sink)
{
	struct sink_threaded *b = calloc(1, sizeof(*b));

	if (b) {
		b->sink = (struct sink){
			.write = threaded_write, .flush = threaded_flush, .free = threaded_free};
		b->inner = inner;
		(void)sem_init(&b->free, 0, PIECES);
		(void)sem_init(&b->full, 0, 0);
	}
	if (!b || pthread_create(&b->thread, NULL, write_pieces, b) != 0) {
		free(b);
		(void)sink_free(inner);
		return fail(-ENOMEM);
	}
	*ret_sink = &b->sink;
	return 0;
}
