/* import-kernel.c - the kernel's names for an import.  Thread: main, and one that reads them in the
 * meantime: the index of a copy takes 1 ms, the table that an earlier run left in the cache as long, /proc/kallsyms 45 ms.
 *
 * First choice is the copy of /proc/kallsyms that perf keeps for each build id of a kernel that it recorded, next to its
 * copies of files (not with -N): ~/.debug/[kernel.kallsyms]/BUILD-ID/kallsyms (tools/perf/util/build-id.c).  It is a file, so the kernel need not print 120,000 lines again, and it is right
 * for any kernel with its build id in the recording.  Its addresses are moved to where _text was in
 * the recording.  Modules have other addresses after each boot, so their symbols are not taken from
 * it; the first sample in a module makes us read those of the running kernel (symbols/kernel-names.h).
 *
 * The names of the running kernel are used only if the recording is of this boot: same release, and
 * its text began where that symbol is today (each boot has its own address).  perf records that
 * address in its record of the kernel's mapping: "[kernel.kallsyms]_text" and an offset that is the
 * symbol's address (tools/perf/util/synthetic-events.c). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cache-dir.h"
#include "base/error.h"
#include "import/import-private.h"
#include "symbols/kernel-names.h"

enum { ID_MAX = 20 };

/* -errno, or a regular file. */
static int open_one(const char *path)
{
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;

	/* O_NONBLOCK: if it is a FIFO, do not wait for a writer */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -ENOENT;
	return take_fd(fd);
}

int kernel_copy_open(const struct file_places *places, const uint8_t *build_id, size_t len,
		     int *ret_fd)
{
	char hex[2 * ID_MAX + 1] = "", folder[PATH_MAX], path[PATH_MAX];
	int fd, n;

	if (len < 2 || len > ID_MAX)
		return -ENOENT;
	for (size_t i = 0; i < len; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", build_id[i]);
	if (places->archive) {
		n = snprintf(path, sizeof(path), "%s/.build-id/%.2s/%s/kallsyms", places->archive,
			     hex, hex + 2);
		fd = n < 0 || (size_t)n >= sizeof(path) ? -ENAMETOOLONG : open_one(path);
		if (fd >= 0) {
			*ret_fd = fd;
			return 0;
		}
	}
	file_places_cache(places, folder, sizeof(folder));
	if (!*folder)
		return -ENOENT;
	n = snprintf(path, sizeof(path), "%s/[kernel.kallsyms]/%s/kallsyms", folder, hex);
	if (n < 0 || (size_t)n >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open_one(path);
	if (fd < 0)
		return fd;
	*ret_fd = fd;
	return 0;
}

enum { MAX_KSYMBOLS = 65536 };

/* The beginning of the path in the kernel's mapping of pid -1: "[kernel.kallsyms]_text". */
static const char kernel_path[] = "[kernel.kallsyms]";

static void *read_names(void *arg)
{
	struct import *im = arg;
	uint64_t start;

	im->kernel_error = uw_kernel_names_new("", cache_dir_open(), &im->names_today);
	if (im->kernel_error)
		return NULL;
	im->text_today = uw_kernel_names_text(im->names_today);
	(void)uw_kernel_name(im->names_today, im->text_today, &start); /* reads them */
	im->kernel_error = uw_kernel_names_error(im->names_today);
	return NULL;
}

static void *read_names_thread(void *arg)
{
	(void)pthread_setname_np(pthread_self(), "pw-kallsyms");
	return read_names(arg);
}

/* A copy that is absent or damaged is no error. */
static void note_copy(struct import *im, int r)
{
	if (is_shortage(r))
		im->copy_error = r;
}

void import_kernel_start(struct import *im)
{
	const struct perfdata_info *info = perfdata_info(im->file);
	const struct perfdata_build_id *id = perfdata_build_id(im->file, kernel_path);
	struct utsname names;

	im->same_kernel = im->arch == UW_ARCH_HOST && uname(&names) == 0 && info->os_release &&
			  !strcmp(names.release, info->os_release) && info->hostname &&
			  !strcmp(names.nodename, info->hostname);
	if (im->event->attr.exclude_kernel)
		return;
	if (id)
		note_copy(im, kernel_copy_open(&im->options.places, id->bytes, id->len,
					       &im->kernel_copy));
	if (im->same_kernel && im->kernel_copy < 0)
		im->kernel_started =
			pthread_create(&im->kernel_reader, NULL, read_names_thread, im) == 0;
}

static void apply_ksymbol(struct import *im, const struct import_ksymbol *k)
{
	if (k->name[0])
		(void)uw_kernel_names_add(im->names, k->start, k->len, k->name);
	else
		uw_kernel_names_remove(im->names, k->start);
}

/* Why the recording does not count as one of the running kernel. */
static const char *other_kernel(const struct import *im)
{
	const struct perfdata_info *info = perfdata_info(im->file);

	if (info->os_release && info->hostname)
		return "it was recorded on another kernel or machine";
	if (info->unfinished)
		return "perf ended before it wrote the kernel's release";
	return info->features_cut ? "the part of the file that identifies its kernel is cut off"
				  : "the file does not identify the kernel it was recorded on";
}

/* False: *ret_why has the reason. */
static bool names_of_today(struct import *im, const char **ret_why)
{
	*ret_why = other_kernel(im);
	if (!im->same_kernel || im->event->attr.exclude_kernel)
		return false;
	if (im->kernel_started)
		(void)pthread_join(im->kernel_reader, NULL);
	else
		(void)read_names(im);
	im->kernel_started = false;
	*ret_why = im->kernel_error == UW_KERNEL_HIDDEN
			   ? "/proc/kallsyms shows no addresses to this user; hint: run as root"
		   : im->kernel_error < 0 ? strerror(-im->kernel_error)
		   : !im->kernel_text	  ? "the file does not have the address of its kernel"
					  : "it was recorded before the last boot";
	if (im->names_today &&
	    (im->kernel_error || !im->text_today || im->text_today != im->kernel_text))
		im->names_today = uw_kernel_names_free(im->names_today);
	if (!im->names_today)
		return false;
	(void)uw_kernel_names_free(im->names);
	im->names = take(im->names_today);
	return true;
}

static void use_names(struct import *im)
{
	emit_set_kernel_names(im->emit, im->names);
	for (size_t i = 0; i < im->n_ksymbols; i++)
		apply_ksymbol(im, &im->ksymbols[i]);
}

static void *read_copy(void *arg)
{
	struct import *im = arg;

	(void)pthread_setname_np(pthread_self(), "pw-kallsyms");
	note_copy(im, uw_kallsyms_new_moved(im->kernel_copy, im->kernel_text, &im->copy));
	return NULL;
}

static void join_copy(struct import *im)
{
	if (im->copy_started)
		(void)pthread_join(im->kernel_reader, NULL);
	im->copy_started = false;
}

/* Waits for the names.  Before the first kernel frame is written. */
static void need_names(struct import *im)
{
	const char *why;

	if (im->kernel_done)
		return;
	im->kernel_done = true;
	join_copy(im);
	if (im->copy)
		note_copy(im, uw_kernel_names_new_of(im->copy, &im->names));
	im->kernel_copied = im->copy && im->names;
	if (!im->kernel_copied)
		im->copy = uw_kallsyms_free(im->copy);
	if (im->kernel_copied || names_of_today(im, &why))
		use_names(im);
	else
		import_note(im, "kernel frames have no names (%s)",
			    im->copy_error ? strerror(-im->copy_error) : why);
}

void import_kernel_frames(struct import *im, const struct outcome *o)
{
	const char *why;
	uint64_t start;

	if (!o->n_kernel)
		return;
	need_names(im);
	for (uint32_t i = 0; i < o->n_kernel && im->kernel_copied; i++) {
		if (uw_kallsyms_spans(im->copy, o->frames[i]) ||
		    uw_kernel_name(im->names, o->frames[i], &start))
			continue;
		im->kernel_copied = false;
		if (names_of_today(im, &why))
			use_names(im);
	}
}

void import_kernel_mmap(struct import *im, const struct record_event *event)
{
	if (im->kernel_text || strncmp(event->mmap.path, kernel_path, strlen(kernel_path)))
		return;
	im->kernel_text = event->mmap.offset;
	if (!im->kernel_text || im->kernel_copy < 0 || im->kernel_done)
		return;
	im->copy_started = pthread_create(&im->kernel_reader, NULL, read_copy, im) == 0;
	if (!im->copy_started)
		note_copy(im, uw_kallsyms_new_moved(im->kernel_copy, im->kernel_text, &im->copy));
}

int import_kernel_ksymbol(struct import *im, const struct record_event *event)
{
	struct import_ksymbol k = {
		.start = event->ksymbol.start,
		.len = event->ksymbol.len,
	};

	if (!event->ksymbol.unregister)
		(void)snprintf(k.name, sizeof(k.name), "%s", event->ksymbol.name);
	if (im->kernel_done && im->names)
		apply_ksymbol(im, &k);
	if ((im->kernel_done && !im->kernel_copied) || im->n_ksymbols == MAX_KSYMBOLS)
		return 0;
	if (!im->ksymbols || is_power_of_two(im->n_ksymbols)) {
		size_t room = im->n_ksymbols ? im->n_ksymbols * 2 : 1;
		struct import_ksymbol *more = reallocarray(im->ksymbols, room, sizeof(*more));

		if (!more)
			return fail(-ENOMEM);
		im->ksymbols = more;
	}
	im->ksymbols[im->n_ksymbols++] = k;
	return 0;
}

void import_kernel_deinit(struct import *im)
{
	join_copy(im);
	if (im->kernel_started)
		(void)pthread_join(im->kernel_reader, NULL);
	(void)uw_kernel_names_free(im->names_today);
	if (!im->names)
		(void)uw_kallsyms_free(im->copy);
	(void)uw_kernel_names_free(im->names);
	fd_close(im->kernel_copy);
	free(im->ksymbols);
}
