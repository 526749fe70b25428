//! What a parser says of a description, in the words of the format.

/// Words of Rust, and what they are called in JSON.
const WORDS: [(&str, &str); 9] = [
    ("unknown variant", "unknown name"),
    ("unknown field", "unknown key"),
    ("missing field", "missing key"),
    ("duplicate field", "twice the key"),
    ("there are no fields", "there are none"),
    ("expected f64", "expected a number"),
    ("expected u32", "expected a whole number"),
    ("expected u64", "expected a whole number"),
    ("expected usize", "expected a whole number"),
];

/// Words in front of the name of a Rust type, which says nothing to whoever writes a file.
const TYPES: [(&str, &str); 2] =
    [("internally tagged enum ", "an object with its `type`"), ("expected struct ", "expected an object")];

/// A parser's complaint without words of Rust.
pub(super) fn plain(error: &serde_json::Error) -> String {
    let text = WORDS.iter().fold(error.to_string(), |text, (rust, json)| text.replace(rust, json));
    TYPES.iter().fold(text, |text, (rust, json)| match text.split_once(rust) {
        Some((before, named)) => {
            let rest = named.trim_start_matches(|c: char| c.is_alphanumeric() || matches!(c, ':' | '_'));
            format!("{before}{json}{rest}")
        }
        None => text,
    })
}

#[cfg(test)]
mod tests {
    use super::plain;
    use crate::description::{LayerSpec, Task};

    #[test]
    fn complaints_are_in_the_words_of_the_format() {
        let layer = |text: &str| plain(&serde_json::from_str::<LayerSpec>(text).unwrap_err());
        assert!(layer(r#""relu""#).contains("expected an object with its `type` at line 1"));
        assert!(layer(r#"{"type": "relux"}"#).contains("unknown name `relux`, expected one of"));
        assert!(layer(r#"{"type": "relu", "slope": 1}"#).contains("unknown key `slope`, there are none"));
        assert!(layer(r#"{"type": "clamp", "low": "a", "high": 1}"#).contains(r#""a", expected a number"#));
        assert!(layer(r#"{"kind": "relu"}"#).contains("missing key `type`"));
        let task = plain(&serde_json::from_str::<Task>(r#""classification""#).unwrap_err());
        assert!(task.contains("expected an object with its `type`"), "{task}");
    }
}
