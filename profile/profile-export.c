/* profile-export.c - the table of formats.  See profile-export.h. */
#include "profile/profile-export.h"

const struct export_format export_formats[] = {
	{"folded", ".folded", "one line a stack, for the flame graph tools", export_folded},
	{"pprof", ".pb.gz", "gzipped profile.proto, for `go tool pprof` and what reads its format",
	 export_pprof},
	{"str", ".str", "samples by CPU and tasks as text, one by one", export_str},
	{"bin", ".bin", "the same as fixed records, to be mapped by an analyser", export_bin},
	{"systrace", ".systrace", "marks and waits as text of the kernel's tracer",
	 export_systrace},
	{"html", ".html", "one self-contained flame graph page", export_html},
	{0},
};
