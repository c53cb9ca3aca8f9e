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
#include "symbols/kernel-table.h"

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
