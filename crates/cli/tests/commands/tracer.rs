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
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Longer than any of these commands takes.
const PATIENCE: Duration = Duration::from_secs(60);

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
}

impl Kind {
    pub const ALL: [Self; 12] = [
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
    ];

    fn of(number: u64) -> Option<Self> {
        Some(match number {
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
            _ => return None,
        })
    }
}

/// The injected fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Error(Errno),
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
    pub calls: BTreeMap<Kind, usize>,
    /// Whether it exceeded the time limit.
    pub is_stuck: bool,
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
    let mut tracer = Tracer { injection, calls: BTreeMap::new(), is_armed: false, results: HashMap::new() };
    ptrace::syscall(main, None).unwrap();
    let code = loop {
        let status = match waitpid(None, Some(flags)) {
            Ok(status) => status,
            Err(Errno::EINTR) => continue,
            Err(_) => break None,
        };
        let (thread, signal) = match status {
            WaitStatus::Exited(pid, code) if pid == main => break Some(code),
            WaitStatus::Signaled(pid, ..) if pid == main => break None,
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
    Some(Traced { code, calls: tracer.calls, is_stuck })
}

struct Tracer {
    injection: Option<Injection>,
    calls: BTreeMap<Kind, usize>,
    is_armed: bool,
    /// The injected return values of calls in progress, by thread.
    results: HashMap<Pid, i64>,
}

impl Tracer {
    fn call(&mut self, thread: Pid) -> nix::Result<()> {
        const ENTRY: u8 = 1;
        if ptrace::syscall_info(thread)?.op != ENTRY {
            if let Some(result) = self.results.remove(&thread) {
                let mut registers = ptrace::getregs(thread)?;
                registers.rax = result as u64;
                ptrace::setregs(thread, registers)?;
            }
            return Ok(());
        }
        let mut registers = ptrace::getregs(thread)?;
        let Some(kind) = Kind::of(registers.orig_rax) else { return Ok(()) };
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
        let Some(injection) = self.injection.filter(|wanted| wanted.kind == kind && wanted.number == number) else {
            return Ok(());
        };
        match injection.fault {
            Fault::Error(error) => {
                registers.orig_rax = u64::MAX;
                self.results.insert(thread, -i64::from(error as i32));
            }
            Fault::Short => match registers.orig_rax {
                // The number of bytes is the third argument, or the fifth.
                0 | 1 | 17 | 18 => registers.rdx = registers.rdx.div_ceil(2),
                326 => registers.r8 = registers.r8.div_ceil(2),
                _ => {}
            },
        }
        ptrace::setregs(thread, registers)
    }
}
