//! What several checks want to know: the kernel, the distribution, limits, how to say a command.

use candor_linux::capability::Capabilities;

use crate::Files;

/// Gives the program what a gateway without the kernel plane can use. The command replaces what was
/// given before, so it always names all of it.
pub(crate) const GIVE_RIGHTS: &str =
    "sudo setcap cap_net_raw,cap_ipc_lock,cap_sys_nice+ep \"$(command -v candor)\"";
/// The same, and what the kernel plane takes.
pub(crate) const GIVE_ALL_RIGHTS: &str =
    "sudo setcap cap_net_admin,cap_net_raw,cap_ipc_lock,cap_sys_nice+ep \"$(command -v candor)\"";

/// Who packs the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Distribution {
    Debian,
    Ubuntu,
    Fedora,
    Arch,
    #[default]
    Other,
}

impl Distribution {
    pub(crate) fn read(files: &Files) -> Self {
        let text = files.text("etc/os-release").unwrap_or_default();
        Self::by(&text)
    }

    /// By the words of ID, then of ID_LIKE, the nearest relatives first.
    fn by(os_release: &str) -> Self {
        let value = |key: &str| {
            let line =
                os_release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            line.unwrap_or_default().trim_matches('"').to_owned()
        };
        let words = format!("{} {}", value("ID"), value("ID_LIKE"));
        let known = words.split_whitespace().find_map(|word| match word {
            "debian" | "raspbian" => Some(Self::Debian),
            "ubuntu" => Some(Self::Ubuntu),
            "fedora" | "rhel" | "centos" => Some(Self::Fedora),
            "arch" => Some(Self::Arch),
            _ => None,
        });
        known.unwrap_or_default()
    }

    /// The command that adds a word to the kernel's command line; it takes a restart.
    pub(crate) fn add_to_command_line(self, words: &str) -> Option<String> {
        match self {
            Self::Debian | Self::Ubuntu => Some(format!(
                "echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {words}\"' | sudo tee -a \
                 /etc/default/grub.d/candor.cfg && sudo update-grub && sudo reboot"
            )),
            Self::Fedora => {
                Some(format!("sudo grubby --update-kernel=ALL --args=\"{words}\" && sudo reboot"))
            }
            Self::Arch | Self::Other => None,
        }
    }
}

/// As Debian calls the processor of this machine.
pub(crate) fn debian_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "arm" => "armhf",
        other => other,
    }
}

/// As `uname -r` says it.
pub(crate) fn release(files: &Files) -> Option<String> {
    files.text("proc/sys/kernel/osrelease")
}

/// Whether this is a kernel with PREEMPT_RT.
pub(crate) fn is_realtime(files: &Files) -> bool {
    files.number("sys/kernel/realtime") == Some(1)
        || files
            .text("proc/sys/kernel/version")
            .is_some_and(|version| version.split_whitespace().any(|word| word == "PREEMPT_RT"))
}

/// The rights in effect; none if they cannot be read.
pub(crate) fn rights() -> Capabilities {
    Capabilities::effective().unwrap_or_default()
}

/// A limit of this process, by its name in `/proc/self/limits`; `u64::MAX` if there is none.
pub(crate) fn limit(files: &Files, name: &str) -> Option<u64> {
    let text = files.text("proc/self/limits")?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?;
    if value == "unlimited" { Some(u64::MAX) } else { value.parse().ok() }
}

/// Bytes for people.
pub(crate) fn bytes(count: u64) -> String {
    match count {
        u64::MAX => "any amount".into(),
        count if count >= 10 << 20 => format!("{} MiB", count >> 20),
        count => format!("{} KiB", count >> 10),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn distributions_are_known_by_their_relatives() {
        for (text, expected) in [
            ("ID=debian\n", Distribution::Debian),
            ("NAME=x\nID=ubuntu\nID_LIKE=debian", Distribution::Ubuntu),
            ("ID=linuxmint\nID_LIKE=\"ubuntu debian\"", Distribution::Ubuntu),
            ("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"", Distribution::Fedora),
            ("ID=arch", Distribution::Arch),
            ("ID=poky", Distribution::Other),
            ("", Distribution::Other),
        ] {
            assert_eq!(Distribution::by(text), expected, "{text}");
        }
    }

    #[test]
    fn each_boot_loader_has_its_command() {
        assert_eq!(
            Distribution::Debian.add_to_command_line("threadirqs").unwrap(),
            "echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX threadirqs\"' | sudo tee -a \
             /etc/default/grub.d/candor.cfg && sudo update-grub && sudo reboot"
        );
        assert_eq!(
            Distribution::Fedora.add_to_command_line("threadirqs").unwrap(),
            "sudo grubby --update-kernel=ALL --args=\"threadirqs\" && sudo reboot"
        );
        assert_eq!(Distribution::Other.add_to_command_line("threadirqs"), None);
    }

    #[test]
    fn files_of_the_kernel_are_understood() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("proc/sys/kernel")).unwrap();
        fs::create_dir_all(root.join("proc/self")).unwrap();
        let files = Files::at(root);
        assert!(!is_realtime(&files));
        assert_eq!(limit(&files, "Max locked memory"), None);
        let version = "#1 SMP PREEMPT_DYNAMIC Debian 6.12\n";
        fs::write(root.join("proc/sys/kernel/version"), version).unwrap();
        assert!(!is_realtime(&files));
        let version = version.replace("DYNAMIC", "RT");
        fs::write(root.join("proc/sys/kernel/version"), version).unwrap();
        assert!(is_realtime(&files));
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max locked memory         8388608              unlimited            bytes     \n\
                      Max realtime priority     unlimited            0                    \n";
        fs::write(root.join("proc/self/limits"), limits).unwrap();
        assert_eq!(limit(&files, "Max locked memory"), Some(8_388_608));
        assert_eq!(limit(&files, "Max realtime priority"), Some(u64::MAX));
    }

    #[test]
    fn bytes_are_shown_for_people() {
        for (count, expected) in [
            (0, "0 KiB"),
            (212_992, "208 KiB"),
            (8 << 20, "8192 KiB"),
            (64 << 20, "64 MiB"),
            (u64::MAX, "any amount"),
        ] {
            assert_eq!(bytes(count), expected);
        }
    }
}
