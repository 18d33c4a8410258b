//! Packet sockets, and sockets that share frames with a driver of Ethernet.

use candor_linux::probe::Kind;

use crate::system::GIVE_RIGHTS;
use crate::{Item, Sources};

/// What trying to open a socket gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Opened,
    NotPermitted,
    NotThere,
}

struct Facts {
    packet: Outcome,
    xdp: Outcome,
}

pub(super) fn examine(_: &Sources) -> Vec<Item> {
    let outcome = |kind: Kind| match kind.try_open() {
        Ok(()) => Outcome::Opened,
        Err(error) => {
            let name = error.errno().and_then(candor_linux::Errno::name);
            if matches!(name, Some("EPERM" | "EACCES")) {
                Outcome::NotPermitted
            } else {
                Outcome::NotThere
            }
        }
    };
    judge(&Facts { packet: outcome(Kind::Packet), xdp: outcome(Kind::Xdp) })
}

fn judge(facts: &Facts) -> Vec<Item> {
    let packet = match facts.packet {
        Outcome::Opened => Item::good(
            "packet",
            "packet sockets can be opened",
            "`packet:can0` receives through a ring shared with the kernel",
        ),
        Outcome::NotPermitted => Item::limited(
            "packet",
            "the kernel has packet sockets, but this process may not use them",
            "use `can0` instead of `packet:can0`",
        )
        .fix(GIVE_RIGHTS),
        Outcome::NotThere => Item::missing(
            "packet",
            "this kernel has no packet sockets",
            "use `can0` instead of `packet:can0`",
        ),
    };
    let nobody_misses = "no CAN interface supports them, so no port uses them";
    let xdp = match facts.xdp {
        Outcome::Opened => Item::good(
            "xdp",
            "XDP sockets can be opened",
            "they bypass the kernel's network stack on Ethernet; no CAN interface supports them, \
             so no port uses them",
        ),
        Outcome::NotPermitted => Item::good(
            "xdp",
            "the kernel has XDP sockets, but this process may not use them",
            nobody_misses,
        ),
        Outcome::NotThere => Item::good("xdp", "this kernel has no XDP sockets", nobody_misses),
    };
    vec![packet, xdp]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reported;

    #[test]
    fn sockets_are_judged_by_what_uses_them() {
        assert_eq!(
            reported(&judge(&Facts { packet: Outcome::Opened, xdp: Outcome::Opened })),
            "ok packet: packet sockets can be opened\n  \
             `packet:can0` receives through a ring shared with the kernel\n\
             ok xdp: XDP sockets can be opened\n  \
             they bypass the kernel's network stack on Ethernet; no CAN interface supports them, \
             so no port uses them\n"
        );
        assert_eq!(
            reported(&judge(&Facts { packet: Outcome::NotPermitted, xdp: Outcome::NotPermitted })),
            "limited packet: the kernel has packet sockets, but this process may not use them\n  \
             use `can0` instead of `packet:can0`\n  \
             $ sudo setcap cap_net_raw,cap_ipc_lock,cap_sys_nice+ep \"$(command -v candor)\"\n\
             ok xdp: the kernel has XDP sockets, but this process may not use them\n  \
             no CAN interface supports them, so no port uses them\n"
        );
        assert_eq!(
            reported(&judge(&Facts { packet: Outcome::NotThere, xdp: Outcome::NotThere })),
            "missing packet: this kernel has no packet sockets\n  \
             use `can0` instead of `packet:can0`\n\
             ok xdp: this kernel has no XDP sockets\n  \
             no CAN interface supports them, so no port uses them\n"
        );
    }
}
