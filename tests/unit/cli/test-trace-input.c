/* test-trace-input.c - which event of a trace is looked at, and the note about what is left out. */
#include <errno.h>

#include "cli/trace-input.h"
#include "base/log.h"
#include "tests/unit/capture.h"
#include "tests/unit/profile/hand.h"

/* Samples 0..n_samples are of events by turns: page-faults, cpu-clock, cpu-clock ... */
static struct profile two_events(void)
{
	struct profile p = hand_example();

	p.events = calloc(2, sizeof(*p.events));
	assert_non_null(p.events);
	p.n_events = 2;
	strcpy(p.events[0].name, "page-faults");
	strcpy(p.events[0].unit, "events");
	strcpy(p.events[1].name, "cpu-clock:u");
	strcpy(p.events[1].unit, "ns");
	p.all_samples = p.samples; /* the first is alone of the first event */
	p.n_all_samples = p.n_samples;
	for (size_t i = 0; i < p.n_samples; i++) {
		p.samples[i].event = i > 0;
		p.events[i > 0].n_samples++;
	}
	return p;
}

static int choose(struct profile *p, const char *name, char **ret_printed)
{
	struct capture c;
	int r;

	capture_begin(&c, STDERR_FILENO);
	r = trace_input_choose(p, "report", name);
	*ret_printed = capture_end(&c);
	return r;
}

static void test_choose(void **state)
{
	struct profile p = two_events();
	size_t all = p.n_samples;
	char *printed;

	(void)state;
	assert_int_equal(choose(&p, "page-faults", &printed), 0);
	assert_string_equal(printed, "");
	free(printed);
	assert_string_equal(p.event_name, "page-faults");
	assert_int_equal(p.n_samples, 1);
	assert_int_equal(choose(&p, "cpu-clock", &printed),
			 0); /* :u where none has just that name */
	free(printed);
	assert_string_equal(p.event_name, "cpu-clock:u");
	assert_int_equal(p.n_samples, all - 1);
	assert_int_equal(choose(&p, NULL, &printed), 0);
	free(printed);
	assert_int_equal(p.n_samples, all - 1);
	profile_deinit(&p);
}

static void test_no_such_event(void **state)
{
	struct profile p = two_events();
	char *printed;

	(void)state;
	assert_int_equal(choose(&p, "cycles", &printed), -ENOENT);
	assert_int_equal(strncmp(printed, "perfwind: report: ", 18), 0);
	assert_non_null(strstr(printed, "cycles"));
	assert_non_null(strstr(printed, "page-faults"));
	free(printed);
	profile_deinit(&p);
}

static void test_others(void **state)
{
	struct profile p = two_events();
	struct capture c;
	char *printed;

	(void)state;
	assert_int_equal(choose(&p, "cpu-clock:u", &printed), 0);
	free(printed);
	capture_begin(&c, STDERR_FILENO);
	trace_input_note_others(&p, "export");
	printed = capture_end(&c);
	assert_string_equal(printed,
			    "perfwind: export: of cpu-clock:u; 1 samples of page-faults are "
			    "left out (--event page-faults takes them)\n");
	free(printed);
	profile_deinit(&p);
}

static char *report_nothing(const struct profile *p, const struct profile_filter *only)
{
	struct capture c;

	capture_begin(&c, STDERR_FILENO);
	trace_input_note_nothing(p, only, "report");
	return capture_end(&c);
}

static void test_nothing(void **state)
{
	struct profile p = hand_example(), empty = hand_empty();
	char *printed;

	(void)state;
	printed = report_nothing(&p, &(struct profile_filter){.pid = 200});
	assert_string_equal(printed, "");
	free(printed);
	printed = report_nothing(&p, &(struct profile_filter){.pid = 4711});
	/* 9 with a stack or without, and the one that was skipped */
	assert_string_equal(printed, "perfwind: report: no sample of 10 matches the options\n");
	free(printed);
	printed = report_nothing(&empty, &(struct profile_filter){.pid = 4711});
	assert_string_equal(printed, "");
	free(printed);
	profile_deinit(&p);
	profile_deinit(&empty);
}

/* What is missing of a file is reported; where no sample is left, that is an error. */
static void test_damage(void **state)
{
	struct profile p = hand_example(), empty = hand_empty();
	struct capture c;
	char *printed;
	bool none;

	(void)state;
	capture_begin(&c, STDERR_FILENO);
	trace_input_note_damage(&p, "export", "a.pftrace");
	none = trace_input_none_left(&p, "export", "a.pftrace") ||
	       trace_input_none_left(&empty, "export", "a.pftrace");
	printed = capture_end(&c);
	assert_string_equal(printed, "");
	assert_false(none);
	free(printed);
	p.truncated_at = empty.truncated_at = 4711;
	p.end.cut = 1;
	p.end.unbound = true;
	capture_begin(&c, STDERR_FILENO);
	trace_input_note_damage(&p, "export", "a.pftrace");
	none = trace_input_none_left(&p, "export", "a.pftrace");
	printed = capture_end(&c);
	assert_false(none);
	assert_string_equal(printed,
			    "perfwind: export: a.pftrace: damaged or cut off at byte 4711\n"
			    "perfwind: export: a.pftrace: ended without its end mark: how much is "
			    "missing is not known\n");
	free(printed);
	capture_begin(&c, STDERR_FILENO);
	none = trace_input_none_left(&empty, "report", "b.pftrace");
	printed = capture_end(&c);
	assert_true(none);
	assert_string_equal(printed, "perfwind: report: b.pftrace is damaged or cut off, and no "
				     "sample is left in it\n");
	free(printed);
	profile_deinit(&p);
	profile_deinit(&empty);
}

/* An unknown cgroup is an error, with those there are, each once. */
static void test_cgroup(void **state)
{
	struct profile p = hand_example(), none = hand_example();
	struct capture c;
	bool has;
	char *printed;

	(void)state;
	hand_cgroup(&p, 0, "/system.slice/web");
	hand_cgroup(&p, 1, "/docker/abc");
	hand_cgroup(&p, hand_process(&p, 300, "third"), "/docker/abc");
	assert_true(trace_input_has_cgroup(&p, NULL, "report"));
	assert_true(trace_input_has_cgroup(&p, &(struct profile_filter){.pid = 1}, "report"));
	assert_true(
		trace_input_has_cgroup(&p, &(struct profile_filter){.cgroup = "docker"}, "report"));
	capture_begin(&c, STDERR_FILENO);
	has = trace_input_has_cgroup(&p, &(struct profile_filter){.cgroup = "perfwind.pftrace"},
				     "report");
	printed = capture_end(&c);
	assert_false(has);
	assert_string_equal(printed,
			    "perfwind: report: the trace has no cgroup perfwind.pftrace; it has:\n"
			    "perfwind:   /docker/abc\n"
			    "perfwind:   /system.slice/web\n");
	free(printed);
	capture_begin(&c, STDERR_FILENO);
	has = trace_input_has_cgroup(&none, &(struct profile_filter){.cgroup = "/x"}, "report");
	printed = capture_end(&c);
	assert_false(has);
	assert_string_equal(printed, "perfwind: report: the trace has no cgroup /x (no cgroups are "
				     "recorded in it)\n");
	free(printed);
	profile_deinit(&p);
	profile_deinit(&none);
}

static void test_no_file(void **state)
{
	const struct trace_input input = {.path = "/nonexistent/x"};
	struct profile p;
	struct capture c;
	char *printed;
	int r;

	(void)state;
	capture_begin(&c, STDERR_FILENO);
	r = trace_input_read(&input, "report", &p);
	printed = capture_end(&c);
	assert_int_equal(r, -ENOENT);
	assert_string_equal(printed, "perfwind: /nonexistent/x: No such file or directory\n");
	free(printed);
	assert_non_null(strstr(trace_input_hint("x.pftrace", -EACCES, true), "sudo"));
}

/* A file that begins as perf.data does is imported; this one ends there. */
static void test_perf_data(void **state)
{
	char path[] = "/tmp/perfwind-test-XXXXXX";
	const struct trace_input input = {.path = path};
	struct profile p;
	struct capture c;
	int fd = mkstemp(path), r;
	char *printed;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "PERFILE2........", 16), 16);
	(void)close(fd);
	capture_begin(&c, STDERR_FILENO);
	r = trace_input_read(&input, "report", &p);
	printed = capture_end(&c);
	(void)unlink(path);
	assert_true(r < 0);
	assert_null(strstr(printed, "not a trace"));
	assert_non_null(strstr(printed, path));
	free(printed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_choose),	cmocka_unit_test(test_no_such_event),
		cmocka_unit_test(test_others),	cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_damage),	cmocka_unit_test(test_cgroup),
		cmocka_unit_test(test_no_file), cmocka_unit_test(test_perf_data),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
