/* unwind-first.c - see unwind-first.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/bench/unwind-first.h"

enum { ROUNDS_MAX = 128 };

/* ---- which ---- */

struct sizes { /* of files, by module; of those that were met */
	const struct uw_module *modules[1024];
	uint64_t bytes[1024];
	size_t n;
};

static uint64_t size_of(struct sizes *sizes, const struct uw_module *module)
{
	struct stat st;
	size_t i;

	for (i = 0; i < sizes->n; i++)
		if (sizes->modules[i] == module)
			return sizes->bytes[i];
	if (i == ARRAY_SIZE(sizes->modules) || uw_module_kind(module) != UW_MODULE_FILE ||
	    stat(uw_module_path(module), &st) < 0)
		return 0;
	sizes->modules[sizes->n] = module;
	sizes->bytes[sizes->n++] = (uint64_t)st.st_size;
	return (uint64_t)st.st_size;
}

/* The deepest of the whole stacks through the largest file.  false: none. */
static bool first_choose(const struct samples *samples, const struct answers *native,
			 struct first_figures *f, size_t *ret_sample)
{
	static struct sizes sizes;
	uint32_t deepest = 0;
	const char *slash;

	sizes.n = 0;
	for (size_t i = 0; i < native->n; i++) {
		const struct answer *a = &native->list[i];

		for (uint32_t j = 0; a->outcome == UW_WHOLE && j < a->n; j++) {
			const struct uw_map *map = uw_space_find(samples->list[i].snapshot.space,
								 uw_frame_lookup(a->frames[j]));
			uint64_t bytes = map && map->module ? size_of(&sizes, map->module) : 0;

			if (!bytes || bytes < f->file_bytes ||
			    (bytes == f->file_bytes && a->n <= deepest))
				continue;
			deepest = a->n;
			f->file_bytes = bytes;
			slash = strrchr(uw_module_path(map->module), '/');
			(void)snprintf(f->file, sizeof(f->file), "%s",
				       slash ? slash + 1 : uw_module_path(map->module));
			*ret_sample = i;
		}
	}
	return f->file_bytes > 0;
}

/* ---- one round ---- */

struct first {
	const struct sample *sample;
	struct uw_map *maps; /* as the sample's, of modules of their own */
	struct uw_module **modules;
	size_t n_modules, n_loaded;
	struct uw_space *space;
	struct uw_engine *engine;
	uint64_t load_ns;
	struct uw_result res;
	uint64_t frames[UW_MAX_FRAMES];
};

static void first_clear(struct first *f)
{
	f->engine = uw_engine_free(f->engine);
	f->space = uw_space_unref(f->space);
	for (size_t i = 0; i < f->n_modules; i++)
		uw_module_unref(f->modules[i]);
	f->n_modules = f->n_loaded = 0;
	f->load_ns = 0;
}

/* The new module that stands for map @i's. */
static int first_module(struct first *f, size_t i)
{
	const struct uw_space *space = f->sample->snapshot.space;
	const struct uw_module *old = uw_space_map(space, i)->module;
	int r;

	for (size_t j = 0; j < i; j++) {
		if (uw_space_map(space, j)->module == old) {
			f->maps[i].module = f->maps[j].module;
			return 0;
		}
	}
	r = uw_module_new(uw_module_kind(old), uw_module_path(old), uw_module_build_id(old),
			  &f->maps[i].module);
	if (r == 0)
		f->modules[f->n_modules++] = f->maps[i].module;
	return r;
}

static int first_prepare(struct first *f)
{
	const struct uw_space *space = f->sample->snapshot.space;
	int r = 0;

	for (size_t i = 0; i < space->n_maps && r == 0; i++) {
		f->maps[i] = *uw_space_map(space, i);
		if (uw_space_map(space, i)->module)
			r = first_module(f, i);
	}
	if (r == 0)
		r = uw_space_new(f->maps, space->n_maps, 1, space->memory, &f->space);
	return r == 0 ? uw_engine_new(UW_ENGINE_NATIVE, &f->engine) : r;
}

static int first_load(struct first *f, struct uw_module *module)
{
	const struct uw_map *map = f->maps;
	struct uw_source source = {.fd = -1, .memory = f->space->memory};
	uint64_t start = clock_ns(CLOCK_MONOTONIC);
	int r;

	while (map->module != module)
		map++;
	source.start = map->start;
	source.end = map->end;
	if (uw_module_kind(module) == UW_MODULE_FILE)
		source = (struct uw_source){
			.fd = open(uw_module_path(module), O_RDONLY | O_CLOEXEC)};
	(void)uw_module_want_unwind(module);
	r = uw_module_load_unwind(module, &source);
	fd_close(source.fd);
	f->n_loaded++;
	f->load_ns += clock_ns(CLOCK_MONOTONIC) - start;
	return r == -ENOMEM ? r : 0;
}

/* From the snapshot to its outcome. */
static int first_unwind(struct first *f)
{
	struct uw_snapshot snapshot = f->sample->snapshot;

	snapshot.space = f->space;
	for (;;) {
		int r;

		f->res = (struct uw_result){.frames = f->frames, .max_frames = UW_MAX_FRAMES};
		r = uw_unwind_batch(f->engine, &snapshot, 1, &f->res);
		if (r < 0)
			return r;
		if (f->res.outcome != UW_PENDING)
			return f->res.outcome == UW_WHOLE ? 0 : -EBADMSG;
		if (f->n_loaded == f->n_modules)
			return -EBADMSG;
		r = first_load(f, f->res.pending);
		if (r < 0)
			return r;
	}
}

static void first_note(const struct first *f, struct first_figures *to)
{
	struct uw_engine_stats stats;

	uw_engine_stats(f->engine, &stats);
	to->frames = f->res.n_frames;
	to->n_modules = f->n_loaded;
	to->cies = stats.cies_read;
	to->fdes = stats.fdes_read;
	to->held = 0;
	for (size_t i = 0; i < f->n_modules; i++)
		to->held += uw_module_bytes(f->modules[i]);
}

static int ns_compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int first_rounds(struct first *f, uint64_t rounds, struct first_figures *to)
{
	uint64_t ns[ROUNDS_MAX][2];

	rounds = min_u64(rounds, ROUNDS_MAX);
	for (uint64_t i = 0; i < rounds; i++) {
		int r = first_prepare(f);
		uint64_t start = clock_ns(CLOCK_MONOTONIC);

		if (r == 0)
			r = first_unwind(f);
		ns[i][0] = clock_ns(CLOCK_MONOTONIC) - start;
		ns[i][1] = f->load_ns;
		if (r == 0)
			first_note(f, to);
		first_clear(f);
		if (r < 0)
			return r;
	}
	qsort(ns, rounds, sizeof(*ns), ns_compare);
	to->ms = (double)ns[(rounds - 1) / 4][0] / 1e6;
	to->load_ms = (double)ns[(rounds - 1) / 4][1] / 1e6;
	return 0;
}

int first_measure(const struct samples *samples, const struct answers *native, uint64_t rounds,
		  struct first_figures *ret_figures)
{
	static struct first f;
	struct first_figures figures = {0};
	size_t at = 0, n;
	int r;

	if (!first_choose(samples, native, &figures, &at))
		return -ENODATA;
	f = (struct first){.sample = &samples->list[at]};
	n = f.sample->snapshot.space->n_maps;
	f.maps = calloc(n, sizeof(*f.maps));
	f.modules = calloc(n, sizeof(struct uw_module *));
	r = f.maps && f.modules ? first_rounds(&f, rounds, &figures) : -ENOMEM;
	free(f.maps);
	free(f.modules);
	if (r == 0)
		*ret_figures = figures;
	return r;
}
