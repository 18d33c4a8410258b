//! `candor route image`: what a program image holds.
//!
//! `candor help json route image` describes what `--json` prints.

use std::path::PathBuf;

use candor_diagnostics::counted;
use candor_engine::image::Outline;
use candor_engine::program::Job;
use candor_engine::{BusIndex, Program};
use candor_output::say;
use candor_rules::file::disk::MOST_BYTES;
use clap::Args;

use super::read_bytes;
use crate::Answer;
use crate::json::image::Image;
use crate::json::image_bus::ImageBus;
use crate::json::image_rule::ImageRule;
use crate::json::image_section::ImageSection;
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
    let sections: Vec<_> = outline.sections.iter().map(ImageSection::new).collect();
    let buses: Vec<_> = program.buses().iter().map(ImageBus::new).collect();
    let rules = rules_of(&program);
    let image = Image {
        file: &file,
        version: outline.version,
        crc32: format!("{:08x}", outline.crc32),
        bytes: outline.length as u64,
        max_hops: outline.max_hops,
    };
    if args.json {
        let all = [lines(&sections)?, lines(&buses)?, lines(&rules)?].concat();
        print(&format!("{}{all}", line(&image)?))?;
        return Ok(true);
    }
    print(&tables(&sections, &buses, &rules))?;
    say!(
        "{file}: program image, version {}, CRC-32 {}, {} bytes; {} on {}, max_hops {}",
        image.version,
        image.crc32,
        thousands(image.bytes),
        counted(rules.len(), "rule"),
        counted(buses.len(), "bus"),
        image.max_hops,
    );
    Ok(true)
}

/// The rules of a program, each with its destinations.
fn rules_of(program: &Program) -> Vec<ImageRule<'_>> {
    let bus = |index: BusIndex| program.buses().get(usize::from(index.0));
    let mut rules: Vec<ImageRule<'_>> = Vec::new();
    for job in program.jobs() {
        let Job { rule, rule_index, from, to, modifies } = job;
        let to = bus(*to).map_or("", |bus| &bus.name);
        match rules.last_mut().filter(|last| last.rule == *rule_index) {
            Some(rule) => rule.to.push(to),
            None => rules.push(ImageRule {
                rule: *rule_index,
                name: rule,
                from: bus(*from).map_or("", |bus| &bus.name),
                to: vec![to],
                modifies: *modifies,
            }),
        }
    }
    rules
}

fn tables(sections: &[ImageSection], buses: &[ImageBus<'_>], rules: &[ImageRule<'_>]) -> String {
    let number = |number: u64| thousands(number);
    let of_sections: Vec<_> = sections
        .iter()
        .map(|it| {
            let numbers = [it.kind.into(), it.offset, it.record_bytes, it.records.into()];
            [vec![it.section.to_owned()], numbers.map(number).to_vec()].concat()
        })
        .collect();
    let of_buses: Vec<_> = buses
        .iter()
        .map(|it| {
            let is_virtual = if it.is_virtual { "yes" } else { "no" };
            vec![it.bus.to_owned(), it.port.to_owned(), is_virtual.to_owned()]
        })
        .collect();
    let of_rules: Vec<_> = rules
        .iter()
        .map(|it| {
            let edits = if it.modifies { "yes" } else { "no" };
            let words = [it.name, it.from, &it.to.join(", "), edits];
            [vec![it.rule.to_string()], words.map(str::to_owned).to_vec()].concat()
        })
        .collect();
    format!(
        "{}\n{}\n{}",
        table(&["section", ">kind", ">offset", ">record bytes", ">records"], &of_sections),
        table(&["bus", "port", "virtual"], &of_buses),
        table(&[">rule", "name", "from", "to", "modifies"], &of_rules),
    )
}
