/* load-request.c - see load-request.h. */
#include <fcntl.h>

#include "base/util.h"
#include "session/loader/load-request.h"

uint32_t load_given_new(int fd)
{
	int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return copy < 0 ? 0 : (uint32_t)copy + 1;
}

void load_request_deinit(struct load_request *request)
{
	(void)fd_close(load_given(request));
	request->given = 0;
	free(request->vaddrs);
	request->vaddrs = NULL;
	request->n_vaddrs = request->n_known = 0;
}

void load_answer_deinit(struct load_answer *answer)
{
	load_request_deinit(&answer->request);
	free(answer->maps);
	free(answer->cmdline);
	free(answer->cgroup);
	free(answer->mapping.path);
	free(answer->threads);
	free(answer->stack);
	(void)procfs_memory_free(answer->memory);
	for (size_t i = 0; i < answer->n_lines; i++) {
		free(answer->lines[i].function);
		free(answer->lines[i].file);
	}
	free(answer->lines);
	free(answer->spans);
	*answer = (struct load_answer){0};
}
