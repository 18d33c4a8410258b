//! The objects of the laboratory: of `candor lab` and `candor vm`.

pub(crate) mod available;
pub(crate) mod cache;
pub(crate) mod cached;
pub(crate) mod changed;
pub(crate) mod claim;
pub(crate) mod claim_group;
pub(crate) mod claims_verdict;
pub(crate) mod compare_verdict;
pub(crate) mod compared_function;
pub(crate) mod coverage;
pub(crate) mod coverage_total;
pub(crate) mod experiment;
pub(crate) mod figure;
pub(crate) mod kernel;
pub(crate) mod message;
pub(crate) mod note;
pub(crate) mod place;
pub(crate) mod profiled_function;
pub(crate) mod range;
pub(crate) mod removed;
pub(crate) mod result;
pub(crate) mod unpaired;
pub(crate) mod words;

use super::Entry;
use super::derived::derived;

/// Every object of the laboratory.
pub(super) static OBJECTS: &[Entry] = &[
    Entry::new::<claim::JudgedClaim<'_>>(),
    Entry::new::<claim_group::ClaimGroup<'_>>(),
    Entry::new::<claims_verdict::ClaimsVerdict>(),
    Entry::new::<changed::Changed<'_>>(),
    Entry::new::<figure::ComparedFigure<'_>>(),
    Entry::new::<range::ComparedRange<'_>>(),
    Entry::new::<compared_function::ComparedFunction<'_>>(),
    Entry::new::<unpaired::Unpaired<'_>>(),
    Entry::new::<note::Note<'_>>(),
    Entry::new::<compare_verdict::CompareVerdict>(),
    Entry::new::<experiment::ListedExperiment<'_>>(),
    Entry::new::<coverage::Covered<'_>>(),
    Entry::new::<coverage_total::CoveredInAll<'_>>(),
    Entry::new::<message::MessageResult<'_>>(),
    Entry::new::<place::Place<'_>>(),
    Entry::new::<profiled_function::ProfiledFunction<'_>>(),
    Entry::new::<result::ExperimentResult<'_>>(),
    Entry::new::<cache::CacheFolder<'_>>(),
    Entry::new::<removed::RemovedFolder<'_>>(),
    Entry::new::<kernel::FetchedKernel<'_>>(),
    Entry::new::<available::AvailableKernel<'_>>(),
    Entry::new::<cached::CachedKernel<'_>>(),
];

derived! {
    claim::JudgedClaim<'_>,
    claim_group::ClaimGroup<'_>,
    claims_verdict::ClaimsVerdict,
    changed::Changed<'_>,
    figure::ComparedFigure<'_>,
    range::ComparedRange<'_>,
    compared_function::ComparedFunction<'_>,
    unpaired::Unpaired<'_>,
    note::Note<'_>,
    compare_verdict::CompareVerdict,
    experiment::ListedExperiment<'_>,
    coverage::Covered<'_>,
    coverage_total::CoveredInAll<'_>,
    message::MessageResult<'_>,
    place::Place<'_>,
    profiled_function::ProfiledFunction<'_>,
    result::ExperimentResult<'_>,
    cache::CacheFolder<'_>,
    removed::RemovedFolder<'_>,
    kernel::FetchedKernel<'_>,
    available::AvailableKernel<'_>,
    cached::CachedKernel<'_>,
}
