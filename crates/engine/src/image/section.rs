//! [`Section`]: the parts of an image.

/// A part of an image: an array of records of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Section {
    /// The buses.
    Buses = 1,
    /// The bytes of all names, in UTF-8.
    Strings,
    /// The rules.
    Rules,
    /// The destinations of the rules.
    Jobs,
    /// Filters of frames that a rule does not take.
    Exclusions,
    /// For each bus, where its lists and tables are.
    Matchers,
    /// For each bus and each standard identifier, which rules match.
    Standard,
    /// Lists of matches.
    Lists,
    /// Rules that match, by list.
    Matches,
    /// Groups of filters for extended identifiers, with the table that selects among them.
    Clusters,
    /// The slots of those tables.
    Candidates,
    /// Hash tables of extended identifiers, one for each mask.
    Groups,
    /// The slots of those tables.
    Slots,
    /// Inverted filters, for extended identifiers.
    Inverted,
    /// Filters for error reports.
    Errors,
    /// Edits in the order of the kernel.
    Edits,
    /// What the kernel's gateway cannot do.
    Extensions,
    /// Bytes that the data of a frame must have, or must not have.
    Patterns,
    /// Lengths that a frame must have.
    Lengths,
    /// The steps of ordered edits.
    Actions,
    /// Identifiers before and after.
    Remaps,
    /// Tables of CRC8s.
    CrcTables,
}

impl Section {
    /// All sections, in the order in which an image has them.
    pub const ALL: [Self; 22] = [
        Self::Buses,
        Self::Strings,
        Self::Rules,
        Self::Jobs,
        Self::Exclusions,
        Self::Matchers,
        Self::Standard,
        Self::Lists,
        Self::Matches,
        Self::Clusters,
        Self::Candidates,
        Self::Groups,
        Self::Slots,
        Self::Inverted,
        Self::Errors,
        Self::Edits,
        Self::Extensions,
        Self::Patterns,
        Self::Lengths,
        Self::Actions,
        Self::Remaps,
        Self::CrcTables,
    ];

    /// The number that stands for it in an image.
    #[must_use]
    pub const fn kind(self) -> u32 {
        self as u32
    }

    /// The name in documents and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Buses => "buses",
            Self::Strings => "strings",
            Self::Rules => "rules",
            Self::Jobs => "jobs",
            Self::Exclusions => "exclusions",
            Self::Matchers => "matchers",
            Self::Standard => "standard",
            Self::Lists => "lists",
            Self::Matches => "matches",
            Self::Clusters => "clusters",
            Self::Candidates => "candidates",
            Self::Groups => "groups",
            Self::Slots => "slots",
            Self::Inverted => "inverted",
            Self::Errors => "errors",
            Self::Edits => "edits",
            Self::Extensions => "extensions",
            Self::Patterns => "patterns",
            Self::Lengths => "lengths",
            Self::Actions => "actions",
            Self::Remaps => "remaps",
            Self::CrcTables => "crc_tables",
        }
    }

    /// The size of a record in bytes.
    #[must_use]
    pub const fn record_bytes(self) -> usize {
        match self {
            Self::Strings => 1,
            Self::Lengths => 2,
            Self::Standard => 4,
            Self::Lists | Self::Matches | Self::Slots | Self::Remaps => 8,
            Self::Exclusions => 12,
            Self::Candidates | Self::Groups => 16,
            Self::Inverted | Self::Errors => 20,
            Self::Buses | Self::Rules | Self::Jobs | Self::Clusters => 24,
            Self::Matchers => 64,
            Self::Patterns => 132,
            Self::Extensions | Self::Actions => 136,
            Self::CrcTables => 256,
            Self::Edits => 324,
        }
    }

    /// Where it stands in [`Section::ALL`].
    pub(super) const fn index(self) -> usize {
        self as usize - 1
    }
}
