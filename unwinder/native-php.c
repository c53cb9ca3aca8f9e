/* native-php.c - see frames-walk.h.  PHP: closures and generators.
 *
 * ---- closures, which a call makes and frees ----
 *
 *     op_array of total() ──► list of those that it declares ──► op_array ──► instructions, name, file, lines
 *                                                                   │ copied at each call           ▲
 *     frame ──► op_array in the closure's object, freed with it ◄───┘───────────────────────────────┘
 *
 * The declared op_array stays, but has no class, or that of the first closure; closures have that of total().  So a closure is known by
 * an instruction of it and by its sign, and has the name of the declared op_array: whatever is in the closure's memory by now, and
 * wherever each call has made it.
 *
 * ---- generators that wait for others ----
 *
 * base/php-generator.h has the drawing.  Where frames are read late, the list of those that wait is proved by its end: the running
 * generator has the frame that the list was found behind. */
#include "base/php-generator.h"
#include "unwinder/frames-walk.h"

enum {
	DECLARED_MAX =
		64, /* functions that one declares of which those that they declare are noted, too */
	DECLARED_STEPS = 256,
	OUTER_MAX = 32, /* frames of which functions are looked at */
	PLACES = SCRIPT_PLACES,
};

static uint64_t hash_of(uint32_t sign, uint32_t serial)
{
	return hash_u64((uint64_t)serial << 32 | sign);
}

/* Where @new is, or is to be: the last place of its hash that is free, or the oldest. */
static struct script_closure *slot_of(struct native_script *s, const struct script_closure *new)
{
	uint64_t hash = hash_of(new->sign, new->serial);
	struct script_closure *oldest = NULL;

	for (uint64_t i = 0; i < PLACES; i++) {
		struct script_closure *c = &s->closures[(hash + i) % SCRIPT_CLOSURES];

		if (c->serial == new->serial && c->sign == new->sign && c->code == new->code)
			return c;
		if (!oldest || c->noted < oldest->noted)
			oldest = c;
	}
	return oldest;
}

/* The function at @address, declared by one of @class.  false: it cannot be read. */
static bool note(struct frames_walk *fw, uint64_t address, uint64_t class)
{
	struct script_closure c = {
		.function = address, .noted = fw->s->read_at, .serial = fw->s->serial};
	const struct uw_script_offsets *o = &fw->l->offsets;
	uint32_t len;

	if (address & 7 || !frames_read_word(fw, address + o->code, &c.code) ||
	    !vm_memory_read(&fw->s->memory, address + o->len, &len, sizeof(len)) ||
	    !script_sign_in_class(&fw->s->memory, fw->l, address, class, &c.sign))
		return false;
	c.len = (uint64_t)len * o->unit;
	*slot_of(fw->s, &c) = c;
	return true;
}

/* Appends the functions that the one at @function declares to @list.  Returns their new number; 0: some cannot be read. */
static uint32_t list_declared(struct frames_walk *fw, uint64_t function, uint64_t class,
			      uint64_t list[DECLARED_MAX], uint32_t n)
{
	uint64_t at = function + fw->l->offsets.declared, declared = 0;
	uint32_t count;

	if (!vm_memory_read(&fw->s->memory, at, &count, sizeof(count)) ||
	    (count && !frames_read_word(fw, at + UW_SCRIPT_DECLARED, &declared)))
		return 0;
	for (uint32_t i = 0; i < count && script_step(fw->s, DECLARED_STEPS); i++) {
		uint64_t one;

		if (!frames_read_word(fw, declared + 8ull * i, &one) || !note(fw, one, class))
			return 0;
		if (n < DECLARED_MAX)
			list[n++] = one;
	}
	return n;
}

void frames_learn_declared(struct frames_walk *fw, struct script_function *f)
{
	uint64_t list[DECLARED_MAX] = {f->address}, class;
	uint32_t n = 1;

	if (fw->ruby || f->handler || !f->searches)
		return;
	f->searches--;
	if (!frames_read_word(fw, f->address + UW_SCRIPT_CLASS, &class))
		return;
	for (uint32_t i = 0; n && i < n; i++)
		n = list_declared(fw, list[i], class, list, n);
	if (n)
		f->searches = 0;
}

static const struct script_closure *find(const struct native_script *s, uint64_t instruction,
					 uint32_t sign)
{
	uint64_t hash = hash_of(sign, s->serial);

	for (uint64_t i = 0; i < PLACES; i++) {
		const struct script_closure *c = &s->closures[(hash + i) % SCRIPT_CLOSURES];

		if (c->serial == s->serial && c->sign == sign && instruction - c->code < c->len)
			return c;
	}
	return NULL;
}

/* Once for a stack: the functions of the frames outwards of the one in hand, in a stack that was copied. */
static void search_outwards(struct frames_walk *fw)
{
	const struct uw_snapshot *s = fw->w->snapshot;

	fw->declared = true;
	for (uint32_t i = 0; i < OUTER_MAX && fw->exact + i < s->n_python; i++) {
		const uint64_t *words = s->python + (size_t)(fw->exact + i) * UW_PYTHON_WORDS;

		if (words[0] >> 48)
			(void)frames_function_at(fw, words[1] << 16 >> 16, words[2],
						 (uint32_t)(words[0] >> 48));
	}
}

const struct script_closure *frames_closure(struct frames_walk *fw, uint64_t instruction,
					    uint32_t sign)
{
	const struct script_closure *c = find(fw->s, instruction, sign);

	if (c || fw->declared)
		return c;
	search_outwards(fw);
	return find(fw->s, instruction, sign);
}

struct script_function *frames_closure_of(struct frames_walk *fw, uint64_t instruction)
{
	for (size_t i = 0; i < SCRIPT_CLOSURES; i++) {
		const struct script_closure *c = &fw->s->closures[i];
		struct script_function *f;

		if (c->serial != fw->s->serial || instruction - c->code >= c->len)
			continue;
		f = frames_learn_function(fw, c->function);
		if (f && script_function_has(f, instruction)) {
			fw->late = *c;
			return f;
		}
	}
	return NULL;
}

/* ---- generators ---- */

bool frames_is_generator(struct frames_walk *fw, uint64_t address)
{
	enum { GENERATOR = 1 << 24 }; /* ZEND_CALL_GENERATOR */
	uint32_t flags;

	return vm_memory_read(&fw->s->memory, address + fw->l->offsets.flags, &flags,
			      sizeof(flags)) &&
	       flags & GENERATOR;
}

static void copied_waiting(struct frames_walk *fw, struct frames_waiting *waiting)
{
	struct frame f;

	while (waiting->n < FRAMES_WAITING && frames_exact(fw, waiting->behind, &f) && f.delegate) {
		waiting->frames[waiting->n++] = waiting->behind;
		waiting->behind = f.previous;
	}
	waiting->whole = true;
}

static void read_waiting(struct frames_walk *fw, uint64_t running, uint64_t generator,
			 struct frames_waiting *waiting)
{
	uint64_t frame, parent;

	while (script_step(fw->s, 1) &&
	       frames_read_word(fw, generator + PHP_GENERATOR_FRAME, &frame) &&
	       frames_read_word(fw, generator + PHP_GENERATOR_PARENT, &parent)) {
		if (!parent)
			waiting->whole = frame == running;
		if (!parent || waiting->n == FRAMES_WAITING)
			return;
		waiting->frames[waiting->n++] = frame;
		generator = parent;
	}
}

bool frames_find_waiting(struct frames_walk *fw, uint64_t running, uint64_t address,
			 struct frames_waiting *ret_waiting)
{
	uint64_t generator;
	struct frame f;

	*ret_waiting = (struct frames_waiting){.n = 0};
	if (fw->ruby || !address || !frames_read(fw, address, &f) || f.function)
		return false;
	ret_waiting->behind = f.previous;
	if (f.exact) {
		copied_waiting(fw, ret_waiting);
		return ret_waiting->n;
	}
	if (!frames_read_word(fw, address + PHP_FRAME_THIS, &generator) ||
	    address != generator + PHP_GENERATOR_FAKE)
		return false;
	read_waiting(fw, running, generator, ret_waiting);
	return true;
}
