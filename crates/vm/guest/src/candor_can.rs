//! The driver `candor_can` instead of those of the kernel: its module comes with the order, and its devices are ready when the
//! controllers are taken.

use std::fs;
use std::path::{Path, PathBuf};

use candor_linux::module;
use candor_protocol::meeting::{DRIVER, SLOTS_OF_GATEWAY};
use candor_protocol::order::{BusTiming, Handler};

use crate::failure::{Context, Failure};

const PLACE: &str = "candor_can";
const REMEDY: &str = "see the last lines of the console";

/// The names of the devices of the gateway's controllers, in the order of the slots.
pub(crate) const NAMES: [&str; 2] = ["candor0", "candor1"];

/// Loads the module and gives it the controllers of the gateway, which start at once.
pub(crate) fn take(handler: Handler, [source, target]: [BusTiming; 2]) -> Result<(), Failure> {
    if source.bitrate != target.bitrate {
        let reason = "the two buses have different bit rates";
        return Err(Failure::new(PLACE, reason, "give both the same bitrate"));
    }
    let parameters = format!("handler={} bitrate={}", handler.name(), source.bitrate);
    load(&parameters)?;
    for (slot, name) in SLOTS_OF_GATEWAY.iter().zip(NAMES) {
        let device = device(slot);
        if device.join("driver").exists() {
            fs::write(device.join("driver/unbind"), slot).at(PLACE, REMEDY)?;
        }
        fs::write(device.join("driver_override"), PLACE).at(PLACE, REMEDY)?;
        fs::write("/sys/bus/pci/drivers_probe", slot).at(PLACE, REMEDY)?;
        let file = Path::new("/dev").join(name);
        if !file.exists() {
            let reason = format!("{} is not there after {slot} was given to it", file.display());
            return Err(Failure::new(PLACE, reason, REMEDY));
        }
    }
    Ok(())
}

/// Loads the module.
pub(crate) fn load(parameters: &str) -> Result<(), Failure> {
    module::load(Path::new(DRIVER), parameters).at(PLACE, REMEDY).map(drop)
}

/// Takes the controllers, or the virtual devices, away from it: whoever has a device open gets ENODEV.
pub(crate) fn give_back(is_virtual: bool) -> Result<(), Failure> {
    if is_virtual {
        return fs::write("/sys/module/candor_can/parameters/virtual", "0").at(PLACE, REMEDY);
    }
    for slot in SLOTS_OF_GATEWAY {
        fs::write(device(slot).join("driver/unbind"), slot).at(PLACE, REMEDY)?;
    }
    Ok(())
}

fn device(slot: &str) -> PathBuf {
    Path::new("/sys/bus/pci/devices").join(slot)
}
