/* perfdata-feature.c - what a perf.data says of its machine: feature sections.  Thread: any, one.
 *
 * In file mode each set bit of the header has a section (offset, size) in a list behind the data;
 * in pipe mode each comes as a record.  None of them is needed to read the samples: one that is
 * damaged is as if it were not there. */
#include <errno.h>
#include <unistd.h>

#include "base/error.h"
#include "perf/perfdata/perfdata-private.h"

enum feature_bit { /* tools/perf/util/header.h */
		   FEATURE_BIT_BUILD_ID = 2,
		   FEATURE_BIT_HOSTNAME = 3,
		   FEATURE_BIT_OSRELEASE = 4,
		   FEATURE_BIT_VERSION = 5,
		   FEATURE_BIT_ARCH = 6,
		   FEATURE_BIT_NRCPUS = 7,
		   FEATURE_BIT_CPUDESC = 8,
		   FEATURE_BIT_TOTAL_MEM = 10,
		   FEATURE_BIT_CMDLINE = 11,
		   FEATURE_BIT_EVENT_DESC = 12,
		   FEATURE_BIT_SAMPLE_TIME = 21,
		   FEATURE_BIT_CLOCK_DATA = 29,
};

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
			r = perfdata_set_name(pd, (uint32_t)event, name, len);
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
int perfdata_build_id_record(struct perfdata *pd, uint16_t misc, struct cursor body)
{
	struct perfdata_info *info = &pd->info;
	struct perfdata_build_id *list, one = {.len = BUILD_ID_FULL};
	const uint8_t *bytes;
	const char *path;

	(void)cursor_u32(&body);
	bytes = cursor_bytes(&body, 24);
	path = cursor_string(&body);
	if (body.bad || info->n_build_ids == PERFDATA_MAX_BUILD_IDS)
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
		r = perfdata_build_id_record(pd, header.misc, body);
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
int perfdata_feature_record(struct perfdata *pd, struct cursor body)
{
	uint64_t bit = cursor_u64(&body);

	return body.bad ? fail(-EBADMSG) : read_feature(pd, bit, body);
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
	r = perfdata_read_at(pd, offset, data, size);
	pd->info.features_cut |= r == -EBADMSG;
	if (r >= 0)
		r = read_feature(pd, bit, cursor_of(data, size));
	return r == -ENOMEM ? trace(r) : 0;
}

int perfdata_read_features(struct perfdata *pd, uint64_t end, const uint64_t bits[4])
{
	for (uint64_t bit = 0; bit < 256; bit++) {
		uint64_t section[2];
		int r;

		if (!(bits[bit / 64] >> bit % 64 & 1))
			continue;
		r = perfdata_read_at(pd, end, section, sizeof(section));
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
