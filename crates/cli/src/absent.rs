//! Commands of the laboratory in a build without it: they say which build has them.

/// A command in place of one that is not there: it takes whatever arguments that one takes.
macro_rules! absent {
    ($command:ident, $type:ident) => {
        pub(crate) mod $command {
            use std::ffi::OsString;

            use clap::Args;

            use crate::Answer;

            #[derive(Args)]
            pub(crate) struct $type {
                #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
                _arguments: Vec<OsString>,
            }

            pub(crate) fn run(_: &$type) -> Answer {
                Err(super::message(stringify!($command)))
            }
        }
    };
}

absent!(demo, Demo);
absent!(lab, LabCommand);
absent!(vm, VmCommand);

fn message(command: &str) -> String {
    format!(
        "this build has no laboratory, and so no `candor {command}`; build it with the feature `lab`, which is on \
         by default: cargo build --release"
    )
}
