//! What is there twice.

use super::*;

fn file(header: &str) -> Result<(Tensors, String), String> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend_from_slice(&[0; 16]);
    safetensors(&bytes)
}

/// Two readers must not see two networks in one file.
#[test]
fn names_that_are_there_twice_are_refused() {
    let tensor = |name: &str, from: usize| {
        format!(r#""{name}": {{"dtype": "F64", "shape": [1], "data_offsets": [{from}, {}]}}"#, from + 8)
    };
    let about = r#""__metadata__": {"gains": "{}"}"#;
    let of = |parts: &[&str]| file(&format!("{{{}}}", parts.join(", ")));
    assert!(of(&[about, &tensor("a", 0), &tensor("b", 8)]).is_ok());
    for twice in [
        of(&[about, &tensor("a", 0), &tensor("a", 8)]),
        of(&[about, about, &tensor("a", 0)]),
        of(&[r#""__metadata__": {"gains": "{}", "gains": "[]"}"#]),
        of(&[about, r#""a": {"dtype": "F64", "dtype": "F32", "shape": [1], "data_offsets": [0, 8]}"#]),
    ] {
        let said = twice.err().unwrap_or_default();
        assert!(said.contains("twice"), "{said}");
    }
}
