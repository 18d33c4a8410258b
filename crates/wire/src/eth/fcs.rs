//! The frame check sequence.

/// The polynomial of CRC-32, least significant bit first (IEEE 802.3, clause 3.2.9).
const POLYNOMIAL: u32 = 0xEDB8_8320;

static TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
}

/// The frame check sequence of a frame, padding included. On the wire its bytes are little-endian.
#[must_use]
pub fn fcs(frame: &[u8]) -> u32 {
    let next = |crc: u32, byte: &u8| crc >> 8 ^ TABLE[usize::from(crc as u8 ^ byte)];
    !frame.iter().fold(u32::MAX, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_that_of_the_catalogue() {
        // CRC-32/ISO-HDLC: the check value is the CRC of these digits.
        assert_eq!(fcs(b"123456789"), 0xCBF4_3926);
        assert_eq!(fcs(b""), 0);
    }

    /// A receiver takes the sequence along and finds the same value whatever the frame is.
    #[test]
    fn a_frame_with_its_sequence_has_a_constant_remainder() {
        for len in 0..64 {
            let mut frame = [0xA5; 68];
            frame[0] = len as u8;
            let sequence = fcs(&frame[..len]).to_le_bytes();
            frame[len..len + 4].copy_from_slice(&sequence);
            assert_eq!(fcs(&frame[..len + 4]), 0x2144_DF1C, "{len}");
        }
    }
}
