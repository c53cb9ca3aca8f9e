/* episode.c - see episode.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "profile/calltree.h"
#include "profile/profile-export.h"
#include "profile/profile-text.h"
#include "profile/rows.h"
#include "watch/episode.h"

enum {
	DEPTH = 256,  /* frames from the root: readers of JSON recurse */
	LEAST = 1000, /* branches below a 1/LEAST of the whole are left out */
	PATH_ROOM = 4096,
};

struct writer {
	const char *path; /* of the folder */
	const struct episode *episode;
	struct profile *profile;
	uint64_t weight;    /* of the samples that are left */
	struct buffer tree; /* calltree.json without the last newline */
	char hottest[256], process[64];
	char *error;
	size_t error_size;
};

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static uint64_t wall(const struct episode *e, uint64_t boot)
{
	return (uint64_t)((int64_t)boot + e->wall_offset);
}

void episode_name(const struct episode *e, char to[EPISODE_NAME])
{
	time_t at = (time_t)(wall(e, e->of.start) / NSEC_PER_SEC);
	struct tm tm;
	size_t n = strftime(to, EPISODE_NAME, "%Y-%m-%dT%H-%M-%S", gmtime_r(&at, &tm));

	(void)snprintf(to + n, EPISODE_NAME - n, "-%s", e->rule->name);
}

/* A new file of @content in the folder. */
static int put_file(struct writer *w, const char *name, const struct buffer *content)
{
	char path[PATH_ROOM];
	int fd, r, n = snprintf(path, sizeof(path), "%s/%s", w->path, name);

	if (content->bad || n < 0 || n >= PATH_ROOM)
		return fail(content->bad ? -ENOMEM : -ENAMETOOLONG);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : write_all(fd, content->data, content->len);
	(void)fd_close(fd);
	if (r < 0)
		(void)snprintf(w->error, w->error_size, "%s: %s", path, strerror(-r));
	return r < 0 ? trace(r) : 0;
}

/* ---- the samples of the episode ---- */

static bool is_time(const struct profile *p)
{
	return !strcmp(p->weight_unit, "ns");
}

/* Leaves only samples of the episode in the profile: by time, process and thread. */
static int choose_samples(struct writer *w)
{
	struct profile *p = w->profile;
	const struct trigger_episode *of = &w->episode->of;
	double lasting = (double)(of->end - of->start), least = w->episode->rule->threads / 100;
	_cleanup_(freep) uint64_t *weights = calloc(p->n_threads + 1, sizeof(*weights));
	size_t kept = 0;

	if (!weights)
		return fail(-ENOMEM);
	for (size_t i = 0; i < p->n_samples; i++) {
		const struct profile_sample s = p->samples[i];

		if (s.time < of->start || s.time > of->end ||
		    (of->pid && profile_sample_pid(p, &s) != of->pid))
			continue;
		weights[s.thread] += s.weight;
		p->samples[kept++] = s;
	}
	p->n_samples = kept;
	kept = 0;
	for (size_t i = 0; i < p->n_samples; i++) {
		const struct profile_sample s = p->samples[i];

		if (is_time(p) && (double)weights[s.thread] < least * lasting)
			continue;
		p->samples[kept++] = s;
		w->weight += s.weight;
		if (of->pid && !w->process[0])
			(void)snprintf(w->process, sizeof(w->process), "%s",
				       profile_process_name(p, profile_sample_process(p, &s)));
	}
	p->n_samples = kept;
	return 0;
}

/* ---- call trees ---- */

static void begin_frame(struct buffer *b, bool first, const char *name, uint64_t weight,
			uint64_t whole, uint64_t count)
{
	_cleanup_(buffer_deinit) struct buffer clean = {0};

	text_clean(&clean, name);
	b->bad |= clean.bad;
	buffer_printf(b, "%s{\"frame\":", first ? "" : ",");
	text_json(b, clean.len ? (const char *)clean.data : "", clean.len);
	buffer_printf(b, ",\"proportion\":%.4f,\"count\":%" PRIu64 ",\"children\":[",
		      whole ? (double)weight / (double)whole : 0, count);
}

static void put_calls(const struct calltree *t, const struct fold *f, uint32_t node, unsigned depth,
		      struct buffer *b)
{
	bool first = true;

	if (depth == DEPTH)
		return;
	calltree_for_each_child(t, node, child)
	{
		const struct calltree_node *n = &t->nodes[child];

		begin_frame(b, first, fold_symbol_name(f, n->id), n->weight, f->weight, n->count);
		put_calls(t, f, child, depth + 1, b);
		buffer_append(b, "]}", 2);
		first = false;
	}
}

static int find_hottest(struct writer *w, struct fold *f)
{
	struct rows rows = {0};
	char name[32];
	int r = rows_fill(&rows, f, REPORT_FUNCTION);

	if (r >= 0 && rows.n) {
		rows_sort(&rows, f, REPORT_FUNCTION, REPORT_SORT_SELF);
		(void)snprintf(w->hottest, sizeof(w->hottest), "%s",
			       row_name(f, REPORT_FUNCTION, &rows.list[0], name));
	}
	rows_deinit(&rows);
	return r < 0 ? trace(r) : 0;
}

static int put_tree(struct writer *w)
{
	struct fold fold;
	struct calltree tree = {0};
	int r = fold_init(&fold, w->profile, NULL);

	if (r < 0)
		return trace(r);
	r = calltree_init(&tree, &fold, false, false, fold.weight / LEAST);
	buffer_append(&w->tree, "[", 1);
	if (r >= 0) {
		put_calls(&tree, &fold, 0, 0, &w->tree);
		r = find_hottest(w, &fold);
	}
	buffer_append(&w->tree, "]", 1);
	calltree_deinit(&tree);
	fold_deinit(&fold);
	return r < 0 ? trace(r) : put_file(w, "calltree.json", &w->tree);
}

/* The profile's own tree, in which each frame is an address: by node its weight and count with all below it. */
struct address_tree {
	const struct profile *profile;
	uint64_t *weight, *count, whole;
	uint32_t *child, *next; /* + 1; 0: none.  [n_nodes] of child: the roots */
};

static int address_tree_init(struct address_tree *t, const struct profile *p, uint64_t whole)
{
	size_t n = p->n_nodes;

	*t = (struct address_tree){.profile = p,
				   .whole = whole,
				   .weight = calloc(n + 1, sizeof(uint64_t)),
				   .count = calloc(n + 1, sizeof(uint64_t)),
				   .child = calloc(n + 1, sizeof(uint32_t)),
				   .next = calloc(n + 1, sizeof(uint32_t))};
	if (!t->weight || !t->count || !t->child || !t->next)
		return fail(-ENOMEM);
	for (size_t i = 0; i < p->n_samples; i++) {
		if (p->samples[i].stack < n) {
			t->weight[p->samples[i].stack] += p->samples[i].weight;
			t->count[p->samples[i].stack]++;
		}
	}
	/* A caller is always before its calls. */
	for (size_t i = n; i-- > 0;) {
		size_t up = p->nodes[i].up < n ? p->nodes[i].up : n;

		if (!t->count[i])
			continue;
		t->weight[up] += t->weight[i];
		t->count[up] += t->count[i];
		t->next[i] = t->child[up];
		t->child[up] = (uint32_t)i + 1;
	}
	return 0;
}

static void address_tree_deinit(struct address_tree *t)
{
	free(t->weight);
	free(t->count);
	free(t->child);
	free(t->next);
}

static const char *address_of(const struct profile *p, uint32_t frame, char *to, size_t size)
{
	const struct profile_frame *f = &p->frames[frame];

	if (f->module == UINT32_MAX)
		(void)snprintf(to, size, "0x%" PRIx64, f->rel_pc);
	else
		(void)snprintf(
			to, size, "%s+0x%" PRIx64,
			fold_base_name(string_table_text(&p->strings, p->modules[f->module].path)),
			f->rel_pc);
	return to;
}

/* The heaviest child of @node that is lighter than the last one shown (by weight, then by number); 0: none. */
static uint32_t next_heaviest(const struct address_tree *t, size_t node, uint32_t last)
{
	uint32_t best = 0;

	for (uint32_t c = t->child[node]; c; c = t->next[c - 1]) {
		uint64_t weight = t->weight[c - 1];
		bool shown = last && (weight > t->weight[last - 1] ||
				      (weight == t->weight[last - 1] && c <= last));

		if (!shown && (!best || weight > t->weight[best - 1]))
			best = c;
	}
	return best;
}

static void put_addresses(const struct address_tree *t, size_t node, unsigned depth,
			  struct buffer *b)
{
	char name[512];
	bool first = true;

	if (depth == DEPTH)
		return;
	for (uint32_t c = next_heaviest(t, node, 0); c; c = next_heaviest(t, node, c)) {
		if (t->weight[c - 1] * LEAST < t->whole)
			return;
		begin_frame(
			b, first,
			address_of(t->profile, t->profile->nodes[c - 1].frame, name, sizeof(name)),
			t->weight[c - 1], t->whole, t->count[c - 1]);
		put_addresses(t, c - 1, depth + 1, b);
		buffer_append(b, "]}", 2);
		first = false;
	}
}

static int put_address_tree(struct writer *w)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};
	struct address_tree tree;
	int r = address_tree_init(&tree, w->profile, w->weight);

	if (r >= 0) {
		buffer_append(&b, "[", 1);
		put_addresses(&tree, w->profile->n_nodes, 0, &b);
		buffer_append(&b, "]\n", 2);
	}
	address_tree_deinit(&tree);
	return r < 0 ? trace(r) : put_file(w, "calltree-addresses.json", &b);
}

static int put_images(struct writer *w)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};
	const struct profile *p = w->profile;

	buffer_append(&b, "[", 1);
	for (size_t i = 0; i < p->n_modules; i++) {
		const struct profile_module *m = &p->modules[i];

		text_json_append(&b, i ? ",\n{\"path\":" : "\n{\"path\":",
				 string_table_text(&p->strings, m->path));
		buffer_printf(&b, ",\"build_id\":\"");
		for (uint32_t k = 0; k < m->build_id_len && k < sizeof(m->build_id); k++)
			buffer_printf(&b, "%02x", m->build_id[k]);
		buffer_printf(&b, "\",\"base\":\"0x%" PRIx64 "\"}", m->load_bias);
	}
	buffer_append(&b, "\n]\n", 3);
	return put_file(w, "images.json", &b);
}

/* ---- the other files ---- */

static int put_lines(struct writer *w)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};
	const struct trigger_episode *of = &w->episode->of;
	double start = seconds(wall(w->episode, of->start));

	buffer_printf(&b,
		      "cpu-highload,%.2f,{\"start\":\"%.2f\",\"lasting\":\"%.2f\",\"average\":\"%."
		      "0f\"}\n",
		      start, start, seconds(of->end - of->start), of->average);
	buffer_printf(&b, "cpu-highload-stackframe,%.2f,", start);
	buffer_append(&b, w->tree.data, w->tree.len);
	buffer_append(&b, "\n", 1);
	return put_file(w, "episode.lines", &b);
}

static int put_episode(struct writer *w)
{
	_cleanup_(buffer_deinit) struct buffer b = {0};
	const struct watch_rule *rule = w->episode->rule;
	const struct trigger_episode *of = &w->episode->of;

	buffer_printf(&b, "{\"version\": 1");
	text_json_append(&b, ",\n\"rule\": ", rule->name);
	text_json_append(&b, ",\n\"when\": ", watch_when_names[rule->when]);
	text_json_append(&b, ",\n\"unit\": ", watch_when_unit(rule->when));
	buffer_printf(&b, ",\n\"above\": %g,\n\"average\": %.3f,\n\"peak\": %.3f", rule->above,
		      of->average, of->peak);
	buffer_printf(&b, ",\n\"start\": %.3f,\n\"lasting\": %.3f",
		      seconds(wall(w->episode, of->start)), seconds(of->end - of->start));
	buffer_printf(&b, ",\n\"start_trace_ns\": %" PRIu64 ",\n\"end_trace_ns\": %" PRIu64,
		      of->start, of->end);
	buffer_printf(&b, ",\n\"pid\": %u,\n\"samples\": %zu", of->pid, w->profile->n_samples);
	text_json_append(&b, ",\n\"process\": ", w->process);
	text_json_append(&b, ",\n\"cgroup\": ", rule->cgroup);
	text_json_append(&b, ",\n\"event\": ", rule->event);
	text_json_append(&b, ",\n\"mark\": ", rule->mark);
	text_json_append(&b, ",\n\"hottest\": ", w->hottest);
	text_json_append(&b, ",\n\"trace\": ", "trace.pftrace");
	buffer_printf(&b, "\n}\n");
	return put_file(w, "episode.json", &b);
}

static int put_page(struct writer *w)
{
	char path[PATH_ROOM];
	const struct export_options options = {.title = w->episode->rule->name};
	FILE *out = NULL;
	int fd, r, n = snprintf(path, sizeof(path), "%s/flame.html", w->path);

	if (n < 0 || n >= PATH_ROOM)
		return fail(-ENAMETOOLONG);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : 0;
	out = r < 0 ? NULL : fdopen(fd, "w");
	if (r >= 0 && !out) {
		r = -errno;
		(void)fd_close(fd);
	}
	if (r >= 0)
		r = export_html(w->profile, &options, out);
	if (out && fclose(out) && r >= 0)
		r = -errno;
	if (r < 0)
		(void)snprintf(w->error, w->error_size, "%s: %s", path,
			       profile_strerror(w->profile, r));
	return r < 0 ? trace(r) : 0;
}

/* episode.json comes last: a folder that has it is whole. */
static int put_files(struct writer *w)
{
	static int (*const files[])(struct writer *) = {
		choose_samples, put_tree, put_address_tree, put_images,
		put_lines,	put_page, put_episode,
	};
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(files); i++)
		r = files[i](w);
	if (r < 0 && !w->error[0])
		(void)snprintf(w->error, w->error_size, "%s: %s", w->path,
			       profile_strerror(w->profile, r));
	return r < 0 ? trace(r) : 0;
}

int episode_write(const char *path, const struct episode *episode, char *error, size_t error_size)
{
	struct profile profile;
	struct writer w = {.path = path,
			   .episode = episode,
			   .profile = &profile,
			   .error = error,
			   .error_size = error_size};
	char file[PATH_ROOM];
	int r, n = snprintf(file, sizeof(file), "%s/trace.pftrace", path);

	error[0] = 0;
	if (n < 0 || n >= PATH_ROOM)
		return fail(-ENAMETOOLONG);
	r = profile_read(file, &profile, error, error_size);
	if (r < 0)
		return trace(r);
	r = put_files(&w);
	buffer_deinit(&w.tree);
	profile_deinit(&profile);
	return r < 0 ? trace(r) : 0;
}
