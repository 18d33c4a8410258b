//! Whether the kernel knows CAN: its sockets, its virtual interfaces, its own gateway.

use std::io::Read;

use candor_linux::module;
use candor_linux::probe::Kind;

use crate::system::{self, Distribution};
use crate::{Files, Item, Sources};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Module {
    /// Part of the kernel.
    BuiltIn,
    Loaded,
    /// To be loaded.
    Available,
    Absent,
}

struct Facts {
    release: String,
    distribution: Distribution,
    /// Why no CAN socket can be opened, if none can.
    socket: Result<(), String>,
    can_raw: Module,
    can_gw: Module,
    /// Through how many can-gw in a row a frame may go.
    max_hops: Option<i64>,
    vcan: Module,
    vxcan: Module,
}

pub(super) fn examine(sources: &Sources) -> Vec<Item> {
    let files = &sources.files;
    // First, since trying it may load the modules.
    let socket = Kind::Can.try_open().map_err(|error| error.to_string());
    let release = system::release(files).unwrap_or_default();
    let lists = KernelOptions::read(files, &release);
    let module = |name: &str, option: &str| lists.module(files, name, option);
    judge(&Facts {
        distribution: Distribution::read(files),
        socket,
        can_raw: module("can_raw", "CONFIG_CAN_RAW"),
        can_gw: module("can_gw", "CONFIG_CAN_GW"),
        max_hops: files.number("sys/module/can_gw/parameters/max_hops"),
        vcan: module("vcan", "CONFIG_CAN_VCAN"),
        vxcan: module("vxcan", "CONFIG_CAN_VXCAN"),
        release,
    })
}

/// What the kernel was built with.
struct KernelOptions {
    /// The options of its configuration, if it tells them.
    options: String,
    /// Modules that are part of it, by their paths.
    built_in: String,
    /// Modules that can be loaded, likewise.
    available: String,
}

impl KernelOptions {
    fn read(files: &Files, release: &str) -> Self {
        let list = |name: &str| {
            let path = |folder: &str| format!("{folder}/{release}/{name}");
            files.text(&path("lib/modules")).or_else(|| files.text(&path("usr/lib/modules")))
        };
        let packed = files.bytes("proc/config.gz").and_then(|bytes| {
            let mut text = String::new();
            let most = 4 << 20;
            flate2::read::GzDecoder::new(&*bytes).take(most).read_to_string(&mut text).ok()?;
            Some(text)
        });
        let options = packed.or_else(|| files.text(&format!("boot/config-{release}")));
        Self {
            options: options.or_else(|| list("config")).unwrap_or_default(),
            built_in: list("modules.builtin").unwrap_or_default(),
            available: list("modules.dep").unwrap_or_default(),
        }
    }

    fn module(&self, files: &Files, name: &str, option: &str) -> Module {
        let is_option = format!("{option}=y");
        if module::is_listed(&self.built_in, name)
            || self.options.lines().any(|line| line == is_option)
        {
            Module::BuiltIn
        } else if files.is_there(&format!("sys/module/{name}")) {
            Module::Loaded
        } else if module::is_listed(&self.available, name) {
            Module::Available
        } else {
            Module::Absent
        }
    }
}

/// How to get a module, by its name for modprobe.
fn load(module: Module, name: &str, facts: &Facts) -> Option<String> {
    match module {
        Module::BuiltIn | Module::Loaded => None,
        Module::Available => Some(format!("sudo modprobe {name}")),
        Module::Absent => {
            package(facts).map(|package| format!("{package} && sudo modprobe {name}"))
        }
    }
}

/// The command that installs the kernel's further modules.
fn package(facts: &Facts) -> Option<String> {
    let release = &facts.release;
    match facts.distribution {
        Distribution::Ubuntu => Some(format!("sudo apt-get install linux-modules-extra-{release}")),
        Distribution::Fedora => Some(format!("sudo dnf install kernel-modules-extra-{release}")),
        // All modules are in the package of the kernel, unless it is one for clouds.
        Distribution::Debian if release.contains("cloud") => Some(format!(
            "sudo apt-get install linux-image-{} && sudo reboot",
            system::debian_architecture()
        )),
        Distribution::Debian | Distribution::Arch | Distribution::Other => None,
    }
}

fn judge(facts: &Facts) -> Vec<Item> {
    vec![sockets(facts), kernel_gateway(facts), virtual_interfaces(facts)]
}

fn sockets(facts: &Facts) -> Item {
    let item = match &facts.socket {
        Ok(()) => Item::good(
            "can",
            "CAN sockets can be opened",
            "a gateway in user space can use every CAN interface; this needs no root",
        ),
        Err(error) => {
            let meaning = match facts.can_raw {
                Module::BuiltIn | Module::Loaded => {
                    "the kernel has them, but this process may not use them: a container or a \
                     service may forbid the address family (RestrictAddressFamilies=AF_CAN allows \
                     it)"
                }
                Module::Available => "the modules exist, but are not loaded",
                Module::Absent => {
                    "this kernel was built or packaged without CAN: no CAN interface can be used. \
                     The laboratory uses its own kernels: see `candor vm`"
                }
            };
            Item::missing("can", error.clone(), meaning).maybe_fix(load(
                facts.can_raw,
                "can-raw",
                facts,
            ))
        }
    };
    item.needed()
}

fn kernel_gateway(facts: &Facts) -> Item {
    let meaning = "rules that can-gw supports can run in the kernel (`--plane kernel` or `auto`)";
    match (facts.can_gw, facts.max_hops) {
        (Module::BuiltIn | Module::Loaded, Some(hops)) => Item::good(
            "can-gw",
            format!("can-gw is loaded, max_hops={hops}"),
            format!("{meaning}; a frame passes through at most {hops} of its rules"),
        ),
        (Module::BuiltIn | Module::Loaded, None) => {
            Item::good("can-gw", "can-gw is loaded", meaning)
        }
        (Module::Available, _) => Item::limited(
            "can-gw",
            "the module can-gw is not loaded",
            "until then, all rules run in user space",
        )
        .fix("sudo modprobe can-gw"),
        (Module::Absent, _) => Item::missing(
            "can-gw",
            "there is no module can-gw",
            "all rules run in user space, which supports everything that can-gw does",
        )
        .maybe_fix(load(facts.can_gw, "can-gw", facts)),
    }
}

fn virtual_interfaces(facts: &Facts) -> Item {
    let named = [("vcan", facts.vcan), ("vxcan", facts.vxcan)];
    let lacks: Vec<_> = named.into_iter().filter(|(_, module)| *module == Module::Absent).collect();
    let unloaded: Vec<_> =
        named.into_iter().filter(|(_, module)| *module == Module::Available).collect();
    if let Some(&(name, module)) = lacks.first() {
        return Item::missing(
            "virtual",
            format!("there is no module {name}"),
            "rules cannot be tried on virtual CAN interfaces here; `candor route check` and the \
             simulation do not need them",
        )
        .maybe_fix(load(module, name, facts));
    }
    if unloaded.is_empty() {
        return Item::good(
            "virtual",
            "virtual CAN interfaces can be created",
            "rules can be tried without hardware: `sudo ip link add vcan0 type vcan`",
        );
    }
    let names: Vec<_> = unloaded.iter().map(|(name, _)| *name).collect();
    Item::good(
        "virtual",
        format!("{} can be loaded", names.join(" and ")),
        "`sudo ip link add vcan0 type vcan` creates a virtual CAN interface and loads the module",
    )
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;
    use crate::reported;

    fn facts() -> Facts {
        Facts {
            release: "6.8.0-40-generic".into(),
            distribution: Distribution::Ubuntu,
            socket: Ok(()),
            can_raw: Module::Loaded,
            can_gw: Module::Loaded,
            max_hops: Some(1),
            vcan: Module::BuiltIn,
            vxcan: Module::Loaded,
        }
    }

    fn refused() -> Result<(), String> {
        Err("cannot open a CAN socket".into())
    }

    #[test]
    fn a_kernel_with_can_is_fine() {
        assert_eq!(
            reported(&judge(&facts())),
            "ok needed can: CAN sockets can be opened\n  \
             a gateway in user space can use every CAN interface; this needs no root\n\
             ok can-gw: can-gw is loaded, max_hops=1\n  \
             rules that can-gw supports can run in the kernel (`--plane kernel` or `auto`); a \
             frame passes through at most 1 of its rules\n\
             ok virtual: virtual CAN interfaces can be created\n  \
             rules can be tried without hardware: `sudo ip link add vcan0 type vcan`\n"
        );
        let unknown = Facts { can_gw: Module::BuiltIn, max_hops: None, ..facts() };
        assert_eq!(
            reported(&[kernel_gateway(&unknown)]),
            "ok can-gw: can-gw is loaded\n  \
             rules that can-gw supports can run in the kernel (`--plane kernel` or `auto`)\n"
        );
    }

    #[test]
    fn what_is_not_loaded_is_to_be_loaded() {
        let facts = Facts {
            socket: refused(),
            can_raw: Module::Available,
            can_gw: Module::Available,
            vcan: Module::Available,
            vxcan: Module::Available,
            ..facts()
        };
        assert_eq!(
            reported(&judge(&facts)),
            "missing needed can: cannot open a CAN socket\n  \
             the modules exist, but are not loaded\n  \
             $ sudo modprobe can-raw\n\
             limited can-gw: the module can-gw is not loaded\n  \
             until then, all rules run in user space\n  \
             $ sudo modprobe can-gw\n\
             ok virtual: vcan and vxcan can be loaded\n  \
             `sudo ip link add vcan0 type vcan` creates a virtual CAN interface and loads the \
             module\n"
        );
    }

    #[test]
    fn a_kernel_without_can_is_reported_with_its_package() {
        let without = |distribution, release: &str| Facts {
            release: release.into(),
            distribution,
            socket: refused(),
            can_raw: Module::Absent,
            can_gw: Module::Absent,
            max_hops: None,
            vcan: Module::Absent,
            vxcan: Module::Absent,
        };
        assert_eq!(
            reported(&judge(&without(Distribution::Ubuntu, "6.8.0"))),
            "missing needed can: cannot open a CAN socket\n  \
             this kernel was built or packaged without CAN: no CAN interface can be used. The \
             laboratory uses its own kernels: see `candor vm`\n  \
             $ sudo apt-get install linux-modules-extra-6.8.0 && sudo modprobe can-raw\n\
             missing can-gw: there is no module can-gw\n  \
             all rules run in user space, which supports everything that can-gw does\n  \
             $ sudo apt-get install linux-modules-extra-6.8.0 && sudo modprobe can-gw\n\
             missing virtual: there is no module vcan\n  \
             rules cannot be tried on virtual CAN interfaces here; `candor route check` and the \
             simulation do not need them\n  \
             $ sudo apt-get install linux-modules-extra-6.8.0 && sudo modprobe vcan\n"
        );
        let debian = format!("sudo apt-get install linux-image-{}", system::debian_architecture());
        for (distribution, release, expected) in [
            (Distribution::Fedora, "6.9", Some("sudo dnf install kernel-modules-extra-6.9")),
            (Distribution::Debian, "6.12-cloud-amd64", Some(&*debian)),
            (Distribution::Debian, "6.12-amd64", None),
            (Distribution::Other, "6.12", None),
        ] {
            let fix = sockets(&without(distribution, release)).fix;
            match expected {
                Some(expected) => assert!(fix.unwrap().starts_with(expected), "{release}"),
                None => assert_eq!(fix, None, "{release}"),
            }
        }
    }

    #[test]
    fn a_process_that_may_not_gets_the_reason() {
        let facts = Facts { socket: refused(), ..facts() };
        assert_eq!(
            reported(&[sockets(&facts)]),
            "missing needed can: cannot open a CAN socket\n  \
             the kernel has them, but this process may not use them: a container or a service may \
             forbid the address family (RestrictAddressFamilies=AF_CAN allows it)\n"
        );
    }

    #[test]
    fn modules_are_found_wherever_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let modules = root.join("usr/lib/modules/6.1");
        fs::create_dir_all(&modules).unwrap();
        fs::create_dir_all(root.join("sys/module/can_gw/parameters")).unwrap();
        fs::create_dir_all(root.join("proc")).unwrap();
        fs::write(root.join("sys/module/can_gw/parameters/max_hops"), "3\n").unwrap();
        let dep = "kernel/net/can/can-gw.ko.xz: kernel/net/can/can.ko.xz\n\
                   kernel/net/can/can-raw.ko.xz: kernel/net/can/can.ko.xz\n";
        fs::write(modules.join("modules.dep"), dep).unwrap();
        fs::write(modules.join("modules.builtin"), "kernel/net/can/vxcan.ko\n").unwrap();
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(b"CONFIG_CAN_VCAN=y\nCONFIG_CAN_GW=m\n").unwrap();
        fs::write(root.join("proc/config.gz"), gz.finish().unwrap()).unwrap();
        let files = Files::at(root);
        let lists = KernelOptions::read(&files, "6.1");
        for (name, option, expected) in [
            ("can_gw", "CONFIG_CAN_GW", Module::Loaded),
            ("can_raw", "CONFIG_CAN_RAW", Module::Available),
            ("vxcan", "CONFIG_CAN_VXCAN", Module::BuiltIn),
            ("vcan", "CONFIG_CAN_VCAN", Module::BuiltIn),
            ("can", "CONFIG_CAN", Module::Absent),
        ] {
            assert_eq!(lists.module(&files, name, option), expected, "{name}");
        }
    }
}
