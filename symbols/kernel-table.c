/* kernel-table.c - see kernel-table.h. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "symbols/kernel-table.h"

enum { NAME_BYTES = 512, SYMBOLS_MAX = 2 << 20, NAMES_MAX = 128 << 20, PAGE = 4096 };
enum { DISTANCE_MAX = 1 << 20 }; /* as uw_kallsyms_name() */
/* In packed_symbol.name. */
#define LAST_OF_OWNER (1u << 31)
#define OF_MODULE (1u << 30)
#define NAME_MASK (OF_MODULE - 1)

static const char magic[8] = "pwkern1";

struct packed_symbol {
	uint32_t distance; /* from the first */
	uint32_t name;	   /* offset, and flags */
};

struct packed_head {
	char magic[8];
	struct uw_kernel_key key;
	int64_t text;	/* distance of _text from the first symbol */
	uint64_t names; /* bytes */
	uint64_t n;
};

struct uw_kernel_table {
	uint8_t *data;
	uint64_t first; /* address of the first symbol */
	const struct packed_symbol *symbols;
	size_t n;
	const char *names;
};

/* ---- writing ---- */

static bool is_kept(const struct uw_kallsyms_symbol *s)
{
	return s->owner != UW_KALLSYMS_OTHER && *s->name;
}

/* The index of the next kept symbol from @i on; its number when there is none. */
static size_t next_kept(const struct uw_kallsyms *ks, size_t i, struct uw_kallsyms_symbol *ret)
{
	for (; i < uw_kallsyms_count(ks); i++) {
		uw_kallsyms_at(ks, i, ret);
		if (is_kept(ret))
			break;
	}
	return i;
}

/* Does the owner of the symbol at @i have none behind it, before a symbol of another owner (also of one that is not kept)? */
static bool is_last(const struct uw_kallsyms *ks, size_t i, uint32_t owner)
{
	struct uw_kallsyms_symbol next;

	if (i + 1 >= uw_kallsyms_count(ks))
		return true;
	uw_kallsyms_at(ks, i + 1, &next);
	return next.owner != owner;
}

static int pack_symbols(const struct uw_kallsyms *ks, struct buffer *symbols, struct buffer *names,
			uint64_t *ret_first)
{
	struct uw_kallsyms_symbol s;
	size_t n = uw_kallsyms_count(ks), i = next_kept(ks, 0, &s);

	if (i == n)
		return -ENODATA;
	*ret_first = s.start;
	for (; i < n; i = next_kept(ks, i + 1, &s)) {
		struct packed_symbol packed = {
			.distance = (uint32_t)(s.start - *ret_first),
			.name = (uint32_t)names->len |
				(is_last(ks, i, s.owner) ? LAST_OF_OWNER : 0) |
				(s.owner == UW_KALLSYMS_CORE ? 0 : OF_MODULE),
		};

		if (s.start - *ret_first > UINT32_MAX || names->len > NAMES_MAX)
			return -ENOTSUP;
		buffer_append(symbols, &packed, sizeof(packed));
		buffer_append(names, s.name, strlen(s.name) + 1);
	}
	return symbols->bad || names->bad ? fail(-ENOMEM) : 0;
}

int uw_kernel_table_pack(const struct uw_kallsyms *ks, uint64_t text,
			 const struct uw_kernel_key *key, struct buffer *to)
{
	_cleanup_(buffer_deinit) struct buffer symbols = {0}, names = {0};
	struct packed_head head = {.key = *key};
	uint64_t first;
	int r = pack_symbols(ks, &symbols, &names, &first);

	if (r < 0)
		return r;
	memcpy(head.magic, magic, sizeof(magic));
	head.text = (int64_t)(text - first);
	head.names = names.len;
	head.n = symbols.len / sizeof(struct packed_symbol);
	buffer_append(to, &head, sizeof(head));
	buffer_append(to, symbols.data, symbols.len);
	buffer_append(to, names.data, names.len);
	return to->bad ? fail(-ENOMEM) : 0;
}

/* ---- reading ---- */

/* Symbols and names ascend, no name is longer than names are, and the last one ends. */
static bool is_sound(const struct packed_symbol *s, size_t n, const char *names, uint64_t len)
{
	uint32_t last = (uint32_t)(s[n - 1].name & NAME_MASK);

	if (s[0].distance || (s[0].name & NAME_MASK) || last >= len || len - last > NAME_BYTES ||
	    names[len - 1])
		return false;
	for (size_t i = 1; i < n; i++) {
		uint32_t before = s[i - 1].name & NAME_MASK, name = s[i].name & NAME_MASK;

		if (s[i].distance <= s[i - 1].distance || name <= before ||
		    name - before > NAME_BYTES || names[name - 1])
			return false;
	}
	return true;
}

static int table_read(struct uw_kernel_table *t, size_t len, uint64_t text,
		      const struct uw_kernel_key *key)
{
	struct cursor c = cursor_of(t->data, len);
	const struct packed_head *head = cursor_bytes(&c, sizeof(*head));
	const void *symbols;

	if (!head || memcmp(head->magic, magic, sizeof(magic)) != 0)
		return -EBADMSG;
	if (memcmp(&head->key, key, sizeof(*key)) != 0)
		return -ESTALE;
	if (!head->n || head->n > SYMBOLS_MAX || !head->names || head->names > NAMES_MAX)
		return -EBADMSG;
	symbols = cursor_bytes(&c, head->n * sizeof(struct packed_symbol));
	t->names = cursor_bytes(&c, head->names);
	if (c.bad || cursor_left(&c) || !is_sound(symbols, head->n, t->names, head->names))
		return -EBADMSG;
	t->symbols = symbols;
	t->n = head->n;
	t->first = text - (uint64_t)head->text;
	return 0;
}

int uw_kernel_table_new(uint8_t *data, size_t len, uint64_t text, const struct uw_kernel_key *key,
			struct uw_kernel_table **ret_table)
{
	struct uw_kernel_table *t = calloc(1, sizeof(*t));
	int r;

	if (!t) {
		free(data);
		return fail(-ENOMEM);
	}
	t->data = data;
	r = table_read(t, len, text, key);
	if (r < 0) {
		(void)uw_kernel_table_free(t);
		return r;
	}
	*ret_table = t;
	return 0;
}

struct uw_kernel_table *uw_kernel_table_free(struct uw_kernel_table *t)
{
	if (t)
		free(t->data);
	free(t);
	return NULL;
}

const char *uw_kernel_table_name(const struct uw_kernel_table *t, uint64_t address,
				 uint64_t *ret_start, bool *ret_core)
{
	uint64_t distance = address - t->first;
	size_t low = 0, high = t->n;
	const struct packed_symbol *s;

	while (low < high) { /* the first symbol beyond the address */
		size_t mid = low + (high - low) / 2;

		if (t->symbols[mid].distance <= distance)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low || distance > UINT32_MAX)
		return NULL;
	s = &t->symbols[low - 1];
	if (distance - s->distance > DISTANCE_MAX ||
	    ((s->name & LAST_OF_OWNER) && (t->first + s->distance) / PAGE != address / PAGE))
		return NULL;
	*ret_core = !(s->name & OF_MODULE);
	*ret_start = t->first + s->distance;
	return t->names + (s->name & NAME_MASK);
}
