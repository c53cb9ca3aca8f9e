/* test-wait-colours.c - the flame graph page has a colour for each reason of a wait that recordings name. */
#include "protos/wait-module.h"
#include "session/pipeline/wait-reason.h"
#include "tests/unit/profile/hand.h"

/* "sleep: [220, 10]" or "\"page fault\": [310, 55]" in the page's table; two numbers, as text. */
static __attribute__((noinline)) void colour_of(const char *page, const char *frame,
						char colour[16])
{
	const char *table = strstr(page, "const REASONS = {"), *at;
	const size_t len = strlen(frame) - 2; /* without brackets */

	assert_non_null(table);
	for (at = table; (at = strstr(at, ": [")); at++) {
		bool quoted = at[-1] == '"';
		const char *name = at - quoted - len;

		if (strncmp(name, frame + 1, len) || (!quoted && !strchr(" {\t", name[-1])))
			continue;
		(void)snprintf(colour, 16, "%.*s", (int)strcspn(at + 3, "]"), at + 3);
		return;
	}
	fail_msg("%s has no colour", frame);
}

/* Each reason for which a thread waits has a colour of its own: the page knows the names that recordings write. */
static void reasons_have_colours(void **state)
{
	struct profile p = hand_empty();
	uint32_t m = hand_module(&p, WAIT_MODULE, false), work = hand_module(&p, "/work", false);
	char colours[WAIT_REASONS][16];
	size_t n = 0, len;
	char *page;

	(void)state;
	hand_process(&p, 1, "work");
	for (int r = WAIT_NONE + 1; r < WAIT_REASONS; r++)
		hand_sample(&p, 1, 1,
			    HAND_STACK(&p, hand_frame(&p, m, 0, wait_reason_frame(r), NULL),
				       hand_frame(&p, work, 16, "main", NULL)),
			    1);
	page = hand_written(&p, NULL, export_html, &len);
	for (int r = WAIT_NONE + 1; r < WAIT_REASONS; r++, n++) {
		colour_of(page, wait_reason_frame(r), colours[n]);
		for (size_t i = 0; i < n; i++)
			assert_string_not_equal(colours[i], colours[n]);
	}
	/* The page finds them by the module. */
	assert_non_null(strstr(page, "\"modules\":[\"" WAIT_MODULE "\",\"/work\"]"));
	free(page);
	profile_deinit(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reasons_have_colours),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
