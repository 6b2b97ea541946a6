//! Names of modules by which a new file shadows an import of a Python test runner.

/// Modules of Python's standard library, without those whose names begin with `_`. Source: `sys.stdlib_module_names` of 3.11, with the
/// additions of 3.14.
const LIBRARY: &str = "\
abc aifc annotationlib antigravity argparse array ast asynchat asyncio asyncore atexit audioop base64 bdb binascii \
bisect builtins bz2 cProfile calendar cgi cgitb chunk cmath cmd code codecs codeop collections colorsys compileall \
compression concurrent configparser contextlib contextvars copy copyreg crypt csv ctypes curses dataclasses datetime \
dbm decimal difflib dis distutils doctest email encodings ensurepip enum errno faulthandler fcntl filecmp fileinput \
fnmatch fractions ftplib functools gc genericpath getopt getpass gettext glob graphlib grp gzip hashlib heapq hmac \
html http idlelib imaplib imghdr imp importlib inspect io ipaddress itertools json keyword lib2to3 linecache locale \
logging lzma mailbox mailcap marshal math mimetypes mmap modulefinder msilib msvcrt multiprocessing netrc nis nntplib \
nt ntpath nturl2path numbers opcode operator optparse os ossaudiodev pathlib pdb pickle pickletools pipes pkgutil \
platform plistlib poplib posix posixpath pprint profile pstats pty pwd py_compile pyclbr pydoc pydoc_data pyexpat \
queue quopri random re readline reprlib resource rlcompleter runpy sched secrets select selectors shelve shlex shutil \
signal site smtpd smtplib sndhdr socket socketserver spwd sqlite3 sre_compile sre_constants sre_parse ssl stat \
statistics string stringprep struct subprocess sunau symtable sys sysconfig syslog tabnanny tarfile telnetlib tempfile \
termios textwrap this threading time timeit tkinter token tokenize tomllib trace traceback tracemalloc tty turtle \
turtledemo types typing unicodedata unittest urllib uu uuid venv warnings wave weakref webbrowser winreg winsound \
wsgiref xdrlib xml xmlrpc zipapp zipfile zipimport zlib zoneinfo";

/// Test runners, and their first imports. Source: the runners' own requirements.
const RUNNERS: &[&str] = &[
    "_pytest",
    "behave",
    "coverage",
    "hypothesis",
    "iniconfig",
    "mock",
    "nose",
    "nose2",
    "nox",
    "packaging",
    "pluggy",
    "pytest",
    "pytest_asyncio",
    "pytest_cov",
    "pytest_mock",
    "setuptools",
    "pip",
    "robot",
    "testtools",
    "tox",
    "trial",
    "twisted",
    "unittest2",
    "xdist",
    "zope",
];

/// Returns true if a new module of this name in an import folder shadows a module that a test runner imports.
pub(super) fn is_of_runner(name: &str) -> bool {
    // Names that begin with `_` belong to the library or to a runner.
    name.starts_with('_') && name != "__main__" && name != "__init__"
        || RUNNERS.contains(&name)
        || LIBRARY.split_whitespace().any(|known| known == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_and_runners_are_known_and_no_other_names() {
        for name in ["unittest", "json", "cProfile", "_thread", "_pytest", "pluggy", "abc", "zoneinfo"] {
            assert!(is_of_runner(name), "{name}");
        }
        for name in ["calc", "", "Unit", "unittests", "__main__", "app"] {
            assert!(!is_of_runner(name), "{name}");
        }
    }
}
