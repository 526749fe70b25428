//! The kernels on the processor: the very same source, compiled by a C++ compiler.
//!
//! What a driver would take on trust is checked: kinds and number of arguments, that addresses lie in memory that is there, that
//! nothing is written beside it, and that threads meet at the same barriers. Memory that nothing was written to is full of
//! numbers that are none.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fmt::Write;
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};

use super::launcher::{Argument, Launcher};
use super::source::{PARTS, source};
use crate::cpu::Real;
use crate::device::DeviceError;

/// Bytes in front of and behind all memory.
const MARGIN: usize = 256;
const BLANK: u8 = 0xff;

type Entry = unsafe extern "C" fn(*const u32, i32, *const *const c_void, *const i32) -> i32;

/// A processor that takes itself for a device.
#[derive(Clone)]
pub(in crate::program) struct Emulated {
    library: Arc<libloading::Library>,
    live: Arc<Mutex<BTreeMap<u64, usize>>>,
}

/// Some memory.
#[derive(Default)]
pub(in crate::program) struct Bytes {
    /// With margins, in words so that it lies as well as that of a device.
    words: Mutex<Vec<u64>>,
    bytes: usize,
    address: u64,
    live: Option<Arc<Mutex<BTreeMap<u64, usize>>>>,
}

impl Drop for Bytes {
    fn drop(&mut self) {
        let Some(live) = &self.live else { return };
        live.lock().unwrap().remove(&self.address);
        let words = self.words.lock().unwrap();
        let end = MARGIN + self.bytes;
        let intact = words.iter().flat_map(|word| word.to_ne_bytes()).enumerate();
        let mut outside = intact.filter(|(at, _)| !(MARGIN..end).contains(at));
        assert!(outside.all(|(_, byte)| byte == BLANK), "a kernel wrote beside its memory");
    }
}

/// The source as a C++ compiler takes it.
fn translation<F: Real>() -> String {
    let mut text = include_str!("emulation.h").to_string();
    for (number, part) in PARTS.iter().enumerate() {
        let _ = writeln!(text, "namespace part{number} {{\n{}", source::<F>(number));
        for kernel in part.kernels {
            // A name made by a macro has no such line, and no barrier.
            let meets = part.text.contains(&format!("BLOCK_KERNEL {kernel}("));
            let _ = writeln!(
                text,
                "extern \"C\" int emulate_{kernel}(const unsigned* blocks, int count, void** arguments, const int* kinds) \
                 {{ return check_and_launch({kernel}, blocks, {meets}, count, arguments, kinds); }}"
            );
        }
        text += "}\n";
    }
    text
}

/// Compiles the kernels; none where there is no C++ compiler.
fn compile<F: Real>() -> Option<Arc<libloading::Library>> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    if Command::new(&compiler).arg("--version").output().is_err() {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("kernels.cpp"), folder.path().join("kernels.so"));
    std::fs::write(&from, translation::<F>()).unwrap();
    let flags = ["-std=c++17", "-O1", "-w", "-shared", "-fPIC", "-ffp-contract=off", "-U_FORTIFY_SOURCE"];
    let output = Command::new(&compiler).args(flags).arg(&from).arg("-o").arg(&to).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // SAFETY: the library has just been made and has no constructors but those of C++'s own.
    Some(Arc::new(unsafe { libloading::Library::new(&to) }.unwrap()))
}

impl Emulated {
    /// The kernels for values in `F`; none where there is no C++ compiler, and then it says that the test was skipped.
    pub(in crate::program) fn new<F: Real>() -> Option<Self> {
        static SINGLE: OnceLock<Option<Arc<libloading::Library>>> = OnceLock::new();
        static DOUBLE: OnceLock<Option<Arc<libloading::Library>>> = OnceLock::new();
        let compiled = if size_of::<F>() == 4 { &SINGLE } else { &DOUBLE };
        let library = compiled.get_or_init(compile::<F>).clone();
        if library.is_none() {
            eprintln!("skipped: there is no C++ compiler on this machine");
        }
        Some(Self { library: library?, live: Arc::default() })
    }

    /// Whether an address lies in memory that is there.
    fn is_good(&self, address: u64) -> bool {
        let live = self.live.lock().unwrap();
        address == 0
            || live.range(..=address).next_back().is_some_and(|(start, len)| address < start + *len as u64)
    }
}

fn kind(argument: &Argument) -> i32 {
    match argument {
        Argument::Address(_) => 0,
        Argument::Int(_) => 1,
        Argument::Number(_) => 2,
        Argument::Places(_) => 3,
        Argument::Factors(_) => 4,
    }
}

impl Launcher for Emulated {
    type Memory = Bytes;

    fn name(&self) -> String {
        "emulated".into()
    }

    fn allocate(&self, bytes: usize) -> Result<Bytes, DeviceError> {
        let words = vec![u64::from_ne_bytes([BLANK; 8]); (bytes + 2 * MARGIN).div_ceil(8)];
        let address = words.as_ptr() as u64 + MARGIN as u64;
        self.live.lock().unwrap().insert(address, bytes.max(1));
        Ok(Bytes { words: Mutex::new(words), bytes, address, live: Some(self.live.clone()) })
    }

    fn address(&self, memory: &Bytes) -> u64 {
        memory.address
    }

    fn clear(&self, memory: &Bytes, bytes: usize) -> Result<(), DeviceError> {
        self.write(memory, &vec![0; bytes])
    }

    fn write(&self, memory: &Bytes, bytes: &[u8]) -> Result<(), DeviceError> {
        assert!(bytes.len() <= memory.bytes);
        let _held = memory.words.lock().unwrap();
        // SAFETY: the memory is there and long enough.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), memory.address as *mut u8, bytes.len()) };
        Ok(())
    }

    fn read(&self, memory: &Bytes, bytes: &mut [u8]) -> Result<(), DeviceError> {
        assert!(bytes.len() <= memory.bytes);
        let _held = memory.words.lock().unwrap();
        // SAFETY: as above.
        unsafe {
            std::ptr::copy_nonoverlapping(memory.address as *const u8, bytes.as_mut_ptr(), bytes.len());
        }
        Ok(())
    }

    unsafe fn launch(
        &self,
        kernel: &'static str,
        blocks: [u32; 3],
        arguments: &[Argument],
    ) -> Result<(), DeviceError> {
        for argument in arguments {
            match argument {
                Argument::Address(address) => assert!(self.is_good(*address), "{kernel}: {argument:?}"),
                Argument::Places(all) => {
                    assert!(all.iter().all(|address| self.is_good(*address)), "{kernel}: {argument:?}");
                }
                _ => {}
            }
        }
        let kinds: Vec<i32> = arguments.iter().map(kind).collect();
        let values: Vec<*const c_void> = arguments.iter().map(Argument::value).collect();
        // SAFETY: the function was made with this signature.
        let entry = unsafe { self.library.get::<Entry>(format!("emulate_{kernel}").as_bytes()) }.unwrap();
        // SAFETY: the arguments are compared with those of the kernel, addresses have been looked at.
        let outcome = unsafe { entry(blocks.as_ptr(), kinds.len() as i32, values.as_ptr(), kinds.as_ptr()) };
        assert_ne!(outcome, 1, "{kernel} takes other arguments than {arguments:?}");
        assert_eq!(outcome, 0, "threads of {kernel} do not meet");
        Ok(())
    }
}
