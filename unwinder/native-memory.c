/* native-memory.c - see native.h.
 *
 * A deep stack goes on beyond the copy, a signal handler's leads to another stack.  The process has
 * run on since the sample, but its outer frames mostly stand still: they are believed when bytes
 * that the copy has, taken around the frame where the walk leaves it, still read the same.
 *
 * Where those bytes are the locals of a function that is still at work they have changed, and its
 * frame stands still all the same: a copy ends in the middle of a large frame at a page that was
 * never touched.  Then the return address itself has to prove it: it follows a direct call of the
 * very function.
 *
 *     copy   |................[sp of the frame .. 256 bytes]| needed
 *     process                 [ same?                      ]  [ 64 KB pieces, 8 MB in all ... */
#include <unistd.h>

#include "unwinder/native.h"

/* Does the process still have what the copy has, at the frame that the walk stands on? */
static bool deep_matches(struct walk *w)
{
	const struct uw_snapshot *s = w->snapshot;
	uint64_t at = w->sp - w->base, len = s->stack_len, from;
	struct uw_memory *memory = s->space->memory;
	uint8_t now[NATIVE_OVERLAP];

	if (!memory || len < 64)
		return false;
	at = at > len ? len : at;
	at = min_u64(at + NATIVE_OVERLAP, len); /* the window's end */
	from = at > NATIVE_OVERLAP ? at - NATIVE_OVERLAP : 0;
	return memory->read(memory, w->base + from, now, at - from) == (ssize_t)(at - from) &&
	       !memcmp(now, s->stack + from, at - from);
}

static bool chunk_has(const struct native *e, const struct walk *w, uint64_t address, size_t len)
{
	return e->chunk_owner == w && address >= e->chunk_start && e->chunk_len >= len &&
	       address - e->chunk_start <= e->chunk_len - len;
}

/* Reads the piece that begins at @address. */
static bool chunk_read(struct native *e, struct walk *w, uint64_t address)
{
	struct uw_memory *memory = w->snapshot->space->memory;
	ssize_t got;

	if (w->deep_failed || w->deep_read >= NATIVE_DEEP_MAX ||
	    (!w->deep_read && !deep_matches(w))) {
		w->deep_failed = true;
		return false;
	}
	if (!e->chunk)
		e->chunk = malloc(NATIVE_CHUNK);
	if (!e->chunk) {
		e->no_memory = true;
		return false;
	}
	w->deep_read += NATIVE_CHUNK;
	e->chunk_owner = NULL;
	got = memory->read(memory, address, e->chunk, NATIVE_CHUNK);
	/* The last piece of a stack is short, and some readers give all or nothing. */
	for (size_t len = NATIVE_CHUNK / 2; got <= 0 && len >= 64; len /= 2)
		got = memory->read(memory, address, e->chunk, len);
	if (got < 8 || got > NATIVE_CHUNK)
		return false;
	e->chunk_owner = w;
	e->chunk_start = address;
	e->chunk_len = (uint64_t)got;
	return true;
}

bool native_bytes(struct native *e, struct walk *w, uint64_t address, void *to, size_t len)
{
	const struct uw_snapshot *s = w->snapshot;
	uint64_t at = address - w->base;

	if (s->stack_len >= len && at <= s->stack_len - len) {
		memcpy(to, s->stack + at, len);
		return true;
	}
	if (!chunk_has(e, w, address, len) && !chunk_read(e, w, address & ~7ull))
		return false;
	if (!chunk_has(e, w, address, len))
		return false;
	memcpy(to, e->chunk + (address - e->chunk_start), len);
	return true;
}

bool native_word(struct native *e, struct walk *w, uint64_t address, uint64_t *ret_word)
{
	if (native_bytes(e, w, address, ret_word, sizeof(*ret_word)))
		return true;
	uw_result_out_of_copy(w->snapshot, w->res, address);
	return false;
}

/* Is there a call of the function at the walk's pc before @ra? */
static bool calls_this(struct native *e, struct walk *w, uint64_t ra)
{
	uint64_t pc = walk_lookup(w), begin, end;
	struct native_place place;
	uint8_t code[5];
	int32_t to;

	if (native_code(w, ra, sizeof(code), 0, code) != sizeof(code) || code[0] != 0xe8 ||
	    native_place(w, pc, &place) != NATIVE_PLACE ||
	    !native_function(e, &place, &begin, &end))
		return false;
	memcpy(&to, code + 1, sizeof(to));
	return ra + (uint64_t)(int64_t)to == pc - place.vaddr + begin;
}

bool native_same_frame(struct native *e, struct walk *w, uint64_t ra_at)
{
	uint64_t ra;

	if (w->machine->link || !w->snapshot->space->memory || !w->deep_failed || w->deep_read)
		return false;
	w->deep_failed = false;
	w->deep_read = 1; /* nothing is compared */
	if (native_bytes(e, w, ra_at, &ra, sizeof(ra)) && calls_this(e, w, ra)) {
		w->deep_flags = UW_FRAME_GUESSED;
		return true;
	}
	w->deep_failed = true;
	e->chunk_owner = NULL;
	return false;
}

/* The file of a module, where the images keep one: only then may it be asked here (module.h, lone). */
static int code_file(const struct uw_map *map)
{
	const struct uw_image *image = map->module ? uw_module_image(map->module) : NULL;

	return image ? image->fd : -1;
}

bool native_has_code(const struct walk *w, uint64_t address)
{
	const struct uw_map *map;

	if (w->snapshot->space->memory)
		return true;
	map = uw_space_find(w->snapshot->space, address - 1);
	return map && code_file(map) >= 0;
}

size_t native_code(const struct walk *w, uint64_t address, size_t before, size_t after, uint8_t *to)
{
	struct uw_memory *memory = w->snapshot->space->memory;
	const struct uw_map *map = uw_space_find(
		w->snapshot->space, address - 1); /* a call may be the mapping's last bytes */
	uint64_t from = address - before;
	ssize_t got;
	int fd;

	if (!map || address - map->start < before)
		return 0;
	after = min_u64(after, map->end - address);
	got = memory ? memory->read(memory, from, to, before + after) : 0;
	fd = got > 0 ? -1 : code_file(map);
	if (fd >= 0)
		got = pread(fd, to, before + after, (off_t)(from - map->start + map->offset));
	return got > 0 && (size_t)got <= before + after ? (size_t)got : 0;
}
