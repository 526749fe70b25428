//! Batches cut into tiles of a few samples, which are small enough to stay in the cache, and parts of a few tiles,
//! which are what threads share out.
//!
//! In tensors a sample's entries lie together, channels last. Inside a tile the rows of the images come first:
//! `[row][sample][column][channel]`, so that one row of the kernel meets one contiguous matrix.

use std::ops::Range;

use gains_core::Shape;

use super::real::Real;

/// Entries of the largest tensor of a tile, about.
const TILE_ENTRIES: usize = 8192;
const TILE_SAMPLES: usize = 64;
/// Sums over a batch are formed in this many parts, however many threads there are.
const PARTS: usize = 16;

/// How a batch is cut; depends on nothing but the shapes and the number of samples.
#[derive(Clone, Debug)]
pub(crate) struct Tiling {
    /// Samples of a tile (the last may have fewer).
    tile: usize,
    /// Samples of a part (the last may have fewer).
    part: usize,
    samples: usize,
}

impl Tiling {
    /// Cuts a batch whose largest tensor has `entries` entries per sample.
    pub fn new(samples: usize, entries: usize) -> Self {
        let tile = (TILE_ENTRIES / entries.max(1)).clamp(1, TILE_SAMPLES);
        let part = samples.div_ceil(tile).div_ceil(PARTS).max(1) * tile;
        Self { tile, part, samples }
    }

    /// The parts, as ranges of samples.
    pub fn parts(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        (0..self.samples).step_by(self.part).map(|start| start..(start + self.part).min(self.samples))
    }

    /// The tiles of a part.
    pub fn tiles(&self, part: Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
        let tile = self.tile;
        part.clone().step_by(tile).map(move |start| start..(start + tile).min(part.end))
    }

    /// A slice of rows of `entries` entries cut into the parts.
    pub fn split<'a, T>(&self, values: &'a mut [T], entries: usize) -> Vec<&'a mut [T]> {
        values.chunks_mut((self.part * entries).max(1)).collect()
    }

    /// The same for several lanes: for each part, its piece of every lane.
    pub fn split_lanes<'a, T>(&self, lanes: &'a mut [Vec<T>], entries: usize) -> Vec<Vec<&'a mut [T]>> {
        let mut parts: Vec<Vec<_>> = self.parts().map(|_| Vec::new()).collect();
        for lane in lanes {
            for (part, piece) in parts.iter_mut().zip(self.split(lane, entries)) {
                part.push(piece);
            }
        }
        parts
    }
}

/// Makes room for `length` entries without saying what they are.
pub(crate) fn resize<T: Copy + Default>(buffer: &mut Vec<T>, length: usize) {
    if buffer.len() != length {
        buffer.resize(length, T::default());
    }
}

/// Copies samples (rows of a tensor) into a tile.
pub(crate) fn load<F: Real>(shape: Shape, rows: &[F], tile: &mut Vec<F>) {
    resize(tile, rows.len());
    let (samples, run) = (rows.len() / shape.len(), shape.width * shape.channels);
    for (sample, values) in rows.chunks_exact(shape.len()).enumerate() {
        for (row, values) in values.chunks_exact(run).enumerate() {
            tile[(row * samples + sample) * run..][..run].copy_from_slice(values);
        }
    }
}

/// Copies a tile back to rows of a tensor.
pub(crate) fn store<F: Real>(shape: Shape, tile: &[F], rows: &mut [F]) {
    let (samples, run) = (rows.len() / shape.len(), shape.width * shape.channels);
    for (sample, values) in rows.chunks_exact_mut(shape.len()).enumerate() {
        for (row, values) in values.chunks_exact_mut(run).enumerate() {
            values.copy_from_slice(&tile[(row * samples + sample) * run..][..run]);
        }
    }
}

/// Calls `visit` with each sample's entries in the tile, run by run.
pub(crate) fn each_run(shape: Shape, samples: usize, mut visit: impl FnMut(usize, Range<usize>)) {
    let run = shape.width * shape.channels;
    for row in 0..shape.height {
        for sample in 0..samples {
            let start = (row * samples + sample) * run;
            visit(sample, start..start + run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_the_batch_once_and_in_order() {
        for (samples, entries) in [(0, 5), (1, 5), (37, 512), (512, 512), (1000, 3), (300, 20000)] {
            let tiling = Tiling::new(samples, entries);
            let tiles: Vec<_> = tiling.parts().flat_map(|part| tiling.tiles(part)).collect();
            assert_eq!(tiles.iter().cloned().flatten().collect::<Vec<_>>(), (0..samples).collect::<Vec<_>>());
            assert!(tiling.parts().count() <= PARTS);
            let mut values = vec![0; samples * 3];
            let lengths: Vec<_> = tiling.split(&mut values, 3).iter().map(|part| part.len() / 3).collect();
            assert_eq!(lengths, tiling.parts().map(|part| part.len()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn loading_and_storing_are_inverse() {
        let shape = Shape::image(3, 2, 2);
        let rows: Vec<f32> = (0..60).map(|i| i as f32).collect();
        let (mut tile, mut back) = (Vec::new(), vec![0.0; 60]);
        load(shape, &rows, &mut tile);
        assert_eq!(tile[..8], [0., 1., 2., 3., 12., 13., 14., 15.]);
        store(shape, &tile, &mut back);
        assert_eq!(rows, back);
    }
}
