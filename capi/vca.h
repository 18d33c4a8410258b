/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * VCA: one C interface to every bus. The name of a bus says which one it is, at run time:
 *
 *   can0                       a CAN interface of Linux (SocketCAN)
 *   candor:candor0             a character device of the driver candor_can
 *   sim:bench?bitrate=500k     a simulated bus, shared by the programs of one user
 *   file:drive.log             a recording, read (VCA_RECEIVE) or written (VCA_SEND)
 *   can2udp:0.0.0.0:4858       CAN in UDP; also cannelloni: and multicast:
 *
 * Results. Functions that return int return 0 or a number if all is well, and a negative errno if not
 * (-EINVAL, ...). vca_last_error() tells place, reason and remedy.
 *
 *   -EINVAL           a name, an option or an argument is wrong; a pointer is null or not aligned
 *   -EBADF            the handle is closed, or was not opened for this
 *   -EBUSY            somebody else has the bus, or it is full; a recording of this name exists
 *                     already; another thread is in the same half of the handle
 *   -EAGAIN           no room for the frame now: vca_wait(handle, VCA_SEND, ...)
 *   -ECANCELED        vca_wake() ended the waiting
 *   -ENODATA          a recording is at its end. Not if a peer closes a connection: cannelloni: makes it
 *                     again, and nothing is received until then
 *   -ENODEV           no such device, interface or file, or it is gone
 *   -ENETDOWN         the interface is down, or the controller is stopped or bus-off
 *   -EACCES           not permitted
 *   -EOPNOTSUPP       the bus does not do that
 *   -EMSGSIZE         no frame has this length
 *   -EPROTONOSUPPORT  no such driver
 *   -ENOTRECOVERABLE  a fault of the library
 *
 * Others are those of the system.
 *
 * Threads. Of one handle, one thread may receive (vca_receive, vca_wait with VCA_RECEIVE) while another
 * sends (vca_send, vca_wait with VCA_SEND). vca_status() and vca_wake() may be called at any time.
 * vca_set_filters() belongs to the thread that receives. Who breaks this gets -EBUSY. Close a handle
 * when no thread uses it; with VCA_OPEN_WAKE, one that waits returns -EBADF. Handles do not survive fork().
 *
 * Handles. A handle is no address. A closed one gives -EBADF, a null pointer -EINVAL.
 *
 * Signals do not end a waiting. Use a timeout, or VCA_OPEN_WAKE.
 */
#ifndef VCA_H
#define VCA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this interface. */
#define VCA_VERSION	0

/* An open bus. */
typedef struct vca vca_t;

/* struct vca_frame, flags */
#define VCA_EXTENDED	0x0001	/* the identifier has 29 bits, not 11 */
#define VCA_REMOTE	0x0002	/* a remote frame: a length, but no data */
#define VCA_ERROR	0x0004	/* received: an error report; id and data as in linux/can/error.h */
#define VCA_FD		0x0008	/* a CAN FD frame */
#define VCA_BRS		0x0010	/* CAN FD: the data has the second bit rate */
#define VCA_ESI		0x0020	/* CAN FD: the sender is error-passive */
#define VCA_OWN		0x0040	/* received: sent by this handle (VCA_OPEN_OWN) */
#define VCA_LOCAL	0x0080	/* received: sent by another program of this machine, where that is known */

/* A frame. */
struct vca_frame {
	uint64_t time_ns;	/* received: since 1970 (CLOCK_REALTIME); 0: not known. Sent: ignored */
	uint32_t id;		/* the identifier, without flags */
	uint16_t flags;		/* VCA_EXTENDED, ... */
	uint8_t len;		/* 0 to 8; CAN FD also 12, 16, 20, 24, 32, 48, 64 */
	uint8_t reserved;	/* 0 */
	uint8_t data[64];	/* received: 0 beyond len */
};

/* Takes a frame if (frame.id & mask) == (id & mask), and its flags likewise. */
struct vca_filter {
	uint32_t id;
	uint32_t mask;
	uint16_t flags;		/* VCA_EXTENDED, VCA_REMOTE */
	uint16_t flags_mask;	/* those of them that count */
};

/* struct vca_status, state */
#define VCA_STATE_UNKNOWN	0
#define VCA_STATE_STOPPED	1
#define VCA_STATE_ACTIVE	2
#define VCA_STATE_WARNING	3	/* an error counter has reached 96 */
#define VCA_STATE_PASSIVE	4
#define VCA_STATE_BUS_OFF	5

/* struct vca_status, abilities */
#define VCA_CAN_FD	0x1	/* it carries CAN FD frames */
#define VCA_CAN_REMOTE	0x2	/* it carries remote frames */
#define VCA_CAN_ERRORS	0x4	/* it reports errors */
#define VCA_CAN_STAMP	0x8	/* its frames can have times */

/* What vca_status() tells. */
struct vca_status {
	uint32_t state;		/* VCA_STATE_... */
	int32_t receive_errors;	/* error counters of the controller; -1: not known */
	int32_t transmit_errors;
	uint32_t bitrate;	/* in bit/s; 0: not known */
	uint32_t data_bitrate;	/* of the data of CAN FD */
	uint32_t abilities;	/* VCA_CAN_... */
	uint64_t received;	/* frames that this handle received, before its filters if they are not the kernel's */
	uint64_t sent;		/* frames that it was given to send */
	uint64_t lost;		/* frames, or datagrams, lost on the way to it, as far as it is known: sim: tells
				 * it with the next frame */
	uint64_t malformed;	/* messages that were no frames */
	uint64_t reserved[4];
};

/* vca_open(), flags; vca_wait() takes one of the first two */
#define VCA_RECEIVE	0x01	/* to receive */
#define VCA_SEND	0x02	/* to send; with neither of them: both */
#define VCA_OPEN_ERRORS	0x04	/* to receive error reports of the controller too */
#define VCA_OPEN_OWN	0x08	/* to receive what this handle sent, once it has been sent, or -EOPNOTSUPP */
#define VCA_OPEN_STAMPS	0x10	/* received frames have times */
#define VCA_OPEN_WAKE	0x20	/* vca_wake() works; each waiting takes one more system call */

/*
 * Opens a bus by its name, at most 4096 bytes of UTF-8. *out is the handle, or NULL if there is none.
 * Returns 0, or -EINVAL, -EPROTONOSUPPORT, -ENODEV, -EBUSY, -EACCES, ...
 */
int vca_open(const char *name, unsigned flags, vca_t **out);

/*
 * Closes a handle, after what was sent has left, which it waits for 1 s at most; what is left then is not sent.
 * Returns 0, -EINVAL or -EBADF.
 */
int vca_close(vca_t *handle);

/*
 * Sends n frames in their order. Never waits. Returns how many were taken, which may be fewer than n;
 * if none was, why: -EAGAIN, -EINVAL, -EMSGSIZE, -EOPNOTSUPP, -ENETDOWN, ... Taken is not yet sent.
 */
int vca_send(vca_t *handle, const struct vca_frame *frames, size_t n);

/*
 * Receives 1 to room frames. Waits for the first: timeout_ns nanoseconds, not at all if that is 0, for
 * ever if it is negative. Returns how many; 0 if the time is over; -ENODATA if none will come any more.
 */
int vca_receive(vca_t *handle, struct vca_frame *frames, size_t room, int64_t timeout_ns);

/*
 * Waits as vca_receive() does. VCA_RECEIVE: until there is a frame. VCA_SEND: until there may be room
 * for one; a waiting for ever ends after 1 s at most. Returns what there is, or 0 if the time is over.
 */
int vca_wait(vca_t *handle, unsigned what, int64_t timeout_ns);

/*
 * Ends a waiting for frames of another thread, or the next one: with -ECANCELED. The handle was opened
 * with VCA_OPEN_WAKE, or it is -EOPNOTSUPP. Not for signal handlers.
 */
int vca_wake(vca_t *handle);

/*
 * Receives only frames that one of n filters takes; all with NULL and 0, which is how a handle begins;
 * none with an array and 0. Error reports pass. Frames that have arrived already may still come.
 * At most 4096. Returns 1 if the driver carries them out, 0 if this library does.
 */
int vca_set_filters(vca_t *handle, const struct vca_filter *filters, size_t n);

/* Tells how the controller gets on, and what was counted. Returns 0 or -ENODEV, ... */
int vca_status(vca_t *handle, struct vca_status *status);

/* A short text for a number that a function returned. It is constant. */
const char *vca_strerror(int error);

/*
 * The text of the last call of this thread: "PLACE: REASON; REMEDY", or nothing if it was well. Writes at
 * most room bytes, with a 0 at the end. Returns its length without the 0, like snprintf().
 */
int vca_last_error(char *text, size_t room);

#ifdef __cplusplus
}
#endif

#endif
