/* spec-parser.h - what the files of the event parser share (spec.c, spec-trace.c, spec-pmu.c,
 * spec-probe.c). Thread: main. */
#pragma once

#include "base/error.h"
#include "base/nearest.h"
#include "perf/spec.h"

struct spec_parser {
	const char *root; /* before "/sys/..." */
	char *error;
	size_t error_size;
};

enum { SPEC_PATH_MAX = 4096, SPEC_FILE_MAX = 64 << 10 };

/* Writes the line for the user and returns @r. */
int spec_error(struct spec_parser *parser, int r, const char *format, ...) _printf_(3, 4);
/* The same with the nearest names behind. */
int spec_error_nearest(struct spec_parser *parser, int r, const struct nearest *nearest,
		       const char *format, ...) _printf_(4, 5);

/* A name that may be one component of a path: not empty, no '/', not "." or "..". */
bool spec_is_component(const char *name);
/* "u", "kp" ... into the flags of @spec.  -EINVAL with a line. */
int spec_modifiers(struct spec_parser *parser, const char *event, const char *modifiers,
		   struct perf_spec *spec);
bool spec_looks_like_modifiers(const char *text);

/* The type number of a PMU in /sys/bus/event_source/devices.  -ENOENT without a line. */
int spec_pmu_type(struct spec_parser *parser, const char *pmu, uint32_t *ret_type);
/* Offers the names of all PMUs. */
void spec_pmu_offer(struct spec_parser *parser, struct nearest *nearest);
/* Sets the bits that format/@term of @pmu names.  -ENOENT without a line when there is no such
 * term; -EINVAL with one. */
int spec_pmu_set(struct spec_parser *parser, const char *pmu, const char *term, uint64_t value,
		 struct perf_spec *spec);
/* "config=1,umask=2,name=x" or "EVENT" for @pmu. */
int spec_pmu_parse(struct spec_parser *parser, const char *pmu, const char *terms,
		   struct perf_spec *spec);

/* Offers "group:name" of all tracepoints that can be listed. */
void spec_trace_offer(struct spec_parser *parser, struct nearest *nearest);
int spec_trace_parse(struct spec_parser *parser, const char *group, const char *name,
		     struct perf_spec *spec);

/* "kprobe:FUNC+OFF" and its kin; SPEC_NOT_A_PROBE when @item does not begin as one. */
enum { SPEC_NOT_A_PROBE = 1 };
int spec_probe_parse(struct spec_parser *parser, const char *item, struct perf_spec *spec);

/* The file offset of function @symbol in the ELF file @path.  -ENOENT: no such symbol (names near
 * it are offered); -ENOEXEC: not an ELF file with symbols. */
int spec_elf_offset(const char *path, const char *symbol, struct nearest *nearest,
		    uint64_t *ret_offset);
