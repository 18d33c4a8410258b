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
            "a gateway can set up interfaces, program can-gw, and use receive buffers above the \
             limit",
            "a gateway cannot set up interfaces or program can-gw; a gateway in user space does \
             not need this",
            GIVE_ALL_RIGHTS,
        ),
        Capability::NetRaw => (
            "ports such as `packet:can0` can be used",
            "ports such as `packet:can0` cannot be used; `can0` needs no capability",
            GIVE_RIGHTS,
        ),
        Capability::IpcLock => (
            "a gateway can lock all its memory in RAM",
            "a gateway can keep memory in RAM only up to the limit of locked memory",
            GIVE_RIGHTS,
        ),
        Capability::SysNice => (
            "a gateway can have real-time priority and move interrupt threads",
            "a gateway can have real-time priority only up to the limit of this user",
            GIVE_RIGHTS,
        ),
    };
    if is_held {
        Item::good("rights", "held", with).about(right.name())
    } else {
        Item::limited("rights", "not held", without).about(right.name()).fix(fix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reported;

    #[test]
    fn rights_that_are_not_held_can_be_given() {
        assert_eq!(
            reported(&judge(Capabilities(0))),
            "limited rights CAP_NET_ADMIN: not held\n  \
             a gateway cannot set up interfaces or program can-gw; a gateway in user space does \
             not need this\n  \
             $ sudo setcap cap_net_admin,cap_net_raw,cap_ipc_lock,cap_sys_nice+ep \"$(command -v \
             candor)\"\n\
             limited rights CAP_NET_RAW: not held\n  \
             ports such as `packet:can0` cannot be used; `can0` needs no capability\n  \
             $ sudo setcap cap_net_raw,cap_ipc_lock,cap_sys_nice+ep \"$(command -v candor)\"\n\
             limited rights CAP_IPC_LOCK: not held\n  \
             a gateway can keep memory in RAM only up to the limit of locked memory\n  \
             $ sudo setcap cap_net_raw,cap_ipc_lock,cap_sys_nice+ep \"$(command -v candor)\"\n\
             limited rights CAP_SYS_NICE: not held\n  \
             a gateway can have real-time priority only up to the limit of this user\n  \
             $ sudo setcap cap_net_raw,cap_ipc_lock,cap_sys_nice+ep \"$(command -v candor)\"\n"
        );
    }

    #[test]
    fn rights_that_are_held_are_fine() {
        assert_eq!(
            reported(&judge(Capabilities(u64::MAX))),
            "ok rights CAP_NET_ADMIN: held\n  \
             a gateway can set up interfaces, program can-gw, and use receive buffers above the \
             limit\n\
             ok rights CAP_NET_RAW: held\n  \
             ports such as `packet:can0` can be used\n\
             ok rights CAP_IPC_LOCK: held\n  \
             a gateway can lock all its memory in RAM\n\
             ok rights CAP_SYS_NICE: held\n  \
             a gateway can have real-time priority and move interrupt threads\n"
        );
    }
}
