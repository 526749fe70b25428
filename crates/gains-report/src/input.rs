//! What samples look like: small pictures that go into the page.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// How the channels of an image are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channels {
    /// One value per pixel.
    Grey,
    /// Red, green and blue beside each other.
    Colour,
}

impl Channels {
    fn count(self) -> usize {
        match self {
            Self::Grey => 1,
            Self::Colour => 3,
        }
    }

    fn png(self) -> png::ColorType {
        match self {
            Self::Grey => png::ColorType::Grayscale,
            Self::Colour => png::ColorType::Rgb,
        }
    }
}

/// One sample, as the network takes it.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// An image: rows, columns, channels; 0 to 1.
    Image {
        /// Data set and part it is from, as result files name them.
        source: (String, String),
        /// Its number there.
        index: usize,
        /// Rows.
        height: usize,
        /// Columns.
        width: usize,
        /// Layout.
        channels: Channels,
        /// The values.
        values: Vec<f64>,
    },
    /// A series, as observed.
    Series {
        /// Data set and part it is from, as result files name them.
        source: (String, String),
        /// Its number there.
        index: usize,
        /// Names of the features.
        features: Vec<String>,
        /// Times.
        times: Vec<f64>,
        /// Row by row, one entry per feature for each time; nothing where nothing was observed.
        values: Vec<Option<f64>>,
    },
    /// A row of a table.
    Features {
        /// Data set and part it is from, as result files name them.
        source: (String, String),
        /// Its number there.
        index: usize,
        /// Names of the columns.
        names: Vec<String>,
        /// The values.
        values: Vec<f64>,
    },
}

impl Input {
    /// Data set, part and number.
    pub fn key(&self) -> (&str, &str, usize) {
        match self {
            Self::Image { source, index, .. }
            | Self::Series { source, index, .. }
            | Self::Features { source, index, .. } => (&source.0, &source.1, *index),
        }
    }
}

/// The longest side of a thumbnail; larger images are averaged down.
const SIDE: usize = 64;

/// An image as a `data:` address; nothing if the sizes do not fit.
pub fn image_address(height: usize, width: usize, channels: Channels, values: &[f64]) -> Option<String> {
    let n = channels.count();
    if height == 0 || width == 0 || height.checked_mul(width)?.checked_mul(n)? != values.len() {
        return None;
    }
    let step = height.max(width).div_ceil(SIDE);
    let (rows, columns) = (height.div_ceil(step), width.div_ceil(step));
    let mut bytes = Vec::with_capacity(rows * columns * n);
    for row in 0..rows {
        for column in 0..columns {
            for channel in 0..n {
                let (mut sum, mut count) = (0.0, 0.0);
                for y in row * step..((row + 1) * step).min(height) {
                    for x in column * step..((column + 1) * step).min(width) {
                        sum += values[(y * width + x) * n + channel];
                        count += 1.0;
                    }
                }
                bytes.push(byte(sum / count));
            }
        }
    }
    png_address(rows, columns, channels.png(), &bytes)
}

/// Where a witness is brighter (red) and darker (blue) than the image, full colour at the largest difference.
pub fn difference_address(
    height: usize,
    width: usize,
    channels: Channels,
    from: &[f64],
    to: &[f64],
) -> Option<String> {
    let n = channels.count();
    if height == 0
        || width == 0
        || from.len() != to.len()
        || height.checked_mul(width)?.checked_mul(n)? != to.len()
    {
        return None;
    }
    let mean = |pixel: usize| {
        let of = |values: &[f64]| values[pixel * n..(pixel + 1) * n].iter().sum::<f64>() / n as f64;
        of(to) - of(from)
    };
    let changes: Vec<f64> = (0..height * width).map(mean).collect();
    let most = changes.iter().fold(0.0_f64, |most, change| most.max(change.abs())).max(f64::MIN_POSITIVE);
    let bytes: Vec<u8> = changes
        .iter()
        .flat_map(|change| {
            let faint = byte(1.0 - (change / most).abs());
            if *change >= 0.0 { [byte(1.0), faint, faint] } else { [faint, faint, byte(1.0)] }
        })
        .collect();
    png_address(height, width, png::ColorType::Rgb, &bytes)
}

fn byte(value: f64) -> u8 {
    // NaN becomes 0.
    (value.clamp(0.0, 1.0) * 255.0).round() as u8
}

fn png_address(height: usize, width: usize, colour: png::ColorType, bytes: &[u8]) -> Option<String> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, u32::try_from(width).ok()?, u32::try_from(height).ok()?);
    encoder.set_color(colour);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Balanced);
    let mut writer = encoder.write_header().ok()?;
    writer.write_image_data(bytes).ok()?;
    writer.finish().ok()?;
    Some(format!("data:image/png;base64,{}", STANDARD.encode(&file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(address: &str) -> (u32, u32, Vec<u8>) {
        let bytes = STANDARD.decode(address.strip_prefix("data:image/png;base64,").unwrap()).unwrap();
        let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        pixels.truncate(info.buffer_size());
        (info.width, info.height, pixels)
    }

    #[test]
    fn an_image_keeps_its_pixels() {
        let address = image_address(2, 3, Channels::Grey, &[0.0, 0.5, 1.0, 2.0, -1.0, f64::NAN]).unwrap();
        assert_eq!(decode(&address), (3, 2, vec![0, 128, 255, 255, 0, 0]));
        assert_eq!(image_address(2, 2, Channels::Colour, &[0.0; 4]), None);
        assert_eq!(image_address(usize::MAX, 2, Channels::Grey, &[0.0; 4]), None);
    }

    #[test]
    fn a_large_image_is_averaged() {
        let values: Vec<f64> = (0..128 * 128).map(|i| f64::from(i % 2)).collect();
        let (width, height, pixels) = decode(&image_address(128, 128, Channels::Grey, &values).unwrap());
        assert_eq!((width, height), (64, 64));
        assert!(pixels.iter().all(|pixel| *pixel == 128));
    }

    #[test]
    fn differences_are_red_upwards_and_blue_downwards() {
        let address = difference_address(1, 3, Channels::Grey, &[0.5, 0.5, 0.5], &[0.6, 0.5, 0.4]).unwrap();
        let pixels = decode(&address).2;
        assert_eq!((pixels[0], pixels[2]), (255, 0));
        assert_eq!(pixels[3..6], [255; 3]);
        assert_eq!((pixels[6], pixels[8]), (0, 255));
    }
}
