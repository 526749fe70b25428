use super::*;
use crate::{Channels, Input, ModelCard, read};

const EVIL: &str = "</script><img src=x onerror=alert(1)>\\\"'&<!--";

fn lines(count: usize, more: &str) -> String {
    let line = |index: usize| {
        format!(
            "{{\"index\":{index},\"label\":1,\"prediction\":1,\"eps\":0.1,\"verdict\":\"verified\",\"margin\":0.5,\"seconds\":0.5,\
             \"vertices\":3,\"edges\":2,\"stages\":[{{\"name\":\"box\",\"seconds\":0.5}}],\"data\":\"d\",\"split\":\"test\"{more}}}\n"
        )
    };
    (0..count).map(line).collect()
}

fn document(text: &str) -> Document {
    read("a.jsonl", text, &|_| Ok(())).unwrap()
}

/// Every text that a file or a network can bring.
#[test]
fn no_text_becomes_markup() {
    let evil = serde_json::to_string(EVIL).unwrap();
    let keys = [
        "method",
        "arithmetic",
        "model",
        "version",
        "question",
        "reason",
        "reason_code",
        "looseness",
        "certificate",
        "record",
    ];
    let more: String = keys.iter().map(|key| format!(",\"{key}\":{evil}")).collect();
    let text = lines(3, &more).replace("\"name\":\"box\"", &format!("\"name\":{evil}"));
    let mut report = Report::new(vec![read(EVIL, &text, &|_| Ok(())).unwrap(), document(&text)]);
    report.notes.push(EVIL.into());
    report.models.push(ModelCard {
        name: EVIL.into(),
        file: EVIL.into(),
        hash: EVIL.into(),
        facts: vec![(EVIL.into(), EVIL.into())],
        blocks: vec![crate::Block {
            title: EVIL.into(),
            shape: EVIL.into(),
            parameters: 1,
            inside: vec![EVIL.into()],
        }],
        classes: vec![EVIL.into(), EVIL.into()],
        training: Some(EVIL.into()),
    });
    report.live = Some(EVIL.into());
    let page = render(&report);
    assert!(!page.contains("<img"), "a text became an element");
    let scripts = page.matches("<script").count();
    assert_eq!((scripts, page.matches("</script").count()), (2, 2), "a text began or ended a script");
    assert!(page.contains("&lt;/script&gt;&lt;img"));
}

#[test]
fn the_script_is_the_one_the_policy_allows() {
    let page = render(&Report::new(vec![document(&lines(1, ""))]));
    let script = page.rsplit_once("<script>").unwrap().1.split_once("</script>").unwrap().0;
    let digest = STANDARD.encode(Sha256::digest(script.as_bytes()));
    assert!(page.contains(&format!("script-src 'sha256-{digest}'")));
    assert!(page.contains("connect-src 'none'"));
    assert!(
        !page.contains("http://")
            || page.matches("http://").count() == page.matches("http://www.w3.org/2000/svg").count()
    );
    assert!(!page.contains("https://"));
}

#[test]
fn a_page_says_what_is_missing() {
    let text = lines(2, "") + &lines(1, "").replace("\"eps\":0.1", "\"eps\":0.2") + "{\"ind";
    let page = render(&Report::new(vec![document(&text)]));
    assert!(page.contains("3 of 4 pairs"));
    assert!(page.contains("ends in the middle of a line"));
    let whole = render(&Report::new(vec![document(&lines(2, ""))]));
    assert!(!whole.contains("Partial"));
    let doubtful = lines(2, "").replacen("\"margin\":0.5", "\"margin\":-0.5", 1);
    let page = render(&Report::new(vec![document(&doubtful)]));
    assert!(page.contains("1 of 2 lines are not trusted"));
    assert!(page.contains("<strong>50.0</strong>"), "half is certified");
}

#[test]
fn a_picture_is_stored_once() {
    let text = lines(2, "") + &lines(2, "").replace("\"eps\":0.1", "\"eps\":0.2");
    let mut report = Report::new(vec![document(&text)]);
    let input = |index| Input::Image {
        source: ("d".into(), "test".into()),
        index,
        height: 2,
        width: 2,
        channels: Channels::Grey,
        values: vec![0.0, 0.5, 1.0, 0.25],
    };
    report.inputs = vec![input(0), input(1), input(7)];
    let page = render(&report);
    assert_eq!(page.matches("background-image:url(data:image/png").count(), 2);
    assert_eq!(page.matches("class=\"thumb p0\"").count(), 2);
    assert!(page.contains("aria-label=\"image of sample 1\""));
}

#[test]
fn files_about_other_data_are_not_paired() {
    let other = lines(2, "").replace("\"data\":\"d\"", "\"data\":\"e\"");
    let page = render(&Report::new(vec![document(&lines(2, "")), document(&other)]));
    assert!(page.contains("cannot be paired"));
    let falsified = lines(2, "")
        .replace("verified", "falsified")
        .replace("\"margin\":0.5", "\"margin\":null,\"witness\":[1]");
    let page = render(&Report::new(vec![document(&lines(2, "")), document(&falsified)]));
    assert!(page.contains("2 pairs are verified in one file and falsified in the other"));
}

#[test]
fn an_empty_page_is_a_page() {
    assert!(render(&Report::default()).contains("<main"));
}

/// What opens later is there all the same.
#[test]
fn all_lines_are_in_the_page() {
    let page = render(&Report::new(vec![document(&lines(450, ""))]));
    assert_eq!(
        (page.matches("<tr class=\"later\"").count(), page.matches("<th scope=\"row\">").count() >= 450),
        (50, true)
    );
    assert!(page.contains("<noscript><style>.later"));
}

/// Only what the checker has accepted has a seal, and only on a verdict that is trusted.
#[test]
fn seals_are_for_checked_proofs() {
    let page = |more: &str| render(&Report::new(vec![document(&lines(3, more))]));
    let seal = "✓ 3 proofs checked";
    assert!(page(",\"certificate\":\"a.cert\",\"checked\":true").contains(seal));
    let unchecked = page(",\"certificate\":\"a.cert\",\"checked\":null");
    assert!(unchecked.contains("✓ 0 proofs checked") && unchecked.contains("3 of these were not checked"));
    let refused = page(",\"certificate\":\"a.cert\",\"checked\":false");
    assert!(
        refused.contains("✓ 0 proofs checked")
            && refused.contains("3 certificates were refused by the checker")
    );
    let missing = page(",\"certificate\":\"not written: too large\",\"checked\":null");
    assert!(!missing.contains("proofs checked") && missing.contains("not written: too large"));
    assert!(!page("").contains("proofs checked"));
    assert!(!page(",\"checked\":true").contains("proofs checked"), "there is no proof to check");
    let doubtful =
        lines(3, ",\"certificate\":\"a\",\"checked\":true").replace("\"margin\":0.5", "\"margin\":-1");
    assert!(!render(&Report::new(vec![document(&doubtful)])).contains("proofs checked"));
}

#[test]
fn losses_are_shown_by_layer_and_step() {
    let bounds = ",\"bounds\":{\"output\":[1,2],\"low\":[0.5,1],\"high\":[1.5,3],\"margins\":[0.1234567,null],\
                  \"losses\":{\"truth\":1,\"layers\":[0.25,0.5],\"steps\":[[0,0.125],[0.5,0.375]],\"rest\":0.0625}}";
    let page = render(&Report::new(vec![document(&lines(2, bounds))]));
    for part in ["encoder layer 2", "steps at t = 0.5", "rest"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(page.contains("\"margins\":[0.1234,null]"), "lower bounds are rounded down");
}

#[test]
fn radii_are_drawn() {
    let more = ",\"certified_radius\":0.2,\"attacked_radius\":0.4";
    let text = lines(3, more).replace("\"verified\"", "\"unknown\"");
    let page = render(&Report::new(vec![document(&text)]));
    for title in [
        "Share of samples certified at each radius",
        "Certified and attacked radius of each sample",
        "Certified radii",
    ] {
        assert!(page.contains(title), "{title}");
    }
    assert!(page.contains("sample 1: certified up to 0.2, broken at 0.4"));
}

/// A radius of 0 is at 0, not at the end of an axis that begins elsewhere.
#[test]
fn samples_without_a_certified_radius_are_drawn_at_zero() {
    let text = lines(1, ",\"certified_radius\":0.9,\"attacked_radius\":1.0")
        + lines(2, ",\"certified_radius\":0,\"attacked_radius\":0.5").lines().last().unwrap_or_default()
        + "\n";
    let text = text.replace("\"verified\"", "\"unknown\"").replace("\"eps\":0.1", "\"eps\":1");
    let page = render(&Report::new(vec![document(&text)]));
    let chart = &page[page.find("aria-label=\"Certified against attacked radius").unwrap()..];
    let chart = &chart[..chart.find("</svg>").unwrap()];
    let x = |part: &str| {
        let circle = &chart[..chart.find(part).unwrap()];
        let circle = &circle[circle.rfind("cx=\"").unwrap() + 4..];
        circle[..circle.find('"').unwrap()].parse::<f64>().unwrap()
    };
    let zero = &chart[..chart.rfind(">0</text>").unwrap()];
    let zero = &zero[zero.rfind(" x=\"").unwrap() + 4..];
    let zero: f64 = zero[..zero.find('"').unwrap()].parse().unwrap();
    assert!((x("sample 1: certified up to 0,") - zero).abs() < 1.0, "{chart}");
    assert!(x("sample 0: certified up to 0.9") > zero + 100.0);
}

/// Which network was kept is no error, and what was certified of samples held back is an accuracy.
#[test]
fn columns_of_training_runs_are_drawn_where_they_belong() {
    let text = "phase,epoch,eps,loss,accuracy,certified,best,seconds\nmain,1,0.1,2,0.5,0.25,1,1\nmain,2,0.1,1,0.6,0.35,0,1\n";
    let page = render(&Report::new(vec![document(text)]));
    let part = |title: &str| {
        let found = &page[page.find(&format!("<h4>{title}</h4>"))?..];
        Some(&found[..found.find("</div>").unwrap_or(found.len())])
    };
    assert!(part("Accuracies").unwrap().contains("certified"));
    assert!(part("Errors").is_none());
}

#[test]
fn studies_are_drawn_over_what_was_varied() {
    let line = |n: usize, way: &str| {
        format!(
            "{{\"study\":\"lcap\",\"setting\":\"quick\",\"case\":\"n={n} way={way} of it\",\"figures\":{{\"volume\":0.{n},\"x\":null}},\"seconds\":1.5}}\n"
        )
    };
    let text: String = (1..5).flat_map(|n| [line(n, "a"), line(n, EVIL_WORD)]).collect();
    let page = render(&Report::new(vec![document(&text)]));
    assert!(
        page.contains("volume over n") && page.contains("way a of it"),
        "a chart with a curve for each way"
    );
    assert!(page.contains("8 cases in 12 s") && !page.contains("<b>"));
    let refused = |text: &str| read("s", text, &|_| Ok(())).unwrap_err().to_string();
    assert!(refused(&text.replacen("quick", "long", 1)).contains("line 2: it is of another study"));
    let twice = refused(&(text.clone() + &line(1, "a")));
    assert!(twice.contains("line 9: the case n=1 way=a of it was on line 1 already"), "{twice}");
}

const EVIL_WORD: &str = "<b>";

/// How long the rest takes follows from what is there.
#[test]
fn a_run_that_goes_on_says_how_long() {
    let mut results = document(&lines(10, ""));
    if let Document::Verdicts(verdicts) = &mut results {
        verdicts.progress = Some(crate::Progress { samples: 40, seconds: 20.0 });
    }
    let page = render(&Report::new(vec![results.clone()]));
    assert!(page.contains("10 of 40 are there; about 60 s left"), "30 more at two seconds each");
    if let Document::Verdicts(verdicts) = &mut results {
        verdicts.progress = Some(crate::Progress { samples: 10, seconds: 20.0 });
    }
    assert!(!render(&Report::new(vec![results])).contains(" are there; about "));
}
