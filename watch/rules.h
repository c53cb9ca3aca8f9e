/* rules.h - the rules of `perfwind watch`, from a file.  Thread: main.
 *
 *   [watch]            once, may be missing: where episodes go, how the recorder runs
 *   [rule NAME]        any number: what is measured, the threshold, and the times around it
 *
 * Each line is `key = value`; '#' begins a comment.  Durations take ms, s, min and h, sizes K, M and G.
 * `perfwind-watch(1)` has all keys. */
#pragma once

#include <sys/stat.h>

#include "base/util.h"

enum watch_when {
	WATCH_PROCESS_CPU, /* percent of one CPU; of several processes of that name the highest */
	WATCH_CGROUP_CPU,
	WATCH_MACHINE_CPU, /* percent of one CPU: 400 is four busy CPUs */
	WATCH_PSI_CPU,	   /* percent of the time in which some task waited (/proc/pressure) */
	WATCH_PSI_MEMORY,
	WATCH_PSI_IO,
	WATCH_LOAD,	     /* the load of the last minute (/proc/loadavg) */
	WATCH_MEMORY_GROWTH, /* MiB that a process's RSS grew by in the last minute */
	WATCH_RUN_QUEUE,     /* percent of one CPU for which a process's threads waited */
	WATCH_COUNTER,	     /* an event, times a second */
	WATCH_HIT,	     /* an event, times since the last poll */
	WATCH_DURATION,	     /* seconds that a command takes */
	WATCH_SIGNAL,	     /* processes that a signal ended since the last poll */
	WATCH_LATENCY,	     /* ms: the longest time between two tracepoints since the last poll */
	WATCH_MARK,	     /* marks of a name since the last poll */
	WATCH_WHENS,
};
extern const char *const watch_when_names[]; /* ends with NULL */
const char *watch_when_unit(enum watch_when when);

enum { WATCH_NAME = 32, WATCH_RULES = 64, WATCH_TEXT = 512, WATCH_POINT = 128 };

struct watch_rule {
	char name[WATCH_NAME]; /* letters, digits, - and _ : a part of file names */
	uint32_t line;
	uint32_t text_line,
		text_column; /* of the last event, cgroup, command, mark, from, to, key */
	enum watch_when when;
	char process[64]; /* a pid, or a name (comm); empty: none */
	char cgroup[WATCH_TEXT], event[WATCH_TEXT], command[WATCH_TEXT];
	char from[WATCH_POINT], to[WATCH_POINT]; /* latency: "GROUP:NAME" */
	char key[WATCH_POINT];			 /* "FIELD", or "FIELD:FIELD" of from and to */
	char mark[WATCH_POINT];			 /* the name of a mark */
	double above, below;			 /* hysteresis: an episode ends below `below` */
	double threads;	  /* percent of one CPU: threads with less are not in the call tree */
	uint64_t hold_ns; /* this long above before it fires */
	uint64_t calm_ns; /* this long below before it ends */
	uint64_t before_ns, after_ns, longest_ns, cooldown_ns;
	uint64_t each_ns; /* WATCH_DURATION: from start to start of the command */
	uint32_t per_day;
};

struct watch_rules {
	char folder[WATCH_TEXT];  /* empty: the default of the user */
	char record[WATCH_TEXT];  /* options of `perfwind record`, separated by blanks */
	char execute[WATCH_TEXT]; /* a program, run with an episode's folder; empty: none */
	uint64_t memory;	  /* bytes of the flight recorder */
	uint64_t disk;		  /* bytes of all episodes; the oldest are deleted */
	uint64_t calm_poll_ns, busy_poll_ns;
	struct watch_rule *rules;
	size_t n;
};

/* Parses @text.  -EINVAL: *error (size @error_size) is one line "NAME:LINE:COLUMN: ..." for the user, with the nearest
 * names where a word is unknown; *ret is then empty.  -ENOMEM. */
int watch_rules_parse(const char *name, const char *text, struct watch_rules *ret, char *error,
		      size_t error_size);
/* Does a file or folder belong to root or to this user, and can no other user write it?  Rules run programs, so that no other
 * user's rules may be used; in a folder that another user can write, links would lead our files elsewhere.  A sticky folder
 * (/tmp) is safe, and the user's primary group counts as the user. */
bool watch_is_own(const struct stat *st);
/* The file at @path, at most 256 KiB.  Errors as above, and -errno.  -EPERM: it is not our own (watch_is_own()). */
int watch_rules_read(const char *path, struct watch_rules *ret, char *error, size_t error_size);
void watch_rules_deinit(struct watch_rules *rules);
/* Are two rules equal, wherever they stand? */
bool watch_rule_equal(const struct watch_rule *a, const struct watch_rule *b);
