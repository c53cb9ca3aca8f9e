/* episode.h - what is kept of an episode: a folder.  Thread: main (of the process that writes it).
 *
 *   FOLDER/2026-11-23T07-12-33-NAME/
 *     trace.pftrace            the seconds before, during and after, from the flight recorder
 *     episode.json             the rule, times, values, files
 *     calltree.json            [{"frame", "proportion", "count", "children"}], heaviest first
 *     calltree-addresses.json  the same with "image+0xaddress" as frames
 *     images.json              [{"path", "build_id", "base"}]: to name these addresses later
 *     episode.lines            collection,key,value: cpu-highload and cpu-highload-stackframe
 *     flame.html               the page
 *
 * The call trees and the page are of the episode itself: the rule's process, and its threads above `threads-above`. */
#pragma once

#include "watch/trigger.h"

struct episode {
	const struct watch_rule *rule;
	struct trigger_episode of; /* times: CLOCK_BOOTTIME ns */
	int64_t wall_offset;	   /* CLOCK_REALTIME - CLOCK_BOOTTIME, ns */
};
enum { EPISODE_NAME = 64 };

/* "2026-11-23T07-12-33-NAME", UTC, of its start. */
void episode_name(const struct episode *episode, char to[EPISODE_NAME]);
/* Writes all but the trace, which is there, into the folder @path.  < 0: *error has one line. */
int episode_write(const char *path, const struct episode *episode, char *error, size_t error_size);

/* An episode as a list shows it. */
struct episode_info {
	char name[EPISODE_NAME];
	char rule[WATCH_NAME], when[WATCH_NAME], hottest[256], process[64];
	double lasting, average;
	char unit[16];
	uint64_t bytes; /* of all its files */
};
/* The episodes in @folder, oldest first; new memory.  A folder without a readable episode.json is none. */
int episodes_read(const char *folder, struct episode_info **ret_list, size_t *ret_n);
/* Removes the folder of an episode: plain files and the folder itself; nothing that is not an episode.  -ENOENT, -EINVAL
 * (a name with a slash, or hidden), -errno. */
int episode_delete(const char *folder, const char *name);
/* Removes the folder @path of an episode that cannot be kept. */
void episode_discard(const char *path);
/* Deletes the oldest until all have at most @bytes; the newest stays.  Returns how many, or < 0. */
int episodes_keep_small(const char *folder, uint64_t bytes);
