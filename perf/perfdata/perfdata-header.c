/* perfdata-header.c - what stands before the records of a perf.data: header, attributes.  Thread:
 * any, one.
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

#define MAGIC 0x32454c4946524550ull	    /* "PERFILE2" */
#define MAGIC_SWAPPED 0x50455246494c4532ull /* the same by a machine of the other byte order */
#define MAGIC_OLD 0x454c494646524550ull	    /* "PERFFILE": before Linux 2.6.36 or so */

enum { PIPE_HEADER = 16, FILE_HEADER = 104, SECTION = 16, ATTR_MAX = 4096 };

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

int perfdata_set_name(struct perfdata *pd, uint32_t event, const char *name, size_t len)
{
	char *copy;

	len = strnlen(name, len);
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

int perfdata_add_event(struct perfdata *pd, struct cursor attr, struct cursor ids)
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

int perfdata_attr_record(struct perfdata *pd, struct cursor body)
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
	return perfdata_add_event(pd, own, body);
}

/* u64 type, u64 id, then what has changed; only names (type 2) matter here. */
int perfdata_update_record(struct perfdata *pd, struct cursor body)
{
	uint64_t type = cursor_u64(&body), id = cursor_u64(&body), event;

	if (body.bad)
		return fail(-EBADMSG);
	if (type != 2 || !table_get(&pd->event_of_id, id, &event))
		return 0;
	return perfdata_set_name(pd, (uint32_t)event, (const char *)body.p, cursor_left(&body));
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
	int r = perfdata_read_at(pd, attrs->offset + index * attr_size, entry, attr_size);

	if (r < 0)
		return trace(r);
	c = cursor_of(entry + attr_size - SECTION, SECTION);
	at = cursor_section(&c);
	if (at.size % sizeof(uint64_t) || at.size / sizeof(uint64_t) > PERFDATA_MAX_IDS)
		return fail(-EBADMSG);
	ids = malloc(at.size ? at.size : 1);
	if (!ids)
		return fail(-ENOMEM);
	r = perfdata_read_at(pd, at.offset, ids, at.size);
	if (r < 0)
		return trace(r);
	return perfdata_add_event(pd, cursor_of(entry, attr_size - SECTION),
				  cursor_of(ids, at.size));
}

static int read_file_header(struct perfdata *pd)
{
	uint8_t bytes[FILE_HEADER - PIPE_HEADER];
	struct section attrs, data;
	uint64_t attr_size, bits[4];
	struct cursor c;
	int r = perfdata_read_at(pd, PIPE_HEADER, bytes, sizeof(bytes));

	if (r < 0)
		return trace(r);
	c = cursor_of(bytes, sizeof(bytes));
	attr_size = cursor_u64(&c);
	attrs = cursor_section(&c);
	data = cursor_section(&c);
	(void)cursor_section(&c); /* event types: not written any more */
	for (size_t i = 0; i < ARRAY_SIZE(bits); i++)
		bits[i] = cursor_u64(&c);
	if (attr_size < PERF_ATTR_SIZE_VER0 + SECTION || attr_size > ATTR_MAX ||
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
	return data.size ? perfdata_read_features(pd, data.offset + data.size, bits) : 0;
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
		return "is no recording made for a pipe: give the file's name, or use `perf record "
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
