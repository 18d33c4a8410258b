//! Channels: formats that count the interfaces of a recording, from 1, and do not name them.
//!
//! Channel 1 is the interface `can0`, channel 2 is `can1`, as in python-can and in captures without names.

use std::fmt::Write as _;

use crate::decode::Reason;
use crate::record::{InterfaceIndex, Interfaces, MAX_INTERFACES};

/// The channels of a recording that is read.
#[derive(Default)]
pub(super) struct Channels {
    interfaces: Interfaces,
    /// The interface of each number that was seen.
    known: Vec<Option<InterfaceIndex>>,
}

impl Channels {
    /// The interface of a channel.
    pub(super) fn interface(&mut self, channel: u32) -> Result<InterfaceIndex, Reason> {
        let place = usize::try_from(channel).ok().filter(|&place| place <= MAX_INTERFACES);
        if let Some(&Some(known)) = place.and_then(|place| self.known.get(place)) {
            return Ok(known);
        }
        let mut name = String::new();
        let _ = match channel.checked_sub(1) {
            Some(number) => write!(name, "can{number}"),
            // No channel has this number, but there are such files.
            None => write!(name, "channel0"),
        };
        let index = self.named(name.as_bytes())?;
        if let Some(place) = place {
            if self.known.len() <= place {
                self.known.resize(place + 1, None);
            }
            self.known[place] = Some(index);
        }
        Ok(index)
    }

    /// An interface that has a name instead.
    pub(super) fn named(&mut self, name: &[u8]) -> Result<InterfaceIndex, Reason> {
        self.interfaces.intern(name).map_err(Reason::Interface)
    }

    pub(super) fn interfaces(&self) -> &Interfaces {
        &self.interfaces
    }
}

/// The channels of a recording that is written: `canN` is channel N + 1 if no other interface is, and all others take the
/// smallest number that is free.
#[derive(Default)]
pub(super) struct Numbers {
    interfaces: Interfaces,
    channels: Vec<u16>,
}

impl Numbers {
    /// The channel of the interface of this name.
    pub(super) fn channel(&mut self, name: &str) -> Result<u16, crate::EncodeError> {
        let index =
            self.interfaces.intern(name.as_bytes()).map_err(crate::EncodeError::Interface)?;
        let place = usize::from(index.0);
        if place == self.channels.len() {
            let is_free = |channel: &u16| !self.channels.contains(channel);
            let own = number_in(name).filter(is_free);
            // There are fewer interfaces than numbers.
            let channel = own.or_else(|| (1..=u16::MAX).find(is_free)).unwrap_or(u16::MAX);
            self.channels.push(channel);
        }
        Ok(self.channels[place])
    }
}

/// Which interfaces that are written in this order have other names when they are read, and which ones.
pub(crate) fn renamed(names: &[String]) -> impl Iterator<Item = (&str, String)> {
    let mut numbers = Numbers::default();
    names.iter().filter_map(move |name| {
        let channel = numbers.channel(name).ok()?;
        let is_now = format!("can{}", channel.wrapping_sub(1));
        (is_now != *name).then_some((name.as_str(), is_now))
    })
}

/// N + 1 for `canN`, as long as it is the number of a channel and written as [`Channels`] would.
fn number_in(name: &str) -> Option<u16> {
    let digits = name.strip_prefix("can")?;
    let number: u16 = digits.parse().ok()?;
    let is_usual = usize::from(number) < MAX_INTERFACES && number.to_string() == digits;
    is_usual.then_some(number + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_have_names_and_names_have_channels() {
        let mut channels = Channels::default();
        for (channel, index, name) in [
            (2, 0, "can1"),
            (1, 1, "can0"),
            (2, 0, "can1"),
            (0, 2, "channel0"),
            (70_000, 3, "can69999"),
        ] {
            assert_eq!(channels.interface(channel), Ok(InterfaceIndex(index)));
            assert_eq!(channels.interfaces().name(InterfaceIndex(index)), name);
        }
        for channel in 1_000..1_252 {
            channels.interface(channel).unwrap();
        }
        assert!(channels.interface(9).is_err());
        assert_eq!(channels.interface(1), Ok(InterfaceIndex(1)));

        let mut numbers = Numbers::default();
        for (name, channel) in [
            ("body", 1),
            ("can1", 2),
            ("can0", 3),
            ("can7", 8),
            ("can007", 4),
            ("can-1", 5),
            ("can256", 6),
            ("can255", 256),
            ("body", 1),
        ] {
            assert_eq!(numbers.channel(name), Ok(channel), "{name}");
        }
    }
}
