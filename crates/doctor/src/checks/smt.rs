//! Whether CPUs share a core (hyper-threading).

use crate::{Item, Sources};

pub(super) fn examine(sources: &Sources) -> Vec<Item> {
    vec![judge(sources.files.number("sys/devices/system/cpu/smt/active") == Some(1))]
}

fn judge(is_shared: bool) -> Item {
    if is_shared {
        Item::limited(
            "smt",
            "two CPUs share each core (SMT)",
            "a program on the other CPU of the gateway's core slows the gateway down, whatever \
             the priorities",
        )
        .fix("echo off | sudo tee /sys/devices/system/cpu/smt/control")
    } else {
        Item::good(
            "smt",
            "each CPU is a core of its own",
            "no program slows down the core of another one",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reported;

    #[test]
    fn a_shared_core_is_a_limit() {
        assert_eq!(
            reported(&[judge(true), judge(false)]),
            "limited smt: two CPUs share each core (SMT)\n  \
             a program on the other CPU of the gateway's core slows the gateway down, whatever \
             the priorities\n  \
             $ echo off | sudo tee /sys/devices/system/cpu/smt/control\n\
             ok smt: each CPU is a core of its own\n  \
             no program slows down the core of another one\n"
        );
    }
}
