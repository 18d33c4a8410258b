//! Large parts of the program that a running gateway does not need.

/// The plotting library of pages and, with the laboratory, the program of guests. A function, since a constant would be a
/// second copy of them.
pub(crate) fn unused_by_gateways() -> Vec<&'static [u8]> {
    #[cfg_attr(not(feature = "lab"), allow(unused_mut, reason = "there is nothing to add"))]
    let mut parts = vec![candor_plotly::COMPRESSED];
    #[cfg(feature = "lab")]
    parts.push(candor_init::INIT);
    parts
}
