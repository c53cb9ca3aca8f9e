/* perfdata-header.c - the parts of a perf.data before and behind its records: header, attributes,
 * features.  Thread: any, one.
 *
 *   file mode   magic u64, header size 104, attr size, three sections (attributes, data, event
 *               types), 256 feature bits.  A section is an offset and a size.  An entry of the
 *               attributes is a perf_event_attr of any version and the section of its ids.
 *   pipe mode   magic u64, header size 16; all else comes as records
 * (tools/perf/Documentation/perf.data-file-format.txt) */
#include <errno.h>
#include <unistd.h>

#include "base/error.h"
#include "perf/attr.h"
#include "perf/perfdata/perfdata-private.h"

#define MAGIC_SWAPPED 0x50455246494c4532ull /* the same by a machine of the other byte order */
#define MAGIC_OLD 0x454c494646524550ull	    /* "PERFFILE": before Linux 2.6.36 or so */

enum { PIPE_HEADER = 16, ATTR_MAX = 4096 };

/* Names of what perf counts by number (linux/perf_event.h), as perf calls them. */
static const char *const hardware[] = {
	"cycles",
	"instructions",
	"cache-references",
	"cache-misses",
	"branches",
	"branch-misses",
	"bus-cycles",
	"stalled-cycles-frontend",
	"stalled-cycles-backend",
	"ref-cycles",
};
static const char *const software[] = {
	"cpu-clock",	    "task-clock",   "page-faults",  "context-switches",
	"cpu-migrations",   "minor-faults", "major-faults", "alignment-faults",
	"emulation-faults", "dummy",	    "bpf-output",   "cgroup-switches",
};

static const char *known_name(const struct perf_event_attr *attr)
{
	if (attr->type == PERF_TYPE_HARDWARE && attr->config < ARRAY_SIZE(hardware))
		return hardware[attr->config];
	if (attr->type == PERF_TYPE_SOFTWARE && attr->config < ARRAY_SIZE(software))
		return software[attr->config];
	return NULL;
}

static char *name_of(const struct perf_event_attr *attr)
{
	const char *name = known_name(attr);
	char text[64];

	(void)snprintf(text, sizeof(text), "type %u config 0x%llx", attr->type,
		       (unsigned long long)attr->config);
	return strdup(name ? name : text);
}

/* One event: @bytes of an attribute as the file has it, and its ids. -EBADMSG, -E2BIG. */
static int set_name(struct perfdata *pd, uint32_t event, const char *name, size_t len)
{
	char *copy;

	len = strnlen(name, min_u64(len, NAME_MAX_BYTES));
	/* As with events: once records are in use, names may be. */
	if (event >= pd->info.n_events || !len || pd->counts.records)
		return 0;
	copy = strndup(name, len);
	if (!copy)
		return fail(-ENOMEM);
	free(pd->info.events[event].name);
	pd->info.events[event].name = copy;
	return 0;
}

static int add_ids(struct perfdata *pd, struct cursor ids, uint32_t event)
{
	size_t n = cursor_left(&ids) / sizeof(uint64_t);
	int r;

	if (n > PERFDATA_MAX_IDS - pd->n_ids)
		return fail(-E2BIG);
	pd->n_ids += n;
	for (; n; n--) {
		r = table_put(&pd->event_of_id, cursor_u64(&ids), event);
		if (r < 0)
			return trace(r);
	}
	return 0;
}

static int add_event(struct perfdata *pd, struct cursor attr, struct cursor ids)
{
	struct perfdata_info *info = &pd->info;
	struct perfdata_event *events, event = {0};
	size_t len = cursor_left(&attr);

	if (len < PERF_ATTR_SIZE_VER0)
		return fail(-EBADMSG);
	if (info->n_events == PERFDATA_MAX_EVENTS)
		return fail(-E2BIG);
	events = reallocarray(info->events, info->n_events + 1, sizeof(*events));
	if (!events)
		return fail(-ENOMEM);
	info->events = events;
	memcpy(&event.attr, attr.p, min_u64(len, sizeof(event.attr)));
	attr_layout(&event.attr, &event.layout);
	event.name = name_of(&event.attr);
	if (!event.name)
		return fail(-ENOMEM);
	if (!info->n_events)
		info->clock = event.attr.use_clockid ? event.attr.clockid : -1;
	events[info->n_events++] = event;
	pd->positions_known = false;
	return add_ids(pd, ids, (uint32_t)(info->n_events - 1));
}

static int attr_record(struct perfdata *pd, struct cursor body)
{
	struct perf_event_attr attr;
	struct cursor own = body;
	size_t len;

	/* Records point to the events: none may come once they are in use. */
	if (pd->counts.records || cursor_left(&body) < PERF_ATTR_SIZE_VER0)
		return fail(-EBADMSG);
	memcpy(&attr, body.p, PERF_ATTR_SIZE_VER0);
	len = attr.size ? attr.size : PERF_ATTR_SIZE_VER0;
	if (!cursor_bytes(&body, len))
		return fail(-EBADMSG);
	own.end = body.p;
	return add_event(pd, own, body);
}

/* u64 type, u64 id, then what has changed; only names (type 2) matter here. */
static int update_record(struct perfdata *pd, struct cursor body)
{
	uint64_t type = cursor_u64(&body), id = cursor_u64(&body), event;

	if (body.bad)
		return fail(-EBADMSG);
	if (type != 2 || !table_get(&pd->event_of_id, id, &event))
		return 0;
	return set_name(pd, (uint32_t)event, (const char *)body.p, cursor_left(&body));
}

/* ---- feature sections: the machine and the command ----
 *
 * In file mode each set bit of the header has a section (offset, size) in a list behind the data;
 * in pipe mode each comes as a record.  No section is needed to read the samples: a damaged
 * section is ignored. */

enum {
	SECTION_MAX = 32 << 20,
	CMDLINE_MAX = 64 << 10,
	MISC_BUILD_ID_SIZE = 1 << 15, /* PERF_RECORD_MISC_BUILD_ID_SIZE */
	BUILD_ID_FULL = 20,
};

/* u32 length (with padding), then the string. */
static const char *take_string(struct cursor *c, size_t *ret_len)
{
	uint32_t room = cursor_u32(c);
	const char *text = cursor_bytes(c, room);

	*ret_len = text ? strnlen(text, room) : 0;
	return text;
}

static int copy_string(struct cursor *c, char **to)
{
	size_t len;
	const char *text = take_string(c, &len);
	char *copy;

	if (!text)
		return 0;
	copy = strndup(text, len);
	if (!copy)
		return fail(-ENOMEM);
	free(*to);
	*to = copy;
	return 0;
}

/* The words of the command, blanks between. */
static int read_cmdline(struct cursor *c, char **to)
{
	struct buffer text = {0};

	for (uint32_t n = cursor_u32(c); n && !c->bad && text.len < CMDLINE_MAX; n--) {
		size_t len;
		const char *word = take_string(c, &len);

		if (!word)
			break;
		if (text.len)
			buffer_append(&text, " ", 1);
		buffer_append(&text, word, len);
	}
	buffer_append(&text, "", 1);
	if (text.bad) {
		buffer_deinit(&text);
		return fail(-ENOMEM);
	}
	free(*to);
	*to = (char *)text.data;
	return 0;
}

/* u32 events, u32 attr size; each: the attr, u32 ids, name, u64 ids */
static int read_event_desc(struct perfdata *pd, struct cursor *c)
{
	uint32_t n = cursor_u32(c), attr_size = cursor_u32(c);
	int r = 0;

	for (uint32_t i = 0; i < n && !c->bad && r >= 0; i++) {
		uint64_t event = i, first;
		uint32_t n_ids;
		const char *name;
		size_t len;

		(void)cursor_bytes(c, attr_size);
		n_ids = cursor_u32(c);
		name = take_string(c, &len);
		if (n_ids && !c->bad) {
			first = cursor_u64(c);
			if (!table_get(&pd->event_of_id, first, &event))
				event = i;
			(void)cursor_bytes(c, ((size_t)n_ids - 1) * sizeof(uint64_t));
		}
		if (name && !c->bad)
			r = set_name(pd, (uint32_t)event, name, len);
	}
	return r;
}

/* u32 version 1, u32 clock, u64 wall clock, u64 that clock */
static void read_clock_data(struct perfdata_info *info, struct cursor *c)
{
	uint32_t version = cursor_u32(c), clock = cursor_u32(c);
	uint64_t wall = cursor_u64(c), at = cursor_u64(c);

	if (c->bad || version != 1 || (int)clock != info->clock)
		return;
	info->has_wall_clock = true;
	info->wall_clock_ns = wall;
	info->wall_clock_at = at;
}

/* i32 pid, u8 build id[24] (the 21st its length, with MISC_BUILD_ID_SIZE), path */
static int build_id_record(struct perfdata *pd, uint16_t misc, struct cursor body)
{
	struct perfdata_info *info = &pd->info;
	struct perfdata_build_id *list, one = {.len = BUILD_ID_FULL};
	const uint8_t *bytes;
	const char *path;
	size_t len;

	(void)cursor_u32(&body);
	bytes = cursor_bytes(&body, 24);
	path = cursor_string(&body);
	if (body.bad || info->n_build_ids == PERFDATA_MAX_BUILD_IDS)
		return fail(-EBADMSG);
	len = strlen(path) + 1;
	if (len > BUILD_ID_PATH_MAX || len > BUILD_ID_PATHS_MAX - pd->build_id_bytes)
		return fail(-EBADMSG);
	if (misc & MISC_BUILD_ID_SIZE)
		one.len = bytes[BUILD_ID_FULL];
	if (!one.len || one.len > BUILD_ID_FULL)
		return fail(-EBADMSG);
	memcpy(one.bytes, bytes, one.len);
	if (is_power_of_two(info->n_build_ids + 1) || !info->build_ids) {
		list = reallocarray(info->build_ids, (info->n_build_ids + 1) * 2, sizeof(*list));
		if (!list)
			return fail(-ENOMEM);
		info->build_ids = list;
	}
	one.path = strdup(path);
	if (!one.path)
		return fail(-ENOMEM);
	pd->build_id_bytes += len;
	info->build_ids[info->n_build_ids++] = one;
	pd->build_ids_sorted = false;
	return 0;
}

static int read_build_ids(struct perfdata *pd, struct cursor *c)
{
	int r = 0;

	while (cursor_left(c) && r >= 0) {
		struct perf_event_header header;
		const void *at = cursor_bytes(c, sizeof(header));
		struct cursor body;

		if (!at)
			break;
		memcpy(&header, at, sizeof(header));
		if (header.size < sizeof(header))
			break;
		body = *c;
		if (!cursor_bytes(c, header.size - sizeof(header)))
			break;
		body.end = c->p;
		r = build_id_record(pd, header.misc, body);
	}
	return r;
}

static int read_feature(struct perfdata *pd, uint64_t bit, struct cursor c)
{
	struct perfdata_info *info = &pd->info;
	uint32_t a, b;

	switch (bit) {
	case FEATURE_BIT_BUILD_ID:
		return read_build_ids(pd, &c);
	case FEATURE_BIT_HOSTNAME:
		return copy_string(&c, &info->hostname);
	case FEATURE_BIT_OSRELEASE:
		return copy_string(&c, &info->os_release);
	case FEATURE_BIT_VERSION:
		return copy_string(&c, &info->perf_version);
	case FEATURE_BIT_ARCH:
		return copy_string(&c, &info->arch);
	case FEATURE_BIT_CPUDESC:
		return copy_string(&c, &info->cpu_desc);
	case FEATURE_BIT_CMDLINE:
		return read_cmdline(&c, &info->cmdline);
	case FEATURE_BIT_NRCPUS:
		a = cursor_u32(&c);
		b = cursor_u32(&c);
		info->cpus_available = c.bad ? 0 : a;
		info->cpus_online = c.bad ? 0 : b;
		return 0;
	case FEATURE_BIT_TOTAL_MEM:
		info->total_memory_kb = cursor_u64(&c);
		return 0;
	case FEATURE_BIT_EVENT_DESC:
		return read_event_desc(pd, &c);
	case FEATURE_BIT_SAMPLE_TIME:
		info->first_time = cursor_u64(&c);
		info->last_time = cursor_u64(&c);
		return 0;
	case FEATURE_BIT_CLOCK_DATA:
		read_clock_data(info, &c);
		return 0;
	default:
		return 0;
	}
}

/* u64 feature, then its section */
static int feature_record(struct perfdata *pd, struct cursor body)
{
	uint64_t bit = cursor_u64(&body);

	return body.bad ? fail(-EBADMSG) : read_feature(pd, bit, body);
}

/* struct perf_record_time_conv: older ones end behind time_zero. */
static int time_record(struct perfdata *pd, struct cursor body)
{
	struct tsc_conversion c = {.shift = cursor_u64(&body)};
	const uint8_t *flags;

	c.mult = cursor_u64(&body);
	c.zero = cursor_u64(&body);
	if (body.bad)
		return fail(-EBADMSG);
	c.cycles = cursor_u64(&body);
	c.mask = cursor_u64(&body);
	flags = cursor_bytes(&body, 2); /* cap_user_time_zero, cap_user_time_short */
	if (body.bad || !flags[1])
		c.mask = 0;
	pd->info.has_conversion = c.mult && c.shift < 64 && (body.bad || flags[0]);
	pd->info.conversion = c;
	return 0;
}

int perfdata_header_record(struct perfdata *pd, const struct perf_event_header *record)
{
	struct cursor body = cursor_of(record + 1, record->size - sizeof(*record));

	switch (record->type) {
	case PERFDATA_HEADER_ATTR:
		return attr_record(pd, body);
	case PERFDATA_EVENT_UPDATE:
		return update_record(pd, body);
	case PERFDATA_HEADER_BUILD_ID:
		return build_id_record(pd, record->misc, body);
	case PERFDATA_TIME_CONV:
		return time_record(pd, body);
	default:
		return feature_record(pd, body);
	}
}

/* All of @len at @offset; -EBADMSG when the file ends before. */
static int read_at(struct perfdata *pd, uint64_t offset, void *data, size_t len)
{
	ssize_t n = read_fd_at(pd->fd, data, len, offset);

	if (n < 0)
		return trace((int)n);
	return (size_t)n == len ? 0 : fail(-EBADMSG);
}

static int read_section(struct perfdata *pd, uint64_t bit, uint64_t offset, uint64_t size)
{
	_cleanup_(freep) uint8_t *data = NULL;
	int r;

	if (!size || size > SECTION_MAX)
		return 0;
	data = malloc(size);
	if (!data)
		return fail(-ENOMEM);
	r = read_at(pd, offset, data, size);
	pd->info.features_cut |= r == -EBADMSG;
	if (r >= 0)
		r = read_feature(pd, bit, cursor_of(data, size));
	return r == -ENOMEM ? trace(r) : 0;
}

static int read_features(struct perfdata *pd, uint64_t end, const uint64_t bits[4])
{
	for (uint64_t bit = 0; bit < 256; bit++) {
		uint64_t section[2];
		int r;

		if (!(bits[bit / 64] >> bit % 64 & 1))
			continue;
		r = read_at(pd, end, section, sizeof(section));
		pd->info.features_cut |= r == -EBADMSG;
		if (r < 0)
			return r == -EBADMSG ? 0 : trace(r);
		end += sizeof(section);
		r = read_section(pd, bit, section[0], section[1]);
		if (r < 0)
			return trace(r);
	}
	return 0;
}

static int by_path(const void *a, const void *b)
{
	const struct perfdata_build_id *x = a, *y = b;

	return strcmp(x->path, y->path);
}

static void sort_build_ids(struct perfdata_info *info)
{
	struct perfdata_build_id *ids = info->build_ids;

	qsort(ids, info->n_build_ids, sizeof(*ids), by_path);
	for (size_t i = 1; i < info->n_build_ids; i++)
		if (!by_path(&ids[i - 1], &ids[i]))
			ids[i - 1].several = ids[i].several = true;
}

const struct perfdata_build_id *perfdata_build_id(struct perfdata *pd, const char *path)
{
	const struct perfdata_build_id key = {.path = (char *)(uintptr_t)path};
	struct perfdata_info *info = &pd->info;

	if (!info->n_build_ids)
		return NULL;
	if (!pd->build_ids_sorted)
		sort_build_ids(info);
	pd->build_ids_sorted = true;
	return bsearch(&key, info->build_ids, info->n_build_ids, sizeof(key), by_path);
}

void perfdata_info_deinit(struct perfdata_info *info)
{
	for (size_t i = 0; i < info->n_events; i++)
		free(info->events[i].name);
	for (size_t i = 0; i < info->n_build_ids; i++)
		free(info->build_ids[i].path);
	free(info->events);
	free(info->build_ids);
	free(info->hostname);
	free(info->os_release);
	free(info->perf_version);
	free(info->arch);
	free(info->cpu_desc);
	free(info->cmdline);
}

/* ---- file mode ---- */

struct section {
	uint64_t offset, size;
};

static struct section cursor_section(struct cursor *c)
{
	struct section s = {.offset = cursor_u64(c)};

	s.size = cursor_u64(c);
	return s;
}

/* Entry @index of the attributes, and the ids it points to. */
static int read_attr(struct perfdata *pd, const struct section *attrs, uint64_t attr_size,
		     uint64_t index)
{
	_cleanup_(freep) uint8_t *ids = NULL;
	uint8_t entry[ATTR_MAX];
	struct section at;
	struct cursor c;
	int r = read_at(pd, attrs->offset + index * attr_size, entry, attr_size);

	if (r < 0)
		return trace(r);
	c = cursor_of(entry + attr_size - FILE_SECTION, FILE_SECTION);
	at = cursor_section(&c);
	if (at.size % sizeof(uint64_t) || at.size / sizeof(uint64_t) > PERFDATA_MAX_IDS)
		return fail(-EBADMSG);
	ids = malloc(at.size ? at.size : 1);
	if (!ids)
		return fail(-ENOMEM);
	r = read_at(pd, at.offset, ids, at.size);
	if (r < 0)
		return trace(r);
	return add_event(pd, cursor_of(entry, attr_size - FILE_SECTION), cursor_of(ids, at.size));
}

static int read_file_header(struct perfdata *pd)
{
	uint8_t bytes[FILE_HEADER - PIPE_HEADER];
	struct section attrs, data;
	uint64_t attr_size, bits[4];
	struct cursor c;
	int r = read_at(pd, PIPE_HEADER, bytes, sizeof(bytes));

	if (r < 0)
		return trace(r);
	c = cursor_of(bytes, sizeof(bytes));
	attr_size = cursor_u64(&c);
	attrs = cursor_section(&c);
	data = cursor_section(&c);
	(void)cursor_section(&c); /* event types: not written any more */
	for (size_t i = 0; i < ARRAY_SIZE(bits); i++)
		bits[i] = cursor_u64(&c);
	if (attr_size < PERF_ATTR_SIZE_VER0 + FILE_SECTION || attr_size > ATTR_MAX ||
	    attrs.size / attr_size > PERFDATA_MAX_EVENTS || attrs.size < attr_size ||
	    data.offset > INT64_MAX || data.size > INT64_MAX)
		return fail(-EBADMSG);
	for (uint64_t i = 0; i < attrs.size / attr_size; i++) {
		r = read_attr(pd, &attrs, attr_size, i);
		if (r < 0)
			return trace(r);
	}
	/* perf fills the size in at its end. */
	pd->info.unfinished = data.size == 0;
	pd->data_left = data.size ? data.size : UINT64_MAX;
	if (lseek(pd->fd, (off_t)data.offset, SEEK_SET) < 0)
		return fail(-errno);
	return data.size ? read_features(pd, data.offset + data.size, bits) : 0;
}

static int read_first(int fd, uint8_t *data, size_t len)
{
	while (len) {
		ssize_t n = read(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? fail(-errno) : fail(-EBADMSG);
		data += n;
		len -= (size_t)n;
	}
	return 0;
}

/* perfdata_out_finish() writes the header last. */
static const char cut_off[] = "has an empty header: its recording was cut off before its end "
			      "(perfwind record --perf-data)";

static const char *what_is_wrong(uint64_t magic, uint64_t size, int fd)
{
	if (magic == MAGIC_SWAPPED)
		return "was recorded on a machine of the other byte order";
	if (magic == MAGIC_OLD)
		return "has the format of before 2010: no perf that writes it is in use";
	if (magic != MAGIC)
		return "is not a perf.data file";
	if (size != PIPE_HEADER && size != FILE_HEADER)
		return "has a header of unknown size";
	if (size == FILE_HEADER && lseek(fd, 0, SEEK_CUR) < 0)
		return "is not a recording made for a pipe: give the file's name, or use `perf "
		       "record "
		       "-o -`";
	return NULL;
}

int perfdata_read_header(struct perfdata *pd, char *error, size_t error_size)
{
	uint8_t first[PIPE_HEADER] = {0};
	const char *wrong;
	struct cursor c;
	uint64_t magic, size;
	int r = read_first(pd->fd, first, sizeof(first));

	if (r < 0 && r != -EBADMSG) {
		(void)snprintf(error, error_size, "cannot be read: %s", strerror(-r));
		return trace(r);
	}
	c = cursor_of(first, sizeof(first));
	magic = cursor_u64(&c);
	size = cursor_u64(&c);
	wrong = r == 0 && !magic && !size ? cut_off : what_is_wrong(magic, size, pd->fd);
	if (wrong) {
		(void)snprintf(error, error_size, "%s", wrong);
		return fail(-EINVAL);
	}
	pd->info.pipe = size == PIPE_HEADER;
	pd->data_left = UINT64_MAX;
	r = pd->info.pipe ? 0 : read_file_header(pd);
	if (r == -EBADMSG || r == -E2BIG)
		(void)snprintf(error, error_size, "has a damaged header");
	else if (r < 0)
		(void)snprintf(error, error_size, "cannot be read: %s", strerror(-r));
	if (r < 0)
		return trace(r);
	pd->data_at = lseek(pd->fd, 0, SEEK_CUR);
	pd->data_size = pd->data_left;
	return 0;
}
