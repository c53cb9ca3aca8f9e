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
 * - Where they are another call's, the caller of a function is the one that each of the last readings has shown for this function
 *   with its frame at this address (script_usual()): a guess, and proved after more readings.  These begin at the innermost frame
 *   as it is then: what lies inside it was left there by calls that have ended.
 * - Where BPF programs are permitted, one has copied these frames at the sample (perf/at-sample.h): they are proved.
 * - A function in C is proved by its code: the C stack has a frame of it. */
#include "unwinder/script-frames.h"

enum {
	FRAME_MAX = UW_SCRIPT_FRAME,
	SAVED_MAX = UW_SCRIPT_SAVED,
	ANCHORS_MAX = 64, /* runs with registers */
	INNER_MAX = 16,	  /* functions in C between two runs */
	LEN_MAX = 1 << 24,
	CALLEES_MAX = 512,     /* words searched for them */
	CALLERS_MAX = 8,       /* frames searched */
	CALL_CACHE = 8,	       /* struct rb_call_data */
	CACHE_METHOD = 16,     /* struct rb_callcache */
	AGAIN_MAX = 60,	       /* functions read with one that is read again, which were */
	AGAINS_MAX = 4,	       /* readings of this kind for one stack */
	AGAIN_NS = 1000000000, /* ... looked for not longer ago */
	NOTED_MAX = 128,       /* calls of a reading */
	NOTED_NS = 2000000,    /* ... so far apart: a batch of stacks is read at one time */
	DEAD_BYTES = 64 << 10, /* Ruby: inside the innermost frame */
	USUAL_MAX = 64,	       /* callers of one stack that earlier readings show */
	RUN_ENDS = 1,	       /* in place of a caller */
	PHP_INTERNAL = 1,      /* zend_function.type */
	PHP_USER = 2,
	PHP_EVAL = 4,
	RUBY_TYPE_MASK = 0x1f, /* RBasic.flags */
	RUBY_IMEMO = 0x1a,
	RUBY_IMEMO_AT = 12,
	RUBY_SVAR = 2, /* enum imemo_type */
	RUBY_METHOD = 6,
	RUBY_ISEQ = 7,
	RUBY_OF_ISEQ = 0, /* rb_method_type_t */
	RUBY_CFUNC = 1,
	RUBY_METHOD_ISEQ = 1, /* enum iseq_type */
	RUBY_METHOD_AT = 16,  /* before the environment's flags: the method entry */
	RUBY_MAGIC_MASK = 0x7fff0001,
	RUBY_MAGIC_METHOD = 0x11110001,
	RUBY_MAGIC_CFUNC = 0x55550001,
};

struct frames_walk {
	struct native *e;
	struct walk *w;
	struct native_script *s;
	const struct uw_script *l;
	bool ruby;
	struct anchor {
		uint64_t frame, next; /* 0: not known */
	} anchors[ANCHORS_MAX];
	/* Functions in C by the walk's frames of their code. */
	struct inner {
		uint32_t index;
		uint64_t frame;
	} inner[INNER_MAX];
	uint32_t n_inner;
	uint64_t usual[USUAL_MAX]; /* frames of callers that were pushed by earlier readings */
	uint32_t n_usual;
	uint64_t current; /* the innermost frame as it is now; 0: not known */
	uint32_t exact;	  /* of the frames copied at the sample: the one that is looked for first */
	uint32_t n_again; /* readings of functions that were known */
};

/* The function @id, with its frame at @address, has called that of @key (key_of_call()). */
struct call {
	uint64_t key, id, address, instruction;
};

struct frame {
	uint64_t function, instruction, previous;
	uint32_t sign; /* of the function, as of the sample; 0: not known */
	bool last;     /* of its run */
	bool exact;    /* as of the sample */
};

static uint64_t word_of(const uint8_t *bytes, size_t at)
{
	uint64_t word;

	memcpy(&word, bytes + at, sizeof(word));
	return word;
}

static bool read_word(struct frames_walk *fw, uint64_t address, uint64_t *ret_word)
{
	return vm_memory_read(&fw->s->memory, address, ret_word, sizeof(*ret_word));
}

/* ---- functions ---- */

static bool read_php_function(struct frames_walk *fw, struct script_function *f)
{
	const struct uw_script_offsets *o = &fw->l->offsets;
	uint32_t len;
	uint8_t type;

	if (!vm_memory_read(&fw->s->memory, f->address, &type, 1))
		return false;
	if (type == PHP_INTERNAL)
		return read_word(fw, f->address + o->handler, &f->handler) && f->handler;
	if ((type != PHP_USER && type != PHP_EVAL) ||
	    !read_word(fw, f->address + o->code, &f->code) ||
	    !vm_memory_read(&fw->s->memory, f->address + o->len, &len, sizeof(len)))
		return false;
	f->len = (uint64_t)len * o->unit;
	return len && len < LEN_MAX;
}

static bool is_ruby(struct frames_walk *fw, uint64_t object, uint32_t type)
{
	uint64_t flags;

	return read_word(fw, object, &flags) && (flags & RUBY_TYPE_MASK) == RUBY_IMEMO &&
	       (flags >> RUBY_IMEMO_AT & 0xf) == type;
}

static bool read_ruby_function(struct frames_walk *fw, struct script_function *f)
{
	const struct uw_script_offsets *o = &fw->l->offsets;
	uint64_t iseq = f->address, body;
	uint32_t len, type;

	if (is_ruby(fw, f->address, RUBY_METHOD)) {
		if (!read_word(fw, f->address + o->definition, &body) ||
		    !vm_memory_read(&fw->s->memory, body, &len, sizeof(len)) ||
		    !read_word(fw, body + o->handler, &iseq))
			return false;
		if ((len & 0xf) == RUBY_CFUNC)
			return (f->handler = iseq) != 0;
		if ((len & 0xf) != RUBY_OF_ISEQ)
			return false;
	}
	if (!is_ruby(fw, iseq, RUBY_ISEQ) || !read_word(fw, iseq + o->body, &body) ||
	    !vm_memory_read(&fw->s->memory, body, &type, sizeof(type)) ||
	    !vm_memory_read(&fw->s->memory, body + o->len, &len, sizeof(len)) ||
	    !read_word(fw, body + o->code, &f->code))
		return false;
	f->lacks_class = type == RUBY_METHOD_ISEQ && iseq == f->address;
	f->len = (uint64_t)len * o->unit;
	return len && len < LEN_MAX;
}

/* ---- functions that were read ----
 *
 * The memory of a function that was freed is used for others.  One is known by its address and its sign (symbols/script-sign.h):
 *
 * - A frame that was copied at the sample has the sign, as of then: proved where memory had it before or has it still.
 * - Else the function is read after the sample.  It is proved where it was the same before the sample, and guessed where it is new. */

static uint64_t time_of_reading(const struct frames_walk *fw)
{
	return clock_ns((clockid_t)fw->e->engine.settings.clock);
}

/* The place of the function at @address with @sign, 0: of the one that was there last.  It may hold another one, which is to be
 * replaced. */
static struct script_function *slot_of(struct frames_walk *fw, uint64_t address, uint32_t sign)
{
	struct native_script *s = fw->s;
	uint64_t hash = hash_u64(address ^ s->serial);
	struct script_function *oldest = NULL, *last = NULL;

	for (uint64_t i = 0; i < SCRIPT_PLACES; i++) {
		struct script_function *f = &s->functions[(hash + i) % SCRIPT_FUNCTIONS];

		if (f->serial == s->serial && f->address == address) {
			if (sign && f->parts.sign == sign)
				return f;
			if (!sign && !f->gone && (!last || f->read_at > last->read_at))
				last = f;
		}
		if (!oldest || (oldest->serial && (!f->serial || f->read_at < oldest->read_at)))
			oldest = f;
	}
	return last ? last : oldest;
}

static bool is_at(const struct frames_walk *fw, const struct script_function *f, uint64_t address)
{
	return f->serial == fw->s->serial && f->address == address;
}

/* Forked processes have the same code at one address. */
static uint64_t hash_of_handler(uint64_t handler, uint32_t serial)
{
	return hash_u64(handler ^ (uint64_t)serial << 48);
}

/* Lets function_in_c() find @f by its code.  A place with a function that has other code by now is free. */
static void index_handler(struct native_script *s, const struct script_function *f)
{
	uint64_t hash = hash_of_handler(f->handler, f->serial);
	uint16_t number = (uint16_t)(f - s->functions + 1), *place = NULL;

	for (uint64_t i = 0; f->handler && i < SCRIPT_PLACES; i++) {
		uint16_t *at = &s->handlers[(hash + i) % SCRIPT_HANDLERS];
		const struct script_function *other = *at ? &s->functions[*at - 1] : NULL;

		if (*at == number)
			return;
		if (!place && (!other || !other->handler ||
			       (hash + i - hash_of_handler(other->handler, other->serial)) %
					       SCRIPT_HANDLERS >=
				       SCRIPT_PLACES))
			place = at;
	}
	if (f->handler)
		*(place ? place : &s->handlers[hash % SCRIPT_HANDLERS]) = number;
}

/* Reads the function at @address.  NULL: there is none. */
static struct script_function *read_function(struct frames_walk *fw, uint64_t address)
{
	struct script_function f = {.address = address, .serial = fw->s->serial};
	struct script_function *known = slot_of(fw, address, 0), *slot;

	f.read_at = f.since =
		fw->s->read_at; /* (a page may have been read for another stack of the batch) */
	if (!address || address & 7 ||
	    !(fw->ruby ? read_ruby_function(fw, &f) : read_php_function(fw, &f)) ||
	    !script_sign(&fw->s->memory, fw->l, fw->ruby, address, &f.parts))
		return NULL;
	if (is_at(fw, known, address) && !known->gone) {
		known->gone = known->parts.sign != f.parts.sign;
		if (!known->gone) {
			f.since = known->since;
			f.explored = known->explored && f.code == known->code;
		}
	}
	slot = slot_of(fw, address, f.parts.sign);
	*slot = f;
	index_handler(fw->s, slot);
	return slot;
}

static uint64_t mixed(const struct script_sign *parts, const uint8_t **bytes)
{
	uint64_t hash = 0;

	for (uint32_t i = 0; i < parts->n; i++)
		for (uint32_t k = 0; k < parts->words[i]; k++, *bytes += 8)
			hash = sign_mix(hash, word_of(*bytes, 0));
	return hash;
}

/* Reads @f, and with it the functions that were there lately: one request for all.  Notes which are the same. */
static void read_again(struct frames_walk *fw, struct script_function *f)
{
	struct uw_memory *memory = fw->w->snapshot->space->memory;
	struct script_function *list[AGAIN_MAX] = {f};
	struct uw_range ranges[AGAIN_MAX * SCRIPT_PARTS];
	uint8_t bytes[AGAIN_MAX * SCRIPT_PARTS * SCRIPT_PART_WORDS * 8];
	uint64_t now = time_of_reading(fw);
	const uint8_t *at = bytes;
	size_t n = 1, n_ranges = 0;

	if (!memory || !memory->read_ranges || !script_step(fw->s, SCRIPT_FUNCTIONS))
		return;
	for (size_t i = 0; i < SCRIPT_FUNCTIONS && n < AGAIN_MAX; i++) {
		struct script_function *other = &fw->s->functions[i];

		if (other != f && other->serial == f->serial && other->parts.n && !other->gone &&
		    now - other->used_at < AGAIN_NS)
			list[n++] = other;
	}
	for (size_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < list[i]->parts.n; k++)
			ranges[n_ranges++] = (struct uw_range){list[i]->parts.at[k],
							       8ull * list[i]->parts.words[k]};
	if (!memory->read_ranges(memory, ranges, n_ranges, bytes))
		return;
	for (size_t i = 0; i < n; i++) {
		list[i]->gone = sign_end(mixed(&list[i]->parts, &at)) != list[i]->parts.sign;
		list[i]->read_at = list[i]->gone ? list[i]->read_at : now;
	}
}

/* Is @f, which is not gone, as it was, by a reading after the sample? */
static bool is_still(struct frames_walk *fw, struct script_function *f)
{
	uint64_t time = fw->w->snapshot->time;

	f->used_at = fw->s->read_at;
	if (!time || f->read_at >= time)
		return true;
	if (fw->n_again++ < AGAINS_MAX)
		read_again(fw, f);
	return !f->gone && f->read_at >= time;
}

/* Was it there at the sample? */
static bool is_proved(const struct frames_walk *fw, const struct script_function *f, uint32_t sign)
{
	return sign ? sign == f->parts.sign
		    : !fw->w->snapshot->time || f->since <= fw->w->snapshot->time;
}

/* The function at @address that has @instruction (0: not known), and @sign where that is known; NULL: there is none. */
static const struct script_function *function_at(struct frames_walk *fw, uint64_t address,
						 uint64_t instruction, uint32_t sign)
{
	struct script_function *f = slot_of(fw, address, sign);

	if (is_at(fw, f, address) && (sign ? f->parts.sign == sign : !f->gone) &&
	    (f->handler || !instruction || script_function_has(f, instruction)) &&
	    (sign || is_still(fw, f))) {
		index_handler(fw->s, f); /* another one may have got its place */
		return f;
	}
	f = read_function(fw, address);
	return f && (!sign || f->parts.sign == sign) ? f : NULL;
}

/* The known function that has @instruction, as its memory is now; NULL: none. */
static const struct script_function *function_of(struct frames_walk *fw, uint64_t instruction)
{
	for (size_t i = 0; i < SCRIPT_FUNCTIONS; i++) {
		struct script_function *f = &fw->s->functions[i];

		if (f->serial != fw->s->serial || f->gone || !script_function_has(f, instruction))
			continue;
		f = read_function(fw, f->address);
		if (f && script_function_has(f, instruction))
			return f;
	}
	return NULL;
}

/* The method entry of @f, an iseq that was found without it: the environment is read after the frame, and may be another one's. */
static const struct script_function *with_class(const struct frames_walk *fw,
						const struct script_function *f)
{
	for (size_t i = 0; f->lacks_class && i < SCRIPT_FUNCTIONS; i++) {
		const struct script_function *method = &fw->s->functions[i];

		if (method->serial == f->serial && method->code == f->code && !method->gone &&
		    !method->lacks_class)
			return method;
	}
	return f;
}

/* The function at @address is to be known by its code, or by its instructions. */
static bool learn_function(struct frames_walk *fw, uint64_t address)
{
	const struct script_function *known = slot_of(fw, address, 0);

	if (!is_at(fw, known, address))
		return read_function(fw, address) != NULL;
	index_handler(fw->s, known);
	return true;
}

/* ---- frames ---- */

/* The frame at @address as the BPF program copied it at the sample (at-sample-records.h). */
static bool exact_frame(struct frames_walk *fw, uint64_t address, struct frame *ret_frame)
{
	const struct uw_snapshot *s = fw->w->snapshot;

	for (uint32_t i = 0; i < s->n_python && script_step(fw->s, 1); i++) {
		uint32_t at = (fw->exact + i) % s->n_python;
		const uint64_t *words = s->python + (size_t)at * UW_PYTHON_WORDS;

		if (words[0] << 16 >> 16 != address)
			continue;
		fw->exact = at + 1;
		*ret_frame = (struct frame){
			.sign = (uint32_t)(words[0] >> 48),
			.function = words[1] << 16 >> 16,
			.instruction = words[2],
			.last = words[1] >> 48 & 1,
			.exact = true,
			.previous = fw->ruby		   ? address + fw->l->offsets.frame_bytes
				    : at + 1 < s->n_python ? words[UW_PYTHON_WORDS] << 16 >> 16
							   : 0,
		};
		return true;
	}
	return false;
}

/* A frame with its environment's @flags at @at: of a method the method entry, in C or with its iseq, is the function.  It may stand
 * behind a method's own variables (struct vm_svar). */
static bool ruby_method(struct frames_walk *fw, uint64_t flags, uint64_t at, uint64_t *function)
{
	bool in_c = (flags & RUBY_MAGIC_MASK) == RUBY_MAGIC_CFUNC;
	uint64_t method;

	if (!in_c && (flags & RUBY_MAGIC_MASK) != RUBY_MAGIC_METHOD)
		return true;
	if (!read_word(fw, at - RUBY_METHOD_AT, &method))
		return false;
	if (!in_c && is_ruby(fw, method, RUBY_SVAR) && !read_word(fw, method + 8, &method))
		return false;
	if (in_c || is_ruby(fw, method, RUBY_METHOD))
		*function = method;
	return true;
}

/* The frame at @address as it is now, where it was not copied. */
static bool read_frame(struct frames_walk *fw, uint64_t address, struct frame *ret_frame)
{
	const struct uw_script_offsets *o = &fw->l->offsets;
	uint8_t bytes[FRAME_MAX];
	uint64_t flags;
	uint32_t word;

	if (exact_frame(fw, address, ret_frame))
		return true;
	*ret_frame = (struct frame){.exact = false};
	if (address & 7 || !vm_memory_read(&fw->s->memory, address, bytes, o->frame_bytes))
		return false;
	ret_frame->instruction = word_of(bytes, o->instruction);
	ret_frame->function = word_of(bytes, o->function);
	if (!fw->ruby) {
		memcpy(&word, bytes + o->flags, sizeof(word));
		ret_frame->previous = word_of(bytes, o->previous);
		ret_frame->last = word & o->last;
		return true;
	}
	if (!read_word(fw, word_of(bytes, o->flags), &flags))
		return false;
	if (!ruby_method(fw, flags, word_of(bytes, o->flags), &ret_frame->function))
		return false;
	ret_frame->previous = address + o->frame_bytes;
	ret_frame->last = flags & o->last;
	return true;
}

/* ---- callers by earlier readings ---- */

static uint64_t id_of(const struct script_function *f)
{
	return f->address | (uint64_t)f->parts.sign << 48;
}

/* The call of the function @id with its frame at @address. */
static uint64_t key_of_call(uint64_t address, uint64_t id)
{
	return hash_u64(address ^ hash_u64(id));
}

/* Where the address of PHP's innermost frame is, or of that of Ruby's main thread; 0: not known. */
static uint64_t current_at(struct frames_walk *fw)
{
	const struct uw_script *l = fw->l;
	uint64_t at = l->current;

	if (!at || !fw->ruby)
		return at;
	return read_word(fw, at, &at) && read_word(fw, at + l->thread, &at) &&
			       read_word(fw, at + l->context, &at)
		       ? at + l->innermost
		       : 0;
}

static uint64_t words_of(const struct frame *f)
{
	return hash_u64(f->instruction) ^ f->previous;
}

/* Which functions have called which, from the frame at @address outwards.  Returns how many. */
static uint32_t find_calls(struct frames_walk *fw, uint64_t address, struct call calls[NOTED_MAX])
{
	uint64_t key = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; address && i < NOTED_MAX / 2 && script_step(fw->s, 1); i++) {
		const struct script_function *function = NULL;
		struct frame f;

		if (!read_frame(fw, address, &f))
			break;
		/* Stacks alone would show it only where it is a caller of theirs. */
		script_note(fw->s, fw->e, address, f.function, words_of(&f));
		if (f.function) {
			function = function_at(fw, f.function, f.instruction, 0);
			if (!function)
				break;
			function = with_class(fw, function);
			if (key)
				calls[n++] =
					(struct call){key, id_of(function), address, f.instruction};
			key = key_of_call(address, id_of(function));
		}
		if (f.last && key) {
			calls[n++] = (struct call){key, RUN_ENDS, f.previous, 0};
			key = 0;
		}
		address = f.previous;
	}
	return n;
}

static bool has_call(const struct call *calls, uint32_t n, const struct call *call)
{
	for (uint32_t i = 0; i < n; i++)
		if (!memcmp(&calls[i], call, sizeof(*call)))
			return true;
	return false;
}

/* The calls of this moment; returns how many.  A thread on another CPU runs on while its memory is read.  PHP: all, if the innermost
 * frame is the same before and after.  Ruby, where another call's frame is often at the same place: those that a second reading,
 * right after the first one, shows as well. */
static uint32_t current_calls(struct frames_walk *fw, uint64_t at, struct call calls[NOTED_MAX])
{
	struct vm_memory *memory = &fw->s->memory;
	struct call before[NOTED_MAX];
	uint32_t n = find_calls(fw, fw->current, calls), n_before = n, kept = 0;
	uint64_t now;

	if (!fw->ruby)
		return vm_memory_read_once(memory, at, &now, sizeof(now)) && now == fw->current ? n
												: 0;
	memcpy(before, calls, n * sizeof(*calls));
	vm_memory_renew(memory, memory->memory, memory->left);
	if (!read_word(fw, at, &fw->current))
		return 0;
	n = find_calls(fw, fw->current, calls);
	for (uint32_t i = 0; i < n; i++)
		if (has_call(before, n_before, &calls[i]))
			calls[kept++] = calls[i];
	return kept;
}

static void note_calls(struct frames_walk *fw)
{
	struct native_script *s = fw->s;
	struct call calls[NOTED_MAX];
	uint64_t at = current_at(fw);
	uint32_t n;

	fw->current = 0;
	if (!at || !read_word(fw, at, &fw->current))
		return;
	if (s->noted_serial == s->serial && s->read_at - s->noted_at < NOTED_NS)
		return;
	s->noted_serial = s->serial;
	s->noted_at = s->read_at;
	n = current_calls(fw, at, calls);
	for (uint32_t i = 0; i < n; i++) {
		script_note_most(s, fw->e, calls[i].key, calls[i].id, calls[i].address);
		if (calls[i].id != RUN_ENDS)
			script_note_most(s, fw->e, ~calls[i].key, calls[i].instruction, 0);
	}
}

static enum script_usual usual_caller(struct frames_walk *fw, uint64_t key, uint64_t *ret_id,
				      uint64_t *ret_address)
{
	return script_flips(fw->s, key) ? SCRIPT_UNUSUAL
					: script_usual(fw->s, fw->w, key, ret_id, ret_address);
}

static void push_place(struct frames_walk *fw, uint64_t function, uint64_t position, uint32_t sign,
		       bool proved)
{
	script_push(fw->s, uw_frame_of_script(uw_script_place(function, position, sign)) |
				   (proved ? 0 : UW_FRAME_GUESSED));
}

static void push_function(struct frames_walk *fw, const struct script_function *f,
			  uint64_t instruction, bool proved)
{
	uint64_t position;

	f = with_class(fw, f);
	position = f->len && script_function_has(f, instruction)
			   ? (instruction - f->code) / fw->l->offsets.unit
			   : UW_SCRIPT_NO_POSITION;
	push_place(fw, f->address, position, f->parts.sign, proved);
}

/* The functions that one calls.  Ruby: words of an iseq point to blocks, or to call data ─► call cache ─► method entry;
 * PHP: those of the frame's run-time cache point to functions. */
static void learn_callees(struct frames_walk *fw, uint64_t frame, const struct script_function *f)
{
	uint64_t words = f->code, len = f->len, word, at;
	uint32_t cached = 0;

	slot_of(fw, f->address, f->parts.sign)->explored = true;
	if (!fw->ruby) {
		if (!read_word(fw, frame + fw->l->offsets.cache, &words) ||
		    !vm_memory_read(&fw->s->memory, f->address + fw->l->offsets.cache_len, &cached,
				    sizeof(cached)))
			return;
		len = cached;
	}
	len = min_u64(len, 8ull * CALLEES_MAX);
	for (uint64_t i = 0; i + 8 <= len && script_step(fw->s, 8); i += 8) {
		if (!read_word(fw, words + i, &word) || !vm_memory_is_address(word) || word & 7)
			continue;
		if (learn_function(fw, word) || !fw->ruby)
			continue;
		if (read_word(fw, word + CALL_CACHE, &at) && read_word(fw, at + CACHE_METHOD, &at))
			(void)learn_function(fw, at);
	}
}

/* Looks for the function of the instruction @next among those that the frames from @address outwards call. */
static const struct script_function *search_callees(struct frames_walk *fw, uint64_t address,
						    uint64_t next)
{
	const struct script_function *f;
	struct frame frame;

	for (uint32_t i = 0; i < CALLERS_MAX && read_frame(fw, address, &frame); i++) {
		f = frame.function ? function_at(fw, frame.function, frame.instruction, frame.sign)
				   : NULL;
		if (f && f->len && !f->explored) {
			learn_callees(fw, address, f);
			f = function_of(fw, next);
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
	const struct script_function *now = function_at(fw, f->function, next, f->sign), *known;

	if (f->sign)
		return now;
	known = now && script_function_has(now, next) ? now : function_of(fw, next);
	if (known && !with_class(fw, known)->lacks_class)
		return known;
	now = search_callees(fw, address, next);
	return now ? now : known;
}

/* A run of the loop. */
struct run {
	uint64_t loop;	 /* the loop's own frame; 0: it was pushed */
	uint64_t behind; /* the frame behind the last one */
	uint64_t call;	 /* key_of_call() of the function that was pushed last; 0: not known */
	uint64_t outer;	 /* the next run's innermost frame, as of the sample; 0: not known */
	bool late;	 /* the innermost frame is another one's by now: so may be its callers */
};

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
	fw->w->res->lacks_functions = true;
}

/* The callers of the call @key by earlier readings.  true: up to the run's first function. */
static bool push_usual(struct frames_walk *fw, struct run *run, uint64_t key)
{
	bool proved = true;

	for (; key && fw->n_usual < USUAL_MAX && script_step(fw->s, 1);) {
		uint64_t id, address, instruction, unused;
		enum script_usual usual = usual_caller(fw, key, &id, &address);
		const struct script_function *f;

		if (usual == SCRIPT_UNUSUAL)
			return false;
		if (id == RUN_ENDS) {
			run->behind = address;
			return true;
		}
		f = function_at(fw, id << 16 >> 16, 0, (uint32_t)(id >> 48));
		if (!f)
			return false;
		if (usual_caller(fw, ~key, &instruction, &unused) == SCRIPT_UNUSUAL)
			instruction = 0;
		proved &= usual == SCRIPT_PROVED;
		push_function(fw, f, instruction, proved);
		fw->usual[fw->n_usual++] = address;
		key = key_of_call(address, id);
	}
	return false;
}

/* true: with all its callers. */
static bool push_anchor(struct frames_walk *fw, struct run *run, const struct anchor *anchor,
			const struct frame *f)
{
	const struct script_function *known = anchor_function(fw, anchor->frame, f, anchor->next);

	if (known)
		push_function(fw, known, anchor->next, is_proved(fw, known, f->sign));
	else if (f->sign) /* it is gone, and had its name if an earlier sample has shown it */
		push_place(fw, f->function, UW_SCRIPT_NO_POSITION, f->sign, true);
	run->late = !f->exact && (!known || known->address != f->function);
	run->call =
		known && !f->exact ? key_of_call(anchor->frame, id_of(with_class(fw, known))) : 0;
	if (!run->late)
		return false;
	if (push_usual(fw, run, run->call))
		return true;
	leave_out(fw, run);
	return false;
}

/* Ruby: does the frame at @address lie inside the innermost one?  It is that of a call that has ended. */
static bool is_dead(const struct frames_walk *fw, uint64_t address)
{
	return fw->ruby && fw->current - address - 1 < DEAD_BYTES;
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
	uint64_t id, at, known = id_of(with_class(fw, function));
	bool is = run->call && usual_caller(fw, run->call, &id, &at) == SCRIPT_PROVED &&
		  id == known && at == address;

	run->call = key_of_call(address, known);
	return is;
}

/* false: the function is not there. */
static bool push_caller(struct frames_walk *fw, struct run *run, uint64_t address,
			const struct frame *f)
{
	const struct script_function *function;
	bool proved, usual;

	if (!f->function) /* the interpreter's own */
		return true;
	function = function_at(fw, f->function, f->instruction, f->sign);
	if (!function && f->sign) {
		push_place(fw, f->function, UW_SCRIPT_NO_POSITION, f->sign, true);
		return true;
	}
	if (!function)
		return false;
	proved = f->exact || (!is_dead(fw, address) &&
			      script_same(fw->s, fw->e, fw->w, address, f->function, words_of(f)));
	usual = !run->late && !f->exact && is_usual(fw, run, address, function);
	proved = (proved || usual) && is_proved(fw, function, f->sign);
	if (run->late)
		proved &= !was_pushed(fw, address) && !script_flips(fw->s, address);
	if (proved || !run->late)
		push_function(fw, function, f->instruction, proved);
	return true;
}

/* The functions of a run, outwards from that of @anchor.  false: the frames do not lead to the first one. */
static bool push_run(struct frames_walk *fw, const struct anchor *anchor, struct run *run)
{
	uint64_t address = anchor->frame;

	for (uint32_t i = 0; i < UW_MAX_FRAMES && script_step(fw->s, 1); i++) {
		struct frame f;

		if (i && address == run->outer)
			return true; /* those from here on are not of this run */
		if (!read_frame(fw, address, &f))
			return false;
		/* A function in C is not of a run: one that begins or ends has no function yet. */
		if (fw->ruby && !f.instruction && (f.exact || i || !anchor->next))
			return f.exact;
		if (!i && anchor->next) {
			if (push_anchor(fw, run, anchor, &f))
				return true;
		} else if (!push_caller(fw, run, address, &f)) {
			return false;
		}
		address = f.previous;
		if (f.last) {
			run->behind = address;
			return true;
		}
	}
	return false;
}

/* ---- functions in C ---- */

/* Reads the functions in C between two runs, so that they are known: PHP has them from @inner to @anchor, Ruby inwards from @anchor
 * on. */
static void learn_inner(struct frames_walk *fw, uint64_t inner, uint64_t anchor)
{
	uint64_t size = fw->l->offsets.frame_bytes;

	for (uint32_t i = 1; i <= INNER_MAX && script_step(fw->s, 1); i++) {
		uint64_t address = fw->ruby ? anchor - i * size : inner;
		struct frame f;

		if (!address || address == anchor || !read_frame(fw, address, &f))
			return;
		(void)(f.sign ? function_at(fw, f.function, 0, f.sign) != NULL
			      : learn_function(fw, f.function));
		inner = f.previous;
	}
}

/* The function with its C code at the address of the walk's frame @index; NULL: none is known. */
static const struct script_function *function_in_c(struct frames_walk *fw, uint32_t index)
{
	const struct native_script *s = fw->s;
	uint64_t pc = uw_frame_lookup(fw->w->frames[index]), begin, end, hash;
	struct native_place place;

	if (!script_step(fw->s, SCRIPT_PLACES) || native_place(fw->w, pc, &place) != NATIVE_PLACE ||
	    !place.image || !native_function(fw->e, &place, &begin, &end))
		return NULL;
	begin += pc - place.vaddr;
	hash = hash_of_handler(begin, s->serial);
	for (uint64_t i = 0; i < SCRIPT_PLACES; i++) {
		uint16_t number = s->handlers[(hash + i) % SCRIPT_HANDLERS];
		const struct script_function *f = number ? &s->functions[number - 1] : NULL;

		if (f && f->handler == begin && f->serial == s->serial && !f->gone)
			return f;
	}
	return NULL;
}

/* Notes which of the walk's frames [@from, @to) are functions in C. */
static void find_inner(struct frames_walk *fw, uint32_t from, uint32_t to)
{
	fw->n_inner = 0;
	from = to - from > 2 * INNER_MAX ? to - 2 * INNER_MAX : from;
	for (uint32_t i = from; i < to && fw->n_inner < INNER_MAX; i++) {
		const struct script_function *f = function_in_c(fw, i);

		if (f)
			fw->inner[fw->n_inner++] =
				(struct inner){i, uw_script_place(f->address, UW_SCRIPT_NO_POSITION,
								  f->parts.sign)};
	}
}

/* PHP: a function in C that jumps to another one (preg_match_all) has no frame of its own code.  Where the frame at @inner,
 * as of the sample, is that of one that the loop at the walk's frame @to called, the frame inside the loop's stands for it.
 * */
static void find_direct(struct frames_walk *fw, uint64_t inner, uint64_t anchor, uint32_t to)
{
	const struct script_function *f;
	struct frame frame;

	if (fw->ruby || fw->n_inner || !inner || inner == anchor ||
	    !exact_frame(fw, inner, &frame) || frame.previous != anchor || frame.last)
		return;
	f = function_at(fw, frame.function, 0, frame.sign);
	if (f && f->handler)
		fw->inner[fw->n_inner++] = (struct inner){
			to - 1, uw_script_place(f->address, UW_SCRIPT_NO_POSITION, f->parts.sign)};
}

/* The walk's frames [@from, @to), each function in C behind the frame of its code. */
static void push_inner(struct frames_walk *fw, uint32_t from, uint32_t to)
{
	for (uint32_t i = 0; i < fw->n_inner; i++) {
		script_push_native(fw->s, fw->w, from, fw->inner[i].index + 1);
		script_push(fw->s, uw_frame_of_script(fw->inner[i].frame));
		from = fw->inner[i].index + 1;
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

	for (uint32_t k = 0; k < fw->s->n_runs && k < ANCHORS_MAX; k++) {
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

/* The functions of run @k; *behind: in: what the run before it led to, out: the same for the next. */
static void replace_run(struct frames_walk *fw, uint32_t k, uint64_t *behind)
{
	struct native_script *s = fw->s;
	uint64_t loop = fw->w->frames[s->runs[k]];
	struct anchor anchor = {.frame = *behind};
	struct run run = {.loop = loop};
	uint32_t mark;

	if (k < ANCHORS_MAX && fw->anchors[k].frame)
		anchor = fw->anchors[k];
	*behind = 0;
	if (k + 1 < ANCHORS_MAX && k + 1 < s->n_runs)
		run.outer = fw->anchors[k + 1].frame;
	if (fw->e->engine.settings.native_frames)
		push_gap(fw, &run);
	mark = s->n;
	/* Where a run begins or ends the registers are those of the run outwards. */
	if (anchor.frame && anchor.frame != run.outer) {
		if (!push_run(fw, &anchor, &run)) /* the rest is not known */
			leave_out(fw, &run);
		*behind = run.behind;
	} else if (!anchor.frame) {
		leave_out(fw, &run);
	}
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
	uint64_t inner = 0;
	uint32_t from = 0;

	find_anchors(&fw);
	if (!w->snapshot->n_python)
		note_calls(&fw);
	if (w->snapshot->n_python)
		inner = w->snapshot->python[0] << 16 >> 16;
	else if (!fw.ruby && s->runs[0])
		(void)read_word(&fw, layout->current, &inner);
	for (uint32_t k = 0; k < s->n_runs; k++) {
		uint32_t run = s->runs[k];
		uint64_t anchor = k < ANCHORS_MAX ? fw.anchors[k].frame : 0;

		if (run > from)
			learn_inner(&fw, inner, anchor);
		find_inner(&fw, from, run);
		if (run > from)
			find_direct(&fw, inner, anchor, run);
		push_inner(&fw, from, run);
		replace_run(&fw, k, &inner);
		from = run + 1;
	}
	script_push_native(s, w, from, w->n);
}
