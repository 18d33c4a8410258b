//! The libraries that QEMU loads (`plugins/`): their bytes, made fit for the QEMU that is there.

use object::{Object, ObjectSection, ObjectSymbol};
use sha2::{Digest, Sha256};

use crate::digest::hex;

/// Counts instructions.
pub(crate) static COUNT: Plugin = Plugin(include_bytes!(concat!(env!("OUT_DIR"), "/libcount.so")));

/// Buses that take time, and a tester outside of the guest.
pub(crate) static TIMED_BUS: Plugin =
    Plugin(include_bytes!(concat!(env!("OUT_DIR"), "/libtimed_bus.so")));

/// The number in it that QEMU compares with its own.
const VERSION: &str = "qemu_plugin_version";

/// What the libraries ask the C library for.
const OF_C: [&str; 14] = [
    "abort", "bcmp", "calloc", "close", "creat", "exit", "memcmp", "memcpy", "memmove", "memset",
    "open", "read", "strlen", "write",
];

/// A library that QEMU loads; empty where it cannot be built (see `build.rs`).
pub(crate) struct Plugin(&'static [u8]);

impl Plugin {
    /// The SHA-256 of it.
    pub(crate) fn sha256(&self) -> String {
        hex(&Sha256::digest(self.0))
    }

    /// It, with the number of the interface that a QEMU of this version takes.
    pub(crate) fn for_qemu(&self, qemu: &str) -> Result<Vec<u8>, String> {
        let number = interface(qemu).ok_or_else(|| {
            format!("QEMU {qemu} has another plugin interface; use a tested version, 7.2 or later")
        })?;
        with_interface(self.0, number)
            .ok_or_else(|| "this candor has no QEMU plugins, which need Linux on x86-64".to_owned())
    }
}

/// What a library asks others for, except the C library.
pub(crate) fn symbols_of_qemu(library: &[u8]) -> Vec<String> {
    let Ok(file) = object::File::parse(library) else { return Vec::new() };
    let undefined = file.dynamic_symbols().filter(ObjectSymbol::is_undefined);
    let names = undefined.filter_map(|symbol| symbol.name().ok().map(str::to_owned));
    names.filter(|name| !name.is_empty() && !OF_C.contains(&name.as_str())).collect()
}

/// The number of the plugin interface that QEMU of this version takes: 6.0 to 8.2 take 1, 9.0 to 10.2
/// take 2 and above, 11.1 takes 7 only.
fn interface(qemu: &str) -> Option<i32> {
    match qemu.split('.').next()?.parse().ok()? {
        6..=8 => Some(1),
        9..=10 => Some(2),
        11.. => Some(7),
        0..=5_u32 => None,
    }
}

/// `library` with another number of the interface.
fn with_interface(library: &[u8], number: i32) -> Option<Vec<u8>> {
    let file = object::File::parse(library).ok()?;
    let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(VERSION))?;
    let section = file.section_by_index(symbol.section_index()?).ok()?;
    let (start, _) = section.file_range()?;
    let at = usize::try_from(start + symbol.address().checked_sub(section.address())?).ok()?;
    let mut library = library.to_vec();
    library.get_mut(at..at + 4)?.copy_from_slice(&number.to_le_bytes());
    Some(library)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_qemu_gets_the_interface_that_it_takes() {
        for (version, number) in [
            ("7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)", Some(1)),
            ("8.2.0", Some(1)),
            ("10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)", Some(2)),
            ("11.1.3", Some(7)),
            ("5.2.0", None),
            ("seven", None),
        ] {
            assert_eq!(interface(version), number, "{version}");
        }
        for number in [1, 2, 7] {
            let library = with_interface(COUNT.0, number).unwrap();
            let differing = library.iter().zip(COUNT.0).filter(|(new, old)| new != old).count();
            assert_eq!(differing, usize::from(number != 1), "one byte of the number");
            assert_eq!(with_interface(&library, 1).unwrap(), COUNT.0);
        }
        assert_eq!(with_interface(b"", 1), None);
    }
}
