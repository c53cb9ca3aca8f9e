/* pair.c - see pair.h.
 *
 * sched_waking is also recorded for a thread that runs: it is woken before it has gone to sleep.  No switch to it follows, so its
 * time would be that of the next one.  Therefore a switch away from a thread ends its wait without a latency. */
#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/table.h"
#include "perf/merge.h"
#include "perf/pair.h"
#include "perf/spec-list.h"

enum {
	LATE_NS = 200000
}; /* merge_violations(): the clock that a round reads is this much behind */

struct key_field {
	uint32_t offset, size; /* size 0: none */
};

struct pair_cpu {
	int fds[2]; /* from, to */
	void *base;
	struct ring *ring;
};

struct pair {
	struct table ids;     /* event id -> enum pair_kind */
	struct table waiting; /* key -> time of FROM */
	struct key_field from, to, drop;
	struct merge *merge;
	struct record_layout layout;
	struct pair_cpu *cpus;
	size_t n_cpus, map_len;
};

/* ---- joining ---- */

int pair_take(struct pair *p, enum pair_kind kind, uint64_t key, uint64_t drop, uint64_t time,
	      struct pair_result *result)
{
	uint64_t began;

	if (kind == PAIR_FROM) {
		if (p->waiting.n_used >= PAIR_KEYS)
			table_clear(&p->waiting);
		return table_put(&p->waiting, key, time) < 0 ? fail(-ENOMEM) : 0;
	}
	if (drop != PAIR_NO_KEY)
		(void)table_remove(&p->waiting, drop);
	if (!table_get(&p->waiting, key, &began))
		return 0;
	(void)table_remove(&p->waiting, key);
	result->n++;
	if (time > began && time - began > result->longest_ns) {
		result->longest_ns = time - began;
		result->key = key;
	}
	return 0;
}

static uint64_t read_key(const struct record_sample *s, const struct key_field *field)
{
	uint64_t key = 0; /* little endian, as the machines are */

	if (!field->size || s->raw_len < field->size || field->offset > s->raw_len - field->size)
		return PAIR_NO_KEY;
	memcpy(&key, s->raw + field->offset, field->size);
	return key;
}

static int take_sample(struct pair *p, const struct perf_event_header *record,
		       struct pair_result *result)
{
	struct record_sample s;
	uint64_t kind, key;
	int r = record_parse_sample(&p->layout, record, &s);

	if (r < 0)
		return trace(r);
	if (!s.raw || !table_get(&p->ids, s.id, &kind))
		return 0;
	key = read_key(&s, kind == PAIR_FROM ? &p->from : &p->to);
	if (key == PAIR_NO_KEY)
		return 0;
	return pair_take(p, (enum pair_kind)kind, key,
			 kind == PAIR_TO ? read_key(&s, &p->drop) : PAIR_NO_KEY, s.time, result);
}

static void take_loss(struct pair *p, const struct perf_event_header *record,
		      struct pair_result *result)
{
	struct {
		struct perf_event_header header;
		uint64_t id, lost;
	} loss;

	if (record->size < sizeof(loss))
		return;
	memcpy(&loss, record, sizeof(loss));
	result->lost += loss.lost;
	table_clear(&p->waiting); /* their ends may be among the lost ones */
}

int pair_read(struct pair *p, struct pair_result *ret_result)
{
	struct pair_result result = {0};
	struct merge_item item;
	int r = merge_begin(p->merge, clock_ns(CLOCK_MONOTONIC) - LATE_NS);

	while (r >= 0 && (r = merge_next(p->merge, &item)) == 0) {
		if (item.record->type == PERF_RECORD_SAMPLE)
			r = take_sample(p, item.record, &result);
		else if (item.record->type == PERF_RECORD_LOST)
			take_loss(p, item.record, &result);
		merge_put(p->merge, item.ring, item.position);
	}
	if (r < 0)
		return trace(r);
	*ret_result = result;
	return 0;
}

/* ---- events ---- */

static int open_event(const struct perf_spec *spec, uint32_t cpu, int output, int *ret_fd)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = spec->type,
		.config = spec->config,
		.sample_period = 1,
		.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME | PERF_SAMPLE_RAW,
		.watermark = 1,
		.wakeup_watermark = PAIR_RING_BYTES, /* the rings are polled */
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	int fd = perf_event_open(&attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return output >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, output) < 0 ? fail(-errno) : 0;
}

static int open_cpu(struct pair *p, struct pair_cpu *c, const struct perf_spec specs[2],
		    uint32_t cpu)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint32_t index;
	int r = open_event(&specs[0], cpu, -1, &c->fds[0]);

	if (r < 0)
		return r;
	c->base = mmap(NULL, p->map_len, PROT_READ | PROT_WRITE, MAP_SHARED, c->fds[0], 0);
	if (c->base == MAP_FAILED)
		return -errno;
	r = open_event(&specs[1], cpu, c->fds[0], &c->fds[1]);
	for (size_t i = 0; r >= 0 && i < 2; i++) {
		uint64_t id;

		r = ioctl(c->fds[i], PERF_EVENT_IOC_ID, &id) < 0
			    ? fail(-errno)
			    : table_put(&p->ids, id, i ? PAIR_TO : PAIR_FROM);
	}
	if (r >= 0)
		r = ring_new(c->base, page, PAIR_RING_BYTES, &c->ring);
	if (r >= 0)
		r = merge_add(p->merge, c->ring, &p->layout, &index);
	return r;
}

static int find_field(const struct perf_spec_env *env, const struct pair_end *end,
		      struct key_field *ret, char *error, size_t error_size)
{
	int r = perf_spec_field(env, end->event, end->field, &ret->offset, &ret->size);

	if (r < 0 && r != -ENOENT && r != -EINVAL && r != -EACCES)
		(void)snprintf(error, error_size, "%.128s: its fields: %s", end->event,
			       strerror(-r));
	else if (r < 0)
		(void)snprintf(error, error_size,
			       "%.128s has no integer field '%.64s' (its fields: perfwind list "
			       "%.128s)",
			       end->event, end->field, end->event);
	return r < 0 ? trace(r) : 0;
}

static int find_fields(struct pair *p, const struct pair_options *o, char *error, size_t error_size)
{
	const struct perf_spec_env env = {o->root};
	int r = find_field(&env, &o->from, &p->from, error, error_size);

	if (r >= 0)
		r = find_field(&env, &o->to, &p->to, error, error_size);
	if (r >= 0 && !strcmp(o->to.field, "next_pid")) {
		const struct pair_end before = {o->to.event, "prev_pid"};

		r = find_field(&env, &before, &p->drop, error, error_size);
		if (r == -ENOENT || r == -EINVAL) {
			*error = 0;
			r = 0;
		}
	}
	return r < 0 ? trace(r) : 0;
}

static int open_all(struct pair *p, const struct pair_options *o, char *error, size_t error_size)
{
	const struct perf_spec_env env = {o->root};
	struct perf_spec specs[2] = {{.type = 0}};
	int r = perf_spec_of_tracepoint(&env, o->from.event, &specs[0], error, error_size);

	if (r >= 0)
		r = perf_spec_of_tracepoint(&env, o->to.event, &specs[1], error, error_size);
	if (r >= 0)
		r = find_fields(p, o, error, error_size);
	if (r >= 0)
		p->cpus = calloc(o->n_cpus, sizeof(*p->cpus));
	if (r >= 0 && !p->cpus)
		r = fail(-ENOMEM);
	for (; r >= 0 && p->n_cpus < o->n_cpus; p->n_cpus++) {
		struct pair_cpu *c = &p->cpus[p->n_cpus];

		*c = (struct pair_cpu){.fds = {-1, -1}, .base = MAP_FAILED};
		r = open_cpu(p, c, specs, o->cpus[p->n_cpus]);
		if (r < 0)
			(void)snprintf(error, error_size, "%.128s, %.128s on CPU %u: %s%s",
				       o->from.event, o->to.event, o->cpus[p->n_cpus], strerror(-r),
				       r == -EACCES || r == -EPERM ? " (root, or CAP_PERFMON)"
								   : "");
	}
	for (size_t i = 0; i < 2; i++)
		perf_spec_deinit(&specs[i]);
	return r < 0 ? trace(r) : 0;
}

/* ---- the whole ---- */

struct pair *pair_new_empty(void)
{
	struct pair *p = calloc(1, sizeof(*p));

	if (!p || merge_new(&p->merge) < 0) {
		free(p);
		return NULL;
	}
	p->layout.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TIME | PERF_SAMPLE_RAW;
	p->layout.period = 1;
	p->map_len = (size_t)sysconf(_SC_PAGESIZE) + PAIR_RING_BYTES;
	return p;
}

int pair_new(const struct pair_options *options, struct pair **ret_pair, char *error,
	     size_t error_size)
{
	struct pair *p = pair_new_empty();
	int r = p ? 0 : fail(-ENOMEM);

	*error = 0;
	if (r >= 0)
		r = open_all(p, options, error, error_size);
	if (r < 0) {
		if (!*error)
			(void)snprintf(error, error_size, "%s", strerror(-r));
		(void)pair_free(p);
		return trace(r);
	}
	*ret_pair = p;
	return 0;
}

struct pair *pair_free(struct pair *p)
{
	if (!p)
		return NULL;
	(void)merge_free(p->merge);
	for (size_t i = 0; i < p->n_cpus; i++) {
		struct pair_cpu *c = &p->cpus[i];

		(void)ring_free(c->ring);
		if (c->base != MAP_FAILED)
			(void)munmap(c->base, p->map_len);
		(void)fd_close(c->fds[1]);
		(void)fd_close(c->fds[0]);
	}
	free(p->cpus);
	table_deinit(&p->ids);
	table_deinit(&p->waiting);
	free(p);
	return NULL;
}
