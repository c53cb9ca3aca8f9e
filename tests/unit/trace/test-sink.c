/* test-sink.c - files, a full disk, memory, compression. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/bytes.h"
#include "protos/wire.h"
#include "trace/sink.h"
#include "tests/unit/cmocka.h"

static char folder[] = "/tmp/test-sink-XXXXXX";

static const char *in_folder(const char *name)
{
	static char path[256];

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static int setup(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
	static const char *const names[] = {"t", "t.old", "fifo", "full"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		(void)unlink(in_folder(names[i]));
	return rmdir(folder);
}

/* A whole packet with @n bytes of content. */
static size_t make_packet(uint8_t *to, size_t n, uint8_t fill)
{
	uint8_t *p = pack_head(to, 1, n);

	memset(p, fill, n);
	return (size_t)(p + n - to);
}

static void expect_file(const char *name, const char *text)
{
	char *have;
	size_t len;

	assert_int_equal(read_file(in_folder(name), 1 << 20, &have, &len), 0);
	assert_int_equal(len, strlen(text));
	assert_memory_equal(have, text, len);
	free(have);
}

static void test_file(void **state)
{
	struct sink *sink;

	(void)state;
	assert_int_equal(sink_file_new(in_folder("t"), &sink), 0);
	assert_int_equal(sink->write(sink, "\n\3abc", 5), 0);
	assert_int_equal(sink->bytes, 5);
	expect_file("t", ""); /* gathered */
	assert_int_equal(sink->flush(sink), 0);
	expect_file("t", "\n\3abc");
	assert_int_equal(sink->write(sink, "\n\1x", 3), 0);
	sink = sink_free(sink); /* no flush */
	assert_null(sink);
	expect_file("t", "\n\3abc");

	assert_int_equal(sink_file_new(in_folder("t"), &sink), 0);
	expect_file("t", "");
	expect_file("t.old", "\n\3abc");
	sink_free(sink);
}

static void test_file_errors(void **state)
{
	struct sink *sink;
	struct stat st;

	(void)state;
	assert_int_equal(sink_file_new(folder, &sink), -EISDIR);
	assert_int_equal(sink_file_new("/nonexistent/t", &sink), -ENOENT);
	assert_int_equal(mkfifo(in_folder("fifo"), 0600), 0);
	/* A fifo is written into, not renamed; without a reader the open would wait. */
	int reader = open(in_folder("fifo"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	assert_int_equal(sink_file_new(in_folder("fifo"), &sink), 0);
	assert_int_equal(stat(in_folder("fifo.old"), &st), -1);
	sink_free(sink);
	close(reader);
}

static mode_t mode_of(const char *name)
{
	struct stat st;

	assert_int_equal(lstat(in_folder(name), &st), 0);
	return st.st_mode;
}

static void put_packet(const char *path)
{
	struct sink *sink;

	assert_int_equal(sink_file_new(path, &sink), 0);
	assert_int_equal(sink->write(sink, "\n\1x", 3), 0);
	assert_int_equal(sink->flush(sink), 0);
	sink_free(sink);
}

/* Stacks of others may be in it: its owner's alone.  A link is an existing file, wherever it leads. */
static void test_made_new(void **state)
{
	char target[64];
	mode_t mask = umask(0);

	(void)state;
	(void)snprintf(target, sizeof(target), "%s/full", folder);
	for (int i = 0; i < 2; i++) {
		(void)unlink(in_folder("t"));
		assert_int_equal(symlink(target, in_folder("t")), 0);
		put_packet(in_folder("t"));
		assert_int_equal(mode_of("t"), S_IFREG | 0600);
		assert_true(S_ISLNK(mode_of("t.old")));
		expect_file("t", "\n\1x");
		if (i ==
		    0) { /* it led nowhere: nothing was made there; then to a file: that stays as it is */
			assert_int_equal(access(target, F_OK), -1);
			close(creat(target, 0600));
		}
	}
	expect_file("full", "");
	(void)unlink(target);
	(void)umask(mask);
	/* A folder where the old file would go. */
	(void)unlink(in_folder("t.old"));
	assert_int_equal(mkdir(in_folder("t.old"), 0700), 0);
	assert_int_equal(sink_file_new(in_folder("t"), &(struct sink *){NULL}), -ENOTEMPTY);
	assert_int_equal(rmdir(in_folder("t.old")), 0);
	expect_file("t", "\n\1x");
}

/* A descriptor is written at its own position, and not renamed as the file that it is. */
static void test_descriptors(void **state)
{
	int fd = open(in_folder("t"), O_WRONLY | O_CREAT | O_TRUNC, 0600),
	    saved = dup(STDOUT_FILENO);
	struct sink *sink;
	char path[32];

	(void)state;
	assert_true(fd > 2 && saved > 2);
	assert_int_equal(write(fd, "\n\1a", 3), 3);
	(void)snprintf(path, sizeof(path), "/dev/fd/%d", fd);
	put_packet(path);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	put_packet(path);
	(void)fflush(stdout);
	assert_int_equal(dup2(fd, STDOUT_FILENO), STDOUT_FILENO);
	put_packet("/dev/stdout");
	assert_int_equal(dup2(saved, STDOUT_FILENO), STDOUT_FILENO);
	expect_file("t", "\n\1a\n\1x\n\1x\n\1x");
	/* Not one of our own. */
	assert_int_equal(fcntl(fd, F_SETFD, FD_CLOEXEC), 0);
	assert_int_equal(sink_file_new(path, &sink), -EBADF);
	close(fd);
	close(saved);
}

/* What another user has laid into a directory like /tmp is not written into; fs.protected_symlinks may be off. */
static void test_sticky(void **state)
{
	char path[64];
	struct sink *sink;

	(void)state;
	(void)snprintf(path, sizeof(path), "%s/t", folder);
	(void)unlink(path);
	if (geteuid() != 0) {
		print_message("needs root: makes another user's link\n");
		skip();
	}
	assert_int_equal(chmod(folder, 01777), 0);
	for (int is_fifo = 0; is_fifo < 2; is_fifo++) {
		int reader;

		assert_int_equal(is_fifo ? mkfifo(path, 0666) : symlink("/dev/null", path), 0);
		reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		assert_int_equal(sink_file_new(path, &sink), 0);
		sink_free(sink);
		assert_int_equal(lchown(path, 65534, 65534), 0);
		assert_int_equal(sink_file_new(path, &sink), -ELOOP);
		assert_int_equal(unlink(path), 0);
		close(reader);
	}
	assert_int_equal(chmod(folder, 0700), 0);
}

/* A sink into which nothing was written leaves no trace of itself: the file that was there is
 * there. */
static void test_unused(void **state)
{
	struct sink *sink;
	struct stat st;
	(void)state;

	unlink(in_folder("t"));
	unlink(in_folder("t.old"));
	assert_int_equal(sink_file_new(in_folder("t"), &sink), 0);
	sink_free(sink);
	assert_int_equal(stat(in_folder("t"), &st), -1);

	assert_int_equal(sink_file_new(in_folder("t"), &sink), 0);
	assert_int_equal(sink->write(sink, "\n\1x", 3), 0);
	assert_int_equal(sink->flush(sink), 0);
	sink_free(sink);
	assert_int_equal(sink_file_new(in_folder("t"), &sink), 0);
	expect_file("t.old", "\n\1x");
	assert_int_equal(sink->write(sink, "\n\1y", 3), 0); /* buffered, and lost with the sink */
	sink_free(sink);
	expect_file("t", "\n\1x");
	assert_int_equal(stat(in_folder("t.old"), &st), -1);
}

/* What was written after all is discarded: as if there had been no sink. */
static void test_discard(void **state)
{
	struct sink *sink;
	struct stat st;

	(void)state;
	assert_int_equal(sink_file_new(in_folder("t"), &sink), 0);
	assert_int_equal(sink->write(sink, "\n\1z", 3), 0);
	assert_int_equal(sink->flush(sink), 0);
	expect_file("t", "\n\1z");
	sink_file_discard(sink);
	sink_free(sink);
	expect_file("t", "\n\1x"); /* of test_unused() */
	assert_int_equal(stat(in_folder("t.old"), &st), -1);
}

/* More than the buffer in one packet and in many: all arrives in order. */
static void test_large(void **state)
{
	size_t room = 300 << 10, len = 0;
	uint8_t *packet = malloc(room + 16);
	struct sink *sink;
	char *have;

	(void)state;
	assert_int_equal(sink_file_new(in_folder("t"), &sink), 0);
	for (uint8_t i = 0; i < 6; i++) {
		size_t n = make_packet(packet, i == 3 ? room : 100 << 10, i);

		assert_int_equal(sink->write(sink, packet, n), 0);
		len += n;
	}
	assert_int_equal(sink->bytes, len);
	assert_int_equal(sink->flush(sink), 0);
	sink_free(sink);
	assert_int_equal(read_file(in_folder("t"), 4 << 20, &have, &room), 0);
	assert_int_equal(room, len);
	for (size_t at = 0, i = 0; i < 6; i++) {
		struct cursor c = cursor_of(have + at, len - at);
		const uint8_t *body;
		uint64_t n;

		assert_int_equal(cursor_uleb(&c), 10);
		n = cursor_uleb(&c);
		body = cursor_bytes(&c, n);
		assert_non_null(body);
		assert_int_equal(body[0], i);
		assert_int_equal(body[n - 1], i);
		at = len - cursor_left(&c);
	}
	free(have);
	free(packet);
}

/* The file may grow to @limit bytes: a write is cut there, as by a full disk. */
static void run_full(size_t limit, size_t packet_len, bool at_once, size_t expect)
{
	struct rlimit old, low;
	uint8_t packet[4096];
	size_t n = make_packet(packet, packet_len, 7), room = 0;
	struct sink *sink;
	char *have;
	int r = 0;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(sink_file_new(in_folder("full"), &sink), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	low = old;
	low.rlim_cur = limit;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	for (size_t i = 0; i < 100 && !r; i++) {
		r = sink->write(sink, packet, n);
		if (!r && !at_once)
			r = sink->flush(sink);
	}
	if (!r)
		r = sink->flush(sink);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(r, -EFBIG); /* on a full disk -ENOSPC, by the same road */
	/* It stays failed, though there is room again, as a hole would follow. */
	assert_int_equal(sink->write(sink, packet, n), -EFBIG);
	assert_int_equal(sink->flush(sink), -EFBIG);
	assert_int_equal(sink->bytes, expect * n); /* not what was taken, but what is there */
	assert_int_equal(sink->written.packets, expect);
	sink_free(sink);
	if (!expect) { /* not one packet: no file */
		assert_int_equal(read_file(in_folder("full"), 1 << 20, &have, &room), -ENOENT);
		return;
	}
	assert_int_equal(read_file(in_folder("full"), 1 << 20, &have, &room), 0);
	assert_int_equal(room, expect * n);
	free(have);
	unlink(in_folder("full"));
	unlink(in_folder("full.old"));
}

static void test_full_disk(void **state)
{
	(void)state;
	run_full(1000, 98, false, 10); /* 100 bytes each: the limit is a packet's end */
	run_full(1001, 98, false, 10); /* the tag of the next is cut off */
	run_full(1099, 98, true, 10);  /* the same in one large write: all but its last byte */
	run_full(1100, 98, true, 11);
	run_full(50, 98, true, 0);
	run_full(3000, 1000, true, 2); /* 1003 each */
}

static void test_real_full_disk(void **state)
{
	uint8_t packet[5000];
	size_t n = make_packet(packet, 4900, 1), len;
	char target[128];
	struct sink *sink;
	char *have;
	int r = 0;

	(void)state;
	(void)snprintf(target, sizeof(target), "%s", folder);
	if (mount("none", target, "tmpfs", 0, "size=64k") < 0)
		skip(); /* not root, or no right to mount */
	assert_int_equal(sink_file_new(in_folder("t"), &sink), 0);
	for (int i = 0; i < 100 && !r; i++) {
		r = sink->write(sink, packet, n);
		if (!r)
			r = sink->flush(sink);
	}
	assert_int_equal(r, -ENOSPC);
	sink_free(sink);
	assert_int_equal(read_file(in_folder("t"), 1 << 20, &have, &len), 0);
	free(have);
	assert_int_equal(umount(target), 0);
	assert_int_equal(len, 65536 / n * n);
}

static void test_memory(void **state)
{
	struct sink *sink;
	size_t len;

	(void)state;
	assert_int_equal(sink_memory_new(&sink), 0);
	assert_int_equal(sink->write(sink, "\n\1a", 3), 0);
	assert_int_equal(sink->write(sink, "\n\1b", 3), 0);
	assert_int_equal(sink->flush(sink), 0);
	assert_memory_equal(sink_memory_data(sink, &len), "\n\1a\n\1b", 6);
	assert_int_equal(len, 6);
	assert_int_equal(sink->bytes, 6);
	sink_free(sink);
}

/* Packets that do not fit are counted, and readers get a mark to begin again; cleared, there is room. */
static void test_memory_limit(void **state)
{
	struct sink *sink;
	size_t len;

	(void)state;
	assert_int_equal(sink_memory_new(&sink), 0);
	sink_memory_limit(sink, 6);
	assert_int_equal(sink->write(sink, "\n\1a\n\1b", 6), 0);
	assert_false(sink->renew);
	assert_int_equal(sink->dropped, 0);
	assert_int_equal(sink->write(sink, "\n\1c\n\1d", 6), 0);
	assert_true(sink->renew);
	assert_int_equal(sink->dropped, 2);
	assert_memory_equal(sink_memory_data(sink, &len), "\n\1a\n\1b", 6);
	assert_int_equal(len, 6);
	sink_memory_clear(sink);
	(void)sink_memory_data(sink, &len);
	assert_int_equal(len, 0);
	assert_int_equal(sink->write(sink, "\n\1e", 3), 0);
	assert_memory_equal(sink_memory_data(sink, &len), "\n\1e", 3);
	assert_int_equal(sink->bytes, 9);
	sink_free(sink);
}

/* Unpacks the compressed packets in a row to @to; others are copied as they are.  Returns the
 * bytes. */
static size_t unpack(const uint8_t *data, size_t len, uint8_t *to, size_t room, size_t *ret_packets)
{
	struct cursor c = cursor_of(data, len);
	size_t at = 0;

	*ret_packets = 0;
	while (cursor_left(&c)) {
		const uint8_t *start = c.p;
		struct cursor inner;
		uint64_t n;

		assert_int_equal(cursor_uleb(&c), 10);
		n = cursor_uleb(&c);
		assert_true(n < 512 << 10);
		inner = cursor_of(cursor_bytes(&c, n), n);
		assert_false(c.bad);
		if (cursor_uleb(&inner) == (50 << 3 | 2)) {
			uLongf more = room - at;

			n = cursor_uleb(&inner);
			assert_int_equal(n, cursor_left(&inner));
			assert_int_equal(uncompress(to + at, &more, inner.p, n), Z_OK);
			at += more;
		} else {
			memcpy(to + at, start, (size_t)(c.p - start));
			at += (size_t)(c.p - start);
		}
		(*ret_packets)++;
	}
	return at;
}

static void test_deflate(void **state)
{
	size_t room = 2 << 20, len = 0, n, packets;
	uint8_t *all = malloc(room), *back = malloc(room);
	struct sink *memory, *sink;
	const uint8_t *data;

	(void)state;
	assert_int_equal(sink_memory_new(&memory), 0);
	assert_int_equal(sink_deflate_new(memory, &sink), 0);
	assert_int_equal(sink->flush(sink), 0); /* nothing: no packet */
	assert_int_equal(sink->bytes, 0);
	for (uint32_t i = 0; len < 1 << 20;
	     i++) { /* sizes 0, 37, 74 ... and one larger than a chunk */
		size_t m = make_packet(all + len, i == 1000 ? 250 << 10 : i * 37 % 1500,
				       (uint8_t)(hash_u64(i)));

		for (size_t k = 4; k < m && i % 3; k += 7)
			all[len + k] = (uint8_t)hash_u64(i * 1000 + k);
		assert_int_equal(sink->write(sink, all + len, m), 0);
		len += m;
		if (i % 500 == 499)
			assert_int_equal(sink->flush(sink), 0);
	}
	assert_int_equal(sink->flush(sink), 0);
	data = sink_memory_data(memory, &n);
	assert_int_equal(sink->bytes, n);
	assert_true(n < len);
	assert_int_equal(unpack(data, n, back, room, &packets), len);
	assert_memory_equal(back, all, len);
	assert_true(packets >= 6);
	sink_free(sink); /* and the memory with it */
	free(all);
	free(back);
}

/* A file with room for some compressed packets: the count is of those that are in it. */
static void test_deflate_cut(void **state)
{
	const size_t room = 8 << 20;
	uint8_t packet[1024], *back = malloc(room);
	struct rlimit old, low;
	struct sink *file, *sink;
	size_t n = 0, len, packets, given = 0;
	char *have;
	int r = 0;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(sink_file_new(in_folder("full"), &file), 0);
	assert_int_equal(sink_deflate_new(file, &sink), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
	low = old;
	low.rlim_cur = 700000; /* two of the buffer's loads, and a part of the third */
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
	for (uint64_t i = 0; i < 5000 && !r; i++) {
		n = make_packet(packet, 1000, 7);
		for (size_t k = 3; k + 8 <= n; k += 16) {
			uint64_t noise = hash_u64(i * 1000 + k);

			memcpy(packet + k, &noise, sizeof(noise));
		}
		r = sink->write(sink, packet, n);
		given += !r;
	}
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
	assert_int_equal(r, -EFBIG);
	assert_int_equal(read_file(in_folder("full"), room, &have, &len), 0);
	assert_true(len && len <= 700000);
	assert_int_equal(sink->bytes, len);
	assert_int_equal(sink->written.packets * n,
			 unpack((const uint8_t *)have, len, back, room, &packets));
	assert_true(packets > 1 && sink->written.packets < given);
	assert_int_equal(sink->flush(sink), -EFBIG);
	assert_int_equal(sink->bytes, len);
	sink_free(sink);
	free(have);
	free(back);
}

/* Chunks that compress to next to nothing: the file is flushed all the same, before the places where
 * they end are too many to be kept. */
static void test_deflate_tiny(void **state)
{
	static uint8_t packet[4096];
	size_t n = make_packet(packet, 4000, 0);
	struct sink *file, *sink;

	(void)state;
	assert_int_equal(sink_file_new(in_folder("t"), &file), 0);
	assert_int_equal(sink_deflate_new(file, &sink), 0);
	for (size_t given = 0; given < 14 << 20; given += n)
		assert_int_equal(sink->write(sink, packet, n), 0);
	assert_true(sink->written.packets * n > 12000000);
	assert_int_equal(sink->written.samples, 0);
	assert_int_equal(sink->flush(sink), 0);
	assert_int_equal(sink->written.packets, ((14 << 20) + n - 1) / n);
	sink_free(sink);
}

static void test_deflate_full(void **state)
{
	struct sink *file, *sink;
	int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);

	(void)state;
	assert_int_equal(sink_fd_new(fd, &file), 0);
	assert_int_equal(sink_deflate_new(file, &sink), 0);
	assert_int_equal(sink->write(sink, "\n\1a", 3), 0);
	assert_int_equal(sink->flush(sink), -ENOSPC);
	assert_int_equal(sink->write(sink, "\n\1a", 3), 0);
	assert_int_equal(sink->flush(sink), -ENOSPC);
	sink_free(sink);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file),	     cmocka_unit_test(test_file_errors),
		cmocka_unit_test(test_made_new),     cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_sticky),	     cmocka_unit_test(test_unused),
		cmocka_unit_test(test_discard),	     cmocka_unit_test(test_large),
		cmocka_unit_test(test_full_disk),    cmocka_unit_test(test_memory),
		cmocka_unit_test(test_memory_limit), cmocka_unit_test(test_deflate),
		cmocka_unit_test(test_deflate_full), cmocka_unit_test(test_real_full_disk),
		cmocka_unit_test(test_deflate_cut),  cmocka_unit_test(test_deflate_tiny),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
