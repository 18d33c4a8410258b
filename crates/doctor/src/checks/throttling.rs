//! How much of a CPU real-time threads may take before they are stopped.

use crate::{Item, Sources};

struct Facts {
    /// Microseconds per period; negative for no limit.
    runtime: Option<i64>,
    /// Microseconds.
    period: Option<i64>,
}

pub(super) fn examine(sources: &Sources) -> Vec<Item> {
    let number = |name: &str| sources.files.number(&format!("proc/sys/kernel/{name}"));
    vec![judge(&Facts {
        runtime: number("sched_rt_runtime_us"),
        period: number("sched_rt_period_us"),
    })]
}

fn judge(facts: &Facts) -> Item {
    let (Some(runtime), Some(period)) = (facts.runtime, facts.period.filter(|&us| us > 0)) else {
        return Item::good(
            "throttling",
            "the kernel has no limit for real-time threads",
            "a gateway is never paused for running too long",
        );
    };
    let fix = "sudo sysctl -w kernel.sched_rt_runtime_us=950000";
    match runtime {
        runtime if runtime < 0 => Item::good(
            "throttling",
            "real-time threads are never paused (kernel.sched_rt_runtime_us=-1)",
            "a gateway is never paused for running too long; but a real-time thread that never \
             waits occupies its CPU forever",
        ),
        0 => Item::limited(
            "throttling",
            "real-time threads may not run (kernel.sched_rt_runtime_us=0)",
            "`--rt` is refused",
        )
        .fix(fix),
        runtime => {
            let percent = runtime * 100 / period;
            let found = format!("real-time threads may use {percent} % of each CPU");
            let rest = (period - runtime) / 1_000;
            if percent >= 90 {
                let meaning = format!(
                    "only a thread that never waits is paused, for {rest} ms; a gateway waits \
                     between frames"
                );
                Item::good("throttling", found, meaning)
            } else {
                let meaning = format!("under load a gateway is paused for {rest} ms at a time");
                Item::limited("throttling", found, meaning).fix(fix)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reported;

    #[test]
    fn only_a_small_share_is_a_limit() {
        for (runtime, period, expected) in [
            (
                Some(950_000),
                Some(1_000_000),
                "ok throttling: real-time threads may use 95 % of each CPU\n  \
                 only a thread that never waits is paused, for 50 ms; a gateway waits between frames\n",
            ),
            (
                Some(-1),
                Some(1_000_000),
                "ok throttling: real-time threads are never paused \
                 (kernel.sched_rt_runtime_us=-1)\n  \
                 a gateway is never paused for running too long; but a real-time thread that \
                 never waits occupies its CPU forever\n",
            ),
            (
                Some(0),
                Some(1_000_000),
                "limited throttling: real-time threads may not run \
                 (kernel.sched_rt_runtime_us=0)\n  \
                 `--rt` is refused\n  \
                 $ sudo sysctl -w kernel.sched_rt_runtime_us=950000\n",
            ),
            (
                Some(300_000),
                Some(500_000),
                "limited throttling: real-time threads may use 60 % of each CPU\n  \
                 under load a gateway is paused for 200 ms at a time\n  \
                 $ sudo sysctl -w kernel.sched_rt_runtime_us=950000\n",
            ),
            (
                None,
                None,
                "ok throttling: the kernel has no limit for real-time threads\n  \
                 a gateway is never paused for running too long\n",
            ),
        ] {
            assert_eq!(reported(&[judge(&Facts { runtime, period })]), expected);
        }
    }
}
