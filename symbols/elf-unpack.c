/* elf-unpack.c - compressed sections.  Thread: any.
 *
 *   SHF_COMPRESSED    gABI: an Elf64_Chdr, then the data
 *   .zdebug_X         GNU's form of before: "ZLIB", the size as 8 big-endian bytes, then the data
 *
 * The header's size is a claim: memory is taken for it only within the caller's bound and within
 * what the method can gain from so many bytes, and the data must fill it exactly. */
#include <errno.h>
#include <string.h>
#include <zlib.h>
#ifdef HAVE_ZSTD
#include <zstd.h>
#ifndef ELFCOMPRESS_ZSTD /* glibc before 2.37 */
#define ELFCOMPRESS_ZSTD 2
#endif
#endif

#include "base/error.h"
#include "symbols/elf.h"

enum { GNU_HEADER = 12 };

static int inflate_all(const uint8_t *from, size_t from_len, uint8_t *to, size_t len)
{
	uLongf done = len;
	int status = uncompress(to, &done, from, from_len);

	if (status == Z_MEM_ERROR)
		return fail(-ENOMEM);
	return status == Z_OK && done == len ? 0 : fail(-EBADMSG);
}

#ifdef HAVE_ZSTD
static int unpack_zstd(const uint8_t *from, size_t from_len, uint8_t *to, size_t len)
{
	ZSTD_DCtx *context = ZSTD_createDCtx();
	size_t done;

	if (!context)
		return fail(-ENOMEM);
	done = ZSTD_decompressDCtx(context, to, len, from, from_len);
	(void)ZSTD_freeDCtx(context);
	return !ZSTD_isError(done) && done == len ? 0 : fail(-EBADMSG);
}
#endif

/* What a method can gain at most: deflate about 1032 to 1, zstd a block of 128 KiB out of 4 bytes. */
struct method {
	uint64_t gain;
	int (*unpack)(const uint8_t *from, size_t from_len, uint8_t *to, size_t len);
};

static const struct method methods[] = {
	[ELFCOMPRESS_ZLIB] = {1100, inflate_all},
#ifdef HAVE_ZSTD
	[ELFCOMPRESS_ZSTD] = {(128 << 10) / 4, unpack_zstd},
#endif
};

static int unpack_by(uint32_t type, uint64_t len, const uint8_t *from, size_t from_len,
		     uint64_t max, uint8_t **ret_data)
{
	_cleanup_(freep) uint8_t *data = NULL;
	int r;

	if (type >= ARRAY_SIZE(methods) || !methods[type].unpack)
		return fail(-EOPNOTSUPP);
	if (len > max || len / methods[type].gain > from_len)
		return fail(-EFBIG);
	data = malloc(len ? len : 1);
	if (!data)
		return fail(-ENOMEM);
	r = methods[type].unpack(from, from_len, data, len);
	if (r < 0)
		return trace(r);
	*ret_data = take(data);
	return 0;
}

int uw_elf_unpack(const struct uw_section *packed, uint64_t max, struct uw_section *ret_section)
{
	uint8_t *data;
	Elf64_Chdr ch;
	int r;

	if (packed->size < sizeof(ch))
		return fail(-EBADMSG);
	memcpy(&ch, packed->data, sizeof(ch));
	r = unpack_by(ch.ch_type, ch.ch_size, packed->data + sizeof(ch), packed->size - sizeof(ch),
		      max, &data);
	if (r < 0)
		return trace(r);
	*ret_section =
		(struct uw_section){.data = data, .size = ch.ch_size, .vaddr = packed->vaddr};
	return 0;
}

int uw_elf_unpack_gnu(const struct uw_section *packed, uint64_t max, struct uw_section *ret_section)
{
	uint64_t len = 0;
	uint8_t *data;
	int r;

	if (packed->size < GNU_HEADER || memcmp(packed->data, "ZLIB", 4) != 0)
		return fail(-EBADMSG);
	for (unsigned i = 4; i < GNU_HEADER; i++)
		len = len << 8 | packed->data[i];
	r = unpack_by(ELFCOMPRESS_ZLIB, len, packed->data + GNU_HEADER, packed->size - GNU_HEADER,
		      max, &data);
	if (r < 0)
		return trace(r);
	*ret_section = (struct uw_section){.data = data, .size = len, .vaddr = packed->vaddr};
	return 0;
}
