//! Grading of the globals of a pickle.

use super::report::Grade;
use crate::container::pth::is_allowed;

/// Modules that run commands, load code, open connections or change files.
const MODULES: [&str; 44] = [
    "_io",
    "_osx_support",
    "_pickle",
    "_posixsubprocess",
    "_thread",
    "aiohttp",
    "asyncio",
    "bdb",
    "cloudpickle",
    "code",
    "codeop",
    "commands",
    "ctypes",
    "dill",
    "distutils",
    "doctest",
    "ftplib",
    "httplib",
    "imp",
    "importlib",
    "io",
    "joblib",
    "marshal",
    "multiprocessing",
    "nt",
    "ntpath",
    "os",
    "pdb",
    "pickle",
    "pip",
    "pkgutil",
    "posix",
    "pty",
    "requests",
    "runpy",
    "shutil",
    "socket",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "types",
    "urllib",
    "webbrowser",
];

/// Names in other modules that do so.
const NAMES: [(&str, &[&str]); 9] = [
    ("builtins", BUILTINS),
    ("__builtin__", BUILTINS),
    ("cProfile", &["run", "runctx"]),
    ("functools", &["partial", "reduce"]),
    ("operator", &["attrgetter", "itemgetter", "methodcaller"]),
    ("profile", &["run", "runctx"]),
    ("timeit", &["main", "repeat", "timeit"]),
    ("torch", &["load", "compile"]),
    ("torch.hub", &["load", "load_state_dict_from_url", "download_url_to_file"]),
];

const BUILTINS: &[&str] = &[
    "__import__",
    "apply",
    "breakpoint",
    "compile",
    "delattr",
    "eval",
    "exec",
    "execfile",
    "file",
    "getattr",
    "globals",
    "input",
    "locals",
    "open",
    "setattr",
    "vars",
];

pub(super) fn grade(module: &str, name: &str, script: bool) -> Grade {
    if is_allowed(module, name, script) {
        return Grade::Data;
    }
    let package = module.split('.').next().unwrap_or_default();
    let listed = NAMES.iter().any(|(known, names)| *known == module && names.contains(&name));
    // From protocol 4 on a name may be a path of attributes: `os.system` of any module that imports `os`.
    let inner = name.split('.').collect::<Vec<_>>();
    let leads_there = inner.len() > 1 && inner.iter().any(|part| MODULES.contains(part) || BUILTINS.contains(part));
    if MODULES.contains(&package) || listed || leads_there { Grade::RunsCode } else { Grade::Unknown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_graded_by_their_effect() {
        for (module, name) in [
            ("os", "system"),
            ("builtins", "eval"),
            ("urllib.request", "urlopen"),
            ("torch.serialization", "os.system"),
        ] {
            assert_eq!(grade(module, name, false), Grade::RunsCode, "{module}.{name}");
        }
        for (module, name) in [("torch.nn.modules.linear", "Linear"), ("mymodel", "Net"), ("__torch__.Net", "Net")] {
            assert_eq!(grade(module, name, false), Grade::Unknown, "{module}.{name}");
        }
        assert_eq!(grade("collections", "OrderedDict", false), Grade::Data);
        assert_eq!(grade("__torch__", "Net", true), Grade::Data);
    }

    #[test]
    fn a_conversion_accepts_no_name_that_runs_code() {
        for (module, names) in NAMES {
            for name in names {
                assert!(!is_allowed(module, name, false) && !is_allowed(module, name, true), "{module}.{name}");
            }
        }
    }
}
