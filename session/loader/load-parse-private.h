/* load-parse-private.h - what travels between pw-files (load-partner.c) and pw-parse (load-parse.c).  Thread: loader.
 *
 *   request    struct wire_parse, path of the module; a descriptor
 *   question   struct wire_question, paths
 *   reply      i64 result; a descriptor, or the bytes
 */
#pragma once

#include "session/loader/load-parse.h"

enum { PARSE_READ_MAX = 64 << 10, PARSE_ROOM = HELPER_REQUEST_MAX };

struct wire_parse {
	uint64_t kind, urgent, vaddr, has_module, module_kind, wants_separate, serial;
	uint64_t has_file, has_memory, start, end, later;
	struct uw_build_id build_id;
};

enum wire_ask { ASK_OPEN, ASK_READ, TELL_BUILD_ID };
struct wire_question {
	uint64_t ask, address, len;
	struct uw_build_id build_id;
};

struct wire_reply {
	int64_t result;
	uint8_t bytes[PARSE_READ_MAX];
};
