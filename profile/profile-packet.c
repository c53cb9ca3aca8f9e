/* profile-packet.c - what one packet of a trace adds.
 *
 * The order of things inside a packet is the format's: incremental state is cleared, then defaults,
 * then interned data, then the rest; so a packet's fields are gathered first and acted on after. */
#include <errno.h>
#include <math.h>
#include <inttypes.h>

#include "base/error.h"
#include "profile/profile-reader.h"
#include "protos/perf_config.fields.h"
#include "protos/perf_config.pb-c.h"
#include "protos/perfwind.fields.h"
#include "protos/trace.fields.h"
#include "protos/trace.pb-c.h"

/* ---- the event of a sequence ----
 *
 * What the defaults of a sequence define of its event: PerfSampleDefaults.timebase.
 * Numbers and names: protos/perf_config.proto; names as perf(1) and the trace format's own readers
 * show them. */

static const char *const counter_names[] = {
	[PB__PERF_EVENTS__COUNTER__SW_CPU_CLOCK] = "cpu-clock",
	[PB__PERF_EVENTS__COUNTER__SW_PAGE_FAULTS] = "page-faults",
	[PB__PERF_EVENTS__COUNTER__SW_TASK_CLOCK] = "task-clock",
	[PB__PERF_EVENTS__COUNTER__SW_CONTEXT_SWITCHES] = "context-switches",
	[PB__PERF_EVENTS__COUNTER__SW_CPU_MIGRATIONS] = "cpu-migrations",
	[PB__PERF_EVENTS__COUNTER__SW_PAGE_FAULTS_MIN] = "minor-faults",
	[PB__PERF_EVENTS__COUNTER__SW_PAGE_FAULTS_MAJ] = "major-faults",
	[PB__PERF_EVENTS__COUNTER__SW_ALIGNMENT_FAULTS] = "alignment-faults",
	[PB__PERF_EVENTS__COUNTER__SW_EMULATION_FAULTS] = "emulation-faults",
	[PB__PERF_EVENTS__COUNTER__SW_DUMMY] = "dummy",
	[PB__PERF_EVENTS__COUNTER__HW_CPU_CYCLES] = "cpu-cycles",
	[PB__PERF_EVENTS__COUNTER__HW_INSTRUCTIONS] = "instructions",
	[PB__PERF_EVENTS__COUNTER__HW_CACHE_REFERENCES] = "cache-references",
	[PB__PERF_EVENTS__COUNTER__HW_CACHE_MISSES] = "cache-misses",
	[PB__PERF_EVENTS__COUNTER__HW_BRANCH_INSTRUCTIONS] = "branch-instructions",
	[PB__PERF_EVENTS__COUNTER__HW_BRANCH_MISSES] = "branch-misses",
	[PB__PERF_EVENTS__COUNTER__HW_BUS_CYCLES] = "bus-cycles",
	[PB__PERF_EVENTS__COUNTER__HW_STALLED_CYCLES_FRONTEND] = "stalled-cycles-frontend",
	[PB__PERF_EVENTS__COUNTER__HW_STALLED_CYCLES_BACKEND] = "stalled-cycles-backend",
	[PB__PERF_EVENTS__COUNTER__HW_REF_CPU_CYCLES] = "ref-cycles",
};

static void event_set_counter(struct reader_event *event, uint64_t counter)
{
	const char *name = counter < ARRAY_SIZE(counter_names) ? counter_names[counter] : NULL;

	if (name)
		(void)snprintf(event->name, sizeof(event->name), "%s", name);
	else
		(void)snprintf(event->name, sizeof(event->name), "counter-%" PRIu64, counter);
	event->is_time = counter == PB__PERF_EVENTS__COUNTER__SW_CPU_CLOCK ||
			 counter == PB__PERF_EVENTS__COUNTER__SW_TASK_CLOCK;
	(void)snprintf(event->unit, sizeof(event->unit), "%s",
		       event->is_time ? "ns"
		       : counter == PB__PERF_EVENTS__COUNTER__HW_CPU_CYCLES ||
				       counter == PB__PERF_EVENTS__COUNTER__HW_REF_CPU_CYCLES
			       ? "cycles"
			       : "events");
}

void reader_event_default(struct reader_event *event)
{
	*event = (struct reader_event){0};
	event_set_counter(event, PB__PERF_EVENTS__COUNTER__SW_CPU_CLOCK);
}

static void event_set_other(struct reader_event *event)
{
	event->is_time = false;
	(void)snprintf(event->unit, sizeof(event->unit), "events");
}

static bool parse_tracepoint(struct reader_event *event, struct cursor c)
{
	struct wire_field f;

	event_set_other(event);
	while (wire_next(&c, &f))
		if (wire_is_bytes(&f, PERF_EVENTS__TRACEPOINT__NAME))
			(void)snprintf(event->name, sizeof(event->name), "%.*s",
				       (int)min_u64(f.len, 127), (const char *)f.data);
	return !c.bad;
}

static bool parse_raw(struct reader_event *event, struct cursor c)
{
	uint64_t values[PERF_EVENTS__RAW_EVENT__CONFIG2 + 1] = {0}; /* by field number */
	struct wire_field f;

	event_set_other(event);
	while (wire_next(&c, &f))
		if (f.number < ARRAY_SIZE(values) && wire_is(&f, f.number))
			values[f.number] = f.value;
	(void)snprintf(event->name, sizeof(event->name),
		       "raw.0x%" PRIx64 ".0x%" PRIx64 ".0x%" PRIx64 ".0x%" PRIx64,
		       values[PERF_EVENTS__RAW_EVENT__TYPE], values[PERF_EVENTS__RAW_EVENT__CONFIG],
		       values[PERF_EVENTS__RAW_EVENT__CONFIG1],
		       values[PERF_EVENTS__RAW_EVENT__CONFIG2]);
	return !c.bad;
}

/* ":u" and so on: what is counted, when not everything is.  A name that ends in it already stays. */
static void append_modifiers(struct reader_event *event, uint32_t modifiers)
{
	size_t len = strlen(event->name), n;
	char suffix[8];

	if (!modifiers)
		return;
	(void)snprintf(
		suffix, sizeof(suffix), ":%s%s%s",
		modifiers & 1u << PB__PERF_EVENTS__EVENT_MODIFIER__EVENT_MODIFIER_COUNT_USERSPACE
			? "u"
			: "",
		modifiers & 1u << PB__PERF_EVENTS__EVENT_MODIFIER__EVENT_MODIFIER_COUNT_KERNEL ? "k"
											       : "",
		modifiers & 1u << PB__PERF_EVENTS__EVENT_MODIFIER__EVENT_MODIFIER_COUNT_HYPERVISOR
			? "h"
			: "");
	n = strlen(suffix);
	if (len < n || strcmp(event->name + len - n, suffix) != 0)
		(void)snprintf(event->name + len, sizeof(event->name) - len, "%s", suffix);
}

static void set_name(struct reader_event *event, const struct wire_field *name, uint32_t modifiers)
{
	if (name->len)
		(void)snprintf(event->name, sizeof(event->name), "%.*s",
			       (int)min_u64(name->len, 127), (const char *)name->data);
	append_modifiers(event, modifiers);
}

static bool parse_timebase(struct reader_event *event, struct cursor c)
{
	struct wire_field f, name = {0};
	uint32_t modifiers = 0;
	bool good = true;

	reader_event_default(event);
	while (wire_next(&c, &f)) {
		if (wire_is(&f, PERF_EVENTS__TIMEBASE__PERIOD))
			event->period = f.value;
		else if (wire_is(&f, PERF_EVENTS__TIMEBASE__FREQUENCY))
			event->frequency = f.value;
		else if (wire_is(&f, PERF_EVENTS__TIMEBASE__COUNTER))
			event_set_counter(event, f.value);
		else if (wire_is_bytes(&f, PERF_EVENTS__TIMEBASE__TRACEPOINT))
			good &= parse_tracepoint(event, wire_message(&f));
		else if (wire_is_bytes(&f, PERF_EVENTS__TIMEBASE__RAW_EVENT))
			good &= parse_raw(event, wire_message(&f));
		else if (wire_is_bytes(&f, PERF_EVENTS__TIMEBASE__NAME))
			name = f;
		else if (wire_is(&f, PERF_EVENTS__TIMEBASE__MODIFIERS) && f.value < 32)
			modifiers |= 1u << f.value;
	}
	set_name(event, &name, modifiers);
	return good && !c.bad;
}

/* The name of one more follower.  READER_BROKEN: damaged. */
static int add_follower(struct reader *r, struct cursor c, uint32_t *names, uint32_t *n)
{
	struct wire_field f, name = {0};
	struct reader_event event;
	uint32_t modifiers = 0;
	bool good = true;
	int e;

	reader_event_default(&event);
	while (wire_next(&c, &f)) {
		if (wire_is(&f, FOLLOWER_EVENT__COUNTER))
			event_set_counter(&event, f.value);
		else if (wire_is_bytes(&f, FOLLOWER_EVENT__TRACEPOINT))
			good &= parse_tracepoint(&event, wire_message(&f));
		else if (wire_is_bytes(&f, FOLLOWER_EVENT__RAW_EVENT))
			good &= parse_raw(&event, wire_message(&f));
		else if (wire_is_bytes(&f, FOLLOWER_EVENT__NAME))
			name = f;
		else if (wire_is(&f, FOLLOWER_EVENT__MODIFIERS) && f.value < 32)
			modifiers |= 1u << f.value;
	}
	if (!good || c.bad)
		return READER_BROKEN;
	if (*n == READER_FOLLOWERS)
		return 0;
	set_name(&event, &name, modifiers);
	e = reader_string(r, event.name, strlen(event.name), &names[*n]);
	*n += e >= 0;
	return e < 0 ? trace(e) : 0;
}

/* PerfSampleDefaults.  READER_BROKEN: damaged. */
static int reader_event_parse(struct reader *r, struct reader_event *event, struct cursor c)
{
	uint32_t shard_count = 0, shard = 0, followers[READER_FOLLOWERS] = {0}, n = 0;
	struct wire_field f;
	bool good = true;
	int e = 0;

	reader_event_default(event);
	while (e == 0 && wire_next(&c, &f)) {
		if (wire_is_bytes(&f, PERF_SAMPLE_DEFAULTS__TIMEBASE))
			good &= parse_timebase(event, wire_message(&f));
		else if (wire_is(&f, PERF_SAMPLE_DEFAULTS__PROCESS_SHARD_COUNT))
			shard_count = (uint32_t)f.value;
		else if (wire_is(&f, PERF_SAMPLE_DEFAULTS__CHOSEN_PROCESS_SHARD))
			shard = (uint32_t)f.value;
		else if (wire_is_bytes(&f, PERF_SAMPLE_DEFAULTS__FOLLOWERS))
			e = add_follower(r, wire_message(&f), followers, &n);
	}
	event->shard_count = shard_count; /* behind: a timebase begins the event again */
	event->shard = shard;
	event->n_followers = n;
	memcpy(event->followers, followers, n * sizeof(*followers));
	if (e < 0)
		return trace(e);
	return e || !good || c.bad ? READER_BROKEN : 0;
}

/* ---- processes and threads ----
 *
 * Which process and which name a sample belongs to.
 *
 *   (sequence, pid) ──► process entry: one incarnation of a pid, between execs; what a sample refers to
 *                            ▲
 *   (process, tid) ────► thread entry: one name of a thread
 *
 * A pid has several incarnations (exec, reuse) and a thread several names; a sample belongs to the one that was written last before
 * it.  perfwind numbers the incarnations, because samples that had to wait come late.  For other producers, another name after
 * samples begins another incarnation.  An entry that samples made before a packet named it takes the first name that comes, so a
 * list of processes at the end of a trace serves as well. */

enum { MAX_ENTRIES = UINT32_MAX - 1 };

static uint64_t pair(uint32_t a, uint32_t b)
{
	return (uint64_t)a << 32 | b;
}

/* ---- processes ---- */
static int add_process(struct reader *r, const struct profile_process *process, uint32_t *ret_index)
{
	struct profile *p = r->profile;
	int e;

	if (p->n_processes >= MAX_ENTRIES)
		return fail(-E2BIG);
	e = reader_hold(r, HELD_PROCESSES, 1, sizeof(*process) + sizeof(*r->incarnations));
	if (e >= 0)
		e = ROOM_FOR_ONE(p->processes, p->n_processes, r->room_processes);
	if (e >= 0)
		e = ROOM_FOR_ONE(r->incarnations, p->n_processes, r->room_incarnations);
	if (e < 0)
		return trace(e);
	r->incarnations[p->n_processes] = (struct reader_incarnation){0};
	p->processes[p->n_processes] = *process;
	*ret_index = (uint32_t)p->n_processes++;
	return 0;
}

/* The sequence's own data about a pid comes before that of others. */
static bool current_process(const struct reader *r, uint32_t sequence, uint32_t pid,
			    uint32_t *ret_index)
{
	uint64_t index;

	if (!table_get(&r->process_by_sequence, pair(sequence, pid), &index) &&
	    !table_get(&r->process_by_pid, pid, &index))
		return false;
	*ret_index = (uint32_t)index;
	return true;
}

/* The entry of @pid's present incarnation, made if new. */
static int reader_current_process(struct reader *r, uint32_t sequence, uint32_t pid,
				  uint32_t *ret_index)
{
	int e;

	if (current_process(r, sequence, pid, ret_index))
		return 0;
	e = add_process(r, &(struct profile_process){.pid = pid}, ret_index);
	if (e >= 0)
		e = reader_put(r, HELD_NUMBERS, &r->process_by_pid, pid, *ret_index);
	return e < 0 ? trace(e) : 0;
}

/* The same incarnation under equal keys; a key that meets another's by chance gives a wrong name, no wrong
 * index. */
static uint64_t incarnation_key(uint32_t sequence, uint32_t pid, uint64_t incarnation)
{
	return hash_u64(incarnation ^ hash_u64(pair(sequence, pid)));
}

/* May the data that was read now stand in the entry @index, which does not have this number? */
static bool is_same(const struct reader *r, uint32_t index, const struct profile_process *read,
		    const struct reader_incarnation *incarnation)
{
	const struct profile_process *known = &r->profile->processes[index];

	if (!known->name || !read->name || known->name == read->name)
		return !r->incarnations[index].number || !incarnation->number ||
		       r->incarnations[index].sequence != incarnation->sequence;
	return !r->incarnations[index].number && !incarnation->number &&
	       !r->incarnations[index].sampled;
}

static int find_process(struct reader *r, const struct profile_process *read,
			const struct reader_incarnation *incarnation, uint32_t *ret_index)
{
	uint64_t key = incarnation_key(incarnation->sequence, read->pid, incarnation->number),
		 index;
	int e;

	if (incarnation->number && table_get(&r->process_by_incarnation, key, &index) &&
	    r->profile->processes[index].pid == read->pid) {
		*ret_index = (uint32_t)index;
		return 0;
	}
	if (!current_process(r, incarnation->sequence, read->pid, ret_index) ||
	    !is_same(r, *ret_index, read, incarnation)) {
		e = add_process(r, read, ret_index);
		if (e < 0)
			return trace(e);
	}
	if (!incarnation->number)
		return 0;
	if (!r->incarnations[*ret_index].number) {
		r->incarnations[*ret_index].number = incarnation->number;
		r->incarnations[*ret_index].sequence = incarnation->sequence;
	}
	e = reader_put(r, HELD_NUMBERS, &r->process_by_incarnation, key, *ret_index);
	return e < 0 ? trace(e) : 0;
}

static int reader_name_process(struct reader *r, uint32_t sequence, uint64_t incarnation,
			       const struct profile_process *read)
{
	const struct reader_incarnation now = {.number = incarnation, .sequence = sequence};
	struct profile_process *process;
	uint32_t index, name, cgroup;
	int e = find_process(r, read, &now, &index);

	if (e < 0)
		return trace(e);
	process = &r->profile->processes[index];
	name = read->name ? read->name : process->name;
	cgroup = read->cgroup ? read->cgroup : process->cgroup;
	*process = *read;
	process->name = name;
	process->cgroup = cgroup;
	if (incarnation)
		e = reader_put(r, HELD_NUMBERS, &r->process_by_sequence, pair(sequence, read->pid),
			       index);
	if (e >= 0)
		e = reader_put(r, HELD_NUMBERS, &r->process_by_pid, read->pid, index);
	return e < 0 ? trace(e) : 0;
}

/* ---- threads ---- */
static int add_thread(struct reader *r, const struct profile_thread *thread, uint32_t *ret_index)
{
	struct profile *p = r->profile;
	int e;

	if (p->n_threads >= MAX_ENTRIES)
		return fail(-E2BIG);
	e = reader_hold(r, HELD_THREADS, 1, sizeof(*thread) + 1);
	if (e >= 0)
		e = ROOM_FOR_ONE(p->threads, p->n_threads, r->room_threads);
	if (e >= 0)
		e = ROOM_FOR_ONE(r->thread_sampled, p->n_threads, r->room_thread_sampled);
	if (e < 0)
		return trace(e);
	r->thread_sampled[p->n_threads] = false;
	p->threads[p->n_threads] = *thread;
	*ret_index = (uint32_t)p->n_threads++;
	return 0;
}

static uint64_t name_key(const struct profile_thread *t)
{
	return hash_u64(hash_u64(pair(t->process, t->tid)) ^ t->name);
}

static bool find_named(const struct reader *r, const struct profile_thread *wanted,
		       uint32_t *ret_index)
{
	const struct profile_thread *t;
	uint64_t index;

	if (!table_get(&r->thread_by_name, name_key(wanted), &index))
		return false;
	t = &r->profile->threads[index];
	if (t->process != wanted->process || t->tid != wanted->tid || t->name != wanted->name)
		return false;
	*ret_index = (uint32_t)index;
	return true;
}

/* From here on @read->pid is this; @incarnation 0: unknown.  A @read without a name leaves the name as it
 * is. */
static int reader_name_thread(struct reader *r, uint32_t process, uint32_t tid, uint32_t name)
{
	const struct profile_thread wanted = {process, tid, name};
	struct profile *p = r->profile;
	uint32_t index;
	uint64_t now;
	int e = 0;

	if (!name)
		return 0;
	if (!find_named(r, &wanted, &index)) {
		if (table_get(&r->thread_by_key, pair(process, tid), &now) &&
		    (!p->threads[now].name || !r->thread_sampled[now])) {
			index = (uint32_t)now;
			p->threads[index].name = name;
		} else {
			e = add_thread(r, &wanted, &index);
		}
		if (e >= 0)
			e = reader_put(r, HELD_NUMBERS, &r->thread_by_name, name_key(&wanted),
				       index);
	}
	if (e >= 0)
		e = reader_put(r, HELD_NUMBERS, &r->thread_by_key, pair(process, tid), index);
	if (e >= 0)
		e = reader_put(r, HELD_NUMBERS, &r->thread_by_tid, tid, index);
	return e < 0 ? trace(e) : 0;
}

/* The last known process of a thread; false: unknown. */
static bool reader_process_of_thread(const struct reader *r, uint32_t tid, uint32_t *ret_process)
{
	uint64_t index;

	if (!table_get(&r->thread_by_tid, tid, &index))
		return false;
	*ret_process = r->profile->threads[index].process;
	return true;
}

static int current_thread(struct reader *r, uint32_t process, uint32_t tid, uint32_t *ret_index)
{
	struct profile_thread new = {process, tid, 0};
	const struct profile *p = r->profile;
	uint64_t index;
	int e;

	if (table_get(&r->thread_by_key, pair(process, tid), &index)) {
		*ret_index = (uint32_t)index;
		return 0;
	}
	/* A producer that does not number incarnations may rename a process and not name its threads again. */
	if (!r->incarnations[process].number && table_get(&r->thread_by_tid, tid, &index) &&
	    p->processes[p->threads[index].process].pid == p->processes[process].pid)
		new.name = p->threads[index].name;
	e = add_thread(r, &new, ret_index);
	if (e >= 0)
		e = reader_put(r, HELD_NUMBERS, &r->thread_by_key, pair(process, tid), *ret_index);
	if (e >= 0 && new.name)
		e = reader_put(r, HELD_NUMBERS, &r->thread_by_name, name_key(&new), *ret_index);
	if (e >= 0)
		e = reader_put(r, HELD_NUMBERS, &r->thread_by_tid, tid, *ret_index);
	return e < 0 ? trace(e) : 0;
}

/* ---- the thread of a sample ---- */
static int place_sample(struct reader *r, uint32_t sequence, uint32_t pid, uint32_t tid,
			struct profile_sample *sample)
{
	uint32_t process;
	int e = reader_current_process(r, sequence, pid, &process);

	if (e >= 0)
		e = current_thread(r, process, tid, &sample->thread);
	if (e < 0)
		return trace(e);
	r->incarnations[process].sampled = true;
	r->thread_sampled[sample->thread] = true;
	return 0;
}

/* ---- ProcessTree ---- */

enum {
	MAX_CMDLINE = 4096,
	MAX_CGROUP = 4096,
};

/* "/usr/bin/python3" -> "python3"; "postgres: walwriter" and "[kthreadd]" stay: only the part
 * before a blank is a path, and only argv[0] is. */
static size_t base_name_at(const char *text, size_t len)
{
	size_t at = 0;

	for (size_t i = 0; i + 1 < len && text[i] != ' '; i++)
		if (text[i] == '/')
			at = i + 1;
	return at;
}

static int read_process(struct reader *r, uint32_t sequence, struct cursor c)
{
	struct profile_process read = {0};
	struct wire_field f, first = {0}, cgroup = {0};
	char line[MAX_CMDLINE];
	bool has_pid = false, is_comm = false;
	uint64_t incarnation = 0;
	size_t n = 0, at;
	int e;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, PROCESS_TREE__PROCESS__PID)) {
			read.pid = (uint32_t)f.value;
			has_pid = true;
		} else if (wire_is(&f, PROCESS_TREE__PROCESS__PPID)) {
			read.ppid = (uint32_t)f.value;
		} else if (wire_is(&f, PROCESS_TREE__PROCESS__IS_KTHREAD)) {
			read.kernel_thread = f.value;
		} else if (wire_is(&f, PROCESS_TREE__PROCESS__CMDLINE_IS_COMM)) {
			is_comm = f.value;
		} else if (wire_is(&f, PROCESS_TREE__PROCESS__PERFWIND_INCARNATION)) {
			incarnation = f.value;
		} else if (wire_is_bytes(&f, PROCESS_TREE__PROCESS__PERFWIND_CGROUP)) {
			cgroup = f;
		} else if (wire_is_bytes(&f, PROCESS_TREE__PROCESS__CMDLINE)) {
			size_t len = min_u64(f.len, sizeof(line) - n);

			if (!first.data)
				first = f;
			else if (len)
				line[n++] = ' ';
			len = min_u64(f.len, sizeof(line) - n);
			if (len)
				memcpy(line + n, f.data, len);
			n += len;
		}
	}
	if (c.bad)
		return READER_BROKEN;
	if (!has_pid)
		return 0;
	at = is_comm || read.kernel_thread || !first.data
		     ? 0
		     : base_name_at((const char *)first.data, first.len);
	if (first.len > at) {
		e = reader_string(r, first.data + at, min_u64(first.len - at, 256), &read.name);
		if (e < 0)
			return trace(e);
	}
	e = reader_string(r, line, n, &read.cmdline);
	if (e >= 0 && cgroup.len)
		e = reader_string(r, cgroup.data, min_u64(cgroup.len, MAX_CGROUP), &read.cgroup);
	if (e >= 0)
		e = reader_name_process(r, sequence, incarnation, &read);
	return e < 0 ? trace(e) : 0;
}

static int read_thread(struct reader *r, uint32_t sequence, struct cursor c)
{
	uint32_t tid = 0, pid = 0, name = 0, process;
	bool has_tid = false;
	struct wire_field f;
	int e = 0;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, PROCESS_TREE__THREAD__TID)) {
			tid = (uint32_t)f.value;
			has_tid = true;
		} else if (wire_is(&f, PROCESS_TREE__THREAD__TGID)) {
			pid = (uint32_t)f.value;
		} else if (wire_is_bytes(&f, PROCESS_TREE__THREAD__NAME) && f.len) {
			e = reader_string(r, f.data, min_u64(f.len, 256), &name);
			if (e < 0)
				return trace(e);
		}
	}
	if (c.bad)
		return READER_BROKEN;
	if (!has_tid || (!pid && !reader_process_of_thread(r, tid, &process)))
		return 0;
	if (pid)
		e = reader_current_process(r, sequence, pid, &process);
	if (e >= 0)
		e = reader_name_thread(r, process, tid, name);
	return e < 0 ? trace(e) : 0;
}

static int read_process_tree(struct reader *r, uint32_t sequence, struct cursor c)
{
	struct wire_field f;
	int e = 0;

	while (wire_next(&c, &f)) {
		if (wire_is_bytes(&f, PROCESS_TREE__PROCESSES))
			e = read_process(r, sequence, wire_message(&f));
		else if (wire_is_bytes(&f, PROCESS_TREE__THREADS))
			e = read_thread(r, sequence, wire_message(&f));
		if (e)
			return e < 0 ? trace(e) : e;
	}
	return c.bad ? READER_BROKEN : 0;
}

/* ---- packets ---- */

struct packet {
	uint64_t timestamp;
	uint32_t sequence, flags, clock;
	uint32_t dropped; /* bits: 1, and causes */
	struct wire_field interned, defaults, sample, snapshot, tree, symbols, stats, compressed,
		config, trace_stats, system_info, process_stats, track, track_event;
};

static bool packet_gather(struct packet *p, struct cursor c)
{
	struct wire_field f;

	*p = (struct packet){0};
	while (wire_next(&c, &f)) {
		if (f.wire == WIRE_BYTES) {
			struct wire_field *to =
				f.number == TRACE_PACKET__INTERNED_DATA		  ? &p->interned
				: f.number == TRACE_PACKET__PERF_SAMPLE		  ? &p->sample
				: f.number == TRACE_PACKET__TRACE_PACKET_DEFAULTS ? &p->defaults
				: f.number == TRACE_PACKET__CLOCK_SNAPSHOT	  ? &p->snapshot
				: f.number == TRACE_PACKET__PROCESS_TREE	  ? &p->tree
				: f.number == TRACE_PACKET__MODULE_SYMBOLS	  ? &p->symbols
				: f.number == TRACE_PACKET__PERFWIND_STATS	  ? &p->stats
				: f.number == TRACE_PACKET__COMPRESSED_PACKETS	  ? &p->compressed
				: f.number == TRACE_PACKET__TRACE_CONFIG	  ? &p->config
				: f.number == TRACE_PACKET__TRACE_STATS		  ? &p->trace_stats
				: f.number == TRACE_PACKET__SYSTEM_INFO		  ? &p->system_info
				: f.number == TRACE_PACKET__PROCESS_STATS    ? &p->process_stats
				: f.number == TRACE_PACKET__TRACK_DESCRIPTOR ? &p->track
				: f.number == TRACE_PACKET__TRACK_EVENT	     ? &p->track_event
									     : NULL;

			if (to)
				*to = f;
		} else if (f.number == TRACE_PACKET__TIMESTAMP) {
			p->timestamp = f.value;
		} else if (f.number == TRACE_PACKET__TRUSTED_PACKET_SEQUENCE_ID) {
			p->sequence = (uint32_t)f.value;
		} else if (f.number == TRACE_PACKET__SEQUENCE_FLAGS) {
			p->flags |= (uint32_t)f.value;
		} else if (f.number == TRACE_PACKET__INCREMENTAL_STATE_CLEARED && f.value) {
			p->flags |= PB__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_INCREMENTAL_STATE_CLEARED;
		} else if (f.number == TRACE_PACKET__PREVIOUS_PACKET_DROPPED) {
			p->dropped = (uint32_t)f.value;
		} else if (f.number == TRACE_PACKET__TIMESTAMP_CLOCK_ID) {
			p->clock = (uint32_t)min_u64(f.value, UINT32_MAX);
		}
	}
	return !c.bad;
}

/* ---- sequences ---- */
static int get_sequence(struct reader *r, uint32_t id, struct sequence **ret)
{
	uint64_t index;
	int e;

	if (!table_get(&r->sequence_by_id, id, &index)) {
		e = ROOM_FOR_ONE(r->sequences, r->n_sequences, r->room_sequences);
		if (e >= 0)
			e = reader_hold(r, HELD_SEQUENCES, 0, sizeof(*r->sequences));
		if (e >= 0)
			e = reader_put(r, HELD_SEQUENCES, &r->sequence_by_id, id,
				       r->n_sequences + 1);
		if (e < 0)
			return trace(e);
		r->sequences[r->n_sequences] = (struct sequence){.id = id, .session = UINT8_MAX};
		reader_event_default(&r->sequences[r->n_sequences].event);
		index = ++r->n_sequences;
	}
	*ret = &r->sequences[index - 1];
	return 0;
}

static int read_defaults(struct reader *r, struct sequence *s, struct cursor c)
{
	struct wire_field f;
	int e = 0;

	while (e == 0 && wire_next(&c, &f)) {
		if (wire_is(&f, TRACE_PACKET_DEFAULTS__TIMESTAMP_CLOCK_ID))
			s->default_clock = (uint32_t)min_u64(f.value, UINT32_MAX);
		else if (wire_is_bytes(&f, TRACE_PACKET_DEFAULTS__PERF_SAMPLE_DEFAULTS))
			e = reader_event_parse(r, &s->event, wire_message(&f));
	}
	return !e && c.bad ? READER_BROKEN : e;
}

/* Clears, defaults, interned data. */
static int update_sequence(struct reader *r, struct sequence *s, const struct packet *p)
{
	int e;

	if (p->flags & PB__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_INCREMENTAL_STATE_CLEARED) {
		sequence_forget(r, s);
		s->valid = true;
	} else if (p->dropped) {
		s->valid = false;
	}
	e = p->defaults.data ? read_defaults(r, s, wire_message(&p->defaults)) : 0;
	if (e)
		return e;
	if (p->defaults.data && s->session != UINT8_MAX)
		r->events[s->session] = s->event;
	if (p->interned.data && s->valid)
		return reader_interned_data(r, s, wire_message(&p->interned));
	if (p->interned.data)
		return reader_count_add(r, STAT_interned_data_skipped_incremental_state_invalid, -1,
					1);
	return 0;
}

/* ---- samples ---- */
static uint8_t session_of(struct reader *r, struct sequence *s)
{
	if (s->session == UINT8_MAX) {
		/* More than anyone runs at a time share the last number. */
		s->session = (uint8_t)min_u64(r->n_sessions, UINT8_MAX - 1);
		if (r->n_sessions < UINT8_MAX - 1)
			r->n_sessions++;
		r->events[s->session] = s->event;
	}
	return s->session;
}

/* The clock of a packet and its time there; of clocks of the sequence, in terms of a common one. */
static uint64_t time_on_sequence(struct sequence *s, const struct packet *p, uint32_t *ret_clock)
{
	*ret_clock = p->clock ? p->clock : s->default_clock ? s->default_clock : CLOCK_ID_BOOTTIME;
	return reader_sequence_time(s, ret_clock, p->timestamp);
}

/* What is read of a sample's message. */
struct read_sample {
	struct profile_sample sample;
	struct raw_sample raw;
	uint32_t pid, tid, cpu;
};

static int add_sample(struct reader *r, struct sequence *s, const struct packet *p,
		      struct read_sample *read)
{
	struct profile *profile = r->profile;
	uint32_t clock;
	int e;

	e = reader_hold(r, HELD_SAMPLES, 1, sizeof(read->sample) + sizeof(read->raw));
	if (e >= 0)
		e = ROOM_FOR_ONE(profile->samples, profile->n_samples, r->room_samples);
	if (e >= 0)
		e = ROOM_FOR_ONE(r->raw, profile->n_samples, r->room_raw);
	if (e < 0)
		return trace(e);
	if (profile->n_samples >= UINT32_MAX)
		return fail(-E2BIG);
	read->sample.time = time_on_sequence(s, p, &clock);
	read->sample.cpu = (uint16_t)min_u64(read->cpu, UINT16_MAX);
	read->raw.clock = (uint8_t)min_u64(clock, UINT8_MAX);
	read->raw.sequence = (uint32_t)(s - r->sequences);
	e = place_sample(r, s->id, read->pid, read->tid, &read->sample);
	if (e < 0)
		return trace(e);
	r->raw[profile->n_samples] = read->raw;
	profile->samples[profile->n_samples++] = read->sample;
	return 0;
}

/* What a sample without a stack, or with a broken one, counts as. */
static int count_sample(struct reader *r, const struct profile_sample *sample, bool has_stack)
{
	switch (sample->skipped_reason) {
	case PB__PERF_SAMPLE__SAMPLE_SKIP_REASON__PROFILER_SKIP_READ_STAGE:
	case PB__PERF_SAMPLE__SAMPLE_SKIP_REASON__PROFILER_SKIP_UNWIND_STAGE:
		return reader_count_add(r, STAT_perf_samples_skipped, -1, 1);
	case PB__PERF_SAMPLE__SAMPLE_SKIP_REASON__PROFILER_SKIP_UNWIND_ENQUEUE:
		return reader_count_add(r, STAT_perf_samples_skipped_dataloss, -1, 1);
	default:
		break;
	}
	switch (sample->stack) {
	case UINT32_MAX:
		return has_stack
			       ? reader_count_add(r, STAT_stackprofile_invalid_callstack_id, -1, 1)
			       : 0;
	case STACK_EMPTY:
		return reader_count_add(r, STAT_stackprofile_empty_callstack, -1, 1);
	case STACK_BROKEN:
		return reader_count_add(r, STAT_stackprofile_invalid_frame_id, -1, 1);
	default:
		return 0;
	}
}

/* News of the producer: what the kernel lost, and that it gave up. */
static int read_news(struct reader *r, struct sequence *s, const struct packet *p, uint32_t cpu,
		     uint64_t lost, const struct wire_field *event)
{
	struct cursor c = wire_message(event);
	struct wire_field f;
	int e = 0;

	r->profile->lost_records += lost;
	r->guardrail |= event->data != NULL;
	if (lost)
		return reader_count_add(r, STAT_perf_cpu_lost_records, (int32_t)cpu, lost);
	while (!e && wire_next(&c, &f))
		if (wire_is(&f, PERF_SAMPLE__PRODUCER_EVENT__SOURCE_STOP_REASON) &&
		    f.value ==
			    PB__PERF_SAMPLE__PRODUCER_EVENT__DATA_SOURCE_STOP_REASON__PROFILER_STOP_GUARDRAIL)
			e = reader_count_set(r, STAT_perf_guardrail_stop_ts, session_of(r, s),
					     p->timestamp);
	return e;
}

static int add_count(struct reader *r, struct raw_sample *raw, uint64_t count)
{
	int e;

	if (raw->n_followers == READER_FOLLOWERS || r->n_follower_counts >= UINT32_MAX)
		return 0;
	e = reader_hold(r, HELD_FOLLOWERS, 1, sizeof(count));
	if (e >= 0)
		e = ROOM_FOR_ONE(r->follower_counts, r->n_follower_counts, r->room_follower_counts);
	if (e < 0)
		return trace(e);
	if (!raw->n_followers++)
		raw->first_follower = (uint32_t)r->n_follower_counts;
	r->follower_counts[r->n_follower_counts++] = count;
	return 0;
}

static int read_sample(struct reader *r, struct sequence *s, const struct packet *p)
{
	struct read_sample read = {.sample.stack = UINT32_MAX};
	struct cursor c = wire_message(&p->sample);
	uint64_t lost = 0;
	struct wire_field f, event = {0};
	bool has_stack = false;
	int e;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, PERF_SAMPLE__CPU))
			read.cpu = (uint32_t)f.value;
		else if (wire_is(&f, PERF_SAMPLE__PID))
			read.pid = (uint32_t)f.value;
		else if (wire_is(&f, PERF_SAMPLE__TID))
			read.tid = (uint32_t)f.value;
		else if (wire_is(&f, PERF_SAMPLE__CALLSTACK_IID)) {
			has_stack = true;
			(void)iids_get(&s->callstacks, f.value, &read.sample.stack);
		} else if (wire_is(&f, PERF_SAMPLE__CPU_MODE))
			read.sample.cpu_mode = (uint8_t)min_u64(f.value, UINT8_MAX);
		else if (wire_is(&f, PERF_SAMPLE__TIMEBASE_COUNT)) {
			read.sample.weight = f.value;
			read.raw.has_count = true;
		} else if (wire_is(&f, PERF_SAMPLE__FOLLOWER_COUNTS)) {
			e = add_count(r, &read.raw, f.value);
			if (e < 0)
				return trace(e);
		} else if (wire_is(&f, PERF_SAMPLE__UNWIND_ERROR))
			read.sample.unwind_error = (uint8_t)min_u64(f.value, UINT8_MAX);
		else if (wire_is(&f, PERF_SAMPLE__KERNEL_RECORDS_LOST))
			lost = f.value;
		else if (wire_is(&f, PERF_SAMPLE__SAMPLE_SKIPPED_REASON))
			read.sample.skipped_reason = (uint8_t)min_u64(f.value, UINT8_MAX);
		else if (wire_is_bytes(&f, PERF_SAMPLE__PRODUCER_EVENT))
			event = f;
	}
	if (c.bad)
		return READER_BROKEN;
	if (lost || event.data) /* no sample */
		return read_news(r, s, p, read.cpu, lost, &event);
	e = count_sample(r, &read.sample, has_stack);
	if (e < 0)
		return trace(e);
	if (read.sample.stack >= STACK_BROKEN)
		read.sample.stack = UINT32_MAX;
	read.sample.session = session_of(r, s);
	return add_sample(r, s, p, &read);
}

/* ---- a packet ---- */
static int count_on_sequence(struct reader *r, struct sequence *s, const struct packet *p,
			     bool is_first)
{
	/* Before the first packet that is there, a hole is not news. */
	if (p->dropped && !is_first) {
		s->dropped++;
		for (size_t i = 0; i < DROP_CAUSES; i++)
			s->causes[i] += p->dropped >> (i + 1) & 1;
	}
	if (!(p->flags & PB__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE))
		return 0;
	s->needs++;
	if (s->valid)
		return 0;
	s->unmet++;
	return reader_count_add(r, STAT_packet_skipped_seq_needs_incremental_state_invalid, -1, 1);
}

static int read_track_event(struct reader *r, struct sequence *s, const struct packet *p)
{
	uint32_t clock;
	uint64_t time = time_on_sequence(s, p, &clock);

	return reader_track_event(r, (uint8_t)min_u64(clock, UINT8_MAX), time,
				  wire_message(&p->track_event));
}

static int act_on_sequence(struct reader *r, const struct packet *p)
{
	size_t n_before = r->n_sequences;
	struct sequence *s = NULL;
	int e;

	if (p->flags || p->dropped || p->defaults.data || p->interned.data || p->sample.data ||
	    p->snapshot.data || p->track_event.data) {
		e = get_sequence(r, p->sequence, &s);
		if (e < 0)
			return trace(e);
		e = update_sequence(r, s, p);
		if (!e)
			e = count_on_sequence(r, s, p, r->n_sequences > n_before);
		if (e)
			return e < 0 ? trace(e) : e;
	}
	if (p->snapshot.data) {
		e = reader_clock_snapshot(r, s, wire_message(&p->snapshot));
		if (e)
			return e < 0 ? trace(e) : e;
	}
	if (p->track_event.data) {
		e = read_track_event(r, s, p);
		if (e)
			return e < 0 ? trace(e) : e;
	}
	if (!p->sample.data)
		return 0;
	if (p->flags & PB__TRACE_PACKET__SEQUENCE_FLAGS__SEQ_NEEDS_INCREMENTAL_STATE && !s->valid) {
		r->without_state++;
		return 0;
	}
	return read_sample(r, s, p);
}

int reader_packet(struct reader *r, const uint8_t *data, size_t len, struct wire_field *ret_packed)
{
	struct packet p;
	const struct wire_field *const parts[] = {&p.stats, &p.config, &p.trace_stats,
						  &p.system_info};
	int e;

	e = reader_hold(r, HELD_PACKETS, 1, 0);
	if (e < 0)
		return trace(e);
	if (!packet_gather(&p, cursor_of(data, len)))
		return READER_BROKEN;
	*ret_packed = p.compressed;
	if (p.compressed.data)
		return 0;
	r->marked.packets++;
	e = p.track.data ? reader_track_descriptor(r, wire_message(&p.track)) : 0;
	if (!e)
		e = act_on_sequence(r, &p);
	if (!e && p.tree.data)
		e = read_process_tree(r, p.sequence, wire_message(&p.tree));
	if (!e && p.symbols.data)
		e = reader_module_symbols(r, wire_message(&p.symbols));
	for (size_t i = 0; !e && i < ARRAY_SIZE(parts); i++)
		if (parts[i]->data)
			e = reader_statistics(r, p.sequence, parts[i]);
	if (!e && p.process_stats.data)
		e = reader_process_stats(r, wire_message(&p.process_stats));
	return e < 0 ? trace(e) : e;
}
