/* mremap.c - code that moves: mremap() takes the text of a plugin to another address, and back,
 * again and again.  No record reports it. main > at_home > second_work > second_inner >
 * plugin_callback > burn main > elsewhere > second_work > second_inner > plugin_callback > burn
 * (second_* in plugin-second.so, the text of which calls only itself and so works anywhere) */
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include "program.h"

typedef uint64_t work_function(uint64_t (*callback)(uint64_t), uint64_t n);

struct text {
	uintptr_t within; /* in: an address in it; out: its first page */
	size_t len;
};

static NOINLINE uint64_t plugin_callback(uint64_t n)
{
	uint64_t x = burn(50 + n % 2);

	NOT_LAST;
	return x;
}

static NOINLINE void at_home(work_function *work)
{
	for (int i = 0; i < 200; i++)
		program_sink += work(plugin_callback, 50);
}

static NOINLINE void elsewhere(work_function *work)
{
	for (int i = 0; i < 200; i++)
		program_sink += work(plugin_callback, 51);
}

static int find_text(struct dl_phdr_info *info, size_t size, void *data)
{
	struct text *text = data;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_X) || text->within < start ||
		    text->within >= start + ph->p_memsz)
			continue;
		text->len = (start % 4096 + ph->p_memsz + 4095) / 4096 * 4096;
		text->within = start / 4096 * 4096;
		return 1;
	}
	return 0;
}

static void move(uintptr_t from, uintptr_t to, size_t len)
{
	if (mremap((void *)from, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)to) ==
	    MAP_FAILED) {
		perror("mremap");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/');
	struct text text;
	uintptr_t work, away;
	char path[4096];
	void *plugin, *area;

	program_start(argc, argv);
	snprintf(path, sizeof(path), "%.*splugin-second.so", slash ? (int)(slash + 1 - argv[0]) : 2,
		 slash ? argv[0] : "./");
	plugin = dlopen(path, RTLD_NOW);
	work = plugin ? (uintptr_t)dlsym(plugin, "second_work") : 0;
	text.within = work;
	if (!work || !dl_iterate_phdr(find_text, &text))
		return 1;
	area = mmap(NULL, text.len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED)
		return 1;
	away = (uintptr_t)area;
	while (program_running()) {
		at_home((work_function *)work);
		move(text.within, away, text.len);
		elsewhere((work_function *)(away + (work - text.within)));
		move(away, text.within, text.len);
	}
	return 0;
}
