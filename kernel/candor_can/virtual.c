// SPDX-License-Identifier: GPL-2.0-only
/*
 * Devices without hardware: each is a bus of its own, whose nodes are the open files. The parameter
 * `virtual` says how many there are and may be changed at any time; the last go first, also while
 * they are open. With `paced` a frame takes its time on the bus.
 *
 * A frame with CANDOR_ERROR that is written has the effect of that error of a controller.
 */
#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include "internal.h"

#define MOST	16

static struct candor_device *devices[MOST];
static unsigned int count;		/* of devices */
static unsigned int wanted;		/* before virtual_init() */
static bool ready;
static DEFINE_MUTEX(resizing);
static struct workqueue_struct *queue;

static bool paced;
module_param(paced, bool, 0644);
MODULE_PARM_DESC(paced, "virtual devices: frames take as long as on a bus");

static int start(struct candor_device *device)
{
	return device->bitrate.bitrate ? 0 : -ENODATA;
}

static void stop(struct candor_device *device)
{
}

static void counters(struct candor_device *device, u32 *receive, u32 *transmit)
{
}

/* Under device->lock. */
static void inject(struct candor_device *device, u64 now)
{
	u32 errors = device->current_frame.id;

	device->sending = false;
	if (errors & CANDOR_ERROR_OVERRUN)
		device->statistics.overruns++;
	if (errors & CANDOR_ERROR_BUS)
		device->statistics.bus_errors++;
	if (errors & CANDOR_ERROR_ARBITRATION)
		device->statistics.arbitrations++;
	if (errors & CANDOR_ERROR_BUS_OFF) {
		device->statistics.bus_offs++;
		candor_set_state(device, CANDOR_STATE_BUS_OFF);
	} else {
		candor_send_next(device);
	}
	candor_report(device, errors, 0, 0, now);
}

static void complete_frame(struct candor_device *device)
{
	if (device->current_frame.flags & CANDOR_ERROR)
		inject(device, ktime_get_ns());
	else
		candor_sent(device, ktime_get_ns());
}

static void transmit(struct candor_device *device)
{
	if (READ_ONCE(paced) || device->pacing) {
		device->pacing = true;
		queue_work(queue, &device->work);
	} else {
		complete_frame(device);
	}
}

/* Without the bits that are stuffed. */
static u32 microseconds(const struct candor_frame *frame, u32 bitrate)
{
	u32 bits = frame->flags & CANDOR_EXTENDED ? 67 : 47;

	if (!(frame->flags & CANDOR_REMOTE))
		bits += 8 * frame->len;
	return max(1U, bits * 1000 / (bitrate / 1000));
}

static void work(struct work_struct *work)
{
	struct candor_device *device = container_of(work, struct candor_device, work);
	unsigned long flags;
	u32 us;

	raw_spin_lock_irqsave(&device->lock, flags);
	while (device->sending) {
		us = microseconds(&device->current_frame, device->bitrate.bitrate);
		raw_spin_unlock_irqrestore(&device->lock, flags);
		usleep_range(us, us + 1);
		raw_spin_lock_irqsave(&device->lock, flags);
		/* Unless it was dropped meanwhile. */
		if (device->sending)
			complete_frame(device);
	}
	device->pacing = false;
	raw_spin_unlock_irqrestore(&device->lock, flags);
}

static const struct candor_operations operations = {
	.start = start,
	.stop = stop,
	.transmit = transmit,
	.counters = counters,
};

static int add(void)
{
	static const struct candor_bitrate bitrate = { .bitrate = 500000 };
	struct candor_device *device = candor_create(&operations, CANDOR_KIND_VIRTUAL);
	int err;

	if (IS_ERR(device))
		return PTR_ERR(device);
	INIT_WORK(&device->work, work);
	candor_set_bitrate(device, &bitrate);
	device->state = CANDOR_STATE_ACTIVE;
	err = candor_register(device, NULL);
	if (err) {
		candor_unregister(device);
		candor_put(device);
		return err;
	}
	devices[count++] = device;
	return 0;
}

static void remove(void)
{
	struct candor_device *device = devices[--count];

	candor_unregister(device);
	cancel_work_sync(&device->work);
	candor_put(device);
}

static int resize(unsigned int n)
{
	int err = 0;

	while (count > n)
		remove();
	while (count < n && !err)
		err = add();
	return err;
}

static int set_virtual(const char *text, const struct kernel_param *param)
{
	unsigned int n;
	int err = kstrtouint(text, 0, &n);

	if (err)
		return err;
	if (n > MOST)
		return -EINVAL;
	mutex_lock(&resizing);
	wanted = n;
	if (ready)
		err = resize(n);
	mutex_unlock(&resizing);
	return err;
}

static int get_virtual(char *text, const struct kernel_param *param)
{
	return sprintf(text, "%u\n", count);
}

static const struct kernel_param_ops virtual_param = { .set = set_virtual, .get = get_virtual };
module_param_cb(virtual, &virtual_param, NULL, 0644);
MODULE_PARM_DESC(virtual, "number of virtual devices, 0 to 16");

int virtual_init(void)
{
	int err;

	queue = alloc_workqueue(CANDOR_NAME, WQ_UNBOUND, 0);
	if (!queue)
		return -ENOMEM;
	mutex_lock(&resizing);
	err = resize(wanted);
	ready = !err;
	mutex_unlock(&resizing);
	if (err)
		virtual_exit();
	return err;
}

void virtual_exit(void)
{
	mutex_lock(&resizing);
	ready = false;
	resize(0);
	mutex_unlock(&resizing);
	destroy_workqueue(queue);
}
