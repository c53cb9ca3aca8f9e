/* load-parse.h - what is read out of a file or an image in memory: the only code of a session's helper
 * processes that follows what a target wrote.  Thread: loader.
 *
 * An import does it in place (load_parse()).  A session has it done by pw-parse, the partner of pw-files
 * (load-role.c), which has no capability, no file system and no system call but those that work on given
 * descriptors.  What a uw_source opens and reads it asks pw-files for:
 *
 *   pw-files ── request, descriptor ──► pw-parse
 *      ▲  ◄── open PATH, read ADDRESS ──    │
 *      └── descriptor, bytes, or no ──►     │ answer: module (symbols/module.c), lines
 */
#pragma once

#include "base/helper.h"
#include "base/table.h"
#include "session/loader/loader.h"

/* What load_worker.mark says of the call in hand: st_dev of the file that is read, else one of
 * these. */
#define LOAD_MARK_PROCESS (1ull << 63) /* /proc of the process, or the walk along a path */
#define LOAD_MARK_CLOSING (1ull << 62) /* and the device: a file of an earlier request is closed */

enum load_parse_kind {
	LOAD_PARSE_BUILD_ID, /* of source->fd */
	LOAD_PARSE_UNWIND,
	LOAD_PARSE_BOTH, /* its symbols too */
	LOAD_PARSE_SYMBOLS,
	LOAD_PARSE_LINES,  /* of `vaddr`; the DWARF stays open */
	LOAD_PARSE_CLOSE,  /* that */
	LOAD_PARSE_FORGET, /* closes the file of the module, in pw-parse */
};

struct load_parse {
	enum load_parse_kind kind;
	bool urgent;
	uint64_t vaddr;
	struct uw_module *module; /* NULL for BUILD_ID, CLOSE, FORGET */
	struct uw_source *source; /* NULL for CLOSE, FORGET */
	/* out */
	int error; /* < 0 */
	struct uw_build_id build_id;
	struct load_answer *answer; /* its lines and cpu_ns; NULL as module */
};

struct load_parser {
	struct uw_module *lined; /* the module whose DWARF is open; a reference */
};
void load_parse(struct load_parser *parser, struct load_parse *work);

/* ---- by pw-parse ---- */

/* Its begin() takes a struct load_role_arg. */
extern const struct helper_role load_parse_role;

/* In pw-files: which files pw-parse has.  It keeps the file of a module until it is told to close it, as to close one asks its
 * file system too. */
struct load_partner {
	struct helper_call *call; /* that is served */
	struct table handed;	  /* serial of a module -> struct handed * */
};
/* Has pw-parse do it.  @serial: of the module in hand.  < 0 and work->error: it has not. */
int load_parse_elsewhere(struct load_partner *partner, uint32_t serial, struct load_parse *work);
/* Has it close the module's file, where it has that. */
void load_parse_forget(struct load_partner *partner, uint32_t serial);

/* What pw-parse may ask for, while it serves.  A descriptor of the first path that may be opened, or < 0: refused. */
int load_ask_open(struct helper_call *call, const char *const *paths, size_t n, size_t *ret_index);
ssize_t load_ask_read(struct helper_call *call, uint64_t address, void *to, size_t len);

/* What pw-parse answered about answer->request, into its module; @file as for uw_module_unpack().  -EBADMSG,
 * -ENOMEM, or the error that it came to. */
int load_parsed_unpack(struct load_answer *answer, const uint8_t *data, size_t len, int file);
