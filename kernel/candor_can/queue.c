// SPDX-License-Identifier: GPL-2.0-only
#include <linux/mm.h>
#include <linux/slab.h>
#include "queue.h"

int candor_queue_init(struct candor_queue *q, u32 size, u32 policy)
{
	*q = (struct candor_queue){ .size = size, .policy = policy };
	q->slots = kvcalloc(size, sizeof(*q->slots), GFP_KERNEL);
	return q->slots ? 0 : -ENOMEM;
}

void candor_queue_free(struct candor_queue *q)
{
	kvfree(q->slots);
	q->slots = NULL;
}

void candor_queue_clear(struct candor_queue *q)
{
	q->first = 0;
	q->count = 0;
	q->gap = false;
}

static u32 after(const struct candor_queue *q, u32 slot, u32 steps)
{
	slot += steps;
	return slot >= q->size ? slot - q->size : slot;
}

/* false: a frame was lost, this one or, with CANDOR_OVERWRITE_OLDEST, the oldest. */
bool candor_queue_put(struct candor_queue *q, const struct candor_frame *frame)
{
	bool full = candor_queue_full(q);
	struct candor_frame *slot;

	if (full) {
		q->lost++;
		if (q->policy == CANDOR_REFUSE_NEWEST) {
			q->gap = true;
			return false;
		}
		q->first = after(q, q->first, 1);
		q->count--;
	}
	slot = &q->slots[after(q, q->first, q->count)];
	*slot = *frame;
	if (q->gap) {
		slot->flags |= CANDOR_OVERFLOW;
		q->gap = false;
	}
	q->count++;
	q->put++;
	if (q->count > q->most)
		q->most = q->count;
	/* The gap is before the frame that is now the oldest; with one slot that is the new one. */
	if (full)
		q->slots[q->first].flags |= CANDOR_OVERFLOW;
	return !full;
}

/* How many frames there were, at most `most`. */
u32 candor_queue_take(struct candor_queue *q, struct candor_frame *to, u32 most)
{
	u32 n = min(most, q->count), i;

	for (i = 0; i < n; i++) {
		to[i] = q->slots[q->first];
		q->first = after(q, q->first, 1);
	}
	q->count -= n;
	return n;
}

/* How many of its frames a handle of this number wrote. */
u32 candor_queue_of(const struct candor_queue *q, u32 number)
{
	u32 found = 0, i;

	for (i = 0; i < q->count; i++)
		found += q->slots[after(q, q->first, i)].time_ns == number;
	return found;
}
