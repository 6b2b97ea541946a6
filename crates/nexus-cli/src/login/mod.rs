//! `nexus login`: signs a person in, and reports where the login is stored.

mod screen;

use std::{process::ExitCode, sync::Arc, time::SystemTime};

use nexus::{
    BuildContext, OwnLogin,
    auth::{
        CredentialManager, DeviceFlow, LoginError, OAuthSignIn, SignInError, SignInMethod, store::StorePlace,
    },
};
use schemars::JsonSchema;
use serde::Serialize;

use self::screen::Screen;
use crate::{
    EXIT_FAILED,
    args::{LoginArgs, Method, StoreChoice},
    command_error::{CommandError, ErrorLine},
    interrupt::interrupted,
    login_report::LoginReport,
    output::{AnswerWriter, complain, printable, say, say_json},
    surroundings::Surroundings,
};

/// Event of `nexus login`.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum LoginEvent {
    /// The person opens a page in a browser.
    OpenPage {
        /// The page.
        url: String,
        /// Address of this machine that the browser is redirected to.
        returns_to: String,
        /// True if the command opens the page in a browser.
        starts_browser: bool,
    },
    /// The person enters a code on any device.
    EnterCode {
        /// The page where the person enters `user_code`.
        url: String,
        /// A page that already has the code, if the vendor offers one.
        complete_url: Option<String>,
        /// The code that the person enters.
        user_code: String,
        /// Lifetime of the code, in seconds.
        expires_in_seconds: u64,
        /// True if the command opens the page in a browser.
        starts_browser: bool,
    },
    /// A note for the person.
    Note {
        /// Text of the note.
        text: String,
    },
    /// The person is logged in.
    LoggedIn {
        /// The login.
        login: Box<LoginReport>,
    },
}

pub(crate) async fn login(out: AnswerWriter, args: &LoginArgs) -> Result<ExitCode, CommandError> {
    let name = args.login;
    let context = BuildContext::from_process();
    let is_set = |name: &str| context.environment.get(name).is_some_and(|value| !value.is_empty());
    if !is_set("NEXUS_HOME") && !is_set("HOME") {
        return Err(
            "neither NEXUS_HOME nor HOME is set, so there is no folder for the login: set one of them".into(),
        );
    }
    let surroundings = Surroundings::of(&context.environment);
    let sign_in = strategy(args, name, &context)?;
    let takes_codes = sign_in.issuer().device_flow != DeviceFlow::NotOffered;
    let (method, reason) = choose(args.method(), sign_in.method(), takes_codes, surroundings);
    let sign_in = sign_in.with_method(method);
    let sign_in = Arc::new(sign_in);
    let manager = match args.store {
        Some(wanted) => CredentialManager::at_home_in(sign_in, &context.home, place(wanted)?),
        None => CredentialManager::at_home(sign_in, &context.home),
    };
    let mut screen = Screen {
        login: name.as_str(),
        takes_codes,
        surroundings,
        starts_browsers: surroundings.shows_browsers() && !args.no_open,
        out,
    };
    if let Ok(Some(_)) = manager.look().await {
        screen.note("A login already exists. It remains until the new one is stored.");
    }
    if let Some(reason) = reason {
        screen.note(reason);
    }
    // Dropping the sign-in closes its port.
    let outcome = tokio::select! {
        outcome = manager.sign_in(&mut screen) => Some(outcome),
        Ok(()) = interrupted() => None,
    };
    match outcome {
        Some(Ok(login)) => {
            let report = LoginReport::logged_in(name, &login, manager.place());
            let print = || {
                say("");
                report.print(SystemTime::now());
                let used_by = name.used_by();
                say(format_args!(
                    "  {:<11} {used_by}, if the configuration names no other credential",
                    "used by"
                ));
            };
            out.event(|| LoginEvent::LoggedIn { login: Box::new(report.clone()) }, print);
            Ok(ExitCode::SUCCESS)
        }
        Some(Err(error)) => {
            let reason = printable(&error.to_string());
            match out.is_json() {
                true => say_json(&ErrorLine::new(kind(&error), reason)),
                false => complain(reason),
            }
            Ok(ExitCode::from(EXIT_FAILED))
        }
        None => {
            complain("given up");
            Err(CommandError::cancelled())
        }
    }
}

/// Chooses the sign-in method. Also returns the note to print if the choice differs from the usual one.
fn choose(
    asked: Method,
    usual: SignInMethod,
    takes_codes: bool,
    surroundings: Surroundings,
) -> (SignInMethod, Option<&'static str>) {
    match (asked, usual) {
        (Method::Browser, _) => (SignInMethod::Browser, None),
        (Method::Suitable, SignInMethod::Browser) if !takes_codes => (SignInMethod::Browser, None),
        (Method::Device, _) | (Method::Suitable, SignInMethod::DeviceCode) => {
            (SignInMethod::DeviceCode, None)
        }
        (Method::Suitable, SignInMethod::Browser) if surroundings.shows_browsers() => {
            (SignInMethod::Browser, None)
        }
        (Method::Suitable, SignInMethod::Browser) if surroundings.is_remote => (
            SignInMethod::DeviceCode,
            Some(
                "This is an SSH session, which the answer of a browser cannot reach: a code is used. To use \
                 a browser, forward a port and give --browser.",
            ),
        ),
        (Method::Suitable, SignInMethod::Browser) => (
            SignInMethod::DeviceCode,
            Some(
                "There is no display, so a code is used. With --browser an address is printed for a browser \
                  that can reach this machine.",
            ),
        ),
    }
}

/// Returns the vendor's sign-in, with the changes of the flags.
fn strategy(args: &LoginArgs, name: OwnLogin, context: &BuildContext) -> Result<OAuthSignIn, CommandError> {
    let sign_in = name.sign_in(context, &args.network.network()).map_err(|error| error.to_string())?;
    let mut issuer = sign_in.issuer().clone();
    if let Some(url) = &args.issuer {
        issuer = issuer.with_url(url);
    }
    if let Some(client_id) = &args.client_id {
        issuer = issuer.with_client_id(client_id);
    }
    if !args.ports.is_empty() {
        issuer.redirect.ports.clone_from(&args.ports);
    }
    if args.new_registration && issuer.registration.is_none() {
        return Err(
            format!("{name} has no registration for each person: leave --new-registration out").into()
        );
    }
    let mut sign_in = sign_in.with_issuer(issuer);
    if args.new_registration {
        sign_in = sign_in.with_new_registration();
    }
    Ok(match args.timeout {
        Some(patience) => sign_in.with_patience(patience),
        None => sign_in,
    })
}

fn place(place: StoreChoice) -> Result<StorePlace, CommandError> {
    match place {
        StoreChoice::File => Ok(StorePlace::File),
        StoreChoice::Keyring if cfg!(feature = "keyring") => Ok(StorePlace::Keyring),
        StoreChoice::Keyring => {
            Err("this build of nexus lacks the keyring (feature `keyring`)".to_owned().into())
        }
    }
}

/// Names the reason why the sign-in failed, for programs.
fn kind(error: &LoginError) -> &'static str {
    match error {
        LoginError::SignIn(error) => match error {
            SignInError::Declined { .. } => "declined",
            SignInError::TimedOut { .. } => "timed_out",
            SignInError::Unreachable { .. } => "unreachable",
            SignInError::Malformed { .. } => "malformed",
            SignInError::NoPort { .. } => "no_port",
            SignInError::Unsupported { .. } => "unsupported",
            _ => "other",
        },
        LoginError::Store(_) => "store",
        LoginError::Busy { .. } => "busy",
        _ => "other",
    }
}
