/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A queue of frames: allocated once, bounded, never grows. It has no lock of its own.
 */
#ifndef CANDOR_QUEUE_H
#define CANDOR_QUEUE_H

#include <linux/types.h>
#include "candor_can.h"

struct candor_queue {
	struct candor_frame *slots;
	u32 size;
	u32 first;	/* slot of the oldest frame */
	u32 count;
	u32 most;	/* largest count ever */
	u32 policy;
	bool gap;	/* frames were refused since the last one that was put */
	u64 put;
	u64 lost;
};

int candor_queue_init(struct candor_queue *q, u32 size, u32 policy);
void candor_queue_free(struct candor_queue *q);
void candor_queue_clear(struct candor_queue *q);
bool candor_queue_put(struct candor_queue *q, const struct candor_frame *frame);
u32 candor_queue_take(struct candor_queue *q, struct candor_frame *to, u32 most);
u32 candor_queue_of(const struct candor_queue *q, u32 number);

static inline bool candor_queue_full(const struct candor_queue *q)
{
	return q->count == q->size;
}

#endif
