/* oracle.c - see oracle.h. */
#include <errno.h>
#include <limits.h>

#include "base/bytes.h"
#include "base/error.h"
#include "unwinder/oracle.h"

/* ---- memory ---- */

void uw_regions_deinit(struct uw_regions *regions)
{
	free(regions->list);
	*regions = (struct uw_regions){0};
}

/* The number of regions that start at or below @address. */
static size_t uw_regions_below(const struct uw_regions *regions, uint64_t address)
{
	return bisect(i, regions->n, regions->list[i].start <= address);
}

int uw_regions_add(struct uw_regions *regions, uint64_t start, const void *data, size_t size)
{
	size_t at = uw_regions_below(regions, start);

	if (!size || start + size < start)
		return fail(-EINVAL);
	if (at && regions->list[at - 1].start == start)
		return 0;
	if (regions->n == regions->room && !array_grow(regions->list, regions->room, 16))
		return fail(-ENOMEM);
	memmove(regions->list + at + 1, regions->list + at,
		(regions->n - at) * sizeof(*regions->list));
	regions->list[at] = (struct uw_region){start, data, size};
	regions->n++;
	return 0;
}

/* Copies the bytes of the word that @region has; false: none. */
static bool uw_region_word(const struct uw_region *region, uint64_t address, uint64_t *ret_word)
{
	uint64_t at = address - region->start, skip = 0, word = 0;

	if (at < region->size && region->size - at >= 8) {
		memcpy(ret_word, region->data + at, sizeof(*ret_word));
		return true;
	}
	if (address < region->start) {
		skip = region->start - address;
		at = 0;
	}
	if (skip >= 8 || at >= region->size)
		return false;
	memcpy((uint8_t *)&word + skip, region->data + at, min_u64(8 - skip, region->size - at));
	*ret_word = word;
	return true;
}

bool uw_regions_word(struct uw_regions *regions, uint64_t address, uint64_t *ret_word)
{
	size_t below;

	if (regions->last < regions->n && address >= regions->list[regions->last].start &&
	    uw_region_word(&regions->list[regions->last], address, ret_word))
		return true;
	below = uw_regions_below(regions, address);
	if (below && uw_region_word(&regions->list[below - 1], address, ret_word)) {
		regions->last = below - 1;
		return true;
	}
	return below < regions->n && uw_region_word(&regions->list[below], address, ret_word);
}

bool uw_view_word(struct uw_view *view, uint64_t address, uint64_t *ret_word)
{
	if (uw_stack_word(view->snapshot, address, ret_word) ||
	    uw_regions_word(view->regions, address, ret_word))
		return true;
	view->missed = true;
	view->missed_at = address;
	return false;
}

/* ---- spaces ---- */

void oracle_space_drop(struct oracle_spaces *spaces, struct oracle_space *slot)
{
	if (slot->handle)
		spaces->drop(slot->handle);
	for (size_t i = 0; i < slot->n_modules; i++)
		free(slot->modules[i].made_table);
	free(slot->modules);
	uw_regions_deinit(&slot->regions);
	uw_space_unref(slot->held);
	*slot = (struct oracle_space){0};
}

void oracle_spaces_deinit(struct oracle_spaces *spaces)
{
	for (size_t i = 0; i < ORACLE_SPACES; i++)
		oracle_space_drop(spaces, &spaces->slots[i]);
}

static bool oracle_space_is(const struct oracle_space *slot, const struct uw_space *space)
{
	return slot->handle && slot->key == space->key && (slot->key || slot->held == space);
}

struct oracle_space *oracle_spaces_get(struct oracle_spaces *spaces, struct uw_space *space)
{
	struct oracle_space *slot = &spaces->slots[spaces->last], *oldest = slot;

	if (!oracle_space_is(slot, space)) {
		for (slot = spaces->slots; slot < spaces->slots + ORACLE_SPACES; slot++) {
			if (oracle_space_is(slot, space))
				break;
			if (slot->used < oldest->used)
				oldest = slot;
		}
		if (slot == spaces->slots + ORACLE_SPACES) {
			slot = oldest;
			oracle_space_drop(spaces, slot);
			slot->key = space->key;
			slot->held = space->key ? NULL : uw_space_ref(space);
		}
		spaces->last = (size_t)(slot - spaces->slots);
	}
	slot->used = ++spaces->tick;
	return slot;
}

void oracle_spaces_forget(struct oracle_spaces *spaces, const struct uw_module *module)
{
	for (struct oracle_space *slot = spaces->slots; slot < spaces->slots + ORACLE_SPACES;
	     slot++) {
		bool knows = !module;

		for (size_t i = 0; i < slot->n_modules && !knows; i++)
			knows = slot->modules[i].module == module;
		if (knows)
			oracle_space_drop(spaces, slot);
	}
}

static int oracle_stop(struct uw_result *res, enum uw_outcome outcome, enum uw_reason reason,
		       uint64_t pc)
{
	uw_result_end(res, outcome, reason, pc);
	return ORACLE_STOP;
}

static int oracle_module_add(struct oracle_space *slot, const struct uw_map *map, uint64_t bias,
			     struct oracle_module **ret_module)
{
	const struct uw_image *image = uw_module_image(map->module);
	const struct uw_section *sections[] = {&image->eh_frame_hdr, &image->eh_frame,
					       &image->debug_frame};
	struct oracle_module *more;

	more = reallocarray(slot->modules, slot->n_modules + 1, sizeof(*more));
	if (!more)
		return fail(-ENOMEM);
	slot->modules = more;
	/* .debug_frame is not part of the process: its vaddr is 0 and it is read by offset, never
	 * by address. */
	for (size_t i = 0; i < 2; i++) {
		int r = 0;

		if (sections[i]->data && sections[i]->size)
			r = uw_regions_add(&slot->regions, sections[i]->vaddr + bias,
					   sections[i]->data, sections[i]->size);
		if (r == -ENOMEM)
			return trace(r);
	}
	more[slot->n_modules] =
		(struct oracle_module){.module = map->module, .image = image, .bias = bias};
	*ret_module = &more[slot->n_modules++];
	return 0;
}

int oracle_module_at(struct oracle_space *slot, const struct uw_space *space, uint64_t pc,
		     struct uw_result *res, struct oracle_module **ret_module)
{
	const struct uw_map *map = uw_space_find(space, pc);
	uint64_t bias;
	int r;

	if (!map)
		return oracle_stop(res, UW_FAILED, UW_NO_MODULE, pc);
	if (!map->module || uw_module_kind(map->module) == UW_MODULE_JIT)
		return ORACLE_NO_INFO;
	switch (uw_module_unwind_state(map->module)) {
	case UW_MODULE_READY:
		break;
	case UW_MODULE_UNREADABLE:
		return oracle_stop(res, UW_FAILED, UW_UNREADABLE, pc);
	case UW_MODULE_NEW:
	case UW_MODULE_WANTED:
	default:
		res->pending = map->module;
		return oracle_stop(res, UW_PENDING, UW_OK, pc);
	}
	bias = pc - uw_map_vaddr(map, pc);
	for (size_t i = 0; i < slot->n_modules; i++) {
		if (slot->modules[i].module == map->module && slot->modules[i].bias == bias) {
			*ret_module = &slot->modules[i];
			return ORACLE_READY;
		}
	}
	r = oracle_module_add(slot, map, bias, ret_module);
	return r < 0 ? trace(r) : ORACLE_NEW;
}

/* ---- the binary search table that libunwind needs for each module ----
 *
 * Normally this is the table of .eh_frame_hdr:
 *
 *     [4 bytes of encodings][eh_frame pointer][count][table ...]
 *
 * An entry is {int32 start of the function, int32 FDE}, both relative to the section (LSB 5.0, "The
 * .eh_frame_hdr section").  For a module that has no table, or one in another encoding, we make a
 * table of the same form from .eh_frame; libunwind reads it at an address where no process has
 * memory. */

enum {
	DW_EH_PE_FORMAT = 0x0f,
	DW_EH_PE_UDATA4 = 0x03,
	DW_EH_PE_UDATA8 = 0x04,
	DW_EH_PE_SDATA4 = 0x0b,
	DW_EH_PE_SDATA8 = 0x0c,
	DW_EH_PE_PCREL = 0x10,
	DW_EH_PE_DATAREL = 0x30,
	DW_EH_PE_OMIT = 0xff,
	HDR_TABLE_ENCODING = DW_EH_PE_DATAREL | DW_EH_PE_SDATA4,
};

/* Kernel addresses: no stack and no section of a process lies there. */
#define MADE_TABLES 0xffff800000000000ull

struct table_entry {
	int32_t start, fde;
};

/* Bytes of an encoded pointer of a fixed size; 0: of another kind. */
static size_t encoded_size(uint8_t encoding)
{
	switch (encoding & DW_EH_PE_FORMAT) {
	case 0: /* absptr */
	case DW_EH_PE_UDATA8:
	case DW_EH_PE_SDATA8:
		return 8;
	case DW_EH_PE_UDATA4:
	case DW_EH_PE_SDATA4:
		return 4;
	default:
		return 0;
	}
}

static bool table_of_hdr(struct oracle_module *module)
{
	const struct uw_section *hdr = &module->image->eh_frame_hdr;
	struct cursor c = cursor_of(hdr->data, hdr->data ? hdr->size : 0);
	uint8_t version = cursor_u8(&c), pointer = cursor_u8(&c), count = cursor_u8(&c),
		table = cursor_u8(&c);
	uint32_t n;

	if (c.bad || version != 1 || count != DW_EH_PE_UDATA4 || table != HDR_TABLE_ENCODING ||
	    pointer == DW_EH_PE_OMIT || !encoded_size(pointer))
		return false;
	(void)cursor_bytes(&c, encoded_size(pointer));
	n = cursor_u32(&c);
	if (c.bad || !n || n > cursor_left(&c) / sizeof(struct table_entry))
		return false;
	module->table_base = hdr->vaddr + module->bias;
	module->table = module->table_base + (uint64_t)(c.p - hdr->data);
	module->n_table = n;
	return true;
}

/* The pointer encoding of the CIE at @offset for its FDEs; DW_EH_PE_OMIT when it cannot be read. */
static uint8_t cie_encoding(const struct uw_section *section, uint64_t offset)
{
	struct cursor c = cursor_of(section->data + offset, section->size - offset);
	const char *augmentation;
	uint32_t length = cursor_u32(&c), id = cursor_u32(&c);
	uint8_t version = cursor_u8(&c);

	augmentation = cursor_string(&c);
	if (c.bad || length == UINT32_MAX || id || (version != 1 && version != 3))
		return DW_EH_PE_OMIT;
	(void)cursor_uleb(&c);
	(void)cursor_sleb(&c);
	if (version == 1)
		(void)cursor_u8(&c);
	else
		(void)cursor_uleb(&c);
	if (*augmentation != 'z')
		return c.bad || *augmentation ? DW_EH_PE_OMIT : 0;
	(void)cursor_uleb(&c);
	for (const char *a = augmentation + 1; *a && !c.bad; a++) {
		if (*a == 'R')
			return cursor_u8(&c);
		if (*a == 'L')
			(void)cursor_u8(&c);
		else if (*a == 'P')
			(void)cursor_bytes(&c, encoded_size(cursor_u8(&c)));
		else if (*a != 'S' && *a != 'B')
			return DW_EH_PE_OMIT;
	}
	return c.bad ? DW_EH_PE_OMIT : 0;
}

/* The first vaddr of an FDE's function; @c: its fields after the CIE pointer. */
static bool fde_start(const struct uw_section *section, struct cursor *c, uint8_t encoding,
		      uint64_t *ret_start)
{
	uint64_t at = section->vaddr + (uint64_t)(c->p - section->data), value;

	switch (encoding & DW_EH_PE_FORMAT) {
	case DW_EH_PE_SDATA4:
		value = (uint64_t)(int32_t)cursor_u32(c);
		break;
	case DW_EH_PE_UDATA4:
		value = cursor_u32(c);
		break;
	default:
		value = encoded_size(encoding) == 8 ? cursor_u64(c) : 0;
	}
	if (c->bad || !encoded_size(encoding) || encoding & 0x80)
		return false;
	if ((encoding & 0x70) == DW_EH_PE_PCREL)
		value += at;
	else if (encoding & 0x70)
		return false;
	*ret_start = value;
	return true;
}

static int entry_compare(const void *a, const void *b)
{
	int32_t x = ((const struct table_entry *)a)->start,
		y = ((const struct table_entry *)b)->start;

	return (x > y) - (x < y);
}

/* Walks .eh_frame: @table NULL counts only.  Entries are relative to the section's start. */
static size_t walk_eh_frame(const struct uw_section *section, struct table_entry *table,
			    size_t room)
{
	struct cursor c = cursor_of(section->data, section->size);
	size_t n = 0;

	while (cursor_left(&c) >= 8 && n < room) {
		uint64_t offset = (uint64_t)(c.p - section->data), start;
		uint32_t length = cursor_u32(&c), id;
		struct cursor fde;
		int64_t relative;

		if (!length || length == UINT32_MAX || length > cursor_left(&c))
			break;
		fde = cursor_of(c.p, length);
		c.p += length;
		id = cursor_u32(&fde);
		if (!id || fde.bad || id > offset + 4)
			continue;
		if (!fde_start(section, &fde, cie_encoding(section, offset + 4 - id), &start))
			continue;
		relative = (int64_t)(start - section->vaddr);
		if (relative < INT32_MIN || relative > INT32_MAX || offset > INT32_MAX)
			continue;
		if (table)
			table[n] = (struct table_entry){(int32_t)relative, (int32_t)offset};
		n++;
	}
	return n;
}

int oracle_table_init(struct oracle_space *slot, struct oracle_module *module)
{
	const struct uw_section *frames = &module->image->eh_frame;
	struct table_entry *table;
	size_t n;
	int r;

	if (table_of_hdr(module) || !frames->data)
		return 0;
	n = walk_eh_frame(frames, NULL, SIZE_MAX);
	if (!n)
		return 0;
	table = malloc(n * sizeof(*table));
	if (!table)
		return fail(-ENOMEM);
	n = walk_eh_frame(frames, table, n);
	qsort(table, n, sizeof(*table), entry_compare);
	module->made_table = table;
	module->table = MADE_TABLES + frames->vaddr + module->bias;
	r = uw_regions_add(&slot->regions, module->table, table, n * sizeof(*table));
	if (r == -ENOMEM)
		return trace(r);
	module->table_base = frames->vaddr + module->bias;
	module->n_table = r < 0 ? 0 : n;
	return 0;
}
