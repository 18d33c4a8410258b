//! The modules of a kernel: which of them are needed, what each depends on, and in what order they
//! are loaded. The names in here have underscores, as the kernel has them.
//!
//! ```text
//!  lib/modules/RELEASE --- Tree: name -> file, built-in names
//!     needed names --- closure: .modinfo of each file, depends= of that ---> Set: name -> bytes, index
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use candor_protocol::{OPTIONS, option_of};
use object::{Object, ObjectSection};

use crate::Error;

/// Modules without which nothing can be measured: what each is for.
const NEEDS: [(&str, &str); 3] =
    [("can", "CAN"), ("can_raw", "raw CAN sockets"), ("can_dev", "CAN drivers")];

/// Drivers of the controllers of the test bed: there must be one of them.
const DRIVERS: [&str; 2] = ["kvaser_pci", "ctucanfd_pci"];

/// A larger module is refused, so that a bomb of a file does no harm.
const MAX_LEN: u64 = 64 << 20;
/// Deeper folders are not looked into.
const MAX_DEPTH: usize = 16;

/// The folder of modules of one release.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    folder: PathBuf,
    /// The files by name.
    files: BTreeMap<String, PathBuf>,
    /// What is in the kernel itself. A file of that name is of an earlier build.
    builtin: BTreeSet<String>,
}

/// The needed modules of a kernel and what they depend on.
#[derive(Debug, Default)]
pub(crate) struct Set {
    /// Their files, uncompressed, by name.
    pub(crate) modules: BTreeMap<String, Vec<u8>>,
    /// All modules that each depends on, in the order in which they are loaded.
    order: BTreeMap<String, Vec<String>>,
    /// The needed ones that are in the kernel itself.
    builtin: BTreeSet<String>,
}

impl Set {
    /// The text of the index: `name: dep dep ...`, or `name: builtin`.
    pub(crate) fn index(&self) -> String {
        let modules = self.order.iter().map(|(name, order)| {
            let order: String = order.iter().map(|name| format!(" {name}")).collect();
            format!("{name}:{order}\n")
        });
        let builtin = self.builtin.iter().map(|name| format!("{name}: builtin\n"));
        let mut lines: Vec<_> = modules.chain(builtin).collect();
        lines.sort();
        lines.concat()
    }
}

/// The name of the module that is in a file of this name, if there is one.
pub(crate) fn module_name(file: &str) -> Option<String> {
    let stem = [".ko", ".ko.xz", ".ko.zst", ".ko.gz"]
        .iter()
        .find_map(|suffix| file.strip_suffix(suffix).filter(|stem| !stem.is_empty()))?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    stem.bytes().all(is_plain).then(|| stem.replace('-', "_"))
}

/// The folder of the modules of `release`: `given` itself, or below it.
pub(crate) fn folder_of(given: &Path, release: &str) -> Result<PathBuf, Error> {
    let is_it = |folder: &Path| {
        ["kernel", "modules.builtin", "modules.dep", "modules.order"]
            .iter()
            .any(|name| folder.join(name).exists())
    };
    let listed = fs::read_dir(given).map_err(|error| Error::read(given, error))?;
    if is_it(given) {
        return Ok(given.to_owned());
    }
    for above in ["", "lib/modules", "usr/lib/modules"] {
        let folder = given.join(above).join(release);
        if folder.is_dir() {
            return Ok(folder);
        }
    }
    let mut folders: Vec<_> =
        listed.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    match folders.as_slice() {
        [] => Ok(given.to_owned()),
        [one] if is_it(one) => Ok(one.clone()),
        _ => Err(Error::Other(format!(
            "{} contains no modules of {release}; use the folder lib/modules/{release} that `make \
             modules_install` writes",
            given.display()
        ))),
    }
}

impl Tree {
    /// Looks through `folder`. Links to folders, such as `build`, are not followed.
    pub(crate) fn read(folder: &Path) -> Result<Self, Error> {
        let mut tree = Self { folder: folder.to_owned(), ..Self::default() };
        tree.walk(folder, 0)?;
        // What `depmod` chose if a module is there twice.
        if let Some(text) = optional_text(&folder.join("modules.dep"))? {
            for path in text.lines().filter_map(|line| line.split_once(':')).map(|(path, _)| path) {
                let file = folder.join(path);
                let name = Path::new(path).file_name().and_then(|name| name.to_str());
                if let Some(name) = name.and_then(module_name)
                    && file.is_file()
                {
                    tree.files.insert(name, file);
                }
            }
        }
        if let Some(text) = optional_text(&folder.join("modules.builtin"))? {
            let names = text.lines().filter_map(|line| module_name(line.rsplit('/').next()?));
            tree.builtin.extend(names);
        }
        Ok(tree)
    }

    fn walk(&mut self, folder: &Path, depth: usize) -> Result<(), Error> {
        let error = |error| Error::read(folder, error);
        let mut entries = fs::read_dir(folder)
            .and_then(Iterator::collect::<io::Result<Vec<_>>>)
            .map_err(error)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let kind = entry.file_type().map_err(error)?;
            if kind.is_dir() && depth < MAX_DEPTH {
                self.walk(&entry.path(), depth + 1)?;
            } else if let Some(name) = entry.file_name().to_str().and_then(module_name) {
                // The folder `updates` comes last and, as with depmod, is preferred.
                self.files.insert(name, entry.path());
            }
        }
        Ok(())
    }

    /// The needed modules and all they depend on. `release` is that of the image.
    pub(crate) fn closure(&self, release: &str) -> Result<Set, Error> {
        if let Some((name, purpose)) = NEEDS.into_iter().find(|(name, _)| !self.has(name)) {
            return Err(self.lacks(release, name, purpose));
        }
        if !DRIVERS.iter().any(|driver| self.has(driver)) {
            return Err(self.lacks(release, DRIVERS[0], "a driver of the emulated CAN cards"));
        }
        let mut set = Set::default();
        for (name, _) in OPTIONS {
            if self.builtin.contains(name) {
                set.builtin.insert(name.to_owned());
            } else if self.files.contains_key(name) {
                self.visit(name, release, &mut set, &mut Vec::new())?;
            }
        }
        Ok(set)
    }

    fn has(&self, name: &str) -> bool {
        self.files.contains_key(name) || self.builtin.contains(name)
    }

    fn lacks(&self, release: &str, name: &str, purpose: &str) -> Error {
        if self.files.is_empty() && self.builtin.is_empty() {
            return Error::Other(format!(
                "{} contains no modules and no modules.builtin; use the folder \
                 lib/modules/{release} that `make modules_install` writes",
                self.folder.display()
            ));
        }
        Error::Other(format!(
            "kernel {release} was built without {purpose}: {} has no {name}, and it is not built \
             in; set {}=m in its configuration",
            self.folder.display(),
            option_of(name).unwrap_or(name),
        ))
    }

    /// Takes module `name` and, before it, what it depends on. `above` are those that need it.
    fn visit(
        &self,
        name: &str,
        release: &str,
        set: &mut Set,
        above: &mut Vec<String>,
    ) -> Result<(), Error> {
        if set.modules.contains_key(name) || self.builtin.contains(name) {
            return Ok(());
        }
        let Some(path) = self.files.get(name) else {
            return Err(Error::Other(format!(
                "module {} needs module {name}, which is not in {}; install all modules of the \
                 build",
                above.last().map_or("", String::as_str),
                self.folder.display()
            )));
        };
        if above.iter().any(|other| other == name) {
            return Err(Error::Other(format!(
                "the modules {} depend on each other in a loop; build them again",
                above.join(", ")
            )));
        }
        let bytes = read_module(path)?;
        let info = ModuleInfo::parse(path, &bytes)?;
        if info.release != release {
            return Err(Error::Other(format!(
                "{} is a module of {}, but the image is {release}; use the image and the modules \
                 of the same build",
                path.display(),
                info.release
            )));
        }
        above.push(name.to_owned());
        let mut order: Vec<String> = Vec::new();
        for dependency in &info.depends {
            self.visit(dependency, release, set, above)?;
            let Some(before) = set.order.get(dependency) else { continue };
            for module in before.iter().chain([dependency]) {
                if !order.contains(module) {
                    order.push(module.clone());
                }
            }
        }
        above.pop();
        set.order.insert(name.to_owned(), order);
        set.modules.insert(name.to_owned(), bytes);
        Ok(())
    }
}

fn optional_text(path: &Path) -> Result<Option<String>, Error> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::read(path, error)),
    }
}

/// What a module says about itself.
#[derive(Debug, PartialEq, Eq)]
struct ModuleInfo {
    /// The release of the kernel it belongs to.
    release: String,
    depends: Vec<String>,
}

impl ModuleInfo {
    /// From `bytes`, which were read from `path`.
    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, Error> {
        let refuse = |reason: &str| {
            Error::Other(format!(
                "{} is not a kernel module for x86-64: {reason}; build it again",
                path.display()
            ))
        };
        let file = object::read::elf::ElfFile64::<object::Endianness>::parse(bytes)
            .map_err(|error| refuse(&error.to_string().to_lowercase()))?;
        if file.architecture() != object::Architecture::X86_64 {
            return Err(refuse("it is for another processor"));
        }
        let section =
            file.section_by_name(".modinfo").ok_or_else(|| refuse("it has no .modinfo"))?;
        let data = section.data().map_err(|error| refuse(&error.to_string().to_lowercase()))?;
        let value = |key: &str| {
            data.split(|&byte| byte == 0)
                .find_map(|line| line.strip_prefix(key.as_bytes()))
                .map(|value| String::from_utf8_lossy(value).replace(|c: char| c.is_control(), "?"))
        };
        // "6.12.117+deb13-amd64 SMP preempt mod_unload modversions "
        let magic = value("vermagic=").ok_or_else(|| refuse("it has no vermagic"))?;
        let release = magic.split(' ').next().unwrap_or_default().to_owned();
        let depends = value("depends=").unwrap_or_default();
        let depends = depends.split(',').filter(|name| !name.is_empty());
        Ok(Self { release, depends: depends.map(|name| name.replace('-', "_")).collect() })
    }
}

/// The module in a file, uncompressed.
fn read_module(path: &Path) -> Result<Vec<u8>, Error> {
    let file = File::open(path).map_err(|error| Error::read(path, error))?;
    let damaged = |reason: String| {
        Error::Other(format!(
            "{} cannot be uncompressed: {reason}; install the modules again",
            path.display()
        ))
    };
    let suffix = path.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
    let reader: Box<dyn Read> = match suffix {
        "xz" => Box::new(lzma_rust2::XzReader::new(file, true)),
        "zst" => {
            let reader = ruzstd::decoding::StreamingDecoder::new(file);
            Box::new(reader.map_err(|error| damaged(error.to_string()))?)
        }
        "gz" => Box::new(flate2::read::MultiGzDecoder::new(file)),
        _ => Box::new(file),
    };
    let mut bytes = Vec::new();
    match reader.take(MAX_LEN + 1).read_to_end(&mut bytes) {
        Err(error) if suffix == "ko" => Err(Error::read(path, error)),
        Err(error) => Err(damaged(error.to_string())),
        Ok(_) if bytes.len() as u64 > MAX_LEN => Err(damaged("it is too large".into())),
        Ok(_) => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::super::fabricated::{NEEDED, elf_with_section, module, tree};
    use super::*;

    const RELEASE: &str = "6.12.1-made";

    fn folder(modules: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        tree(folder.path(), RELEASE, modules);
        folder
    }

    fn closure(folder: &Path) -> Result<Set, String> {
        let tree = Tree::read(folder).map_err(|error| error.to_string())?;
        tree.closure(RELEASE).map_err(|error| error.to_string())
    }

    #[test]
    fn modules_come_with_what_they_depend_on_in_load_order() {
        let more = [
            ("vcan", "can-dev,core_part"),
            ("unneeded", ""),
            ("e1000", "b,a"),
            ("a", "c"),
            ("b", "c"),
            ("c", ""),
        ];
        let folder = folder(&[NEEDED, &more].concat());
        let set = closure(folder.path()).unwrap();
        let expected = "a: c\nb: c\nc:\ncan:\ncan_dev:\ncan_gw: can\ncan_raw: can\ne1000: c b a\n\
                        kvaser_pci: can_dev sja1000\nsja1000: can_dev\nvcan: can_dev\n";
        assert_eq!(set.index(), expected);
        let names: Vec<_> = set.modules.keys().map(String::as_str).collect();
        let listed: Vec<_> = expected.lines().map(|line| line.split(':').next().unwrap()).collect();
        assert_eq!(names, listed);
        assert_eq!(set.modules["can_gw"], module(RELEASE, "can"));
    }

    #[test]
    fn what_is_built_in_is_said_to_be() {
        let folder = folder(&NEEDED[1..]);
        fs::write(folder.path().join("modules.builtin"), "kernel/net/can/can.ko\n").unwrap();
        let index = closure(folder.path()).unwrap().index();
        assert!(index.starts_with("can: builtin\ncan_dev:\ncan_gw:\ncan_raw:\n"), "{index}");
    }

    #[test]
    fn a_kernel_without_can_is_refused_with_its_option() {
        for (index, option, purpose) in [
            (0, "CONFIG_CAN=m", "without CAN:"),
            (1, "CONFIG_CAN_RAW=m", "without raw CAN sockets"),
            (3, "CONFIG_CAN_DEV=m", "without CAN drivers"),
            (5, "CONFIG_CAN_KVASER_PCI=m", "without a driver of the emulated CAN cards"),
        ] {
            let mut modules = NEEDED.to_vec();
            modules.remove(index);
            // Nothing else may be named first: those that need the lacking one need nothing.
            let modules: Vec<_> = modules.iter().map(|&(name, _)| (name, "")).collect();
            let message = closure(folder(&modules).path()).unwrap_err();
            assert!(message.contains(option) && message.contains(purpose), "{message}");
            assert!(message.starts_with("kernel 6.12.1-made was built "), "{message}");
        }
    }

    #[test]
    fn the_file_of_an_earlier_build_is_not_taken_for_what_is_built_in_now() {
        let folder = folder(NEEDED);
        let builtin = "kernel/net/can/can.ko\nkernel/drivers/net/can/dev/can-dev.ko\n";
        fs::write(folder.path().join("modules.builtin"), builtin).unwrap();
        let set = closure(folder.path()).unwrap();
        let expected = "can: builtin\ncan_dev: builtin\ncan_gw:\ncan_raw:\n\
                        kvaser_pci: sja1000\nsja1000:\n";
        assert_eq!(set.index(), expected);
        assert!(!set.modules.contains_key("can"));
    }

    #[test]
    fn one_can_do_without_can_gw_and_with_one_driver() {
        let mut modules = NEEDED.to_vec();
        modules.retain(|(name, _)| !["can-gw", "sja1000", "kvaser_pci"].contains(name));
        modules.push(("ctucanfd_pci", "can-dev"));
        let index = closure(folder(&modules).path()).unwrap().index();
        assert_eq!(index, "can:\ncan_dev:\ncan_raw: can\nctucanfd_pci: can_dev\n");
    }

    #[test]
    fn what_is_wrong_with_modules_is_said() {
        let with = |name: &str, depends: &str| {
            let mut modules = NEEDED.to_vec();
            modules.retain(|(other, _)| *other != name);
            modules.push((name, depends));
            closure(folder(&modules).path()).unwrap_err()
        };
        let message = with("can-raw", "gone");
        assert!(message.contains("module can_raw needs module gone, which is not in"), "{message}");
        let message = with("can", "can-raw");
        assert!(message.contains("can, can_raw depend on each other in a loop"), "{message}");

        let empty = tempfile::tempdir().unwrap();
        let message = closure(empty.path()).unwrap_err();
        assert!(message.contains("no modules and no modules.builtin"), "{message}");

        let replaced = |name: &str, bytes: &[u8]| {
            let folder = folder(&NEEDED[1..]);
            fs::write(folder.path().join("kernel").join(name), bytes).unwrap();
            closure(folder.path()).unwrap_err()
        };
        let other = elf_with_section(183, ".modinfo", b"vermagic=6.12.1-made \0");
        let bare = elf_with_section(62, ".other", b"vermagic=6.12.1-made \0");
        let mute = elf_with_section(62, ".modinfo", b"license=GPL\0");
        let cases: [(&str, &[u8], &str); 8] = [
            ("can.ko", b"", "is not a kernel module for x86-64"),
            ("can.ko", b"\x7fELF\x02\x01\x01", "is not a kernel module for x86-64"),
            ("can.ko", &other, "it is for another processor"),
            ("can.ko", &bare, "it has no .modinfo"),
            ("can.ko", &mute, "it has no vermagic"),
            ("can.ko", &module("6.13.0", ""), "a module of 6.13.0, but the image is 6.12.1"),
            ("can.ko.xz", b"no xz", "can.ko.xz cannot be uncompressed"),
            ("can.ko.zst", b"no zstd", "can.ko.zst cannot be uncompressed"),
        ];
        for (name, bytes, reason) in cases {
            let message = replaced(name, bytes);
            assert!(message.contains(reason), "{message}");
        }
        let message = replaced("can.ko.gz", b"no gzip");
        assert!(message.contains("can.ko.gz cannot be uncompressed"), "{message}");
    }

    #[test]
    fn modules_are_uncompressed() {
        let plain = module(RELEASE, "");
        let mut xz =
            lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::default()).unwrap();
        xz.write_all(&plain).unwrap();
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gz.write_all(&plain).unwrap();
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let zst = ruzstd::encoding::compress_to_vec(plain.as_slice(), level);
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in [
            ("a.ko", plain.clone()),
            ("a.ko.xz", xz.finish().unwrap()),
            ("a.ko.gz", gz.finish().unwrap()),
            ("a.ko.zst", zst),
        ] {
            let path = folder.path().join(name);
            fs::write(&path, &bytes).unwrap();
            assert_eq!(read_module(&path).unwrap(), plain, "{name}");
            if name != "a.ko" {
                assert_ne!(bytes, plain);
                fs::write(&path, &bytes[..bytes.len() - 9]).unwrap();
                let message = read_module(&path).unwrap_err().to_string();
                assert!(message.contains("cannot be uncompressed"), "{message}");
            }
        }
    }

    #[test]
    fn a_file_that_grows_too_large_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bomb.ko.gz");
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::copy(&mut io::repeat(0).take(MAX_LEN + 1), &mut gz).unwrap();
        fs::write(&path, gz.finish().unwrap()).unwrap();
        let message = read_module(&path).unwrap_err().to_string();
        assert!(message.contains("it is too large"), "{message}");
    }

    #[test]
    fn of_two_modules_that_is_taken_which_depmod_would_choose() {
        let folder = folder(NEEDED);
        for part in ["extra", "updates"] {
            fs::create_dir(folder.path().join(part)).unwrap();
            let bytes = module(RELEASE, "can-dev");
            fs::write(folder.path().join(part).join("can-raw.ko"), bytes).unwrap();
        }
        let index = closure(folder.path()).unwrap().index();
        assert!(index.contains("can_raw: can_dev\n"), "{index}");
        let listed = "kernel/net/can-raw.ko: kernel/net/can.ko\nupdates/gone.ko:\n";
        fs::write(folder.path().join("modules.dep"), listed).unwrap();
        let index = closure(folder.path()).unwrap().index();
        assert!(index.contains("can_raw: can\n"), "{index}");
    }

    #[test]
    fn links_to_the_sources_are_not_followed() {
        let folder = folder(NEEDED);
        let sources = tempfile::tempdir().unwrap();
        fs::write(sources.path().join("can-raw.ko"), "another").unwrap();
        std::os::unix::fs::symlink(sources.path(), folder.path().join("zbuild")).unwrap();
        // A circle.
        std::os::unix::fs::symlink("..", folder.path().join("zup")).unwrap();
        assert!(closure(folder.path()).is_ok());
    }

    #[test]
    fn the_folder_is_found_from_those_above_it() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("lib").join("modules").join(RELEASE);
        tree(&folder, RELEASE, NEEDED);
        for above in [".", "lib/modules", "lib/modules/6.12.1-made"] {
            let found = folder_of(&root.path().join(above), RELEASE).unwrap();
            assert_eq!(found.canonicalize().unwrap(), folder.canonicalize().unwrap());
        }
        // One entry of another release is taken: its modules then say what they are.
        let modules = root.path().join("lib/modules");
        assert_eq!(folder_of(&modules, "6.13.0").unwrap(), folder);
        tree(&modules.join("6.14.0"), "6.14.0", NEEDED);
        let message = folder_of(&modules, "6.13.0").unwrap_err().to_string();
        assert!(message.contains("contains no modules of 6.13.0"), "{message}");
        let message = folder_of(&root.path().join("gone"), RELEASE).unwrap_err().to_string();
        assert!(message.contains("gone cannot be read"), "{message}");
    }

    #[test]
    fn names_of_files_are_names_of_modules() {
        for (file, name) in [
            ("can-raw.ko", Some("can_raw")),
            ("e1000.ko.xz", Some("e1000")),
            ("x.ko.zst", Some("x")),
            ("x.ko.gz", Some("x")),
            (".ko", None),
            ("x.ko.bz2", None),
            ("x.c", None),
            ("a b.ko", None),
        ] {
            assert_eq!(module_name(file).as_deref(), name, "{file}");
        }
    }
}
