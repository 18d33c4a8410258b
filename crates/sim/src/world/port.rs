//! What ports of programs do with a world: they add nodes, put frames into queues and advance time.

use candor_port::{Sent, Wanted};
use candor_time::Nanos;
use candor_wire::can::{ErrorState, Frame};

use super::event::Event;
use super::{Owner, World};
use crate::can::BusId;
use crate::event::Time;
use crate::flight::wire_length;
use crate::host::Gateway;
use crate::node::{PortConfig, PortNode};
use crate::record::Observer;
use crate::sender::{Drive, SenderConfig, Source, Stuffing};

impl<G: Gateway, S: Source + ?Sized> World<G, S> {
    /// Adds a node for a port. It acknowledges every frame, whatever is wanted of it.
    pub(crate) fn add_port_node(&mut self, bus: BusId, config: &PortConfig, wanted: Wanted) -> u32 {
        let node = self.port_nodes.len() as u32;
        let owner = Owner::Program { sender: self.senders.len() as u32, node };
        let sender_config = SenderConfig {
            drive: Drive::Timed,
            discipline: config.discipline,
            depth: if wanted.transmitter { config.transmit_queue } else { 0 },
            reload: Nanos::ZERO,
            fault_rate: config.fault_rate,
        };
        let sender = self.add_node(bus, owner, sender_config, None);
        let controller = self.senders[sender.0 as usize].controller;
        self.port_nodes.push(PortNode::new(controller, config, wanted));
        node
    }

    pub(crate) fn port_node(&mut self, node: u32) -> &mut PortNode {
        &mut self.port_nodes[node as usize]
    }

    pub(crate) fn port_nodes(&mut self) -> &mut [PortNode] {
        &mut self.port_nodes
    }

    /// Whether a bus carries CAN FD.
    pub(crate) fn is_fd(&self, bus: BusId) -> bool {
        self.can.config(bus).is_fd
    }

    /// Whether the transmit queue of a node has no room.
    pub(crate) fn is_queue_full(&self, node: u32) -> bool {
        let controller = self.port_nodes[node as usize].controller;
        self.can.is_full(controller)
    }

    /// Puts a frame into the transmit queue of a node.
    pub(crate) fn transmit(&mut self, node: u32, frame: &Frame) -> Sent {
        let controller = self.port_nodes[node as usize].controller;
        let Owner::Program { sender, .. } = self.owner(controller) else { return Sent::Down };
        let can = &self.can;
        let length = wire_length(frame, Stuffing::Exact);
        if can.carries(controller, frame, length).is_err() {
            return Sent::Unsupported;
        }
        if can.state(controller) == ErrorState::BusOff {
            return Sent::Down;
        }
        if can.is_full(controller) {
            self.port_nodes[node as usize].transmitter_counters.full.add(1);
            return Sent::Full;
        }
        let flight = self.start_flight(sender, frame, Stuffing::Exact, length);
        if self.offer(controller, flight).is_err() {
            // There was room.
            self.flights.remove(flight);
            return Sent::Full;
        }
        let node = &mut self.port_nodes[node as usize];
        node.taken += 1;
        node.transmitter_counters.frames.add(1);
        Sent::Taken
    }

    /// Before the first [`World::step`].
    pub(crate) fn start_stepping(&mut self) {
        self.plan_start();
    }

    /// Lets the next event happen, unless it lies behind `limit`; whether there was one. At `limit`
    /// itself, buses have not yet chosen their next frames.
    pub(crate) fn step(&mut self, limit: Time, observer: &mut impl Observer) -> bool {
        let Some(event) = self.core.next_until(limit) else { return false };
        self.happen(event, observer);
        if let Event::Can(_) = event {
            self.report_states();
        }
        true
    }

    /// Nothing happens until `time`, which is now.
    pub(crate) fn reach(&mut self, time: Time) {
        self.core.reach(time);
    }

    /// Ends all that is under way.
    pub(crate) fn end_all(&mut self, observer: &mut impl Observer) {
        let now = self.core.now();
        self.give_up(observer);
        self.core.end_at(now);
    }

    /// Tells the nodes of ports about new error states of their controllers.
    fn report_states(&mut self) {
        for node in &mut self.port_nodes {
            let (can, controller, now) = (&self.can, node.controller, self.core.now());
            node.report(can.state(controller), can.error_counters(controller, now), now);
        }
    }
}

impl<G, S: ?Sized> World<G, S> {
    /// Nobody receives at this node any more.
    pub(crate) fn stop_receiving(&mut self, node: u32) {
        let node = &mut self.port_nodes[node as usize];
        node.is_receiving = false;
        node.received = candor_queue::Fifo::new(0);
    }
}
