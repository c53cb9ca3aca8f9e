/* top.c - the table, the keys and the daemon's session of `perfwind top`; see top.h.  Thread: main.
 *
 * Each interval is a complete trace: profile/ parses its packets, then the packets are freed and the
 * incremental state is cleared.  Memory is bounded by one interval, and names that arrive late appear in the
 * next table.  The profile on display is kept, so that a key or a resize redraws at once. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/ask.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/top.h"
#include "proc/procfs.h"
#include "profile/profile-text.h"
#include "profile/rows.h"

enum { DEFAULT_ROWS = 20 };
enum { HEAD_ROWS = 4 };		 /* around the table on a terminal */
enum { MAX_PACKETS = 64 << 20 }; /* bytes of one interval; later packets are counted as lost */
enum { TOTAL_COLUMNS = 60 };	 /* of a name in the table of the whole run, before its module */

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
	string_table_deinit(&view->names);
	free(view->totals);
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

/* "1,200 lost in the kernel's rings": what is lost, in words or (@brief) as short as possible. */
static void add_losses(char *to, size_t room, uint64_t lost, uint64_t dropped, bool brief)
{
	size_t len = strlen(to);
	char number[32];

	if (lost)
		len += (size_t)snprintf(to + len, room - len,
					brief ? ", %s lost" : ", %s lost in the kernel's rings",
					text_count(lost, number));
	if (dropped && len < room)
		(void)snprintf(to + len, room - len,
			       brief ? ", %s packets lost"
				     : ", more than there is room for: %s packets left out",
			       text_count(dropped, number));
}

/* The first line, in each length.  Losses are counted since the previous interval, whether or not that was shown. */
static void make_head(struct top_view *view, const struct top_state *state)
{
	const struct top_state *before = &view->before;
	uint64_t lost = state->lost > before->lost ? state->lost - before->lost : 0,
		 dropped = state->dropped + view->sink->dropped, n = view->profile.n_samples;
	char number[32];

	dropped = dropped > before->dropped ? dropped - before->dropped : 0;
	for (size_t i = 0; i < TOP_HEADS; i++) {
		(void)snprintf(view->heads[i], sizeof(view->heads[i]), "%s sample%s in %.1f s",
			       text_count(n, number), n == 1 ? "" : "s",
			       state->duration_s - before->duration_s);
		if (i < TOP_HEADS - 1) {
			size_t len = strlen(view->heads[i]);

			(void)snprintf(view->heads[i] + len, sizeof(view->heads[i]) - len,
				       " (%.100s)", state->event);
		}
		add_losses(view->heads[i], sizeof(view->heads[i]), lost, dropped, i > 0);
	}
}

static struct profile take_profile(struct profile *profile)
{
	struct profile taken = *profile;

	*profile = (struct profile){0};
	return taken;
}

static void finish_interval(struct top_view *view, const struct top_state *state)
{
	view->before = *state;
	view->before.event = NULL; /* borrowed */
	view->before.dropped += view->sink->dropped;
}

/* A line of one text in a frame, "callers of main (Esc: back)": the text is cut so that the line fits. */
static void print_fitted(const char *before, const char *text, const char *after)
{
	_cleanup_(buffer_deinit) struct buffer clean = {0}, fit = {0};
	size_t columns = (size_t)terminal_columns(), frame = strlen(before) + strlen(after);

	text_clean(&clean, text);
	(void)text_fit(&fit, (const char *)clean.data, clean.len,
		       !columns		 ? SIZE_MAX / 4
		       : columns > frame ? columns - frame
					 : 0);
	(void)printf("%s%.*s%s\n", before, (int)fit.len, fit.len ? (const char *)fit.data : "",
		     after);
}

/* The first line in the longest form that fits, with a hint about the keys if there is room. */
static void print_head(const struct top_view *view)
{
	static const char *const hints[] = {"  h: help", "  paused"};
	size_t columns = (size_t)terminal_columns(), i = 0;
	const char *hint = view->keys ? hints[view->paused] : "";

	while (columns && i < TOP_HEADS - 1 && strlen(view->heads[i]) > columns)
		i++;
	if (strlen(view->heads[i]) + strlen(hint) > columns)
		hint = "";
	print_fitted("", view->heads[i], hint);
}

/* Of waits only `perfwind report` has rows. */
enum { KINDS = REPORT_PID + 1, SORTS = REPORT_SORT_NAME + 1 };

static void print_help(const struct top_view *view)
{
	(void)printf("q           quit\n"
		     "space, p    pause the display; sampling continues\n"
		     "up, down    mark a row; page up, page down\n"
		     "enter       the callers of the marked function; Esc: back\n"
		     "/           rows that contain a text; Esc: all\n"
		     "t           sort by the next of:");
	for (size_t i = 0; report_sort_names[i]; i++)
		(void)printf(i == view->sort ? " [%s]" : " %s", report_sort_names[i]);
	(void)printf("\ns, S        rows are the next or the previous of:\n           ");
	for (size_t i = 0; i < KINDS; i++)
		(void)printf(i == view->by ? " [%s]" : " %s", report_by_names[i]);
	(void)printf("\nh, ?        this help; any key returns to the table\n");
}

/* What is shown is not the whole table. */
static void print_choice(const struct top_view *view)
{
	if (view->callers[0])
		print_fitted("callers of ", view->callers, " (Esc: back)");
	else if (view->typing || view->filter[0])
		print_fitted("filter: ", view->filter, view->typing ? "_" : " (Esc: all)");
}

static int draw_rows(struct top_view *view)
{
	bool chosen = view->callers[0] || view->typing || view->filter[0];
	struct report_options how = {
		.by = view->by,
		.sort = view->sort,
		.no_summary = true,
		.limit = rows_wanted(view),
		.width = terminal_columns(),
		.colour = terminal_colour(),
		.match = view->filter[0] ? view->filter : NULL,
		.cursor = view->keys ? &view->cursor : NULL,
	};
	int r;

	if (chosen && how.limit > 1)
		how.limit--;
	if (view->callers[0]) {
		how.tree = true;
		how.callers = view->callers;
	}
	r = report_write(&view->profile, &how, stdout);
	if (r == -ENOENT) { /* not in this interval */
		(void)puts("no samples");
		return text_finish(stdout);
	}
	return r < 0 ? trace(r) : 0;
}

/* Draws the same interval once more, for another width or grouping. */
static int draw(struct top_view *view)
{
	if (terminal_rows())
		(void)fputs("\033[H\033[2J", stdout);
	else if (view->printed)
		(void)putchar('\n');
	view->printed = true;
	print_head(view);
	if (view->help)
		print_help(view);
	else
		print_choice(view);
	return view->profile.n_samples && !view->help ? draw_rows(view) : text_finish(stdout);
}

/* ---- the whole run ---- */

enum { TOTALS = 1 << 16 }; /* rows; what is more is in none */

static const char *module_of(const struct fold *fold, uint32_t symbol)
{
	return fold->symbols[symbol].kind == FOLD_KERNEL
		       ? "kernel"
		       : fold_base_name(fold_symbol_module(fold, symbol));
}

static int add_total(struct top_view *view, const struct fold *fold, const struct row *row)
{
	char text[1100], name[32];
	struct top_total *total;
	uint32_t id;
	int r, n = snprintf(text, sizeof(text), "%.512s\n%.512s",
			    row_name(fold, view->args->by, row, name),
			    view->args->by == REPORT_FUNCTION ? module_of(fold, row->id) : "");

	if (view->n_totals == TOTALS && !string_table_find(&view->names, text, (size_t)n, &id))
		return 0;
	r = string_table_add(&view->names, text, (size_t)n, &id, NULL);
	if (r < 0)
		return trace(r);
	while (id > view->n_totals) {
		if (view->n_totals == view->room_totals &&
		    !array_grow(view->totals, view->room_totals, 256))
			return fail(-ENOMEM);
		view->totals[view->n_totals++] = (struct top_total){0};
	}
	total = &view->totals[id - 1];
	total->self_count += row->self_count;
	total->self_weight += row->self_weight;
	total->count += row->count;
	total->weight += row->weight;
	return 0;
}

static int add_interval(struct top_view *view, const struct profile *profile)
{
	struct rows rows = {0};
	struct fold fold;
	int r = fold_init(&fold, profile, NULL);

	if (r < 0)
		return trace(r);
	r = rows_fill(&rows, &fold, view->args->by);
	for (size_t i = 0; r >= 0 && i < rows.n; i++)
		r = add_total(view, &fold, &rows.list[i]);
	view->whole.count += fold.count;
	view->whole.weight += fold.weight;
	view->n_intervals++;
	rows_deinit(&rows);
	fold_deinit(&fold);
	return r < 0 ? trace(r) : 0;
}

static const struct top_view *sorted; /* of compare_totals() */

static int compare_totals(const void *a, const void *b)
{
	const struct top_total *x = &sorted->totals[*(const uint32_t *)a],
			       *y = &sorted->totals[*(const uint32_t *)b];

	return ascend(y->self_weight, x->self_weight) ?: ascend(y->weight, x->weight);
}

/* The name of a total and, behind its line feed, the module. */
static const char *total_text(const struct top_view *view, uint32_t index, size_t *ret_name_len)
{
	const char *text = string_table_text(&view->names, index + 1);

	*ret_name_len = (size_t)(strchr(text, '\n') - text);
	return text;
}

static void print_total(const struct top_view *view, uint32_t index, size_t columns)
{
	const struct top_total *t = &view->totals[index];
	const char *unit = view->profile.weight_unit, *text;
	_cleanup_(buffer_deinit) struct buffer line = {0};
	char number[32];
	size_t len;

	text = total_text(view, index, &len);
	buffer_printf(&line, "%7.2f %9s", text_percent(t->self_weight, view->whole.weight),
		      text_weight(t->self_weight, unit, number));
	if (rows_have_totals(view->args->by))
		buffer_printf(&line, " %7.2f %9s", text_percent(t->weight, view->whole.weight),
			      text_weight(t->weight, unit, number));
	buffer_printf(&line, "  %.*s", (int)len, text);
	if (text[len + 1])
		buffer_printf(&line, "%*s  %s", (int)(columns - min_u64(columns, len)), "",
			      text + len + 1);
	buffer_append(&line, "", 1);
	if (!line.bad)
		print_fitted("", (const char *)line.data, "");
}

static void print_totals_head(const struct top_view *view, size_t columns)
{
	const char *unit = view->profile.weight_unit;
	char line[160];
	int n;

	unit = strcmp(unit, "ns") ? unit : "time";
	n = rows_have_totals(view->args->by)
		    ? snprintf(line, sizeof(line), "%7s %9.20s %7s %9.20s", "self %", unit,
			       "total %", unit)
		    : snprintf(line, sizeof(line), "%7s %9.20s", "%", unit);
	if (view->args->by == REPORT_FUNCTION)
		(void)snprintf(line + n, sizeof(line) - (size_t)n, "  %-*s  module", (int)columns,
			       "function");
	else
		(void)snprintf(line + n, sizeof(line) - (size_t)n, "  %s",
			       report_by_names[view->args->by]);
	(void)puts("\nall intervals:");
	print_fitted("", line, "");
}

/* Of the names in @order[0..n), up to TOTAL_COLUMNS. */
static size_t widest_name(const struct top_view *view, const uint32_t *order, size_t n)
{
	size_t widest = strlen("function"), len;

	for (size_t i = 0; i < n; i++) {
		(void)total_text(view, order[i], &len);
		widest = max_u64(widest, len);
	}
	return min_u64(widest, TOTAL_COLUMNS);
}

/* Have all processes of -p ended?  What they started may run on. */
static bool targets_ended(const struct top_args *args)
{
	if (args->children)
		return false;
	for (size_t i = 0; i < args->n_pids; i++) {
		struct procfs_status status;

		if (procfs_status("", args->pids[i], &status) >= 0 && !status.zombie)
			return false;
	}
	return args->n_pids > 0;
}

/* @behind: lines that follow the table. */
static int print_totals(const struct top_view *view, uint32_t behind)
{
	_cleanup_(freep) uint32_t *order = NULL;
	size_t n, columns;
	uint32_t limit;

	order = calloc(view->n_totals + 1, sizeof(*order));
	if (!order)
		return fail(-ENOMEM);
	limit = rows_wanted(view);
	if (terminal_rows() && view->args->limit == UINT32_MAX && limit > behind)
		limit -= behind;
	for (uint32_t i = 0; i < view->n_totals; i++)
		order[i] = i;
	sorted = view;
	qsort(order, view->n_totals, sizeof(*order), compare_totals);
	n = min_u64(view->n_totals, limit ? limit : UINT32_MAX);
	columns = widest_name(view, order, n);
	print_totals_head(view, columns);
	for (size_t i = 0; i < n; i++)
		print_total(view, order[i], columns);
	return 0;
}

int top_view_end(struct top_view *view)
{
	char line[160], number[32];
	bool ended;
	int r = 0;

	if (!view->begun || view->args->once)
		return 0;
	ended = targets_ended(view->args);
	if (view->n_intervals > 1 || (view->n_intervals && !view->heads[0][0]))
		r = print_totals(view, 1 + ended);
	if (r < 0)
		return r;
	if (ended && view->args->n_pids == 1)
		(void)printf("process %u has ended\n", view->args->pids[0]);
	else if (ended)
		(void)puts("all processes have ended");
	(void)snprintf(line, sizeof(line), "whole run: %s sample%s in %.1f s",
		       text_count(view->whole.count, number), view->whole.count == 1 ? "" : "s",
		       view->before.duration_s);
	add_losses(line, sizeof(line), view->before.lost, view->before.dropped, true);
	print_fitted("", line, "");
	return text_finish(stdout);
}

/* ---- intervals ---- */

int top_view_show(struct top_view *view, const struct top_state *state)
{
	struct profile profile = {0};
	bool shown = !view->paused && !view->quit;
	char error[256] = "";
	const void *data;
	size_t len;
	int r = 0;

	data = sink_memory_data(view->sink, &len);
	if (len)
		r = profile_parse(data, len, &profile, error, sizeof(error));
	sink_memory_clear(view->sink);
	/* The last table with samples stays where no more can come. */
	if (!profile.n_samples && view->printed && targets_ended(view->args))
		shown = false;
	if (r >= 0 && profile.n_samples)
		r = add_interval(view, &profile);
	if (r == -E2BIG) { /* skip this interval alone */
		log_error("top: this interval is too large to show: %s", error);
		r = 0;
	}
	if (r >= 0 && shown) {
		profile_deinit(&view->profile);
		view->profile = take_profile(&profile);
		make_head(view, state);
		if (!view->help)
			r = draw(view);
	}
	profile_deinit(&profile);
	if (r < 0)
		return trace(r);
	finish_interval(view, state);
	view->begun = true;
	return 0;
}

/* ---- keys ---- */

/* A key while a filter is typed. */
static void type_key(struct top_view *view, char key)
{
	size_t len = strlen(view->filter);

	if (key == '\r' || key == '\n')
		view->typing = false;
	else if ((key == 127 || key == 8) && len)
		view->filter[len - 1] = 0;
	else if ((unsigned char)key >= ' ' && key != 127 && len + 1 < sizeof(view->filter)) {
		view->filter[len] = key;
		view->filter[len + 1] = 0;
	}
	view->cursor.row = view->cursor.top = 0;
}

static void move(struct top_view *view, char key)
{
	uint32_t page = rows_wanted(view) ? rows_wanted(view) : 1, *row = &view->cursor.row;

	if (key == TOP_UP)
		*row -= *row > 0;
	else if (key == TOP_DOWN)
		*row += *row < UINT32_MAX;
	else if (key == TOP_PAGE_UP)
		*row -= (uint32_t)min_u64(*row, page);
	else
		*row += (uint32_t)min_u64(UINT32_MAX - *row, page);
}

/* False: it has no meaning. */
static bool act_on_key(struct top_view *view, char key)
{
	switch (key) {
	case ' ':
	case 'p':
		view->paused = !view->paused;
		return true;
	case 's':
	case 'S':
		view->by = (view->by + (key == 's' ? 1 : KINDS - 1)) % KINDS;
		view->cursor.row = 0;
		view->callers[0] = 0;
		return true;
	case 't':
		view->sort = (view->sort + 1) % SORTS;
		return true;
	case '/':
		view->typing = true;
		view->callers[0] = view->filter[0] = 0;
		return true;
	case TOP_UP:
	case TOP_DOWN:
	case TOP_PAGE_UP:
	case TOP_PAGE_DOWN:
		move(view, key);
		return true;
	case '\r':
	case '\n':
		if (view->by != REPORT_FUNCTION || view->callers[0])
			return false;
		memcpy(view->callers, view->cursor.name, sizeof(view->callers));
		return true;
	default:
		return false;
	}
}

int top_view_key(struct top_view *view, char key)
{
	bool was_help = view->help;

	view->help = false;
	if (key == '\033') {
		view->typing = false;
		view->filter[0] = view->callers[0] = 0;
	} else if (view->typing) {
		type_key(view, key);
	} else if (key == 'q' || key == 'Q') {
		view->quit = true;
		return TOP_QUIT;
	} else if (key == 'h' || key == '?') {
		view->help = !was_help;
	} else if (!act_on_key(view, key) && !was_help) {
		return 0;
	}
	/* During the first interval only the help can be drawn. */
	return view->heads[0][0] || view->help || was_help ? draw(view) : 0;
}

void top_view_failed(int r)
{
	struct pollfd p = {.fd = STDOUT_FILENO};

	if (poll(&p, 1, 0) != 1 || !(p.revents & POLLERR))
		log_error("top: %s", strerror(-r));
	terminal_output_reported();
}

/* ---- keys ----
 *
 *   foreground ── SIGTSTP ──► terminal restored, stopped ── SIGCONT ──► foreground, or background: no keys
 *
 * A background process that changes or reads the terminal is stopped (SIGTTOU, SIGTTIN), so standard input
 * is in the loop only while keys are on.  A profiled command owns the terminal: then there are no keys. */

static void keys_off(struct top_keys *k)
{
	loop_remove(k->loop, &k->input);
	k->view->keys = false;
	terminal_restore();
}

/* Acts on the result of a key or of drawing. */
static void handle_result(struct top_keys *k, int r)
{
	if (r == 0)
		return;
	if (r < 0)
		top_view_failed(r);
	k->view->quit = true;
	k->quit(k->arg);
}

/* Reads an escape sequence (ESC [ A, ESC [ 1 ; 5 A, ESC [ 5 ~) and returns the index after it.  *ret_key: ESC when it stands
 * alone, 0 for a sequence without meaning. */
static size_t read_escape(const char *keys, size_t n, size_t i, char *ret_key)
{
	size_t first;

	*ret_key = '\033';
	if (++i == n || (keys[i] != '[' && keys[i] != 'O'))
		return i;
	first = ++i;
	while (i < n && (keys[i] < '@' || keys[i] > '~'))
		i++;
	*ret_key = 0;
	if (i == n)
		return n;
	if (keys[i] == 'A' || keys[i] == 'B')
		*ret_key = keys[i] == 'A' ? TOP_UP : TOP_DOWN;
	else if (keys[i] == '~' && (keys[first] == '5' || keys[first] == '6'))
		*ret_key = keys[first] == '5' ? TOP_PAGE_UP : TOP_PAGE_DOWN;
	return i + 1;
}

static int input_ready(struct loop_source *source, uint32_t events)
{
	struct top_keys *k = container_of(source, struct top_keys, input);
	char keys[64];
	ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));

	if (n <= 0 && (events & (EPOLLHUP | EPOLLERR)))
		keys_off(k); /* the terminal was closed */
	for (size_t i = 0; n > 0 && i < (size_t)n && !k->view->quit;) {
		char key = keys[i];

		i = key == '\033' ? read_escape(keys, (size_t)n, i, &key) : i + 1;
		if (key)
			handle_result(k, top_view_key(k->view, key));
	}
	return 0;
}

static int keys_on(struct top_keys *k)
{
	int r;

	if (!terminal_keys())
		return 0;
	k->view->keys = true;
	r = k->input.fd < 0 ? loop_add(k->loop, &k->input, STDIN_FILENO, EPOLLIN, input_ready) : 0;
	if (r < 0)
		keys_off(k);
	return r < 0 ? trace(r) : 0;
}

/* Raises SIGTSTP itself, not SIGSTOP: the kernel ignores it for an orphaned process group, which no shell
 * could continue. */
static void stop_here(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTSTP);
	(void)raise(SIGTSTP);
	(void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static int signal_ready(struct loop_source *source, uint32_t events)
{
	struct top_keys *k = container_of(source, struct top_keys, signals);
	int sig;

	(void)events;
	while ((sig = signals_next(source))) {
		if (sig == SIGTSTP) {
			keys_off(k);
			stop_here();
		}
		(void)keys_on(k); /* no effect when they are on (SIGWINCH) */
		if (k->view->heads[0][0] && !k->view->quit && terminal_rows())
			handle_result(k, draw(k->view));
	}
	return 0;
}

int top_keys_watch(struct top_keys *k, struct top_view *view, struct loop *loop,
		   void (*quit)(void *arg), void *arg)
{
	static const int signals[] = {SIGTSTP, SIGCONT, SIGWINCH};
	int r;

	top_keys_unwatch(k);
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return 0;
	*k = (struct top_keys){.view = view,
			       .loop = loop,
			       .input.fd = -1,
			       .signals.fd = -1,
			       .quit = quit,
			       .arg = arg};
	r = signals_watch(loop, &k->signals, signals, ARRAY_SIZE(signals), signal_ready);
	if (r >= 0)
		r = keys_on(k);
	return r < 0 ? trace(r) : 0;
}

void top_keys_unwatch(struct top_keys *k)
{
	if (!k->loop)
		return;
	keys_off(k);
	signals_unwatch(k->loop, &k->signals);
	k->loop = NULL;
}

/* ---- through the daemon: it samples, and each RENEW clears its incremental state ---- */

struct top_asked {
	struct top_view *view;
	struct ask_run run;
	uint32_t pid; /* of the command */
};

static void fill_request(struct top_asked *a, Pb__ControlRequest *q)
{
	const struct top_args *args = a->view->args;

	q->has_version = q->has_machine = q->has_children = q->has_frequency = q->has_code =
		q->has_clock = q->has_command = q->has_kernel_needed = true;
	q->version = CONTROL_VERSION;
	q->machine = args->all;
	q->command = a->pid != 0;
	q->pids = q->command ? &a->pid : (uint32_t *)(uintptr_t)args->pids;
	q->n_pids = q->command ? 1 : args->n_pids;
	q->children = args->children || q->command;
	q->event = (char *)(uintptr_t)args->event;
	q->frequency = args->frequency;
	q->code = args->user_only ? FRAMES_USER : FRAMES_ALL;
	q->clock = CLOCK_MONOTONIC;
}

static int shown(void *arg, const Pb__ControlSummary *m)
{
	struct top_asked *a = arg;
	const struct top_state state = {
		.event = ask_event(a->run.ask),
		.duration_s = m->duration_s,
		.lost = m->lost_samples,
		.dropped = m->lost_packets,
	};
	int r = top_view_show(a->view, &state);

	if (r < 0)
		top_view_failed(r);
	return r;
}

static void quit(void *arg)
{
	struct top_asked *a = arg;

	ask_run_stop(&a->run);
}

int top_ask(struct top_view *view, struct top_keys *keys, struct job *job, const char *lacks,
	    bool kernel, struct session **own)
{
	Pb__ControlRequest request = PB__CONTROL_REQUEST__INIT;
	struct top_asked a = {.view = view, .pid = (uint32_t)job->spawn.pid};
	int r;

	a.run = (struct ask_run){.socket = view->args->socket,
				 .request = &request,
				 .sink = view->sink,
				 .job = job,
				 .shown = shown,
				 .arg = &a};
	*(view->args->once ? &a.run.duration : &a.run.interval) = view->args->interval;
	fill_request(&a, &request);
	request.note = (char *)(uintptr_t)lacks;
	request.kernel_needed = kernel;
	r = ask_run_open(&a.run);
	if (r == 0)
		*own = session_free(*own);
	if (r == 0 && !view->args->once && !job->command)
		(void)top_keys_watch(keys, view, &a.run.loop, quit, &a);
	r = r ? ask_run_refused(&a.run, lacks, kernel) : ask_run(&a.run);
	top_keys_unwatch(keys);
	ask_run_deinit(&a.run);
	return r;
}
