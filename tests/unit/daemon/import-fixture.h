/* import-fixture.h - perf.data put together by hand, whose samples lie in the test itself. */
#pragma once

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "daemon/base/log.h"
#include "daemon/import.h"
#include "tests/unit/perf/perfdata-fixture.h"

static inline void put_feature(struct buffer *b, uint64_t number, const char *text)
{
	struct buffer feature = {0};

	put64(&feature, number);
	put_string(&feature, text);
	buffer_append(&feature, "\0\0\0", 4);
	put_record(b, 80, 0, feature.data, feature.len / 8 * 8);
	buffer_deinit(&feature);
}

/* This program's own text, as MMAP2 tells it. */
static inline void put_own_mapping(struct buffer *b, uint32_t pid, uint64_t inode_off)
{
	static const uint64_t trailer[] = {0, 0, 0, 0};
	char path[4096], line[4352];
	struct buffer body = {0};
	unsigned long start, end, offset;
	FILE *maps = fopen("/proc/self/maps", "r");
	struct stat st;
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	assert_true(n > 0 && maps);
	path[n] = 0;
	assert_int_equal(stat(path, &st), 0);
	do
		assert_non_null(fgets(line, sizeof(line), maps));
	while (sscanf(line, "%lx-%lx r-xp %lx", &start, &end, &offset) != 3);
	fclose(maps);
	put64(&body, (uint64_t)pid << 32 | pid);
	put64(&body, start);
	put64(&body, end - start);
	put64(&body, offset);
	put64(&body, (uint64_t)minor(st.st_dev) << 32 | major(st.st_dev));
	put64(&body, st.st_ino + inode_off);
	put64(&body, 0);
	put64(&body, 2ull << 32 | 5); /* private; read, execute */
	buffer_append(&body, path, (size_t)n);
	buffer_append(&body, "\0\0\0\0\0\0\0", 8 - (size_t)n % 8);
	buffer_append(&body, trailer, sizeof(trailer));
	put_record(b, PERF_RECORD_MMAP2, 2, body.data, body.len);
	buffer_deinit(&body);
}

struct done {
	struct import_result result;
	struct sink *sink;
	const uint8_t *data;
	size_t len;
	char error[256];
	int r;
};

/* Consumes @b. */
static inline void run(struct buffer *b, const struct import_options *options, struct done *done)
{
	int fd = fixture_fd(b);

	assert_int_equal(sink_memory_new(&done->sink), 0);
	done->r = import_run(fd, options, done->sink, &done->result, done->error,
			     sizeof(done->error));
	done->data = sink_memory_data(done->sink, &done->len);
	close(fd);
	buffer_deinit(b);
}

static inline void done_deinit(struct done *done)
{
	import_result_deinit(&done->result);
	sink_free(done->sink);
}

static inline bool has_text(const struct done *done, const char *text)
{
	return memmem(done->data, done->len, text, strlen(text)) != NULL;
}
