/* marks.c - the ring of one process and its hand-over (marks-ring.h).  Thread: any, signal handlers included; marks_begin:
 * the first, before the program runs.
 *
 *   load ─► memfd, mapped ─► environment or invitation ─► first mark: socket, SCM_RIGHTS ─► ring of the thread ─► marks
 *
 * A recording of all processes sends its invitation when the library announces itself, at load.
 *
 * A mark: two loads, the clock (vDSO), one compare-and-swap on a word of this thread alone, for signal handlers, and a copy.
 * A thread's first mark takes a slot (a few system calls), its end gives it back.
 *
 * A child of fork() finds the page `fresh` wiped at its first mark, and then gets a memfd of its own, mapped where its
 * parent's was: with system calls alone, as other threads of the parent may have held any lock.  A child of vfork() marks as
 * its parent's thread.  exec: what lies in the memfd stays for the recording, which has a descriptor of it. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "libc-hook/syscalls.h"
#define PERFWIND_MARKS_OFF
#include "libmarks/marks.h"
#include "libmarks/perfwind-marks.h"

#define EXPORTED __attribute__((visibility("default")))

enum {
	PAGES = 256,	    /* objects with marks of their own */
	HIGH_FD = 512,	    /* programs count on low numbers */
	SEND_WAIT_MS = 10,  /* for a place in the recording's backlog */
	NO_SLOT_AGAIN = 64, /* marks of a thread that found no slot until it looks again */
	TRIES = 10,	    /* connections that find no place */
	BECOMING = -1,	    /* fresh->pid: the child's ring is being made */
};

/* As long as there is no ring. */
static struct marks_head nothing;
struct marks_head *marks_head = &nothing;

/* In a page that fork() wipes. */
static struct fresh {
	atomic_int pid; /* 0: not this process's ring */
} * fresh;

static atomic_uintptr_t pages[PAGES]; /* of perfwind-marks.h, in each object */
static atomic_uint answered;	      /* the invitation that was answered */
static atomic_uint tries;
static atomic_int answering; /* the pid */
static int ring_fd = -1;
static struct identity {
	uint64_t device, inode;
} ring_file; /* behind ring_fd, as long as the program has left that number alone */
static pthread_key_t end_key;
static bool has_end_key;
static uint64_t *atrace_tags; /* the program's, or NULL */
static uint64_t followed;     /* the mask that they have */

/* Functions that an old libc has in another library: a weak symbol that is missing is NULL. */
#pragma weak pthread_key_create
#pragma weak pthread_setspecific

static __thread struct {
	struct marks_slot *slot;
	uint64_t *ring;
	uint32_t tid, wait;
	int pid; /* of the process that took the slot */
	bool busy;
} own __attribute__((tls_model("initial-exec")));

static uint64_t now(uint32_t clock)
{
	struct timespec t;

	(void)clock_gettime((clockid_t)clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- the memory ---- */

/* Above the numbers that a program counts on, where the limit permits. */
static int move_up(int fd)
{
	long moved = sys3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, HIGH_FD);

	if (moved < 0)
		return fd;
	(void)sys1(SYS_close, fd);
	return (int)moved;
}

static struct identity identity_of(int fd)
{
	struct stat st;

	if (sys2(SYS_fstat, fd, &st) < 0)
		return (struct identity){0};
	return (struct identity){.device = st.st_dev, .inode = st.st_ino};
}

static bool is_file(int fd, struct identity file)
{
	struct identity is = identity_of(fd);

	return is.inode && is.inode == file.inode && is.device == file.device;
}

/* A sealed memfd, or -errno. */
static int new_memfd(void)
{
	int fd = (int)sys2(SYS_memfd_create, MARKS_MEMFD, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0)
		return fd;
	if (sys2(SYS_ftruncate, fd, MARKS_BYTES) < 0 ||
	    sys3(SYS_fcntl, fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
		(void)sys1(SYS_close, fd);
		return -EINVAL;
	}
	return move_up(fd);
}

static bool failed(long r)
{
	return r < 0 && r > -4096;
}

static void show_page(uintptr_t page)
{
	if (page && ring_fd >= 0)
		(void)sys6(SYS_mmap, page, PERFWIND_PAGE_, PROT_READ, MAP_SHARED | MAP_FIXED,
			   ring_fd, 0);
}

/* The ring in @fd, at @at or anywhere; or -errno.  A ring of a thread is accessible once a thread has it: mlockall() takes no
 * memory for the others.  Other threads read the head at @at meanwhile: it is accessible at each moment. */
static long map_ring(int fd, char *at)
{
	long r;

	if (at) {
		r = sys6(SYS_mmap, at + MARKS_DATA_AT, MARKS_BYTES - MARKS_DATA_AT, PROT_NONE,
			 MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, MARKS_DATA_AT);
		return failed(r) ? r
				 : sys6(SYS_mmap, at, MARKS_DATA_AT, PROT_READ | PROT_WRITE,
					MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
	}
	r = sys6(SYS_mmap, NULL, MARKS_BYTES, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (!failed(r) && sys3(SYS_mprotect, r, MARKS_DATA_AT, PROT_READ | PROT_WRITE) < 0) {
		(void)sys2(SYS_munmap, r, MARKS_BYTES);
		return -ENOMEM;
	}
	return r;
}

/* Maps a new ring, at @at or anywhere. */
static struct marks_head *new_ring(void *at)
{
	int fd = new_memfd();
	struct marks_head *head;
	long r;

	if (fd < 0)
		return NULL;
	r = map_ring(fd, at);
	if (failed(r)) {
		(void)sys1(SYS_close, fd);
		return NULL;
	}
	head = (struct marks_head *)r;
	(void)sys3(SYS_madvise, head, MARKS_BYTES, MADV_DONTDUMP);
	head->version = MARKS_VERSION;
	head->pid = (uint32_t)sys0(SYS_getpid);
	head->clock = CLOCK_MONOTONIC;
	head->magic = MARKS_MAGIC;
	ring_fd = fd;
	ring_file = identity_of(fd);
	return head;
}

/* ---- the program's own switches ---- */

static void set_atrace_tags(uint64_t mask)
{
	if (atrace_tags)
		__atomic_store_n(atrace_tags, mask & ~(MARKS_FUNCTIONS | MARKS_TEXT),
				 __ATOMIC_RELAXED);
}

void marks_follow(void)
{
	uint64_t mask = __atomic_load_n(&marks_head->mask, __ATOMIC_RELAXED);

	if (mask != __atomic_exchange_n(&followed, mask, __ATOMIC_RELAXED))
		set_atrace_tags(mask);
}

static void switch_off(void)
{
	__atomic_store_n(&marks_head->mask, 0, __ATOMIC_RELAXED);
	marks_follow();
}

static void add_page(void *page)
{
	for (int i = 0; i < PAGES; i++) {
		uintptr_t none = 0;

		if (atomic_load(&pages[i]) == (uintptr_t)page)
			return;
		if (atomic_compare_exchange_strong(&pages[i], &none, (uintptr_t)page)) {
			show_page((uintptr_t)page);
			return;
		}
	}
}

static void remove_page(void *page)
{
	for (int i = 0; i < PAGES; i++) {
		uintptr_t this = (uintptr_t)page;

		(void)atomic_compare_exchange_strong(&pages[i], &this, 0);
	}
}

/* ---- a child of fork() ---- */

static int owner(void)
{
	return fresh ? atomic_load_explicit(&fresh->pid, memory_order_relaxed) : 0;
}

static void become_child(void)
{
	struct marks_head *head = marks_head, was = *marks_head;
	struct identity old_file = ring_file;
	int old = ring_fd, none = 0;

	if (!atomic_compare_exchange_strong(&fresh->pid, &none, BECOMING))
		return; /* another thread or an interrupted one does this */
	if (!new_ring(head)) {
		marks_head = &nothing; /* what its parent has stays its parent's */
		return;
	}
	if (is_file(old, old_file)) /* else another file has the number meanwhile */
		(void)sys1(SYS_close, old);
	/* Where a signal handler forked, this thread may still be writing the mark that was interrupted. */
	if (own.slot)
		(void)sys3(SYS_mprotect, own.ring, MARKS_RING_BYTES, PROT_READ | PROT_WRITE);
	atomic_store(&answered, 0);
	atomic_store(&tries, 0);
	atomic_store(&answering, 0);
	head->clock = was.clock;
	head->flags = was.flags;
	memcpy(head->socket, was.socket, sizeof(head->socket));
	head->invitation = was.invitation;
	head->until = was.until;
	atomic_store(&fresh->pid, (int)head->pid);
	for (int i = 0; i < PAGES; i++)
		show_page(atomic_load(&pages[i]));
	__atomic_store_n(&head->mask, was.mask, __ATOMIC_RELEASE);
}

/* ---- the hand-over ---- */

static unsigned address_of(const char *name, struct sockaddr_un *to)
{
	size_t len = strnlen(name, MARKS_SOCKET_MAX);

	memset(to, 0, sizeof(*to));
	to->sun_family = AF_UNIX;
	if (!len || len >= MARKS_SOCKET_MAX)
		return 0;
	memcpy(to->sun_path, name, len);
	if (*name == '@')
		to->sun_path[0] = 0;
	return (unsigned)(offsetof(struct sockaddr_un, sun_path) + len + (*name != '@'));
}

static long send_ring(int to, char byte)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec data = {.iov_base = &byte, .iov_len = 1};
	struct msghdr message = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *c;

	memset(&control, 0, sizeof(control));
	c = CMSG_FIRSTHDR(&message);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	*(int *)(void *)CMSG_DATA(c) = ring_fd;
	return sys3(SYS_sendmsg, to, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Does root or our own user listen there?  The name is from the environment or from shared memory, and what is sent shows this
 * process's marks and lets the receiver switch them. */
static bool is_trusted(int fd)
{
	struct ucred peer = {.uid = (uid_t)-1};
	socklen_t len = sizeof(peer);

	return sys5(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
	       len == sizeof(peer) && (peer.uid == 0 || peer.uid == (uid_t)sys0(SYS_geteuid));
}

/* Sends the ring with @byte.  -EAGAIN: no place; another failure: no recording is at @name. */
static long connect_recording(const char *name, char byte)
{
	static const struct timeval wait = {.tv_usec = SEND_WAIT_MS * 1000};
	struct sockaddr_un address;
	unsigned len = address_of(name, &address);
	long r;
	int fd;

	if (!len)
		return -EINVAL;
	if (!is_file(ring_fd, ring_file))
		return -EBADF; /* the program has closed it */
	fd = (int)sys3(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	r = sys5(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	if (r == 0)
		r = sys3(SYS_connect, fd, &address, len);
	if (r == 0)
		r = is_trusted(fd) ? send_ring(fd, byte) : -EPERM;
	(void)sys1(SYS_close, fd);
	return r == -EINTR ? -EAGAIN : r < 0 ? r : 0;
}

static struct marks_slot *all_slots(void)
{
	return (void *)((char *)marks_head + MARKS_SLOTS_AT);
}

/* Once for each invitation.  false: there is no recording, or no place yet, or another thread is at it. */
static bool answer_invitation(void)
{
	uint32_t invitation = __atomic_load_n(&marks_head->invitation, __ATOMIC_ACQUIRE);
	struct marks_slot *slots = all_slots();
	char name[MARKS_SOCKET_MAX];
	int none = 0;
	long r;

	if (!atomic_compare_exchange_strong(&answering, &none, owner()))
		return false;
	marks_head->lost = 0;
	for (int i = 0; i < MARKS_SLOTS; i++)
		slots[i].begin = __atomic_load_n(&slots[i].head, __ATOMIC_RELAXED);
	memcpy(name, marks_head->socket, sizeof(name));
	r = connect_recording(name, MARKS_BYTE);
	if (r == 0) {
		marks_follow();
		atomic_store(&answered, invitation);
	} else if (r != -EAGAIN || atomic_fetch_add(&tries, 1) >= TRIES) {
		atomic_store(&tries, 0);
		switch_off();
	}
	atomic_store(&answering, 0);
	return r == 0;
}

bool marks_recorded(void)
{
	struct marks_head *head = marks_head;

	if (!__atomic_load_n(&head->mask, __ATOMIC_RELAXED))
		return false;
	if (now(head->clock) <= __atomic_load_n(&head->until, __ATOMIC_RELAXED))
		return true;
	switch_off();
	return false;
}

/* ---- the ring of a thread ---- */

static void put(unsigned kind, uint64_t time, const char *name, size_t len, uint64_t value,
		uint64_t extra);

static void give_back(void *slot)
{
	if (own.slot != slot || own.pid != owner())
		return;
	put(MARKS_THREAD_END, now(marks_head->clock), NULL, 0, 0, 0);
	own.slot = NULL;
	own.wait = 0;
	__atomic_store_n(&((struct marks_slot *)slot)->tid, 0, __ATOMIC_RELEASE);
}

/* A slot that was never used comes first: what an ended thread left is not overwritten before it is read. */
static struct marks_slot *take_slot(uint32_t tid)
{
	struct marks_slot *slots = all_slots();

	for (int unused = 1; unused >= 0; unused--) {
		for (int i = 0; i < MARKS_SLOTS; i++) {
			uint32_t none = 0;

			if (unused && __atomic_load_n(&slots[i].head, __ATOMIC_RELAXED))
				continue;
			if (!__atomic_load_n(&slots[i].tid, __ATOMIC_RELAXED) &&
			    __atomic_compare_exchange_n(&slots[i].tid, &none, tid, false,
							__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
				return &slots[i];
		}
	}
	return NULL;
}

/* Where no memory is left: an error here, and not a signal later.  A kernel before 5.14 does not have this call. */
static bool prepare_ring(void *ring)
{
	long r = sys3(SYS_mprotect, ring, MARKS_RING_BYTES, PROT_READ | PROT_WRITE);

#ifdef MADV_POPULATE_WRITE
	if (r == 0)
		r = sys3(SYS_madvise, ring, MARKS_RING_BYTES, MADV_POPULATE_WRITE);
	r = r == -EINVAL ? 0 : r;
#endif
	return r == 0;
}

/* false: the mark is lost. */
static bool begin_thread(void)
{
	struct marks_slot *slot;
	uint64_t *ring = NULL;

	if (own.busy || (own.wait && --own.wait)) /* busy: a signal handler has interrupted this */
		return false;
	own.busy = true;
	own.slot = NULL;
	own.tid = (uint32_t)sys0(SYS_gettid);
	slot = take_slot(own.tid);
	if (slot) {
		size_t i = (size_t)(slot - all_slots());

		ring = (void *)((char *)marks_head + MARKS_DATA_AT + i * MARKS_RING_BYTES);
		if (!prepare_ring(ring)) {
			__atomic_store_n(&slot->tid, 0, __ATOMIC_RELEASE);
			slot = NULL;
		}
	}
	if (slot) {
		own.ring = ring;
		own.pid = owner();
		own.slot = slot;
		if (has_end_key && pthread_setspecific)
			(void)pthread_setspecific(end_key, slot);
	} else {
		own.wait = NO_SLOT_AGAIN;
	}
	own.busy = false;
	return slot != NULL;
}

static void copy_name(uint64_t *ring, uint32_t at, const char *name, size_t len)
{
	enum { MASK = MARKS_RING_WORDS - 1 };

	for (; len >= 8; len -= 8, name += 8, at++)
		memcpy(&ring[at & MASK], name, 8);
	if (len) {
		uint64_t last = 0;

		memcpy(&last, name, len);
		ring[at & MASK] = last;
	}
}

static void put(unsigned kind, uint64_t time, const char *name, size_t len, uint64_t value,
		uint64_t extra)
{
	enum { MASK = MARKS_RING_WORDS - 1 };
	uint32_t words, at;
	uint64_t head, next, *ring = own.ring;

	if (len > MARKS_NAME_MAX)
		len = MARKS_NAME_MAX;
	words = MARKS_MARK_WORDS + (uint32_t)((len + 7) / 8);
	head = __atomic_load_n(&own.slot->head, __ATOMIC_RELAXED);
	/* A signal handler of this thread may put marks in between. */
	do {
		next = ((head >> 32) + 1) << 32 | (uint32_t)((uint32_t)head + words);
	} while (!__atomic_compare_exchange_n(&own.slot->head, &head, next, false, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	atomic_thread_fence(memory_order_release);
	at = (uint32_t)head;
	ring[(at + 1) & MASK] = time;
	ring[(at + 2) & MASK] = (head >> 32) << 32 | own.tid;
	ring[(at + 3) & MASK] = value;
	ring[(at + 4) & MASK] = extra;
	copy_name(ring, at + MARKS_MARK_WORDS, name, len);
	__atomic_store_n(&ring[at & MASK], at | (uint64_t)words << 32 | (uint64_t)kind << 48,
			 __ATOMIC_RELEASE);
}

void marks_put(unsigned kind, const char *name, size_t len, uint64_t value, uint64_t extra)
{
	struct marks_head *head;
	uint64_t time;
	int pid = owner();

	if (pid <= 0) {
		if (!fresh || marks_head == &nothing)
			return;
		become_child();
		pid = owner();
		if (pid <= 0)
			return;
	}
	head = marks_head;
	time = now(head->clock);
	if (time > __atomic_load_n(&head->until, __ATOMIC_RELAXED)) {
		switch_off(); /* the recording is gone */
		return;
	}
	if ((__atomic_load_n(&head->invitation, __ATOMIC_RELAXED) !=
		     atomic_load_explicit(&answered, memory_order_relaxed) &&
	     !answer_invitation()) ||
	    ((!own.slot || own.pid != pid) && !begin_thread())) {
		(void)__atomic_fetch_add(&head->lost, 1, __ATOMIC_RELAXED);
		return;
	}
	put(kind, time, name, len, value, extra);
}

/* ---- perfwind-marks.h ---- */

static void put_mark(int kind, uint64_t category, const char *name, size_t len, int64_t value)
{
	if (kind >= MARKS_BEGIN && kind <= MARKS_ASYNC_END && marks_wanted(category))
		marks_put((unsigned)kind, name, len, (uint64_t)value, category);
}

EXPORTED extern const struct perfwind_marks_calls perfwind_marks_calls_1;
const struct perfwind_marks_calls perfwind_marks_calls_1 = {
	.version = 1, .put = put_mark, .add_page = add_page, .remove_page = remove_page};

/* ---- the start ---- */

/* Hexadecimal digits up to a colon.  NULL: something else. */
static const char *take_number(const char *text, uint64_t *ret)
{
	uint64_t n = 0;
	int digits = 0;

	for (; *text && *text != ':'; text++, digits++) {
		int c = *text | 0x20;
		int digit = c >= '0' && c <= '9'   ? c - '0'
			    : c >= 'a' && c <= 'f' ? c - 'a' + 10
						   : -1;

		if (digit < 0 || digits == 16)
			return NULL;
		n = n << 4 | (uint64_t)digit;
	}
	if (!*text || !digits)
		return NULL;
	*ret = n;
	return text + 1;
}

/* CLOCK:MASK:FLAGS:SOCKET */
static void read_environment(const char *text)
{
	uint64_t clock, mask, flags;
	size_t len;

	text = take_number(text, &clock);
	text = text ? take_number(text, &mask) : NULL;
	text = text ? take_number(text, &flags) : NULL;
	len = text ? strlen(text) : 0;
	if (!len || len >= MARKS_SOCKET_MAX || clock > CLOCK_TAI)
		return;
	marks_head->clock = (uint32_t)clock;
	marks_head->flags = (uint32_t)flags;
	memcpy(marks_head->socket, text, len + 1);
	marks_head->until = now((uint32_t)clock) + MARKS_LEASE_MS * 1000000ull;
	marks_head->invitation = 1;
	__atomic_store_n(&marks_head->mask, mask, __ATOMIC_RELEASE);
	/* At once: a program that ends soon has handed its ring over before. */
	(void)answer_invitation();
}

/* Where no recording of all processes runs as user @uid, this costs three system calls. */
static void send_hello(uint32_t uid)
{
	char name[] = MARKS_ALL_SOCKET "00000000";

	for (int i = 0; i < MARKS_ALL_DIGITS; i++)
		name[sizeof(name) - 2 - (size_t)i] = "0123456789abcdef"[uid >> 4 * i & 15];
	(void)connect_recording(name, MARKS_HELLO);
}

__attribute__((constructor)) static void marks_begin(void)
{
	int was = errno;
	const char *environment = getauxval(AT_SECURE) ? NULL : getenv(MARKS_ENV);
	struct marks_head *head;
	long r;

	if (fresh) /* loaded twice */
		return;
	r = sys6(SYS_mmap, NULL, sizeof(*fresh), PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (failed(r))
		return;
	/* Before 4.14 the kernel does not wipe it. */
	head = sys3(SYS_madvise, r, sizeof(*fresh), MADV_WIPEONFORK) < 0 ? NULL : new_ring(NULL);
	if (!head) {
		(void)sys2(SYS_munmap, r, sizeof(*fresh));
		return;
	}
	fresh = (struct fresh *)r;
	atomic_store(&fresh->pid, (int)head->pid);
	marks_head = head;
	has_end_key = pthread_key_create && pthread_key_create(&end_key, give_back) == 0;
	atrace_tags = dlsym(RTLD_DEFAULT, "atrace_enabled_tags");
	(void)dlerror(); /* that it is not there is no error of the program */
	if (environment) {
		read_environment(environment);
	} else if (!getauxval(AT_SECURE)) {
		send_hello(0);
		if (sys0(SYS_geteuid))
			send_hello((uint32_t)sys0(SYS_geteuid));
	}
	functions_begin();
	errno = was;
}
