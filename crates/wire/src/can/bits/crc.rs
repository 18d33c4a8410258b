//! The three cyclic redundancy checks of CAN (ISO 11898-1:2015, 10.4.2.6).
//!
//! | | polynomial | start | used by |
//! |---|---|---|---|
//! | CRC-15 | `0x4599` | 0 | classical frames |
//! | CRC-17 | `0x1685B` | bit 16 set | CAN FD up to 16 bytes |
//! | CRC-21 | `0x102899` | bit 20 set | CAN FD from 20 bytes |

/// A CRC register fed bit by bit.
#[derive(Clone, Copy, Debug)]
pub struct Crc {
    width: u32,
    polynomial: u32,
    register: u32,
}

impl Crc {
    /// CRC-15 of classical frames.
    pub const CLASSICAL: Self = Self { width: 15, polynomial: 0x4599, register: 0 };
    /// CRC-17 of CAN FD frames up to 16 bytes.
    pub const FD_SHORT: Self = Self { width: 17, polynomial: 0x1685B, register: 1 << 16 };
    /// CRC-21 of CAN FD frames from 20 bytes.
    pub const FD_LONG: Self = Self { width: 21, polynomial: 0x10_2899, register: 1 << 20 };

    /// Takes in one bit.
    pub const fn push(&mut self, bit: bool) {
        let next = (self.register >> (self.width - 1) & 1 != 0) != bit;
        self.register = self.register << 1 & ((1 << self.width) - 1);
        if next {
            self.register ^= self.polynomial;
        }
    }

    /// The value so far.
    #[must_use]
    pub const fn value(&self) -> u32 {
        self.register
    }

    /// How many bits the value has.
    #[must_use]
    pub const fn width(&self) -> u32 {
        self.width
    }
}

/// The most bytes that CRC-15 is taken of: SOF to the data of a classical frame has 103 bits.
const CRC15_BYTES: usize = 13;

/// The CRC-15 of each byte with as many bytes of zeros behind it as the first index says.
static CRC15: [[u16; 256]; CRC15_BYTES] = {
    let mut table = [[0; 256]; CRC15_BYTES];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = Crc::CLASSICAL;
        let mut place = 0;
        while place < CRC15_BYTES {
            let mut bit = 8;
            while bit > 0 {
                bit -= 1;
                crc.push(place == 0 && byte >> bit & 1 != 0);
            }
            table[place][byte] = crc.register as u16;
            place += 1;
        }
        byte += 1;
    }
    table
};

/// CRC-15 of the low 104 bits of `bits`. Zeros on the left change nothing since the register starts
/// at zero. A CRC that starts at zero is linear: that of the whole is the sum (exclusive or) of those
/// of its bytes, which so need not wait for each other.
#[inline]
pub(super) fn crc15(bits: u128) -> u16 {
    let bytes = bits.to_le_bytes();
    CRC15.iter().zip(bytes).fold(0, |crc, (of, byte)| crc ^ of[usize::from(byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values_of_the_crc_catalogue() {
        // "123456789", register starting at 0: CRC-15/CAN, CRC-17/CAN-FD, CRC-21/CAN-FD.
        for (crc, check) in [
            (Crc::CLASSICAL, 0x059E),
            (Crc { register: 0, ..Crc::FD_SHORT }, 0x04F03),
            (Crc { register: 0, ..Crc::FD_LONG }, 0x0E_D841),
            // As CAN FD starts: a one in the highest bit (ISO 11898-1:2015, 10.4.2.6). By division of
            // polynomials.
            (Crc::FD_SHORT, 0x09D9B),
            (Crc::FD_LONG, 0x13_23D8),
        ] {
            let mut crc = crc;
            for byte in b"123456789" {
                (0..8).rev().for_each(|bit| crc.push(byte >> bit & 1 != 0));
            }
            assert_eq!(crc.value(), check);
        }
    }

    #[test]
    fn by_bytes_as_by_bits() {
        for count in 1..=104 {
            let bits = 0x0123_4567_89AB_CDEF_FEDC_BA98_7654_3210_u128 & ((1 << count) - 1);
            let mut crc = Crc::CLASSICAL;
            (0..count).rev().for_each(|bit| crc.push(bits >> bit & 1 != 0));
            assert_eq!(u32::from(crc15(bits)), crc.value(), "{count} bits");
        }
    }
}
