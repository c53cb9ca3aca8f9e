/* kernel-table.c - see kernel-table.h. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "symbols/kernel-table.h"

enum {
	NAME_BYTES = 512,
	SYMBOLS_MAX = 2 << 20,
	NAMES_MAX = 128 << 20,
	PAGE = 4096,
	BLOCK = 16 << 10
};
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
	int fd;
	uint8_t *bytes; /* of the file; blocks that were not read are 0 */
	uint8_t *read;	/* one for each block */
	size_t len;
	uint64_t first;		    /* address of the first symbol */
	size_t n, names, names_len; /* symbols; where their names begin */
	bool failed; /* a block could not be read: where the search ended is not the place */
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

/* Bytes of the file; NULL: they cannot be read. */
static const void *bytes_at(struct uw_kernel_table *t, size_t at, size_t len)
{
	if (at > t->len || len > t->len - at)
		return NULL;
	for (size_t block = at / BLOCK; block * BLOCK < at + len; block++) {
		size_t begin = block * BLOCK, room = min_u64(BLOCK, t->len - begin);

		if (!t->read[block] &&
		    read_fd_at(t->fd, t->bytes + begin, room, begin) != (ssize_t)room) {
			t->failed = true;
			return NULL;
		}
		t->read[block] = 1;
	}
	return t->bytes + at;
}

static struct packed_symbol symbol_at(struct uw_kernel_table *t, size_t i)
{
	struct packed_symbol s = {UINT32_MAX, NAME_MASK}; /* beyond all */
	const void *p = bytes_at(t, sizeof(struct packed_head) + i * sizeof(s), sizeof(s));

	if (p)
		memcpy(&s, p, sizeof(s));
	return s;
}

static const char *name_at(struct uw_kernel_table *t, size_t at)
{
	size_t room = at < t->names_len ? min_u64(NAME_BYTES, t->names_len - at) : 0;
	const char *name = room ? bytes_at(t, t->names + at, room) : NULL;

	return name && memchr(name, 0, room) ? name : NULL;
}

static int read_head(struct uw_kernel_table *t, uint64_t text, const struct uw_kernel_key *key)
{
	const struct packed_head *head = bytes_at(t, 0, sizeof(*head));

	if (!head || memcmp(head->magic, magic, sizeof(magic)) != 0)
		return -EBADMSG;
	if (memcmp(&head->key, key, sizeof(*key)) != 0)
		return -ESTALE;
	if (!head->n || head->n > SYMBOLS_MAX || !head->names || head->names > NAMES_MAX)
		return -EBADMSG;
	t->n = head->n;
	t->names = sizeof(*head) + head->n * sizeof(struct packed_symbol);
	t->names_len = head->names;
	t->first = text - (uint64_t)head->text;
	return t->names + t->names_len == t->len ? 0 : -EBADMSG;
}

int uw_kernel_table_new(int fd, size_t len, uint64_t text, const struct uw_kernel_key *key,
			struct uw_kernel_table **ret_table)
{
	struct uw_kernel_table *t = calloc(1, sizeof(*t));
	int r;

	if (!t) {
		(void)fd_close(fd);
		return fail(-ENOMEM);
	}
	t->fd = fd;
	t->len = len;
	t->bytes = calloc(1, len + 1); /* its pages are made when they are read */
	t->read = calloc(1, len / BLOCK + 1);
	r = t->bytes && t->read ? read_head(t, text, key) : fail(-ENOMEM);
	if (r < 0) {
		(void)uw_kernel_table_free(t);
		return r;
	}
	*ret_table = t;
	return 0;
}

struct uw_kernel_table *uw_kernel_table_free(struct uw_kernel_table *t)
{
	if (!t)
		return NULL;
	(void)fd_close(t->fd);
	free(t->bytes);
	free(t->read);
	free(t);
	return NULL;
}

const char *uw_kernel_table_name(struct uw_kernel_table *t, uint64_t address, uint64_t *ret_start,
				 bool *ret_core)
{
	uint64_t distance = address - t->first;
	struct packed_symbol s = {0, 0};
	size_t low;

	t->failed = false;
	low = bisect(i, t->n, symbol_at(t, i).distance <= distance);
	if (low)
		s = symbol_at(t, low - 1);
	if (!low || t->failed || distance - s.distance > DISTANCE_MAX ||
	    ((s.name & LAST_OF_OWNER) && (t->first + s.distance) / PAGE != address / PAGE))
		return NULL;
	*ret_core = !(s.name & OF_MODULE);
	*ret_start = t->first + s.distance;
	return name_at(t, s.name & NAME_MASK);
}
