//! The numeric core of `gains`: network descriptions and their file format, affine maps, activations
//! and their relaxations, boxes, rows of linear bounds, and the rounding model they all share.
//!
//! No input or output, no threads, no solver: those live in the crates above.

pub mod activation;
pub mod affine;
pub mod arithmetic;
pub mod description;
pub mod import;
pub mod interval;
pub mod kernels;
pub mod latent_ode;
pub mod model_file;
pub mod network;
pub mod relaxation;
pub mod row_block;
pub mod rows;
pub mod series_encoder;
pub mod shape;
pub mod widen;

pub use activation::Activation;
pub use affine::AffineMap;
pub use arithmetic::{Arithmetic, Precision};
pub use description::Description;
pub use interval::{BoxVec, Interval};
pub use latent_ode::LatentOde;
pub use model_file::ModelError;
pub use network::{Block, Layer, Network, OdeBlock, Stack};
pub use relaxation::{LowerSlope, Relaxation};
pub use row_block::RowBlock;
pub use rows::Rows;
pub use series_encoder::SeriesEncoder;
pub use shape::{Shape, Window};
pub use widen::{WidenError, widen};
