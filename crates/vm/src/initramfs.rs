//! The first file system of a guest, packed as Linux unpacks it: a `cpio` archive in the format
//! "newc", not compressed. The same guest program and the same kernel give the same bytes.
//!
//! | in it | |
//! |---|---|
//! | `/init` | the guest program |
//! | `/dev/console` | so that the guest can speak before anything is mounted |
//! | `/modules/NAME.ko`, `/modules/index` | the kernel's modules, see [`crate::kernel`] |
//! | `/dev` `/proc` `/run` `/sys` `/tmp` | empty, to mount on |

use std::fs;
use std::path::Path;

use candor_protocol::meeting;

use crate::kernel::INDEX;
use crate::{Error, Kernel};

/// Kinds and permissions of files, as in `st_mode`.
mod mode {
    pub(super) const FOLDER: u32 = 0o040_755;
    pub(super) const TEMPORARY: u32 = 0o041_777;
    pub(super) const PROGRAM: u32 = 0o100_755;
    pub(super) const FILE: u32 = 0o100_644;
    pub(super) const CONSOLE: u32 = 0o020_600;
}

/// The device number of `/dev/console`.
const CONSOLE: (u32, u32) = (5, 1);
/// What the last entry is called.
const TRAILER: &str = "TRAILER!!!";
/// The kernel reads archives in blocks of this size.
const BLOCK: usize = 512;

/// The archive with `guest` as `/init` and the modules of `kernel`.
///
/// # Errors
/// If the modules cannot be read.
pub fn build(guest: &[u8], kernel: &Kernel) -> Result<Vec<u8>, Error> {
    let mut archive = Archive::default();
    // In order of their names, folders before what is in them.
    archive.add("dev", mode::FOLDER, (0, 0), &[]);
    archive.add("dev/console", mode::CONSOLE, CONSOLE, &[]);
    archive.add("init", mode::PROGRAM, (0, 0), guest);
    let folder = meeting::MODULES.trim_start_matches('/');
    archive.add(folder, mode::FOLDER, (0, 0), &[]);
    for (name, bytes) in modules(&kernel.modules)? {
        archive.add(&format!("{folder}/{name}"), mode::FILE, (0, 0), &bytes);
    }
    archive.add("proc", mode::FOLDER, (0, 0), &[]);
    archive.add("run", mode::FOLDER, (0, 0), &[]);
    archive.add("sys", mode::FOLDER, (0, 0), &[]);
    archive.add("tmp", mode::TEMPORARY, (0, 0), &[]);
    Ok(archive.finish())
}

/// The index and the modules that it names, in order of their files' names.
fn modules(folder: &Path) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read(&path).map_err(|error| Error::read(&path, error))
    };
    let index = read(INDEX)?;
    let text = String::from_utf8_lossy(&index);
    let mut files = Vec::new();
    for (name, order) in text.lines().filter_map(|line| line.split_once(':')) {
        if order.trim() != "builtin" {
            let name = format!("{name}.ko");
            files.push((name.clone(), read(&name)?));
        }
    }
    files.push((INDEX.to_owned(), index));
    files.sort();
    Ok(files)
}

/// An archive in the making.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    fn add(&mut self, name: &str, mode: u32, device: (u32, u32), contents: &[u8]) {
        self.entries += 1;
        let is_folder = mode & 0o170_000 == 0o040_000;
        // Inode, mode, user, group, links, time, size, device of the file system, device,
        // bytes of the name with its end, checksum (none in this format).
        let fields = [
            self.entries,
            mode,
            0,
            0,
            if is_folder { 2 } else { 1 },
            0,
            contents.len() as u32,
            0,
            0,
            device.0,
            device.1,
            name.len() as u32 + 1,
            0,
        ];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad(4);
        self.bytes.extend_from_slice(contents);
        self.pad(4);
    }

    fn pad(&mut self, multiple: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(multiple), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.add(TRAILER, 0, (0, 0), &[]);
        self.pad(BLOCK);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, mode, device, contents.
    type Entry = (String, u32, (u32, u32), Vec<u8>);

    /// What an archive holds. Written by the kernel's documentation
    /// (driver-api/early-userspace/buffer-format), not by the code above.
    fn parse(mut rest: &[u8]) -> Vec<Entry> {
        let whole = rest.len();
        let mut entries = Vec::new();
        loop {
            let (header, after) = rest.split_at(110);
            let header = std::str::from_utf8(header).unwrap();
            let field = |index: usize| {
                let at = 6 + 8 * index;
                u32::from_str_radix(&header[at..at + 8], 16).unwrap()
            };
            assert_eq!(&header[..6], "070701");
            let (size, name_size) = (field(6) as usize, field(11) as usize);
            // c_mtime and c_chksum.
            assert_eq!((field(5), field(12)), (0, 0));
            let name = std::str::from_utf8(&after[..name_size - 1]).unwrap().to_owned();
            assert_eq!(after[name_size - 1], 0);
            let at = whole - rest.len();
            let contents_at = (at + 110 + name_size).next_multiple_of(4);
            let next = (contents_at + size).next_multiple_of(4);
            let contents = rest[contents_at - at..][..size].to_vec();
            rest = &rest[next - at..];
            if name == "TRAILER!!!" {
                assert!(rest.iter().all(|&byte| byte == 0));
                return entries;
            }
            entries.push((name, field(1), (field(9), field(10)), contents));
        }
    }

    fn kernel(modules: &[(&str, &[u8])]) -> (tempfile::TempDir, Kernel) {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in modules {
            fs::write(folder.path().join(name), bytes).unwrap();
        }
        let kernel = Kernel {
            name: "6.12".into(),
            release: "6.12.1".into(),
            package: None,
            suite: None,
            image: folder.path().join("bzImage"),
            modules: folder.path().to_owned(),
            system_map: None,
            sha256: String::new(),
        };
        (folder, kernel)
    }

    #[test]
    fn the_archive_holds_program_console_and_modules() {
        let index = b"can: builtin\ncan_raw:\nvcan: can_raw\n";
        let (_folder, kernel) = kernel(&[
            ("vcan.ko", b"vcan!"),
            ("can_raw.ko", b""),
            ("stray.ko", b"is not in the index"),
            ("index", index),
        ]);
        let archive = build(b"program", &kernel).unwrap();
        assert_eq!(archive, build(b"program", &kernel).unwrap());
        assert_eq!(archive.len() % 512, 0);
        let entry = |name: &str, mode, device, contents: &[u8]| {
            (name.to_owned(), mode, device, contents.to_vec())
        };
        let expected = [
            entry("dev", 0o040_755, (0, 0), b""),
            entry("dev/console", 0o020_600, (5, 1), b""),
            entry("init", 0o100_755, (0, 0), b"program"),
            entry("modules", 0o040_755, (0, 0), b""),
            entry("modules/can_raw.ko", 0o100_644, (0, 0), b""),
            entry("modules/index", 0o100_644, (0, 0), index),
            entry("modules/vcan.ko", 0o100_644, (0, 0), b"vcan!"),
            entry("proc", 0o040_755, (0, 0), b""),
            entry("run", 0o040_755, (0, 0), b""),
            entry("sys", 0o040_755, (0, 0), b""),
            entry("tmp", 0o041_777, (0, 0), b""),
        ];
        assert_eq!(parse(&archive), expected);
    }

    #[test]
    fn a_module_that_is_gone_is_named() {
        let (_folder, kernel) = kernel(&[("index", b"vcan:\n")]);
        let message = build(b"program", &kernel).unwrap_err().to_string();
        assert!(message.contains("vcan.ko cannot be read"), "{message}");
    }
}
