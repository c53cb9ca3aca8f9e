/* native-edge.c - see native.h.  Does a call lead to the function of the frame inside of it?
 *
 * A thread that returns leaves its frames below the stack pointer.  Read a moment later they look like a stack, up to the
 * frames that are still there; but for the return addresses, which are those of the last calls:
 *
 *     at the sample   f > g          [address behind f's "call g"   ][frame of g]
 *     read later      f has returned [address behind f's "call free"][frame of g, as it was]
 *
 * So a direct call has to lead to the function of the frame inside of it: to its code; through entries of a PLT; or to a function that
 * jumps there, as a tail call does, or to its cold part.  A call through a pointer proves nothing, nor does code that cannot be
 * read, or that jumps through a pointer itself.
 *
 * Of calls that jump on several times the code shows too little.  Hence calls that were seen in copies hold, too: what a
 * thread with deep stacks has in its copies is noted. */
#include "unwinder/native.h"

enum {
	EDGES = 8192, /* a power of two */
	EDGE_WAYS = 4,
	EDGE_STUB = 11, /* bytes: endbr64; bnd jmp *GOT */
	EDGE_HOPS = 4,
	EDGE_CODE_MAX = 8192,
	EDGE_JUMPS_MAX = 64, /* out of a function */
};

/* The function that was called, addresses. */
struct edge_callee {
	uint64_t begin, end;
};

/* ---- what was seen ---- */

enum edge_kind { EDGE_ADDRESSES, EDGE_FUNCTION };

/* Of a call that returns to @ra: of the function that begins at @callee, or of the frame that is looked up by @callee. */
static uint64_t edge_tag(const struct walk *w, enum edge_kind kind, uint64_t ra, uint64_t callee)
{
	uint64_t key = (uint64_t)w->snapshot->space->key << 1 | kind;

	return hash_u64(ra ^ hash_u64(callee ^ hash_u64(key))) | 1;
}

static uint64_t *edge_set(struct native *e, uint64_t tag)
{
	return &e->edges[tag % EDGES & ~(uint64_t)(EDGE_WAYS - 1)];
}

static bool edge_is_noted(struct native *e, uint64_t tag)
{
	const uint64_t *set = edge_set(e, tag);

	return set[0] == tag || set[1] == tag || set[2] == tag || set[3] == tag;
}

static void edge_note(struct native *e, uint64_t tag)
{
	uint64_t *set = edge_set(e, tag);

	for (size_t i = 0; i < EDGE_WAYS; i++) {
		if (set[i] == tag)
			return;
		if (!set[i]) {
			set[i] = tag;
			return;
		}
	}
	set[tag >> 32 & (EDGE_WAYS - 1)] = tag;
}

/* false: there is no memory, or the space has no key, without which nothing can be noted. */
static bool edges_begin(struct native *e, const struct walk *w)
{
	if (w->machine->link || !w->snapshot->space->key)
		return false;
	if (!e->edges)
		e->edges = calloc(EDGES, sizeof(*e->edges));
	return e->edges;
}

/* ---- the code ---- */

static const struct uw_map *edge_map(const struct walk *w, uint64_t address)
{
	const struct uw_map *map = uw_space_find(w->snapshot->space, address);

	return map && map->module && uw_module_kind(map->module) == UW_MODULE_FILE ? map : NULL;
}

/* @len bytes from @address on.  false: they cannot be read. */
static bool edge_code(struct native *e, const struct walk *w, uint64_t address, uint8_t *to,
		      size_t len)
{
	const struct uw_map *map = edge_map(w, address);

	return map && native_file_code(e, w, map, address + 1, 1, len - 1, to) == len;
}

/* The function of @address, in a file. */
static bool edge_function(struct native *e, const struct walk *w, uint64_t address,
			  struct edge_callee *ret)
{
	struct native_place place;
	uint64_t begin, end;

	if (!edge_map(w, address) || native_place(w, address, &place) != NATIVE_PLACE ||
	    !native_function(e, &place, &begin, &end))
		return false;
	*ret = (struct edge_callee){address - place.vaddr + begin, address - place.vaddr + end};
	return true;
}

static bool edge_is_in(const struct edge_callee *f, uint64_t address)
{
	return address >= f->begin && address < f->end;
}

/* The address that a jump at @address, and nothing else, leads to: an entry of a PLT, a thunk.  0: it is none, or not known. */
static uint64_t edge_hop(struct native *e, const struct walk *w, uint64_t address)
{
	static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};
	struct uw_memory *memory = w->snapshot->space->memory;
	uint8_t code[EDGE_STUB];
	uint64_t to = 0;
	size_t at = 0;
	int32_t by;

	if (!edge_code(e, w, address, code, sizeof(code)))
		return 0;
	at += memcmp(code, endbr64, sizeof(endbr64)) ? 0 : sizeof(endbr64);
	at += code[at] == 0xf2; /* bnd */
	if (code[at] == 0xe9) {
		memcpy(&by, code + at + 1, sizeof(by));
		return address + at + 5 + (uint64_t)(int64_t)by;
	}
	if (code[at] != 0xff || code[at + 1] != 0x25)
		return 0;
	memcpy(&by, code + at + 2, sizeof(by));
	address += at + 6 + (uint64_t)(int64_t)by;
	return memory && memory->read(memory, address, &to, sizeof(to)) == sizeof(to) ? to : 0;
}

/* Does the code at *address lead to @f by jumps alone?  Else *address is where they end. */
static bool edge_arrives(struct native *e, const struct walk *w, const struct edge_callee *f,
			 uint64_t *address)
{
	uint64_t next = *address;

	for (size_t i = 0; i < EDGE_HOPS && next && !edge_is_in(f, next); i++) {
		*address = next;
		next = edge_hop(e, w, next);
	}
	return edge_is_in(f, next);
}

/* Does the function at @address jump to @f, or may it? */
static bool edge_jumps(struct native *e, const struct walk *w, const struct edge_callee *f,
		       uint64_t address)
{
	uint8_t code[EDGE_CODE_MAX];
	struct edge_callee from;
	unsigned n = 0;
	size_t at = 0;
	int64_t to;

	if (!edge_function(e, w, address, &from) || from.end - from.begin > sizeof(code) ||
	    !edge_code(e, w, from.begin, code, from.end - from.begin))
		return true;
	while (code_next_jump(code, from.end - from.begin, &at, &to)) {
		uint64_t target = from.begin + (uint64_t)to;

		if (to == CODE_TO_POINTER || n == EDGE_JUMPS_MAX)
			return true;
		if (edge_is_in(&from, target))
			continue;
		n++;
		if (edge_arrives(e, w, f, &target))
			return true;
	}
	return false;
}

static bool edge_leads(struct native *e, const struct walk *w, uint64_t ra,
		       const struct edge_callee *f)
{
	uint8_t code[5];
	uint64_t target;
	int32_t by;

	if (!edge_code(e, w, ra - sizeof(code), code, sizeof(code)) || code[0] != 0xe8)
		return true;
	memcpy(&by, code + 1, sizeof(by));
	target = ra + (uint64_t)(int64_t)by;
	return edge_arrives(e, w, f, &target) || edge_jumps(e, w, f, target);
}

/* ---- the walk ---- */

/* Was frame @i found by CFI, as the caller of the one before?  Where the walk marks all frames as guessed, this mark states nothing. */
static bool edge_is_call(const struct walk *w, uint32_t i)
{
	uint64_t guessed = UW_FRAME_GUESSED & ~w->deep_flags;
	uint64_t others = guessed | UW_FRAME_SIGNAL;

	return (w->frames[i] & (UW_FRAME_CALLER | others)) == UW_FRAME_CALLER &&
	       !(w->frames[i - 1] & guessed);
}

/* Has the code at @address taken the registers of another place (glibc's setcontext)?  Its CFA is by neither rsp nor rbp then, and it was not
 * called from there. */
static bool edge_is_switch(struct native *e, const struct walk *w, uint64_t address)
{
	struct native_place place;
	struct cfi_fde fde;
	struct cfi_row row;

	return native_place(w, address, &place) == NATIVE_PLACE &&
	       native_row(e, &place, 0, &fde, &row) == CFI_OK &&
	       (row.cfa.where != CFI_REGISTER ||
		(row.cfa_register != DWARF_X86_RSP && row.cfa_register != DWARF_X86_RBP));
}

bool native_edges_hold(struct native *e, struct walk *w, uint32_t first)
{
	if (!edges_begin(e, w))
		return true;
	for (uint32_t i = (uint32_t)max_u64(first, 1); i < w->n; i++) {
		uint64_t ra = uw_frame_pc(w->frames[i]), at = uw_frame_lookup(w->frames[i - 1]);
		uint64_t pair = edge_tag(w, EDGE_ADDRESSES, ra, at), tag;
		struct edge_callee f;

		if (!edge_is_call(w, i) || edge_is_noted(e, pair) || !edge_function(e, w, at, &f))
			continue;
		tag = edge_tag(w, EDGE_FUNCTION, ra, f.begin);
		if (!edge_is_noted(e, tag) && !edge_leads(e, w, ra, &f) &&
		    !edge_is_switch(e, w, at))
			return false;
		edge_note(e, pair);
	}
	return true;
}

void native_edges_note(struct native *e, const struct walk *w, uint32_t n)
{
	if (!edges_begin(e, w))
		return;
	for (uint32_t i = 1; i < n; i++) {
		uint64_t ra = uw_frame_pc(w->frames[i]), at = uw_frame_lookup(w->frames[i - 1]);
		uint64_t pair = edge_tag(w, EDGE_ADDRESSES, ra, at);
		struct edge_callee f;

		if (!edge_is_call(w, i) || edge_is_noted(e, pair) || !edge_function(e, w, at, &f))
			continue;
		edge_note(e, pair);
		edge_note(e, edge_tag(w, EDGE_FUNCTION, ra, f.begin));
	}
}
