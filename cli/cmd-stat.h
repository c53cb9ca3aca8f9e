/* cmd-stat.h - the events of `perfwind stat -e`.  Thread: main. */
#pragma once

#include "perf/counters.h"

struct event_list {
	struct perf_spec specs[COUNTERS_EVENTS];
	uint8_t groups[COUNTERS_EVENTS]; /* 0: alone; else the number of its group */
	size_t n;
	uint8_t n_groups;
};

/* Appends "a,{b,c},PMU/x=1,y=2/": braces make a group, `:S` behind them is accepted.  -EINVAL, -ENOENT ...: *error has a
 * line for the user. */
int event_list_add(struct event_list *list, const char *text, char *error, size_t error_size);
void event_list_deinit(struct event_list *list);
