/* control-summary.h - the summary of a session as a ControlSummary, and back.  Thread: main. */
#pragma once

#include "daemon/control/control-protocol.h"
#include "tracing/trace-session.h"

/* The daemon's side: queues a message.  @summary is not changed.  -ENOMEM. */
int control_summary_send(struct control_stream *stream, enum control_type type,
			 struct session_summary *summary, uint64_t lost_packets,
			 uint64_t stream_bytes);
int control_summary_send_trace(struct control_stream *stream, enum control_type type,
			       const struct trace_session_summary *summary, uint64_t stream_bytes);

/* The client's side. */
void control_summary_read(const Pb__ControlSummary *message, struct session_summary *ret_summary);
void control_summary_read_trace(const Pb__ControlSummary *message,
				struct trace_session_summary *ret_summary);
