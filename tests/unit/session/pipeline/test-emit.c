/* test-emit.c - what the trace contains of processes and threads before each sample: incarnations of one pid
 * that take turns, renames, samples that had to wait. */
#include <errno.h>
#include <time.h>

#include "trace/writer-private.h"
#include "session/pipeline/emit.h"
#include "tests/unit/cmocka.h"

struct fixture {
	struct uw_modules *modules;
	struct process_table *processes;
	struct sink *sink;
	struct writer *writer;
	struct account account;
	struct emit *emit;
};

static void fixture_init(struct fixture *f, size_t max_processes)
{
	const struct writer_options options = {.leader = {.counter = 1},
					       .frequency = 999,
					       .clock = CLOCK_MONOTONIC,
					       .sequence_id = 2,
					       .tool = "perfwind test"};

	*f = (struct fixture){0};
	assert_int_equal(uw_modules_new(&f->modules), 0);
	assert_int_equal(process_table_new(f->modules, max_processes, &f->processes), 0);
	assert_int_equal(sink_memory_new(&f->sink), 0);
	assert_int_equal(writer_new(&options, f->sink, &f->writer), 0);
	assert_int_equal(emit_new(&(struct emit_context){.writer = f->writer,
							 .modules = f->modules,
							 .account = &f->account},
				  &f->emit),
			 0);
}

static void fixture_deinit(struct fixture *f)
{
	f->emit = emit_free(f->emit);
	writer_free(f->writer);
	sink_free(f->sink);
	f->processes = process_table_free(f->processes);
	f->modules = uw_modules_free(f->modules);
}

/* A sample as the reader takes it, to be emitted later. */
static struct outcome taken(struct fixture *f, uint32_t pid, uint32_t tid, uint64_t time)
{
	struct process *process = process_get(f->processes, pid);

	assert_non_null(process);
	return (struct outcome){
		.kind = OUTCOME_SAMPLE,
		.skipped = SKIP_MAPS_TIMEOUT,
		.info = {.process = process_ref(process), .pid = pid, .tid = tid, .time = time}};
}

static void emit(struct fixture *f, const struct outcome *o)
{
	assert_int_equal(emit_outcome(f->emit, o), 0);
}

static void sample(struct fixture *f, uint32_t pid, uint32_t tid, uint64_t time)
{
	struct outcome o = taken(f, pid, tid, time);

	emit(f, &o);
}

/* The packets: "pid=name#incarnation" of a process (incarnations numbered a, b, ... as they are met), "tid:name"
 * of a thread, the time of a sample. */
static void assert_packets(struct fixture *f, const char *expected)
{
	char all[1024] = "";
	uint64_t seen[26] = {0};
	Pb__Trace *trace;
	const void *data;
	size_t len, n = 0;

	data = sink_memory_data(f->sink, &len);
	trace = pb__trace__unpack(NULL, len, data);
	assert_non_null(trace);
	for (size_t i = 0; i < trace->n_packet; i++) {
		const Pb__TracePacket *packet = trace->packet[i];

		for (size_t k = 0; packet->process_tree && k < packet->process_tree->n_processes;
		     k++) {
			const Pb__ProcessTree__Process *p = packet->process_tree->processes[k];
			unsigned number = 0;

			while (seen[number] && seen[number] != p->perfwind_incarnation)
				number++;
			seen[number] = p->perfwind_incarnation;
			n += (size_t)snprintf(all + n, sizeof(all) - n, "%d=%s#%c%.*s ", p->pid,
					      p->cmdline[0], 'a' + (int)number,
					      (int)p->perfwind_cgroup.len,
					      (const char *)p->perfwind_cgroup.data);
		}
		for (size_t k = 0; packet->process_tree && k < packet->process_tree->n_threads; k++)
			n += (size_t)snprintf(all + n, sizeof(all) - n, "%d:%s ",
					      packet->process_tree->threads[k]->tid,
					      packet->process_tree->threads[k]->name);
		if (packet->perf_sample && packet->perf_sample->has_pid)
			n += (size_t)snprintf(all + n, sizeof(all) - n, "%d ",
					      (int)packet->timestamp);
	}
	pb__trace__free_unpacked(trace, NULL);
	assert_string_equal(all, expected);
}

static void comm(struct fixture *f, uint32_t pid, uint32_t tid, const char *name, bool exec,
		 uint64_t time)
{
	assert_int_equal(process_comm(f->processes, pid, tid, name, exec, time), 0);
}

/* Samples that lack functions in the first half second of a process that was seen to begin are counted apart. */
static void lacking_at_start(void **state)
{
	struct fixture f;
	struct outcome o;

	(void)state;
	fixture_init(&f, 16);
	comm(&f, 5, 5, "python3", true, 1);
	for (uint32_t pid = 5; pid < 7; pid++) /* 6 was there before */
		for (uint64_t ms = 1; ms < 1001; ms += 333) {
			o = taken(&f, pid, pid, ms * NSEC_PER_MSEC);
			o.skipped = SKIP_NONE;
			o.result = UW_WHOLE;
			o.lacks_functions = true;
			emit(&f, &o);
		}
	assert_int_equal(f.account.lacks_functions, 8);
	assert_int_equal(f.account.lacks_at_start, 2);
	fixture_deinit(&f);
}

static void named_once(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f, 10);
	comm(&f, 5, 5, "sh", true, 1);
	sample(&f, 5, 5, 10);
	sample(&f, 5, 5, 11);
	assert_int_equal(process_fork(f.processes, 5, 5, 6, 5), 0);
	sample(&f, 5, 6, 12);
	sample(&f, 5, 5, 13);
	process_set_cmdline(process_find(f.processes, 5), strdup("/bin/sh"), 8);
	process_find(f.processes, 5)->announced = 0;
	sample(&f, 5, 6, 14);
	assert_packets(&f, "5=sh#a 5:sh 10 11 6:sh 12 13 5=/bin/sh#a 5:sh 14 ");
	fixture_deinit(&f);
}

static void named_again_in_another_cgroup(void **state)
{
	struct outcome late;
	struct fixture f;

	(void)state;
	fixture_init(&f, 10);
	comm(&f, 5, 5, "sh", true, 1);
	sample(&f, 5, 5, 10);
	process_set_cgroup(process_find(f.processes, 5), strdup("/box"));
	sample(&f, 5, 5, 11);
	process_set_cgroup(process_find(f.processes, 5), strdup("/box"));
	sample(&f, 5, 5, 12);
	/* a child elsewhere; a program that begins where the one before it was */
	assert_int_equal(process_fork(f.processes, 6, 5, 6, 5), 0);
	sample(&f, 6, 6, 13);
	process_set_cgroup(process_find(f.processes, 6), strdup("/in"));
	late = taken(&f, 6, 6, 14);
	comm(&f, 6, 6, "cc", true, 15);
	sample(&f, 6, 6, 16);
	emit(&f, &late);
	assert_packets(&f, "5=sh#a 5:sh 10 5=sh#a/box 5:sh 11 12 6=sh#b/box 6:sh 13 "
			   "6=cc#c/in 6:cc 16 6=sh#b/in 6:sh 14 ");
	fixture_deinit(&f);
}

static void late_samples_of_an_earlier_incarnation(void **state)
{
	struct outcome first, second, third;
	struct fixture f;

	(void)state;
	fixture_init(&f, 10);
	comm(&f, 5, 5, "sh", true, 1);
	first = taken(&f, 5, 5, 10);
	second = taken(&f, 5, 6, 11);
	comm(&f, 5, 5, "qsort", true, 12);
	third = taken(&f, 5, 5, 13);
	emit(&f, &first);
	emit(&f, &third);
	emit(&f, &second);
	sample(&f, 5, 5, 14);
	/* the pid again, by fork */
	assert_int_equal(process_fork(f.processes, 9, 1, 9, 1), 0);
	comm(&f, 9, 9, "one", true, 15);
	first = taken(&f, 9, 9, 20);
	assert_int_equal(process_exit(f.processes, 9, 9), 0);
	assert_int_equal(process_fork(f.processes, 9, 1, 9, 1), 0);
	comm(&f, 9, 9, "two", true, 25);
	sample(&f, 9, 9, 30);
	emit(&f, &first);
	sample(&f, 9, 9, 31);
	assert_packets(
		&f, "5=sh#a 5:sh 10 5=qsort#b 5:qsort 13 5=sh#a 5:sh 6:sh 11 5=qsort#b 5:qsort 14 "
		    "9=two#c 9:two 30 9=one#d 9:one 20 9=two#c 9:two 31 ");
	fixture_deinit(&f);
}

/* A sample has the name it was taken under, whenever it comes. */
static void late_samples_from_before_a_rename(void **state)
{
	struct outcome before, waited;
	struct fixture f;

	(void)state;
	fixture_init(&f, 10);
	comm(&f, 5, 5, "main", true, 1);
	assert_int_equal(process_fork(f.processes, 5, 5, 6, 5), 0);
	before = taken(&f, 5, 6, 10);
	waited = taken(&f, 5, 6, 11);
	comm(&f, 5, 6, "worker", false, 12);
	emit(&f, &before);
	sample(&f, 5, 6, 12);
	emit(&f, &waited);
	sample(&f, 5, 6, 13);
	/* the main thread's name is its process's, too, where no command line is known */
	waited = taken(&f, 5, 5, 14);
	comm(&f, 5, 5, "renamed", false, 15);
	emit(&f, &waited);
	sample(&f, 5, 5, 16);
	assert_packets(&f, "5=main#a 5:main 6:main 10 6:worker 12 6:main 11 6:worker 13 "
			   "5=main#a 5:main 14 5=renamed#a 5:renamed 16 ");
	fixture_deinit(&f);
}

/* What /proc shows of a thread after it was written without a name. */
static void names_learned_late(void **state)
{
	struct process_thread *thread;
	struct fixture f;

	(void)state;
	fixture_init(&f, 10);
	sample(&f, 5, 6, 10);
	thread = process_thread_get(process_find(f.processes, 5), 6);
	(void)snprintf(thread->comm, sizeof(thread->comm), "worker");
	sample(&f, 5, 6, 11);
	assert_packets(&f, "5=#a 5: 6: 10 6:worker 11 ");
	fixture_deinit(&f);
}

/* A process that was evicted while it lived goes on as the same; a new incarnation does not. */
static void evicted_and_back(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f, 1);
	sample(&f, 5, 5, 10);
	sample(&f, 7, 7, 11);
	assert_int_equal(process_table_count(f.processes), 1);
	sample(&f, 5, 5, 12);
	assert_int_equal(process_fork(f.processes, 7, 1, 7, 1), 0);
	sample(&f, 7, 7, 13);
	assert_packets(&f, "5=#a 5: 10 7=#b 7: 11 5=#a 5: 12 7=#c 7: 13 ");
	fixture_deinit(&f);
}

/* A sink that has lost packets: defaults, names and threads come again before the next sample. */
static void named_again(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f, 10);
	comm(&f, 5, 5, "sh", true, 1);
	assert_int_equal(process_fork(f.processes, 5, 5, 6, 5), 0);
	sample(&f, 5, 5, 10);
	sample(&f, 5, 6, 11);
	f.sink->renew = true;
	sample(&f, 5, 6, 12);
	assert_false(f.sink->renew);
	sample(&f, 5, 5, 13);
	emit_announce_again(f.emit);
	sample(&f, 5, 5, 14);
	assert_packets(&f, "5=sh#a 5:sh 10 6:sh 11 "
			   "5=sh#a 5:sh 6:sh 12 13 "
			   "5=sh#a 5:sh 14 ");
	fixture_deinit(&f);
}

/* No kernel writes this frame, but a file may: it is one like any other, and no free place of a cache. */
static void kernel_address_of_0(void **state)
{
	struct outcome *o = calloc(1, sizeof(*o) + sizeof(o->frames[0]));
	struct fixture f;

	(void)state;
	assert_non_null(o);
	fixture_init(&f, 10);
	for (uint64_t time = 10; time < 12; time++) {
		*o = taken(&f, 5, 5, time);
		o->skipped = SKIP_NONE;
		o->n_kernel = 1;
		o->frames[0] = 0;
		emit(&f, o);
	}
	assert_int_equal(f.account.emitted, 2);
	assert_packets(&f, "5=#a 5: 10 11 ");
	fixture_deinit(&f);
	free(o);
}

/* The stack ids of the samples, in order; 0: none. */
static void assert_stacks(struct fixture *f, const uint64_t *stacks, const uint64_t *counts,
			  size_t n)
{
	Pb__Trace *trace;
	const void *data;
	size_t len, k = 0;

	data = sink_memory_data(f->sink, &len);
	trace = pb__trace__unpack(NULL, len, data);
	assert_non_null(trace);
	for (size_t i = 0; i < trace->n_packet; i++) {
		const Pb__PerfSample *s = trace->packet[i]->perf_sample;

		if (!s || !s->has_pid)
			continue;
		assert_true(k < n);
		assert_int_equal(s->callstack_iid, stacks[k]);
		assert_int_equal(s->timebase_count, counts[k++]);
	}
	assert_int_equal(k, n);
	pb__trace__free_unpacked(trace, NULL);
}

/* Weight without a sample has the last stack of its own process, while the trace's reader knows that, or the
 * frame [failed: thinned]. */
static void owed_with_last_stack(void **state)
{
	static const uint64_t stacks[] = {1, 2, 3, 2, 4}, counts[] = {5, 1, 2, 50, 60};
	struct outcome *o = calloc(1, sizeof(*o) + sizeof(o->frames[0]));
	struct sample_info info;
	struct fixture f;

	(void)state;
	assert_non_null(o);
	fixture_init(&f, 10);
	info = (struct sample_info){.process = process_get(f.processes, 5),
				    .pid = 5,
				    .tid = 5,
				    .weight = 5,
				    .count = 5};
	assert_int_equal(emit_owed(f.emit, &info), 0);
	for (uint32_t pid = 5; pid < 7; pid++) {
		*o = taken(&f, pid, pid, 10);
		o->skipped = SKIP_NONE;
		o->info.count = pid - 4;
		o->n_kernel = 1;
		o->frames[0] = 0;
		o->result = pid == 5 ? UW_WHOLE : UW_CUT; /* another stack */
		emit(&f, o);
	}
	info.count = 50;
	assert_int_equal(emit_owed(f.emit, &info), 0);
	f.sink->renew = true;
	info.count = 60;
	assert_int_equal(emit_owed(f.emit, &info), 0);
	assert_stacks(&f, stacks, counts, ARRAY_SIZE(stacks));
	assert_int_equal(f.account.weight, 3 * 5);
	assert_int_equal(f.account.emitted, 5);
	assert_int_equal(f.account.received, 3);
	assert_int_equal(f.account.whole, 2); /* as the last one of the process was */
	assert_int_equal(f.account.cut, 1);
	assert_int_equal(f.account.failed[UW_THINNED], 2);
	fixture_deinit(&f);
	free(o);
}

static void put_weight(struct fixture *f, uint32_t pid, uint64_t weight, uint64_t *count, int error)
{
	struct outcome o = taken(f, pid, pid, 10);

	o.info.weight = weight;
	o.info.count = *count += weight;
	assert_int_equal(emit_outcome(f->emit, &o), error);
}

static int no_write(struct sink *sink, const void *data, size_t len)
{
	(void)sink;
	(void)data;
	(void)len;
	return -ENOSPC;
}

/* A sample that is dropped, or not written, or owed weight: it is not in the weight of the next one of its CPU, of another process. */
static void unwritten_weight(void **state)
{
	static const uint64_t stacks[5] = {0}, counts[] = {1, 3, 6, 7, 9};
	int (*write)(struct sink *, const void *, size_t);
	uint64_t count = 0, other = 0;
	struct sample_info info;
	struct outcome o;
	struct fixture f;

	(void)state;
	fixture_init(&f, 10);
	put_weight(&f, 5, 1, &count, 0);
	sink_memory_limit(f.sink, f.sink->bytes);
	put_weight(&f, 5, 1000, &count, 0);
	put_weight(&f, 5, 1000, &count, 0);
	sink_memory_limit(f.sink, SIZE_MAX);
	put_weight(&f, 6, 2, &count, 0);
	write = f.sink->write;
	f.sink->write = no_write;
	put_weight(&f, 5, 500, &count, -ENOSPC);
	info = (struct sample_info){.process = process_get(f.processes, 5),
				    .pid = 5,
				    .weight = 50,
				    .count = count += 50};
	assert_int_equal(emit_owed(f.emit, &info), -ENOSPC);
	f.sink->write = write;
	put_weight(&f, 6, 3, &count, 0);
	o = taken(&f, 6, 6, 10); /* another CPU */
	o.info.cpu = 1;
	o.info.count = other += 7;
	emit(&f, &o);
	put_weight(&f, 6, 3, &count, 0);
	assert_stacks(&f, stacks, counts, ARRAY_SIZE(counts));
	fixture_deinit(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lacking_at_start),
		cmocka_unit_test(named_once),
		cmocka_unit_test(named_again_in_another_cgroup),
		cmocka_unit_test(late_samples_of_an_earlier_incarnation),
		cmocka_unit_test(late_samples_from_before_a_rename),
		cmocka_unit_test(names_learned_late),
		cmocka_unit_test(evicted_and_back),
		cmocka_unit_test(named_again),
		cmocka_unit_test(kernel_address_of_0),
		cmocka_unit_test(owed_with_last_stack),
		cmocka_unit_test(unwritten_weight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
