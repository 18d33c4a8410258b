//! Real kernels in QEMU: the order that makes a guest perform an experiment, and the result in its report.
//!
//! ```text
//!  CanGateway -- order --> Measurement ... Report -- evaluate  --> ResultFile: frames through a gateway
//!                                                 \- reception --> ResultFile: frames to a program that reads
//! ```

mod evaluate;
mod expect;
mod journey;
mod order;
mod reception;
mod stopped;

use candor_protocol::Report;
use candor_protocol::order::{Gateway, Measurement};
use candor_vm::Identity;

use super::settings::CanGateway;
use crate::error::Error;
use crate::experiment::{Experiment, InGuest, Run, Vm};
use crate::result::ResultFile;

impl InGuest for CanGateway {
    fn order(&self, experiment: &Experiment, vm: &Vm) -> Result<Measurement, Error> {
        self::order::order(experiment, self, vm)
    }

    fn evaluate(
        &self,
        run: Run<'_>,
        (vm, machine): (&Vm, Identity),
        report: &Report,
    ) -> Result<ResultFile, Error> {
        let bed = (self, vm, machine);
        match vm.gateway {
            Gateway::Reader => reception::evaluate(run, bed, report),
            _ => evaluate::evaluate(run, bed, report),
        }
    }
}
