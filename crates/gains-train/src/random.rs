//! Random numbers by position: everything random in a run depends on the seed and on where it is used, so a run that
//! is taken up again needs no state of a generator.

/// What random numbers are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The order of the images in an epoch.
    Shuffle,
    /// Which trajectories are sampled.
    Explore,
    /// Where an attack starts.
    Attack,
    /// Latent states around their means.
    Latent,
    /// How inputs are moved before they are learned from.
    Augment,
    /// Which samples are held back.
    Split,
}

/// The seed for a purpose at a position of a run.
pub(crate) fn seed_at(seed: u64, purpose: Purpose, phase: usize, epoch: u32, batch: u32) -> u64 {
    [purpose as u64, phase as u64, u64::from(epoch), u64::from(batch)]
        .into_iter()
        .fold(seed, |state, part| mix(state ^ mix(part)))
}

/// One step of SplitMix64.
fn mix(state: u64) -> u64 {
    let mut z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_do_not_collide() {
        let mut seen = std::collections::HashSet::new();
        for purpose in
            [Purpose::Shuffle, Purpose::Explore, Purpose::Attack, Purpose::Latent, Purpose::Augment]
        {
            for phase in 0..3 {
                for epoch in 0..20 {
                    for batch in 0..20 {
                        assert!(seen.insert(seed_at(1, purpose, phase, epoch, batch)));
                    }
                }
            }
        }
    }
}
