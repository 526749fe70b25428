//! Data sets for the verifier and the trainer: images, and series in [`series`].
//!
//! Three sets of images are known: MNIST, Fashion-MNIST and CIFAR-10. [`Images::load`]
//! reads one split of a set from the data directory, [`Images::bundled`] gives
//! a hundred images that are part of the program, and [`fetch`] downloads a
//! set from its official place.
//!
//! ```
//! let sample = gains_data::Images::bundled();
//! assert_eq!(sample.len(), 100);
//! assert_eq!(sample.image(0).len(), 28 * 28);
//! assert_eq!(sample.class_name(sample.label(0)), Some("ankle boot"));
//! ```
//!
//! # The data directory
//!
//! ```text
//! mnist/          {train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz]
//! fashion-mnist/  {train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz]
//! cifar10/        {data_batch_1..5,test_batch}.bin
//!                 (or the same below cifar-10-batches-bin/)
//! ```
//!
//! [`locate`] decides where that directory is.
//!
//! # Trust
//!
//! A file on disk is input like any other. Loading checks every size the file
//! claims against the size the data set is known to have *before* it allocates,
//! so neither a forged header nor a gzip bomb can use up the memory. Files with
//! fewer images than the official split are accepted: a subset is a legitimate
//! thing to verify. Checksums are looked at only while fetching.

mod bounded;
mod cifar;
mod dataset;
mod download;
mod error;
mod fetch;
mod idx;
mod images;
mod layout;
mod locate;
mod origin;
pub mod own;
mod partial;
pub mod series;
mod transfer;
mod unpack;

pub use bounded::{open_file, read_bounded, read_file};
pub use dataset::{Dataset, Split};
pub use error::{Damage, DataError};
pub use fetch::{Fetch, FetchEvent, Fetched, OnEvent, fetch};
pub use images::Images;
pub use locate::locate;
pub use origin::{Origin, RemoteFile};
