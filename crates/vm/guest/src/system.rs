//! What the kernel tells in `/proc` and `/sys`, and what it takes there.

use std::fs;
use std::path::Path;

use candor_protocol::report::Symbol;

use crate::failure::{Context, Failure};

/// `uname -r` and `uname -v`.
pub(crate) fn release_and_version() -> (String, String) {
    let line = |name: &str| {
        let text = fs::read_to_string(Path::new("/proc/sys/kernel").join(name));
        text.unwrap_or_default().trim().to_owned()
    };
    (line("osrelease"), line("version"))
}

/// The functions of the kernel and its modules.
pub(crate) fn symbols() -> Result<Vec<Symbol>, Failure> {
    let path = "/proc/kallsyms";
    let text = fs::read_to_string(path).at(path, "use a kernel with CONFIG_KALLSYMS")?;
    Ok(text.lines().filter_map(symbol).collect())
}

/// Reads `ffffffffc022f220 t sja1000_interrupt\t[sja1000]`.
fn symbol(line: &str) -> Option<Symbol> {
    let mut words = line.split_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let is_function = matches!(words.next()?, "t" | "T" | "w" | "W");
    let name = words.next()?.to_owned();
    let module = words.next().map(|module| module.trim_matches(['[', ']']));
    let place = module.unwrap_or("kernel").to_owned();
    is_function.then_some(Symbol { address, name, place })
}

/// Writes `value` to a file of the kernel.
pub(crate) fn set(path: &str, value: impl ToString) -> Result<(), Failure> {
    fs::write(path, value.to_string()).at(path, "use a kernel that has this setting")
}

/// A counter of an interface, such as `rx_over_errors`; 0 if it has none of that name.
pub(crate) fn interface_counter(interface: &str, counter: &str) -> u64 {
    let path = format!("/sys/class/net/{interface}/statistics/{counter}");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// Frames that were lost because the queue in front of the network stack was full.
pub(crate) fn backlog_dropped() -> u64 {
    dropped(&fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default())
}

/// For how long all processors together have idled, in hundredths of a second.
pub(crate) fn idle_hundredths() -> u64 {
    idle(&fs::read_to_string("/proc/stat").unwrap_or_default())
}

/// The fourth number of the first line: user, nice, system, idle.
fn idle(stat: &str) -> u64 {
    stat.split_whitespace().nth(4).and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// The sum of the second column, which is hexadecimal: one line per CPU.
fn dropped(softnet_stat: &str) -> u64 {
    let column = |line: &str| u64::from_str_radix(line.split_whitespace().nth(1)?, 16).ok();
    softnet_stat.lines().filter_map(column).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_column_is_added_up() {
        let text = "0000ff 0000000a 00000001\n00000000 00000010 00000000\n";
        assert_eq!(dropped(text), 26);
        assert_eq!(dropped(""), 0);
    }

    #[test]
    fn symbols_are_functions() {
        let found = symbol("ffffffffc022f220 t sja1000_interrupt\t[sja1000]").unwrap();
        let shown = (found.address, found.name.as_str(), found.place.as_str());
        assert_eq!(shown, (0xFFFF_FFFF_C022_F220, "sja1000_interrupt", "sja1000"));
        let place = |line: &str| symbol(line).map(|symbol| symbol.place);
        assert_eq!(place("ffffffff81000000 T _stext").as_deref(), Some("kernel"));
        for line in ["ffffffff82000000 D jiffies", "ffffffff82000000", "", "x t y"] {
            assert_eq!(place(line), None);
        }
    }

    #[test]
    fn the_first_line_tells_how_long_nothing_was_done() {
        let text = "cpu  12 0 34 5678 9 0 1 0 0 0\ncpu0 12 0 34 5678 9 0 1 0 0 0\n";
        assert_eq!(idle(text), 5_678);
        assert_eq!(idle(""), 0);
    }
}
