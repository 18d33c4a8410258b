// SPDX-License-Identifier: GPL-2.0-only
/*
 * image_test MUTATIONS IMAGE...: the checks of images (candor_can/image.c) against damaged ones.
 *
 * The images have to be taken as they are. Then they are damaged (mutate.h), and the checksum is made right again: what is taken
 * nevertheless is looked up for random identifiers and applied, with sanitizers that see each access beyond the image, and must
 * not take more steps than it says.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "image.h"
#include "mutate.h"

#define LOOKUPS		32

static bool check(struct candor_image *image, const void *bytes, size_t length,
		  struct candor_image_error *error)
{
	/* Of its own size, too. */
	void *room = malloc(CANDOR_IMAGE_ROOM(length));
	bool is_sound = candor_image_check(image, bytes, length, room, error);

	free(room);
	return is_sound;
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

	mutate_seed(seed ? strtoull(seed, NULL, 10) : (u64)time(NULL));
	printf("SEED=%llu\n", (unsigned long long)mutate_state);
	for (which = 2; which < argc; which++) {
		size_t length;
		u8 *bytes = read_file(argv[which], &length);

		if (!check(&image, bytes, length, &error) || !use(&image)) {
			fprintf(stderr, "%s is refused: section %u, record %u: %s\n", argv[which],
				error.section, error.record, error.reason);
			return 1;
		}
		printf("%s: at most %u steps\n", argv[which], image.steps);
		for (i = 0; i < mutations; i++) {
			u8 *copy = malloc(length + MUTATE_GROWTH);
			size_t size;

			memcpy(copy, bytes, length);
			size = mutate(copy, length);
			/* Of its own size, so that a byte beyond it is seen. */
			copy = realloc(copy, size ? size : 1);
			if (check(&image, copy, size, &error)) {
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
