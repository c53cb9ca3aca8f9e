/* native-script.c - see script-frames.h. */
#include <time.h>

#include "unwinder/script-frames.h"

enum {
	PAGES = 64,	     /* kept for one stack */
	READS_MAX = 64,	     /* pages read for one stack */
	READS_JS = 256,	     /* the same: each function is at several places */
	STEPS_MAX = 2 << 20, /* words of the copy and frames looked at for one stack: some ms */
	SAME_MIN = 32,	     /* times that a frame reads the same before it counts as proved, */
	SAME_NS =
		2000000, /* ... so far apart: a batch of samples is read at one time, and a thread that waits for a CPU changes nothing */
	USUAL_MIN = 8,	 /* readings, as far apart, that agree */
	PAST_PLACES = 8, /* where a frame may be */
	FLIPS_OF = 8,	 /* of so many readings the share that differ from the one before counts, */
	FLIP = 256,	 /* ... each as this */
	FLIPS_MANY = FLIPS_OF * FLIP / 8, /* ... one of eight */
	HELD_MIN = 2,			  /* readings before, and one after, that agree */
	TICK_NS = 100000000,		  /* of the samples' time */
	FREE_NS = TICK_NS * 3 / 8, /* of the CPU time in it, for any process; as much in shares */
	READ_NS = 20000,	   /* what a request costs the process that reads */
};

bool script_step(struct native_script *s, uint32_t n)
{
	if (s->n_steps < STEPS_MAX)
		s->n_steps += n;
	return s->n_steps < STEPS_MAX;
}

void script_steps_again(struct native_script *s)
{
	s->n_steps = (uint32_t)min_u64(s->n_steps, STEPS_MAX / 2);
}

/* ---- what was read ---- */

/* The place of @frame in the table; it may hold another one, which is to be replaced. */
static struct script_past *past_of(struct native_script *s, uint64_t frame)
{
	uint64_t hash = hash_u64(frame ^ s->serial);
	struct script_past *oldest = NULL;

	for (uint64_t i = 0; i < PAST_PLACES; i++) {
		struct script_past *past = &s->pasts[(hash + i) % SCRIPT_PASTS];

		if (past->serial == s->serial && past->frame == frame)
			return past;
		if (!oldest || past->counted < oldest->counted)
			oldest = past;
	}
	return oldest;
}

static const struct script_past *note(struct native_script *s, const struct native *e,
				      uint64_t frame, uint64_t code, uint64_t words)
{
	struct script_past *past = past_of(s, frame);
	uint32_t flips;

	if (past->serial == s->serial && past->frame == frame && past->code == code &&
	    past->words == words) {
		if (s->read_at - past->counted >= SAME_NS && s->sampled > past->counted) {
			past->counted = s->read_at;
			past->same++;
			past->flips -= past->flips / FLIPS_OF;
		}
		return past;
	}
	flips = past->serial == s->serial && past->frame == frame
			? past->flips - past->flips / FLIPS_OF + FLIP
			: 0;
	*past = (struct script_past){
		.frame = frame,
		.code = code,
		.words = words,
		.since = clock_ns((clockid_t)e->engine.settings.clock),
		.counted = s->read_at,
		.serial = s->serial,
		.flips = flips,
	};
	return past;
}

bool script_same(struct native_script *s, const struct native *e, const struct walk *w,
		 uint64_t frame, uint64_t code, uint64_t words)
{
	const struct script_past *past = note(s, e, frame, code, words);

	return past->since <= w->snapshot->time && past->same >= SAME_MIN;
}

bool script_held(struct native_script *s, const struct walk *w, uint64_t frame)
{
	const struct script_past *past = past_of(s, frame);

	return past->serial == s->serial && past->frame == frame &&
	       past->since <= w->snapshot->time && past->same >= HELD_MIN &&
	       past->flips < FLIPS_MANY;
}

bool script_flips(struct native_script *s, uint64_t frame)
{
	const struct script_past *past = past_of(s, frame);

	return past->serial == s->serial && past->frame == frame && past->flips >= FLIPS_MANY;
}

void script_note(struct native_script *s, const struct native *e, uint64_t key, uint64_t code,
		 uint64_t words)
{
	(void)note(s, e, key, code, words);
}

void script_note_most(struct native_script *s, const struct native *e, uint64_t key, uint64_t code,
		      uint64_t words)
{
	struct script_past *past = past_of(s, key);

	if (past->serial == s->serial && past->frame == key && past->same >= HELD_MIN &&
	    (past->code != code || past->words != words)) {
		past->same = (uint32_t)min_u64(past->same, 2 * USUAL_MIN) / 2;
		past->flips += FLIP - past->flips / FLIPS_OF;
		return;
	}
	(void)note(s, e, key, code, words);
}

enum script_usual script_usual(struct native_script *s, const struct walk *w, uint64_t key,
			       uint64_t *ret_code, uint64_t *ret_words)
{
	const struct script_past *past = past_of(s, key);

	if (past->serial != s->serial || past->frame != key || past->same < USUAL_MIN)
		return SCRIPT_UNUSUAL;
	*ret_code = past->code;
	*ret_words = past->words;
	return past->since <= w->snapshot->time && past->same >= SAME_MIN ? SCRIPT_PROVED
									  : SCRIPT_USUAL;
}

struct script_function *script_function_slot(struct native_script *s, uint64_t address)
{
	uint64_t hash = hash_u64(address ^ s->serial);
	struct script_function *oldest = NULL;

	for (uint64_t i = 0; i < SCRIPT_PLACES; i++) {
		struct script_function *f = &s->functions[(hash + i) % SCRIPT_FUNCTIONS];

		if (!f->serial || (f->serial == s->serial && f->address == address))
			return f;
		if (!oldest || f->read_at < oldest->read_at)
			oldest = f;
	}
	return oldest;
}

/* ---- the new list ---- */

void script_push(struct native_script *s, uint64_t frame)
{
	if (s->n < UW_MAX_FRAMES)
		s->frames[s->n++] = frame;
}

void script_push_native(struct native_script *s, const struct walk *w, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		script_push(s, w->frames[i]);
}

/* ---- the part of the time for all processes ---- */

static uint64_t *cost_of(struct native_script *s, const struct uw_memory *memory)
{
	return &s->costs.of[hash_u64((uintptr_t)memory) % SCRIPT_SHARES];
}

/* Is there time to read frames of @memory for a sample of this time?  Each process has its share, so one that needs much, or many
 * that need some, do not take the time of others. */
static bool has_time(struct native_script *s, const struct uw_memory *memory, uint64_t time)
{
	struct script_costs *c = &s->costs;
	uint32_t n;

	if (time / TICK_NS > c->tick)
		*c = (struct script_costs){.tick = time / TICK_NS, .n_before = c->n};
	n = c->n > c->n_before ? c->n : c->n_before;
	return c->all < FREE_NS ||
	       (c->all < 2 * FREE_NS && *cost_of(s, memory) < FREE_NS / (n ? n : 1));
}

static void add_cost(struct native_script *s, const struct uw_memory *memory, uint64_t ns)
{
	uint64_t *cost = cost_of(s, memory);

	s->costs.n += !*cost;
	*cost += ns;
	s->costs.all += ns;
}

/* ---- all ---- */

/* Is a frame in the interpreter's file?  Before its layout is loaded there is no better sign. */
static bool is_in_interpreter(const struct walk *w, enum uw_language language)
{
	for (uint32_t i = 0; i < w->n; i++) {
		const struct uw_map *map =
			uw_space_find(w->snapshot->space, uw_frame_lookup(w->frames[i]));

		if (map && map->module && uw_path_language(uw_module_path(map->module)) == language)
			return true;
	}
	return false;
}

/* The stacks of a batch were sampled before any of these is looked at: frames are read once for all (JavaScript's are objects that move). */
static void begin_reading(struct native_script *s, struct native *e, const struct uw_space *space)
{
	enum uw_language language = uw_module_language(space->script);
	bool js = language == UW_LANGUAGE_JS;
	uint64_t bytes = (uint64_t)(js ? READS_JS : READS_MAX) * VM_PAGE;

	if (!js && !e->script_renew && s->memory.memory == space->memory) {
		s->memory.left = bytes;
		return;
	}
	if (js)
		vm_memory_again(&s->memory, space->memory, bytes);
	else
		vm_memory_renew(&s->memory, space->memory, bytes);
	e->script_renew = false;
	s->read_at = clock_ns((clockid_t)e->engine.settings.clock);
}

/* For the stack of @w; NULL: out of memory. */
static struct native_script *script_of(struct native *e, const struct walk *w)
{
	struct native_script *s = e->script;

	if (!s) {
		s = calloc(1, sizeof(*s));
		if (s && vm_memory_begin(&s->memory, NULL, PAGES) < 0) {
			free(s);
			s = NULL;
		}
		e->script = s;
		e->no_memory |= !s;
		e->stats.cache_bytes += s ? sizeof(*s) + (size_t)PAGES * VM_PAGE : 0;
	}
	if (s) {
		begin_reading(s, e, w->snapshot->space);
		s->serial = uw_module_serial(w->snapshot->space->script);
		s->sampled = w->snapshot->time;
		s->n_steps = s->n_runs = s->n = 0;
	}
	return s;
}

/* Notes the frames of the loop.  false: there is none. */
static bool find_runs(struct native_script *s, const struct walk *w, uint64_t start, uint64_t end)
{
	for (uint32_t i = 0; i < w->n && s->n_runs < SCRIPT_RUNS_MAX; i++) {
		uint64_t pc = uw_frame_lookup(w->frames[i]);

		if (pc >= start && pc < end)
			s->runs[s->n_runs++] = i;
	}
	return s->n_runs;
}

static void find_functions(struct native_script *s, struct native *e, struct walk *w,
			   const struct uw_image *image, enum uw_language language)
{
	if (language == UW_LANGUAGE_JS)
		native_js(s, e, w, &image->script.v8);
	else if (language == UW_LANGUAGE_PYTHON)
		native_python(s, e, w, &image->python);
	else
		native_frames(s, e, w, &image->script, language);
	memcpy(w->frames, s->frames, min_u64(s->n, w->max) * sizeof(*w->frames));
	w->n = (uint32_t)min_u64(s->n, w->max);
	w->res->n_frames = w->n;
}

static void replace(struct native *e, struct walk *w, const struct uw_image *image,
		    enum uw_language language)
{
	bool python = language == UW_LANGUAGE_PYTHON, js = language == UW_LANGUAGE_JS;
	uint64_t start = python ? image->python.eval_start : image->script.eval_start;
	uint64_t end = python ? image->python.eval_end : image->script.eval_end;
	struct uw_memory *memory = w->snapshot->space->memory;
	struct native_script *s = script_of(e, w);
	uint64_t began, n_reads;

	if (!s || (!js && !find_runs(s, w, start, end)))
		return;
	if (js || !memory || w->snapshot->n_python) {
		find_functions(s, e, w, image, language);
		return;
	}
	if (!has_time(s, memory, w->snapshot->time)) {
		w->res->lacks_functions = true;
		return;
	}
	n_reads = memory->n_reads;
	began = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	find_functions(s, e, w, image, language);
	add_cost(s, memory,
		 clock_ns(CLOCK_THREAD_CPUTIME_ID) - began + (memory->n_reads - n_reads) * READ_NS);
}

void native_script(struct native *e, struct walk *w)
{
	struct uw_module *module = w->snapshot->space->script;
	const struct uw_image *image = uw_module_image(module);
	enum uw_language language = uw_module_language(module);

	if (w->res->outcome == UW_PENDING || w->machine->link)
		return;
	if (!image) {
		if (uw_module_unwind_state(module) == UW_MODULE_UNREADABLE ||
		    !is_in_interpreter(w, language))
			return;
		w->res->pending = module;
		walk_end(w, UW_PENDING, UW_OK, 0);
		return;
	}
	if (image->script.version || image->script.v8.version ||
	    (image->python.version && (image->python.has_frame || w->snapshot->n_python)))
		replace(e, w, image, language);
}

void native_script_free(struct native *e)
{
	if (e->script)
		vm_memory_end(&e->script->memory);
	free(e->script);
}
