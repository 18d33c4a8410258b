/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * monitor [-n FRAMES] BUS [ID:MASK]...: prints the frames that one of the filters takes, with their times,
 * until a second passes without any, so many have come, or the recording ends; then the status of the bus.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vca.h>

#define FILTERS	16
#define ROOM	32

static int fail(int error)
{
	char why[512];

	vca_last_error(why, sizeof(why));
	fprintf(stderr, "monitor: %s: %s\n", vca_strerror(error), why);
	return 1;
}

static void print(const struct vca_frame *frame)
{
	const char *form = frame->flags & (VCA_EXTENDED | VCA_ERROR) ? "%08" PRIX32 "#" : "%03" PRIX32 "#";

	printf("(%" PRIu64 ".%06" PRIu64 ") ", frame->time_ns / 1000000000, frame->time_ns / 1000 % 1000000);
	printf(form, frame->flags & VCA_ERROR ? frame->id | 0x20000000 : frame->id);
	if (frame->flags & VCA_FD)
		printf("#%X", (frame->flags & VCA_BRS ? 1 : 0) | (frame->flags & VCA_ESI ? 2 : 0));
	if (frame->flags & VCA_REMOTE)
		printf("R%d", frame->len);
	for (int i = 0; i < frame->len && !(frame->flags & VCA_REMOTE); i++)
		printf("%02X", frame->data[i]);
	puts("");
}

int main(int argc, char **argv)
{
	static const char *const states[] = { "unknown", "stopped", "active", "warning", "passive", "bus-off" };
	struct vca_filter filters[FILTERS];
	struct vca_frame frames[ROOM];
	struct vca_status status;
	unsigned long most = 0, seen = 0;
	size_t count = 0;
	vca_t *bus;
	int n;

	if (argc > 3 && !strcmp(argv[1], "-n")) {
		most = strtoul(argv[2], NULL, 0);
		argv += 2;
		argc -= 2;
	}
	if (argc < 2)
		return fprintf(stderr, "usage: monitor [-n FRAMES] BUS [ID:MASK]...\n"), 2;
	for (int i = 2; i < argc && count < FILTERS; i++) {
		char *colon;

		filters[count] = (struct vca_filter){ .id = strtoul(argv[i], &colon, 16), .mask = 0x1fffffff };
		if (*colon == ':')
			filters[count].mask = strtoul(colon + 1, NULL, 16);
		count++;
	}
	n = vca_open(argv[1], VCA_RECEIVE | VCA_OPEN_ERRORS | VCA_OPEN_STAMPS, &bus);
	if (n < 0)
		return fail(n);
	if (count && (n = vca_set_filters(bus, filters, count)) < 0)
		return fail(n);
	puts("ready");
	fflush(stdout);
	while (!most || seen < most) {
		n = vca_receive(bus, frames, ROOM, 1000000000);
		if (n == 0 || n == -ENODATA)
			break;
		if (n < 0)
			return fail(n);
		for (int i = 0; i < n; i++)
			print(&frames[i]);
		seen += n;
	}
	if ((n = vca_status(bus, &status)) < 0)
		return fail(n);
	printf("state %s, %" PRIu32 " bit/s, lost %" PRIu64 "\n", states[status.state], status.bitrate, status.lost);
	vca_close(bus);
	return 0;
}
