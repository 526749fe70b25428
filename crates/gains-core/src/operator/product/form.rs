//! The product of two affine forms.

use crate::affine_form::{AffineForm, Symbols};
use crate::arithmetic::Arithmetic;

use super::image;

/// `(c + p)(d + q) = c·d + c·q + d·p + p·q` with deviations `|p| ≤ r`, `|q| ≤ s`: the last term lies within `r·s` and
/// becomes a fresh symbol.
pub(in super::super) fn form(
    x: &AffineForm,
    y: &AffineForm,
    arithmetic: Arithmetic,
    symbols: &mut Symbols,
) -> AffineForm {
    let bounds = image(&[&x.bounds, &y.bounds], arithmetic);
    AffineForm::times_form(x, y, bounds, arithmetic, symbols)
}
