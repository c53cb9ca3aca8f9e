/* trace-text.h - a trace as text, one packet a paragraph: for debugging and for golden tests.  Thread:
 * main (of a command).
 *
 * The output is protobuf's text format of the messages in protos/trace.proto.  Comments hold the number
 * of the packet, its size, and fields that no message has.  Compressed packets are unpacked. */
#pragma once

#include <stdio.h>

#include "base/util.h"

/* Reads @fd to its end in bounded memory.  < 0: *error has one line, without the name of the file; the
 * packets before the damage are printed.  -EBADMSG: damaged, cut off, or no trace. */
int trace_text(int fd, FILE *out, char *error, size_t error_size);
