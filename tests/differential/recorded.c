/* recorded.c - what perf record wrote into events of samples.h.
 *
 * Samples without user registers or without a copy of the stack are left out and counted: there is
 * nothing to unwind.  The build id of a mapping is the record's own, else the one that the file
 * has for the path. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "perf/perfdata/perfdata.h"
#include "tests/differential/samples.h"

static int recorded_sample(const struct samples_options *options,
			   const struct perfdata_event *event, const struct perfdata_item *item,
			   struct samples *samples)
{
	const uint64_t needed = PERF_SAMPLE_TID | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
	struct record_sample sample;
	struct sample_event *e;

	if (record_parse_sample(item->layout, item->record, &sample) < 0 || !sample.pid)
		return 0;
	if ((item->layout->sample_type & needed) != needed ||
	    event->attr.sample_regs_user != UW_REGS_MASK_X86_64 || !sample.stack_room) {
		samples->n_no_user++;
		return 0;
	}
	if (samples->n_taken >= options->max_samples ||
	    (options->user_only && sample.cpu_mode == PERF_RECORD_MISC_KERNEL))
		return 0;
	e = samples_area_add(samples->area, sample.stack_len);
	if (!e)
		return -EFBIG;
	samples->n_taken++;
	e->type = SAMPLE_STACK;
	e->flags = (uint16_t)((sample.stack_len && sample.stack_len == sample.stack_room) |
			      (sample.cpu_mode == PERF_RECORD_MISC_KERNEL) << 1);
	e->pid = sample.pid;
	e->tid = sample.tid;
	e->time = item->time;
	e->stack.len = sample.stack_len;
	e->stack.n_regs = sample.regs_abi == PERF_SAMPLE_REGS_ABI_64 ? UW_X86_COUNT : 0;
	if (e->stack.n_regs)
		memcpy(e->stack.regs, sample.regs, sizeof(e->stack.regs));
	if (sample.stack_len)
		memcpy(e->data, sample.stack, sample.stack_len);
	return 0;
}

static void recorded_build_id(struct perfdata *data, const struct record_event *event,
			      struct sample_event *e)
{
	const struct perfdata_build_id *known = perfdata_build_id(data, event->mmap.path);

	if (event->mmap.build_id_len) {
		e->map.id.len = (uint8_t)min_u64(event->mmap.build_id_len, UW_BUILD_ID_MAX);
		memcpy(e->map.id.bytes, event->mmap.build_id, e->map.id.len);
	} else if (known) {
		e->map.id.len = (uint8_t)min_u64(known->len, UW_BUILD_ID_MAX);
		memcpy(e->map.id.bytes, known->bytes, e->map.id.len);
	}
}

static int recorded_map(struct perfdata *data, const struct record_event *event,
			struct samples *samples, struct sample_event **ret_event)
{
	size_t len = strlen(event->mmap.path) + 1;
	struct sample_event *e;

	*ret_event = NULL;
	if (!(event->mmap.prot & PROT_EXEC) || !event->mmap.len ||
	    event->mmap.start > UINT64_MAX - event->mmap.len)
		return 0;
	e = *ret_event = samples_area_add(samples->area, len);
	if (!e)
		return -EFBIG;
	e->type = SAMPLE_MAP;
	e->map.start = event->mmap.start;
	e->map.end = event->mmap.start + event->mmap.len;
	e->map.offset = event->mmap.offset;
	recorded_build_id(data, event, e);
	memcpy(e->data, event->mmap.path, len);
	return 0;
}

static int recorded_event(struct perfdata *data, const struct perfdata_item *item,
			  struct samples *samples)
{
	struct record_event event;
	struct sample_event *e = NULL;
	int r;

	if (record_parse_event(item->layout, item->record, &event) != 0)
		return 0;
	switch (event.type) {
	case PERF_RECORD_LOST:
		samples->lost += event.lost.count;
		return 0;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		r = recorded_map(data, &event, samples, &e);
		if (r < 0 || !e)
			return r;
		break;
	case PERF_RECORD_COMM:
	case PERF_RECORD_FORK:
		if (event.type == PERF_RECORD_COMM ? !event.comm.exec
						   : event.pid == event.task.ppid)
			return 0; /* a name; a thread */
		e = samples_area_add(samples->area, 0);
		if (!e)
			return -EFBIG;
		e->type = event.type == PERF_RECORD_COMM ? SAMPLE_EXEC : SAMPLE_FORK;
		e->parent = event.type == PERF_RECORD_COMM ? 0 : event.task.ppid;
		break;
	default:
		return 0;
	}
	e->pid = event.pid;
	e->tid = event.tid;
	e->time = item->time;
	return 0;
}

int samples_recorded(const struct samples_options *options, struct samples *samples)
{
	_cleanup_(fd_closep) int fd = open(options->load, O_RDONLY | O_CLOEXEC);
	_cleanup_(perfdata_freep) struct perfdata *data = NULL;
	const struct perfdata_info *info;
	struct perfdata_item item;
	char error[256];
	int r;

	if (fd < 0)
		return -errno;
	r = perfdata_new(fd, NULL, &data, error, sizeof(error));
	if (r < 0) {
		fprintf(stderr, "samples: %s: %s\n", options->load, error);
		return r;
	}
	info = perfdata_info(data);
	while ((r = perfdata_next(data, &item)) == 0) {
		r = item.record->type == PERF_RECORD_SAMPLE
			    ? recorded_sample(options, &info->events[item.event], &item, samples)
			    : recorded_event(data, &item, samples);
		perfdata_put(data, item.block);
		if (r < 0)
			return r;
	}
	return r < 0 ? r : 0;
}
