//! `candor route image`: what a program image holds.
//!
//! `candor help json route image` describes what `--json` prints.

use std::path::PathBuf;

use candor_diagnostics::counted;
use candor_engine::image::{Extent, Outline};
use candor_engine::program::Job;
use candor_engine::{Bus, BusIndex, Program};
use candor_output::say;
use candor_rules::file::disk::MOST_BYTES;
use clap::Args;

use super::read_bytes;
use crate::Answer;
use crate::json::{line, lines};
use crate::output::{print, table, thousands};

#[derive(Args)]
pub(crate) struct ImageArgs {
    /// The image to read, or - for standard input
    #[arg(value_name = "IMAGE")]
    image: PathBuf,
    /// Print JSON Lines: an object of type "image", then objects of type "section", "bus" and "rule"
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ImageArgs) -> Answer {
    let file = args.image.display().to_string();
    let bytes = read_bytes(&args.image).map_err(|reason| format!("{file}: {reason}"))?;
    if bytes.len() as u64 >= MOST_BYTES {
        return Err(format!(
            "{file}: is longer than {MOST_BYTES} bytes; no image here is that long"
        ));
    }
    let read = Outline::read(&bytes).and_then(|it| Ok((it, Program::from_image(&bytes)?)));
    let (outline, program) = match read {
        Ok(read) => read,
        Err(error) => {
            say!("{file}: error: {error}");
            return Ok(false);
        }
    };
    // A rule has a job for each of its destinations.
    let rules = program.jobs().chunk_by(|one, next| one.rule_index == next.rule_index);
    let rules: Vec<_> = rules.map(|jobs| (&program, jobs)).collect();
    if args.json {
        let (sections, buses) = (lines(&outline.sections)?, lines(program.buses())?);
        print(&(line(&(file.as_str(), &outline))? + &sections + &buses + &lines(&rules)?))?;
        return Ok(true);
    }
    print(&tables(&outline.sections, program.buses(), &rules))?;
    say!(
        "{file}: program image, version {}, CRC-32 {:08x}, {} bytes; {} on {}, max_hops {}",
        outline.version,
        outline.crc32,
        thousands(outline.length as u64),
        counted(rules.len(), "rule"),
        counted(program.buses().len(), "bus"),
        outline.max_hops,
    );
    Ok(true)
}

/// What a bus of a program is called.
pub(crate) fn bus(program: &Program, index: BusIndex) -> &str {
    program.buses().get(usize::from(index.0)).map_or("", |bus| &bus.name)
}

fn tables(sections: &[Extent], buses: &[Bus], rules: &[(&Program, &[Job])]) -> String {
    let yes_no = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let of_sections: Vec<_> = sections
        .iter()
        .map(|it| {
            let (kind, bytes) = (it.section.kind().into(), it.section.record_bytes() as u64);
            let numbers = [kind, it.offset as u64, bytes, it.count.into()].map(thousands);
            [vec![it.section.name().to_owned()], numbers.to_vec()].concat()
        })
        .collect();
    let of_buses: Vec<_> = buses
        .iter()
        .map(|it| vec![it.name.clone(), it.port.clone(), yes_no(it.is_virtual)])
        .collect();
    let of_rules: Vec<_> = rules
        .iter()
        .map(|(program, jobs)| {
            let to: Vec<_> = jobs.iter().map(|it| bus(program, it.to)).collect();
            let Job { rule_index, rule, from, modifies, .. } = &jobs[0];
            let from = bus(program, *from).to_owned();
            vec![rule_index.to_string(), rule.clone(), from, to.join(", "), yes_no(*modifies)]
        })
        .collect();
    format!(
        "{}\n{}\n{}",
        table(&["section", ">kind", ">offset", ">record bytes", ">records"], &of_sections),
        table(&["bus", "port", "virtual"], &of_buses),
        table(&[">rule", "name", "from", "to", "modifies"], &of_rules),
    )
}
