/* cmd-losses.c - `perfwind losses FILE`: what a trace has lost, by trace_processor's names, with hints.  Thread: main.  Exit
 * status 1 when data was lost, 0 when not. */
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#include "cli/command.h"
#include "cli/common-options.h"
#include "cli/trace-input.h"
#include "base/log.h"
#include "profile/profile.h"
#include "profile/profile-text.h"
#include "profile/trace-stats.h"

enum { STATUS_LOSS = 1, STATUS_BAD = 2 };

struct losses_args {
	bool all, json;
};

#define AT(member) .offset = offsetof(struct losses_args, member)
static const struct option_def defs[] = {
	FLAG("all", 'a', all, "every row, including zeros and rows for information"),
	FLAG("json", 0, json, "the rows as one JSON array on standard output"),
	{0},
};

static const struct options options = {
	.command = "losses",
	.usage = "[--all] [--json] [FILE]",
	.description =
		"Prints the data losses of a trace: rows of trace_processor's table `stats`, the "
		"meaning of each, and\na hint for the config.  The exit status is 1 when data was "
		"lost or there was an error,\n2 when the file cannot be read.  FILE defaults "
		"to " DEFAULT_TRACE ".",
	.defs = defs,
	.examples = "# the rows that report a loss, with hints\n"
		    "perfwind losses trace.pftrace\n\n"
		    "# names of all rows that are not 0, for a script\n"
		    "perfwind losses --json trace.pftrace | jq -r '.[] | select(.value > 0).name'",
	.max_arguments = 1,
};

/* A row of errors counts data that could not be read, which is a loss. */
static bool is_loss(const struct profile_count *count)
{
	const struct trace_stat_info *info = trace_stat_info((enum trace_stat)count->stat);

	return count->value &&
	       (info->severity == TRACE_STAT_DATA_LOSS || info->severity == TRACE_STAT_ERROR);
}

/* What a person has to know: what went wrong, and what could have been more. */
static bool is_shown(const struct profile_count *count, bool all)
{
	const struct trace_stat_info *info = trace_stat_info((enum trace_stat)count->stat);

	if (all)
		return true;
	return count->value && (info->severity != TRACE_STAT_INFO ||
				trace_stat_words((enum trace_stat)count->stat)->hint);
}

/* What a value means; of a missing end also how much is missing, in @end. */
static const char *meaning_of(const struct profile *p, const struct profile_count *count,
			      char end[200])
{
	if (count->stat == STAT_perfwind_end_missing && profile_end_text(p, end, 200))
		return end;
	return trace_stat_words((enum trace_stat)count->stat)->meaning;
}

static void print_row(const struct profile *p, const struct profile_count *count)
{
	const struct trace_stat_info *info = trace_stat_info((enum trace_stat)count->stat);
	const struct trace_stat_words *words = trace_stat_words((enum trace_stat)count->stat);
	char end[200];
	char index[16] = "";

	if (count->index >= 0)
		(void)snprintf(index, sizeof(index), "%d", count->index);
	printf("%-50s %5s %-9s %12" PRIu64 "\n", info->name, index,
	       trace_stat_severity_name(info->severity), count->value);
	if (!count->value || !words->meaning)
		return;
	printf("    %s\n", meaning_of(p, count, end));
	if (words->hint)
		printf("    hint: %s\n", words->hint);
}

static void print_table(const struct profile *p, const struct losses_args *args, bool loss)
{
	uint64_t overwritten = trace_stat_overwritten(p);
	char number[32];
	bool head = false;

	for (size_t i = 0; i < p->n_counts; i++) {
		if (!is_shown(&p->counts[i], args->all))
			continue;
		if (!head)
			printf("%-50s %5s %-9s %12s\n", "name", "index", "severity", "value");
		head = true;
		print_row(p, &p->counts[i]);
	}
	if (p->truncated_at)
		printf("the file is cut behind byte %" PRIu64 "\n", p->truncated_at);
	if (p->end.full)
		printf("full, as the config asks: the file ended at max_file_size_bytes\n");
	if (!loss)
		printf("no data was lost\n");
	if (overwritten)
		printf("overwritten, as configured (RING_BUFFER): the oldest %s\n",
		       text_size(overwritten, number));
}

static void print_json(const struct profile *p, const struct losses_args *args)
{
	const char *comma = "";

	printf("[");
	for (size_t i = 0; i < p->n_counts; i++) {
		const struct profile_count *count = &p->counts[i];
		const struct trace_stat_info *info = trace_stat_info((enum trace_stat)count->stat);
		const struct trace_stat_words *words =
			trace_stat_words((enum trace_stat)count->stat);
		char end[200];

		if (!is_shown(count, args->all))
			continue;
		printf("%s\n{\"name\": \"%s\", \"index\": ", comma, info->name);
		comma = ",";
		if (count->index >= 0)
			printf("%d", count->index);
		else
			printf("null");
		printf(", \"severity\": \"%s\", \"value\": %" PRIu64,
		       trace_stat_severity_name(info->severity), count->value);
		text_json_print(stdout, ", \"meaning\": ", meaning_of(p, count, end));
		text_json_print(stdout, ", \"hint\": ", words->hint);
		printf("}");
	}
	printf("\n]\n");
}

static int losses_main(int argc, char **argv)
{
	struct losses_args args = {0};
	struct profile profile;
	const char *path;
	char error[512];
	bool loss;
	int n, r = options_parse(&options, argc, argv, &args, &n);

	if (r != 0)
		return options_exit_status(r);
	path = n ? argv[0] : DEFAULT_TRACE;
	r = profile_read(path, &profile, error, sizeof(error));
	if (r < 0) {
		log_error("%s%s", error, trace_input_hint(path, r, false));
		return STATUS_BAD;
	}
	loss = profile.truncated_at > 0;
	for (size_t i = 0; i < profile.n_counts; i++)
		loss |= is_loss(&profile.counts[i]);
	if (args.json)
		print_json(&profile, &args);
	else
		print_table(&profile, &args, loss);
	profile_deinit(&profile);
	return loss ? STATUS_LOSS : 0;
}

const struct command command_losses = {
	.name = "losses",
	.summary = "print the data losses of a trace, with a hint for each",
	.run = losses_main,
	.options = &options,
};
