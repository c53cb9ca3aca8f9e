/* test-marks.c - tracks and their events read back: sections, samples inside and outside of them, `report --by mark`, and traces
 * with marks that no writer makes. */
#include <errno.h>
#include <string.h>

#include "profile/profile-export.h"
#include "tests/unit/cmocka.h"
#include "tests/unit/profile/build.h"

/* A track: thread (tid), process (tid 0), or named below @parent. */
static void put_track(struct buffer *trace, uint64_t uuid, uint32_t pid, uint32_t tid,
		      const char *name, uint64_t parent)
{
	struct buffer packet = {0}, track = {0}, ids = {0};

	put_number(&track, 1, uuid);
	if (name)
		put_text(&track, 2, name);
	if (parent)
		put_number(&track, 5, parent);
	if (pid) {
		put_number(&ids, 1, pid);
		if (tid)
			put_number(&ids, 2, tid);
		put_message(&track, tid ? 4 : 3, &ids);
	}
	put_number(&packet, 10, 1);
	put_message(&packet, 60, &track);
	put_message(trace, 1, &packet);
}

static void put_event(struct buffer *trace, uint64_t time, uint64_t track, uint32_t type,
		      const char *category, const char *name)
{
	struct buffer packet = {0}, event = {0};

	put_number(&event, 9, type);
	put_number(&event, 11, track);
	if (category)
		put_text(&event, 22, category);
	if (name)
		put_text(&event, 23, name);
	put_number(&packet, 8, time);
	put_number(&packet, 10, 1);
	put_number(&packet, 13, 2);
	put_message(&packet, 11, &event);
	put_message(trace, 1, &packet);
}

static void put_at(struct buffer *trace, uint64_t time, uint32_t tid, uint64_t count)
{
	put_sample(trace,
		   &(struct test_sample){.sequence = 1,
					 .flags = 2,
					 .time = time,
					 .pid = 10,
					 .tid = tid,
					 .count = count},
		   NULL);
}

/* Thread 11: outer 1000-5000, in it inner 2000-3000 and 3500-4500; a wait 2200-2300.  Process: load 4000-6000.  Samples of
 * 100 ns each at 500, 1500 ... 6500 of thread 11, and at 2500 of thread 12. */
static struct profile example(void)
{
	struct buffer trace = {0};
	struct profile p;
	char error[256];

	put_defaults(&trace, 1, 6, 1, 0, 1000);
	put_track(&trace, 77, 10, 11, NULL, 0);
	put_track(&trace, 78, 10, 0, NULL, 0);
	put_track(&trace, 79, 0, 0, "load", 78);
	put_event(&trace, 5000, 77, 2, NULL, NULL); /* any order */
	put_event(&trace, 1000, 77, 1, "mark", "outer");
	put_event(&trace, 2200, 77, 1, "wait", "sleep");
	put_event(&trace, 2300, 77, 2, NULL, NULL);
	put_event(&trace, 2000, 77, 1, "mark", "inner");
	put_event(&trace, 3000, 77, 2, NULL, NULL);
	put_event(&trace, 3500, 77, 1, "mark", "inner");
	put_event(&trace, 4500, 77, 2, NULL, NULL);
	put_event(&trace, 4600, 77, 3, "mark", "instant");
	put_event(&trace, 4000, 79, 1, "mark", "load");
	put_event(&trace, 6000, 79, 2, NULL, NULL);
	put_event(&trace, 6000, 1234, 1, "mark", "of no track");
	put_event(&trace, 6000, 77, 99, "mark", "of no type");
	for (uint64_t i = 0; i < 7; i++)
		put_at(&trace, 500 + i * 1000, 11, 100 + i * 100);
	put_sample(&trace,
		   &(struct test_sample){.sequence = 1,
					 .flags = 2,
					 .time = 2500,
					 .cpu = 1,
					 .pid = 10,
					 .tid = 12,
					 .count = 100},
		   NULL);
	assert_int_equal(profile_parse(trace.data, trace.len, &p, error, sizeof(error)), 0);
	assert_int_equal(p.truncated_at, 0);
	buffer_deinit(&trace);
	return p;
}

static void check_section(const struct profile *p, uint32_t track, uint64_t time, const char *name)
{
	const struct profile_section *s = profile_section_at(p, track, time);

	if (!name) {
		assert_null(s);
		return;
	}
	assert_non_null(s);
	assert_string_equal(string_table_text(&p->strings, s->name), name);
}

static void test_sections(void **state)
{
	struct profile p = example();

	(void)state;
	assert_int_equal(p.n_sections, 4); /* the wait is none */
	assert_int_equal(p.n_tracks, 3);
	check_section(&p, 0, 999, NULL);
	check_section(&p, 0, 1000, "outer");
	check_section(&p, 0, 2250, "inner");
	check_section(&p, 0, 3000, "outer");
	check_section(&p, 0, 4999, "outer");
	check_section(&p, 0, 5000, NULL);
	check_section(&p, 2, 5999, "load");
	check_section(&p, 1, 5999, NULL);
	assert_int_equal(p.tracks[2].pid, 10);
	assert_int_equal(p.tracks[2].tid, 0);
	profile_deinit(&p);
}

static size_t n_wanted(const struct profile *p, const struct profile_filter *f)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_samples; i++)
		n += profile_sample_wanted(p, &p->samples[i], f);
	return n;
}

static void test_filter(void **state)
{
	struct profile p = example();
	const struct profile_filter inner = {.during = "inner"}, outside = {.outside = "inner"},
				    both = {.during = "outer", .outside = "inner"},
				    load = {.during = "load"};
	char error[256] = "";

	(void)state;
	assert_int_equal(p.n_samples, 8);
	assert_int_equal(profile_mark_samples(&p, "inner", NULL, error, sizeof(error)), 0);
	assert_int_equal(n_wanted(&p, &inner), 2); /* 2500, and 3500, where one begins */
	profile_deinit(&p);

	p = example();
	assert_int_equal(profile_mark_samples(&p, NULL, "inner", error, sizeof(error)), 0);
	assert_int_equal(n_wanted(&p, &outside), 6);
	profile_deinit(&p);

	p = example();
	assert_int_equal(profile_mark_samples(&p, "outer", "inner", error, sizeof(error)), 0);
	assert_int_equal(n_wanted(&p, &both), 2);
	profile_deinit(&p);

	p = example();
	assert_int_equal(profile_mark_samples(&p, "load", NULL, error, sizeof(error)), 0);
	assert_int_equal(n_wanted(&p, &load), 2); /* 4500, 5500 */
	assert_int_equal(profile_mark_samples(&p, "inmer", NULL, error, sizeof(error)), -ENOENT);
	assert_string_equal(error, "the trace has no mark 'inmer'; did you mean inner?");
	/* the name of an instant, or of anything else, is not a section */
	assert_int_equal(profile_mark_samples(&p, "instant", NULL, error, sizeof(error)), -ENOENT);
	profile_deinit(&p);
}

static char *report(const struct profile *p, const struct report_options *options)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	assert_int_equal(report_write(p, options, out), 0);
	assert_int_equal(fclose(out), 0);
	return text;
}

static void test_report(void **state)
{
	struct profile p = example();
	char *text = report(&p, &(struct report_options){.by = REPORT_MARK, .no_summary = true});

	(void)state;
	assert_string_equal(text,
			    "      p50       p99   longest  sections  CPU time       %  mark\n"
			    " 4.000 us  4.000 us  4.000 us         1    400 ns   50.00  outer\n"
			    " 2.000 us  2.000 us  2.000 us         1    200 ns   25.00  load\n"
			    " 1.000 us  1.000 us  1.000 us         2    200 ns   25.00  inner\n"
			    "\n4.000 us at 0.000000 s, thread 11: outer\n"
			    "   400 ns  100.00  [no stack]\n"
			    "\n2.000 us at 0.000003 s, process 10: load\n"
			    "   200 ns  100.00  [no stack]\n"
			    "\n1.000 us at 0.000003 s, thread 11: inner\n"
			    "   100 ns  100.00  [no stack]\n");
	free(text);
	text = report(&p,
		      &(struct report_options){.by = REPORT_MARK, .form = REPORT_CSV, .limit = 1});
	assert_string_equal(text, "mark,sections,p50_ns,p99_ns,longest_ns,self,total,total_percent,"
				  "total_samples\r\n"
				  "\"outer\",1,4000,4000,4000,200,400,50.000,4\r\n");
	free(text);
	text = report(&p, &(struct report_options){.by = REPORT_MARK, .form = REPORT_JSON});
	assert_non_null(strstr(text, "{\"mark\": \"load\", \"sections\": 1, \"p50_ns\": 2000"));
	assert_non_null(strstr(text, "\"stacks\": [{\"weight\": 400, \"samples\": 4, \"stack\": "
				     "\"[no stack]\"}]"));
	free(text);
	profile_deinit(&p);
}

static void test_systrace(void **state)
{
	struct profile p = example();
	const struct export_options only = {.only = {.pid = 11}};
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	assert_int_equal(export_systrace(&p, NULL, out), 0);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(
		text,
		"# tracer: nop\n#\n"
		"        [tid 11]-11      (     10) [000] ...1     0.000001: tracing_mark_write: "
		"B|10|outer\n"
		"        [tid 11]-11      (     10) [000] ...1     0.000002: tracing_mark_write: "
		"B|10|inner\n"
		"        [tid 11]-11      (     10) [000] ...1     0.000003: tracing_mark_write: "
		"E|10\n"
		"        [tid 11]-11      (     10) [000] ...1     0.000003: tracing_mark_write: "
		"B|10|inner\n"
		"           <...>-10      (     10) [000] ...1     0.000004: tracing_mark_write: "
		"S|10|load|512\n"
		"        [tid 11]-11      (     10) [000] ...1     0.000004: tracing_mark_write: "
		"E|10\n"
		"        [tid 11]-11      (     10) [000] ...1     0.000004: tracing_mark_write: "
		"I|10|instant\n"
		"        [tid 11]-11      (     10) [000] ...1     0.000005: tracing_mark_write: "
		"E|10\n"
		"           <...>-10      (     10) [000] ...1     0.000006: tracing_mark_write: "
		"F|10|load|512\n");
	free(text);
	out = open_memstream(&text, &len);
	assert_int_equal(export_systrace(&p, &only, out), 0);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text, "# tracer: nop\n#\n");
	free(text);
	profile_deinit(&p);
}

/* Ends without beginnings, beginnings without ends, a track that is its own parent, no marks. */
static void test_damaged(void **state)
{
	struct buffer trace = {0};
	struct profile p;
	char error[256] = "";
	char *text;

	(void)state;
	put_defaults(&trace, 1, 6, 1, 0, 1000);
	put_track(&trace, 77, 0, 0, "own", 77);
	put_track(&trace, 77, 10, 11, NULL, 0);
	put_event(&trace, 100, 77, 2, NULL, NULL);
	put_event(&trace, 200, 77, 1, "mark", "open");
	put_event(&trace, 300, 77, 1, "mark", NULL);
	put_at(&trace, 900, 11, 100);
	assert_int_equal(profile_parse(trace.data, trace.len, &p, error, sizeof(error)), 0);
	assert_int_equal(p.n_sections, 2);
	assert_int_equal(p.sections[0].end, 900);
	assert_int_equal(p.sections[1].up, 0);
	text = report(&p, &(struct report_options){.by = REPORT_MARK});
	assert_non_null(strstr(text, "[unnamed]"));
	free(text);
	profile_deinit(&p);
	buffer_deinit(&trace);

	put_defaults(&trace, 1, 6, 1, 0, 1000);
	put_at(&trace, 900, 11, 100);
	assert_int_equal(profile_parse(trace.data, trace.len, &p, error, sizeof(error)), 0);
	assert_int_equal(profile_mark_samples(&p, "x", NULL, error, sizeof(error)), -ENOENT);
	assert_non_null(strstr(error, "record --marks"));
	text = report(&p, &(struct report_options){.by = REPORT_MARK});
	assert_non_null(strstr(text, "no marks with a beginning and an end"));
	free(text);
	profile_deinit(&p);
	buffer_deinit(&trace);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sections), cmocka_unit_test(test_filter),
		cmocka_unit_test(test_report),	 cmocka_unit_test(test_systrace),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
