//! Randomness with a seed: streams of numbers, and which bits of a bus are destroyed. It needs no heap and no `std`.
#![no_std]

#[cfg(test)]
extern crate alloc;

mod bit_errors;
mod random;

pub use bit_errors::BitErrors;
pub use random::Random;
