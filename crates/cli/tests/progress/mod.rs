//! Progress lines of `candor lab` and `candor demo` on standard error.

/// What a command says besides its progress. On a slow machine a command that needs more than ten
/// seconds says that it is alive: `[1/3] running flood for 4 s`.
pub(crate) fn without_progress(stderr: &str) -> String {
    let is_progress = |line: &&str| {
        let Some((count, text)) = line.strip_prefix('[').and_then(|rest| rest.split_once("] "))
        else {
            return false;
        };
        let is_count = count.split('/').all(|number| number.parse::<usize>().is_ok());
        is_count && text.starts_with("running ")
    };
    stderr.split_inclusive('\n').filter(|line| !is_progress(line)).collect()
}

#[test]
fn only_progress_is_left_out() {
    let stderr = "[0/2] running calm for 11 s\n[1/2] calm: 9 sent\nreport: [1/2] running\n";
    assert_eq!(without_progress(stderr), "[1/2] calm: 9 sent\nreport: [1/2] running\n");
}
