/* test-producer-replay.c - the bytes of a session between a stock producer and a stock service
 * (tests/data/ipc-session.txt) against our client: it must understand all that the service sent,
 * and where it sends the same as the stock producer, send it in the same bytes but for the request
 * id. */
#include "base/error.h"
#include "tests/unit/daemon/producer/fake-service.h"

enum { MAX_LINES = 64, ID_AT = 5 }; /* size, tag, then the id: one byte below 128 */

struct line {
	bool producer, fd;
	size_t len;
	uint8_t bytes[1024];
};

static struct line lines[MAX_LINES];
static size_t n_lines;

static void take_line(char *text)
{
	struct line *l = &lines[n_lines];
	char *save, *word = strtok_r(text, " ", &save);

	if (!word || *word == '#')
		return;
	assert_true(n_lines < MAX_LINES);
	word = strtok_r(NULL, " ", &save);
	l->producer = !strcmp(word, "producer");
	word = strtok_r(NULL, " ", &save);
	l->fd = !strcmp(word, "+fd");
	if (l->fd)
		word = strtok_r(NULL, " ", &save);
	l->len = strtoul(word, NULL, 10);
	word = strtok_r(NULL, " ", &save);
	assert_true(l->len <= sizeof(l->bytes));
	assert_int_equal(strlen(word), 2 * l->len);
	for (size_t i = 0; i < l->len; i++) {
		char pair[3] = {word[2 * i], word[2 * i + 1], 0};

		l->bytes[i] = (uint8_t)strtoul(pair, NULL, 16);
	}
	n_lines++;
}

static int read_lines(void **state)
{
	char *text, *save;
	size_t len;

	(void)state;
	if (read_file("tests/data/ipc-session.txt", 1 << 20, &text, &len) < 0)
		return -1;
	for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
		take_line(l);
	free(text);
	return n_lines ? 0 : -1;
}

static void play_service(struct service *s)
{
	for (size_t i = 0; i < n_lines; i++) {
		if (lines[i].producer)
			continue;
		peer_send(s->stream.fd, lines[i].bytes, lines[i].len, lines[i].fd);
		pump(s);
	}
}

/* The stock producer has no Sync: its answer, ours has one, which the file does not answer. */
static void answer_sync(struct service *s)
{
	service_reply(s, 6, "", 0, true, false);
}

static void test_service_is_understood(void **state)
{
	struct service s;

	(void)state;
	service_init(&s, "replay", 0, 0);
	service_listen(&s);
	service_accept(&s);
	play_service(&s);
	answer_sync(&s);
	assert_string_equal(s.events, "tracing 4096 fd; setup 1 48; start 1 48; "
				      "flush 1 [1]; clear [1]; flush 2 [1]; clear [1]; "
				      "flush 3 [1]; clear [1]; flush 4 [1]; stop 1; serving; ");
	service_deinit(&s);
}

/* Byte by byte, as a socket may give them. */
static void test_in_single_bytes(void **state)
{
	struct service s;

	(void)state;
	service_init(&s, "bytes", 0, 0);
	service_listen(&s);
	service_accept(&s);
	for (size_t i = 0; i < n_lines; i++) {
		if (lines[i].producer)
			continue;
		for (size_t j = 0; j < lines[i].len; j++) {
			peer_send(s.stream.fd, lines[i].bytes + j, 1, lines[i].fd && j == 0);
			assert_int_equal(loop_run_once(&s.loop, 0), 0);
		}
	}
	assert_string_equal(s.events, "tracing 4096 fd; setup 1 48; start 1 48; "
				      "flush 1 [1]; clear [1]; flush 2 [1]; clear [1]; "
				      "flush 3 [1]; clear [1]; flush 4 [1]; stop 1; ");
	service_deinit(&s);
}

/* Our next frame, without its request id, stands in the file as one of the stock producer's. */
static void expect_stock_bytes(struct service *s)
{
	const uint8_t *data;
	size_t len, i;

	pump(s);
	while (frame_next(&s->stream, &data, &len) == FRAME_NONE)
		assert_int_equal(frame_receive(&s->stream), 0);
	for (i = 0; i < n_lines; i++) {
		const struct line *l = &lines[i];

		if (l->producer && l->len == len + 4 && data[0] == l->bytes[4] &&
		    !memcmp(data + 2, l->bytes + ID_AT + 1, len - 2))
			break;
	}
	if (i == n_lines) {
		for (i = 0; i < len; i++)
			print_error("%02x", data[i]);
		fail_msg(" was never sent by the stock producer");
	}
}

static void test_producer_sends_the_same(void **state)
{
	struct service s;
	Pb__IPCFrame *initialize;

	(void)state;
	service_init(&s, "same", 0, 0);
	service_listen(&s);
	service_accept(&s);
	play_service(&s);
	expect_stock_bytes(&s);	       /* BindService */
	initialize = service_next(&s); /* our own names */
	message_freep(&initialize);
	expect_stock_bytes(&s); /* GetAsyncCommand */
	expect_stock_bytes(&s); /* the two data sources */
	expect_stock_bytes(&s);
	initialize = service_next(&s); /* Sync: the stock producer did without */
	message_freep(&initialize);
	producer_register_writer(s.producer, 1, 1);
	expect_stock_bytes(&s);
	for (uint64_t request = 1; request <= 4; request++) {
		producer_commit(s.producer, NULL, 0, request, false);
		expect_stock_bytes(&s);
	}
	producer_commit(s.producer, &(struct smb_move){2, 0, 1}, 1, 0, false);
	expect_stock_bytes(&s);
	producer_stopped(s.producer, 1);
	expect_stock_bytes(&s);
	producer_unregister_writer(s.producer, 1);
	expect_stock_bytes(&s);
	expect_quiet(&s);
	service_deinit(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_service_is_understood),
		cmocka_unit_test(test_in_single_bytes),
		cmocka_unit_test(test_producer_sends_the_same),
	};

	log_level = LOG_LEVEL_QUIET;
	return cmocka_run_group_tests(tests, read_lines, NULL);
}
