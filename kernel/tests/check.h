/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Checks of the tests that run in a guest: a line for each that failed.
 */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

static unsigned int passed, failed;
static const char *test;

#define CHECK(condition) check(condition, #condition, __LINE__)

static bool check(bool holds, const char *text, int line)
{
	int err = errno;

	__atomic_fetch_add(holds ? &passed : &failed, 1, __ATOMIC_RELAXED);
	if (!holds)
		printf("FAILED: %s, line %d: %s (errno %d)\n", test, line, text, err);
	return holds;
}

#define FAILS(call, error) CHECK((call) == -1 && errno == (error))

static void begin(const char *name)
{
	test = name;
	printf("test %s\n", name);
	fflush(stdout);
}

#endif
