// SPDX-License-Identifier: GPL-2.0-only
/*
 * The Kvaser PCIcan adapter: up to four SJA1000 behind an AMCC S5920. It is taken only if its
 * driver_override says candor_can.
 */
#include <linux/io.h>
#include <linux/module.h>
#include <linux/pci.h>
#include "internal.h"

#define CHANNELS	4
#define CHANNEL_BYTES	0x20

/* Registers of the S5920 */
#define INTCSR		0x38
#define INTCSR_ENABLE	0x2000	/* interrupts of the controllers */
#define PTCR		0x60
#define PTCR_VALUE	0x80808080	/* the controllers see PTADR# */

struct card {
	void __iomem *configuration;
	struct candor_device *channels[CHANNELS];
};

static void enable_interrupts(struct card *card, bool enable)
{
	u32 intcsr = ioread32(card->configuration + INTCSR);

	intcsr = enable ? intcsr | INTCSR_ENABLE : intcsr & ~INTCSR_ENABLE;
	iowrite32(intcsr, card->configuration + INTCSR);
}

static void remove_channel(struct candor_device *device)
{
	candor_unregister(device);
	sja1000_release(device);
	candor_put(device);
}

static struct candor_device *add_channel(struct pci_dev *pdev, void __iomem *registers,
					 unsigned long port)
{
	struct candor_device *device = sja1000_create(registers, port, pdev->irq);
	struct candor_bitrate bitrate = { .bitrate = candor_first_bitrate };
	unsigned long flags;
	int err;

	if (IS_ERR(device))
		return device;
	err = sja1000_request(device, &pdev->dev);
	if (err) {
		candor_unregister(device);
		candor_put(device);
		return ERR_PTR(err);
	}
	if (bitrate.bitrate) {
		raw_spin_lock_irqsave(&device->lock, flags);
		err = candor_set_bitrate(device, &bitrate);
		if (!err)
			err = candor_start(device);
		raw_spin_unlock_irqrestore(&device->lock, flags);
		if (err)
			dev_err(&pdev->dev, "bitrate=%u: error %d\n", bitrate.bitrate, err);
	}
	if (!err)
		err = candor_register(device, &pdev->dev);
	if (err) {
		remove_channel(device);
		return ERR_PTR(err);
	}
	return device;
}

static void remove_channels(struct card *card)
{
	int i;

	for (i = 0; i < CHANNELS; i++) {
		if (card->channels[i])
			remove_channel(card->channels[i]);
	}
	enable_interrupts(card, false);
}

static int kvaser_pci_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	void __iomem *registers;
	unsigned long port = 0;
	struct card *card;
	int err, i;

	card = devm_kzalloc(&pdev->dev, sizeof(*card), GFP_KERNEL);
	if (!card)
		return -ENOMEM;
	err = pcim_enable_device(pdev);
	if (!err)
		err = pcim_iomap_regions(pdev, BIT(0) | BIT(1), CANDOR_NAME);
	if (err)
		return err;
	card->configuration = pcim_iomap_table(pdev)[0];
	registers = pcim_iomap_table(pdev)[1];
	if (pci_resource_flags(pdev, 1) & IORESOURCE_IO)
		port = pci_resource_start(pdev, 1);
	pci_set_drvdata(pdev, card);
	iowrite32(PTCR_VALUE, card->configuration + PTCR);
	/* All are silent before one of them has a handler: they share a line. */
	for (i = 0; (i + 1) * CHANNEL_BYTES <= pci_resource_len(pdev, 1) && i < CHANNELS; i++) {
		if (!sja1000_present(registers + i * CHANNEL_BYTES))
			break;
	}
	enable_interrupts(card, true);
	for (i = 0; i < CHANNELS; i++) {
		void __iomem *channel = registers + i * CHANNEL_BYTES;
		struct candor_device *device;

		if ((i + 1) * CHANNEL_BYTES > pci_resource_len(pdev, 1))
			break;
		if (!sja1000_present(channel))
			break;
		device = add_channel(pdev, channel, port ? port + i * CHANNEL_BYTES : 0);
		if (IS_ERR(device)) {
			err = PTR_ERR(device);
			break;
		}
		card->channels[i] = device;
	}
	if (!err && !i)
		err = -ENODEV;
	if (err)
		remove_channels(card);
	return err;
}

static void kvaser_pci_remove(struct pci_dev *pdev)
{
	remove_channels(pci_get_drvdata(pdev));
}

static const struct pci_device_id ids[] = {
	{ PCI_DEVICE_DRIVER_OVERRIDE(0x10e8, 0x8406, true) },
	{}
};

static struct pci_driver kvaser_pci_driver = {
	.name = CANDOR_NAME,
	.id_table = ids,
	.probe = kvaser_pci_probe,
	.remove = kvaser_pci_remove,
	/* A kernel that is started by this one finds silent controllers. */
	.shutdown = kvaser_pci_remove,
};

int kvaser_pci_register(void)
{
	return pci_register_driver(&kvaser_pci_driver);
}

void kvaser_pci_unregister(void)
{
	pci_unregister_driver(&kvaser_pci_driver);
}
