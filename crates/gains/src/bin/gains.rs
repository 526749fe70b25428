//! The program `gains`: everything is in the library of the same name.

fn main() -> std::process::ExitCode {
    gains::run(std::env::args_os()).into()
}
