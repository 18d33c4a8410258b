//! Whether a thread of this process gets real-time priority.

use candor_linux::realtime::{self, Policy, Task};

use crate::system::{self, GIVE_RIGHTS};
use crate::{Item, Sources};

/// As the manual recommends for a gateway: above interrupt threads, which have 50.
const WANTED: u8 = 80;

struct Facts {
    /// Whether SCHED_FIFO with [`WANTED`] was granted.
    is_granted: bool,
    /// The highest priority that this user may take without a right; `None` if unknown.
    limit: Option<u64>,
    has_right: bool,
}

pub(super) fn examine(sources: &Sources) -> Vec<Item> {
    // In a thread that ends, so that nothing stays.
    let trying = std::thread::spawn(|| realtime::set_policy(Task::This, Policy::Fifo(WANTED)));
    vec![judge(&Facts {
        is_granted: trying.join().is_ok_and(|outcome| outcome.is_ok()),
        limit: system::limit(&sources.files, "Max realtime priority"),
        has_right: system::rights().has(candor_linux::capability::Capability::SysNice),
    })]
}

fn judge(facts: &Facts) -> Item {
    if facts.is_granted {
        return Item::good(
            "priority",
            format!("real-time priority {WANTED} is granted (SCHED_FIFO)"),
            format!("`--rt {WANTED}` works: a gateway runs before every ordinary program"),
        );
    }
    let meaning = "a gateway shares its CPU with other programs, and may wait for them under load";
    if facts.has_right {
        return Item::limited(
            "priority",
            "real-time priority is refused although the process has CAP_SYS_NICE",
            format!("{meaning}; the control group or the container has no real-time budget"),
        )
        .fix("sudo sysctl -w kernel.sched_rt_runtime_us=-1");
    }
    match facts.limit.filter(|&limit| limit > 0) {
        Some(limit) => Item::limited(
            "priority",
            format!("real-time priorities up to {limit} are granted, {WANTED} is not"),
            format!("`--rt {limit}` works; interrupt threads have priority 50"),
        )
        .fix(GIVE_RIGHTS),
        None => Item::limited(
            "priority",
            "no real-time priority is granted (RLIMIT_RTPRIO is 0)",
            meaning,
        )
        .fix(GIVE_RIGHTS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reported;

    #[test]
    fn what_is_refused_is_reported_with_the_reason() {
        let refused = Facts { is_granted: false, limit: Some(0), has_right: false };
        assert_eq!(
            reported(&[judge(&Facts { is_granted: true, ..refused })]),
            "ok priority: real-time priority 80 is granted (SCHED_FIFO)\n  \
             `--rt 80` works: a gateway runs before every ordinary program\n"
        );
        let none = "limited priority: no real-time priority is granted (RLIMIT_RTPRIO is 0)\n  \
                    a gateway shares its CPU with other programs, and may wait for them under \
                    load\n  \
                    $ sudo setcap cap_net_raw,cap_ipc_lock,cap_sys_nice+ep \"$(command -v \
                    candor)\"\n";
        assert_eq!(reported(&[judge(&refused)]), none);
        assert_eq!(reported(&[judge(&Facts { limit: None, ..refused })]), none);
        assert_eq!(
            reported(&[judge(&Facts { limit: Some(40), ..refused })]),
            "limited priority: real-time priorities up to 40 are granted, 80 is not\n  \
             `--rt 40` works; interrupt threads have priority 50\n  \
             $ sudo setcap cap_net_raw,cap_ipc_lock,cap_sys_nice+ep \"$(command -v candor)\"\n"
        );
        assert_eq!(
            reported(&[judge(&Facts { has_right: true, ..refused })]),
            "limited priority: real-time priority is refused although the process has \
             CAP_SYS_NICE\n  \
             a gateway shares its CPU with other programs, and may wait for them under load; the \
             control group or the container has no real-time budget\n  \
             $ sudo sysctl -w kernel.sched_rt_runtime_us=-1\n"
        );
    }
}
