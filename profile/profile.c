/* profile.c - see profile.h: the file, what it seems to be, and how things are shown. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "profile/profile_reader.h"

enum { INFLATE_RATIO = 64, INFLATE_BASE = 16 << 20 }; /* deflate of stacks reaches 10 */
#define MAX_FILE (16ull << 30)

/* ---- not a trace ---- */
static bool starts_with(const uint8_t *data, size_t len, const char *magic, size_t n)
{
	return len >= n && !memcmp(data, magic, n);
}

static bool is_text(const uint8_t *data, size_t len)
{
	size_t n = min_u64(len, 512);

	for (size_t i = 0; i < n; i++)
		if (data[i] < ' ' && !strchr("\t\n\r\f\033", data[i]))
			return false;
	return n && !memchr(data, 0, n);
}

/* What a file that is no trace seems to be. */
static const char *foreign_kind(const uint8_t *data, size_t len)
{
	static const struct {
		const char *magic;
		size_t len;
		const char *kind;
	} kinds[] = {
		{"PERFILE2", 8, "a perf.data file of perf(1)"},
		{"2ELIFREP", 8, "a perf.data file of perf(1), of the other byte order"},
		{"\177ELF", 4, "an ELF file (a program or library)"},
		{"\x1f\x8b", 2, "gzip-compressed: unpack it first"},
		{"PK\3\4", 4, "a zip archive"},
		{"\x28\xb5\x2f\xfd", 4, "zstd-compressed: unpack it first"},
		{"\xfd"
		 "7zXZ",
		 5, "xz-compressed: unpack it first"},
		{"SIMPLEPERF", 10, "a simpleperf file"},
		{"{", 1, "JSON"},
		{"<", 1, "HTML or XML"},
	};

	if (!len)
		return "empty";
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (starts_with(data, len, kinds[i].magic, kinds[i].len))
			return kinds[i].kind;
	return is_text(data, len) ? "a text file" : "of a kind unknown here";
}

static int say_foreign(const uint8_t *data, size_t len, char *error, size_t error_size)
{
	(void)snprintf(error, error_size, "not a trace: it is %s", foreign_kind(data, len));
	return fail(-EBADMSG);
}

/* ---- reading ---- */
static void reader_freep(struct reader **reader)
{
	struct reader *r = *reader;

	if (!r)
		return;
	for (size_t i = 0; i < r->n_sequences; i++)
		sequence_deinit(&r->sequences[i]);
	free(r->sequences);
	table_deinit(&r->sequence_by_id);
	free(r->samples);
	free(r->follower_counts);
	for (size_t i = 0; i < ARRAY_SIZE(r->clocks); i++)
		free(r->clocks[i].pairs);
	free(r->symbols);
	table_deinit(&r->module_by_hash);
	table_deinit(&r->frame_by_hash);
	table_deinit(&r->stack_by_hash);
	free(r->module_next);
	free(r->frame_next);
	free(r->stack_next);
	table_deinit(&r->process_by_sequence);
	table_deinit(&r->process_by_pid);
	table_deinit(&r->process_by_life);
	table_deinit(&r->thread_by_key);
	table_deinit(&r->thread_by_name);
	table_deinit(&r->thread_by_tid);
	free(r->lives);
	free(r->thread_sampled);
	table_deinit(&r->stat_by_name);
	table_deinit(&r->note_by_text);
	table_deinit(&r->counts);
	table_deinit(&r->buffer_of_sequence);
	free(r->scratch);
	free(r);
}

static void profile_deinitp(struct profile *p)
{
	profile_deinit(p);
}

int profile_parse(const void *data, size_t len, struct profile *ret_profile, char *error,
		  size_t error_size)
{
	_cleanup_(profile_deinitp) struct profile p = {0};
	_cleanup_(reader_freep) struct reader *r = calloc(1, sizeof(*r));
	size_t good;
	int e;

	if (!r)
		return fail(-ENOMEM);
	r->profile = &p;
	r->primary_clock = CLOCK_ID_BOOTTIME;
	r->inflate_budget = INFLATE_BASE + (uint64_t)len * INFLATE_RATIO;
	e = reader_packets(r, data, len, &good);
	if (e < 0)
		return trace(e);
	if (!good)
		return say_foreign(data, len, error, error_size);
	if (e == READER_BROKEN)
		p.truncated_at = good;
	e = reader_finish(r);
	if (e < 0)
		return trace(e);
	*ret_profile = p;
	p = (struct profile){0};
	return 0;
}

int profile_read(const char *path, struct profile *ret_profile, char *error, size_t error_size)
{
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(freep) char *data = NULL;
	struct stat st;
	size_t len;
	int e;

	fd = !strcmp(path, "-") ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
				: open(path, O_RDONLY | O_CLOEXEC);
	e = fd < 0 || fstat(fd, &st) < 0 ? -errno : S_ISDIR(st.st_mode) ? -EISDIR : 0;
	if (e == 0)
		e = read_fd(fd, MAX_FILE, &data, &len);
	if (e < 0) {
		(void)snprintf(error, error_size, "%s: %s", path, strerror(-e));
		return fail(e);
	}
	e = profile_parse(data, len, ret_profile, error, error_size);
	if (e == -EBADMSG) {
		char why[256];

		(void)snprintf(why, sizeof(why), "%s", error);
		(void)snprintf(error, error_size, "%s: %s", path, why);
	} else if (e < 0) {
		(void)snprintf(error, error_size, "%s: %s", path, strerror(-e));
	}
	return e < 0 ? trace(e) : 0;
}

void profile_deinit(struct profile *p)
{
	string_table_deinit(&p->strings);
	free(p->modules);
	free(p->frames);
	free(p->lines);
	free(p->stack_frames);
	free(p->stacks);
	free(p->samples);
	free(p->all_samples);
	free(p->events);
	free(p->threads);
	free(p->processes);
	free(p->stats);
	free(p->notes);
	free(p->counts);
	free(p->followers);
	*p = (struct profile){0};
}

/* ---- how things are shown ---- */
static const char *text_or(const struct profile *p, uint32_t id, const char *otherwise)
{
	return id ? string_table_text(&p->strings, id) : otherwise;
}

const char *profile_line_name(const struct profile *p, const struct profile_frame *frame,
			      uint32_t line, char *to, size_t size)
{
	uint32_t function = p->lines[frame->first_line + line].function;
	const char *path, *base;

	if (function && *text_or(p, function, "")) {
		(void)snprintf(to, size, "%s", text_or(p, function, ""));
		return to;
	}
	if (frame->module == UINT32_MAX) {
		(void)snprintf(to, size, "[unknown]");
		return to;
	}
	path = text_or(p, p->modules[frame->module].path, "[unknown]");
	base = strrchr(path, '/');
	base = base && base[1] ? base + 1 : path;
	if (frame->rel_pc)
		(void)snprintf(to, size, "%s+0x%" PRIx64, base, frame->rel_pc);
	else
		(void)snprintf(to, size, "%s", base);
	return to;
}

const char *profile_thread_name(const struct profile *p, uint32_t thread)
{
	return text_or(p, p->threads[thread].name, "?");
}

const char *profile_process_name(const struct profile *p, uint32_t process)
{
	return text_or(p, p->processes[process].name, "?");
}

static bool is_in_cgroup(const char *path, const char *cgroup)
{
	size_t len;

	path += *path == '/' && *cgroup && *cgroup != '/'; /* "user.slice" is "/user.slice" */
	len = strlen(cgroup);
	while (len && cgroup[len - 1] == '/')
		len--;
	return !strncmp(path, cgroup, len) && (path[len] == '/' || !path[len]);
}

bool profile_process_wanted(const struct profile *p, uint32_t process,
			    const struct profile_filter *filter)
{
	const struct profile_process *it = &p->processes[process];

	if (filter->pid && it->pid != filter->pid)
		return false;
	return !filter->cgroup ||
	       (it->cgroup &&
		is_in_cgroup(string_table_text(&p->strings, it->cgroup), filter->cgroup));
}
