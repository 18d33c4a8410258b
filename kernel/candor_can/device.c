// SPDX-License-Identifier: GPL-2.0-only
/*
 * What all kinds of devices share: their life, the way of a frame to the handles and from them.
 */
#include <linux/idr.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include "image.h"
#include "internal.h"

static DEFINE_IDA(indexes);
/* Those that can be opened, by index. */
static struct candor_device *devices[CANDOR_DEVICES_MOST];
static DEFINE_MUTEX(listing);

static void release(struct kref *refs)
{
	struct candor_device *device = container_of(refs, struct candor_device, refs);
	int i;

	for (i = 0; i < CANDOR_PRIORITIES; i++)
		candor_queue_free(&device->transmit[i]);
	kfree(device);
}

void candor_put(struct candor_device *device)
{
	kref_put(&device->refs, release);
}

struct candor_device *candor_create(const struct candor_operations *operations, u32 kind)
{
	struct candor_device *device = kzalloc(sizeof(*device), GFP_KERNEL);
	int i, index;

	if (!device)
		return ERR_PTR(-ENOMEM);
	kref_init(&device->refs);
	raw_spin_lock_init(&device->lock);
	INIT_LIST_HEAD(&device->handles);
	device->operations = operations;
	device->kind = kind;
	for (i = 0; i < CANDOR_PRIORITIES; i++) {
		if (candor_queue_init(&device->transmit[i], CANDOR_SLOTS, CANDOR_REFUSE_NEWEST))
			goto no_memory;
	}
	index = ida_alloc_max(&indexes, CANDOR_DEVICES_MOST - 1, GFP_KERNEL);
	if (index < 0)
		goto no_memory;
	device->index = index;
	snprintf(device->name, sizeof(device->name), "candor%d", index);
	return device;

no_memory:
	candor_put(device);
	return ERR_PTR(-ENOMEM);
}

/* From here on it can be opened. misc_open() holds a lock that misc_deregister() waits for. */
int candor_register(struct candor_device *device, struct device *parent)
{
	int err;

	device->misc = (struct miscdevice){
		.minor = MISC_DYNAMIC_MINOR,
		.name = device->name,
		.fops = &candor_fops,
		.parent = parent,
		.mode = 0660,
	};
	err = misc_register(&device->misc);
	if (err) {
		device->misc.this_device = NULL;
		return err;
	}
	mutex_lock(&listing);
	devices[device->index] = device;
	mutex_unlock(&listing);
	return 0;
}

/* The device of this index, to be put, or NULL. */
struct candor_device *candor_find(u32 index)
{
	struct candor_device *device = NULL;

	mutex_lock(&listing);
	if (index < CANDOR_DEVICES_MOST)
		device = devices[index];
	if (device)
		kref_get(&device->refs);
	mutex_unlock(&listing);
	return device;
}

/* Nobody can open it any more, and who has it open gets ENODEV. */
void candor_unregister(struct candor_device *device)
{
	struct candor_handle *handle;
	unsigned long flags;

	mutex_lock(&listing);
	if (devices[device->index] == device)
		devices[device->index] = NULL;
	mutex_unlock(&listing);
	if (device->misc.this_device)
		misc_deregister(&device->misc);
	raw_spin_lock_irqsave(&device->lock, flags);
	candor_stop(device);
	device->gone = true;
	list_for_each_entry(handle, &device->handles, list)
		candor_wake(handle);
	raw_spin_unlock_irqrestore(&device->lock, flags);
	ida_free(&indexes, device->index);
}

/* Under device->lock: whatever the handle waits for, it looks again. */
void candor_wake(struct candor_handle *handle)
{
	rcuwait_wake_up(&handle->readable);
	swake_up_one(&handle->writable);
	if (wq_has_sleeper(&handle->poll))
		irq_work_queue(&handle->poll_work);
}

static void wake_writers(struct candor_device *device)
{
	struct candor_handle *handle;

	list_for_each_entry(handle, &device->handles, list) {
		swake_up_one(&handle->writable);
		if (wq_has_sleeper(&handle->poll))
			irq_work_queue(&handle->poll_work);
	}
}

/* Under device->lock. */
void candor_set_state(struct candor_device *device, u32 state)
{
	device->state = state;
	if (state == CANDOR_STATE_BUS_OFF || state == CANDOR_STATE_STOPPED) {
		candor_drop_unsent(device);
		if (device->sending && device->current_frame.time_ns == CANDOR_OF_GATEWAY)
			gateway_lost(device, 1);
		device->statistics.dropped += device->sending;
		device->sending = false;
		wake_writers(device);
	}
}

/* Under device->lock. What the controller has already stays there. */
void candor_drop_unsent(struct candor_device *device)
{
	int i;

	gateway_lost(device, candor_queue_of(&device->transmit[CANDOR_PRIORITY_DEFAULT],
					     CANDOR_OF_GATEWAY));
	for (i = 0; i < CANDOR_PRIORITIES; i++) {
		device->statistics.dropped += device->transmit[i].count;
		candor_queue_clear(&device->transmit[i]);
	}
}

/* Under device->lock. */
int candor_start(struct candor_device *device)
{
	int err;

	candor_stop(device);
	device->mode = device->wanted_mode;
	err = device->operations->start(device);
	if (err)
		/* What it had set: interrupts may be on already. */
		device->operations->stop(device);
	else
		candor_set_state(device, CANDOR_STATE_ACTIVE);
	return err;
}

/* Under device->lock. */
void candor_stop(struct candor_device *device)
{
	if (device->gone)
		return;
	device->operations->stop(device);
	candor_set_state(device, CANDOR_STATE_STOPPED);
}

/* Under device->lock; nothing is being sent. Steps of who is waked since there is room. */
u32 candor_send_next(struct candor_device *device)
{
	int i;

	for (i = 0; i < CANDOR_PRIORITIES; i++) {
		struct candor_queue *q = &device->transmit[i];
		bool full = candor_queue_full(q);

		if (!candor_queue_take(q, &device->current_frame, 1))
			continue;
		device->sending = true;
		device->operations->transmit(device);
		if (!full)
			return 0;
		wake_writers(device);
		return device->handle_count * CANDOR_STEPS_HANDLE;
	}
	return 0;
}

/* Under device->lock. EAGAIN: the queue of this priority is full. */
int candor_submit(struct candor_device *device, const struct candor_frame *frame, u32 priority)
{
	if (device->gone)
		return -ENODEV;
	if (device->state == CANDOR_STATE_STOPPED || device->state == CANDOR_STATE_BUS_OFF)
		return -ENETDOWN;
	if (device->mode & CANDOR_MODE_LISTEN_ONLY)
		return -EROFS;
	/* While nothing is being sent, all queues are empty. */
	if (device->sending) {
		if (candor_queue_full(&device->transmit[priority]))
			return -EAGAIN;
		candor_queue_put(&device->transmit[priority], frame);
		return 0;
	}
	device->current_frame = *frame;
	device->sending = true;
	device->operations->transmit(device);
	return 0;
}

/* Under device->lock: device->current_frame is on the bus. The next comes first, then who waits. */
void candor_sent(struct candor_device *device, u64 now)
{
	struct candor_frame frame = device->current_frame;
	u32 from = frame.time_ns, writers;

	device->sending = false;
	device->statistics.sent++;
	writers = candor_send_next(device);
	frame.time_ns = now;
	frame.flags |= CANDOR_LOCAL;
	candor_distribute(device, &frame, from, writers);
}

static bool takes(const struct candor_handle *handle, const struct candor_frame *frame, u32 from,
		  u32 *steps)
{
	u32 i;

	++*steps;
	if (frame->flags & CANDOR_ERROR)
		return frame->id & handle->filters.errors;
	if (frame->flags & CANDOR_LOCAL) {
		if (from == handle->number ? !(handle->options & CANDOR_RECEIVE_OWN)
					   : !!(handle->options & CANDOR_NO_LOCAL))
			return false;
	}
	for (i = 0; i < handle->filters.count; i++) {
		const struct candor_filter *filter = &handle->filters.filter[i];

		++*steps;
		if (!((frame->id ^ filter->id) & filter->mask) &&
		    !((frame->flags ^ filter->flags) & filter->flags_mask))
			return true;
	}
	return false;
}

/*
 * Under device->lock, often in the hard interrupt handler: the one place that every frame passes,
 * from the bus, from this device (CANDOR_LOCAL, then `from` is the number of the handle) or about
 * errors. The gateway drops device->lock meanwhile: callers keep nothing of the controller across this
 * call. @writers: steps of those who were waked for it.
 */
void candor_distribute(struct candor_device *device, struct candor_frame *frame, u32 from,
		       u32 writers)
{
	struct candor_handle *handle;
	struct rules *rules = NULL;
	u32 steps = 0;

	if (from != CANDOR_OF_GATEWAY && !(frame->flags & CANDOR_ERROR))
		rules = gateway_take(device, frame, &steps);
	steps += writers;
	list_for_each_entry(handle, &device->handles, list) {
		if (!takes(handle, frame, from, &steps))
			continue;
		steps += CANDOR_STEPS_HANDLE;
		if (from == handle->number)
			frame->flags |= CANDOR_OWN;
		raw_spin_lock(&handle->lock);
		candor_queue_put(&handle->received, frame);
		raw_spin_unlock(&handle->lock);
		frame->flags &= ~CANDOR_OWN;
		rcuwait_wake_up(&handle->readable);
		if (wq_has_sleeper(&handle->poll))
			irq_work_queue(&handle->poll_work);
	}
	device->delivered = steps;
	if (rules)
		gateway_note(rules, device, frame, steps);
}

/* Under device->lock; device->state is the new one. */
void candor_report(struct candor_device *device, u32 errors, u8 ecc, u8 alc, u64 now)
{
	u32 receive = 0, transmit = 0;
	struct candor_frame frame = {
		.time_ns = now,
		.id = errors,
		.flags = CANDOR_ERROR,
		.len = 5,
	};

	device->operations->counters(device, &receive, &transmit);
	frame.data[0] = device->state;
	frame.data[1] = receive;
	frame.data[2] = transmit;
	frame.data[3] = ecc;
	frame.data[4] = alc;
	candor_distribute(device, &frame, 0, 0);
}

/* Bit timings for a clock of 8 MHz; sample points as CiA has them, 1 Mbit/s: 75 %. */
static const struct candor_bitrate bitrates[] = {
	{ 1000000, 0x00, 0x14 }, { 800000, 0x00, 0x16 }, { 500000, 0x00, 0x1c },
	{ 250000, 0x01, 0x1c },	 { 125000, 0x03, 0x1c }, { 100000, 0x43, 0x2f },
	{ 50000, 0x47, 0x2f },	 { 20000, 0x53, 0x2f },	 { 10000, 0x67, 0x2f },
};

/* Under device->lock. */
int candor_set_bitrate(struct candor_device *device, const struct candor_bitrate *wanted)
{
	u32 quanta = 3 + (wanted->btr1 & 0x0f) + (wanted->btr1 >> 4 & 0x07);
	u32 clock_hz = device->clock_hz ?: 8000000;
	int i;

	if (wanted->reserved)
		return -EINVAL;
	if (device->state != CANDOR_STATE_STOPPED)
		return -EBUSY;
	if (!wanted->bitrate) {
		/* A bit has at least 8 quanta. */
		if (quanta < 8)
			return -EINVAL;
		device->bitrate = *wanted;
		device->bitrate.bitrate = clock_hz / (((wanted->btr0 & 0x3f) + 1) * quanta);
		return 0;
	}
	for (i = 0; i < ARRAY_SIZE(bitrates); i++) {
		if (bitrates[i].bitrate == wanted->bitrate) {
			device->bitrate = bitrates[i];
			return 0;
		}
	}
	return -EINVAL;
}
