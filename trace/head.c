/* head.c - see head.h. */
#include <sys/random.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "trace/head.h"
#include "trace/writer.h"

static int put_snapshot(Pb__ClockSnapshot__Clock **clocks, size_t n, head_put *put, void *arg)
{
	Pb__ClockSnapshot snapshot = PB__CLOCK_SNAPSHOT__INIT;
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;
	int r;

	snapshot.clocks = clocks;
	snapshot.n_clocks = n;
	snapshot.has_primary_trace_clock = true;
	snapshot.primary_trace_clock = PB__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME;
	packet.clock_snapshot = &snapshot;
	r = put(arg, &packet);
	return r < 0 ? trace(r) : 0;
}

int head_clock_snapshot(head_put *put, void *arg)
{
	/* The trace clock first; the others as close behind it as system calls allow. */
	static const int clocks[] = {CLOCK_BOOTTIME, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE,
				     CLOCK_REALTIME, CLOCK_MONOTONIC,	    CLOCK_MONOTONIC_RAW};
	static const uint32_t ids[] = {PB__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME,
				       PB__BUILTIN_CLOCK__BUILTIN_CLOCK_REALTIME_COARSE,
				       PB__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC_COARSE,
				       PB__BUILTIN_CLOCK__BUILTIN_CLOCK_REALTIME,
				       PB__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC,
				       PB__BUILTIN_CLOCK__BUILTIN_CLOCK_MONOTONIC_RAW};
	Pb__ClockSnapshot__Clock values[ARRAY_SIZE(clocks)], *list[ARRAY_SIZE(clocks)];

	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++) {
		pb__clock_snapshot__clock__init(&values[i]);
		values[i].has_clock_id = values[i].has_timestamp = true;
		values[i].clock_id = ids[i];
		list[i] = &values[i];
	}
	for (size_t i = 0; i < ARRAY_SIZE(clocks); i++)
		values[i].timestamp = clock_ns(clocks[i]);
	return put_snapshot(list, ARRAY_SIZE(clocks), put, arg);
}

int head_uuid(const int64_t uuid[2], head_put *put, void *arg)
{
	Pb__TraceUuid message = PB__TRACE_UUID__INIT;
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;
	int64_t random[2];
	int r;

	/* early in boot: a trace without one is as good */
	if (!uuid && getrandom(random, sizeof(random), GRND_NONBLOCK) != (ssize_t)sizeof(random))
		return 0;
	uuid = uuid ? uuid : random;
	message.has_msb = message.has_lsb = true;
	message.msb = uuid[0];
	message.lsb = uuid[1];
	packet.trace_uuid = &message;
	r = put(arg, &packet);
	return r < 0 ? trace(r) : 0;
}

int head_system_info(const char *tool, head_put *put, void *arg)
{
	struct utsname names;
	Pb__Utsname utsname = PB__UTSNAME__INIT;
	Pb__SystemInfo info = PB__SYSTEM_INFO__INIT;
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;
	time_t now = time(NULL);
	struct tm local;
	int r;

	if (uname(&names) == 0) {
		utsname.sysname = names.sysname;
		utsname.version = names.version;
		utsname.release = names.release;
		utsname.machine = names.machine;
		info.utsname = &utsname;
	}
	info.tracing_service_version = (char *)tool;
	info.has_hz = info.has_page_size = info.has_num_cpus = info.has_system_ram_bytes = true;
	info.hz = sysconf(_SC_CLK_TCK);
	info.page_size = (uint32_t)sysconf(_SC_PAGESIZE);
	info.num_cpus = (uint32_t)sysconf(_SC_NPROCESSORS_CONF);
	info.system_ram_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * info.page_size;
	if (localtime_r(&now, &local)) {
		info.has_timezone_off_mins = true;
		info.timezone_off_mins = (int32_t)(local.tm_gmtoff / 60);
	}
	packet.system_info = &info;
	r = put(arg, &packet);
	return r < 0 ? trace(r) : 0;
}

/* ---- the head of a recording that was made before ----
 * See head.h and struct writer_past.  No data of the machine that writes it and no random identity: the same
 * recording gives the same bytes. */

static void clock_value(Pb__ClockSnapshot__Clock *value, uint32_t id, uint64_t time)
{
	pb__clock_snapshot__clock__init(value);
	value->has_clock_id = value->has_timestamp = true;
	value->clock_id = id;
	value->timestamp = time;
}

int head_past_snapshot(const struct writer_past *past, head_put *put, void *arg)
{
	Pb__ClockSnapshot__Clock values[2], *list[] = {&values[0], &values[1]};

	clock_value(&values[0], PB__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME, past->first_time);
	clock_value(&values[1], PB__BUILTIN_CLOCK__BUILTIN_CLOCK_REALTIME, past->wall_clock);
	return put_snapshot(list, past->wall_clock ? 2 : 1, put, arg);
}

int head_past_info(const struct writer_past *past, const char *tool, head_put *put, void *arg)
{
	Pb__Utsname utsname = PB__UTSNAME__INIT;
	Pb__SystemInfo info = PB__SYSTEM_INFO__INIT;
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;
	int r;

	utsname.sysname = (char *)"Linux";
	utsname.release = (char *)past->release;
	utsname.machine = (char *)past->machine;
	info.utsname = &utsname;
	info.tracing_service_version = (char *)tool;
	info.has_num_cpus = past->n_cpus > 0;
	info.num_cpus = past->n_cpus;
	info.has_system_ram_bytes = past->ram_bytes > 0;
	info.system_ram_bytes = past->ram_bytes;
	packet.system_info = &info;
	r = put(arg, &packet);
	return r < 0 ? trace(r) : 0;
}
