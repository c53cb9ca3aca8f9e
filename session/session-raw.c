/* session-raw.c - `record --perf-data`: the unchanged records, for stock perf.  Thread: main.
 *
 * In addition to the trace.  Two events: the sampled one, and the dummy event of the sideband
 * records. Earlier mappings are written as perf writes them, by records without a time.  If the
 * file cannot be written, it ends, and the recording continues. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "symbols/kallsyms.h"
#include "perf/attr.h"
#include "proc/procfs.h"
#include "session/session-private.h"

static void raw_check(struct session *s, int r)
{
	if (r >= 0 || s->raw_failed)
		return;
	s->raw_failed = true;
	session_note(s, "--perf-data: %s: the file is incomplete", strerror(-r));
}

static int write_kernel_mapping(struct session *s)
{
	static const char name[] = "[kernel.kallsyms]_text";
	_cleanup_(fd_closep) int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);
	uint64_t start = fd < 0 || !(session_code(s) & FRAMES_KERNEL) ? 0 : kernel_text_start(fd);

	if (!start)
		return 0;
	/* Up to the area of modules; perf finds the end itself. */
	return perfdata_out_mmap(s->options.raw, &(struct perfdata_out_mmap){
							 .pid = UINT32_MAX,
							 .start = start,
							 .len = 1 << 25,
							 .offset = start,
							 .path = name,
							 .path_len = sizeof(name) - 1,
						 });
}

int session_raw_start(struct session *s)
{
	const struct perf_options *o = perf_source_options(s->source);
	struct perf_event_attr attr;
	int r;

	attr_leader(o, o->stack_bytes, &attr);
	r = perfdata_out_event(s->options.raw, 0, &attr, o->leader.name);
	if (r >= 0) {
		attr_sideband(o, &attr);
		r = perfdata_out_event(s->options.raw, 1, &attr, "dummy");
	}
	if (r >= 0)
		r = write_kernel_mapping(s);
	return r < 0 ? trace(r) : 0;
}

void session_raw_record(void *arg, bool sideband, const struct perf_event_header *record)
{
	struct session *s = arg;

	if (s->raw_failed)
		return;
	if (record)
		raw_check(s, perfdata_out_record(s->options.raw, sideband, record));
	/* A round mark allows readers to process the samples before it: not before the mappings of
	 * their processes have been written. */
	else if (!loader_pending(s->loader))
		raw_check(s, perfdata_out_round(s->options.raw));
}

static uint32_t prot_of(const struct procfs_map *map)
{
	return (map->read ? PROT_READ : 0u) | (map->write ? PROT_WRITE : 0u) |
	       (map->exec ? PROT_EXEC : 0u);
}

static int write_mappings(struct session *s, const struct load_answer *a)
{
	const char *p = a->maps, *end = a->maps + a->maps_len;
	struct procfs_map map;
	int r = 0, got;

	while (p && r >= 0 && (got = procfs_maps_next(&p, end, &map)) != PROCFS_MAPS_END) {
		if (got < 0 || (!map.exec && (!map.path_len || *map.path != '/')))
			continue;
		r = perfdata_out_mmap(s->options.raw, &(struct perfdata_out_mmap){
							      .pid = a->request.pid,
							      .start = map.start,
							      .len = map.end - map.start,
							      .offset = map.offset,
							      .inode = map.inode,
							      .major = map.major,
							      .minor = map.minor,
							      .prot = prot_of(&map),
							      .path = map.path,
							      .path_len = map.path_len,
						      });
	}
	return r;
}

void session_raw_process(struct session *s, const struct load_answer *a)
{
	const struct process *process = a->request.process;
	int r;

	/* Once: the mappings of a refresh have no time and would be sorted before all else. */
	if (!s->options.raw || s->raw_failed || a->request.kind != LOAD_PROCESS || a->error ||
	    process->maps_read_at || process->replaced)
		return;
	r = perfdata_out_comm(s->options.raw, a->request.pid, a->request.pid, a->status.comm);
	for (size_t i = 0; i < a->n_threads && r >= 0; i++) {
		if (a->threads[i].tid != a->request.pid)
			r = perfdata_out_comm(s->options.raw, a->request.pid, a->threads[i].tid,
					      a->threads[i].comm);
	}
	if (r >= 0)
		r = write_mappings(s, a);
	raw_check(s, r);
}
