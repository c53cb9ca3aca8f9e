/* test-emit-calls.c - each allocation with which the last stage, its tables of frames and modules, the epochs of JIT code and the names
 * of a process are made fails once: an error and nothing is kept, or all samples are written. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "session/pipeline/adopt.h"
#include "session/pipeline/cpu-counts.h"
#include "session/pipeline/emit.h"
#include "session/pipeline/jit-epochs.h"
#include "tests/unit/fail-calls.h"
#include "trace/writer.h"

enum { PID = 7, FRAMES = 60, SAMPLES = 3 };

static void end_nothing(void *arg)
{
	(void)arg;
}

/* ---- samples ---- */

struct emits {
	struct uw_modules *modules;
	struct process_table *processes;
	struct process *process;
	struct uw_space *space;
	struct sink *sink;
	struct writer *writer;
	struct loader *loader;
	struct emit *emit;
	struct account account;
	struct sink_count count; /* of all packets; 0: not known yet */
};

static int emit_samples(struct emits *e)
{
	int r = writer_start(e->writer);

	for (uint64_t i = 0; r >= 0 && i < SAMPLES; i++) {
		union {
			struct outcome o;
			uint8_t room[sizeof(struct outcome) + FRAMES * sizeof(uint64_t)];
		} u = {.o = {.kind = OUTCOME_SAMPLE, .n_user = FRAMES}};

		u.o.info = (struct sample_info){.process = process_ref(e->process),
						.space = uw_space_ref(e->space),
						.pid = PID,
						.tid = PID,
						.time = 1000 + i,
						.weight = 1};
		for (uint64_t k = 0; k < FRAMES; k++)
			u.o.frames[k] = 0x1000 + i * FRAMES + k;
		r = emit_outcome(e->emit, &u.o);
	}
	if (r >= 0)
		r = emit_tick(e->emit);
	if (r >= 0)
		emit_ask_names(e->emit);
	return r;
}

static int make_parts(struct emits *e)
{
	static const struct writer_options options = {.leader = {.counter = 1},
						      .frequency = 999,
						      .clock = CLOCK_MONOTONIC,
						      .sequence_id = 2,
						      .tool = "test"};
	int r = sink_memory_new(&e->sink);

	if (r >= 0)
		r = writer_new(&options, e->sink, &e->writer);
	if (r >= 0)
		r = loader_new_inline("/dev/null", &e->loader);
	if (r >= 0)
		r = emit_new(&(struct emit_context){.writer = e->writer,
						    .loader = e->loader,
						    .modules = e->modules,
						    .account = &e->account,
						    .clock = CLOCK_MONOTONIC},
			     &e->emit);
	return r;
}

static int make_emit(void *arg)
{
	struct sink_count count = {0};
	struct emits *e = arg;
	size_t len = 0;
	int r;

	e->sink = NULL;
	e->writer = NULL;
	e->loader = NULL;
	e->emit = NULL;
	r = make_parts(e);
	if (r >= 0)
		r = emit_samples(e);
	(void)emit_free(e->emit);
	(void)loader_free(e->loader);
	(void)writer_free(e->writer);
	if (e->sink) {
		const void *data = sink_memory_data(e->sink, &len);

		sink_count_add(&count, data, len);
	}
	(void)sink_free(e->sink);
	if (r >= 0 && e->count.packets && e->count.packets != count.packets)
		fail_msg("call %lu: %lu packets of %lu", calls_fail_at, count.packets,
			 e->count.packets);
	if (r >= 0)
		e->count = count;
	return r;
}

static void test_emit(void **state)
{
	struct emits e = {.sink = NULL};
	struct uw_map map = {.start = 0x1000, .end = 0x2000};

	(void)state;
	assert_int_equal(uw_modules_new(&e.modules), 0);
	assert_int_equal(process_table_new(e.modules, 16, &e.processes), 0);
	e.process = process_get(e.processes, PID);
	assert_int_equal(uw_module_new(UW_MODULE_FILE, "/bin/none", NULL, &map.module), 0);
	assert_int_equal(uw_space_new(&map, 1, 77, NULL, &e.space), 0);
	calls_sweep(&(struct calls_made){"emit", make_emit, end_nothing, &e});
	assert_int_equal(e.count.samples, SAMPLES);
	(void)uw_space_unref(e.space);
	(void)uw_module_unref(map.module);
	(void)process_table_free(e.processes);
	(void)uw_modules_free(e.modules);
}

/* ---- tables ---- */

static int make_epochs(void *arg)
{
	struct jit_epochs epochs = {0};
	uint64_t key;
	int r = 0;

	jit_epochs_read(&epochs, 1, true);
	for (uint64_t i = 0; r >= 0 && i < 100; i++) {
		r = jit_epochs_key(&epochs, arg, 0x1000 + i, 110, &key);
		if (r >= 0)
			r = jit_epochs_note(&epochs, key);
		assert_true(r < 0 || (key & JIT_ADDRESS) == 0x1000 + i);
	}
	if (r >= 0)
		r = jit_epochs_begin(&epochs, arg);
	jit_epochs_deinit(&epochs);
	return r;
}

static int make_counts(void *arg)
{
	struct cpu_counts counts = {0};
	int r = cpu_counts_grow(&counts, 4);

	(void)arg;
	if (r >= 0)
		r = cpu_counts_grow(&counts, 8);
	assert_int_equal(counts.n, r < 0 ? (counts.cpus ? 4 : 0) : 8);
	cpu_counts_deinit(&counts);
	return r;
}

/* A thread without memory has no name, or that of the process. */
static int make_names(void *arg)
{
	struct load_thread threads[] = {{.tid = PID, .comm = "a"}, {.tid = PID + 1, .comm = "b"}};
	struct load_answer a = {.threads = threads, .n_threads = ARRAY_SIZE(threads)};
	struct process_table *processes;
	struct process_thread *thread;
	struct process *process;
	int r = process_table_new(arg, 16, &processes);

	if (r < 0)
		return r;
	process = process_get(processes, PID);
	if (process) {
		adopt_names(processes, process, &a);
		thread = process_thread_get(process, PID + 1);
		assert_true(!thread || strlen(thread->comm) <= 1);
	}
	(void)process_table_free(processes);
	return process ? 0 : -ENOMEM;
}

static void test_tables(void **state)
{
	struct uw_modules *modules;
	struct uw_module *jit;

	(void)state;
	assert_int_equal(uw_module_new(UW_MODULE_JIT, "none", NULL, &jit), 0);
	assert_int_equal(uw_modules_new(&modules), 0);
	calls_sweep(&(struct calls_made){"epochs", make_epochs, end_nothing, jit});
	calls_sweep(&(struct calls_made){"counts", make_counts, end_nothing, NULL});
	calls_sweep(&(struct calls_made){"names", make_names, end_nothing, modules});
	(void)uw_modules_free(modules);
	(void)uw_module_unref(jit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_emit),
					   cmocka_unit_test(test_tables)};

	return cmocka_run_group_tests_name("emit-calls", tests, NULL, NULL);
}
