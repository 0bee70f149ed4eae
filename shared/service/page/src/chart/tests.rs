use super::*;

fn line(values: &[f64]) -> ChartLine {
    let outcome = |index| [Outcome::Pass, Outcome::Fail, Outcome::Inconclusive][index % 3];
    let point =
        |(index, value): (usize, &f64)| Point { at_ms: index as i64 * 60_000, value: *value, outcome: outcome(index) };
    ChartLine { label: "a".to_owned(), points: values.iter().enumerate().map(point).collect() }
}

fn chart<'a>(lines: &'a [ChartLine], range: Option<Range>) -> Chart<'a> {
    Chart { id: "tops", title: "Throughput", unit: "TOPS", lines, range, basis: "The model" }
}

#[test]
fn a_chart_says_in_words_what_it_shows() {
    let lines = [line(&[900.0, 1000.0, 800.0])];
    let inside = chart(&lines, Some(Range { low: 700.0, high: f64::INFINITY }));
    let words = "Last 800 TOPS; 800 to 1000 in all. The model: 700 TOPS or more; none is outside.";
    assert_eq!(inside.summary(), words);
    let html = inside.figure().into_string();
    assert!(html.contains(&format!("<desc id=\"tops-about\">{words}</desc>")), "{html}");
    let outside = chart(&lines, Some(Range { low: 850.0, high: 950.0 })).summary();
    assert!(outside.ends_with("850 to 950 TOPS; 2 of the points are outside."), "{outside}");
}

#[test]
fn outcomes_and_lines_have_shapes() {
    let lines = [line(&[1.0, 2.0, 3.0]), line(&[3.0, 2.0, 1.0])];
    let html = chart(&lines, None).figure().into_string();
    for part in [
        "class=\"line-0\"",
        "class=\"line-1\"",
        "circle class=\"pass\"",
        "path class=\"fail\"",
        "path class=\"unclear\"",
    ] {
        assert!(html.contains(part), "{part} in {html}");
    }
    assert!(!html.contains("style="), "the policy of contents forbids it");
}

#[test]
fn what_was_not_shown_is_said() {
    let html = chart(&[line(&[f64::NAN])], None).figure().into_string();
    assert!(html.contains("Not shown by any challenge yet.") && !html.contains("<svg"), "{html}");
}

#[test]
fn many_points_keep_the_signs_of_what_is_no_pass() {
    let lines = [line(&[1.0; 300])];
    let html = chart(&lines, None).figure().into_string();
    assert_eq!((html.matches("circle").count(), html.matches("\"fail\"").count()), (0, 100));
    let many = vec![line(&[1.0]); MAX_LINES + 5];
    let html = chart(&many, None).figure().into_string();
    assert_eq!(html.matches("<polyline").count(), MAX_LINES);
}
