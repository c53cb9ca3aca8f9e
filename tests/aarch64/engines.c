/* engines.c - the samples of a perf.data of aarch64, unwound on this host by native and libdw.
 *
 *   engines PERFDATA [DIR]    DIR/NAME is opened in place of a mapped file /any/where/NAME
 *
 * One line a sample and engine: "NUMBER ENGINE OUTCOME NAME NAME ...", innermost first.  A name has
 * ? behind it where the frame was guessed, * where it was interrupted by a signal, and xN where it
 * stands N times in a row.  And one line a sample: "NUMBER addresses same|apart", whether the two
 * have the same addresses. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/perfdata/perfdata.h"
#include "symbols/module.h"
#include "unwinder/unwinder.h"

enum { MAPS_MAX = 64, FRAMES = UW_MAX_FRAMES };

struct replay {
	const char *dir;
	struct uw_map maps[MAPS_MAX];
	size_t n_maps, n_samples;
	struct uw_engine *engines[2];
};

static const enum uw_engine_kind kinds[] = {UW_ENGINE_NATIVE, UW_ENGINE_LIBDW};

static void die(const char *what)
{
	fprintf(stderr, "engines: %s\n", what);
	exit(1);
}

/* What cannot be opened (the vDSO) is a module that cannot be read. */
static struct uw_module *module_open(const struct replay *replay, const char *path)
{
	const char *name = strrchr(path, '/');
	struct uw_source source = {.fd = -1};
	struct uw_module *module;
	char other[4096];

	if (replay->dir && name && snprintf(other, sizeof(other), "%s%s", replay->dir, name) > 0)
		path = other;
	if (uw_module_new(UW_MODULE_FILE, path, NULL, &module) < 0)
		die("no memory");
	if (name)
		source.fd = open(path, O_RDONLY | O_CLOEXEC);
	if (source.fd < 0) {
		uw_module_set_unreadable(module);
		return module;
	}
	if (!uw_module_want_unwind(module) || uw_module_load_unwind(module, &source) < 0 ||
	    !uw_module_want_symbols(module) || uw_module_load_symbols(module, &source) < 0)
		die("a file cannot be loaded");
	fd_close(source.fd);
	return module;
}

static void map_add(struct replay *replay, const struct record_event *event)
{
	struct uw_map map = {.start = event->mmap.start,
			     .end = event->mmap.start + event->mmap.len,
			     .offset = event->mmap.offset,
			     .module = module_open(replay, event->mmap.path)};
	size_t at = replay->n_maps;

	if (at == MAPS_MAX)
		die("too many mappings");
	for (; at && replay->maps[at - 1].start > map.start; at--)
		replay->maps[at] = replay->maps[at - 1];
	replay->maps[at] = map;
	replay->n_maps++;
}

static void name_of(const struct uw_space *space, uint64_t frame, char *to, size_t size)
{
	uint64_t pc = uw_frame_lookup(frame);
	const struct uw_map *map = uw_space_find(space, pc);
	struct uw_symbol symbol;

	if (map && uw_module_symbol_state(map->module) == UW_MODULE_READY &&
	    uw_module_symbol(map->module, uw_map_vaddr(map, pc), &symbol))
		snprintf(to, size, "%s", symbol.name);
	else
		snprintf(to, size, "%s", map ? "[unnamed]" : "[no-mapping]");
	if (frame & UW_FRAME_GUESSED)
		strncat(to, "?", size - strlen(to) - 1);
	if (frame & UW_FRAME_SIGNAL)
		strncat(to, "*", size - strlen(to) - 1);
}

static void print(const struct uw_space *space, const struct uw_result *res)
{
	char name[512], last[512] = "";
	size_t times = 0;

	printf(" %s", res->outcome == UW_FAILED ? uw_reason_name((enum uw_reason)res->reason)
						: uw_outcome_name((enum uw_outcome)res->outcome));
	for (uint32_t i = 0; i <= res->n_frames; i++) {
		if (i < res->n_frames)
			name_of(space, res->frames[i], name, sizeof(name));
		if (i < res->n_frames && !strcmp(name, last)) {
			times++;
			continue;
		}
		if (times > 1)
			printf("x%zu", times);
		if (i < res->n_frames)
			printf(" %s", name);
		memcpy(last, name, sizeof(last));
		times = 1;
	}
	printf("\n");
}

static bool same(const struct uw_result *a, const struct uw_result *b)
{
	if (a->n_frames != b->n_frames)
		return false;
	for (uint32_t i = 0; i < a->n_frames; i++)
		if (uw_frame_pc(a->frames[i]) != uw_frame_pc(b->frames[i]))
			return false;
	return true;
}

static void sample(struct replay *replay, const struct record_sample *s)
{
	static uint64_t frames[ARRAY_SIZE(kinds)][FRAMES], regs[UW_ARM64_COUNT];
	struct uw_result res[ARRAY_SIZE(kinds)];
	struct uw_space *space;
	struct uw_snapshot snapshot;

	if (!s->regs || s->regs_abi != PERF_SAMPLE_REGS_ABI_64)
		die("a sample without registers");
	memcpy(regs, s->regs, sizeof(regs));
	if (uw_space_new(replay->maps, replay->n_maps, 1, NULL, &space) < 0)
		die("mappings that overlap");
	snapshot = (struct uw_snapshot){.space = space,
					.regs = regs,
					.arch = UW_ARCH_AARCH64,
					.stack_full = s->stack_len == s->stack_room,
					.stack_len = s->stack_len,
					.stack = s->stack};
	replay->n_samples++;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		res[i] = (struct uw_result){.frames = frames[i], .max_frames = FRAMES};
		if (uw_unwind_batch(replay->engines[i], &snapshot, 1, &res[i]) < 0)
			die("no memory");
		printf("%zu %s", replay->n_samples, uw_engine_name(kinds[i]));
		print(space, &res[i]);
	}
	printf("%zu addresses %s\n", replay->n_samples, same(&res[0], &res[1]) ? "same" : "apart");
	uw_space_unref(space);
}

static void record(struct replay *replay, const struct perfdata_item *item)
{
	struct record_sample s;
	struct record_event e;

	if (item->record->type == PERF_RECORD_SAMPLE) {
		if (record_parse_sample(item->layout, item->record, &s) < 0)
			die("a damaged sample");
		sample(replay, &s);
	} else if (record_parse_event(item->layout, item->record, &e) == 0 &&
		   e.type == PERF_RECORD_MMAP2) {
		map_add(replay, &e);
	}
}

int main(int argc, char **argv)
{
	struct replay replay = {.dir = argc == 3 ? argv[2] : NULL};
	struct perfdata *data;
	struct perfdata_item item;
	char error[256];
	int fd, r;

	if (argc < 2 || argc > 3)
		die("usage: engines PERFDATA [DIR]");
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0 || perfdata_new(fd, NULL, &data, error, sizeof(error)) < 0)
		die(fd < 0 ? "no such file" : error);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (uw_engine_new(kinds[i], &replay.engines[i]) < 0)
			die("no memory");
	while ((r = perfdata_next(data, &item)) == 0) {
		record(&replay, &item);
		perfdata_put(data, item.block);
	}
	if (r < 0 || perfdata_counts(data)->damage)
		die("the file is damaged");
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		uw_engine_free(replay.engines[i]);
	for (size_t i = 0; i < replay.n_maps; i++)
		uw_module_unref(replay.maps[i].module);
	perfdata_free(data);
	fd_close(fd);
	return 0;
}
