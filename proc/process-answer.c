/* process-answer.c - mappings from records and from the text of /proc/PID/maps: see process.h.
 *
 *   records ──────────────┬──► maps ◄── text, then the records kept since it was asked for
 *                         └──► log (while a text is on its way)
 *
 * The text shows the process at some moment between asking and answering.  Records from after that
 * moment are missing in it, those from before are in it already; applying all of them on top is
 * right for both, but for a mapping that came and went in between, which then stays until something
 * covers it or the next refresh.
 *
 * A text names a file by device and inode, a record mostly by build id.  Where both tell of the
 * same area the file is the same, and the set of modules learns both names from it. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "proc/maps.h"
#include "proc/procfs.h"

static void changed_space(struct process *p)
{
	p->space = uw_space_unref(p->space);
}

static int put(struct process *p, const struct process_map *map, bool exec, bool *ret_changed)
{
	bool changed = false;
	int r = process_maps_put(&p->maps, map, exec, &changed);

	if (changed) {
		changed_space(p);
		*ret_changed = true;
	}
	return r < 0 ? trace(r) : 0;
}

int process_mmap(struct process_table *table, uint32_t pid, uint64_t start, uint64_t len,
		 uint64_t offset, bool exec, const char *path, const struct uw_file_id *id)
{
	struct process_map map = {.start = start, .end = start + len, .offset = offset};
	struct process *p = process_of_record(table, pid);
	bool changed;
	int r;

	if (!p)
		return fail(-ENOMEM);
	if (map.end <= map.start)
		return 0; /* wraps */
	if (id)
		map.id = *id;
	if (exec) {
		r = process_map_resolve(table, p, path, &map);
		if (r < 0)
			return trace(r);
	}
	process_log_add(p, &map, exec);
	r = put(p, &map, exec, &changed);
	(void)uw_module_unref(map.module);
	return r < 0 ? trace(r) : 0;
}

/* ---- a text ---- */

void process_maps_asked(struct process *process, uint64_t now)
{
	process->maps_state = PROCESS_MAPS_ASKED;
	process->maps_asked_at = now;
	(void)process_log_free(process->log);
	/* Without memory for it the answer is what it is; a later refresh mends it. */
	process->log = calloc(1, sizeof(*process->log));
}

/* The path with its NUL; the kernel writes a newline as \012.  false: no path of any file. */
static bool path_of(const struct procfs_map *line, char path[static PROCESS_PATH_MAX])
{
	size_t n = 0;

	for (size_t i = 0; i < line->path_len; i++) {
		if (n == PROCESS_PATH_MAX - 1 || !line->path[i])
			return false;
		if (line->path_len - i >= 4 && !memcmp(line->path + i, "\\012", 4)) {
			path[n++] = '\n';
			i += 3;
			continue;
		}
		path[n++] = line->path[i];
	}
	path[n] = 0;
	return true;
}

static bool same_inode(const struct uw_file_id *a, const struct uw_file_id *b)
{
	return a->inode == b->inode && a->major == b->major && a->minor == b->minor;
}

/* Is @map, as a text tells it, a part of @known? */
static bool is_part(const struct process_map *known, const struct process_map *map)
{
	return known->module && known->start <= map->start && known->end >= map->end;
}

static bool same_offset(const struct process_map *a, const struct process_map *b)
{
	return a->start - a->offset == b->start - b->offset;
}

/* What is known of this very area from before: the file and its build id, or that it is code which
 * the parent made.  Most lines of a refresh are of this kind and need no look into the set of
 * modules. */
static int resolve_known(struct process_table *table, struct process *p, const char *path,
			 struct process_map *map)
{
	size_t i = process_maps_at(p->maps, map->start);
	const struct process_map *known = i < p->maps->n ? &p->maps->maps[i] : NULL;
	bool part = known && is_part(known, map);
	enum path_kind kind = process_path_kind(path, part && known->id.build_id.len);

	if (part && kind == PATH_JIT && uw_module_kind(known->module) == UW_MODULE_JIT) {
		map->module = uw_module_ref(known->module);
		map->offset = 0;
		map->id = (struct uw_file_id){0};
		return 0;
	}
	if (part && kind == PATH_FILE && same_offset(known, map) && known->id.inode &&
	    same_inode(&known->id, &map->id)) {
		map->module = uw_module_ref(known->module);
		map->id = known->id;
		return 0;
	}
	if (part && kind == PATH_FILE && same_offset(known, map) && !known->id.inode && !p->unsure)
		map->id.build_id = known->id.build_id;
	return process_map_resolve(table, p, path, map);
}

static int put_line(struct process_table *table, struct process *p, const struct procfs_map *line,
		    struct process_maps **fresh)
{
	char path[PROCESS_PATH_MAX];
	bool changed;
	struct process_map map = {
		.start = line->start,
		.end = line->end,
		.offset = line->offset,
		.id = {.major = line->major, .minor = line->minor, .inode = line->inode},
	};
	int r;

	if (!path_of(line, path))
		return 0;
	/* No record tells of it, it is in every text, and nothing runs there: it would be a change
	 * each time. */
	if (!strcmp(path, "[vsyscall]"))
		return 0;
	r = resolve_known(table, p, path, &map);
	if (r < 0)
		return trace(r);
	r = process_maps_put(fresh, &map, true, &changed);
	(void)uw_module_unref(map.module);
	return r < 0 ? trace(r) : 0;
}

/* Text that was moved into huge pages is anonymous and has no file any more (mremap over one's own
 * code).  What stands before and behind it tells: the same file, with as many bytes between as
 * there are addresses. */
static bool is_file_between(const struct procfs_map *before, const struct procfs_map *line,
			    const struct procfs_map *behind)
{
	return before->inode && !line->inode && !line->path_len && before->end == line->start &&
	       line->end == behind->start && before->inode == behind->inode &&
	       before->major == behind->major && before->minor == behind->minor &&
	       before->path_len == behind->path_len &&
	       !memcmp(before->path, behind->path, before->path_len) &&
	       behind->start - before->start == behind->offset - before->offset;
}

static void look_around(const struct procfs_map *before, struct procfs_map *line, const char *at,
			const char *end)
{
	struct procfs_map behind;
	uint64_t distance = line->start - before->start;

	if (line->inode || line->path_len || procfs_maps_next(&at, end, &behind) != 0 ||
	    !is_file_between(before, line, &behind))
		return;
	line->inode = before->inode;
	line->major = before->major;
	line->minor = before->minor;
	line->path = before->path;
	line->path_len = before->path_len;
	line->offset = before->offset + distance;
}

/* -ESRCH: an empty text, as of a process that is exiting. */
static int maps_of_text(struct process_table *table, struct process *p, const char *text,
			size_t len, struct process_maps **ret_fresh)
{
	_cleanup_(process_maps_unrefp) struct process_maps *fresh = NULL;
	const char *at = text;
	struct procfs_map line, before = {0};
	size_t n = 0;
	int r = process_maps_new(&fresh);

	if (r < 0)
		return trace(r);
	while ((r = procfs_maps_next(&at, text + len, &line)) != PROCFS_MAPS_END) {
		if (r < 0)
			continue; /* skipped */
		n++;
		if (line.exec)
			look_around(&before, &line, at, text + len);
		before = line;
		if (!line.exec)
			continue;
		r = put_line(table, p, &line, &fresh);
		if (r < 0)
			return trace(r);
	}
	if (!n)
		return -ESRCH;
	*ret_fresh = take(fresh);
	return 0;
}

static int replay(const struct process_log *log, struct process_maps **maps)
{
	bool changed;
	int r = 0;

	for (size_t i = 0; log && i < log->n && r >= 0; i++)
		r = process_maps_put(maps, &log->entries[i].map, log->entries[i].exec, &changed);
	return r < 0 ? trace(r) : 0;
}

/* No text: what records told is all there is.  A child that is gone already had what its parent
 * has, and on top of that what it mapped itself. */
static int answer_nothing(struct process *p, bool *ret_changed)
{
	_cleanup_(process_maps_unrefp) struct process_maps *maps = NULL;
	bool changed = false;
	int r = 0;

	p->unsure = false;
	p->maps_refreshes++;
	if (p->maps_read_at) {
		p->maps_state = PROCESS_MAPS_KNOWN;
		return 0;
	}
	p->maps_state = PROCESS_MAPS_FAILED;
	if (!p->origin || !p->origin->maps_read_at)
		return 0;
	maps = process_maps_ref(p->origin->maps);
	for (size_t i = 0; i < p->maps->n && r >= 0; i++)
		r = process_maps_put(&maps, &p->maps->maps[i], true, &changed);
	if (r < 0)
		return trace(r);
	(void)process_maps_unref(p->maps);
	p->maps = take(maps);
	changed_space(p);
	*ret_changed = true;
	return 0;
}

static int answer_text(struct process_table *table, struct process *p, const char *text, size_t len,
		       uint64_t now, bool *ret_changed)
{
	_cleanup_(process_maps_unrefp) struct process_maps *fresh = NULL;
	bool overflowed = p->log && p->log->overflowed;
	int r = maps_of_text(table, p, text, len, &fresh);

	if (r == -ESRCH)
		return answer_nothing(p, ret_changed);
	if (r < 0)
		return trace(r);
	r = replay(p->log, &fresh);
	if (r < 0)
		return trace(r);
	process_maps_adopt(&p->maps, take(fresh), ret_changed);
	if (*ret_changed)
		changed_space(p);
	p->maps_refreshes = *ret_changed ? 0 : p->maps_refreshes + 1;
	p->maps_state = PROCESS_MAPS_KNOWN;
	p->maps_read_at = now ? now : 1;
	p->unsure = overflowed;
	p->threads_known = !overflowed;
	return 0;
}

int process_maps_answer(struct process_table *table, struct process *process, const char *text,
			size_t len, int error, uint64_t now, bool *ret_changed)
{
	bool changed = false;
	int r;

	if (process->replaced) {
		/* exec or reuse came before the answer: it may be about the next life */
		process->maps_state =
			process->maps_read_at ? PROCESS_MAPS_KNOWN : PROCESS_MAPS_FAILED;
		r = 0;
	} else if (!text || error < 0) {
		r = answer_nothing(process, &changed);
	} else {
		r = answer_text(table, process, text, len, now, &changed);
	}
	process->log = process_log_free(process->log);
	process->origin = process_unref(process->origin);
	if (r < 0)
		return trace(r);
	*ret_changed = changed;
	return 0;
}

bool process_wants_refresh(const struct process *process, uint64_t now)
{
	uint64_t wait = (10 * NSEC_PER_MSEC) << min_u64(process->maps_refreshes, 10);

	if (process->exited || process->maps_state == PROCESS_MAPS_ASKED)
		return false;
	if (process->maps_state == PROCESS_MAPS_UNKNOWN)
		return true;
	if (process->maps_state == PROCESS_MAPS_FAILED)
		wait = max_u64(wait, NSEC_PER_SEC);
	return now >= process->maps_asked_at && now - process->maps_asked_at >= wait;
}

/* ---- what others see ---- */

int process_space(struct process_table *table, struct process *process, struct uw_space **ret_space)
{
	const struct process_maps *maps = process->maps;
	_cleanup_(freep) struct uw_map *list = NULL;
	int r;

	(void)table;
	if (process->space) {
		*ret_space = process->space;
		return 0;
	}
	list = calloc(maps->n + 1, sizeof(*list));
	if (!list)
		return fail(-ENOMEM);
	for (size_t i = 0; i < maps->n; i++) {
		const struct process_map *m = &maps->maps[i];

		list[i] = (struct uw_map){m->start, m->end, m->offset, m->module};
	}
	r = uw_space_new(list, maps->n, maps->key, process->memory, &process->space);
	if (r < 0)
		return trace(r);
	*ret_space = process->space;
	return 0;
}

bool process_mapping_of(const struct process *process, const struct uw_module *module,
			struct process_mapping *ret_mapping)
{
	for (size_t i = 0; i < process->maps->n; i++) {
		const struct process_map *m = &process->maps->maps[i];

		if (m->module != module)
			continue;
		*ret_mapping = (struct process_mapping){m->start, m->end, m->offset, m->id};
		return true;
	}
	return false;
}
