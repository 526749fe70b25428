//! Which entries of a tensor a row has coefficients on.

use std::borrow::Cow;
use std::sync::Arc;

use crate::interval::BoxVec;
use crate::shape::{Shape, Window};

/// Some entries of a tensor, in the order of their coefficients.
///
/// Outside ODE blocks rows live on windows: a row that bounds one pixel of a convolution's output sees only its
/// receptive field. Inside them rows live on the entries that are not identically zero. Whoever takes rows takes
/// both: coefficients can be read only together with where they are.
#[derive(Clone, Debug, PartialEq)]
pub enum Support {
    /// A rectangle of pixels with all their channels.
    Window(Window),
    /// Chosen entries.
    Entries {
        /// Shape of the tensor.
        shape: Shape,
        /// Increasing.
        entries: Arc<[u32]>,
    },
}

impl From<Window> for Support {
    fn from(window: Window) -> Self {
        Self::Window(window)
    }
}

impl Support {
    /// The whole tensor.
    pub const fn full(shape: Shape) -> Self {
        Self::Window(Window::full(shape))
    }

    /// Chosen entries, increasing.
    pub fn entries(shape: Shape, entries: Arc<[u32]>) -> Self {
        Self::Entries { shape, entries }
    }

    /// Shape of the tensor.
    pub fn shape(&self) -> Shape {
        match self {
            Self::Window(window) => window.image,
            Self::Entries { shape, .. } => *shape,
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        match self {
            Self::Window(window) => window.len(),
            Self::Entries { entries, .. } => entries.len(),
        }
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if this is the whole tensor, in its own order.
    pub fn is_full(&self) -> bool {
        self.len() == self.shape().len()
    }

    /// The values of a whole tensor at the entries.
    pub fn cut<'v, T: Copy>(&self, whole: &'v [T]) -> Cow<'v, [T]> {
        match self {
            _ if self.is_full() => Cow::Borrowed(whole),
            Self::Window(window) => Cow::Owned(window.cut(whole)),
            Self::Entries { entries, .. } => Cow::Owned(entries.iter().map(|&i| whole[i as usize]).collect()),
        }
    }

    /// The part of a box at the entries.
    pub fn cut_box(&self, whole: &BoxVec) -> BoxVec {
        BoxVec::new(self.cut(&whole.lower).into_owned(), self.cut(&whole.upper).into_owned())
    }

    /// The entries, in order.
    pub fn indices(&self) -> Vec<u32> {
        match self {
            Self::Window(window) => window.runs().flatten().map(|i| i as u32).collect(),
            Self::Entries { entries, .. } => entries.to_vec(),
        }
    }
}
