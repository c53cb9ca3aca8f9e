/* native-frames.c - see script-frames.h.  The functions that PHP's or Ruby's evaluation loop runs, in place of the loop's frames.
 *
 * One frame of the loop (execute_ex, vm_exec_core) runs several functions: a call from one to the other needs no C frame.  The
 * frames of the functions are in memory that the interpreter reuses:
 *
 *     C stack (the copy)            memory of the process
 *     C function strlen    ◄─ ─ ─ ─ frame of strlen, with the address of the C function
 *     loop: two registers ─────────► frame of f, instruction in f
 *                                    frame of g: the first of its run (flag)
 *     C function array_map ◄─ ─ ─ ─ frame of array_map
 *     loop: two registers ─────────► frame of main, instruction in main; the first of its run
 *
 * - The loop has its frame and its next instruction in two registers that calls preserve, so unwind information finds both of
 *   each run in the copy, as of the sample.  The instruction proves the function.
 * - The frames behind it are read from the process after the sample, and may be those of another call by then.  They are proved
 *   where their words read the same before the sample and after; else they are guessed.
 * - Where they are another call's, the caller is the one that each of the last readings has shown for this function with its frame
 *   at this address (script_usual()): a guess, and proved after more readings.  These begin at the innermost frame of that time.
 * - Where BPF programs are permitted, one has copied these frames at the sample (perf/at-sample.h): they are proved.
 * - A function in C is proved by its code, of which the C stack has a frame; one that has jumped to another has none. */
#include "unwinder/frames-walk.h"

enum {
	SAVED_MAX = UW_SCRIPT_SAVED,
	CALLEES_MAX = 512,     /* words searched for them */
	CALLERS_MAX = 8,       /* frames searched */
	CALL_CACHE = 8,	       /* struct rb_call_data */
	CACHE_METHOD = 16,     /* struct rb_callcache */
	LOOK_MAX = 256,	       /* frames of a run that are looked at before it is shown */
	DEAD_BYTES = 64 << 10, /* Ruby: inside the innermost frame */
};

static void push_place(struct frames_walk *fw, uint64_t function, uint64_t position, uint32_t sign,
		       bool proved)
{
	script_push(fw->s, uw_frame_of_script(uw_script_place(function, position, sign)) |
				   (proved ? 0 : UW_FRAME_GUESSED));
}

/* The place of @instruction in the code of @len bytes at @code. */
static uint64_t position_in(const struct frames_walk *fw, uint64_t code, uint64_t len,
			    uint64_t instruction)
{
	return instruction - code < len ? (instruction - code) / fw->l->offsets.unit
					: UW_SCRIPT_NO_POSITION;
}

static void push_function(struct frames_walk *fw, const struct script_function *f,
			  uint64_t instruction, bool proved)
{
	const struct script_closure *closure;
	struct script_closure late;
	uint64_t position, address;
	uint32_t sign;

	f = frames_with_class(fw, f);
	position = position_in(fw, f->code, f->len, instruction);
	address = f->address;
	sign = f->parts.sign;
	if (fw->late.serial && fw->late.function == address) {
		late = fw->late;
		fw->late.serial = 0;
		closure = &late;
		sign = late.sign;
	} else {
		closure = f->closure ? frames_closure(fw, f->code, sign) : NULL;
	}
	push_place(fw, closure ? closure->function : address, position, sign, proved);
}

/* The function of the frame @f, which is gone: it has its name if it was a closure, or if an earlier sample has shown it. */
static void push_gone(struct frames_walk *fw, const struct frame *f, uint64_t instruction)
{
	const struct script_closure *closure =
		fw->ruby ? NULL : frames_closure(fw, instruction, f->sign);

	if (closure)
		push_place(fw, closure->function,
			   position_in(fw, closure->code, closure->len, instruction), f->sign,
			   true);
	else
		push_place(fw, f->function, UW_SCRIPT_NO_POSITION, f->sign, true);
}

/* The functions that one calls.  Ruby: words of an iseq point to blocks, or to call data ─► call cache ─► method entry;
 * PHP: those of the frame's run-time cache point to functions. */
static void learn_callees(struct frames_walk *fw, uint64_t frame, struct script_function *f)
{
	uint64_t words = f->code, len = f->len, word, at;
	uint32_t cached = 0;

	f->explored = true;
	if (!fw->ruby) {
		if (!frames_read_word(fw, frame + fw->l->offsets.cache, &words) ||
		    !vm_memory_read(&fw->s->memory, f->address + fw->l->offsets.cache_len, &cached,
				    sizeof(cached)))
			return;
		len = cached;
	}
	len = min_u64(len, 8ull * CALLEES_MAX);
	for (uint64_t i = 0; i + 8 <= len && script_step(fw->s, 8); i += 8) {
		if (!frames_read_word(fw, words + i, &word) || !vm_memory_is_address(word) ||
		    word & 7)
			continue;
		if (frames_learn_function(fw, word) || !fw->ruby)
			continue;
		if (frames_read_word(fw, word + CALL_CACHE, &at) &&
		    frames_read_word(fw, at + CACHE_METHOD, &at))
			(void)frames_learn_function(fw, at);
	}
}

/* Looks for the function of the instruction @next among those that the frames from @address outwards call. */
static const struct script_function *search_callees(struct frames_walk *fw, uint64_t address,
						    uint64_t next)
{
	struct script_function *f;
	struct frame frame;

	for (uint32_t i = 0; i < CALLERS_MAX && frames_read(fw, address, &frame); i++) {
		f = frame.function
			    ? frames_function_at(fw, frame.function, frame.instruction, frame.sign)
			    : NULL;
		if (f && f->len && !f->explored) {
			learn_callees(fw, address, f);
			f = frames_function_of(fw, next);
			if (f)
				return f;
		}
		address = frame.previous;
	}
	return NULL;
}

/* The innermost function of a run, which has the instruction @next as of the sample; the frame at @address reads as @f by now.
 * NULL: not known. */
static const struct script_function *anchor_function(struct frames_walk *fw, uint64_t address,
						     const struct frame *f, uint64_t next)
{
	const struct script_function *now = frames_function_at(fw, f->function, next, f->sign),
				     *known;

	if (f->sign)
		return now;
	known = now && script_function_has(now, next) ? now : frames_function_of(fw, next);
	if (!known && !fw->ruby)
		known = frames_closure_of(fw, next);
	if (known && !frames_with_class(fw, known)->lacks_class)
		return known;
	now = search_callees(fw, address, next);
	return now ? now : known;
}

/* A run of the loop. */
struct run {
	uint64_t loop;	 /* the loop's own frame; 0: it was pushed */
	uint64_t first;	 /* the frame of its first function, the outermost one; 0: not known */
	uint64_t behind; /* the frame behind that */
	uint64_t at;	 /* the frame of the function that was pushed last; 0: none was */
	uint64_t call; /* frames_key_of_call() of the function that was pushed last; 0: not known */
	uint64_t outer;	     /* the next run's innermost frame, as of the sample; 0: not known */
	uint64_t outer_next; /* ... its instruction */
	bool outermost;
	bool late;  /* the frames are another call's by now */
	bool lacks; /* some functions */
};

/* frames_key_of_call() in a run; 0: its outer call is not known. */
static uint64_t key_in(const struct run *run, uint64_t address, uint64_t id)
{
	if (!run->outermost && !run->outer)
		return 0;
	return frames_key_of_call(
		address, id, run->outermost ? 0 : frames_key_of_outer(run->outer, run->outer_next));
}

/* The loop's frame stands for functions that are not known. */
static void push_gap(struct frames_walk *fw, struct run *run)
{
	if (run->loop)
		script_push(fw->s, run->loop);
	run->loop = 0;
}

static void leave_out(struct frames_walk *fw, struct run *run)
{
	push_gap(fw, run);
	run->lacks = true;
	fw->w->res->lacks_functions = true;
}

/* The caller of the function @id with its frame at @address, by earlier readings: of the same outer call, else (a guess) of any. */
static enum script_usual usual_in(struct frames_walk *fw, const struct run *run, uint64_t address,
				  uint64_t id, uint64_t *ret_id, uint64_t *ret_address)
{
	uint64_t key = key_in(run, address, id);
	enum script_usual usual = key ? frames_usual(fw, key, ret_id, ret_address) : SCRIPT_UNUSUAL;

	if (usual != SCRIPT_UNUSUAL)
		return usual;
	usual = frames_usual(fw, frames_key_of_call(address, id, FRAMES_ANY_OUTER), ret_id,
			     ret_address);
	return usual == SCRIPT_PROVED ? SCRIPT_USUAL : usual;
}

/* The callers of the function @id with its frame at @address by earlier readings.  true: up to the run's first function. */
static bool push_usual(struct frames_walk *fw, struct run *run, uint64_t address, uint64_t id)
{
	bool proved = true;

	for (; fw->n_usual < FRAMES_USUAL && script_step(fw->s, 1);) {
		uint64_t key = key_in(run, address, id), instruction, unused;
		enum script_usual usual = usual_in(fw, run, address, id, &id, &address);
		const struct script_function *f;

		if (usual == SCRIPT_UNUSUAL)
			return false;
		if (id == FRAMES_RUN_ENDS) {
			run->behind = address;
			return true;
		}
		f = frames_function_at(fw, id << 16 >> 16, 0, (uint32_t)(id >> 48));
		if (!f)
			return false;
		if (!key || frames_usual(fw, ~key, &instruction, &unused) == SCRIPT_UNUSUAL)
			instruction = 0;
		proved &= usual == SCRIPT_PROVED;
		push_function(fw, f, instruction, proved);
		fw->usual[fw->n_usual++] = address;
		run->at = address;
	}
	return false;
}

/* true: with all its callers. */
static bool push_anchor(struct frames_walk *fw, struct run *run, const struct anchor *anchor,
			const struct frame *f)
{
	const struct script_function *known = anchor_function(fw, anchor->frame, f, anchor->next);
	uint64_t id = known ? frames_id(frames_with_class(fw, known)) : 0;

	run->late |= !f->exact && (!known || known->address != f->function);
	if (known)
		push_function(fw, known, anchor->next, frames_is_proved(fw, known, f->sign));
	else if (f->sign)
		push_gone(fw, f, anchor->next);
	run->at = anchor->frame;
	run->call = known && !f->exact ? key_in(run, anchor->frame, id) : 0;
	if (!run->late)
		return false;
	if (known && push_usual(fw, run, anchor->frame, id))
		return true;
	leave_out(fw, run);
	return false;
}

/* Ruby: does the frame at @address lie inside the innermost one?  It is that of a call that has ended.  Of those near the innermost one
 * it is not known where they were read at another moment. */
static bool is_dead(struct frames_walk *fw, uint64_t address)
{
	uint64_t seen[2];

	return fw->ruby &&
	       (fw->current - address - 1 < DEAD_BYTES ||
		(address - fw->current < VM_PAGE && !frames_read_at_once(fw, address, seen)));
}

static bool was_pushed(const struct frames_walk *fw, uint64_t frame)
{
	for (uint32_t i = 0; i < fw->n_usual; i++)
		if (fw->usual[i] == frame)
			return true;
	return false;
}

/* Was it the caller of the function that was pushed last, before the sample, too? */
static bool is_usual(struct frames_walk *fw, struct run *run, uint64_t address,
		     const struct script_function *function)
{
	uint64_t id, at, known = frames_id(frames_with_class(fw, function));
	bool is = run->call && frames_usual(fw, run->call, &id, &at) == SCRIPT_PROVED &&
		  id == known && at == address;

	run->call = key_in(run, address, known);
	return is;
}

/* Is @function, with its frame at @address, one of the outermost ones of the stack, which stay the same? */
static bool stays(struct frames_walk *fw, uint64_t address, const struct script_function *function,
		  bool *ret_proved)
{
	uint64_t id;
	enum script_usual usual = frames_outermost_at(fw, address, &id);

	*ret_proved = usual == SCRIPT_PROVED;
	return usual != SCRIPT_UNUSUAL && id == frames_id(frames_with_class(fw, function)) &&
	       !was_pushed(fw, address);
}

/* false: the function is not there. */
static bool push_caller(struct frames_walk *fw, struct run *run, uint64_t address,
			const struct frame *f)
{
	const struct script_function *function;
	bool proved, usual;

	if (!f->function) /* the interpreter's own */
		return true;
	function = frames_function_at(fw, f->function, f->instruction, f->sign);
	if (!function && f->sign) {
		push_gone(fw, f, f->instruction);
		return true;
	}
	if (!function)
		return false;
	proved = f->exact || (!is_dead(fw, address) && script_same(fw->s, fw->e, fw->w, address,
								   f->function, frames_words(f)));
	usual = !run->late && !f->exact && is_usual(fw, run, address, function);
	proved = (proved || usual) && frames_is_proved(fw, function, f->sign);
	if (run->late)
		proved &= !was_pushed(fw, address) && !script_flips(fw->s, address);
	if (!proved && run->late && stays(fw, address, function, &proved)) {
		push_function(fw, function, 0, proved && frames_is_proved(fw, function, f->sign));
		run->at = address;
		return true;
	}
	if (proved || !run->late) {
		push_function(fw, function, f->instruction, proved);
		run->at = address;
	}
	return true;
}

static bool is_in_c(struct frames_walk *fw, const struct frame *f)
{
	const struct script_function *function;

	if (fw->ruby)
		return !f->instruction;
	function = frames_function_at(fw, f->function, 0, f->sign);
	return function && function->handler;
}

/* Does the outermost run, with @frame, end at @behind?  PHP's leads to nothing, or to a frame without a function; of Ruby earlier
 * readings show it: it is the same each time. */
static bool is_end_of_stack(struct frames_walk *fw, uint64_t frame, uint64_t behind)
{
	uint64_t usual, unused;
	struct frame f;

	if (!fw->ruby && (!behind || (frames_read(fw, behind, &f) && !f.function)))
		return true;
	return frames_usual(fw, frames_key_of_stack(frame), &usual, &unused) == SCRIPT_UNUSUAL ||
	       usual == behind;
}

/* Late: is the call from the loop in hand at the sample still in hand? */
static bool is_same_call(struct frames_walk *fw, const struct anchor *anchor)
{
	struct frame frame;

	return anchor->next && !is_dead(fw, anchor->frame) &&
	       frames_read(fw, anchor->frame, &frame) && frame.instruction == anchor->next;
}

/* Can the frames from @anchor on, as they were read, be those of the sample?  They end in front of the next run, of which the call is
 * still in hand. */
static bool may_be_of_sample(struct frames_walk *fw, const struct anchor *anchor,
			     const struct run *run)
{
	uint64_t address = anchor->frame;
	struct frame f = {.last = false};

	if (is_dead(fw, address))
		return false;
	for (uint32_t i = 0; i < LOOK_MAX && !f.last && script_step(fw->s, 1); i++) {
		if (i && address == run->outer)
			return false;
		if (!frames_read(fw, address, &f))
			return fw->s->memory.left < VM_PAGE; /* it may be */
		if (f.exact)
			return true;
		if (i && is_in_c(fw, &f))
			return false;
		address = f.previous;
	}
	if (!f.last)
		return true;
	if (run->outermost)
		return is_end_of_stack(fw, anchor->frame, address);
	if (!run->outer)
		return true;
	return (!fw->ruby || address <= run->outer) &&
	       is_same_call(fw, &(struct anchor){run->outer, run->outer_next});
}

/* PHP: do the frames from @address on lead to the next run, by nothing but functions in C and generators? */
static bool leads_out(struct frames_walk *fw, uint64_t address, const struct run *run)
{
	struct frame f;

	for (uint32_t i = 0; run->outer && i < LOOK_MAX && script_step(fw->s, 1); i++) {
		if (address == run->outer)
			return true;
		if (!frames_read(fw, address, &f) ||
		    (f.function && !f.delegate && !is_in_c(fw, &f)))
			return false;
		address = f.previous;
	}
	return false;
}

/* The generator with its frame at @address, behind the run; of a run of another call it is not known.  One that @waits will go on behind
 * its `yield from`. */
static void push_generator(struct frames_walk *fw, struct run *run, uint64_t address, bool waits)
{
	struct frame f;

	if (!run->late && frames_read(fw, address, &f)) {
		f.instruction -= waits ? fw->l->offsets.unit : 0;
		if (push_caller(fw, run, address, &f))
			return;
	}
	leave_out(fw, run);
}

/* The outermost functions of a thread are the same each time, whatever those inside of them are. */
static void push_outermost(struct frames_walk *fw, const struct run *run)
{
	struct frames_known known[SCRIPT_OUTER];
	uint32_t n = run->at ? frames_outermost(fw, run->at, known) : 0;

	while (n-- > 0) {
		const struct script_function *f = frames_function_at(fw, known[n].id << 16 >> 16, 0,
								     (uint32_t)(known[n].id >> 48));

		if (f)
			push_function(fw, f, 0, known[n].proved);
	}
}

/* PHP, behind a run: the generator that `yield from` has called its functions for (those of an iterator), and the generators that
 * wait for the run's one. */
static void push_generators(struct frames_walk *fw, struct run *run)
{
	struct frames_waiting waiting;
	struct frame f;

	if (run->behind && run->behind != run->outer && frames_read(fw, run->behind, &f) &&
	    f.function && f.last && !is_in_c(fw, &f)) {
		if (leads_out(fw, f.previous, run)) {
			push_generator(fw, run, run->behind, false);
			run->first = run->behind;
			run->behind = f.previous;
		} else if (!f.exact && frames_is_generator(fw, run->behind)) {
			leave_out(fw, run); /* it is resumed for another one by now */
		}
	}
	/* Of a generator that ends the run outwards is its own. */
	if (!frames_find_waiting(fw, run->first, run->behind, &waiting) ||
	    (fw->w->snapshot->n_python && run->outer && !leads_out(fw, waiting.behind, run)))
		return;
	run->behind = waiting.behind;
	if (!waiting.whole)
		leave_out(fw, run);
	for (uint32_t i = waiting.whole ? waiting.n : 0; i-- > 0;)
		push_generator(fw, run, waiting.frames[i], true);
}

/* The functions of a run, outwards from that of @anchor.  false: the frames do not lead to the first one. */
static bool push_run(struct frames_walk *fw, const struct anchor *anchor, struct run *run)
{
	uint64_t address = anchor->frame;
	struct frames_waiting waiting;
	struct frame now;

	if (!frames_read(fw, address, &now))
		return false;
	if (now.exact && !anchor->next && frames_find_waiting(fw, 0, address, &waiting)) {
		run->behind = address;
		return true;
	}
	if (!may_be_of_sample(fw, anchor, run)) {
		run->late = true;
		if (anchor->next)
			(void)push_anchor(fw, run, anchor, &now);
		return anchor->next != 0;
	}
	for (uint32_t i = 0; i < UW_MAX_FRAMES && script_step(fw->s, 1); i++) {
		struct frame f;

		if (i && address == run->outer)
			return true; /* those from here on are not of this run */
		if (!frames_read(fw, address, &f))
			return false;
		/* A function in C is not of a run: one that begins or ends has no function yet. */
		if ((f.exact || i || !anchor->next) && is_in_c(fw, &f)) {
			run->behind = f.exact ? address : 0;
			return f.exact;
		}
		if (!i && anchor->next) {
			if (push_anchor(fw, run, anchor, &f))
				return true;
		} else if (!push_caller(fw, run, address, &f)) {
			return false;
		}
		if (f.last) {
			run->first = address;
			run->behind = f.previous;
			return true;
		}
		address = f.previous;
	}
	return false;
}

/* ---- functions in C ----
 *
 * One that has jumped to another one (Enumerator#each, preg_match_all) has no frame of its code, but one in memory:
 *
 *     memory     sum ──► each ──► times
 *     C stack    sum ───────────► times */

static uint64_t place_in_c(const struct script_function *f)
{
	return uw_frame_of_script(
		uw_script_place(f->address, UW_SCRIPT_NO_POSITION, f->parts.sign));
}

/* Notes which of the walk's frames [@from, @to) are functions in C. */
static void find_inner(struct frames_walk *fw, uint32_t from, uint32_t to)
{
	fw->n_inner = 0;
	from = to - from > 2 * FRAMES_INNER ? to - 2 * FRAMES_INNER : from;
	for (uint32_t i = from; i < to && fw->n_inner < FRAMES_INNER; i++) {
		const struct script_function *f = frames_in_c(fw, i);

		if (f)
			fw->inner[fw->n_inner++] = (struct inner){i + 1, f->handler, place_in_c(f)};
	}
}

/* Adds to @list the function in C of the frame @f at @address, with a mark if it is not proved; it is known from then on.  Returns
 * the new length. */
static uint32_t list_in_c(struct frames_walk *fw, uint64_t address, const struct frame *f,
			  struct inner list[FRAMES_INNER], uint32_t n)
{
	bool dead = !f->exact && is_dead(fw, address), proved;
	const struct script_function *known =
		dead ? frames_learn_function(fw, f->function)
		     : frames_function_at(fw, f->function, 0, f->sign);

	if (!known || !known->handler || dead)
		return n;
	proved = (f->exact ||
		  script_same(fw->s, fw->e, fw->w, address, f->function, frames_words(f))) &&
		 frames_is_proved(fw, known, f->sign);
	list[n] = (struct inner){0, known->handler,
				 place_in_c(known) | (proved ? 0 : UW_FRAME_GUESSED)};
	return n + 1;
}

/* The functions in C with frames between two runs, as memory has them: of PHP from @inner outwards to @anchor, of Ruby from
 * @anchor inwards (up to @inner, where that is known).  Returns how many; *whole: these are all. */
static uint32_t read_between(struct frames_walk *fw, uint64_t inner, uint64_t anchor,
			     struct inner list[FRAMES_INNER], bool *whole)
{
	uint64_t size = fw->l->offsets.frame_bytes, address = fw->ruby ? anchor - size : inner;
	uint32_t n = 0;
	struct frame f;

	for (uint32_t i = 0; i < FRAMES_INNER && script_step(fw->s, 1); i++) {
		if (!address || (fw->ruby ? address < inner : address == anchor) ||
		    !frames_read(fw, address, &f))
			break;
		n = list_in_c(fw, address, &f, list, n);
		address = fw->ruby ? address - size : f.previous;
	}
	*whole = inner && anchor && (fw->ruby ? address < inner : address == anchor);
	return fw->ruby || *whole ? n : 0;
}

/* Which function has jumped on between the function in C @outer (NULL: the loop) and @inner (NULL: none has a frame of its code), in the
 * call from the loop at @next. */
static uint64_t key_of_jump(uint64_t next, const struct inner *outer, const struct inner *inner)
{
	return hash_u64(next ^ hash_u64((inner ? inner->handler : 0) ^
					hash_u64(outer ? outer->handler : 0)));
}

static void note_jump(struct frames_walk *fw, uint64_t key, const struct inner *jumped)
{
	if (!fw->w->snapshot->n_python)
		script_note_most(fw->s, fw->e, key,
				 jumped ? jumped->frame & ~UW_FRAME_GUESSED : FRAMES_RUN_ENDS, 0);
}

/* One more in front of the @n at the end of @all, inside of them.  Returns the new number. */
static uint32_t add_inner(struct inner all[FRAMES_INNER_ALL], uint32_t n, struct inner f,
			  uint32_t behind)
{
	if (n == FRAMES_INNER_ALL)
		return n;
	f.behind = behind;
	all[FRAMES_INNER_ALL - n - 1] = f;
	return n + 1;
}

/* @n functions at the end of @all are those of the walk. */
static void take_inner(struct frames_walk *fw, const struct inner all[FRAMES_INNER_ALL], uint32_t n)
{
	fw->n_inner = n;
	memmove(fw->inner, all + FRAMES_INNER_ALL - n, n * sizeof(*all));
}

/* Adds those of @list that have no frame of their code to the others, right inside the next one outwards or the loop, which is the
 * walk's frame @loop.  Of those inside the innermost with a frame only the ones of a @whole list were there at the sample.
 * false: memory is of another moment. */
static bool add_jumped(struct frames_walk *fw, const struct inner list[FRAMES_INNER], uint32_t n,
		       bool whole, uint32_t loop, uint64_t next)
{
	const struct inner *outer = NULL, *jumped = NULL;
	struct inner all[FRAMES_INNER_ALL];
	uint32_t k = fw->n_inner, n_all = 0, behind = loop;

	if (!k && !whole)
		return false;
	for (uint32_t i = 0; i < n && (k || whole); i++) {
		const struct inner *f = &list[fw->ruby ? i : n - 1 - i];
		const struct inner *own = k ? &fw->inner[k - 1] : NULL;

		if (!own || own->handler != f->handler) {
			n_all = add_inner(all, n_all, *f, behind);
			jumped = f;
			continue;
		}
		n_all = add_inner(all, n_all, f->frame & UW_FRAME_GUESSED ? *own : *f, own->behind);
		note_jump(fw, key_of_jump(next, outer, f), jumped);
		behind = own->behind - 1;
		outer = f;
		jumped = NULL;
		k--;
	}
	if (!k)
		take_inner(fw, all, n_all);
	return !k;
}

/* Late: notes the function in C that @anchor calls now: the outermost of @list, or none.  Of Ruby, where another thread runs now it
 * is not known whether it was left there by a call that has ended. */
static void note_direct(struct frames_walk *fw, const struct anchor *anchor,
			const struct inner list[FRAMES_INNER], uint32_t n)
{
	if (!fw->ruby || anchor->frame - fw->current < DEAD_BYTES)
		note_jump(fw, key_of_jump(anchor->next, NULL, NULL),
			  n ? &list[fw->ruby ? 0 : n - 1] : NULL);
}

/* The same by what earlier stacks have shown. */
static void add_usual(struct frames_walk *fw, uint32_t loop, uint64_t next)
{
	const struct inner *outer = NULL;
	struct inner all[FRAMES_INNER_ALL];
	uint32_t n = 0, behind = loop;

	for (uint32_t k = fw->n_inner; k > 0 || !outer; k--) {
		const struct inner *own = k ? &fw->inner[k - 1] : NULL;
		uint64_t key = key_of_jump(next, outer, own), frame, unused;
		enum script_usual usual = frames_usual(fw, key, &frame, &unused);

		if (usual != SCRIPT_UNUSUAL && frame != FRAMES_RUN_ENDS)
			n = add_inner(all, n,
				      (struct inner){.frame = frame | (own && usual == SCRIPT_PROVED
									       ? 0
									       : UW_FRAME_GUESSED)},
				      behind);
		if (!own)
			break;
		fw->w->res->lacks_functions |= usual == SCRIPT_UNUSUAL;
		n = add_inner(all, n, *own, own->behind);
		behind = own->behind - 1;
		outer = own;
	}
	take_inner(fw, all, n);
}

/* The walk's frames [@from, @to) between two runs, each function in C behind the frame of its code.  @inner: the innermost frame
 * of the interpreter there, 0: not known; @anchor: that of the outer run. */
static void push_inner(struct frames_walk *fw, uint32_t from, uint32_t to, uint64_t inner,
		       const struct anchor *anchor)
{
	bool exact = fw->w->snapshot->n_python != 0, whole = false, agree;
	struct inner list[FRAMES_INNER];
	uint32_t n = 0;

	if (to > from)
		n = read_between(fw, inner, anchor->frame, list, &whole);
	find_inner(fw, from, to);
	if (exact && whole) {
		(void)add_jumped(fw, list, n, true, to, anchor->next);
	} else if (!exact && to > from) {
		agree = is_same_call(fw, anchor);
		if (agree && !fw->n_inner && (fw->ruby || whole))
			note_direct(fw, anchor, list, n);
		agree = agree && add_jumped(fw, list, n, whole && from, to, anchor->next);
		if (!agree)
			add_usual(fw, to, anchor->next);
	}
	for (uint32_t i = 0; i < fw->n_inner; i++) {
		script_push_native(fw->s, fw->w, from, fw->inner[i].behind);
		script_push(fw->s, fw->inner[i].frame);
		from = fw->inner[i].behind;
	}
	script_push_native(fw->s, fw->w, from, to);
}

/* ---- the stack ---- */

/* PHP's loop gives both registers back, but no unwind information describes it: GCC takes them for global. */
static void caller_regs(const struct frames_walk *fw, struct cfi_regs *regs)
{
	const struct walk *w = fw->w;
	uint64_t sp = regs->r[w->machine->sp] - w->base;

	if (!fw->l->saved_frame)
		return;
	regs->known &= ~(1ull << fw->l->frame | 1ull << fw->l->next);
	if (w->snapshot->stack_len < SAVED_MAX || sp > w->snapshot->stack_len - SAVED_MAX)
		return;
	memcpy(&regs->r[fw->l->frame], w->stack + sp + fw->l->saved_frame, 8);
	memcpy(&regs->r[fw->l->next], w->stack + sp + fw->l->saved_next, 8);
	regs->known |= 1ull << fw->l->frame | 1ull << fw->l->next;
}

/* The registers of the runs, as of the sample. */
static void find_anchors(struct frames_walk *fw)
{
	struct walk *w = fw->w;
	struct cfi_regs regs;

	for (uint32_t k = 0; k < fw->s->n_runs && k < FRAMES_ANCHORS; k++) {
		uint32_t n = fw->s->runs[k] + 1;

		if (!native_regs_of(fw->e, w, n, &regs))
			return;
		if (regs.known >> fw->l->frame & 1 && regs.known >> fw->l->next & 1)
			fw->anchors[k] = (struct anchor){regs.r[fw->l->frame], regs.r[fw->l->next]};
		caller_regs(fw, &regs);
		/* The next search goes on from here. */
		w->full = regs;
		w->full_at = n;
		w->full_whole = true;
	}
}

/* Where the innermost run begins or ends, its registers are not set yet, or those of the run outwards.  Its frames were copied. */
static void check_leaf_anchor(struct frames_walk *fw)
{
	struct frame unused;

	if (fw->w->snapshot->n_python && !fw->s->runs[0] &&
	    (fw->anchors[0].frame == fw->anchors[1].frame ||
	     (fw->ruby && !frames_exact(fw, fw->anchors[0].frame, &unused))))
		fw->anchors[0] = (struct anchor){0, 0};
}

/* PHP: while a function destroys its variables its frame, which @anchor has, is not in the interpreter's list any more, of which
 * @inner was the first one at the sample; or, where a destructor runs, the first one behind its run. */
static void push_left(struct frames_walk *fw, struct run *run, struct anchor *anchor,
		      uint64_t inner, bool innermost)
{
	const struct script_function *known = NULL;
	struct frame f;

	if (fw->ruby || !fw->w->snapshot->n_python || !anchor->next ||
	    frames_exact(fw, anchor->frame, &f) || (!innermost && !frames_exact(fw, inner, &f)))
		return;
	if (frames_read(fw, anchor->frame, &f))
		known = anchor_function(fw, anchor->frame, &f, anchor->next);
	if (!known)
		known = search_callees(fw, inner, anchor->next);
	if (known && (!innermost || (f.function == known->address && f.previous == inner)))
		push_function(fw, known, anchor->next, frames_is_proved(fw, known, 0));
	else if (!innermost)
		leave_out(fw, run);
	*anchor = (struct anchor){.frame = inner};
}

/* The functions of run @k; *behind: in: what the run before it led to, out: the same for the next. */
static void replace_run(struct frames_walk *fw, uint32_t k, uint64_t *behind)
{
	struct native_script *s = fw->s;
	uint64_t loop = fw->w->frames[s->runs[k]], inner = *behind;
	struct anchor anchor = {.frame = inner};
	struct run run = {.loop = loop};
	uint32_t mark;

	if (k < FRAMES_ANCHORS && fw->anchors[k].frame)
		anchor = fw->anchors[k];
	*behind = 0;
	run.outermost = k + 1 == s->n_runs && fw->w->res->outcome == UW_WHOLE &&
			s->n_runs < SCRIPT_RUNS_MAX;
	if (k + 1 < FRAMES_ANCHORS && k + 1 < s->n_runs) {
		run.outer = fw->anchors[k + 1].frame;
		run.outer_next = fw->anchors[k + 1].next;
	}
	if (fw->e->engine.settings.native_frames)
		push_gap(fw, &run);
	mark = s->n;
	push_left(fw, &run, &anchor, inner, !k);
	/* Where a run begins or ends the registers are those of the run outwards. */
	if (anchor.frame && anchor.frame != run.outer) {
		if (!push_run(fw, &anchor, &run)) /* the rest is not known */
			leave_out(fw, &run);
		if (!fw->ruby)
			push_generators(fw, &run);
		*behind = run.behind;
	} else if (!anchor.frame) {
		leave_out(fw, &run);
	}
	if (run.lacks && run.outermost)
		push_outermost(fw, &run);
	if (s->n == mark)
		push_gap(fw, &run);
}

void native_frames(struct native_script *s, struct native *e, struct walk *w,
		   const struct uw_script *layout, enum uw_language language)
{
	struct frames_walk fw = {
		.e = e,
		.w = w,
		.s = s,
		.l = layout,
		.ruby = language == UW_LANGUAGE_RUBY,
	};
	const struct anchor unknown = {0};
	uint64_t inner = 0;
	uint32_t from = 0;

	find_anchors(&fw);
	check_leaf_anchor(&fw);
	if (!w->snapshot->n_python)
		frames_note_calls(&fw);
	if (w->snapshot->n_python)
		inner = w->snapshot->python[0] << 16 >> 16;
	else if (!fw.ruby && s->runs[0])
		(void)frames_read_word(&fw, layout->current, &inner);
	for (uint32_t k = 0; k < s->n_runs; k++) {
		uint32_t run = s->runs[k];

		push_inner(&fw, from, run, inner, k < FRAMES_ANCHORS ? &fw.anchors[k] : &unknown);
		replace_run(&fw, k, &inner);
		from = run + 1;
	}
	script_push_native(s, w, from, w->n);
}
