//! What there is to run other kernels: QEMU and the kernels.

use crate::{Item, Sources};

/// What there is to run other kernels, as whoever knows of virtual machines tells it.
#[derive(Clone, Debug)]
pub struct Laboratory {
    /// The version of QEMU, or why it cannot be used.
    pub qemu: Result<String, String>,
    /// Whether a tester can be outside of the guest, or why not; `None` without QEMU.
    pub tester_outside: Option<Result<(), String>>,
    /// The names of the kernels in the cache.
    pub kernels: Vec<String>,
}

pub(super) fn examine(sources: &Sources) -> Vec<Item> {
    match &sources.laboratory {
        Some(laboratory) => judge(laboratory),
        None => vec![
            Item::limited(
                "laboratory",
                "this build has none",
                "there is no `candor demo`, `lab` or `vm`; a gateway needs none of them",
            )
            .fix("cargo build --release"),
        ],
    }
}

fn judge(laboratory: &Laboratory) -> Vec<Item> {
    let qemu = match &laboratory.qemu {
        Ok(version) => Item::good(
            "qemu",
            format!("QEMU {version}"),
            "experiments can run on real kernels; this needs no root and no /dev/kvm",
        ),
        Err(reason) => Item::missing(
            "qemu",
            reason.clone(),
            "experiments run in the simulation only; a gateway needs no QEMU",
        )
        .fix("sudo apt-get install --no-install-recommends qemu-system-x86"),
    };
    let outside = laboratory.tester_outside.as_ref().map(|outside| match outside {
        Ok(()) => Item::good(
            "tester outside",
            "QEMU has what it needs",
            "experiments can run on buses that take their time: vm.tester = \"outside\"",
        ),
        Err(reason) => Item::missing(
            "tester outside",
            reason.clone(),
            "experiments run on buses that take no time, with a tester in the guest",
        )
        .fix("sudo apt-get install --no-install-recommends qemu-system-x86"),
    });
    let fetch = "candor vm fetch 6.12 6.12-rt";
    let kernels = match laboratory.kernels.len() {
        0 => Item::missing(
            "kernels",
            "no kernel is in the cache",
            "experiments on real kernels need one; a gateway does not",
        )
        .fix(fetch),
        _ => Item::good(
            "kernels",
            format!("in the cache: {}", laboratory.kernels.join(", ")),
            "experiments can run on these kernels",
        ),
    };
    [Some(qemu), outside, Some(kernels)].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{can_run, reported};

    #[test]
    fn the_laboratory_is_no_need_of_a_gateway() {
        let kernels = vec!["6.12".into(), "6.12-rt".into()];
        let laboratory =
            Laboratory { qemu: Ok("10.0.2".into()), tester_outside: Some(Ok(())), kernels };
        let items = judge(&laboratory);
        assert_eq!(
            reported(&items),
            "ok qemu: QEMU 10.0.2\n  \
             experiments can run on real kernels; this needs no root and no /dev/kvm\n\
             ok tester outside: QEMU has what it needs\n  \
             experiments can run on buses that take their time: vm.tester = \"outside\"\n\
             ok kernels: in the cache: 6.12, 6.12-rt\n  \
             experiments can run on these kernels\n"
        );
        let poor = Some(Err("QEMU 9.0 lacks functions".into()));
        let items = judge(&Laboratory { tester_outside: poor, ..laboratory });
        assert!(
            reported(&items).contains(
                "missing tester outside: QEMU 9.0 lacks functions\n  \
                 experiments run on buses that take no time, with a tester in the guest\n"
            ),
            "{}",
            reported(&items)
        );
        let none = Err("there is none".into());
        let items = judge(&Laboratory { qemu: none, tester_outside: None, kernels: Vec::new() });
        assert_eq!(
            reported(&items),
            "missing qemu: there is none\n  \
             experiments run in the simulation only; a gateway needs no QEMU\n  \
             $ sudo apt-get install --no-install-recommends qemu-system-x86\n\
             missing kernels: no kernel is in the cache\n  \
             experiments on real kernels need one; a gateway does not\n  \
             $ candor vm fetch 6.12 6.12-rt\n"
        );
        assert!(can_run(&items));
    }
}
