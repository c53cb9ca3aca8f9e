/* top-view.c - see top_private.h.  Thread: main.
 *
 * An interval is a trace of its own: its packets are read by what reads files (profile/), and then
 * they are forgotten and the incremental state begins anew.  So memory is that of one interval
 * however long it runs, and what one interval cannot name the next one can.  The profile of the one
 * that is shown is kept, so that a key or another width need not wait for the next. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "cli/terminal.h"
#include "cli/top-private.h"
#include "base/error.h"
#include "profile/profile-text.h"

enum { DEFAULT_ROWS = 20 };
enum { HEAD_ROWS = 4 };		 /* around the table on a terminal */
enum { MAX_PACKETS = 64 << 20 }; /* bytes of one interval; what comes then is lost, and said */

int top_view_init(struct top_view *view, const struct top_args *args)
{
	int r;

	*view = (struct top_view){.args = args, .by = args->by};
	r = sink_memory_new(&view->sink);
	if (r >= 0)
		sink_memory_limit(view->sink, MAX_PACKETS);
	return r < 0 ? trace(r) : 0;
}

void top_view_deinit(struct top_view *view)
{
	view->sink = sink_free(view->sink);
	profile_deinit(&view->profile);
}

static uint32_t rows_wanted(const struct top_view *view)
{
	int rows = terminal_rows();

	if (view->args->limit != UINT32_MAX)
		return view->args->limit;
	if (!rows)
		return DEFAULT_ROWS;
	return rows > HEAD_ROWS ? (uint32_t)(rows - HEAD_ROWS) : 1;
}

/* Its losses are those since the interval before, shown or not. */
static void make_head(struct top_view *view, const struct top_state *state)
{
	const struct top_state *before = &view->before;
	uint64_t dropped = state->dropped + view->sink->dropped, n = view->profile.n_samples;
	char number[32], *to = view->head;
	size_t room = sizeof(view->head), len;

	len = (size_t)snprintf(to, room, "%s sample%s in %.1f s (%.100s)", text_count(n, number),
			       n == 1 ? "" : "s", state->duration_s - before->duration_s,
			       state->event);
	if (state->lost > before->lost)
		len += (size_t)snprintf(to + len, room - len, ", %s lost in the kernel's rings",
					text_count(state->lost - before->lost, number));
	if (dropped > before->dropped)
		(void)snprintf(to + len, room - len,
			       ", more than there is room for: %s packets left out",
			       text_count(dropped - before->dropped, number));
}

static void pass_over(struct top_view *view, const struct top_state *state)
{
	view->before = *state;
	view->before.event = NULL; /* may go */
	view->before.dropped += view->sink->dropped;
}

/* What keys there are, as far as the line has room. */
static void print_head(const struct top_view *view)
{
	static const char *const hints[] = {"  h: help", "  paused"};
	const char *hint = view->keys ? hints[view->paused] : "";
	bool fits = strlen(view->head) + strlen(hint) <= (size_t)terminal_columns();

	(void)printf("%s%s\n", view->head, fits ? hint : "");
}

static void print_help(const struct top_view *view)
{
	(void)printf("q         quit\nspace, p  freeze the table, and go on\ns, S      rows by the "
		     "next, or the one before, of:");
	for (size_t i = 0; report_by_names[i]; i++)
		(void)printf(i == view->by ? " [%s]" : " %s", report_by_names[i]);
	(void)printf("\nh, ?      this; any key goes back\n");
}

int top_view_draw(struct top_view *view)
{
	const struct report_options how = {
		.by = view->by,
		.no_summary = true,
		.limit = rows_wanted(view),
		.width = terminal_columns(),
		.colour = terminal_colour(),
	};
	int r;

	if (terminal_rows())
		(void)fputs("\033[H\033[2J", stdout);
	else if (view->printed)
		(void)putchar('\n');
	view->printed = true;
	print_head(view);
	if (view->help)
		print_help(view);
	r = view->profile.n_samples && !view->help ? report_write(&view->profile, &how, stdout)
						   : export_finish(stdout);
	return r < 0 ? trace(r) : 0;
}

int top_view_show(struct top_view *view, const struct top_state *state)
{
	struct profile profile = {0};
	char error[256] = "";
	const void *data;
	size_t len;
	int r = 0;

	data = sink_memory_data(view->sink, &len);
	if (len && !view->paused && !view->quit)
		r = profile_parse(data, len, &profile, error, sizeof(error));
	sink_memory_clear(view->sink);
	if (r == -E2BIG) { /* this interval is not shown; the next may be */
		log_error("top: an interval holds too much: %s", error);
		r = 0;
	}
	if (r < 0)
		return trace(r);
	if (!view->paused && !view->quit) {
		profile_deinit(&view->profile);
		view->profile = profile;
		make_head(view, state);
		if (!view->help)
			r = top_view_draw(view);
	}
	pass_over(view, state);
	return r < 0 ? trace(r) : 0;
}

int top_view_key(struct top_view *view, char key)
{
	enum { KINDS = REPORT_CGROUP + 1 };
	bool was_help = view->help;

	view->help = false;
	switch (key) {
	case 'q':
	case 'Q':
		view->quit = true;
		return TOP_QUIT;
	case ' ':
	case 'p':
		view->paused = !view->paused;
		break;
	case 's':
		view->by = (view->by + 1) % KINDS;
		break;
	case 'S':
		view->by = (view->by + KINDS - 1) % KINDS;
		break;
	case 'h':
	case '?':
		view->help = !was_help;
		break;
	default:
		if (!was_help)
			return 0;
	}
	/* Before the first interval is over there is nothing but that. */
	return view->head[0] || view->help || was_help ? top_view_draw(view) : 0;
}

void top_view_failed(int r)
{
	struct pollfd p = {.fd = STDOUT_FILENO};

	if (poll(&p, 1, 0) != 1 || !(p.revents & POLLERR))
		log_error("top: %s", strerror(-r));
	terminal_output_reported();
}
