//! Interfaces that come, go or change while a gateway runs.

use std::collections::{BTreeMap, BTreeSet};

use candor_linux::netlink::{Condition, Event, Link, Monitor};

use super::{Observer, Shared};
use crate::lock::lock;
use crate::{Error, Gateway};

/// What of an interface makes a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    index: u32,
    is_up: bool,
    is_bus_off: bool,
    mtu: u32,
}

impl Seen {
    fn from_link(link: &Link) -> Self {
        let condition = link.can.and_then(|can| can.condition());
        Self {
            index: link.index,
            is_up: link.is_up,
            is_bus_off: condition == Some(Condition::BusOff),
            mtu: link.mtu,
        }
    }

    /// What has become of it, for people.
    fn describe(self, before: Option<Self>) -> String {
        match before {
            Some(before) if before.index == self.index => match (self.is_up, self.is_bus_off) {
                (false, _) => "is down".into(),
                (true, true) => "is bus-off until its controller is restarted".into(),
                (true, false) if before.mtu != self.mtu => format!("has an MTU of {}", self.mtu),
                (true, false) => "is up".into(),
            },
            _ => "is there".into(),
        }
    }
}

/// The interfaces as they were seen last.
pub(super) struct Links(BTreeMap<String, Seen>);

impl Links {
    pub(super) fn new(links: &[Link]) -> Self {
        Self(links.iter().map(|link| (link.name.clone(), Seen::from_link(link))).collect())
    }

    /// The interfaces whose controllers are bus-off.
    pub(super) fn bus_offs(&self) -> BTreeSet<String> {
        let off = self.0.iter().filter(|(_, seen)| seen.is_up && seen.is_bus_off);
        off.map(|(name, _)| name.clone()).collect()
    }
}

/// Does what interfaces make necessary that came, went or changed.
pub(super) fn follow(
    shared: &Shared,
    monitor: &mut Monitor,
    links: &mut Links,
    observer: &mut dyn Observer,
) -> Result<(), Error> {
    while let Some(event) = monitor.next_event()? {
        let mut gateway = lock(&shared.gateway);
        let is_ours = |gateway: &Gateway, name: &str| {
            gateway.table().buses.iter().any(|bus| bus.interface() == name)
        };
        match event {
            Event::Changed(link) => {
                let now = Seen::from_link(&link);
                let before = links.0.insert(link.name.clone(), now);
                // Of all interfaces: other rules may use one that is bus-off already.
                gateway.set_bus_offs(links.bus_offs());
                if before == Some(now) || !is_ours(&gateway, &link.name) {
                    continue;
                }
                let is_new = before.is_none_or(|before| before.index != now.index);
                if is_new || now.is_up {
                    gateway.heal(|name| name == link.name && is_new, &link.name);
                }
                let state = now.describe(before);
                observer.tell(&format!("interface {} {state}", link.name));
            }
            Event::Removed { name, .. } => {
                links.0.remove(&name);
                gateway.set_bus_offs(links.bus_offs());
                if is_ours(&gateway, &name) {
                    gateway.close(&name);
                    observer.tell(&format!("interface {name} disappeared"));
                }
            }
            Event::Missed => {
                let fresh = Links::new(&monitor.links()?);
                let earlier = std::mem::replace(&mut links.0, fresh.0);
                let is_new = |name: &str| {
                    links.0.get(name).is_some_and(|now| {
                        earlier.get(name).is_none_or(|before| before.index != now.index)
                    })
                };
                for name in earlier.keys().filter(|name| !links.0.contains_key(*name)) {
                    gateway.close(name);
                }
                gateway.heal(is_new, "");
                gateway.set_bus_offs(links.bus_offs());
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use candor_linux::netlink::CanState;

    use super::*;

    #[test]
    fn a_controller_is_bus_off_while_its_interface_is_up() {
        let link = |name: &str, is_up: bool, state: Option<u32>| Link {
            name: name.into(),
            is_up,
            can: state.map(|state| CanState { state, ..CanState::default() }),
            ..Link::default()
        };
        let links = Links::new(&[
            link("can0", true, Some(0)),
            link("can1", true, Some(2)),
            link("can2", true, Some(3)),
            link("can3", false, Some(3)),
            link("vcan0", true, None),
        ]);
        assert_eq!(links.bus_offs(), ["can2".to_owned()].into());
    }
}
