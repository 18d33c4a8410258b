//! [`Table`]: the rules as a value, whatever they were written in.

use alloc::string::String;
use alloc::vec::Vec;

use candor_wire::can::Frame;
use candor_wire::can::frame::{EFF_FLAG, EFF_MASK, ERR_FLAG, RTR_FLAG, SFF_MASK};

use crate::extension::pace::Per;
use crate::{Edit, Extension};

/// The highest hop limit of the kernel (`CGW_MAX_HOPS`, `net/can/gw.c`).
pub const HOPS_LIMIT: u8 = 6;

/// The buses of a gateway and the rules between them.
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Table {
    /// The buses, at most 65,536; a [`BusIndex`] points in here.
    pub buses: Vec<Bus>,
    /// The rules in the order they were written.
    pub rules: Vec<Rule>,
    /// How often a frame may pass the gateway: the kernel's module parameter `max_hops`, there 1 to
    /// [`HOPS_LIMIT`]. 0 stands for its default, 1.
    pub max_hops: u8,
    /// Whether frames that no rule takes are refused, counted as such and reported: then the rules are
    /// a list of what is allowed. Otherwise they are nobody's business, as with the kernel's
    /// gateway. They are not forwarded either way.
    pub refuses_others: bool,
}

impl Table {
    /// [`Table::max_hops`] with its default filled in.
    #[must_use]
    pub fn effective_max_hops(&self) -> u8 {
        self.max_hops.max(1)
    }

    /// The bus of that name.
    #[must_use]
    pub fn bus(&self, name: &str) -> Option<BusIndex> {
        let index = self.buses.iter().position(|bus| bus.name == name)?;
        Some(BusIndex(index as u16))
    }

    /// The bus of that name, else the first one whose port or network interface is called so.
    #[must_use]
    pub fn bus_or_interface(&self, name: &str) -> Option<BusIndex> {
        self.bus(name).or_else(|| {
            let is_called = |bus: &Bus| bus.port == name || bus.interface() == name;
            let index = self.buses.iter().position(is_called)?;
            Some(BusIndex(index as u16))
        })
    }
}

/// A bus of the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Bus {
    /// What the rules call it.
    pub name: String,
    /// The port that it is reached by, such as `can0` or `cannelloni:udp://host:20000`.
    pub port: String,
    /// Whether frames sent here come back to the gateway as received, as on a vcan interface.
    pub is_virtual: bool,
}

impl Bus {
    /// The network interface it stands for: its port without driver and options. A port that is none
    /// is returned as it is, which no interface is called.
    #[must_use]
    pub fn interface(&self) -> &str {
        let of_linux = |driver| self.port.strip_prefix(driver);
        let place = of_linux("socketcan:").or_else(|| of_linux("packet:")).unwrap_or(&self.port);
        place.split_once('?').map_or(place, |(place, _)| place)
    }
}

/// Which bus of a [`Table`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct BusIndex(pub u16);

/// One rule: frames of one bus that match go to other buses, perhaps rewritten.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Rule {
    /// What the user calls it; unique within a table.
    pub name: String,
    /// The line and column of the rule in its file, from 1; (0, 0) if it came from elsewhere.
    pub position: (u32, u32),
    /// Where frames come from.
    pub from: BusIndex,
    /// Where copies go, in this order; not empty.
    pub to: Vec<BusIndex>,
    /// Which kind of frame the rule takes; others are ignored and not counted.
    pub gate: Gate,
    /// Any of these must match; empty stands for every frame except error reports.
    pub filters: Vec<Filter>,
    /// None of these may match.
    pub except: Vec<Filter>,
    /// What happens to the frame.
    pub edit: Edit,
    /// Whether sockets on the destination see the frame too (`CGW_FLAGS_CAN_ECHO`).
    pub echo: bool,
    /// Whether the time stamp of the source is kept (`CGW_FLAGS_CAN_SRC_TSTAMP`).
    pub keep_timestamp: bool,
    /// Whether a frame may leave on the interface it first came in on
    /// (`CGW_FLAGS_CAN_IIF_TX_OK`).
    pub allow_return: bool,
    /// How many more passes a frame may make after this rule, itself included, 1 to the table's
    /// limit (`CGW_LIM_HOPS`).
    pub limit_hops: Option<u8>,
    /// The kernel's handle to swap the modifications of a running rule (`CGW_MOD_UID`), 0 for none.
    pub uid: u32,
    /// What it does that the kernel cannot.
    pub extension: Extension,
}

impl Rule {
    /// A rule that copies every classical frame, to be refined.
    #[must_use]
    pub fn new(name: impl Into<String>, from: BusIndex, to: BusIndex) -> Self {
        Self {
            name: name.into(),
            position: (0, 0),
            from,
            to: [to].into(),
            gate: Gate::Classical,
            filters: Vec::new(),
            except: Vec::new(),
            edit: Edit::default(),
            echo: false,
            keep_timestamp: false,
            allow_return: false,
            limit_hops: None,
            uid: 0,
            extension: Extension::default(),
        }
    }

    /// How many identifiers the rule remembers apart: those that it takes, [`Pace::ids`] at most.
    ///
    /// [`Pace::ids`]: crate::extension::Pace::ids
    #[must_use]
    pub fn remembered_ids(&self) -> u16 {
        let pace = &self.extension.pace;
        if !self.extension.remembers() || pace.per == Per::Rule {
            return 0;
        }
        if self.filters.is_empty() {
            return pace.ids;
        }
        let taken = self.filters.iter().fold(0_u64, |sum, filter| sum + filter.word_count());
        u16::try_from(taken).map_or(pace.ids, |taken| taken.min(pace.ids))
    }

    /// Whether the rule's filters take `frame`, whichever way matching is implemented: the
    /// reference that the compiled program is tested against.
    #[must_use]
    pub fn matches(&self, frame: &Frame) -> bool {
        self.gate.takes(frame)
            && self.extension.payload.takes(frame)
            && (self.filters.iter().any(|filter| filter.matches(frame.can_id()))
                || self.filters.is_empty() && Filter::ANY.matches(frame.can_id()))
            && !self.except.iter().any(|filter| filter.matches(frame.can_id()))
    }
}

/// The kind of frame a rule takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Gate {
    /// Classical frames only.
    #[default]
    Classical,
    /// CAN FD frames only (`CGW_FLAGS_CAN_FD`).
    Fd,
    /// Both; only for rules that rewrite nothing.
    Any,
}

impl Gate {
    /// Whether a frame of this kind passes.
    #[must_use]
    pub const fn takes(self, frame: &Frame) -> bool {
        match self {
            Self::Classical => !frame.is_fd(),
            Self::Fd => frame.is_fd(),
            Self::Any => true,
        }
    }
}

/// A filter on the identifier word, with SocketCAN's meaning (`struct can_filter`,
/// `net/can/af_can.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Filter {
    /// Identifier and flags [`EFF_FLAG`], [`RTR_FLAG`] to compare with.
    pub can_id: u32,
    /// The bits that are compared. With [`ERR_FLAG`] the filter takes error reports that share a
    /// bit with the mask, and nothing else.
    pub mask: u32,
    /// Take what does *not* match.
    pub inverted: bool,
}

impl Filter {
    /// Every frame but error reports.
    pub const ANY: Self = Self { can_id: 0, mask: 0, inverted: false };

    /// Exactly this standard identifier, data frames only (the kernel's fast slot).
    #[must_use]
    pub const fn standard(id: u16) -> Self {
        Self { can_id: id as u32 & SFF_MASK, mask: EFF_FLAG | RTR_FLAG | SFF_MASK, inverted: false }
    }

    /// Exactly this extended identifier, data frames only (the kernel's hash slot).
    #[must_use]
    pub const fn extended(id: u32) -> Self {
        Self {
            can_id: id & EFF_MASK | EFF_FLAG,
            mask: EFF_FLAG | RTR_FLAG | EFF_MASK,
            inverted: false,
        }
    }

    /// The filter as the kernel registers it: a mask that asks for an extended identifier's bits
    /// of a standard one is cut, bits of the identifier that are not compared are cleared.
    #[must_use]
    pub const fn normalized(self) -> Self {
        if self.mask & ERR_FLAG != 0 {
            return self;
        }
        let mut mask = self.mask;
        if mask & EFF_FLAG != 0 && self.can_id & EFF_FLAG == 0 {
            mask &= SFF_MASK | EFF_FLAG | RTR_FLAG;
        }
        Self { can_id: self.can_id & mask, mask, inverted: self.inverted }
    }

    /// How many identifier words pass, or more.
    const fn word_count(self) -> u64 {
        let Self { can_id, mask, inverted } = self.normalized();
        if inverted || mask & ERR_FLAG != 0 {
            return 1 << 31;
        }
        let is_standard = mask & EFF_FLAG != 0 && can_id & EFF_FLAG == 0;
        let bits = if is_standard { SFF_MASK | RTR_FLAG } else { EFF_FLAG | RTR_FLAG | EFF_MASK };
        1 << (bits & !mask).count_ones()
    }

    /// Whether a frame with this identifier word passes.
    #[must_use]
    pub const fn matches(self, can_id: u32) -> bool {
        if self.mask & ERR_FLAG != 0 {
            return can_id & ERR_FLAG != 0 && can_id & self.mask & EFF_MASK != 0;
        }
        let Self { can_id: wanted, mask, inverted } = self.normalized();
        can_id & ERR_FLAG == 0 && (can_id & mask == wanted) != inverted
    }

    /// In which of the kernel's receive lists the filter is kept.
    #[must_use]
    pub const fn list(self) -> List {
        if self.mask & ERR_FLAG != 0 {
            return List::Error;
        }
        let Self { can_id, mask, inverted } = self.normalized();
        if inverted {
            List::Inverted
        } else if mask == 0 {
            List::All
        } else if mask & (EFF_FLAG | RTR_FLAG) == EFF_FLAG | RTR_FLAG && can_id & RTR_FLAG == 0 {
            if can_id & EFF_FLAG != 0 && mask == EFF_FLAG | RTR_FLAG | EFF_MASK {
                List::Extended
            } else if can_id & EFF_FLAG == 0 && mask == EFF_FLAG | RTR_FLAG | SFF_MASK {
                List::Standard
            } else {
                List::Masked
            }
        } else {
            List::Masked
        }
    }
}

/// The kernel's receive lists in the order in which a frame meets them (`net/can/af_can.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum List {
    /// Error reports only.
    Error,
    /// No mask: every frame.
    All,
    /// Masked filters, walked one by one.
    Masked,
    /// Inverted filters, walked one by one.
    Inverted,
    /// Single extended identifiers: a hash table, one list before Linux 3.16 or so.
    Extended,
    /// Single standard identifiers: an array.
    Standard,
}

impl List {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Error, Self::All, Self::Masked, Self::Inverted, Self::Extended, Self::Standard];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::All => "all",
            Self::Masked => "masked",
            Self::Inverted => "inverted",
            Self::Extended => "extended",
            Self::Standard => "standard",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extension::Pace;

    fn filter(can_id: u32, mask: u32) -> Filter {
        Filter { can_id, mask, inverted: false }
    }

    #[test]
    fn filters_land_in_the_lists_of_the_kernel() {
        for (filter, list) in [
            (filter(0, 0), List::All),
            (filter(0x123, 0x7FF), List::Masked),
            (filter(0x123, 0xC000_07FF), List::Standard),
            (filter(0x123, 0xDFFF_FFFF), List::Standard), // cut to 11 bits
            (filter(0x8000_0123, 0xDFFF_FFFF), List::Extended),
            (filter(0x8000_0123, 0xC000_07FF), List::Masked),
            (filter(0x4000_0123, 0xC000_07FF), List::Masked), // remote
            (filter(0x120, 0xC000_07F0), List::Masked),
            (filter(0, 0x2000_0004), List::Error),
            (Filter { inverted: true, ..filter(0x123, 0xC000_07FF) }, List::Inverted),
            (Filter::standard(5), List::Standard),
            (Filter::extended(5), List::Extended),
        ] {
            assert_eq!(filter.list(), list, "{filter:x?}");
        }
    }

    #[test]
    fn a_rule_remembers_no_more_identifiers_than_it_takes() {
        let pace = Pace { every: 2, ids: 100, ..Pace::default() };
        let masked = filter(0x120, 0xC000_07F0);
        for (filters, pace, count) in [
            (&[][..], pace.clone(), 100),
            (&[Filter::standard(1), Filter::extended(1)], pace.clone(), 2),
            (&[masked], pace.clone(), 16),
            (&[filter(0x120, 0x8000_07F0)], pace.clone(), 32), // remote frames too
            (&[filter(0x120, 0x7F0)], pace.clone(), 100),      // extended ones too
            (&[filter(0x8000_0120, 0x9FFF_FFFF)], pace.clone(), 2),
            (&[Filter { inverted: true, ..masked }], pace.clone(), 100),
            (&[Filter::ANY], pace.clone(), 100),
            (&[masked], Pace { per: Per::Rule, ..pace.clone() }, 0),
            (&[masked], Pace { ids: 3, ..pace }, 3),
            (&[masked], Pace::default(), 0),
        ] {
            let extension = Extension { pace, ..Extension::default() };
            let filters = filters.into();
            let rule = Rule { filters, extension, ..Rule::new("", BusIndex(0), BusIndex(1)) };
            assert_eq!(rule.remembered_ids(), count, "{rule:?}");
        }
    }

    #[test]
    fn filters_match_as_in_the_kernel() {
        let inverted = Filter { inverted: true, ..Filter::standard(0x123) };
        for (filter, can_id, matches) in [
            // A mask of identifier bits only takes standard, extended and remote frames.
            (filter(0x123, 0x7FF), 0x123, true),
            (filter(0x123, 0x7FF), 0x8000_0123, true),
            (filter(0x123, 0x7FF), 0x4000_0123, true),
            (filter(0x1_2123, 0x1FFF_FFFF), 0x8001_2123, true),
            (filter(0x1_2123, 0x1FFF_FFFF), 0x123, false),
            (Filter::standard(0x123), 0x123, true),
            (Filter::standard(0x123), 0x8000_0123, false),
            (Filter::standard(0x123), 0x4000_0123, false),
            (Filter::extended(0x123), 0x8000_0123, true),
            (Filter::ANY, 0x7FF, true),
            (Filter::ANY, 0x2000_0004, false),
            (inverted, 0x123, false),
            (inverted, 0x124, true),
            (inverted, 0x2000_0004, false),
            (filter(0, 0x2000_0004), 0x2000_0004, true),
            (filter(0, 0x2000_0004), 0x2000_0008, false),
            (filter(0, 0x2000_0004), 0x004, false),
        ] {
            assert_eq!(filter.matches(can_id), matches, "{filter:x?} {can_id:#x}");
        }
    }
}
