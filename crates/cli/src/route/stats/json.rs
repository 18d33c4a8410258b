//! What a gateway has counted, as JSON Lines.

use candor_gateway::Snapshot;
use candor_gateway::control::rates::Rates;

use crate::json;

pub(crate) fn lines(snapshot: &Snapshot, rates: Option<&Rates>) -> Result<String, String> {
    let port = |(index, port)| (port, rates.and_then(|rates| rates.ports.get(index)));
    let rule = |(index, rule)| (rule, rates.and_then(|rates| rates.rules.get(index)));
    let ports = json::lines(snapshot.ports.iter().enumerate().map(port))?;
    let rules = json::lines(snapshot.rules.iter().enumerate().map(rule))?;
    let latencies = json::lines(&snapshot.latencies)?;
    Ok(ports + &rules + &latencies + &json::line(snapshot)?)
}

#[cfg(test)]
mod tests {
    use candor_gateway::control::rates::Rates;

    use crate::route::stats::tests::snapshot;

    #[test]
    fn json_has_the_documented_objects() {
        let (old, new) = (snapshot(100, 0), snapshot(102, 500));
        let lines = |rates| {
            let text = super::lines(&new, rates).unwrap();
            let lines: Vec<serde_json::Value> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            lines
        };
        let first = lines(None);
        let types: Vec<_> = first.iter().map(|line| line["type"].as_str().unwrap()).collect();
        assert_eq!(types, ["port", "port", "rule", "rule", "latency", "summary"]);
        assert_eq!(first[0]["data"]["received_per_s"], serde_json::Value::Null);
        assert_eq!(first[2]["data"]["stopped"]["rate"], 1_300);
        let data = &first[2]["data"];
        let number = |line: &serde_json::Value, key: &str| line["data"][key].as_u64().unwrap();
        let sum = |line, keys: &[&str]| keys.iter().map(|key| number(line, key)).sum::<u64>();
        let copies = sum(&first[2], &["handled", "pending", "refused", "lost"]);
        assert_eq!(number(&first[2], "copies"), copies, "{data}");
        let received = sum(&first[0], &["routed", "not_routed", "refused"]);
        assert_eq!(number(&first[0], "received"), received, "{}", first[0]);
        let keys = |line: &serde_json::Value| line["data"].as_object().unwrap().len();
        assert_eq!(first.iter().map(keys).collect::<Vec<_>>(), [34, 34, 14, 14, 14, 6]);
        let rates = Rates::between(&old, &new).unwrap();
        let second = lines(Some(&rates));
        assert_eq!(second[0]["data"]["received_per_s"], 250.0);
        assert_eq!(second[2]["data"]["handled_per_s"], 250.0);
    }
}
