/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <vca.h>

int main()
{
	static_assert(sizeof(vca_frame) == 80 && sizeof(vca_filter) == 12 && sizeof(vca_status) == 88, "layout");
	return puts(vca_strerror(-EBADF)) < 0;
}
