// SPDX-License-Identifier: GPL-2.0-only
/*
 * The module and its parameters.
 */
#include <linux/module.h>
#include <linux/string.h>
#include "internal.h"

enum candor_handler candor_handler_mode;

unsigned int candor_first_bitrate;
module_param_named(bitrate, candor_first_bitrate, uint, 0444);
MODULE_PARM_DESC(bitrate, "controllers start with this bit rate; 0: stopped until a program starts them");

static const char * const handlers[] = { "hard", "thread", "forced", "softirq" };

static char *handler = "hard";
module_param(handler, charp, 0444);
MODULE_PARM_DESC(handler, "where controllers are read: hard, thread, forced, softirq");

const char *candor_handler_name(enum candor_handler which)
{
	return handlers[which];
}

static int __init candor_init(void)
{
	int err = match_string(handlers, ARRAY_SIZE(handlers), handler);

	if (err < 0) {
		pr_err(CANDOR_NAME ": handler=%s: not one of hard, thread, forced, softirq\n",
		       handler);
		return -EINVAL;
	}
	candor_handler_mode = err;
	err = virtual_init();
	if (err)
		return err;
	err = kvaser_pci_register();
	if (err)
		goto no_cards;
	err = gateway_register();
	if (err)
		goto no_gateway;
	return 0;

no_gateway:
	kvaser_pci_unregister();
no_cards:
	virtual_exit();
	return err;
}

static void __exit candor_exit(void)
{
	gateway_unregister();
	kvaser_pci_unregister();
	virtual_exit();
}

module_init(candor_init);
module_exit(candor_exit);
MODULE_DESCRIPTION("CAN controllers as character devices");
MODULE_LICENSE("GPL");
