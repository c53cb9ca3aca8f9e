/* profile-process.c - ProcessTree: what processes and threads are called from here on;
 * profile_life.c says whose names they are. */
#include "base/error.h"
#include "profile/profile-reader.h"
#include "protos/trace.fields.h"

enum {
	MAX_CMDLINE = 4096,
	MAX_CGROUP = 4096,
};

/* "/usr/bin/python3" -> "python3"; "postgres: walwriter" and "[kthreadd]" stay: only the part
 * before a blank is a path, and only argv[0] is. */
static size_t base_name_at(const char *text, size_t len)
{
	size_t at = 0;

	for (size_t i = 0; i + 1 < len && text[i] != ' '; i++)
		if (text[i] == '/')
			at = i + 1;
	return at;
}

static int read_process(struct reader *r, uint32_t sequence, struct cursor c)
{
	struct profile_process read = {0};
	struct wire_field f, first = {0}, cgroup = {0};
	char line[MAX_CMDLINE];
	bool has_pid = false, is_comm = false;
	uint64_t life = 0;
	size_t n = 0, at;
	int e;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, PROCESS_TREE__PROCESS__PID)) {
			read.pid = (uint32_t)f.value;
			has_pid = true;
		} else if (wire_is(&f, PROCESS_TREE__PROCESS__PPID)) {
			read.ppid = (uint32_t)f.value;
		} else if (wire_is(&f, PROCESS_TREE__PROCESS__IS_KTHREAD)) {
			read.kernel_thread = f.value;
		} else if (wire_is(&f, PROCESS_TREE__PROCESS__CMDLINE_IS_COMM)) {
			is_comm = f.value;
		} else if (wire_is(&f, PROCESS_TREE__PROCESS__PERFWIND_LIFE)) {
			life = f.value;
		} else if (wire_is_bytes(&f, PROCESS_TREE__PROCESS__PERFWIND_CGROUP)) {
			cgroup = f;
		} else if (wire_is_bytes(&f, PROCESS_TREE__PROCESS__CMDLINE)) {
			size_t len = min_u64(f.len, sizeof(line) - n);

			if (!first.data)
				first = f;
			else if (len)
				line[n++] = ' ';
			len = min_u64(f.len, sizeof(line) - n);
			if (len)
				memcpy(line + n, f.data, len);
			n += len;
		}
	}
	if (c.bad)
		return READER_BROKEN;
	if (!has_pid)
		return 0;
	at = is_comm || read.kernel_thread || !first.data
		     ? 0
		     : base_name_at((const char *)first.data, first.len);
	if (first.len > at) {
		e = reader_string(r, first.data + at, min_u64(first.len - at, 256), &read.name);
		if (e < 0)
			return trace(e);
	}
	e = reader_string(r, line, n, &read.cmdline);
	if (e >= 0 && cgroup.len)
		e = reader_string(r, cgroup.data, min_u64(cgroup.len, MAX_CGROUP), &read.cgroup);
	if (e >= 0)
		e = reader_name_process(r, sequence, life, &read);
	return e < 0 ? trace(e) : 0;
}

static int read_thread(struct reader *r, uint32_t sequence, struct cursor c)
{
	uint32_t tid = 0, pid = 0, name = 0, process;
	bool has_tid = false;
	struct wire_field f;
	int e = 0;

	while (wire_next(&c, &f)) {
		if (wire_is(&f, PROCESS_TREE__THREAD__TID)) {
			tid = (uint32_t)f.value;
			has_tid = true;
		} else if (wire_is(&f, PROCESS_TREE__THREAD__TGID)) {
			pid = (uint32_t)f.value;
		} else if (wire_is_bytes(&f, PROCESS_TREE__THREAD__NAME) && f.len) {
			e = reader_string(r, f.data, min_u64(f.len, 256), &name);
			if (e < 0)
				return trace(e);
		}
	}
	if (c.bad)
		return READER_BROKEN;
	if (!has_tid || (!pid && !reader_process_of_thread(r, tid, &process)))
		return 0;
	if (pid)
		e = reader_current_process(r, sequence, pid, &process);
	if (e >= 0)
		e = reader_name_thread(r, process, tid, name);
	return e < 0 ? trace(e) : 0;
}

int reader_process_tree(struct reader *r, uint32_t sequence, struct cursor c)
{
	struct wire_field f;
	int e = 0;

	while (wire_next(&c, &f)) {
		if (wire_is_bytes(&f, PROCESS_TREE__PROCESSES))
			e = read_process(r, sequence, wire_message(&f));
		else if (wire_is_bytes(&f, PROCESS_TREE__THREADS))
			e = read_thread(r, sequence, wire_message(&f));
		if (e)
			return e < 0 ? trace(e) : e;
	}
	return c.bad ? READER_BROKEN : 0;
}
