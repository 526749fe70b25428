//! Boxes joined, and batches added.

use super::memory::Buffer;
use super::{Cuda, launch, radius, spread};
use crate::device::{Batch, DeviceError, Join};

/// What a join remembers.
pub enum JoinMemory {
    /// How many boxes.
    Average(usize),
    /// Where each end came from.
    Hull(usize, Buffer, Buffer),
}

impl Cuda {
    pub(super) fn join_boxes(
        &mut self,
        how: Join,
        xs: &[&Batch<Buffer>],
    ) -> Result<(Batch<Buffer>, JoinMemory), DeviceError> {
        let total = xs[0].centre.len();
        let out = self.like(true, total)?;
        match how {
            Join::Average => {
                let (scaled, add) = (self.function("scaled")?, self.function("add_to")?);
                let factor = 1.0 / xs.len() as f32;
                for (i, x) in xs.iter().enumerate() {
                    for (from, to) in [(x.centre.at(), out.centre.at()), (radius(x), radius(&out))] {
                        if i == 0 {
                            launch!(self, scaled, spread(total), from, factor, to, total as i32);
                        } else {
                            launch!(self, add, spread(total), to, from, factor, total as i32);
                        }
                    }
                }
                Ok((out, JoinMemory::Average(xs.len())))
            }
            Join::Hull => {
                let (widen, recentre) = (self.function("hull_with")?, self.function("recentre")?);
                let (low, up) = (self.pool.bytes(total)?, self.pool.bytes(total)?);
                let (lower, upper) = (out.centre.at(), radius(&out));
                for (i, x) in xs.iter().enumerate() {
                    let (c, r, i) = (x.centre.at(), radius(x), i as i32);
                    launch!(
                        self,
                        widen,
                        spread(total),
                        c,
                        r,
                        lower,
                        upper,
                        low.at(),
                        up.at(),
                        i,
                        total as i32
                    );
                }
                launch!(self, recentre, spread(total), lower, upper, total as i32);
                Ok((out, JoinMemory::Hull(xs.len(), low, up)))
            }
        }
    }

    pub(super) fn pull_back_join(
        &mut self,
        memory: &JoinMemory,
        gradient: &Batch<Buffer>,
    ) -> Result<Vec<Batch<Buffer>>, DeviceError> {
        let total = gradient.centre.len();
        let (scaled, hull) = (self.function("scaled")?, self.function("hull_back")?);
        let (gc, gr) = (gradient.centre.at(), radius(gradient));
        let count = match memory {
            JoinMemory::Average(count) | JoinMemory::Hull(count, ..) => *count,
        };
        let mut parts = Vec::with_capacity(count);
        for i in 0..count {
            let part = self.like(true, total)?;
            let (c, r) = (part.centre.at(), radius(&part));
            match memory {
                JoinMemory::Average(_) => {
                    let factor = 1.0 / count as f32;
                    launch!(self, scaled, spread(total), gc, factor, c, total as i32);
                    launch!(self, scaled, spread(total), gr, factor, r, total as i32);
                }
                JoinMemory::Hull(_, low, up) => {
                    launch!(
                        self,
                        hull,
                        spread(total),
                        gc,
                        gr,
                        low.at(),
                        up.at(),
                        c,
                        r,
                        i as i32,
                        total as i32
                    );
                }
            }
            parts.push(part);
        }
        Ok(parts)
    }

    pub(super) fn add_batch(
        &mut self,
        into: &mut Batch<Buffer>,
        part: &Batch<Buffer>,
    ) -> Result<(), DeviceError> {
        let function = self.function("add_to")?;
        let total = into.centre.len();
        let sides = std::iter::once((&into.centre, &part.centre)).chain(into.radius.iter().zip(&part.radius));
        for (to, from) in sides {
            launch!(self, function, spread(total), to.at(), from.at(), 1.0_f32, total as i32);
        }
        Ok(())
    }
}
