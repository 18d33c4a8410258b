// SPDX-License-Identifier: GPL-2.0-only
/*
 * image_test MUTATIONS IMAGE...: the checks of images (candor_can/image.c) against damaged ones.
 *
 * The images have to be taken as they are. Then numbers in them are changed, and the checksum is made right again: what is taken
 * nevertheless is looked up for random identifiers and applied, with sanitizers that see each access beyond the image, and must
 * not take more steps than it says.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "image.h"

#define HEADER_BYTES	32
#define ENTRY_BYTES	24
#define CHECKED_FROM	16
#define LOOKUPS		32

static u64 state;

static u32 any(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state >> 16;
}

static u32 crc32_of(const u8 *bytes, size_t length)
{
	u32 crc = ~0u, bit;
	size_t at;

	static u32 table[256];

	if (!table[1]) {
		for (at = 0; at < 256; at++) {
			u32 value = at;

			for (bit = 0; bit < 8; bit++)
				value = value & 1 ? value >> 1 ^ 0xedb88320u : value >> 1;
			table[at] = value;
		}
	}
	for (at = 0; at < length; at++)
		crc = crc >> 8 ^ table[(crc ^ bytes[at]) & 0xff];
	return ~crc;
}

/* Numbers at which a check may end one too early or too late. */
static u32 number(u32 before)
{
	static const u32 edges[] = { 0, 1, 2, 31, 32, 63, 64, 65, 0xff, 0x100, 0xfff, 0x1000, 0xffff,
				     0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff };

	switch (any() % 4) {
	case 0:
		return before + 1 - any() % 3;
	case 1:
		return before ^ 1u << any() % 32;
	case 2:
		return edges[any() % (sizeof(edges) / sizeof(edges[0]))];
	default:
		return any() % 256;
	}
}

static void mutate(u8 *bytes, size_t length)
{
	u32 changes = 1 + any() % 3, i;

	for (i = 0; i < changes; i++) {
		size_t at = (any() % length) & ~3ull;
		u32 value;

		/* Half of them in the table of sections or in small sections, not in the many slots. */
		if (any() % 2) {
			u32 kind = any() % (IMAGE_SECTIONS - 1);
			u64 begin;
			u32 count, record;

			memcpy(&record, bytes + HEADER_BYTES + kind * ENTRY_BYTES + 4, 4);
			memcpy(&begin, bytes + HEADER_BYTES + kind * ENTRY_BYTES + 8, 8);
			memcpy(&count, bytes + HEADER_BYTES + kind * ENTRY_BYTES + 16, 4);
			if (count && record < length && begin < length &&
			    (u64)count * record <= length - begin)
				at = (begin + any() % ((u64)count * record)) & ~3ull;
			else if (any() % 8 == 0)
				at = HEADER_BYTES + kind * ENTRY_BYTES + 4 * (any() % 6);
		}
		if (at + 4 > length)
			continue;
		memcpy(&value, bytes + at, 4);
		value = number(value);
		memcpy(bytes + at, &value, 4);
	}
	{
		u32 crc = crc32_of(bytes + CHECKED_FROM, length - CHECKED_FROM);

		memcpy(bytes + 12, &crc, 4);
	}
}

/* false: more steps than the image says. */
static bool use(const struct candor_image *image)
{
	u32 turn, i;

	for (turn = 0; image->counts[IMAGE_BUSES] && turn < LOOKUPS; turn++) {
		u32 bus = any() % image->counts[IMAGE_BUSES], word = any() & ~IMAGE_ERROR, count;
		struct image_match room[CANDOR_IMAGE_MATCHES];
		const struct image_match *found = room;
		u32 steps = 0;

		if (image->counts[IMAGE_SLOTS] && any() % 2)
			word = le32_to_cpu(image->slots[any() % image->counts[IMAGE_SLOTS]].key) |
			       IMAGE_EXTENDED;
		if (word & IMAGE_EXTENDED)
			count = candor_image_extended(image, bus, word, room, &steps);
		else
			count = candor_image_standard(image, bus, word, &found, &steps);
		for (i = 0; i < count; i++) {
			const struct image_rule *rule = &image->rules[le32_to_cpu(found[i].rule)];
			u32 job = le32_to_cpu(rule->first_job), edit = le32_to_cpu(rule->edit);
			u32 end = job + le16_to_cpu(rule->jobs);
			struct candor_image_frame frame = { .id = word, .len = any() % 9 };

			steps += CANDOR_STEPS_RULE;
			if (edit != IMAGE_NONE)
				candor_image_edit(image, edit, &frame, &steps);
			for (; job < end; job++, steps += CANDOR_STEPS_COPY) {
				if (le16_to_cpu(image->jobs[job].to) >= image->counts[IMAGE_BUSES])
					return false;
			}
		}
		if (steps > image->steps) {
			fprintf(stderr, "%u steps, and the image says %u\n", steps, image->steps);
			return false;
		}
	}
	return true;
}

static u8 *read_file(const char *path, size_t *length)
{
	FILE *file = fopen(path, "rb");
	u8 *bytes;

	if (!file || fseek(file, 0, SEEK_END)) {
		perror(path);
		exit(2);
	}
	*length = ftell(file);
	rewind(file);
	bytes = malloc(*length);
	if (!bytes || fread(bytes, 1, *length, file) != *length) {
		perror(path);
		exit(2);
	}
	fclose(file);
	return bytes;
}

int main(int argc, char **argv)
{
	unsigned long mutations = argc > 1 ? strtoul(argv[1], NULL, 10) : 0, i, taken = 0;
	const char *seed = getenv("SEED");
	struct candor_image_error error;
	struct candor_image image;
	int which;

	state = seed ? strtoull(seed, NULL, 10) : (u64)time(NULL);
	state |= 1;
	printf("SEED=%llu\n", (unsigned long long)state);
	for (which = 2; which < argc; which++) {
		size_t length;
		u8 *bytes = read_file(argv[which], &length);

		if (!candor_image_check(&image, bytes, length, &error) || !use(&image)) {
			fprintf(stderr, "%s is refused: section %u, record %u: %s\n", argv[which],
				error.section, error.record, error.reason);
			return 1;
		}
		printf("%s: at most %u steps\n", argv[which], image.steps);
		for (i = 0; i < mutations; i++) {
			/* Of its own size, so that a byte beyond it is seen. */
			size_t size = any() % 64 ? length : any() % (length + 1);
			u8 *copy = malloc(size ? size : 1);

			memcpy(copy, bytes, size);
			if (size == length)
				mutate(copy, size);
			if (candor_image_check(&image, copy, size, &error)) {
				taken++;
				if (!use(&image))
					return 1;
			}
			free(copy);
		}
		free(bytes);
	}
	printf("%lu mutations of each, %lu were taken\n", mutations, taken);
	return 0;
}
