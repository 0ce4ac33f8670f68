//! Runs a command under ptrace with one of its system calls failing, from any library and thread.
//!
//! Calls are counted from the first with a relative path; earlier ones belong to the loader.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

use std::collections::{BTreeMap, HashMap};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc::user_regs_struct;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Longer than any of these commands takes.
const PATIENCE: Duration = Duration::from_secs(60);

const BRK: u64 = 12;

/// Kinds of system calls, and their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Open,
    Read,
    Write,
    Sync,
    Size,
    Rename,
    Link,
    Make,
    Remove,
    Look,
    List,
    Lock,
    /// A file mapped into memory.
    Map,
    /// Memory from the system.
    Memory,
    Thread,
}

impl Kind {
    pub const ALL: [Self; 15] = [
        Self::Open,
        Self::Read,
        Self::Write,
        Self::Sync,
        Self::Size,
        Self::Rename,
        Self::Link,
        Self::Make,
        Self::Remove,
        Self::Look,
        Self::List,
        Self::Lock,
        Self::Map,
        Self::Memory,
        Self::Thread,
    ];

    fn of(registers: &user_regs_struct) -> Option<Self> {
        const MAP_ANONYMOUS: u64 = 0x20;
        Some(match registers.orig_rax {
            // open, creat, openat, openat2
            2 | 85 | 257 | 437 => Self::Open,
            // read, pread64, readv, preadv
            0 | 17 | 19 | 295 => Self::Read,
            // write, pwrite64, writev, pwritev, copy_file_range, sendfile
            1 | 18 | 20 | 296 | 326 | 40 => Self::Write,
            // fsync, fdatasync
            74 | 75 => Self::Sync,
            // ftruncate, fallocate
            77 | 285 => Self::Size,
            // rename, renameat, renameat2
            82 | 264 | 316 => Self::Rename,
            // link, linkat
            86 | 265 => Self::Link,
            // mkdir, mkdirat
            83 | 258 => Self::Make,
            // unlink, unlinkat, rmdir
            87 | 263 | 84 => Self::Remove,
            // stat, fstat, lstat, newfstatat, statx
            4 | 5 | 6 | 262 | 332 => Self::Look,
            // getdents64
            217 => Self::List,
            // flock
            73 => Self::Lock,
            // mmap
            9 if registers.r10 & MAP_ANONYMOUS == 0 => Self::Map,
            // mmap, brk, mremap
            9 | BRK | 25 => Self::Memory,
            // clone, clone3
            56 | 435 => Self::Thread,
            _ => return None,
        })
    }
}

/// The injected fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Error(Errno),
    /// This call and all later ones of its kind, except those on standard streams.
    Lasting(Errno),
    /// The process is killed before the call.
    Kill,
    /// Half of the bytes, at least one.
    Short,
}

/// The index of the failing call of a kind, from zero, and the fault.
#[derive(Debug, Clone, Copy)]
pub struct Injection {
    pub kind: Kind,
    pub number: usize,
    pub fault: Fault,
}

/// The result of a run.
#[derive(Debug)]
pub struct Traced {
    /// `None` if it was killed.
    pub code: Option<i32>,
    pub signal: Option<Signal>,
    pub calls: BTreeMap<Kind, usize>,
    /// Whether it exceeded the time limit.
    pub is_stuck: bool,
    /// Whether the failing call was on standard output or standard error.
    pub is_on_stream: bool,
}

/// Runs a command; `None` if the system does not allow tracing.
pub fn run(mut command: Command, injection: Option<Injection>) -> Option<Traced> {
    command.stdin(Stdio::null());
    // SAFETY: the call between fork and exec is a plain system call.
    unsafe { command.pre_exec(|| Ok(ptrace::traceme()?)) };
    let child = command.spawn().ok()?;
    let main = Pid::from_raw(i32::try_from(child.id()).unwrap());
    let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
    let first = waitpid(main, Some(flags)).unwrap();
    if !matches!(first, WaitStatus::Stopped(_, Signal::SIGTRAP)) {
        return None;
    }
    ptrace::setoptions(
        main,
        Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_EXITKILL,
    )
    .unwrap();
    let (ended, watched) = mpsc::channel::<()>();
    let watchdog = std::thread::spawn(move || {
        let is_stuck = watched.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout);
        if is_stuck {
            let _ = kill(main, Signal::SIGKILL);
        }
        is_stuck
    });
    let mut tracer =
        Tracer { injection, calls: BTreeMap::new(), is_armed: false, results: HashMap::new(), is_on_stream: false };
    ptrace::syscall(main, None).unwrap();
    let mut killed_by = None;
    let code = loop {
        let status = match waitpid(None, Some(flags)) {
            Ok(status) => status,
            Err(Errno::EINTR) => continue,
            Err(_) => break None,
        };
        let (thread, signal) = match status {
            WaitStatus::Exited(pid, code) if pid == main => break Some(code),
            WaitStatus::Signaled(pid, signal, _) if pid == main => {
                killed_by = Some(signal);
                break None;
            }
            WaitStatus::PtraceSyscall(pid) => {
                // The thread may have exited already.
                let _ = tracer.call(pid);
                (pid, None)
            }
            // The initial stop of a traced thread.
            WaitStatus::Stopped(pid, Signal::SIGSTOP | Signal::SIGTRAP) => (pid, None),
            WaitStatus::Stopped(pid, signal) => (pid, Some(signal)),
            WaitStatus::PtraceEvent(pid, ..) => (pid, None),
            _ => continue,
        };
        let _ = ptrace::syscall(thread, signal);
    };
    drop(ended);
    let is_stuck = watchdog.join().unwrap();
    // Reaped above.
    drop(child);
    Some(Traced { code, signal: killed_by, calls: tracer.calls, is_stuck, is_on_stream: tracer.is_on_stream })
}

struct Tracer {
    injection: Option<Injection>,
    calls: BTreeMap<Kind, usize>,
    is_armed: bool,
    /// The registers before injected calls in progress, and the injected return values, by thread.
    results: HashMap<Pid, (user_regs_struct, Option<i64>)>,
    is_on_stream: bool,
}

impl Tracer {
    fn call(&mut self, thread: Pid) -> nix::Result<()> {
        const ENTRY: u8 = 1;
        if ptrace::syscall_info(thread)?.op != ENTRY {
            if let Some((before, result)) = self.results.remove(&thread) {
                let mut registers = ptrace::getregs(thread)?;
                // The kernel keeps the arguments in their registers, and so the caller expects them there.
                (registers.rdi, registers.rdx, registers.r8) = (before.rdi, before.rdx, before.r8);
                registers.rax = result.map_or(registers.rax, |result| result as u64);
                ptrace::setregs(thread, registers)?;
            }
            return Ok(());
        }
        let mut registers = ptrace::getregs(thread)?;
        let Some(kind) = Kind::of(&registers) else { return Ok(()) };
        if !self.is_armed {
            let path = match registers.orig_rax {
                257 | 262 | 332 => registers.rsi,
                _ => return Ok(()),
            };
            let word = ptrace::read(thread, path as ptrace::AddressType)?;
            let byte = word as u8;
            self.is_armed = byte != b'/' && byte != 0;
            if !self.is_armed {
                return Ok(());
            }
        }
        let count = self.calls.entry(kind).or_default();
        let number = *count;
        *count += 1;
        let is_on_stream = matches!(kind, Kind::Read | Kind::Write | Kind::Sync) && registers.rdi <= 2;
        let is_hit = |wanted: &Injection| match wanted.fault {
            Fault::Lasting(_) => number >= wanted.number && !is_on_stream,
            _ => number == wanted.number,
        };
        let Some(injection) = self.injection.filter(|wanted| wanted.kind == kind && is_hit(wanted)) else {
            return Ok(());
        };
        self.is_on_stream |= is_on_stream;
        let before = registers;
        let mut result = None;
        match injection.fault {
            Fault::Kill => return kill(thread, Signal::SIGKILL),
            // It never fails: it returns the end of the heap, unchanged if there is no memory.
            Fault::Error(_) | Fault::Lasting(_) if registers.orig_rax == BRK => registers.rdi = 0,
            Fault::Error(error) | Fault::Lasting(error) => {
                registers.orig_rax = u64::MAX;
                result = Some(-i64::from(error as i32));
            }
            Fault::Short => match registers.orig_rax {
                // The number of bytes is the third argument, or the fifth.
                0 | 1 | 17 | 18 => registers.rdx = registers.rdx.div_ceil(2),
                326 => registers.r8 = registers.r8.div_ceil(2),
                _ => {}
            },
        }
        self.results.insert(thread, (before, result));
        ptrace::setregs(thread, registers)
    }
}
