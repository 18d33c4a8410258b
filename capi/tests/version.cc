/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <vca.h>

int main()
{
	static_assert(sizeof(struct vca_frame) == 80 && sizeof(struct vca_status) == 88, "layout");
	return puts(vca_strerror(-EBADF)) < 0;
}
