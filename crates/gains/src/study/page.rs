//! All studies of a folder on one page.

use std::path::{Path, PathBuf};

use super::ALL;
use crate::failure::{Failure, Outcome};
use crate::{files, tell};

/// Larger files are not put on the page.
const LARGEST: u64 = 1 << 26;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:75rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}\
div.wide{overflow-x:auto}table{border-collapse:collapse;font-size:14px}td,th{padding:.15rem .6rem;text-align:right;border-bottom:1px solid #ccc}\
td:first-child,th:first-child{text-align:left}pre{overflow-x:auto;font:13px/1.45 ui-monospace,monospace}figure{margin:1rem 0}figure img{max-width:100%;height:auto}\
@media(prefers-color-scheme:dark){body{color:#eee;background:#181818}figure{background:#fff}}";

/// Gathers what the studies in a folder wrote into `index.html` there.
pub fn gather(folder: &Path, quiet: bool) -> Outcome {
    let (mut contents, mut body) = (String::new(), String::new());
    let mut found = 0;
    for entry in ALL {
        let own = folder.join(entry.name);
        let table = own.join("table.md");
        if !table.exists() {
            continue;
        }
        found += 1;
        let text = files::read_text(&table, LARGEST, "the table of a study")?;
        body.push_str(&format!("<section id=\"{0}\"><h2>{0}</h2>", entry.name));
        for picture in pictures(&own)? {
            let svg = files::read_text(&picture, LARGEST, "the picture of a study")?;
            let name =
                picture.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            // As an image, so that whatever the file holds cannot run.
            body.push_str(&format!(
                "<figure><img alt=\"{}\" src=\"data:image/svg+xml,{}\"></figure>",
                escape(&format!("{}: {name}", entry.about)),
                percent_encoded(&svg)
            ));
        }
        body.push_str(&markup(&text));
        body.push_str("</section>");
        contents.push_str(&format!("<li><a href=\"#{0}\">{0}</a> – {1}", entry.name, escape(entry.about)));
    }
    if found == 0 {
        return Err(Failure::usage(format!("there are no results of studies in '{}'", folder.display()))
            .hint("run one first, e.g. `gains study lcap --quick`, or name the folder with --out"));
    }
    let page = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Studies</title><style>{STYLE}</style><h1>Studies</h1><ul>{contents}</ul>{body}</html>"
    );
    let path = folder.join("index.html");
    files::write_atomically(&path, page.as_bytes())?;
    tell::written(&[path], quiet);
    Ok(())
}

fn pictures(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = std::fs::read_dir(folder).map_err(|error| Failure::reading(folder, &error))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "svg"));
    paths.sort();
    Ok(paths)
}

/// Lines of one kind.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Text,
    Rows,
    Commands,
}

impl Kind {
    /// What closes them.
    fn end(self) -> &'static str {
        match self {
            Self::Text => "",
            Self::Rows => "</table></div>",
            Self::Commands => "</pre>",
        }
    }
}

/// The few kinds of lines that the tables of studies have: a heading, which the page has already, rows between bars,
/// commands, which are indented, and sentences.
fn markup(text: &str) -> String {
    let mut page = String::new();
    let mut before = Kind::Text;
    for line in text.lines().filter(|line| !line.starts_with("# ")) {
        let kind = match line {
            _ if line.starts_with('|') => Kind::Rows,
            _ if line.starts_with("    ") => Kind::Commands,
            _ => Kind::Text,
        };
        let first = kind != before;
        if first {
            page.push_str(before.end());
        }
        before = kind;
        match kind {
            Kind::Text if line.trim().is_empty() => {}
            Kind::Text => page.push_str(&format!("<p>{}</p>", escape(line))),
            Kind::Commands => {
                page.push_str(if first { "<pre>" } else { "\n" });
                page.push_str(&escape(line));
            }
            Kind::Rows if line.starts_with("| ---") => {}
            Kind::Rows => {
                let cell = if first { "th" } else { "td" };
                page.push_str(if first { "<div class=\"wide\"><table>" } else { "" });
                page.push_str("<tr>");
                for text in line.trim_matches('|').split('|') {
                    page.push_str(&format!("<{cell}>{}</{cell}>", escape(text.trim())));
                }
                page.push_str("</tr>");
            }
        }
    }
    page.push_str(before.end());
    page
}

/// Text as markup shows it.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn percent_encoded(text: &str) -> String {
    let kept = |b: u8| b.is_ascii_alphanumeric() || b"-_.~ :/=;,()".contains(&b);
    text.bytes().map(|b| if kept(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_what_is_there_and_runs_none_of_it() {
        let folder = tempfile::tempdir().unwrap();
        assert!(gather(folder.path(), true).is_err());
        let own = folder.path().join("lcap");
        std::fs::create_dir(&own).unwrap();
        std::fs::write(own.join("table.md"), "a <script>alert(1)</script>").unwrap();
        std::fs::write(own.join("lcap.svg"), "<svg onload=\"alert(1)\"/>").unwrap();
        gather(folder.path(), true).unwrap();
        let page = std::fs::read_to_string(folder.path().join("index.html")).unwrap();
        assert!(page.contains("&lt;script&gt;") && page.contains("%3Csvg"));
        let rows =
            "# t\n\nAbove\n\n| a | b |\n| --- | --- |\n| 1 | <2 |\n\nBelow\n    gains x\n    gains y\n";
        let cells = "<tr><th>a</th><th>b</th></tr><tr><td>1</td><td>&lt;2</td></tr></table></div>";
        let around = format!(
            "<p>Above</p><div class=\"wide\"><table>{cells}<p>Below</p><pre>    gains x\n    gains y</pre>"
        );
        assert_eq!(markup(rows), around);
        assert!(!page.contains("<script") && !page.contains("onload=\""));
    }
}
