/* libdw-elf.c - see libdw-elf.h. */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "unwinder/libdw-elf.h"

enum { MEMORY_IMAGE_MAX = 1 << 20 };

static void libdw_elf_free(struct libdw_elf *image)
{
	if (image->elf)
		elf_end(image->elf);
	free(image->bytes);
	free(image);
}

/* Address range of the segments. */
static void libdw_elf_range(struct libdw_elf *image)
{
	size_t n_phdrs;
	bool first = true;

	if (elf_kind(image->elf) != ELF_K_ELF || elf_getphdrnum(image->elf, &n_phdrs) < 0)
		return;
	for (size_t i = 0; i < n_phdrs; i++) {
		GElf_Phdr phdr;

		if (!gelf_getphdr(image->elf, (int)i, &phdr) || phdr.p_type != PT_LOAD)
			continue;
		/* libdwfl takes a module's start for this address of its first segment. */
		if (first)
			image->low = phdr.p_align ? phdr.p_vaddr & -phdr.p_align : phdr.p_vaddr;
		image->high = max_u64(image->high, phdr.p_vaddr + phdr.p_memsz);
		first = false;
	}
}

/* libelf tells it only by its message. */
static bool elf_no_memory(void)
{
	int error = elf_errno();

	return error && !strcmp(elf_errmsg(error), "out of memory");
}

/* 0 also when there is no ELF image to be had: then image->elf is NULL. */
static int libdw_elf_open(struct libdw_elf *image, const struct uw_map *map,
			  const struct uw_space *space)
{
	int fd = uw_module_image(map->module)->fd;
	size_t len = (size_t)min_u64(map->end - map->start, MEMORY_IMAGE_MAX);

	if (fd >= 0) {
		image->elf = elf_begin(fd, ELF_C_READ, NULL);
	} else if (space->memory && !map->offset) {
		image->bytes = malloc(len);
		if (!image->bytes)
			return fail(-ENOMEM);
		if (space->memory->read(space->memory, map->start, image->bytes, len) ==
		    (ssize_t)len)
			image->elf = elf_memory(image->bytes, len);
	}
	if (!image->elf)
		return elf_no_memory() ? fail(-ENOMEM) : 0;
	libdw_elf_range(image);
	if (image->high <= image->low) {
		elf_end(image->elf);
		image->elf = NULL;
	}
	return 0;
}

int libdw_elfs_get(struct libdw_elfs *elfs, const struct uw_map *map, const struct uw_space *space,
		   struct libdw_elf **ret_image)
{
	uint32_t serial = uw_module_serial(map->module);
	struct libdw_elf *image = table_pointer(&elfs->by_serial, serial);
	int r;

	if (!image) {
		image = calloc(1, sizeof(*image));
		if (!image)
			return fail(-ENOMEM);
		r = libdw_elf_open(image, map, space);
		if (r >= 0)
			r = table_put(&elfs->by_serial, serial, (uint64_t)(uintptr_t)image);
		if (r < 0) {
			libdw_elf_free(image);
			return trace(r);
		}
	}
	*ret_image = image;
	return 0;
}

void libdw_elfs_forget(struct libdw_elfs *elfs, const struct uw_module *module)
{
	uint32_t serial = module ? uw_module_serial(module) : 0;
	struct libdw_elf *image = module ? table_pointer(&elfs->by_serial, serial) : NULL;

	if (image) {
		libdw_elf_free(image);
		(void)table_remove(&elfs->by_serial, serial);
	}
	if (module)
		return;
	table_for_each (&elfs->by_serial, slot)
		libdw_elf_free((struct libdw_elf *)(uintptr_t)slot->value);
	table_clear(&elfs->by_serial);
}

void libdw_elfs_deinit(struct libdw_elfs *elfs)
{
	libdw_elfs_forget(elfs, NULL);
	table_deinit(&elfs->by_serial);
}
