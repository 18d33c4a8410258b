//! `candor lab claims`: claims and what became of them, as tables and as JSON.
//!
//! `candor help json lab claims` describes what `--json` prints.

use std::path::Path;

use candor_diagnostics::{by_count, counted, part_of};
use candor_lab::claims::{Agreement, Basis, Claim, EACH, Verdict};
use candor_lab::experiment::Testbed;
use candor_lab::glob;
use candor_lab::group::Range;
use candor_lab::report::JudgedClaim;
use candor_lab::result::ResultFile;
use candor_lab::results;
use candor_lab::run::Outcome;
use candor_lab::runner::Ran;
use candor_lab::{Campaign, Experiment};
use candor_output::say;
use clap::Args;

use super::overview::about_maxima;
use super::ranges::number_range;
use super::run::{Run, Running, execute, finish, run_and_show};
use super::selection::{Selection, load};
use crate::Answer;
use crate::json;
use crate::output::{distinct, print, table, thousands};

#[derive(Args)]
pub(crate) struct Claims {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    running: Running,
    /// Run nothing: check the claims against the results in the folder, such as those of shards
    #[arg(long, conflicts_with_all = ["set", "seed", "testbed", "mips"])]
    no_run: bool,
    /// Select claims by id; * stands for any characters, ? for one character; may be repeated
    #[arg(long, value_name = "GLOB")]
    claim: Vec<String>,
    /// Print a table in Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print JSON Lines: an object of type "claim" per claim, then one of type "claim_group" per id, then
    /// one of type "verdict"
    #[arg(long)]
    json: bool,
}

pub(super) fn claims(arguments: &Claims) -> Answer {
    if arguments.selection.is_part() {
        return Err("--shard runs a part, and claims are about all of it; run the parts with `candor lab run --shard`, copy their \
                    results into one folder, and hold the claims against it with --no-run"
            .into());
    }
    let mut campaign = load(&arguments.selection)?;
    let is_of_others = if arguments.selection.has_kernels() {
        ", or none is about these kernels alone"
    } else {
        ""
    };
    let file = arguments.selection.file.display();
    if campaign.claims.is_empty() {
        return Err(format!("{file} has no claims{is_of_others}; add them under [[claim]]"));
    }
    let is_idle = |glob: &&String| !campaign.claims.iter().any(|it| glob::matches(glob, &it.id));
    if let Some(glob) = arguments.claim.iter().find(is_idle) {
        return Err(format!("{file}: no claim has an id that matches `{glob}`{is_of_others}"));
    }
    campaign.claims.retain(|claim| glob::is_meant(&arguments.claim, &claim.id));
    if !arguments.selection.only.is_empty() {
        // Claims about experiments that were not selected have nothing to say here.
        campaign.claims.retain(|claim| claim.is_within(&campaign.experiments));
        if campaign.claims.is_empty() {
            return Err(format!(
                "{file}: no claim is about the selected experiments alone; select more with --only"
            ));
        }
    }
    let beside = beside(&campaign);
    let of_alternatives = beside.iter().flat_map(|(_, claims)| claims);
    let chosen: Vec<_> = campaign.claims.iter().chain(of_alternatives).collect();
    campaign.experiments.retain(|experiment| chosen.iter().any(|claim| claim.is_about(experiment)));
    let outcome = match arguments.no_run {
        true => {
            arguments.running.overwriting.folder(&arguments.running.out)?;
            found(&arguments.running.out)?
        }
        false => execute(&arguments.selection, &arguments.running, &campaign)?,
    };
    let results = outcome.results();
    let judged = judge(&campaign.claims, None, &results);
    let beside = judge_each(&beside, &results);
    match arguments.json {
        true => print(&lines(&judged, &beside)?)?,
        false => print(&text(&judged, &beside, &results, arguments.markdown))?,
    }
    tell(&judged, &results);
    let wanted = if arguments.no_run { results.len() } else { campaign.experiments.len() };
    let shown = (&*campaign.figures, &*of_page(&judged, &beside));
    let is_same = finish(&arguments.running.out, &outcome, shown, wanted, !arguments.no_run);
    let is_whole = !arguments.no_run || has_results_of(&campaign, &results);
    let answer = is_same.map(|is_same| is_same && is_whole && agrees(&judged));
    if arguments.json {
        print(&json::line(&(Counts::of_all(judged.iter()), &answer))?)?;
    }
    answer
}

/// Runs a campaign, shows what was measured, and then what became of its claims, if it has some.
pub(crate) fn run_with_claims(arguments: &Run) -> Answer {
    let mut campaign = load(&arguments.selection)?;
    let outcome = run_and_show(arguments, &campaign)?;
    let results = outcome.results();
    // Claims about experiments that were not selected have nothing to say here.
    campaign.claims.retain(|claim| claim.is_within(&campaign.experiments));
    let judged = judge(&campaign.claims, None, &results);
    let beside = beside(&campaign);
    let beside = judge_each(&beside, &results);
    if !judged.is_empty() && !results.is_empty() {
        match arguments.json {
            true => print(&lines(&judged, &beside)?)?,
            false => print(&format!("\n{}", text(&judged, &beside, &results, false)))?,
        }
        tell(&judged, &results);
    }
    let wanted = campaign.experiments.len();
    let shown = (&*campaign.figures, &*of_page(&judged, &beside));
    let is_same = finish(&arguments.running.out, &outcome, shown, wanted, true);
    is_same.map(|is_same| is_same && agrees(&judged))
}

/// The claims about the experiments of each alternative, with its name: they are shown and not counted.
fn beside(campaign: &Campaign) -> Vec<(String, Vec<Claim>)> {
    let claims = |prefix: &str| campaign.claims.iter().map(|it| it.about(prefix)).collect();
    campaign.alternatives.iter().map(|it| (it.name.clone(), claims(&it.prefix()))).collect()
}

fn judge<'a>(
    claims: &'a [Claim],
    alternative: Option<&'a str>,
    results: &[ResultFile],
) -> Vec<Judged<'a>> {
    claims.iter().map(|claim| Judged::new(claim, alternative, results)).collect()
}

fn judge_each<'a>(beside: &'a [(String, Vec<Claim>)], results: &[ResultFile]) -> Vec<Beside<'a>> {
    beside.iter().map(|(name, claims)| (&**name, judge(claims, Some(name), results))).collect()
}

/// The claims as the report shows them, those about alternatives behind the others.
fn of_page(judged: &[Judged<'_>], beside: &[Beside<'_>]) -> Vec<JudgedClaim> {
    let beside = beside.iter().flat_map(|(_, judged)| judged);
    judged.iter().chain(beside).map(Judged::of_page).collect()
}

/// The claims about an alternative, with its name.
type Beside<'a> = (&'a str, Vec<Judged<'a>>);

/// Whether all claims agree.
fn agrees(judged: &[Judged<'_>]) -> bool {
    judged.iter().all(|judged| judged.verdict.agrees())
}

/// The results in a folder, as if they had just been made.
fn found(out: &Path) -> Result<Outcome, String> {
    let results = results::read(out).map_err(|error| error.to_string())?;
    let finished = results.into_iter().map(|result| Ran { result, is_cached: true }).collect();
    Ok(Outcome { finished, ..Outcome::default() })
}

/// Whether all experiments that the claims are about have a result: with fewer seeds a claim may hold that does not.
/// Says which have none, and which were made with other settings.
fn has_results_of(campaign: &Campaign, results: &[ResultFile]) -> bool {
    let experiments = &campaign.experiments;
    let result_of = |name: &str| results.iter().find(|result| result.experiment == name);
    let names = |is_wanted: &dyn Fn(&Experiment) -> bool| -> Vec<_> {
        let wanted = experiments.iter().filter(|experiment| is_wanted(experiment));
        wanted.map(|experiment| &*experiment.name).collect()
    };
    let absent = names(&|it| result_of(&it.name).is_none());
    let others = names(&|it| result_of(&it.name).is_some_and(|result| result.config != it.config));
    let tell = |names: &[&str], what: &str| {
        let Some(first) = names.first() else { return };
        let part = part_of(names.len(), experiments.len(), "experiment", ("has", "have"));
        let more = match names.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        say!("{part} {what}: {first}{more}");
    };
    tell(&absent, "no result in the folder");
    tell(&others, "a result that was made with other settings");
    absent.is_empty()
}

/// What the found values are.
fn value_head(results: &[ResultFile]) -> &'static str {
    let is_all = |testbed: Testbed| results.iter().all(|result| result.testbed == testbed.name());
    if is_all(Testbed::Sim) {
        "model"
    } else if is_all(Testbed::Vm) {
        "vm"
    } else {
        "found"
    }
}

/// Reasons for missing values that are told at most.
const MOST_REASONS: usize = 10;
/// Decimals at most.
const MOST_DIGITS: usize = 6;

/// A claim and what became of it.
pub(crate) struct Judged<'a> {
    pub(crate) claim: &'a Claim,
    /// Of which alternative it is.
    pub(crate) alternative: Option<&'a str>,
    /// What it says, with the number of frames.
    pub(crate) says: String,
    pub(crate) verdict: Verdict,
}

impl<'a> Judged<'a> {
    fn new(claim: &'a Claim, alternative: Option<&'a str>, results: &[ResultFile]) -> Self {
        let sent = claim.sent(results).map_or("?".into(), thousands);
        let says = claim.spoken(results).replace("{sent}", &sent);
        Self { claim, alternative, says, verdict: claim.judge(results) }
    }

    /// What it says of the one that it is about.
    pub(crate) fn said(&self) -> String {
        self.says.replace(EACH, self.claim.each.as_deref().unwrap_or(EACH))
    }

    /// The claim as the report shows it.
    fn of_page(&self) -> JudgedClaim {
        JudgedClaim {
            id: self.claim.id.clone(),
            says: self.said(),
            published: self.claim.published.clone(),
            found: self.shown(),
            bounds: self.claim.bounds(),
            agreement: self.verdict.agreement.word().into(),
            alternative: self.alternative.map(str::to_owned),
            note: self.claim.note.clone(),
        }
    }

    /// The values found, with as many digits as show on which side of a bound they are.
    fn shown(&self) -> String {
        self.verdict.found.map_or("-".into(), |found| self.shown_as(found))
    }

    fn shown_as(&self, Range { least, most, .. }: Range) -> String {
        let misleads = |digits: usize, value: f64| {
            let rounded = format!("{value:.digits$}").parse().unwrap_or(value);
            self.claim.holds(rounded) != self.claim.holds(value)
        };
        let usual = if most.abs() < 10.0 { 2 } else { 1 };
        let digits = (usual..MOST_DIGITS)
            .find(|&digits| !misleads(digits, least) && !misleads(digits, most));
        number_range(least, most, digits.unwrap_or(MOST_DIGITS))
    }

    /// The same with the verdict, unless it is a plain yes.
    fn cell(&self) -> String {
        match self.verdict.agreement {
            Agreement::Yes => self.shown(),
            missing @ Agreement::Missing => missing.word().into(),
            other => format!("{} {}", self.shown(), other.word()),
        }
    }
}

/// The claims as JSON Lines, and how many of each group hold.
fn lines(judged: &[Judged<'_>], beside: &[Beside<'_>]) -> Result<String, String> {
    let beside = beside.iter().flat_map(|(_, judged)| judged);
    Ok(json::lines(judged.iter().chain(beside))? + &json::lines(by_group(judged))?)
}

/// The claims as a table, and how many of each group hold as another.
fn text(
    judged: &[Judged<'_>],
    beside: &[Beside<'_>],
    results: &[ResultFile],
    is_markdown: bool,
) -> String {
    let (head, rows) = verdicts(judged, beside, value_head(results));
    let (group_head, group_rows) = group_table(judged);
    let of_maxima = || judged.iter().map(|it| it.claim).filter(|claim| claim.is_about_maxima());
    let is_of_one = |result: &&ResultFile| of_maxima().any(|claim| claim.is_about_result(result));
    let maxima = about_maxima(results.iter().filter(is_of_one)).unwrap_or_default();
    if is_markdown {
        let maxima = if maxima.is_empty() { maxima } else { format!("\n{maxima}") };
        return format!(
            "{}{maxima}\n{}",
            markdown(&head, &rows),
            markdown(&group_head, &group_rows)
        );
    }
    // Notes are for files: on a terminal they would break the lines.
    let cut = |row: &Vec<String>| row[..row.len() - 1].to_vec();
    let head = aligned(cut(&head));
    let rows: Vec<_> = rows.iter().map(cut).collect();
    format!("{}{maxima}\n{}", table(&head, &rows), table(&aligned(group_head), &group_rows))
}

/// On standard error: how many hold, and why there is no value of others.
fn tell(judged: &[Judged<'_>], results: &[ResultFile]) {
    let counts = Counts::of_all(judged.iter());
    let yes = counts.count(Agreement::Yes);
    let bases = by_basis(judged);
    let of_bases = bases.iter().map(|(basis, counts)| {
        let yes = counts.count(Agreement::Yes);
        format!("{yes} of {} {}", counts.total(), basis.words())
    });
    let of_bases = match bases.len() {
        1 => String::new(),
        _ => format!(": {}", of_bases.collect::<Vec<_>>().join(", ")),
    };
    say!("{}{of_bases}", part_of(yes, judged.len(), "claim", ("agrees", "agree")));
    match counts.count(Agreement::Depends) {
        0 => {}
        some => say!("{some} {} on the seed", by_count(some, "depends", "depend")),
    }
    match counts.count(Agreement::TooFewSeeds) {
        0 => {}
        some => say!(
            "{some} {} from run to run and {} too few seeds; set `seeds` to 3 or more",
            by_count(some, "varies", "vary"),
            by_count(some, "has", "have")
        ),
    }
    let is_missing = |judged: &&Judged<'_>| judged.verdict.agreement == Agreement::Missing;
    let mut reasons: Vec<_> = judged
        .iter()
        .filter(is_missing)
        .filter_map(|it| Some(format!("{}: {}", it.claim.id, it.claim.why_missing(results)?)))
        .collect();
    reasons.dedup();
    for reason in reasons.iter().take(MOST_REASONS) {
        say!("{reason}");
    }
    match reasons.len().saturating_sub(MOST_REASONS) {
        0 => {}
        more => say!("{} in all have no value", counted(more + MOST_REASONS, "claim")),
    }
}

fn markdown(head: &[String], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<_> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let rule = vec!["---".to_owned(); head.len()];
    let rows: String = rows.iter().map(|row| line(row)).collect();
    format!("{}{}{rows}", line(head), line(&rule))
}

/// Columns of numbers are aligned to the right.
fn aligned(head: Vec<String>) -> Vec<String> {
    const TEXT: [&str; 5] = ["id", "claim", "published", "agreement is", "agrees"];
    let align = |name: String| if TEXT.contains(&&*name) { name } else { format!(">{name}") };
    head.into_iter().map(align).collect()
}

/// How many claims are of each agreement.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts([usize; Agreement::ALL.len()]);

impl Counts {
    fn of_all<'a>(judged: impl Iterator<Item = &'a Judged<'a>>) -> Self {
        let mut counts = Self::default();
        for judged in judged {
            counts.0[Self::place(judged.verdict.agreement)] += 1;
        }
        counts
    }

    fn place(agreement: Agreement) -> usize {
        Agreement::ALL.iter().position(|&other| other == agreement).unwrap_or(0)
    }

    pub(crate) fn count(&self, agreement: Agreement) -> usize {
        self.0[Self::place(agreement)]
    }

    pub(crate) fn total(&self) -> usize {
        self.0.iter().sum()
    }
}

/// The counts of each id, in the order in which the ids come first.
fn by_group<'a>(judged: &'a [Judged<'_>]) -> Vec<(&'a str, Counts)> {
    let ids = distinct(judged.iter().map(|it| it.claim.id.as_str()));
    let counts = |id| Counts::of_all(judged.iter().filter(|it| it.claim.id == id));
    ids.into_iter().map(|id| (id, counts(id))).collect()
}

/// The counts of claims of each basis that there is.
fn by_basis(judged: &[Judged<'_>]) -> Vec<(Basis, Counts)> {
    let counts = |basis| Counts::of_all(judged.iter().filter(|it| it.claim.basis() == basis));
    let all = Basis::ALL.into_iter().map(|basis| (basis, counts(basis)));
    all.filter(|(_, counts)| counts.total() > 0).collect()
}

fn group_table(judged: &[Judged<'_>]) -> (Vec<String>, Vec<Vec<String>>) {
    let groups = by_group(judged);
    let all = Counts::of_all(judged.iter());
    // What nothing is of needs no column.
    let is_there =
        |agreement: &Agreement| *agreement == Agreement::Yes || all.count(*agreement) > 0;
    let columns: Vec<_> = Agreement::ALL.into_iter().filter(is_there).collect();
    let mut head = vec!["id".to_owned(), "claims".to_owned()];
    head.extend(columns.iter().map(|agreement| agreement.word().to_owned()));
    let row = |(id, counts): &(&str, Counts)| {
        let numbers = columns.iter().map(|&agreement| counts.count(agreement).to_string());
        let start = [(*id).to_owned(), counts.total().to_string()];
        start.into_iter().chain(numbers).collect::<Vec<_>>()
    };
    let mut rows: Vec<_> = groups.iter().map(row).collect();
    let bases = by_basis(judged);
    if bases.len() > 1 {
        rows.extend(bases.iter().map(|(basis, counts)| row(&(basis.words(), *counts))));
    }
    rows.push(row(&("all", all)));
    (head, rows)
}

/// The head of a table of claims, with the alternatives and the notes behind.
fn head_of(start: Vec<&str>, beside: &[Beside<'_>]) -> Vec<String> {
    let all = start.into_iter().chain(beside.iter().map(|(name, _)| *name)).chain(["note"]);
    all.map(str::to_owned).collect()
}

/// Head and rows of a table. Claims that are made of each of several things share a row: a column per
/// thing, and a value that does not agree says so.
fn verdicts(
    judged: &[Judged<'_>],
    beside: &[Beside<'_>],
    value_head: &str,
) -> (Vec<String>, Vec<Vec<String>>) {
    let things = distinct(judged.iter().filter_map(|it| it.claim.each.as_deref()));
    if things.is_empty() {
        return verdicts_alone(judged, beside, value_head);
    }
    // One that is made of nothing in particular has a column of its own.
    let is_alone = judged.iter().any(|it| it.claim.each.is_none());
    let alone = is_alone.then_some(value_head).into_iter().collect::<Vec<_>>();
    let start = ["id", "claim", "published", "agreement is"];
    let head = head_of([&start, &alone[..], &things].concat(), beside);
    // Claims that share a row stand side by side.
    let share = |a: &Judged<'_>, b: &Judged<'_>| {
        let of = |it: &Judged<'_>| (it.claim.id.clone(), it.claim.says.clone(), it.claim.bounds());
        // What says nothing of its own is told by its experiment, which another does not share.
        let is_said = !a.claim.says.is_empty();
        is_said && a.claim.each.is_some() && b.claim.each.is_some() && of(a) == of(b)
    };
    let mut rows = Vec::new();
    let mut begin = 0;
    for row in judged.chunk_by(share) {
        let Some(first) = row.first() else { continue };
        let mut cells = vec![String::new(); alone.len() + things.len()];
        for judged in row {
            let each = judged.claim.each.as_deref();
            let column = each.and_then(|each| things.iter().position(|thing| *thing == each));
            if let Some(place) = cells.get_mut(column.map_or(0, |at| alone.len() + at)) {
                *place = judged.cell();
            }
        }
        let of_row = begin..begin + row.len();
        begin = of_row.end;
        let beside = beside.iter().map(|(_, all)| cell_of_all(all.get(of_row.clone())));
        let claim = first.claim;
        // The head of the column says which.
        let says = first.says.replace(EACH, "...");
        let start = [&claim.id, &says, &claim.published, &claim.bounds()].map(String::clone);
        rows.push(
            start.into_iter().chain(cells).chain(beside).chain([claim.note.clone()]).collect(),
        );
    }
    (head, rows)
}

/// The same for claims that are made of nothing in particular.
fn verdicts_alone(
    judged: &[Judged<'_>],
    beside: &[Beside<'_>],
    value_head: &str,
) -> (Vec<String>, Vec<Vec<String>>) {
    let row = |(number, judged): (usize, &Judged<'_>)| {
        let claim = judged.claim;
        let start = vec![
            claim.id.clone(),
            judged.says.clone(),
            claim.published.clone(),
            judged.shown(),
            claim.bounds(),
            judged.verdict.agreement.word().into(),
        ];
        let beside = beside.iter().map(|(_, all)| cell_of_all(all.get(number..=number)));
        start.into_iter().chain(beside).chain([claim.note.clone()]).collect()
    };
    let start = vec!["id", "claim", "published", value_head, "agreement is", "agrees"];
    let head = head_of(start, beside);
    (head, judged.iter().enumerate().map(row).collect())
}

/// The values of several claims in one cell, and how many of them agree.
fn cell_of_all(judged: Option<&[Judged<'_>]>) -> String {
    let judged = judged.unwrap_or_default();
    let found = || judged.iter().filter_map(|it| it.verdict.found);
    let values = found().flat_map(|it| [it.least, it.most]);
    match (judged, Range::from_values(values)) {
        (_, None) => String::new(),
        ([only], _) => only.cell(),
        ([first, ..], Some(all)) => {
            let yes = judged.iter().filter(|it| it.verdict.agrees()).count();
            format!("{} ({yes} of {})", first.shown_as(all), found().count())
        }
        ([], _) => String::new(),
    }
}
