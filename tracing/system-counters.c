/* system-counters.c - see system-counters.h.
 *
 * Text of the kernel: a line that has another form is left out, and so are lines behind TEXT_MAX (/proc/stat has its CPUs
 * first). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "tracing/system-counters.h"

enum {
	TEXT_MAX = 128 << 10,
	PACKET_MAX = 128 << 10,
	ENTRY_MAX = 192, /* one CPU, one disk */
	DISKS_MAX = 64,
	DISK_NAME_MAX = 32,
};

enum file { STAT, MEMINFO, LOADAVG, DISKSTATS, CPU, IO, MEMORY, N_FILES };

static const char *const names[N_FILES] = {
	"stat", "meminfo", "loadavg", "diskstats", "pressure/cpu", "pressure/io", "pressure/memory",
};

struct system_counters {
	int fds[N_FILES];
	uint64_t tick_ns;
	char text[TEXT_MAX + 1];
	uint8_t packet[PACK_FIELD_MAX + PACKET_MAX];
	size_t len; /* of the SysStats behind the packet's head */
	uint8_t message[PACKET_MAX - 64];
};

/* ---- packing ---- */

static uint8_t *room_for(struct system_counters *c, size_t len)
{
	return len <= sizeof(c->message) - c->len ? c->message + c->len : NULL;
}

static void add_entry(struct system_counters *c, uint32_t field, const uint8_t *data,
		      const uint8_t *end)
{
	size_t len = (size_t)(end - data);
	uint8_t *p = room_for(c, PACK_FIELD_MAX + len);

	if (p)
		c->len = (size_t)(pack_bytes(p, field, data, len) - c->message);
}

static void add_number(struct system_counters *c, uint32_t field, uint64_t value)
{
	uint8_t *p = room_for(c, PACK_FIELD_MAX + PACK_VARINT_MAX);

	if (p)
		c->len = (size_t)(pack_number(p, field, value) - c->message);
}

/* ---- text ---- */

/* The text of a file; false: it cannot be read. */
static bool read_text(struct system_counters *c, enum file file)
{
	ssize_t n = c->fds[file] < 0 ? -1 : read_fd_at(c->fds[file], c->text, TEXT_MAX, 0);

	c->text[n > 0 ? n : 0] = 0;
	return n > 0;
}

/* The number at *p; moves past it and the blanks before it.  false: there is none. */
static bool next_number(const char **p, uint64_t *ret)
{
	const char *at = *p + strspn(*p, " \t");
	uint64_t value = 0;
	size_t digits = strspn(at, "0123456789");

	if (!digits || digits > 20)
		return false;
	for (size_t i = 0; i < digits; i++)
		value = value * 10 + (uint64_t)(at[i] - '0');
	*p = at + digits;
	*ret = value;
	return true;
}

static const char *next_line(const char *line)
{
	const char *end = strchr(line, '\n');

	return end ? end + 1 : line + strlen(line);
}

/* ---- the files ---- */

/* "cpu3 USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL ..." in ticks (proc(5)). */
static void add_cpu(struct system_counters *c, const char *line)
{
	static const uint32_t fields[] = {
		SYS_STATS__CPU_TIMES__USER_NS,	      SYS_STATS__CPU_TIMES__USER_NICE_NS,
		SYS_STATS__CPU_TIMES__SYSTEM_MODE_NS, SYS_STATS__CPU_TIMES__IDLE_NS,
		SYS_STATS__CPU_TIMES__IO_WAIT_NS,     SYS_STATS__CPU_TIMES__IRQ_NS,
		SYS_STATS__CPU_TIMES__SOFTIRQ_NS,     SYS_STATS__CPU_TIMES__STEAL_NS,
	};
	uint8_t entry[ENTRY_MAX], *p = entry;
	uint64_t value;

	if (!next_number(&line, &value) || *line != ' ') /* the sum of all has no number */
		return;
	p = pack_number(p, SYS_STATS__CPU_TIMES__CPU_ID, value);
	for (size_t i = 0; i < ARRAY_SIZE(fields) && next_number(&line, &value); i++)
		p = pack_number(p, fields[i], value * c->tick_ns);
	add_entry(c, SYS_STATS__CPU_STAT, entry, p);
}

static void add_stat(struct system_counters *c)
{
	uint64_t forks;

	for (const char *line = c->text; *line; line = next_line(line)) {
		if (!strncmp(line, "cpu", 3) && line[3] != ' ')
			add_cpu(c, line + 3);
		if (strncmp(line, "processes ", 10))
			continue;
		line += 10;
		if (next_number(&line, &forks))
			add_number(c, SYS_STATS__NUM_FORKS, forks);
	}
}

static void add_meminfo(struct system_counters *c)
{
	static const struct {
		const char *name;
		uint32_t key; /* MeminfoCounters of the trace format */
	} keys[] = {
		{"MemTotal:", 1},  {"MemFree:", 2}, {"MemAvailable:", 3},
		{"Buffers:", 4},   {"Cached:", 5},  {"SwapTotal:", 15},
		{"SwapFree:", 16}, {"Dirty:", 17},  {"Writeback:", 18},
	};
	uint8_t entry[ENTRY_MAX], *p;
	uint64_t value;

	for (const char *line = c->text; *line; line = next_line(line))
		for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
			const char *at = line + strlen(keys[i].name);

			if (strncmp(line, keys[i].name, strlen(keys[i].name)) ||
			    !next_number(&at, &value))
				continue;
			p = pack_number(entry, SYS_STATS__MEMINFO_VALUE__KEY, keys[i].key);
			p = pack_number(p, SYS_STATS__MEMINFO_VALUE__VALUE, value);
			add_entry(c, SYS_STATS__MEMINFO, entry, p);
		}
}

/* "0.52 0.58 0.59 ..." */
static void add_load(struct system_counters *c)
{
	const char *p = c->text;
	uint64_t whole, hundredths;

	for (int i = 0; i < 3; i++) {
		if (!next_number(&p, &whole) || *p++ != '.' || !next_number(&p, &hundredths))
			return;
		add_number(c, SYS_STATS__PERFWIND_LOAD, whole * 100 + hundredths);
	}
}

/* "MAJOR MINOR NAME READS MERGED SECTORS MS WRITES MERGED SECTORS MS ..." (Documentation/admin-guide/iostats.rst). */
static bool add_disk(struct system_counters *c, const char *line)
{
	uint64_t numbers[8], ignored;
	uint8_t entry[ENTRY_MAX], *p;
	const char *name;
	size_t len;

	if (!next_number(&line, &ignored) || !next_number(&line, &ignored))
		return false;
	name = line + strspn(line, " ");
	len = strcspn(name, " \n");
	line = name + len;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		if (!next_number(&line, &numbers[i]))
			return false;
	if (len > DISK_NAME_MAX || (!numbers[0] && !numbers[4])) /* never used */
		return false;
	p = pack_bytes(entry, SYS_STATS__DISK_STAT__DEVICE_NAME, name, len);
	p = pack_number(p, SYS_STATS__DISK_STAT__READ_SECTORS, numbers[2]);
	p = pack_number(p, SYS_STATS__DISK_STAT__READ_TIME_MS, numbers[3]);
	p = pack_number(p, SYS_STATS__DISK_STAT__WRITE_SECTORS, numbers[6]);
	p = pack_number(p, SYS_STATS__DISK_STAT__WRITE_TIME_MS, numbers[7]);
	add_entry(c, SYS_STATS__DISK_STAT, entry, p);
	return true;
}

static void add_disks(struct system_counters *c)
{
	size_t n = 0;

	for (const char *line = c->text; *line && n < DISKS_MAX; line = next_line(line))
		n += add_disk(c, line);
}

/* "some avg10=... total=MICROSECONDS", and the same with "full" (Documentation/accounting/psi.rst). */
static void add_pressure(struct system_counters *c, uint32_t some)
{
	uint8_t entry[ENTRY_MAX], *p;
	uint64_t us;

	for (const char *line = c->text; *line; line = next_line(line)) {
		const char *total = strstr(line, "total=");
		bool full = !strncmp(line, "full", 4);

		if (!total || (!full && strncmp(line, "some", 4)))
			continue;
		total += 6;
		if (!next_number(&total, &us))
			continue;
		p = pack_number(entry, SYS_STATS__PSI_SAMPLE__RESOURCE, some + full);
		p = pack_number(p, SYS_STATS__PSI_SAMPLE__TOTAL_NS, us * 1000);
		add_entry(c, SYS_STATS__PSI, entry, p);
	}
}

int system_counters_write(struct system_counters *c, uint64_t boottime_ns, struct sink *to)
{
	static const struct {
		enum file file;
		uint32_t some; /* PsiResource */
	} pressure[] = {{CPU, 1}, {IO, 3}, {MEMORY, 5}};
	uint8_t head[4 * PACK_FIELD_MAX], *p = head, *out;
	size_t len;
	int r;

	c->len = 0;
	if (read_text(c, LOADAVG))
		add_load(c);
	if (read_text(c, STAT))
		add_stat(c);
	if (read_text(c, MEMINFO))
		add_meminfo(c);
	for (size_t i = 0; i < ARRAY_SIZE(pressure); i++)
		if (read_text(c, pressure[i].file))
			add_pressure(c, pressure[i].some);
	if (read_text(c, DISKSTATS))
		add_disks(c);
	if (!c->len)
		return 0;
	p = pack_number(p, TRACE_PACKET__TIMESTAMP, boottime_ns);
	p = pack_number(p, TRACE_PACKET__TIMESTAMP_CLOCK_ID, 6); /* BUILTIN_CLOCK_BOOTTIME */
	p = pack_head(p, TRACE_PACKET__SYS_STATS, c->len);
	len = (size_t)(p - head) + c->len;
	out = pack_head(c->packet, TRACE__PACKET, len);
	memcpy(out, head, (size_t)(p - head));
	memcpy(out + (p - head), c->message, c->len);
	r = to->write(to, c->packet, (size_t)(out - c->packet) + len);
	return r < 0 ? trace(r) : 0;
}

int system_counters_new(const char *root, struct system_counters **ret_counters)
{
	struct system_counters *c = calloc(1, sizeof(*c));
	char path[PATH_MAX];

	if (!c)
		return fail(-ENOMEM);
	c->tick_ns = NSEC_PER_SEC / (uint64_t)sysconf(_SC_CLK_TCK);
	for (size_t i = 0; i < N_FILES; i++) {
		(void)snprintf(path, sizeof(path), "%s/proc/%s", root, names[i]);
		c->fds[i] = open(path, O_RDONLY | O_CLOEXEC);
	}
	*ret_counters = c;
	return 0;
}

struct system_counters *system_counters_free(struct system_counters *c)
{
	if (!c)
		return NULL;
	for (size_t i = 0; i < N_FILES; i++)
		(void)fd_close(c->fds[i]);
	free(c);
	return NULL;
}
