/* import.c - see import.h: the choice of the event, samples and other records, the end.  Stacks are
 * unwound and written by import-unwind.c; import-file.c matches build ids with mappings;
 * import-kernel.c finds the kernel's names. */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "base/error.h"
#include "import/import-private.h"
#include "import/import.h"
#include "session/pipeline/sideband.h"
#include "session/statistics.h"

/* Given as the folder of /proc: has no entries, so no process of today is read. */
#define NO_PROC "/dev/null"

void import_note(struct import *im, const char *format, ...)
{
	struct session_summary *summary = &im->result->summary;
	char line[512];
	va_list ap;

	va_start(ap, format);
	(void)vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	log_info("%s", line);
	if (summary->n_notes < ARRAY_SIZE(im->result->notes) &&
	    (im->result->notes[summary->n_notes] = strdup(line)))
		summary->n_notes++;
	summary->notes = (const char *const *)im->result->notes;
}

void import_result_deinit(struct import_result *result)
{
	for (size_t i = 0; i < ARRAY_SIZE(result->notes); i++)
		free(take(result->notes[i]));
	result->summary.n_notes = 0;
}

static uint64_t own_cpu_ns(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* ---- the event that is imported ----
 *
 * A trace has one event, and its weights add up; samples of other events are counted as out of scope,
 * and a note names them.  A member of a group that was not sampled has samples all the same, see
 * below. */

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

/* Registers without which unwinding cannot begin. */
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

	/* A file without a machine name may be from any machine: where it has unknown registers, the
	 * known numbers mean other registers there. */
	if (stacks && attr->sample_regs_user & ~uw_arch_regs_known(im->arch)) {
		import_note(im, "its stacks cannot be unwound: they have registers that %s has not",
			    im->arch == UW_ARCH_X86_64 ? "x86_64" : "aarch64");
		stacks = false;
	}
	if (stacks && (attr->sample_regs_user & begin_mask(im->arch)) != begin_mask(im->arch)) {
		import_note(im, "its stacks cannot be unwound: no stack pointer or no instruction "
				"pointer was recorded (--user-regs)");
		stacks = false;
	}
	if (stacks && (attr->sample_regs_user & wanted) != wanted)
		import_note(im, "not all registers were recorded (--user-regs): stacks that need "
				"the missing ones fail to unwind");
	if (im->options.engine_chosen && im->options.engine != UW_ENGINE_FP && !stacks)
		import_note(im, "--unwinder is ignored: the recording has no copies of stacks");
	if (stacks && !(im->options.engine_chosen && im->options.engine == UW_ENGINE_FP))
		return IMPORT_STACKS;
	return attr->sample_type & PERF_SAMPLE_CALLCHAIN ? IMPORT_CHAINS : IMPORT_ADDRESSES;
}

/* Any machine that the engines support may be imported on any other.  perf writes uname's name of
 * it; a file without a name counts as one of this machine. */
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

/* The period or frequency.  A member of a group has none of its own: its leader, which precedes it,
 * has.  Damage may leave none, and a trace needs one. */
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

/* Chooses the event, and what is made of its samples.  -EINVAL with *error. */
static int choose_event(struct import *im, char *error, size_t error_size)
{
	const struct perfdata_info *info = perfdata_info(im->file);
	struct import_result *result = im->result;
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
	im->engine_kind = im->kind != IMPORT_STACKS   ? UW_ENGINE_FP
			  : im->options.engine_chosen ? im->options.engine
						      : UW_ENGINE_NATIVE;
	if (im->engine_kind == UW_ENGINE_LIBUNWIND && im->arch != UW_ARCH_HOST) {
		(void)snprintf(
			error, error_size,
			"was recorded on %s, and libunwind supports this machine's stacks only; "
			"use native or libdw",
			info->arch);
		return fail(-EINVAL);
	}
	r = uw_engine_new(im->engine_kind, &im->engine);
	if (r < 0) {
		(void)snprintf(error, error_size, "cannot be unwound: %s", strerror(-r));
		return trace(r);
	}
	uw_engine_set(im->engine,
		      &(struct uw_settings){.fallback = im->engine_kind == UW_ENGINE_NATIVE});
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

/* The writer and the emitter, as the event wants them. */
static int start_trace(struct import *im, uint64_t first_time)
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
				/* The clock of another boot cannot be converted. */
				.clock = perfdata_info(im->file)->clock == CLOCK_MONOTONIC
						 ? CLOCK_MONOTONIC
						 : -1,
				.account = &im->account,
				.past = true,
				.no_lines = im->options.no_inline,
			},
			&im->emit);
	return r < 0 ? trace(r) : 0;
}

/* ---- lines ---- */

/* A sample of an event that is not imported. */
static void leave_out(struct import *im, uint32_t event)
{
	im->account.received++;
	im->account.skipped[SKIP_NOT_IN_SCOPE]++;
	im->others[event]++;
}

/* ---- groups of events: `perf record -e '{a,b}:S'` ----
 *
 * Only the leader has samples; each contains the counts of all members at that time.  As in `perf
 * script`, a member with a count that has grown since the leader's previous sample gets a sample too, with
 * the leader's stack and the growth as its weight.
 *
 * An id belongs to an event on one CPU or of one task, so the last count is kept by id.  Where
 * children inherited the event (Linux 6.12) all have its id and count separately: the last count is
 * kept by id and thread. */

enum { VALUE, ID }; /* words of a member */

static uint64_t stream_of(const struct import *im, const struct perfdata_item *item,
			  const struct record_sample *sample, uint64_t id)
{
	const struct perfdata_event *leader = &perfdata_info(im->file)->events[item->event];

	return leader->attr.inherit ? id << 32 ^ sample->tid : id;
}

/* A value that fell is damaged or out of order: the highest one counts.  -E2BIG: no recording has so
 * many threads. */
static int grow(struct table *values, uint64_t stream, uint64_t value, uint64_t *ret_by)
{
	uint64_t last = 0;

	*ret_by = 0;
	if (!table_get(values, stream, &last) && values->n_used >= PERFDATA_MAX_IDS)
		return fail(-E2BIG);
	if (value <= last)
		return 0;
	*ret_by = value - last;
	return table_put(values, stream, value);
}

/* By how much the event that is imported grew since the sample before, where it is another one of
 * the group; what the others grew by is counted as left out. */
static int take_members(struct import *im, const struct perfdata_item *item,
			const struct record_sample *sample, uint64_t *ret_weight)
{
	const uint64_t format = item->layout->read_format;
	const size_t words = format & PERFWIND_FORMAT_LOST ? 3 : 2; /* value id [lost] */
	const uint64_t n = format & PERF_FORMAT_ID ? sample->n_group : 0;
	bool strange = n < sample->n_group;

	*ret_weight = 0;
	for (uint64_t i = 0; i < n; i++) {
		const uint64_t *member = sample->group + i * words;
		uint32_t event;
		uint64_t by;
		int r;

		if (!perfdata_event_of_id(im->file, member[ID], &event)) {
			strange = true;
			continue;
		}
		if (event == item->event)
			continue; /* it has the sample itself */
		r = grow(&im->group_values, stream_of(im, item, sample, member[ID]), member[VALUE],
			 &by);
		if (r < 0 && r != -E2BIG)
			return trace(r);
		strange |= r < 0;
		if (by && event == im->event_index)
			*ret_weight += by;
		else if (by)
			leave_out(im, event);
	}
	im->grouped += strange;
	return 0;
}

/* ---- samples: into groups, and out of them ---- */

/* The mappings of that time are known from records, or not at all. */
static int process_of(struct import *im, uint32_t pid, struct process **ret_process)
{
	struct process *process = process_get(im->processes, pid);

	if (!process)
		return fail(-ENOMEM);
	process->maps_state = PROCESS_MAPS_KNOWN;
	process->maps_read_at = 1;
	*ret_process = process;
	return 0;
}

/* The CPU's count up to this sample, inclusive. */
static int add_weight(struct import *im, uint32_t cpu, uint64_t weight, uint64_t *ret_sum)
{
	uint64_t sum = 0;

	(void)table_get(&im->cpu_counts, cpu, &sum);
	*ret_sum = sum + weight;
	return table_put(&im->cpu_counts, cpu, *ret_sum);
}

/* An address in the page at 0, where nothing is mapped: memory found by a register that was not
 * recorded is in no stack and in no module. */
enum { REG_UNKNOWN = 1 };

/* The registers that the engines take, out of those recorded. */
static const uint64_t *choose_regs(struct import_sample *to, const uint64_t *regs, uint64_t has,
				   uint64_t wanted)
{
	size_t n = 0, at = 0;

	if (has == wanted || !regs)
		return regs;
	for (unsigned bit = 0; bit < IMPORT_REGS; bit++) {
		bool there = has >> bit & 1;

		if (wanted >> bit & 1)
			to->regs[n++] = there ? regs[at] : REG_UNKNOWN;
		at += there;
	}
	return to->regs;
}

static bool is_guest(const struct record_sample *s)
{
	return s->cpu_mode == PERF_RECORD_MISC_GUEST_KERNEL ||
	       s->cpu_mode == PERF_RECORD_MISC_GUEST_USER;
}

/* One address as a callchain. */
static void chain_of_address(struct import_sample *to, const struct record_sample *s)
{
	to->chain[0] = s->cpu_mode == PERF_RECORD_MISC_KERNEL ? CHAIN_KERNEL : CHAIN_USER;
	to->chain[1] = s->ip;
	to->entry.chain = to->chain;
	to->entry.n_chain = 2;
}

static bool has_user_part(const struct import *im, const struct entry *e)
{
	uint32_t n;

	if (im->kind != IMPORT_STACKS)
		return entry_chain_part(e, CHAIN_USER, &n) && n;
	return entry_has_user_copy(e);
}

/* The address is in no callchain: perf recorded none, or none for user code, which is in the copy. */
static bool lacks_address(const struct import *im, const struct record_sample *s)
{
	return im->kind == IMPORT_ADDRESSES ||
	       (!s->n_chain &&
		(im->kind == IMPORT_CHAINS || s->cpu_mode == PERF_RECORD_MISC_KERNEL));
}

/* The addresses are a virtual machine guest's: the host has other code there. */
static void drop_stack(struct import *im, struct entry *e)
{
	im->guests++;
	e->regs = NULL;
	e->stack_full = false;
	e->info.stack_len = 0;
	e->n_chain = 0;
}

static int fill(struct import *im, struct import_sample *to, const struct record_sample *s,
		uint64_t regs_mask, struct process *process)
{
	struct entry *e = &to->entry;
	int r;

	entry_of_sample(s, im->arch, e);
	e->regs = choose_regs(to, e->regs, regs_mask, uw_arch_regs_mask(im->arch));
	if (is_guest(s))
		drop_stack(im, e);
	else if (lacks_address(im, s))
		chain_of_address(to, s);
	e->user_state = has_user_part(im, e);
	e->check_chain = im->kind == IMPORT_CHAINS;
	r = add_weight(im, s->cpu, s->period, &e->info.count);
	if (r >= 0 && e->user_state)
		r = process_space(im->processes, process, &e->info.space);
	if (r < 0)
		return trace(r);
	if (e->info.space)
		(void)uw_space_ref(e->info.space);
	e->info.process = process_ref(process);
	return 0;
}

/* The time of the first sample goes into the head of the trace. */
static int first_sample(struct import *im, uint64_t time)
{
	int r = im->emit ? 0 : start_trace(im, time);

	im->first_time = im->first_time ? im->first_time : time;
	im->last_time = max_u64(im->last_time, time);
	return r;
}

static int take_group(struct import *im, const struct perfdata_item *item,
		      struct record_sample *sample)
{
	uint64_t weight = 0;
	int r = take_members(im, item, sample, &weight);

	if (item->event != im->event_index)
		sample->period = weight;
	return r < 0 ? trace(r) : 0;
}

/* The sample has the counts of all its group (:S). */
static bool is_grouped(const struct record_layout *layout)
{
	return layout->sample_type & PERF_SAMPLE_READ && layout->read_format & PERF_FORMAT_GROUP;
}

/* False: the sample is not imported, and has been counted.  A sample of a group's leader is also one of
 * each member with a count that grew, even if the leader itself is not imported. */
static int is_wanted(struct import *im, const struct perfdata_item *item,
		     struct record_sample *ret_sample)
{
	const bool own = item->event == im->event_index, grouped = is_grouped(item->layout);

	if (!own)
		leave_out(im, item->event);
	if (!own && !grouped)
		return false;
	if (record_parse_sample(item->layout, item->record, ret_sample) < 0 ||
	    ret_sample->cpu >= IMPORT_CPUS) {
		im->bad++;
		return false;
	}
	if (grouped) {
		int r = take_group(im, item, ret_sample);

		if (r < 0)
			return trace(r);
	}
	if (!own && !ret_sample->period)
		return false;
	if (ret_sample->pid)
		return true;
	im->account.idle_weight += ret_sample->period;
	im->account.idle += !im->options.idle;
	return im->options.idle;
}

/* Takes over the record's block. */
static int take_sample(struct import *im, const struct perfdata_item *item)
{
	struct import_group *g = &im->groups[im->filling];
	struct import_sample *to = &g->samples[g->n];
	struct record_sample s;
	struct process *process = NULL;
	int r;

	r = is_wanted(im, item, &s);
	if (r <= 0) {
		perfdata_put(im->file, item->block);
		return r < 0 ? trace(r) : 0;
	}
	to->block = item->block;
	r = first_sample(im, s.time);
	if (r >= 0)
		r = process_of(im, s.pid, &process);
	if (r >= 0)
		r = fill(im, to, &s, item->layout->regs_mask, process);
	if (r < 0)
		return trace(r);
	im->account.received++;
	im->account.queued++;
	g->n++;
	return g->n == IMPORT_GROUP ? import_flush(im) : 0;
}

/* ---- records ---- */

static int take_lost(struct import *im, const struct perfdata_item *item,
		     const struct record_event *e)
{
	if (e->type == PERFWIND_RECORD_LOST_SAMPLES) {
		im->counts.lost_exact = true;
		if (item->event == im->event_index)
			im->counts.lost_samples += e->lost.count;
		return 0;
	}
	im->account.lost_records += e->lost.count;
	return im->writer ? writer_lost(im->writer, e->cpu, e->lost.count, item->time) : 0;
}

static int take_throttle(struct import *im, const struct record_event *e)
{
	uint64_t since;

	if (e->cpu >= IMPORT_CPUS) {
		im->bad++;
		return 0;
	}
	if (e->throttle.on)
		return table_put(&im->throttled, e->cpu, e->time);
	if (table_get(&im->throttled, e->cpu, &since) && e->time > since)
		im->account.throttled_ns += e->time - since;
	(void)table_remove(&im->throttled, e->cpu);
	return 0;
}

/* The mappings of a process come from records only. */
static int apply(struct import *im, const struct record_event *e)
{
	struct process *process;
	int r = sideband_apply(im->processes, e);

	process = process_find(im->processes, e->pid);
	if (process) {
		process->maps_state = PROCESS_MAPS_KNOWN;
		process->maps_read_at = 1;
	}
	return r < 0 ? trace(r) : 0;
}

/* The emitter remembers the last two names of a thread: before a third one, samples that wait are written. */
static int drain_before_comm(struct import *im, const struct record_event *e)
{
	const struct process *process = process_find(im->processes, e->pid);
	const struct process_thread *thread =
		process ? table_pointer(&process->threads, e->tid) : NULL;

	return thread && thread->renamed_at >= im->first_time ? import_drain(im) : 0;
}

static int take_event(struct import *im, const struct perfdata_item *item)
{
	struct record_event e;
	int r = record_parse_event(item->layout, item->record, &e);

	im->bad += r < 0;
	if (r != 0)
		return 0;
	switch (e.type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		if (strlen(e.mmap.path) >= PATH_MAX) { /* none of the kernel's */
			im->bad++;
			return 0;
		}
		if (e.pid == UINT32_MAX)
			import_kernel_mmap(im, &e);
		else
			import_file_id(im, &e);
		return apply(im, &e);
	case PERF_RECORD_LOST:
	case PERFWIND_RECORD_LOST_SAMPLES:
		return take_lost(im, item, &e);
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		return take_throttle(im, &e);
	case PERFWIND_RECORD_KSYMBOL:
		r = import_drain(im); /* earlier samples use the earlier names */
		return r < 0 ? trace(r) : import_kernel_ksymbol(im, &e);
	case PERF_RECORD_COMM:
		r = e.comm.exec ? 0 : drain_before_comm(im, &e);
		return r < 0 ? trace(r) : apply(im, &e);
	default:
		return apply(im, &e);
	}
}

static int take_record(struct import *im, const struct perfdata_item *item)
{
	int r;

	if (item->record->type == PERF_RECORD_SAMPLE) {
		r = take_sample(im, item);
	} else {
		r = take_event(im, item);
		perfdata_put(im->file, item->block);
	}
	return r < 0 ? trace(r) : import_keep_small(im);
}

static int take_all(struct import *im, char *error, size_t error_size)
{
	struct perfdata_item item;
	int r;

	while ((r = perfdata_next(im->file, &item)) == 0) {
		if (!im->event) {
			r = choose_event(im, error, error_size);
			if (r < 0)
				return trace(r);
		}
		r = take_record(im, &item);
		if (r < 0)
			return trace(r);
	}
	if (r < 0) {
		(void)snprintf(error, error_size, "cannot be read: %s", strerror(-r));
		return trace(r);
	}
	r = import_drain(im);
	return r < 0 ? trace(r) : 0;
}

/* ---- the end ---- */

static void note_damage(struct import *im)
{
	const struct perfdata_counts *counts = perfdata_counts(im->file);
	uint64_t bad = counts->bad_records + im->bad;

	im->result->damage = (struct import_damage){
		.bytes_not_read = counts->unread_bytes,
		.bad_records = bad,
		.unproved_modules = im->unproved + im->trusted_early,
		.unread_modules = im->unfound + im->unopened,
	};
	if (perfdata_info(im->file)->unfinished)
		import_note(
			im,
			"perf did not finish the file (killed?): the records in it are imported");
	if (counts->damage)
		import_note(im, "damaged: %s; %lu bytes were not read", counts->damage,
			    counts->unread_bytes);
	if (bad)
		import_note(im, "%lu damaged records were left out", bad);
	if (counts->early)
		import_note(im, "%lu records were put in order as far as memory allowed",
			    counts->early);
}

/* Modules with samples, the file of which is known to be missing or another. */
static void note_missing(struct import *im)
{
	if (im->gone)
		import_note(im,
			    "%lu module%s not on this machine (the first: %.200s): no names of its "
			    "functions, and stacks may end there; hint: perf archive where it was "
			    "recorded, then --buildid-dir",
			    im->gone, im->gone == 1 ? " is" : "s are",
			    im->first_gone ? im->first_gone : "?");
	if (im->unfound > im->gone)
		import_note(im,
			    "%lu module%s could not be read, or another file is at the path: no "
			    "names of its functions, and stacks may end there",
			    im->unfound - im->gone, im->unfound - im->gone == 1 ? "" : "s");
}

/* Programs may have changed since, or be another machine's: then only path and inode identify them. */
static void note_unverified(struct import *im)
{
	note_missing(im);
	if (im->unproved)
		import_note(im,
			    "%lu modules were identified by their paths only, so another version "
			    "may have run%s",
			    im->unproved,
			    im->has_build_ids ? "" : ": there are no build ids in the file");
	if (im->trusted_early)
		import_note(im,
			    "%lu paths had one build id and several files, which is known too late "
			    "in a pipe: names of the first may be wrong; hint: import a file",
			    im->trusted_early);
	if (im->forgotten)
		import_note(
			im,
			"%lu processes were forgotten, as all processes take more than %zu MiB: "
			"their "
			"later samples may have no stack",
			im->forgotten, im->options.held_bytes >> 20);
	if (im->late_maps)
		import_note(im,
			    "%lu files /tmp/perf-PID.map are newer than the recording, and may "
			    "belong to other "
			    "processes with that pid: their names were not used",
			    im->late_maps);
	if (im->replaced.n_used)
		import_note(
			im,
			"%zu mapped files were not read: another file is at their path, and its "
			"build id does not identify them",
			im->replaced.n_used);
}

/* Callchains of the kernel follow frame pointers. */
static void note_short_chains(struct import *im)
{
	const struct account *a = &im->account;

	if (im->kind == IMPORT_CHAINS && 2 * a->failed[UW_NO_UNWIND_INFO] > max_u64(a->emitted, 20))
		import_note(im,
			    "most callchains end after a few frames: the programs have no frame "
			    "pointers; hint: perf record --call-graph dwarf");
}

static void note_unopened(struct import *im)
{
	if (im->unopened)
		import_note(im,
			    "no file descriptors were left: %lu modules could not be read; hint: "
			    "ulimit -n",
			    im->unopened);
}

/* For a recording with several events: the samples that another choice would import. */
static void note_other_events(struct import *im)
{
	const struct perfdata_info *info = perfdata_info(im->file);
	char list[384] = "";
	size_t len = 0;

	for (size_t i = 0; i < info->n_events && len < sizeof(list); i++) {
		if (!im->others[i])
			continue;
		len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%lu samples of %.100s",
					len ? ", " : "", im->others[i], info->events[i].name);
	}
	if (len)
		import_note(im, "%s were left out (-e EVENT takes another event)", list);
	if (im->grouped && info->n_events > 1)
		import_note(im,
			    "%lu samples of a group's leader (:S) have counts of events that are "
			    "not in the "
			    "file: those counts are left out",
			    im->grouped);
	if (im->guests)
		import_note(im, "%lu samples are of a virtual machine guest: they have no stacks",
			    im->guests);
}

static void fill_summary(struct import *im)
{
	struct session_summary *summary = &im->result->summary;
	struct rusage ru = {0};

	(void)getrusage(RUSAGE_SELF, &ru);
	summary->duration_s = (double)(im->last_time - im->first_time) / 1e9;
	summary->account = im->account;
	summary->counts = im->counts;
	summary->cpu_accounted = -1;
	summary->self_cpu_s = (double)(own_cpu_ns() - im->cpu_at_start) / 1e9;
	summary->self_peak_rss_kb = (uint64_t)ru.ru_maxrss;
	summary->bytes = im->sink->bytes;
	if (im->account.emitted)
		summary->self_us_per_sample =
			summary->self_cpu_s * 1e6 / (double)im->account.emitted;
	if (im->emit && !summary->n_unsymbolized)
		stats_unsymbolized(im->emit, summary);
}

static int finish(struct import *im)
{
	const struct session_summary *summary = &im->result->summary;
	struct stats stats = {0};
	int r = im->emit ? 0 : start_trace(im, 0);

	if (r >= 0)
		r = import_look_up_rest(im);
	if (r >= 0)
		r = writer_symbols_flush(im->writer);
	note_damage(im);
	note_unverified(im);
	note_short_chains(im);
	note_unopened(im);
	log_verbose("modules held %zu KiB at most", im->result->most_cached >> 10);
	note_other_events(im);
	fill_summary(im);
	stats_of(summary, &stats);
	if (r >= 0)
		r = writer_stats(im->writer, stats.stats, stats.n, summary->notes, summary->n_notes,
				 im->last_time);
	if (r >= 0)
		r = im->sink->flush(im->sink);
	fill_summary(im);
	return r < 0 ? trace(r) : 0;
}

/* The time of the last write to the file, by perf or by a copy. */
static int64_t written_at(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? st.st_mtim.tv_sec : INT64_MAX;
}

static int make(struct import *im)
{
	int r = uw_modules_new(&im->modules);

	im->outcome = malloc(sizeof(*im->outcome) +
			     (OUTCOME_KERNEL_FRAMES + UW_MAX_FRAMES) * sizeof(uint64_t));
	if (!im->outcome)
		r = -ENOMEM;
	if (r >= 0)
		r = process_table_new(im->modules, IMPORT_PROCESSES, &im->processes);
	if (r >= 0)
		r = loader_new_inline(NO_PROC, &im->loader);
	if (r >= 0)
		loader_set_places(im->loader, &im->options.places);
	return r < 0 ? trace(r) : 0;
}

static void import_free(struct import *im)
{
	import_unwind_deinit(im);
	import_kernel_deinit(im);
	(void)loader_free(im->loader);
	(void)emit_free(im->emit);
	(void)writer_free(im->writer);
	(void)uw_engine_free(im->engine);
	(void)process_table_free(im->processes);
	(void)uw_modules_free(im->modules);
	(void)perfdata_free(im->file);
	table_deinit(&im->cpu_counts);
	table_deinit(&im->group_values);
	table_deinit(&im->throttled);
	table_deinit(&im->paths);
	table_deinit(&im->replaced);
	free(im->path_files);
	free(im->first_gone);
	free(im->outcome);
	free(im->others);
	free(im);
}

static int run(struct import *im, int fd, char *error, size_t error_size)
{
	int r = perfdata_new(fd, NULL, &im->file, error, error_size);

	if (r < 0)
		return trace(r);
	r = make(im);
	if (r >= 0)
		r = take_all(im, error, error_size);
	if (r >= 0 && !im->event)
		r = choose_event(im, error, error_size);
	if (r >= 0)
		r = finish(im);
	if (r < 0)
		fill_summary(im);
	return r < 0 ? trace(r) : 0;
}

int import_run(int fd, const struct import_options *options, struct sink *sink,
	       struct import_result *result, char *error, size_t error_size)
{
	struct import *im = calloc(1, sizeof(*im));
	int r;

	*result = (struct import_result){0};
	*error = 0;
	if (!im) {
		(void)snprintf(error, error_size, "no memory");
		return fail(-ENOMEM);
	}
	im->options = *options;
	if (!im->options.held_bytes)
		im->options.held_bytes = IMPORT_HELD;
	im->sink = sink;
	im->result = result;
	im->kernel_copy = -1;
	im->written_at = written_at(fd);
	im->cpu_at_start = own_cpu_ns();
	r = run(im, fd, error, error_size);
	import_free(im);
	if (r < 0 && !*error)
		(void)snprintf(error, error_size, "cannot be imported: %s", strerror(-r));
	return r < 0 ? trace(r) : 0;
}
