/* fuzz-smb.c - a shared memory with another side that writes what it likes, when it likes.
 *
 * Input: page size, number of pages, layout and waiting room in 4 bytes, then steps: an operation,
 * a writer, and two bytes of value each.  Whatever comes: what we write stays inside the memory,
 * what we commit is a chunk of it, and the work of a step is bounded. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/producer/smb.h"

enum { WRITERS = 4, MAX_STEPS = 2000, MAX_PACKET = 20000 };

#define CHECK(ok) ((ok) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct world {
	struct smb *smb;
	struct smb_writer *writers[WRITERS];
	uint8_t *service; /* its mapping */
	uint64_t committed;
};

static int commit(void *arg, const struct smb_move *moves, size_t n)
{
	struct world *w = arg;

	CHECK(n > 0 && n <= SMB_MAX_MOVES);
	for (size_t i = 0; i < n; i++) {
		_Atomic uint32_t *word;

		CHECK(moves[i].page < w->smb->n_pages && moves[i].chunk < SMB_MAX_CHUNKS);
		/* Freed, now and then with the whole page. */
		word = (_Atomic uint32_t *)(void *)(w->service +
						    moves[i].page * (size_t)w->smb->page_size);
		*word &= w->committed % 3 ? ~(3u << (2 * moves[i].chunk)) : 0;
		w->committed++;
	}
	return 0;
}

static void check_writer(const struct world *w, const struct smb_writer *writer)
{
	const struct smb_chunk *c = &writer->chunk;

	CHECK(smb_writer_waiting(writer) <= writer->max_waiting);
	if (!c->data)
		return;
	CHECK(c->data >= w->smb->base + 8 && c->size >= 64);
	CHECK(c->data + c->size <= w->smb->base + w->smb->size);
	CHECK(writer->used <= c->size && writer->count <= 1022);
}

static void step(struct world *w, uint8_t op, uint8_t which, uint32_t value, size_t max_waiting)
{
	static const uint8_t packet[MAX_PACKET];
	struct smb_writer **writer = &w->writers[which % WRITERS];
	const size_t at = (size_t)which << 16 | value;
	_Atomic uint32_t *word;
	int r;

	switch (op % 8) {
	case 0:
	case 1:
		if (!*writer && smb_writer_new(w->smb, 1, max_waiting, writer) < 0)
			abort();
		r = smb_writer_write(*writer, packet, op % 8 ? value % MAX_PACKET : value % 300);
		CHECK(r == 0 || r == SMB_DROPPED);
		break;
	case 2:
		r = *writer ? smb_writer_flush(*writer) : 0;
		CHECK(r == 0 || r == SMB_BEHIND);
		break;
	case 3: /* any word */
		memcpy(w->service + at % (w->smb->size - 4), &value, 2);
		break;
	case 4: /* a page's word */
	case 5:
		word = (_Atomic uint32_t *)(void *)(w->service + (which % w->smb->n_pages) *
									 (size_t)w->smb->page_size);
		*word = op % 8 == 4 ? 0 : value << 16 | op;
		break;
	case 6:
		CHECK(smb_pump(w->smb) == 0 && smb_commit(w->smb) == 0);
		break;
	default:
		*writer = smb_writer_free(*writer);
	}
	for (int i = 0; i < WRITERS; i++) {
		if (w->writers[i])
			check_writer(w, w->writers[i]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world w = {0};
	uint32_t page_size, n_pages;
	size_t bytes;
	int fd;

	if (size < 4)
		return 0;
	page_size = 4096u << data[0] % 5;
	n_pages = 1 + data[1] % 8;
	bytes = (size_t)page_size * n_pages;
	fd = memfd_create("fuzz-smb", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
	w.service = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(w.service != MAP_FAILED);
	CHECK(smb_attach(fd, page_size, commit, &w, &w.smb) == 0);
	w.smb->layout = 1 + data[2] % 5;
	for (size_t i = 4, n = 0; i + 4 <= size && n < MAX_STEPS; i += 4, n++)
		step(&w, data[i], data[i + 1], data[i + 2] | (uint32_t)data[i + 3] << 8,
		     (size_t)data[3] << 10);
	for (int i = 0; i < WRITERS; i++)
		smb_writer_free(w.writers[i]);
	CHECK(smb_commit(w.smb) == 0 && smb_waiting(w.smb) == 0);
	smb_free(w.smb);
	munmap(w.service, bytes);
	return 0;
}
