// SPDX-License-Identifier: GPL-2.0-only
/*
 * The gateway: passes frames on between devices by compiled rules, where the frame was received, in the
 * hard interrupt if the device is read there.
 *
 * Rules are replaced under RCU: a frame meets those before or those after. What a job counts is changed
 * under the lock of the device that its copies go to, what a bus counts under that of its device.
 */
#include <linux/fs.h>
#include <linux/ktime.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include "image.h"
#include "internal.h"

#define NO_BUS	0xffff
/* No more copies go to virtual devices once the open files there had so many steps of one frame; and the most that they can be. */
#define DELIVERED_ENOUGH	CANDOR_IMAGE_STEPS
#define DELIVERED_MOST \
	(DELIVERED_ENOUGH + CANDOR_HANDLES_MOST * CANDOR_STEPS_OF_HANDLE(CANDOR_FILTERS))

struct rules {
	struct candor_image image;
	void *bytes;
	struct candor_device **devices;	/* of each bus, or NULL */
	u16 bus_of[CANDOR_DEVICES_MOST];	/* by index of the device */
	struct candor_gateway_job *jobs;
	struct candor_gateway_bus *buses;
	u32 delivered_most;	/* 0: no copy goes to a virtual device */
};

static struct rules __rcu *active;
static DEFINE_MUTEX(changing);	/* active, and the following */
static struct rules *prepared;
static struct rules *earlier;	/* those before the active ones, for their counts */
static unsigned long is_open;	/* bit 0. Not under `changing`: misc_open() has the lock of all misc devices. */

/* ---- Frames ------------------------------------------------------------------------------- */

static u32 word_of(const struct candor_frame *frame)
{
	return frame->id | (frame->flags & CANDOR_EXTENDED ? IMAGE_EXTENDED : 0) |
	       (frame->flags & CANDOR_REMOTE ? IMAGE_REMOTE : 0);
}

/* What cannot be sent stays with the word that it has. */
static void encode(const struct candor_image_frame *from, struct candor_frame *frame)
{
	bool extended = from->id & IMAGE_EXTENDED, remote = from->id & IMAGE_REMOTE;

	frame->id = from->id & (extended ? 0x1fffffff : 0x7ff);
	frame->flags = (extended ? CANDOR_EXTENDED : 0) | (remote ? CANDOR_REMOTE : 0);
	frame->len = min(from->len, (u8)8);
	memcpy(frame->data, from->data, sizeof(frame->data));
}

/* What is beyond the length is for rules that a copy meets when it comes back, and for nobody else. */
static void clean(struct candor_frame *frame)
{
	if (frame->flags & CANDOR_REMOTE)
		memset(frame->data, 0, sizeof(frame->data));
	else
		memset(frame->data + frame->len, 0, sizeof(frame->data) - frame->len);
}

/* A copy that comes back on the bus that it was sent on, whose rules are to take it. */
struct hop {
	struct candor_frame frame;
	u16 bus;
	u16 origin;
	u32 hops;
};

struct hops {
	u32 count;
	struct hop hop[CANDOR_IMAGE_HOPS];
};

/* What travels with a frame: the bus whose rules it meets, the first one that it came on, and how often it was passed on. */
struct passage {
	u32 bus;
	u32 origin;
	u32 hops;
	struct hops *echoes;	/* NULL: no rule has echo */
	u32 *delivered;		/* steps of the open files of virtual devices, which have a copy at once */
};

/* Why there is no copy, whatever becomes of its destination. */
enum flaw { SOUND, TOO_LONG, UNSUPPORTED };

static u32 hops_after(const struct rules *rules, const struct image_rule *rule, u32 hops)
{
	if (hops || !rule->limit_hops)
		return hops + 1;
	return rules->image.max_hops - min_t(u32, rule->limit_hops - 1, rules->image.max_hops);
}

static noinline void come_back(struct rules *rules, const struct image_rule *rule,
			       const struct passage *passage, u32 to,
			       const struct candor_frame *copy, const u8 data[8])
{
	struct hop *hop = &passage->echoes->hop[passage->echoes->count++];

	*hop = (struct hop){
		.frame = *copy,
		.bus = to,
		.origin = passage->origin,
		.hops = hops_after(rules, rule, passage->hops),
	};
	memcpy(hop->frame.data, data, sizeof(hop->frame.data));
}

/* The order of the checks is that of net/can/gw.c. */
static void offer(struct rules *rules, u32 number, const struct image_rule *rule,
		  const struct passage *passage, enum flaw flaw, const struct candor_frame *copy,
		  const u8 data[8])
{
	u32 to = le16_to_cpu(rules->image.jobs[number].to);
	struct candor_device *target = rules->devices[to];
	struct candor_gateway_job *job = &rules->jobs[number];
	bool echo = rule->flags & IMAGE_RULE_ECHO, handled = false;

	raw_spin_lock(&target->lock);
	if (passage->hops >= rules->image.max_hops) {
		job->hop_limit++;
	} else if (target->gone || target->state == CANDOR_STATE_STOPPED ||
		   target->state == CANDOR_STATE_BUS_OFF) {
		job->down++;
	} else if (to == passage->origin && !(rule->flags & IMAGE_RULE_RETURN)) {
		job->returning++;
	} else if (flaw == TOO_LONG) {
		job->too_long++;
	} else if (flaw == UNSUPPORTED) {
		job->unsupported++;
	} else if ((echo && passage->echoes->count == CANDOR_IMAGE_HOPS) ||
		   *passage->delivered >= DELIVERED_ENOUGH) {
		job->queue_full++;
	} else {
		target->delivered = 0;
		switch (candor_submit(target, copy, CANDOR_PRIORITY_DEFAULT)) {
		case 0:
			job->handled++;
			handled = true;
			*passage->delivered += target->delivered;
			break;
		case -EAGAIN:
			job->queue_full++;
			break;
		default:
			job->down++;
		}
	}
	raw_spin_unlock(&target->lock);
	if (echo && handled)
		come_back(rules, rule, passage, to, copy, data);
}

/* false: the rule takes no classical frames. */
static bool fire(struct rules *rules, const struct passage *passage, u32 number,
		 const struct candor_frame *frame, u32 *steps)
{
	const struct image_rule *rule = &rules->image.rules[number];
	u32 job = le32_to_cpu(rule->first_job), end = job + le16_to_cpu(rule->jobs);
	u32 edit = le32_to_cpu(rule->edit);
	struct candor_frame copy = *frame;
	enum flaw flaw = SOUND;
	u8 data[8];

	*steps += CANDOR_STEPS_RULE;
	if (!(rule->flags & IMAGE_RULE_CLASSICAL))
		return false;
	copy.flags &= CANDOR_EXTENDED | CANDOR_REMOTE;
	if (edit != IMAGE_NONE) {
		struct candor_image_frame edited = { .id = word_of(frame), .len = frame->len };

		memcpy(edited.data, frame->data, sizeof(edited.data));
		if (!candor_image_edit(&rules->image, edit, &edited, steps))
			flaw = TOO_LONG;
		else if (edited.id & IMAGE_ERROR)
			flaw = UNSUPPORTED;
		encode(&edited, &copy);
	}
	memcpy(data, copy.data, sizeof(data));
	if (edit != IMAGE_NONE || passage->echoes)
		clean(&copy);
	copy.time_ns = CANDOR_OF_GATEWAY;
	for (; job < end; job++) {
		*steps += CANDOR_STEPS_COPY;
		offer(rules, job, rule, passage, flaw, &copy, data);
	}
	return true;
}

static bool fire_all(struct rules *rules, const struct passage *passage,
		     const struct candor_frame *frame, const struct image_match *found, u32 count,
		     u32 *steps)
{
	bool matched = false;
	u32 i;

	for (i = 0; i < count; i++)
		matched |= fire(rules, passage, le32_to_cpu(found[i].rule), frame, steps);
	return matched;
}

/* Apart, since the compiler may clear the room. */
static noinline bool meet_extended(struct rules *rules, const struct passage *passage,
				   const struct candor_frame *frame, u32 *steps)
{
	struct image_match room[CANDOR_IMAGE_MATCHES];
	u32 count = candor_image_extended(&rules->image, passage->bus, word_of(frame), room, steps);

	return fire_all(rules, passage, frame, room, count, steps);
}

/* false: no rule took it. */
static bool meet(struct rules *rules, const struct passage *passage,
		 const struct candor_frame *frame, u32 *steps)
{
	const struct image_match *found;
	u32 count;

	if (frame->flags & CANDOR_EXTENDED)
		return meet_extended(rules, passage, frame, steps);
	count = candor_image_standard(&rules->image, passage->bus, word_of(frame), &found, steps);
	return fire_all(rules, passage, frame, found, count, steps);
}

/* With rules that have echo. */
static noinline bool meet_echoes(struct rules *rules, u32 bus, const struct candor_frame *frame,
				 u32 *steps, u32 *delivered)
{
	struct hops echoes = {};
	struct passage passage = {
		.bus = bus, .origin = bus, .echoes = &echoes, .delivered = delivered
	};
	bool matched = meet(rules, &passage, frame, steps), again;
	u32 i;

	for (i = 0; i < echoes.count; i++) {
		struct hop *hop = &echoes.hop[i];
		struct candor_device *device = rules->devices[hop->bus];

		passage.bus = hop->bus;
		passage.origin = hop->origin;
		passage.hops = hop->hops;
		again = meet(rules, &passage, &hop->frame, steps);
		raw_spin_lock(&device->lock);
		rules->buses[hop->bus].received++;
		rules->buses[hop->bus].unmatched += !again;
		raw_spin_unlock(&device->lock);
	}
	return matched;
}

/* Under RCU: which bus of the rules the device is, or NO_BUS. */
static u32 bus_of(const struct rules *rules, const struct candor_device *device)
{
	u32 bus = rules ? rules->bus_of[device->index] : NO_BUS;

	/* It may be another device with the index of one that is gone. */
	return bus != NO_BUS && rules->devices[bus] == device ? bus : NO_BUS;
}

/*
 * Under device->lock, which is dropped for the copies; interrupts stay off. The rules that the frame met, with the RCU lock until
 * gateway_note(); or NULL. Adds their steps.
 */
struct rules *gateway_take(struct candor_device *device, const struct candor_frame *frame, u32 *steps)
{
	struct rules *rules;
	u32 bus, delivered = 0;
	bool matched;

	if (!rcu_access_pointer(active))
		return NULL;
	rcu_read_lock();
	rules = rcu_dereference(active);
	bus = bus_of(rules, device);
	if (bus == NO_BUS) {
		rcu_read_unlock();
		return NULL;
	}
	raw_spin_unlock(&device->lock);
	if (rules->image.has_echo) {
		matched = meet_echoes(rules, bus, frame, steps, &delivered);
	} else {
		struct passage passage = { .bus = bus, .origin = bus, .delivered = &delivered };

		matched = meet(rules, &passage, frame, steps);
	}
	raw_spin_lock(&device->lock);
	rules->buses[bus].received++;
	rules->buses[bus].unmatched += !matched;
	WARN_ONCE(*steps > rules->image.steps, "%u steps, not at most %u", *steps,
		  rules->image.steps);
	*steps += delivered;
	return rules;
}

/* Under device->lock: the frame is with the handles, too. @steps: of its rules and of them. */
void gateway_note(struct rules *rules, struct candor_device *device,
		  const struct candor_frame *frame, u32 steps)
{
	struct candor_gateway_bus *bus = &rules->buses[rules->bus_of[device->index]];

	u64 limit = (u64)rules->image.steps + rules->delivered_most + device->handle_steps;

	bus->step_limit = max(bus->step_limit, limit);
	bus->most_steps = max(bus->most_steps, (u64)steps);
	bus->longest_ns = max(bus->longest_ns, ktime_get_ns() - frame->time_ns);
	rcu_read_unlock();
}

/* Under device->lock: copies that its transmit queue had taken are not sent. */
void gateway_lost(struct candor_device *device, u32 copies)
{
	struct rules *rules;
	u32 bus;

	if (!copies)
		return;
	rcu_read_lock();
	rules = rcu_dereference(active);
	bus = bus_of(rules, device);
	if (bus != NO_BUS)
		rules->buses[bus].lost += copies;
	rcu_read_unlock();
}

/* ---- Rules -------------------------------------------------------------------------------- */

static void free_rules(struct rules *rules)
{
	u32 i;

	if (!rules)
		return;
	for (i = 0; rules->devices && i < rules->image.counts[IMAGE_BUSES]; i++) {
		if (rules->devices[i])
			candor_put(rules->devices[i]);
	}
	kvfree(rules->devices);
	kvfree(rules->jobs);
	kvfree(rules->buses);
	kvfree(rules->bytes);
	kvfree(rules);
}

/* The devices of the buses. ENODEV: record says which is not there. */
static int find_devices(struct rules *rules, struct candor_gateway_image *argument)
{
	const s32 __user *wanted = u64_to_user_ptr(argument->devices);
	u32 i;

	memset(rules->bus_of, 0xff, sizeof(rules->bus_of));
	for (i = 0; i < rules->image.counts[IMAGE_BUSES]; i++) {
		s32 index;

		argument->record = i;
		if (get_user(index, &wanted[i]))
			return -EFAULT;
		if (index == CANDOR_NO_DEVICE)
			continue;
		rules->devices[i] = candor_find(index);
		if (!rules->devices[i])
			return -ENODEV;
		if (rules->bus_of[index] != NO_BUS || i >= NO_BUS) {
			argument->section = IMAGE_BUSES;
			strscpy(argument->reason, "two buses are one device", sizeof(argument->reason));
			return -EINVAL;
		}
		rules->bus_of[index] = i;
	}
	/* Copies have somewhere to go. */
	for (i = 0; i < rules->image.counts[IMAGE_JOBS]; i++) {
		argument->record = le16_to_cpu(rules->image.jobs[i].to);
		if (!rules->devices[argument->record])
			return -ENODEV;
		if (rules->devices[argument->record]->kind == CANDOR_KIND_VIRTUAL)
			rules->delivered_most = DELIVERED_MOST;
	}
	return 0;
}

static int read_rules(struct rules *rules, struct candor_gateway_image *argument)
{
	struct candor_image_error error;
	bool is_sound;
	void *room;

	if (!argument->length || argument->length > CANDOR_IMAGE_MOST)
		return -E2BIG;
	rules->bytes = kvmalloc(argument->length, GFP_KERNEL);
	if (!rules->bytes)
		return -ENOMEM;
	if (copy_from_user(rules->bytes, u64_to_user_ptr(argument->image), argument->length))
		return -EFAULT;
	room = kvmalloc(CANDOR_IMAGE_ROOM(argument->length), GFP_KERNEL);
	if (!room)
		return -ENOMEM;
	is_sound = candor_image_check(&rules->image, rules->bytes, argument->length, room, &error);
	kvfree(room);
	if (!is_sound) {
		rules->image.counts[IMAGE_BUSES] = 0;
		argument->section = error.section;
		argument->record = error.record;
		strscpy(argument->reason, error.reason, sizeof(argument->reason));
		return -EINVAL;
	}
	argument->steps = rules->image.steps;
	if (argument->buses != rules->image.counts[IMAGE_BUSES]) {
		argument->section = IMAGE_BUSES;
		strscpy(argument->reason, "there are not as many devices as buses",
			sizeof(argument->reason));
		return -EINVAL;
	}
	rules->devices = kvcalloc(argument->buses, sizeof(*rules->devices), GFP_KERNEL);
	rules->buses = kvcalloc(argument->buses, sizeof(*rules->buses), GFP_KERNEL);
	rules->jobs = kvcalloc(rules->image.counts[IMAGE_JOBS], sizeof(*rules->jobs), GFP_KERNEL);
	if (!rules->devices || !rules->buses || !rules->jobs)
		return -ENOMEM;
	return find_devices(rules, argument);
}

static int prepare(struct candor_gateway_image __user *user)
{
	struct candor_gateway_image argument;
	struct rules *rules;
	int err;

	if (copy_from_user(&argument, user, sizeof(argument)))
		return -EFAULT;
	argument.steps = 0;
	argument.section = 0;
	argument.record = 0;
	memset(argument.reason, 0, sizeof(argument.reason));
	rules = kvzalloc(sizeof(*rules), GFP_KERNEL);
	if (!rules)
		return -ENOMEM;
	err = read_rules(rules, &argument);
	/* Who is not told the outcome has prepared nothing. */
	if (copy_to_user(user, &argument, sizeof(argument)))
		err = -EFAULT;
	if (err) {
		free_rules(rules);
	} else {
		free_rules(prepared);
		prepared = rules;
	}
	return err;
}

/* Afterwards no frame meets the rules before. */
static void replace(struct rules *rules)
{
	struct rules *before = rcu_replace_pointer(active, rules, lockdep_is_held(&changing));

	synchronize_rcu();
	free_rules(earlier);
	earlier = before;
}

static bool any_gone(const struct rules *rules)
{
	u32 i;

	for (i = 0; i < rules->image.counts[IMAGE_BUSES]; i++) {
		if (rules->devices[i] && READ_ONCE(rules->devices[i]->gone))
			return true;
	}
	return false;
}

/* What devices are now, and not only what they have seen. */
static void note_states(struct rules *rules)
{
	u32 i;

	for (i = 0; i < rules->image.counts[IMAGE_BUSES]; i++) {
		if (rules->devices[i])
			rules->buses[i].state = READ_ONCE(rules->devices[i]->state);
	}
}

static int get_counts(struct candor_gateway_counts __user *user)
{
	struct candor_gateway_counts argument;
	struct rules *rules;
	u32 jobs, buses;

	if (copy_from_user(&argument, user, sizeof(argument)))
		return -EFAULT;
	if (argument.earlier > 1 || argument.job_size != sizeof(*rules->jobs) ||
	    argument.bus_size != sizeof(*rules->buses))
		return -EINVAL;
	rules = argument.earlier ? earlier
				 : rcu_dereference_protected(active, lockdep_is_held(&changing));
	if (!rules)
		return -ENODATA;
	jobs = min(argument.job_count, rules->image.counts[IMAGE_JOBS]);
	buses = min(argument.bus_count, rules->image.counts[IMAGE_BUSES]);
	argument.job_count = rules->image.counts[IMAGE_JOBS];
	argument.bus_count = rules->image.counts[IMAGE_BUSES];
	argument.gone = any_gone(rules);
	note_states(rules);
	if (copy_to_user(u64_to_user_ptr(argument.jobs), rules->jobs, jobs * sizeof(*rules->jobs)) ||
	    copy_to_user(u64_to_user_ptr(argument.buses), rules->buses,
			 buses * sizeof(*rules->buses)) ||
	    copy_to_user(user, &argument, sizeof(argument)))
		return -EFAULT;
	return 0;
}

/* ---- The file ----------------------------------------------------------------------------- */

static int gateway_open(struct inode *inode, struct file *file)
{
	if (test_and_set_bit_lock(0, &is_open))
		return -EBUSY;
	return nonseekable_open(inode, file);
}

static int gateway_release(struct inode *inode, struct file *file)
{
	mutex_lock(&changing);
	replace(NULL);
	free_rules(earlier);
	free_rules(prepared);
	earlier = NULL;
	prepared = NULL;
	mutex_unlock(&changing);
	clear_bit_unlock(0, &is_open);
	return 0;
}

static long gateway_ioctl(struct file *file, unsigned int command, unsigned long address)
{
	void __user *user = (void __user *)address;
	long result = 0;

	mutex_lock(&changing);
	switch (command) {
	case CANDOR_GATEWAY_PREPARE:
		result = prepare(user);
		break;
	case CANDOR_GATEWAY_COMMIT:
		if (prepared) {
			replace(prepared);
			prepared = NULL;
		} else {
			result = -ENODATA;
		}
		break;
	case CANDOR_GATEWAY_ABANDON:
		free_rules(prepared);
		prepared = NULL;
		break;
	case CANDOR_GATEWAY_COUNTS:
		result = get_counts(user);
		break;
	default:
		result = -ENOTTY;
	}
	mutex_unlock(&changing);
	return result;
}

static const struct file_operations gateway_fops = {
	.owner = THIS_MODULE,
	.open = gateway_open,
	.release = gateway_release,
	.unlocked_ioctl = gateway_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
};

static struct miscdevice gateway_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "candor_gateway",
	.fops = &gateway_fops,
	.mode = 0600,
};

int gateway_register(void)
{
	return misc_register(&gateway_misc);
}

void gateway_unregister(void)
{
	misc_deregister(&gateway_misc);
}
