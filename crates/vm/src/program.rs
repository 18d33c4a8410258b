//! The files that a program of this machine needs to run in a guest: itself, the loader it names,
//! and the shared libraries that the loader will look for.
//!
//! ```text
//!  program -- PT_INTERP --> loader
//!      +-- DT_NEEDED --> library -- DT_NEEDED --> library ...
//!          looked for in: DT_RPATH, LD_LIBRARY_PATH, DT_RUNPATH, the loader's folders, ld.so.conf
//! ```
//!
//! What a program opens by itself while it runs (plug-ins, locales, configuration) is not found.

use std::collections::{BTreeMap, VecDeque};
use std::env;
use std::fs;
use std::path::{Component, Path, PathBuf};

use candor_protocol::order::File;
use object::LittleEndian;
use object::elf;
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _};

use crate::Error;

type Header = elf::FileHeader64<LittleEndian>;

/// Where loaders look without being told to.
const FOLDERS: &[&str] = &[
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];
/// Where the loader of this machine is told of further folders.
const CONFIGURATION: &str = "/etc/ld.so.conf";
/// More libraries than any program has.
const MAX_FILES: usize = 1000;

/// The files that `program` needs, itself first. In a guest they lie where the loader will look.
///
/// # Errors
/// If it, or something that it needs, is not there or not for x86-64.
pub fn files(program: &Path) -> Result<Vec<File>, Error> {
    files_of(&[program.to_owned()])
}

/// The same of several: a program, and libraries that it opens while it runs.
///
/// # Errors
/// As those of [`files`].
pub(crate) fn files_of(programs: &[PathBuf]) -> Result<Vec<File>, Error> {
    let places = Places {
        given: env::var_os("LD_LIBRARY_PATH")
            .map(|path| env::split_paths(&path).filter(|path| path.is_absolute()).collect())
            .unwrap_or_default(),
        default: FOLDERS.iter().map(PathBuf::from).filter(|folder| folder.is_dir()).collect(),
        configured: configured(Path::new(CONFIGURATION)),
    };
    collect(programs, &places)
}

/// Where libraries are looked for, besides where the files themselves say.
#[derive(Default)]
struct Places {
    given: Vec<PathBuf>,
    default: Vec<PathBuf>,
    configured: Vec<PathBuf>,
}

/// A file that is needed.
struct Object {
    /// Where it is here, without links.
    here: PathBuf,
    /// Where it will be in the guest.
    there: PathBuf,
    /// Folders of the programs and libraries that need it and that say so with DT_RPATH.
    inherited: Vec<Folder>,
}

/// A folder to look into: where it is here, and in the guest.
type Folder = (PathBuf, PathBuf);

fn first(program: &PathBuf) -> Result<Object, Error> {
    let read = |error| Error::read(program, error);
    let here = program.canonicalize().map_err(read)?;
    let there = normal(&std::path::absolute(program).map_err(read)?);
    Ok(Object { here, there, inherited: Vec::new() })
}

fn collect(programs: &[PathBuf], places: &Places) -> Result<Vec<File>, Error> {
    let mut files: Vec<File> = Vec::new();
    // What is needed by its name, and in which place it is found; a name is looked for once.
    let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut queue = programs.iter().map(first).collect::<Result<VecDeque<_>, _>>()?;
    while let Some(object) = queue.pop_front() {
        let contents = fs::read(&object.here).map_err(|error| Error::read(&object.here, error))?;
        let needs = Needs::from_file(&object.here, &contents)?;
        if files.len() >= MAX_FILES {
            return Err(Error::Other(format!(
                "{} needs more than {MAX_FILES} files; link it statically",
                programs.first().map_or(Path::new(""), PathBuf::as_path).display()
            )));
        }
        files.push(File { path: text(&object.there)?, is_executable: true, contents });
        if let Some(loader) = needs.loader.as_ref().filter(|loader| !found.contains_key(*loader)) {
            let there = PathBuf::from(loader);
            let here = there.canonicalize().map_err(|_| lacks(&object, loader))?;
            found.insert(loader.clone(), there.clone());
            // A library may need the loader by its name alone.
            if let Some(name) = there.file_name().and_then(|name| name.to_str()) {
                found.insert(name.to_owned(), there.clone());
            }
            queue.push_back(Object { here, there, inherited: Vec::new() });
        }
        let own = |paths: &[String]| {
            paths.iter().filter_map(|path| object.expand(path)).collect::<Vec<_>>()
        };
        // DT_RPATH counts only without DT_RUNPATH, then also that of all who need this one.
        let (run, old) = match needs.run_path.as_slice() {
            [] => (Vec::new(), own(&needs.old_path)),
            paths => (own(paths), Vec::new()),
        };
        let inherited = [old, object.inherited.clone()].concat();
        let above = if needs.run_path.is_empty() { inherited.as_slice() } else { &[] };
        for name in &needs.libraries {
            if found.contains_key(name) {
                continue;
            }
            let (here, there) =
                locate(name, above, &run, places).ok_or_else(|| lacks(&object, name))?;
            found.insert(name.clone(), there.clone());
            queue.push_back(Object { here, there, inherited: inherited.clone() });
        }
    }
    Ok(files)
}

/// Where a library is, here and in the guest.
fn locate(name: &str, above: &[Folder], run: &[Folder], places: &Places) -> Option<Folder> {
    if name.contains('/') {
        let there = PathBuf::from(name);
        return Some((fits(&there)?, there));
    }
    // In the guest nobody tells the loader of the folders of this machine: what is found in them is
    // put where it looks anyway.
    let home = places.default.first();
    let same = |folder: &PathBuf| (folder.clone(), folder.clone());
    let moved = |folder: &PathBuf| (folder.clone(), home.unwrap_or(folder).clone());
    let folders = above
        .iter()
        .cloned()
        .chain(places.given.iter().map(moved))
        .chain(run.iter().cloned())
        .chain(places.default.iter().map(same))
        .chain(places.configured.iter().map(moved));
    folders
        .into_iter()
        .find_map(|(here, there)| Some((fits(&here.join(name))?, normal(&there.join(name)))))
}

/// The file behind `path` if it is one for x86-64; loaders pass over others too.
fn fits(path: &Path) -> Option<PathBuf> {
    let contents = fs::read(path).ok()?;
    Needs::from_file(path, &contents).ok()?;
    path.canonicalize().ok()
}

fn lacks(object: &Object, name: &str) -> Error {
    Error::Other(format!(
        "{} needs {name}, which is not on this machine; install its package, name its folder with \
         LD_LIBRARY_PATH, or link the program statically",
        object.here.display()
    ))
}

fn text(path: &Path) -> Result<String, Error> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Error::Other(format!("the name of {} is not UTF-8; rename it", path.display()))
    })
}

impl Object {
    /// A path of DT_RPATH or DT_RUNPATH. Relative ones depend on where a program is started.
    fn expand(&self, path: &str) -> Option<Folder> {
        let folder = |object: &Path| {
            let origin = object.parent().and_then(Path::to_str).unwrap_or_default();
            let path = path
                .replace("${ORIGIN}", origin)
                .replace("$ORIGIN", origin)
                .replace("${LIB}", "lib/x86_64-linux-gnu")
                .replace("$LIB", "lib/x86_64-linux-gnu")
                .replace("${PLATFORM}", "x86_64")
                .replace("$PLATFORM", "x86_64");
            PathBuf::from(path)
        };
        let (here, there) = (folder(&self.here), normal(&folder(&self.there)));
        (here.is_absolute() && there.is_absolute()).then_some((here, there))
    }
}

/// Without `.` and `..`: there are no links in the guest.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// The folders that a configuration of the loader names, and those files that it includes.
fn configured(file: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let own = fs::read_to_string(file).unwrap_or_default();
    for line in own.lines().map(str::trim) {
        let Some(pattern) = line.strip_prefix("include ") else {
            folders.extend(folder_line(line));
            continue;
        };
        // As distributions write it: `include ld.so.conf.d/*.conf`.
        let Some((folder, ending)) = pattern.trim().rsplit_once("/*") else { continue };
        let folder = file.parent().unwrap_or(Path::new("/")).join(folder);
        let mut files: Vec<_> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.to_string_lossy().ends_with(ending))
            .collect();
        files.sort();
        for file in files {
            let text = fs::read_to_string(file).unwrap_or_default();
            folders.extend(text.lines().filter_map(folder_line));
        }
    }
    folders
}

fn folder_line(line: &str) -> Option<PathBuf> {
    let line = line.split('#').next()?.trim();
    line.starts_with('/').then(|| PathBuf::from(line))
}

/// What a file needs to be run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Needs {
    loader: Option<String>,
    libraries: Vec<String>,
    /// DT_RPATH.
    old_path: Vec<String>,
    /// DT_RUNPATH.
    run_path: Vec<String>,
}

impl Needs {
    /// From `bytes`, which were read from `path`.
    fn from_file(path: &Path, bytes: &[u8]) -> Result<Self, Error> {
        let refuse = |reason: &str| {
            Error::Other(format!(
                "{} is not a program for x86-64 Linux: {reason}; name one, such as the \
                 interpreter of a script",
                path.display()
            ))
        };
        if bytes.starts_with(b"#!") {
            return Err(refuse("it is a script"));
        }
        Self::parse(bytes).map_err(refuse)
    }

    fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        const CUT: &str = "its ELF headers are damaged";
        let endian = LittleEndian;
        if !bytes.starts_with(&elf::ELFMAG) {
            return Err("it is not an ELF file");
        }
        if bytes.get(4..6).is_some_and(|kind| kind != [elf::ELFCLASS64, elf::ELFDATA2LSB]) {
            return Err("it is for another processor");
        }
        let header = Header::parse(bytes).map_err(|_| CUT)?;
        if header.e_machine(endian) != elf::EM_X86_64 {
            return Err("it is for another processor");
        }
        if ![elf::ET_EXEC, elf::ET_DYN].contains(&header.e_type(endian)) {
            return Err("it is an object file that is not linked");
        }
        let segments = header.program_headers(endian, bytes).map_err(|_| CUT)?;
        let word = |text: &[u8]| String::from_utf8(text.to_vec()).map_err(|_| CUT);
        let mut needs = Self::default();
        for segment in segments {
            if let Some(loader) = segment.interpreter(endian, bytes).map_err(|_| CUT)? {
                needs.loader = Some(word(loader)?);
            }
            let Some(entries) = segment.dynamic(endian, bytes).map_err(|_| CUT)? else { continue };
            let entries: Vec<_> = entries
                .iter()
                .map(|entry| (entry.tag(endian), entry.val(endian)))
                .take_while(|(tag, _)| *tag != elf::DT_NULL)
                .collect();
            let value =
                |tag: i64| entries.iter().find(|(other, _)| *other == tag).map(|(_, value)| *value);
            let strings = match (value(elf::DT_STRTAB), value(elf::DT_STRSZ)) {
                (Some(address), Some(size)) => segments
                    .iter()
                    .filter(|segment| segment.p_type(endian) == elf::PT_LOAD)
                    .find_map(|load| load.data_range(endian, bytes, address, size).ok().flatten())
                    .ok_or(CUT)?,
                _ => &[],
            };
            let string = |at: u64| {
                let rest = strings.get(usize::try_from(at).map_err(|_| CUT)?..).ok_or(CUT)?;
                word(rest.split(|&byte| byte == 0).next().unwrap_or_default())
            };
            for (tag, at) in &entries {
                let paths = |text: String| {
                    text.split(':').filter(|path| !path.is_empty()).map(str::to_owned).collect()
                };
                match *tag {
                    elf::DT_NEEDED => needs.libraries.push(string(*at)?),
                    elf::DT_RPATH => needs.old_path = paths(string(*at)?),
                    elf::DT_RUNPATH => needs.run_path = paths(string(*at)?),
                    _ => {}
                }
            }
        }
        Ok(needs)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A program or library of nothing but what it needs: one segment with everything, DYNAMIC and,
    /// if there is a loader, INTERP.
    fn fabricated(loader: Option<&str>, needed: &[&str], paths: &[(i64, &str)]) -> Vec<u8> {
        let mut strings = vec![0u8];
        let mut entries: Vec<(i64, u64)> = Vec::new();
        let needed = needed.iter().map(|name| (elf::DT_NEEDED, *name));
        for (tag, text) in needed.chain(paths.iter().copied()) {
            entries.push((tag, strings.len() as u64));
            strings.extend(text.as_bytes());
            strings.push(0);
        }
        let loader = loader.map(|loader| format!("{loader}\0"));
        let segments = 2 + u16::from(loader.is_some());
        let strings_at = 64 + 56 * u64::from(segments);
        let loader_at = strings_at + strings.len() as u64;
        let loader_len = loader.as_ref().map_or(0, String::len) as u64;
        let dynamic_at = (loader_at + loader_len).next_multiple_of(8);
        entries.push((elf::DT_STRTAB, strings_at));
        entries.push((elf::DT_STRSZ, strings.len() as u64));
        entries.push((elf::DT_NULL, 0));
        let end = dynamic_at + 16 * entries.len() as u64;

        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(16, 0);
        for half in [3u16, 62] {
            bytes.extend(half.to_le_bytes());
        }
        bytes.extend(1u32.to_le_bytes());
        for address in [0u64, 64, 0] {
            bytes.extend(address.to_le_bytes());
        }
        bytes.extend(0u32.to_le_bytes());
        for half in [64u16, 56, segments, 64, 0, 0] {
            bytes.extend(half.to_le_bytes());
        }
        let mut segment = |kind: u32, from: u64, size: u64| {
            bytes.extend(kind.to_le_bytes());
            bytes.extend(4u32.to_le_bytes());
            for value in [from, from, from, size, size, 8] {
                bytes.extend(value.to_le_bytes());
            }
        };
        segment(1, 0, end);
        segment(2, dynamic_at, 16 * entries.len() as u64);
        if loader.is_some() {
            segment(3, loader_at, loader_len);
        }
        bytes.extend(strings);
        bytes.extend(loader.unwrap_or_default().as_bytes());
        bytes.resize(dynamic_at as usize, 0);
        for (tag, value) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(value.to_le_bytes());
        }
        bytes
    }

    /// A folder with such files, and the places in it.
    struct World {
        folder: tempfile::TempDir,
        places: Places,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| vec![folder.path().join(name)];
            let places =
                Places { given: at("given"), default: at("lib"), configured: at("configured") };
            Self { folder, places }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn add(&self, name: &str, bytes: &[u8]) {
            let path = self.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }

        /// The paths in the guest, without the folder of this world.
        fn files(&self, program: &str) -> Result<Vec<String>, String> {
            let root = format!("{}/", self.folder.path().display());
            let files = collect(&[self.path(program)], &self.places).map_err(|e| e.to_string())?;
            Ok(files.iter().map(|file| file.path.replace(&root, "")).collect())
        }
    }

    #[test]
    fn libraries_come_with_what_they_need() {
        let world = World::new();
        let loader = world.path("lib64/ld.so");
        let loader = loader.to_str().unwrap();
        world.add("lib64/ld.so", &fabricated(None, &[], &[]));
        world.add("bin/a", &fabricated(Some(loader), &["libone.so", "libc.so"], &[]));
        world.add("lib/libone.so", &fabricated(None, &["libtwo.so", "libc.so"], &[]));
        world.add("lib/libtwo.so", &fabricated(None, &["libc.so", "ld.so"], &[]));
        world.add("lib/libc.so", &fabricated(Some(loader), &["ld.so"], &[]));
        world.add("bin/static", &fabricated(None, &[], &[]));
        let expected = ["bin/a", "lib64/ld.so", "lib/libone.so", "lib/libc.so", "lib/libtwo.so"];
        assert_eq!(world.files("bin/a").unwrap(), expected);
        assert_eq!(world.files("bin/static").unwrap(), ["bin/static"]);
        // A link keeps its name.
        symlink("static", world.path("bin/link")).unwrap();
        assert_eq!(world.files("bin/link").unwrap(), ["bin/link"]);
        let file = &collect(&[world.path("bin/static")], &world.places).unwrap()[0];
        assert!(file.is_executable && file.contents == fabricated(None, &[], &[]));
    }

    #[test]
    fn folders_are_searched_in_the_loaders_order() {
        let world = World::new();
        let paths = [(elf::DT_RPATH, "$ORIGIN/../old"), (elf::DT_RUNPATH, "${ORIGIN}/../run:rel")];
        world.add("bin/old", &fabricated(None, &["libx.so"], &paths[..1]));
        world.add("bin/run", &fabricated(None, &["libx.so"], &paths));
        let library = fabricated(None, &[], &[]);
        // From the last place to the first. What the guest's loader is not told of goes to `lib`.
        for (place, old, run) in [
            ("configured", "lib", "lib"),
            ("lib", "lib", "lib"),
            ("run", "lib", "run"),
            ("given", "lib", "lib"),
            ("old", "old", "lib"),
        ] {
            world.add(&format!("{place}/libx.so"), &library);
            for (program, folder) in [("bin/old", old), ("bin/run", run)] {
                let expected = [program.to_owned(), format!("{folder}/libx.so")];
                assert_eq!(world.files(program).unwrap(), expected, "{place}");
            }
        }
    }

    #[test]
    fn the_old_path_is_inherited_and_the_new_one_is_not() {
        let world = World::new();
        for (tag, answer) in [(elf::DT_RPATH, true), (elf::DT_RUNPATH, false)] {
            world.add("bin/a", &fabricated(None, &["libx.so"], &[(tag, "$ORIGIN/../own")]));
            world.add("own/libx.so", &fabricated(None, &["liby.so"], &[]));
            world.add("own/liby.so", &fabricated(None, &[], &[]));
            assert_eq!(world.files("bin/a").is_ok(), answer);
        }
    }

    #[test]
    fn files_for_other_processors_are_passed_over() {
        let world = World::new();
        let mut other = fabricated(None, &[], &[]);
        other[18] = 183;
        world.add("bin/a", &fabricated(None, &["libx.so"], &[]));
        world.add("told/libx.so", &other);
        let message = world.files("bin/a").unwrap_err();
        assert!(message.contains("bin/a needs libx.so, which is not on this machine"), "{message}");
        world.add("lib/libx.so", &fabricated(None, &[], &[]));
        assert_eq!(world.files("bin/a").unwrap(), ["bin/a", "lib/libx.so"]);
    }

    #[test]
    fn what_cannot_be_run_is_refused_with_its_reason() {
        let world = World::new();
        let with = |at: usize, value: u8| {
            let mut bytes = fabricated(None, &["libx.so"], &[]);
            bytes[at] = value;
            bytes
        };
        let gone = fabricated(Some("/no/such/ld.so"), &[], &[]);
        let cases: [(Vec<u8>, &str); 10] = [
            (Vec::new(), "it is not an ELF file"),
            (b"hello".to_vec(), "it is not an ELF file"),
            (b"#!/bin/sh\n".to_vec(), "it is a script"),
            (b"\x7fELF".to_vec(), "its ELF headers are damaged"),
            (with(18, 183), "it is for another processor"),
            (with(4, 1), "it is for another processor"),
            (with(5, 2), "it is for another processor"),
            (with(16, 1), "an object file that is not linked"),
            (with(32, 0xFF), "its ELF headers are damaged"),
            (gone, "needs /no/such/ld.so, which is not on this machine"),
        ];
        for (bytes, reason) in cases {
            world.add("bin/a", &bytes);
            let message = world.files("bin/a").unwrap_err();
            assert!(message.contains(reason), "{message}");
        }
        let message = world.files("bin/gone").unwrap_err();
        assert!(message.contains("bin/gone cannot be read"), "{message}");
    }

    #[test]
    fn damaged_headers_never_panic() {
        let whole = fabricated(Some("/lib64/ld.so"), &["libx.so"], &[(elf::DT_RUNPATH, "/x")]);
        assert!(Needs::parse(&whole).is_ok());
        for length in 0..whole.len() {
            let _ = Needs::parse(&whole[..length]);
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7F, 0x80, 0xFF] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let _ = Needs::parse(&bytes);
            }
        }
    }

    #[test]
    fn the_loaders_configuration_is_read() {
        let world = World::new();
        world.add("ld.so.conf", b"include parts/*.conf\n/last # a comment\n# /none\n");
        world.add("parts/b.conf", b"/b\n");
        world.add("parts/a.conf", b"# x\n/a\n\n/a/2\n");
        world.add("parts/c.txt", b"/c\n");
        let folders = configured(&world.path("ld.so.conf"));
        assert_eq!(folders, ["/a", "/a/2", "/b", "/last"].map(PathBuf::from));
        assert!(configured(&world.path("gone")).is_empty());
    }

    #[test]
    fn a_program_of_this_machine_is_found_whole() {
        // This test itself: it needs a loader and libc, or it is static.
        let program = env::current_exe().unwrap();
        let files = files(&program).unwrap();
        assert_eq!(files[0].contents, fs::read(&program).unwrap());
        let needs = Needs::from_file(&program, &files[0].contents).unwrap();
        let is_there = |name: &String| files.iter().any(|file| file.path.ends_with(name.as_str()));
        assert!(needs.libraries.iter().chain(&needs.loader).all(is_there));
    }
}
