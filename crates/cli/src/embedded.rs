//! Large parts of the program that a running gateway does not need.

/// The program of guests and the script of reports; nothing in a build without the laboratory. A function, since
/// a constant would be a second copy of them.
pub(crate) fn unused_by_gateways() -> Vec<&'static [u8]> {
    #[cfg(feature = "lab")]
    let parts = vec![candor_init::INIT, candor_lab::report::PLOTLY.as_bytes()];
    #[cfg(not(feature = "lab"))]
    let parts = Vec::new();
    parts
}
