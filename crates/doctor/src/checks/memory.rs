//! How much memory this process may keep in RAM.

use candor_linux::capability::Capability;

use crate::system::{self, GIVE_RIGHTS};
use crate::{Item, Sources};

/// More than a gateway has, stacks of its threads included.
const WANTED: u64 = 128 << 20;

struct Facts {
    /// `RLIMIT_MEMLOCK`.
    limit: Option<u64>,
    has_right: bool,
}

pub(super) fn examine(sources: &Sources) -> Vec<Item> {
    vec![judge(&Facts {
        limit: system::limit(&sources.files, "Max locked memory"),
        has_right: system::rights().has(Capability::IpcLock),
    })]
}

fn judge(facts: &Facts) -> Item {
    let limit = facts.limit.unwrap_or(0);
    let works = "`--lock-memory` works: a gateway never waits for a page";
    if facts.has_right {
        return Item::good("memory", "any amount of memory may be locked (CAP_IPC_LOCK)", works);
    }
    let found = format!("{} of memory may be locked (RLIMIT_MEMLOCK)", system::bytes(limit));
    if limit >= WANTED {
        return Item::good("memory", found, works);
    }
    let meaning = "`--lock-memory` is refused: when memory is short, a gateway may wait until a \
                   page is read from the disk";
    Item::limited("memory", found, meaning).fix(GIVE_RIGHTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reported;

    #[test]
    fn a_right_or_a_high_limit_will_do() {
        let works = "`--lock-memory` works: a gateway never waits for a page\n";
        for (limit, has_right, expected) in [
            (
                Some(0),
                true,
                format!("ok memory: any amount of memory may be locked (CAP_IPC_LOCK)\n  {works}"),
            ),
            (
                Some(u64::MAX),
                false,
                format!(
                    "ok memory: any amount of memory may be locked (RLIMIT_MEMLOCK)\n  {works}"
                ),
            ),
            (
                Some(128 << 20),
                false,
                format!("ok memory: 128 MiB of memory may be locked (RLIMIT_MEMLOCK)\n  {works}"),
            ),
            (
                Some(8 << 20),
                false,
                "limited memory: 8192 KiB of memory may be locked (RLIMIT_MEMLOCK)\n  \
                 `--lock-memory` is refused: when memory is short, a gateway may wait until a \
                 page is read from the disk\n  \
                 $ sudo setcap cap_net_raw,cap_ipc_lock,cap_sys_nice+ep \"$(command -v \
                 candor)\"\n"
                    .into(),
            ),
        ] {
            assert_eq!(reported(&[judge(&Facts { limit, has_right })]), expected);
        }
    }
}
