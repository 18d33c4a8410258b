//! [`Bits`]: a column of yes and no, and which values of a column are there.

use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};

use crate::rows::{AddError, make_room};

/// Bits, the first one the lowest of its byte.
#[derive(Debug, Default)]
pub(crate) struct Bits {
    bytes: Vec<u8>,
    len: usize,
}

impl Bits {
    #[inline]
    pub(crate) fn push(&mut self, bit: bool) -> Result<(), AddError> {
        if self.len.is_multiple_of(8) {
            make_room(&mut self.bytes, 1)?;
            self.bytes.push(0);
        }
        if let Some(last) = self.bytes.last_mut() {
            *last |= u8::from(bit) << (self.len % 8);
        }
        self.len += 1;
        Ok(())
    }

    pub(crate) fn finish(self) -> BooleanBuffer {
        BooleanBuffer::new(Buffer::from_vec(self.bytes), 0, self.len)
    }
}

/// Which values of a column are there; nothing is kept as long as all are.
#[derive(Debug, Default)]
pub(crate) struct There {
    len: usize,
    bits: Option<Bits>,
}

impl There {
    #[inline]
    pub(crate) fn push(&mut self, is_there: bool) -> Result<(), AddError> {
        if let Some(bits) = &mut self.bits {
            bits.push(is_there)?;
        } else if !is_there {
            self.begin()?;
        }
        self.len += 1;
        Ok(())
    }

    /// The first that is missing.
    #[cold]
    fn begin(&mut self) -> Result<(), AddError> {
        let bits = self.bits.insert(Bits::default());
        for _ in 0..self.len {
            bits.push(true)?;
        }
        bits.push(false)
    }

    pub(crate) fn finish(self) -> Option<NullBuffer> {
        self.bits.map(|bits| NullBuffer::new(bits.finish()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bits_are_those_that_were_pushed(expected in proptest::collection::vec(any::<bool>(), 0..70)) {
            let (mut bits, mut there) = (Bits::default(), There::default());
            for &bit in &expected {
                bits.push(bit).unwrap();
                there.push(bit).unwrap();
            }
            prop_assert_eq!(bits.finish().iter().collect::<Vec<_>>(), &expected[..]);
            match there.finish() {
                Some(nulls) => prop_assert_eq!(nulls.iter().collect::<Vec<_>>(), expected),
                None => prop_assert!(expected.iter().all(|&bit| bit)),
            }
        }
    }
}
