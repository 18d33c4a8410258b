//! Who chooses the frequency of the CPUs.

use std::collections::BTreeSet;

use crate::{Item, Sources};

pub(super) fn examine(sources: &Sources) -> Vec<Item> {
    let files = &sources.files;
    const FOLDER: &str = "sys/devices/system/cpu/cpufreq";
    let governors: BTreeSet<_> = files
        .names(FOLDER)
        .iter()
        .filter_map(|policy| files.text(&format!("{FOLDER}/{policy}/scaling_governor")))
        .collect();
    vec![judge(&governors)]
}

fn judge(governors: &BTreeSet<String>) -> Item {
    let names: Vec<_> = governors.iter().map(String::as_str).collect();
    match &*names {
        [] => Item::good(
            "governor",
            "Linux does not choose the frequency of the CPUs here",
            "the firmware, or the host of a virtual machine, may change it; Linux cannot see that",
        ),
        ["performance"] => Item::good(
            "governor",
            "the CPUs run at their highest frequency (governor performance)",
            "a frame after a pause is as fast as any other",
        ),
        names => Item::limited(
            "governor",
            format!(
                "the CPUs slow down when there is little to do (governor {})",
                names.join(", ")
            ),
            "a frame after a pause takes longer than one under load",
        )
        .fix(
            "echo performance | sudo tee /sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reported;

    #[test]
    fn all_cpus_must_run_fast() {
        let slow = "a frame after a pause takes longer than one under load\n  \
                    $ echo performance | sudo tee \
                    /sys/devices/system/cpu/cpufreq/policy*/scaling_governor\n";
        for (governors, expected) in [
            (
                &[][..],
                "ok governor: Linux does not choose the frequency of the CPUs here\n  \
                 the firmware, or the host of a virtual machine, may change it; Linux cannot see \
                 that\n"
                    .to_owned(),
            ),
            (
                &["performance"],
                "ok governor: the CPUs run at their highest frequency (governor performance)\n  \
                 a frame after a pause is as fast as any other\n"
                    .into(),
            ),
            (
                &["schedutil"],
                format!(
                    "limited governor: the CPUs slow down when there is little to do (governor \
                     schedutil)\n  {slow}"
                ),
            ),
            (
                &["performance", "powersave"],
                format!(
                    "limited governor: the CPUs slow down when there is little to do (governor \
                     performance, powersave)\n  {slow}"
                ),
            ),
        ] {
            let governors = governors.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(reported(&[judge(&governors)]), expected);
        }
    }
}
