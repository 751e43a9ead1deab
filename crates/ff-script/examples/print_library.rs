//! Prints the assembled library: `cargo run -p ff-script --example print_library > library.lua`.

fn main() {
    print!("{}", ff_script::library::Library::current().source);
}
