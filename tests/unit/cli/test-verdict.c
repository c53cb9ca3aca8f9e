/* test-verdict.c - what a recording came to, in words and as JSON: figures by hand, few samples, and none. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/verdict.h"
#include "tests/unit/cmocka.h"

static struct session_summary summary;
static struct verdict verdict;

static int set_up(void **state)
{
	(void)state;
	summary = (struct session_summary){
		.code = FRAMES_ALL,
		.duration_s = 5.125,
		.cpu_accounted = 0.999,
		.self_cpu_s = 0.25,
		.self_us_per_sample = 201.23,
		.self_peak_rss_kb = 29184,
		.bytes = 122880,
		.counts = {.lost_exact = true, .lost_samples = 3, .lost_sideband = 2},
		.account = {.emitted = 1240,
			    .whole = 1000,
			    .cut = 200,
			    .frames = 12400,
			    .lost_records = 2,
			    .lost_sideband_records = 1},
	};
	summary.account.failed[UW_NO_MODULE] = 30;
	summary.account.failed[UW_MEMORY] = 10;
	verdict = (struct verdict){.summary = &summary,
				   .file = "a\"b.pftrace",
				   .event = "cpu-clock",
				   .frequency = 999,
				   .complete = true};
	return 0;
}

static char *written(void (*write)(const struct verdict *, FILE *))
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(out);
	write(&verdict, out);
	assert_int_equal(fclose(out), 0);
	return text;
}

static void assert_printed(const char *part)
{
	char *text = written(verdict_print);

	assert_non_null(strstr(text, part));
	free(text);
}

static void assert_written(void (*write)(const struct verdict *, FILE *), const char *expected)
{
	char *text = written(write);

	assert_string_equal(text, expected);
	free(text);
}

static void test_words(void **state)
{
	(void)state;
	assert_written(verdict_print,
		       "1,240 samples in 5.1 s (cpu-clock, 999 Hz)\n"
		       "  seen     99.9 % of the CPU time used\n"
		       "  stacks   1,000 whole (80.65 %), 200 cut (deeper than the copy; hint: "
		       "`perfwind doctor` shows whether BPF can copy the rest), 40 failed "
		       "(no-module 30, memory 10); 10 frames each\n"
		       "  lost     3 in the kernel's rings, 2 process records\n"
		       "  cost     201.2 us CPU a sample, 0.25 s in all, 28.5 MiB at most\n"
		       "  file     a\"b.pftrace, 120 KiB (99 bytes a sample)\n");
}

/* On a terminal of 40 columns the line does not wrap. */
static void test_live(void **state)
{
	const struct winsize window = {.ws_col = 40, .ws_row = 10};
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), slave;
	char name[64], text[256];
	ssize_t n;
	FILE *out;

	(void)state;
	assert_true(master >= 0);
	assert_true(!grantpt(master) && !unlockpt(master) &&
		    !ptsname_r(master, name, sizeof(name)));
	slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	assert_true(slave >= 0);
	assert_int_equal(ioctl(slave, TIOCSWINSZ, &window), 0);
	out = fdopen(slave, "w");
	assert_non_null(out);
	verdict_print_live(&summary, out);
	n = read(master, text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = 0;
	assert_string_equal(text, "\r\033[K   5.1 s  1,240 samples  3 lost  4.88 %");
	log_live_line(false);
	assert_int_equal(fclose(out), 0);
	assert_int_equal(close(master), 0);
}

/* Why stacks are cut, and what helps. */
static void test_cut(void **state)
{
	const struct import_damage damage = {0};

	(void)state;
	summary.at_sample = true;
	assert_printed(" whole (80.65 %), 200 cut (deeper than the copy), 40 failed (");
	summary.account.too_deep = 50;
	assert_printed(", 200 cut (deeper than the copy; 50 of more than 4096 frames), 40 ");
	summary.account.too_deep = 200;
	summary.at_sample = false;
	assert_printed(", 200 cut (200 of more than 4096 frames), 40 failed (");
	summary.account.too_deep = 0;
	summary.account.page_absent = 200;
	assert_printed(", 200 cut (200 at a page of the stack that was not in memory yet, as "
		       "behind a fork), 40 ");
	summary.account.page_absent = 20;
	summary.at_sample = true;
	assert_printed(", 200 cut (deeper than the copy; 20 at a page of the stack that was not in "
		       "memory yet, as behind a fork), 40 ");
	summary.at_sample = false;
	summary.account.page_absent = 0;
	summary.account.switched = 199;
	assert_printed(geteuid() ? ", 200 cut (deeper than the copy; 199 go on in a stack that is "
				   "not in the copy, as a goroutine's; root may read it), 40 "
				 : ", 200 cut (deeper than the copy; 199 go on in a stack that is "
				   "not in the copy, as a goroutine's), 40 ");
	summary.account.cut = summary.account.switched = 0;
	assert_printed(", 0 cut, 40 failed (");
	summary.account.cut = 12; /* less than a hundredth: no hint */
	assert_printed(", 12 cut (deeper than the copy), 40 failed (");
	summary.account.cut = 13;
	verdict.damage = &damage;
	assert_printed(
		", 13 cut (deeper than the copy; hint: perf record --call-graph dwarf,65528), ");
	verdict.stack_bytes = 65528;
	assert_printed(", 13 cut (deeper than the copy; hint: perfwind record completes them), ");
	verdict.stack_bytes = 0;
}

/* The kernel does not count: the sum of the LOST records is a lower bound; samples that we left out, and time. */
static void test_losses(void **state)
{
	char *text;

	(void)state;
	summary.counts.small_rings = true;
	assert_printed("\n  lost     3 in the kernel's rings (hint: sudo sysctl "
		       "kernel.perf_event_mlock_kb=65536), 2 process records\n");
	summary.counts.lost_samples = 0;
	assert_printed("\n  lost     0 in the kernel's rings, 2 process records\n");
	summary.counts = (struct perf_counts){0};
	summary.account.cut = 0;
	summary.account.throttled_ns = 1250000000;
	summary.account.skipped[SKIP_PARK_FULL] = 1234;
	text = written(verdict_print);
	assert_non_null(strstr(text, "  lost     at least 2 in the kernel's rings, throttled for "
				     "1.25 s: the kernel allows fewer samples (hint: a lower "
				     "-F); 1,234 skipped ("));
	assert_non_null(strstr(text, "  late     for 1,234 of these samples (50 % of all) the "));
	free(text);
	summary.account.skipped[SKIP_PARK_FULL] = 0;
	summary.account.skipped[SKIP_DOUBLE] = 1234;
	text = written(verdict_print);
	assert_null(strstr(text, "  late "));
	assert_null(strstr(text, "  script "));
	free(text);
	summary.account.lacks_functions = 1;
	text = written(verdict_print);
	assert_non_null(strstr(text, "\n  script   1 stack ("));
	assert_null(strstr(text, "doctor"));
	free(text);
	summary.account.lacks_functions = summary.account.emitted;
	text = written(verdict_print);
	assert_non_null(strstr(text,
			       " stacks (100.00 %) lack functions of the script: they had changed "
			       "before perfwind read them (hint: `perfwind doctor`"));
	free(text);
	summary.account.lacks_at_start = summary.account.emitted - 1;
	assert_printed("(100.00 %) lack functions of the script, 1,239 of these in the first 0.5 s "
		       "of a program: they had changed before perfwind read them\n");
	summary.account.lacks_at_start++;
	assert_printed("of the script, all of these in the first 0.5 s of a program: ");
	summary.account.lacks_at_start = 0;
	summary.at_sample = true; /* it does */
	text = written(verdict_print);
	assert_non_null(strstr(text, "before perfwind read them\n"));
	free(text);
	summary.account.lacks_functions = 0;
	summary.account.freed_functions = 1234;
	text = written(verdict_print);
	assert_non_null(strstr(text, "\n  script   1,234 functions without a name: freed "));
	assert_null(strstr(text, "lack functions"));
	free(text);
	summary.account.freed_functions = 1;
	text = written(verdict_print);
	assert_non_null(strstr(text, "\n  script   1 function without a name: freed "));
	free(text);
	assert_printed("\n  script   1 function without a name: freed by the program before "
		       "perfwind read it\n");
	summary.n_unsymbolized = 3; /* those of JavaScript have other reasons */
	strcpy(summary.unsymbolized[0].path, "/bin/x");
	strcpy(summary.unsymbolized[1].path, UW_PHP_PATH);
	strcpy(summary.unsymbolized[2].path, UW_JS_PATH);
	for (uint64_t i = 0; i < 3; i++)
		summary.unsymbolized[i].samples = 124 + i * 1000;
	summary.account.emitted = 11240;
	assert_printed(
		"\n  script   1,124 samples (10.00 %) with functions without a name (1 function): "
		"freed by the program before perfwind read them\n");
	summary.account.freed_functions = 0;
	assert_printed(
		"\n  script   1,124 samples (10.00 %) with functions without a name: freed by "
		"the program before perfwind read them\n");
	summary.account.emitted = 1240;
	summary.n_unsymbolized = 0;
	summary.account.skipped[SKIP_DOUBLE] = 0;
	summary.account.lost_records = 0;
	text = written(verdict_print);
	assert_non_null(strstr(text, "  lost     none known in the kernel's rings"));
	free(text);
}

/* Where the CPU time was that was not seen. */
static void test_seen(void **state)
{
	(void)state;
	summary.code = FRAMES_USER;
	summary.cpu_accounted = 0.526;
	assert_printed("52.6 % of the CPU time used; the rest was in the kernel, which was not "
		       "sampled, or was lost\n");
	summary.account.skipped[SKIP_NOT_IN_SCOPE] = 1;
	assert_printed("in the kernel or in processes out of scope, or was lost\n");
	summary.counts.lost_samples = 0;
	assert_printed("in the kernel or in processes out of scope\n");
	summary.account.skipped[SKIP_NOT_IN_SCOPE] = 0;
	assert_printed("in the kernel, which was not sampled\n");
	summary.account.throttled_ns = 1;
	assert_printed("in the kernel, which was not sampled, or was lost\n");
}

/* Shares and means of so few would be noise. */
static void test_few(void **state)
{
	(void)state;
	summary.account = (struct account){.emitted = 1, .whole = 1, .frames = 7};
	summary.counts = (struct perf_counts){.lost_exact = true};
	summary.cpu_accounted = 2.7;
	summary.n_unsymbolized = 3;
	strcpy(summary.unsymbolized[0].path, "/bin/x");
	summary.unsymbolized[0].samples = 1;
	strcpy(summary.unsymbolized[1].path, "/tmp/perf-7.map");
	summary.unsymbolized[1].samples = 1;
	summary.unsymbolized[1].hint = "java --names";
	strcpy(summary.unsymbolized[2].path, "/tmp/perf-8.map");
	summary.unsymbolized[2].samples = 1;
	verdict.frequency = 0;
	verdict.period = 1000;
	assert_written(verdict_print,
		       "1 sample in 5.1 s (cpu-clock, one each 1,000)\n"
		       "  stacks   1 whole (100.00 %), 0 cut, 0 failed; 7 frames each\n"
		       "  lost     0 in the kernel's rings\n"
		       "  cost     0.25 s of CPU in all, 28.5 MiB at most\n"
		       "  file     a\"b.pftrace, 120 KiB\n"
		       "  symbols  /bin/x: 1 sample with frames without symbols\n"
		       "           JIT code of process 7: 1 sample with frames without symbols "
		       "(hint: java "
		       "--names)\n"
		       "           JIT code of process 8: 1 sample with frames without symbols "
		       "(hint: start "
		       "its runtime with a perf map or jitdump)\n");
	summary.unsymbolized[1].hint = NULL;
}

static void test_none(void **state)
{
	(void)state;
	summary.account = (struct account){0};
	summary.counts = (struct perf_counts){.lost_exact = true};
	summary.cpu_accounted = 0;
	assert_written(verdict_print, "0 samples in 5.1 s (cpu-clock, 999 Hz)\n"
				      "  seen     0.0 % of the CPU time used\n"
				      "  stacks   none (hint: less CPU time was used than the 1.00 "
				      "ms of one sample: record for longer, or raise -F)\n"
				      "  lost     0 in the kernel's rings\n"
				      "  cost     0.25 s of CPU in all, 28.5 MiB at most\n"
				      "  file     a\"b.pftrace, 120 KiB\n");
	/* Samples that were skipped explain it. */
	summary.account.skipped[1] = 3;
	assert_written(
		verdict_print,
		"0 samples in 5.1 s (cpu-clock, 999 Hz)\n"
		"  seen     0.0 % of the CPU time used\n"
		"  stacks   none (hint: no process in the scope, as of -u or -G, used CPU time)\n"
		"  lost     0 in the kernel's rings; 3 skipped (not-in-scope)\n"
		"  cost     0.25 s of CPU in all, 28.5 MiB at most\n"
		"  file     a\"b.pftrace, 120 KiB\n");
}

/* Processes that end before their first sample; callchains without frame pointers. */
static void test_hints(void **state)
{
	char *text;

	(void)state;
	summary.account = (struct account){
		.emitted = 20, .whole = 5, .frames = 30, .failed[UW_NO_UNWIND_INFO] = 15};
	summary.counts = (struct perf_counts){.lost_exact = true};
	summary.cpu_accounted = 0.12;
	summary.used_s = 0.173;
	summary.self_us_per_sample = 7;
	assert_written(
		verdict_print,
		"20 samples in 5.1 s (cpu-clock, 999 Hz)\n"
		"  short    0.173 s of CPU time were used and little of it was seen; hint: of "
		"processes that live for less than a sample, `record -a -- COMMAND` sees more\n"
		"  seen     12.0 % of the CPU time used\n"
		"  stacks   5 whole (25.00 %), 0 cut, 15 failed (no-unwind-info 15); 2 frames each "
		"(hint: --unwinder fp, and code without unwind information, need frame "
		"pointers)\n"
		"  lost     0 in the kernel's rings\n"
		"  cost     7.0 us CPU a sample, 0.25 s in all, 28.5 MiB at most\n"
		"  file     a\"b.pftrace, 120 KiB (6144 bytes a sample)\n");
	/* A frame pointer that has another use leads anywhere. */
	summary.account.failed[UW_NO_UNWIND_INFO] = 7;
	summary.account.failed[UW_NO_MODULE] = 8;
	assert_printed("2 frames each (hint: --unwinder fp, and code without ");
	summary.account.failed[UW_NO_UNWIND_INFO] = 15;
	summary.account.failed[UW_NO_MODULE] = 0;
	verdict.damage = &(struct import_damage){0};
	assert_printed("2 frames each (hint: callchains need programs with frame pointers; "
		       "--call-graph dwarf does not)");
	verdict.damage = NULL;
	summary.account.failed[UW_UNREADABLE] = 15;
	assert_printed(geteuid() ? "each (hint: the files and the memory of the programs cannot "
				   "be read; root may)\n"
				 : "each (hint: the files and the memory of the programs cannot "
				   "be read: `perfwind doctor` shows why)\n");
	summary.account.failed[UW_UNREADABLE] = 0;
	/* It has another reason. */
	summary.account.throttled_ns = 1;
	text = written(verdict_print);
	assert_null(strstr(text, "  short "));
	free(text);
	summary.account.throttled_ns = 0;
	summary.used_s = 0;
}

static void test_json(void **state)
{
	(void)state;
	summary.n_unsymbolized = 1;
	strcpy(summary.unsymbolized[0].path, "/bin/x");
	strcpy(summary.unsymbolized[0].build_id, "12ab");
	summary.unsymbolized[0].samples = 5;
	summary.account.skipped[SKIP_NOT_IN_SCOPE] = 7;
	summary.account.freed_functions = 8;
	assert_written(
		verdict_print_json,
		"{\"file\":\"a\\\"b.pftrace\",\"bytes\":122880,\"duration_s\":5.125,"
		"\"samples\":1240,\"complete\":true,\"stacks\":{\"whole\":1000,"
		"\"unchecked\":0,\"lacking_functions\":0,\"cut\":200,"
		"\"failed\":{\"no-module\":30,\"memory\":10}},"
		"\"freed_functions\":8,\"lost\":{\"samples\":3,\"sideband\":2,\"records_seen\":3,"
		"\"throttled_s\":0.000000,\"unwritten\":0},\"skipped\":{\"not-in-scope\":7},"
		"\"cpu_accounted\":0.9990,\"self\":{\"cpu_s\":0.2500,"
		"\"us_per_sample\":201.230,\"peak_rss_kb\":29184},"
		"\"modules_without_symbols\":[{\"path\":\"/bin/x\",\"build_id\":\"12ab\","
		"\"samples\":5}]}\n");
}

/* Every key that is printed is described in the man pages. */
static void test_json_is_reported(void **state)
{
	static const char *const keys[] = {
		"file",	    "bytes",	     "duration_s",
		"samples",  "stacks",	     "whole",
		"cut",	    "failed",	     "lost",
		"sideband", "records_seen",  "throttled_s",
		"skipped",  "self",	     "cpu_accounted",
		"cpu_s",    "us_per_sample", "peak_rss_kb",
		"path",	    "build_id",	     "modules_without_symbols",
		"complete", "unwritten",     "unchecked",
	};
	char *text, quoted[64];

	(void)state;
	summary.n_unsymbolized = 1;
	text = written(verdict_print_json);
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		(void)snprintf(quoted, sizeof(quoted), "\"%s\":", keys[i]);
		assert_non_null(strstr(text, quoted));
		assert_non_null(strstr(VERDICT_JSON, keys[i]));
	}
	free(text);
}

/* What a target or a user has called something is safe on a terminal, and JSON for a program: escape
 * sequences, line ends, C1 controls, and bytes that are not text. */
static void test_controls(void **state)
{
	char *text;

	(void)state;
	summary.n_unsymbolized = 1;
	strcpy(summary.unsymbolized[0].path, "/tmp/\033]0;owned\a\n1,240 samples\xc2\x9b\xff\x7f");
	summary.unsymbolized[0].samples = 1;
	verdict.event = "cpu\033[2J\r-clock";
	verdict.file = "out\033[31m\n.pftrace";
	text = written(verdict_print);
	for (const char *p = text; *p; p++)
		assert_true(*p == '\n' || ((unsigned char)*p >= ' ' && *p != 0x7f));
	assert_null(strstr(text, "\xc2\x9b"));
	assert_non_null(strstr(text, "(cpu?[2J?-clock, 999 Hz)\n"));
	assert_non_null(strstr(text, "  file     out?[31m?.pftrace, 120 KiB"));
	assert_non_null(strstr(text, "  symbols  /tmp/?]0;owned??1,240 samples"));
	free(text);
	text = written(verdict_print_json);
	assert_non_null(strstr(text, "{\"file\":\"out\\u001b[31m\\u000a.pftrace\","));
	assert_non_null(strstr(text, "{\"path\":\"/tmp/\\u001b]0;owned\\u0007\\u000a1,240 "
				     "samples\xc2\x9b\\ufffd\\u007f\","));
	assert_int_equal(strcspn(text, "\n"), strlen(text) - 1); /* one line */
	free(text);
}

/* Writing failed: the file's own figures, and what it lacks. */
static void test_cut_off(void **state)
{
	const struct sink sink = {.written.samples = 240};
	const struct sink more = {.written.samples = 1241};
	char *text;

	(void)state;
	verdict.unwritten = verdict_unwritten(&summary, &sink, 0);
	assert_int_equal(verdict.unwritten, 1000);
	assert_int_equal(verdict_unwritten(&summary, &more, 0), 0);
	verdict.complete = false;
	summary.bytes = 24000;
	text = written(verdict_print);
	assert_true(strstr(text, "240 samples in 5.1 s (cpu-clock, 999 Hz); 1,000 more are not in "
				 "the file\n") == text);
	assert_non_null(strstr(text, "  file     a\"b.pftrace, 23 KiB (100 bytes a sample), cut "
				     "off: it has no end mark\n"));
	free(text);
	text = written(verdict_print_json);
	assert_non_null(strstr(text, "\"samples\":240,\"complete\":false,"));
	assert_non_null(strstr(text, ",\"unwritten\":1000},"));
	free(text);
}

static void test_trace_session(void **state)
{
	const struct trace_session_summary s = {.duration_s = 2,
						.n_sources = 2,
						.samples = 1990,
						.whole = 1980,
						.cut = 7,
						.failed = 3,
						.self_cpu_s = 0.126,
						.overwritten = 1200,
						.discarded = 3,
						.full = true};
	struct sink sink = {.bytes = 1025, .written.samples = 1990};
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	assert_non_null(out);
	verdict_print_trace(&s, "t\a.pftrace", &sink, true, out);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(
		text, "1,990 samples in 2.0 s from 2 data sources\n"
		      "  stacks   1,980 whole (99.50 %), 7 cut, 3 failed (perfwind report "
		      "prints the reasons)\n"
		      "  lost     0 in the kernel's rings; 1,200 packets overwritten in a "
		      "RING_BUFFER, as configured; 3 packets that a full buffer did not take\n"
		      "  cost     0.13 s of CPU\n"
		      "  file     t?.pftrace, 1025 bytes (full: max_file_size_bytes)\n");
	free(text);
	sink.written.samples = 7;
	out = open_memstream(&text, &len);
	verdict_print_trace(&s, "t", &sink, false, out);
	assert_int_equal(fclose(out), 0);
	assert_non_null(strstr(text, "2 data sources, 7 in the file\n"));
	assert_non_null(strstr(text,
			       "1025 bytes (full: max_file_size_bytes), cut off: it has no end "
			       "mark\n"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define EACH(t) cmocka_unit_test_setup(t, set_up)
		EACH(test_words),	  EACH(test_live),     EACH(test_cut),
		EACH(test_losses),	  EACH(test_few),      EACH(test_none),
		EACH(test_hints),	  EACH(test_json),     EACH(test_json_is_reported),
		EACH(test_trace_session), EACH(test_controls), EACH(test_cut_off),
		EACH(test_seen),
#undef EACH
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
