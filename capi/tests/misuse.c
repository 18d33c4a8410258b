/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* misuse BUS: everything that a program can do wrong, with the number that it gets. For AddressSanitizer. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vca.h>

static int failures;

#define GIVES(call, expected) do { \
	int got = (call); \
	if (got != (expected)) { \
		char why[256]; \
		vca_last_error(why, sizeof(why)); \
		printf("line %d: %s gives %d, not %d: %s\n", __LINE__, #call, got, (int)(expected), why); \
		failures++; \
	} \
} while (0)

static void *waits(void *bus)
{
	struct vca_frame frame;
	int n;

	/* Who asks whether this thread waits already may be in its way. */
	while ((n = vca_receive(bus, &frame, 1, -1)) == -EBUSY)
		;
	return (void *)(long)n;
}

/* Receives until as many have come as its partner sends. No more than AHEAD wait for it: a bus loses more than it has
 * room for. */
#define ROUNDS	2000
#define AHEAD	32
static atomic_long seen;
static void *reads(void *bus)
{
	struct vca_frame frames[7];
	long result = 0;

	while (result < ROUNDS) {
		int n = vca_receive(bus, frames, 7, 5000000000);

		if (n <= 0) {
			result = n;
			break;
		}
		for (int i = 0; i < n; i++, result++) {
			if (frames[i].id != result % 0x800 || frames[i].len != result % 9) {
				result = -1;
				goto out;
			}
		}
		atomic_store(&seen, result);
	}
out:
	atomic_store(&seen, ROUNDS);
	return (void *)result;
}

static void opening(const char *name)
{
	char *end = malloc(1);
	vca_t *bus = (vca_t *)1;

	*end = 0;
	GIVES(vca_open(NULL, 0, &bus), -EINVAL);
	GIVES(vca_open(name, 0, NULL), -EINVAL);
	GIVES(vca_open(end, 0, &bus), -EINVAL);
	GIVES(bus != NULL, 0);
	GIVES(vca_open("sim:\xff", 0, &bus), -EINVAL);
	GIVES(vca_open("nothing:can0", 0, &bus), -EPROTONOSUPPORT);
	GIVES(vca_open("sim:bench?speed=1", 0, &bus), -EINVAL);
	GIVES(vca_open("sim:bench?queue=0", 0, &bus), -EINVAL);
	GIVES(vca_open(name, 0x8000, &bus), -EINVAL);
	GIVES(vca_open("file:drive.log", 0, &bus), -EINVAL);
	GIVES(vca_open("file:/no/such/drive.log", VCA_RECEIVE, &bus), -ENODEV);
	GIVES(vca_open("candor:candor99", 0, &bus), -ENODEV);
	GIVES(vca_open("candor:can0", 0, &bus), -EINVAL);
	/* A kernel without CAN says so. */
	int n = vca_open("no-such-can", 0, &bus);
	GIVES(n == -ENODEV || n == -EOPNOTSUPP, 1);
	free(end);
}

static void texts(void)
{
	vca_t *bus;
	char text[8], *one = malloc(1);
	int len;

	vca_open("nothing:can0", 0, &bus);
	len = vca_last_error(NULL, 0);
	GIVES(len > 20, 1);
	GIVES(vca_last_error(text, sizeof(text)), len);
	GIVES(strcmp(text, "nothing"), 0);
	GIVES(vca_last_error(one, 1), len);
	GIVES(*one, 0);
	GIVES(vca_last_error(one, 0), len);
	GIVES(strcmp(vca_strerror(-EBADF), "the handle is closed, or was not opened for this"), 0);
	GIVES(vca_strerror(-12345) == NULL, 0);
	free(one);
}

static void handles(const char *name)
{
	struct vca_frame frame = { 0 };
	struct vca_status status;
	struct vca_filter filter = { 0 };
	vca_t *closed, *wild[] = { NULL, NULL, (vca_t *)-1L, (vca_t *)&frame };

	GIVES(vca_open(name, 0, &closed), 0);
	GIVES(vca_close(closed), 0);
	wild[0] = closed;
	for (int i = 0; i < 4; i++) {
		int expected = wild[i] ? -EBADF : -EINVAL;

		GIVES(vca_send(wild[i], &frame, 1), expected);
		GIVES(vca_receive(wild[i], &frame, 1, 0), expected);
		GIVES(vca_wait(wild[i], VCA_RECEIVE, 0), expected);
		GIVES(vca_wake(wild[i]), expected);
		GIVES(vca_set_filters(wild[i], &filter, 1), expected);
		GIVES(vca_status(wild[i], &status), expected);
		GIVES(vca_close(wild[i]), expected);
	}
}

/* Every pointer of every function: null, and where the type has an alignment, not aligned. */
static void pointers(const char *name)
{
	/* Room behind, so that an unaligned access stays within it, and only its alignment is wrong. */
	char *room = calloc(2, sizeof(struct vca_status) + sizeof(struct vca_frame));
	vca_t *bus;

	GIVES(vca_open(name, 0, &bus), 0);
	for (int i = 0; i < 2; i++) {
		void *bad = i ? room + 1 : NULL;
		vca_t *none = NULL;

		GIVES(vca_open(name, 0, bad), -EINVAL);
		GIVES(vca_send(bus, bad, 1), -EINVAL);
		GIVES(vca_send(bus, bad, 0), 0);
		GIVES(vca_receive(bus, bad, 1, 0), -EINVAL);
		GIVES(vca_set_filters(bus, bad, 1), -EINVAL);
		GIVES(vca_set_filters(bus, bad, 0), i ? -EINVAL : 1);
		GIVES(vca_status(bus, bad), -EINVAL);
		/* A handle is a number: any address will do, and this one is no handle. */
		int expected = i ? -EBADF : -EINVAL;
		GIVES(vca_send(bad, (struct vca_frame *)room, 1), expected);
		GIVES(vca_receive(bad, (struct vca_frame *)room, 1, 0), expected);
		GIVES(vca_wait(bad, VCA_SEND, 0), expected);
		GIVES(vca_wake(bad), expected);
		GIVES(vca_set_filters(bad, NULL, 0), expected);
		GIVES(vca_status(bad, (struct vca_status *)room), expected);
		GIVES(vca_close(bad), expected);
		GIVES(vca_open(NULL, 0, &none), -EINVAL);
		GIVES(none == NULL, 1);
	}
	/* A text needs no alignment, and none is written without a place. */
	GIVES(vca_open(NULL, 0, NULL), -EINVAL);
	GIVES(vca_last_error(NULL, 100) > 0, 1);
	GIVES(vca_last_error(room + 1, 2) > 1, 1);
	GIVES(room[1] != 0 && room[2] == 0, 1);
	for (size_t i = 3; i < sizeof(struct vca_status); i++)
		GIVES(room[i], 0);
	GIVES(vca_close(bus), 0);
	free(room);
}

static void arguments(const char *name)
{
	/* On the heap, so that one byte too many is seen. */
	struct vca_frame *frame = calloc(1, sizeof(*frame));
	struct vca_filter *filter = calloc(1, sizeof(*filter));
	struct vca_status *status = calloc(1, sizeof(*status));
	struct vca_frame bad[] = {
		{ .id = 0x800 }, { .id = 0x20000000, .flags = VCA_EXTENDED }, { .reserved = 1 },
		{ .flags = VCA_BRS }, { .flags = VCA_FD | VCA_REMOTE }, { .flags = VCA_OWN },
	};
	struct vca_frame unfit[] = { { .len = 9 }, { .len = 255 }, { .len = 9, .flags = VCA_FD }, { .len = 65, .flags = VCA_FD } };
	vca_t *bus = (vca_t *)frame, *other;

	GIVES(vca_open(NULL, 0, &bus), -EINVAL);
	GIVES(bus == NULL, 1);
	GIVES(vca_open("can2udp:127.0.0.1:0", VCA_OPEN_OWN, &bus), -EOPNOTSUPP);
	GIVES(vca_open(name, 0, &bus), 0);
	GIVES(vca_open(name, 0, &other), 0);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		GIVES(vca_send(bus, &bad[i], 1), -EINVAL);
	for (unsigned i = 0; i < sizeof(unfit) / sizeof(unfit[0]); i++)
		GIVES(vca_send(bus, &unfit[i], 1), -EMSGSIZE);
	frame->flags = VCA_ERROR;
	GIVES(vca_send(bus, frame, 1), -EOPNOTSUPP);
	GIVES(vca_receive(bus, frame, 0, 0), -EINVAL);
	GIVES(vca_receive(bus, frame, 1, 0), 0);
	GIVES(vca_receive(bus, frame, 1, 1000000), 0);
	GIVES(vca_wait(bus, 0, 0), -EINVAL);
	GIVES(vca_wait(bus, VCA_RECEIVE | VCA_SEND, 0), -EINVAL);
	GIVES(vca_wait(bus, VCA_RECEIVE, 1000000), 0);
	GIVES(vca_wake(bus), -EOPNOTSUPP);
	GIVES(vca_set_filters(bus, filter, 1 << 20), -EINVAL);
	filter->mask = 1u << 29;
	GIVES(vca_set_filters(bus, filter, 1), -EINVAL);
	GIVES(vca_status(bus, status), 0);
	GIVES(status->bitrate == 0, 0);
	/* A good frame before a bad one is taken, and only that. */
	struct vca_frame two[] = { { .id = 5, .len = 1 }, { .len = 9 } };
	GIVES(vca_send(other, two, 2), 1);
	GIVES(vca_wait(bus, VCA_RECEIVE, 5000000000), VCA_RECEIVE);
	GIVES(vca_wait(bus, VCA_RECEIVE, 0), VCA_RECEIVE);
	GIVES(vca_receive(bus, frame, 1, 0), 1);
	GIVES(frame->id, 5);
	GIVES(vca_receive(bus, frame, 1, 0), 0);
	GIVES(vca_close(bus), 0);
	GIVES(vca_close(other), 0);
	GIVES(vca_open(name, VCA_SEND, &bus), 0);
	GIVES(vca_receive(bus, frame, 1, 0), -EBADF);
	GIVES(vca_close(bus), 0);
	GIVES(vca_open(name, VCA_RECEIVE, &bus), 0);
	GIVES(vca_send(bus, two, 1), -EBADF);
	GIVES(vca_close(bus), 0);
	free(frame);
	free(filter);
	free(status);
}

static void threads(const char *name)
{
	struct vca_frame frame = { 0 };
	pthread_t thread;
	vca_t *bus, *other;
	void *result;

	/* One sends while another receives. */
	GIVES(vca_open(name, 0, &bus), 0);
	GIVES(vca_open(name, 0, &other), 0);
	pthread_create(&thread, NULL, reads, bus);
	for (int i = 0; i < ROUNDS; i++) {
		struct vca_frame frame = { .id = i % 0x800, .len = i % 9 };
		int n;

		while (i - atomic_load(&seen) >= AHEAD)
			sched_yield();
		while ((n = vca_send(other, &frame, 1)) == -EAGAIN)
			vca_wait(other, VCA_SEND, 1000000000);
		GIVES(n, 1);
	}
	pthread_join(thread, &result);
	GIVES((long)result, ROUNDS);
	GIVES(vca_close(other), 0);
	GIVES(vca_close(bus), 0);

	/* A waiting thread is woken, and keeps the half to itself. */
	GIVES(vca_open(name, VCA_OPEN_WAKE, &bus), 0);
	GIVES(vca_wake(bus), 0);
	GIVES(vca_receive(bus, &frame, 1, -1), -ECANCELED);
	pthread_create(&thread, NULL, waits, bus);
	while (vca_receive(bus, &frame, 1, 0) != -EBUSY)
		;
	GIVES(vca_set_filters(bus, NULL, 0), -EBUSY);
	GIVES(vca_wake(bus), 0);
	pthread_join(thread, &result);
	GIVES((long)result, -ECANCELED);
	/* Closing ends it too. */
	pthread_create(&thread, NULL, waits, bus);
	while (vca_receive(bus, &frame, 1, 0) != -EBUSY)
		;
	GIVES(vca_close(bus), 0);
	pthread_join(thread, &result);
	GIVES((long)result, -EBADF);
}

/* A recording ends. A connection does not: it is made again when its peer is back. */
static void ends(void)
{
	const struct vca_frame frame = { .id = 0x123 };
	struct vca_frame frames[4];
	vca_t *bus, *peer;
	char log[] = "misuse-XXXXXX.log", name[64];
	FILE *file = fdopen(mkstemps(log, 4), "w");

	fputs("(1.0) can0 123#11\n(1.001) can0 124#22\n", file);
	fclose(file);
	snprintf(name, sizeof(name), "file:%s", log);
	GIVES(vca_open(name, VCA_RECEIVE, &bus), 0);
	for (int i = 0; i < 2; i++)
		GIVES(vca_receive(bus, frames, 1, 5000000000), 1);
	for (int i = 0; i < 2; i++) {
		GIVES(vca_receive(bus, frames, 4, 5000000000), -ENODATA);
		GIVES(vca_receive(bus, frames, 4, -1), -ENODATA);
		GIVES(vca_receive(bus, frames, 4, 0), -ENODATA);
		GIVES(vca_wait(bus, VCA_RECEIVE, -1), -ENODATA);
	}
	GIVES(vca_close(bus), 0);
	remove(log);

	/* An address that no other process has. */
	int pid = getpid();
	snprintf(name, sizeof(name), "cannelloni:tcp://127.%d.%d.%d?role=server", 100 + (pid >> 16 & 63), pid >> 8 & 255, pid & 255);
	GIVES(vca_open(name, VCA_RECEIVE, &bus), 0);
	*strchr(name, '?') = 0;
	for (int i = 0; i < 2; i++) {
		int n, tries = 0;

		GIVES(vca_open(name, VCA_SEND, &peer), 0);
		while (((n = vca_send(peer, &frame, 1)) == -ENETDOWN || n == -EAGAIN) && tries++ < 5000)
			GIVES(vca_receive(bus, frames, 4, 1000000), 0);
		GIVES(n, 1);
		GIVES(vca_receive(bus, frames, 4, 5000000000), 1);
		GIVES(vca_close(peer), 0);
		GIVES(vca_receive(bus, frames, 4, 10000000), 0);
		GIVES(vca_wait(bus, VCA_RECEIVE, 10000000), 0);
	}
	GIVES(vca_close(bus), 0);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	opening(argv[1]);
	texts();
	handles(argv[1]);
	pointers(argv[1]);
	arguments(argv[1]);
	threads(argv[1]);
	ends();
	puts(failures ? "failed" : "passed");
	return failures != 0;
}
