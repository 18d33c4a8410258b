// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tests of candor_can, as root in a guest in which the module is loaded.
 *
 *   candor_can_test virtual      sets how many virtual devices there are; needs no hardware
 *   candor_can_test pair A B     two controllers on one bus, such as candor0 candor1; the second is
 *                                removed at the end
 *
 * A line for each check that failed, and at the end "N passed, N failed".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "candor_can.h"
#include "check.h"

#define SIZE sizeof(struct candor_frame)
#define PARAMETERS "/sys/module/candor_can/parameters/"

static bool put_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close(fd);
	return ok;
}

static void sleep_ms(int ms)
{
	usleep(ms * 1000);
}

static unsigned long long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ULL + t.tv_nsec;
}

static int open_device(const char *name, int flags)
{
	char path[64];
	int fd, tries;

	snprintf(path, sizeof(path), "/dev/%s", name);
	/* devtmpfs makes the node a moment later. */
	for (tries = 0; tries < 100; tries++) {
		fd = open(path, flags);
		if (fd >= 0 || errno != ENOENT)
			break;
		sleep_ms(10);
	}
	if (fd < 0)
		printf("%s: errno %d\n", path, errno);
	return fd;
}

static struct candor_frame frame(unsigned int id, unsigned int len)
{
	struct candor_frame f = { .id = id, .len = len };
	unsigned int i;

	for (i = 0; i < len; i++)
		f.data[i] = id + i;
	return f;
}

static bool same(const struct candor_frame *a, const struct candor_frame *b)
{
	const unsigned int mask = CANDOR_EXTENDED | CANDOR_REMOTE | CANDOR_ERROR;

	return a->id == b->id && a->len == b->len && (a->flags & mask) == (b->flags & mask) &&
	       (a->flags & CANDOR_REMOTE || !memcmp(a->data, b->data, a->len));
}

static bool send_one(int fd, unsigned int id)
{
	struct candor_frame f = frame(id, 2);

	return write(fd, &f, SIZE) == SIZE;
}

/* How many there are at once. */
static int drain(int fd, struct candor_frame *to, int most)
{
	int flags = fcntl(fd, F_GETFL);
	ssize_t n;

	fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	n = read(fd, to, most * SIZE);
	fcntl(fd, F_SETFL, flags);
	return n < 0 ? 0 : n / (ssize_t)SIZE;
}

static struct candor_statistics statistics(int fd)
{
	struct candor_statistics s = {};

	CHECK(ioctl(fd, CANDOR_GET_STATISTICS, &s) == 0);
	return s;
}

/* A call in a thread of its own. */
struct call {
	pthread_t thread;
	int fd;
	char what;	/* 'r'ead, read 'u'ntil in 5 s, with a 'd'eadline in 0.1 s, 'w'rite, 'p'oll */
	int result, error;
	short events;
	volatile bool done;
	struct candor_frame frame;
};

static int read_until(int fd, struct candor_frame *to, unsigned int count, unsigned long long ns)
{
	struct candor_read arguments = {
		.until_ns = ns, .frames = (unsigned long)to, .count = count
	};

	return ioctl(fd, CANDOR_READ, &arguments);
}

static void *carry_out(void *data)
{
	struct call *call = data;
	struct pollfd p = { .fd = call->fd, .events = POLLIN };

	if (call->what == 'r')
		call->result = read(call->fd, &call->frame, SIZE);
	else if (call->what == 'u')
		call->result = read_until(call->fd, &call->frame, 1, now_ns() + 5000000000ULL);
	else if (call->what == 'd')
		call->result = read_until(call->fd, &call->frame, 1, now_ns() + 100000000);
	else if (call->what == 'w')
		call->result = write(call->fd, &call->frame, SIZE);
	else
		call->result = poll(&p, 1, 5000);
	call->error = errno;
	call->events = p.revents;
	call->done = true;
	return NULL;
}

static void begin_call(struct call *call, int fd, char what)
{
	*call = (struct call){ .fd = fd, .what = what, .frame = frame(0x77, 1) };
	pthread_create(&call->thread, NULL, carry_out, call);
}

static bool ends(struct call *call)
{
	int i;

	for (i = 0; i < 300 && !call->done; i++)
		sleep_ms(10);
	if (!call->done)
		return false;
	pthread_join(call->thread, NULL);
	return true;
}

static void exchange(void)
{
	int a = open_device("candor0", O_RDWR), b = open_device("candor0", O_RDWR);
	struct candor_frame f = frame(0x123, 8), many[64], got;
	unsigned long long before = now_ns();
	__u32 own = CANDOR_RECEIVE_OWN;
	struct candor_info info;
	int i;

	begin("exchange");
	CHECK(ioctl(a, CANDOR_GET_INFO, &info) == 0);
	CHECK(info.version == CANDOR_CAN_VERSION && info.frame_size == SIZE && info.index == 0);
	CHECK(info.kind == CANDOR_KIND_VIRTUAL && info.state == CANDOR_STATE_ACTIVE);
	CHECK(write(a, &f, SIZE) == SIZE);
	CHECK(read(b, &got, SIZE) == SIZE);
	CHECK(same(&f, &got) && got.flags == CANDOR_LOCAL);
	CHECK(got.time_ns >= before && got.time_ns <= now_ns());
	CHECK(drain(a, &got, 1) == 0);
	CHECK(ioctl(a, CANDOR_SET_OPTIONS, &own) == 0);
	f.flags = CANDOR_EXTENDED;
	f.id = 0x1abcdef0;
	CHECK(write(a, &f, SIZE) == SIZE);
	CHECK(drain(a, &got, 1) == 1 && same(&f, &got) && got.flags & CANDOR_OWN);
	CHECK(drain(b, &got, 1) == 1 && same(&f, &got) && !(got.flags & CANDOR_OWN));
	f.flags |= CANDOR_REMOTE;
	CHECK(write(a, &f, SIZE) == SIZE);
	CHECK(drain(b, &got, 1) == 1 && same(&f, &got) && got.data[0] == 0);
	for (i = 0; i < 40; i++)
		many[i] = frame(i, i % 9);
	CHECK(write(a, many, 40 * SIZE) == 40 * SIZE);
	memset(many, 0xee, sizeof(many));
	CHECK(read(b, many, 64 * SIZE) == 40 * SIZE);
	for (i = 0; i < 40; i++) {
		f = frame(i, i % 9);
		if (!CHECK(same(&f, &many[i])))
			break;
	}
	CHECK(many[7].data[7] == 0);
	own = CANDOR_NO_LOCAL;
	CHECK(ioctl(b, CANDOR_SET_OPTIONS, &own) == 0);
	CHECK(send_one(a, 1) && drain(b, &got, 1) == 0);
	close(a);
	close(b);
}

static void deadlines(void)
{
	int a = open_device("candor0", O_RDWR), b = open_device("candor0", O_RDWR | O_NONBLOCK);
	int writer = open_device("candor0", O_WRONLY);
	struct candor_read bad = { .until_ns = 0, .count = 1 };
	unsigned long long until;
	struct candor_frame got[4];
	struct call call, other;
	bool ended;
	int i;

	begin("deadlines");
	FAILS(read_until(b, got, 4, 0), EAGAIN);
	FAILS(read_until(b, got, 4, 1), ETIMEDOUT);
	for (i = 1; i <= 3; i++) {
		until = now_ns() + i * 3000000;
		FAILS(read_until(b, got, 4, until), ETIMEDOUT);
		CHECK(now_ns() >= until && now_ns() < until + 1000000000);
	}
	for (i = 0; i < 3; i++)
		send_one(a, i);
	CHECK(read_until(b, got, 2, CANDOR_FOR_EVER) == 2 && got[1].id == 1);
	CHECK(read_until(b, got, 4, 0) == 1 && got[0].id == 2);
	begin_call(&call, b, 'u');
	sleep_ms(20);
	send_one(a, 9);
	CHECK(ends(&call) && call.result == 1 && call.frame.id == 9);
	/* Also while another thread sleeps in read(). */
	fcntl(b, F_SETFL, 0);
	begin_call(&other, b, 'r');
	sleep_ms(20);
	begin_call(&call, b, 'd');
	ended = ends(&call);
	CHECK(ended && call.result == -1 && call.error == ETIMEDOUT && !other.done);
	send_one(a, 10);
	CHECK(ends(&other) && other.result == SIZE && other.frame.id == 10);
	if (!ended) {
		send_one(a, 11);
		ends(&call);
	}
	fcntl(b, F_SETFL, O_NONBLOCK);
	FAILS(read_until(writer, got, 1, 0), EBADF);
	FAILS(read_until(b, got, 0, 0), EINVAL);
	send_one(a, 1);
	FAILS(read_until(b, NULL, 1, 0), EFAULT);
	bad.reserved = 1;
	FAILS(ioctl(b, CANDOR_READ, &bad), EINVAL);
	FAILS(ioctl(b, CANDOR_READ, NULL), EFAULT);
	close(a);
	close(b);
	close(writer);
}

static void sizes(void)
{
	int a = open_device("candor0", O_RDWR), b = open_device("candor0", O_RDWR | O_NONBLOCK);
	struct candor_frame f[3] = { frame(1, 1), frame(2, 1), frame(3, 9) };
	size_t bad[] = { 0, 1, SIZE - 1, SIZE + 1, 2 * SIZE - 1 };
	void *volatile bad_address = (void *)8;
	unsigned int i;

	begin("sizes");
	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		FAILS(write(a, f, bad[i]), EINVAL);
		FAILS(read(b, f, bad[i]), EINVAL);
	}
	FAILS(read(b, f, SIZE), EAGAIN);
	CHECK(write(a, f, 3 * SIZE) == 2 * SIZE);
	FAILS(write(a, &f[2], SIZE), EINVAL);
	f[2] = frame(0x800, 0);
	FAILS(write(a, &f[2], SIZE), EINVAL);
	f[2] = (struct candor_frame){ .id = 0x20000000, .flags = CANDOR_EXTENDED };
	FAILS(write(a, &f[2], SIZE), EINVAL);
	f[2] = (struct candor_frame){ .reserved = 1 };
	FAILS(write(a, &f[2], SIZE), EINVAL);
	f[2] = (struct candor_frame){ .flags = CANDOR_LOCAL };
	FAILS(write(a, &f[2], SIZE), EINVAL);
	FAILS(write(a, bad_address, SIZE), EFAULT);
	FAILS(read(b, bad_address, SIZE), EFAULT);
	close(b);
	b = open_device("candor0", O_RDONLY);
	FAILS(write(b, f, SIZE), EBADF);
	close(a);
	close(b);
}

static void overflow(void)
{
	int a = open_device("candor0", O_RDWR), b = open_device("candor0", O_RDWR);
	struct candor_queue_setup setup = { 8, CANDOR_OVERWRITE_OLDEST };
	struct candor_frame got[80];
	int i, n;

	begin("overflow");
	for (i = 0; i < 70; i++)
		send_one(a, i);
	CHECK(statistics(b).handle_lost == 6 && statistics(b).handle_most == 64);
	n = drain(b, got, 80);
	CHECK(n == 64 && got[0].id == 0 && got[63].id == 63);
	CHECK(!(got[63].flags & CANDOR_OVERFLOW));
	send_one(a, 100);
	send_one(a, 101);
	CHECK(drain(b, got, 80) == 2 && got[0].id == 100);
	CHECK(got[0].flags & CANDOR_OVERFLOW && !(got[1].flags & CANDOR_OVERFLOW));
	CHECK(ioctl(b, CANDOR_SET_QUEUE, &setup) == 0);
	for (i = 0; i < 20; i++)
		send_one(a, i);
	CHECK(statistics(b).handle_lost == 6 + 12);
	n = drain(b, got, 80);
	CHECK(n == 8 && got[0].id == 12 && got[7].id == 19);
	CHECK(got[0].flags & CANDOR_OVERFLOW && !(got[1].flags & CANDOR_OVERFLOW));
	setup.slots = 1;
	CHECK(ioctl(b, CANDOR_SET_QUEUE, &setup) == 0);
	send_one(a, 1);
	send_one(a, 2);
	CHECK(drain(b, got, 80) == 1 && got[0].id == 2 && got[0].flags & CANDOR_OVERFLOW);
	setup.slots = CANDOR_SLOTS_MOST;
	CHECK(ioctl(b, CANDOR_SET_QUEUE, &setup) == 0);
	setup.slots++;
	FAILS(ioctl(b, CANDOR_SET_QUEUE, &setup), EINVAL);
	setup.slots = 0;
	FAILS(ioctl(b, CANDOR_SET_QUEUE, &setup), EINVAL);
	setup = (struct candor_queue_setup){ 8, 2 };
	FAILS(ioctl(b, CANDOR_SET_QUEUE, &setup), EINVAL);
	/* Each handle has its own. */
	CHECK(statistics(a).handle_lost == 0);
	close(a);
	close(b);
}

static void filters(void)
{
	int a = open_device("candor0", O_RDWR), b = open_device("candor0", O_RDWR);
	struct candor_filters list = { .count = 2, .errors = CANDOR_ERROR_OVERRUN };
	struct candor_frame f, got[80];

	begin("filters");
	list.filter[0] = (struct candor_filter){ 0x100, 0x7f0, 0, CANDOR_EXTENDED };
	list.filter[1] = (struct candor_filter){ 0x100, 0x1fffffff, CANDOR_EXTENDED,
						 CANDOR_EXTENDED | CANDOR_REMOTE };
	CHECK(ioctl(b, CANDOR_SET_FILTERS, &list) == 0);
	send_one(a, 0x10f);
	send_one(a, 0x110);
	f = frame(0x100, 0);
	f.flags = CANDOR_EXTENDED;
	CHECK(write(a, &f, SIZE) == SIZE);
	f.id = 0x101;
	CHECK(write(a, &f, SIZE) == SIZE);
	f.id = 0x100;
	f.flags |= CANDOR_REMOTE;
	CHECK(write(a, &f, SIZE) == SIZE);
	CHECK(drain(b, got, 80) == 2 && got[0].id == 0x10f && got[1].id == 0x100);
	f = (struct candor_frame){ .id = CANDOR_ERROR_BUS, .flags = CANDOR_ERROR };
	CHECK(write(a, &f, SIZE) == SIZE);
	f.id = CANDOR_ERROR_OVERRUN;
	CHECK(write(a, &f, SIZE) == SIZE);
	CHECK(drain(b, got, 80) == 1 && got[0].flags == CANDOR_ERROR &&
	      got[0].id == CANDOR_ERROR_OVERRUN && got[0].data[0] == CANDOR_STATE_ACTIVE);
	list.count = 0;
	CHECK(ioctl(b, CANDOR_SET_FILTERS, &list) == 0);
	send_one(a, 0x100);
	CHECK(drain(b, got, 80) == 0);
	list.count = CANDOR_FILTERS + 1;
	FAILS(ioctl(b, CANDOR_SET_FILTERS, &list), EINVAL);
	list.count = 1;
	list.filter[0].flags = 0x8000;
	FAILS(ioctl(b, CANDOR_SET_FILTERS, &list), EINVAL);
	close(a);
	close(b);
}

static void bus_off(void)
{
	int a = open_device("candor0", O_RDWR), b = open_device("candor0", O_RDWR);
	struct candor_frame f = { .id = CANDOR_ERROR_BUS_OFF, .flags = CANDOR_ERROR }, got;

	begin("bus_off");
	CHECK(write(a, &f, SIZE) == SIZE);
	CHECK(read(b, &got, SIZE) == SIZE && got.id == CANDOR_ERROR_BUS_OFF);
	CHECK(got.data[0] == CANDOR_STATE_BUS_OFF);
	f = frame(1, 1);
	FAILS(write(a, &f, SIZE), ENETDOWN);
	CHECK(statistics(a).state == CANDOR_STATE_BUS_OFF);
	CHECK(ioctl(a, CANDOR_START) == 0);
	CHECK(write(a, &f, SIZE) == SIZE);
	CHECK(ioctl(a, CANDOR_STOP) == 0);
	FAILS(write(a, &f, SIZE), ENETDOWN);
	CHECK(statistics(a).state == CANDOR_STATE_STOPPED);
	CHECK(ioctl(a, CANDOR_START) == 0);
	close(a);
	close(b);
}

static void priorities(void)
{
	int reader = open_device("candor0", O_RDWR), fd[3], i, p;
	static const unsigned int expected[] = { 0x200, 0x000, 0x001, 0x002, 0x100, 0x101,
						 0x102, 0x201, 0x202, 0x203 };
	struct candor_frame got;
	unsigned int n;

	begin("priorities");
	CHECK(put_text(PARAMETERS "paced", "Y"));
	for (i = 0; i < 3; i++) {
		__u32 priority = i;

		fd[i] = open_device("candor0", O_RDWR | O_NONBLOCK);
		CHECK(ioctl(fd[i], CANDOR_SET_PRIORITY, &priority) == 0);
	}
	/* 10 kbit/s: a frame takes 6 ms. */
	ioctl(reader, CANDOR_STOP);
	CHECK(ioctl(reader, CANDOR_SET_BITRATE, &(struct candor_bitrate){ .bitrate = 10000 }) == 0);
	CHECK(ioctl(reader, CANDOR_START) == 0);
	send_one(fd[2], 0x200);
	for (p = 2; p >= 0; p--) {
		for (i = 0; i < 3; i++)
			send_one(fd[p], (p << 8) + i + (p == 2));
	}
	for (n = 0; n < 10; n++) {
		if (!CHECK(read(reader, &got, SIZE) == SIZE && got.id == expected[n]))
			printf("  %u: %x\n", n, got.id);
	}
	for (i = 0; i < 3; i++)
		close(fd[i]);
	close(reader);
}

/* 65 frames are taken (one is being sent), then no more. */
static void full(void)
{
	int a = open_device("candor0", O_RDWR | O_NONBLOCK), i, taken = 0;
	struct pollfd p = { .fd = a, .events = POLLOUT };
	__u32 unsent = CANDOR_FLUSH_UNSENT;
	unsigned long long dropped;
	struct call call;
	struct candor_frame f = frame(5, 8);

	begin("full");
	ioctl(a, CANDOR_STOP);
	CHECK(ioctl(a, CANDOR_SET_BITRATE, &(struct candor_bitrate){ .bitrate = 10000 }) == 0);
	CHECK(ioctl(a, CANDOR_START) == 0);
	dropped = statistics(a).dropped;
	for (i = 0; i < 80; i++)
		taken += send_one(a, 1);
	CHECK(taken == 65);
	FAILS(write(a, &f, SIZE), EAGAIN);
	CHECK(poll(&p, 1, 0) == 0);
	CHECK(poll(&p, 1, 1000) == 1 && p.revents == POLLOUT);
	while (send_one(a, 1))
		;
	fcntl(a, F_SETFL, 0);
	begin_call(&call, a, 'w');
	CHECK(ends(&call) && call.result == SIZE);
	begin_call(&call, a, 'w');
	CHECK(ioctl(a, CANDOR_FLUSH, &unsent) == 0);
	CHECK(ends(&call) && call.result == SIZE);
	CHECK(statistics(a).dropped >= dropped + 50);
	/* A stop ends a write that waits. */
	fcntl(a, F_SETFL, O_NONBLOCK);
	while (send_one(a, 1))
		;
	ioctl(a, CANDOR_STOP);
	FAILS(write(a, &f, SIZE), ENETDOWN);
	CHECK(statistics(a).waiting == 0);
	CHECK(put_text(PARAMETERS "paced", "N"));
	CHECK(ioctl(a, CANDOR_SET_BITRATE, &(struct candor_bitrate){ .bitrate = 500000 }) == 0);
	CHECK(ioctl(a, CANDOR_START) == 0);
	sleep_ms(30);
	close(a);
}

/* A write that waits goes on at once when its priority becomes one whose queue has room. */
static void changes_priority(void)
{
	int a = open_device("candor0", O_RDWR), other = open_device("candor0", O_RDWR), i;
	const struct candor_bitrate slow = { .btr0 = 0x3f, .btr1 = 0x7f };
	__u32 priority, unsent = CANDOR_FLUSH_UNSENT;
	struct call call;
	bool soon = false;

	begin("changes_priority");
	CHECK(put_text(PARAMETERS "paced", "Y"));
	ioctl(a, CANDOR_STOP);
	/* 5 kbit/s: a frame of 8 bytes takes 22 ms. */
	CHECK(ioctl(a, CANDOR_SET_BITRATE, &slow) == 0 && ioctl(a, CANDOR_START) == 0);
	for (i = 0; i < 50 && !soon; i++) {
		struct candor_frame f = frame(5, 8);

		priority = 2;
		CHECK(ioctl(a, CANDOR_SET_PRIORITY, &priority) == 0);
		fcntl(a, F_SETFL, O_NONBLOCK);
		while (write(a, &f, SIZE) == SIZE)
			;
		fcntl(a, F_SETFL, 0);
		begin_call(&call, a, 'w');
		sleep_ms(5);
		priority = 0;
		CHECK(ioctl(a, CANDOR_SET_PRIORITY, &priority) == 0);
		while (!call.done)
			sched_yield();
		/* One is being sent, 64 have priority 2: otherwise it waits until one has been sent. */
		soon = statistics(other).waiting > 65;
		CHECK(ends(&call) && call.result == SIZE);
		CHECK(ioctl(a, CANDOR_FLUSH, &unsent) == 0);
	}
	CHECK(soon);
	ioctl(a, CANDOR_STOP);
	CHECK(put_text(PARAMETERS "paced", "N"));
	CHECK(ioctl(a, CANDOR_SET_BITRATE, &(struct candor_bitrate){ .bitrate = 500000 }) == 0);
	CHECK(ioctl(a, CANDOR_START) == 0);
	/* Until the work has seen it. */
	sleep_ms(50);
	close(a);
	close(other);
}

static void nothing(int number)
{
	(void)number;
}

static void waiting(void)
{
	int a = open_device("candor0", O_RDWR), b = open_device("candor0", O_RDWR), i;
	struct pollfd p = { .fd = b, .events = POLLIN };
	struct sigaction action = { .sa_handler = nothing };
	struct call one, two;
	struct candor_frame got;

	begin("waiting");
	CHECK(poll(&p, 1, 20) == 0);
	begin_call(&one, b, 'p');
	sleep_ms(50);
	CHECK(!one.done && send_one(a, 1));
	CHECK(ends(&one) && one.result == 1 && one.events == POLLIN);
	CHECK(drain(b, &got, 1) == 1);
	begin_call(&one, b, 'r');
	sleep_ms(50);
	CHECK(!one.done && send_one(a, 2));
	CHECK(ends(&one) && one.result == SIZE && one.frame.id == 2);
	/* Two threads, one handle: each gets one. */
	begin_call(&one, b, 'r');
	begin_call(&two, b, 'r');
	sleep_ms(50);
	CHECK(send_one(a, 3) && send_one(a, 4));
	CHECK(ends(&one) && ends(&two) && one.frame.id + two.frame.id == 7);
	/* A signal ends a read. */
	sigaction(SIGUSR1, &action, NULL);
	begin_call(&one, b, 'r');
	sleep_ms(50);
	pthread_kill(one.thread, SIGUSR1);
	CHECK(ends(&one) && one.result == -1 && one.error == EINTR);
	/* Nothing is lost between a sleeper that ends and a frame that comes. */
	for (i = 0; i < 500; i++) {
		begin_call(&one, b, i & 1 ? 'r' : 'p');
		if (i % 3)
			sched_yield();
		send_one(a, i);
		if (!CHECK(ends(&one)))
			break;
		if (!(i & 1))
			drain(b, &got, 1);
	}
	close(a);
	close(b);
}

/* A write to a device that never is full, and that would take a minute. */
static void killed(void)
{
	const size_t size = 20000000 * SIZE;
	void *frames = mmap(NULL, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int a = open_device("candor0", O_RDWR), i;
	unsigned long long before = statistics(a).sent;
	pid_t child;

	begin("killed");
	if (!CHECK(frames != MAP_FAILED))
		return;
	child = fork();
	if (child == 0)
		_exit(write(a, frames, size) < 0);
	while (statistics(a).sent == before)
		sched_yield();
	kill(child, SIGKILL);
	for (i = 0; i < 300 && !waitpid(child, NULL, WNOHANG); i++)
		sleep_ms(10);
	CHECK(i < 300);
	munmap(frames, size);
	close(a);
}

static void many_handles(void)
{
	int a = open_device("candor0", O_RDWR), fd[CANDOR_HANDLES_MOST], i, n;
	unsigned long long before, took, shortest = ~0ULL;
	struct candor_frame got[64];

	begin("many_handles");
	for (i = 0; i < 24; i++)
		fd[i] = open_device("candor0", O_RDONLY);
	CHECK(statistics(a).handles == 25);
	for (n = 0; n < 50; n++)
		send_one(a, n);
	for (i = 0; i < 24; i++) {
		CHECK(drain(fd[i], got, 64) == 50 && got[0].id == 0 && got[49].id == 49);
		close(fd[i]);
	}
	CHECK(statistics(a).handles == 1);
	/* No more than the bound; one that is closed makes room. */
	for (i = 0; i < CANDOR_HANDLES_MOST; i++) {
		fd[i] = open("/dev/candor0", O_RDONLY);
		if (fd[i] < 0)
			break;
	}
	CHECK(i == CANDOR_HANDLES_MOST - 1 && errno == EBUSY);
	CHECK(statistics(a).handles == CANDOR_HANDLES_MOST);
	for (n = 0; n < 100; n++) {
		before = now_ns();
		send_one(a, n);
		took = now_ns() - before;
		shortest = MIN(shortest, took);
	}
	printf("a write to %d handles takes %llu us\n", i, shortest / 1000);
	close(fd[--i]);
	fd[i] = open("/dev/candor0", O_RDONLY);
	CHECK(fd[i++] >= 0);
	while (i > 0)
		close(fd[--i]);
	CHECK(statistics(a).handles == 1);
	close(a);
}

static void commands(void)
{
	int a = open_device("candor0", O_RDWR), b = open_device("candor0", O_RDONLY);
	static const unsigned int rates[] = { 10000, 20000, 50000, 100000, 125000,
					      250000, 500000, 800000, 1000000 };
	struct candor_bitrate rate = { .bitrate = 500000 }, got;
	__u32 word = 3;
	unsigned int i;

	begin("commands");
	FAILS(ioctl(a, _IO(CANDOR_MAGIC, 99)), ENOTTY);
	FAILS(ioctl(a, _IOW(CANDOR_MAGIC, 3, char[4096])), ENOTTY);
	FAILS(ioctl(a, _IOW(CANDOR_MAGIC, 3, __u32), &word), ENOTTY);
	FAILS(ioctl(a, 0x5401, &word), ENOTTY);
	FAILS(ioctl(a, CANDOR_GET_INFO, (void *)8), EFAULT);
	FAILS(ioctl(a, CANDOR_SET_FILTERS, (void *)8), EFAULT);
	FAILS(ioctl(a, CANDOR_SET_PRIORITY, &word), EINVAL);
	word = 4;
	FAILS(ioctl(a, CANDOR_SET_OPTIONS, &word), EINVAL);
	FAILS(ioctl(a, CANDOR_FLUSH, &word), EINVAL);
	word = 8;
	FAILS(ioctl(a, CANDOR_SET_MODE, &word), EINVAL);
	FAILS(ioctl(b, CANDOR_START), EBADF);
	FAILS(ioctl(b, CANDOR_STOP), EBADF);
	FAILS(ioctl(b, CANDOR_SET_BITRATE, &rate), EBADF);
	word = CANDOR_FLUSH_UNSENT;
	FAILS(ioctl(b, CANDOR_FLUSH, &word), EBADF);
	FAILS(ioctl(a, CANDOR_SET_BITRATE, &rate), EBUSY);
	CHECK(ioctl(a, CANDOR_STOP) == 0);
	for (i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		rate = (struct candor_bitrate){ .bitrate = rates[i] };
		CHECK(ioctl(a, CANDOR_SET_BITRATE, &rate) == 0);
		CHECK(ioctl(a, CANDOR_GET_BITRATE, &got) == 0 && got.bitrate == rates[i]);
		/* The registers say the same. */
		rate = (struct candor_bitrate){ .btr0 = got.btr0, .btr1 = got.btr1 };
		CHECK(ioctl(a, CANDOR_SET_BITRATE, &rate) == 0);
		CHECK(ioctl(a, CANDOR_GET_BITRATE, &got) == 0 && got.bitrate == rates[i]);
	}
	rate = (struct candor_bitrate){ .bitrate = 123456 };
	FAILS(ioctl(a, CANDOR_SET_BITRATE, &rate), EINVAL);
	rate = (struct candor_bitrate){ .btr1 = 0x01 };
	FAILS(ioctl(a, CANDOR_SET_BITRATE, &rate), EINVAL);
	word = CANDOR_MODE_LISTEN_ONLY;
	CHECK(ioctl(a, CANDOR_SET_MODE, &word) == 0 && ioctl(a, CANDOR_START) == 0);
	FAILS(write(a, &(struct candor_frame){ .id = 1 }, SIZE), EROFS);
	word = 0;
	CHECK(ioctl(a, CANDOR_SET_MODE, &word) == 0 && ioctl(a, CANDOR_START) == 0);
	CHECK(send_one(a, 1));
	close(a);
	close(b);
}

static void all_fail(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN | POLLOUT };
	struct candor_frame f = frame(1, 1);
	struct candor_statistics s;
	struct candor_queue_setup setup = { 8, 0 };
	__u32 word = 0;

	FAILS(read(fd, &f, SIZE), ENODEV);
	FAILS(write(fd, &f, SIZE), ENODEV);
	FAILS(ioctl(fd, CANDOR_GET_STATISTICS, &s), ENODEV);
	FAILS(ioctl(fd, CANDOR_START), ENODEV);
	FAILS(ioctl(fd, CANDOR_SET_QUEUE, &setup), ENODEV);
	FAILS(ioctl(fd, CANDOR_SET_OPTIONS, &word), ENODEV);
	CHECK(poll(&p, 1, 0) == 1 && p.revents == (POLLERR | POLLHUP));
}

static void removal(void)
{
	int a = open_device("candor1", O_RDWR), b = open_device("candor1", O_RDWR);
	int c = open_device("candor1", O_RDWR), d;
	struct call reading, second, writing, polling;

	begin("removal");
	CHECK(put_text(PARAMETERS "paced", "Y"));
	ioctl(a, CANDOR_STOP);
	ioctl(a, CANDOR_SET_BITRATE, &(struct candor_bitrate){ .bitrate = 10000 });
	CHECK(ioctl(a, CANDOR_START) == 0);
	/* A reader's filters take nothing, so it waits. */
	ioctl(b, CANDOR_SET_FILTERS, &(struct candor_filters){ .count = 0 });
	ioctl(c, CANDOR_SET_FILTERS, &(struct candor_filters){ .count = 0 });
	fcntl(a, F_SETFL, O_NONBLOCK);
	while (send_one(a, 1))
		;
	fcntl(a, F_SETFL, 0);
	begin_call(&reading, b, 'r');
	begin_call(&second, b, 'u');
	begin_call(&polling, c, 'p');
	/* May get through once or twice before. */
	begin_call(&writing, a, 'w');
	CHECK(put_text(PARAMETERS "virtual", "1"));
	CHECK(ends(&reading) && reading.result == -1 && reading.error == ENODEV);
	CHECK(ends(&second) && second.result == -1 && second.error == ENODEV);
	CHECK(ends(&writing) && (writing.result == SIZE || writing.error == ENODEV));
	CHECK(ends(&polling) && polling.result == 1 && polling.events == (POLLERR | POLLHUP));
	all_fail(a);
	all_fail(b);
	all_fail(c);
	CHECK(put_text(PARAMETERS "paced", "N"));
	CHECK(put_text(PARAMETERS "virtual", "2"));
	d = open_device("candor1", O_RDWR);
	CHECK(send_one(d, 1));
	FAILS(read(a, &reading.frame, SIZE), ENODEV);
	close(a);
	close(b);
	close(c);
	close(d);
}

static volatile bool stop;

static void *garbage(void *data)
{
	unsigned int seed = (unsigned int)(unsigned long)data;
	unsigned char bytes[4096];
	int fd = -1;

	while (!stop) {
		unsigned int i, size = rand_r(&seed) % (rand_r(&seed) % 4 ? 8 * SIZE : 4096);
		unsigned int command = rand_r(&seed) % 13;
		static const unsigned int known[] = {
			CANDOR_GET_INFO, CANDOR_GET_STATISTICS, CANDOR_GET_BITRATE,
			CANDOR_SET_BITRATE, CANDOR_SET_MODE, CANDOR_START, CANDOR_STOP,
			CANDOR_SET_FILTERS, CANDOR_SET_QUEUE, CANDOR_SET_PRIORITY,
			CANDOR_SET_OPTIONS, CANDOR_FLUSH,
		};

		if (fd < 0) {
			fd = open("/dev/candor1", O_RDWR | O_NONBLOCK);
			if (fd < 0) {
				usleep(200);
				continue;
			}
		}
		for (i = 0; i < sizeof(bytes); i += 4) {
			unsigned int word = rand_r(&seed) & rand_r(&seed) & rand_r(&seed);

			word &= rand_r(&seed) % 3 ? 0xffU : ~0U;
			memcpy(bytes + i, &word, 4);
		}
		switch (rand_r(&seed) % 5) {
		case 0:
			i = write(fd, bytes, size);
			break;
		case 1:
			i = write(fd, bytes, size / SIZE * SIZE);
			break;
		case 2:
			i = read(fd, bytes, rand_r(&seed) % 2 ? size : size / SIZE * SIZE);
			break;
		case 3:
			if (command < 12)
				ioctl(fd, known[command], bytes);
			else
				ioctl(fd, rand_r(&seed), bytes);
			break;
		case 4:
			poll(&(struct pollfd){ .fd = fd, .events = POLLIN | POLLOUT }, 1, 0);
			break;
		}
		if (rand_r(&seed) % 50 == 0) {
			close(fd);
			fd = -1;
		}
	}
	close(fd);
	return NULL;
}

static void garbage_while_removed(void)
{
	pthread_t threads[8];
	unsigned long i;
	int fd;

	begin("garbage_while_removed");
	stop = false;
	for (i = 0; i < 8; i++)
		pthread_create(&threads[i], NULL, garbage, (void *)(i + 1));
	for (i = 0; i < 60; i++) {
		put_text(PARAMETERS "paced", i & 4 ? "Y" : "N");
		CHECK(put_text(PARAMETERS "virtual", i & 1 ? "2" : "1"));
		sleep_ms(20);
	}
	stop = true;
	for (i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
	put_text(PARAMETERS "paced", "N");
	CHECK(put_text(PARAMETERS "virtual", "1"));
	CHECK(put_text(PARAMETERS "virtual", "2"));
	fd = open_device("candor1", O_RDWR);
	CHECK(send_one(fd, 1));
	close(fd);
}

static void virtual_devices(void)
{
	test = "virtual";
	CHECK(put_text(PARAMETERS "virtual", "2"));
	exchange();
	deadlines();
	sizes();
	overflow();
	filters();
	bus_off();
	commands();
	priorities();
	full();
	changes_priority();
	waiting();
	killed();
	many_handles();
	removal();
	garbage_while_removed();
	begin("end");
	CHECK(put_text(PARAMETERS "virtual", "0"));
}

/* What is sent by one controller comes to both handles of the other. */
static void cross(int from, int to, int also)
{
	struct candor_frame sent[64], got[64];
	int i, n, k;

	for (k = 0; k < 50; k++) {
		/* QEMU's frames take no time: more than the FIFO of 64 bytes holds may be lost. */
		int count = 1 + k % 4;

		for (i = 0; i < count; i++) {
			sent[i] = frame(k * 8 + i, (k + i) % 9);
			if (i & 1) {
				sent[i].flags |= CANDOR_EXTENDED;
				sent[i].id |= 0x15a5a000;
			}
			/* QEMU's FIFO counts the data of remote frames only once. */
			if (sent[i].len == 0 && k & 1)
				sent[i].flags |= CANDOR_REMOTE;
		}
		if (!CHECK(write(from, sent, count * SIZE) == (ssize_t)(count * SIZE)))
			return;
		for (n = 0; n < count; ) {
			ssize_t size = read(to, got, (count - n) * SIZE);

			if (!CHECK(size > 0))
				return;
			for (i = 0; i < size / (ssize_t)SIZE; i++) {
				if (!CHECK(same(&sent[n + i], &got[i]) && !got[i].reserved))
					return;
			}
			n += size / SIZE;
		}
		for (n = 0; n < count; n++) {
			if (!CHECK(read(also, got, SIZE) == SIZE && same(&sent[n], got)))
				return;
		}
	}
}

/* All frames arrive, or the reader is told that the controller lost some. */
static void burst(int from, int to)
{
	struct candor_frame frames[64], got[64];
	unsigned int told = 0, arrived = 0, k;
	struct candor_statistics before = statistics(to), after;
	unsigned long long lost;
	int i, n;

	for (i = 0; i < 64; i++)
		frames[i] = frame(i, 8);
	for (k = 0; k < 8; k++) {
		CHECK(write(from, frames, sizeof(frames)) == sizeof(frames));
		for (sleep_ms(50); (n = drain(to, got, 64)); sleep_ms(5)) {
			for (i = 0; i < n; i++) {
				if (!(got[i].flags & CANDOR_ERROR))
					arrived++;
				else if (CHECK(got[i].id == CANDOR_ERROR_OVERRUN))
					told++;
			}
		}
	}
	after = statistics(to);
	printf("bursts: %u of %u frames, %u overruns told\n", arrived, 64 * k, told);
	lost = after.handle_lost - before.handle_lost;
	CHECK(arrived == after.received - before.received - lost);
	CHECK(told == after.overruns - before.overruns || lost);
	CHECK(arrived == 64 * k || told || lost);
}

/* Sends until `stop`. */
static void *flood(void *data)
{
	struct candor_frame frames[16];
	int fd = *(int *)data, i;

	for (i = 0; i < 16; i++)
		frames[i] = frame(0x100 + i, 1);
	while (!stop) {
		if (!CHECK(write(fd, frames, sizeof(frames)) == sizeof(frames)))
			break;
	}
	return NULL;
}

/* The interrupt of a device, by its name in /proc/interrupts; 0: it has none. */
static unsigned int interrupt_of(const char *name)
{
	char line[512], *end;
	unsigned int irq = 0;
	FILE *f = fopen("/proc/interrupts", "r");

	while (f && !irq && fgets(line, sizeof(line), f)) {
		if (strstr(line, name))
			irq = strtoul(line, &end, 10);
	}
	if (f)
		fclose(f);
	return irq;
}

/* Interrupts that nobody cared for. The kernel turns a line off when that are 99,900 of 100,000. */
static unsigned long unhandled(unsigned int irq)
{
	unsigned long count = 0, n = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/irq/%u/spurious", irq);
	f = fopen(path, "r");
	CHECK(f && fscanf(f, "count %lu unhandled %lu", &count, &n) == 2);
	if (f)
		fclose(f);
	return n;
}

/* Frames arrive when the receiver is stopped: its interrupt line is not held. */
static void stops_in_flood(int from, int to, int also, const char *name)
{
	const unsigned int irq = interrupt_of(name), rounds = 30;
	struct candor_frame got[64];
	unsigned long before, after, most = 0;
	pthread_t thread;
	unsigned int i;

	begin("stops_in_flood");
	if (!CHECK(irq))
		return;
	stop = false;
	pthread_create(&thread, NULL, flood, &from);
	for (i = 0; i < rounds; i++) {
		/* Not before the flood is there. */
		if (!CHECK(read_until(to, got, 64, now_ns() + 5000000000ULL) > 0))
			break;
		CHECK(ioctl(to, CANDOR_STOP) == 0);
		before = unhandled(irq);
		sleep_ms(10);
		after = unhandled(irq);
		/* The kernel counts from 0 again after 100,000 interrupts. */
		most = MAX(most, after < before ? after : after - before);
		while (drain(to, got, 64))
			;
		CHECK(ioctl(to, CANDOR_START) == 0);
	}
	stop = true;
	pthread_join(thread, NULL);
	printf("%u stops: at most %lu interrupts that nobody cared for\n", i, most);
	CHECK(most < 10);
	while (statistics(from).waiting)
		sleep_ms(1);
	for (sleep_ms(50); drain(to, got, 64) || drain(also, got, 64); sleep_ms(5))
		;
	CHECK(send_one(from, 9) && read(to, got, SIZE) == SIZE && got->id == 9);
}

/* Whether the registers of a controller are there for the processor: bit 0 of the PCI command register. */
static void decode(const char *name, bool on)
{
	unsigned short command = 0;
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/sys/class/misc/%s/device/config", name);
	fd = open(path, O_RDWR);
	CHECK(pread(fd, &command, 2, 4) == 2);
	command = on ? command | 1 : command & ~1;
	CHECK(pwrite(fd, &command, 2, 4) == 2);
	close(fd);
}

static void interrupt_on_first_processor(unsigned int irq)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/irq/%u/smp_affinity", irq);
	CHECK(put_text(path, "1"));
}

static void on_processor(int number)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(number, &one);
	CHECK(sched_setaffinity(0, sizeof(one), &one) == 0);
}

/*
 * A controller that does not obey cannot be started, and its handler does nothing then. This one
 * goes on receiving when its registers are back, which a stop ends.
 */
static void fails_to_start(int from, int to, const char *name)
{
	struct candor_frame got[64];
	cpu_set_t all;

	begin("fails_to_start");
	CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
	/* See below. */
	if (CPU_COUNT(&all) == 1) {
		puts("not tested: it needs two processors");
		return;
	}
	decode(name, false);
	FAILS(ioctl(to, CANDOR_START), EIO);
	decode(name, true);
	/*
	 * Until the stop the interrupt is held, and the kernel turns it off after 100,000 of them. Its
	 * thread has a priority: on the same processor it would keep the stop waiting for a second.
	 */
	interrupt_on_first_processor(interrupt_of(name));
	on_processor(CPU_COUNT(&all) - 1);
	CHECK(send_one(from, 8));
	sleep_ms(2);
	CHECK(ioctl(to, CANDOR_STOP) == 0);
	CHECK(sched_setaffinity(0, sizeof(all), &all) == 0);
	CHECK(drain(to, got, 64) == 0);
	CHECK(ioctl(to, CANDOR_START) == 0);
	/* What QEMU's FIFO kept over the reset does not come. */
	CHECK(send_one(from, 7) && read(to, got, SIZE) == SIZE && got->id == 7);
}

/*
 * Whether a timer comes between two frames of one call of the handler, which counts its interrupts
 * at its end. With handler=thread it does, with handler=hard never. Only PREEMPT_RT runs at once
 * whom the timer wakes.
 */
static void lets_in(int from, int to, const char *name)
{
	const bool realtime = access("/sys/kernel/realtime", F_OK) == 0;
	const struct timespec pause = { .tv_nsec = 10000 };
	struct sched_param highest = { .sched_priority = 99 }, usual = {};
	struct candor_statistics last, now;
	char handler[16] = "";
	struct candor_frame got[64];
	bool seen = false, threaded;
	unsigned long long until;
	cpu_set_t all;
	pthread_t thread;
	FILE *f = fopen(PARAMETERS "handler", "r");

	begin("lets_in");
	CHECK(f && fscanf(f, "%15s", handler) == 1);
	if (f)
		fclose(f);
	threaded = realtime && !strcmp(handler, "thread");
	if (!threaded && strcmp(handler, "hard"))
		return;
	stop = false;
	pthread_create(&thread, NULL, flood, &from);
	CHECK(sched_getaffinity(0, sizeof(all), &all) == 0);
	interrupt_on_first_processor(interrupt_of(name));
	on_processor(0);
	CHECK(sched_setscheduler(0, SCHED_FIFO, &highest) == 0);
	CHECK(ioctl(to, CANDOR_GET_STATISTICS, &last) == 0);
	until = now_ns() + (threaded ? 20000000000ULL : 500000000);
	while (!seen && now_ns() < until) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
		ioctl(to, CANDOR_GET_STATISTICS, &now);
		seen = now.interrupts == last.interrupts && now.received > last.received;
		last = now;
	}
	stop = true;
	CHECK(sched_setscheduler(0, SCHED_OTHER, &usual) == 0);
	CHECK(sched_setaffinity(0, sizeof(all), &all) == 0);
	CHECK(seen == threaded);
	pthread_join(thread, NULL);
	while (statistics(from).waiting)
		sleep_ms(1);
	for (sleep_ms(50); drain(to, got, 64); sleep_ms(5))
		;
}

static void pair(const char *first, const char *second)
{
	int a = open_device(first, O_RDWR), b = open_device(second, O_RDWR);
	int also = open_device(second, O_RDWR), confirm = open_device(first, O_RDWR);
	struct candor_bitrate rate = { .bitrate = 1000000 };
	struct candor_frame f = frame(1, 1), got[64];
	struct candor_statistics s;
	unsigned long long before;
	ssize_t n;
	char path[128];
	struct call reading, polling;

	begin("pair");
	FAILS(write(a, &f, SIZE), ENETDOWN);
	FAILS(ioctl(a, CANDOR_START), ENODATA);
	CHECK(ioctl(a, CANDOR_SET_BITRATE, &rate) == 0 && ioctl(a, CANDOR_START) == 0);
	CHECK(ioctl(b, CANDOR_SET_BITRATE, &rate) == 0 && ioctl(b, CANDOR_START) == 0);
	before = now_ns();
	CHECK(write(a, &f, SIZE) == SIZE);
	CHECK(read(b, got, SIZE) == SIZE && same(&f, got) && got->flags == 0);
	CHECK(got->time_ns >= before && got->time_ns <= now_ns());
	CHECK(read(also, got, SIZE) == SIZE && same(&f, got));
	/* Who else has the sender's device open learns that it has been sent. */
	CHECK(read(confirm, got, SIZE) == SIZE && same(&f, got) && got->flags == CANDOR_LOCAL);
	cross(a, b, also);
	/* The other has a frame before the sender's handler knows that it has been sent. */
	while (statistics(a).waiting)
		sleep_ms(1);
	while (drain(a, got, 64) || drain(confirm, got, 64))
		;
	cross(b, a, confirm);
	s = statistics(a);
	CHECK(s.sent == s.received + 1 && s.dropped == 0 && s.state == CANDOR_STATE_ACTIVE);
	CHECK(s.interrupts > 0 && s.overruns == 0);
	printf("%s: %llu interrupts, longest %llu ns, most %u frames, %llu storms\n", first,
	       (unsigned long long)s.interrupts, (unsigned long long)s.longest_ns, s.most_frames,
	       (unsigned long long)s.storms);
	burst(a, b);
	while (drain(also, got, 64))
		;
	CHECK(ioctl(b, CANDOR_STOP) == 0);
	while (drain(b, got, 64))
		;
	CHECK(ioctl(b, CANDOR_START) == 0);
	CHECK(send_one(a, 9) && read(b, got, SIZE) == SIZE && got->id == 9);

	stops_in_flood(a, b, also, second);
	lets_in(a, b, second);
	fails_to_start(a, b, second);
	while (drain(also, got, 64))
		;
	CHECK(send_one(a, 9) && read(b, got, SIZE) == SIZE && got->id == 9);

	begin("pair: removal");
	begin_call(&reading, b, 'r');
	/* The last frame comes to one handle after the other: whoever reads b may be sooner than also has it. */
	do
		n = read(also, got, SIZE);
	while (n == SIZE && got->id != 9);
	CHECK(n == SIZE);
	begin_call(&polling, also, 'p');
	sleep_ms(50);
	CHECK(!reading.done && !polling.done);
	snprintf(path, sizeof(path), "/sys/class/misc/%s/device/remove", second);
	CHECK(put_text(path, "1"));
	CHECK(ends(&reading) && reading.result == -1 && reading.error == ENODEV);
	CHECK(ends(&polling) && polling.result == 1 && polling.events == (POLLERR | POLLHUP));
	all_fail(b);
	all_fail(also);
	/* The other goes on. */
	CHECK(ioctl(a, CANDOR_STOP) == 0 && ioctl(a, CANDOR_START) == 0);
	CHECK(send_one(a, 1));
	CHECK(read(confirm, got, SIZE) == SIZE);
	close(a);
	close(b);
	close(also);
	close(confirm);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "virtual")) {
		virtual_devices();
	} else if (argc == 4 && !strcmp(argv[1], "pair")) {
		pair(argv[2], argv[3]);
	} else {
		fprintf(stderr, "usage: candor_can_test virtual | pair A B\n");
		return 2;
	}
	printf("%u passed, %u failed\n", passed, failed);
	return failed != 0;
}
