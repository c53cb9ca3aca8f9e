/* test-spec-list.c - which events a fake machine has, and what is meant by an event's text. */
#include <stdio.h>
#include <string.h>

#include "perf/spec-list.h"
#include "tests/unit/fake-root.h"

static int set_up(void **state)
{
	(void)state;
	fake_root_make();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return fake_root_remove();
}

static void test_points(void **state)
{
	static const char *const points[] = {"sched:sched_switch",
					     "sched/sched_switch",
					     "sched:sched_wakeup:k",
					     "kprobe:do_exit",
					     "kretprobe:do_exit",
					     "uprobe:/bin/sh:main",
					     "sched:sched_switch,cycles",
					     "sched/sched_switch,irq/irq_handler_entry",
					     "page-faults:P",
					     "cs",
					     "major-faults:u,cycles"};
	static const char *const others[] = {"cycles",
					     "cycles:u",
					     "cpu-clock:ppp,sched:sched_switch",
					     "r1a8:k",
					     "cpu/event=1,umask=2/",
					     "cpu/cache-misses/",
					     "task-clock:u",
					     "dummy",
					     "page-fault",
					     "cycles:"};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(points); i++)
		assert_true(perf_spec_is_point(points[i]));
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_false(perf_spec_is_point(others[i]));
}

/* On a machine without hardware cycles "cycles" is the timer, as it is by default. */
static void test_cycles_fall_back(void **state)
{
	char text[SPEC_EVENT_MAX];
	const char *note;

	(void)state;
	assert_string_equal(perf_spec_or_default("page-faults:u", text, &note), "page-faults:u");
	assert_null(note);
	assert_string_equal(perf_spec_or_default("cycles-x", text, &note), "cycles-x");
	assert_null(note);
	(void)perf_spec_default(&note);
	if (!note) {
		assert_string_equal(perf_spec_or_default("cycles:u", text, &note), "cycles:u");
		assert_null(note);
		return;
	}
	assert_string_equal(perf_spec_or_default(NULL, text, &note), "cpu-clock");
	assert_non_null(note);
	assert_string_equal(perf_spec_or_default("cycles", text, &note), "cpu-clock");
	assert_non_null(note);
	assert_string_equal(perf_spec_or_default("cpu-cycles:ppp", text, &note), "cpu-clock");
	assert_string_equal(perf_spec_or_default("cycles:Pu,page-faults", text, &note),
			    "cpu-clock:u,page-faults");
	assert_string_equal(perf_spec_or_default("cycles,page-faults", text, &note),
			    "cpu-clock,page-faults");
}

struct listed {
	size_t n[PERF_KIND_TRACEPOINT + 1];
	char points[256], pmus[256];
	bool cycles, faults, loads;
};

static void note(void *arg, enum perf_kind kind, const char *name)
{
	struct listed *l = arg;
	char *to = kind == PERF_KIND_PMU ? l->pmus : l->points;

	l->n[kind]++;
	l->cycles |= kind == PERF_KIND_HARDWARE && !strcmp(name, "cycles");
	l->faults |= kind == PERF_KIND_SOFTWARE && !strcmp(name, "page-faults");
	l->loads |= kind == PERF_KIND_CACHE && !strcmp(name, "LLC-loads");
	if (kind == PERF_KIND_PMU || kind == PERF_KIND_TRACEPOINT)
		(void)snprintf(to + strlen(to), sizeof(l->pmus) - strlen(to), "%s ", name);
}

static void test_list(void **state)
{
	const struct perf_spec_env env = {root};
	struct listed l = {0};

	(void)state;
	assert_int_equal(perf_spec_list(&env, note, &l),
			 -ENOENT); /* the generic names all the same */
	assert_true(l.cycles && l.faults && l.loads);
	assert_int_equal(l.n[PERF_KIND_PMU] + l.n[PERF_KIND_TRACEPOINT], 0);
	put("/sys/bus/event_source/devices/cpu/events/topdown", "event=0x1\n");
	put("/sys/bus/event_source/devices/cpu/events/topdown.scale", "2\n");
	put("/sys/bus/event_source/devices/cpu/events/cpu-cycles", "event=0x3c\n");
	put("/sys/bus/event_source/devices/software/type", "1\n");
	put("/sys/kernel/tracing/available_events", "sched:sched_switch\nirq:irq_handler_entry\n");
	l = (struct listed){0};
	assert_int_equal(perf_spec_list(&env, note, &l), 0);
	assert_string_equal(l.pmus, "cpu/cpu-cycles/ cpu/topdown/ ");
	assert_string_equal(l.points, "sched:sched_switch irq:irq_handler_entry ");
}

static void test_fields(void **state)
{
	const struct perf_spec_env env = {root};
	char *text = NULL;

	(void)state;
	put("/sys/kernel/tracing/events/sched/sched_switch/format",
	    "name: sched_switch\nID: 372\nformat:\n"
	    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"
	    "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
	    "\nprint fmt: \"prev_comm=%s\", REC->prev_comm");
	assert_int_equal(perf_spec_fields(&env, "sched:sched_switch", &text), 0);
	assert_string_equal(text, "field:unsigned short common_type\nfield:char prev_comm[16]\n");
	free(text);
	assert_int_equal(perf_spec_fields(&env, "sched:none", &text), -ENOENT);
	assert_int_equal(perf_spec_fields(&env, "cycles", &text), -ENOENT);
	assert_int_equal(perf_spec_fields(&env, "sched:../sched_switch", &text), -ENOENT);
	assert_int_equal(perf_spec_fields(&env, "a/b:c", &text), -ENOENT);
}

static void test_field(void **state)
{
	const struct perf_spec_env env = {root};
	uint32_t offset = 7, size = 7;

	(void)state;
	put("/sys/kernel/tracing/events/odd/fields/format",
	    "name: fields\nID: 3\nformat:\n"
	    "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\n"
	    "\tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n"
	    "\tfield:pid_t next_pid;\toffset:24;\tsize:4;\tsigned:1;\n"
	    "\tfield:pid_t pid;\toffset:28;\tsize:4;\tsigned:1;\n"
	    "\tfield:__data_loc char[] name;\toffset:32;\tsize:4;\tsigned:0;\n"
	    "\tfield:u64 far;\toffset:99999999999;\tsize:8;\tsigned:0;\n"
	    "\tfield:u64 cut;\toffset:40;\n\nprint fmt: \"%d\", REC->pid");
	assert_int_equal(perf_spec_field(&env, "odd:fields", "comm", &offset, &size), -ENOENT);
	assert_int_equal(perf_spec_field(&env, "odd:fields", "", &offset, &size), -ENOENT);
	assert_int_equal(perf_spec_field(&env, "odd:fields", "id", &offset, &size), -ENOENT);
	assert_int_equal(perf_spec_field(&env, "odd:fields", "name", &offset, &size), -EINVAL);
	assert_int_equal(perf_spec_field(&env, "odd:fields", "far", &offset, &size), -EINVAL);
	assert_int_equal(perf_spec_field(&env, "odd:fields", "cut", &offset, &size), -EINVAL);
	assert_int_equal(perf_spec_field(&env, "odd:none", "pid", &offset, &size), -ENOENT);
	assert_int_equal(offset + size, 14);
	assert_int_equal(perf_spec_field(&env, "odd:fields", "pid", &offset, &size), 0);
	assert_int_equal(offset, 28);
	assert_int_equal(size, 4);
	assert_int_equal(perf_spec_field(&env, "odd:fields", "common_flags", &offset, &size), 0);
	assert_int_equal(offset, 2);
	assert_int_equal(size, 1);
}

/* Cut anywhere, the file of a tracepoint gives whole fields or parts of one, and nothing else. */
static void test_cut_format(void **state)
{
	static const char whole[] = "\tfield:int a;\toffset:0;\n\tfield:int b;\n";
	const struct perf_spec_env env = {root};

	(void)state;
	for (size_t i = 0; i < sizeof(whole); i++) {
		char cut[sizeof(whole)], *text = NULL;

		(void)snprintf(cut, sizeof(cut), "%.*s", (int)i, whole);
		put("/sys/kernel/tracing/events/odd/cut/format", cut);
		assert_int_equal(perf_spec_fields(&env, "odd:cut", &text), 0);
		assert_true(!*text || !strncmp(text, "field:", 6));
		assert_true(strlen(text) <= i + 1);
		free(text);
	}
}

static void count_name(void *arg, uint32_t type, const char *name)
{
	unsigned *counts = arg;

	assert_true(type == PERF_TYPE_HARDWARE || type == PERF_TYPE_SOFTWARE ||
		    type == PERF_TYPE_HW_CACHE);
	counts[type]++;
	counts[7] += !strcmp(name, "cycles") || !strcmp(name, "cpu-clock") ||
		     !strcmp(name, "L1-dcache-load-misses");
}

static void test_each_name(void **state)
{
	unsigned counts[8] = {0};

	(void)state;
	perf_spec_each_name(count_name, counts);
	assert_true(counts[PERF_TYPE_HARDWARE] >= 8);
	assert_true(counts[PERF_TYPE_SOFTWARE] >= 8);
	assert_true(counts[PERF_TYPE_HW_CACHE] >= 20);
	assert_int_equal(counts[7], 3); /* each once */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_points),	  cmocka_unit_test(test_cycles_fall_back),
		cmocka_unit_test(test_list),	  cmocka_unit_test(test_fields),
		cmocka_unit_test(test_field),	  cmocka_unit_test(test_cut_format),
		cmocka_unit_test(test_each_name),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
