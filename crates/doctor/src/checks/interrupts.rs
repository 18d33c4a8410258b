//! Whether interrupts run in threads, whose priorities can be chosen.

use candor_linux::realtime::{self, Named};

use crate::system::{self, Distribution};
use crate::{Item, Sources};

struct Facts {
    is_realtime: bool,
    threads: Vec<Named>,
    /// The CAN interfaces.
    interfaces: Vec<String>,
    distribution: Distribution,
}

pub(super) fn examine(sources: &Sources) -> Vec<Item> {
    let files = &sources.files;
    // `ARPHRD_CAN`.
    let is_can = |name: &String| files.number(&format!("sys/class/net/{name}/type")) == Some(280);
    judge(&Facts {
        is_realtime: system::is_realtime(files),
        threads: realtime::tasks(|name| name.starts_with("irq/")).unwrap_or_default(),
        interfaces: files.names("sys/class/net").into_iter().filter(is_can).collect(),
        distribution: Distribution::read(files),
    })
}

fn judge(facts: &Facts) -> Vec<Item> {
    let all = match (facts.is_realtime, facts.threads.len()) {
        // Some drivers ask for a thread on any kernel, so a few of them mean nothing.
        (true, count) => Item::good(
            "interrupts",
            format!("interrupts run in threads, {count} of them"),
            "a gateway can have a higher priority than the disk and the network card",
        ),
        (false, count) => Item::limited(
            "interrupts",
            format!("most interrupts do not run in threads ({count} do)"),
            "every interrupt runs before the gateway",
        )
        .maybe_fix(facts.distribution.add_to_command_line("threadirqs")),
    };
    let of_interfaces = facts.interfaces.iter().filter_map(|interface| {
        let is_its =
            |thread: &&Named| thread.name.split(['-', '/']).any(|part| part == interface.as_str());
        let thread = facts.threads.iter().find(is_its)?;
        let found = format!("its interrupt runs in thread {} ({})", thread.id, thread.name);
        let meaning = "raise it above the other interrupts, so that frames are received first";
        let fix = format!("sudo chrt --fifo --pid 85 {}", thread.id);
        Some(Item::good("interrupt", found, meaning).about(interface.clone()).fix(fix))
    });
    std::iter::once(all).chain(of_interfaces).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reported;

    #[test]
    fn threads_are_reported_with_those_of_interfaces() {
        let thread = |id, name: &str| Named { id, name: name.into() };
        let facts = Facts {
            is_realtime: true,
            threads: vec![thread(7, "irq/9-acpi"), thread(8, "irq/22-can1"), thread(9, "irq/5-x")],
            interfaces: vec!["can0".into(), "can1".into()],
            distribution: Distribution::Debian,
        };
        assert_eq!(
            reported(&judge(&facts)),
            "ok interrupts: interrupts run in threads, 3 of them\n  \
             a gateway can have a higher priority than the disk and the network card\n\
             ok interrupt can1: its interrupt runs in thread 8 (irq/22-can1)\n  \
             raise it above the other interrupts, so that frames are received first\n  \
             $ sudo chrt --fifo --pid 85 8\n"
        );
        let without = Facts { is_realtime: false, interfaces: Vec::new(), ..facts };
        assert_eq!(
            reported(&judge(&without)),
            "limited interrupts: most interrupts do not run in threads (3 do)\n  \
             every interrupt runs before the gateway\n  \
             $ echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX threadirqs\"' | sudo tee -a \
             /etc/default/grub.d/candor.cfg && sudo update-grub && sudo reboot\n"
        );
    }
}
