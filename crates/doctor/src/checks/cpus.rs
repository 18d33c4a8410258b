//! Whether a CPU is kept free of everything else.

use crate::system::Distribution;
use crate::{Item, Sources};

struct Facts {
    count: usize,
    /// Those that the scheduler leaves alone, as a list such as `1,3-5`; empty for none.
    isolated: String,
    /// Those without a tick while one program runs, likewise.
    without_tick: String,
    distribution: Distribution,
}

pub(super) fn examine(sources: &Sources) -> Vec<Item> {
    let files = &sources.files;
    let list = |name: &str| {
        let text = files.text(&format!("sys/devices/system/cpu/{name}")).unwrap_or_default();
        if text == "(null)" { String::new() } else { text }
    };
    let is_cpu = |name: &&String| {
        name.strip_prefix("cpu")
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    vec![judge(&Facts {
        count: files.names("sys/devices/system/cpu").iter().filter(is_cpu).count(),
        isolated: list("isolated"),
        without_tick: list("nohz_full"),
        distribution: Distribution::read(files),
    })]
}

fn judge(facts: &Facts) -> Item {
    if facts.count <= 1 {
        return Item::limited(
            "cpus",
            "there is one CPU",
            "a gateway shares it with all other programs; its priority decides",
        );
    }
    let Facts { isolated, without_tick, .. } = facts;
    if isolated.is_empty() {
        let last = facts.count - 1;
        let words = format!("isolcpus={last} nohz_full={last} rcu_nocbs={last}");
        return Item::limited(
            "cpus",
            format!("{} CPUs, none is isolated (isolcpus)", facts.count),
            "other programs, interrupts and timers also run on the gateway's CPU",
        )
        .maybe_fix(facts.distribution.add_to_command_line(&words));
    }
    let tick = match without_tick.is_empty() {
        true => "the timer still interrupts it (nohz_full is not set)",
        false => "the timer does not interrupt it while one program runs",
    };
    let first = isolated.split([',', '-']).next().unwrap_or_default();
    Item::good(
        "cpus",
        format!("{} CPUs, isolated: {isolated}", facts.count),
        format!("`--cpu {first}` gives a gateway a CPU of its own; {tick}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reported;

    #[test]
    fn a_cpu_of_its_own_is_best() {
        let facts = |count, isolated: &str, without_tick: &str| Facts {
            count,
            isolated: isolated.into(),
            without_tick: without_tick.into(),
            distribution: Distribution::Fedora,
        };
        for (facts, expected) in [
            (
                facts(1, "", ""),
                "limited cpus: there is one CPU\n  \
                 a gateway shares it with all other programs; its priority decides\n",
            ),
            (
                facts(4, "", ""),
                "limited cpus: 4 CPUs, none is isolated (isolcpus)\n  \
                 other programs, interrupts and timers also run on the gateway's CPU\n  \
                 $ sudo grubby --update-kernel=ALL --args=\"isolcpus=3 nohz_full=3 rcu_nocbs=3\" \
                 && sudo reboot\n",
            ),
            (
                facts(8, "2-3,7", ""),
                "ok cpus: 8 CPUs, isolated: 2-3,7\n  \
                 `--cpu 2` gives a gateway a CPU of its own; the timer still interrupts it \
                 (nohz_full is not set)\n",
            ),
            (
                facts(2, "1", "1"),
                "ok cpus: 2 CPUs, isolated: 1\n  \
                 `--cpu 1` gives a gateway a CPU of its own; the timer does not interrupt it \
                 while one program runs\n",
            ),
        ] {
            assert_eq!(reported(&[judge(&facts)]), expected);
        }
    }
}
