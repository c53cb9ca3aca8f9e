/* test-profile-calls.c - a trace is read and written in each form, while each allocation and open() of it fails once: an error and
 * nothing is kept, or the output is whole.  The traces are those that the fuzzer begins with (tests/fuzz/corpus/trace). */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/fail-calls.h"

#include "profile/diff.h"
#include "profile/profile-export.h"
#include "profile/script.h"
#include "profile/trace-text.h"

struct job {
	const char *path;
	FILE *out;
	long len; /* of the output; 0: not known yet */
	int (*write)(const struct profile *profile, FILE *out);
};
struct form {
	const char *name;
	int (*write)(const struct profile *profile, FILE *out);
};

static int run(void *arg)
{
	struct job *job = arg;
	struct profile p;
	char error[256];
	int r = profile_read(job->path, &p, error, sizeof(error));

	if (r < 0)
		return r;
	rewind(job->out);
	r = job->write(&p, job->out);
	profile_deinit(&p);
	if (r < 0)
		return r;
	if (job->len && ftell(job->out) != job->len)
		fail_msg("call %lu: %ld bytes of %ld", calls_fail_at, ftell(job->out), job->len);
	job->len = ftell(job->out);
	return r;
}
static void end(void *arg)
{
	(void)arg;
}

static int report(const struct profile *p, FILE *out)
{
	return report_write(p, &(struct report_options){.sort = REPORT_SORT_TOTAL}, out);
}
static int tree(const struct profile *p, FILE *out)
{
	return report_write(p, &(struct report_options){.tree = true}, out);
}
static int threads_as_json(const struct profile *p, FILE *out)
{
	return report_write(p, &(struct report_options){.by = REPORT_THREAD, .form = REPORT_JSON},
			    out);
}
static int folded(const struct profile *p, FILE *out)
{
	return export_folded(p, NULL, out);
}
static int pprof(const struct profile *p, FILE *out)
{
	return export_pprof(p, NULL, out);
}
static int str(const struct profile *p, FILE *out)
{
	return export_str(p, NULL, out);
}
static int bin(const struct profile *p, FILE *out)
{
	return export_bin(p, NULL, out);
}
static int html(const struct profile *p, FILE *out)
{
	return export_html(p, NULL, out);
}
static int differences(const struct profile *p, FILE *out, bool paths, bool json)
{
	const struct diff_options o = {.all = true, .tree = paths, .json = json};
	char error[256];
	struct diff d;
	int r = diff_init(&d, p, p, &o, error, sizeof(error));

	if (r < 0)
		return r;
	r = diff_write(&d, &o, (const char *[]){"a", "b"}, out);
	diff_deinit(&d);
	return r;
}
static int diff_functions(const struct profile *p, FILE *out)
{
	return differences(p, out, false, false);
}
static int diff_paths(const struct profile *p, FILE *out)
{
	return differences(p, out, true, false);
}
static int diff_as_json(const struct profile *p, FILE *out)
{
	return differences(p, out, true, true);
}

static int diff_page(const struct profile *p, FILE *out)
{
	const struct diff_options o = {.page = true, .tree = true};
	char error[256];
	struct diff d;
	int r = diff_init(&d, p, p, &o, error, sizeof(error));

	if (r < 0)
		return r;
	r = diff_page_write(&d, (const char *[]){"a", "b"}, out);
	diff_deinit(&d);
	return r;
}
static int script(const struct profile *p, FILE *out)
{
	return script_write(p, NULL, 0, out);
}
static int systrace(const struct profile *p, FILE *out)
{
	return export_systrace(p, NULL, out);
}
static int marks(const struct profile *p, FILE *out)
{
	return report_write(p, &(struct report_options){.by = REPORT_MARK}, out);
}
static int modules_as_csv(const struct profile *p, FILE *out)
{
	return report_write(p, &(struct report_options){.by = REPORT_MODULE, .form = REPORT_CSV},
			    out);
}

/* All packets, without the profile; how much was written is in job->len. */
static int run_text(void *arg)
{
	struct job *job = arg;
	int fd = open(job->path, O_RDONLY | O_CLOEXEC), r;
	char error[256] = "";

	if (fd < 0)
		return -errno;
	rewind(job->out);
	r = trace_text(fd, job->out, error, sizeof(error));
	(void)close(fd);
	if (r < 0 && !error[0])
		fail_msg("call %lu: %d without a line", calls_fail_at, r);
	if (r >= 0 && job->len && ftell(job->out) != job->len)
		fail_msg("call %lu: %ld bytes of %ld", calls_fail_at, ftell(job->out), job->len);
	if (r >= 0)
		job->len = ftell(job->out);
	return r;
}

static void sweep(const char *file, const struct form *form, FILE *out)
{
	char path[128], name[64];
	struct job job = {path, out, 0, form->write};

	(void)snprintf(path, sizeof(path), "tests/fuzz/corpus/trace/%s", file);
	(void)snprintf(name, sizeof(name), "%s of %s", form->name, file);
	calls_sweep(&(struct calls_made){name, form->write ? run : run_text, end, &job});
}

/* Sections of programs, counts of followers, and traces of other writers, with each form that shows them. */
static void test_others(void **state)
{
	static const struct {
		const char *file;
		struct form form;
	} all[] = {
		{"track-events", {"marks", marks}},
		{"track-events", {"systrace", systrace}},
		{"track-events", {"html", html}},
		{"marks", {"systrace", systrace}},
		{"followers", {"script", script}},
		{"incarnations", {"modules", modules_as_csv}},
		{"process-stats", {"report", report}},
		{"inlined", {"page", diff_page}},
		{"stock", {"text", NULL}},
		{"compressed", {"text", NULL}},
	};
	FILE *out = tmpfile();

	(void)state;
	assert_non_null(out);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		sweep(all[i].file, &all[i].form, out);
	(void)fclose(out);
}

static void test_all(void **state)
{
	static const char *const files[] = {"inlined", "stock", "compressed"};
	static const struct form forms[] = {
		{"report", report},    {"tree", tree},	       {"threads", threads_as_json},
		{"folded", folded},    {"pprof", pprof},       {"str", str},
		{"bin", bin},	       {"html", html},	       {"diff", diff_functions},
		{"paths", diff_paths}, {"json", diff_as_json},
	};
	FILE *out = tmpfile();

	(void)state;
	assert_non_null(out);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		for (size_t k = 0; k < ARRAY_SIZE(forms); k++)
			sweep(files[i], &forms[k], out);
	(void)fclose(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_all),
					   cmocka_unit_test(test_others)};

	return cmocka_run_group_tests_name("profile-calls", tests, NULL, NULL);
}
