/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * The user interface of candor_can: CAN controllers as character devices /dev/candor0, ...
 *
 * Every open file ("handle") has a receive queue, acceptance filters and a transmit priority of its
 * own. All handles of a device see every frame of its bus. read() and write() take arrays of whole
 * frames; other sizes give EINVAL. A signal ends both with the frames that they have so far, or with
 * EINTR. After the device is gone every call gives ENODEV, but close().
 *
 * All structures have the same layout for programs of 32 and 64 bits. Numbers are in the byte order
 * of the machine. Reserved fields must be 0 and are 0.
 */
#ifndef CANDOR_CAN_H
#define CANDOR_CAN_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define CANDOR_CAN_VERSION	1

/*
 * Handles of a device; one more open() gives EBUSY. A frame goes to all of them with interrupts off.
 */
#define CANDOR_HANDLES_MOST	64

/* struct candor_frame, flags */
#define CANDOR_EXTENDED	0x0001	/* the identifier has 29 bits, not 11 */
#define CANDOR_REMOTE	0x0002	/* a remote frame: a length, but no data */
#define CANDOR_ERROR	0x0004	/* not a frame: the controller reports errors, see below */
#define CANDOR_OVERFLOW	0x0008	/* read: frames before this one were lost in this handle's queue */
#define CANDOR_LOCAL	0x0010	/* read: sent by this device; the time is when it had been sent */
#define CANDOR_OWN	0x0020	/* read: sent by this handle; CANDOR_LOCAL too */

/**
 * struct candor_frame - what read() gives and write() takes
 * @time_ns: CLOCK_MONOTONIC when the interrupt handler saw the frame; ignored by write()
 * @id: identifier without flags, or for errors a mask of CANDOR_ERROR_*
 * @flags: CANDOR_EXTENDED, ...; write() takes only EXTENDED and REMOTE (virtual devices also ERROR)
 * @len: 0 to 8
 * @reserved: 0
 * @data: what is beyond @len is 0 when read
 */
struct candor_frame {
	__u64 time_ns;
	__u32 id;
	__u16 flags;
	__u8 len;
	__u8 reserved;
	__u8 data[8];
};

/*
 * Errors: the identifier is a mask of these. Data: [0] the new state (CANDOR_STATE_*), [1] receive
 * error counter, [2] transmit error counter, [3] error code (ECC) of the SJA1000, [4] bit in which
 * arbitration was lost (ALC).
 */
#define CANDOR_ERROR_STATE	0x01	/* error active, warning or passive: see the state */
#define CANDOR_ERROR_BUS_OFF	0x02	/* off the bus until CANDOR_START; drops unsent frames */
#define CANDOR_ERROR_OVERRUN	0x04	/* the controller lost frames: its FIFO was full */
#define CANDOR_ERROR_BUS	0x08	/* error frame on the bus (with CANDOR_MODE_BUS_ERRORS) */
#define CANDOR_ERROR_ARBITRATION 0x10	/* arbitration lost (with CANDOR_MODE_ARBITRATION) */
#define CANDOR_ERROR_ALL	0x1f

enum candor_state {
	CANDOR_STATE_STOPPED = 0,
	CANDOR_STATE_ACTIVE = 1,
	CANDOR_STATE_WARNING = 2,	/* an error counter has reached 96 */
	CANDOR_STATE_PASSIVE = 3,	/* an error counter has reached 128 */
	CANDOR_STATE_BUS_OFF = 4,
};

enum candor_kind {
	CANDOR_KIND_VIRTUAL = 0,
	CANDOR_KIND_SJA1000 = 1,
};

/**
 * struct candor_info - CANDOR_GET_INFO
 * @version: CANDOR_CAN_VERSION
 * @frame_size: size of struct candor_frame
 * @kind: enum candor_kind
 * @index: N of /dev/candorN
 * @clock_hz: what bit timing registers divide; 0 for virtual devices
 * @priorities: transmit priorities, each with a queue of its own
 * @transmit_slots: length of each
 * @state: enum candor_state
 */
struct candor_info {
	__u32 version;
	__u32 frame_size;
	__u32 kind;
	__u32 index;
	__u32 clock_hz;
	__u32 priorities;
	__u32 transmit_slots;
	__u32 state;
};

/**
 * struct candor_bitrate - CANDOR_SET_BITRATE, CANDOR_GET_BITRATE
 * @bitrate: in bit/s, one of 10000, 20000, 50000, 100000, 125000, 250000, 500000, 800000, 1000000;
 *           0 when set: @btr0 and @btr1 are taken as they are. 0 when read: not yet set
 * @btr0: bit timing register 0
 * @btr1: bit timing register 1
 * @reserved: 0
 */
struct candor_bitrate {
	__u32 bitrate;
	__u8 btr0;
	__u8 btr1;
	__u16 reserved;
};

/**
 * struct candor_filter - takes a frame if (frame->id & mask) == (id & mask), and its flags likewise
 * @id: identifier
 * @mask: a bit of 1 must be equal
 * @flags: CANDOR_EXTENDED, CANDOR_REMOTE, CANDOR_LOCAL
 * @flags_mask: a bit of 1 must be equal
 */
struct candor_filter {
	__u32 id;
	__u32 mask;
	__u16 flags;
	__u16 flags_mask;
};

#define CANDOR_FILTERS	32

/**
 * struct candor_filters - CANDOR_SET_FILTERS
 * @count: how many of @filter are used. A frame is received if one of them takes it; with 0, none
 *         is. A new handle has one that takes all
 * @errors: which errors are received, a mask of CANDOR_ERROR_*; a new handle: all. No filter is
 *          asked for errors
 * @filter: the filters
 */
struct candor_filters {
	__u32 count;
	__u32 errors;
	struct candor_filter filter[CANDOR_FILTERS];
};

/* struct candor_queue_setup, policy: what is lost when a frame comes and the queue is full */
#define CANDOR_REFUSE_NEWEST	0	/* the frame that comes */
#define CANDOR_OVERWRITE_OLDEST	1	/* the frame that has waited longest */

#define CANDOR_SLOTS		64	/* of a new handle, and of every transmit queue */
#define CANDOR_SLOTS_MOST	4096

/**
 * struct candor_queue_setup - CANDOR_SET_QUEUE: the receive queue of this handle, emptied
 * @slots: 1 to CANDOR_SLOTS_MOST
 * @policy: CANDOR_REFUSE_NEWEST (of a new handle) or CANDOR_OVERWRITE_OLDEST
 */
struct candor_queue_setup {
	__u32 slots;
	__u32 policy;
};

/* CANDOR_SET_MODE: a mask, taken at the next CANDOR_START */
#define CANDOR_MODE_LISTEN_ONLY	0x1	/* sends nothing, acknowledges nothing; write(): EROFS */
#define CANDOR_MODE_BUS_ERRORS	0x2	/* reports each error frame on the bus */
#define CANDOR_MODE_ARBITRATION	0x4	/* reports each lost arbitration */
#define CANDOR_MODE_ALL		0x7

/* CANDOR_SET_OPTIONS: a mask, of this handle */
#define CANDOR_RECEIVE_OWN	0x1	/* what this handle sends comes back once sent */
#define CANDOR_NO_LOCAL		0x2	/* what other handles of the device send is not received */
#define CANDOR_OPTIONS_ALL	0x3

/* CANDOR_SET_PRIORITY: 0 is sent first */
#define CANDOR_PRIORITIES	3
#define CANDOR_PRIORITY_DEFAULT	1

/* CANDOR_FLUSH: a mask */
#define CANDOR_FLUSH_RECEIVED	0x1	/* of this handle */
#define CANDOR_FLUSH_UNSENT	0x2	/* of all handles; open for writing */
#define CANDOR_FLUSH_ALL	0x3

/**
 * struct candor_statistics - CANDOR_GET_STATISTICS, since the device or the handle is there
 * @received: frames from the bus
 * @sent: frames sent, of all handles
 * @dropped: frames written that were never sent: bus-off, stop, flush
 * @overruns: times the controller said that it lost frames
 * @bus_errors: error frames on the bus seen
 * @arbitrations: arbitrations lost
 * @bus_offs: times the controller left the bus
 * @interrupts: interrupts of this controller
 * @storms: interrupts after which the controller still asked for service, when the handler gave up
 * @longest_ns: longest time in the handler
 * @most_frames: most frames read in one interrupt
 * @state: enum candor_state
 * @receive_errors: error counter of the controller
 * @transmit_errors: error counter of the controller
 * @waiting: frames in the transmit queues
 * @handles: open files
 * @handle_received: frames put into this handle's queue
 * @handle_lost: frames lost because it was full, by either policy
 * @handle_waiting: frames in it
 * @handle_most: most frames there ever were in it
 * @handle_slots: its length
 * @handle_policy: its policy
 */
struct candor_statistics {
	__u64 received;
	__u64 sent;
	__u64 dropped;
	__u64 overruns;
	__u64 bus_errors;
	__u64 arbitrations;
	__u64 bus_offs;
	__u64 interrupts;
	__u64 storms;
	__u64 longest_ns;
	__u32 most_frames;
	__u32 state;
	__u32 receive_errors;
	__u32 transmit_errors;
	__u32 waiting;
	__u32 handles;
	__u64 handle_received;
	__u64 handle_lost;
	__u32 handle_waiting;
	__u32 handle_most;
	__u32 handle_slots;
	__u32 handle_policy;
};

#define CANDOR_FOR_EVER		(~0ULL)

/**
 * struct candor_read - CANDOR_READ: read() with a limit of its own, whatever O_NONBLOCK says
 * @until_ns: CLOCK_MONOTONIC until which it waits for a frame, then ETIMEDOUT; 0: does not wait,
 *            EAGAIN; CANDOR_FOR_EVER
 * @frames: address of room for frames
 * @count: how many, at least 1
 * @reserved: 0
 *
 * Returns how many frames there are. Unlike poll(), its waiter is woken by the handler itself.
 */
struct candor_read {
	__u64 until_ns;
	__u64 frames;
	__u32 count;
	__u32 reserved;
};

/*
 * What changes the device (SET_BITRATE, SET_MODE, START, STOP, FLUSH_UNSENT) needs a handle open
 * for writing, or gives EBADF. An unknown ioctl gives ENOTTY, a value out of range EINVAL.
 */
#define CANDOR_MAGIC		0xC5
#define CANDOR_GET_INFO		_IOR(CANDOR_MAGIC, 0, struct candor_info)
#define CANDOR_GET_STATISTICS	_IOR(CANDOR_MAGIC, 1, struct candor_statistics)
#define CANDOR_GET_BITRATE	_IOR(CANDOR_MAGIC, 2, struct candor_bitrate)
#define CANDOR_SET_BITRATE	_IOW(CANDOR_MAGIC, 3, struct candor_bitrate) /* or EBUSY */
#define CANDOR_SET_MODE		_IOW(CANDOR_MAGIC, 4, __u32)
#define CANDOR_START		_IO(CANDOR_MAGIC, 5) /* ENODATA: no bit rate set */
#define CANDOR_STOP		_IO(CANDOR_MAGIC, 6)	/* drops what is unsent */
#define CANDOR_SET_FILTERS	_IOW(CANDOR_MAGIC, 7, struct candor_filters)
#define CANDOR_SET_QUEUE	_IOW(CANDOR_MAGIC, 8, struct candor_queue_setup)
#define CANDOR_SET_PRIORITY	_IOW(CANDOR_MAGIC, 9, __u32)
#define CANDOR_SET_OPTIONS	_IOW(CANDOR_MAGIC, 10, __u32)
#define CANDOR_FLUSH		_IOW(CANDOR_MAGIC, 11, __u32)
#define CANDOR_READ		_IOW(CANDOR_MAGIC, 12, struct candor_read)

/*
 * The gateway, /dev/candor_gateway: rules that pass frames on between devices, in the interrupt handler.
 * One file can be open at a time (else EBUSY); with it the rules go. Rules are prepared, then committed:
 * each frame meets those before or those after, and none is lost in between.
 */

/* Devices that a gateway can use: /dev/candor0 to this one, exclusive. */
#define CANDOR_DEVICES_MOST	256
#define CANDOR_NO_DEVICE	(-1)
/* Bytes of an image. */
#define CANDOR_IMAGE_MOST	(16 << 20)

/**
 * struct candor_gateway_image - CANDOR_GATEWAY_PREPARE
 * @image: address of a program image (docs/program-image.md)
 * @length: of it, in bytes
 * @devices: address of one __s32 for each bus of the image: N of /dev/candorN, each only once, or
 *           CANDOR_NO_DEVICE for a bus that no rule uses
 * @buses: how many
 * @steps: written: the most steps that the rules take for one frame; what a step is: docs/drivers.md
 * @section: written with EINVAL: the section that is refused, 0 for the header; with ENODEV: 0
 * @record: written with EINVAL or ENODEV: the record, or the bus whose device is not there
 * @reason: written with EINVAL: why, ended by 0
 *
 * What was prepared before stays so if these rules are refused.
 */
struct candor_gateway_image {
	__u64 image;
	__u64 length;
	__u64 devices;
	__u32 buses;
	__u32 steps;
	__u32 section;
	__u32 record;
	char reason[80];
};

/**
 * struct candor_gateway_job - what became of the copies of a rule for one of its destinations
 * @handled: taken by the transmit queue
 * @hop_limit: the frame had been passed on max_hops times
 * @down: the device is gone, stopped, bus-off or listens only
 * @returning: it would have gone back to where it came from, without allow_return
 * @too_long: its length after the operations
 * @queue_full: the transmit queue had no room; or, with echo, 16 copies of the frame had come back; or enough copies of the frame
 *              had gone to open files of virtual devices
 * @unsupported: an operation made it an error report
 */
struct candor_gateway_job {
	__u64 handled;
	__u64 hop_limit;
	__u64 down;
	__u64 returning;
	__u64 too_long;
	__u64 queue_full;
	__u64 unsupported;
};

/**
 * struct candor_gateway_bus - what a bus has seen
 * @received: frames, also those that programs sent to the device, and copies with echo
 * @unmatched: frames of these that no rule took
 * @most_steps: the most steps that one of them took, in the rules and in the handles of its device
 * @step_limit: the most that one could have taken, with the handles that were open
 * @longest_ns: the longest time from the interrupt until one was with all of them
 * @lost: copies that its transmit queue had taken, also of rules before, and that were not sent: bus-off, stop, removal, flush
 * @state: enum candor_state of its device; of a bus without a device: 0
 */
struct candor_gateway_bus {
	__u64 received;
	__u64 unmatched;
	__u64 most_steps;
	__u64 step_limit;
	__u64 longest_ns;
	__u64 lost;
	__u64 state;
};

/**
 * struct candor_gateway_counts - CANDOR_GATEWAY_COUNTS
 * @jobs: address of room for a struct candor_gateway_job for each job of the image
 * @buses: the same for each bus
 * @job_count: how many jobs there is room for; written: how many there are
 * @bus_count: likewise
 * @job_size: size of struct candor_gateway_job; another one: EINVAL
 * @bus_size: likewise
 * @earlier: 0: the rules in use; 1: those before them, whose counts are final. ENODATA: there are none
 * @gone: written: whether a device that the rules use is gone
 */
struct candor_gateway_counts {
	__u64 jobs;
	__u64 buses;
	__u32 job_count;
	__u32 bus_count;
	__u32 job_size;
	__u32 bus_size;
	__u32 earlier;
	__u32 gone;
};

#define CANDOR_GATEWAY_PREPARE	_IOWR(CANDOR_MAGIC, 32, struct candor_gateway_image)
#define CANDOR_GATEWAY_COMMIT	_IO(CANDOR_MAGIC, 33) /* ENODATA: nothing is prepared */
#define CANDOR_GATEWAY_ABANDON	_IO(CANDOR_MAGIC, 34)
#define CANDOR_GATEWAY_COUNTS	_IOWR(CANDOR_MAGIC, 35, struct candor_gateway_counts)

#endif
