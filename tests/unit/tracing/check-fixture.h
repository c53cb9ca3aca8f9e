/* check-fixture.h - a TraceConfig as text, parsed and checked.  Include it behind cmocka.h. */
#pragma once

#include <errno.h>

#include "config/config.h"

static char error[512];

static inline struct config *parse(const char *text)
{
	struct config *c;

	if (config_read("f", text, strlen(text), CONFIG_TEXT, &c, error, sizeof(error)) < 0)
		fail_msg("%s", error);
	return c;
}

/* The line with which @check refuses the config @text; "": it accepts it. */
static inline const char *checked(const char *text, int (*check)(const Pb__TraceConfig *config,
								 char *error, size_t error_size))
{
	struct config *c = parse(text);
	int r;

	error[0] = 0;
	r = check(c->message, error, sizeof(error));
	assert_true(r == 0 || r == -EINVAL);
	assert_int_equal(r < 0, *error != 0);
	(void)config_free(c);
	return error;
}
