/* test-system-counters.c - the kernel's files as one packet; missing and damaged ones. */
#include "protos/trace.pb-c.h"
#include "tracing/system-counters.h"
#include "tests/unit/fake-root.h"

static Pb__Trace *trace;

/* What is written for the files below root. */
static const Pb__SysStats *counters(void)
{
	struct system_counters *c;
	struct sink *to;
	const void *data;
	size_t len;

	if (trace)
		pb__trace__free_unpacked(trace, NULL);
	assert_int_equal(sink_memory_new(&to), 0);
	assert_int_equal(system_counters_new(root, &c), 0);
	assert_int_equal(system_counters_write(c, 4711, to), 0);
	data = sink_memory_data(to, &len);
	trace = pb__trace__unpack(NULL, len, data);
	assert_non_null(trace);
	assert_null(system_counters_free(c));
	sink_free(to);
	return trace->n_packet ? trace->packet[0]->sys_stats : NULL;
}

static void test_none(void **state)
{
	(void)state;
	assert_null(counters());
}

static void test_all(void **state)
{
	const Pb__SysStats *s;

	(void)state;
	put("/proc/stat", "cpu  9 9 9 9 9 9 9 9 0 0\n"
			  "cpu0 1 2 3 4 5 6 7 8 0 0\n"
			  "cpu13 100 0 0 50\n"
			  "intr 12345 0 9\nctxt 5\nprocesses 777\n");
	put("/proc/meminfo",
	    "MemTotal:       16000 kB\nMemFree:         8000 kB\nSwapCached: 1 kB\n"
	    "Dirty:              12 kB\n");
	put("/proc/loadavg", "0.52 10.08 3.00 1/500 4711\n");
	put("/proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=15\n"
				     "full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n");
	put("/proc/diskstats", " 254       0 vda 100 1 2000 30 40 2 6000 70 0 1 2 0 0 0 0 0 0\n"
			       "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0\n");
	s = counters();
	assert_non_null(s);
	assert_int_equal(trace->packet[0]->timestamp, 4711);
	assert_int_equal(trace->packet[0]->timestamp_clock_id, 6);
	assert_int_equal(s->n_cpu_stat, 2);
	assert_int_equal(s->cpu_stat[0]->cpu_id, 0);
	assert_int_equal(s->cpu_stat[0]->user_ns, 10000000);
	assert_int_equal(s->cpu_stat[0]->steal_ns, 80000000);
	assert_int_equal(s->cpu_stat[1]->cpu_id, 13);
	assert_int_equal(s->cpu_stat[1]->idle_ns, 500000000);
	assert_false(s->cpu_stat[1]->has_io_wait_ns);
	assert_int_equal(s->num_forks, 777);
	assert_int_equal(s->n_meminfo, 3);
	assert_int_equal(s->meminfo[0]->key, 1);
	assert_int_equal(s->meminfo[0]->value, 16000);
	assert_int_equal(s->meminfo[2]->key, 17);
	assert_int_equal(s->n_perfwind_load, 3);
	assert_int_equal(s->perfwind_load[0], 52);
	assert_int_equal(s->perfwind_load[1], 1008);
	assert_int_equal(s->n_psi, 2);
	assert_int_equal(s->psi[0]->resource, 5);
	assert_int_equal(s->psi[0]->total_ns, 15000);
	assert_int_equal(s->psi[1]->resource, 6);
	assert_int_equal(s->n_disk_stat, 1);
	assert_string_equal(s->disk_stat[0]->device_name, "vda");
	assert_int_equal(s->disk_stat[0]->read_sectors, 2000);
	assert_int_equal(s->disk_stat[0]->write_time_ms, 70);
}

/* Lines of another form are left out, the others are not. */
static void test_damaged(void **state)
{
	static char many[200000];
	const Pb__SysStats *s;
	size_t len = 0;

	(void)state;
	put("/proc/stat",
	    "cpu\ncpux 1\ncpu1\ncpu99999999999999999999999999 1\nprocesses x\ncpu2 7 x\n\n");
	put("/proc/meminfo", "MemTotal: kB\nMemFree: -3 kB\nMemAvailable:5");
	put("/proc/loadavg", "1\n");
	put("/proc/pressure/memory", "some total=\nelse total=5\nfull\n");
	put("/proc/diskstats", "1\n\n1 2 name 3\n1 2 n 1 1 1 1 1 1 1\n");
	s = counters();
	assert_int_equal(s->n_cpu_stat, 1);
	assert_int_equal(s->cpu_stat[0]->cpu_id, 2);
	assert_false(s->has_num_forks);
	assert_int_equal(s->n_meminfo, 1);
	assert_int_equal(s->meminfo[0]->value, 5);
	assert_int_equal(s->n_perfwind_load, 0);
	assert_int_equal(s->n_psi + s->n_disk_stat, 0);
	/* More than there is room for. */
	while (len < sizeof(many) - 100)
		len += (size_t)snprintf(many + len, sizeof(many) - len,
					"cpu7 18446744073709551615 1 1 1 1 1 1 1 1 1\n");
	put("/proc/stat", many);
	s = counters();
	assert_true(s->n_cpu_stat > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_all),
		cmocka_unit_test(test_damaged),
	};
	int failed;

	fake_root_make();
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	if (trace)
		pb__trace__free_unpacked(trace, NULL);
	return fake_root_remove() < 0 ? 1 : failed;
}
