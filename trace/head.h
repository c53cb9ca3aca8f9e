/* head.h - the beginning of every trace: clocks, identity, machine.  Thread: main.
 */
#pragma once

#include "protos/trace.pb-c.h"

/* Takes a packet without sequence fields, which it adds; what the packet points to is borrowed. */
typedef int head_put(void *arg, Pb__TracePacket *packet);

/* All clocks at one moment, BOOTTIME first. */
int head_clock_snapshot(head_put *put, void *arg);
/* @uuid NULL: a random one. */
int head_uuid(const int64_t uuid[2], head_put *put, void *arg);
/* @tool: "perfwind 0.1". */
int head_system_info(const char *tool, head_put *put, void *arg);

/* The same of a recording that was made before (writer.h). */
struct writer_past;
int head_past_snapshot(const struct writer_past *past, head_put *put, void *arg);
int head_past_info(const struct writer_past *past, const char *tool, head_put *put, void *arg);
