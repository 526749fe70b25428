//! A folder with a folder of PNG pictures for every class.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use png::{BitDepth, ColorType, Decoder, DecodingError, Limits, Transformations};

use super::array::first_line;
use super::{Fault, Label, MOST_ENTRIES, Numbers, OwnError, OwnInputs, has_ending, unreadable};
use crate::bounded::read_file;

/// Bytes of a picture in its file.
const LARGEST_PICTURE: u64 = 64 << 20;
/// Bytes of a picture as it comes out.
const MOST_BYTES: usize = 128 << 20;

/// Reads all pictures: classes in the order of their names, and the pictures of each.
pub(super) fn read(folder: &Path) -> Result<OwnInputs, OwnError> {
    let (mut values, mut labels, mut classes) = (Vec::new(), Vec::new(), Vec::new());
    let mut shape: Option<Vec<usize>> = None;
    for class in sorted(folder, Path::is_dir)? {
        let pictures = sorted(&class, |path| has_ending(path, "png"))?;
        let name = class.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for path in pictures {
            let bytes = read_file(&path, LARGEST_PICTURE).map_err(|e| unreadable(&path, e))?;
            let wrong =
                |problem: String| OwnError::new(folder, Fault::Picture { path: path.clone(), problem });
            let axes = picture(&bytes, &mut values).map_err(wrong)?;
            let first = shape.get_or_insert_with(|| axes.clone());
            if *first != axes {
                let problem = format!("it is {}, those before are {}", size(&axes), size(first));
                return Err(wrong(problem));
            }
            if values.len() > MOST_ENTRIES {
                return Err(OwnError::new(folder, Fault::TooMany));
            }
            labels.push(Label::Number(classes.len() as f64));
        }
        classes.push(name);
    }
    if labels.is_empty() {
        return Err(OwnError::new(folder, Fault::NoPictures));
    }
    Ok(OwnInputs {
        samples: labels.len(),
        shape: shape.unwrap_or_default(),
        values,
        numbers: Numbers::Pixels,
        columns: None,
        labels: Some(labels),
        classes: Some(classes),
    })
}

fn size(axes: &[usize]) -> String {
    axes.iter().map(ToString::to_string).collect::<Vec<_>>().join("x")
}

/// What of a folder is wanted, in the order of names as text; what is hidden is not.
fn sorted(folder: &Path, is_wanted: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>, OwnError> {
    let entries = fs::read_dir(folder).map_err(|e| unreadable(folder, e))?;
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| unreadable(folder, e))?;
        let (path, is_hidden) = (entry.path(), entry.file_name().as_encoded_bytes().starts_with(b"."));
        if !is_hidden && is_wanted(&path) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Appends the intensities of a picture, from 0 to 255, the channels of a pixel side by side; gives height, width and
/// channels.
pub(super) fn picture(bytes: &[u8], values: &mut Vec<f64>) -> Result<Vec<usize>, String> {
    let wrong = |error: DecodingError| first_line(&error.to_string());
    let mut decoder = Decoder::new_with_limits(Cursor::new(bytes), Limits { bytes: MOST_BYTES });
    // Palettes, few bits and transparent colours become plain channels.
    decoder.set_transformations(Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(wrong)?;
    let (height, width) = (reader.info().height as usize, reader.info().width as usize);
    let size = reader.output_buffer_size().filter(|size| *size <= MOST_BYTES);
    let mut buffer = vec![0; size.ok_or_else(|| format!("it is {width} times {height} pixels large"))?];
    let frame = reader.next_frame(&mut buffer).map_err(wrong)?;
    let samples: Vec<f64> = match frame.bit_depth {
        BitDepth::Eight => buffer.iter().map(|value| f64::from(*value)).collect(),
        // 65535 is 255 times 257, so that both depths end at 255.
        BitDepth::Sixteen => {
            let deep = |two: &[u8]| f64::from(u16::from_be_bytes([two[0], two[1]])) / 257.0;
            buffer.chunks_exact(2).map(deep).collect()
        }
        other => return Err(format!("it has a depth of {other:?} bits")),
    };
    let (channels, has_alpha) = match frame.color_type {
        ColorType::Grayscale => (1, false),
        ColorType::GrayscaleAlpha => (1, true),
        ColorType::Rgb => (3, false),
        ColorType::Rgba => (3, true),
        ColorType::Indexed => return Err("its colours are not told".into()),
    };
    if !has_alpha {
        values.extend(samples);
        return Ok(vec![height, width, channels]);
    }
    for pixel in samples.chunks_exact(channels + 1) {
        if pixel[channels] != 255.0 {
            return Err("it is transparent in places".into());
        }
        values.extend(&pixel[..channels]);
    }
    Ok(vec![height, width, channels])
}
