/* import-event.c - which of a file's events is imported, and what its samples have.  Thread: main.
 *
 * A trace has one event whose weights add up; the others' samples are counted as out of scope, and
 * a note names them.  A group's member that was not sampled has samples all the same:
 * import-group.c. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "import/import-private.h"

enum { MAX_COUNTERS = 64 };

static bool is_dummy(const struct perf_event_attr *attr)
{
	return attr->type == PERF_TYPE_SOFTWARE && attr->config == PERF_COUNT_SW_DUMMY;
}

/* "cycles" is also "cycles:u" and "cycles/freq=99/" where no event has just that name. */
static bool is_called(const struct perfdata_event *event, const char *name, bool whole)
{
	size_t len = strlen(name);

	if (strncmp(event->name, name, len))
		return false;
	return !event->name[len] || (!whole && strchr(":/", event->name[len]));
}

static const struct perfdata_event *find_event(const struct perfdata_info *info, const char *name)
{
	for (int whole = 1; whole >= 0; whole--) {
		for (size_t i = 0; i < info->n_events; i++) {
			const struct perfdata_event *event = &info->events[i];

			if (name ? is_called(event, name, whole) : !is_dummy(&event->attr))
				return event;
		}
	}
	return NULL;
}

static int no_event(const struct perfdata_info *info, const char *name, char *error, size_t size)
{
	int n = snprintf(error, size, "has no event %s; it has:", name ? name : "that is sampled");

	for (size_t i = 0; i < info->n_events && n > 0 && (size_t)n < size; i++)
		n += snprintf(error + n, size - (size_t)n, " %s", info->events[i].name);
	return fail(-EINVAL);
}

/* Without these no stack can be begun. */
static uint64_t begin_mask(enum uw_arch arch)
{
	return arch == UW_ARCH_X86_64 ? 1ull << UW_X86_SP | 1ull << UW_X86_IP
				      : 1ull << UW_ARM64_SP | 1ull << UW_ARM64_PC;
}

static enum import_kind kind_of(struct import *im)
{
	const struct perf_event_attr *attr = &im->event->attr;
	uint64_t wanted = uw_arch_regs_mask(im->arch);
	bool stacks = attr->sample_type & PERF_SAMPLE_REGS_USER &&
		      attr->sample_type & PERF_SAMPLE_STACK_USER;

	/* A file that does not say may be of any machine: where it has more, what is wanted means
	 * something else there. */
	if (stacks && attr->sample_regs_user & ~uw_arch_regs_known(im->arch)) {
		import_note(im, "its stacks cannot be unwound: they have registers that %s has not",
			    im->arch == UW_ARCH_X86_64 ? "x86_64" : "aarch64");
		stacks = false;
	}
	if (stacks && (attr->sample_regs_user & begin_mask(im->arch)) != begin_mask(im->arch)) {
		import_note(im, "its stacks cannot be unwound: no stack pointer or no address was "
				"recorded (--user-regs)");
		stacks = false;
	}
	if (stacks && (attr->sample_regs_user & wanted) != wanted)
		import_note(im, "not all registers were recorded (--user-regs): stacks that need "
				"the others fail for memory");
	if (im->options.engine_chosen && im->options.engine != UW_ENGINE_FP && !stacks)
		import_note(im, "it has no copies of stacks for --unwinder");
	if (stacks && !(im->options.engine_chosen && im->options.engine == UW_ENGINE_FP))
		return IMPORT_STACKS;
	return attr->sample_type & PERF_SAMPLE_CALLCHAIN ? IMPORT_CHAINS : IMPORT_ADDRESSES;
}

/* Any machine that the engines know, whatever this one is.  perf writes uname's word for it; a file
 * that does not say is taken for one of this machine. */
static int choose_machine(struct import *im, const char *arch, char *error, size_t size)
{
	im->arch = !arch		      ? UW_ARCH_HOST
		   : !strcmp(arch, "x86_64")  ? UW_ARCH_X86_64
		   : !strcmp(arch, "aarch64") ? UW_ARCH_AARCH64
					      : UW_ARCH_NONE;
	if (im->arch != UW_ARCH_NONE)
		return 0;
	(void)snprintf(error, size, "was recorded on %s; known are x86_64 and aarch64", arch);
	return fail(-EINVAL);
}

/* A group's member has none of its own: its leader's, which stands before it, says how often it was
 * looked at.  Damage may leave none, and a trace needs one. */
static void choose_interval(struct import *im)
{
	const struct perfdata_event *events = perfdata_info(im->file)->events;
	const struct perf_event_attr *attr = &im->event->attr;
	struct import_result *result = im->result;

	for (uint32_t i = im->event_index;
	     i && attr->read_format & PERF_FORMAT_GROUP && !attr->sample_period; i--)
		attr = &events[i - 1].attr;
	if (attr->freq)
		result->frequency = attr->sample_freq;
	else
		result->period = attr->sample_period;
	if (!result->frequency && !result->period)
		result->period = 1;
}

int import_choose_event(struct import *im, char *error, size_t error_size)
{
	const struct perfdata_info *info = perfdata_info(im->file);
	struct import_result *result = im->result;
	enum uw_engine_kind engine = UW_ENGINE_FP;
	int r = choose_machine(im, info->arch, error, error_size);

	if (r < 0)
		return trace(r);
	im->event = find_event(info, im->options.event);
	if (!im->event)
		return no_event(info, im->options.event, error, error_size);
	im->event_index = (uint32_t)(im->event - info->events);
	im->others = calloc(info->n_events, sizeof(*im->others));
	if (!im->others)
		return fail(-ENOMEM);
	im->kind = kind_of(im);
	(void)snprintf(result->event, sizeof(result->event), "%s", im->event->name);
	choose_interval(im);
	result->summary.user_only = im->event->attr.exclude_kernel;
	if (im->kind == IMPORT_STACKS)
		engine = im->options.engine_chosen ? im->options.engine : UW_ENGINE_NATIVE;
	if (engine == UW_ENGINE_LIBUNWIND && im->arch != UW_ARCH_HOST) {
		(void)snprintf(
			error, error_size,
			"was recorded on %s, and libunwind knows this machine's stacks only; "
			"use native or libdw",
			info->arch);
		return fail(-EINVAL);
	}
	r = uw_engine_new(engine, &im->engine);
	if (r < 0) {
		(void)snprintf(error, error_size, "cannot be unwound: %s", strerror(-r));
		return trace(r);
	}
	import_unwind_start(im);
	import_kernel_start(im);
	return 0;
}

/* ---- the trace ---- */

static struct writer_event writer_event_of(const struct perfdata_event *event)
{
	const struct perf_event_attr *attr = &event->attr;
	struct writer_event w = {
		.name = event->name,
		.counter = -1,
		.raw_type = attr->type,
		.raw_config = attr->config,
		.raw_config1 = attr->config1,
		.raw_config2 = attr->config2,
		.exclude_user = attr->exclude_user,
		.exclude_kernel = attr->exclude_kernel,
		.exclude_hv = attr->exclude_hv,
	};

	for (int32_t i = 0; i < MAX_COUNTERS && w.counter < 0; i++) {
		struct perf_spec spec;

		if (perf_spec_of_counter(i, &spec) < 0)
			continue;
		if (spec.type == attr->type && spec.config == attr->config)
			w.counter = i;
		perf_spec_deinit(&spec);
	}
	if (attr->type == PERF_TYPE_TRACEPOINT && strchr(event->name, ':'))
		w.tracepoint = event->name;
	return w;
}

static void fill_past(struct import *im, uint64_t first_time)
{
	const struct perfdata_info *info = perfdata_info(im->file);

	im->past = (struct writer_past){
		.first_time = first_time,
		.release = info->os_release,
		.machine = info->arch,
		.n_cpus = info->cpus_available,
		.ram_bytes = info->total_memory_kb << 10,
	};
	if (info->has_wall_clock)
		im->past.wall_clock = info->wall_clock_ns + (first_time - info->wall_clock_at);
}

int import_start_trace(struct import *im, uint64_t first_time)
{
	struct writer_options wo = {
		.leader = writer_event_of(im->event),
		.period = im->result->period,
		.frequency = im->result->frequency,
		.clock = CLOCK_BOOTTIME,
		.sequence_id = 1,
		.tool = "perfwind " PERFWIND_VERSION,
		.past = &im->past,
	};
	int r;

	fill_past(im, first_time);
	r = writer_new(&wo, im->sink, &im->writer);
	if (r >= 0)
		r = writer_start(im->writer);
	if (r >= 0)
		r = emit_new(
			&(struct emit_context){
				.writer = im->writer,
				.loader = im->loader,
				.modules = im->modules,
				.account = &im->account,
				.past = true,
				.no_lines = im->options.no_inline,
			},
			&im->emit);
	return r < 0 ? trace(r) : 0;
}
