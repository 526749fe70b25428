//! Which neuron to split.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gains_core::RowBlock;

use super::part::{Choice, Expansion, Experience, Part, Place};
use super::{APART, Brancher, MOST_TRIED, PART};
use crate::best_first::Leaf;
use crate::limits::Reason;
use crate::steps::Side;

impl Brancher<'_, '_> {
    /// The halves of a part for the best split. Neurons that were never split are tried, a few at a time; what
    /// that brings is remembered. No more of them are tried when that has taken as long as a turn.
    pub(super) fn expand(
        &self,
        part: &Part,
        experience: &HashMap<Place, Experience>,
        turn: Option<Duration>,
    ) -> Result<Expansion, Reason> {
        let started = Instant::now();
        let mut best: Option<(f64, Vec<Part>)> = None;
        let (mut learnt, mut parts) = (Vec::new(), 0);
        for choice in self.ranked(part, experience).into_iter().take(MOST_TRIED) {
            let children = self.children(part, &choice)?;
            parts += children.len();
            let gains: Vec<f64> = children.iter().map(|c| c.bound().min(0.0) - part.bound()).collect();
            let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
            learnt.push((choice.place, (least / choice.loss).clamp(0.0, 1.0)));
            let worth = least + 0.1 * gains.iter().sum::<f64>();
            if best.as_ref().is_none_or(|(known, _)| worth > *known) {
                best = Some((worth, children));
            }
            let long = turn.is_some_and(|turn| started.elapsed() >= turn);
            if long || experience.contains_key(&choice.place) {
                break;
            }
        }
        let (_, children) = best.ok_or(Reason::Loose { margin: part.bound() })?;
        Ok(Expansion { children, learnt, parts })
    }

    /// Both halves of a part.
    pub(super) fn children(&self, part: &Part, choice: &Choice) -> Result<Vec<Part>, Reason> {
        let drafts = [Side::Below, Side::Above]
            .into_iter()
            .map(|side| self.draft(part, choice, side))
            .collect::<Result<Vec<_>, _>>()?;
        self.finish(drafts, PART)
    }

    /// Neurons to split, by what their relaxation costs the worst row, weighed by how much of that splitting
    /// them has brought before.
    pub(super) fn ranked(&self, part: &Part, experience: &HashMap<Place, Experience>) -> Vec<Choice> {
        let Some(worst) = part.worst(self.task.property) else { return Vec::new() };
        let mut all: Vec<(f64, Choice)> = Vec::new();
        let mut consider = |place: Place, loss: f64, at: f64, below: Option<[Arc<RowBlock>; 2]>| {
            let seen = experience.get(&place).copied().unwrap_or_default();
            let score = loss * (seen.share + 0.5) / (seen.count + 1.0);
            if score > 0.0 {
                all.push((score, Choice { place, at, loss, below }));
            }
        };
        // Where one row is enough, parts may have to be told apart in which nothing is lost, so that each has its own.
        let together = self.task.property.is_conjunction();
        for (layer, losses) in worst.losses.iter().enumerate() {
            let activation = &self.front.layers[layer].activation;
            let image = (!together).then(|| activation.image_box(&part.bounds[layer], self.task.arithmetic));
            for (neuron, &loss) in losses.iter().enumerate() {
                let moved = image.as_ref().map_or(0.0, |image| {
                    f64::from(worst.behind[layer][neuron]).abs() * (image.upper[neuron] - image.lower[neuron])
                });
                let loss = loss + APART * moved;
                let bounds = part.bounds[layer].get(neuron);
                let kink = bounds.lower < 0.0 && bounds.upper > 0.0;
                let at = if kink { 0.0 } else { 0.5 * (bounds.lower + bounds.upper) };
                if bounds.lower < at && at < bounds.upper {
                    consider(Place::Front(layer, neuron), loss, at, None);
                }
            }
        }
        for inner in &worst.inner {
            let place = Place::Dynamics(inner.value, inner.neuron);
            consider(place, inner.loss, inner.at, Some(inner.below.clone()));
        }
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        all.into_iter().map(|(_, choice)| choice).collect()
    }
}
