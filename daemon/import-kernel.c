/* import-kernel.c - the kernel's names for an import.  Thread: main; import_kernel_start() lets one
 * thread read /proc/kallsyms (50 ms) while main unwinds.
 *
 * The names of the kernel that runs now are believed only when the recording is of this boot: of
 * the same release, and its text began where a symbol of that kind stands today (each boot has its
 * own place for it).  perf tells where in the address of its kernel mapping's record:
 * "[kernel.kallsyms]_text" and an offset that is the symbol's address
 * (tools/perf/util/synthetic-events.c). */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/import-private.h"
#include "daemon/kernel-text.h"
#include "unwinder/names.h"

enum { MAX_KSYMBOLS = 65536 };

static void *read_names(void *arg)
{
	struct import *im = arg;
	_cleanup_(fd_closep) int fd = open("/proc/kallsyms", O_RDONLY | O_CLOEXEC);

	(void)pthread_setname_np(pthread_self(), "pw-kallsyms");
	im->text_today = fd < 0 ? 0 : kernel_text_start(fd);
	im->kernel_error = fd < 0 ? -errno : uw_kallsyms_new(fd, &im->kallsyms);
	return NULL;
}

void import_kernel_start(struct import *im)
{
	const struct perfdata_info *info = perfdata_info(im->file);
	struct utsname names;

	im->same_kernel = im->arch == UW_ARCH_HOST && uname(&names) == 0 && info->os_release &&
			  !strcmp(names.release, info->os_release) && info->hostname &&
			  !strcmp(names.nodename, info->hostname);
	if (im->same_kernel && !im->event->attr.exclude_kernel)
		im->kernel_started = pthread_create(&im->kernel_reader, NULL, read_names, im) == 0;
	im->lag.on = im->kernel_started;
}

static void apply_ksymbol(struct import *im, const struct import_ksymbol *k)
{
	if (k->name[0])
		(void)uw_kallsyms_add(im->kallsyms, k->start, k->len, k->name);
	else
		uw_kallsyms_remove(im->kallsyms, k->start);
}

void import_kernel_names(struct import *im)
{
	const char *why = "it was recorded on another kernel or machine";

	if (im->kernel_done)
		return;
	im->kernel_done = true;
	if (im->kernel_started) {
		(void)pthread_join(im->kernel_reader, NULL);
		im->kernel_started = false;
		why = im->kernel_error == UW_KALLSYMS_HIDDEN
			      ? "kernel.kptr_restrict hides addresses; mend: run as root"
		      : im->kernel_error < 0 ? strerror(-im->kernel_error)
					     : "it was recorded before the last boot";
		if (im->kallsyms && (!im->text_today || im->text_today != im->kernel_text))
			im->kallsyms = uw_kallsyms_free(im->kallsyms);
	}
	if (!im->kallsyms) {
		import_note(im, "kernel frames have no names (%s)", why);
		return;
	}
	emit_set_kallsyms(im->emit, im->kallsyms);
	if (!im->lag.outcomes.len)
		import_kernel_catch_up(im, UINT64_MAX);
}

void import_kernel_catch_up(struct import *im, uint64_t n)
{
	while (im->kernel_done && im->kallsyms && im->ksymbols_done < im->n_ksymbols &&
	       im->ksymbols[im->ksymbols_done].behind <= n)
		apply_ksymbol(im, &im->ksymbols[im->ksymbols_done++]);
}

void import_kernel_mmap(struct import *im, const struct record_event *event)
{
	if (!strncmp(event->mmap.path, "[kernel.kallsyms]", strlen("[kernel.kallsyms]")))
		im->kernel_text = event->mmap.offset;
}

int import_kernel_ksymbol(struct import *im, const struct record_event *event)
{
	struct import_ksymbol k = {
		.start = event->ksymbol.start,
		.behind = im->lag.n,
		.len = event->ksymbol.len,
	};

	if (!event->ksymbol.unregister)
		(void)snprintf(k.name, sizeof(k.name), "%s", event->ksymbol.name);
	if (im->kallsyms && im->kernel_done) {
		apply_ksymbol(im, &k);
		return 0;
	}
	if (im->kernel_done || im->n_ksymbols == MAX_KSYMBOLS)
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
	if (im->kernel_started)
		(void)pthread_join(im->kernel_reader, NULL);
	(void)uw_kallsyms_free(im->kallsyms);
	free(im->ksymbols);
}
