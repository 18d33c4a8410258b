/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* hello BUS: sends one frame, receives one within a second and prints it. */
#include <stdio.h>
#include <vca.h>

int main(int argc, char **argv)
{
	struct vca_frame frame = { .id = 0x123, .len = 5, .data = "hello" };
	char why[256];
	vca_t *bus;
	int n = vca_open(argc > 1 ? argv[1] : "can0", 0, &bus);

	if (n == 0)
		n = vca_send(bus, &frame, 1);
	if (n == 1)
		n = vca_receive(bus, &frame, 1, 1000000000);
	vca_last_error(why, sizeof(why));
	if (n == 1)
		printf("%03X#%.*s\n", (unsigned)frame.id, (int)frame.len, (const char *)frame.data);
	else
		fprintf(stderr, "%s\n", n ? why : "no frame came in 1 s");
	vca_close(bus);
	return n != 1;
}
