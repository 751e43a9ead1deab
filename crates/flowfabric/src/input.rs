//! Bytes that a command is given: by argument, file or standard input.

use std::io::Read;

use crate::failure::Failure;

/// Reads a text, `@file`, or `-` for standard input, as it was given with this option.
pub(crate) fn read(option: &str, input: &str) -> Result<Vec<u8>, Failure> {
    if input == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    match input.strip_prefix('@') {
        Some(path) => {
            std::fs::read(path).map_err(|error| format!("{option} {path}: {error}").into())
        }
        None => Ok(input.as_bytes().to_vec()),
    }
}

/// How [`read`] is told of what may only be a file or standard input.
pub(crate) fn of_file(file: &str) -> String {
    if file == "-" { file.to_owned() } else { format!("@{file}") }
}
