//! Names the shared library by its interface, so that programs find the one they were linked with.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libvca.so.0");
}
