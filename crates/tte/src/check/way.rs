//! Rules about the way of a time-triggered frame: instants of relays, receive windows, deadlines.

use candor_diagnostics::Findings;
use candor_time::Nanos;

use super::nanos;
use crate::file::{Place, Places};
use crate::schedule::{Departure, departures, ns};
use crate::{Flow, Hop, Network, RelayBuffer, Relaying, Role, Switch, Traffic};

pub(super) fn check(network: &Network, places: &Places, findings: &Findings) {
    for (flow, place) in network.flows.iter().zip(&places.flows) {
        let Traffic::TimeTriggered { period, window, .. } = flow.traffic else { continue };
        let way = FlowWay {
            network,
            flow,
            place,
            period,
            departures: departures(network, flow),
            findings,
        };
        for index in 0..flow.hops.len() {
            way.relay(index);
        }
        if let Some(window) = window {
            way.window(window);
        }
        if let Some(deadline) = flow.deadline {
            way.deadline(deadline);
        }
        if findings.is_full() {
            return;
        }
    }
}

/// A time-triggered flow.
struct FlowWay<'a> {
    network: &'a Network,
    flow: &'a Flow,
    place: &'a Place,
    period: Nanos,
    departures: Vec<Departure>,
    findings: &'a Findings,
}

/// When a frame can leave a switch, from the instant of its first bit into it.
struct Ready {
    least: i128,
    /// `None` if nothing bounds it.
    most: Option<i128>,
    parts: String,
}

impl FlowWay<'_> {
    fn name(&self, node: usize) -> &str {
        &self.network.nodes[node].name
    }

    /// The switch with a schedule at a node.
    fn scheduled(&self, node: usize) -> Option<(&Switch, RelayBuffer)> {
        match &self.network.nodes[node].role {
            Role::Switch(switch) => match switch.relaying {
                Relaying::TimeTriggered(buffer) => Some((switch, buffer)),
                Relaying::StoreAndForward | Relaying::CutThrough => None,
            },
            Role::EndSystem(_) => None,
        }
    }

    /// When the frame can leave a switch over a hop: complete, processed, and the preamble sent.
    fn ready(&self, switch: &Switch, hop: &Hop, before: usize) -> Ready {
        let link = &self.network.links[self.flow.hops[before].link];
        let transmission = link.transmission(self.flow.size);
        let preamble = self.network.links[hop.link].preamble();
        let Departure { least, most, .. } = self.departures[before];
        let mut parts = format!("transmission {transmission}");
        if switch.processing > Nanos::ZERO {
            parts += &format!(", processing {}", switch.processing);
        }
        parts += &format!(", preamble {preamble}");
        match most {
            Some(most) if most > 0 => parts += &format!(", jitter up to {}", nanos(most)),
            None => parts += &format!(", ordinary switches {} or more", nanos(least)),
            Some(_) => {}
        }
        let needed = ns(transmission) + ns(switch.processing) + ns(preamble);
        Ready { least: needed + least, most: most.map(|most| needed + most), parts }
    }

    /// At a switch with a schedule, the frame is there at its instant and not at the one before.
    fn relay(&self, index: usize) {
        let hop = &self.flow.hops[index];
        let (Some(before), Some((switch, buffer))) = (hop.before, self.scheduled(hop.from)) else {
            return;
        };
        let ready = self.ready(switch, hop, before);
        let (delay, period) = (ns(hop.relay_delay), ns(self.period));
        let latest = ready.most.unwrap_or(ready.least);
        if delay < latest {
            self.too_late(hop, buffer, &ready);
        } else if delay - period >= ready.least {
            self.too_early(hop, buffer, &ready);
        } else if ready.most.is_some() {
            self.room(hop, before, &ready);
        }
    }

    fn origin(&self, hop: &Hop) -> &candor_diagnostics::Origin {
        self.place.relay_delay(hop.from)
    }

    fn too_late(&self, hop: &Hop, buffer: RelayBuffer, ready: &Ready) {
        let Self { period, flow, .. } = self;
        let delay = hop.relay_delay;
        let latest = ready.most.unwrap_or(ready.least);
        let effect = if ns(delay) < ready.least {
            format!("every frame leaves {period} later or more")
        } else if buffer == RelayBuffer::Overwrite {
            format!("some frames leave {period} later, and some are overwritten by the next one")
        } else {
            format!("some frames leave {period} later, and so do all that follow")
        };
        let at_least = if ready.most.is_none() { "at the earliest" } else { "at the latest" };
        let message = format!(
            "`{}` can leave switch `{}` {} behind its first bit {at_least} ({}), but its instant is {delay} behind \
             it: {effect}",
            flow.name,
            self.name(hop.from),
            nanos(latest),
            ready.parts
        );
        let precision = self.network.precision;
        let mut hint = format!(
            "relay_delay = \"{}\", which is {} more",
            nanos(latest),
            nanos(latest - ns(delay))
        );
        if precision > Nanos::ZERO && ready.most.is_some() {
            let with_precision = nanos(latest + ns(precision));
            hint +=
                &format!("; \"{with_precision}\" has room for clocks that differ by {precision}");
        }
        self.findings.error_with_hint(self.origin(hop), message, hint);
    }

    fn too_early(&self, hop: &Hop, buffer: RelayBuffer, ready: &Ready) {
        let Self { period, flow, .. } = self;
        let delay = ns(hop.relay_delay);
        let latest = ready.most.unwrap_or(ready.least);
        // At an instant that a frame meets for sure, and that is the first.
        let surplus = (delay - latest) / ns(*period);
        let effect = if delay - ns(*period) >= latest {
            let is_all = delay - (surplus + 1) * ns(*period) < ready.least;
            let or_more = if is_all { "" } else { " or more" };
            format!("every frame leaves {}{or_more} too early", nanos(surplus * ns(*period)))
        } else if buffer == RelayBuffer::Overwrite {
            format!(
                "some frames leave {period} too early, and some are overwritten by the next one"
            )
        } else {
            format!("some frames leave {period} too early, and so do all that follow")
        };
        let message = format!(
            "`{}` is ready {} behind its first bit into switch `{}`, and its instant is {} behind it, but what \
             waits leaves at each instant, every {period}: {effect}",
            flow.name,
            nanos(ready.least),
            self.name(hop.from),
            hop.relay_delay
        );
        let shorter = delay - surplus.max(1) * ns(*period);
        let hint = if shorter >= latest {
            format!("relay_delay = \"{}\" is what it amounts to", nanos(shorter))
        } else {
            format!(
                "a relay delay from {} to below {}",
                nanos(latest),
                nanos(ready.least + ns(*period))
            )
        };
        self.findings.error_with_hint(self.origin(hop), message, hint);
    }

    /// Room for clocks that differ.
    fn room(&self, hop: &Hop, before: usize, ready: &Ready) {
        let (delay, precision) = (ns(hop.relay_delay), self.network.precision);
        let Some(latest) = ready.most else { return };
        let room = delay - latest;
        let end = ready.least + ns(self.period) - 1 - delay;
        let (room, what, hint) = if room < ns(precision) {
            let enough = nanos(latest + ns(precision));
            (room, "late", format!("relay_delay = \"{enough}\" is enough"))
        } else if end < ns(precision) {
            let enough = nanos(ready.least + ns(self.period) - 1 - ns(precision));
            (end, "early", format!("a relay delay of {enough} at most"))
        } else {
            return;
        };
        let message = format!(
            "`{}` is a period too {what} at switch `{}` if the clocks of `{}` and `{}` differ by more than {}; \
             `precision` says up to {precision}",
            self.flow.name,
            self.name(hop.from),
            self.name(self.flow.hops[before].from),
            self.name(hop.from),
            nanos(room)
        );
        self.findings.warning(self.origin(hop), message, hint);
    }

    /// What comes as the schedule says comes within its receive window.
    fn window(&self, window: Nanos) {
        let origin = self.place.of("window");
        let precision = self.network.precision;
        if window >= self.period {
            let message = format!(
                "the receive window of {window} is never closed: `{}` has a period of {}",
                self.flow.name, self.period
            );
            self.findings.warning(origin, message, "a smaller window, or none");
            return;
        }
        // The hop whose frames come furthest from their instants says what is needed. Ordinary switches have no window.
        let hops = self.flow.hops.iter().zip(&self.departures);
        let hops = hops.filter(|(hop, _)| self.network.has_schedule(hop.to));
        let furthest = |departure: &Departure| match departure.most {
            Some(most) => most.max(-departure.least),
            None => departure.least,
        };
        let Some((hop, departure)) = hops.max_by_key(|(_, departure)| furthest(departure)) else {
            return;
        };
        let needed = 2 * furthest(departure);
        let node = self.name(hop.to);
        if ns(window) < needed {
            let distance = nanos(furthest(departure));
            let which = if departure.most.is_some() {
                format!(
                    "some frames of `{}` come up to {distance} from their instants",
                    self.flow.name
                )
            } else {
                format!(
                    "frames of `{}` come {distance} or more behind their instants",
                    self.flow.name
                )
            };
            let message = format!(
                "the receive window of {window} at `{node}` drops good frames: {which}, and it is open for {} before and \
                 behind them",
                nanos(ns(window) / 2)
            );
            let mut hint = match departure.most {
                Some(_) => format!("window = \"{}\"", nanos(needed)),
                None => "no window behind an ordinary switch, where nothing says when frames come"
                    .into(),
            };
            if departure.most.is_some() && precision > Nanos::ZERO {
                let with_precision = nanos(needed + 2 * ns(precision));
                hint += &format!(
                    "; \"{with_precision}\" has room for clocks that differ by {precision}"
                );
            }
            self.findings.error_with_hint(origin, message, hint);
        } else if departure.most.is_some() && ns(window) < needed + 2 * ns(precision) {
            let message = format!(
                "the receive window of {window} at `{node}` drops good frames of `{}` if the clocks of `{}` and \
                 `{node}` differ by more than {}; `precision` says up to {precision}",
                self.flow.name,
                self.name(hop.from),
                nanos((ns(window) - needed) / 2)
            );
            let hint = format!("window = \"{}\" is enough", nanos(needed + 2 * ns(precision)));
            self.findings.warning(origin, message, hint);
        }
    }

    /// The last bit is at each receiver in time.
    fn deadline(&self, deadline: Nanos) {
        let send = self.departures.first().map_or(0, |first| first.at);
        for &receiver in &self.flow.to {
            let Some(index) = self.flow.hops.iter().position(|hop| hop.to == receiver) else {
                continue;
            };
            let link = &self.network.links[self.flow.hops[index].link];
            let Departure { at, least, most } = self.departures[index];
            let transmission = link.transmission(self.flow.size);
            let latency = at - send + most.unwrap_or(least) + ns(link.delay) + ns(transmission);
            if latency <= ns(deadline) {
                continue;
            }
            let mut relays = 0;
            let mut next = Some(index);
            while let Some(hop) = next.map(|index| &self.flow.hops[index]) {
                relays += ns(hop.relay_delay);
                next = hop.before;
            }
            let at = if most.is_some() { "" } else { " or more" };
            let message = format!(
                "`{}` is received at `{}` {}{at} behind its instant, {} behind its deadline of {deadline}",
                self.flow.name,
                self.name(receiver),
                nanos(latency),
                nanos(latency - ns(deadline))
            );
            let hint = format!(
                "deadline = \"{}\", or less than the {} of relay delays",
                nanos(latency),
                nanos(relays)
            );
            self.findings.error_with_hint(self.place.of("deadline"), message, hint);
        }
    }
}
