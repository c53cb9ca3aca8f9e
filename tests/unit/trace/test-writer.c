/* test-writer.c - the packets of a session, decoded by protobuf-c; allocation in the path of a
 * sample. */
#include <errno.h>
#include <time.h>

#include "protos/wire.h"
#include "trace/writer-private.h"
#include "tests/unit/cmocka.h"

struct session {
	struct sink *sink;
	struct writer *writer;
	Pb__Trace *trace;
};

static void open_session(struct session *s, const struct writer_options *options)
{
	struct writer_options standard = {.leader = {.counter = 1},
					  .frequency = 999,
					  .clock = CLOCK_MONOTONIC,
					  .sequence_id = 2,
					  .tool = "perfwind test"};

	assert_int_equal(sink_memory_new(&s->sink), 0);
	assert_int_equal(writer_new(options ? options : &standard, s->sink, &s->writer), 0);
	s->trace = NULL;
}

/* All packets so far. */
static Pb__Trace *decode(struct session *s)
{
	const void *data;
	size_t len;

	if (s->trace)
		pb__trace__free_unpacked(s->trace, NULL);
	data = sink_memory_data(s->sink, &len);
	s->trace = pb__trace__unpack(NULL, len, data);
	assert_non_null(s->trace);
	return s->trace;
}

static void close_session(struct session *s)
{
	if (s->trace)
		pb__trace__free_unpacked(s->trace, NULL);
	writer_free(s->writer);
	sink_free(s->sink);
}

static uint32_t one_frame(struct writer *w, const char *path, uint64_t rel_pc, const char *name)
{
	uint32_t mapping, frame;

	assert_int_equal(writer_mapping(w, path, "id", 2, 0, 0x1000, &mapping), 0);
	assert_int_equal(writer_frame(w, mapping, rel_pc, name, &frame), 0);
	return frame;
}

static void write_sample(struct writer *w, const uint32_t *frames, size_t n, uint64_t time)
{
	struct writer_sample sample = {
		.time = time, .cpu = 1, .pid = 300, .tid = 301, .cpu_mode = 2, .count = time};

	assert_int_equal(writer_callstack(w, frames, n, &sample.callstack), 0);
	assert_int_equal(writer_sample(w, &sample), 0);
}

static void test_head(void **state)
{
	struct session s;
	Pb__Trace *t;

	(void)state;
	open_session(&s, NULL);
	assert_int_equal(writer_start(s.writer), 0);
	t = decode(&s);
	assert_int_equal(t->n_packet, 5);
	assert_true(t->packet[0]->first_packet_on_sequence);
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(t->packet[i]->trusted_packet_sequence_id, 2);
		assert_int_equal(t->packet[i]->has_first_packet_on_sequence, i == 0);
	}
	assert_non_null(t->packet[0]->clock_snapshot);
	assert_int_equal(t->packet[0]->clock_snapshot->primary_trace_clock, 6);
	assert_int_equal(t->packet[0]->clock_snapshot->n_clocks, 6);
	assert_int_equal(t->packet[0]->clock_snapshot->clocks[0]->clock_id, 6);
	assert_true(clock_ns(CLOCK_BOOTTIME) - t->packet[0]->clock_snapshot->clocks[0]->timestamp <
		    NSEC_PER_SEC);
	assert_int_equal(t->packet[0]->clock_snapshot->clocks[4]->clock_id, 3);
	assert_true(clock_ns(CLOCK_MONOTONIC) - t->packet[0]->clock_snapshot->clocks[4]->timestamp <
		    NSEC_PER_SEC);
	assert_non_null(t->packet[1]->trace_uuid);
	assert_true(t->packet[1]->trace_uuid->msb != 0);
	assert_string_equal(t->packet[2]->system_info->tracing_service_version, "perfwind test");
	assert_string_equal(t->packet[2]->system_info->utsname->sysname, "Linux");
	assert_true(t->packet[2]->system_info->num_cpus >= 1);
	assert_int_equal(t->packet[3]->sequence_flags, 1);
	assert_int_equal(t->packet[3]->timestamp_clock_id, 6);
	assert_int_equal(t->packet[3]->trace_packet_defaults->timestamp_clock_id, 3);
	assert_int_equal(t->packet[4]->sequence_flags, 2);
	/* iid 0 must stand there, not be left out as a default. */
	assert_true(t->packet[4]->interned_data->build_ids[0]->has_iid);
	assert_true(t->packet[4]->interned_data->mapping_paths[0]->has_str);
	assert_int_equal(t->packet[4]->interned_data->n_function_names, 1);
	close_session(&s);
}

/* A service throws away whole packets that have one of these fields (facts: packet validation). */
static void assert_allowed(const struct session *s, size_t n_packets)
{
	static const uint32_t forbidden[] = {3, 10, 33, 35, 36, 50, 69, 79, 98, 124, 125, 133};
	struct cursor all, packet;
	const void *data, *bytes;
	size_t len, n = 0;

	data = sink_memory_data(s->sink, &len);
	all = cursor_of(data, len);
	for (; sink_next_packet(&all, &bytes, &len); n++) {
		packet = cursor_of(bytes, len);
		while (cursor_left(&packet)) {
			uint64_t tag = cursor_uleb(&packet), value = cursor_uleb(&packet);

			assert_true((tag & 7) == WIRE_VARINT || (tag & 7) == WIRE_BYTES);
			for (size_t i = 0; i < ARRAY_SIZE(forbidden); i++)
				assert_int_not_equal(tag >> 3, forbidden[i]);
			if ((tag & 7) == WIRE_BYTES)
				assert_non_null(cursor_bytes(&packet, value));
		}
		assert_false(packet.bad);
	}
	assert_false(all.bad);
	assert_int_equal(n, n_packets);
}

static void test_with_service(void **state)
{
	const struct writer_options options = {
		.leader = {.counter = 1}, .frequency = 1, .clock = CLOCK_MONOTONIC_RAW};
	struct session s;
	Pb__Trace *t;
	uint32_t frame;

	(void)state;
	open_session(&s, &options);
	assert_int_equal(writer_start(s.writer), 0);
	frame = one_frame(s.writer, "/a", 1, "f");
	write_sample(s.writer, &frame, 1, 5);
	t = decode(&s);
	assert_int_equal(t->n_packet, 3); /* snapshot, uuid and system info are the service's */
	for (size_t i = 0; i < t->n_packet; i++)
		assert_false(t->packet[i]->has_trusted_packet_sequence_id);
	assert_int_equal(t->packet[0]->trace_packet_defaults->timestamp_clock_id, 5);
	/* Every other kind of packet. */
	assert_int_equal(writer_clock_snapshot(s.writer), 0);
	assert_int_equal(
		writer_process(s.writer, &(struct writer_process){.pid = 3, .comm = "a"}, 1), 0);
	assert_int_equal(writer_thread(s.writer, 3, 4, "b", 1), 0);
	assert_int_equal(writer_lost(s.writer, 1, 5, 1), 0);
	assert_int_equal(writer_symbol(s.writer, 1, 1, &(struct writer_line){.function = "f"}, 1),
			 0);
	assert_int_equal(writer_symbol(s.writer, 2, 1, &(struct writer_line){.function = "f"}, 1),
			 0);
	assert_int_equal(writer_symbols_flush(s.writer), 0);
	assert_int_equal(writer_stats(s.writer, &(struct writer_stat){"x", 1}, 1, NULL, 0, 1), 0);
	assert_allowed(&s, 9);
	close_session(&s);
}

static void test_events(void **state)
{
	const struct writer_event followers[] = {
		{.counter = -1,
		 .tracepoint = "sched:sched_switch",
		 .name = "switches",
		 .modifiers = 1 | 4},
		{.counter = -1, .raw_type = 8, .raw_config = 0xabc, .raw_config2 = 7},
	};
	const struct writer_options options = {.leader = {.counter = 10, .modifiers = 1},
					       .followers = followers,
					       .n_followers = 2,
					       .period = 100000,
					       .clock = CLOCK_MONOTONIC,
					       .sequence_id = 1};
	const uint64_t counts[] = {1, UINT64_MAX};
	Pb__PerfSampleDefaults *d;
	Pb__PerfSample *sample;
	struct session s;
	Pb__Trace *t;

	(void)state;
	open_session(&s, &options);
	assert_int_equal(writer_clear_incremental_state(s.writer), 0);
	assert_int_equal(writer_sample(s.writer, &(struct writer_sample){.follower_counts = counts,
									 .n_follower_counts = 2}),
			 0);
	assert_int_equal(writer_sample(s.writer, &(struct writer_sample){.follower_counts = counts,
									 .n_follower_counts = 33}),
			 -E2BIG);
	t = decode(&s);
	d = t->packet[0]->trace_packet_defaults->perf_sample_defaults;
	assert_int_equal(d->timebase->interval_case, PB__PERF_EVENTS__TIMEBASE__INTERVAL_PERIOD);
	assert_int_equal(d->timebase->period, 100000);
	assert_int_equal(d->timebase->counter, 10);
	assert_null(d->timebase->name);
	assert_int_equal(d->timebase->n_modifiers, 1);
	assert_int_equal(d->timebase->modifiers[0], 1);
	assert_int_equal(d->n_followers, 2);
	assert_string_equal(d->followers[0]->tracepoint->name, "sched:sched_switch");
	assert_string_equal(d->followers[0]->tracepoint->filter, "");
	assert_string_equal(d->followers[0]->name, "switches");
	assert_int_equal(d->followers[0]->n_modifiers, 2);
	assert_int_equal(d->followers[1]->event_case, PB__FOLLOWER_EVENT__EVENT_RAW_EVENT);
	assert_int_equal(d->followers[1]->raw_event->type, 8);
	assert_int_equal(d->followers[1]->raw_event->config, 0xabc);
	assert_int_equal(d->followers[1]->raw_event->config2, 7);
	assert_int_equal(d->followers[1]->n_modifiers, 0);
	sample = t->packet[2]->perf_sample;
	assert_int_equal(sample->n_follower_counts, 2);
	assert_true(sample->follower_counts[1] == UINT64_MAX);
	close_session(&s);
	assert_int_equal(writer_new(&(struct writer_options){.clock = 99}, NULL, &s.writer),
			 -EINVAL);
}

static void test_sample(void **state)
{
	struct session s;
	struct writer_sample sample = {.time = UINT64_MAX,
				       .cpu = UINT32_MAX,
				       .pid = UINT32_MAX,
				       .tid = UINT32_MAX,
				       .cpu_mode = 5,
				       .count = UINT64_MAX,
				       .unwind_error = 6,
				       .skipped_reason = 2};
	uint32_t frames[3];
	Pb__TracePacket *p;
	Pb__Trace *t;

	(void)state;
	open_session(&s, NULL);
	assert_int_equal(writer_start(s.writer), 0);
	frames[0] = one_frame(s.writer, "/a", 1, "leaf");
	frames[1] = one_frame(s.writer, "/a", 2, "mid");
	frames[2] = one_frame(s.writer, "/b", 1, NULL);
	write_sample(s.writer, frames, 3, 1000);
	write_sample(s.writer, frames, 3, 2000);
	assert_int_equal(writer_sample(s.writer, &sample), 0);
	assert_int_equal(writer_lost(s.writer, 3, 77, 12345), 0);
	t = decode(&s);
	assert_int_equal(t->n_packet, 9);
	p = t->packet[5];
	assert_int_equal(p->timestamp, 1000);
	assert_false(p->has_timestamp_clock_id); /* the default states it */
	assert_int_equal(p->sequence_flags, 2);
	assert_int_equal(p->perf_sample->cpu, 1);
	assert_int_equal(p->perf_sample->pid, 300);
	assert_int_equal(p->perf_sample->tid, 301);
	assert_int_equal(p->perf_sample->cpu_mode, 2);
	assert_int_equal(p->perf_sample->timebase_count, 1000);
	assert_int_equal(p->perf_sample->callstack_iid, 1);
	assert_int_equal(p->interned_data->n_callstacks, 1);
	assert_int_equal(p->interned_data->callstacks[0]->frame_ids[0], frames[2]);
	p = t->packet[6];
	assert_null(p->interned_data);
	assert_int_equal(p->perf_sample->callstack_iid, 1);
	p = t->packet[7];
	assert_true(p->timestamp == UINT64_MAX);
	assert_true(p->perf_sample->cpu == UINT32_MAX && p->perf_sample->tid == UINT32_MAX);
	assert_true(p->perf_sample->timebase_count == UINT64_MAX);
	assert_false(p->perf_sample->has_callstack_iid);
	assert_int_equal(p->perf_sample->unwind_error, 6);
	assert_int_equal(p->perf_sample->sample_skipped_reason, 2);
	p = t->packet[8];
	assert_int_equal(p->timestamp, 12345);
	assert_int_equal(p->timestamp_clock_id, 6);
	assert_int_equal(p->sequence_flags, 2);
	assert_int_equal(p->perf_sample->cpu, 3);
	assert_int_equal(p->perf_sample->kernel_records_lost, 77);
	assert_false(p->perf_sample->has_pid);
	close_session(&s);
}

static void test_names(void **state)
{
	static const char args[] = "/usr/bin/python3\0-c\0print\0";
	const struct writer_process python = {.pid = 10,
					      .ppid = 1,
					      .uid = 1000,
					      .incarnation = 1234567890123,
					      .comm = "python3",
					      .cmdline = args,
					      .cmdline_len = sizeof(args) - 1,
					      .cgroup = "/box/\xff"};
	const struct writer_process kworker = {
		.pid = 11, .ppid = 2, .comm = "kworker/0:1", .kernel_thread = true};
	const struct writer_process zombie = {
		.pid = 12, .ppid = 1, .comm = "zombie", .cmdline = ""};
	Pb__ProcessTree *tree;
	struct session s;
	Pb__Trace *t;

	(void)state;
	open_session(&s, NULL);
	assert_int_equal(writer_process(s.writer, &python, 5), 0);
	assert_int_equal(writer_process(s.writer, &kworker, 6), 0);
	assert_int_equal(writer_process(s.writer, &zombie, 6), 0);
	assert_int_equal(writer_thread(s.writer, 10, 13, "worker", 7), 0);
	t = decode(&s);
	assert_int_equal(t->packet[0]->timestamp, 5);
	/* BOOTTIME, although the samples' clock is another one */
	assert_int_equal(t->packet[0]->timestamp_clock_id, 6);
	assert_int_equal(t->packet[3]->timestamp_clock_id, 6);
	tree = t->packet[0]->process_tree;
	assert_int_equal(tree->processes[0]->pid, 10);
	assert_int_equal(tree->processes[0]->ppid, 1);
	assert_int_equal(tree->processes[0]->uid, 1000);
	assert_int_equal(tree->processes[0]->perfwind_incarnation, 1234567890123);
	assert_int_equal(tree->processes[0]->perfwind_cgroup.len, 6);
	assert_memory_equal(tree->processes[0]->perfwind_cgroup.data, "/box/\xff", 6);
	assert_int_equal(tree->processes[0]->n_cmdline, 3);
	assert_string_equal(tree->processes[0]->cmdline[0], "/usr/bin/python3");
	assert_string_equal(tree->processes[0]->cmdline[2], "print");
	assert_false(tree->processes[0]->cmdline_is_comm || tree->processes[0]->is_kthread);
	assert_string_equal(tree->threads[0]->name, "python3");
	assert_int_equal(tree->threads[0]->tid, 10);
	tree = t->packet[1]->process_tree;
	assert_string_equal(tree->processes[0]->cmdline[0], "kworker/0:1");
	assert_true(tree->processes[0]->cmdline_is_comm && tree->processes[0]->is_kthread);
	assert_false(tree->processes[0]->has_perfwind_incarnation ||
		     tree->processes[0]->has_perfwind_cgroup);
	tree = t->packet[2]->process_tree;
	assert_string_equal(tree->processes[0]->cmdline[0], "zombie");
	assert_true(tree->processes[0]->cmdline_is_comm);
	tree = t->packet[3]->process_tree;
	assert_int_equal(tree->n_processes, 0);
	assert_int_equal(tree->threads[0]->tgid, 10);
	assert_int_equal(tree->threads[0]->tid, 13);
	assert_string_equal(tree->threads[0]->name, "worker");
	close_session(&s);
}

/* A command line of any size: cut, no more than the room. */
static void test_long_cmdline(void **state)
{
	size_t len = 100000;
	char *args = malloc(len);
	const struct writer_process first = {
		.pid = 1, .comm = "x", .cmdline = args, .cmdline_len = len};
	const struct writer_process second = {
		.pid = 2, .comm = "x", .cmdline = args, .cmdline_len = len};
	struct session s;
	Pb__Trace *t;

	(void)state;
	open_session(&s, NULL);
	memset(args, 'a', len);
	assert_int_equal(writer_process(s.writer, &first, 0), 0);
	for (size_t i = 1; i < len; i += 2)
		args[i] = 0;
	assert_int_equal(writer_process(s.writer, &second, 0), 0);
	t = decode(&s);
	assert_int_equal(strlen(t->packet[0]->process_tree->processes[0]->cmdline[0]), 4096);
	assert_int_equal(t->packet[1]->process_tree->processes[0]->n_cmdline, 64);
	free(args);
	close_session(&s);
}

/* The outermost line has the name of the frame, whatever alias DWARF gives it. */
static void test_one_name(void **state)
{
	const struct writer_line lines[] = {{"inner", "a.c", 3, 0}, {"__GI_alias", "a.c", 7, 0}};
	uint32_t mapping, frame;
	Pb__AddressSymbols *found;
	struct session s;

	(void)state;
	open_session(&s, NULL);
	assert_int_equal(writer_mapping(s.writer, "/x", NULL, 0, 0, 0, &mapping), 0);
	assert_int_equal(writer_frame(s.writer, mapping, 0x10, "public", &frame), 0);
	write_sample(s.writer, &frame, 1, 1);
	assert_int_equal(writer_symbol(s.writer, mapping, 0x10, lines, 2), 0);
	assert_int_equal(writer_symbols_flush(s.writer), 0);
	found = decode(&s)->packet[1]->module_symbols->address_symbols[0];
	assert_string_equal(found->lines[0]->function_name, "inner");
	assert_string_equal(found->lines[1]->function_name, "public");
	assert_int_equal(found->lines[1]->line_number, 7);
	close_session(&s);
}

/* A name that was looked up too early: the frame has the right one from then on. */
static void test_rename(void **state)
{
	uint32_t mapping, frame, guessed, right;
	Pb__AddressSymbols *found;
	struct writer_line line;
	struct session s;

	(void)state;
	open_session(&s, NULL);
	assert_int_equal(writer_mapping(s.writer, "/x", NULL, 0, 0, 0, &mapping), 0);
	assert_int_equal(writer_frame(s.writer, mapping, 0x10, "early", &frame), 0);
	assert_int_equal(writer_frame(s.writer, mapping, 0x10 | WRITER_GUESSED, "early", &guessed),
			 0);
	write_sample(s.writer, &frame, 1, 1);
	assert_int_equal(writer_name(s.writer, "right", &right), 0);
	line = (struct writer_line){.function = writer_name_text(s.writer, right)};
	assert_true(writer_rename(s.writer, mapping, 0x10, right, FRAME_JS));
	assert_false(writer_rename(s.writer, mapping, 0x10, right, FRAME_JS));
	assert_int_equal(writer_symbol(s.writer, mapping, 0x10, &line, 1), 0);
	assert_int_equal(writer_symbols_flush(s.writer), 0);
	found = decode(&s)->packet[1]->module_symbols->address_symbols[0];
	assert_string_equal(found->lines[0]->function_name, "right");
	/* Not written yet: it is written with the right name. */
	write_sample(s.writer, &guessed, 1, 2);
	assert_memory_equal(decode(&s)->packet[2]->interned_data->function_names[0]->str.data,
			    "right", 5);
	/* Of no frame of the tables nothing is known. */
	assert_true(writer_rename(s.writer, mapping, 0x99, right, FRAME_NATIVE));
	close_session(&s);
}

static void test_symbols(void **state)
{
	const struct writer_line lines[] = {{"inner", "a.c", 3, 0}, {"outer", NULL, 0, 0}};
	uint32_t mapping, mapping2, frame, unused;
	Pb__ModuleSymbols *m;
	struct session s;
	Pb__Trace *t;

	(void)state;
	open_session(&s, NULL);
	assert_int_equal(writer_mapping(s.writer, "[vdso]", "\1\0\2", 3, 0, 0, &mapping), 0);
	assert_int_equal(writer_mapping(s.writer, "/x", NULL, 0, 0, 0, &mapping2), 0);
	assert_int_equal(writer_frame(s.writer, mapping, 0x10, NULL, &frame), 0);
	assert_int_equal(writer_frame(s.writer, mapping2, 0x20, NULL, &unused), 0);
	write_sample(s.writer, &frame, 1, 1);
	assert_int_equal(writer_symbol(s.writer, mapping, 0x10, lines, 2), 0);
	assert_int_equal(writer_symbol(s.writer, mapping, 0x11, lines, 2),
			 0); /* the trace does not have this frame */
	assert_int_equal(writer_symbol(s.writer, mapping2, 0x20, lines, 2),
			 0); /* not used by a stack yet */
	assert_int_equal(writer_symbol(s.writer, 99, 0x20, lines, 2), -EINVAL);
	assert_int_equal(writer_symbol(s.writer, mapping, 0x10, lines, 0), 0);
	t = decode(&s);
	assert_int_equal(t->n_packet, 1); /* collected */
	assert_int_equal(writer_symbols_flush(s.writer), 0);
	assert_int_equal(writer_symbols_flush(s.writer), 0);
	t = decode(&s);
	assert_int_equal(t->n_packet, 2);
	assert_int_equal(t->packet[1]->sequence_flags, 2); /* as its frames */
	m = t->packet[1]->module_symbols;
	assert_string_equal(m->path, "/[vdso]"); /* as readers make it of the components */
	assert_int_equal(m->build_id.len, 3);
	assert_memory_equal(m->build_id.data, "\1\0\2", 3);
	assert_int_equal(m->n_address_symbols, 1);
	assert_int_equal(m->address_symbols[0]->address, 0x10);
	assert_int_equal(m->address_symbols[0]->n_lines, 2);
	assert_string_equal(m->address_symbols[0]->lines[0]->function_name, "inner");
	assert_string_equal(m->address_symbols[0]->lines[0]->source_file_name, "a.c");
	assert_int_equal(m->address_symbols[0]->lines[0]->line_number, 3);
	assert_null(m->address_symbols[0]->lines[1]->source_file_name);
	/* The unused frame got its name for when it is used; so has the other for its next
	 * generation. */
	write_sample(s.writer, &unused, 1, 2);
	t = decode(&s);
	assert_int_equal(t->packet[2]->interned_data->n_function_names, 1);
	assert_memory_equal(t->packet[2]->interned_data->function_names[0]->str.data, "outer", 5);
	/* Collected names are written before the next generation begins. */
	assert_int_equal(writer_symbol(s.writer, mapping, 0x10, lines, 2), 0);
	assert_int_equal(writer_clear_incremental_state(s.writer), 0);
	t = decode(&s);
	assert_non_null(t->packet[3]->module_symbols);
	assert_int_equal(t->packet[4]->sequence_flags, 1);
	close_session(&s);
}

/* Many symbols go out by themselves, in packets of bounded size. */
static void test_many_symbols(void **state)
{
	char name[400];
	const struct writer_line line = {name, NULL, 0, 0};
	uint32_t mapping, frame;
	size_t symbols = 0;
	struct session s;
	Pb__Trace *t;

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	open_session(&s, NULL);
	assert_int_equal(writer_mapping(s.writer, "/x", NULL, 0, 0, 0, &mapping), 0);
	for (uint32_t i = 1; i <= 1000; i++) {
		assert_int_equal(writer_frame(s.writer, mapping, i, NULL, &frame), 0);
		write_sample(s.writer, &frame, 1, i);
		assert_int_equal(writer_symbol(s.writer, mapping, i, &line, 1), 0);
	}
	assert_true(s.writer->symbol_bytes < 65 << 10);
	assert_int_equal(writer_symbols_flush(s.writer), 0);
	assert_int_equal(s.writer->symbol_bytes, 0);
	t = decode(&s);
	for (size_t i = 0; i < t->n_packet; i++)
		if (t->packet[i]->module_symbols) {
			symbols += t->packet[i]->module_symbols->n_address_symbols;
			assert_true(pb__trace_packet__get_packed_size(t->packet[i]) < 66 << 10);
		}
	assert_int_equal(symbols, 1000);
	close_session(&s);
}

/* The sink has lost packets: the next stack comes with everything it needs. */
static void test_renew(void **state)
{
	struct session s;
	uint32_t frame;
	Pb__Trace *t;

	(void)state;
	open_session(&s, NULL);
	assert_int_equal(writer_clear_incremental_state(s.writer), 0);
	frame = one_frame(s.writer, "/a", 1, "f");
	write_sample(s.writer, &frame, 1, 5);
	assert_int_equal(writer_renew(s.writer), 0); /* nothing to do */
	s.sink->renew = true;
	assert_int_equal(writer_renew(s.writer), WRITER_RENEWED);
	assert_false(s.sink->renew);
	assert_int_equal(writer_renew(s.writer), 0);
	write_sample(s.writer, &frame, 1, 6);
	t = decode(&s);
	assert_int_equal(t->n_packet, 6);
	for (size_t i = 0; i < 6; i += 3) {
		assert_int_equal(t->packet[i]->sequence_flags, 1);
		assert_non_null(t->packet[i]->trace_packet_defaults);
		assert_int_equal(t->packet[i + 1]->interned_data->n_function_names, 1);
		assert_int_equal(t->packet[i + 2]->interned_data->n_frames, 1);
		assert_int_equal(t->packet[i + 2]->interned_data->n_mappings, 1);
		assert_int_equal(t->packet[i + 2]->interned_data->n_callstacks, 1);
	}
	close_session(&s);
}

/* Tables at their bound begin again, and every stack can still be read from the packets of its
 * generation. */
static void test_bounds(void **state)
{
	uint32_t generation, mapping, frames[2], clears = 0, defined = 0;
	struct session s;
	Pb__Trace *t;

	(void)state;
	open_session(&s, NULL);
	s.writer->max_stack_bytes = 20000;
	s.writer->max_frame_bytes = 100000;
	assert_int_equal(writer_clear_incremental_state(s.writer), 0);
	assert_int_equal(writer_mapping(s.writer, "/jit", NULL, 0, 0, 0, &mapping), 0);
	generation = writer_generation(s.writer);
	assert_int_equal(writer_frame(s.writer, mapping, 1, "main", &frames[1]), 0);
	for (uint32_t i = 2; i < 5000; i++) {
		if (generation != writer_generation(s.writer)) {
			generation = writer_generation(s.writer);
			assert_int_equal(writer_mapping(s.writer, "/jit", NULL, 0, 0, 0, &mapping),
					 0);
			assert_int_equal(writer_frame(s.writer, mapping, 1, "main", &frames[1]), 0);
		}
		assert_int_equal(writer_frame(s.writer, mapping, i, NULL, &frames[0]), 0);
		write_sample(s.writer, frames, 2, i);
	}
	assert_true(generation > 1);
	assert_true(stacks_bytes(&s.writer->intern.stacks) < 30000);
	assert_true(intern_frame_bytes(&s.writer->intern) < 110000);
	t = decode(&s);
	for (size_t i = 0; i < t->n_packet; i++) {
		const Pb__TracePacket *p = t->packet[i];

		if (p->sequence_flags & 1) {
			clears++;
			defined = 0;
		}
		for (size_t k = 0; p->interned_data && k < p->interned_data->n_frames; k++)
			defined++;
		if (!p->perf_sample)
			continue;
		/* Each sample is a new stack of main and a new frame. */
		assert_int_equal(p->interned_data->callstacks[0]->iid,
				 p->perf_sample->callstack_iid);
		assert_int_equal(p->interned_data->n_frames, defined == 2 ? 2 : 1);
	}
	assert_true(clears > generation);
	close_session(&s);
}

/* All memory of frames and stacks goes, and the next stack comes with everything it needs, under new ids. */
static void test_forget(void **state)
{
	uint32_t generation, frame, callstack;
	struct session s;
	Pb__Trace *t;

	(void)state;
	open_session(&s, NULL);
	assert_int_equal(writer_clear_incremental_state(s.writer), 0);
	generation = writer_generation(s.writer);
	frame = one_frame(s.writer, "/a", 1, "f");
	write_sample(s.writer, &frame, 1, 5);
	assert_int_equal(writer_forget(s.writer), 0);
	assert_true(writer_generation(s.writer) != generation);
	assert_null(s.writer->intern.frames);
	assert_null(s.writer->intern.frame_slots);
	assert_null(s.writer->intern.stacks.slots);
	assert_int_equal(intern_frame_bytes(&s.writer->intern), 0);
	assert_int_equal(writer_callstack(s.writer, &frame, 1, &callstack), -ESTALE);
	frame = one_frame(s.writer, "/a", 1, "f");
	write_sample(s.writer, &frame, 1, 6);
	t = decode(&s);
	assert_int_equal(t->n_packet, 6);
	assert_int_equal(t->packet[3]->sequence_flags, 1);
	assert_int_equal(t->packet[5]->interned_data->n_frames, 1);
	assert_int_equal(t->packet[5]->interned_data->n_mappings, 1);
	assert_int_equal(t->packet[5]->interned_data->n_callstacks, 1);
	assert_int_equal(t->packet[5]->interned_data->n_function_names, 1);
	assert_true(t->packet[5]->perf_sample->callstack_iid >
		    t->packet[2]->perf_sample->callstack_iid);
	close_session(&s);
}

/* Once warm, nothing is allocated: the buffers stay where they are. */
static void test_no_allocation(void **state)
{
	uint32_t frames[50];
	const void *packet, *pending, *slots;
	struct session s;

	(void)state;
	open_session(&s, NULL);
	for (uint32_t i = 0; i < 50; i++)
		frames[i] = one_frame(s.writer, "/a", i + 1, "f");
	write_sample(s.writer, frames, 50, 1);
	write_sample(s.writer, frames, 49, 1);
	packet = s.writer->packet.data;
	pending = s.writer->intern.pending.data;
	slots = s.writer->intern.stacks.slots;
	for (uint32_t i = 0; i < 1000; i++) {
		frames[0] = 1 + i % 50;
		write_sample(s.writer, frames, 50, i);
	}
	assert_ptr_equal(packet, s.writer->packet.data);
	assert_ptr_equal(pending, s.writer->intern.pending.data);
	assert_ptr_equal(slots, s.writer->intern.stacks.slots);
	close_session(&s);
}

static void test_stats(void **state)
{
	static const struct writer_stat stats[] = {{"lost.samples", 3}, {"self.cpu_s", 0.25}};
	static const char *const notes[] = {"kernel names are hidden"};
	Pb__PerfwindStats *m;
	struct session s;
	Pb__Trace *t;

	(void)state;
	open_session(&s, NULL);
	assert_int_equal(writer_stats(s.writer, stats, 2, notes, 1, 99), 0);
	assert_int_equal(writer_stats(s.writer, NULL, 0, NULL, 0, 100), 0);
	t = decode(&s);
	m = t->packet[0]->perfwind_stats;
	assert_int_equal(m->n_stats, 2);
	assert_string_equal(m->stats[1]->name, "self.cpu_s");
	assert_true(m->stats[1]->value > 0.24 && m->stats[1]->value < 0.26);
	assert_string_equal(m->notes[0], "kernel names are hidden");
	assert_int_equal(m->boottime, 99);
	assert_int_equal(t->packet[1]->perfwind_stats->n_stats, 0);
	close_session(&s);
}

/* A sink that fails: its error comes back from everything that writes. */
static int refuse(struct sink *sink, const void *data, size_t len)
{
	(void)sink;
	(void)data;
	(void)len;
	return -ENOSPC;
}

static void test_sink_error(void **state)
{
	const struct writer_options options = {
		.leader = {.counter = 1}, .period = 1, .clock = CLOCK_MONOTONIC};
	struct sink sink = {.write = refuse};
	struct writer *w;

	(void)state;
	assert_int_equal(writer_new(&options, &sink, &w), 0);
	assert_int_equal(writer_start(w), -ENOSPC);
	assert_int_equal(writer_sample(w, &(struct writer_sample){0}), -ENOSPC);
	assert_int_equal(writer_lost(w, 0, 1, 1), -ENOSPC);
	assert_int_equal(writer_process(w, &(struct writer_process){.pid = 1, .comm = "x"}, 0),
			 -ENOSPC);
	assert_int_equal(writer_stats(w, NULL, 0, NULL, 0, 0), -ENOSPC);
	assert_null(writer_free(w));
	assert_null(writer_free(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_head),	     cmocka_unit_test(test_with_service),
		cmocka_unit_test(test_renew),	     cmocka_unit_test(test_events),
		cmocka_unit_test(test_sample),	     cmocka_unit_test(test_names),
		cmocka_unit_test(test_long_cmdline), cmocka_unit_test(test_one_name),
		cmocka_unit_test(test_rename),	     cmocka_unit_test(test_symbols),
		cmocka_unit_test(test_many_symbols), cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_forget),	     cmocka_unit_test(test_no_allocation),
		cmocka_unit_test(test_stats),	     cmocka_unit_test(test_sink_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
