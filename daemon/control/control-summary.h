/* control-summary.h - a daemon's ControlSummary as the summary of a session.  Thread: main. */
#pragma once

#include "daemon/control/control-protocol.h"
#include "tracing/trace-session.h"

void control_summary_read(const Pb__ControlSummary *message, struct session_summary *ret_summary);
void control_summary_read_trace(const Pb__ControlSummary *message,
				struct trace_session_summary *ret_summary);
