/* verdict.h - what a recording came to: for a person, for a program, and live.  Thread: main. */
#pragma once

#include "daemon/session.h"
#include "daemon/trace-session.h"

struct verdict {
	const struct session_summary *summary;
	const char *file;
	const char *event;
	uint64_t frequency, period; /* one is 0 */
};

void verdict_print(const struct verdict *verdict, FILE *out);
/* Both: the first unless --quiet, the second on standard output if @json. */
void verdict_show(const struct verdict *verdict, bool json);
/* One JSON object and a newline; its keys are an interface (README.md). */
void verdict_print_json(const struct verdict *verdict, FILE *out);
/* The line that is rewritten while recording. */
void verdict_print_live(const struct session_summary *summary, FILE *out);
/* What a trace session came to, in @file of @bytes. */
void verdict_print_trace(const struct trace_session_summary *summary, const char *file,
			 uint64_t bytes, FILE *out);
