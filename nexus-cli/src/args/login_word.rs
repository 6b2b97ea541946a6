//! The word for a login on a command line.

use std::ffi::OsStr;

use clap::{
    Arg, Command, Error, ValueEnum as _,
    builder::{EnumValueParser, PossibleValue, TypedValueParser},
    error::ErrorKind,
};

use super::login::Login;

/// Takes the logins of Nexus's own, and tells who looks for Claude's here where it is.
#[derive(Clone, Debug)]
pub(super) struct LoginWord;

impl TypedValueParser for LoginWord {
    type Value = Login;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, word: &OsStr) -> Result<Login, Error> {
        if word.eq_ignore_ascii_case("claude") {
            // Claude's own commands are called as these are.
            let told = format!("Claude keeps its own login: run `claude auth {}`", command.get_name());
            return Err(command.clone().error(ErrorKind::InvalidValue, told));
        }
        EnumValueParser::new().parse_ref(command, argument, word)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Login::value_variants().iter().filter_map(Login::to_possible_value)))
    }
}
