/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Compiled rules as `candor route compile` writes them: docs/program-image.md has the format. An image
 * is checked as a whole before it is used; then every look-up stays inside of it, and its work has a
 * bound.
 *
 * image.c needs nothing of the kernel, so that its checks can be tried by programs, too.
 */
#ifndef CANDOR_IMAGE_H
#define CANDOR_IMAGE_H

#ifdef __KERNEL__
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/types.h>
#include <asm/byteorder.h>
/* A check takes long. */
#define image_pause()	cond_resched()
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <linux/types.h>
#define image_pause()	((void)0)
typedef uint8_t u8;
typedef int8_t s8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
/* For tests on machines with little-endian numbers. */
#define le16_to_cpu(number) ((u16)(number))
#define le32_to_cpu(number) ((u32)(number))
#define le64_to_cpu(number) ((u64)(number))
#endif

/* Identifier words are those of SocketCAN. */
#define IMAGE_EXTENDED	0x80000000u
#define IMAGE_REMOTE	0x40000000u
#define IMAGE_ERROR	0x20000000u

/* Rules that one frame with an extended identifier may meet; they are sorted for it. */
#define CANDOR_IMAGE_MATCHES	128
/* Steps that the rules of one frame may take, each time that it meets rules. */
#define CANDOR_IMAGE_STEPS	16384
/* Copies of one frame that may come back, for the rules of the bus that they are sent on (echo). */
#define CANDOR_IMAGE_HOPS	16

/*
 * Work is counted in steps, each of at most about 34 instructions of the driver. One is: a table or a filter
 * that is looked at, a match that is sorted, a byte of a checksum. What is more work is so many of them:
 */
#define CANDOR_STEPS_RULE	4
#define CANDOR_STEPS_OPERAND	4	/* AND, OR, XOR or SET of identifier, length and data */
#define CANDOR_STEPS_COPY	12	/* into a queue, or into the registers of a controller */
#define CANDOR_STEPS_HANDLE	64	/* the queue of an open file, and who waits to read; or who waits to write */

struct image_extent {
	__le32 first;
	__le32 count;
};

struct image_rule {
	__le32 first_job;
	__le16 jobs;
	u8 limit_hops;
	u8 flags;
	__le32 edit;
	__le32 extension;
	struct image_extent exclusions;
};

#define IMAGE_RULE_CLASSICAL	0x01
#define IMAGE_RULE_ECHO		0x04
#define IMAGE_RULE_RETURN	0x10
#define IMAGE_NONE		0xffffffffu

struct image_job {
	struct image_extent name;
	__le32 rule;
	__le16 from;
	__le16 to;
	__le32 edits;
	__le32 zero;
};

struct image_filter {
	__le32 id;
	__le32 mask;
	__le32 inverted;
};

struct image_match {
	__le32 rule;
	__le32 place;
};

struct image_matcher {
	struct image_extent lists;
	struct image_extent matches;
	struct image_extent clusters;
	struct image_extent inverted;
	struct image_extent errors;
	__le32 lengths[5];
	__le32 zero;
};

struct image_cluster {
	__le32 mask;
	__le32 shift;
	struct image_extent candidates;
	struct image_extent groups;
};

struct image_candidate {
	__le32 key;
	__le32 zero;
	__le64 groups;
};

struct image_group {
	__le32 mask;
	__le32 shift;
	struct image_extent slots;
};

struct image_slot {
	__le32 key;
	__le32 list;
};

struct image_inverted {
	struct image_filter filter;
	struct image_match match;
};

struct image_operands {
	u8 has;
	u8 len;
	u8 flags;
	u8 zero;
	__le32 id;
	u8 data[64];
};

#define IMAGE_HAS_ID	0x01
#define IMAGE_HAS_LEN	0x02
#define IMAGE_HAS_DATA	0x08

enum { IMAGE_AND, IMAGE_OR, IMAGE_XOR, IMAGE_SET, IMAGE_OPERATORS };

struct image_range {
	s8 from;
	s8 to;
	s8 result;
};

struct image_xor {
	struct image_range range;
	u8 init;
};

struct image_crc8 {
	struct image_range range;
	u8 init;
	u8 final_xor;
	u8 profile;
	u8 byte;
	u8 zero;
	__le32 table;
	u8 bytes[16];
};

enum { IMAGE_CRC8_PLAIN, IMAGE_CRC8_BYTE, IMAGE_CRC8_COUNTER, IMAGE_CRC8_ID, IMAGE_CRC8_PROFILES };

struct image_edit {
	__le32 has;
	struct image_xor xor;
	struct image_operands operands[IMAGE_OPERATORS];
	struct image_crc8 crc8;
};

#define IMAGE_HAS_CRC8	0x01
#define IMAGE_HAS_XOR	0x02

/* The sections that are read, by the numbers of their kinds. */
enum {
	IMAGE_BUSES = 1, IMAGE_STRINGS, IMAGE_RULES, IMAGE_JOBS, IMAGE_EXCLUSIONS, IMAGE_MATCHERS,
	IMAGE_STANDARD, IMAGE_LISTS, IMAGE_MATCHES, IMAGE_CLUSTERS, IMAGE_CANDIDATES, IMAGE_GROUPS,
	IMAGE_SLOTS, IMAGE_INVERTED, IMAGE_ERRORS, IMAGE_EDITS, IMAGE_EXTENSIONS, IMAGE_PATTERNS,
	IMAGE_LENGTHS, IMAGE_ACTIONS, IMAGE_REMAPS, IMAGE_CRC_TABLES, IMAGE_SECTIONS,
};

/**
 * struct candor_image - an image that was checked
 * @counts: records of each section, by its kind
 * @steps: the most steps that the rules take for one frame, copies that come back included
 * @max_hops: how often a frame may be passed on
 * @has_echo: whether copies of a rule come back
 * The others: the records of a section.
 */
struct candor_image {
	u32 counts[IMAGE_SECTIONS];
	u32 steps;
	u8 max_hops;
	bool has_echo;
	const struct image_rule *rules;
	const struct image_job *jobs;
	const struct image_filter *exclusions;
	const struct image_matcher *matchers;
	const __le32 *standard;
	const struct image_extent *lists;
	const struct image_match *matches;
	const struct image_cluster *clusters;
	const struct image_candidate *candidates;
	const struct image_group *groups;
	const struct image_slot *slots;
	const struct image_inverted *inverted;
	const struct image_edit *edits;
	const u8 (*crc_tables)[256];
};

/**
 * struct candor_image_error - why an image is refused
 * @section: the kind of the section; 0: the header
 * @record: the number of the record
 * @reason: in words
 */
struct candor_image_error {
	u32 section;
	u32 record;
	const char *reason;
};

/* A classical frame while it is rewritten; @id is an identifier word. */
struct candor_image_frame {
	u32 id;
	u8 len;
	u8 data[8];
};

/* A number for each list, which has 8 bytes. */
#define CANDOR_IMAGE_ROOM(length)	((length) / 2)

bool candor_image_check(struct candor_image *image, const void *bytes, size_t length, void *room,
			struct candor_image_error *error);
u32 candor_image_standard(const struct candor_image *image, u32 bus, u32 word,
			  const struct image_match **found, u32 *steps);
u32 candor_image_extended(const struct candor_image *image, u32 bus, u32 word,
			  struct image_match room[CANDOR_IMAGE_MATCHES], u32 *steps);
bool candor_image_edit(const struct candor_image *image, u32 number,
		       struct candor_image_frame *frame, u32 *steps);

#endif
