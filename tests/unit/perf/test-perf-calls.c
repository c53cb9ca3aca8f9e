/* test-perf-calls.c - each allocation and system call with which rings are read in order, events are named, opened and counted, and
 * what the kernel has is found out, fails once: an error with a line and nothing is kept, or it is there without what is not
 * essential. */
#include <sched.h>
#include <sys/mount.h>

#include "tests/unit/fail-calls.h"

#include "perf/counters.h"
#include "perf/gate.h"
#include "perf/probe.h"
#include "perf/source.h"
#include "perf/spec-list.h"
#include "perf/spec-usdt.h"
#include "tests/unit/perf/fake-machine.h"

/* ---- rings ---- */

enum { RINGS = 20, RECORDS = 200, RING_BYTES = 8192 };

struct rings {
	struct fake_ring fake[RINGS];
	struct ring *ring[RINGS];
	struct merge *merge;
};
static void end_rings(void *arg)
{
	struct rings *m = arg;

	(void)merge_free(m->merge);
	for (size_t i = 0; i < RINGS; i++)
		(void)ring_free(m->ring[i]);
}
/* A ring from its begin on, with RECORDS samples. */
static void fill(struct fake_ring *fake)
{
	static struct fake_record record;

	memset(fake->base, 0, FAKE_PAGE);
	fake->head = 0;
	for (uint64_t time = 1; time <= RECORDS; time++) {
		fake_begin(&record, PERF_RECORD_SAMPLE, 0);
		fake_word(&record, 1);
		fake_word(&record, time);
		assert_true(fake_ring_add(fake, &record));
	}
	fake_ring_publish(fake);
}
/* All records, none of which is given back before the last: lists grow. */
static int merge_all(struct merge *merge, size_t *ret_n)
{
	static struct merge_item items[RINGS * RECORDS];
	size_t n = 0;
	int r = merge_begin(merge, RECORDS + 1);

	while (r >= 0 && (r = merge_next(merge, &items[n])) == 0) {
		assert_true(!n || items[n].time >= items[n - 1].time);
		n++;
	}
	for (size_t i = 0; i < n; i++)
		merge_put(merge, items[i].ring, items[i].position);
	*ret_n = n;
	return r == MERGE_DONE ? 0 : r;
}
static int make_rings(void *arg)
{
	struct rings *m = arg;
	size_t n = 0;
	int r;

	memset(m->ring, 0, sizeof(m->ring));
	m->merge = NULL;
	r = merge_new(&m->merge);
	for (size_t i = 0; i < RINGS && r >= 0; i++) {
		uint32_t index;

		fill(&m->fake[i]);
		r = ring_new(m->fake[i].base, FAKE_PAGE, RING_BYTES, &m->ring[i]);
		if (r >= 0)
			r = merge_add(m->merge, m->ring[i], &timed, &index);
	}
	if (r >= 0)
		r = merge_all(m->merge, &n);
	if (r >= 0 && n != (size_t)RINGS * RECORDS)
		fail_msg("call %lu: %zu records of %d", calls_fail_at, n, RINGS * RECORDS);
	if (r < 0)
		end_rings(m);
	return r;
}

static void test_rings(void **state)
{
	static struct rings rings;

	(void)state;
	for (size_t i = 0; i < RINGS; i++)
		fake_ring_init(&rings.fake[i], RING_BYTES, 0);
	calls_sweep(&(struct calls_made){"rings", make_rings, end_rings, &rings});
	for (size_t i = 0; i < RINGS; i++)
		fake_ring_deinit(&rings.fake[i]);
}

/* ---- names of events ---- */

struct specs {
	const char *text;
	struct perf_spec specs[8];
	size_t n;
	char error[512];
};
static int make_specs(void *arg)
{
	const struct perf_spec_env env = {.root = ""};
	struct specs *s = arg;
	int r;

	s->error[0] = 0;
	r = perf_spec_parse(&env, s->text, s->specs, ARRAY_SIZE(s->specs), &s->n, s->error,
			    sizeof(s->error));
	if (r < 0 && !s->error[0])
		fail_msg("%s, call %lu: %d without a line", s->text, calls_fail_at, r);
	return r;
}
static void end_specs(void *arg)
{
	struct specs *s = arg;

	for (size_t i = 0; i < s->n; i++)
		perf_spec_deinit(&s->specs[i]);
}

static void count_name(void *arg, enum perf_kind kind, const char *name)
{
	(void)kind;
	(void)name;
	++*(size_t *)arg;
}
struct names {
	size_t all; /* 0: not known yet */
	char *fields;
};
static int make_names(void *arg)
{
	const struct perf_spec_env env = {.root = ""};
	struct names *names = arg;
	size_t n = 0;
	int r = perf_spec_list(&env, count_name, &n);

	if (r >= 0)
		r = perf_spec_fields(&env, "sched:sched_switch", &names->fields);
	if (r >= 0 && names->all && n != names->all)
		fail_msg("call %lu: %zu names of %zu", calls_fail_at, n, names->all);
	if (r >= 0)
		names->all = n;
	return r;
}
static void end_names(void *arg)
{
	free(((struct names *)arg)->fields);
}

static int no_probe(void *arg, const struct usdt_probe *probe)
{
	(void)arg;
	(void)probe;
	return 0;
}
static int make_usdt(void *arg)
{
	return spec_usdt_each(arg, no_probe, NULL);
}
static void end_nothing(void *arg)
{
	(void)arg;
}

struct cpus {
	uint32_t *online, *listed;
};
static int make_cpus(void *arg)
{
	struct cpus *c = arg;
	size_t n;
	int r = perf_online_cpus(&c->online, &n);

	if (r < 0)
		return r;
	r = perf_parse_cpu_list("0-3,8", &c->listed, &n);
	if (r < 0)
		free(c->online);
	else
		assert_int_equal(n, 5);
	return r;
}
static void end_cpus(void *arg)
{
	free(((struct cpus *)arg)->online);
	free(((struct cpus *)arg)->listed);
}

static void test_names(void **state)
{
	static const char *const texts[] = {"sched:sched_switch", "uprobe:/proc/self/exe:main"};
	struct names names = {.all = 0};
	struct cpus cpus;
	char path[] = "/proc/self/exe";

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct specs specs = {.text = texts[i]};

		if (make_specs(&specs) < 0) {
			print_message("%s: %s\n", texts[i], specs.error);
			continue;
		}
		end_specs(&specs);
		calls_sweep(&(struct calls_made){texts[i], make_specs, end_specs, &specs});
	}
	calls_sweep(&(struct calls_made){"probes", make_usdt, end_nothing, path});
	calls_sweep(&(struct calls_made){"CPUs", make_cpus, end_cpus, &cpus});
	if (make_names(&names) < 0) {
		print_message("no tracepoints here, or for this user\n");
		skip();
	}
	end_names(&names);
	calls_sweep(&(struct calls_made){"names", make_names, end_names, &names});
}

/* ---- events ---- */

static struct perf_spec software(uint64_t config)
{
	return (struct perf_spec){.name = "software",
				  .type = PERF_TYPE_SOFTWARE,
				  .config = config,
				  .code = FRAMES_USER,
				  .counter = -1};
}

/* An event that a failure refused has a reason; one that is open is counted. */
static int make_counters(void *arg)
{
	static const uint8_t groups[] = {0, 1, 1};
	static struct perf_spec specs[3];
	const struct counters_options options = {.specs = specs, .groups = groups, .n = 3};
	struct counters **c = arg;
	char error[256] = "";
	int r;

	specs[0] = software(PERF_COUNT_SW_PAGE_FAULTS);
	specs[1] = software(PERF_COUNT_SW_TASK_CLOCK);
	specs[2] = software(PERF_COUNT_SW_CONTEXT_SWITCHES);
	r = counters_new(&options, c);
	if (r < 0)
		return r;
	for (uint32_t row = 0; row < 6 && r == 0; row++) {
		const struct counters_target self = {
			.tid = 0, .cpu = -1, .cgroup_fd = -1, .row = row};

		r = counters_add(*c, &self, error, sizeof(error));
		if (r < 0 && !error[0])
			fail_msg("call %lu: %d without a line", calls_fail_at, r);
	}
	if (r >= 0)
		r = counters_enable(*c);
	if (r < 0)
		*c = counters_free(*c);
	return r;
}
static void end_counters(void *arg)
{
	(void)counters_free(*(struct counters **)arg);
}

struct sources {
	struct perf_options options;
	struct perf_source *source;
	char error[512];
};
static void no_note(void *arg, const char *brief, const char *line)
{
	(void)arg;
	(void)brief;
	(void)line;
}
static int make_source(void *arg)
{
	struct sources *s = arg;
	enum perf_gate gate = PERF_GATE_NONE;
	int r;

	s->error[0] = 0;
	r = perf_source_new(&s->options, &s->source, &gate, s->error, sizeof(s->error));
	if (r < 0 && (!s->error[0] || gate == PERF_GATE_NONE))
		fail_msg("call %lu: %d without a line", calls_fail_at, r);
	if (r >= 0 && s->options.tasks) {
		r = perf_source_add_task(s->source, getpid(), &gate, s->error, sizeof(s->error));
		if (r < 0 && !s->error[0])
			fail_msg("call %lu: %d without a line for a task", calls_fail_at, r);
		if (r < 0)
			s->source = perf_source_free(s->source);
	}
	return r;
}
static void end_source(void *arg)
{
	(void)perf_source_free(((struct sources *)arg)->source);
}

static int make_probes(void *arg)
{
	struct features features;
	char error[512] = "";
	int r = probe_features(&features, error, sizeof(error));

	(void)arg;
	if (r < 0 && !error[0])
		fail_msg("call %lu: %d without a line", calls_fail_at, r);
	return r;
}

static void test_counters(void **state)
{
	struct counters *c;

	(void)state;
	if (make_counters(&c) < 0) {
		print_message("no events for this user\n");
		skip();
	}
	end_counters(&c);
	calls_sweep(&(struct calls_made){"counters", make_counters, end_counters, &c});
	calls_sweep(&(struct calls_made){"features", make_probes, end_nothing, NULL});
}

static void sweep_source(const char *name, struct sources *s, bool tasks)
{
	uint32_t *cpus;
	char error[256];

	assert_int_equal(perf_online_cpus(&cpus, &s->options.n_cpus), 0);
	(void)probe_features(&s->options.features, error, sizeof(error));
	s->options.cpus = cpus;
	s->options.leader = software(PERF_COUNT_SW_CPU_CLOCK);
	s->options.leader.weight = PERF_WEIGHT_TIME;
	s->options.clock = CLOCK_MONOTONIC;
	s->options.note = no_note;
	s->options.tasks = tasks;
	s->options.ring_budget = 8 << 20;
	if (make_source(s) < 0) {
		print_message("%s: %s\n", name, s->error);
		free(cpus);
		skip();
	}
	end_source(s);
	calls_sweep(&(struct calls_made){name, make_source, end_source, s});
	free(cpus);
}

static void test_machine(void **state)
{
	struct sources s = {.options = {.frequency = 99, .stack_bytes = 4096, .soon = true}};

	(void)state;
	sweep_source("machine", &s, false);
}

static void test_poll(void **state)
{
	struct sources s = {.options = {.poll = true, .n_followers = 1}};

	(void)state;
	s.options.followers[0] = software(PERF_COUNT_SW_PAGE_FAULTS);
	sweep_source("poll", &s, false);
}

static void test_task(void **state)
{
	struct sources s = {.options = {.frequency = 99,
					.stack_bytes = 32768,
					.sizes = true,
					.rates = true,
					.watch = true,
					.children = true}};

	(void)state;
	sweep_source("task", &s, true);
}

static void test_switches(void **state)
{
	struct sources s = {.options = {.period = 1000, .switches = true}};

	(void)state;
	sweep_source("switches", &s, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rings),	 cmocka_unit_test(test_names),
		cmocka_unit_test(test_counters), cmocka_unit_test(test_machine),
		cmocka_unit_test(test_poll),	 cmocka_unit_test(test_task),
		cmocka_unit_test(test_switches),
	};

	/* A tracefs of its own, whatever the machine has mounted. */
	if (geteuid() != 0 || unshare(CLONE_NEWNS) != 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("nodev", "/sys/kernel/tracing", "tracefs", 0, NULL) != 0)
		print_message("no tracefs of its own: %s\n", strerror(errno));
	return cmocka_run_group_tests_name("perf-calls", tests, NULL, NULL);
}
