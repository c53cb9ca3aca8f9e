/* features.c - see features.h. */
#include "daemon/base/features.h"

const char *feature_name(enum feature feature)
{
	static const char *const names[FEATURE_COUNT] = {
		[FEATURE_BUILD_ID] = "build-id",
		[FEATURE_INHERIT_THREAD] = "inherit-thread",
		[FEATURE_FORMAT_LOST] = "format-lost",
		[FEATURE_INHERIT_READ] = "inherit-read",
		[FEATURE_PROCMAP_QUERY] = "procmap-query",
		[FEATURE_KSYMBOL] = "ksymbol",
		[FEATURE_PIDFD] = "pidfd",
		[FEATURE_PEER_PIDFD] = "peer-pidfd",
	};

	return names[feature];
}
