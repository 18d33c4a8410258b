//! In a guest of `candor-vm`, whose own program has mounted what there is to mount and loaded CAN.

use std::path::Path;

use candor_linux::module;

/// In the order in which they need one another; those that are not there are left out.
const MODULES: [&str; 3] = ["sja1000", "kvaser_pci", "veth"];

pub(crate) fn prepare() {
    for name in MODULES {
        let file = Path::new("/modules").join(name).with_extension("ko");
        if file.exists() {
            module::load(&file, "").unwrap_or_else(|error| panic!("{error}"));
        }
    }
}
