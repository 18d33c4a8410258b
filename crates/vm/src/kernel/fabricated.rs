//! Kernels that only look like ones, for tests.

use std::fs;
use std::path::Path;

/// What the test bed cannot do without.
pub(crate) const NEEDED: &[(&str, &str)] = &[
    ("can", ""),
    ("can-raw", "can"),
    ("can-gw", "can"),
    ("can-dev", ""),
    ("sja1000", "can-dev"),
    ("kvaser_pci", "sja1000,can-dev"),
];

/// An image of nothing but a header.
pub(crate) fn image(release: &str) -> Vec<u8> {
    let mut bytes = vec![0; 0x400];
    bytes[0x1FE..0x200].copy_from_slice(&[0x55, 0xAA]);
    bytes[0x202..0x206].copy_from_slice(b"HdrS");
    bytes[0x206..0x208].copy_from_slice(&0x020Fu16.to_le_bytes());
    bytes[0x20E..0x210].copy_from_slice(&0x0100u16.to_le_bytes());
    bytes[0x211] = 1;
    bytes[0x236] = 1;
    let text = format!("{release} (who@where) #1 SMP\0");
    bytes[0x300..0x300 + text.len()].copy_from_slice(text.as_bytes());
    bytes
}

/// A module of nothing but what it says about itself.
pub(crate) fn module(release: &str, depends: &str) -> Vec<u8> {
    let about = format!("license=GPL\0depends={depends}\0vermagic={release} SMP preempt \0");
    elf_with_section(62, ".modinfo", about.as_bytes())
}

/// An object file for `machine` with one section.
pub(crate) fn elf_with_section(machine: u16, name: &str, contents: &[u8]) -> Vec<u8> {
    let names = format!("\0{name}\0.shstrtab\0");
    let names_at = 64 + contents.len();
    let sections_at = (names_at + names.len()).next_multiple_of(8);
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(16, 0);
    for half in [1, machine] {
        bytes.extend(u16::to_le_bytes(half));
    }
    bytes.extend(1u32.to_le_bytes());
    for address in [0, 0, sections_at as u64] {
        bytes.extend(address.to_le_bytes());
    }
    bytes.extend(0u32.to_le_bytes());
    for half in [64u16, 0, 0, 64, 3, 2] {
        bytes.extend(half.to_le_bytes());
    }
    bytes.extend(contents);
    bytes.extend(names.as_bytes());
    bytes.resize(sections_at, 0);
    // Name, kind (0: none, 1: data, 3: names), offset, size.
    let own_name = 2 + name.len() as u32;
    let sections = [
        (0, 0, 0, 0),
        (1, 1, 64, contents.len() as u64),
        (own_name, 3, names_at as u64, names.len() as u64),
    ];
    for (name, kind, offset, size) in sections {
        bytes.extend(u32::to_le_bytes(name));
        bytes.extend(u32::to_le_bytes(kind));
        // Flags, address, offset, size.
        for value in [0, 0, offset, size] {
            bytes.extend(u64::to_le_bytes(value));
        }
        bytes.extend([0; 8]);
        for value in [1u64, 0] {
            bytes.extend(value.to_le_bytes());
        }
    }
    bytes
}

/// Writes the folder of modules of a kernel.
pub(crate) fn tree(folder: &Path, release: &str, modules: &[(&str, &str)]) {
    let kernel = folder.join("kernel").join("net");
    fs::create_dir_all(&kernel).unwrap();
    fs::write(folder.join("modules.builtin"), "kernel/lib/crc32.ko\nkernel/net/core-part.ko\n")
        .unwrap();
    for (name, depends) in modules {
        fs::write(kernel.join(format!("{name}.ko")), module(release, depends)).unwrap();
    }
}
