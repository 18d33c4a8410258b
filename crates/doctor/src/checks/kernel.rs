//! The version of Linux, and whether it is one with PREEMPT_RT.

use crate::system::{self, Distribution};
use crate::{Item, Sources};

/// What waiting for several files with a timeout of nanoseconds takes.
const OLDEST: (u32, u32) = (5, 11);

struct Facts {
    release: Option<String>,
    is_realtime: bool,
    distribution: Distribution,
    architecture: &'static str,
}

pub(super) fn examine(sources: &Sources) -> Vec<Item> {
    let files = &sources.files;
    vec![judge(&Facts {
        release: system::release(files),
        is_realtime: system::is_realtime(files),
        distribution: Distribution::read(files),
        architecture: system::debian_architecture(),
    })]
}

/// The first two numbers of a release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn judge(facts: &Facts) -> Item {
    let release = facts.release.as_deref().unwrap_or("of unknown version");
    let found = format!("Linux {release}");
    if version(release).is_some_and(|version| version < OLDEST) {
        let (major, minor) = OLDEST;
        let meaning = format!("Candor needs Linux {major}.{minor} or newer");
        return Item::missing("kernel", found, meaning).needed();
    }
    if facts.is_realtime {
        return Item::good(
            "kernel",
            format!("{found}, PREEMPT_RT"),
            "a gateway with real-time priority preempts other work in the kernel, so the worst \
             latency has a bound",
        )
        .needed();
    }
    let fix = match facts.distribution {
        Distribution::Debian => {
            let architecture = facts.architecture;
            Some(format!("sudo apt-get install linux-image-rt-{architecture} && sudo reboot"))
        }
        Distribution::Ubuntu => Some("sudo pro enable realtime-kernel && sudo reboot".into()),
        Distribution::Arch => Some("sudo pacman -S linux-rt && sudo reboot".into()),
        Distribution::Fedora | Distribution::Other => None,
    };
    Item::limited(
        "kernel",
        format!("{found} without PREEMPT_RT"),
        "a gateway runs, and most frames are as fast; but other work in the kernel can delay it, \
         so the worst latency has no bound",
    )
    .maybe_fix(fix)
    .needed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reported;

    fn install_command(release: &str, is_realtime: bool, distribution: Distribution) -> String {
        let release = Some(release.to_owned());
        reported(&[judge(&Facts { release, is_realtime, distribution, architecture: "amd64" })])
    }

    #[test]
    fn a_kernel_is_judged_by_version_and_preemption() {
        assert_eq!(
            install_command("6.12.57+deb13-rt-amd64", true, Distribution::Debian),
            "ok needed kernel: Linux 6.12.57+deb13-rt-amd64, PREEMPT_RT\n  \
             a gateway with real-time priority preempts other work in the kernel, so the worst \
             latency has a bound\n"
        );
        let without = "a gateway runs, and most frames are as fast; but other work in the kernel \
                       can delay it, so the worst latency has no bound";
        for (distribution, fix) in [
            (
                Distribution::Debian,
                "  $ sudo apt-get install linux-image-rt-amd64 && sudo reboot\n",
            ),
            (Distribution::Ubuntu, "  $ sudo pro enable realtime-kernel && sudo reboot\n"),
            (Distribution::Arch, "  $ sudo pacman -S linux-rt && sudo reboot\n"),
            (Distribution::Fedora, ""),
            (Distribution::Other, ""),
        ] {
            let expected = format!(
                "limited needed kernel: Linux 5.11.0 without PREEMPT_RT\n  {without}\n{fix}"
            );
            assert_eq!(install_command("5.11.0", false, distribution), expected);
        }
        for old in ["5.10.0-28-amd64", "4.19.1-rt3"] {
            assert_eq!(
                install_command(old, true, Distribution::Debian),
                format!("missing needed kernel: Linux {old}\n  Candor needs Linux 5.11 or newer\n")
            );
        }
    }

    #[test]
    fn versions_are_read() {
        for (release, expected) in [
            ("6.12.57", Some((6, 12))),
            ("7.0-rc3", Some((7, 0))),
            ("6", None),
            ("of unknown version", None),
        ] {
            assert_eq!(version(release), expected, "{release}");
        }
    }
}
