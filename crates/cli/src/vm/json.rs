//! What `candor vm` prints.

use candor_vm::clean::{Kind, Piece, Stale};
use candor_vm::kernel::{Available, Cached, Kernel};

use crate::json::{objects, words};

objects! {
    /// A folder of the cache.
    "cache" of "vm cache" for Piece as it {
        /// What it holds
        kind;
        /// The kernel that it belongs to, as far as that is known
        of = it.name;
        /// Its size in bytes
        bytes = it.size;
        /// Why it cannot be used any more; null if it can
        stale;
        /// The folder
        folder;
    }

    /// A folder that was removed from the cache, or with --dry-run would be.
    "removed" of "vm clean" for Removed<'_> as it {
        /// What it holds
        kind = it.0.kind;
        /// The kernel that it belongs to, as far as that is known
        of = it.0.name;
        /// Its size in bytes
        bytes = it.0.size;
        /// Why it could not be used any more; null if it could
        stale = it.0.stale;
        /// The folder
        folder = it.0.folder;
    }

    /// A kernel that is in the cache now.
    "kernel" of "vm fetch" for Kernel as it {
        /// What asks for it, such as 6.12-rt
        kernel = it.name;
        /// The release, such as 6.12.117+deb13-rt-amd64
        release;
        /// Debian's packages and their version; null for an own build
        package;
        /// The suite of Debian that it came from; null for an own build
        suite;
        /// The file with the image
        image;
        /// The folder with the modules
        modules;
        /// The file with the addresses of its functions; null if there is none
        system_map;
        /// The checksum of its image and modules
        sha256;
    }

    /// A kernel that Debian has: the newest of its series and flavour, or any with --all.
    "available" of "vm kernels" for Available as it {
        /// What asks for it, such as 6.12-rt
        kernel = it.spec().to_string();
        /// The series, such as 6.12
        series;
        /// Whether it is built with PREEMPT_RT
        is_rt;
        /// The release, such as 6.12.117+deb13-rt-amd64
        release;
        /// The version of its packages, such as 6.12.117-1
        version;
        /// The suite of Debian, such as trixie-security
        suite;
        /// The size of its packages in bytes
        download_bytes = it.size;
    }

    /// A kernel in the cache.
    "cached" of "vm kernels" for Cached as it {
        /// What asks for it, such as 6.12-rt
        kernel = it.name;
        /// The release, such as 6.12.117+deb13-rt-amd64; null if it is damaged
        release = it.kernel.as_ref().ok().map(|it| &it.release);
        /// Debian's packages and their version; null for an own build, or if it is damaged
        package = it.kernel.as_ref().ok().and_then(|it| it.package.as_ref());
        /// The suite of Debian that it came from; null for an own build, or if it is damaged
        suite = it.kernel.as_ref().ok().and_then(|it| it.suite.as_ref());
        /// Its size in bytes
        bytes = it.size;
        /// The checksum of its image and modules; null if it is damaged
        sha256 = it.kernel.as_ref().ok().map(|it| &it.sha256);
        /// The folder of the kernel
        folder;
        /// What is wrong with it; null if it is sound
        damage = it.kernel.as_ref().err().map(ToString::to_string);
    }
}

words! {
    Kind {}
    Stale {}
}

/// A folder that was removed.
pub(crate) struct Removed<'a>(pub(crate) &'a Piece);
