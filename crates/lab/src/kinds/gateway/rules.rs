//! The rule engine as the gateway of a simulated host, and the rule sets of the papers.

use candor_causes::Cause;
use candor_engine::counters::Outcome;
use candor_engine::edit::{Crc8, Crc8Profile, Edit, Operands, Range, XorChecksum};
use candor_engine::program::{JobIndex, ListLengths, Match};
use candor_engine::table::List;
use candor_engine::{Bus, BusIndex, Filter, Rule, Table};
use candor_engine::{Egress, Engine, Forward, Passage};
use candor_sim::{Copy, Decision, Gateway, PassageTag, Settled, Time, Walk};
use candor_wire::can::Frame;
use candor_wire::can::frame::{EFF_FLAG, RTR_FLAG, SFF_MASK};

/// The engine of `candor-engine` behind the interface of the simulation. Port n is bus n.
pub(super) struct Rules {
    engine: Engine,
    lengths: Vec<ListLengths>,
}

impl Rules {
    /// Compiles `table`.
    pub(super) fn new(table: &Table) -> Self {
        let engine = Engine::new(table);
        let buses = 0..engine.program().buses().len() as u16;
        let lengths = buses.map(|bus| engine.program().list_lengths(BusIndex(bus))).collect();
        Self { engine, lengths }
    }

    /// The engine, for its counters.
    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }
}

/// How many filters the kernel of the model meets before it finds a rule.
fn walk_to(found: Match, lengths: ListLengths) -> Walk {
    let (list, position) = (found.list(), found.position());
    let lists = lengths.all + lengths.masked + lengths.inverted;
    match list {
        List::Error => Walk::default(),
        List::All => Walk { listed: position + 1, ..Walk::default() },
        List::Masked => Walk { listed: lengths.all + position + 1, ..Walk::default() },
        List::Inverted => {
            Walk { listed: lengths.all + lengths.masked + position + 1, ..Walk::default() }
        }
        List::Extended => Walk { listed: lists, extended: position + 1, slots: 0 },
        List::Standard => Walk { listed: lists, extended: 0, slots: 1 },
    }
}

/// How many filters a frame meets in all.
fn whole_walk(frame: &Frame, lengths: ListLengths) -> Walk {
    let listed = lengths.all + lengths.masked + lengths.inverted;
    let is_remote = frame.can_id() & RTR_FLAG != 0;
    match (is_remote, frame.is_extended()) {
        (true, _) => Walk { listed, ..Walk::default() },
        (false, true) => Walk { listed, extended: lengths.extended, slots: 0 },
        (false, false) => Walk { listed, extended: 0, slots: 1 },
    }
}

/// Collects what the engine decides.
struct Collector<'a> {
    decision: &'a mut Decision,
    lengths: ListLengths,
}

impl Egress for Collector<'_> {
    fn forward(&mut self, copy: Forward<'_>) -> Outcome {
        self.decision.copies.push(Copy {
            job: copy.job.0,
            port: u32::from(copy.to.0),
            frame: *copy.frame,
            passage: PassageTag {
                origin: u32::from(copy.passage.origin.0),
                hops: copy.passage.hops,
            },
            echo: copy.echo,
            is_edited: copy.is_edited,
            walk: walk_to(copy.found, self.lengths),
        });
        Outcome::Pending
    }

    fn refused(&mut self, job: JobIndex, cause: Cause) {
        self.decision.refused.push((job.0, cause));
    }
}

impl Gateway for Rules {
    fn decide(
        &mut self,
        now: Time,
        port: u32,
        frame: &Frame,
        passage: PassageTag,
        decision: &mut Decision,
    ) {
        let now = now - Time::ZERO;
        let lengths = self.lengths.get(port as usize).copied().unwrap_or_default();
        let passage = Passage { origin: BusIndex(passage.origin as u16), hops: passage.hops };
        let mut collector = Collector { decision, lengths };
        self.engine.handle(now, BusIndex(port as u16), frame, passage, &mut collector);
        decision.walk = whole_walk(frame, lengths);
    }

    fn settle(&mut self, job: u32, settled: Settled) {
        let outcome = match settled {
            Settled::Handled => Outcome::Handled,
            Settled::Refused(cause) => Outcome::Refused(cause),
        };
        self.engine.settle(JobIndex(job), outcome);
    }
}

/// The rule sets of the papers' test bed, made from a few parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    /// How many filters; with 0, one rule for everything.
    pub filters: u32,
    pub kind: FilterKind,
    /// What happens to the frames.
    pub modification: Modification,
    /// How often frames go over virtual buses between the two.
    pub hops: u32,
    /// Over how many virtual buses, 1 or 2.
    pub virtual_buses: u32,
}

/// Which list of the kernel the filters stand in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterKind {
    /// Single standard identifiers.
    Standard,
    /// Single extended identifiers.
    Extended,
    /// Masked ones: standard and extended identifiers alike.
    Masked,
}

/// What the rules do to a frame, besides passing it on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modification {
    /// Nothing.
    None,
    /// AND of the identifier and of data behind the number.
    And,
    Or,
    Xor,
    /// SET of the identifier.
    Set,
    /// An XOR checksum in the last byte.
    Checksum,
    /// A CRC8 (SAE J1850) in the last of eight bytes.
    Crc8,
}

impl Modification {
    fn edit(self, can_id: u32) -> Edit {
        let mut edit = Edit::default();
        // The unique number in the first two bytes stays.
        let mut data = Box::new([0; 64]);
        match self {
            Self::None => {}
            Self::And => {
                data.fill(0xFF);
                data[7] = 0x0F;
                edit.and = Operands { data: Some(data), ..Operands::default() };
            }
            Self::Or => {
                data[7] = 0x0F;
                edit.or = Operands { data: Some(data), ..Operands::default() };
            }
            Self::Xor => {
                data[7] = 0x0F;
                edit.xor = Operands { data: Some(data), ..Operands::default() };
            }
            Self::Set => edit.set = Operands { can_id: Some(can_id), ..Operands::default() },
            Self::Checksum => {
                edit.or = Operands { can_id: Some(0), ..Operands::default() };
                let range = Range { from: 0, to: -2, result: -1 };
                edit.xor_checksum = Some(XorChecksum { range, init: 0 });
            }
            Self::Crc8 => {
                edit.or = Operands { can_id: Some(0), ..Operands::default() };
                // Places from the front: kernels before March 2026 compute those from the end wrongly.
                edit.crc8 = Some(Crc8 {
                    range: Range { from: 0, to: 6, result: 7 },
                    init: 0xFF,
                    final_xor: 0xFF,
                    table: Box::new(Crc8::table_of(0x1D)),
                    profile: Crc8Profile::Plain,
                });
            }
        }
        edit
    }
}

impl Generated {
    /// The table for frames with this identifier word. Only the last filter of the list matches
    /// it, as in the papers. Buses: 0 in, 1 out, then the virtual ones.
    ///
    /// # Errors
    /// What these parameters cannot be, in one sentence.
    pub fn table(&self, can_id: u32) -> Result<Table, String> {
        let is_extended = can_id & EFF_FLAG != 0;
        if self.filters > 0 && is_extended != (self.kind == FilterKind::Extended) {
            return Err(
                "traffic.id and gateway.generate.filter_kind must both be extended or both \
                        be standard: change one of them"
                    .into(),
            );
        }
        if self.hops > 100 {
            return Err("gateway.generate.hops is at most 100".into());
        }
        if self.kind != FilterKind::Extended && self.filters > SFF_MASK + 1 {
            return Err("there are only 2048 standard identifiers".into());
        }
        let bus = |name: &str, interface: &str, is_virtual| Bus {
            name: name.into(),
            port: interface.into(),
            is_virtual,
        };
        let mut buses = vec![bus("in", "can0", false), bus("out", "can1", false)];
        let virtual_buses = if self.hops == 0 { 0 } else { self.virtual_buses.clamp(1, 2) };
        for index in 0..virtual_buses {
            let name = format!("vcan{index}");
            buses.push(bus(&name, &name, true));
        }
        let (source, target) = (BusIndex(0), BusIndex(1));
        if self.hops > 0 {
            let rules = self.chain(can_id, virtual_buses)?;
            return Ok(Table { buses, rules, max_hops: self.hops as u8 + 1, ..Table::default() });
        }
        let edit = self.modification.edit(can_id);
        let mut rules = Vec::new();
        for index in 0..self.filters {
            // Identifiers that miss, and the one that hits at the end of the list.
            let is_last = index + 1 == self.filters;
            let filter = match self.kind {
                FilterKind::Standard if is_last => Filter::standard((can_id & SFF_MASK) as u16),
                FilterKind::Standard => {
                    let id = index + u32::from(index >= can_id & SFF_MASK);
                    Filter::standard((id & SFF_MASK) as u16)
                }
                FilterKind::Extended if is_last => Filter::extended(can_id),
                FilterKind::Extended => Filter::extended(can_id ^ (index + 1) << 8),
                FilterKind::Masked => {
                    let other = index + u32::from(index >= can_id & SFF_MASK);
                    let can_id = if is_last { can_id } else { other } & SFF_MASK;
                    Filter { can_id, mask: SFF_MASK, inverted: false }
                }
            };
            let name = format!("filter {}", index + 1);
            let filters = vec![filter];
            rules.push(Rule { filters, edit: edit.clone(), ..Rule::new(name, source, target) });
        }
        if rules.is_empty() {
            rules.push(Rule { edit, ..Rule::new("everything", source, target) });
        }
        Ok(Table { buses, rules, max_hops: 1, ..Table::default() })
    }

    /// The papers' chains over virtual buses: each pass raises the identifier by one. Their
    /// gateway was changed to let a frame pass more often than the kernel's six times.
    fn chain(&self, can_id: u32, virtual_buses: u32) -> Result<Vec<Rule>, String> {
        let first = can_id & SFF_MASK;
        if can_id & EFF_FLAG != 0 || first + self.hops > SFF_MASK {
            return Err(
                "each hop over a virtual bus uses the next standard identifier: traffic.id \
                        plus gateway.generate.hops must be at most 0x7FF"
                    .into(),
            );
        }
        let virtual_bus = |hop: u32| BusIndex((2 + hop % virtual_buses) as u16);
        let step = |name: String, from, to, id: u32, next: u32| {
            let mut rule = Rule::new(name, from, to);
            rule.filters = vec![Filter::standard(id as u16)];
            rule.echo = true;
            rule.allow_return = true;
            rule.edit.set.can_id = Some(next);
            rule
        };
        let mut rules = vec![step("hop 1".into(), BusIndex(0), virtual_bus(0), first, first + 1)];
        for hop in 1..self.hops {
            let (from, to) = (virtual_bus(hop - 1), virtual_bus(hop));
            rules.push(step(format!("hop {}", hop + 1), from, to, first + hop, first + hop + 1));
        }
        let last = virtual_bus(self.hops - 1);
        rules.push(step("out".into(), last, BusIndex(1), first + self.hops, first + self.hops));
        Ok(rules)
    }
}
