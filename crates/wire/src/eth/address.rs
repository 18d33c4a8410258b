//! [`Address`]: MAC addresses.

use core::fmt;
use core::str::FromStr;

/// A MAC address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub [u8; 6]);

impl Address {
    /// All stations.
    pub const BROADCAST: Self = Self([0xFF; 6]);

    /// Whether it stands for a group of stations (I/G bit, IEEE 802, clause 8.2.2).
    #[must_use]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether it was chosen locally and not by the manufacturer (U/L bit, IEEE 802, clause 8.2.2).
    #[must_use]
    pub const fn is_local(self) -> bool {
        self.0[0] & 2 != 0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// A text is not a MAC address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressError;

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a MAC address; write six bytes in hex, such as 02:00:00:00:00:01")
    }
}

impl core::error::Error for AddressError {}

impl FromStr for Address {
    type Err = AddressError;

    /// Six bytes in hex with `:` or `-` between them.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let separator = if text.contains('-') { '-' } else { ':' };
        let mut address = [0; 6];
        let mut parts = text.split(separator);
        for byte in &mut address {
            let part = parts.next().ok_or(AddressError)?;
            let is_hex = part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
            *byte =
                is_hex.then(|| u8::from_str_radix(part, 16).ok()).flatten().ok_or(AddressError)?;
        }
        match parts.next() {
            None => Ok(Self(address)),
            Some(_) => Err(AddressError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn addresses_are_read_and_shown() {
        let address = Address([0x02, 0xAB, 0, 1, 0xFE, 0xFF]);
        assert_eq!(address.to_string(), "02:ab:00:01:fe:ff");
        for text in ["02:ab:00:01:fe:ff", "02-AB-00-01-FE-FF"] {
            assert_eq!(text.parse(), Ok(address));
        }
        for text in [
            "",
            "02",
            "02:ab:00:01:fe",
            "02:ab:00:01:fe:ff:00",
            "2:ab:0:1:fe:ff",
            "02:ab-00:01:fe:ff",
            "02:ab:00:01:fe:+f",
        ] {
            assert_eq!(text.parse::<Address>(), Err(AddressError), "{text}");
        }
    }

    #[test]
    fn two_bits_say_what_kind_of_address_it_is() {
        for (first, is_group, is_local) in
            [(0x00, false, false), (0x01, true, false), (0x02, false, true), (0xFF, true, true)]
        {
            let address = Address([first, 0, 0, 0, 0, 0]);
            assert_eq!(
                (address.is_group(), address.is_local()),
                (is_group, is_local),
                "{first:02x}"
            );
        }
        assert!(Address::BROADCAST.is_group());
    }
}
