// SPDX-License-Identifier: GPL-2.0-only
/*
 * An open file: open, read, write, poll, ioctl, close.
 */
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include "image.h"
#include "internal.h"

#define BATCH	16	/* frames copied at a time, on the stack */

/* In the interrupt on standard kernels, in a thread on PREEMPT_RT. */
static void poll_work(struct irq_work *work)
{
	struct candor_handle *handle = container_of(work, struct candor_handle, poll_work);

	wake_up_interruptible(&handle->poll);
}

/* Under device->lock, when a handle comes, goes, or gets other filters. */
static void count_steps(struct candor_device *device)
{
	struct candor_handle *handle;

	device->handle_steps = 0;
	list_for_each_entry(handle, &device->handles, list)
		device->handle_steps += CANDOR_STEPS_OF_HANDLE(handle->filters.count);
}

/* misc_open() has the lock that misc_deregister() takes, so the device is still there. */
static int candor_open(struct inode *inode, struct file *file)
{
	struct candor_device *device =
		container_of(file->private_data, struct candor_device, misc);
	struct candor_handle *handle = kzalloc(sizeof(*handle), GFP_KERNEL);
	unsigned long flags;
	int err;

	if (!handle)
		return -ENOMEM;
	err = candor_queue_init(&handle->received, CANDOR_SLOTS, CANDOR_REFUSE_NEWEST);
	if (err) {
		kfree(handle);
		return err;
	}
	kref_get(&device->refs);
	handle->device = device;
	handle->priority = CANDOR_PRIORITY_DEFAULT;
	handle->filters.count = 1;
	handle->filters.errors = CANDOR_ERROR_ALL;
	raw_spin_lock_init(&handle->lock);
	init_waitqueue_head(&handle->reading.waiting);
	init_waitqueue_head(&handle->writing.waiting);
	rcuwait_init(&handle->readable);
	init_swait_queue_head(&handle->writable);
	init_waitqueue_head(&handle->poll);
	init_irq_work(&handle->poll_work, poll_work);
	raw_spin_lock_irqsave(&device->lock, flags);
	if (device->handle_count < CANDOR_HANDLES_MOST) {
		device->handle_count++;
		/* Neither 0, the bus, nor CANDOR_OF_GATEWAY. */
		if (++device->next_number == CANDOR_OF_GATEWAY)
			device->next_number = 1;
		handle->number = device->next_number;
		list_add_tail(&handle->list, &device->handles);
		count_steps(device);
	} else {
		err = -EBUSY;
	}
	raw_spin_unlock_irqrestore(&device->lock, flags);
	if (err) {
		candor_queue_free(&handle->received);
		kfree(handle);
		candor_put(device);
		return err;
	}
	file->private_data = handle;
	return nonseekable_open(inode, file);
}

static int candor_release(struct inode *inode, struct file *file)
{
	struct candor_handle *handle = file->private_data;
	struct candor_device *device = handle->device;
	unsigned long flags;

	raw_spin_lock_irqsave(&device->lock, flags);
	list_del(&handle->list);
	device->handle_count--;
	count_steps(device);
	raw_spin_unlock_irqrestore(&device->lock, flags);
	irq_work_sync(&handle->poll_work);
	candor_queue_free(&handle->received);
	kfree(handle);
	candor_put(device);
	return 0;
}

static bool is_gone(struct candor_device *device)
{
	return READ_ONCE(device->gone);
}

static u32 take(struct candor_handle *handle, struct candor_frame *to, u32 most)
{
	unsigned long flags;
	u32 n;

	raw_spin_lock_irqsave(&handle->lock, flags);
	n = candor_queue_take(&handle->received, to, most);
	raw_spin_unlock_irqrestore(&handle->lock, flags);
	return n;
}

static bool may_read(struct candor_handle *handle)
{
	unsigned long flags;
	bool any;

	if (is_gone(handle->device))
		return true;
	raw_spin_lock_irqsave(&handle->lock, flags);
	any = handle->received.count;
	raw_spin_unlock_irqrestore(&handle->lock, flags);
	return any;
}

/* Until a reader may go on, or CLOCK_MONOTONIC is @until_ns; CANDOR_FOR_EVER: without a timer. */
static int wait_readable(struct candor_handle *handle, u64 until_ns)
{
	ktime_t until = ns_to_ktime(min_t(u64, until_ns, KTIME_MAX));
	bool over = false;
	int err = 0;

	prepare_to_rcuwait(&handle->readable);
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		if (may_read(handle))
			break;
		if (over)
			err = -ETIMEDOUT;
		else if (signal_pending(current))
			err = -ERESTARTSYS;
		if (err)
			break;
		if (until_ns == CANDOR_FOR_EVER)
			schedule();
		else
			over = !schedule_hrtimeout(&until, HRTIMER_MODE_ABS);
		/* Usually there is a frame, which read_frames() takes under the lock. */
		if (READ_ONCE(handle->received.count))
			break;
	}
	finish_rcuwait(&handle->readable);
	return err;
}

/* Of a size that is known here the kernel checks no bounds of the stack. */
static bool give(struct candor_frame __user *to, const struct candor_frame *batch, u32 n)
{
	if (n == 1)
		return !copy_to_user(to, batch, sizeof(*batch));
	return !copy_to_user(to, batch, n * sizeof(*batch));
}

/* Whoever fills or empties a queue all the time must not keep a caller in the kernel. */
static bool is_interrupted(void)
{
	cond_resched();
	return signal_pending(current);
}

/*
 * How many frames; waits for the first. They leave the queue before they are copied to the user,
 * since their slots may be overwritten at any time: with a bad address up to BATCH are lost.
 */
static ssize_t read_frames(struct candor_handle *handle, char __user *to, size_t wanted,
			   u64 until_ns)
{
	struct candor_frame batch[BATCH];
	size_t done = 0;

	while (done < wanted) {
		u32 n = take(handle, batch, min_t(size_t, wanted - done, BATCH));

		if (is_gone(handle->device))
			return -ENODEV;
		if (!n) {
			int err;

			if (done)
				break;
			if (!until_ns)
				return -EAGAIN;
			err = wait_readable(handle, until_ns);
			if (err)
				return err;
			continue;
		}
		if (!give((struct candor_frame __user *)to + done, batch, n))
			return done ? done : -EFAULT;
		done += n;
		if (is_interrupted())
			break;
	}
	return done;
}

/* Lets one thread read, or write, at a time. @until_ns: how long it waits for its turn. */
static int begin(struct candor_handle *handle, struct candor_gate *gate, u64 until_ns)
{
	ktime_t most = KTIME_MAX;
	int err;

	if (is_gone(handle->device))
		return -ENODEV;
	if (!test_and_set_bit_lock(0, &gate->taken))
		return 0;
	/* Another thread sleeps in it, so there is nothing, or it takes it. */
	if (!until_ns)
		return is_gone(handle->device) ? -ENODEV : -EAGAIN;
	if (until_ns != CANDOR_FOR_EVER)
		most = max_t(ktime_t, min_t(u64, until_ns, KTIME_MAX) - ktime_get(), 0);
	err = wait_event_interruptible_hrtimeout(gate->waiting,
						 !test_and_set_bit_lock(0, &gate->taken), most);
	return err == -ETIME ? -ETIMEDOUT : err;
}

static void end(struct candor_gate *gate)
{
	clear_bit_unlock(0, &gate->taken);
	/* Orders the bit before the look at the list. */
	if (wq_has_sleeper(&gate->waiting))
		wake_up_interruptible(&gate->waiting);
}

static ssize_t read_until(struct candor_handle *handle, char __user *to, size_t wanted,
			  u64 until_ns)
{
	ssize_t result = begin(handle, &handle->reading, until_ns);

	if (result)
		return result;
	result = read_frames(handle, to, wanted, until_ns);
	end(&handle->reading);
	return result;
}

/* Blocks until there is a frame, then gives as many as there are. */
static ssize_t candor_read(struct file *file, char __user *to, size_t size, loff_t *at)
{
	struct candor_handle *handle = file->private_data;
	u64 until_ns = file->f_flags & O_NONBLOCK ? 0 : CANDOR_FOR_EVER;
	ssize_t frames;

	if (is_gone(handle->device))
		return -ENODEV;
	if (!size || size % sizeof(struct candor_frame))
		return -EINVAL;
	frames = read_until(handle, to, size / sizeof(struct candor_frame), until_ns);
	return frames < 0 ? frames : frames * sizeof(struct candor_frame);
}

static bool is_valid(const struct candor_device *device, const struct candor_frame *frame)
{
	u16 allowed = CANDOR_EXTENDED | CANDOR_REMOTE;

	if (frame->len > 8 || frame->reserved)
		return false;
	if (frame->flags & CANDOR_ERROR && device->kind == CANDOR_KIND_VIRTUAL)
		return frame->flags == CANDOR_ERROR && frame->id &&
		       !(frame->id & ~CANDOR_ERROR_ALL);
	if (frame->flags & ~allowed)
		return false;
	return frame->id <= (frame->flags & CANDOR_EXTENDED ? 0x1fffffff : 0x7ff);
}

static int submit(struct candor_handle *handle, const struct candor_frame *frame)
{
	struct candor_device *device = handle->device;
	unsigned long flags;
	int err;

	raw_spin_lock_irqsave(&device->lock, flags);
	err = candor_submit(device, frame, handle->priority);
	raw_spin_unlock_irqrestore(&device->lock, flags);
	return err;
}

/* Not only if there is room: also if write() would fail at once. */
static bool may_write(struct candor_handle *handle)
{
	struct candor_device *device = handle->device;
	unsigned long flags;
	bool may;

	raw_spin_lock_irqsave(&device->lock, flags);
	may = device->gone || device->state == CANDOR_STATE_STOPPED ||
	      device->state == CANDOR_STATE_BUS_OFF ||
	      !candor_queue_full(&device->transmit[handle->priority]);
	raw_spin_unlock_irqrestore(&device->lock, flags);
	return may;
}

static int write_frame(struct candor_handle *handle, struct candor_frame *frame, bool block)
{
	int err;

	frame->time_ns = handle->number;
	if (frame->flags & CANDOR_REMOTE)
		memset(frame->data, 0, sizeof(frame->data));
	else
		memset(frame->data + frame->len, 0, sizeof(frame->data) - frame->len);
	while ((err = submit(handle, frame)) == -EAGAIN && block) {
		if (swait_event_interruptible_exclusive(handle->writable, may_write(handle)))
			return -ERESTARTSYS;
	}
	return err;
}

/* How many frames were taken, or why the first was not. A bad frame ends the write before it. */
static ssize_t write_frames(struct candor_handle *handle, const char __user *from, size_t wanted,
			    bool block)
{
	struct candor_frame batch[BATCH];
	size_t done = 0;
	int err = 0;

	while (done < wanted && !err) {
		size_t n = min_t(size_t, wanted - done, BATCH), i;

		if (copy_from_user(batch, from + done * sizeof(batch[0]), n * sizeof(batch[0]))) {
			err = -EFAULT;
			break;
		}
		for (i = 0; i < n && !err; i++) {
			err = is_valid(handle->device, &batch[i])
				      ? write_frame(handle, &batch[i], block)
				      : -EINVAL;
			if (!err)
				done++;
		}
		if (is_interrupted())
			break;
	}
	/* That the device is gone is more important than what it took before. */
	if (err == -ENODEV || !done)
		return err;
	return done * sizeof(batch[0]);
}

static ssize_t candor_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	struct candor_handle *handle = file->private_data;
	bool block = !(file->f_flags & O_NONBLOCK);
	ssize_t result;

	if (is_gone(handle->device))
		return -ENODEV;
	if (!size || size % sizeof(struct candor_frame))
		return -EINVAL;
	result = begin(handle, &handle->writing, block ? CANDOR_FOR_EVER : 0);
	if (result)
		return result;
	result = write_frames(handle, from, size / sizeof(struct candor_frame), block);
	end(&handle->writing);
	return result;
}

static __poll_t candor_poll(struct file *file, poll_table *table)
{
	struct candor_handle *handle = file->private_data;
	__poll_t events = 0;

	/* Adds us to the list first; the handler puts a frame first, then looks at the list. */
	poll_wait(file, &handle->poll, table);
	if (is_gone(handle->device))
		return EPOLLERR | EPOLLHUP;
	if (may_read(handle))
		events |= EPOLLIN | EPOLLRDNORM;
	if (may_write(handle))
		events |= EPOLLOUT | EPOLLWRNORM;
	return events;
}

static void get_info(struct candor_device *device, struct candor_info *info)
{
	*info = (struct candor_info){
		.version = CANDOR_CAN_VERSION,
		.frame_size = sizeof(struct candor_frame),
		.kind = device->kind,
		.index = device->index,
		.clock_hz = device->clock_hz,
		.priorities = CANDOR_PRIORITIES,
		.transmit_slots = CANDOR_SLOTS,
		.state = device->state,
	};
}

/* Under device->lock. */
static void get_statistics(struct candor_handle *handle, struct candor_statistics *to)
{
	struct candor_device *device = handle->device;
	int i;

	*to = device->statistics;
	to->state = device->state;
	device->operations->counters(device, &to->receive_errors, &to->transmit_errors);
	to->waiting = device->sending;
	for (i = 0; i < CANDOR_PRIORITIES; i++)
		to->waiting += device->transmit[i].count;
	to->handles = device->handle_count;
	raw_spin_lock(&handle->lock);
	to->handle_received = handle->received.put;
	to->handle_lost = handle->received.lost;
	to->handle_waiting = handle->received.count;
	to->handle_most = handle->received.most;
	to->handle_slots = handle->received.size;
	to->handle_policy = handle->received.policy;
	raw_spin_unlock(&handle->lock);
}

/* The counts of the queue go on. */
static int set_queue(struct candor_handle *handle, const struct candor_queue_setup *setup)
{
	struct candor_queue fresh, old;
	unsigned long flags;
	int err;

	if (!setup->slots || setup->slots > CANDOR_SLOTS_MOST ||
	    setup->policy > CANDOR_OVERWRITE_OLDEST)
		return -EINVAL;
	err = candor_queue_init(&fresh, setup->slots, setup->policy);
	if (err)
		return err;
	raw_spin_lock_irqsave(&handle->lock, flags);
	old = handle->received;
	fresh.put = old.put;
	fresh.lost = old.lost;
	handle->received = fresh;
	raw_spin_unlock_irqrestore(&handle->lock, flags);
	candor_queue_free(&old);
	return 0;
}

static int check_filters(const struct candor_filters *filters)
{
	const u16 flags = CANDOR_EXTENDED | CANDOR_REMOTE | CANDOR_LOCAL;
	u32 i;

	if (filters->count > CANDOR_FILTERS || filters->errors & ~CANDOR_ERROR_ALL)
		return -EINVAL;
	for (i = 0; i < filters->count; i++) {
		if ((filters->filter[i].flags | filters->filter[i].flags_mask) & ~flags)
			return -EINVAL;
	}
	return 0;
}

static void flush(struct candor_handle *handle, u32 what)
{
	if (what & CANDOR_FLUSH_RECEIVED) {
		raw_spin_lock(&handle->lock);
		candor_queue_clear(&handle->received);
		raw_spin_unlock(&handle->lock);
	}
	if (what & CANDOR_FLUSH_UNSENT) {
		struct candor_handle *each;

		candor_drop_unsent(handle->device);
		list_for_each_entry(each, &handle->device->handles, list)
			candor_wake(each);
	}
}

union argument {
	struct candor_info info;
	struct candor_statistics statistics;
	struct candor_bitrate bitrate;
	struct candor_filters filters;
	struct candor_queue_setup queue;
	u32 word;
};

/* What the argument alone tells; what needs no lock. */
static int check_argument(unsigned int command, const union argument *argument, bool may_change)
{
	switch (command) {
	case CANDOR_GET_INFO:
	case CANDOR_GET_STATISTICS:
	case CANDOR_GET_BITRATE:
	case CANDOR_SET_QUEUE:
		return 0;
	case CANDOR_SET_FILTERS:
		return check_filters(&argument->filters);
	case CANDOR_SET_PRIORITY:
		return argument->word < CANDOR_PRIORITIES ? 0 : -EINVAL;
	case CANDOR_SET_OPTIONS:
		return argument->word & ~CANDOR_OPTIONS_ALL ? -EINVAL : 0;
	case CANDOR_FLUSH:
		if (argument->word & ~CANDOR_FLUSH_ALL)
			return -EINVAL;
		return may_change || !(argument->word & CANDOR_FLUSH_UNSENT) ? 0 : -EBADF;
	case CANDOR_SET_MODE:
		if (argument->word & ~CANDOR_MODE_ALL)
			return -EINVAL;
		fallthrough;
	case CANDOR_SET_BITRATE:
	case CANDOR_START:
	case CANDOR_STOP:
		return may_change ? 0 : -EBADF;
	default:
		return -ENOTTY;
	}
}

/* Under device->lock, and the device is there. */
static int carry_out(struct candor_handle *handle, unsigned int command, union argument *argument)
{
	struct candor_device *device = handle->device;

	switch (command) {
	case CANDOR_GET_INFO:
		get_info(device, &argument->info);
		return 0;
	case CANDOR_GET_STATISTICS:
		get_statistics(handle, &argument->statistics);
		return 0;
	case CANDOR_GET_BITRATE:
		argument->bitrate = device->bitrate;
		return 0;
	case CANDOR_SET_BITRATE:
		return candor_set_bitrate(device, &argument->bitrate);
	case CANDOR_SET_MODE:
		device->wanted_mode = argument->word;
		return 0;
	case CANDOR_START:
		return candor_start(device);
	case CANDOR_STOP:
		candor_stop(device);
		return 0;
	case CANDOR_SET_FILTERS:
		handle->filters = argument->filters;
		count_steps(device);
		return 0;
	case CANDOR_SET_PRIORITY:
		handle->priority = argument->word;
		/* The new queue may have room. */
		candor_wake(handle);
		return 0;
	case CANDOR_SET_OPTIONS:
		handle->options = argument->word;
		return 0;
	case CANDOR_FLUSH:
		flush(handle, argument->word);
		return 0;
	}
	return -ENOTTY;
}

/* Apart from the others, since it is called for every frame and they have large arguments. */
static long read_ioctl(struct file *file, const void __user *user)
{
	struct candor_read read;

	if (!(file->f_mode & FMODE_READ))
		return -EBADF;
	if (copy_from_user(&read, user, sizeof(read)))
		return -EFAULT;
	if (read.reserved || !read.count)
		return -EINVAL;
	return read_until(file->private_data, u64_to_user_ptr(read.frames), read.count,
			  read.until_ns);
}

static long other_ioctl(struct file *file, unsigned int command, unsigned long address)
{
	struct candor_handle *handle = file->private_data;
	struct candor_device *device = handle->device;
	void __user *user = (void __user *)address;
	union argument argument = {};
	unsigned long flags;
	int err;

	if (is_gone(device))
		return -ENODEV;
	if (_IOC_TYPE(command) != CANDOR_MAGIC || _IOC_SIZE(command) > sizeof(argument))
		return -ENOTTY;
	if (_IOC_DIR(command) & _IOC_WRITE &&
	    copy_from_user(&argument, user, _IOC_SIZE(command)))
		return -EFAULT;
	err = check_argument(command, &argument, file->f_mode & FMODE_WRITE);
	if (err)
		return err;
	/* Allocates. */
	if (command == CANDOR_SET_QUEUE)
		return set_queue(handle, &argument.queue);
	raw_spin_lock_irqsave(&device->lock, flags);
	err = device->gone ? -ENODEV : carry_out(handle, command, &argument);
	raw_spin_unlock_irqrestore(&device->lock, flags);
	if (!err && _IOC_DIR(command) & _IOC_READ &&
	    copy_to_user(user, &argument, _IOC_SIZE(command)))
		return -EFAULT;
	return err;
}

static long candor_ioctl(struct file *file, unsigned int command, unsigned long address)
{
	if (command == CANDOR_READ)
		return read_ioctl(file, (void __user *)address);
	return other_ioctl(file, command, address);
}

const struct file_operations candor_fops = {
	.owner = THIS_MODULE,
	.open = candor_open,
	.release = candor_release,
	.read = candor_read,
	.write = candor_write,
	.poll = candor_poll,
	.unlocked_ioctl = candor_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};
