/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Devices and handles.
 *
 * Locks: gates of a handle, then device->lock, then handle->lock. Both locks are raw: the hard
 * interrupt handler takes them, on PREEMPT_RT too. So nothing under them may allocate, free or wake
 * a wait_queue. Nobody holds the locks of two devices: who has a device's lock and needs another's
 * drops the first, as the gateway does for each copy.
 *
 * Life: a device is counted by its bus (PCI, virtual) and by each handle. Removal sets `gone` under
 * device->lock; from then on nobody touches the registers, and every call on a handle gives ENODEV.
 */
#ifndef CANDOR_INTERNAL_H
#define CANDOR_INTERNAL_H

#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/rcuwait.h>
#include <linux/spinlock.h>
#include <linux/swait.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include "candor_can.h"
#include "queue.h"

#define CANDOR_NAME	"candor_can"

enum candor_handler {
	CANDOR_HANDLER_HARD,	/* in the hard interrupt, on PREEMPT_RT too */
	CANDOR_HANDLER_THREAD,	/* in a thread of its own */
	CANDOR_HANDLER_FORCED,	/* as the kernel wants: hard, or the thread PREEMPT_RT forces */
	CANDOR_HANDLER_SOFTIRQ,	/* the hard interrupt only schedules a tasklet */
};

struct candor_device;

/* Lets in one thread at a time; others wait, with a deadline if need be. */
struct candor_gate {
	unsigned long taken;		/* bit 0 */
	wait_queue_head_t waiting;
};

/* What a kind of controller can do. Under device->lock and only while it is not gone. */
struct candor_operations {
	int (*start)(struct candor_device *device);
	void (*stop)(struct candor_device *device);
	/* Nothing is being sent; device->current_frame is to be. */
	void (*transmit)(struct candor_device *device);
	void (*counters)(struct candor_device *device, u32 *receive, u32 *transmit);
};

struct candor_device {
	struct kref refs;
	struct miscdevice misc;
	char name[20];
	u32 index;
	u32 kind;
	u32 clock_hz;
	const struct candor_operations *operations;

	raw_spinlock_t lock;
	bool gone;
	u32 state;
	u32 mode;		/* in force since the start */
	u32 wanted_mode;	/* of the next start */
	struct candor_bitrate bitrate;
	struct list_head handles;
	u32 handle_count;	/* at most CANDOR_HANDLES_MOST */
	u32 handle_steps;	/* the most that the handles take for one frame */
	u32 delivered;		/* what they took for the last one */
	u32 next_number;
	/*
	 * Frames to send. Until a frame has been sent its time_ns is the number of the handle that
	 * wrote it.
	 */
	struct candor_queue transmit[CANDOR_PRIORITIES];
	struct candor_frame current_frame;
	bool sending;
	struct candor_statistics statistics;	/* those of the device */

	/* sja1000.c */
	void __iomem *registers;
	unsigned long port;	/* of the registers, if they are I/O ports: less work than by `registers` */
	int irq;
	enum candor_handler handler;
	struct tasklet_struct tasklet;
	u8 pending;		/* causes that the hard handler has read for the tasklet */
	u8 enabled;		/* causes for an interrupt; 0: stopped */
	bool masked;		/* until the tasklet has run */

	/* virtual.c */
	struct work_struct work;
	bool pacing;		/* the work is queued or runs */
};

struct candor_handle {
	struct list_head list;		/* of device->handles */
	struct candor_device *device;
	u32 number;
	u32 options;			/* device->lock */
	u32 priority;			/* device->lock */
	struct candor_filters filters;	/* device->lock */

	raw_spinlock_t lock;		/* received */
	struct candor_queue received;

	/* Both may have one sleeper only: the gates let in one thread at a time. */
	struct candor_gate reading;	/* one sleeper in readable */
	struct rcuwait readable;	/* the shortest way to wake a thread */
	struct candor_gate writing;	/* one sleeper in writable */
	struct swait_queue_head writable;

	/* For poll(): its lock may sleep on PREEMPT_RT, so only an irq_work wakes it. */
	wait_queue_head_t poll;
	struct irq_work poll_work;
};

/* device.c */
struct candor_device *candor_create(const struct candor_operations *operations, u32 kind);
int candor_register(struct candor_device *device, struct device *parent);
void candor_unregister(struct candor_device *device);
void candor_put(struct candor_device *device);
int candor_start(struct candor_device *device);
void candor_stop(struct candor_device *device);
void candor_set_state(struct candor_device *device, u32 state);
int candor_submit(struct candor_device *device, const struct candor_frame *frame, u32 priority);
void candor_drop_unsent(struct candor_device *device);
void candor_sent(struct candor_device *device, u64 now);
u32 candor_send_next(struct candor_device *device);
void candor_distribute(struct candor_device *device, struct candor_frame *frame, u32 from,
		       u32 writers);
void candor_report(struct candor_device *device, u32 errors, u8 ecc, u8 alc, u64 now);
int candor_set_bitrate(struct candor_device *device, const struct candor_bitrate *wanted);
void candor_wake(struct candor_handle *handle);

struct candor_device *candor_find(u32 index);

/* The number of frames of the gateway, which no handle has. */
#define CANDOR_OF_GATEWAY	(~0U)

/* The most steps of a handle with so many filters: who waits to read, who waits to write. */
#define CANDOR_STEPS_OF_HANDLE(filters)	(2 * CANDOR_STEPS_HANDLE + 1 + (filters))

/* gateway.c */
struct rules;
int gateway_register(void);
void gateway_unregister(void);
struct rules *gateway_take(struct candor_device *device, const struct candor_frame *frame, u32 *steps);
void gateway_note(struct rules *rules, struct candor_device *device,
		  const struct candor_frame *frame, u32 steps);
void gateway_lost(struct candor_device *device, u32 copies);

/* handle.c */
extern const struct file_operations candor_fops;

/* sja1000.c */
bool sja1000_present(void __iomem *registers);
struct candor_device *sja1000_create(void __iomem *registers, unsigned long port, int irq);
int sja1000_request(struct candor_device *device, struct device *parent);
void sja1000_release(struct candor_device *device);

/* kvaser_pci.c */
int kvaser_pci_register(void);
void kvaser_pci_unregister(void);

/* virtual.c */
int virtual_init(void);
void virtual_exit(void);

/* main.c */
extern enum candor_handler candor_handler_mode;
extern unsigned int candor_first_bitrate;
const char *candor_handler_name(enum candor_handler handler);

#endif
