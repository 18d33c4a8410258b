/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Images of rules that are damaged below a right checksum, for tests of their checks: a byte; a number that becomes
 * one at which a check may end too early or too late; two words, swapped; a section with other records than before;
 * an image that ends early.
 */
#ifndef MUTATE_H
#define MUTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MUTATE_HEADER	32
#define MUTATE_ENTRY	24
#define MUTATE_SECTIONS	22
#define MUTATE_STANDARD	7	/* the many slots of standard identifiers */
#define MUTATE_SLOTS	13
/* Bytes that an image may get longer, once. */
#define MUTATE_GROWTH	2048

static uint64_t mutate_state = 1;

static uint32_t any(void)
{
	mutate_state ^= mutate_state << 13;
	mutate_state ^= mutate_state >> 7;
	mutate_state ^= mutate_state << 17;
	return mutate_state >> 16;
}

static void mutate_seed(uint64_t seed)
{
	mutate_state = seed | 1;
}

/* Four bytes at a time: most of the time of a test is this. */
static uint32_t mutate_crc32(const uint8_t *bytes, size_t length)
{
	static uint32_t table[4][256];
	uint32_t crc = ~0u, i, bit;
	size_t at = 0;

	for (i = 0; i < 256 && !table[0][255]; i++) {
		uint32_t value = i;

		for (bit = 0; bit < 8; bit++)
			value = value & 1 ? value >> 1 ^ 0xedb88320u : value >> 1;
		table[0][i] = value;
	}
	for (i = 0; i < 256 && !table[3][255]; i++) {
		table[1][i] = table[0][i] >> 8 ^ table[0][table[0][i] & 0xff];
		table[2][i] = table[1][i] >> 8 ^ table[0][table[1][i] & 0xff];
		table[3][i] = table[2][i] >> 8 ^ table[0][table[2][i] & 0xff];
	}
	for (; at + 4 <= length; at += 4) {
		uint32_t word;

		memcpy(&word, bytes + at, 4);
		crc ^= word;
		crc = table[3][crc & 0xff] ^ table[2][crc >> 8 & 0xff] ^ table[1][crc >> 16 & 0xff] ^
		      table[0][crc >> 24];
	}
	for (; at < length; at++)
		crc = crc >> 8 ^ table[0][(crc ^ bytes[at]) & 0xff];
	return ~crc;
}

struct mutate_section {
	uint32_t record;
	uint64_t begin;
	uint32_t count;
};

/* false: it is not inside of the image. */
static bool mutate_section(const uint8_t *bytes, size_t length, uint32_t kind, struct mutate_section *section)
{
	const uint8_t *entry = bytes + MUTATE_HEADER + (kind - 1) * MUTATE_ENTRY;

	if (length < MUTATE_HEADER + MUTATE_SECTIONS * MUTATE_ENTRY)
		return false;
	memcpy(&section->record, entry + 4, 4);
	memcpy(&section->begin, entry + 8, 8);
	memcpy(&section->count, entry + 16, 4);
	return section->record && section->record < length && section->begin < length &&
	       (uint64_t)section->count * section->record <= length - section->begin;
}

static uint32_t mutate_number(uint32_t before)
{
	static const uint32_t edges[] = { 0, 1, 2, 31, 32, 63, 64, 65, 0xff, 0x100, 0xfff, 0x1000, 0xffff,
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

/* Seven of eight places are in a section of any size or in the table of them, not in the many slots. */
static size_t mutate_place(const uint8_t *bytes, size_t length)
{
	uint32_t kind = 1 + any() % MUTATE_SECTIONS;
	struct mutate_section section;

	if (any() % 16 == 0)
		return MUTATE_HEADER + (kind - 1) * MUTATE_ENTRY + any() % MUTATE_ENTRY;
	if (any() % 8 && kind != MUTATE_STANDARD && mutate_section(bytes, length, kind, &section) && section.count)
		return section.begin + any() % ((uint64_t)section.count * section.record);
	return any() % length;
}

/*
 * One section gets other records, up to four more or fewer: the others move, and the table is right. New ones are
 * like the first. The new length; the image has room for MUTATE_GROWTH more.
 */
static size_t mutate_count(uint8_t *bytes, size_t length)
{
	uint32_t kind = 1 + any() % MUTATE_SECTIONS, count, i;
	size_t old_end, new_end, moved;
	struct mutate_section section;

	if (!mutate_section(bytes, length, kind, &section))
		return length;
	count = any() % 8 ? section.count + 4 - any() % 9 : any() % (section.count + 1);
	if (count > section.count + 4)
		count = 0;
	old_end = (section.begin + (size_t)section.count * section.record + 7) & ~7ull;
	new_end = (section.begin + (size_t)count * section.record + 7) & ~7ull;
	if (old_end > length || (new_end > old_end && new_end - old_end > MUTATE_GROWTH))
		return length;
	memmove(bytes + new_end, bytes + old_end, length - old_end);
	moved = section.begin + (size_t)(count < section.count ? count : section.count) * section.record;
	memset(bytes + moved, 0, new_end - moved);
	for (i = section.count; section.count && i < count; i++)
		memcpy(bytes + section.begin + (size_t)i * section.record, bytes + section.begin, section.record);
	memcpy(bytes + MUTATE_HEADER + (kind - 1) * MUTATE_ENTRY + 16, &count, 4);
	for (i = kind; i < MUTATE_SECTIONS; i++) {
		uint8_t *begin = bytes + MUTATE_HEADER + i * MUTATE_ENTRY + 8;
		uint64_t value;

		memcpy(&value, begin, 8);
		value += new_end - old_end;
		memcpy(begin, &value, 8);
	}
	return length + new_end - old_end;
}

static void mutate_swap(uint8_t *bytes, size_t length)
{
	size_t a = mutate_place(bytes, length) & ~3ull, b = mutate_place(bytes, length) & ~3ull;
	uint32_t word;

	/* Neighbours more often: they are of one record. */
	if (any() % 2)
		b = a + 4;
	if (a + 4 > length || b + 4 > length)
		return;
	memcpy(&word, bytes + a, 4);
	memcpy(bytes + a, bytes + b, 4);
	memcpy(bytes + b, &word, 4);
}

/* Damages an image in memory for MUTATE_GROWTH more; its new length. */
static size_t mutate(uint8_t *bytes, size_t length)
{
	uint32_t changes = 1 + any() % 3, i, value;
	uint64_t says;
	size_t at;

	for (i = 0; i < changes; i++) {
		switch (any() % 16) {
		case 0 ... 4:
			bytes[mutate_place(bytes, length)] = any();
			break;
		case 5 ... 9:
			at = mutate_place(bytes, length) & ~3ull;
			if (at + 4 > length)
				break;
			memcpy(&value, bytes + at, 4);
			value = mutate_number(value);
			memcpy(bytes + at, &value, 4);
			break;
		case 10 ... 12:
			mutate_swap(bytes, length);
			break;
		case 13 ... 14:
			/* Once, or it may outgrow its memory. */
			if (i == 0)
				length = mutate_count(bytes, length);
			break;
		default:
			if (any() % 4)
				break;
			length = any() % 2 ? any() % (length + 1) : length - any() % (length < 64 ? length + 1 : 64);
			says = length;
			if (length >= 24)
				memcpy(bytes + 16, &says, 8);
		}
		if (length < MUTATE_HEADER + MUTATE_SECTIONS * MUTATE_ENTRY)
			break;
	}
	if (length >= 16) {
		value = mutate_crc32(bytes + 16, length - 16);
		memcpy(bytes + 12, &value, 4);
	}
	return length;
}

/* An identifier word: one that the tables have, or any. */
static inline uint32_t mutate_identifier(const uint8_t *bytes, size_t length)
{
	struct mutate_section slots;
	uint32_t key;

	if (any() % 2 || !mutate_section(bytes, length, MUTATE_SLOTS, &slots) || !slots.count || slots.record < 4)
		return any();
	memcpy(&key, bytes + slots.begin + (uint64_t)(any() % slots.count) * slots.record, 4);
	return key | 0x80000000u;
}

#endif
