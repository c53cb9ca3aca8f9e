/* producer.h - a producer of the tracing service: ProducerPort's client side.  Thread: main.
 *
 *   WAITING ── timer ──► BINDING ──► OPENING ──► REGISTERING ──► SERVING ──► LEAVING
 *      ▲  (backoff)    BindService   Initialize-    data sources    Sync        │
 *      └───────────────── lost ◄──   Connection     registered      answered    ▼  left()
 *
 * Knows the protocol and nothing of profiling: commands arrive as calls of `struct producer_events`, and the functions
 * below queue calls to the service; they never block and never call back.  Without a connection they do nothing:
 * lost() has been called, and the service has dropped everything of this producer.
 *
 * The service is not trusted: a message that cannot be decoded is skipped, a violation of the protocol ends the
 * connection (the reason is logged), and connecting begins again after 200 ms, 400 ms ... 30 s. */
#pragma once

#include "base/loop.h"
#include "daemon/producer/smb.h"

struct producer_source {
	const char *name;
	bool will_notify_on_stop, handles_incremental_state_clear;
};

struct producer_events {
	/* May this user run the service?  Called for each connection before a byte is sent over it: @uid is the user
	 * that called listen(2) on the other socket (SO_PEERCRED).  false: the connection is closed, lost() is not
	 * called. */
	bool (*trusts)(void *arg, uint32_t uid);
	/* All data sources are registered, and the service has answered a Sync since. */
	void (*serving)(void *arg);
	/* The connection is lost, with everything that was set up over it. */
	void (*lost)(void *arg);
	/* producer_leave() is done: the service has handled everything that was sent. */
	void (*left)(void *arg);
	/* Consumes @fd, which is not checked; -1: the service sent none. */
	void (*setup_tracing)(void *arg, int fd, uint32_t page_bytes);
	/* @config: a DataSourceConfig, valid during the call. */
	void (*setup)(void *arg, uint64_t id, const void *config, size_t len);
	void (*start)(void *arg, uint64_t id, const void *config, size_t len);
	void (*stop)(void *arg, uint64_t id);
	void (*flush)(void *arg, uint64_t request, const uint64_t *ids, size_t n);
	void (*clear_incremental_state)(void *arg, const uint64_t *ids, size_t n);
	/* The service has handled a producer_commit() with @reply: its chunks are free. */
	void (*committed)(void *arg);
};

struct producer_options {
	const char *socket; /* NULL: producer_socket_name() */
	bool privileged;    /* the same: no name that any user can bind */
	const char *name;
	uint32_t shmem_page_bytes, shmem_bytes; /* hints; 0: the service's choice */
	const struct producer_source *sources;	/* borrowed while the producer lives */
	size_t n_sources;
};

struct producer;
/* Borrows @options' strings, @events, @arg and @loop.  The first try is made by the loop. */
int producer_new(const struct producer_options *options, const struct producer_events *events,
		 void *arg, struct loop *loop, struct producer **ret_producer);
/* Without a message to the service, which sees the connection end. */
struct producer *producer_free(struct producer *producer);
bool producer_connected(const struct producer *producer);
/* For the next connection, which is tried at once if there is none. */
void producer_set_hints(struct producer *producer, uint32_t page_bytes, uint32_t bytes);

/* Hands over chunks, in order, then answers flush requests up to @flush (0: none).  More than fit
 * into one frame are sent in several.  @reply: committed() is called after it; one call with it is in progress at a time, and
 * a second one is sent when that is answered. */
void producer_commit(struct producer *producer, const struct smb_move *chunks, size_t n,
		     uint64_t flush, bool reply);
void producer_register_writer(struct producer *producer, uint32_t id, uint32_t target_buffer);
void producer_unregister_writer(struct producer *producer, uint32_t id);
void producer_stopped(struct producer *producer, uint64_t id);
/* The receiver of an event found a violation of the protocol: @why is logged, the connection ends when the event
 * has returned. */
void producer_refuse(struct producer *producer, const char *why);
/* Takes no more commands and unregisters the data sources; left() follows, or lost().  false: not connected,
 * neither will follow. */
bool producer_leave(struct producer *producer);

/* The socket's name, found like by a stock client: $PERFETTO_PRODUCER_SOCK_NAME, else the one in /run/perfetto.  If that
 * folder is missing, an unprivileged daemon uses /tmp, where any user can bind a name.  Borrowed from the
 * environment or constant. */
const char *producer_socket_name(bool privileged);
/* Connects to a socket of this name: a path, or '@' and an abstract name.  Not blocking.  -EAFNOSUPPORT: TCP and vsock. */
int producer_connect(const char *name, int *ret_fd);
/* The wait before the next try, after a wait of @last_ms (0: none yet). */
uint32_t producer_backoff_ms(uint32_t last_ms);
