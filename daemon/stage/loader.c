/* loader.c - see loader.h.
 *
 * Two classes of work: urgent (samples wait for it: mappings, unwind halves) and later (names).
 * Each turn takes all requests in, then does one piece of urgent work, or else one of later work
 * (loader-work.h). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/error.h"
#include "daemon/stage/loader-work.h"

enum { LOADER_QUEUE = 16384, LOADER_NICE = 5 };

struct work_list {
	struct load_request *items;
	size_t n, first, room;
};

struct loader {
	struct slot_queue asked, answered;
	struct waker wake;
	struct waker *answers;
	pthread_t thread;
	bool started;
	_Atomic bool stop;
	_Atomic uint64_t n_pending;
	struct work_list urgent, later;
	struct load_worker worker;
};

static int work_push(struct work_list *list, const struct load_request *request)
{
	if (list->first == list->n)
		list->first = list->n = 0;
	if (list->n == list->room) {
		size_t room = list->room ? list->room * 2 : 64;
		struct load_request *more = reallocarray(list->items, room, sizeof(*more));

		if (!more)
			return fail(-ENOMEM);
		list->items = more;
		list->room = room;
	}
	list->items[list->n++] = *request;
	return 0;
}

uint32_t load_given_new(int fd)
{
	int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return copy < 0 ? 0 : (uint32_t)copy + 1;
}

void load_request_deinit(struct load_request *request)
{
	(void)fd_close(load_given(request));
	request->given = 0;
}

/* The references that a request carries, of one that main will not hear of.  After LOAD_UNWIND that
 * on the module goes on with LOAD_SYMBOLS. */
static void release(struct load_request *request, bool answered)
{
	if (!answered)
		load_request_deinit(request);
	(void)process_unref(request->process);
	if (!answered || request->kind != LOAD_UNWIND)
		(void)uw_module_unref(request->module);
}

static void deliver(struct loader *l, struct load_answer *answer)
{
	struct load_answer *slot;

	while (!(slot = slot_queue_push(&l->answered))) {
		waker_wake(l->answers);
		if (atomic_load(&l->stop)) {
			release(&answer->request, true);
			load_answer_deinit(answer);
			return;
		}
		(void)usleep(500);
	}
	*slot = *answer;
	slot_queue_publish(&l->answered);
	if (l->answers)
		waker_wake(l->answers);
}

/* ---- thread ---- */

static void serve(struct loader *l, const struct load_request *request);

/* Each request is answered, as its asker counts on it: where there is no memory to put it off, it
 * is served now. */
static void put_off(struct loader *l, struct work_list *list, const struct load_request *request)
{
	if (work_push(list, request) < 0)
		serve(l, request);
}

static void serve(struct loader *l, const struct load_request *request)
{
	struct load_request symbols = *request;
	struct load_answer a = {.request = *request};

	load_worker_serve(&l->worker, &a);
	deliver(l, &a);
	if (request->kind == LOAD_UNWIND) {
		symbols.kind = LOAD_SYMBOLS;
		symbols.given = 0;
		atomic_fetch_add(&l->n_pending, 1);
		put_off(l, &l->later, &symbols);
	}
	atomic_fetch_sub(&l->n_pending, 1);
}

static void take_requests(struct loader *l)
{
	for (uint64_t n = slot_queue_ready(&l->asked); n; n--) {
		struct load_request request = *(struct load_request *)slot_queue_at(
			&l->asked, slot_queue_consumed(&l->asked));
		bool urgent = request.kind != LOAD_SYMBOLS && request.kind != LOAD_LINES &&
			      request.kind != LOAD_THREADS;

		slot_queue_pop(&l->asked, 1);
		put_off(l, urgent ? &l->urgent : &l->later, &request);
	}
}

static struct work_list *next_list(struct loader *l)
{
	return l->urgent.first < l->urgent.n ? &l->urgent : &l->later;
}

/* One piece of work; false: there is none. */
static bool serve_next(struct loader *l)
{
	struct work_list *list = next_list(l);
	struct load_request request;

	if (list->first == list->n)
		return false;
	request = list->items[list->first++];
	serve(l, &request);
	return true;
}

static void sleep_until_asked(struct loader *l)
{
	struct pollfd pfd = {.fd = l->wake.fd, .events = POLLIN};
	int n = 0;

	waker_prepare(&l->wake);
	if (!slot_queue_ready(&l->asked) && !atomic_load(&l->stop))
		n = poll(&pfd, 1, -1);
	waker_awake(&l->wake, n > 0);
}

/* Names can wait: the profiled programs go first.  Only who may lower his nice value again raises
 * it (on Linux it is a thread's own). */
static void make_way(bool later, int *nice)
{
	int wanted = later ? LOADER_NICE : 0;

	if (*nice == wanted || geteuid() != 0)
		return;
	if (setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), wanted) == 0)
		*nice = wanted;
}

static void *run(void *arg)
{
	struct loader *l = arg;
	int nice = 0;

	(void)pthread_setname_np(pthread_self(), "pw-loader");
	while (!atomic_load(&l->stop)) {
		const struct work_list *list;

		take_requests(l);
		list = next_list(l);
		make_way(list == &l->later, &nice);
		if (!serve_next(l))
			sleep_until_asked(l);
	}
	return NULL;
}

static int start(struct loader *l)
{
	int r = waker_init(&l->wake);

	if (r >= 0)
		r = -pthread_create(&l->thread, NULL, run, l);
	l->started = r >= 0;
	return r;
}

static int loader_make(const char *root, struct waker *answers, struct loader **ret_loader)
{
	struct loader *l = calloc(1, sizeof(*l));
	int r;

	if (!l)
		return fail(-ENOMEM);
	l->answers = answers;
	l->wake.fd = -1;
	r = load_worker_init(&l->worker, root);
	if (r >= 0)
		r = slot_queue_init(&l->asked, LOADER_QUEUE, sizeof(struct load_request));
	if (r >= 0)
		r = slot_queue_init(&l->answered, 1024, sizeof(struct load_answer));
	if (r >= 0 && answers)
		r = start(l);
	if (r < 0) {
		(void)loader_free(l);
		return fail(r);
	}
	*ret_loader = l;
	return 0;
}

int loader_new(const char *root, struct waker *answers, struct loader **ret_loader)
{
	return loader_make(root, answers, ret_loader);
}

int loader_new_inline(const char *root, struct loader **ret_loader)
{
	return loader_make(root, NULL, ret_loader);
}

static void drop_all(struct loader *l)
{
	struct load_answer answer;

	while (slot_queue_ready(&l->asked)) {
		release(slot_queue_at(&l->asked, slot_queue_consumed(&l->asked)), false);
		slot_queue_pop(&l->asked, 1);
	}
	for (; l->urgent.first < l->urgent.n; l->urgent.first++)
		release(&l->urgent.items[l->urgent.first], false);
	for (; l->later.first < l->later.n; l->later.first++)
		release(&l->later.items[l->later.first], false);
	while (loader_answer(l, &answer)) {
		release(&answer.request, true);
		load_answer_deinit(&answer);
	}
}

struct loader *loader_free(struct loader *l)
{
	const uint64_t one = 1;

	if (!l)
		return NULL;
	if (l->started) {
		atomic_store(&l->stop, true);
		(void)!write(l->wake.fd, &one, sizeof(one));
		(void)pthread_join(l->thread, NULL);
	}
	drop_all(l);
	load_worker_deinit(&l->worker);
	slot_queue_deinit(&l->asked);
	slot_queue_deinit(&l->answered);
	waker_deinit(&l->wake);
	free(l->urgent.items);
	free(l->later.items);
	free(l);
	return NULL;
}

bool loader_ask(struct loader *l, const struct load_request *request)
{
	struct load_request *slot = slot_queue_push(&l->asked);

	if (!slot)
		return false;
	*slot = *request;
	atomic_fetch_add(&l->n_pending, 1);
	slot_queue_publish(&l->asked);
	if (l->started)
		waker_wake(&l->wake);
	return true;
}

struct load_request loader_module_request(const struct process *process, struct uw_module *module)
{
	struct load_request request = {
		.kind = LOAD_UNWIND,
		.pid = process->pid,
		.module = module,
		.given = load_given_new(process->given_mem),
	};
	struct process_mapping mapping;

	if (process_mapping_of(process, module, &mapping)) {
		request.start = mapping.start;
		request.end = mapping.end;
		request.offset = mapping.offset;
		request.id = mapping.id;
	}
	return request;
}

bool loader_answer(struct loader *l, struct load_answer *ret_answer)
{
	if (!l->started && !slot_queue_ready(&l->answered)) {
		take_requests(l);
		(void)serve_next(l);
	}
	if (!slot_queue_ready(&l->answered))
		return false;
	*ret_answer = *(struct load_answer *)slot_queue_at(&l->answered,
							   slot_queue_consumed(&l->answered));
	slot_queue_pop(&l->answered, 1);
	return true;
}

uint64_t loader_pending(const struct loader *l)
{
	return atomic_load(&l->n_pending);
}
