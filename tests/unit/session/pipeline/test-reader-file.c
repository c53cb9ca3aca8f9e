/* test-reader-file.c - the reader in front of a source that is not a ring, and the counts of CPUs. */
#include <string.h>

#include "session/pipeline/cpu-counts.h"
#include "session/pipeline/reader.h"
#include "tests/unit/cmocka.h"

enum { SLOTS = 4, PID = 77, FAR_CPU = 300 };

struct fixture {
	struct uw_modules *modules;
	struct process_table *processes;
	struct slot_queue entries;
	struct waker awake;
	struct account account;
	struct reader *reader;
	const struct record_item *items;
	size_t n, at;
	uint64_t put, lost; /* masks of positions; records */
};

static int next(void *arg, struct record_item *item)
{
	struct fixture *f = arg;

	if (f->at == f->n)
		return RECORDS_DONE;
	*item = f->items[f->at];
	item->position = f->at++;
	return 0;
}

static void put(void *arg, uint32_t ring, uint64_t position)
{
	struct fixture *f = arg;

	(void)ring;
	assert_false(f->put & 1ull << position); /* each once */
	f->put |= 1ull << position;
}

static int lost(void *arg, uint32_t cpu, uint64_t records, uint64_t time)
{
	struct fixture *f = arg;

	assert_int_equal(cpu, 1);
	assert_int_equal(time, 9);
	f->lost += records;
	return 0;
}

static void fixture_init(struct fixture *f, const struct record_item *items, size_t n)
{
	const struct reader_options options = {
		.frames = FRAMES_USER | FRAMES_KERNEL,
		.by_callchain = true,
	};
	struct reader_context context = {
		.records = {.next = next, .put = put, .arg = f},
		.entries = &f->entries,
		.unwinder = &f->awake,
		.account = &f->account,
		.lost = lost,
		.arg = f,
	};

	*f = (struct fixture){.items = items, .n = n};
	assert_int_equal(uw_modules_new(&f->modules), 0);
	assert_int_equal(process_table_new(f->modules, 16, &f->processes), 0);
	assert_int_equal(slot_queue_init(&f->entries, SLOTS, sizeof(struct entry)), 0);
	context.processes = f->processes;
	assert_int_equal(reader_new(&options, &context, &f->reader), 0);
}

static void fixture_deinit(struct fixture *f)
{
	(void)reader_free(f->reader);
	slot_queue_deinit(&f->entries);
	(void)process_table_free(f->processes);
	(void)uw_modules_free(f->modules);
}

static struct record_item sample(uint32_t pid, uint32_t cpu, uint64_t weight, const uint64_t *chain)
{
	return (struct record_item){
		.kind = RECORD_SAMPLE,
		.ring = cpu,
		.cpu = cpu,
		.sample = {.pid = pid,
			   .tid = pid,
			   .cpu = cpu,
			   .period = weight,
			   .chain = chain,
			   .n_chain = 2},
	};
}

/* Nothing of the process is asked for: there is no loader.  Weights add up by CPU, of any number. */
static void test_samples(void **state)
{
	static const uint64_t user[] = {CHAIN_USER, 0x1000},
			      kernel[] = {CHAIN_KERNEL, -4096ull * 4};
	const struct record_item items[] = {
		sample(PID, 1, 5, user), sample(PID, FAR_CPU, 7, kernel), sample(0, 1, 3, user),
		sample(PID, 1, 2, user), sample(PID, FAR_CPU, 1, user),
	};
	static const struct {
		uint64_t position, count;
		bool user;
	} want[] = {{0, 5, true}, {1, 7, false}, {3, 7, true}, {4, 8, true}};
	struct fixture f;
	bool more;

	(void)state;
	fixture_init(&f, items, ARRAY_SIZE(items));
	assert_int_equal(reader_round(f.reader, &more), 0);
	assert_false(more);
	assert_int_equal(slot_queue_ready(&f.entries), ARRAY_SIZE(want));
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		const struct entry *e = slot_queue_at(&f.entries, i);

		assert_int_equal(e->kind, ENTRY_SAMPLE);
		assert_int_equal(e->position, want[i].position);
		assert_int_equal(e->info.count, want[i].count);
		assert_int_equal(e->info.cpu, items[want[i].position].cpu);
		assert_int_equal(e->user_state, want[i].user);
		assert_true(!e->info.space == !want[i].user);
		assert_false(e->undecided);
	}
	assert_int_equal(f.account.received, 4);
	assert_int_equal(f.account.queued, 4);
	assert_int_equal(f.account.idle, 1);
	assert_int_equal(f.account.idle_weight, 3);
	assert_int_equal(f.put, 1 << 2); /* that of the idle task; the others are in use */
	fixture_deinit(&f);
}

/* The queue is full: the sample that found no slot is taken by the next round, with its own weight. */
static void test_full(void **state)
{
	static const uint64_t user[] = {CHAIN_USER, 0x1000};
	struct record_item items[SLOTS + 1];
	const struct entry *last;
	struct fixture f;
	bool more;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(items); i++)
		items[i] = sample(PID, 0, 10, user);
	fixture_init(&f, items, ARRAY_SIZE(items));
	assert_int_equal(reader_round(f.reader, &more), 0);
	assert_true(more);
	assert_int_equal(reader_round(f.reader, &more), 0);
	assert_true(more);
	for (size_t i = 0; i < SLOTS; i++) /* as their answers do */
		reader_entry_drop(slot_queue_at(&f.entries, i));
	slot_queue_pop(&f.entries, SLOTS);
	assert_int_equal(reader_round(f.reader, &more), 0);
	assert_false(more);
	assert_int_equal(f.put, (1 << SLOTS) - 1);
	last = slot_queue_at(&f.entries, SLOTS);
	assert_int_equal(last->info.weight, 10);
	assert_int_equal(last->info.count, 10 * (SLOTS + 1));
	fixture_deinit(&f);
}

static struct record_item event(uint32_t type, uint64_t time)
{
	return (struct record_item){
		.kind = RECORD_EVENT,
		.ring = 1,
		.cpu = 1,
		.event = {.type = type, .time = time, .pid = PID, .tid = PID},
	};
}

static void test_events(void **state)
{
	struct record_item items[] = {
		event(PERF_RECORD_COMM, 1),	  event(PERF_RECORD_THROTTLE, 3),
		event(PERF_RECORD_UNTHROTTLE, 8), event(PERF_RECORD_LOST, 9),
		event(PERF_RECORD_EXIT, 10),
	};
	const struct process *process;
	struct fixture f;
	bool more;

	(void)state;
	items[0].event.comm.name = "worker";
	items[1].event.throttle.on = true;
	items[3].event.lost.count = 6;
	fixture_init(&f, items, ARRAY_SIZE(items));
	assert_int_equal(reader_round(f.reader, &more), 0);
	process = process_find(f.processes, PID);
	assert_non_null(process);
	assert_int_equal(process->maps_state, PROCESS_MAPS_KNOWN);
	assert_true(process->exited);
	assert_int_equal(f.account.throttled_ns, 5);
	assert_int_equal(f.account.lost_records, 6);
	assert_int_equal(f.account.lost_sideband_records, 0);
	assert_int_equal(f.lost, 6);
	assert_int_equal(f.put, 31);
	assert_true(reader_idle(f.reader));
	fixture_deinit(&f);
}

static void test_cpu_counts(void **state)
{
	struct cpu_counts counts = {0};

	(void)state;
	assert_int_equal(cpu_counts_grow(&counts, 2), 0);
	counts.cpus[1].count = 4;
	assert_int_equal(cpu_counts_grow(&counts, 100), 0);
	assert_int_equal(counts.cpus[1].count, 4);
	assert_int_equal(counts.cpus[99].count, 0);
	assert_int_equal(cpu_count_throttle(&counts.cpus[0], false, 50),
			 0); /* the begin was not seen */
	assert_int_equal(cpu_count_throttle(&counts.cpus[0], true, 60), 0);
	assert_int_equal(cpu_count_throttle(&counts.cpus[0], false, 75), 15);
	assert_int_equal(cpu_count_throttle(&counts.cpus[0], false, 80), 0);
	assert_int_equal(cpu_count_throttle(&counts.cpus[0], true, 90), 0);
	assert_int_equal(cpu_count_throttle(&counts.cpus[0], false, 85),
			 0); /* time never goes back */
	cpu_counts_deinit(&counts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_samples),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_cpu_counts),
	};

	return cmocka_run_group_tests_name("reader-file", tests, NULL, NULL);
}
