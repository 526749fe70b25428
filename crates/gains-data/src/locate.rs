//! Where the data directory is.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::DataError;

/// The data directory: `data_dir` if the user gave one, else the variable
/// `GAINS_DATA`, else the platform's place for application data.
///
/// `variable` looks up an environment variable; a program passes
/// `|name| std::env::var_os(name)`. It is an argument so that nothing in this
/// crate depends on the state of the process. Variables that are set but empty
/// count as unset.
///
/// | platform | place |
/// |---|---|
/// | Linux and others | `$XDG_DATA_HOME/gains`, else `~/.local/share/gains` |
/// | macOS | `~/Library/Application Support/gains` |
/// | Windows | `%LOCALAPPDATA%\gains` |
///
/// The directory need not exist.
///
/// # Errors
///
/// [`DataError::NoDataDir`] when nothing above is set.
pub fn locate(
    data_dir: Option<&Path>,
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<PathBuf, DataError> {
    let path_in = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = data_dir {
        return Ok(path.to_owned());
    }
    if let Some(path) = path_in("GAINS_DATA") {
        return Ok(path);
    }
    let application_data = if cfg!(windows) {
        path_in("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        path_in("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        // The XDG base directory specification: relative paths are to be ignored.
        path_in("XDG_DATA_HOME")
            .filter(|path| path.is_absolute())
            .or_else(|| path_in("HOME").map(|home| home.join(".local/share")))
    };
    application_data.map(|path| path.join("gains")).ok_or(DataError::NoDataDir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> impl Fn(&str) -> Option<OsString> {
        move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| OsString::from(value))
    }

    #[test]
    fn the_option_beats_the_variable() {
        let env = with(&[("GAINS_DATA", "/variable")]);
        assert_eq!(locate(Some(Path::new("/option")), &env).unwrap(), Path::new("/option"));
        assert_eq!(locate(None, &env).unwrap(), Path::new("/variable"));
    }

    #[test]
    #[cfg(all(unix, not(target_os = "macos")))]
    fn the_platform_place_follows_xdg() {
        let home = ("HOME", "/home/ada");
        let place = |pairs: &[(&str, &str)]| locate(None, with(pairs)).unwrap();
        assert_eq!(place(&[home, ("XDG_DATA_HOME", "/xdg")]), Path::new("/xdg/gains"));
        for xdg in ["", "relative"] {
            assert_eq!(
                place(&[home, ("XDG_DATA_HOME", xdg), ("GAINS_DATA", "")]),
                Path::new("/home/ada/.local/share/gains")
            );
        }
    }

    #[test]
    fn with_nothing_set_it_says_so() {
        let error = locate(None, with(&[])).unwrap_err();
        assert!(matches!(error, DataError::NoDataDir));
        assert!(error.hint().contains("--data-dir"));
    }
}
