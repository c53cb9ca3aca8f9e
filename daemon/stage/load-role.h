/* load-role.h - loader-work.h served in a helper process (base/helper.h): requests and answers as
 * bytes.  Thread: loader.
 *
 * A module is another object there, known by its serial: a load fills that one, and what it holds
 * comes back and is taken into ours (uw_module_pack).  Files and DWARF that were opened stay open
 * there. */
#pragma once

#include "daemon/base/helper.h"
#include "daemon/stage/loader-work.h"

struct load_role_arg {
	const char *root;
	bool copies; /* a module's file comes along as a copy: an engine reads it itself */
};
/* Its begin() takes a struct load_role_arg. */
extern const struct helper_role load_role;

/* The bytes of a request; -EMSGSIZE.  Returns how many. */
ssize_t load_request_pack(const struct load_request *request, const struct load_devices *devices,
			  uint8_t to[static HELPER_REQUEST_MAX]);
/* The answer to answer->request, whose module is filled as by load_worker_serve().  @fd came with
 * it, -1: none, and is consumed; @guard: for the memory of a process.  -EBADMSG, -ENOMEM. */
int load_answer_unpack(struct load_answer *answer, const uint8_t *data, size_t len, int fd,
		       struct memory_guard *guard);
