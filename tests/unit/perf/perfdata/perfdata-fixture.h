/* perfdata-fixture.h - perf.data bytes written by hand, after tools/perf/Documentation/
 * perf.data-file-format.txt.  A file is put together in memory and given to the reader as a memfd
 * (or a pipe). */
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "perf/perfdata/perfdata.h"
#include "tests/unit/cmocka.h"

#define FIXTURE_TYPE                                                                    \
	(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | \
	 PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD)

enum { ID_A = 0x11, ID_B = 0x12 };

static inline void put32(struct buffer *b, uint32_t v)
{
	buffer_append(b, &v, sizeof(v));
}

static inline void put64(struct buffer *b, uint64_t v)
{
	buffer_append(b, &v, sizeof(v));
}

/* u32 length of the room, a multiple of 8, the text and zeros */
static inline void put_string(struct buffer *b, const char *text)
{
	char room[256] = "";
	size_t len = (strlen(text) + 8) & ~(size_t)7;

	memcpy(room, text, strlen(text));
	put32(b, (uint32_t)len);
	buffer_append(b, room, len);
}

static inline void put_record(struct buffer *b, uint32_t type, uint16_t misc, const void *body,
			      size_t len)
{
	const struct perf_event_header h = {type, misc, (uint16_t)(sizeof(h) + len)};

	buffer_append(b, &h, sizeof(h));
	buffer_append(b, body, len);
}

static inline struct perf_event_attr fixture_attr(uint64_t config)
{
	return (struct perf_event_attr){
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(struct perf_event_attr),
		.config = config,
		.sample_type = FIXTURE_TYPE,
		.sample_id_all = 1,
	};
}

/* identifier ip pid/tid time cpu period */
static inline void put_sample(struct buffer *b, uint64_t id, uint64_t time)
{
	const uint64_t words[] = {id, 0x401000, 7ull << 32 | 7, time, 0, 1};

	put_record(b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, words, sizeof(words));
}

/* pid/tid name, trailer: pid/tid time cpu identifier */
static inline void put_comm(struct buffer *b, uint64_t id, uint64_t time)
{
	uint64_t words[] = {7ull << 32 | 7, 0, 7ull << 32 | 7, time, 0, id};

	memcpy(&words[1], "name", 5);
	put_record(b, PERF_RECORD_COMM, 0, words, sizeof(words));
}

static inline void put_round(struct buffer *b)
{
	put_record(b, 68, 0, NULL, 0);
}

/* magic, then the header of a pipe and events A and B */
static inline void put_pipe_head(struct buffer *b)
{
	for (uint64_t i = 0; i < 2; i++) {
		struct perf_event_attr attr = fixture_attr(i);
		uint8_t body[sizeof(attr) + 8];
		const uint64_t id = ID_A + i;

		if (i == 0) {
			buffer_append(b, "PERFILE2", 8);
			put64(b, 16);
		}
		memcpy(body, &attr, sizeof(attr));
		memcpy(body + sizeof(attr), &id, 8);
		put_record(b, 64, 0, body, sizeof(body));
	}
}

/* A whole file: two events with one id each, @data, and the feature sections of @bits, which stand
 * in
 * @features (@sizes each) in the order of the bits. */
static inline void put_file(struct buffer *b, const struct buffer *data, uint64_t bits,
			    const struct buffer *features, const size_t *sizes)
{
	const size_t entry = sizeof(struct perf_event_attr) + 16;
	const uint64_t ids_at = 104 + 2 * entry, data_at = ids_at + 16;
	uint64_t at;

	buffer_append(b, "PERFILE2", 8);
	put64(b, 104);
	put64(b, entry);
	put64(b, 104);
	put64(b, 2 * entry);
	put64(b, data_at);
	put64(b, data->len);
	put64(b, 0);
	put64(b, 0);
	put64(b, bits);
	for (int i = 0; i < 3; i++)
		put64(b, 0);
	for (uint64_t i = 0; i < 2; i++) {
		struct perf_event_attr attr = fixture_attr(i);

		buffer_append(b, &attr, sizeof(attr));
		put64(b, ids_at + 8 * i);
		put64(b, 8);
	}
	put64(b, ID_A);
	put64(b, ID_B);
	buffer_append(b, data->data, data->len);
	at = data_at + data->len + 16 * (uint64_t)__builtin_popcountll(bits);
	for (int i = 0; i < __builtin_popcountll(bits); i++) {
		put64(b, at);
		put64(b, sizes[i]);
		at += sizes[i];
	}
	if (features)
		buffer_append(b, features->data, features->len);
}

static inline int fixture_fd(const struct buffer *b)
{
	int fd = memfd_create("perf.data", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, b->data, b->len), (ssize_t)b->len);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

/* All of it, as text: "sE@T" a sample of event E, "rN@T" another record of type N. */
static inline char *fixture_read(int fd, size_t hold, struct perfdata **ret_perfdata)
{
	struct buffer text = {0};
	struct perfdata_item item;
	char error[256];
	int r = perfdata_new(fd, &(struct perfdata_limits){.hold = hold}, ret_perfdata, error,
			     sizeof(error));

	if (r < 0) {
		*ret_perfdata = NULL;
		return strdup(error);
	}
	while ((r = perfdata_next(*ret_perfdata, &item)) == 0) {
		if (item.record->type == PERF_RECORD_SAMPLE)
			buffer_printf(&text, "s%u@%lu ", item.event, item.time);
		else
			buffer_printf(&text, "r%u@%lu ", item.record->type, item.time);
		perfdata_put(*ret_perfdata, item.block);
	}
	assert_int_equal(r, PERFDATA_END);
	assert_int_equal(perfdata_next(*ret_perfdata, &item), PERFDATA_END);
	buffer_append(&text, "", 1);
	assert_false(text.bad);
	return (char *)text.data;
}
