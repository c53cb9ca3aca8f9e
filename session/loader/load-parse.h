/* load-parse.h - reads a file, or an image in memory, of bytes that a target chose.  Thread: loader.
 *
 * Runs in place for an import, and in pw-parse for a session (load-role.h): it opens nothing itself and reads
 * through its uw_source only. */
#pragma once

#include "base/table.h"
#include "session/loader/load-request.h"

enum load_parse_kind {
	LOAD_PARSE_BUILD_ID, /* of source->fd */
	LOAD_PARSE_UNWIND,
	LOAD_PARSE_BOTH, /* its symbols too */
	LOAD_PARSE_SYMBOLS,
	LOAD_PARSE_LINES,  /* of `vaddrs`; the DWARF stays open */
	LOAD_PARSE_CLOSE,  /* closes that DWARF */
	LOAD_PARSE_FORGET, /* closes the module's file; in place the caller owns it */
};

struct load_parse {
	enum load_parse_kind kind;
	bool urgent;
	const uint64_t *vaddrs;
	size_t n_vaddrs;
	bool spans;		  /* wanted */
	struct uw_module *module; /* NULL for BUILD_ID, CLOSE, FORGET */
	struct uw_source *source; /* NULL for CLOSE, FORGET */
	/* out */
	int error; /* < 0 */
	struct uw_build_id build_id;
	struct load_answer *answer; /* its lines and cpu_ns; NULL as module */
};

enum {
	LOAD_LINES_MAX = 64,	/* of an address */
	LOAD_SPANS_MAX = 65536, /* of a request, besides the spans of its addresses */
};

struct load_parser {
	struct uw_module *lined; /* the module with its DWARF open; a reference */
	struct table functions;	 /* of that module, by address, with lines in answers */
	uint64_t spans_ns;	 /* CPU time spent on parts that no request asked for */
	/* Of pw-parse: serial of a module in main -> struct known_module *, which has what a reader of a jitdump or a Java VM keeps. */
	struct table known;
	uint64_t last_use; /* of any, CLOCK_MONOTONIC ns */
};
void load_parse(struct load_parser *parser, struct load_parse *work);
/* The module of pw-parse for the module @serial of main, borrowed.  NULL: no memory. */
struct uw_module *load_parser_module(struct load_parser *parser, uint32_t serial,
				     enum uw_module_kind kind, const char *path,
				     const struct uw_build_id *build_id);
/* Forgets the modules that were longest unused, which are read again on need, where there are many or the heap is large. */
void load_parser_keep_small(struct load_parser *parser);
