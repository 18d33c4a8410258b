//! The rights of this process that a gateway has a use for.

use candor_linux::capability::{Capabilities, Capability};

use crate::system::{self, GIVE_ALL_RIGHTS, GIVE_RIGHTS};
use crate::{Item, Sources};

pub(super) fn examine(_: &Sources) -> Vec<Item> {
    judge(system::rights())
}

fn judge(rights: Capabilities) -> Vec<Item> {
    Capability::ALL.into_iter().map(|right| one(right, rights.has(right))).collect()
}

fn one(right: Capability, is_held: bool) -> Item {
    let (with, without, fix) = match right {
        Capability::NetAdmin => (
            "interfaces can be set up, the kernel's gateway programmed, and receive buffers made \
             larger than the limit",
            "the kernel's gateway cannot be programmed and interfaces not be set up; a gateway in \
             user space does without",
            GIVE_ALL_RIGHTS,
        ),
        Capability::NetRaw => (
            "ports such as `packet:can0` can be used",
            "ports such as `packet:can0` cannot be used; `can0` takes no right",
            GIVE_RIGHTS,
        ),
        Capability::IpcLock => (
            "a gateway can keep all its memory in RAM",
            "a gateway can keep in RAM only what the limit of locked memory allows",
            GIVE_RIGHTS,
        ),
        Capability::SysNice => (
            "a gateway can have real-time priority and move interrupt threads",
            "a gateway has real-time priority only as far as the limit of this user allows",
            GIVE_RIGHTS,
        ),
    };
    if is_held {
        Item::good("rights", "held", with).of(right.name())
    } else {
        Item::limited("rights", "not held", without).of(right.name()).fix(fix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::told;

    #[test]
    fn rights_that_are_not_held_can_be_given() {
        assert_eq!(
            told(&judge(Capabilities(0))),
            "limited rights CAP_NET_ADMIN: not held\n  \
             the kernel's gateway cannot be programmed and interfaces not be set up; a gateway in \
             user space does without\n  \
             $ sudo setcap cap_net_admin,cap_net_raw,cap_ipc_lock,cap_sys_nice+ep \"$(command -v \
             candor)\"\n\
             limited rights CAP_NET_RAW: not held\n  \
             ports such as `packet:can0` cannot be used; `can0` takes no right\n  \
             $ sudo setcap cap_net_raw,cap_ipc_lock,cap_sys_nice+ep \"$(command -v candor)\"\n\
             limited rights CAP_IPC_LOCK: not held\n  \
             a gateway can keep in RAM only what the limit of locked memory allows\n  \
             $ sudo setcap cap_net_raw,cap_ipc_lock,cap_sys_nice+ep \"$(command -v candor)\"\n\
             limited rights CAP_SYS_NICE: not held\n  \
             a gateway has real-time priority only as far as the limit of this user allows\n  \
             $ sudo setcap cap_net_raw,cap_ipc_lock,cap_sys_nice+ep \"$(command -v candor)\"\n"
        );
    }

    #[test]
    fn rights_that_are_held_are_fine() {
        assert_eq!(
            told(&judge(Capabilities(u64::MAX))),
            "ok rights CAP_NET_ADMIN: held\n  \
             interfaces can be set up, the kernel's gateway programmed, and receive buffers made \
             larger than the limit\n\
             ok rights CAP_NET_RAW: held\n  \
             ports such as `packet:can0` can be used\n\
             ok rights CAP_IPC_LOCK: held\n  \
             a gateway can keep all its memory in RAM\n\
             ok rights CAP_SYS_NICE: held\n  \
             a gateway can have real-time priority and move interrupt threads\n"
        );
    }
}
