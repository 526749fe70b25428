//! The numeric core of `gains`: network descriptions and their file format, affine maps, activations
//! and their relaxations, boxes, rows of linear bounds, and the rounding model they all share.
//!
//! No input or output, no threads, no solver: those live in the crates above.

pub mod activation;
pub mod affine;
pub mod affine_form;
pub mod arithmetic;
pub mod dag;
pub mod description;
pub mod import;
pub mod interval;
pub mod kernels;
pub mod latent_ode;
pub mod model_file;
pub mod network;
pub mod operator;
pub mod program;
pub mod relaxation;
pub mod row_block;
pub mod rows;
pub mod series_encoder;
pub mod shape;
pub mod smooth;
pub mod support;
pub mod widen;

pub use activation::Activation;
pub use affine::AffineMap;
pub use affine_form::AffineForm;
pub use arithmetic::{Arithmetic, Precision};
pub use description::Description;
pub use interval::{BoxVec, Interval};
pub use latent_ode::LatentOde;
pub use model_file::ModelError;
pub use network::Network;
pub use operator::{Known, Operator};
pub use program::{Circuit, Ode, OdeBlock, Program, Step};
pub use relaxation::{LowerSlope, Relaxation};
pub use row_block::RowBlock;
pub use rows::Rows;
pub use series_encoder::SeriesEncoder;
pub use shape::{Shape, Window};
pub use support::Support;
pub use widen::{WidenError, widen};
