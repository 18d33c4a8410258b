//! Large parts of the program that a running gateway does not need.

/// The program of guests and the plotting library of pages.
#[cfg(feature = "lab")]
pub(crate) static UNUSED_BY_GATEWAYS: &[&[u8]] =
    &[candor_init::INIT, candor_plotly::SCRIPT.as_bytes()];
/// None: this build has no laboratory.
#[cfg(not(feature = "lab"))]
pub(crate) static UNUSED_BY_GATEWAYS: &[&[u8]] = &[];
