use toml::de::DeTable;

use crate::{Data, Entry, Table, Value, parse};
use candor_diagnostics::{Findings, Origin, Source};

/// Reads an assignment from the command line, `traffic.kind=flood`, into a table to be laid over
/// another with [`Table::merge`].
///
/// The key is a TOML key, dots and quotes included. The value is TOML if it can be read as such,
/// otherwise it is text: `count=100`, `load=[0, 50]`, `traffic.log=a.log`, `bitrate=500k`.
///
/// `option` is what the argument belongs to, for messages: `--set`.
///
/// # Errors
/// What is wrong with it, in one sentence.
pub fn setting(option: &str, text: &str) -> Result<Table, String> {
    let fail = |reason: &str| Err(format!("{option} {text}: {reason}"));
    let Some((key, value)) = text.split_once('=') else {
        return fail("expected key=value, such as traffic.kind=flood");
    };
    let source = Source::argument(format!("{option} {text}"));
    let origin = Origin::whole(&source);
    let Some(path) = path(key) else {
        return fail("the key must be a name, or names joined by dots, such as traffic.kind");
    };
    let path: Vec<_> = path.iter().map(String::as_str).collect();
    let value = toml_value(value.trim(), &origin)
        .unwrap_or_else(|| Value { origin: origin.clone(), data: Data::String(value.into()) });
    let mut table = Table::new(origin);
    table.set_path(&path, value);
    Ok(table)
}

/// The names of a dotted key.
fn path(key: &str) -> Option<Vec<String>> {
    if key.contains(['\n', '#', '=']) {
        return None;
    }
    let findings = Findings::new();
    let mut table = parse(&Source::new("key", format!("{key} = 0")), &findings)?;
    let mut path = Vec::new();
    loop {
        let [entry] = table.entries() else { return None };
        path.push(entry.key.clone());
        match &entry.value.data {
            Data::Table(inner) => table = inner.clone(),
            Data::Integer(0) if findings.is_empty() => return Some(path),
            _ => return None,
        }
    }
}

/// The value that `text` is in TOML, placed at `origin`.
fn toml_value(text: &str, origin: &Origin) -> Option<Value> {
    let document = format!("value = {text}");
    // A second line could hold more keys; text that spans lines is just text.
    if text.contains('\n') || DeTable::parse(&document).is_err() {
        return None;
    }
    let findings = Findings::new();
    let mut table = parse(&Source::new("value", document), &findings)?;
    let value = table.remove("value")?;
    findings.is_empty().then(|| placed(value, origin))
}

/// `value` with `origin` throughout.
fn placed(value: Value, origin: &Origin) -> Value {
    let data = match value.data {
        Data::Array(values) => {
            Data::Array(values.into_iter().map(|value| placed(value, origin)).collect())
        }
        Data::Table(table) => {
            let mut result = Table::new(origin.clone());
            for entry in table.into_entries() {
                let value = placed(entry.value, origin);
                result.push(Entry { key: entry.key, origin: origin.clone(), value });
            }
            Data::Table(result)
        }
        data => data,
    };
    Value { origin: origin.clone(), data }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_toml_or_text() {
        for (text, written) in [
            ("count=100", "count = 100\n"),
            ("traffic.kind=flood", "[traffic]\nkind = \"flood\"\n"),
            ("traffic.log=../data/a.log", "[traffic]\nlog = \"../data/a.log\"\n"),
            ("bitrate=500k", "bitrate = \"500k\"\n"),
            ("a=true", "a = true\n"),
            ("a= 1.5 ", "a = 1.5\n"),
            ("a=[1, \"x\"]", "a = [1, \"x\"]\n"),
            ("a={b = 1}", "[a]\nb = 1\n"),
            ("a=2024-01-01", "a = \"2024-01-01\"\n"),
            ("a=", "a = \"\"\n"),
            ("a=b=c", "a = \"b=c\"\n"),
            ("a=#7", "a = \"#7\"\n"),
            ("a=1\nb = 2", "a = \"1\\nb = 2\"\n"),
            ("\"x.y\".z=1", "[\"x.y\"]\nz = 1\n"),
        ] {
            let table = setting("--set", text).unwrap();
            assert_eq!(table.to_toml_string(), written, "{text}");
            assert_eq!(table.origin().to_string(), format!("--set {text}"));
        }
    }

    #[test]
    fn text_that_looks_like_a_number_gets_a_hint_how_to_be_text() {
        for (text, spelling) in [
            ("title=7", "--set 'title=\"7\"'"),
            ("traffic.log=2024-01-01", ""),
            ("traffic.log=0x7", "--set 'traffic.log=\"0x7\"'"),
        ] {
            let findings = Findings::new();
            let table = setting("--set", text).unwrap();
            let (key, _) = text.split_once('=').unwrap();
            let path: Vec<_> = key.split('.').collect();
            let value = table.get_path(&path).unwrap();
            if value.as_str().is_none() {
                value.wrong_type(key, "text in quotes", &findings);
            }
            let reported = findings.to_string();
            assert_eq!(reported.is_empty(), spelling.is_empty(), "{reported}");
            assert!(reported.contains(spelling), "{reported}");
            if !spelling.is_empty() {
                let quoted = spelling.trim_start_matches("--set ").trim_matches('\'');
                let table = setting("--set", quoted).unwrap();
                assert!(table.get_path(&path).unwrap().as_str().is_some(), "{quoted}");
            }
        }
    }

    #[test]
    fn what_is_no_setting_says_so() {
        for text in ["", "count", "=1", "a b=1", "a.=1", "[x]\ny=1", "#=1", "a\nb=1"] {
            let error = setting("--set", text).unwrap_err();
            assert!(error.starts_with(&format!("--set {text}: ")), "{error}");
        }
    }
}
