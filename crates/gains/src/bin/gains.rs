//! The program `gains`: everything is in the library of the same name.

/// Rows and boxes come and go by the thousand; this takes a tenth off the time of most methods.
#[cfg(feature = "allocator")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    gains::run(std::env::args_os()).into()
}
