/* script-text.h - the name of a function of an interpreter, as its process has it.  Private to symbols/.  Thread: loader. */
#pragma once

#include "symbols/vm-memory.h"

enum {
	SCRIPT_NAME_ROOM = 520,
	SCRIPT_TEXT_ROOM = 2 * SCRIPT_NAME_ROOM + 2
}; /* two names and "::" */

struct script_text {
	char function[SCRIPT_TEXT_ROOM]; /* Class::method */
	char file[SCRIPT_TEXT_ROOM];	 /* "": not known */
	uint32_t line;			 /* 0: not known */
};
