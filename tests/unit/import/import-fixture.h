/* import-fixture.h - perf.data put together by hand, with samples that lie in the test itself. */
#pragma once

#include <errno.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>

#include "base/log.h"
#include "import/import.h"
#include "protos/trace.pb-c.h"
#include "tests/unit/perf/perfdata/perfdata-fixture.h"

#define CHAIN_TYPE (FIXTURE_TYPE | PERF_SAMPLE_CALLCHAIN)

/* What the samples lie in. */
int import_leaf(int x);
int import_caller(int x);

__attribute__((noinline)) int import_leaf(int x)
{
	return x + 1;
}

/* Its CFI marks it as a root: callchains end here. */
__attribute__((noinline)) int import_caller(int x)
{
#if defined(__x86_64__)
	__asm__ volatile(".cfi_undefined rip");
#else
	__asm__ volatile(".cfi_undefined x30");
#endif
	return import_leaf(x) * 3;
}

static inline void put_feature(struct buffer *b, uint64_t number, const char *text)
{
	struct buffer feature = {0};

	put64(&feature, number);
	put_string(&feature, text);
	buffer_append(&feature, "\0\0\0", 4);
	put_record(b, 80, 0, feature.data, feature.len / 8 * 8);
	buffer_deinit(&feature);
}

/* This program's own text, as in MMAP2, with an inode's generation (0: none). */
static inline void put_own_mapping_of(struct buffer *b, uint32_t pid, uint64_t inode_off,
				      uint64_t generation)
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
	put64(&body, generation);
	put64(&body, 2ull << 32 | 5); /* private; read, execute */
	buffer_append(&body, path, (size_t)n);
	buffer_append(&body, "\0\0\0\0\0\0\0", 8 - (size_t)n % 8);
	buffer_append(&body, trailer, sizeof(trailer));
	put_record(b, PERF_RECORD_MMAP2, 2, body.data, body.len);
	buffer_deinit(&body);
}

static inline void put_own_mapping(struct buffer *b, uint32_t pid, uint64_t inode_off)
{
	put_own_mapping_of(b, pid, inode_off, 0);
}

/* One event of a pipe, the magic before the first.  @name: as in EVENT_UPDATE; NULL: none. */
static inline void put_event(struct buffer *b, const struct perf_event_attr *attr, uint64_t id,
			     const char *name)
{
	const uint64_t name_is = 2;
	struct buffer body = {0};

	if (!b->len) {
		buffer_append(b, "PERFILE2", 8);
		put64(b, 16);
	}
	buffer_append(&body, attr, sizeof(*attr));
	put64(&body, id);
	put_record(b, 64, 0, body.data, body.len);
	buffer_deinit(&body);
	if (!name)
		return;
	body = (struct buffer){0};
	put64(&body, name_is);
	put64(&body, id);
	buffer_append(&body, name, strlen(name));
	buffer_append(&body, "\0\0\0\0\0\0\0", 8 - strlen(name) % 8);
	put_record(b, 78, 0, body.data, body.len);
	buffer_deinit(&body);
}

static inline void put_chain_head(struct buffer *b, const char *arch)
{
	for (uint64_t i = 0; i < 2; i++) {
		struct perf_event_attr attr =
			fixture_attr(i ? PERF_COUNT_SW_PAGE_FAULTS : PERF_COUNT_SW_CPU_CLOCK);

		attr.sample_type = CHAIN_TYPE;
		attr.freq = 1;
		attr.sample_freq = 99;
		put_event(b, &attr, ID_A + i, NULL);
	}
	put_feature(b, 6, arch); /* HEADER_ARCH */
}

static inline void put_chain_sample(struct buffer *b, uint64_t id, uint64_t time, uint32_t pid)
{
	const uint64_t leaf = (uint64_t)(uintptr_t)import_leaf + 1;
	const uint64_t words[] = {
		id,
		leaf,
		(uint64_t)pid << 32 | pid,
		time,
		0,
		10101,
		3,
		(uint64_t)-512,
		leaf,
		(uint64_t)(uintptr_t)import_caller + 9,
	};

	put_record(b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER, words, sizeof(words));
}

static inline void put_kernel_sample(struct buffer *b, uint64_t time, uint64_t address)
{
	const uint64_t words[] = {
		ID_A, address, 9ull << 32 | 9, time, 0, 10101, 2, (uint64_t)-128, address,
	};

	put_record(b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_KERNEL, words, sizeof(words));
}

/* The build id of its kernel is 1234, and _text was at @text. */
static inline void put_kernel(struct buffer *b, uint64_t text)
{
	static const uint64_t trailer[] = {0, 0, 0, 0};
	const char path[24] = "[kernel.kallsyms]_text";
	struct buffer body = {0};

	buffer_append(&body, "\xff\xff\xff\xff\x12\x34", 6);
	buffer_append(&body, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0", 22);
	buffer_append(&body, path, 17);
	buffer_append(&body, "\0\0\0", 3);
	put_record(b, 67, 1 << 15, body.data, body.len); /* HEADER_BUILD_ID, with its size */
	buffer_deinit(&body);
	body = (struct buffer){0};
	put64(&body, UINT32_MAX);
	put64(&body, text);
	put64(&body, 0x2000000);
	put64(&body, text);
	buffer_append(&body, path, sizeof(path));
	buffer_append(&body, trailer, sizeof(trailer));
	put_record(b, PERF_RECORD_MMAP, 1, body.data, body.len);
	buffer_deinit(&body);
}

/* Host and kernel are of the machine that runs the test, so that its names are read and outcomes wait. */
static inline void put_own_head(struct buffer *b)
{
	struct utsname names;

	assert_int_equal(uname(&names), 0);
	put_chain_head(b, names.machine);
	put_feature(b, 3, names.nodename); /* HEADER_HOSTNAME */
	put_feature(b, 4, names.release);  /* HEADER_OSRELEASE */
}

static inline void put_name(struct buffer *b, const char comm[8], uint64_t time)
{
	const uint64_t trailer[] = {7ull << 32 | 7, time, 0, ID_A};
	struct buffer body = {0};

	put64(&body, 7ull << 32 | 7);
	buffer_append(&body, comm, 8);
	buffer_append(&body, trailer, sizeof(trailer));
	put_record(b, PERF_RECORD_COMM, 0, body.data, body.len);
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

/* A disk that is full when so much was written. */
struct sink_small {
	struct sink sink;
	size_t left;
};

static inline int small_write(struct sink *sink, const void *data, size_t len)
{
	struct sink_small *s = container_of(sink, struct sink_small, sink);

	(void)data;
	if (len > s->left)
		return -ENOSPC;
	s->left -= len;
	return 0;
}

static inline int small_flush(struct sink *sink)
{
	(void)sink;
	return 0;
}

/* The samples as lines "PID/TID cpu CPU count N: outermost;innermost", from the packets alone; "?" is a
 * frame without a name.  Returns new. */
static inline char *samples_text(const struct done *done)
{
	enum { IDS = 1024 };
	char *names[IDS] = {0}, *frames[IDS] = {0};
	const Pb__Callstack *stacks[IDS] = {0};
	Pb__Trace *t = pb__trace__unpack(NULL, done->len, done->data);
	struct buffer text = {0};

	assert_non_null(t);
	for (size_t i = 0; i < t->n_packet; i++) {
		const Pb__PerfSample *s = t->packet[i]->perf_sample;
		const Pb__InternedData *d = t->packet[i]->interned_data;
		uint64_t id;

		for (size_t k = 0; d && k < d->n_function_names; k++)
			if ((id = d->function_names[k]->iid) < IDS && !names[id] &&
			    d->function_names[k]->str.len)
				names[id] = strndup((char *)d->function_names[k]->str.data,
						    d->function_names[k]->str.len);
		for (size_t k = 0; d && k < d->n_frames; k++)
			if ((id = d->frames[k]->iid) < IDS)
				frames[id] = names[d->frames[k]->function_name_id % IDS];
		for (size_t k = 0; d && k < d->n_callstacks; k++)
			if ((id = d->callstacks[k]->iid) < IDS)
				stacks[id] = d->callstacks[k];
		if (!s || s->has_kernel_records_lost)
			continue;
		buffer_printf(&text, "%u/%u cpu %u count %lu: ", s->pid, s->tid, s->cpu,
			      s->timebase_count);
		for (size_t k = 0; s->callstack_iid < IDS && stacks[s->callstack_iid] &&
				   k < stacks[s->callstack_iid]->n_frame_ids;
		     k++) {
			const char *name = frames[stacks[s->callstack_iid]->frame_ids[k] % IDS];

			buffer_printf(&text, "%s%s", k ? ";" : "", name ? name : "?");
		}
		buffer_append(&text, "\n", 1);
	}
	buffer_append(&text, "", 1);
	assert_false(text.bad);
	for (size_t i = 0; i < IDS; i++)
		free(names[i]);
	pb__trace__free_unpacked(t, NULL);
	return (char *)text.data;
}

static inline void assert_samples(const struct done *done, const char *expected)
{
	char *text = samples_text(done);

	assert_string_equal(text, expected);
	free(text);
}
