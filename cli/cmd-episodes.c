/* cmd-episodes.c - `perfwind episodes`: what `perfwind watch` has kept.  Thread: main. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/common-options.h"
#include "cli/episode-folder.h"
#include "base/error.h"
#include "base/log.h"
#include "profile/profile-text.h"
#include "watch/episode.h"
#include "watch/rules.h"

enum { ROWS = 10, INFO_MAX = 64 << 10 };

/* ---- the folder ---- */

int episode_folder_find(const char *wanted, char to[PATH_MAX])
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int n;

	if (wanted)
		n = snprintf(to, PATH_MAX, "%s", wanted);
	else if (geteuid() == 0)
		n = snprintf(to, PATH_MAX, "/var/lib/perfwind/episodes");
	else if (state && *state == '/')
		n = snprintf(to, PATH_MAX, "%s/perfwind/episodes", state);
	else if (home && *home == '/')
		n = snprintf(to, PATH_MAX, "%s/.local/state/perfwind/episodes", home);
	else
		n = 0;
	if (n > 0 && n < PATH_MAX)
		return 0;
	log_error("where are the episodes? HOME is not set; use -d DIR");
	return fail(-EINVAL);
}

/* ---- the command ---- */

struct episodes_args {
	const char *folder, *rules;
	bool json;
};

#define AT(member) .offset = offsetof(struct episodes_args, member)
static const struct option_def defs[] = {
	TEXT("config", 'c', "RULES", rules, "the folder is the `folder` of these rules"),
	TEXT("directory", 'd', "DIR", folder,
	     "the folder of the episodes (default: as for `perfwind watch`)"),
	FLAG("json", 0, json, "list: one JSON array on standard output"),
	{0},
};

static const struct options options = {
	.command = "episodes",
	.usage = "[OPTIONS] [list | show NAME | delete NAME...]",
	.description = "Lists, shows and deletes the episodes that `perfwind watch` has kept.",
	.defs = defs,
	.examples = "perfwind episodes\n"
		    "perfwind episodes show 2026-11-23T07-12-33-spin\n"
		    "perfwind episodes delete 2026-11-23T07-12-33-spin",
	.words = "list show delete",
	.max_arguments = -1,
};

static void print_text(struct buffer *out, const char *text, size_t columns)
{
	size_t used = text_fit_clean(out, text, columns);

	buffer_printf(out, "%*s", (int)(columns - used) + 2, "");
}

static void print_row(const struct episode_info *info)
{
	_cleanup_(buffer_deinit) struct buffer out = {0};
	char size[32];

	print_text(&out, info->name, 40);
	buffer_printf(&out, "%9.1f s  %10.1f %-10s %10s  ", info->lasting, info->average,
		      info->unit, text_size(info->bytes, size));
	print_text(&out, info->process, 15);
	print_text(&out, info->hottest, 60);
	while (out.len && out.data[out.len - 1] == ' ')
		out.len--;
	printf("%.*s\n", (int)out.len, (const char *)out.data);
}

static void print_json(const struct episode_info *list, size_t n)
{
	_cleanup_(buffer_deinit) struct buffer out = {0};

	buffer_printf(&out, "[");
	for (size_t i = 0; i < n; i++) {
		text_json_append(&out, i ? ",\n{\"name\": " : "\n{\"name\": ", list[i].name);
		text_json_append(&out, ", \"rule\": ", list[i].rule);
		text_json_append(&out, ", \"when\": ", list[i].when);
		text_json_append(&out, ", \"unit\": ", list[i].unit);
		text_json_append(&out, ", \"process\": ", list[i].process);
		text_json_append(&out, ", \"hottest\": ", list[i].hottest);
		buffer_printf(&out, ", \"average\": %.3f, \"lasting\": %.3f, \"bytes\": %lu}",
			      list[i].average, list[i].lasting, list[i].bytes);
	}
	buffer_printf(&out, "\n]\n");
	(void)fwrite(out.data, 1, out.len, stdout);
}

static int list_all(const char *folder, bool json)
{
	_cleanup_(freep) struct episode_info *list = NULL;
	size_t n = 0;
	int r = episodes_read(folder, &list, &n);

	if (r < 0 && r != -ENOENT) {
		log_error("%s: %s", folder, strerror(-r));
		return trace(r);
	}
	if (json) {
		print_json(list, n);
		return text_finish(stdout);
	}
	if (!n)
		log_info("no episodes in %s (hint: -d DIR or -c RULES of `perfwind watch`)",
			 folder);
	else
		printf("%-40s  %11s  %10s %-10s %10s  %-15s  %s\n", "episode", "lasting", "average",
		       "", "size", "process", "hottest function");
	for (size_t i = 0; i < n; i++)
		print_row(&list[i]);
	return text_finish(stdout);
}

/* Its facts as they were written, and where the files are. */
static int show(const char *folder, const char *name)
{
	_cleanup_(freep) char *json = NULL;
	char path[PATH_MAX];
	size_t len;
	int r = -EINVAL;

	if (!strchr(name, '/') && *name != '.' &&
	    snprintf(path, sizeof(path), "%s/%s/episode.json", folder, name) < PATH_MAX)
		r = read_file(path, INFO_MAX, &json, &len);
	if (r < 0) {
		log_error("episodes: '%s' is not an episode in %s (`perfwind episodes` lists them)",
			  name, folder);
		return trace(r);
	}
	for (char *line = json, *end; *line; line = end + (*end == '\n')) {
		char saved;

		end = line + strcspn(line, "\n");
		saved = *end;
		*end = 0;
		text_print(stdout, line);
		putchar('\n');
		*end = saved;
	}
	printf("\nflame graph:    %s/%s/flame.html\n", folder, name);
	printf("whole report:   perfwind report %s/%s/trace.pftrace\n", folder, name);
	return text_finish(stdout);
}

static int delete_all(const char *folder, char *const *names, size_t n)
{
	int result = 0;

	for (size_t i = 0; i < n; i++) {
		int r = episode_delete(folder, names[i]);

		if (r < 0) {
			log_error("episodes: %s: %s", names[i],
				  r == -ENOENT || r == -EINVAL ? "there is no episode of this name"
							       : strerror(-r));
			result = trace(r);
		}
	}
	return result;
}

static int find_folder(const struct episodes_args *args, char to[PATH_MAX])
{
	struct watch_rules rules = {0};
	const char *wanted = args->folder;
	char error[1024] = "";
	int r = 0;

	if (!wanted && args->rules) {
		r = watch_rules_read(args->rules, &rules, error, sizeof(error));
		wanted = rules.folder[0] ? rules.folder : NULL;
	}
	if (r < 0)
		log_error("episodes: %s", error);
	else
		r = episode_folder_find(wanted, to);
	watch_rules_deinit(&rules);
	return r < 0 ? trace(r) : 0;
}

static int episodes_main(int argc, char **argv)
{
	struct episodes_args args = {0};
	char folder[PATH_MAX];
	int n, r = options_parse(&options, argc, argv, &args, &n);

	if (r != 0)
		return options_exit_status(r);
	if (find_folder(&args, folder) < 0)
		return 1;
	if (!n || (n == 1 && !strcmp(argv[0], "list")))
		r = list_all(folder, args.json);
	else if (n == 2 && !strcmp(argv[0], "show"))
		r = show(folder, argv[1]);
	else if (n >= 2 && !strcmp(argv[0], "delete"))
		r = delete_all(folder, argv + 1, (size_t)n - 1);
	else {
		log_error("episodes takes: list, show NAME, or delete NAME...");
		return 2;
	}
	return r < 0;
}

const struct command command_episodes = {
	.name = "episodes",
	.summary = "list, show and delete the episodes that watch has kept",
	.run = episodes_main,
	.options = &options,
};
