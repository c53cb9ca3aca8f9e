/* attr.c - see attr.h. */
#include <string.h>

#include "perf/attr.h"

/* A ring has room for few copies of 64 KiB at each switch; what lies deeper is still there while the task
 * waits. */
enum { SWITCH_STACK_BYTES = 16384 };

enum { WATCH_PERIOD_NS = 1000000 };

static void set_code(unsigned code, struct perf_event_attr *attr)
{
	attr->exclude_user = !(code & FRAMES_USER);
	attr->exclude_kernel = !(code & FRAMES_KERNEL);
	attr->exclude_hv = !(code & FRAMES_HYPERVISOR);
}

unsigned attr_code(const struct perf_event_attr *attr)
{
	return (attr->exclude_user ? 0 : FRAMES_USER) | (attr->exclude_kernel ? 0 : FRAMES_KERNEL) |
	       (attr->exclude_hv ? 0 : FRAMES_HYPERVISOR);
}

static void set_spec(const struct perf_spec *spec, struct perf_event_attr *attr)
{
	attr->type = spec->type;
	attr->config = spec->config;
	/* the probe PMUs take a pointer to the text here, read during perf_event_open() */
	attr->config1 = spec->probe_path ? (uint64_t)(uintptr_t)spec->probe_path : spec->config1;
	attr->config2 = spec->config2;
	set_code(spec->code, attr);
}

/* What all have in common: begins disabled, on the session's clock, follows forks as asked. */
static void set_common(const struct perf_options *options, struct perf_event_attr *attr)
{
	attr->size = sizeof(*attr);
	attr->disabled = 1;
	if (!options->poll) { /* nothing is stamped there, and not every event takes every clock */
		attr->use_clockid = 1;
		attr->clockid = options->clock;
	}
	if (!options->tasks)
		return;
	attr->inherit = !options->alone;
	attr->enable_on_exec = options->enable_on_exec;
	if (attr->inherit && !options->children && options->features.has[FEATURE_INHERIT_THREAD])
		perf_attr_set_flags(attr, PERFWIND_ATTR_INHERIT_THREAD);
}

static uint64_t read_format(const struct perf_options *options)
{
	return PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING |
	       (options->n_followers ? PERF_FORMAT_GROUP : 0ull) |
	       (options->features.has[FEATURE_FORMAT_LOST] ? (uint64_t)PERFWIND_FORMAT_LOST : 0ull);
}

static void set_callchain(const struct perf_options *options, struct perf_event_attr *attr)
{
	unsigned frames = options->callchain & (options->leader.code | FRAMES_USER);

	if (!frames && !options->chain_field)
		return;
	attr->sample_type |= PERF_SAMPLE_CALLCHAIN;
	attr->exclude_callchain_kernel = !(frames & FRAMES_KERNEL);
	attr->exclude_callchain_user = !(frames & FRAMES_USER);
}

void attr_leader(const struct perf_options *options, uint32_t stack_bytes,
		 struct perf_event_attr *ret_attr)
{
	struct perf_event_attr attr = {0};

	set_spec(&options->leader, &attr);
	set_common(options, &attr);
	attr.read_format = read_format(options);
	if (options->poll) {
		*ret_attr = attr;
		return;
	}
	attr.precise_ip = options->leader.precise_ip & 3u;
	if (options->frequency) {
		attr.freq = 1;
		attr.sample_freq = options->frequency;
	} else {
		attr.sample_period = options->period;
	}
	attr.sample_id_all = 1;
	/* No CPU field: the ring identifies it. */
	attr.sample_type =
		PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
	/* Asked with a fixed period, the kernel samples each occurrence of a software event or
	 * tracepoint, whatever the period is (perf_swevent_event() in kernel/events/core.c).  At
	 * 1 that is what is wanted, with what one occurrence counts for; otherwise the period is
	 * known. */
	if (options->frequency || options->period == 1)
		attr.sample_type |= PERF_SAMPLE_PERIOD;
	if (options->n_followers)
		attr.sample_type |= PERF_SAMPLE_READ;
	if (options->wakers) /* the ring's layout: attr_waker() needs it */
		attr.sample_type |= PERF_SAMPLE_RAW;
	set_callchain(options, &attr);
	if (stack_bytes) {
		attr.sample_type |= PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
		attr.sample_regs_user = PERF_REGS_MASK;
		attr.sample_stack_user = stack_bytes;
	}
	*ret_attr = attr;
}

void attr_follower(const struct perf_options *options, size_t index,
		   struct perf_event_attr *ret_attr)
{
	struct perf_event_attr attr = {0};

	set_spec(&options->followers[index], &attr);
	set_common(options, &attr);
	attr.disabled = 0; /* goes with its leader */
	attr.enable_on_exec = 0;
	attr.read_format = read_format(options);
	*ret_attr = attr;
}

static void set_dummy(struct perf_event_attr *attr)
{
	attr->type = PERF_TYPE_SOFTWARE;
	attr->config = PERF_COUNT_SW_DUMMY;
	set_code(FRAMES_USER, attr); /* no effect on a dummy, and needs no privilege */
}

void attr_sideband(const struct perf_options *options, struct perf_event_attr *ret_attr)
{
	struct perf_event_attr attr = {0};

	set_dummy(&attr);
	set_common(options, &attr);
	attr.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
	attr.sample_id_all = 1;
	if (options->features.has[FEATURE_FORMAT_LOST])
		attr.read_format = PERFWIND_FORMAT_LOST;
	attr.mmap = 1;
	attr.mmap2 = 1;
	attr.mmap_data = options->data_mappings;
	attr.comm = 1;
	attr.comm_exec = 1;
	attr.task = 1;
	/* On request only: perf_event_mmap_output() sets the mark of a build id in the one header that all
	 * events share, and restores the header's type and size after each event, but not the mark (seen
	 * on 6.18).  Events that did not ask, of other profilers too, get device and inode marked as a
	 * build id; perf 6.1 aborts on these.  Even a probe of our own mappings reaches a perf that
	 * records the process in which perfwind starts. */
	if (options->kernel_build_ids && options->features.has[FEATURE_BUILD_ID])
		perf_attr_set_flags(&attr, PERFWIND_ATTR_BUILD_ID);
	/* To a task's event the kernel's symbols come only from what that task loads itself: no
	 * use. */
	if (!options->tasks && options->features.has[FEATURE_KSYMBOL])
		attr.ksymbol = 1;
	attr.context_switch = options->switches;
	if (options->waking) /* the ring's layout: its only samples are attr_waking()'s */
		attr.sample_type |= PERF_SAMPLE_RAW;
	*ret_attr = attr;
}

/* The samples lie in the leader's ring, so they have the same fields.  The event fires in the task that
 * leaves, in the kernel: without kernel code there would be none. */
void attr_switch(const struct perf_options *options, uint64_t period,
		 struct perf_event_attr *ret_attr)
{
	attr_leader(options, (uint32_t)min_u64(options->stack_bytes, SWITCH_STACK_BYTES), ret_attr);
	ret_attr->type = PERF_TYPE_SOFTWARE;
	ret_attr->config = PERF_COUNT_SW_CONTEXT_SWITCHES;
	ret_attr->config1 = ret_attr->config2 = 0;
	set_code(FRAMES_ALL, ret_attr);
	ret_attr->precise_ip = 0;
	ret_attr->freq = 0;
	ret_attr->sample_period = period;
}

void attr_waking(const struct perf_options *options, struct perf_event_attr *ret_attr)
{
	struct perf_event_attr attr = {0};

	set_common(options, &attr);
	attr.type = PERF_TYPE_TRACEPOINT;
	attr.config = options->waking;
	attr.sample_period = 1;
	attr.sample_type =
		PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_RAW;
	attr.sample_id_all = 1;
	*ret_attr = attr;
}

void attr_waker(const struct perf_options *options, struct perf_event_attr *ret_attr)
{
	attr_switch(options, 1, ret_attr);
	ret_attr->type = PERF_TYPE_TRACEPOINT;
	ret_attr->config = options->waking;
}

/* The sample type of the sideband ring that it writes to.  In user code only where the sampling event is: in kernel
 * code it may not fire then. */
void attr_watch(const struct perf_options *options, struct perf_event_attr *ret_attr)
{
	struct perf_event_attr attr = {0};

	set_common(options, &attr);
	attr.enable_on_exec = 0;
	attr.type = PERF_TYPE_SOFTWARE;
	attr.config = PERF_COUNT_SW_TASK_CLOCK;
	set_code(options->leader.code & FRAMES_KERNEL ? FRAMES_ALL : FRAMES_USER, &attr);
	attr.sample_period = WATCH_PERIOD_NS;
	attr.wakeup_events = 1;
	attr.sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
	attr.sample_id_all = 1;
	*ret_attr = attr;
}

void attr_anchor(const struct perf_options *options, uint32_t watermark,
		 struct perf_event_attr *ret_attr)
{
	struct perf_event_attr attr = {0};

	set_dummy(&attr);
	attr.size = sizeof(attr);
	attr.disabled = 1;
	attr.use_clockid = 1;
	attr.clockid = options->clock;
	attr.watermark = 1;
	attr.wakeup_watermark = watermark;
	*ret_attr = attr;
}

/* The code does not change the count of task-clock, which is the whole CPU time either way
 * (tested on 6.18), and it can be opened without privileges. */
void attr_task_clock(const struct perf_options *options, struct perf_event_attr *ret_attr)
{
	struct perf_event_attr attr = {0};

	set_common(options, &attr);
	attr.type = PERF_TYPE_SOFTWARE;
	attr.config = PERF_COUNT_SW_TASK_CLOCK;
	set_code(FRAMES_USER, &attr);
	*ret_attr = attr;
}

void attr_counter(const struct perf_spec *spec, struct perf_event_attr *ret_attr)
{
	struct perf_event_attr attr = {.size = sizeof(attr)};

	set_spec(spec, &attr);
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	*ret_attr = attr;
}

void attr_layout(const struct perf_event_attr *attr, struct record_layout *ret_layout)
{
	*ret_layout = (struct record_layout){
		.sample_type = attr->sample_type,
		.read_format = attr->read_format,
		.regs_mask = attr->sample_regs_user,
		.sample_id_all = attr->sample_id_all,
		.build_id = perf_attr_flags(attr) & PERFWIND_ATTR_BUILD_ID,
		.period = attr->freq ? 1 : attr->sample_period,
		.regs_intr_mask = attr->sample_regs_intr,
		.branch_sample_type = attr->branch_sample_type,
	};
}
