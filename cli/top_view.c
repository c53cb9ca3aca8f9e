/* top_view.c - see top_private.h.  Thread: main.
 *
 * An interval is a trace of its own: its packets are read by what reads files (profile/), and then
 * they are forgotten and the incremental state begins anew.  So memory is that of one interval
 * however long it runs, and what one interval cannot name the next one can. */
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "cli/terminal.h"
#include "cli/top_private.h"
#include "daemon/base/error.h"
#include "profile/text.h"

enum { DEFAULT_ROWS = 20 };
enum { HEAD_ROWS = 4 };		 /* around the table on a terminal */
enum { MAX_PACKETS = 64 << 20 }; /* bytes of one interval; what comes then is lost, and said */

int top_view_init(struct top_view *view, const struct top_args *args)
{
	int r;

	*view = (struct top_view){.args = args};
	r = sink_memory_new(&view->sink);
	if (r >= 0)
		sink_memory_limit(view->sink, MAX_PACKETS);
	return r < 0 ? trace(r) : 0;
}

void top_view_deinit(struct top_view *view)
{
	view->sink = sink_free(view->sink);
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

static void print_head(struct top_view *view, const struct top_state *state, size_t n_samples)
{
	uint64_t dropped = state->dropped + view->sink->dropped;
	char number[32];

	if (terminal_rows())
		(void)fputs("\033[H\033[2J", stdout);
	else if (view->printed)
		(void)putchar('\n');
	(void)printf("%s samples in %.1f s (%s)", text_count(n_samples, number),
		     state->duration_s - view->shown_s, state->event);
	if (state->lost > view->lost)
		(void)printf(", %s lost in the kernel's rings",
			     text_count(state->lost - view->lost, number));
	if (dropped > view->dropped)
		(void)printf(", more than there is room for: %s packets left out",
			     text_count(dropped - view->dropped, number));
	(void)putchar('\n');
	view->lost = state->lost;
	view->dropped = dropped;
	view->shown_s = state->duration_s;
	view->printed = true;
}

int top_view_show(struct top_view *view, const struct top_state *state)
{
	const struct report_options how = {
		.by = view->args->by,
		.no_summary = true,
		.limit = rows_wanted(view),
		.width = terminal_columns(),
		.colour = terminal_colour(),
	};
	_cleanup_(profile_deinit) struct profile profile = {0};
	char error[256] = "";
	const void *data;
	size_t len;
	int r = 0;

	data = sink_memory_data(view->sink, &len);
	if (len)
		r = profile_parse(data, len, &profile, error, sizeof(error));
	sink_memory_clear(view->sink);
	if (r < 0)
		return trace(r);
	print_head(view, state, profile.n_samples);
	r = profile.n_samples ? report_write(&profile, &how, stdout) : export_finish(stdout);
	return r < 0 ? trace(r) : 0;
}

void top_view_failed(int r)
{
	struct pollfd p = {.fd = STDOUT_FILENO};

	if (poll(&p, 1, 0) != 1 || !(p.revents & POLLERR))
		log_error("top: %s", strerror(-r));
}
