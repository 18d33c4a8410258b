//! A decoded signal, which is a part of several objects.

use candor_signals::Decoded;
use schemars::JsonSchema;
use serde::Serialize;

/// A signal and its value.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Signal<T> {
    /// Its name in the DBC file
    pub(crate) name: T,
    /// The physical value; null if it is infinite or no number
    #[schemars(with = "Option<f64>")]
    pub(crate) value: f64,
    /// The unit in the DBC file; empty if there is none
    pub(crate) unit: T,
    /// The name that the DBC file gives to the value; null if it gives none
    pub(crate) text: Option<T>,
}

impl<'a, T: From<&'a str>> Signal<T> {
    pub(crate) fn new(decoded: &Decoded<'a>) -> Self {
        Self {
            name: decoded.signal.name.as_str().into(),
            value: decoded.physical,
            unit: decoded.signal.unit.as_str().into(),
            text: decoded.value_name().map(T::from),
        }
    }
}
