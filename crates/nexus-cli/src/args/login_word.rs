//! The word for a login on a command line.

use std::ffi::OsStr;

use clap::{
    Arg, Command, Error,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
    error::ErrorKind,
};
use nexus::{OwnLogin, login, logins, vendors};

/// Takes the logins of Nexus's own. Of a vendor whose program keeps its own login, the error names the command for it.
#[derive(Clone, Debug)]
pub(super) struct LoginWord;

impl TypedValueParser for LoginWord {
    type Value = OwnLogin;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, word: &OsStr) -> Result<OwnLogin, Error> {
        // A vendor whose program owns its login gets that advice, not the list of valid words.
        let named = vendors().iter().find(|vendor| word.eq_ignore_ascii_case(vendor.name()));
        if let Some((vendor, program)) = named.and_then(|vendor| Some((vendor, vendor.program_login()?))) {
            let action = command.get_name();
            let told = format!("{} manages its own login: run `{program} {action}`", vendor.name());
            return Err(command.clone().error(ErrorKind::InvalidValue, told));
        }
        let word = PossibleValuesParser::new(words()).parse_ref(command, argument, word)?;
        login(&word).map_err(|error| command.clone().error(ErrorKind::InvalidValue, error.to_string()))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(words()))
    }
}

fn words() -> impl Iterator<Item = PossibleValue> {
    logins().map(|login| PossibleValue::new(login.as_str()).help(login.plan()))
}
