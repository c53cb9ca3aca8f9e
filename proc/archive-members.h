/* archive-members.h - the files in a tarball of `perf archive`, as its bytes come.  Thread: any (of a process without
 * privileges: the bytes are foreign).
 *
 * `perf archive` packs a part of the build-id cache (file-places.c).  A file is known by the last two parts of its name alone:
 *
 *   usr/lib/libx.so/ab01...ef/elf        build id, kind
 *
 * No other part of a name is used, and links are passed over: no name of the archive becomes a path. */
#pragma once

#include "symbols/module.h"

enum archive_kind {
	ARCHIVE_ELF,
	ARCHIVE_DEBUG,
	ARCHIVE_VDSO,
	ARCHIVE_KALLSYMS,
	ARCHIVE_KINDS,
};

struct archive_member {
	struct uw_build_id id;
	enum archive_kind kind;
	uint64_t size;
};

enum { ARCHIVE_BLOCK = 512, ARCHIVE_NAME_MAX = 4096 };
enum { ARCHIVE_END = 1 }; /* of the archive: what follows means nothing */

struct archive_reader {
	/* A file, then all its bytes in pieces.  < 0: archive_read() returns it. */
	int (*member)(void *arg, const struct archive_member *member);
	int (*data)(void *arg, const uint8_t *data, size_t len);
	void *arg;
	/* private */
	uint8_t block[ARCHIVE_BLOCK];
	size_t n_block;
	uint64_t left; /* bytes of the member, without the padding */
	size_t padding;
	int state;
	char name[ARCHIVE_NAME_MAX]; /* of the next header, where one went before it; "": none */
	size_t n_name;
	char words[ARCHIVE_NAME_MAX]; /* of a pax header */
	size_t n_words;
	uint64_t size; /* of the next member, by a pax header */
	bool has_size;
};

/* "elf", "debug", "vdso", "kallsyms". */
const char *archive_kind_name(enum archive_kind kind);
/* The next bytes.  0; ARCHIVE_END; -EBADMSG: it is not a tar archive, or damaged. */
int archive_read(struct archive_reader *r, const uint8_t *data, size_t len);
/* Is the archive at a place where it may end? */
bool archive_may_end(const struct archive_reader *r);
