/* event-list.c - see event-list.h. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "cli/event-list.h"

enum { LIST_MAX = 4096 };

void event_list_deinit(struct event_list *list)
{
	while (list->n)
		perf_spec_deinit(&list->specs[--list->n]);
}

/* The events of @text[0..len), all of @group. */
static int add_events(struct event_list *list, const char *text, size_t len, uint8_t group,
		      char *error, size_t size)
{
	const struct perf_spec_env env = {""};
	char part[LIST_MAX];
	size_t n = 0;
	int r;

	if (len >= sizeof(part)) {
		(void)snprintf(error, size, "the list of events is too long");
		return fail(-EINVAL);
	}
	memcpy(part, text, len);
	part[len] = 0;
	r = perf_spec_parse(&env, part, list->specs + list->n, ARRAY_SIZE(list->specs) - list->n,
			    &n, error, size);
	if (r < 0)
		return trace(r);
	for (size_t i = 0; i < n; i++)
		list->groups[list->n++] = group;
	return 0;
}

/* The length of the events before the next group, without the comma. */
static size_t until_group(const char *text)
{
	const char *brace = strstr(text, ",{");

	return brace ? (size_t)(brace - text) : strlen(text);
}

/* "{a,b}:S": the text behind it, or NULL with a line in @error. */
static const char *add_group(struct event_list *list, const char *text, char *error, size_t size)
{
	const char *end = strchr(text, '}');

	if (!end) {
		(void)snprintf(error, size, "the '}' of a group is missing: '%.128s'", text);
		return NULL;
	}
	if (add_events(list, text + 1, (size_t)(end - text - 1), ++list->n_groups, error, size) < 0)
		return NULL;
	end++;
	if (!strncmp(end, ":S", 2))
		end += 2;
	if (!*end || *end == ',')
		return end;
	(void)snprintf(error, size, "'%.64s' behind a group: write modifiers behind each event",
		       end);
	return NULL;
}

int event_list_add(struct event_list *list, const char *text, char *error, size_t size)
{
	for (;;) {
		if (*text == '{') {
			text = add_group(list, text, error, size);
			if (!text)
				return fail(-EINVAL);
		} else {
			size_t len = until_group(text);
			int r = add_events(list, text, len, 0, error, size);

			if (r < 0)
				return trace(r);
			text += len;
		}
		if (!*text)
			return 0;
		text++; /* the comma */
	}
}
