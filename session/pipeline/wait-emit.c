/* wait-emit.c - see wait-emit.h. */
#include "session/pipeline/wait-emit.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "session/pipeline/wait-reason.h"
#include "trace/slices.h"

/* "[sleep]" -> "sleep" */
static void slice_name(enum wait_reason reason, char *name, size_t size)
{
	const char *frame = wait_reason_frame(reason);
	size_t len = strlen(frame);

	(void)snprintf(name, size, "%.*s", len > 2 ? (int)len - 2 : 0, frame + 1);
}

int wait_emit(struct writer *writer, const struct outcome *o, struct uw_kernel_names *names,
	      uint32_t *ret_frame)
{
	enum wait_reason reason = wait_reason_of_outcome(o, names);
	char name[32];
	struct writer_slice slice = {
		.pid = o->info.pid,
		.tid = o->info.tid,
		.begin = o->info.began,
		.end = o->info.ended,
		.category = "wait",
		.name = name,
	};
	uint32_t mapping;
	int r;

	slice_name(reason, name, sizeof(name));
	r = o->info.began ? writer_slice(writer, &slice) : 0;
	if (r >= 0)
		r = writer_mapping(writer, WAIT_MODULE, NULL, 0, 0, 0, &mapping);
	if (r >= 0)
		r = writer_frame(writer, mapping, reason, wait_reason_frame(reason), ret_frame);
	return r < 0 ? trace(r) : 0;
}
