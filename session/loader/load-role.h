/* load-role.h - loader-work.h served in two helper processes (base/helper.h): requests and answers as
 * bytes.  Thread: loader.
 *
 *   loader ── request ──► pw-files   opens /proc and files, has the privileges for it, parses nothing
 *                          ▲  │      (it reads the magic of a file, and the kernel's text in /proc)
 *        open PATH,        │  │ request, descriptor;
 *        read ADDRESS      │  ▼ replies: descriptor, bytes, or a refusal
 *                         pw-parse   parses the files (load-parse.h), has no privilege and opens nothing
 *
 * Each of the two has a window for its part of the answer.  In pw-parse a module is another object, known by its serial:
 * the answer has its contents, which go into main's module (uw_module_pack).  Opened files stay open in pw-files, the DWARF
 * of one module in pw-parse. */
#pragma once

#include "base/helper.h"
#include "session/loader/loader-work.h"

struct load_role_arg {
	char root[256];
	bool copies; /* a copy of a module's file comes with the answer: an engine reads it itself */
	int nice,
		nice_later; /* of pw-parse, while samples wait for the request and otherwise; may be equal */
};
_Static_assert(sizeof(struct load_role_arg) <= HELPER_ARG_MAX, "helper_role.arg_size");
/* begin() of both takes a struct load_role_arg. */
extern const struct helper_role load_role, load_parse_role;

/* The bytes of a request; -EMSGSIZE.  Returns how many. */
ssize_t load_request_pack(const struct load_request *request, const struct load_devices *devices,
			  uint8_t to[static HELPER_REQUEST_MAX]);
struct load_reply {
	const uint8_t *data, *parsed; /* of pw-files, of pw-parse (NULL: nothing) */
	size_t len, parsed_len;
	int fd; /* that came with it, -1: none */
};
/* The answer to answer->request, with the module filled as by load_worker_serve().  Consumes reply->fd.  @guard: for the
 * memory of a process.  -EBADMSG, -ENOMEM. */
int load_answer_unpack(struct load_answer *answer, const struct load_reply *reply,
		       struct memory_guard *guard);

/* For pw-parse while it serves (here for tests).  A descriptor of the first path that may be opened; < 0: refused. */
int load_ask_open(struct helper_call *call, const char *const *paths, size_t n, size_t *ret_index);
ssize_t load_ask_read(struct helper_call *call, uint64_t address, void *to, size_t len);
