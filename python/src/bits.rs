//! `candor.frame_bits`, `candor.bus_load`: what frames take of a bus.

use candor_recording::Statistics;
use candor_wire::can::bits::{length, worst_length};
use candor_wire::can::{Bitrate, Timing};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::frame::Frame;
use crate::input::{Names, Next, Reader, Source};

/// How many bits a frame has on the wire, from its start to the third bit of intermission, stuff bits and check sequence included.
///
/// Of a CAN FD frame with BRS, those at the nominal and those at the data bit rate together. With `worst`, the most that any frame of its kind
/// and length has (Davis and others 2007).
#[pyfunction]
#[pyo3(signature = (frame, *, worst=false))]
pub(crate) fn frame_bits(frame: &Frame, worst: bool) -> PyResult<u32> {
    let length = if worst { worst_length(frame.get()) } else { length(frame.get()) };
    Ok(length.map_err(|error| PyValueError::new_err(error.to_string()))?.total())
}

/// How busy each bus of recordings was at a bit rate in bit/s, by exact bits: a dictionary by bus of `frames`, `rate` (frames/s), `load` (percent),
/// and `peak_10ms`, `peak_100ms`, `peak_1s`, the highest load within such a time (percent). What is not known, such as the rate of one
/// frame, is `None`. A load, or a highest one within 1 s, of more than 100 % means that the bit rate is not that of the bus. Within less time, stamps that
/// are later than their frames or coarse make as much.
#[pyfunction]
#[pyo3(signature = (paths, bitrate, data_bitrate=None, *, bus=None, skip_malformed=false))]
pub(crate) fn bus_load<'py>(
    py: Python<'py>,
    paths: Source,
    bitrate: u32,
    data_bitrate: Option<u32>,
    bus: Option<Names>,
    skip_malformed: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let rate = |rate: u32| {
        let text = format!("{rate} bit/s is no bit rate of CAN");
        Bitrate::new(rate).ok_or_else(|| PyValueError::new_err(text))
    };
    let timing = Timing { nominal: rate(bitrate)?, data: rate(data_bitrate.unwrap_or(bitrate))? };
    let mut reader = Reader::new(paths, bus, skip_malformed)?;
    let mut statistics = Statistics::with_timing(Some(timing));
    let mut names = candor_recording::Interfaces::default();
    reader.read(py, |record, interfaces| {
        let name = interfaces.name(record.interface).as_bytes();
        let interface =
            names.intern(name).map_err(|error| PyValueError::new_err(error.to_string()))?;
        statistics.add(&candor_recording::Record { interface, ..*record });
        Ok(Next::Now)
    })?;
    let buses = PyDict::new(py);
    for (index, bus) in statistics.buses() {
        let entry = PyDict::new(py);
        entry.set_item("frames", bus.frames)?;
        entry.set_item("rate", bus.rate())?;
        entry.set_item("load", bus.load_percent(timing))?;
        for (name, peak) in
            ["peak_10ms", "peak_100ms", "peak_1s"].into_iter().zip(bus.peaks_percent())
        {
            entry.set_item(name, peak)?;
        }
        buses.set_item(names.name(index), entry)?;
    }
    Ok(buses)
}
