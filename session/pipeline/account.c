/* account.c - counts of samples (account.h). */
#include "session/pipeline/account.h"

const char *skip_reason_name(enum skip_reason reason)
{
	static const char *const names[SKIP_COUNT] = {
		[SKIP_NONE] = "none",
		[SKIP_NOT_IN_SCOPE] = "not-in-scope",
		[SKIP_DOUBLE] = "double",
		[SKIP_MAPS_TIMEOUT] = "maps-timeout",
		[SKIP_MODULE_TIMEOUT] = "module-timeout",
		[SKIP_PARK_FULL] = "park-full",
		[SKIP_ENQUEUED] = "enqueued",
		[SKIP_OUTPUT] = "output",
		[SKIP_NO_MEMORY] = "no-memory",
		[SKIP_UNANSWERED] = "unanswered",
		[SKIP_NOT_ALLOWED] = "not-allowed",
		[SKIP_THINNED] = "thinned",
	};

	return names[reason];
}

uint64_t account_failed(const struct account *account)
{
	uint64_t sum = 0;

	for (int i = 0; i < UW_REASON_COUNT; i++)
		sum += account->failed[i];
	return sum;
}

uint64_t account_skipped(const struct account *account)
{
	uint64_t sum = 0;

	for (int i = 0; i < SKIP_COUNT; i++)
		sum += account->skipped[i];
	return sum;
}

uint64_t account_in_flight(const struct account *account)
{
	return account->queued - account->answered;
}

bool account_holds(const struct account *account)
{
	return account->received ==
	       account->emitted + account_skipped(account) + account_in_flight(account);
}

uint32_t account_reads_below(size_t index)
{
	static const uint32_t below[ACCOUNT_READS] = {50,   100,  200,	 500,
						      1000, 2000, 10000, UINT32_MAX};

	return below[index];
}

static void count_read(struct account *a, uint32_t after_us)
{
	size_t i = 0;

	while (i + 1 < ACCOUNT_READS && after_us >= account_reads_below(i))
		i++;
	a->memory_reads[i] += after_us != 0;
}

void account_outcome(struct account *a, const struct outcome *o, enum uw_reason reason)
{
	a->emitted++;
	a->whole += o->result == UW_WHOLE && !o->unchecked;
	a->unchecked += o->result == UW_WHOLE && o->unchecked;
	a->by_fp += o->by_fp;
	a->completed += o->completed;
	a->lacks_functions += o->lacks_functions;
	a->cut += o->result == UW_CUT;
	a->too_deep += o->result == UW_CUT && o->reason == UW_TOO_DEEP;
	a->switched += o->result == UW_CUT && o->reason != UW_TOO_DEEP && o->other_stack;
	a->page_absent += o->page_absent;
	if (o->result == UW_FAILED)
		a->failed[reason]++;
	a->frames += o->n_kernel + o->n_user;
	for (uint32_t i = o->n_kernel; i < o->n_kernel + o->n_user; i++)
		a->guessed_frames += !!(o->frames[i] & UW_FRAME_GUESSED);
	count_read(a, o->read_after_us);
	if (o->info.pid && !o->info.reason)
		a->weight += o->info.weight;
}
