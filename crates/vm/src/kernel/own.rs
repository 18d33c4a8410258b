//! A kernel that somebody built. It is brought into the cache whenever it is asked for, under the
//! sum of its files: a new build is another kernel, the same build is the same one.

use std::fs;
use std::path::{Path, PathBuf};

use super::image;
use super::modules::{Tree, folder_of};
use super::store::{self, Kernel, Origin};
use crate::cache::KERNELS;
use crate::{Cache, Error};

/// Options of the kernel's configuration that make no module of the test bed, and without which nothing
/// can be measured. What comes as a module is looked for as a module.
const OPTIONS: [&str; 19] = [
    "64BIT",
    "BINFMT_ELF",
    "BLK_DEV_INITRD",
    "CAN_CALC_BITTIMING",
    "CAN_NETLINK",
    "DEVTMPFS",
    "EPOLL",
    "EVENTFD",
    "FUTEX",
    "HIGH_RES_TIMERS",
    "MULTIUSER",
    "NET",
    "NETDEVICES",
    "PACKET",
    "PCI",
    "POSIX_TIMERS",
    "PROC_FS",
    "SYSFS",
    "X86_IOPL_IOPERM",
];

/// The kernel in `image` with its `modules`.
pub(crate) fn import(cache: &Cache, image: &Path, modules: &Path) -> Result<Kernel, Error> {
    let bytes = fs::read(image).map_err(|error| Error::read(image, error))?;
    let release = image::release(image, &bytes)?;
    check_configuration(image, &release)?;
    let set = Tree::read(&folder_of(modules, &release)?)?.closure(&release)?;
    let system_map = near(image, &release, "System.map")
        .into_iter()
        .filter_map(|path| fs::read(path).ok())
        .find(|map| map.len() as u64 >= store::SMALLEST_SYSTEM_MAP);
    let parts = store::Parts {
        release: &release,
        origin: Origin::default(),
        image: &bytes,
        set: &set,
        system_map: system_map.as_deref(),
    };
    let (_, sum) = parts.sums();
    // As long a part of the sum as tells builds apart.
    let folder = cache.subfolder(KERNELS)?.join(format!("own-{}", &sum[..16]));
    if !folder.is_dir() {
        store::place(cache, &folder, store::OWN, |new| parts.write(new))?;
    }
    store::read(&folder, release)
}

/// Where a build or an installation puts `file` of the kernel in `image`.
fn near(image: &Path, release: &str, file: &str) -> [PathBuf; 3] {
    let beside = image.parent().unwrap_or(Path::new(""));
    [
        beside.join(file),
        beside.join(format!("{}-{release}", file.trim_start_matches('.'))),
        // arch/x86/boot/bzImage
        beside.join("../../../").join(file),
    ]
}

/// Whether the configuration of the kernel, if it is there, has all that is needed. Only what it
/// says not to have counts: options come and go.
fn check_configuration(image: &Path, release: &str) -> Result<(), Error> {
    let beside = near(image, release, ".config");
    // Debian calls it config-RELEASE.
    let found = beside.into_iter().find_map(|path| Some((fs::read_to_string(&path).ok()?, path)));
    let Some((text, path)) = found else { return Ok(()) };
    let without = |line: &'_ str| -> Option<String> {
        let option = line.strip_prefix("# CONFIG_")?.strip_suffix(" is not set")?;
        OPTIONS.contains(&option).then(|| format!("CONFIG_{option}"))
    };
    let mut lacking: Vec<_> = text.lines().filter_map(without).collect();
    lacking.sort();
    if lacking.is_empty() {
        return Ok(());
    }
    let path = path.canonicalize().unwrap_or(path);
    Err(Error::Other(format!(
        "kernel {release} needs {} to run the test bed: set {} in {} and build it again, or start from \
         docs/kernel-lab.config",
        lacking.join(", "),
        if lacking.len() == 1 { "it" } else { "them" },
        path.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::super::fabricated::{self, NEEDED};
    use super::super::{Spec, cached, find};
    use super::*;

    const RELEASE: &str = "6.12.1-made";

    fn system_map() -> String {
        "ffffffff81000000 T _text\n".repeat(200)
    }

    /// A build: its folder, the image, the modules.
    fn build() -> (tempfile::TempDir, Spec) {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("arch/x86/boot/bzImage");
        let modules = folder.path().join("modules");
        fs::create_dir_all(image.parent().unwrap()).unwrap();
        fs::write(&image, fabricated::image(RELEASE)).unwrap();
        fs::write(folder.path().join("System.map"), system_map()).unwrap();
        // As Debian installs it beside the image.
        let stub = format!("System.map-{RELEASE}");
        fs::write(image.with_file_name(stub), "The real System.map is elsewhere\n").unwrap();
        fabricated::tree(&modules, RELEASE, NEEDED);
        (folder, Spec::Files { image, modules })
    }

    fn cache() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(Some(folder.path())).unwrap();
        (folder, cache)
    }

    #[test]
    fn the_same_build_is_the_same_kernel() {
        let ((build, spec), (_folder, cache)) = (build(), cache());
        let kernel = find(&cache, &spec).unwrap();
        assert_eq!((kernel.release.as_str(), kernel.name.as_str()), (RELEASE, RELEASE));
        assert_eq!((&kernel.package, kernel.sha256.len()), (&None, 64));
        assert_eq!(fs::read(&kernel.image).unwrap(), fabricated::image(RELEASE));
        let map = fs::read_to_string(kernel.system_map.as_ref().unwrap()).unwrap();
        assert_eq!(map, system_map());
        let module = fs::read(kernel.modules.join("can_raw.ko")).unwrap();
        assert_eq!(module, fabricated::module(RELEASE, "can"));
        let index = fs::read_to_string(kernel.modules.join("index")).unwrap();
        assert!(index.contains("kvaser_pci: can_dev sja1000\n"), "{index}");

        assert_eq!(find(&cache, &spec).unwrap(), kernel);
        assert_eq!(cached(&cache).unwrap().len(), 1);
        // A change that needs no other length.
        let path = build.path().join("arch/x86/boot/bzImage");
        let mut bytes = fs::read(&path).unwrap();
        bytes[0x3FF] = 1;
        fs::write(&path, bytes).unwrap();
        let other = find(&cache, &spec).unwrap();
        assert_ne!(other.sha256, kernel.sha256);
        assert_eq!(cached(&cache).unwrap().len(), 2);
        assert_eq!(find(&cache, &Spec::Series { series: "6.12".into(), is_rt: false }).ok(), None);
    }

    #[test]
    fn what_the_configuration_lacks_is_reported_at_once() {
        let (build, spec) = build();
        let (_folder, cache) = cache();
        let configuration = "CONFIG_NET=y\n# CONFIG_PACKET is not set\n# CONFIG_PACKET_DIAG is not \
                             set\n#\n# CONFIG_BLK_DEV_INITRD is not set\n";
        let places = [".config", "arch/x86/boot/.config", "arch/x86/boot/config-6.12.1-made"];
        for place in places.map(|place| build.path().join(place)) {
            fs::write(&place, configuration).unwrap();
            let message = find(&cache, &spec).unwrap_err().to_string();
            let reported = "kernel 6.12.1-made needs CONFIG_BLK_DEV_INITRD, CONFIG_PACKET to run the \
                        test bed: set them in ";
            assert!(
                message.starts_with(reported) && message.contains(" and build it"),
                "{message}"
            );
            fs::write(&place, configuration.replace("# CONFIG_BLK", "#")).unwrap();
            let message = find(&cache, &spec).unwrap_err().to_string();
            assert!(
                message.contains("needs CONFIG_PACKET to run the test bed: set it in "),
                "{message}"
            );
            fs::write(&place, "CONFIG_PACKET=y\n").unwrap();
            assert!(find(&cache, &spec).is_ok());
            fs::remove_file(place).unwrap();
        }
    }

    #[test]
    fn a_damaged_kernel_in_the_cache_is_named() {
        let (_build, spec) = build();
        let damages: [(&str, &str); 7] = [
            ("bzImage", "bzImage is damaged: its checksum differs"),
            ("modules/can.ko", "modules/can.ko is damaged: its checksum differs"),
            ("modules/index", "modules/index is damaged: its checksum differs"),
            ("SHA256SUMS", "bzImage is damaged: its checksum differs"),
            ("kernel.json", "kernel.json is damaged: "),
            ("-modules/can_gw.ko", "modules/can_gw.ko is damaged: No such file"),
            ("-SHA256SUMS", "SHA256SUMS is damaged: No such file"),
        ];
        for (file, expected) in damages {
            let (_folder, cache) = cache();
            let kernel = find(&cache, &spec).unwrap();
            let folder = kernel.image.parent().unwrap();
            match file.strip_prefix('-') {
                Some(file) => fs::remove_file(folder.join(file)).unwrap(),
                None => {
                    let mut bytes = fs::read(folder.join(file)).unwrap();
                    bytes[0] ^= 1;
                    fs::write(folder.join(file), bytes).unwrap();
                }
            }
            let message = find(&cache, &spec).unwrap_err().to_string();
            assert!(message.contains(expected), "{message}");
            assert!(message.contains("; delete "), "{message}");
            let listed = cached(&cache).unwrap();
            assert_eq!(listed[0].kernel.as_ref().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn sums_that_name_other_files_are_not_followed() {
        let ((_build, spec), (_folder, cache)) = (build(), cache());
        let kernel = find(&cache, &spec).unwrap();
        let sums = kernel.image.with_file_name("SHA256SUMS");
        let text = fs::read_to_string(&sums).unwrap();
        for line in ["00  ../../x\n", "00  modules/../x.ko\n", "00  /etc/x\n"] {
            fs::write(&sums, format!("{text}{line}")).unwrap();
            let message = find(&cache, &spec).unwrap_err().to_string();
            assert!(
                message.contains("SHA256SUMS is damaged: a line has the wrong format"),
                "{message}"
            );
        }
        fs::write(&sums, "").unwrap();
        let message = find(&cache, &spec).unwrap_err().to_string();
        assert!(message.contains("the image is missing"), "{message}");
    }

    #[test]
    fn two_at_once_do_not_hurt_each_other() {
        let ((_build, spec), (_folder, cache)) = (build(), cache());
        let kernels: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| find(&cache, &spec).unwrap())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(kernels.iter().all(|kernel| *kernel == kernels[0]));
        let kept = fs::read_dir(cache.folder().join("kernels")).unwrap().count();
        assert_eq!(kept, 1, "nothing is left over");
    }
}
