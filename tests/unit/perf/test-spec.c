/* test-spec.c - spec.h: names, modifiers, tracepoints and PMUs of a fake /sys, probes, and what is
 * refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/fake-root.h"

#include "base/nearest.h"
#include "perf/spec.h"

static char error[512];
static struct perf_spec specs[4];
static size_t n_specs;

#define DEVICES "/sys/bus/event_source/devices"
#define TRACING "/sys/kernel/tracing"

static int set_up(void **state)
{
	(void)state;
	fake_root_make();
	put(TRACING "/events/sched/sched_switch/id", "372\n");
	put(TRACING "/events/sched/sched_wakeup/id", "374\n");
	put(TRACING "/events/irq/irq_handler_entry/id", "151\n");
	put(TRACING "/events/odd/zero/id", "0\n");
	put(TRACING "/events/odd/words/id", "12 monkeys\n");
	put(TRACING "/available_events",
	    "sched:sched_switch\nsched:sched_wakeup\nirq:irq_handler_entry\n");
	put(DEVICES "/cpu/type", "4\n");
	put(DEVICES "/cpu/format/event", "config:0-7,32-35\n");
	put(DEVICES "/cpu/format/umask", "config:8-15\n");
	put(DEVICES "/cpu/format/any", "config:21\n");
	put(DEVICES "/cpu/format/offcore_rsp", "config1:0-63\n");
	put(DEVICES "/cpu/format/far", "config3:0-63\n");
	put(DEVICES "/cpu/format/broken", "config:9-3\n");
	put(DEVICES "/cpu/format/wide", "config:0-64\n");
	put(DEVICES "/cpu/events/cpu-cycles", "event=0x3c\n");
	put(DEVICES "/cpu/events/topdown", "event=0x1c2,umask=0x02,any\n");
	put(DEVICES "/cpu/events/asks", "event=?\n");
	put(DEVICES "/cpu/events/loop", "loop\n");
	put(DEVICES "/odd/type", "many\n");
	put(DEVICES "/kprobe/type", "6\n");
	put(DEVICES "/kprobe/format/retprobe", "config:0\n");
	put(DEVICES "/uprobe/type", "7\n");
	put(DEVICES "/uprobe/format/retprobe", "config:0\n");
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return fake_root_remove();
}

static int parse_max(const char *text, size_t max)
{
	struct perf_spec_env env = {.root = root};

	for (size_t i = 0; i < n_specs; i++)
		perf_spec_deinit(&specs[i]);
	n_specs = 0;
	error[0] = 0;
	return perf_spec_parse(&env, text, specs, max, &n_specs, error, sizeof(error));
}

static int parse(const char *text)
{
	return parse_max(text, ARRAY_SIZE(specs));
}

#define assert_error(part)                                           \
	do {                                                         \
		if (!strstr(error, part))                            \
			fail_msg("'%s' is not in: %s", part, error); \
		assert_null(strchr(error, '\n'));                    \
	} while (0)

static void test_names(void **state)
{
	/* numbers of linux/perf_event.h and of the counters in perf_events.proto, written out */
	static const struct {
		const char *name;
		uint32_t type;
		uint64_t config;
		int32_t counter;
		enum perf_weight weight;
	} wanted[] = {
		{"cycles", 0, 0, 10, PERF_WEIGHT_CYCLES},
		{"cpu-cycles", 0, 0, 10, PERF_WEIGHT_CYCLES},
		{"instructions", 0, 1, 11, PERF_WEIGHT_EVENTS},
		{"cache-references", 0, 2, 12, PERF_WEIGHT_EVENTS},
		{"cache-misses", 0, 3, 13, PERF_WEIGHT_EVENTS},
		{"branches", 0, 4, 14, PERF_WEIGHT_EVENTS},
		{"branch-instructions", 0, 4, 14, PERF_WEIGHT_EVENTS},
		{"branch-misses", 0, 5, 15, PERF_WEIGHT_EVENTS},
		{"bus-cycles", 0, 6, 16, PERF_WEIGHT_EVENTS},
		{"stalled-cycles-frontend", 0, 7, 17, PERF_WEIGHT_EVENTS},
		{"stalled-cycles-backend", 0, 8, 18, PERF_WEIGHT_EVENTS},
		{"ref-cycles", 0, 9, 19, PERF_WEIGHT_EVENTS},
		{"cpu-clock", 1, 0, 1, PERF_WEIGHT_TIME},
		{"task-clock", 1, 1, 3, PERF_WEIGHT_TIME},
		{"page-faults", 1, 2, 2, PERF_WEIGHT_EVENTS},
		{"faults", 1, 2, 2, PERF_WEIGHT_EVENTS},
		{"context-switches", 1, 3, 4, PERF_WEIGHT_EVENTS},
		{"cs", 1, 3, 4, PERF_WEIGHT_EVENTS},
		{"cpu-migrations", 1, 4, 5, PERF_WEIGHT_EVENTS},
		{"migrations", 1, 4, 5, PERF_WEIGHT_EVENTS},
		{"minor-faults", 1, 5, 6, PERF_WEIGHT_EVENTS},
		{"major-faults", 1, 6, 7, PERF_WEIGHT_EVENTS},
		{"alignment-faults", 1, 7, 8, PERF_WEIGHT_EVENTS},
		{"emulation-faults", 1, 8, 9, PERF_WEIGHT_EVENTS},
		{"dummy", 1, 9, 20, PERF_WEIGHT_EVENTS},
		{"bpf-output", 1, 10, -1, PERF_WEIGHT_EVENTS},
		{"cgroup-switches", 1, 11, -1, PERF_WEIGHT_EVENTS},
		{"L1-dcache-loads", 3, 0x0, -1, PERF_WEIGHT_EVENTS},
		{"L1-dcache-load-misses", 3, 0x10000, -1, PERF_WEIGHT_EVENTS},
		{"L1-icache-load-misses", 3, 0x10001, -1, PERF_WEIGHT_EVENTS},
		{"LLC-stores", 3, 0x102, -1, PERF_WEIGHT_EVENTS},
		{"llc-store-misses", 3, 0x10102, -1, PERF_WEIGHT_EVENTS},
		{"dTLB-load-misses", 3, 0x10003, -1, PERF_WEIGHT_EVENTS},
		{"iTLB-loads", 3, 0x4, -1, PERF_WEIGHT_EVENTS},
		{"branch-load-misses", 3, 0x10005, -1, PERF_WEIGHT_EVENTS},
		{"node-prefetch-misses", 3, 0x10206, -1, PERF_WEIGHT_EVENTS},
		{"r1a8", 4, 0x1a8, -1, PERF_WEIGHT_EVENTS},
		{"rffffffffffffffff", 4, UINT64_MAX, -1, PERF_WEIGHT_EVENTS},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		if (parse(wanted[i].name) != 0)
			fail_msg("%s: %s", wanted[i].name, error);
		assert_int_equal(n_specs, 1);
		assert_string_equal(specs[0].name, wanted[i].name);
		assert_int_equal(specs[0].type, wanted[i].type);
		assert_int_equal(specs[0].config, wanted[i].config);
		assert_int_equal(specs[0].counter, wanted[i].counter);
		assert_int_equal(specs[0].weight, wanted[i].weight);
		assert_int_equal(specs[0].precise_ip,
				 wanted[i].weight == PERF_WEIGHT_CYCLES ? 3 : 0);
		assert_int_equal(specs[0].code, FRAMES_ALL);
		assert_string_equal(specs[0].tracepoint, "");
	}
}

static void test_modifiers(void **state)
{
	(void)state;
	assert_int_equal(parse("cycles:u"), 0);
	assert_int_equal(specs[0].code, FRAMES_USER);
	assert_int_equal(specs[0].precise_ip, 3); /* not asked for: the highest */
	assert_int_equal(parse("cycles:kp"), 0);
	assert_int_equal(specs[0].code, FRAMES_KERNEL);
	assert_int_equal(specs[0].precise_ip, 1);
	assert_int_equal(parse("instructions:ppp"), 0);
	assert_int_equal(specs[0].precise_ip, 3);
	assert_int_equal(specs[0].code, FRAMES_ALL);
	assert_int_equal(parse("cpu-clock:uk"), 0);
	assert_int_equal(specs[0].code, FRAMES_USER | FRAMES_KERNEL);
	assert_int_equal(parse("cycles:Pu"), 0);
	assert_int_equal(specs[0].precise_ip, 3);
	assert_int_equal(specs[0].code, FRAMES_USER);
	assert_int_equal(parse("r1a8:k"), 0);
	assert_int_equal(specs[0].code, FRAMES_KERNEL);

	assert_int_equal(parse("cycles:x"), -EINVAL);
	assert_error("':x'");
	assert_int_equal(parse("cycles:pppp"), -EINVAL);
	assert_int_equal(parse("cycles:u:k"), -EINVAL);
}

static void test_followers(void **state)
{
	(void)state;
	assert_int_equal(parse("cpu-clock:u,page-faults,sched/sched_switch,cpu/event=1,umask=2/k"),
			 0);
	assert_int_equal(n_specs, 4);
	assert_int_equal(specs[0].config, 0);
	assert_int_equal(specs[1].config, 2);
	assert_int_equal(specs[2].config, 372);
	assert_int_equal(specs[3].config, 0x201);
	assert_int_equal(specs[3].code, FRAMES_KERNEL);
	/* two slashes, yet two tracepoints: neither is a PMU */
	assert_int_equal(parse("sched/sched_switch,irq/irq_handler_entry"), 0);
	assert_int_equal(n_specs, 2);
	assert_int_equal(specs[1].config, 151);

	assert_int_equal(parse("cs,cs,cs,cs,cs"), -EINVAL);
	assert_error("at most 4");
	assert_int_equal(n_specs, 0);
	assert_int_equal(parse("cycles,"), -EINVAL);
	assert_error("missing");
	assert_int_equal(parse(",cycles"), -EINVAL);
	assert_int_equal(parse(""), -EINVAL);
	assert_int_equal(parse_max("cycles", 0), -EINVAL);
	/* what was parsed before the error is given back: for the leak sanitizer */
	assert_int_equal(parse("kprobe:do_exit,nonsense"), -ENOENT);
}

static void test_tracepoints(void **state)
{
	struct perf_spec_env empty = {.root = "/nonexistent"};

	(void)state;
	assert_int_equal(parse("sched:sched_switch"), 0);
	assert_int_equal(specs[0].type, 2);
	assert_int_equal(specs[0].config, 372);
	assert_string_equal(specs[0].tracepoint, "sched:sched_switch");
	assert_null(specs[0].filter);
	assert_int_equal(parse("sched/sched_wakeup:k"), 0);
	assert_int_equal(specs[0].config, 374);
	assert_string_equal(specs[0].tracepoint, "sched:sched_wakeup");
	assert_int_equal(specs[0].code, FRAMES_KERNEL);
	assert_int_equal(parse("sched:sched_wakeup:u"), 0);
	assert_int_equal(specs[0].code, FRAMES_USER);

	assert_int_equal(parse("sched:sched_swich"), -ENOENT);
	assert_error("unknown tracepoint 'sched:sched_swich'; did you mean sched:sched_switch");
	assert_int_equal(parse("odd:zero"), -ENOENT);
	assert_int_equal(parse("odd:words"), -ENOENT);
	assert_int_equal(parse("..:sched_switch"), -EINVAL);
	assert_int_equal(parse("sched:.."), -EINVAL);
	assert_int_equal(parse("sched:"), -EINVAL);
	assert_int_equal(parse(":sched_switch"), -EINVAL);
	assert_int_equal(perf_spec_parse(&empty, "sched:sched_switch", specs, 1, &n_specs, error,
					 sizeof(error)),
			 -ENOENT);
	assert_error("mount -t tracefs");
}

static void test_suggestions(void **state)
{
	(void)state;
	assert_int_equal(parse("cyles"), -ENOENT);
	assert_error("unknown event 'cyles'; did you mean cycles");
	assert_int_equal(parse("sched_switch"), -ENOENT); /* the group is missing */
	assert_error("did you mean sched:sched_switch?");
	assert_int_equal(parse("L1-dcache-laod-misses"), -ENOENT);
	assert_error("did you mean L1-dcache-load-misses");
	assert_int_equal(parse("xyzzyplugh"), -ENOENT);
	assert_null(strstr(error, "did you mean"));
	/* no room for the line: cut, not overrun */
	memset(error, 'x', sizeof(error));
	assert_int_equal(perf_spec_parse(&(struct perf_spec_env){.root = root}, "cyles", specs, 1,
					 &n_specs, error, 8),
			 -ENOENT);
	assert_string_equal(error, "unknown");
	assert_int_equal(error[8], 'x');

	assert_int_equal(nearest_distance("cycles", "cycles"), 0);
	assert_int_equal(nearest_distance("", "abc"), 3);
	assert_int_equal(nearest_distance("abc", ""), 3);
	assert_int_equal(nearest_distance("cycles", "CYLCES"), 1); /* one swap */
	assert_int_equal(nearest_distance("kitten", "sitting"), 3);
}

static void test_pmus(void **state)
{
	(void)state;
	assert_int_equal(parse("cpu/config=0x1234,config1=7,config2=0x8000000000000000,name=mine/"),
			 0);
	assert_int_equal(specs[0].type, 4);
	assert_int_equal(specs[0].config, 0x1234);
	assert_int_equal(specs[0].config1, 7);
	assert_true(specs[0].config2 == 0x8000000000000000ull);
	assert_string_equal(specs[0].name, "mine");
	/* event takes bits 0-7, then 32-35: 0xabc is bc and a */
	assert_int_equal(parse("cpu/event=0xabc,umask=0xff,any/pp"), 0);
	assert_true(specs[0].config == 0xa0020ffbcull);
	assert_int_equal(specs[0].precise_ip, 2);
	assert_int_equal(parse("cpu/offcore_rsp=0xffffffffffffffff/:u"), 0);
	assert_true(specs[0].config1 == UINT64_MAX);
	assert_int_equal(specs[0].code, FRAMES_USER);
	/* an event of the PMU, changed by a term behind it */
	assert_int_equal(parse("cpu/topdown/"), 0);
	assert_true(specs[0].config == 0x1002002c2ull);
	assert_int_equal(parse("cpu/topdown,umask=4/"), 0);
	assert_true(specs[0].config == 0x1002004c2ull);
	assert_int_equal(parse("cpu/cpu-cycles/"), 0);
	assert_int_equal(specs[0].config, 0x3c);
	assert_int_equal(specs[0].weight, PERF_WEIGHT_CYCLES);
	assert_int_equal(parse("cpu//"), 0);

	assert_int_equal(parse("cpu/event=0x1000/"), -EINVAL);
	assert_error("more bits");
	assert_int_equal(parse("cpu/umaks=1/"), -ENOENT);
	assert_error("did you mean umask?");
	assert_int_equal(parse("cpu/event=one/"), -EINVAL);
	assert_int_equal(parse("cpu/event=/"), -EINVAL);
	assert_int_equal(parse("cpu/asks/"), -EINVAL);
	assert_error("needs a value for 'event'");
	assert_int_equal(parse("cpu/loop/"), -ENOENT); /* events name no events */
	assert_int_equal(parse("cpu/far=1/"), -EINVAL);
	assert_error("config3");
	assert_int_equal(parse("cpu/broken=1/"), -EINVAL);
	assert_int_equal(parse("cpu/wide=1/"), -EINVAL);
	assert_int_equal(parse("cpu/../=1/"), -ENOENT); /* not a way out of format/ */
	assert_int_equal(parse("cpuu/event=1/"), -ENOENT);
	assert_error("no PMU 'cpuu'; did you mean cpu?");
	assert_int_equal(parse("odd/event=1/"), -ENOENT);
	assert_int_equal(parse("../event=1/"), -ENOENT);
	assert_int_equal(parse("cpu/event=1/x"), -EINVAL);
}

static void test_kprobes(void **state)
{
	(void)state;
	assert_int_equal(parse("kprobe:do_exit+0x10"), 0);
	assert_int_equal(specs[0].type, 6);
	assert_int_equal(specs[0].config, 0);
	assert_string_equal(specs[0].probe_path, "do_exit");
	assert_int_equal(specs[0].config2, 0x10);
	assert_int_equal(parse("kretprobe:do_exit:k"), 0);
	assert_int_equal(specs[0].config, 1);
	assert_int_equal(specs[0].config2, 0);
	assert_int_equal(specs[0].code, FRAMES_KERNEL);
	assert_int_equal(parse("kprobe:0xffffffff81000000"), 0);
	assert_null(specs[0].probe_path);
	assert_true(specs[0].config2 == 0xffffffff81000000ull);
	assert_int_equal(parse("kprobe:"), -EINVAL);
	assert_int_equal(parse("kprobe:do_exit+x"), -EINVAL);
}

void perfwind_spec_probe_me(void); /* found by name in this program */
__attribute__((noinline)) void perfwind_spec_probe_me(void)
{
	__asm__ volatile("" ::: "memory");
}

static void test_uprobes(void **state)
{
	char self[256], text[600], path[300];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	uint8_t bytes[16];
	int fd;

	(void)state;
	assert_true(n > 0);
	self[n] = 0;
	(void)snprintf(text, sizeof(text), "uprobe:%s:0x1240:u", self);
	assert_int_equal(parse(text), 0);
	assert_int_equal(specs[0].type, 7);
	assert_string_equal(specs[0].probe_path, self);
	assert_int_equal(specs[0].config2, 0x1240);
	assert_int_equal(specs[0].code, FRAMES_USER);

	/* the file's bytes at the offset are the function's in memory */
	(void)snprintf(text, sizeof(text), "uretprobe:%s:perfwind_spec_probe_me", self);
	assert_int_equal(parse(text), 0);
	assert_int_equal(specs[0].config, 1);
	fd = open(self, O_RDONLY | O_CLOEXEC);
	assert_int_equal(pread(fd, bytes, sizeof(bytes), (off_t)specs[0].config2), sizeof(bytes));
	assert_memory_equal(bytes, (const void *)(uintptr_t)perfwind_spec_probe_me, sizeof(bytes));
	(void)close(fd);

	(void)snprintf(text, sizeof(text), "uprobe:%s:perfwind_spec_prob_me", self);
	assert_int_equal(parse(text), -ENOENT);
	assert_error("did you mean perfwind_spec_probe_me?");
	assert_int_equal(parse("uprobe:/nonexistent:main"), -ENOENT);
	assert_error("/nonexistent");
	assert_int_equal(parse("uprobe:/bin/sh"), -EINVAL);
	assert_int_equal(parse("uprobe::main"), -EINVAL);
	assert_int_equal(parse("uprobe:/bin/sh:"), -EINVAL);
	put("/not-elf", "#!/bin/sh\n");
	(void)snprintf(text, sizeof(text), "uprobe:%s/not-elf:main", root);
	assert_int_equal(parse(text), -EINVAL);
	assert_error("not an ELF file");
	(void)snprintf(text, sizeof(text), "uprobe:%s:main", root); /* a directory */
	assert_int_equal(parse(text), -EINVAL);
	(void)snprintf(path, sizeof(path), "%s/fifo", root);
	assert_int_equal(mkfifo(path, 0600), 0);
	(void)snprintf(text, sizeof(text), "uprobe:%s/fifo:main", root); /* must not wait */
	assert_int_equal(parse(text), -EINVAL);
}

/* A damaged ELF file must be refused: every cut and many flipped bytes of a real one.
 */
static void test_damaged_elf(void **state)
{
	char text[600], path[300];
	static uint8_t bytes[8 << 20];
	ssize_t n;
	int fd;

	(void)state;
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	n = read(fd, bytes, sizeof(bytes));
	(void)close(fd);
	assert_true(n > 4096);
	(void)snprintf(path, sizeof(path), "%s/damaged", root);
	(void)snprintf(text, sizeof(text), "uprobe:%s:no_such_function", path);
	for (int round = 0; round < 150; round++) {
		size_t len = round < 50 ? (size_t)n * (size_t)round / 50 : (size_t)n;
		size_t at = round < 50 ? 0
			    : round < 114
				    ? (size_t)(round - 50)			  /* the header */
				    : (size_t)n - 1 - (size_t)(round - 114) * 37; /* sections */
		uint8_t saved = bytes[at];

		if (round >= 50)
			bytes[at] ^= 0xff;
		fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		assert_int_equal(write(fd, bytes, len), len);
		(void)close(fd);
		bytes[at] = saved;
		assert_true(parse(text) < 0);
		assert_true(error[0]);
	}
}

static void test_counters(void **state)
{
	struct perf_spec spec = {.counter = 77};

	(void)state;
	assert_int_equal(perf_spec_of_counter(3, &spec), 0);
	assert_string_equal(spec.name, "task-clock");
	assert_int_equal(spec.type, 1);
	assert_int_equal(spec.config, 1);
	assert_int_equal(spec.counter, 3);
	assert_int_equal(perf_spec_of_counter(10, &spec), 0);
	assert_string_equal(spec.name, "cpu-cycles");
	for (int32_t c = 1; c <= 20; c++) {
		assert_int_equal(perf_spec_of_counter(c, &spec), 0);
		assert_int_equal(spec.counter, c);
	}
	assert_int_equal(perf_spec_of_counter(0, &spec), -EINVAL);
	assert_int_equal(perf_spec_of_counter(21, &spec), -EINVAL);
	assert_int_equal(perf_spec_of_counter(-1, &spec), -EINVAL);
	assert_int_equal(spec.counter, 20); /* untouched */
}

/* Reported exactly where there are none; a refusal is another thing. */
static void test_default(void **state)
{
	const char *note = "untouched";
	const char *event = perf_spec_default(&note);

	(void)state;
	if (perf_spec_cycles() == 0) {
		assert_string_equal(event, "cycles:ppp");
		assert_null(note);
	} else if (perf_spec_cycles() == -ENOENT) {
		assert_string_equal(event, "cpu-clock");
		assert_non_null(strstr(note, "cpu-clock"));
	} else {
		assert_string_equal(event, "cpu-clock");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),	    cmocka_unit_test(test_modifiers),

		cmocka_unit_test(test_followers),   cmocka_unit_test(test_tracepoints),
		cmocka_unit_test(test_suggestions), cmocka_unit_test(test_pmus),
		cmocka_unit_test(test_kprobes),	    cmocka_unit_test(test_uprobes),
		cmocka_unit_test(test_damaged_elf), cmocka_unit_test(test_counters),
		cmocka_unit_test(test_default),
	};
	int r = cmocka_run_group_tests(tests, set_up, tear_down);

	for (size_t i = 0; i < n_specs; i++)
		perf_spec_deinit(&specs[i]);
	return r;
}
