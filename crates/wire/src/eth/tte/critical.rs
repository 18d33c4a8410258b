//! [`CriticalTraffic`]: which destination addresses are those of critical traffic.

use core::fmt;

use crate::eth::Address;

/// The destination addresses of critical traffic, which is time-triggered or rate-constrained: the first four bytes of
/// an address are a marker under a mask, the last two the identifier of a virtual link (CT id), both big-endian
/// (Wireshark, `epan/dissectors/packet-tte.h`: `TTE_MACDEST_CF_LENGTH`, `TTE_MACDEST_CTID_LENGTH`).
///
/// Marker and mask are those of a whole network. The default is that of CoRE4INET, `03:04:05:06` and all bits of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CriticalTraffic {
    marker: u32,
    mask: u32,
}

impl CriticalTraffic {
    /// Marker and mask, the first byte of the address in their highest bits.
    ///
    /// Addresses of critical traffic are group addresses, since a virtual link has several receivers. A marker without
    /// the group bit (`0x0100_0000`) is allowed: such frames are received where the interface takes all addresses.
    /// `address(0).is_group()` tells. Marker and mask `0xFFFF_FFFF` are allowed too, although a broadcast then counts
    /// as critical traffic with the identifier 65,535.
    ///
    /// # Errors
    /// The mask is zero, so that every frame would be critical. Or the marker has bits outside the mask: they do not
    /// count here, and with them nothing matches in Wireshark, which compares the masked address with the whole marker
    /// (`epan/dissectors/packet-tte.c`).
    pub const fn new(marker: u32, mask: u32) -> Result<Self, MarkerError> {
        if mask == 0 {
            Err(MarkerError::NoMask)
        } else if marker & !mask != 0 {
            Err(MarkerError::OutsideMask { marker, mask })
        } else {
            Ok(Self { marker, mask })
        }
    }

    /// The marker.
    #[must_use]
    pub const fn marker(self) -> u32 {
        self.marker
    }

    /// Which bits of an address are compared with the marker.
    #[must_use]
    pub const fn mask(self) -> u32 {
        self.mask
    }

    /// The destination address of the virtual link `id`. Bits outside the mask are zero.
    #[must_use]
    pub const fn address(self, id: u16) -> Address {
        let ([a, b, c, d], [e, f]) = (self.marker.to_be_bytes(), id.to_be_bytes());
        Address([a, b, c, d, e, f])
    }

    /// The identifier of the virtual link that has this destination address; `None` if it is none of critical traffic.
    #[must_use]
    pub const fn id_of(self, address: &Address) -> Option<u16> {
        let [a, b, c, d, e, f] = address.0;
        if u32::from_be_bytes([a, b, c, d]) & self.mask == self.marker {
            Some(u16::from_be_bytes([e, f]))
        } else {
            None
        }
    }
}

impl Default for CriticalTraffic {
    fn default() -> Self {
        Self { marker: 0x0304_0506, mask: u32::MAX }
    }
}

/// Why there are no addresses with this marker and mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkerError {
    /// The mask has no bits.
    NoMask,
    /// The marker has bits that the mask does not have.
    OutsideMask {
        /// The marker.
        marker: u32,
        /// The mask.
        mask: u32,
    },
}

impl fmt::Display for MarkerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMask => f.write_str(
                "with a mask of 0 every frame would be critical traffic; 0xffffffff compares all \
                 bits of the marker",
            ),
            Self::OutsideMask { marker, mask } => write!(
                f,
                "the marker {marker:#010x} has bits outside the mask {mask:#010x}; within it, it \
                 would be {:#010x}",
                marker & mask
            ),
        }
    }
}

impl core::error::Error for MarkerError {}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_have_a_marker_and_an_identifier() {
        // The markers of CoRE4INET and of T-CREST.
        for (marker, id, address) in [
            (0x0304_0506, 0, "03:04:05:06:00:00"),
            (0x0304_0506, 0x0FEE, "03:04:05:06:0f:ee"),
            (0xABAD_BABE, 0xFFFF, "ab:ad:ba:be:ff:ff"),
        ] {
            let critical = CriticalTraffic::new(marker, u32::MAX).unwrap();
            assert_eq!(critical.address(id).to_string(), address);
            assert_eq!(critical.id_of(&critical.address(id)), Some(id));
            assert!(critical.address(id).is_group());
        }
        assert_eq!(CriticalTraffic::new(0x0304_0506, u32::MAX), Ok(CriticalTraffic::default()));
    }

    #[test]
    fn only_bits_of_the_mask_count() {
        let critical = CriticalTraffic::new(0x0304_0000, 0xFFFF_0000).unwrap();
        assert_eq!((critical.marker(), critical.mask()), (0x0304_0000, 0xFFFF_0000));
        for (address, id) in [
            ("03:04:00:00:00:01", Some(1)),
            ("03:04:05:06:01:00", Some(256)),
            ("03:05:05:06:00:01", None),
            ("01:04:00:00:00:01", None),
        ] {
            assert_eq!(critical.id_of(&address.parse().unwrap()), id, "{address}");
        }
    }

    #[test]
    fn what_matches_everything_or_nothing_is_refused() {
        for (marker, mask, error, words) in [
            (0, 0, MarkerError::NoMask, "mask of 0"),
            (1, 0, MarkerError::NoMask, "mask of 0"),
            (
                0x0304_0506,
                0xFFFF_0000,
                MarkerError::OutsideMask { marker: 0x0304_0506, mask: 0xFFFF_0000 },
                "it would be 0x03040000",
            ),
        ] {
            assert_eq!(CriticalTraffic::new(marker, mask), Err(error));
            assert!(error.to_string().contains(words), "{error}");
        }
        // Not a group, and still possible.
        assert!(!CriticalTraffic::new(0x0204_0506, u32::MAX).unwrap().address(0).is_group());
    }

    proptest! {
        #[test]
        fn an_identifier_is_found_again(marker: u32, mask in 1_u32.., id: u16, other: u32) {
            let critical = CriticalTraffic::new(marker & mask, mask).unwrap();
            let mut address = critical.address(id);
            prop_assert_eq!(critical.id_of(&address), Some(id));
            // Bits outside the mask do not count.
            let word = marker & mask | other & !mask;
            address.0[..4].copy_from_slice(&word.to_be_bytes());
            prop_assert_eq!(critical.id_of(&address), Some(id));
        }
    }
}
