// SPDX-License-Identifier: GPL-2.0-only
/*
 * Compiled rules: the checks, the look-up, the operations. The engine of Candor is the reference
 * (crates/engine); both decide alike about every frame.
 *
 * What is checked bounds the steps of each loop, and their sum for one frame. A match that is sorted in is
 * compared with those before it, and may move each of them once: one step for both.
 */
#include "image.h"

#define HEADER_BYTES	32
#define ENTRY_BYTES	24
#define CHECKED_FROM	16
#define STANDARD_SLOTS	4096
#define SINGLE		0x80000000u	/* a short reference to one match */
#define GROUPS_MOST	64
#define TOO_MUCH	"a frame may meet rules with too much work"

static const u16 record_bytes[IMAGE_SECTIONS] = {
	[IMAGE_BUSES] = 24, [IMAGE_STRINGS] = 1, [IMAGE_RULES] = 24, [IMAGE_JOBS] = 24,
	[IMAGE_EXCLUSIONS] = 12, [IMAGE_MATCHERS] = 64, [IMAGE_STANDARD] = 4, [IMAGE_LISTS] = 8,
	[IMAGE_MATCHES] = 8, [IMAGE_CLUSTERS] = 24, [IMAGE_CANDIDATES] = 16, [IMAGE_GROUPS] = 16,
	[IMAGE_SLOTS] = 8, [IMAGE_INVERTED] = 20, [IMAGE_ERRORS] = 20, [IMAGE_EDITS] = 324,
	[IMAGE_EXTENSIONS] = 136, [IMAGE_PATTERNS] = 132, [IMAGE_LENGTHS] = 2,
	[IMAGE_ACTIONS] = 136, [IMAGE_REMAPS] = 8, [IMAGE_CRC_TABLES] = 256,
};

_Static_assert(sizeof(struct image_rule) == 24 && sizeof(struct image_job) == 24 &&
	       sizeof(struct image_filter) == 12 && sizeof(struct image_matcher) == 64 &&
	       sizeof(struct image_cluster) == 24 && sizeof(struct image_candidate) == 16 &&
	       sizeof(struct image_group) == 16 && sizeof(struct image_inverted) == 20 &&
	       sizeof(struct image_edit) == 324, "records are as docs/program-image.md says");

/* ---- Checks ------------------------------------------------------------------------------- */

static bool refuse(struct candor_image_error *error, u32 section, u32 record, const char *reason)
{
	*error = (struct candor_image_error){ section, record, reason };
	return false;
}

static u32 u32_at(const u8 *bytes, size_t at)
{
	return bytes[at] | bytes[at + 1] << 8 | bytes[at + 2] << 16 | (u32)bytes[at + 3] << 24;
}

static u64 u64_at(const u8 *bytes, size_t at)
{
	return u32_at(bytes, at) | (u64)u32_at(bytes, at + 4) << 32;
}

/* Others have the processor again after so many bytes or records. */
#define PAUSE_BYTES	65536
#define PAUSE_RECORDS	4096

/* Polynomial 0x04C11DB7, reflected, half a byte at a time. */
static u32 crc32_of(const u8 *bytes, size_t length)
{
	u32 table[16], crc = ~0u, i, bit;
	size_t at;

	for (i = 0; i < 16; i++) {
		table[i] = i;
		for (bit = 0; bit < 4; bit++)
			table[i] = table[i] & 1 ? table[i] >> 1 ^ 0xedb88320u : table[i] >> 1;
	}
	for (at = 0; at < length; at++) {
		if (!(at % PAUSE_BYTES))
			image_pause();
		crc ^= bytes[at];
		crc = crc >> 4 ^ table[crc & 15];
		crc = crc >> 4 ^ table[crc & 15];
	}
	return ~crc;
}

static bool check_sections(struct candor_image *image, const u8 *bytes, size_t length,
			   const u8 *sections[IMAGE_SECTIONS], struct candor_image_error *error)
{
	u64 end = HEADER_BYTES + ENTRY_BYTES * (IMAGE_SECTIONS - 1);
	u32 kind;

	if (length < end)
		return refuse(error, 0, 0, "the image ends within its table of sections");
	if (memcmp(bytes, "CANDORPG", 8))
		return refuse(error, 0, 0, "this is no program image");
	if (u32_at(bytes, 8) != 2)
		return refuse(error, 0, 0, "the image has another version than 2");
	if (u64_at(bytes, 16) != length)
		return refuse(error, 0, 0, "the image has another length than it says");
	if (u32_at(bytes, 12) != crc32_of(bytes + CHECKED_FROM, length - CHECKED_FROM))
		return refuse(error, 0, 0, "the image is damaged: its CRC-32 is another one");
	if (u32_at(bytes, 24) != IMAGE_SECTIONS - 1 || !bytes[28])
		return refuse(error, 0, 0, "the header has other sections, or no max_hops");
	for (kind = 1; kind < IMAGE_SECTIONS; kind++) {
		size_t at = HEADER_BYTES + (kind - 1) * ENTRY_BYTES;
		u32 count = u32_at(bytes, at + 16);

		end = (end + 7) & ~7ull;
		if (u32_at(bytes, at) != kind || u32_at(bytes, at + 4) != record_bytes[kind])
			return refuse(error, kind, 0, "the section is not at its place, or has other records");
		if (u64_at(bytes, at + 8) != end)
			return refuse(error, kind, 0, "the section begins elsewhere");
		if (end > length || (u64)count * record_bytes[kind] > length - end)
			return refuse(error, kind, 0, "the section goes beyond the image");
		sections[kind] = bytes + end;
		image->counts[kind] = count;
		end += (u64)count * record_bytes[kind];
	}
	if (((end + 7) & ~7ull) != length)
		return refuse(error, 0, 0, "the image is longer than its sections");
	return true;
}

/* What is known while an image is checked. */
struct check {
	struct candor_image *image;
	struct candor_image_error *error;
	u32 used[IMAGE_SECTIONS];	/* records that extents had so far */
	u32 *list_steps;	/* the most steps of each list, at most CANDOR_IMAGE_STEPS + 1 */
	u32 exclusions;	/* the most of a rule */
};

/* Extents of a section follow each other, so that no record is checked twice. */
static bool is_next(struct check *check, struct image_extent extent, u32 section)
{
	u32 first = le32_to_cpu(extent.first), count = le32_to_cpu(extent.count);

	if (first != check->used[section] || count > check->image->counts[section] - first)
		return false;
	check->used[section] += count;
	return true;
}

static u32 steps_of_edit(const struct image_edit *edit)
{
	u32 has = le32_to_cpu(edit->has);

	return IMAGE_OPERATORS * CANDOR_STEPS_OPERAND + (has & IMAGE_HAS_CRC8 ? 9 : 0) +
	       (has & IMAGE_HAS_XOR ? 8 : 0);
}

/* The most steps of a rule that was checked: itself, its operations, its copies. */
static u32 steps_of(const struct candor_image *image, u32 number)
{
	const struct image_rule *rule = &image->rules[number];
	u32 edit = le32_to_cpu(rule->edit);

	return CANDOR_STEPS_RULE + (edit == IMAGE_NONE ? 0 : steps_of_edit(&image->edits[edit])) +
	       le16_to_cpu(rule->jobs) * CANDOR_STEPS_COPY;
}

static bool check_edits(const struct candor_image *image, struct candor_image_error *error)
{
	u32 i;

	for (i = 0; i < image->counts[IMAGE_EDITS]; i++) {
		const struct image_crc8 *crc8 = &image->edits[i].crc8;

		if (!(le32_to_cpu(image->edits[i].has) & IMAGE_HAS_CRC8))
			continue;
		if (le32_to_cpu(crc8->table) >= image->counts[IMAGE_CRC_TABLES])
			return refuse(error, IMAGE_EDITS, i, "its CRC8 names a table that is not there");
		if (crc8->profile >= IMAGE_CRC8_PROFILES)
			return refuse(error, IMAGE_EDITS, i, "its CRC8 has an unknown profile");
	}
	return true;
}

static bool check_rules(struct check *check)
{
	struct candor_image_error *error = check->error;
	struct candor_image *image = check->image;
	u32 buses = image->counts[IMAGE_BUSES], next = 0, i, job;

	for (i = 0; i < image->counts[IMAGE_RULES]; i++) {
		const struct image_rule *rule = &image->rules[i];
		u32 jobs = le16_to_cpu(rule->jobs), edit = le32_to_cpu(rule->edit);

		if (!(i % PAUSE_RECORDS))
			image_pause();
		if (le32_to_cpu(rule->extension) != IMAGE_NONE)
			return refuse(error, IMAGE_RULES, i, "the rule does more than can-gw can");
		if (le32_to_cpu(rule->first_job) != next || jobs > image->counts[IMAGE_JOBS] - next)
			return refuse(error, IMAGE_RULES, i, "the rule has jobs that are not there");
		if (edit != IMAGE_NONE && edit >= image->counts[IMAGE_EDITS])
			return refuse(error, IMAGE_RULES, i, "the rule has an edit that is not there");
		if (!is_next(check, rule->exclusions, IMAGE_EXCLUSIONS))
			return refuse(error, IMAGE_RULES, i, "the rule has exclusions that are not there, or another's");
		if (le32_to_cpu(rule->exclusions.count) > check->exclusions)
			check->exclusions = le32_to_cpu(rule->exclusions.count);
		for (job = next; job < next + jobs; job++) {
			if (le32_to_cpu(image->jobs[job].rule) != i)
				return refuse(error, IMAGE_JOBS, job, "the job is of another rule");
			if (le16_to_cpu(image->jobs[job].to) >= buses)
				return refuse(error, IMAGE_JOBS, job, "the job goes to a bus that is not there");
			if (image->jobs[job].from != image->jobs[next].from)
				return refuse(error, IMAGE_JOBS, job, "the jobs of a rule have several sources");
		}
		image->has_echo |= rule->flags & IMAGE_RULE_ECHO;
		next += jobs;
	}
	if (next != image->counts[IMAGE_JOBS])
		return refuse(error, IMAGE_JOBS, next, "the job is of no rule");
	return true;
}

/* What is known of a bus while its matcher is checked. */
struct bus {
	struct check *check;
	const struct candor_image *image;
	struct candor_image_error *error;
	u32 number;
	struct image_extent lists;
	struct image_extent matches;
};

static const struct image_extent *list_of(const struct bus *bus, u32 number)
{
	return &bus->image->lists[le32_to_cpu(bus->lists.first) + number];
}

static const struct image_match *match_of(const struct bus *bus, u32 number)
{
	return &bus->image->matches[le32_to_cpu(bus->matches.first) + number];
}

static bool is_match(const struct bus *bus, const struct image_match *match)
{
	const struct candor_image *image = bus->image;
	u32 rule = le32_to_cpu(match->rule);

	/* A rule without copies has no source. */
	return rule < image->counts[IMAGE_RULES] && image->rules[rule].jobs &&
	       le16_to_cpu(image->jobs[le32_to_cpu(image->rules[rule].first_job)].from) ==
		       bus->number;
}

/* A short reference: one match of the bus, or the number of one of its lists. */
static bool is_reference(const struct bus *bus, u32 reference)
{
	if (reference & SINGLE)
		return (reference & ~SINGLE) < le32_to_cpu(bus->matches.count);
	return reference < le32_to_cpu(bus->lists.count);
}

/* How many matches a short reference stands for, and the most steps of their rules. */
static u32 matches_of(const struct bus *bus, u32 reference, u32 *steps)
{
	if (reference & SINGLE) {
		*steps = steps_of(bus->image, le32_to_cpu(match_of(bus, reference & ~SINGLE)->rule));
		return 1;
	}
	*steps = bus->check->list_steps[le32_to_cpu(bus->lists.first) + reference];
	return le32_to_cpu(list_of(bus, reference)->count);
}

/* A table of 2^(32 - shift) records. */
static bool is_table(u32 shift, struct image_extent extent)
{
	return shift >= 1 && shift <= 31 && le32_to_cpu(extent.count) == 1u << (32 - shift);
}

/* The most rules, and their steps, that a look-up in the group finds. */
static bool check_group(struct bus *bus, u32 number, u32 *most, u32 *steps)
{
	const struct candor_image *image = bus->image;
	const struct image_group *group = &image->groups[number];
	u32 i, first = le32_to_cpu(group->slots.first);

	*most = 0;
	*steps = 0;
	if (!is_next(bus->check, group->slots, IMAGE_SLOTS) ||
	    !is_table(le32_to_cpu(group->shift), group->slots))
		return refuse(bus->error, IMAGE_GROUPS, number, "its table is not there, or has another size");
	for (i = first; i < first + le32_to_cpu(group->slots.count); i++) {
		u32 reference = le32_to_cpu(image->slots[i].list), count, more;

		if (!(i % PAUSE_RECORDS))
			image_pause();
		if (!image->slots[i].key)
			continue;
		if (!is_reference(bus, reference))
			return refuse(bus->error, IMAGE_SLOTS, i, "it names a list that is not there");
		count = matches_of(bus, reference, &more);
		*most = count > *most ? count : *most;
		*steps = more > *steps ? more : *steps;
	}
	return true;
}

/* Adds the most rules, and the steps, of one frame with an extended identifier. */
static bool check_clusters(struct bus *bus, struct image_extent clusters, u32 *most, u32 *steps)
{
	const struct candor_image *image = bus->image;
	u32 first = le32_to_cpu(clusters.first), i, g;

	for (i = first; i < first + le32_to_cpu(clusters.count); i++) {
		const struct image_cluster *cluster = &image->clusters[i];
		u32 group = le32_to_cpu(cluster->groups.first);
		u32 groups = le32_to_cpu(cluster->groups.count);

		if (!is_next(bus->check, cluster->groups, IMAGE_GROUPS) || !groups || groups > GROUPS_MOST)
			return refuse(bus->error, IMAGE_CLUSTERS, i, "it has no groups, too many, or such that are not there");
		if (!is_next(bus->check, cluster->candidates, IMAGE_CANDIDATES) ||
		    (groups > 1 && !is_table(le32_to_cpu(cluster->shift), cluster->candidates)))
			return refuse(bus->error, IMAGE_CLUSTERS, i, "its table is not there, or has another size");
		*steps += 1;
		for (g = group; g < group + groups; g++) {
			u32 longest, more;

			if (!check_group(bus, g, &longest, &more))
				return false;
			*most += longest;
			*steps += 1 + more;
			if (*most > CANDOR_IMAGE_MATCHES || *steps > CANDOR_IMAGE_STEPS)
				return refuse(bus->error, IMAGE_CLUSTERS, i, "an extended identifier may meet too many rules");
		}
	}
	return true;
}

static bool check_inverted(const struct bus *bus, struct image_extent inverted, u32 *most,
			   u32 *steps)
{
	u32 first = le32_to_cpu(inverted.first), count = le32_to_cpu(inverted.count), i;

	if (count > CANDOR_IMAGE_MATCHES - *most)
		return refuse(bus->error, IMAGE_INVERTED, first, "an extended identifier may meet too many rules");
	*most += count;
	for (i = first; i < first + count; i++) {
		const struct image_match *match = &bus->image->inverted[i].match;

		if (!is_match(bus, match))
			return refuse(bus->error, IMAGE_INVERTED, i, "its rule is not there, or of another bus");
		*steps += 1 + steps_of(bus->image, le32_to_cpu(match->rule));
	}
	return true;
}

/* Adds up each list once, however many identifiers have it. */
static bool check_lists(struct bus *bus)
{
	u32 first = le32_to_cpu(bus->lists.first), matches = le32_to_cpu(bus->matches.count);
	u32 next = 0, i, m;

	for (i = 0; i < matches; i++) {
		if (!is_match(bus, match_of(bus, i)))
			return refuse(bus->error, IMAGE_MATCHES, le32_to_cpu(bus->matches.first) + i,
				      "its rule is not there, or of another bus");
	}
	for (i = 0; i < le32_to_cpu(bus->lists.count); i++) {
		u32 count = le32_to_cpu(list_of(bus, i)->count), steps = 0;

		if (!(i % PAUSE_RECORDS))
			image_pause();
		if (le32_to_cpu(list_of(bus, i)->first) != next || count > matches - next)
			return refuse(bus->error, IMAGE_LISTS, first + i,
				      "it has matches that are not there, or another's");
		for (m = next; m < next + count; m++) {
			steps += steps_of(bus->image, le32_to_cpu(match_of(bus, m)->rule));
			if (steps > CANDOR_IMAGE_STEPS)
				steps = CANDOR_IMAGE_STEPS + 1;
		}
		bus->check->list_steps[first + i] = steps;
		next += count;
	}
	return true;
}

/* The most steps of a frame with a standard identifier. */
static bool check_standard(struct bus *bus, u32 *most)
{
	u32 i, steps;

	*most = 0;
	for (i = 0; i < STANDARD_SLOTS; i++) {
		u32 at = bus->number * STANDARD_SLOTS + i;
		u32 reference = le32_to_cpu(bus->image->standard[at]);

		if (!is_reference(bus, reference))
			return refuse(bus->error, IMAGE_STANDARD, at, "it names a list that is not there");
		matches_of(bus, reference, &steps);
		/* With the look-up. */
		if (++steps > CANDOR_IMAGE_STEPS)
			return refuse(bus->error, IMAGE_STANDARD, at, TOO_MUCH);
		*most = steps > *most ? steps : *most;
	}
	return true;
}

static bool check_matcher(struct check *check, u32 number)
{
	struct candor_image_error *error = check->error;
	struct candor_image *image = check->image;
	const struct image_matcher *matcher = &image->matchers[number];
	struct bus bus = {
		.check = check,
		.image = image,
		.error = error,
		.number = number,
		.lists = matcher->lists,
		.matches = matcher->matches,
	};
	u32 most = 0, steps = 1, standard;

	image_pause();
	if (matcher->errors.count)
		return refuse(error, IMAGE_ERRORS, le32_to_cpu(matcher->errors.first),
			      "the rule takes error reports");
	if (!is_next(check, matcher->lists, IMAGE_LISTS) ||
	    !is_next(check, matcher->matches, IMAGE_MATCHES) ||
	    !is_next(check, matcher->clusters, IMAGE_CLUSTERS) ||
	    !is_next(check, matcher->inverted, IMAGE_INVERTED))
		return refuse(error, IMAGE_MATCHERS, number, "it has records that are not there, or another's");
	if (!check_lists(&bus) || !check_standard(&bus, &standard) ||
	    !check_clusters(&bus, matcher->clusters, &most, &steps) ||
	    !check_inverted(&bus, matcher->inverted, &most, &steps))
		return false;
	/* Each match is compared with those before it when it is sorted in. */
	steps += most * (most + 1) / 2;
	if (steps > CANDOR_IMAGE_STEPS ||
	    (most && check->exclusions > (CANDOR_IMAGE_STEPS - steps) / most))
		return refuse(error, IMAGE_MATCHERS, number, TOO_MUCH);
	steps += most * check->exclusions;
	if (standard > steps)
		steps = standard;
	if (steps > image->steps)
		image->steps = steps;
	return true;
}

/**
 * candor_image_check - whether an image can be used
 * @image: what is to be used, if so
 * @bytes: the image, at a multiple of 8, which is used for as long as @image is
 * @length: of it in bytes
 * @room: for the check alone, CANDOR_IMAGE_ROOM(@length) bytes
 * @error: else why not
 *
 * Looks at each byte and record a few times, so it takes a time that grows with @length, whatever is in it.
 */
bool candor_image_check(struct candor_image *image, const void *bytes, size_t length, void *room,
			struct candor_image_error *error)
{
	struct check check = { .image = image, .error = error, .list_steps = room };
	const u8 *sections[IMAGE_SECTIONS] = {};
	u32 i;

	*image = (struct candor_image){};
	if (!check_sections(image, bytes, length, sections, error))
		return false;
	image->max_hops = ((const u8 *)bytes)[28];
	image->rules = (const void *)sections[IMAGE_RULES];
	image->jobs = (const void *)sections[IMAGE_JOBS];
	image->exclusions = (const void *)sections[IMAGE_EXCLUSIONS];
	image->matchers = (const void *)sections[IMAGE_MATCHERS];
	image->standard = (const void *)sections[IMAGE_STANDARD];
	image->lists = (const void *)sections[IMAGE_LISTS];
	image->matches = (const void *)sections[IMAGE_MATCHES];
	image->clusters = (const void *)sections[IMAGE_CLUSTERS];
	image->candidates = (const void *)sections[IMAGE_CANDIDATES];
	image->groups = (const void *)sections[IMAGE_GROUPS];
	image->slots = (const void *)sections[IMAGE_SLOTS];
	image->inverted = (const void *)sections[IMAGE_INVERTED];
	image->edits = (const void *)sections[IMAGE_EDITS];
	image->crc_tables = (const void *)sections[IMAGE_CRC_TABLES];
	if (image->counts[IMAGE_BUSES] > 65536)
		return refuse(error, IMAGE_BUSES, 0, "there are too many buses");
	if (image->counts[IMAGE_MATCHERS] != image->counts[IMAGE_BUSES] ||
	    image->counts[IMAGE_STANDARD] != image->counts[IMAGE_BUSES] * STANDARD_SLOTS)
		return refuse(error, IMAGE_MATCHERS, 0, "not every bus has one");
	if (!check_edits(image, error) || !check_rules(&check))
		return false;
	for (i = 0; i < image->counts[IMAGE_BUSES]; i++) {
		if (!check_matcher(&check, i))
			return false;
	}
	if (image->has_echo)
		image->steps *= 1 + CANDOR_IMAGE_HOPS;
	return true;
}

/* ---- The look-up -------------------------------------------------------------------------- */

static bool takes(const struct image_filter *filter, u32 word)
{
	u32 id = le32_to_cpu(filter->id), mask = le32_to_cpu(filter->mask);

	/* Of error reports there are none here. */
	if (mask & IMAGE_ERROR)
		return false;
	return ((word & mask) == id) != !!filter->inverted;
}

static bool is_excluded(const struct candor_image *image, u32 rule, u32 word, u32 *steps)
{
	struct image_extent exclusions = image->rules[rule].exclusions;
	u32 first = le32_to_cpu(exclusions.first), i;

	for (i = first; i < first + le32_to_cpu(exclusions.count); i++) {
		++*steps;
		if (takes(&image->exclusions[i], word))
			return true;
	}
	return false;
}

/* By list of the kernel, then rule, then position. */
static bool is_before(const struct image_match *a, const struct image_match *b)
{
	u32 place_a = le32_to_cpu(a->place), place_b = le32_to_cpu(b->place);

	if (place_a >> 29 != place_b >> 29)
		return place_a >> 29 < place_b >> 29;
	if (a->rule != b->rule)
		return le32_to_cpu(a->rule) < le32_to_cpu(b->rule);
	return place_a < place_b;
}

/* Sorts a match in, unless its rule is there already with an earlier one. How many there are. */
static u32 sort_in(struct image_match *room, u32 count, const struct image_match *match, u32 *steps)
{
	u32 at = count, i;

	for (i = 0; i < count; i++) {
		++*steps;
		if (room[i].rule == match->rule) {
			if (!is_before(match, &room[i]))
				return count;
			at = i;
			count--;
			break;
		}
	}
	/* What stands at `at` is overwritten: nothing, or the later match of the rule. */
	while (at > 0 && is_before(match, &room[at - 1])) {
		room[at] = room[at - 1];
		at--;
	}
	room[at] = *match;
	return count + 1;
}

static u32 key_slots(u32 key, u32 shift, u32 slots[2])
{
	slots[0] = (u32)(key * 0x9e3779b9u) >> shift;
	slots[1] = (u32)(key * 0x85ebca6bu) >> shift;
	return key;
}

static u64 candidates_of(const struct candor_image *image, const struct image_cluster *cluster,
			 u32 word)
{
	const struct image_candidate *table;
	u32 slots[2], key;

	if (le32_to_cpu(cluster->groups.count) == 1)
		return 1;
	table = &image->candidates[le32_to_cpu(cluster->candidates.first)];
	key = key_slots(word & le32_to_cpu(cluster->mask), le32_to_cpu(cluster->shift), slots);
	if (le32_to_cpu(table[slots[0]].key) == key)
		return le64_to_cpu(table[slots[0]].groups);
	if (le32_to_cpu(table[slots[1]].key) == key)
		return le64_to_cpu(table[slots[1]].groups);
	return 0;
}

/* The matches that a short reference stands for. */
static u32 resolve(const struct candor_image *image, const struct image_matcher *matcher,
		   u32 reference, const struct image_match **found)
{
	const struct image_match *matches = &image->matches[le32_to_cpu(matcher->matches.first)];
	const struct image_extent *list;

	if (reference & SINGLE) {
		*found = &matches[reference & ~SINGLE];
		return 1;
	}
	list = &image->lists[le32_to_cpu(matcher->lists.first) + reference];
	*found = &matches[le32_to_cpu(list->first)];
	return le32_to_cpu(list->count);
}

static u32 add_of_group(const struct candor_image *image, const struct image_matcher *matcher,
			const struct image_group *group, u32 word, struct image_match *room,
			u32 count, u32 *steps)
{
	const struct image_slot *table = &image->slots[le32_to_cpu(group->slots.first)];
	const struct image_match *found;
	const struct image_slot *slot;
	u32 slots[2], key, n, i;

	++*steps;
	key = key_slots(word & le32_to_cpu(group->mask), le32_to_cpu(group->shift), slots);
	slot = &table[slots[0]];
	if (le32_to_cpu(slot->key) != key)
		slot = &table[slots[1]];
	/* A free slot has no list; keys are never 0, since masks have EFF. */
	if (!key || le32_to_cpu(slot->key) != key)
		return count;
	n = resolve(image, matcher, le32_to_cpu(slot->list), &found);
	for (i = 0; i < n; i++) {
		++*steps;
		if (!is_excluded(image, le32_to_cpu(found[i].rule), word, steps))
			count = sort_in(room, count, &found[i], steps);
	}
	return count;
}

/**
 * candor_image_standard - the rules that a frame with a standard identifier meets, as they fire
 * @image: checked
 * @bus: on which the frame came
 * @word: its identifier word
 * @found: the first
 * @steps: to which steps are added
 *
 * Returns how many.
 */
u32 candor_image_standard(const struct candor_image *image, u32 bus, u32 word,
			  const struct image_match **found, u32 *steps)
{
	u32 slot = (word & 0x7ff) | (word & IMAGE_REMOTE) >> 19;

	++*steps;
	return resolve(image, &image->matchers[bus],
		       le32_to_cpu(image->standard[bus * STANDARD_SLOTS + slot]), found);
}

/**
 * candor_image_extended - the same for an extended identifier
 * @image: checked
 * @bus: on which the frame came
 * @word: its identifier word
 * @room: where they are put
 * @steps: to which steps are added
 *
 * Returns how many.
 */
u32 candor_image_extended(const struct candor_image *image, u32 bus, u32 word,
			  struct image_match room[CANDOR_IMAGE_MATCHES], u32 *steps)
{
	const struct image_matcher *matcher = &image->matchers[bus];
	u32 count = 0, i;

	++*steps;
	for (i = 0; i < le32_to_cpu(matcher->clusters.count); i++) {
		const struct image_cluster *cluster =
			&image->clusters[le32_to_cpu(matcher->clusters.first) + i];
		const struct image_group *groups =
			&image->groups[le32_to_cpu(cluster->groups.first)];
		u64 candidates = candidates_of(image, cluster, word) &
				 ~0ull >> (GROUPS_MOST - le32_to_cpu(cluster->groups.count));

		++*steps;
		for (; candidates; candidates &= candidates - 1)
			count = add_of_group(image, matcher, &groups[__builtin_ctzll(candidates)],
					     word, room, count, steps);
	}
	for (i = 0; i < le32_to_cpu(matcher->inverted.count); i++) {
		const struct image_inverted *inverted =
			&image->inverted[le32_to_cpu(matcher->inverted.first) + i];

		++*steps;
		if (takes(&inverted->filter, word) &&
		    !is_excluded(image, le32_to_cpu(inverted->match.rule), word, steps))
			count = sort_in(room, count, &inverted->match, steps);
	}
	return count;
}

/* ---- Operations --------------------------------------------------------------------------- */

static u32 operate(u32 operator, u32 value, u32 operand)
{
	switch (operator) {
	case IMAGE_AND:
		return value & operand;
	case IMAGE_OR:
		return value | operand;
	case IMAGE_XOR:
		return value ^ operand;
	default:
		return operand;
	}
}

/* Indices from the end count from the length after the operations. */
static bool index_of(s8 index, u8 len, u32 *at)
{
	int found = index < 0 ? (len < 8 ? len : 8) + index : index;

	*at = found;
	return found >= 0 && found < 8;
}

static bool resolve_range(struct image_range range, u8 len, u32 *from, u32 *to, u32 *result)
{
	return index_of(range.from, len, from) && index_of(range.to, len, to) &&
	       index_of(range.result, len, result);
}

static void set_crc8(const struct candor_image *image, const struct image_crc8 *crc8,
		     struct candor_image_frame *frame, u32 *steps)
{
	const u8 *table = image->crc_tables[le32_to_cpu(crc8->table)];
	u32 from, to, result, at;
	u8 crc = crc8->init;

	if (!resolve_range(crc8->range, frame->len, &from, &to, &result))
		return;
	for (at = from;; at += from <= to ? 1 : -1) {
		++*steps;
		crc = table[crc ^ frame->data[at]];
		if (at == to)
			break;
	}
	++*steps;
	switch (crc8->profile) {
	case IMAGE_CRC8_BYTE:
		crc = table[crc ^ crc8->byte];
		break;
	case IMAGE_CRC8_COUNTER:
		crc = table[crc ^ crc8->bytes[frame->data[1] & 0x0f]];
		break;
	case IMAGE_CRC8_ID:
		crc = table[crc ^ (u8)(frame->id ^ frame->id >> 8)];
		break;
	}
	frame->data[result] = crc ^ crc8->final_xor;
}

static void set_xor(const struct image_xor *xor, struct candor_image_frame *frame, u32 *steps)
{
	u32 from, to, result, at;
	u8 sum = xor->init;

	if (!resolve_range(xor->range, frame->len, &from, &to, &result))
		return;
	for (at = from;; at += from <= to ? 1 : -1) {
		++*steps;
		sum ^= frame->data[at];
		if (at == to)
			break;
	}
	frame->data[result] = sum;
}

/**
 * candor_image_edit - rewrites a frame
 * @image: checked
 * @number: the record of the edit
 * @frame: to be rewritten; its length may be a DLC up to 15 afterwards
 * @steps: to which steps are added
 *
 * Returns false if the frame is too long then.
 */
bool candor_image_edit(const struct candor_image *image, u32 number,
		       struct candor_image_frame *frame, u32 *steps)
{
	const struct image_edit *edit = &image->edits[number];
	u32 operator, i;

	for (operator = 0; operator < IMAGE_OPERATORS; operator++) {
		const struct image_operands *operands = &edit->operands[operator];

		*steps += CANDOR_STEPS_OPERAND;
		if (operands->has & IMAGE_HAS_ID)
			frame->id = operate(operator, frame->id, le32_to_cpu(operands->id));
		if (operands->has & IMAGE_HAS_LEN)
			frame->len = operate(operator, frame->len, operands->len);
		if (operands->has & IMAGE_HAS_DATA) {
			for (i = 0; i < 8; i++)
				frame->data[i] = operate(operator, frame->data[i], operands->data[i]);
		}
	}
	if (frame->len > 15)
		return false;
	if (le32_to_cpu(edit->has) & IMAGE_HAS_CRC8)
		set_crc8(image, &edit->crc8, frame, steps);
	if (le32_to_cpu(edit->has) & IMAGE_HAS_XOR)
		set_xor(&edit->xor, frame, steps);
	return true;
}
