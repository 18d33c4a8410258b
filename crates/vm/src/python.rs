//! A command that is a Python script: the interpreter, the script and every module that it imports, found by asking that
//! very interpreter.
//!
//! ```text
//!  #!/usr/bin/env python3      or python3 script.py
//!    +-- interpreter, as it names itself --> its libraries
//!    +-- what is imported when it imports what the script does, compiled, at the same places
//!    +-- extension modules --> their libraries
//! ```
//!
//! Modules beside the script come with it to the root of the guest; they are read and not run. What is imported by a name that
//! is made at run time, or by a function of another module, is not found.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use candor_protocol::order::File;

use crate::{Error, program};

/// What prints the files of a script.
const IMPORTS: &str = include_str!("python/imports.py");
/// The most that a guest takes: its files are in its memory.
const MAX_LEN: usize = 64 << 20;
/// Options of Python behind which another word is their value.
const WITH_VALUE: [&str; 3] = ["-W", "-X", "--check-hash-based-pycs"];

/// A script with everything that it needs in a guest.
#[derive(Clone, Debug)]
pub struct Script {
    /// The interpreter in the guest, its options, the script and its arguments.
    pub argv: Vec<String>,
    /// What must be there.
    pub files: Vec<File>,
    pub script: PathBuf,
}

/// A script in a command.
#[derive(Debug, PartialEq, Eq)]
struct ScriptCall {
    interpreter: PathBuf,
    options: Vec<String>,
    script: PathBuf,
    arguments: Vec<String>,
}

/// The files of a command whose program is a Python script, or a Python with a script; `None` if it is neither. `locate`
/// says where a script is that an argument names.
///
/// # Errors
/// The interpreter, the script, or a module that it imports is not there, or all together is too large.
pub fn script(
    program: &Path,
    arguments: &[&str],
    locate: impl Fn(&str) -> PathBuf,
) -> Result<Option<Script>, Error> {
    let Some(call) = call(program, arguments, locate)? else { return Ok(None) };
    fs::metadata(&call.script).map_err(|error| Error::read(&call.script, error))?;
    let printed = ask(&call)?;
    let found = parse(&printed).ok_or_else(|| {
        Error::Other(format!(
            "{} is not the interpreter of {}: it did not name its modules; name another one",
            call.interpreter.display(),
            call.script.display()
        ))
    })?;
    let mut programs = vec![PathBuf::from(&found.interpreter)];
    programs.extend(found.extensions.iter().map(PathBuf::from));
    let mut files = program::files_of(&programs)?;
    files.extend(found.files);
    let size: usize = files.iter().map(|file| file.contents.len()).sum();
    if size > MAX_LEN {
        return Err(Error::Other(format!(
            "{} needs {} MB of modules, more than the {} MB that a guest takes; import fewer of them",
            call.script.display(),
            size >> 20,
            MAX_LEN >> 20
        )));
    }
    let name = call.script.file_name().unwrap_or_default().to_string_lossy();
    let mut argv = vec![found.interpreter];
    argv.extend(call.options);
    argv.push(format!("/{name}"));
    argv.extend(call.arguments);
    Ok(Some(Script { argv, files, script: call.script }))
}

/// Which part of a command is what.
fn call(
    program: &Path,
    arguments: &[&str],
    locate: impl Fn(&str) -> PathBuf,
) -> Result<Option<ScriptCall>, Error> {
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    if program.file_name().is_some_and(is_python) {
        let mut place = 0;
        while let Some(option) = arguments.get(place).filter(|word| word.starts_with('-')) {
            place += if WITH_VALUE.contains(option) { 2 } else { 1 };
        }
        let options = arguments.get(..place).unwrap_or(arguments);
        let Some(name) = arguments.get(place).filter(|_| !options.iter().any(|it| is_code(it)))
        else {
            return Err(Error::Other(format!(
                "{} is a Python without a script; name the file of one behind it",
                program.display()
            )));
        };
        return Ok(Some(ScriptCall {
            interpreter: program.to_owned(),
            options: owned(options),
            script: locate(name),
            arguments: owned(arguments.get(place + 1..).unwrap_or_default()),
        }));
    }
    // What cannot be read is for who wants to run it.
    let start = fs::read(program).unwrap_or_default();
    let line = start.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let Some(line) = line.strip_prefix(b"#!") else { return Ok(None) };
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace().peekable();
    if words.peek().is_some_and(|word| Path::new(word).file_name() == Some(OsStr::new("env"))) {
        words.next();
        words.next_if_eq(&"-S");
    }
    let Some(interpreter) = words.next().map(PathBuf::from) else { return Ok(None) };
    Ok(interpreter.file_name().is_some_and(is_python).then(|| ScriptCall {
        interpreter: interpreter.clone(),
        options: words.map(str::to_owned).collect(),
        script: program.to_owned(),
        arguments: owned(arguments),
    }))
}

/// Whether a program is called as a Python is: `python`, `python3`, `python3.11`.
fn is_python(name: &OsStr) -> bool {
    let version = name.to_str().and_then(|name| name.strip_prefix("python"));
    version.is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

/// Whether an option takes the program from elsewhere than from a file.
fn is_code(option: &str) -> bool {
    ["-c", "-m"].iter().any(|code| option.starts_with(code))
}

/// What the interpreter says of the modules.
fn ask(call: &ScriptCall) -> Result<Vec<u8>, Error> {
    let ScriptCall { interpreter, script, .. } = call;
    let output = Command::new(interpreter).args(["-I", "-c", IMPORTS]).arg(script).output();
    let Output { status, stdout, stderr } = output.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::Other(format!(
            "{}, the interpreter of {}, is not on this machine; install it, or name another one",
            interpreter.display(),
            script.display()
        )),
        _ => Error::Io {
            path: interpreter.clone(),
            what: "cannot be started",
            source: error,
            remedy: "check the name and the permissions".into(),
        },
    })?;
    if status.success() {
        return Ok(stdout);
    }
    let said = String::from_utf8_lossy(&stderr);
    let last = said.trim().lines().last().unwrap_or("it says nothing").to_owned();
    Err(Error::Other(match status.code() {
        Some(1) if last.starts_with(&*script.display().to_string()) || last.starts_with('/') => {
            last
        }
        _ => format!(
            "{} cannot tell what {} imports: {last}; name a Python of version 3.8 or later",
            interpreter.display(),
            script.display()
        ),
    }))
}

/// What the interpreter found.
#[derive(Debug, Default)]
struct Found {
    interpreter: String,
    /// Extension modules, which need libraries.
    extensions: Vec<String>,
    files: Vec<File>,
}

/// Reads what [`IMPORTS`] prints; `None` if that is something else.
fn parse(mut rest: &[u8]) -> Option<Found> {
    let word = |rest: &mut &[u8]| {
        let end = rest.iter().position(|&byte| byte == 0)?;
        let (word, behind) = rest.split_at(end);
        *rest = behind.get(1..)?;
        String::from_utf8(word.to_vec()).ok()
    };
    let mut found = Found { interpreter: word(&mut rest)?, ..Found::default() };
    while !rest.is_empty() {
        let (place, size) = (word(&mut rest)?, word(&mut rest)?);
        if size.is_empty() {
            found.extensions.push(place);
            continue;
        }
        let (contents, behind) = rest.split_at_checked(size.parse().ok()?)?;
        rest = behind;
        let path = place.strip_prefix('.').unwrap_or(&place).to_owned();
        found.files.push(File { path, is_executable: false, contents: contents.to_vec() });
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(name: &str) -> PathBuf {
        Path::new("/files").join(name)
    }

    #[test]
    fn the_script_of_a_command_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let found = |program: &Path, arguments: &[&str]| call(program, arguments, here).unwrap();
        let by_env = at("a.py", "#!/usr/bin/env -S python3 -u\nimport os\n");
        let of = |interpreter: &str, options: &[&str], script: PathBuf, arguments: &[&str]| {
            let owned = |words: &[&str]| words.iter().map(|&it| it.to_owned()).collect();
            let (options, arguments) = (owned(options), owned(arguments));
            Some(ScriptCall { interpreter: interpreter.into(), options, script, arguments })
        };
        assert_eq!(found(&by_env, &["{in}"]), of("python3", &["-u"], by_env.clone(), &["{in}"]));
        let by_path = at("b.py", "#! /usr/bin/python3.11\n");
        assert_eq!(found(&by_path, &[]), of("/usr/bin/python3.11", &[], by_path.clone(), &[]));
        let python = Path::new("/usr/bin/python3");
        let arguments = ["-u", "-X", "dev", "gateway.py", "-o", "{out}"];
        let expected = of("/usr/bin/python3", &arguments[..3], here("gateway.py"), &arguments[4..]);
        assert_eq!(found(python, &arguments), expected);
        for other in [at("c", "#!/bin/sh\n"), at("d", "\x7fELF"), here("absent")] {
            assert_eq!(found(&other, &[]), None, "{}", other.display());
        }
        for arguments in [&[][..], &["-u"], &["-m", "gateway"], &["-c", "1", "x"], &["-X"]] {
            let error = call(python, arguments, here).unwrap_err().to_string();
            assert!(error.contains("is a Python without a script; name the file"), "{error}");
        }
    }

    #[test]
    fn what_is_printed_is_read_or_refused() {
        let whole = b"/bin/python\0/lib/a.py\x003\0a\0b./x/b.py\x000\0/lib/c.so\0\0";
        let found = parse(whole).unwrap();
        assert_eq!(
            (found.interpreter.as_str(), found.extensions.as_slice()),
            ("/bin/python", &["/lib/c.so".to_owned()][..])
        );
        let files: Vec<_> =
            found.files.iter().map(|it| (it.path.as_str(), &*it.contents)).collect();
        assert_eq!(files, [("/lib/a.py", &b"a\0b"[..]), ("/x/b.py", b"")]);
        for bytes in [&b"usage: python"[..], b"", b"/bin/python\0/lib/a.py\x009\0a", b"/p\0/a\0x\0"]
        {
            assert!(parse(bytes).is_none(), "{bytes:?}");
        }
    }

    #[test]
    fn a_script_comes_with_all_that_it_imports() {
        let folder = tempfile::tempdir().unwrap();
        let add = |name: &str, text: &str| {
            fs::create_dir_all(folder.path().join(name).parent().unwrap()).unwrap();
            fs::write(folder.path().join(name), text).unwrap();
        };
        add(
            "gateway.py",
            "#!/usr/bin/env python3\nimport socket, own.part\ntry:\n    import nothing\nexcept ImportError:\n    pass\n",
        );
        add("own/__init__.py", "");
        add("own/part.py", "import json\n");
        let program = folder.path().join("gateway.py");
        let found = script(&program, &["{in}"], here).unwrap().unwrap();
        assert_eq!(found.argv[1..], ["/gateway.py", "{in}"]);
        let has = |end: &str| found.files.iter().filter(|file| file.path.ends_with(end)).count();
        for end in [
            "/socket.py",
            "/json/__init__.py",
            "/os.py",
            "/encodings/__init__.py",
            "/encodings/utf_8.py",
        ] {
            assert_eq!(has(end), 1, "{end}");
        }
        for place in ["/gateway.py", "/own/__init__.py", "/own/part.py", &found.argv[0]] {
            assert_eq!(found.files.iter().filter(|file| file.path == place).count(), 1, "{place}");
        }
        assert!(found.files.iter().any(|it| it.path.starts_with("/own/__pycache__/part.")));
        assert!(found.files.iter().any(|it| it.path.contains("/libc.so")), "its libraries");
        assert_eq!(has("/tkinter/__init__.py") + has("/idlelib/__init__.py"), 0);
        assert_eq!(found.script, program);
        // The same every time, so that a result can be found again.
        let again = script(&program, &["{in}"], here).unwrap().unwrap();
        assert!(again.files == found.files);
    }

    #[test]
    fn what_is_not_there_is_named_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("gateway.py");
        for (text, parts) in [
            (
                "#!/usr/bin/env python3\nimport absent_module\n",
                ["needs `absent_module`, which", "install it there"],
            ),
            ("#!/usr/bin/env python3\nimport os\ndef x(:\n", ["gateway.py:3: ", "correct it"]),
            ("#!/no/such/python3\n", ["/no/such/python3, the interpreter of", "install it"]),
        ] {
            fs::write(&program, text).unwrap();
            let error = script(&program, &[], here).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
        let error = script(Path::new("/usr/bin/python3"), &["gone.py"], here).unwrap_err();
        assert!(error.to_string().contains("gone.py cannot be read"), "{error}");
    }
}
