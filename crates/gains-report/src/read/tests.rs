use super::*;
use crate::document::{Verdict, Verdicts};

const LINE: &str = r#"{"index":3,"label":7,"prediction":7,"eps":0.1,"verdict":"verified","margin":0.5,"seconds":0.25,"vertices":4,"edges":5,"stages":[{"name":"box","seconds":0.2}],"witness":null,"model":"ab","data":"mnist","split":"test","method":"auto","check":"x"}"#;

fn fine(_: &Map<String, Value>) -> Result<(), String> {
    Ok(())
}

fn verdicts(text: &str) -> Verdicts {
    match read("r.jsonl", text, &fine).unwrap() {
        Document::Verdicts(verdicts) => verdicts,
        other => panic!("{other:?}"),
    }
}

fn refused(text: &str, message: &str) {
    let error = read("r.jsonl", text, &fine).unwrap_err();
    assert!(error.to_string().contains(message), "'{error}' should say '{message}'");
    assert!(!error.hint().is_empty());
}

#[test]
fn a_line_says_what_it_says() {
    let results = verdicts(LINE);
    let line = &results.lines[0];
    assert_eq!((line.index, line.label, line.eps, line.verdict), (3, Some(7), 0.1, Verdict::Verified));
    assert_eq!((line.graph, line.margin, line.stages.len()), (Some((4, 5)), Some(0.5), 1));
    assert_eq!((results.text("data"), results.cut, results.unchecked), (Some("mnist"), false, 0));
}

/// What a page calls verified must be so by the line itself.
#[test]
fn a_line_that_cannot_be_trusted_is_unknown() {
    let cases = [
        ("\"margin\":0.5", "\"margin\":0"),
        ("\"margin\":0.5", "\"margin\":-1e-9"),
        ("\"margin\":0.5", "\"margin\":null"),
        ("\"prediction\":7", "\"prediction\":6"),
        ("\"prediction\":7", "\"prediction\":null"),
        ("\"verified\"", "\"falsified\""),
        ("\"verified\"", "\"misclassified\""),
    ];
    for (from, to) in cases {
        let results = verdicts(&LINE.replace(from, to));
        assert_eq!(results.lines[0].verdict, Verdict::Unknown, "{to}");
        assert!(results.lines[0].fault.is_some(), "{to}");
    }
    let edited = read("r", LINE, &|_| Err("its 'check' does not fit".into())).unwrap();
    let Document::Verdicts(edited) = edited else { panic!() };
    assert_eq!(edited.lines[0].verdict, Verdict::Unknown);
    assert!(edited.lines[0].fault.as_ref().unwrap().contains("does not fit"));
    let series = LINE
        .replace("\"label\":7,\"prediction\":7", "\"record\":\"1\"")
        .replace("\"margin\":0.5", "\"limit\":0.5,\"certified_mae\":0.5");
    assert_eq!(verdicts(&series).lines[0].verdict, Verdict::Unknown);
    assert_eq!(
        verdicts(&series.replace("\"certified_mae\":0.5", "\"certified_mae\":0.4")).lines[0].verdict,
        Verdict::Verified
    );
}

#[test]
fn lines_without_a_check_are_counted() {
    assert_eq!(verdicts(&LINE.replace(",\"check\":\"x\"", "")).unchecked, 1);
}

#[test]
fn only_the_last_line_may_be_cut_off() {
    let other = LINE.replace("\"index\":3", "\"index\":4");
    let cut = format!("{LINE}\n{}", &other[..40]);
    let results = verdicts(&cut);
    assert!(results.cut && results.lines.len() == 1);
    refused(&format!("{LINE}\n{}\n", &other[..40]), "line 2: it is not JSON");
    refused(&format!("{LINE}\n{}\n{other}", &other[..40]), "line 2");
    refused(&LINE[..60], "no complete JSON object");
}

#[test]
fn lines_that_do_not_belong_together_are_refused() {
    refused(&format!("{LINE}\n{LINE}\n"), "line 2: sample 3 at eps 0.1 was on line 1 already");
    let other = LINE.replace("\"index\":3", "\"index\":4").replace("\"auto\"", "\"box\"");
    refused(&format!("{LINE}\n{other}\n"), "line 2: its 'method' differs");
    refused(&format!("{LINE}\n[1]\n"), "line 2: it is no JSON object");
    for (from, to, message) in [
        ("\"verified\"", "\"proved\"", "there is no verdict 'proved'"),
        ("\"eps\":0.1", "\"eps\":\"x\"", "'eps' is not a number"),
        ("\"eps\":0.1,", "", "'eps' is missing"),
        ("\"index\":3", "\"index\":-3", "'index' is not a whole number"),
        ("\"seconds\":0.25", "\"seconds\":null", "'seconds' is not a number"),
        ("\"witness\":null", "\"witness\":\"x\"", "'witness'"),
    ] {
        refused(&LINE.replace(from, to), message);
    }
}

#[test]
fn foreign_and_empty_files_are_refused() {
    refused("", "is empty");
    refused("\n \n", "is empty");
    refused("{\"a\": 1}", "is no result file");
    refused("[1, 2]", "is no result file");
    refused("a,b\n1,2\n", "is no result file");
    refused("PK\u{3}\u{4}", "is no result file");
    refused("{\"vertices\": [], \"trajectory\": []}", "is missing");
}

#[test]
fn a_run_is_read_and_its_last_row_may_be_cut_off() {
    let text = "phase,epoch,loss,accuracy\nwarm,1,0.5,\nwarm,2,0.25,0.9\nwarm,3,0.1";
    let Document::Run(run) = read("m.csv", text, &fine).unwrap() else { panic!() };
    assert_eq!(run.column("loss").unwrap(), [Some(0.5), Some(0.25)]);
    assert_eq!(run.column("accuracy").unwrap(), [None, Some(0.9)]);
    assert_eq!(run.column("phase").unwrap(), [None, None]);
    refused("epoch,loss\n1,2\n1\n3,4\n", "line 3: it has 1 columns");
}

#[test]
fn edges_lead_to_vertices_that_are_there() {
    let graph = |to: &str, action: &str| {
        format!(
            r#"{{"model":"a","sample":0,"label":1,"eps":0.1,"end_time":1,"trajectory":[],"vertices":[{{"time":0,"step":1,"error":[0,1],"mean_width":1}}],"edges":[{{"from":0,"to":{to},"action":"{action}"}}],"end":{{"mean_width":1}}}}"#
        )
    };
    let Document::Trajectory(read) = read("t.json", &graph("null", "keep"), &fine).unwrap() else { panic!() };
    assert_eq!((read.graphs.len(), read.graphs[0].edges[0].to), (1, None));
    refused(&graph("1", "keep"), "edge 0: there are only 1 vertices");
    refused(&graph("null", "jump"), "no action 'jump'");
    refused(&graph("null", "keep").replace("\"step\":1", "\"step\":0"), "'step' is not above 0");
}

/// Whatever a file is cut to, it is read or refused.
#[test]
fn no_cut_and_no_changed_byte_is_a_panic() {
    let text = format!("{LINE}\n{}\n", LINE.replace("\"index\":3", "\"index\":4"));
    for end in 0..text.len() {
        let _ = read("r", &text[..end], &fine);
        for other in ["", "0", "\"", "{", "-1", "1e999", "null"] {
            let changed = format!("{}{other}{}", &text[..end], &text[end + 1..]);
            if let Ok(document) = read("r", &changed, &fine) {
                crate::render(&crate::Report::new(vec![document]));
            }
        }
    }
}

#[test]
fn radii_support_their_verdict() {
    let with = |radii: &str| LINE.replace("\"margin\"", &format!("{radii},\"margin\""));
    let found = verdicts(&with("\"certified_radius\":0.1,\"attacked_radius\":null"));
    assert_eq!(found.lines[0].radius.unwrap().certified, 0.1);
    assert_eq!(found.lines[0].verdict, Verdict::Verified);
    for radii in [
        "\"certified_radius\":0.09,\"attacked_radius\":null",
        "\"certified_radius\":0.1,\"attacked_radius\":0.1",
    ] {
        let doubtful = verdicts(&with(radii));
        assert_eq!(
            (doubtful.lines[0].verdict, doubtful.lines[0].radius),
            (Verdict::Unknown, None),
            "{radii}"
        );
    }
}

/// Another property may hold whatever the class is.
#[test]
fn a_property_of_its_own_does_not_ask_for_the_class() {
    let other = LINE
        .replace("\"prediction\":7", "\"prediction\":6")
        .replace("\"model\"", "\"property\":\"top 3\",\"model\"");
    assert_eq!(verdicts(&other).lines[0].verdict, Verdict::Verified);
    assert_eq!(verdicts(&other.replace("\"top 3\"", "null")).lines[0].verdict, Verdict::Unknown);
}
