/* perfdata-out.c - see perfdata-out.h.  perfdata-header.c reads the same formats. */
#include "perf/perfdata/perfdata-out.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "perf/perfdata/perfdata-private.h"

enum {
	BUFFER = 256 << 10,
	STRING_ALIGN = 64,
	PATH_MAX_LEN = 4096,
	CPUINFO_MAX = 1 << 20,
};

struct out_event {
	struct perf_event_attr attr;
	char *name; /* NULL: not known */
	struct table ids;
};

struct perfdata_out {
	int fd, error;
	struct buffer pending;
	uint64_t written; /* behind the header */
	uint64_t samples;
	bool any_in_round;
	struct out_event events[PERFDATA_OUT_EVENTS];
};

int perfdata_out_new(int fd, struct perfdata_out **ret_out)
{
	static const uint8_t empty[FILE_HEADER];
	struct perfdata_out *out = calloc(1, sizeof(*out));
	int r = out ? write_all(fd, empty, sizeof(empty)) : -ENOMEM;

	if (r < 0) {
		(void)fd_close(fd);
		free(out);
		return fail(r);
	}
	out->fd = fd;
	*ret_out = out;
	return 0;
}

struct perfdata_out *perfdata_out_free(struct perfdata_out *out)
{
	if (!out)
		return NULL;
	for (size_t i = 0; i < PERFDATA_OUT_EVENTS; i++) {
		free(out->events[i].name);
		table_deinit(&out->events[i].ids);
	}
	buffer_deinit(&out->pending);
	(void)fd_close(out->fd);
	free(out);
	return NULL;
}

int perfdata_out_event(struct perfdata_out *out, uint32_t event, const struct perf_event_attr *attr,
		       const char *name)
{
	struct out_event *e = &out->events[event];

	free(e->name);
	e->attr = *attr;
	e->attr.size = sizeof(e->attr);
	e->name = strdup(name);
	return e->name ? 0 : fail(-ENOMEM);
}

static int flush(struct perfdata_out *out)
{
	if (out->error >= 0 && out->pending.bad)
		out->error = -ENOMEM;
	if (out->error >= 0)
		out->error = write_all(out->fd, out->pending.data, out->pending.len);
	out->pending.len = 0;
	return out->error < 0 ? trace(out->error) : 0;
}

static int put(struct perfdata_out *out, const void *data, size_t len)
{
	if (out->error < 0)
		return trace(out->error);
	buffer_append(&out->pending, data, len);
	out->written += len;
	return out->pending.len < BUFFER ? 0 : flush(out);
}

/* ---- records ---- */

/* The first word of a sample's body, the last of another's. */
static uint64_t id_of(const struct perf_event_header *record)
{
	const uint64_t *words = (const uint64_t *)(const void *)record;

	return record->type == PERF_RECORD_SAMPLE ? words[1] : words[record->size / 8 - 1];
}

int perfdata_out_record(struct perfdata_out *out, uint32_t event,
			const struct perf_event_header *record)
{
	uint64_t id, v;
	int r = 0;

	if (record->size < sizeof(*record) + sizeof(uint64_t))
		return 0;
	id = id_of(record);
	if (!table_get(&out->events[event].ids, id, &v))
		r = table_put(&out->events[event].ids, id, 1);
	if (r < 0)
		return trace(r);
	out->samples += record->type == PERF_RECORD_SAMPLE;
	out->any_in_round = true;
	return put(out, record, record->size);
}

int perfdata_out_round(struct perfdata_out *out)
{
	const struct perf_event_header round = {PERFDATA_FINISHED_ROUND, 0, sizeof(round)};

	if (!out->any_in_round)
		return 0;
	out->any_in_round = false;
	return put(out, &round, sizeof(round));
}

uint64_t perfdata_out_samples(const struct perfdata_out *out)
{
	return out->samples;
}

/* @body, with a trailer of zeros in place of the sample_id of the second event. */
static int put_made(struct perfdata_out *out, uint32_t type, uint16_t misc, struct buffer *body)
{
	const uint64_t kinds = out->events[1].attr.sample_type &
			       (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID |
				PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER);
	static const uint64_t zeros[8];
	struct perf_event_header header = {type, misc, 0};
	int r;

	buffer_append(body, zeros, (8 - body->len % 8) % 8);
	buffer_append(body, zeros, 8 * (size_t)__builtin_popcountll(kinds));
	if (body->bad)
		return fail(-ENOMEM);
	header.size = (uint16_t)(sizeof(header) + body->len);
	r = put(out, &header, sizeof(header));
	return r < 0 ? trace(r) : put(out, body->data, body->len);
}

static void append32(struct buffer *b, uint32_t v)
{
	buffer_append(b, &v, sizeof(v));
}

static void append64(struct buffer *b, uint64_t v)
{
	buffer_append(b, &v, sizeof(v));
}

int perfdata_out_comm(struct perfdata_out *out, uint32_t pid, uint32_t tid, const char *comm)
{
	struct buffer body = {0};
	int r;

	append32(&body, pid);
	append32(&body, tid);
	buffer_append(&body, comm, strnlen(comm, 15));
	buffer_append(&body, "", 1);
	r = put_made(out, PERF_RECORD_COMM, 0, &body);
	buffer_deinit(&body);
	return r < 0 ? trace(r) : 0;
}

int perfdata_out_mmap(struct perfdata_out *out, const struct perfdata_out_mmap *m)
{
	bool kernel = m->pid == UINT32_MAX;
	uint16_t misc = kernel		      ? PERF_RECORD_MISC_KERNEL
			: m->prot & PROT_EXEC ? PERF_RECORD_MISC_USER
					      : PERF_RECORD_MISC_USER | PERF_RECORD_MISC_MMAP_DATA;
	struct buffer body = {0};
	int r;

	if (m->path_len >= PATH_MAX_LEN)
		return 0;
	append32(&body, m->pid);
	append32(&body, kernel ? 0 : m->pid);
	append64(&body, m->start);
	append64(&body, m->len);
	append64(&body, m->offset);
	if (!kernel) {
		append32(&body, m->major);
		append32(&body, m->minor);
		append64(&body, m->inode);
		append64(&body, 0);
		append32(&body, m->prot);
		append32(&body, MAP_PRIVATE);
	}
	buffer_append(&body, m->path, m->path_len);
	buffer_append(&body, "", 1);
	r = put_made(out, kernel ? PERF_RECORD_MMAP : PERF_RECORD_MMAP2, misc, &body);
	buffer_deinit(&body);
	return r < 0 ? trace(r) : 0;
}

/* ---- the end ---- */

static void append_string(struct buffer *b, const char *text)
{
	static const char zeros[STRING_ALIGN];
	size_t len = strlen(text), room = (len + STRING_ALIGN) / STRING_ALIGN * STRING_ALIGN;

	append32(b, (uint32_t)room);
	buffer_append(b, text, len);
	buffer_append(b, zeros, room - len);
}

static void append_ids(struct buffer *b, const struct out_event *e)
{
	table_for_each (&e->ids, slot)
		append64(b, slot->key);
}

static void append_events(struct buffer *b, const struct perfdata_out *out)
{
	append32(b, PERFDATA_OUT_EVENTS);
	append32(b, sizeof(out->events[0].attr));
	for (size_t i = 0; i < PERFDATA_OUT_EVENTS; i++) {
		const struct out_event *e = &out->events[i];

		buffer_append(b, &e->attr, sizeof(e->attr));
		append32(b, (uint32_t)e->ids.n_used);
		append_string(b, e->name ? e->name : "");
		append_ids(b, e);
	}
}

static void append_command(struct buffer *b, char *const *command)
{
	uint32_t n = 0;

	while (command[n])
		n++;
	append32(b, n);
	for (uint32_t i = 0; i < n; i++)
		append_string(b, command[i]);
}

/* "model name" of /proc/cpuinfo; other machines have other lines, and then it is empty. */
static void append_cpu(struct buffer *b)
{
	static const char key[] = "model name\t: ";
	_cleanup_(freep) char *text = NULL;
	char *line =
		read_file("/proc/cpuinfo", CPUINFO_MAX, &text, NULL) < 0 ? NULL : strstr(text, key);

	if (line) {
		line += sizeof(key) - 1;
		line[strcspn(line, "\n")] = 0;
	}
	append_string(b, line ? line : "");
}

/* The resolution of the clock of all events, ns. */
static void append_clock(struct buffer *b, const struct perfdata_out *out)
{
	struct timespec resolution = {0};

	(void)clock_getres(out->events[0].attr.clockid, &resolution);
	append64(b, (uint64_t)resolution.tv_sec * NSEC_PER_SEC + (uint64_t)resolution.tv_nsec);
}

static void append_feature(struct buffer *b, int bit, const struct perfdata_out *out,
			   const char *tool, char *const *command)
{
	struct utsname names = {0};

	(void)uname(&names);
	switch (bit) {
	case FEATURE_BIT_HOSTNAME:
		append_string(b, names.nodename);
		break;
	case FEATURE_BIT_OSRELEASE:
		append_string(b, names.release);
		break;
	case FEATURE_BIT_VERSION:
		append_string(b, tool);
		break;
	case FEATURE_BIT_ARCH:
		append_string(b, names.machine);
		break;
	case FEATURE_BIT_NRCPUS:
		append32(b, (uint32_t)sysconf(_SC_NPROCESSORS_CONF));
		append32(b, (uint32_t)sysconf(_SC_NPROCESSORS_ONLN));
		break;
	case FEATURE_BIT_CPUDESC:
		append_cpu(b);
		break;
	case FEATURE_BIT_CLOCKID:
		append_clock(b, out);
		break;
	case FEATURE_BIT_CMDLINE:
		append_command(b, command);
		break;
	case FEATURE_BIT_EVENT_DESC:
		append_events(b, out);
		break;
	default:
		break;
	}
}

static const int features[] = {FEATURE_BIT_HOSTNAME, FEATURE_BIT_OSRELEASE,  FEATURE_BIT_VERSION,
			       FEATURE_BIT_ARCH,     FEATURE_BIT_NRCPUS,     FEATURE_BIT_CPUDESC,
			       FEATURE_BIT_CMDLINE,  FEATURE_BIT_EVENT_DESC, FEATURE_BIT_CLOCKID};

/* A list of (offset, size), then the sections; @at: where the list stands in the file. */
static void append_features(struct buffer *to, uint64_t at, const struct perfdata_out *out,
			    const char *tool, char *const *command)
{
	struct buffer sections = {0};

	at += 16 * ARRAY_SIZE(features);
	for (size_t i = 0; i < ARRAY_SIZE(features); i++) {
		size_t from = sections.len;

		append_feature(&sections, features[i], out, tool, command);
		append64(to, at + from);
		append64(to, sections.len - from);
	}
	buffer_append(to, sections.data, sections.len);
	to->bad |= sections.bad;
	buffer_deinit(&sections);
}

/* Ids of both events, then the two entries that point to them.  @at: where they begin. */
static void append_attrs(struct buffer *to, uint64_t at, const struct perfdata_out *out)
{
	for (size_t i = 0; i < PERFDATA_OUT_EVENTS; i++)
		append_ids(to, &out->events[i]);
	for (size_t i = 0; i < PERFDATA_OUT_EVENTS; i++) {
		buffer_append(to, &out->events[i].attr, sizeof(out->events[i].attr));
		append64(to, at);
		append64(to, out->events[i].ids.n_used * sizeof(uint64_t));
		at += out->events[i].ids.n_used * sizeof(uint64_t);
	}
}

static void append_header(struct buffer *b, uint64_t attrs_at, uint64_t data_size)
{
	const uint64_t entry = sizeof(struct perf_event_attr) + 16;
	uint64_t bits = 0;

	for (size_t i = 0; i < ARRAY_SIZE(features); i++)
		bits |= 1ull << features[i];
	append64(b, MAGIC);
	append64(b, FILE_HEADER);
	append64(b, entry);
	append64(b, attrs_at);
	append64(b, PERFDATA_OUT_EVENTS * entry);
	append64(b, FILE_HEADER);
	append64(b, data_size);
	append64(b, 0);
	append64(b, 0);
	append64(b, bits);
	for (int i = 0; i < 3; i++)
		append64(b, 0);
}

int perfdata_out_finish(struct perfdata_out *out, const char *tool, char *const *command)
{
	uint64_t data_size = out->written, attrs_at;
	struct buffer tail = {0}, header = {0};
	int r = flush(out);

	append_features(&tail, FILE_HEADER + data_size, out, tool, command);
	buffer_append(&tail, "\0\0\0\0\0\0\0", (8 - tail.len % 8) % 8);
	attrs_at = FILE_HEADER + data_size + tail.len;
	for (size_t i = 0; i < PERFDATA_OUT_EVENTS; i++)
		attrs_at += out->events[i].ids.n_used * sizeof(uint64_t);
	append_attrs(&tail, FILE_HEADER + data_size + tail.len, out);
	append_header(&header, attrs_at, data_size);
	if (r >= 0 && (tail.bad || header.bad))
		r = -ENOMEM;
	if (r >= 0)
		r = write_all(out->fd, tail.data, tail.len);
	if (r >= 0 && pwrite(out->fd, header.data, header.len, 0) != (ssize_t)header.len)
		r = -EIO;
	buffer_deinit(&tail);
	buffer_deinit(&header);
	return r < 0 ? fail(r) : 0;
}
