/* stat-print.h - the counts of `perfwind stat` as text, CSV or JSON.  Thread: main. */
#pragma once

#include <stdio.h>

#include "perf/counters.h"

struct stat_count {
	enum counter_state state;
	double value; /* of the runs the mean; ns of a clock */
	double running; /* the share of the time that it was on a counter, 0..1; below 1 the value is scaled */
	double error; /* standard error of the mean in percent of it; < 0: one run */
	uint64_t running_ns;
};
struct stat_row {
	const char *label;	  /* "CPU0", "make-123" ...; NULL: the total */
	struct stat_count *count; /* of each event */
};
struct stat_table {
	const struct perf_spec *specs;
	size_t n_events;
	const bool *kernel_refused; /* of each event */
	struct stat_row *rows;
	size_t n_rows;
	double at_s;		 /* end of the interval since the start; < 0: no intervals */
	double elapsed_s;	 /* of the interval, or of all; of the runs the mean */
	double elapsed_error;	 /* as of stat_count */
	double user_s, system_s; /* of the command, < 0: there is none */
	const char *subject;	 /* "`make`", "the machine" ... */
	uint32_t runs;
	const char *separator; /* of CSV */
};

/* For a person.  @head: the first interval, or the only table. */
void stat_print_text(const struct stat_table *table, bool head, FILE *out);
/* The fields of `perf stat -x`: [time,][row,]value,unit,event,[error,]ns running,percent running,metric,its unit. */
void stat_print_csv(const struct stat_table *table, FILE *out);
/* One object, on one line. */
void stat_print_json(const struct stat_table *table, FILE *out);
