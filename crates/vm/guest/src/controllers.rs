//! The names of the controllers of the test bed.
//!
//! A driver that is loaded when nothing else is there calls its interfaces `can0`, `can1`, ... in the
//! order of the slots. Drivers that are part of the kernel start in an order of the kernel's own, so
//! all the emulated cards share these names, and those of a test bed may begin with any number.

use std::fs;
use std::path::{Path, PathBuf};

use candor_linux::netlink::Netlink;

use crate::failure::{Context, Failure};

const PLACE: &str = "controllers";

/// Gives the interfaces of `driver` these names.
pub(crate) fn name(netlink: &mut Netlink, driver: &str, names: &[&str]) -> Result<(), Failure> {
    let mut found = of_driver(&Path::new("/sys/bus/pci/drivers").join(driver));
    found.truncate(names.len());
    if found.len() < names.len() {
        let reason = format!("{driver} has {} of {}", found.len(), names.len());
        return Err(Failure::new(
            PLACE,
            reason,
            "use a kernel with CONFIG_PCI, and see the console",
        ));
    }
    let links = netlink.links().at(PLACE, "use a kernel with rtnetlink")?;
    let taken: Vec<_> = links.into_iter().map(|link| link.name).collect();
    for (name, new) in renames(&found, &taken, names) {
        netlink.rename(&name, &new).at(PLACE, "see the console")?;
    }
    Ok(())
}

/// What is to be renamed, in order, so that `found` get the `wanted` names although some are `taken`.
fn renames(found: &[String], taken: &[String], wanted: &[&str]) -> Vec<(String, String)> {
    let pairs = || found.iter().map(String::as_str).zip(wanted.iter().copied());
    if pairs().all(|(name, wanted)| name == wanted) {
        return Vec::new();
    }
    let aside = |name: &str| format!("was-{name}");
    let in_the_way = wanted.iter().copied().filter(|wanted| taken.iter().any(|t| t == wanted));
    let first = in_the_way.map(|name| (name.to_owned(), aside(name)));
    let then = pairs().map(|(name, new)| {
        let is_aside = wanted.contains(&name);
        (if is_aside { aside(name) } else { name.to_owned() }, new.to_owned())
    });
    first.chain(then).collect()
}

/// The interfaces of a driver of PCI devices, in the order of the slots; of one device, in the order
/// in which they were made.
fn of_driver(driver: &Path) -> Vec<String> {
    let mut all: Vec<_> = entries(driver)
        .into_iter()
        .flat_map(|device| {
            entries(&device.join("net")).into_iter().map(move |net| (device.clone(), net))
        })
        .filter_map(|(device, net)| {
            let index = fs::read_to_string(net.join("ifindex")).ok()?;
            let index: u32 = index.trim().parse().ok()?;
            Some((device, index, net.file_name()?.to_str()?.to_owned()))
        })
        .collect();
    all.sort();
    all.into_iter().map(|(_, _, name)| name).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use candor_protocol::interface;

    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn interfaces_get_the_names_of_the_bed_without_collisions() {
        for (found, others) in [
            ("can0 can1 can2 can3 can4", "lo can5"),
            ("can6 can7 can8 can9 can10", "lo can0 can1 can2 can3 can4 can5"),
            ("can1 can2 can3 can4 can5", "lo can0"),
            ("can4 can3 can2 can1 can0", "lo"),
            ("can9 a b c d", "can3"),
        ] {
            let found = names(found);
            // Who was first, and what everything is called in the end.
            let all = [found.clone(), names(others)].concat();
            let mut links = all.clone();
            for (name, new) in renames(&found, &all, &interface::ALL) {
                assert!(!links.contains(&new), "{new} is taken in {links:?}");
                let place = links.iter().position(|link| *link == name);
                let place = place.unwrap_or_else(|| panic!("no {name} in {links:?}"));
                links[place] = new;
            }
            assert_eq!(links[..5], interface::ALL, "{found:?}");
        }
        let bed = interface::ALL.map(str::to_owned);
        assert_eq!(renames(&bed, &bed, &interface::ALL), []);
    }

    #[test]
    fn interfaces_come_in_the_order_of_slots_and_numbers() {
        let folder = tempfile::tempdir().unwrap();
        for (slot, name, index) in [
            ("0000:00:0c.0", "can12", "12"),
            ("0000:00:0b.0", "can9", "9"),
            ("0000:00:0b.0", "can10", "10"),
        ] {
            let net = folder.path().join(slot).join("net").join(name);
            fs::create_dir_all(&net).unwrap();
            fs::write(net.join("ifindex"), format!("{index}\n")).unwrap();
        }
        fs::write(folder.path().join("bind"), "").unwrap();
        assert_eq!(of_driver(folder.path()), ["can9", "can10", "can12"]);
        assert!(of_driver(&folder.path().join("gone")).is_empty());
    }
}
