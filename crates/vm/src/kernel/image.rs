//! What a kernel image says about itself: the header of the Linux/x86 boot protocol.
//!
//! | offset | |
//! |---|---|
//! | 0x1FE | 0x55 0xAA |
//! | 0x202 | `HdrS` |
//! | 0x206 | version of the protocol |
//! | 0x20E | where the version text is, less 0x200 |
//! | 0x211 | load flags; bit 0: a bzImage |
//! | 0x236 | bit 0: the kernel is a 64-bit one (protocol 2.12) |

use std::path::Path;

use crate::Error;

/// The release (`uname -r`) of the image in `bytes`, which were read from `path`.
pub(crate) fn release(path: &Path, bytes: &[u8]) -> Result<String, Error> {
    let refuse = |reason: &str| {
        Err(Error::Other(format!(
            "{} {reason}; use the file arch/x86/boot/bzImage of the build, which Debian calls \
             vmlinuz",
            path.display()
        )))
    };
    if bytes.starts_with(b"\x7fELF") {
        return refuse("is an ELF file, not a bootable image");
    }
    let word = |offset: usize| {
        let bytes = bytes.get(offset..offset + 2)?;
        Some(u16::from_le_bytes([bytes[0], bytes[1]]))
    };
    if bytes.get(0x202..0x206) != Some(b"HdrS") || word(0x1FE) != Some(0xAA55) {
        return refuse("is not a Linux kernel for x86: it has no boot header");
    }
    let (Some(protocol), Some(version_at), Some(load)) =
        (word(0x206), word(0x20E), bytes.get(0x211))
    else {
        return refuse("ends inside its boot header");
    };
    if load & 1 == 0 {
        return refuse("is a zImage");
    }
    if protocol < 0x020C || word(0x236).is_none_or(|flags| flags & 1 == 0) {
        return refuse("is not a 64-bit kernel");
    }
    // "6.12.117+deb13-amd64 (who) #1 SMP ..."
    let text = bytes.get(usize::from(version_at) + 0x200..).unwrap_or_default();
    let text = &text[..text.len().min(256)];
    let release: Vec<u8> =
        text.iter().copied().take_while(|byte| byte.is_ascii_graphic()).collect();
    // It becomes the name of a folder.
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b".+~-_".contains(byte);
    match String::from_utf8(release) {
        Ok(release)
            if release.starts_with(|c: char| c.is_ascii_digit())
                && release.len() < 65
                && release.bytes().all(|byte| is_name(&byte)) =>
        {
            Ok(release)
        }
        _ => refuse("does not contain its release"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::fabricated::image as fabricated;
    use super::*;

    #[test]
    fn an_image_tells_its_release() {
        let release = release(Path::new("bzImage"), &fabricated("6.12.117+deb13-rt-amd64"));
        assert_eq!(release.unwrap(), "6.12.117+deb13-rt-amd64");
    }

    #[test]
    fn what_is_no_image_is_refused_with_its_reason() {
        let with = |offset: usize, value: u8| {
            let mut bytes = fabricated("6.12.1");
            bytes[offset] = value;
            bytes
        };
        let cases: [(Vec<u8>, &str); 11] = [
            (b"\x7fELF and more".to_vec(), "is an ELF file"),
            (Vec::new(), "no boot header"),
            (b"hello".to_vec(), "no boot header"),
            (with(0x202, b'h'), "no boot header"),
            (with(0x1FE, 0), "no boot header"),
            (fabricated("6.12.1")[..0x208].to_vec(), "ends inside its boot header"),
            (with(0x211, 0), "is a zImage"),
            (with(0x236, 0), "not a 64-bit kernel"),
            (with(0x206, 0), "not a 64-bit kernel"),
            (with(0x20F, 0xFF), "does not contain its release"),
            (fabricated("6.12/../../x"), "does not contain its release"),
        ];
        for (bytes, reason) in cases {
            let message = release(Path::new("k/image"), &bytes).unwrap_err().to_string();
            assert!(message.starts_with("k/image ") && message.contains(reason), "{message}");
            assert!(message.contains("arch/x86/boot/bzImage"), "{message}");
        }
    }
}
