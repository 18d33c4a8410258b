//! As the first process of a guest.

use std::fs;
use std::path::Path;

use candor_linux::{module, mount, power};

/// In the order in which they need one another; those that are not there are left out.
const MODULES: [&str; 9] =
    ["can", "can_raw", "can_gw", "can_dev", "sja1000", "kvaser_pci", "vcan", "vxcan", "veth"];

pub(crate) fn prepare() {
    for (kind, folder) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        let _ = fs::create_dir(folder);
        mount::mount(kind, folder, "").unwrap_or_else(|error| println!("{error}"));
    }
    for name in MODULES {
        let file = Path::new("/modules").join(name).with_extension("ko");
        if !file.exists() {
            println!("there is no {}", file.display());
            continue;
        }
        let parameters = if name == "can_gw" { "max_hops=3" } else { "" };
        match module::load(&file, parameters) {
            Ok(loaded) => assert_eq!(loaded, module::Loaded::Now, "{name}"),
            Err(error) => println!("{error}"),
        }
    }
}

pub(crate) fn end() -> ! {
    let error = power::power_off().unwrap_err();
    println!("{error}");
    loop {
        std::thread::park();
    }
}
