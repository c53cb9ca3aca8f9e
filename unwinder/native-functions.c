/* native-functions.c - see frames-walk.h.  The frames of PHP and Ruby, and their functions: which one an address, an instruction or C
 * code is of. */
#include "unwinder/frames-walk.h"

enum {
	LEN_MAX = 1 << 24,
	AGAIN_MAX = 60,	       /* functions read with one that is read again, which were */
	AGAINS_MAX = 4,	       /* readings of this kind for one stack */
	AGAIN_NS = 1000000000, /* ... looked for not longer ago */
	PHP_INTERNAL = 1,      /* zend_function.type */
	PHP_USER = 2,
	PHP_EVAL = 4,
	PHP_FLAGS = 4, /* in the op_array */
	PHP_CLOSURE = 1 << 22,
	SEARCHES = 4,
	RUBY_TYPE_MASK = 0x1f, /* RBasic.flags */
	RUBY_IMEMO = 0x1a,
	RUBY_IMEMO_AT = 12,
	RUBY_OF_ISEQ = 0, /* rb_method_type_t */
	RUBY_CFUNC = 1,
	RUBY_METHOD_ISEQ = 1, /* enum iseq_type */
	RUBY_METHOD_AT = 16,  /* before the environment's flags: the method entry */
	RUBY_MAGIC_MASK = 0x7fff0001,
	RUBY_MAGIC_METHOD = 0x11110001,
	RUBY_MAGIC_CFUNC = 0x55550001,
	CURRENT_READS = 3,
	STACK_BYTES = 1 << 20, /* of a thread of Ruby */
};

enum imemo { SVAR = 2, METHOD = 6, ISEQ = 7 }; /* enum imemo_type */

/* Ruby: is the object at @address of the interpreter's own kind @type? */
static bool is_ruby(struct frames_walk *fw, uint64_t address, enum imemo type)
{
	uint64_t flags;

	return frames_read_word(fw, address, &flags) && (flags & RUBY_TYPE_MASK) == RUBY_IMEMO &&
	       (flags >> RUBY_IMEMO_AT & 0xf) == (uint64_t)type;
}

/* ---- frames ---- */

bool frames_exact(struct frames_walk *fw, uint64_t address, struct frame *ret_frame)
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
			.delegate = !fw->ruby && words[1] >> 49 & 1,
			.exact = true,
			.previous = fw->ruby		   ? address + fw->l->offsets.frame_bytes
				    : at + 1 < s->n_python ? words[UW_PYTHON_WORDS] << 16 >> 16
							   : 0,
		};
		return true;
	}
	return false;
}

/* A frame with its environment's @flags at @at: of a method the method entry, in C or with its iseq @function, is the function.  It may
 * stand behind a method's own variables (struct vm_svar).  Another frame's environment, which was read at another moment, has
 * another iseq. */
static bool ruby_method(struct frames_walk *fw, uint64_t flags, uint64_t at, uint64_t *function)
{
	const struct uw_script_offsets *o = &fw->l->offsets;
	bool in_c = (flags & RUBY_MAGIC_MASK) == RUBY_MAGIC_CFUNC;
	uint64_t method, iseq;

	if (!in_c && (flags & RUBY_MAGIC_MASK) != RUBY_MAGIC_METHOD)
		return true;
	if (!frames_read_word(fw, at - RUBY_METHOD_AT, &method))
		return false;
	if (!in_c && is_ruby(fw, method, SVAR) && !frames_read_word(fw, method + 8, &method))
		return false;
	if (in_c ||
	    (is_ruby(fw, method, METHOD) && frames_read_word(fw, method + o->definition, &iseq) &&
	     frames_read_word(fw, iseq + o->handler, &iseq) && iseq == *function))
		*function = method;
	return true;
}

bool frames_read(struct frames_walk *fw, uint64_t address, struct frame *ret_frame)
{
	const struct uw_script_offsets *o = &fw->l->offsets;
	uint8_t bytes[UW_SCRIPT_FRAME];
	uint64_t flags;
	uint32_t word;

	if (frames_exact(fw, address, ret_frame))
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
	if (!frames_read_word(fw, word_of(bytes, o->flags), &flags))
		return false;
	if (!ruby_method(fw, flags, word_of(bytes, o->flags), &ret_frame->function))
		return false;
	ret_frame->previous = address + o->frame_bytes;
	ret_frame->last = flags & o->last;
	return true;
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
		return frames_read_word(fw, f->address + o->handler, &f->handler) && f->handler;
	if (!vm_memory_read(&fw->s->memory, f->address + PHP_FLAGS, &len, sizeof(len)))
		return false;
	f->closure = len & PHP_CLOSURE;
	f->searches = SEARCHES;
	if ((type != PHP_USER && type != PHP_EVAL) ||
	    !frames_read_word(fw, f->address + o->code, &f->code) ||
	    !vm_memory_read(&fw->s->memory, f->address + o->len, &len, sizeof(len)))
		return false;
	f->len = (uint64_t)len * o->unit;
	return len && len < LEN_MAX;
}

static bool read_ruby_function(struct frames_walk *fw, struct script_function *f)
{
	const struct uw_script_offsets *o = &fw->l->offsets;
	uint64_t iseq = f->address, body;
	uint32_t len, type;

	if (is_ruby(fw, f->address, METHOD)) {
		if (!frames_read_word(fw, f->address + o->definition, &body) ||
		    !vm_memory_read(&fw->s->memory, body, &len, sizeof(len)) ||
		    !frames_read_word(fw, body + o->handler, &iseq))
			return false;
		if ((len & 0xf) == RUBY_CFUNC)
			return (f->handler = iseq) != 0;
		if ((len & 0xf) != RUBY_OF_ISEQ)
			return false;
	}
	if (!is_ruby(fw, iseq, ISEQ) || !frames_read_word(fw, iseq + o->body, &body) ||
	    !vm_memory_read(&fw->s->memory, body, &type, sizeof(type)) ||
	    !vm_memory_read(&fw->s->memory, body + o->len, &len, sizeof(len)) ||
	    !frames_read_word(fw, body + o->code, &f->code))
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

/* Lets frames_in_c() find @f by its code.  A place with a function that has other code by now is free. */
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
	if (is_at(fw, slot, address) && slot->parts.sign == f.parts.sign)
		f.searches = slot->searches;
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

bool frames_is_proved(const struct frames_walk *fw, const struct script_function *f, uint32_t sign)
{
	return sign ? sign == f->parts.sign
		    : !fw->w->snapshot->time || f->since <= fw->w->snapshot->time;
}

static struct script_function *function_at(struct frames_walk *fw, uint64_t address,
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

struct script_function *frames_function_at(struct frames_walk *fw, uint64_t address,
					   uint64_t instruction, uint32_t sign)
{
	struct script_function *f = function_at(fw, address, instruction, sign);

	if (f)
		frames_learn_declared(fw, f);
	return f;
}

/* The code of a function that was freed is another one's by now, which was found later. */
struct script_function *frames_function_of(struct frames_walk *fw, uint64_t instruction)
{
	struct script_function *last = NULL;

	for (size_t i = 0; i < SCRIPT_FUNCTIONS; i++) {
		struct script_function *f = &fw->s->functions[i];

		if (f->serial != fw->s->serial || f->gone || !script_function_has(f, instruction) ||
		    (last && f->since <= last->since))
			continue;
		f = read_function(fw, f->address);
		if (f && script_function_has(f, instruction))
			last = f;
	}
	/* What was read after it may have taken its place. */
	return last && script_function_has(last, instruction) ? last : NULL;
}

const struct script_function *frames_with_class(const struct frames_walk *fw,
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

struct script_function *frames_learn_function(struct frames_walk *fw, uint64_t address)
{
	struct script_function *known = slot_of(fw, address, 0);

	if (!is_at(fw, known, address) || known->gone)
		return read_function(fw, address);
	index_handler(fw->s, known);
	return known;
}

const struct script_function *frames_in_c(struct frames_walk *fw, uint32_t index)
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

/* ---- the innermost frame ---- */

/* Where the address of PHP's innermost frame is, or of that of Ruby's main thread; 0: not known. */
static uint64_t current_at(struct frames_walk *fw)
{
	const struct uw_script *l = fw->l;
	uint64_t at = l->current;

	if (!at || !fw->ruby)
		return at;
	return frames_read_word(fw, at, &at) && frames_read_word(fw, at + l->thread, &at) &&
			       frames_read_word(fw, at + l->context, &at)
		       ? at + l->innermost
		       : 0;
}

/* Of the innermost frames at the begin and the end of a reading the outer one: those inside it have changed meanwhile.  0: not known, PHP:
 * one of them is a generator's, which is elsewhere. */
static uint64_t outer_of(const struct frames_walk *fw, const uint64_t seen[2])
{
	uint64_t outer = fw->current;

	for (int i = 0; i < 2; i++) {
		uint64_t inside = fw->ruby ? seen[i] - outer : outer - seen[i];

		if (seen[i] && inside < STACK_BYTES)
			outer = seen[i];
		else if (seen[i] && !fw->ruby && seen[i] - outer >= STACK_BYTES)
			return 0;
	}
	return outer;
}

bool frames_read_at_once(struct frames_walk *fw, uint64_t address, uint64_t ret_seen[2])
{
	struct vm_memory *memory = &fw->s->memory;

	ret_seen[0] = ret_seen[1] = 0;
	return !memory->memory || !memory->memory->read_ranges ||
	       vm_memory_watched(memory, address, ret_seen);
}

uint64_t frames_read_current(struct frames_walk *fw)
{
	struct vm_memory *memory = &fw->s->memory;
	uint64_t at = 0, unused, seen[2];

	for (int i = 0; i < CURRENT_READS; i++) {
		if (i)
			vm_memory_renew(memory, memory->memory, memory->left);
		at = current_at(fw);
		if (!at || !frames_read_word(fw, at, &fw->current)) {
			fw->current = 0;
			return 0;
		}
		vm_memory_watch(memory, at);
		if (!frames_read_word(fw, fw->current, &unused))
			return at;
		/* (PHP has frames of generators anywhere: another reading would be no better) */
		if (frames_read_at_once(fw, fw->current, seen) || !fw->ruby)
			break;
	}
	fw->current = outer_of(fw, seen);
	return at;
}
