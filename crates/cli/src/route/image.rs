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
use crate::output::{Table, print, thousands};

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
    let of_sections = Table::of(sections)
        .column("section", |it| it.section.name().to_owned())
        .column(">kind", |it| thousands(it.section.kind().into()))
        .column(">offset", |it| thousands(it.offset as u64))
        .column(">record bytes", |it| thousands(it.section.record_bytes() as u64))
        .column(">records", |it| thousands(it.count.into()))
        .text();
    let of_buses = Table::of(buses)
        .column("bus", |it| it.name.clone())
        .column("port", |it| it.port.clone())
        .column("virtual", |it| yes_no(it.is_virtual))
        .text();
    let to = |program, jobs: &[Job]| jobs.iter().map(|it| bus(program, it.to)).collect::<Vec<_>>();
    let of_rules = Table::of(rules)
        .column(">rule", |(_, jobs)| jobs[0].rule_index.to_string())
        .column("name", |(_, jobs)| jobs[0].rule.clone())
        .column("from", |(program, jobs)| bus(program, jobs[0].from).to_owned())
        .column("to", |(program, jobs)| to(program, jobs).join(", "))
        .column("modifies", |(_, jobs)| yes_no(jobs[0].modifies))
        .text();
    format!("{of_sections}\n{of_buses}\n{of_rules}")
}
