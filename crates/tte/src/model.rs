//! The latency that follows from a schedule: equation 3 of Bartols, Steinbach, Korf and Schmidt (2011).
//!
//! ```text
//!  t_L = t_WD * l_W + n_s * l_F * t_b + sum of t_SD
//! ```
//!
//! Wires, the transmission of the frame, and the delay that the schedule of each switch makes. What a relay delay
//! `t_SD` means decides how often the transmission counts. Here it is the time from the first bit in to the
//! first bit out of a switch: then what follows the last switch is one transmission, over however many switches
//! the frame went. For one switch that is equation 3 as printed; for more, the printed one counts
//! a transmission for each, which [`Latency::equation_3`] is for.
//!
//! The latency begins with the first bit behind the preamble and ends with the last bit ([`Framing::Frame`], as
//! in equations 4 to 7), or begins with the preamble ([`Framing::Preamble`]).
//!
//! ```
//! # use candor_tte::model::Framing;
//! # fn main() -> Result<(), String> {
//! let text = r#"
//!     cycle = "3ms"
//!     end_system = { sender = {}, receiver = {} }
//!     switch.switch = {}
//!     link.in  = { between = ["sender", "switch"], speed = "100M", delay = "2ns" }
//!     link.out = { between = ["switch", "receiver"], speed = "100M", delay = "3ns" }
//!     flow.measured = { class = "tt", id = 1, from = "sender", to = "receiver", size = 64, send = "800us", relay_delay = "350us" }
//! "#;
//! let (network, findings) = candor_tte::file::parse("bed.tte.toml", text);
//! let network = network.ok_or_else(|| findings.to_string())?;
//! let latency = network.latency(0, 1, Framing::Frame).ok_or("no such receiver")?;
//! assert_eq!(latency.total().as_nanos(), 355_125);
//! # Ok(())
//! # }
//! ```

use candor_time::Nanos;

use crate::{Flow, Hop, Network, Role};

/// Where the latency of a frame begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// With the first bit behind the preamble.
    #[default]
    Frame,
    /// With the first bit of the preamble.
    Preamble,
}

/// The latency of a time-triggered frame, by its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// On wires: `t_WD * l_W`.
    pub wires: Nanos,
    /// The transmission on the last link: `l_F * t_b`.
    pub transmission: Nanos,
    /// In switches: the sum of `t_SD`.
    pub relays: Nanos,
    /// How many switches there are: `n_s`.
    pub switches: u32,
    /// At how many of them some frames are not ready to leave at their instant, so that they leave a period later.
    pub misses: u32,
}

impl Latency {
    /// From the first bit out of the sender to the last bit in the receiver.
    #[must_use]
    pub fn total(&self) -> Nanos {
        self.wires + self.transmission + self.relays
    }

    /// Equation 3 as it is printed: a transmission for each switch.
    #[must_use]
    pub fn equation_3(&self) -> Nanos {
        let transmissions = self.transmission.as_nanos() * u64::from(self.switches);
        self.wires + Nanos::from_nanos(transmissions) + self.relays
    }
}

impl Network {
    /// The latency that the schedule gives to the frames of a flow at the node `to`; `None` if the flow does not go
    /// there.
    #[must_use]
    pub fn latency(&self, flow: usize, to: usize, framing: Framing) -> Option<Latency> {
        let flow = self.flows.get(flow)?;
        let last = flow.hops.iter().position(|hop| hop.to == to)?;
        let link = &self.links[flow.hops[last].link];
        let mut latency = Latency {
            wires: Nanos::ZERO,
            transmission: link.transmission(flow.size),
            relays: Nanos::ZERO,
            switches: 0,
            misses: 0,
        };
        let mut next = Some(last);
        while let Some(index) = next {
            let hop = &flow.hops[index];
            latency.wires += self.links[hop.link].delay;
            latency.relays += hop.relay_delay;
            latency.switches += u32::from(hop.before.is_some());
            latency.misses += u32::from(self.misses_instant(flow, hop));
            if hop.before.is_none() && framing == Framing::Preamble {
                latency.transmission += self.links[hop.link].preamble();
            }
            next = hop.before;
        }
        Some(latency)
    }
}

impl Network {
    /// Whether a switch with a schedule has not all of a frame, and processed it, at the instant of a hop.
    fn misses_instant(&self, flow: &Flow, hop: &Hop) -> bool {
        let Role::Switch(switch) = self.nodes[hop.from].role else { return false };
        let Some(before) = hop.before.map(|index| &flow.hops[index]) else { return false };
        let late = Nanos::from_nanos(self.nodes[before.from].jitter().as_nanos().div_ceil(2));
        let ready = self.links[before.link].transmission(flow.size)
            + switch.processing
            + self.links[hop.link].preamble()
            + late;
        self.has_schedule(hop.from) && hop.relay_delay < ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::parse;

    /// The paper's bed: table I, and equation 3 for the sizes of RFC 2544.
    #[test]
    fn equation_3_to_the_nanosecond() {
        for (size, latency_ns) in [
            (64, 355_125),
            (128, 360_245),
            (256, 370_485),
            (512, 390_965),
            (1_024, 431_925),
            (1_280, 452_405),
            (1_518, 471_445),
        ] {
            let text = format!(
                "cycle = \"3ms\"\nend_system = {{ a = {{}}, b = {{}} }}\nswitch.s = {{}}\n\
                 link.in = {{ between = [\"a\", \"s\"], speed = \"100M\", delay = \"2ns\" }}\n\
                 link.out = {{ between = [\"s\", \"b\"], speed = \"100M\", delay = \"3ns\" }}\n\
                 flow.f = {{ class = \"tt\", id = 1, from = \"a\", to = \"b\", size = {size}, send = \"800us\", relay_delay = \"350us\" }}\n"
            );
            let (network, findings) = parse("bed.toml", &text);
            let network = network.unwrap_or_else(|| panic!("{findings}"));
            let latency = network.latency(0, 1, Framing::Frame).unwrap();
            assert_eq!(latency.total().as_nanos(), latency_ns, "{size}");
            assert_eq!(latency.equation_3(), latency.total());
            let preamble = network.latency(0, 1, Framing::Preamble).unwrap();
            assert_eq!(preamble.total().as_nanos(), latency_ns + 640);
            assert_eq!(network.latency(0, 2, Framing::Frame).unwrap().switches, 0);
            assert_eq!(network.latency(0, 0, Framing::Frame), None);
            // Too short for a frame to come in and go out.
            let short = text.replace("350us", "50us");
            let short = parse("bed.toml", &short).0.unwrap().latency(0, 1, Framing::Frame).unwrap();
            assert_eq!((latency.misses, short.misses), (0, u32::from(size >= 1_024)), "{size}");
        }
    }
}
