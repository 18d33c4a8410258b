// SPDX-License-Identifier: GPL-2.0-only
/*
 * gateway_test IMAGE: tests of /dev/candor_gateway on virtual devices, as root in a guest in which the module is loaded. IMAGE is
 * image.rules.toml of this folder, compiled. GATEWAY_MUTATIONS: how many damaged images it gives to the kernel, of that image or of
 * GATEWAY_MUTATED; GATEWAY_SEED: which ones.
 *
 * gateway_test CARDS cards: the same of /dev/candor0 and /dev/candor1, two controllers on one bus. CARDS is cards.rules.toml.
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
#include <sys/wait.h>
#include <unistd.h>
#include "candor_can.h"
#include "check.h"
#include "mutate.h"

#define SIZE sizeof(struct candor_frame)
#define VIRTUAL "/sys/module/candor_can/parameters/virtual"
#define DEVICES 3
#define JOBS 10
/* The job of rule "everything", from the first device to the third. */
#define EVERYTHING 2
#define SOME 100
#define TURNS 20
#define MUTATIONS 20000
/* One of so many images that are taken is used, with so many frames. */
#define USED 64

static unsigned char *image;
static size_t length;

static void set_virtual(const char *count)
{
	int fd = open(VIRTUAL, O_WRONLY);

	CHECK(write(fd, count, strlen(count)) == (ssize_t)strlen(count));
	close(fd);
}

/* devtmpfs makes a node a moment later. */
static int open_file(const char *path)
{
	int fd, tries;

	for (tries = 0; tries < 100; tries++) {
		fd = open(path, O_RDWR | O_NONBLOCK);
		if (fd >= 0 || errno != ENOENT)
			return fd;
		usleep(10000);
	}
	return fd;
}

static int open_device(int number)
{
	char path[32];

	snprintf(path, sizeof(path), "/dev/candor%d", number);
	return open_file(path);
}

static struct candor_gateway_image argument_for(const void *bytes, size_t size, int *devices)
{
	return (struct candor_gateway_image){
		.image = (unsigned long)bytes,
		.length = size,
		.devices = (unsigned long)devices,
		.buses = DEVICES,
	};
}

static int devices[DEVICES] = { 0, 1, 2 };

static bool load(int gateway)
{
	struct candor_gateway_image argument = argument_for(image, length, devices);

	return ioctl(gateway, CANDOR_GATEWAY_PREPARE, &argument) == 0 && argument.steps > 0 &&
	       ioctl(gateway, CANDOR_GATEWAY_COMMIT) == 0;
}

static struct candor_gateway_bus buses[DEVICES];

/* Of the jobs, and of the buses. */
static struct candor_gateway_counts counts(int gateway, struct candor_gateway_job jobs[JOBS],
					   bool earlier)
{
	struct candor_gateway_counts argument = {
		.jobs = (unsigned long)jobs,
		.buses = (unsigned long)buses,
		.job_count = JOBS,
		.bus_count = DEVICES,
		.job_size = sizeof(jobs[0]),
		.bus_size = sizeof(buses[0]),
		.earlier = earlier,
	};

	CHECK(ioctl(gateway, CANDOR_GATEWAY_COUNTS, &argument) == 0);
	CHECK(argument.job_count == JOBS && argument.bus_count == DEVICES);
	return argument;
}

static bool send_one(int fd, unsigned int id)
{
	struct candor_frame frame = { .id = id, .len = 2 };

	return write(fd, &frame, SIZE) == SIZE;
}

static int drain(int fd, struct candor_frame *to, int most)
{
	ssize_t n = read(fd, to, most * SIZE);

	return n < 0 ? 0 : n / (ssize_t)SIZE;
}

/* What it does not take, and that one has it at a time. */
static void refuses(int gateway)
{
	int twice[DEVICES] = { 0, 1, 0 }, missing[DEVICES] = { 0, 1, 99 }, none[DEVICES] = { 0, -1, 2 };
	struct candor_gateway_image argument;
	struct candor_gateway_counts empty = { .job_size = sizeof(struct candor_gateway_job),
					       .bus_size = sizeof(struct candor_gateway_bus) };
	unsigned char *damaged = malloc(length);

	begin("refuses");
	FAILS(open("/dev/candor_gateway", O_RDWR), EBUSY);
	FAILS(ioctl(gateway, CANDOR_GATEWAY_COMMIT), ENODATA);
	FAILS(ioctl(gateway, CANDOR_GATEWAY_COUNTS, &empty), ENODATA);
	empty.job_size--;
	FAILS(ioctl(gateway, CANDOR_GATEWAY_COUNTS, &empty), EINVAL);
	FAILS(ioctl(gateway, CANDOR_START), ENOTTY);
	memcpy(damaged, image, length);
	damaged[length / 2] ^= 1;
	argument = argument_for(damaged, length, devices);
	FAILS(ioctl(gateway, CANDOR_GATEWAY_PREPARE, &argument), EINVAL);
	CHECK(strstr(argument.reason, "damaged"));
	argument = argument_for(image, length - 8, devices);
	FAILS(ioctl(gateway, CANDOR_GATEWAY_PREPARE, &argument), EINVAL);
	argument = argument_for(image, 0, devices);
	FAILS(ioctl(gateway, CANDOR_GATEWAY_PREPARE, &argument), E2BIG);
	argument = argument_for(image, CANDOR_IMAGE_MOST + 1, devices);
	FAILS(ioctl(gateway, CANDOR_GATEWAY_PREPARE, &argument), E2BIG);
	argument = argument_for(NULL, length, devices);
	FAILS(ioctl(gateway, CANDOR_GATEWAY_PREPARE, &argument), EFAULT);
	argument = argument_for(image, length, NULL);
	FAILS(ioctl(gateway, CANDOR_GATEWAY_PREPARE, &argument), EFAULT);
	argument = argument_for(image, length, twice);
	FAILS(ioctl(gateway, CANDOR_GATEWAY_PREPARE, &argument), EINVAL);
	CHECK(strstr(argument.reason, "one device"));
	argument = argument_for(image, length, missing);
	FAILS(ioctl(gateway, CANDOR_GATEWAY_PREPARE, &argument), ENODEV);
	CHECK(argument.record == 2);
	/* A copy goes there. */
	argument = argument_for(image, length, none);
	FAILS(ioctl(gateway, CANDOR_GATEWAY_PREPARE, &argument), ENODEV);
	CHECK(argument.record == 1);
	argument = argument_for(image, length, devices);
	argument.buses = 2;
	FAILS(ioctl(gateway, CANDOR_GATEWAY_PREPARE, &argument), EINVAL);
	/* What is abandoned cannot be committed. */
	argument = argument_for(image, length, devices);
	CHECK(ioctl(gateway, CANDOR_GATEWAY_PREPARE, &argument) == 0);
	CHECK(ioctl(gateway, CANDOR_GATEWAY_ABANDON) == 0);
	FAILS(ioctl(gateway, CANDOR_GATEWAY_COMMIT), ENODATA);
	free(damaged);
}

/* Everybody who has the device open sees what the gateway sends, and its rules do not take that. */
static void passes_on(int gateway, int fd[DEVICES])
{
	int other = open_device(2);
	struct candor_frame got[8];

	begin("passes on");
	CHECK(load(gateway));
	CHECK(send_one(fd[0], 0x123));
	CHECK(drain(fd[2], got, 8) == 1 && got[0].id == 0x123);
	CHECK(got[0].flags == CANDOR_LOCAL && got[0].len == 2 && got[0].time_ns);
	CHECK(drain(other, got, 8) == 1);
	CHECK(drain(fd[0], got, 8) == 0 && drain(fd[1], got, 8) == 0);
	/* Back from the third to the first, with another identifier. */
	CHECK(send_one(fd[2], 0x7ff));
	CHECK(drain(fd[0], got, 8) == 1 && got[0].id == 0x7fe);
	CHECK(drain(other, got, 8) == 1);
	close(other);
}

struct sender {
	pthread_t thread;
	int fd;
	unsigned long long sent;
	bool stop;
};

static void *traffic(void *data)
{
	struct sender *sender = data;

	while (!__atomic_load_n(&sender->stop, __ATOMIC_RELAXED)) {
		if (!CHECK(send_one(sender->fd, 0x123))) {
			__atomic_store_n(&sender->stop, true, __ATOMIC_RELAXED);
			break;
		}
		__atomic_fetch_add(&sender->sent, 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Until it has sent some more. */
static void goes_on(struct sender *sender)
{
	unsigned long long before = __atomic_load_n(&sender->sent, __ATOMIC_RELAXED);

	while (__atomic_load_n(&sender->sent, __ATOMIC_RELAXED) < before + SOME &&
	       !__atomic_load_n(&sender->stop, __ATOMIC_RELAXED))
		sched_yield();
}

static unsigned long long all_of(const struct candor_gateway_job *job)
{
	return job->handled + job->hop_limit + job->down + job->returning + job->too_long + job->queue_full +
	       job->unsupported;
}

/* Each frame meets one set of rules, while they are replaced all the time. */
static void replaced(int gateway, int fd[DEVICES])
{
	struct candor_queue_setup queue = { .slots = CANDOR_SLOTS_MOST };
	struct candor_gateway_job jobs[JOBS];
	struct candor_statistics before, after;
	struct sender sender = { .fd = fd[0] };
	unsigned long long sum = 0;
	int turn;

	begin("replaced");
	CHECK(ioctl(fd[2], CANDOR_SET_QUEUE, &queue) == 0);
	CHECK(load(gateway));
	ioctl(fd[2], CANDOR_GET_STATISTICS, &before);
	CHECK(!pthread_create(&sender.thread, NULL, traffic, &sender));
	for (turn = 0; turn < TURNS; turn++) {
		CHECK(load(gateway));
		counts(gateway, jobs, true);
		sum += all_of(&jobs[EVERYTHING]);
	}
	__atomic_store_n(&sender.stop, true, __ATOMIC_RELAXED);
	CHECK(!pthread_join(sender.thread, NULL));
	counts(gateway, jobs, false);
	sum += all_of(&jobs[EVERYTHING]);
	ioctl(fd[2], CANDOR_GET_STATISTICS, &after);
	printf("%d times under %llu frames\n", TURNS, sender.sent);
	CHECK(sender.sent > TURNS && sum == sender.sent);
	CHECK(after.handle_received + after.handle_lost - before.handle_received -
	      before.handle_lost == sender.sent);
}

static void set_paced(const char *value)
{
	int file = open("/sys/module/candor_can/parameters/paced", O_WRONLY);

	CHECK(write(file, value, 1) == 1);
	close(file);
}

/* Copies that the transmit queue has taken are sent, or counted as lost. */
static void unsent(int gateway, int fd[DEVICES])
{
	struct candor_gateway_job jobs[JOBS];
	struct candor_bitrate slow = { .bitrate = 10000 }, usual = { .bitrate = 500000 };
	struct candor_statistics before, after;
	int i;

	begin("unsent");
	CHECK(ioctl(fd[2], CANDOR_STOP) == 0 && ioctl(fd[2], CANDOR_SET_BITRATE, &slow) == 0);
	CHECK(ioctl(fd[2], CANDOR_START) == 0);
	set_paced("1");
	CHECK(load(gateway));
	ioctl(fd[2], CANDOR_GET_STATISTICS, &before);
	for (i = 0; i < SOME; i++) {
		send_one(fd[0], 0x123);
		usleep(200);
	}
	CHECK(ioctl(fd[2], CANDOR_STOP) == 0);
	ioctl(fd[2], CANDOR_GET_STATISTICS, &after);
	counts(gateway, jobs, false);
	CHECK(buses[2].lost > 0 && buses[2].state == CANDOR_STATE_STOPPED);
	CHECK(jobs[EVERYTHING].handled == after.sent - before.sent + buses[2].lost);
	CHECK(ioctl(fd[2], CANDOR_SET_BITRATE, &usual) == 0 && ioctl(fd[2], CANDOR_START) == 0);
	set_paced("0");
	/* Until those to the first device are over. */
	usleep(100000);
}

/* A target that is stopped, bus-off, or goes away and comes back under traffic. */
static void gone(int gateway, int fd[DEVICES])
{
	static const struct candor_frame bus_off = { .id = CANDOR_ERROR_BUS_OFF, .flags = CANDOR_ERROR };
	struct sender sender = { .fd = fd[0] };
	struct candor_gateway_job jobs[JOBS];

	begin("gone");
	CHECK(load(gateway));
	CHECK(ioctl(fd[2], CANDOR_STOP) == 0);
	CHECK(send_one(fd[0], 0x123));
	counts(gateway, jobs, false);
	CHECK(jobs[EVERYTHING].down == 1 && all_of(&jobs[EVERYTHING]) == 1);
	CHECK(ioctl(fd[2], CANDOR_START) == 0);
	/* Off the bus, until it is started again. */
	CHECK(write(fd[2], &bus_off, SIZE) == SIZE);
	CHECK(send_one(fd[0], 0x123));
	counts(gateway, jobs, false);
	CHECK(jobs[EVERYTHING].down == 2 && all_of(&jobs[EVERYTHING]) == 2);
	CHECK(buses[2].state == CANDOR_STATE_BUS_OFF && buses[0].state == CANDOR_STATE_ACTIVE);
	CHECK(ioctl(fd[2], CANDOR_START) == 0);
	CHECK(!pthread_create(&sender.thread, NULL, traffic, &sender));
	goes_on(&sender);
	set_virtual("2");
	goes_on(&sender);
	__atomic_store_n(&sender.stop, true, __ATOMIC_RELAXED);
	CHECK(!pthread_join(sender.thread, NULL));
	CHECK(counts(gateway, jobs, false).gone == 1);
	CHECK(jobs[EVERYTHING].down > 2 && all_of(&jobs[EVERYTHING]) == sender.sent + 2);
	CHECK(!load(gateway) && errno == ENODEV);
	/* Another device has its number now; the rules in use are not about it. */
	set_virtual("3");
	close(fd[2]);
	fd[2] = open_device(2);
	CHECK(send_one(fd[0], 0x123));
	CHECK(counts(gateway, jobs, false).gone == 1 && all_of(&jobs[EVERYTHING]) == sender.sent + 3);
	CHECK(load(gateway));
	CHECK(send_one(fd[0], 0x123));
	CHECK(counts(gateway, jobs, false).gone == 0 && jobs[EVERYTHING].handled == 1);
	/* The source goes away. */
	set_virtual("0");
	CHECK(counts(gateway, jobs, false).gone == 1);
	set_virtual("3");
}

static void *reader(void *data)
{
	struct candor_frame frame;
	int i;

	for (i = 0; i < TURNS; i++)
		CHECK(read(*(int *)data, &frame, SIZE) == SIZE);
	return NULL;
}

/* The work of one frame, new rules each time: the least of some times. */
static struct candor_gateway_bus work_of(int gateway, int fd, unsigned int bus,
					 const struct candor_frame *frame)
{
	struct candor_gateway_bus least = { .longest_ns = ~0ull };
	struct candor_gateway_job jobs[JOBS];
	int turn;

	for (turn = 0; turn < TURNS; turn++) {
		CHECK(load(gateway));
		/* Who reads waits again by then. */
		usleep(2000);
		CHECK(write(fd, frame, SIZE) == SIZE);
		counts(gateway, jobs, false);
		CHECK(buses[bus].most_steps <= buses[bus].step_limit && buses[bus].longest_ns);
		if (buses[bus].longest_ns < least.longest_ns)
			least = buses[bus];
	}
	return least;
}

/* The steps of a frame are those that its rules and the open files have; docs/drivers.md has what they cost. */
static void steps(int gateway)
{
	/* For each: look-up, rules, operands, bytes of checksums, copies; then the open file of each device that has the frame, or a copy. */
	static const struct {
		const char *what;
		unsigned int bus;
		struct candor_frame frame;
		unsigned int steps;
	} frames[] = {
		{ "no rule", 2, { .id = 0x122, .len = 8 }, 1 + 1 },
		{ "one copy", 0, { .id = 0x123, .len = 8 }, 1 + 4 + 12 + 2 },
		/* Its copy comes back, and the rule that it meets would return it. */
		{ "a checksum, and an echo that meets a rule", 2, { .id = 0x7ff, .len = 8 },
		  1 + 4 + 16 + 5 + 12 + 1 + 4 + 12 + 2 },
		{ "two rules, two checksums, three copies", 0, { .id = 0x201, .len = 8 },
		  1 + 4 + 16 + 6 + 6 + 24 + 4 + 12 + 4 },
		{ "an extended identifier, two masks", 1,
		  { .id = 0x00010100, .len = 8, .flags = CANDOR_EXTENDED }, 0 },
	};
	static const struct candor_frame nobodys = { .id = 0x122, .len = 8 };
	static const struct candor_frame tapped = { .id = 0x0aa, .len = 8 };
	struct candor_gateway_job jobs[JOBS];
	unsigned long long handled = 0, lost = 0;
	struct candor_filters filters = { .count = CANDOR_FILTERS };
	int fd[DEVICES], more[CANDOR_HANDLES_MOST], waiting, i;
	struct candor_gateway_bus work;
	pthread_t thread;
	unsigned int n;

	begin("steps");
	for (i = 0; i < DEVICES; i++) {
		fd[i] = open_device(i);
		CHECK(ioctl(fd[i], CANDOR_SET_FILTERS, &(struct candor_filters){}) == 0);
	}
	for (n = 0; n < sizeof(frames) / sizeof(frames[0]); n++) {
		work = work_of(gateway, fd[frames[n].bus], frames[n].bus, &frames[n].frame);
		printf("%s: %llu steps, %llu ns\n", frames[n].what, work.most_steps, work.longest_ns);
		CHECK(!frames[n].steps || work.most_steps == frames[n].steps);
	}
	waiting = open("/dev/candor2", O_RDWR);
	CHECK(waiting >= 0 && !pthread_create(&thread, NULL, reader, &waiting));
	work = work_of(gateway, fd[2], 2, &nobodys);
	printf("no rule, a reader that waits: %llu steps, %llu ns\n", work.most_steps, work.longest_ns);
	CHECK(work.most_steps == 1 + 1 + 1 + 1 + 64);
	CHECK(!pthread_join(thread, NULL));
	close(waiting);
	/* All files that there can be, each with all filters that it can have, of which the last takes the frame. */
	for (n = 0; n < CANDOR_FILTERS; n++)
		filters.filter[n] = (struct candor_filter){ .id = n + 1 < CANDOR_FILTERS, .mask = 1 };
	for (i = 0; i < CANDOR_HANDLES_MOST - 1; i++) {
		more[i] = open_device(2);
		CHECK(ioctl(more[i], CANDOR_SET_FILTERS, &filters) == 0);
	}
	work = work_of(gateway, fd[2], 2, &nobodys);
	printf("no rule, 63 files: %llu of %llu steps, %llu ns\n", work.most_steps, work.step_limit,
	       work.longest_ns);
	CHECK(work.most_steps == 2 + 63 * (64 + 1 + CANDOR_FILTERS));
	/* They have copies at once, and those are counted; after 16,384 steps there are no more. */
	work = work_of(gateway, fd[0], 0, &tapped);
	printf("63 files with copies: %llu of %llu steps, %llu ns\n", work.most_steps, work.step_limit,
	       work.longest_ns);
	CHECK(work.most_steps == 2 + 5 * (4 + 12) + 3 * (1 + 63 * (64 + 1 + CANDOR_FILTERS)));
	counts(gateway, jobs, false);
	for (n = 0; n < JOBS; n++) {
		handled += jobs[n].handled;
		lost += jobs[n].queue_full;
	}
	CHECK(handled == 3 && lost == 2);
	for (i = 0; i < CANDOR_HANDLES_MOST - 1; i++)
		close(more[i]);
	work = work_of(gateway, fd[2], 2, &nobodys);
	CHECK(work.most_steps == 2);
	for (i = 0; i < DEVICES; i++)
		close(fd[i]);
}

static unsigned long number_of(const char *name, unsigned long otherwise)
{
	const char *text = getenv(name);

	return text ? strtoul(text, NULL, 10) : otherwise;
}

static unsigned char *read_image(const char *path, size_t *size)
{
	int file = open(path, O_RDONLY);
	unsigned char *bytes;

	if (file < 0) {
		perror(path);
		exit(2);
	}
	*size = lseek(file, 0, SEEK_END);
	bytes = malloc(*size);
	if (pread(file, bytes, *size, 0) != (ssize_t)*size)
		exit(2);
	close(file);
	return bytes;
}

/* Frames that the tables of the image know, and any others, on all devices by turns. */
static void use(const unsigned char *bytes, size_t size, const int fd[DEVICES])
{
	unsigned int n;

	for (n = 0; n < USED; n++) {
		unsigned int word = mutate_identifier(bytes, size);
		struct candor_frame frame = { .id = word & 0x1fffffff, .len = n % 9, .flags = CANDOR_EXTENDED };

		if (n % 2) {
			frame.id &= 0x7ff;
			frame.flags = n % 3 ? 0 : CANDOR_REMOTE;
		}
		CHECK(write(fd[any() % DEVICES], &frame, SIZE) == SIZE);
	}
}

/* Images that are damaged below a right checksum: none ends the kernel, whatever is sent through those that are taken. */
static void mutated(int gateway)
{
	unsigned long most = number_of("GATEWAY_MUTATIONS", MUTATIONS), taken = 0, used = 0, i;
	const char *path = getenv("GATEWAY_MUTATED");
	size_t whole = length, size;
	unsigned char *sound = path ? read_image(path, &whole) : image, *bytes = malloc(whole + MUTATE_GROWTH);
	struct mutate_section buses;
	int fd[DEVICES];

	begin("mutated");
	mutate_seed(number_of("GATEWAY_SEED", 1));
	printf("GATEWAY_SEED=%llu\n", (unsigned long long)mutate_state);
	CHECK(mutate_section(sound, whole, 1, &buses) && buses.count && buses.count <= DEVICES);
	for (i = 0; i < DEVICES; i++)
		fd[i] = open_device(i);
	for (i = 0; i < most; i++) {
		struct candor_gateway_image argument;

		if (i && i % 50000 == 0) {
			printf("%lu mutations, %lu taken\n", i, taken);
			fflush(stdout);
		}
		memcpy(bytes, sound, whole);
		size = mutate(bytes, whole);
		argument = argument_for(bytes, size, devices);
		argument.buses = buses.count;
		if (ioctl(gateway, CANDOR_GATEWAY_PREPARE, &argument))
			continue;
		/* Waits until no frame meets the rules before: not each time. */
		if (++taken % USED)
			continue;
		CHECK(ioctl(gateway, CANDOR_GATEWAY_COMMIT) == 0);
		use(bytes, size, fd);
		used++;
	}
	printf("%lu mutations, %lu taken, %lu used for %lu frames\n", most, taken, used, used * USED);
	CHECK(taken > most / 100 && taken < most);
	for (i = 0; i < DEVICES; i++)
		close(fd[i]);
	free(bytes);
}

/* Opens all handles that a device has left, up to its most; how many. */
static int open_crowd(int number, int fd[CANDOR_HANDLES_MOST])
{
	int count = 0;

	while (count < CANDOR_HANDLES_MOST && (fd[count] = open_device(number)) >= 0)
		count++;
	return count;
}

/* One that waits for frames on all handles of a device, and takes them. */
struct crowd {
	pthread_t thread;
	struct pollfd each[CANDOR_HANDLES_MOST];
	int count;
	bool stop;
};

static void *listen_to_all(void *data)
{
	struct crowd *crowd = data;
	struct candor_frame got[8];
	int i;

	while (!__atomic_load_n(&crowd->stop, __ATOMIC_RELAXED)) {
		if (poll(crowd->each, crowd->count, 10) <= 0)
			continue;
		for (i = 0; i < crowd->count; i++) {
			if (crowd->each[i].revents)
				drain(crowd->each[i].fd, got, 8);
		}
	}
	return NULL;
}

/* Frames of one handle, as fast as it goes; or each when the one before has been sent. */
struct source {
	pthread_t thread;
	int fd;
	bool one_by_one;
	struct candor_frame frame;
	unsigned long long sent;
	bool stop;
};

/* It takes what it sends itself, nothing else. */
static bool take_own(const struct source *source)
{
	unsigned int options = CANDOR_RECEIVE_OWN;
	struct candor_filters filters = {
		.count = 1,
		.filter[0] = { .id = source->frame.id, .mask = 0x7ff, .flags = CANDOR_LOCAL,
			       .flags_mask = CANDOR_LOCAL },
	};

	return CHECK(ioctl(source->fd, CANDOR_SET_OPTIONS, &options) == 0) &&
	       CHECK(ioctl(source->fd, CANDOR_SET_FILTERS, &filters) == 0);
}

static void *run_source(void *data)
{
	struct source *source = data;
	struct candor_frame own;

	while (!__atomic_load_n(&source->stop, __ATOMIC_RELAXED)) {
		if (write(source->fd, &source->frame, SIZE) == SIZE) {
			__atomic_fetch_add(&source->sent, 1, __ATOMIC_RELAXED);
			while (source->one_by_one && drain(source->fd, &own, 1) == 0) {
				if (poll(&(struct pollfd){ .fd = source->fd, .events = POLLIN }, 1, 5000) != 1)
					return NULL;
			}
		} else if (errno != EAGAIN || poll(&(struct pollfd){ .fd = source->fd, .events = POLLOUT }, 1, 1000) != 1) {
			break;
		}
	}
	return NULL;
}

/*
 * Two sources, each of which has a copy of every frame on the device of the crowd, and rules that are replaced
 * meanwhile: every handle gets every frame, or counts it as lost.
 */
static void run_crowd(int gateway, struct source source[2], const int fd[], int count)
{
	struct candor_statistics before[CANDOR_HANDLES_MOST], after;
	struct crowd crowd = { .count = count };
	unsigned long long sent;
	int turn, i;

	for (i = 0; i < count; i++) {
		crowd.each[i] = (struct pollfd){ .fd = fd[i], .events = POLLIN };
		CHECK(ioctl(fd[i], CANDOR_GET_STATISTICS, &before[i]) == 0);
	}
	CHECK(!pthread_create(&crowd.thread, NULL, listen_to_all, &crowd));
	for (i = 0; i < 2; i++)
		CHECK(!pthread_create(&source[i].thread, NULL, run_source, &source[i]));
	for (turn = 0; turn < TURNS; turn++) {
		CHECK(load(gateway));
		usleep(20000);
	}
	for (i = 0; i < 2; i++)
		__atomic_store_n(&source[i].stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < 2; i++)
		CHECK(!pthread_join(source[i].thread, NULL));
	/* What controllers have yet to send. */
	usleep(200000);
	__atomic_store_n(&crowd.stop, true, __ATOMIC_RELAXED);
	CHECK(!pthread_join(crowd.thread, NULL));
	sent = source[0].sent + source[1].sent;
	printf("%d handles, %d times other rules under %llu and %llu frames\n", count, TURNS, source[0].sent,
	       source[1].sent);
	CHECK(source[0].sent > TURNS && source[1].sent > TURNS);
	for (i = 0; i < count; i++) {
		CHECK(ioctl(fd[i], CANDOR_GET_STATISTICS, &after) == 0);
		if (!CHECK(after.handle_received + after.handle_lost - before[i].handle_received -
			   before[i].handle_lost == sent))
			printf("handle %d: %llu and %llu lost, of %llu\n", i, after.handle_received - before[i].handle_received,
			       after.handle_lost - before[i].handle_lost, sent);
	}
}

/* As many handles as a device can have, while the gateway passes frames on to it. */
static void crowded(int gateway)
{
	struct source source[2] = {
		{ .fd = open_device(0), .frame = { .id = 0x123, .len = 8 } },
		{ .fd = open_device(1), .frame = { .id = 0x10000, .len = 8, .flags = CANDOR_EXTENDED } },
	};
	int fd[CANDOR_HANDLES_MOST], count, i;

	begin("crowded");
	CHECK(load(gateway));
	count = open_crowd(2, fd);
	CHECK(count == CANDOR_HANDLES_MOST);
	FAILS(open_device(2), EBUSY);
	run_crowd(gateway, source, fd, count);
	for (i = 0; i < count; i++)
		close(fd[i]);
	close(source[0].fd);
	close(source[1].fd);
}

static bool start_card(int fd)
{
	struct candor_bitrate bitrate = { .bitrate = 500000 };

	return CHECK(ioctl(fd, CANDOR_STOP) == 0) && CHECK(ioctl(fd, CANDOR_SET_BITRATE, &bitrate) == 0) &&
	       CHECK(ioctl(fd, CANDOR_START) == 0);
}

/*
 * Controllers, whose interrupt handlers pass frames on: each to the other one, and to a virtual device with as many
 * handles as it can have. Rules are replaced meanwhile. The bus of QEMU has no bit rate: with full queues a slow kernel
 * would never leave the interrupt.
 */
static void cards(void)
{
	int gateway, fd[CANDOR_HANDLES_MOST], count, i;
	struct source source[2] = {
		{ .fd = open_device(0), .one_by_one = true, .frame = { .id = 0x100, .len = 8 } },
		{ .fd = open_device(1), .one_by_one = true, .frame = { .id = 0x200, .len = 8 } },
	};

	begin("cards");
	set_virtual("1");
	gateway = open_file("/dev/candor_gateway");
	if (!start_card(source[0].fd) || !start_card(source[1].fd) || !take_own(&source[0]) || !take_own(&source[1]) ||
	    !CHECK(load(gateway)))
		return;
	count = open_crowd(2, fd);
	CHECK(count == CANDOR_HANDLES_MOST);
	run_crowd(gateway, source, fd, count);
	/* The target goes away under traffic, then the sources close. */
	set_virtual("0");
	for (i = 0; i < count; i++)
		close(fd[i]);
	for (i = 0; i < 2; i++) {
		CHECK(ioctl(source[i].fd, CANDOR_STOP) == 0);
		close(source[i].fd);
	}
	close(gateway);
}

/* The rules of a process end with it. */
static void killed(void)
{
	int fd[DEVICES], i, status;
	struct candor_frame got[8];
	pid_t child;

	begin("killed");
	for (i = 0; i < DEVICES; i++)
		fd[i] = open_device(i);
	child = fork();
	if (child == 0) {
		int gateway = open_file("/dev/candor_gateway");

		if (!load(gateway))
			_exit(1);
		kill(getpid(), SIGKILL);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
	CHECK(send_one(fd[0], 0x123));
	CHECK(drain(fd[2], got, 8) == 0);
	i = open_file("/dev/candor_gateway");
	CHECK(i >= 0 && load(i));
	CHECK(send_one(fd[0], 0x123) && drain(fd[2], got, 8) == 1);
	close(i);
	for (i = 0; i < DEVICES; i++)
		close(fd[i]);
}

int main(int argc, char **argv)
{
	int gateway, fd[DEVICES], i;

	if (argc != 2 && (argc != 3 || strcmp(argv[2], "cards"))) {
		fprintf(stderr, "usage: gateway_test IMAGE [cards]\n");
		return 2;
	}
	image = read_image(argv[1], &length);
	if (argc == 3) {
		cards();
		printf("%u passed, %u failed\n", passed, failed);
		return failed != 0;
	}
	test = "begin";
	set_virtual("3");
	gateway = open_file("/dev/candor_gateway");
	for (i = 0; i < DEVICES; i++)
		fd[i] = open_device(i);
	CHECK(gateway >= 0 && fd[0] >= 0 && fd[1] >= 0 && fd[2] >= 0);
	refuses(gateway);
	passes_on(gateway, fd);
	replaced(gateway, fd);
	unsent(gateway, fd);
	gone(gateway, fd);
	for (i = 0; i < DEVICES; i++)
		close(fd[i]);
	crowded(gateway);
	steps(gateway);
	mutated(gateway);
	close(gateway);
	killed();
	set_virtual("0");
	printf("%u passed, %u failed\n", passed, failed);
	return failed != 0;
}
