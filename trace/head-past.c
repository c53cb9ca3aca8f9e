/* head-past.c - the head of a trace whose recording was made before: see head.h, struct
 * writer_past. Nothing of the machine that writes it is told, and no identity by chance: the same
 * recording gives the same bytes. */
#include "base/error.h"
#include "trace/head.h"
#include "trace/writer.h"

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
	Pb__ClockSnapshot snapshot = PB__CLOCK_SNAPSHOT__INIT;
	Pb__TracePacket packet = PB__TRACE_PACKET__INIT;
	int r;

	clock_value(&values[0], PB__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME, past->first_time);
	clock_value(&values[1], PB__BUILTIN_CLOCK__BUILTIN_CLOCK_REALTIME, past->wall_clock);
	snapshot.clocks = list;
	snapshot.n_clocks = past->wall_clock ? 2 : 1;
	snapshot.has_primary_trace_clock = true;
	snapshot.primary_trace_clock = PB__BUILTIN_CLOCK__BUILTIN_CLOCK_BOOTTIME;
	packet.clock_snapshot = &snapshot;
	r = put(arg, &packet);
	return r < 0 ? trace(r) : 0;
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
