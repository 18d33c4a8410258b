// SPDX-License-Identifier: GPL-2.0-only
/*
 * The SJA1000 in PeliCAN mode, clocked with 8 MHz (a crystal of 16 MHz).
 */
#include <linux/delay.h>
#include <linux/io.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include "internal.h"

enum {
	MOD = 0, CMR = 1, SR = 2, IR = 3, IER = 4, BTR0 = 6, BTR1 = 7, OCR = 8, ALC = 11, ECC = 12,
	EWLR = 13, RXERR = 14, TXERR = 15, BUFFER = 16, ACR = 16, AMR = 20, CDR = 31,
};

#define MOD_RESET	0x01
#define MOD_LISTEN	0x02
#define CMR_REQUEST	0x01
#define CMR_RELEASE	0x04
#define CMR_CLEAR	0x08	/* the overrun */
#define SR_RECEIVED	0x01
#define SR_FREE		0x04	/* the transmit buffer */
#define SR_ERROR	0x40
#define SR_BUS_OFF	0x80
#define IR_RECEIVE	0x01
#define IR_TRANSMIT	0x02
#define IR_WARNING	0x04
#define IR_OVERRUN	0x08
#define IR_PASSIVE	0x20
#define IR_ARBITRATION	0x40
#define IR_BUS_ERROR	0x80
#define INFO_EXTENDED	0x80
#define INFO_REMOTE	0x40

/* PeliCAN, comparator bypassed, clock output off; output driver: push-pull, normal. */
#define CDR_VALUE	0xc7
#define OCR_VALUE	0xda

#define TURNS		8	/* of the handler, before it gives up until the next interrupt */
#define FIFO_FRAMES	21	/* 64 bytes, at least 3 a frame */

static u8 get(struct candor_device *device, int reg)
{
#ifdef CONFIG_HAS_IOPORT_MAP
	if (device->port)
		return inb(device->port + reg);
#endif
	return ioread8(device->registers + reg);
}

static void set(struct candor_device *device, int reg, u8 value)
{
#ifdef CONFIG_HAS_IOPORT_MAP
	if (device->port) {
		outb(value, device->port + reg);
		return;
	}
#endif
	iowrite8(value, device->registers + reg);
}

/*
 * The controller is in reset mode. QEMU's holds its interrupt line after IER is 0, until IR is read
 * (hw/net/can/can_sja1000.c, can_sja_update_pel_irq()).
 */
static void release_line(void __iomem *registers)
{
	iowrite8(0, registers + IER);
	ioread8(registers + IR);
}

/* Leaves the controller off the bus, in PeliCAN mode. */
bool sja1000_present(void __iomem *registers)
{
	iowrite8(MOD_RESET, registers + MOD);
	if (!(ioread8(registers + MOD) & MOD_RESET))
		return false;
	iowrite8(CDR_VALUE, registers + CDR);
	release_line(registers);
	return true;
}

static bool set_mode(struct candor_device *device, u8 mode)
{
	int tries;

	for (tries = 0; tries < 10; tries++) {
		set(device, MOD, mode);
		if ((get(device, MOD) & MOD_RESET) == (mode & MOD_RESET))
			return true;
		udelay(10);
	}
	return false;
}

static void stop(struct candor_device *device)
{
	device->enabled = 0;
	device->pending = 0;
	set_mode(device, MOD_RESET);
	release_line(device->registers);
}

static int start(struct candor_device *device)
{
	const u8 setup[][2] = {
		{ CDR, CDR_VALUE }, { OCR, OCR_VALUE },
		{ BTR0, device->bitrate.btr0 }, { BTR1, device->bitrate.btr1 },
		{ ACR, 0 }, { ACR + 1, 0 }, { ACR + 2, 0 }, { ACR + 3, 0 },
		{ AMR, 0xff }, { AMR + 1, 0xff }, { AMR + 2, 0xff }, { AMR + 3, 0xff },
		{ EWLR, 96 }, { RXERR, 0 }, { TXERR, 0 },
	};
	u8 enabled = IR_RECEIVE | IR_TRANSMIT | IR_WARNING | IR_OVERRUN | IR_PASSIVE;
	int i;

	if (!device->bitrate.bitrate)
		return -ENODATA;
	if (!set_mode(device, MOD_RESET))
		return -EIO;
	for (i = 0; i < ARRAY_SIZE(setup); i++)
		set(device, setup[i][0], setup[i][1]);
	get(device, ECC);
	get(device, ALC);
	/*
	 * What came before the stop is over. A reset empties the FIFO of the SJA1000, but not of QEMU's, which
	 * raises no interrupt for what it kept before the next frame comes.
	 */
	for (i = 0; i < FIFO_FRAMES && get(device, SR) & SR_RECEIVED; i++)
		set(device, CMR, CMR_RELEASE);
	get(device, IR);
	if (device->mode & CANDOR_MODE_BUS_ERRORS)
		enabled |= IR_BUS_ERROR;
	if (device->mode & CANDOR_MODE_ARBITRATION)
		enabled |= IR_ARBITRATION;
	device->enabled = enabled;
	set(device, IER, enabled);
	return set_mode(device, device->mode & CANDOR_MODE_LISTEN_ONLY ? MOD_LISTEN : 0) ? 0 : -EIO;
}

static void counters(struct candor_device *device, u32 *receive, u32 *transmit)
{
	*receive = get(device, RXERR);
	*transmit = get(device, TXERR);
}

static void transmit(struct candor_device *device)
{
	const struct candor_frame *frame = &device->current_frame;
	u8 info = frame->len;
	int at, i;

	if (frame->flags & CANDOR_REMOTE)
		info |= INFO_REMOTE;
	if (frame->flags & CANDOR_EXTENDED) {
		set(device, BUFFER, info | INFO_EXTENDED);
		set(device, BUFFER + 1, frame->id >> 21);
		set(device, BUFFER + 2, frame->id >> 13);
		set(device, BUFFER + 3, frame->id >> 5);
		set(device, BUFFER + 4, frame->id << 3);
		at = BUFFER + 5;
	} else {
		set(device, BUFFER, info);
		set(device, BUFFER + 1, frame->id >> 3);
		set(device, BUFFER + 2, frame->id << 5);
		at = BUFFER + 3;
	}
	if (!(frame->flags & CANDOR_REMOTE)) {
		for (i = 0; i < frame->len; i++)
			set(device, at + i, frame->data[i]);
	}
	set(device, CMR, CMR_REQUEST);
}

static void receive(struct candor_device *device, u64 now)
{
	struct candor_frame frame = { .time_ns = now };
	u8 info = get(device, BUFFER);
	int at, i;

	frame.len = min(info & 0x0f, 8);
	if (info & INFO_EXTENDED) {
		frame.flags = CANDOR_EXTENDED;
		frame.id = get(device, BUFFER + 1) << 21 | get(device, BUFFER + 2) << 13 |
			   get(device, BUFFER + 3) << 5 | get(device, BUFFER + 4) >> 3;
		at = BUFFER + 5;
	} else {
		frame.id = get(device, BUFFER + 1) << 3 | get(device, BUFFER + 2) >> 5;
		at = BUFFER + 3;
	}
	if (info & INFO_REMOTE) {
		frame.flags |= CANDOR_REMOTE;
	} else {
		for (i = 0; i < frame.len; i++)
			frame.data[i] = get(device, at + i);
	}
	set(device, CMR, CMR_RELEASE);
	device->statistics.received++;
	candor_distribute(device, &frame, 0, 0);
}

static u32 state_of(struct candor_device *device, u8 sr)
{
	if (sr & SR_BUS_OFF)
		return CANDOR_STATE_BUS_OFF;
	if (get(device, RXERR) >= 128 || get(device, TXERR) >= 128)
		return CANDOR_STATE_PASSIVE;
	return sr & SR_ERROR ? CANDOR_STATE_WARNING : CANDOR_STATE_ACTIVE;
}

static void errors(struct candor_device *device, u8 ir, u8 sr, u64 now)
{
	u32 found = 0;
	u8 ecc = 0, alc = 0;

	if (ir & IR_OVERRUN) {
		set(device, CMR, CMR_CLEAR);
		device->statistics.overruns++;
		found |= CANDOR_ERROR_OVERRUN;
	}
	if (ir & IR_BUS_ERROR) {
		ecc = get(device, ECC);
		device->statistics.bus_errors++;
		found |= CANDOR_ERROR_BUS;
	}
	if (ir & IR_ARBITRATION) {
		alc = get(device, ALC) & 0x1f;
		device->statistics.arbitrations++;
		found |= CANDOR_ERROR_ARBITRATION;
	}
	if (ir & (IR_WARNING | IR_PASSIVE)) {
		u32 state = state_of(device, sr);

		if (state != device->state) {
			found |= CANDOR_ERROR_STATE;
			if (state == CANDOR_STATE_BUS_OFF) {
				device->statistics.bus_offs++;
				found |= CANDOR_ERROR_BUS_OFF;
			}
			candor_set_state(device, state);
		}
	}
	if (found)
		candor_report(device, found, ecc, alc, now);
}

/*
 * Registers that nobody answers for are all ones, and so would frames be: a card that is pulled, or
 * whose registers are switched off while the handler runs. The mode has bits that are always 0; as
 * sja1000_is_absent() of Linux' own driver.
 */
static bool is_absent(struct candor_device *device, u8 sr)
{
	return sr == 0xff && get(device, MOD) == 0xff;
}

/*
 * Under device->lock. How many frames it read. @flags: of the caller's raw_spin_lock_irqsave(). Who
 * came with interrupts on lets them in after each frame, and other users of the lock.
 */
static u32 serve(struct candor_device *device, u8 ir, u64 now, unsigned long flags)
{
	u32 frames = 0;
	u8 sr = get(device, SR);

	while (sr & SR_RECEIVED && frames < FIFO_FRAMES && !is_absent(device, sr)) {
		receive(device, frames ? ktime_get_ns() : now);
		frames++;
		if (!irqs_disabled_flags(flags)) {
			raw_spin_unlock_irq(&device->lock);
			raw_spin_lock_irq(&device->lock);
		}
		/* Stopped meanwhile. */
		if (!device->enabled)
			return frames;
		sr = get(device, SR);
	}
	if (is_absent(device, sr))
		return frames;
	/* By status, not by cause: a cause is lost that comes while none is enabled. */
	if (device->sending && sr & SR_FREE && !(sr & SR_BUS_OFF)) {
		candor_sent(device, frames ? ktime_get_ns() : now);
		/* Stopped meanwhile, by who had the lock while the gateway did not. */
		if (!device->enabled)
			return frames;
	}
	if (ir & ~(IR_RECEIVE | IR_TRANSMIT)) {
		/* Read again: who had the lock meanwhile may have started it anew. */
		sr = get(device, SR);
		if (!is_absent(device, sr))
			errors(device, ir, sr, now);
	}
	return frames;
}

/* Under device->lock. */
static void note(struct candor_device *device, u32 frames, u64 from)
{
	struct candor_statistics *statistics = &device->statistics;

	statistics->most_frames = max(statistics->most_frames, frames);
	statistics->longest_ns = max(statistics->longest_ns, ktime_get_ns() - from);
}

/* In the hard interrupt or in a thread. */
static irqreturn_t handle_interrupt(int irq, void *data)
{
	struct candor_device *device = data;
	u32 turns = 0, frames = 0;
	unsigned long flags;
	u64 from = 0;
	u8 ir = 0;

	raw_spin_lock_irqsave(&device->lock, flags);
	while (device->enabled && (ir = get(device, IR))) {
		u64 now = ktime_get_ns();

		if (!turns++)
			from = now;
		frames += serve(device, ir, now, flags);
		if (turns == TURNS) {
			device->statistics.storms++;
			break;
		}
	}
	if (turns) {
		device->statistics.interrupts++;
		note(device, frames, from);
	}
	raw_spin_unlock_irqrestore(&device->lock, flags);
	return turns ? IRQ_HANDLED : IRQ_NONE;
}

/* handler=softirq: the controller's interrupts stay off until the tasklet has read it. */
static irqreturn_t schedule_tasklet(int irq, void *data)
{
	struct candor_device *device = data;
	irqreturn_t result = IRQ_NONE;
	unsigned long flags;
	u8 ir;

	raw_spin_lock_irqsave(&device->lock, flags);
	if (device->enabled && !device->masked) {
		ir = get(device, IR);
		if (ir) {
			device->pending |= ir;
			device->masked = true;
			device->statistics.interrupts++;
			set(device, IER, 0);
			/* Some emulated controllers hold the line until IR is read once more. */
			disable_irq_nosync(irq);
			tasklet_schedule(&device->tasklet);
			result = IRQ_HANDLED;
		}
	}
	raw_spin_unlock_irqrestore(&device->lock, flags);
	return result;
}

static void tasklet(struct tasklet_struct *tasklet)
{
	struct candor_device *device = container_of(tasklet, struct candor_device, tasklet);
	u64 from = ktime_get_ns();
	unsigned long flags;
	u32 frames = 0;

	raw_spin_lock_irqsave(&device->lock, flags);
	if (device->enabled) {
		u8 ir = device->pending;

		device->pending = 0;
		frames = serve(device, ir, from, flags);
		/* Unless it was stopped meanwhile. */
		if (device->enabled) {
			set(device, IER, device->enabled);
			/* What came before IER was set caused no interrupt. */
			frames += serve(device, get(device, IR), ktime_get_ns(), flags);
		}
		note(device, frames, from);
	}
	if (device->masked) {
		device->masked = false;
		enable_irq(device->irq);
	}
	raw_spin_unlock_irqrestore(&device->lock, flags);
}

static const struct candor_operations operations = {
	.start = start,
	.stop = stop,
	.transmit = transmit,
	.counters = counters,
};

struct candor_device *sja1000_create(void __iomem *registers, unsigned long port, int irq)
{
	struct candor_device *device = candor_create(&operations, CANDOR_KIND_SJA1000);

	if (IS_ERR(device))
		return device;
	device->registers = registers;
	device->port = port;
	device->irq = irq;
	device->clock_hz = 8000000;
	device->handler = candor_handler_mode;
	tasklet_setup(&device->tasklet, tasklet);
	return device;
}

/* Off the bus until candor_start(). */
int sja1000_request(struct candor_device *device, struct device *parent)
{
	irq_handler_t hard = handle_interrupt, threaded = NULL;
	unsigned long flags = IRQF_SHARED;
	int err;

	switch (device->handler) {
	case CANDOR_HANDLER_HARD:
		flags |= IRQF_NO_THREAD;
		break;
	case CANDOR_HANDLER_THREAD:
		flags |= IRQF_ONESHOT;
		threaded = hard;
		hard = NULL;
		break;
	case CANDOR_HANDLER_FORCED:
		break;
	case CANDOR_HANDLER_SOFTIRQ:
		flags |= IRQF_NO_THREAD;
		hard = schedule_tasklet;
		break;
	}
	err = request_threaded_irq(device->irq, hard, threaded, flags, device->name, device);
	if (err == -EBUSY)
		dev_err(parent,
			"interrupt %d is shared with a driver whose handler does not go with handler=%s: take all controllers of this line, or try another handler=\n",
			device->irq, candor_handler_name(device->handler));
	else if (err)
		dev_err(parent, "interrupt %d: error %d\n", device->irq, err);
	return err;
}

/* After candor_unregister(), when nobody enables interrupts any more. */
void sja1000_release(struct candor_device *device)
{
	/* The tasklet enables the line again: it runs while the line is still ours. */
	tasklet_kill(&device->tasklet);
	free_irq(device->irq, device);
}
