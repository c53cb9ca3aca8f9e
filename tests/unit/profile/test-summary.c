/* test-summary.c - the verdict from statistics, from samples alone, and from figures that cannot
 * be. */
#include <math.h>

#include "profile/summary.h"
#include "profile/trace-stats.h"
#include "tests/unit/profile/hand.h"

static const struct summary_fact *fact(const struct summary *s, const char *label)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->facts[i].label, label))
			return &s->facts[i];
	return NULL;
}

static struct summary summary_only(const struct profile *p, const struct profile_filter *only)
{
	struct summary s;
	struct fold f;

	assert_int_equal(fold_init(&f, p, only), 0);
	summary_init(&s, &f);
	fold_deinit(&f);
	return s;
}

static struct summary summary_of(const struct profile *p)
{
	return summary_only(p, NULL);
}

static void assert_fact(const struct summary *s, const char *label, const char *value, bool warn)
{
	const struct summary_fact *f = fact(s, label);

	assert_non_null(f);
	assert_string_equal(f->value, value);
	assert_int_equal(f->warn, warn);
}

static void from_statistics(void **state)
{
	struct profile p = hand_example();
	struct summary s;

	(void)state;
	hand_stat(&p, "duration_s", 10);
	hand_stat(&p, "lost.samples", 91);
	hand_stat(&p, "lost.sideband", 3);
	hand_stat(&p, "lost.throttled_s", 0.25);
	hand_stat(&p, "skipped.fd-timeout", 2);
	hand_stat(&p, "skipped.queue", 1);
	hand_stat(&p, "skipped.double", 7); /* nothing is missing */
	hand_stat(&p, "consent.asked", 5);
	hand_stat(&p, "consent.given", 3);
	hand_stat(&p, "consent.late", 1);
	hand_stat(&p, "consent.unanswered", 0);
	hand_stat(&p, "refused.calls", 4);
	hand_stat(&p, "refused.answer-not-proc", 2);
	hand_stat(&p, "cpu_accounted", 0.515);
	hand_stat(&p, "self.cpu_s", 0.1234);
	hand_stat(&p, "self.us_per_sample", 2.06);
	hand_sample(&p, 100, 100, 0, 30)->unwind_error = 3;
	hand_stat(&p, "stacks.failed.no-module", 1);
	hand_stat(&p, "stacks.lacking_functions", 2);
	hand_stat(&p, "stacks.lacking_at_start", 1);
	hand_stat(&p, "functions.freed", 1234);
	hand_stat(&p, "stacks.with_freed", 3);
	p.truncated_at = 4711;
	p.end.cut = 1;
	p.end.behind_ms = 2500;
	s = summary_of(&p);
	assert_fact(&s, "Event", "cpu-clock", false);
	assert_fact(&s, "Samples", "10 over 10.0 s, weight 100 ns", false);
	assert_fact(
		&s, "Stacks",
		"70.00 % whole, 10.00 % cut, 10.00 % failed (no-module 1), 10.00 % without a stack",
		true);
	assert_fact(&s, "Script",
		    "2 stacks (20.00 %) lack functions of the script, 1 of these at the start of a "
		    "program: they had changed before perfwind read them; 3 samples (30.00 %) with "
		    "functions without a name (1,234 functions): freed before perfwind read them",
		    false);
	assert_fact(&s, "Lost",
		    "91 samples (89.22 %), 3 sideband records, throttled for 0.250 s; "
		    "there may be more, as the file is not whole",
		    true);
	assert_fact(&s, "Skipped", "3 samples (fd-timeout 2, queue 1)", true);
	assert_fact(&s, "Consent", "5 asked, 3 gave, 1 late", false);
	assert_fact(&s, "Refused", "calls 4, answer-not-proc 2", true);
	assert_fact(&s, "CPU accounted", "51.5 % of the CPU time that was used", true);
	assert_fact(&s, "Profiler's cost", "0.123 s of CPU, 2.1 us a sample", false);
	assert_fact(&s, "File", "damaged or cut off at byte 4711; what stands before it is shown",
		    true);
	assert_fact(&s, "End",
		    "ended without its end mark: up to about 2.5 s may be missing (more if the "
		    "file was cut or damaged later)",
		    true);
	profile_deinit(&p);
}

/* Another event's samples are reported, not added. */
static void several_events(void **state)
{
	struct profile p = hand_example();
	struct summary s;

	(void)state;
	p.events = calloc(3, sizeof(*p.events));
	p.n_events = 3;
	p.event = 1;
	strcpy(p.events[0].name, "page-faults");
	p.events[0].n_samples = 1234;
	strcpy(p.events[1].name, "cpu-clock");
	strcpy(p.events[2].name, "cycles");
	p.events[2].n_samples = 5;
	s = summary_of(&p);
	assert_fact(&s, "Event",
		    "cpu-clock; not shown (--event NAME): page-faults (1,234 samples), cycles (5 "
		    "samples)",
		    false);
	profile_deinit(&p);
}

static void without_statistics(void **state)
{
	struct profile p = hand_example();
	struct summary s;

	(void)state;
	p.lost_records = 2;
	(void)snprintf(p.weight_unit, sizeof(p.weight_unit), "cycles");
	*p.event_name = 0;
	s = summary_of(&p);
	assert_fact(&s, "Event", "unknown", false);
	assert_fact(&s, "Samples", "9 over 4.5 s, weight 70 cycles", false);
	assert_fact(&s, "Lost", "2 records (16.67 %)", true); /* 2 of 9 + 1 skipped + 2 */
	assert_null(fact(&s, "CPU accounted"));
	assert_null(fact(&s, "Profiler's cost"));
	assert_null(fact(&s, "File"));
	assert_null(fact(&s, "Consent"));
	assert_null(fact(&s, "Refused"));
	profile_deinit(&p);
}

static void impossible_figures_are_rejected(void **state)
{
	struct profile p = hand_example();
	struct summary s;

	(void)state;
	hand_stat(&p, "duration_s", -1);
	hand_stat(&p, "lost.samples", -5);
	hand_stat(&p, "lost.sideband", 1e300);
	hand_stat(&p, "skipped.x", (double)NAN);
	hand_stat(&p, "cpu_accounted", (double)INFINITY);
	hand_stat(&p, "self.cpu_s", -1);
	for (int i = 0; i < 20; i++)
		hand_stat(&p, "stacks.failed.some-quite-long-reason-that-fills-the-line-and-more",
			  1e18);
	hand_sample(&p, 100, 100, 0, 30)->unwind_error = 3;
	s = summary_of(&p);
	assert_fact(&s, "Samples", "10 over 5.0 s, weight 100 ns", false);
	assert_fact(&s, "Lost", "nothing in the rings", false);
	p.end.missing = 5;
	s = summary_of(&p);
	assert_fact(&s, "Lost", "nothing known, but the file is not whole", true);
	assert_null(fact(&s, "CPU accounted"));
	assert_null(fact(&s, "Profiler's cost"));
	assert_true(strlen(fact(&s, "Stacks")->value) < sizeof(s.facts[0].value));
	profile_deinit(&p);
}

static void nothing_at_all(void **state)
{
	struct profile p = hand_empty();
	struct summary s = summary_of(&p);

	(void)state;
	assert_fact(&s, "Samples", "0", true);
	assert_fact(&s, "Stacks", "none", false);
	profile_deinit(&p);
}

/* No mean and no share of so few. */
static void one_sample(void **state)
{
	struct profile p = hand_empty();
	uint32_t m = hand_module(&p, "/app", false),
		 stack = HAND_STACK(&p, hand_frame(&p, m, 1, "f", NULL));
	struct summary s;

	(void)state;
	hand_sample(&p, 100, 100, stack, 7);
	hand_stat(&p, "samples", 1);
	hand_stat(&p, "duration_s", 0.25);
	hand_stat(&p, "cpu_accounted", 3.21);
	hand_stat(&p, "self.cpu_s", 0.02);
	hand_stat(&p, "self.us_per_sample", 20000);
	s = summary_of(&p);
	assert_fact(&s, "Samples", "1 over 0.2 s, weight 7 ns", false);
	assert_fact(&s, "Profiler's cost", "0.020 s of CPU", false);
	assert_null(fact(&s, "CPU accounted"));
	profile_deinit(&p);
}

/* Of a process: its samples and stacks.  What else is known is of all, and is marked so. */
static void of_a_part(void **state)
{
	struct profile p = hand_example();
	struct summary s;

	(void)state;
	hand_stat(&p, "duration_s", 10);
	hand_stat(&p, "lost.samples", 10);
	hand_stat(&p, "stacks.completed", 2);
	hand_stat(&p, "skipped.queue", 1);
	hand_stat(&p, "cpu_accounted", 0.99);
	s = summary_only(&p, &(struct profile_filter){.pid = 200});
	assert_fact(&s, "Only", "process 200", false);
	assert_fact(&s, "Samples", "2 of 10 over 10.0 s, weight 3 ns", false);
	assert_fact(&s, "Stacks", "50.00 % whole, 50.00 % without a stack", true);
	assert_fact(&s, "Lost", "10 samples (50.00 %) (whole trace)", true);
	assert_fact(&s, "Skipped", "1 sample (queue 1) (whole trace)", true);
	assert_fact(&s, "CPU accounted", "99.0 % of the CPU time that was used (whole trace)",
		    false);
	s = summary_only(&p, &(struct profile_filter){.pid = 4711, .cgroup = "/a"});
	assert_fact(&s, "Only", "process 4711, cgroup /a", false);
	assert_fact(&s, "Samples", "0 of 10 over 10.0 s", true);
	profile_deinit(&p);
}

/* A ring buffer's oldest went as configured: reported, and no loss. */
static void overwritten(void **state)
{
	struct profile p = hand_example();
	struct summary s;

	(void)state;
	p.counts = calloc(2, sizeof(*p.counts));
	assert_non_null(p.counts);
	p.n_counts = 2;
	p.counts[0] = (struct profile_count){STAT_traced_buf_bytes_overwritten, 0, 3 << 20};
	p.counts[1] = (struct profile_count){STAT_traced_buf_bytes_overwritten, 1, 9 << 20};
	s = summary_of(&p);
	assert_fact(&s, "Lost",
		    "nothing in the rings; the oldest 12.0 MiB made room for newer (RING_BUFFER)",
		    false);
	profile_deinit(&p);
}

/* Counts that come with the samples of the event that is looked at. */
static void followers(void **state)
{
	struct profile p = hand_example();
	struct summary s;

	(void)state;
	assert_null(fact(&(struct summary){0}, "Counted"));
	p.followers = calloc(3, sizeof(*p.followers));
	assert_non_null(p.followers);
	p.n_followers = 3;
	p.followers[0] = (struct profile_follower){hand_string(&p, "page-faults"), 0, 1234};
	p.followers[1] = (struct profile_follower){hand_string(&p, "of-another-event"), 1, 9};
	p.followers[2] = (struct profile_follower){hand_string(&p, "context-switches"), 0, 0};
	s = summary_of(&p);
	assert_fact(&s, "Counted", "page-faults 1,234, context-switches 0", false);
	profile_deinit(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(from_statistics),
		cmocka_unit_test(several_events),
		cmocka_unit_test(without_statistics),
		cmocka_unit_test(impossible_figures_are_rejected),
		cmocka_unit_test(nothing_at_all),
		cmocka_unit_test(one_sample),
		cmocka_unit_test(of_a_part),
		cmocka_unit_test(overwritten),
		cmocka_unit_test(followers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
