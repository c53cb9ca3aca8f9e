/* kernel-names.c - see kernel-names.h.
 *
 * The table is in the file kernel-BOOT, of one boot; its key has a hash of the loaded modules too.  Where modules are loaded
 * while symbols are read, no table is written. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/cache-dir.h"
#include "base/error.h"
#include "base/table.h"
#include "symbols/kernel-names.h"

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

enum {
	HEAD = 4096,		/* of /proc/kallsyms, which shows whether there are addresses */
	MODULES_MAX = 1 << 20,	/* bytes of /proc/modules */
	TABLE_MAX = 160 << 20,	/* bytes of a file */
	TABLES_BYTES = 32 << 20 /* of all boots: containers share a home */
};
#define PREFIX "kernel-"

struct uw_kernel_names {
	char *root;
	int fd;	   /* /proc/kallsyms: its contents depend on the process that opened it */
	int cache; /* a folder, -1: none */
	struct uw_kallsyms *since, *all;
	struct uw_kernel_table *table;
	uint64_t modules; /* hash of the list that `all` or the table is of */
	bool asked, may_look, is_new;
	uint32_t generation;
	int error;
};

/* ---- what the symbols are of ---- */

static int read_proc(const struct uw_kernel_names *n, const char *name, size_t max, char **ret_text,
		     size_t *ret_len)
{
	char path[PATH_MAX];

	(void)snprintf(path, sizeof(path), "%s/proc/%s", n->root, name);
	return read_file(path, max, ret_text, ret_len);
}

/* "name size references users state address": references and state change all the time. */
static uint64_t hash_of_modules(const struct uw_kernel_names *n)
{
	_cleanup_(freep) char *text = NULL;
	uint64_t hash = 0;
	char *line, *rest;

	if (read_proc(n, "modules", MODULES_MAX, &text, NULL) < 0)
		return 0; /* a kernel without modules */
	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		const char *address = strstr(line, " 0x");
		size_t name = strcspn(line, " "), size = name + strspn(line + name, " ");

		size += strcspn(line + size, " ");
		hash = hash_seeded(hash, line, size);
		if (address)
			hash = hash_seeded(hash, address, strcspn(address + 1, " ") + 1);
	}
	return hash;
}

/* The name of the file and its key; false: the boot is not known. */
static bool key_of(const struct uw_kernel_names *n, struct uw_kernel_key *ret_key,
		   char ret_name[static 32])
{
	_cleanup_(freep) char *boot = NULL;
	uint64_t words[4];
	size_t len;

	if (read_proc(n, "sys/kernel/random/boot_id", 64, &boot, &len) < 0 || len < 32)
		return false;
	for (uint64_t i = 0; i < 3; i++)
		words[i] = hash_seeded(i, boot, len);
	words[3] = n->modules;
	memcpy(ret_key->bytes, words, sizeof(words));
	(void)snprintf(ret_name, 32, PREFIX "%016lx", words[0]);
	return true;
}

/* ---- reading ---- */

static uint64_t text_start(const struct uw_kernel_names *n)
{
	return lseek(n->fd, 0, SEEK_SET) < 0 ? 0 : kernel_text_start(n->fd);
}

static bool read_table(struct uw_kernel_names *n)
{
	struct uw_kernel_key key;
	uint64_t text;
	char name[32];
	size_t len;
	int fd;

	if (n->cache < 0)
		return false;
	n->modules = hash_of_modules(n);
	if (!key_of(n, &key, name) || cache_dir_open_file(n->cache, name, TABLE_MAX, &fd, &len) < 0)
		return false;
	text = text_start(n);
	if (!text) {
		(void)fd_close(fd);
		return false;
	}
	return uw_kernel_table_new(fd, len, text, &key, &n->table) >= 0;
}

/* /proc/kallsyms as a whole, in place of all that is known. */
static void read_all(struct uw_kernel_names *n)
{
	struct uw_kallsyms *all = NULL;
	uint64_t before = hash_of_modules(n);
	int r = lseek(n->fd, 0, SEEK_SET) < 0 ? -errno : uw_kallsyms_new(n->fd, &all);

	if (r) {
		n->error = r < 0 ? r : -EACCES;
		return;
	}
	n->is_new = before == hash_of_modules(n) && (!n->table || before != n->modules);
	n->modules = before;
	(void)uw_kallsyms_free(n->all);
	n->table = uw_kernel_table_free(n->table);
	n->all = all;
}

/* @settled: the name cannot have changed, and nothing better can be read. */
static const char *known_name(const struct uw_kernel_names *n, uint64_t address,
			      uint64_t *ret_start, bool *ret_settled)
{
	const char *name;

	*ret_settled = false;
	if (n->all) {
		*ret_settled = uw_kallsyms_in_core(n->all, address);
		return uw_kallsyms_name(n->all, address, ret_start);
	}
	name = n->table ? uw_kernel_table_name(n->table, address, ret_start, ret_settled) : NULL;
	*ret_settled &= name != NULL;
	return name;
}

void uw_kernel_names_read(struct uw_kernel_names *n)
{
	if (n->asked)
		return;
	n->asked = true;
	if (!read_table(n))
		read_all(n);
}

const char *uw_kernel_name(struct uw_kernel_names *n, uint64_t address, uint64_t *ret_start)
{
	const char *name = uw_kallsyms_name(n->since, address, ret_start);
	bool settled;

	if (name)
		return name;
	uw_kernel_names_read(n);
	name = known_name(n, address, ret_start, &settled);
	if (settled || n->error || (!n->may_look && (name || n->all)))
		return name;
	n->may_look = false;
	if (!name && !n->all) {
		read_all(n);
	} else if (hash_of_modules(n) != n->modules) {
		n->generation++;
		read_all(n);
	} else {
		return name;
	}
	return known_name(n, address, ret_start, &settled);
}

/* ---- what comes and goes ---- */

int uw_kernel_names_add(struct uw_kernel_names *n, uint64_t start, uint32_t len, const char *name)
{
	return uw_kallsyms_add(n->since, start, len, name);
}

void uw_kernel_names_remove(struct uw_kernel_names *n, uint64_t start)
{
	uw_kallsyms_remove(n->since, start);
	if (n->all)
		uw_kallsyms_remove(n->all, start);
}

void uw_kernel_names_tick(struct uw_kernel_names *n)
{
	n->may_look = n->fd >= 0;
}

uint64_t uw_kernel_names_text(const struct uw_kernel_names *n)
{
	return text_start(n);
}

uint32_t uw_kernel_names_generation(const struct uw_kernel_names *n)
{
	return n->generation;
}

int uw_kernel_names_error(const struct uw_kernel_names *n)
{
	return n->error;
}

/* ---- making and freeing ---- */

static void names_freep(struct uw_kernel_names **n)
{
	(void)uw_kernel_names_free(*n);
}

/* Is an address other than 0 among the first lines? */
static int are_hidden(int fd)
{
	char head[HEAD];
	ssize_t n = read_fd_at(fd, head, sizeof(head), 0);

	if (n < 0)
		return (int)n;
	for (const char *p = head, *end = head + n; p && p < end; p++) {
		for (; p < end && *p == '0'; p++)
			;
		if (p < end && *p != ' ')
			return 0;
		p = memchr(p, '\n', (size_t)(end - p));
		if (!p)
			break;
	}
	return UW_KERNEL_HIDDEN;
}

int uw_kernel_names_new(const char *root, int cache, struct uw_kernel_names **ret_names)
{
	struct uw_kernel_names *made = calloc(1, sizeof(*made));
	_cleanup_(names_freep) struct uw_kernel_names *n = made;
	char path[PATH_MAX];
	int r;

	if (!n) {
		(void)fd_close(cache);
		return fail(-ENOMEM);
	}
	n->cache = cache;
	n->may_look = true;
	(void)snprintf(path, sizeof(path), "%s/proc/kallsyms", root);
	n->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (n->fd < 0)
		return -errno;
	n->root = strdup(root);
	r = n->root ? uw_kallsyms_new_empty(&n->since) : fail(-ENOMEM);
	if (r >= 0)
		r = are_hidden(n->fd);
	*ret_names = r == 0 ? take(n) : NULL;
	return r;
}

int uw_kernel_names_new_of(struct uw_kallsyms *symbols, struct uw_kernel_names **ret_names)
{
	struct uw_kernel_names *n = calloc(1, sizeof(*n));

	if (!n || uw_kallsyms_new_empty(&n->since) < 0) {
		free(n);
		return fail(-ENOMEM);
	}
	n->fd = n->cache = -1;
	n->asked = true;
	n->all = symbols;
	*ret_names = n;
	return 0;
}

static void write_table(struct uw_kernel_names *n)
{
	_cleanup_(buffer_deinit) struct buffer bytes = {0};
	struct uw_kernel_key key;
	char name[32];
	uint64_t text = text_start(n);

	if (!text || !key_of(n, &key, name) || uw_kernel_table_pack(n->all, text, &key, &bytes) < 0)
		return;
	if (cache_dir_write(n->cache, name, bytes.data, bytes.len) >= 0)
		cache_dir_trim(n->cache, PREFIX, TABLES_BYTES);
}

struct uw_kernel_names *uw_kernel_names_free(struct uw_kernel_names *n)
{
	if (!n)
		return NULL;
	if (n->is_new && n->cache >= 0)
		write_table(n);
	(void)uw_kallsyms_free(n->since);
	(void)uw_kallsyms_free(n->all);
	(void)uw_kernel_table_free(n->table);
	(void)fd_close(n->fd);
	(void)fd_close(n->cache);
	free(n->root);
	free(n);
	return NULL;
}
