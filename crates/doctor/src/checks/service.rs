//! Whether systemd can look after a gateway.

use crate::{Item, Sources};

struct Facts {
    /// Whether systemd runs this machine.
    has_systemd: bool,
    /// Whether this process was started as a service that tells how it goes.
    is_service: bool,
}

pub(super) fn examine(sources: &Sources) -> Vec<Item> {
    vec![judge(&Facts {
        has_systemd: sources.files.is_there("run/systemd/system"),
        is_service: std::env::var_os("NOTIFY_SOCKET").is_some_and(|name| !name.is_empty()),
    })]
}

fn judge(facts: &Facts) -> Item {
    if facts.is_service {
        Item::good(
            "service",
            "a service manager listens (NOTIFY_SOCKET)",
            "a gateway that is started this way reports when it is ready, and is restarted if it \
             hangs",
        )
    } else if facts.has_systemd {
        Item::good(
            "service",
            "systemd runs this machine",
            "examples/systemd/candor-route@.service starts a gateway at boot, and restarts it if \
             it ends or hangs",
        )
    } else {
        Item::limited(
            "service",
            "systemd does not run this machine",
            "a gateway runs, but the program that starts it must also watch it",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reported;

    #[test]
    fn service_managers_are_recognised() {
        let judged =
            |has_systemd, is_service| reported(&[judge(&Facts { has_systemd, is_service })]);
        assert_eq!(
            judged(true, true),
            "ok service: a service manager listens (NOTIFY_SOCKET)\n  \
             a gateway that is started this way reports when it is ready, and is restarted if it \
             hangs\n"
        );
        assert_eq!(
            judged(true, false),
            "ok service: systemd runs this machine\n  \
             examples/systemd/candor-route@.service starts a gateway at boot, and restarts it if \
             it ends or hangs\n"
        );
        assert_eq!(
            judged(false, false),
            "limited service: systemd does not run this machine\n  \
             a gateway runs, but the program that starts it must also watch it\n"
        );
    }
}
