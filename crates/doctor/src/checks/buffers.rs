//! How large the receive buffer of a socket may be made.

use candor_diagnostics::counted;
use candor_linux::capability::Capability;

use crate::system;
use crate::{Item, Sources};

/// Enough for a socket that a gateway fetches from late.
const WANTED: u64 = 4 << 20;
/// What the kernel accounts for a CAN frame in a receive buffer, at most.
const FRAME_BYTES: u64 = 1024;

struct Facts {
    /// `net.core.rmem_max`.
    limit: Option<u64>,
    /// Whether the limit does not count.
    may_exceed: bool,
}

pub(super) fn examine(sources: &Sources) -> Vec<Item> {
    let limit = sources.files.number("proc/sys/net/core/rmem_max");
    vec![judge(&Facts {
        limit: limit.and_then(|limit| u64::try_from(limit).ok()),
        may_exceed: system::rights().has(Capability::NetAdmin),
    })]
}

fn judge(facts: &Facts) -> Item {
    let Some(limit) = facts.limit else {
        return Item::good(
            "buffers",
            "the limit of receive buffers is not known",
            "frames that are lost in a receive buffer are counted and shown, whatever its size",
        );
    };
    let found = format!("receive buffers of {} (net.core.rmem_max)", system::bytes(limit));
    if limit >= WANTED {
        let meaning = "a gateway that is delayed for a while loses no frames";
        return Item::good("buffers", found, meaning);
    }
    if facts.may_exceed {
        let meaning = "the limit does not apply to a process with CAP_NET_ADMIN";
        return Item::good("buffers", found, meaning);
    }
    // The kernel grants twice what is asked for.
    let frames = limit * 2 / FRAME_BYTES;
    let meaning = format!(
        "about {} can wait for a gateway that is delayed; more are lost, counted as overflow",
        counted(frames, "frame")
    );
    Item::limited("buffers", found, meaning)
        .fix(format!("sudo sysctl -w net.core.rmem_max={WANTED}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reported;

    #[test]
    fn a_small_limit_is_reported_in_frames() {
        for (limit, may_exceed, expected) in [
            (
                Some(212_992),
                false,
                "limited buffers: receive buffers of 208 KiB (net.core.rmem_max)\n  \
                 about 416 frames can wait for a gateway that is delayed; more are lost, counted as overflow\n  \
                 $ sudo sysctl -w net.core.rmem_max=4194304\n",
            ),
            (
                Some(212_992),
                true,
                "ok buffers: receive buffers of 208 KiB (net.core.rmem_max)\n  \
                 the limit does not apply to a process with CAP_NET_ADMIN\n",
            ),
            (
                Some(4_194_304),
                false,
                "ok buffers: receive buffers of 4096 KiB (net.core.rmem_max)\n  \
                 a gateway that is delayed for a while loses no frames\n",
            ),
            (
                None,
                false,
                "ok buffers: the limit of receive buffers is not known\n  \
                 frames that are lost in a receive buffer are counted and shown, whatever its \
                 size\n",
            ),
        ] {
            assert_eq!(reported(&[judge(&Facts { limit, may_exceed })]), expected);
        }
    }
}
