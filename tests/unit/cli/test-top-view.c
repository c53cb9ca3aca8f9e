/* test-top-view.c - the table of an interval: what came since the one before, as plain text and on a
 * terminal of its size. */
#include <errno.h>
#include <sys/ioctl.h>

#include "cli/top.h"
#include "base/log.h"
#include "tests/unit/capture.h"
#include "tests/unit/profile/build.h"

static struct top_args args;
static struct top_view view;

static int set_up(void **state)
{
	(void)state;
	args = (struct top_args){.limit = UINT32_MAX};
	assert_int_equal(top_view_init(&view, &args), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	top_view_deinit(&view);
	return 0;
}

/* Samples of @n functions f0, f1 ..., of weights (@n - i) ms. */
static void give(unsigned n)
{
	struct buffer trace = {0}, interned = {0};
	const uint64_t path[] = {1};
	uint64_t sum = 0;

	put_defaults(&trace, 1, 6, 1, 0, 99);
	put_interned(&interned, 17, 1, "app");
	put_mapping(&interned, 1, 0, path, 1);
	for (uint64_t i = 0; i < n; i++) {
		char name[24];

		(void)snprintf(name, sizeof(name), "f%lu", i);
		put_interned(&interned, 5, i + 1, name);
		put_frame(&interned, i + 1, i + 1, 1, 16 * (i + 1));
		put_callstack(&interned, i + 1, &(uint64_t){i + 1}, 1);
	}
	/* A running sum has no value for its first sample: that is one without weight. */
	for (uint64_t i = 0; i <= n; i++) {
		put_sample(&trace,
			   &(struct test_sample){.sequence = 1,
						 .flags = 2,
						 .time = 1000000 * (i + 1),
						 .pid = 7,
						 .tid = 7,
						 .stack = i ? i : 1,
						 .count = sum},
			   i ? NULL : &interned);
		sum += (n - i) * 1000000;
	}
	assert_int_equal(view.sink->write(view.sink, trace.data, trace.len), 0);
	buffer_deinit(&trace);
}

/* What is shown of it. */
static char *show(const struct top_state *state, int *ret_r)
{
	struct capture c;

	capture_begin(&c, STDOUT_FILENO);
	*ret_r = top_view_show(&view, state);
	return capture_end(&c);
}

/* The process of -p has ended: an interval without samples leaves the table before it, and a line states the end. */
static void test_ended(void **state)
{
	struct capture c;
	char *text;
	int r;

	(void)state;
	args.pids[0] = 0x3ffffff; /* over any pid_max */
	args.n_pids = 1;
	give(2);
	text = show(&(struct top_state){.event = "cpu-clock", .duration_s = 2}, &r);
	assert_non_null(strstr(text, "  f0"));
	free(text);
	text = show(&(struct top_state){.event = "cpu-clock", .duration_s = 3.5}, &r);
	assert_int_equal(r, 0);
	assert_string_equal(text, "");
	free(text);
	capture_begin(&c, STDOUT_FILENO);
	assert_int_equal(top_view_end(&view), 0);
	text = capture_end(&c);
	assert_string_equal(text, "process 67108863 has ended\nwhole run: 3 samples in 3.5 s\n");
	free(text);
}

static void test_interval(void **state)
{
	char *text;
	int r;

	(void)state;
	give(2);
	text = show(&(struct top_state){.event = "cpu-clock", .duration_s = 2, .lost = 1200}, &r);
	assert_int_equal(r, 0);
	assert_int_equal(
		strncmp(text,
			"3 samples in 2.0 s (cpu-clock), 1,200 lost in the kernel's rings\n"
			" self %      time samples",
			88),
		0);
	assert_non_null(strstr(text, "  f0"));
	free(text);
	/* nothing came, nothing more was lost; an empty line parts the tables */
	text = show(&(struct top_state){.event = "cpu-clock", .duration_s = 3.5, .lost = 1200}, &r);
	assert_int_equal(r, 0);
	assert_string_equal(text, "\n0 samples in 1.5 s (cpu-clock)\n");
	free(text);
	text = show(
		&(struct top_state){
			.event = "cpu-clock", .duration_s = 4, .lost = 1201, .dropped = 7},
		&r);
	assert_string_equal(text, "\n0 samples in 0.5 s (cpu-clock), 1 lost in the kernel's rings, "
				  "more than there is room for: 7 packets left out\n");
	free(text);
}

static size_t count_rows(const char *text)
{
	size_t n = 0;

	for (const char *at = text; (at = strstr(at, "  f")); at++)
		n += at[3] >= '0' && at[3] <= '9';
	return n;
}

/* Not on a terminal 20, or what is asked for. */
static void test_rows(void **state)
{
	static const struct {
		uint32_t limit;
		size_t rows;
	} cases[] = {{UINT32_MAX, 20}, {3, 3}, {0, 30}};
	char *text;
	int r;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		args.limit = cases[i].limit;
		give(30);
		text = show(&(struct top_state){.event = "cpu-clock", .duration_s = 1}, &r);
		assert_int_equal(r, 0);
		assert_int_equal(count_rows(text), cases[i].rows);
		free(text);
	}
}

/* What came is not a trace: it cannot be shown, and what comes next can. */
static void test_damage(void **state)
{
	char *text;
	int r;

	(void)state;
	assert_int_equal(view.sink->write(view.sink, "\377\377\377\377no trace", 12), 0);
	text = show(&(struct top_state){.event = "cpu-clock", .duration_s = 1}, &r);
	free(text);
	assert_true(r < 0);
	give(1);
	text = show(&(struct top_state){.event = "cpu-clock", .duration_s = 2}, &r);
	assert_int_equal(r, 0);
	assert_int_equal(count_rows(text), 1);
	free(text);
}

/* ---- a terminal ---- */

static int control = -1, terminal = -1, saved = -1;

static void terminal_begins(unsigned short rows, unsigned short columns)
{
	struct winsize size = {.ws_row = rows, .ws_col = columns};

	control = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (control < 0 || grantpt(control) < 0 || unlockpt(control) < 0)
		skip();
	terminal = open(ptsname(control), O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(terminal >= 0);
	assert_int_equal(ioctl(terminal, TIOCSWINSZ, &size), 0);
	saved = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
	(void)fflush(stdout);
	(void)dup2(terminal, STDOUT_FILENO);
}

/* What was written, into @text. */
static void terminal_ends(char *text, size_t size)
{
	ssize_t n;

	(void)fflush(stdout);
	(void)dup2(saved, STDOUT_FILENO);
	close(saved);
	assert_int_equal(ioctl(control, FIONBIO, &(int){1}), 0);
	for (size_t at = 0; (n = read(control, text + at, size - 1 - at)) > 0;)
		at += (size_t)n;
	close(terminal);
	close(control);
}

/* On a terminal each begins at the top of an empty screen, and as many rows as fit. */
static void test_terminal(void **state)
{
	char text[8192] = "", *second;
	int r = 0;

	(void)state;
	terminal_begins(9, 80);
	for (int i = 1; i <= 2 && r == 0; i++) {
		give(30);
		r = top_view_show(&view,
				  &(struct top_state){.event = "cpu-clock", .duration_s = i});
	}
	terminal_ends(text, sizeof(text));
	assert_int_equal(r, 0);
	assert_int_equal(strncmp(text, "\033[H\033[2J31 samples in 1.0 s", 26), 0);
	second = strstr(text + 1, "\033[H\033[2J31 samples in 1.0 s");
	assert_non_null(second);
	assert_int_equal(count_rows(second), 5); /* 9 but head, its columns, "... more", the last */
}

/* The first line in the longest form that fits: losses are always in it. */
static void test_narrow_head(void **state)
{
	static const struct {
		unsigned short columns;
		const char *head;
	} cases[] = {
		{160, "\033[H\033[2J31 samples in 1.0 s (cpu-clock:u), 9,000 lost in the kernel's "
		      "rings, more than there is room for: 7,000 packets left out\r\n"},
		{80, "\033[H\033[2J31 samples in 1.0 s (cpu-clock:u), 9,000 lost, 7,000 packets "
		     "lost\r\n"},
		{60, "\033[H\033[2J31 samples in 1.0 s, 9,000 lost, 7,000 packets lost\r\n"},
	};
	char text[8192];
	int r = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const double n = (double)i + 1;

		memset(text, 0, sizeof(text));
		terminal_begins(9, cases[i].columns);
		give(30);
		r = top_view_show(&view, &(struct top_state){.event = "cpu-clock:u",
							     .duration_s = n,
							     .lost = 9000 * (i + 1),
							     .dropped = 7000 * (i + 1)});
		terminal_ends(text, sizeof(text));
		assert_int_equal(r, 0);
		text[strlen(cases[i].head)] = 0;
		assert_string_equal(text, cases[i].head);
	}
}

/* ---- keys ---- */

/* What a key has written. */
static char *press(char key, int *ret_r)
{
	struct capture c;

	capture_begin(&c, STDOUT_FILENO);
	*ret_r = top_view_key(&view, key);
	return capture_end(&c);
}

static void show_one(double until)
{
	char *text;
	int r;

	give(2);
	text = show(&(struct top_state){.event = "cpu-clock", .duration_s = until}, &r);
	assert_int_equal(r, 0);
	free(text);
}

/* Each kind of rows, of the same interval, and round again; the other way too. */
static void test_key_rows(void **state)
{
	static const char *const columns[] = {"  pid  process", "  tid  thread",  "  module\n",
					      "  cgroup\n",	"  pid  process", "  function"};
	char *text;
	int r;

	(void)state;
	show_one(2);
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		text = press('s', &r);
		assert_int_equal(r, 0);
		assert_non_null(strstr(text, "3 samples in 2.0 s (cpu-clock)"));
		assert_non_null(strstr(text, columns[i]));
		free(text);
	}
	text = press('S', &r);
	assert_non_null(strstr(text, "  pid  process"));
	free(text);
	assert_int_equal(args.by, REPORT_FUNCTION); /* what was asked for is left alone */
}

/* What comes while it is paused is passed over: the next one is of its own time. */
static void test_key_pause(void **state)
{
	char *text;
	int r;

	(void)state;
	show_one(2);
	text = press(' ', &r);
	assert_non_null(strstr(text, "3 samples in 2.0 s"));
	free(text);
	give(9);
	text = show(&(struct top_state){.event = "cpu-clock", .duration_s = 7, .lost = 4}, &r);
	assert_int_equal(r, 0);
	assert_string_equal(text, "");
	free(text);
	text = press('s', &r); /* the table that stays, by processes */
	assert_non_null(strstr(text, "3 samples in 2.0 s"));
	free(text);
	free(press('p', &r));
	give(4);
	text = show(&(struct top_state){.event = "cpu-clock", .duration_s = 8, .lost = 4}, &r);
	assert_non_null(strstr(text, "5 samples in 1.0 s (cpu-clock)\n"));
	free(text);
}

/* It hides the table until the next key, whatever that is. */
static void test_key_help(void **state)
{
	char *text;
	int r;

	(void)state;
	text = press('h', &r);
	assert_non_null(strstr(text, "q           quit\n"));
	assert_non_null(strstr(text, " [function] process thread module cgroup pid\n"));
	free(text);
	give(2);
	text = show(&(struct top_state){.event = "cpu-clock", .duration_s = 2}, &r);
	assert_string_equal(text, "");
	free(text);
	text = press('x', &r);
	assert_non_null(strstr(text, "3 samples in 2.0 s"));
	assert_null(strstr(text, "quit"));
	free(text);
	text = press('x', &r); /* no key at all */
	assert_int_equal(r, 0);
	assert_string_equal(text, "");
	free(text);
}

/* A row is marked and stays in sight; Enter shows its callers, Esc the table again. */
static void test_key_callers(void **state)
{
	char *text;
	int r;

	(void)state;
	view.keys = true;
	args.limit = 3;
	give(9);
	text = show(&(struct top_state){.event = "cpu-clock", .duration_s = 2}, &r);
	assert_non_null(strstr(text, "> f0 "));
	free(text);
	for (int i = 0; i < 4; i++)
		free(press(TOP_DOWN, &r));
	free(press(TOP_UP, &r));
	text = press(TOP_DOWN, &r);
	assert_null(strstr(text, " f1 "));
	assert_non_null(strstr(text, "  f2 "));
	assert_non_null(strstr(text, "> f4 "));
	assert_non_null(strstr(text, "... and 4 more\n"));
	free(text);
	text = press('\r', &r);
	assert_int_equal(r, 0);
	assert_non_null(strstr(text, "callers of f4 (Esc: back)\n"));
	assert_null(strstr(text, "f3"));
	free(text);
	give(2); /* f4 is not in it */
	text = show(&(struct top_state){.event = "cpu-clock", .duration_s = 4}, &r);
	assert_int_equal(r, 0);
	assert_non_null(strstr(text, "callers of f4 (Esc: back)\nno samples\n"));
	free(text);
	text = press('\033', &r);
	assert_non_null(strstr(text, "> f1 ")); /* the last one that there is */
	free(text);
	free(press(TOP_PAGE_UP, &r));
	text = press(TOP_PAGE_UP, &r);
	assert_non_null(strstr(text, "> f0 "));
	free(text);
	text = press(TOP_PAGE_DOWN, &r);
	assert_non_null(strstr(text, "> f1 "));
	free(text);
}

static void test_key_filter(void **state)
{
	char *text;
	int r;

	(void)state;
	show_one(2);
	free(press('/', &r));
	text = press('q', &r); /* a letter of the text */
	assert_int_equal(r, 0);
	assert_non_null(strstr(text, "filter: q_\n"));
	assert_null(strstr(text, " f0"));
	free(text);
	free(press(127, &r));
	free(press('F', &r));
	free(press('1', &r));
	text = press('\n', &r);
	assert_non_null(strstr(text, "filter: F1 (Esc: all)\n"));
	assert_non_null(strstr(text, " f1 "));
	assert_null(strstr(text, " f0 "));
	free(text);
	text = press('\033', &r);
	assert_non_null(strstr(text, " f0 "));
	free(text);
	free(press('/', &r));
	for (int i = 0; i < 200; i++)
		free(press('x', &r));
	assert_int_equal(strlen(view.filter), sizeof(view.filter) - 1);
}

static void test_key_sort(void **state)
{
	char *text;
	int r;

	(void)state;
	show_one(2);
	for (int i = 0; i < 3; i++)
		free(press('t', &r));
	assert_int_equal(view.sort, REPORT_SORT_NAME);
	text = press('t', &r);
	assert_int_equal(view.sort, REPORT_SORT_SELF);
	assert_true(strstr(text, " f0 ") < strstr(text, " f1 "));
	free(text);
}

static char *end(int *ret_r)
{
	struct capture c;

	capture_begin(&c, STDOUT_FILENO);
	*ret_r = top_view_end(&view);
	return capture_end(&c);
}

/* The last line is the whole run.  All intervals, also those that were not shown, are in one table, except where the only one
 * is on display. */
static void test_whole_run(void **state)
{
	char *text;
	int r;

	(void)state;
	text = end(&r); /* no interval: it did not begin */
	assert_string_equal(text, "");
	free(text);
	show_one(2);
	text = end(&r);
	assert_int_equal(r, 0);
	assert_string_equal(text, "whole run: 3 samples in 2.0 s\n");
	free(text);
	free(press(' ', &r));
	give(3);
	text = show(&(struct top_state){.event = "cpu-clock", .duration_s = 5, .lost = 4}, &r);
	assert_string_equal(text, "");
	free(text);
	text = end(&r);
	assert_int_equal(r, 0);
	/* f0: 2 and 3 ms, f1: 1 and 2, f2: 1 */
	assert_string_equal(text, "\nall intervals:\n"
				  " self %      time total %      time  function  module\n"
				  "  55.56  5.000 ms   55.56  5.000 ms  f0        app\n"
				  "  33.33  3.000 ms   33.33  3.000 ms  f1        app\n"
				  "  11.11  1.000 ms   11.11  1.000 ms  f2        app\n"
				  "whole run: 7 samples in 5.0 s, 4 lost\n");
	free(text);
	args.once = true;
	text = end(&r);
	assert_string_equal(text, "");
	free(text);
}

static void test_key_quit(void **state)
{
	char *text;
	int r;

	(void)state;
	text = press('s', &r); /* nothing was shown yet */
	assert_string_equal(text, "");
	free(text);
	text = press('q', &r);
	assert_int_equal(r, TOP_QUIT);
	assert_string_equal(text, "");
	free(text);
	give(2); /* what was sampled until then: the table stays */
	text = show(&(struct top_state){.event = "cpu-clock", .duration_s = 2}, &r);
	assert_int_equal(r, 0);
	assert_string_equal(text, "");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
		EACH(test_ended),	EACH(test_interval),	EACH(test_rows),
		EACH(test_damage),	EACH(test_terminal),	EACH(test_key_rows),
		EACH(test_key_pause),	EACH(test_key_help),	EACH(test_key_quit),
		EACH(test_key_callers), EACH(test_key_filter),	EACH(test_key_sort),
		EACH(test_whole_run),	EACH(test_narrow_head),
#undef EACH
	};

	(void)setenv("TERM", "dumb", 1); /* without colours */
	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
