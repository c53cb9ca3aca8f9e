/* load-role.h - loader-work.h served in two helper processes (base/helper.h): requests and answers as
 * bytes.  Thread: loader.
 *
 *   loader ── request ──► pw-files   opens /proc and files, has the rights for it, follows no file's bytes
 *                            │       (of a file it reads the magic, of /proc what the kernel wrote)
 *                            └─────► pw-parse   reads the files, has no right at all (load-parse.h)
 *
 * A module is another object there, known by its serial: a load fills that one, and what it holds
 * comes back and is taken into ours (uw_module_pack).  Files that were opened stay open in pw-files, DWARF in pw-parse. */
#pragma once

#include "base/helper.h"
#include "session/loader/loader-work.h"

struct load_role_arg {
	const char *root;
	bool copies;	      /* a module's file comes along as a copy: an engine reads it itself */
	int nice, nice_later; /* of pw-parse, while samples wait for it and not; may be one */
};
/* Its begin() takes a struct load_role_arg. */
extern const struct helper_role load_role;

/* The bytes of a request; -EMSGSIZE.  Returns how many. */
ssize_t load_request_pack(const struct load_request *request, const struct load_devices *devices,
			  uint8_t to[static HELPER_REQUEST_MAX]);
struct load_reply {
	const uint8_t *data, *parsed; /* of pw-files, of pw-parse (NULL: nothing) */
	size_t len, parsed_len;
	int fd; /* that came with it, -1: none */
};
/* The answer to answer->request, whose module is filled as by load_worker_serve().  reply->fd is consumed; @guard: for the
 * memory of a process.  -EBADMSG, -ENOMEM. */
int load_answer_unpack(struct load_answer *answer, const struct load_reply *reply,
		       struct memory_guard *guard);
